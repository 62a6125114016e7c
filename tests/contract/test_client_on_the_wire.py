"""What really leaves over a socket: the bytes of a path, one connection per write, and no second try.

A transport that is a function cannot show what the library below it does with a connection, so these few claims are
checked against a server that writes down the bytes it gets.
"""

import asyncio
import gzip
import shutil
import ssl
import subprocess
import sys
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from tests.builders import cases
from tests.unit.reading.virtual import VirtualClock
from worker.api.assumptions import Assumptions
from worker.api.exchanges import Exchanges, ReadResponse
from worker.api.requests import Hosts
from worker.api.transport import PARTNER_HEADER, Transports, Wire, request_of, trust
from worker.cli.wiring import transports_of
from worker.model.exchange import Accepted, NotSent, Outcome, SecretValue, Uncertain, WriteRequest
from worker.model.facts import PartnerId
from worker.system import SystemClock
from worker.web.metrics import Meter

HALL = PartnerId("partner-id-hall")
TOKEN = SecretValue("access-1")
LATE = 1e9
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


class Server:
    """Answers each request with fixed bytes and keeps what it got, one entry per connection."""

    def __init__(self, made: bytes, *, keep: bool = False) -> None:
        self.made = made
        self.keep = keep
        self.connections: list[list[str]] = []
        self.served: list[asyncio.Task[None]] = []

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Begins a connection, and remembers it, so that the test ends only after it."""
        self.served.append(asyncio.ensure_future(self.serve(reader, writer)))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads: list[str] = []
        self.connections.append(heads)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
                writer.write(self.made)
                await writer.drain()
                if not self.keep:
                    break
        await closed(writer)


async def closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


def exchanges(port: int, *, scheme: str = "http", clock: VirtualClock | None = None) -> Exchanges:
    wire = Wire(transports=Transports(fence=nullcontext), timeout_s=5.0)  # the kernel's timer is pytest's own here
    hosts = Hosts(api=f"{scheme}://127.0.0.1:{port}/api/v3")
    return Exchanges(wire=wire, hosts=hosts, clock=clock or VirtualClock(), assumptions=Assumptions())


@asynccontextmanager
async def listening(server: Server, serving: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """The port at which the server listens; at the end all that it began has ended."""
    async with await asyncio.start_server(server.accept, "127.0.0.1", 0, ssl=serving) as socket:
        yield socket.sockets[0].getsockname()[1]
        await asyncio.gather(*server.served)


def put(path: str) -> WriteRequest:
    return WriteRequest(host="api", method="PUT", path=path, query=(("q", "a b&c"),))


async def write_to(server: Server, *paths: str, scheme: str = "http") -> list[Outcome]:
    async with listening(server) as port:
        made = exchanges(port, scheme=scheme)
        return [await made.write(HALL, TOKEN, put(path), LATE) for path in paths]


@pytest.mark.parametrize(
    "path",
    [
        "/events/a%2Fb/x",
        "/events/a%252Fb/x",
        "/events/%2E%2E/x",
        "/events/%2E/x",
        "/events/M%C3%BCnchen/x",
        "/events/a%26b%3Fc%23d%20e/x",
        "/events/%7Beid%7D/x",
        "/events//x",
    ],
)
async def test_a_path_arrives_byte_for_byte(path: str) -> None:
    server = Server(OK)
    (outcome,) = await write_to(server, path)
    assert isinstance(outcome, Accepted)
    line = server.connections[0][0].splitlines()[0]
    assert line == f"PUT /api/v3{path}?q=a%20b%26c HTTP/1.1"


async def test_every_write_has_a_connection_of_its_own_though_the_service_would_keep_it() -> None:
    server = Server(OK, keep=True)
    await write_to(server, "/a", "/b", "/c")
    assert [len(heads) for heads in server.connections] == [1, 1, 1]
    assert all("connection: close" in heads[0].lower() for heads in server.connections)


@cases(
    "made, expected",
    (b"", Uncertain, "closed without a word, perhaps after it was done"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{}", Uncertain, "cut short"),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n", Uncertain, "the last chunk is missing"),
    (b"HTTP/1.1 307 T\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n", Uncertain, "a redirect"),
    (b"HTTP/1.1 408 T\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", Uncertain, "tempting to repeat"),
    (b"HTTP/1.1 429 T\r\nContent-Length: 0\r\n\r\n", Uncertain, "patience"),
    (b"SSH-2.0-OpenSSH\r\n\r\n", Uncertain, "not this protocol"),
    (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No\r\n\r\n", Accepted, "an interim answer is none"),
)
async def test_nothing_below_repeats_or_follows(made: bytes, expected: type) -> None:
    server = Server(made)
    (outcome,) = await write_to(server, "/a")
    assert isinstance(outcome, expected)
    assert [len(heads) for heads in server.connections] == [1]


class SleepyClock(VirtualClock):
    """A process that is stopped for a hundred seconds after it has looked at the clock so many times."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self._looks = looks

    def monotonic(self) -> float:
        self._looks -= 1
        return 0.0 if self._looks >= 0 else 100.0


@pytest.mark.parametrize("looks", [0, 1, 2])
async def test_a_process_that_wakes_up_with_its_connection_made_does_not_send(looks: int) -> None:
    server = Server(OK)
    async with listening(server) as port:
        outcome = await exchanges(port, clock=SleepyClock(looks)).write(HALL, TOKEN, put("/a"), 10.0)

    assert isinstance(outcome, NotSent)
    assert outcome.cause == "stale"
    assert [heads for heads in server.connections if heads] == [], "a connection perhaps, but not one byte"


async def test_the_fence_is_armed_before_the_last_check_and_only_until_the_kernel_has_the_request() -> None:
    server, seen = Server(OK), list[str]()

    @contextmanager
    def fence() -> Iterator[None]:
        seen.append("armed")
        yield
        seen.append("disarmed")

    def late() -> bool:
        seen.append("checked")
        return False

    async with listening(server) as port:
        wire = Wire(transports=Transports(fence=fence), timeout_s=5.0)
        await wire.write(request_of("PUT", httpx.URL(f"http://127.0.0.1:{port}/a"), {}), late)
        seen.append("answered")

    assert seen == ["checked", "armed", "checked", "disarmed", "answered"]


MANY_WRITES = """
import asyncio, httpx, signal, sys
from worker.api.transport import Stale, Transports, Wire, request_of
armed = lambda: signal.getitimer(signal.ITIMER_REAL)[0]
within = []
def late():
    within.append(armed())
    return len(within) > 600
async def main():
    wire = Wire(transports=Transports(), timeout_s=20.0)
    write = lambda: wire.write(request_of("PUT", httpx.URL(sys.argv[1]), {}, "x" * 2000), late)
    for _ in range(30):
        await asyncio.gather(*(write() for _ in range(10)))
        assert armed() == 0.0
    try:
        await write()
    except Stale:
        assert armed() == 0.0
        assert sum(left > 1.5 for left in within) == 300, within
        sys.exit(7)
asyncio.run(main())
"""


async def test_hundreds_of_writes_that_go_well_end_no_process_and_leave_no_timer() -> None:
    server = Server(OK)
    async with listening(server) as port:
        call = (sys.executable, "-c", MANY_WRITES, f"http://127.0.0.1:{port}/a")
        process = await asyncio.create_subprocess_exec(*call)
        assert await process.wait() == 7
    assert len(server.connections) == 300


async def test_a_refused_connection_is_known_to_be_harmless() -> None:
    async with listening(Server(OK)) as port:
        pass
    outcome = await exchanges(port).write(HALL, TOKEN, put("/a"), LATE)
    assert isinstance(outcome, NotSent)
    assert outcome.cause == "connect"


async def test_a_refused_tls_handshake_is_known_to_be_harmless() -> None:
    server = Server(OK)

    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 this is no TLS\r\n\r\n")
        await closed(writer)

    server.serve = plain  # type: ignore[method-assign]  # another service on the same port

    (outcome,) = await write_to(server, "/a", scheme="https")
    assert isinstance(outcome, NotSent)


def packed(*layers: str, content: bytes) -> bytes:
    """An answer whose body is packed once for each layer."""
    for _ in layers:
        content = gzip.compress(content)
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {', '.join(layers)}\r\nContent-Length: {len(content)}\r\n\r\n"
    return head.encode() + content


PACKED = gzip.compress(bytes(range(256)) * 40)[:-9]
CUT_SHORT = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(PACKED)}\r\n\r\n".encode() + PACKED


@cases(
    "answer, says",
    (packed("gzip", content=b'{"a": 1}'), "", "once"),
    (packed("GZip", content=b'{"a": 1}'), "", "in other letters"),
    (packed("gzip", "gzip", content=b'{"a": 1}'), "than as gzip, once", "twice"),
    (packed("gzip", content=b" " * 50_000_000), "more than", "a bomb"),
    (packed("gzip", content=b"{}" * 4000).replace(b"\x1f\x8b", b"\x1f\x8c", 1), "no gzip", "no gzip"),
    (b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 2\r\n\r\n{}", "than as gzip, once", "otherwise"),
    (CUT_SHORT, "has no end", "cut short"),
    (packed("gzip", content=b"[" + b",".join([b"{}"] * 60_000) + b"]"), "values", "many values"),
    (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(b"{}") + b"x", "something follows", "more"),
)
async def test_an_answer_is_unpacked_once_and_within_bounds(answer: bytes, says: str) -> None:
    tracemalloc.start()
    (reply,) = await read_from(Server(answer), "/events/e1")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (reply.ok, says in reply.why) == (not says, True), reply.why
    assert most < 40_000_000, "bytes, whatever the answer makes of itself"


def in_parts(count: int) -> bytes:
    """An answer that comes value by value, as a service sends it that makes its JSON while it sends."""
    parts = [b"[0", *[b",1"] * (count - 2), b"]"]
    spelled = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + spelled + b"0\r\n\r\n"


@pytest.mark.parametrize(("count", "says"), [(20_000, ""), (50_000, "smaller pages (poll.page_size)")])
async def test_an_answer_may_come_value_by_value_and_holds_up_nobody(count: int, says: str) -> None:
    turns = 0

    async def another() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.ensure_future(another())
    (reply,) = await read_from(Server(in_parts(count)), "/events/e1")
    beside.cancel()
    assert (reply.ok, says in reply.why) == (not says, True), reply.why
    assert turns >= 20, "others have their turn meanwhile"


async def read_from(server: Server, *paths: str) -> list[ReadResponse]:
    async with listening(server) as port:
        made = exchanges(port)
        return [await made.read(HALL, TOKEN, path) for path in paths]


async def test_every_read_has_a_connection_of_its_own_and_asks_for_no_stored_answer() -> None:
    """On a kept one, an old place behind a balancer still answers, and what comes twice is the next one's answer."""
    server = Server(OK, keep=True)
    replies = await read_from(server, "/events/e1", "/events/e1", "/events/e1")
    assert [reply.status for reply in replies] == [200, 200, 200]
    assert [len(heads) for heads in server.connections] == [1, 1, 1]
    for (head,) in server.connections:
        assert "connection: close" in head.lower()
        assert "cache-control: no-cache" in head.lower()


def certified(folder: Path, name: str) -> Path:
    """A certificate for this machine, by nobody but itself, and its key."""
    made = folder / f"{name}.pem"
    command = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    more = ("-keyout", str(made), "-out", str(folder / "cert"), "-days", "2", "-subj", f"/CN={name}")
    alt = ("-addext", "subjectAltName=IP:127.0.0.1")
    subprocess.run((*command, *more, *alt), check=True, capture_output=True)
    made.write_bytes(made.read_bytes() + (folder / "cert").read_bytes())
    return made


@pytest.mark.skipif(shutil.which("openssl") is None, reason="certificates are made with openssl")
async def test_a_bundle_of_certificates_that_is_replaced_changes_nothing_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, bundle = certified(tmp_path, "ours"), tmp_path / "bundle.pem"
    bundle.write_bytes(ours.read_bytes())
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(ours)
    server = Server(OK)

    trust.cache_clear()
    try:
        async with listening(server, serving) as port:
            made = exchanges(port, scheme="https")
            read = await made.read(HALL, TOKEN, "/events/e1")
            bundle.write_text("garbage", encoding="utf-8")
            sent = await made.write(HALL, TOKEN, put("/a"), LATE)
            trust.cache_clear()  # as if this process had just begun
            not_sent = await made.write(HALL, TOKEN, put("/b"), LATE)
    finally:
        trust.cache_clear()

    assert read.ok
    assert isinstance(sent, Accepted)
    assert isinstance(not_sent, NotSent), "what fails before the hand-over is known not to have been sent"
    assert "the certificates that SSL_CERT_FILE names cannot be read: " in not_sent.why
    assert [heads[0].split()[1] for heads in server.connections if heads] == [
        "/api/v3/events/e1",
        "/api/v3/a?q=a%20b%26c",
    ]


@pytest.mark.parametrize(("asked", "told"), [(b"3600", [("retry_after_long", "p", 3600)]), (b"900", []), (b"soon", [])])
async def test_who_asks_to_be_left_alone_for_longer_than_is_done_is_told_of(
    asked: bytes, told: list[tuple[str, str, int]]
) -> None:
    server, alarms = Server(b"HTTP/1.1 429 X\r\nRetry-After: " + asked + b"\r\nContent-Length: 0\r\n\r\n"), []

    class Reporter:
        def alarm(self, message: str, *, partner: str, asked_s: int) -> None:
            alarms.append((message, partner, asked_s))

    wire = Wire(transports=transports_of(Meter(), cast("Any", Reporter()), SystemClock()), timeout_s=5.0)
    async with listening(server) as port:
        url = httpx.URL(f"http://127.0.0.1:{port}/api/v3/events/")
        assert (await wire.read(request_of("GET", url, {PARTNER_HEADER: "p"}))).status == 429
    assert alarms == told
