"""What really leaves over a socket: the bytes of a path, one connection per write, and no second try.

A transport that is a function cannot show what the library below it does with a connection, so these few claims are
checked against a server that writes down the bytes it gets.
"""

import asyncio
from contextlib import nullcontext, suppress

import pytest

from tests.unit.reading.virtual import VirtualClock
from worker.api.addresses import Hosts
from worker.api.assumptions import Assumptions
from worker.api.exchanges import Ask, Exchanges
from worker.api.replies import Reply
from worker.api.secret import Secret
from worker.api.transport import Transports, Wire
from worker.model.exchange import WriteRequest
from worker.model.ids import PartnerId
from worker.model.outcomes import Accepted, NotSent, Outcome, Uncertain

HALL = PartnerId("partner-id-hall")
TOKEN = Secret("access-1")
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


async def write_to(server: Server, paths: list[str], *, scheme: str = "http") -> list[Outcome]:
    listening = await asyncio.start_server(server.accept, "127.0.0.1", 0)
    made = exchanges(listening.sockets[0].getsockname()[1], scheme=scheme)
    async with listening:
        outcomes = [
            await made.write(
                HALL, TOKEN, WriteRequest(host="api", method="PUT", path=path, query=(("q", "a b&c"),)), LATE
            )
            for path in paths
        ]
        await asyncio.gather(*server.served)
    return outcomes


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
def test_a_path_arrives_byte_for_byte(path: str) -> None:
    server = Server(OK)

    outcomes = asyncio.run(write_to(server, [path]))

    assert isinstance(outcomes[0], Accepted)
    line = server.connections[0][0].splitlines()[0]
    assert line == f"PUT /api/v3{path}?q=a%20b%26c HTTP/1.1"


def test_every_write_has_a_connection_of_its_own_though_the_service_would_keep_it() -> None:
    server = Server(OK, keep=True)

    asyncio.run(write_to(server, ["/a", "/b", "/c"]))

    assert [len(heads) for heads in server.connections] == [1, 1, 1]
    assert all("connection: close" in heads[0].lower() for heads in server.connections)


@pytest.mark.parametrize(
    ("made", "expected", "reason"),
    [
        (b"", Uncertain, "closed without a word, perhaps after it was done"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{}", Uncertain, "cut short"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n", Uncertain, "the last chunk is missing"),
        (b"HTTP/1.1 307 T\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n", Uncertain, "a redirect"),
        (b"HTTP/1.1 408 T\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", Uncertain, "tempting to repeat"),
        (b"HTTP/1.1 429 T\r\nContent-Length: 0\r\n\r\n", Uncertain, "patience"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", Uncertain, "not this protocol"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No\r\n\r\n", Accepted, "an interim answer is none"),
    ],
)
def test_nothing_below_repeats_or_follows(made: bytes, expected: type, reason: str) -> None:
    server = Server(made)

    outcomes = asyncio.run(write_to(server, ["/a"]))

    assert isinstance(outcomes[0], expected), reason
    assert [len(heads) for heads in server.connections] == [1], reason


class SleepyClock(VirtualClock):
    """A process that is stopped for a hundred seconds after it has looked at the clock so many times."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self._looks = looks

    def monotonic(self) -> float:
        self._looks -= 1
        return 0.0 if self._looks >= 0 else 100.0


@pytest.mark.parametrize("looks", [0, 1, 2])
def test_a_process_that_wakes_up_with_its_connection_made_does_not_send(looks: int) -> None:
    server = Server(OK)

    async def story() -> Outcome:
        listening = await asyncio.start_server(server.accept, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        made = exchanges(port, clock=SleepyClock(looks))
        outcome = await made.write(HALL, TOKEN, WriteRequest(host="api", method="PUT", path="/a"), 10.0)
        await asyncio.gather(*server.served)
        listening.close()
        await listening.wait_closed()
        return outcome

    outcome = asyncio.run(story())

    assert isinstance(outcome, NotSent)
    assert outcome.cause == "stale"
    assert [heads for heads in server.connections if heads] == [], "a connection perhaps, but not one byte"


def test_a_refused_connection_is_known_to_be_harmless() -> None:
    async def story() -> Outcome:
        listening = await asyncio.start_server(Server(OK).accept, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        listening.close()
        await listening.wait_closed()
        return await exchanges(port).write(HALL, TOKEN, WriteRequest(host="api", method="PUT", path="/a"), LATE)

    outcome = asyncio.run(story())

    assert isinstance(outcome, NotSent)
    assert outcome.cause == "connect"


def test_a_refused_tls_handshake_is_known_to_be_harmless() -> None:
    server = Server(OK)

    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 this is no TLS\r\n\r\n")
        await closed(writer)

    server.serve = plain  # type: ignore[method-assign]  # another service on the same port

    outcomes = asyncio.run(write_to(server, ["/a"], scheme="https"))

    assert isinstance(outcomes[0], NotSent)


async def read_from(server: Server, *paths: str) -> list[Reply]:
    listening = await asyncio.start_server(server.accept, "127.0.0.1", 0)
    made = exchanges(listening.sockets[0].getsockname()[1])
    async with listening:
        replies = [await made.read(HALL, TOKEN, Ask(path=path)) for path in paths]
        await asyncio.gather(*server.served)
    return replies


def test_every_read_has_a_connection_of_its_own_and_asks_for_no_stored_answer() -> None:
    server = Server(OK, keep=True)

    replies = asyncio.run(read_from(server, "/events/e1", "/events/e1", "/events/e1"))

    assert [reply.status for reply in replies] == [200, 200, 200]
    assert [len(heads) for heads in server.connections] == [1, 1, 1], "what a balancer moves, is asked where it is now"
    for (head,) in server.connections:
        assert "connection: close" in head.lower()
        assert "cache-control: no-cache" in head.lower()


def test_an_answer_that_comes_twice_is_never_the_next_resources_answer() -> None:
    class Twice(Server):
        """Says everything twice: at once, and again a moment later."""

        async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                while True:
                    head = await reader.readuntil(b"\r\n\r\n")
                    self.connections.append([head.decode()])
                    path = head.split()[1]
                    made = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (len(path) + 2) + b'"' + path + b'"'
                    writer.write(made + made)
                    await writer.drain()
                    await asyncio.sleep(0)
                    writer.write(made)
                    await writer.drain()
            await closed(writer)

    replies = asyncio.run(read_from(Twice(b""), "/events/a", "/events/b", "/events/c"))

    assert [reply.content for reply in replies] == [f"/api/v3/events/{name}" for name in "abc"]
