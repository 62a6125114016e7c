"""From names to the bytes on the wire: hosts, path segments, queries, and a URL that nobody normalises afterwards.

An event id or a taste cluster may hold a slash, a dot, an ampersand or any script; each must arrive as one segment.
HTTP libraries like to help with that, and a helpful one that resolves ``..`` sends a write to another resource. So the
target is built here, byte by byte, and a library that would change it is refused before anything is sent.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote

import httpx

from worker.model.errors import UsageError

_BASE = re.compile(r"https?://[^/?#@\s]+(?:/[^?#\s]*)?")
URLS_KEPT = 4096
_DOTS = {".": "%2E", "..": "%2E%2E"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosts:
    """Where the three hosts of the document are (API section 1), without a slash at the end."""

    api: str
    cr: str | None = None
    media: str | None = None

    def base(self, host: str) -> str:
        """The base URL of a host. Raises `UsageError` where the config does not give it."""
        found = {"api": self.api, "cr": self.cr, "media": self.media}.get(host)
        if found is None:
            raise UsageError(
                f"the {host} host is needed, and its address is not known",
                hint=f"write api.{host}_url in the config; the operator of the service knows the address",
            )
        return found


def hosts_from(base_url: str, cr_url: str | None = None, media_url: str | None = None) -> Hosts:
    """The hosts of a config. Raises `UsageError` for an address that cannot be one."""
    api = _base("api.base_url", base_url)
    media = _base("api.media_url", media_url) if media_url is not None else re.sub(r"/v\d+$", "/media", api)
    return Hosts(api=api, cr=_base("api.cr_url", cr_url) if cr_url is not None else None, media=media)


def segment(text: str) -> str:
    """One path segment, whatever is in it. ``.`` and ``..`` are spelled out, or they would mean a place."""
    return _DOTS.get(text) or quote(text, safe="", errors="replace")


def path_of(template: str, **names: str) -> str:
    """A path of the document with its names filled in."""
    for name, text in names.items():
        template = template.replace("{" + name + "}", segment(text))
    return template


def query_text(query: Iterable[tuple[str, str]]) -> str:
    """A query in the repeat style: the same key again for each value of an array (API section 4)."""
    return "&".join(
        f"{quote(name, safe='', errors='replace')}={quote(value, safe='', errors='replace')}" for name, value in query
    )


def target_of(path: str, query: Iterable[tuple[str, str]] = ()) -> str:
    """Path and query as they go over the wire, and as the log shows them."""
    text = query_text(query)
    return f"{path}?{text}" if text else path


@lru_cache(maxsize=URLS_KEPT)
def exact_url(base: str, target: str) -> httpx.URL:
    """A URL whose target is sent as it stands. Raises `UsageError` where the library would send another one.

    Reads ask for the same again and again, and taking an address apart and together takes longer than most answers."""
    root = httpx.URL(base)
    raw = root.raw_path.rstrip(b"/") + target.encode("ascii")
    url = root.copy_with(raw_path=raw)
    if url.raw_path != raw:
        raise UsageError(
            f"{target} would not be sent as it is written",
            hint="this is a fault of the program: please report it with the line above",
        )
    return url


def filled(template: Mapping[str, str], values: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """A query template with its placeholders filled in."""
    return tuple((name, filled_text(text, values)) for name, text in template.items())


def filled_text(text: str, values: Mapping[str, str]) -> str:
    """One text with its placeholders filled in, in one pass: a value that holds braces is not filled in again."""
    return re.sub(r"\{([a-z_]+)\}", lambda found: values.get(found[1], found[0]), text)


def _base(key: str, text: str) -> str:
    if not _BASE.fullmatch(text):
        raise UsageError(
            f"{key}: {_without_password(text)!r} is not an address",
            hint="an address is https://HOST/PATH, with no user name, no password and no query in it",
        )
    try:
        httpx.URL(text)
    except httpx.InvalidURL as error:
        raise UsageError(f"{key}: {error}", hint="an address is https://HOST/PATH") from None
    return text.rstrip("/")


def _without_password(text: str) -> str:
    return re.sub(r"//[^/@]*@", "//…@", text)
