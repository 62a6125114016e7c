"""What a sign-in answers, and what can be read from it: tokens, their lifetime, the partners they are for. Pure.

The IdToken is decoded and not verified: nothing is granted on its word, it only says which partners to ask for, and the
service judges each request anyway. No message here quotes what was decoded, because it came with secrets.
"""

import base64
import binascii
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from worker.api.secret import Secret
from worker.api.wire import Malformed, integer_from, parsed
from worker.model.errors import NotSafe
from worker.model.ids import PartnerId

DOCUMENTED_LIFETIME = timedelta(seconds=3600)
"""``ExpiresIn`` of the document (API section 5), for an answer that leaves it out."""
GROUPS_CLAIM = "idp:groups"
NAME_THEM = "name the partners in the config, as partners: [partner-id-…], or ask the operator of the service"

_HEADER_SAFE = re.compile(r"[\x21-\x7e]+")
_SLUG = r"partner-id-[A-Za-z0-9][A-Za-z0-9._-]*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """The tokens of one sign-in. ``identity`` and ``refresh`` are None where the answer had none."""

    access: Secret
    identity: Secret | None
    refresh: Secret | None
    lifetime: timedelta


def tokens_from(content: bytes) -> Tokens:
    """The tokens of an answer. Raises `Malformed`, which quotes nothing of it."""
    try:
        value = parsed(content)
    except Malformed:
        raise Malformed("the answer to the sign-in is not JSON") from None
    if not isinstance(value, dict):
        raise Malformed("the answer to the sign-in is not an object")
    access = value.get("AccessToken")
    if not isinstance(access, str) or not _HEADER_SAFE.fullmatch(access):
        raise Malformed("the answer to the sign-in has no usable AccessToken")
    seconds = integer_from(value.get("ExpiresIn", int(DOCUMENTED_LIFETIME.total_seconds())))
    if seconds is None or not 0 < seconds < 10**9:
        raise Malformed("the answer to the sign-in has no usable ExpiresIn")
    identity, refresh = value.get("IdToken"), value.get("RefreshToken")
    return Tokens(
        access=Secret(access),
        identity=Secret(identity) if isinstance(identity, str) else None,
        refresh=Secret(refresh) if isinstance(refresh, str) and refresh else None,
        lifetime=timedelta(seconds=seconds),
    )


def groups_in(identity: Secret | None) -> tuple[str, ...]:
    """The group list of an IdToken. Raises `NotSafe` where there is none: without it no partner can be discovered."""
    if identity is None:
        raise NotSafe("the sign-in answered without an IdToken, which names the partners", hint=NAME_THEM)
    claims = _claims(identity.reveal())
    groups = claims.get(GROUPS_CLAIM) if isinstance(claims, dict) else None
    if not isinstance(groups, list) or not all(isinstance(group, str) for group in groups):
        what = "cannot be decoded" if claims is None else f"has no list of texts in its claim {GROUPS_CLAIM}"
        raise NotSafe(f"the IdToken {what}, so the partners are not known", hint=NAME_THEM)
    return tuple(str(group) for group in groups)


def partners_in(groups: Iterable[str], operator_prefix: str | None) -> tuple[PartnerId, ...]:
    """The partners among the groups (API section 5): the two documented forms, in order; all others are ignored."""
    forms = [_SLUG] + ([re.escape(operator_prefix) + "[0-9]+"] if operator_prefix else [])
    pattern = re.compile("|".join(forms), re.ASCII)
    return tuple(PartnerId(group) for group in dict.fromkeys(groups) if pattern.fullmatch(group))


def _claims(token: str) -> object:
    """The payload of a JWT, None where it cannot be decoded. Both base64 alphabets, with or without padding."""
    parts = token.split(".")
    if len(parts) < 2:
        return None
    payload = parts[1].strip().rstrip("=").replace("+", "-").replace("/", "_")
    try:
        content = base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
        return parsed(content)
    except (binascii.Error, ValueError):
        return None
