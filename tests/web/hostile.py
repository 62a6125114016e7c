"""Requests as nobody's browser would make them: drawn paths, heads and forms, put on a socket byte for byte.

A library would refuse to send most of them, so they are spelled here. Each is built from what the page takes (its
paths, the fields of its forms, the heads that it reads), mixed with what it does not, so that the draw comes past the
first check and into what lies behind it.
"""

import base64
import socket
from collections.abc import Iterable
from dataclasses import dataclass, replace
from http.client import HTTPException, HTTPResponse
from urllib.parse import quote_from_bytes

from hypothesis import strategies as st

from tests.web.scene import HOSTILE_ID
from worker.model.commits import KINDS, REASONS
from worker.web.app import NEEDED, json_path
from worker.web.pages import PAGES
from worker.writes.life import MOVES

ANSWER_WITHIN_S = 10.0
HANG_UP_S = 0.02
"""How long the answer to a request is waited for that says it will be longer than it is."""
Head = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request as bytes. ``whole``: all that its head announces is there, so an answer must come."""

    method: bytes = b"GET"
    target: bytes = b"/"
    heads: tuple[Head, ...] = ()
    body: bytes = b""
    whole: bool = True

    def spelled(self, host: str) -> bytes:
        """The bytes, with the heads that nobody drew."""
        drawn = {name.lower() for name, _ in self.heads}
        usual = [(b"Host", host.encode()), (b"Content-Length", b"%d" % len(self.body))]
        heads = [*self.heads, *(one for one in usual if one[0].lower() not in drawn), (b"Connection", b"close")]
        lines = [b"%s %s HTTP/1.1" % (self.method, self.target), *(b"%s: %s" % one for one in heads)]
        return b"\r\n".join(lines) + b"\r\n\r\n" + self.body


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What came back: a status, or None where the connection ended without one."""

    status: int | None
    body: bytes = b""


def asked(port: int, request: Request) -> Answered:
    """One request on a connection of its own, and its answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=ANSWER_WITHIN_S) as line:
        try:
            line.sendall(request.spelled(f"127.0.0.1:{port}"))
            line.settimeout(ANSWER_WITHIN_S if request.whole else HANG_UP_S)
            answer = HTTPResponse(line, method=request.method.decode("latin-1"))
            answer.begin()
            return Answered(status=answer.status, body=answer.read(1 << 22))
        except (HTTPException, ConnectionError):
            return Answered(status=None)
        except TimeoutError:
            assert not request.whole, f"no answer to {request}"
            return Answered(status=None)


def basic(name: str, password: str) -> Head:
    return b"Authorization", b"Basic " + base64.b64encode(f"{name}:{password}".encode())


WORDS = (
    *(b"", b"0", b"1", b"2", b"7", b"-1", b"999999999999999999", b"9" * 30, "٣".encode(), "²".encode(), b"1e5", b"nan"),
    *(b"2h", b"9999999999d", b"-1s", b"0001-01-01", b"9999-12-31T23:59:59-23:59", b"2026-02-30", b"2026-01-01T25:00"),
    *(b"pause-cancelled", b"hide-archived", b"nope", b"partner-id-hall", b"summer-night", HOSTILE_ID.encode()),
    *(b"\x00", b"\xff\xfe", "\u202e\u2066".encode(), b"\r\nSet-Cookie: x=1", b"{{7*7}}", b"%", b"_", b"*", b"'", b'"'),
    *(b"//evil.test", b"/\\evil.test", b"javascript:alert(1)", b"../../etc/passwd", b"A" * 3_000),
    *(one.encode() for one in (*KINDS, *MOVES, *list(REASONS)[:8])),
)
PATHS = (
    *(path.encode() for path in PAGES),
    *(json_path(path).encode() for path in PAGES),
    *b"/log.jsonl /log.csv /act /metrics /healthz /readyz /static/page.css /static/ * /static/../door.py".split(),
    *b"/static/..%2f..%2fdoor.py /static/%2e%2e/app.py /static/%00 /static//page.css".split(),
    *b"// /% /%zz /%ff /nothing http://evil.test/ /write/ /Log /log;x=1 /act/".split(),
)
QUERY_KEYS = (
    *b"partner event rule write kind reason since until before state id".split(),
    *b"text status client_campaign_status after after_partner x id[]".split(),
    *(b"", b"event\x00"),
)
FORM_KEYS = (*b"what id rule partner shown lasting because token back x".split(), b"")

text = st.one_of(
    st.sampled_from(WORDS), st.binary(max_size=40), st.text(max_size=40).map(lambda one: one.encode("utf-8", "replace"))
)


def encoded(pairs: Iterable[tuple[bytes, bytes]]) -> bytes:
    """A query or a form, spelled as browsers do."""
    return b"&".join(
        quote_from_bytes(name).encode() + b"=" + quote_from_bytes(value, safe="").encode() for name, value in pairs
    )


def on_a_line(value: bytes) -> bytes:
    """What can stand in a head without ending it."""
    return value.replace(b"\r", b"").replace(b"\n", b"").replace(b"\x00", b"").strip()


queries = st.one_of(
    st.lists(st.tuples(st.sampled_from(QUERY_KEYS), text), max_size=5).map(encoded),
    st.binary(max_size=60).map(lambda one: bytes(byte for byte in one if 0x21 <= byte <= 0x7E)),
)
targets = st.one_of(
    st.builds(lambda path, query: path + (b"?" + query if query else b""), st.sampled_from(PATHS), queries),
    st.binary(max_size=60).map(lambda one: b"/" + bytes(byte for byte in one if 0x21 <= byte <= 0x7E)),
    st.binary(max_size=40).map(lambda one: b"/" + quote_from_bytes(one).encode()),
    st.just(b"/log?event=" + b"A" * 20_000),
    st.just(b"/" + b"%2f" * 12_000),
)


def mostly(*usual: bytes) -> st.SearchStrategy[bytes]:
    """One of these, and now and then anything."""
    return st.integers(0, 5).flatmap(lambda number: text if number == 5 else st.sampled_from(usual))


decisions = st.sampled_from([one.encode() for one in NEEDED])
USUAL = {b"rule": b"", b"partner": b"", b"lasting": b"2h", b"back": b"/write?id=2"}
nearly = st.fixed_dictionaries(
    {b"what": decisions, b"because": mostly(b"seen")},
    optional={b"id": mostly(*b"1 2 3 4 5 6".split()), **{name: mostly(value) for name, value in USUAL.items()}},
).map(lambda form: encoded(form.items()))
"""Forms as the page's own, in some field or other with a word that does not belong there."""
forms = st.one_of(
    *[nearly] * 4,
    st.lists(
        st.one_of(st.tuples(st.just(b"what"), decisions), st.tuples(st.sampled_from(FORM_KEYS), text)), max_size=8
    ).map(encoded),
    st.binary(max_size=200),
    st.sampled_from([b"id=1&" * 3_000, b"what=approve&id=" + b"9" * 5_000, b"a" * 70_000, b"&" * 5_000, b"=%&%=%"]),
)
VALUES: dict[bytes, tuple[bytes, ...]] = {
    b"Host": (b"", b"[", b"[::1", b"evil.test", b"localhost:99999", b"127.0.0.1\xff", b"127.0.0.1:x", b"a@127.0.0.1"),
    b"Authorization": (
        b"",
        b"Basic",
        b"Basic !!!",
        b"Basic \xff\xfe",
        b"Bearer",
        b"Bearer " + b"x" * 9_000,
        b"Digest a",
    ),
    b"Cookie": (
        *(b"campaign_worker_form", b"campaign_worker_form=", b"campaign_worker_form=a;campaign_worker_form=b"),
        *(b"campaign_worker_said=%ff%00%e2%80%ae<b>", b"campaign_worker_said=" + b"%20" * 900),
        *(b'a="\\', b";;=;", b"\xff=\xfe"),
    ),
    b"Origin": (b"null", b"https://evil.test", b"http://[", b"http://127.0.0.1:1]"),
    b"Sec-Fetch-Site": (b"cross-site", b"same-origin", b"none", b"\xff"),
    b"Content-Type": (b"application/json", b"multipart/form-data", b"application/x-www-form-urlencoded; charset=utf-7"),
    b"X-Forwarded-For": (b"203.0.113.7", b"\xff"),
    b"X-Forwarded-Proto": (b"https", b"\xff"),
    b"Accept-Encoding": (b"gzip", b"*;q=0"),
    b"Range": (b"bytes=0-", b"bytes=5-1", b"bytes=" + b"0-1," * 500, b"bytes=\xff"),
    b"If-Range": (b"x", b"\xff"),
    b"If-Modified-Since": (b"Thu, 01 Jan 1970 00:00:00 GMT", b"never", b"Thu, 99 Foo 99999 00:00:00 GMT", b"\xff"),
    b"If-None-Match": (b"*", b'"x"', b"\xff"),
    b"Upgrade": (b"websocket", b"h2c"),
    b"Expect": (b"100-continue", b"the impossible"),
}
NAMES = st.sampled_from(sorted(VALUES))
heads = st.one_of(
    NAMES.flatmap(lambda name: st.tuples(st.just(name), st.sampled_from(VALUES[name]))),
    st.tuples(NAMES, st.binary(max_size=40).map(on_a_line)),
    st.tuples(st.sampled_from([b"X-Odd"] * 9 + [b"X-\xff", b"X Y", b""]), st.binary(max_size=40).map(on_a_line)),
)
WHOLE = ((b"Content-Length", b"-1"), (b"Content-Length", b"1e3"), (b"Transfer-Encoding", b"gzip"))
NOT_WHOLE = ((b"Content-Length", b"9" * 20), (b"Content-Length", b"70000"), (b"Transfer-Encoding", b"chunked"))


@st.composite
def requests(draw: st.DrawFn) -> Request:
    """Any request: mostly one that the page could answer, in one place or more other than it should be."""
    deciding = draw(st.booleans())
    reading = [b"GET"] * 16 + [b"HEAD", b"HEAD", b"OPTIONS", b"BREW"]
    method = draw(st.sampled_from([b"POST"] * 18 + [b"GET", b"PUT"] if deciding else reading))
    made = Request(
        method=method,
        target=b"/act" if deciding and draw(st.integers(0, 9)) else draw(targets),
        heads=tuple(draw(st.lists(heads, max_size=2))),
        body=draw(forms) if method in (b"POST", b"PUT") else b"",
    )
    if draw(st.integers(0, 19)):
        return made
    length = draw(st.sampled_from(WHOLE + NOT_WHOLE))
    return replace(made, heads=(*made.heads, length), whole=length in WHOLE)


def signed(request: Request, *more: Head) -> Request:
    """The request with heads in the place of those of the same name."""
    names = {name.lower() for name, _ in more}
    return replace(request, heads=(*(one for one in request.heads if one[0].lower() not in names), *more))
