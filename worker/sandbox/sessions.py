"""Signing in: who may act for whom, and until when (API section 5).

Tokens look like JWTs and their claims can be decoded, but nothing signs them: the twin knows its own tokens by heart
and believes no others. They are numbered and not random, so that a run can be repeated to the byte.

Never keeps a real credential: the users are settings with made-up passwords.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass

from worker.sandbox.delivery import Json, Record
from worker.sandbox.settings import Settings, User, filled


class Refusal(Exception):
    """The service says no. Its name for it goes into the error body."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    user: User
    expires_at_s: float


class Sessions:
    """The tokens that were given out."""

    def __init__(self) -> None:
        self._number = 0
        self._access: dict[str, Session] = {}
        self._refresh: dict[str, User] = {}

    def sign_in(self, body: Json, settings: Settings, partners: tuple[str, ...], now_s: float) -> Record:
        """Username and password for a token object."""
        if not isinstance(body, Mapping) or not {"username", "password"} <= body.keys():
            raise Refusal(settings.invalid_status, "error.validation", "username and password are required")
        for user in settings.users:
            if (user.username, user.password) == (body["username"], body["password"]):
                refresh = self._token({"sub": user.username, "use": "refresh"})
                self._refresh[refresh] = user
                return self._tokens(user, refresh, settings, partners, now_s)
        raise Refusal(settings.sign_in_denied_status, "error.auth.invalid_credentials", "wrong username or password")

    def refresh(self, body: Json, settings: Settings, partners: tuple[str, ...], now_s: float) -> Record:
        """A refresh token, which does not rotate, for a new access token."""
        given = filled(settings.refresh_body, body) if isinstance(body, Mapping) else None
        token = (given or {}).get("refresh_token", "")
        user = self._refresh.get(token)
        if user is None:
            raise Refusal(settings.sign_in_denied_status, "error.auth.invalid_refresh", "sign in again")
        return self._tokens(user, token, settings, partners, now_s)

    def user_of(self, authorization: str | None, now_s: float) -> User | None:
        """Who carries this header; None when it is missing, made up or expired."""
        scheme, _, token = (authorization or "").partition(" ")
        session = self._access.get(token) if scheme == "Bearer" else None
        return session.user if session is not None and now_s < session.expires_at_s else None

    def revoke_access(self) -> None:
        """Every access token expires at once; refresh tokens stay."""
        self._access.clear()

    def revoke_all(self) -> None:
        """A password reset: refresh tokens are worth nothing either."""
        self._access.clear()
        self._refresh.clear()

    def _tokens(
        self, user: User, refresh: str, settings: Settings, partners: tuple[str, ...], now_s: float
    ) -> dict[str, Json]:
        access = self._token({"sub": user.username, "use": "access"})
        self._access[access] = Session(user=user, expires_at_s=now_s + settings.token_lifetime_s)
        own = partners if user.partners is None else user.partners
        groups = [*user.groups[:1], *own, *user.groups[1:]]
        return {
            "AccessToken": access,
            "IdToken": self._token({"sub": user.username, "use": "id", "idp:groups": groups}),
            "RefreshToken": refresh,
            "ExpiresIn": int(settings.token_lifetime_s),
            "TokenType": "Bearer",
        }

    def _token(self, claims: Record) -> str:
        self._number += 1
        head = _encoded({"alg": "none", "typ": "JWT"})
        return f"{head}.{_encoded({**claims, 'jti': self._number})}."


def _encoded(part: Record) -> str:
    return base64.urlsafe_b64encode(json.dumps(part, separators=(",", ":")).encode()).rstrip(b"=").decode()
