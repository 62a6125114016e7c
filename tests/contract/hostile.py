"""A service that means harm, and the client that has to live with it, each in a process of its own.

The service answers on a socket byte for byte as it was drawn: nested without end, numbers of a megabyte, a flood of
items, gzip that unpacks to gigabytes, heads that no library would send, bodies cut, dripped or in a million pieces. The
client is the worker's own; its process measures how much memory it ever had, and for how long its loop stood still.

``python -m tests.contract.hostile PORT SEED COUNT`` is the client; it prints what it measured as JSON.
"""

import asyncio
import gzip
import json
import re
import socket
import sys
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from itertools import chain, repeat
from pathlib import Path
from random import Random
from urllib.parse import parse_qs, unquote

from tests.contract.malformed import key_of
from tests.virtual import last
from worker.api.client import ApiService, ApiSettings
from worker.api.exchanges import ReadResponse
from worker.api.facts import FACT_SOURCES
from worker.api.requests import Account, Hosts
from worker.api.transport import PAGE_BYTES_MAX, VALUES_MAX, Transports
from worker.model.errors import NotSafe, Unreachable
from worker.model.exchange import Clock, SecretValue, Urgency, WriteRequest
from worker.model.facts import EventId, Json, PartnerId
from worker.reading.gate import Gate, Pacer
from worker.system import SystemClock

HALL = PartnerId("partner-id-hall")
TIMEOUT_S = 0.25
MB = 1 << 20
TICK_S = 0.005
HOLD_S = 0.2
TRIES = 3
"""A machine that is busy holds everything up: only what holds the loop each time is the client's own doing."""
SHOWN = 10
TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJpZHA6Z3JvdXBzIjpbInBhcnRuZXItaWQtaGFsbCJdfQ.c2ln"
SIGNED_IN = json.dumps({"AccessToken": TOKEN, "IdToken": TOKEN, "RefreshToken": TOKEN, "ExpiresIn": 3600}).encode()
Sent = Iterator[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hostile:
    """One answer: its kind, and the bytes as they go out."""

    kind: str
    pieces: Callable[[], Sent]


# what is said


def repeated(part: bytes, size: int) -> bytes:
    return part * max(1, size // len(part))


BODIES: dict[str, Callable[[int, int], bytes]] = {
    "brackets without end": lambda size, _: b"[" * size,
    "deep lists": lambda _, many: b"[" * many + b"]" * many,
    "deep records": lambda _, many: b'{"items":' * many + b"1" + b"}" * many,
    "a long whole number": lambda size, _: b'{"expected_value":' + b"9" * size + b"}",
    "a long fraction": lambda size, _: b'{"total":0.' + b"3" * size + b"}",
    "a long exponent": lambda size, _: b'{"total":1e' + b"9" * size + b"}",
    "long numbers": lambda size, many: b"[" + b",".join([b"7" * min(299, size // many + 1)] * many) + b"]",
    "fractions": lambda size, many: b"[" + b",".join([b"0." + b"3" * min(700, size // many + 1)] * many) + b"]",
    "a long text": lambda size, _: b'{"id":"e1","title":"' + b"x" * size + b'"}',
    "a long text as money": lambda size, _: b'{"expected_value":"' + b"1" * size + b'"}',
    "escapes": lambda size, _: b'{"id":"e1","title":"' + repeated(b"\\u0041", size) + b'"}',
    "half characters": lambda size, _: b'{"id":"e1","title":"' + repeated(b"\\ud800", size) + b'"}',
    "wide characters": lambda size, _: b'{"id":"e1","title":"' + repeated("\U0001f3b6".encode(), size) + b'"}',
    "a long name": lambda size, _: b'{"id":"e1","' + b"n" * size + b'":1}',
    "no utf-8": lambda size, _: b'{"id":"e1","title":"' + repeated(b"\xff\xfe", size) + b'"}',
    "blanks": lambda size, _: b" " * size + b"{}",
    "many empty records": lambda _, many: b"[" + b",".join([b"{}"] * many) + b"]",
    "many nothings": lambda _, many: b"[" + b",".join([b"0"] * many) + b"]",
    "many names": lambda _, many: b"{" + b",".join(b'"n%d":0' % number for number in range(many)) + b"}",
    "the same name": lambda _, many: b"{" + b",".join([b'"id":"e1"'] * many) + b"}",
    "items that are none": lambda _, many: b'{"total":1,"items":[' + b",".join([b"{}"] * many) + b"]}",
    "many items": lambda _, many: (
        b'{"total":%d,"limit":%d,"page":1,"items":[' % (many, many)
        + b",".join(b'{"id":"e%d"}' % number for number in range(many))
        + b"]}"
    ),
    "many pages": lambda size, _: (
        b'{"total":1000000000,"limit":1,"page":PAGE,"items":[{"id":"ePAGE","title":"' + b"x" * size + b'"}]}'
    ),
    "many clusters": lambda _, many: (
        b'{"tc_run_id":1,"clusters":[' + b",".join(b'{"tc":"c%d"}' % number for number in range(many)) + b"]}"
    ),
    "a page of campaigns": lambda *_: (
        b"[" + b",".join(b'{"tc":"cPAGE-%d","tc_run_id":%d}' % (number, number) for number in range(1_900)) + b"]"
    ),
    "many suggestions": lambda _, many: (
        b"["
        + b",".join(b'{"tc":"c%d","tc_run_id":%d,"page":PAGE}' % (number, number) for number in range(many // 3))
        + b"]"
    ),
    "tokens": lambda size, _: repeated(b"bearer eyJaaaaaaaa. basic \t", size),
    "words with dots": lambda size, _: repeated(b"a.b", size),
    "a page of words": lambda size, _: b"<html>" + repeated(b"error.auth.not_authorized ", size),
    "nothing": lambda *_: b"",
}


HEADS: dict[str, Callable[[], list[bytes]]] = {
    "usual": list,
    "of many pages": lambda: [b"X-Total-Count: 1000000"],
    "links": lambda: [b"Link: " + b"rel=" * 20_000],
    "links with quotes": lambda: [b"Link: " + b'rel="a ' * 12_000],
    "links with blanks": lambda: [b"Link: rel" + b" " * 80_000 + b"x"],
    "a wide head": lambda: [b"X-Request-Id: " + b"x" * 95_000],
    "tokens in the head": lambda: [b"X-Request-Id: " + b"bearer " * 13_000],
    "a long head": lambda: [b"X-%d: y" % number for number in range(9_000)],
    "totals": lambda: [b"X-Total-%s: 7" % (b"count" * number) for number in range(150)],
    "too long": lambda: [b"X-%d: y" % number for number in range(60_000)],
    "ages": lambda: [b"Age: " + b"9" * 90_000],
    "old": lambda: [b"Age: 9999999999"],
    "waits": lambda: [b"Retry-After: " + b"9" * 90_000],
    "a date to wait for": lambda: [b"Retry-After: Fri, 31 Dec 9999 23:59:59 " + b"-0000 " * 9_000],
    "a date of brackets": lambda: [b"Retry-After: " + b"(" * 90_000],
    "a range": lambda: [b"Content-Range: items 0-1/" + b"9" * 90_000],
    "odd bytes": lambda: [b"X-Cache: \xff\xfe", b"Via: \xe2\x80\xae"],
    "folded": lambda: [b"Via: a", *[b" b"] * 9_000],
    "two lengths": lambda: [b"Content-Length: 1", b"Content-Length: 2"],
    "no name": lambda: [b": x"],
}


@cache
def bomb() -> bytes:
    """A megabyte that unpacks to one of a thousand."""
    pack = zlib.compressobj(9, wbits=31)
    return b"".join([*(pack.compress(bytes(MB)) for _ in range(1_000)), pack.flush()])


GZIP = b"Content-Encoding: gzip"
PACKINGS: dict[str, Callable[[bytes], tuple[list[bytes], bytes]]] = {
    "plain": lambda body: ([], body),
    "gzip": lambda body: ([GZIP], gzip.compress(body, 1)),
    "a bomb": lambda _: ([GZIP], bomb()),
    "three times": lambda _: ([GZIP] * 3, gzip.compress(gzip.compress(bomb(), 1), 1)),
    "several": lambda body: ([GZIP], gzip.compress(body[:MB], 1) * 20),
    "no end": lambda body: ([GZIP], gzip.compress(body, 1)[:-9]),
    "no gzip": lambda body: ([GZIP], body),
    "deflate": lambda body: ([b"Content-Encoding: deflate"], zlib.compress(body, 1)),
    "a list of them": lambda body: ([b"Content-Encoding: br, gzip, " + b"gzip," * 5_000], body),
}
"""How a body is packed: what its head says of that, and what goes out."""


def whole(head: list[bytes], body: bytes) -> Sent:
    yield spelled([*head, b"Content-Length: %d" % len(body)]) + body


def in_chunks(head: list[bytes], body: bytes) -> Sent:
    yield spelled([*head, b"Transfer-Encoding: chunked"])
    for at in range(0, len(body), 64 * 1024):
        part = body[at : at + 64 * 1024]
        yield b"%x\r\n" % len(part) + part + b"\r\n"
    yield b"0\r\n\r\n"


def dripping(head: list[bytes], body: bytes) -> Sent:
    yield spelled([*head, b"Content-Length: %d" % len(body)])
    for at in range(len(body)):
        yield body[at : at + 1]
        time.sleep(TIMEOUT_S / 4)


def silent(_head: list[bytes], _body: bytes) -> Sent:
    yield b"HTTP/1.1 200 OK\r\n"
    time.sleep(TIMEOUT_S * 4)


MANNERS: dict[str, Callable[[list[bytes], bytes], Sent]] = {
    "whole": whole,
    "chunks": in_chunks,
    "dripping": dripping,
    "silent": silent,
    "cut": lambda head, body: iter([b"".join(whole(head, body))[: -len(body) // 2]]),
    "no length": lambda head, body: iter([spelled(head) + body]),
    "tiny chunks": lambda head, _: chain(
        [spelled([*head, b"Transfer-Encoding: chunked"])], repeat(b"1\r\n \r\n" * 10_000)
    ),
    "interim": lambda *_: repeat(b"HTTP/1.1 100 Continue\r\n\r\n" * 2_000),
    "too much": lambda head, body: chain(whole(head, body), repeat(b"x" * MB)),
}
"""How it goes over the wire."""


def spelled(head: list[bytes]) -> bytes:
    return b"\r\n".join([b"HTTP/1.1 STATUS X", b"Content-Type: application/json", *head]) + b"\r\n\r\n"


QUESTIONS = ("list", "needed", "fact", "campaigns", "task", "write", "sign in")
PLAIN = b'{"id":"e1","status":"active"}'
LARGE, MANY = PAGE_BYTES_MAX - 4096, VALUES_MAX // 2 - 100
"""Just what is still read: refusing more than that costs less."""
LISTED: tuple[tuple[str, str], ...] = (
    *(("body", kind) for kind in BODIES),
    *(("refusal", kind) for kind in BODIES),
    *(("head", kind) for kind in HEADS),
    *(("packing", kind) for kind in PACKINGS),
    *(("manner", kind) for kind in MANNERS),
    *[("pages", "a page of campaigns")] * 7,
)
"""Each harm by itself, as large as it may be."""


def drawn(seed: int, number: int) -> Hostile:
    """The answer of one case: first each harm by itself, asked for in each way, then some at once as the seed says."""
    rng = Random(f"{seed} {number}")
    if number < len(LISTED) * len(QUESTIONS):
        way, kind = LISTED[number % len(LISTED)]
        body = BODIES[kind](LARGE, MANY) if kind in BODIES else PLAIN
        status = 403 if way == "refusal" else 200
        spoilt = {
            "head": "of many pages" if way == "pages" else "usual",
            "packing": "plain",
            "manner": "whole",
            way: kind,
        }
    else:
        kind = rng.choice(sorted(BODIES))
        size = rng.choice((1_000, 64 * 1024, LARGE // 4, LARGE, PAGE_BYTES_MAX + 1, 6 * PAGE_BYTES_MAX))
        many = rng.choice((1_000, MANY // 2, MANY, VALUES_MAX - 100, VALUES_MAX + 100, 20 * VALUES_MAX))
        body, status = BODIES[kind](size, many), rng.choice((200,) * 12 + (204, 400, 401, 403, 404, 429, 500, 302))
        spoilt = {
            "head": rng.choice(["usual"] * 20 + sorted(HEADS)),
            "packing": rng.choice(["plain"] * 20 + sorted(PACKINGS)),
            "manner": rng.choice(["whole"] * 20 + sorted(MANNERS)),
            f"body of {size} bytes or {many} parts": kind,
        }
    more, content = PACKINGS[spoilt["packing"]](body)
    lines = [*HEADS[spoilt["head"]](), *more]
    return said(f"{spoilt}, {status}", status, lambda: MANNERS[spoilt["manner"]](lines, content))


def question_of(number: int) -> str:
    """What is asked for in a case."""
    return QUESTIONS[(number + number // len(LISTED)) % len(QUESTIONS)]


def said(kind: str, status: int, pieces: Callable[[], Sent]) -> Hostile:
    return Hostile(kind=kind, pieces=lambda: (one.replace(b"STATUS", b"%d" % status, 1) for one in pieces()))


# the service


@contextmanager
def serving(seed: int) -> Iterator[int]:
    """A service that signs everybody in, and answers all else as the case is drawn; its port."""
    case = 0

    def answer(path: str) -> Sent:
        nonlocal case
        if path.startswith("/begin/"):
            case = int(path.removeprefix("/begin/"))
            return iter(())
        if path == "/api/v3/auth":
            return iter([spelled([b"Content-Length: %d" % len(SIGNED_IN)]).replace(b"STATUS", b"200") + SIGNED_IN])
        page = (parse_qs(path.partition("?")[2]).get("page") or ["1"])[0].encode()
        return (piece.replace(b"PAGE", page) for piece in drawn(seed, case).pieces())

    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
        ended = threading.Event()

        def serve(line: socket.socket) -> None:
            with line, suppress(OSError):
                line.settimeout(30.0)
                asked = b""
                while b"\r\n\r\n" not in asked:
                    if not (part := line.recv(65536)):
                        return
                    asked += part
                path = unquote(asked.split(b" ", 2)[1].decode("latin-1"))
                for piece in answer(path):
                    line.sendall(piece)

        def accept() -> None:
            while not ended.is_set():
                with suppress(OSError):
                    line, _ = listening.accept()
                    threading.Thread(target=serve, args=(line,), daemon=True).start()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            ended.set()
            with suppress(OSError):
                socket.create_connection(listening.getsockname(), timeout=1.0).close()
            thread.join(5.0)


# the client


class Hasty(SystemClock):
    """Time that is asked to pass has passed: floors and back-offs hold up no case."""

    def __init__(self) -> None:
        self._ahead = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self._ahead

    async def sleep(self, seconds: float) -> None:
        self.pass_by(max(0.0, seconds))
        await asyncio.sleep(0)

    def pass_by(self, seconds: float) -> None:
        self._ahead += seconds


@dataclass(slots=True)
class Watch:
    """For how long the loop has stood still, at most, since it was asked last: in time of the processor that its thread
    spent between two ticks, so that a busy machine counts for nothing."""

    longest: float = 0.0

    async def tick(self) -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(TICK_S)
            self.longest = max(self.longest, time.thread_time() - before)

    def taken(self) -> float:
        longest, self.longest = self.longest, 0.0
        return longest


def client(port: int, clock: Clock, base: str = "/api/v3") -> ApiService:
    """The worker's client, on a service at that port."""
    pacer = Pacer(per_minute=60_000.0, clock=clock, chance=lambda: 0.5)
    gate: Gate[ReadResponse] = Gate(pacer=pacer, clock=clock, floor_s=3.0, quiet_s=0.0)
    return ApiService(
        settings=ApiSettings(
            hosts=Hosts(api=f"http://127.0.0.1:{port}{base}"),
            timeout=timedelta(seconds=TIMEOUT_S),
            partners=(HALL,),
            transports=Transports(fence=nullcontext),
        ),
        account=Account(username=SecretValue("me"), password=SecretValue("s3cret password of some length")),
        gate=gate,
        pacing=pacer,
        clock=clock,
        chance=lambda: 0.5,
    )


async def begin(port: int, number: int) -> None:
    """Tells the service which case comes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /begin/%d HTTP/1.1\r\n\r\n" % number)
    await reader.read()
    writer.close()
    await writer.wait_closed()


async def one(question: str, api: ApiService, port: int, number: int) -> str:
    """One question; what came of it."""
    event = EventId("e1")
    match question:
        case "list":
            return type(await last(api.listing(HALL))).__name__
        case "needed":
            return type(await last(api.listing(HALL, frozenset({"status", "title", "start_date_time"})))).__name__
        case "task":
            return (await api.task_state(HALL, event)).verdict
        case "write":
            request = WriteRequest(host="api", method="PUT", path="/events/e1/x", query=(), body={"x": 1})
            return type(await api.send(HALL, request, not_after=float("inf"))).__name__
        case "sign in":
            with suppress(NotSafe, Unreachable):
                await client(port, Hasty(), "/hostile/v3").partners()
            return "sign in"
        case "campaigns":
            return type(await api.read(HALL, event, key_of("campaigns"), urgency=Urgency.FACT)).__name__
        case _:
            key = key_of(sorted(FACT_SOURCES)[number % len(FACT_SOURCES)])
            return type(await api.read(HALL, event, key, urgency=Urgency.FACT)).__name__


async def played(port: int, seed: int, count: int) -> Json:
    """All cases, one after the other, and what they cost."""
    clock, watch = Hasty(), Watch()
    api = client(port, clock)
    ticking = asyncio.ensure_future(watch.tick())
    seen: Counter[str] = Counter()
    holds: list[tuple[float, int]] = []
    for number in range(count):
        await begin(port, number)
        held_s = float("inf")
        for _ in range(TRIES):
            watch.taken()
            clock.pass_by(1_000.0)  # whoever was refused is asked again
            seen[await one(question_of(number), api, port, number)] += 1
            await asyncio.sleep(2 * TICK_S)
            held_s = min(held_s, watch.taken())
            if held_s < HOLD_S:
                break
        holds.append((round(held_s, 3), number))
    ticking.cancel()
    longest = sorted(holds, reverse=True)[:SHOWN]
    return {
        "peak_mb": peak_mb(),
        "held_s": longest[0][0],
        "longest": [f"{s} s, {question_of(n)}, case {n}: {drawn(seed, n).kind}" for s, n in longest],
        "seen": dict(seen),
    }


def peak_mb() -> float:
    """The most memory that this process had. Not by `getrusage`, which counts what the process had that started it."""
    found = re.search(r"^VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text("ascii"), re.MULTILINE)
    assert found is not None
    return int(found[1]) / 1024


if __name__ == "__main__":
    port, seed, count = map(int, sys.argv[1:])
    sys.stdout.write(json.dumps(asyncio.run(played(port, seed, count))))
