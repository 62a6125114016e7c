"""A real nginx limits the requests, says 429 and nothing more: the worker finds the limit, uses it, and every write
gets done.

Six limits at once, two of them without any burst, each with an nginx, a sandbox behind it and a worker before it, in
real time: what is wanted is always more than is allowed, and now and then an event is cancelled or a draft is to be
boosted. Judged by nginx's own log, the worker's records and the sandbox's books. ``RATE_LIMIT_MINUTES`` is how long it
takes (15); the first third is for finding the limit.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.acceptance.processes import Home, Sandbox, free_port, home, sandbox, until
from tests.prove.proofs import say

pytestmark = [pytest.mark.prove, pytest.mark.timeout(0)]
LASTS_S = 60.0 * float(os.environ.get("RATE_LIMIT_MINUTES", "15"))
FOUND_S = LASTS_S / 3
WRITE_EVERY_S = 100.0
SETTLED_S = 240.0
USED_AT_LEAST, REFUSED_AT_MOST = 0.8, 0.05
FORGIVEN = ("task_without_put",)
"""A PUT that nginx refuses never comes to the sandbox; the 429 may hide that it took effect, so its task is read."""
BURST = " burst=4 nodelay"
PARTNER = "partner-id-aurora-live"
DRAFT = {"goal": "ROAS", "total_budget": 300, "state": "DRAFT"}
RULES = """
rules:
  - id: pause-cancelled
    when: event.status == 'cancelled'
    do: [pause]
  - id: boost-drafts
    when: event.title == 'boost me' && setup.state == 'DRAFT' && size(suggested_tcs) >= 0
    with: {budget: 300, goal: ROAS}
    do: [boost]
  - id: wants-more-facts-than-any-limit-gives
    when: event.status == 'active' && (setup.state == 'NOWHERE' || suggested_tcs.exists(t, t.tc == 'none such'))
    with: {budget: 300, goal: ROAS}
    do: [pause]
"""
NGINX = """
daemon off;
pid {folder}/pid;
error_log {folder}/error.log;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  log_format seen '$msec $status $request_method $uri';
  limit_req_zone $server_port zone=all:1m rate={per_minute}r/m;
  limit_req_status 429;
  server {{
    listen 127.0.0.1:{port};
    access_log {folder}/seen.log seen;
    location / {{
      limit_req zone=all{burst};
      proxy_pass {behind};
      proxy_next_upstream off;
    }}
  }}
}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """``moves``: half as much is allowed in the second third. ``spaced``: no two requests pass closer together than the
    limit says, so that at 30 a minute a boost with its four reads is not to be had within one interval.
    """

    per_minute: int
    moves: bool = False
    spaced: bool = False

    @property
    def used_at_least(self) -> float:
        """The share that is to be used; without a burst at 30 a minute 80% are not reached (docs/performance.md)."""
        return 0.6 if self.spaced else USED_AT_LEAST

    def at(self, second: float) -> int:
        """Requests a minute that are allowed then."""
        halved = self.moves and LASTS_S / 3 <= second < 2 * LASTS_S / 3
        return self.per_minute // 2 if halved else self.per_minute

    @property
    def config(self) -> int:
        """What the operator allows: more than the service does."""
        return max(300, 2 * self.per_minute)

    def __str__(self) -> str:
        more = ", halved and doubled" if self.moves else ", without any burst" if self.spaced else ""
        return f"{self.per_minute} a minute{more}"


LIMITS = (
    Limit(per_minute=30),
    Limit(per_minute=90),
    Limit(per_minute=600),
    Limit(per_minute=90, moves=True),
    Limit(per_minute=30, spaced=True),
    Limit(per_minute=90, spaced=True),
)


@dataclass(frozen=True, slots=True)
class Seen:
    """One request in nginx's log. ``at``: seconds after the first."""

    at: float
    status: int
    method: str
    path: str

    @property
    def is_write(self) -> bool:
        return self.method != "GET" and self.path != "/auth" and not self.path.endswith("/auth")


@dataclass(slots=True, kw_only=True)
class Nginx:
    folder: Path
    port: int
    behind: str
    burst: str = BURST
    process: "subprocess.Popen[bytes] | None" = None

    def limit(self, per_minute: int) -> None:
        given = {"folder": self.folder, "port": self.port, "behind": self.behind, "burst": self.burst}
        text = NGINX.format(**given, per_minute=per_minute)
        (self.folder / "nginx.conf").write_text(text, encoding="utf-8")
        if self.process is not None:
            self.process.send_signal(signal.SIGHUP)

    def seen(self) -> list[Seen]:
        lines = [line.split(" ", 3) for line in (self.folder / "seen.log").read_text("utf-8").splitlines()]
        first = float(lines[0][0]) if lines else 0.0
        return [Seen(float(at) - first, int(status), method, path) for at, status, method, path in lines]


def program() -> str:
    found = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    if found is not None:
        return found
    words = "NOT PROVED: that the pace finds the limit of a real nginx, which is not installed; see tests/tools.sh"
    if os.environ.get("CI"):
        pytest.fail(words)
    pytest.skip(words)


@contextmanager
def limited(folder: Path, box: Sandbox, limit: Limit) -> Iterator[Nginx]:
    folder.mkdir()
    found = Nginx(folder=folder, port=free_port(), behind=box.control, burst="" if limit.spaced else BURST)
    found.limit(limit.per_minute)
    command = [program(), "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", str(folder / "error.log")]
    found.process = subprocess.Popen(command)
    try:
        until((folder / "pid").exists, "nginx runs")
        yield found
    finally:
        found.process.terminate()
        found.process.wait(timeout=20)


@dataclass(slots=True, kw_only=True)
class Play:
    """One limit under work."""

    limit: Limit
    box: Sandbox
    nginx: Nginx
    where: Home
    asked: int = 0
    allowed: int = 0

    def move(self, second: float) -> None:
        if self.limit.at(second) != self.allowed:
            self.allowed = self.limit.at(second)
            self.nginx.limit(self.allowed)

    def ask_for_a_write(self) -> None:
        """An event is cancelled, or a draft waits for its boost, in turn."""
        self.asked += 1
        event = f"e{10 + self.asked}"
        change = {"event": event, "partner": PARTNER}
        if self.asked % 2 and not (self.limit.spaced and self.limit.per_minute < 90):
            self.box.post("change", {**change, "setup": DRAFT, "set": {"title": "boost me", "status": "active"}})
        else:
            self.box.post("change", {**change, "set": {"status": "cancelled"}})

    def settled(self) -> bool:
        writes = self.where.writes()
        return len(writes) >= self.asked and all(one["state"] in ("confirmed", "skipped") for one in writes)

    def judge(self) -> list[str]:
        seen = [one for one in self.nginx.seen() if one.at < LASTS_S]
        measured = [one for one in seen if one.at >= FOUND_S]
        passed = [one for one in measured if one.status != 429]
        allowed = sum(self.limit.at(second) for second in range(int(FOUND_S), int(LASTS_S))) / 60.0
        used, refused = len(passed) / allowed, 1.0 - len(passed) / max(1, len(measured))
        writes = [one for one in seen if one.is_write]
        lists = sum(one.path.endswith("/events/") for one in passed) / ((LASTS_S - FOUND_S) / 60.0)
        log = self.where.log()
        people = [one for one in log if one["kind"] == "needs_human"]
        by_minute = [
            sum(one.status != 429 for one in seen if minute * 60 <= one.at < minute * 60 + 60)
            for minute in range(int(LASTS_S // 60))
        ]
        say(
            f"{self.limit}: used {used:.1%}, 429 {refused:.2%} ({len(measured) - len(passed)} of {len(measured)}), "
            f"of writes {sum(one.status == 429 for one in writes)} of {len(writes)}, of reads "
            f"{sum(one.status == 429 for one in seen if not one.is_write)} of {len(seen) - len(writes)}; "
            f"list {lists:.1f} a minute; {self.asked} writes wanted; "
            f"passed in each minute {by_minute}"
        )
        wrong = []
        if used < self.limit.used_at_least:
            wrong.append(f"{self.limit}: {used:.1%} of what is allowed was used")
        if refused > REFUSED_AT_MOST:
            wrong.append(f"{self.limit}: {refused:.1%} of the answers were 429")
        if people or not self.settled():
            wrong.append(f"{self.limit}: {[one['reason'] for one in people]}, {self.where.writes()}")
        effects = len(self.box.get("books")["list"])
        if effects != self.asked:
            wrong.append(f"{self.limit}: {effects} effects of {self.asked} writes")
        return wrong


def test_behind_a_real_nginx_the_limit_is_found_and_every_write_gets_done(tmp_path: Path) -> None:
    program()
    with ExitStack() as stack:
        plays = []
        for number, limit in enumerate(LIMITS):
            folder = tmp_path / str(number)
            folder.mkdir()
            box = stack.enter_context(sandbox(folder, "--events", "40", forgiven=FORGIVEN))
            nginx = stack.enter_context(limited(folder / "nginx", box, limit))
            through = replace(
                box,
                base_url=box.base_url.replace(box.control, f"http://127.0.0.1:{nginx.port}"),
                cr_url=box.cr_url.replace(box.control, f"http://127.0.0.1:{nginx.port}"),
            )
            where = home(folder, through, [RULES], timeout="10s", settle="20s", evidence_within="10m")
            where.told(f"partners: [{PARTNER}]\nrequests: {{per_minute: {limit.config}}}")
            stack.enter_context(where.worker())
            plays.append(Play(limit=limit, box=box, nginx=nginx, where=where, allowed=limit.per_minute))
        for play in plays:
            until(play.nginx.seen, "the worker asks")
        _play(plays)
        wrong = [one for play in plays for one in play.judge()]
    assert not wrong, "\n".join(wrong)


def _play(plays: list[Play]) -> None:
    """Until the time is over and what was wanted is settled."""
    begin = time.monotonic()
    while (second := time.monotonic() - begin) < LASTS_S:
        for play in plays:
            play.move(second)
            if second > WRITE_EVERY_S * (play.asked + 0.5) and second < LASTS_S - WRITE_EVERY_S / 2:
                play.ask_for_a_write()
        time.sleep(1.0)
    for play in plays:
        with suppress(AssertionError):  # judged below, with all that is known
            until(play.settled, "every write is settled", limit_s=SETTLED_S)
