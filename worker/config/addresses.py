"""The addresses of a config: which are the twin's or this machine's, and what follows from one for another."""

import ipaddress
import re
from urllib.parse import SplitResult, parse_qsl, urlsplit

from worker.ledger.places import on_a_server
from worker.rules.binding import WHAT, Slip
from worker.rules.spelling import meant

SANDBOX = "sandbox"
LEDGER_PREFIX = "sqlite:///"
PORT_MAX = 65_535
_HEADER = re.compile(r"[A-Za-z0-9-]{1,60}")
SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_VERSION = re.compile(r"/v\d+/?$")


def embedded(base_url: str) -> bool:
    """The service is the twin inside this process."""
    return base_url == SANDBOX


def is_local(base_url: str) -> bool:
    """The twin, or an address of this machine."""
    parts = _split(base_url)
    return embedded(base_url) or (parts is not None and _loopback(parts.hostname or ""))


def service_of(base_url: str) -> str:
    """One spelling for all addresses of one service: scheme and host in small letters, no port that goes without
    saying, no slash at the end. The embedded twin is a service of its own."""
    parts = _split(base_url)
    if embedded(base_url) or parts is None or not parts.hostname:
        return base_url
    host = parts.hostname.rstrip(".")
    port = "" if parts.port in (None, {"http": 80, "https": 443}.get(parts.scheme)) else f":{parts.port}"
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{port}{parts.path.rstrip('/')}"


def media_of(base_url: str) -> str | None:
    """The same address with ``/api/media`` for its path (API section 1); None for the twin."""
    parts = _split(base_url)
    if parts is None:
        return None
    path = _VERSION.sub("/media", parts.path) if _VERSION.search(parts.path) else "/api/media"
    return f"{parts.scheme}://{parts.netloc}{path}"


def service_address(text: str) -> str:
    """The same text; raises `Slip` where it is no address of a service. Never repeats the address."""
    parts = _split(text)
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        hint = "write https://HOST/…; only api.base_url can be sandbox, for the embedded simulator"
        raise Slip(f"{WHAT} is not an address", hint)
    if parts.username is not None or parts.password is not None:
        raise Slip(f"{WHAT} must not hold a user name or password", "write them under credentials, as {env: NAME}")
    if "?" in text or "#" in text:  # also with nothing behind it: paths are put there
        raise Slip(f"{WHAT} must not have a query or fragment", "leave out what begins with ? or #")
    if parts.scheme == "http" and not _loopback(parts.hostname):
        raise Slip(f"{WHAT} must begin with https://", "over plain http the password could be read on the way")
    return text


def ledger_address(text: str) -> str:
    """The same text; raises `Slip` where it is no address of a ledger. Never repeats the address."""
    if on_a_server(text):
        parts = _split(text) or urlsplit("")
        asked = dict(parse_qsl(parts.query, keep_blank_values=True))
        if parts.password is not None or any(one.lower().endswith("password") for one in asked):
            raise Slip(f"{WHAT} must not hold a password", "give it in a file that PGPASSFILE names, or in PGPASSWORD")
        wrong = parts.netloc.endswith(":") or asked.get("port", "").strip("0123456789,")
        if wrong or not (parts.hostname or asked.get("host")) or not parts.path.strip("/"):
            raise Slip(f"{WHAT} names no server or no database", "write postgresql://USER@HOST/DATABASE")
        ssl_mode = asked.get("sslmode", "prefer")
        if ssl_mode not in SSL_MODES:
            hint = f"write one of {', '.join(SSL_MODES)}"
            raise Slip(f"{WHAT}: there is no sslmode of this name{meant(ssl_mode, SSL_MODES)}", hint)
        return text
    if not text.startswith(LEDGER_PREFIX) or len(text) == len(LEDGER_PREFIX) or "?" in text or ":memory:" in text:
        hint = "write sqlite:///worker.db for a file beside the config, sqlite:////var/lib/worker.db for one elsewhere"
        raise Slip(f"{WHAT} must be sqlite:///FILE or postgresql://USER@HOST/DATABASE", hint)
    return text


def host_and_port(listen: str) -> tuple[str, int]:
    """The two parts of an address to listen on; an IPv6 host without its brackets."""
    host, _, port = listen.rpartition(":")
    return host.strip("[]"), int(port)


def listen_slip(listen: str, *, locked: bool) -> Slip | None:
    """What is wrong with an address to listen on; None if nothing is."""
    host, port = host_and_port(listen)
    if port > PORT_MAX:
        return Slip(f"{WHAT} has no port {port}", f"ports go up to {PORT_MAX}")
    if not locked and not _loopback(host):
        hint = "give web.users (a password for each person) or web.tokens, or listen on 127.0.0.1"
        return Slip(f"{WHAT} is open to other machines, and nobody would be asked for a password", hint)
    return None


def header_of_name(text: str) -> str:
    """A header in which a proxy says who somebody is."""
    if not _HEADER.fullmatch(text) or text.lower() in ("authorization", "cookie", "host", "origin"):
        raise Slip(f"{WHAT}: {text!r} is no header for a name", "write one that only the proxy sets, as X-Remote-User")
    return text


def network(text: str) -> str:
    """An address or a network of addresses."""
    try:
        ipaddress.ip_network(text)
    except ValueError:
        raise Slip(f"{WHAT}: {text!r} is no address or network", "write 10.0.0.5 or 10.0.0.0/24") from None
    return text


def _split(text: str) -> SplitResult | None:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return None
    return parts if parts.netloc and not any(char.isspace() for char in text) else None


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
