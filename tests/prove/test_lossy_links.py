"""The last byte on a real link: what a kernel still holds of an attempt when the attempt has ended, or its process.

A kernel keeps what it was handed and sends it again and again, for minutes, also for a process that is no more. So two
network namespaces are joined by a link that loses what it is told to lose; on the far side every segment that carries
a byte is written down as it comes off the link, lost later or not, and every byte that a service would have read. The
client is the real one, in a process of its own, and each time several attempts stand in the same trouble.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.acceptance.processes import until
from tests.prove.proofs import say

pytestmark = [pytest.mark.prove, pytest.mark.timeout(180)]
ROUNDS = 5
"""Attempts in each trouble, side by side."""
TIMEOUT_S = 2.0
BOUND_S = 2 * TIMEOUT_S + 5.0
"""What the contract says of the last byte, from the record of the attempt."""
QUIET_S = 12.0
"""How long the healed link is watched: a kernel that goes on sends again within less."""
NEIGHBOUR_S = 3.5
"""How long a kernel keeps what waits for a neighbour's hardware address: three questions, one a second."""
MARGIN_S = 0.2
"""Between what one process calls the end and what another sees come off the link."""
NEAR, FAR, PORT = "10.77.0.1", "10.77.0.2", 8077
SERVICE = """
import json, socket, sys, threading, time
from contextlib import suppress
def say(**what):
    sys.stdout.write(json.dumps({"at": time.monotonic(), **what}) + chr(10)); sys.stdout.flush()
def watch():
    line = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
    say(what="watching")
    while True:
        packet = line.recv(70000)
        head = (packet[0] & 15) * 4
        if packet[9] != 6 or int.from_bytes(packet[head + 2 : head + 4], "big") != PORT:
            continue
        content = packet[head + (packet[head + 12] >> 4) * 4 : int.from_bytes(packet[2:4], "big")]
        if content:
            say(what="segment", path=content.split(b" ")[1].decode())
def serve(accepted):
    with accepted, suppress(ConnectionResetError):
        content = accepted.recv(65536)
        if content:
            say(what="arrived", path=content.split(b" ")[1].decode())
            accepted.sendall(b"HTTP/1.1 200 OK" + b"\\r\\n" + b"Content-Length: 2" + b"\\r\\n\\r\\n" + b"{}")
listening = socket.create_server(("FAR", PORT), backlog=100)
threading.Thread(target=watch, daemon=True).start()
while True:
    threading.Thread(target=serve, args=(listening.accept()[0],), daemon=True).start()
""".replace("PORT", str(PORT)).replace("FAR", FAR)
CLIENT = (
    """
import asyncio, json, sys, time
from worker.model.exchange import SecretValue
from worker.api.requests import Hosts
from worker.api.assumptions import Assumptions
from worker.api.exchanges import Exchanges
from worker.api.transport import Transports, Wire
from worker.model.exchange import WriteRequest
from worker.system import SystemClock
def say(**what):
    sys.stdout.write(json.dumps({"at": time.monotonic(), **what}) + chr(10)); sys.stdout.flush()
async def attempt(made, clock, number):
    path, body = f"/{number}", {"goal": "ROAS"}
    say(what="begun", path=path)
    request = WriteRequest(host="api", method="POST", path=path, body=body)
    outcome = await made.write("hall", SecretValue("a"), request, clock.monotonic() + TIMEOUT)
    say(what="ended", path=path, outcome=type(outcome).__name__, why=getattr(outcome, "why", ""))
async def main():
    clock = SystemClock()
    wire = Wire(transports=Transports(), timeout_s=TIMEOUT)
    made = Exchanges(wire=wire, hosts=Hosts(api="http://FAR:PORT"), clock=clock, assumptions=Assumptions())
    await asyncio.gather(*(attempt(made, clock, number) for number in range(ROUNDS)))
asyncio.run(main())
""".replace("TIMEOUT", str(TIMEOUT_S))
    .replace("FAR", FAR)
    .replace("PORT", str(PORT))
    .replace("ROUNDS", str(ROUNDS))
)


@dataclass(slots=True)
class Told:
    """A process on one side of the link, and what it says, one line of JSON each."""

    process: "subprocess.Popen[str]"
    lines: list[dict[str, Any]] = field(default_factory=list)

    def listen(self) -> None:
        for line in self.process.stdout or ():
            self.lines.append(json.loads(line))

    def of(self, what: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["what"] == what]

    def paths(self, what: str) -> set[str]:
        return {line["path"] for line in self.of(what)}


@dataclass(slots=True)
class Link:
    """Two namespaces and what joins them."""

    near: str
    far: str
    service: Told

    def lose(self, what: str) -> None:
        """From now on the far side loses what a rule of nftables names, before anybody there has seen it."""
        hook = "type filter hook prerouting priority -300;"
        loses(self.far, f"flush ruleset\ntable ip lossy {{\nchain coming {{\n{hook}\n{what}\n}}\n}}\n")

    def heal(self) -> float:
        """Loses nothing any more; the moment."""
        loses(self.far, "flush ruleset\n")
        return time.monotonic()

    def neighbour(self, *what: str) -> None:
        """Changes what the near side thinks the far side's hardware address to be."""
        asked("ip", "-n", self.near, "neigh", *what, "dev", "near")

    def attempts(self) -> AbstractContextManager[Told]:
        """Several attempts at once, in a process on the near side; `ip netns exec` becomes what it starts."""
        return told("ip", "netns", "exec", self.near, sys.executable, "-c", CLIENT)


HEADS_ONLY = f"tcp dport {PORT} ip length > 100 drop"
"""The handshake passes, and nothing that carries a request."""
EVERYTHING = f"tcp dport {PORT} drop"


@contextmanager
def told(*command: str) -> Iterator[Told]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    found = Told(process=process)
    listening = threading.Thread(target=found.listen)
    listening.start()
    try:
        yield found
    finally:
        process.kill()
        process.wait()
        listening.join(timeout=10)
        if process.stdout is not None:
            process.stdout.close()


def asked(*command: str, text: str | None = None) -> None:
    subprocess.run(command, input=text, text=True, check=True, capture_output=True, timeout=20)


def loses(namespace: str, ruleset: str) -> None:
    asked("ip", "netns", "exec", namespace, "nft", "-f", "-", text=ruleset)


def quiet(link: Link, until_s: float) -> None:
    """Watches the link until a moment, unless something arrives before."""
    while time.monotonic() < until_s and not link.service.of("arrived"):
        time.sleep(0.05)


@pytest.fixture
def link() -> Iterator[Link]:
    """A link of its own, taken away at the end."""
    near, far = f"cw-near-{os.getpid()}", f"cw-far-{os.getpid()}"
    made = f"""
        netns add {near}
        netns add {far}
        link add near netns {near} type veth peer name far netns {far}
        -n {near} addr add {NEAR}/24 dev near
        -n {far} addr add {FAR}/24 dev far
        -n {near} link set near up
        -n {far} link set far up
        netns exec {far} nft flush ruleset"""
    try:
        try:
            for command in made.strip().splitlines():
                asked("ip", *command.split())
        except (OSError, subprocess.CalledProcessError) as error:
            why = getattr(error, "stderr", "") or str(error)
            words = f"NOT PROVED: no lossy link here (root, iproute2 and nftables are needed): {why.strip()}"
            pytest.fail(words) if os.environ.get("CI") else pytest.skip(words)
        with told("ip", "netns", "exec", far, sys.executable, "-c", SERVICE) as service:
            until(lambda: service.of("watching"), "the far side watches")
            yield Link(near=near, far=far, service=service)
    finally:
        if shutil.which("ip"):
            for namespace in (near, far):
                with suppress(OSError):
                    subprocess.run(("ip", "netns", "del", namespace), check=False, capture_output=True, timeout=20)


def all_on_the_link(link: Link) -> None:
    until(lambda: len(link.service.paths("segment")) == ROUNDS, "each request was on the link once")


def all_ended(client: Told, outcome: str) -> dict[str, float]:
    until(lambda: len(client.of("ended")) == ROUNDS, "each attempt has ended")
    assert {line["outcome"] for line in client.of("ended")} == {outcome}, client.of("ended")
    return {line["path"]: line["at"] for line in client.of("ended")}


def nothing_after(link: Link, ends: dict[str, float], what: str) -> None:
    """No byte of an attempt came off the link after its end, and none was read."""
    last = {path: max(one["at"] for one in link.service.of("segment") if one["path"] == path) for path in ends}
    late = {path: round(last[path] - end, 2) for path, end in ends.items() if last[path] > end + MARGIN_S}
    assert link.service.of("arrived") == [], f"{what}: seconds after its end, a request came off the link: {late}"
    assert late == {}, f"{what}: seconds after its end, a byte was on the link"
    before = [round(ends[path] - last[path], 2) for path in sorted(ends)]
    say(f"{what}: the last byte was on the link {before} s before the end; nothing for {QUIET_S:g} s after it")


def test_nothing_of_an_attempt_that_has_timed_out_is_on_the_link_when_it_heals(link: Link) -> None:
    link.lose(HEADS_ONLY)
    with link.attempts() as client:
        ends = all_ended(client, "Uncertain")
        begun = {line["path"]: line["at"] for line in client.of("begun")}
        quiet(link, link.heal() + QUIET_S)
    nothing_after(link, ends, "timed out")
    say(f"the attempts took {[round(ends[path] - begun[path], 2) for path in sorted(ends)]} s")


def test_nothing_of_an_attempt_whose_process_was_killed_is_on_the_link_when_it_heals(link: Link) -> None:
    link.lose(HEADS_ONLY)
    with link.attempts() as client:
        all_on_the_link(link)
        client.process.send_signal(signal.SIGKILL)
        client.process.wait(timeout=10)
        killed = time.monotonic()
        quiet(link, link.heal() + QUIET_S)
    nothing_after(link, dict.fromkeys(link.service.paths("segment"), killed), "killed")


def test_nothing_of_an_attempt_whose_process_is_stopped_leaves_later_than_its_bound(link: Link) -> None:
    link.lose(HEADS_ONLY)
    with link.attempts() as client:
        all_on_the_link(link)
        client.process.send_signal(signal.SIGSTOP)
        bounds = {line["path"]: line["at"] + BOUND_S for line in client.of("begun")}
        quiet(link, max(bounds.values()))
        quiet(link, link.heal() + 2 * QUIET_S)
        nothing_after(link, bounds, "stopped, and its bound")
        client.process.send_signal(signal.SIGCONT)
        all_ended(client, "Uncertain")


def test_nothing_of_an_attempt_is_left_with_a_neighbour_whose_address_was_wrong(link: Link) -> None:
    link.lose(HEADS_ONLY)
    with link.attempts() as client:
        all_on_the_link(link)
        link.neighbour("replace", FAR, "lladdr", "02:00:00:00:00:99", "nud", "permanent")
        link.heal()
        ends = all_ended(client, "Uncertain")
        link.neighbour("del", FAR)
        quiet(link, time.monotonic() + QUIET_S)
    nothing_after(link, ends, "wrong neighbour")


def test_a_request_that_waits_for_a_vanished_neighbour_is_given_up_within_the_bound(link: Link) -> None:
    """The one place that keeps it beyond its attempt: for a hardware address that got lost in mid-attempt, a kernel
    waits 3 s, and nobody can take back what waits there."""
    link.lose(HEADS_ONLY)
    with link.attempts() as client:
        all_on_the_link(link)
        asked("ip", "-n", link.far, "link", "set", "far", "arp", "off")
        link.neighbour("del", FAR)
        link.heal()
        ends = all_ended(client, "Uncertain")
        quiet(link, max(ends.values()) + NEIGHBOUR_S)
        asked("ip", "-n", link.far, "link", "set", "far", "arp", "on")
        quiet(link, time.monotonic() + QUIET_S)
    nothing_after(link, ends, "a neighbour that vanished")


def test_an_attempt_whose_connection_is_swallowed_is_known_not_to_have_been_sent(link: Link) -> None:
    link.lose(EVERYTHING)
    with link.attempts() as client:
        all_ended(client, "NotSent")
        quiet(link, link.heal() + QUIET_S)
    assert link.service.of("segment") == link.service.of("arrived") == []


def test_what_a_link_loses_for_a_while_arrives_in_time_and_is_answered(link: Link) -> None:
    link.lose(HEADS_ONLY)
    with link.attempts() as client:
        all_on_the_link(link)
        link.heal()
        ends = all_ended(client, "Accepted")
    begun = {line["path"]: line["at"] for line in client.of("begun")}
    arrived = {line["path"]: line["at"] for line in link.service.of("arrived")}
    assert arrived.keys() == ends.keys()
    assert all(arrived[path] <= begun[path] + BOUND_S for path in ends)
    say(f"arrived {[round(arrived[path] - begun[path], 2) for path in sorted(ends)]} s after the beginning")
