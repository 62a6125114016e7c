"""The secrets that the client has in hand, and the taking of them out of whatever somebody else says.

A service, or a proxy before it, may answer an error with the very request that it did not like: the password of a
sign-in, the token of a header. What it says goes into the log, so every known spelling of every known secret is taken
out first, before the text is cut: half a token is still half a secret. What looks like a token is taken out as well,
known or not.
"""

import base64
import html
import json
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus

from worker.api.secret import Secret
from worker.api.wire import Malformed, parsed, strings_in
from worker.model.facts import Json

GONE = "…"
KEPT_MAX = 20
"""Secrets remembered; a token is renewed for ever, and an answer speaks of the last ones."""
LONG = 20
"""From this length on a secret is no word, and is known by its beginning: it may have been cut off on its way."""
BEGINNING = 16
REST = r"[^\s\"'<>,;]*"
TOKEN_NAMES = ("AccessToken", "IdToken", "RefreshToken")
_TOKENLIKE = re.compile(r"(?i:\b(?:bearer|basic)\s+[^\s\"'<>,;]+)|\beyJ[\w-]{8,}(?:\.[\w-]+)*")


class InHand:
    """Remembers secrets, and takes them out of texts."""

    def __init__(self) -> None:
        self._kept: dict[str, None] = {}
        self._signs: frozenset[str] = frozenset()
        self._any: re.Pattern[str] | None = None
        self._long: tuple[bytes, ...] = ()

    def keep(self, secret: str | Secret) -> None:
        """From now on this is taken out of everything."""
        text = secret if isinstance(secret, str) else secret.reveal()
        if not text or text in self._kept:
            return
        self._kept[text] = None
        while len(self._kept) > KEPT_MAX:
            del self._kept[next(iter(self._kept))]
        self._signs = frozenset(sign for one in self._kept for sign in _signs(one))
        self._any = None
        self._long = tuple(one.encode("utf-8", "replace") for one in self._kept if len(one) >= LONG)

    def keep_signing_in(self, body: Json) -> None:
        """What a sign-in sends: everything but the name of the user."""
        user = body.get("username") if isinstance(body, dict) else None
        for text in strings_in(body) - {str(user)}:
            self.keep(text)

    def keep_tokens(self, content: bytes) -> None:
        """What a sign-in answers: its tokens, whatever they are called."""
        try:
            answer = parsed(content)
        except Malformed:
            return
        found = {text for text in strings_in(answer) if len(text) >= LONG}
        if isinstance(answer, dict):
            found.update(str(answer[name]) for name in TOKEN_NAMES if name in answer)
        for text in sorted(found):
            self.keep(text)

    def scrubbed(self, text: str) -> str:
        """The text without any secret."""
        if not any(sign in text for sign in self._signs):
            return _TOKENLIKE.sub(GONE, text)
        if self._any is None:  # hardly ever needed, and takes milliseconds to make
            self._any = _any_of(self._kept)
        return self._any.sub(GONE, text)

    def without_tokens(self, content: bytes) -> bytes:
        """An answer that holds facts, without secrets that no fact can be: a short one may be a word of any answer."""
        for secret in self._long:
            if secret in content:
                content = content.replace(secret, GONE.encode())
        return content


def _any_of(secrets: Iterable[str]) -> re.Pattern[str]:
    spelled = {one for secret in secrets for one in _spellings(secret)}
    whole = [re.escape(one) for one in sorted(spelled, key=len, reverse=True)]
    begun = [re.escape(one[:BEGINNING]) + REST for one in sorted(spelled) if len(one) >= LONG]
    return re.compile("|".join((*whole, *begun, _TOKENLIKE.pattern)))


def _signs(secret: str) -> Iterator[str]:
    """One of these stands in every text that has something of the secret to be taken out."""
    for one in _spellings(secret):
        yield one[:BEGINNING] if len(one) >= LONG else one


def _spellings(secret: str) -> Iterator[str]:
    """How a text may come back: as it was, within JSON, an address or a page, as Python shows it, in base64."""
    yield secret
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield quote(secret, safe="")
    yield quote_plus(secret)
    yield html.escape(secret)
    yield repr(secret)[1:-1]
    yield repr(secret.encode("utf-8", "replace"))[2:-1]
    yield base64.b64encode(secret.encode("utf-8", "replace")).decode()
