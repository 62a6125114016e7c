"""A ledger with a story in it, and the page over it on a real port: what the tests of the page look at.

The story is played by the whole worker against the twin in virtual time, once for all tests of a process; each test
that decides something gets a copy of the folder. The page is the daemon's own, with its own decisions; only the daemon
is not there, so that nothing changes but by what the test does.
"""

import asyncio
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from tests.calling import settle_in
from tests.virtual import EPOCH
from tests.worlds import PARTNER, PAUSE, Script, Town, draft, happening, plays, world
from worker.cli.common import amiss_with, engine_settings, ledger_url
from worker.cli.page import decide
from worker.config import Config, load_config
from worker.ledger.browsing import LedgerBrowser, open_browser
from worker.model.commits import DaemonStatus
from worker.model.facts import Json
from worker.model.rules import RuleSet
from worker.rules.load import load_rules
from worker.sandbox.world import TwinWorld
from worker.system import SystemClock
from worker.web.app import ASK_EVERY_S, PageServer, application
from worker.web.door import Key, Keys, digest
from worker.web.metrics import Meter
from worker.web.pages import PageParts
from worker.web.views import SeenByTests

HOSTILE_ID = """<img src=x onerror=alert(1)>"'&{{7*7}}"""
HOSTILE_TITLE = "<script>document.title='taken'</script>"
RULES = f"""{PAUSE}
  - id: boost-drafts
    description: Publish a draft as soon as it is there.
    on_unknown: ask
    when: event.status == 'active' && setup.state == 'DRAFT'
    do: [boost]
  # Somebody looks at these first.
  - id: hide-archived
    description: "Hide what is over. {HOSTILE_TITLE}"
    mode: approve
    when: event.status == 'archived' && event.title != ''
    do: [pause]
"""
ENDS = timedelta(seconds=60)
"""How long the story lasts."""
PASSWORD = "correct horse battery"


def play(folder: Path) -> None:
    """The story: a pause by the worker, one by another hand, a lost answer that a read settles, one that needs a
    person, and three that wait, one of them with a hostile title and id."""
    place = world(
        happening("summer-night", title="Summer Night"),
        happening("winter-gala"),
        draft("lost-answer"),
        draft("needs-you"),
        happening("over-1"),
        happening("over-2"),
        happening(HOSTILE_ID, title=HOSTILE_TITLE),
    )

    async def story(acted: Town) -> None:
        acted.fault("answer_after", "POST", "/setup_processes/lost-answer/boost", status=429)
        acted.fault("answer_before", "POST", "/setup_processes/needs-you/boost", status=500)
        await acted.run(9)
        await acted.becomes("summer-night", 12, status="cancelled")
        await acted.becomes("winter-gala", 6, client_campaign_status="PAUSED", by="person")
        for event in ("over-1", "over-2", HOSTILE_ID):
            acted.set(event, status="archived")
        await acted.run(9)
        acted.ledger.save_status(status_of(acted.clock.now()))

    left_by(folder, place, RULES, story)


def left_by(folder: Path, place: TwinWorld, rules: str, story: Script) -> None:
    """A folder as a page is served from, with what a story left in its ledger."""
    folder.mkdir(parents=True, exist_ok=True)
    settle_in(folder, "web: {listen: 127.0.0.1:0}\n", rules)
    plays(story, folder, place, rules)


@dataclass(frozen=True)
class FixedClock:
    """Wall time stands still just after the story, so that nothing on the page depends on today, and nobody waits."""

    at: datetime
    slept: list[float] = field(default_factory=list)

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return SystemClock().monotonic()

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0.02 if seconds == ASK_EVERY_S else 0)  # a stream is quicker here, and no storm


@dataclass(frozen=True)
class Scene:
    """A folder with the story, and its page."""

    folder: Path
    address: str
    config: Config
    ledger: LedgerBrowser
    clock: FixedClock
    rules: RuleSet

    def get(self, path: str = "/", **more: Any) -> httpx.Response:  # noqa: ANN401 - httpx' own options
        """What Ann's browser is answered; ``more``: where it asks otherwise."""
        return httpx.get(self.address + path, **{"auth": ("ann", PASSWORD), "trust_env": False, **more})

    def state_of(self, write: int = 2) -> str:
        return {int(one.id): one.state for one in self.ledger.writes()}[write]

    def browser(self, **more: Any) -> httpx.Client:  # noqa: ANN401 - as above
        """Ann's browser; ``more``: where it is another one."""
        return httpx.Client(**{"base_url": self.address, "auth": ("ann", PASSWORD), "trust_env": False, **more})


def token_of(browser: httpx.Client, path: str = "/write?id=2") -> str:
    """The token of the forms that the page gives to this browser."""
    return browser.get(path).text.split('name="token" value="')[1].split('"')[0]


def key(secret: str = PASSWORD, may: str = "view", up_to: float | None = None) -> Key:
    """Somebody with this secret, who may do this."""
    return Key(secret=digest(secret), may=frozenset(may.split()), up_to=up_to)


ANN = Keys(users={"ann": key(may="view approve operate")})
"""A page on which Ann may do everything."""


@contextmanager
def scene(
    folder: Path,
    *,
    keys: Keys | None = None,
    clock: FixedClock | None = None,
    measured: Callable[[LedgerBrowser], bytes] | None = None,
    refused: Callable[[str, str, int], None] = lambda _place, _name, _count: None,
    tested: Callable[[str], SeenByTests] = lambda _rules: SeenByTests(state="unknown"),
    rules: RuleSet | None = None,
) -> Iterator[Scene]:
    """The page over a folder, for as long as the block lasts. ``measured`` answers a scrape; ``rules``: those in force,
    where they do not come from the folder."""
    config = load_config(folder / "config.yaml")
    clock = clock or FixedClock(EPOCH + ENDS)
    rules = rules or load_rules(config.rules, config.registry)
    failures: list[BaseException] = []
    with open_browser(ledger_url(config)) as ledger:
        parts = PageParts(
            ledger=ledger,
            decide=partial(decide, config),
            in_force=lambda: rules,
            rules_at=config.rules,
            clock=clock,
            entropy=iter(f"not so secret {number}" for number in range(10_000)).__next__,
            silence=lambda: 0.5,
            interval=config.poll.interval,
            measured=lambda: measured(ledger) if measured else Meter().measured(ledger, clock.now()),
            amiss=lambda: amiss_with(ledger, ledger_url(config)),
            deciding=engine_settings(config).deciding,
            keys=lambda: keys or Keys(),
            refused=refused,
            tested=tested,
        )
        app = application(parts)
        with PageServer(app, host="127.0.0.1", port=0, failed=failures.append) as server:
            address = f"http://127.0.0.1:{server.port}"
            yield Scene(folder=folder, address=address, config=config, ledger=ledger, clock=clock, rules=rules)
    assert failures == []


def copied(story: Path, to: Path) -> Path:
    """The folder of a story, for a test of its own."""
    shutil.copytree(story, to, dirs_exist_ok=True)
    return to


def status_of(now: datetime) -> DaemonStatus:
    """What a daemon says of itself in which all is well."""
    said: Json = {"last_ok_at": now.isoformat(), "last_error": None, "requests_per_minute": 84, "budget": 300}
    rules: Json = {"hash": "h", "files_hash": "h", "loaded_at": now.isoformat(), "error": None}
    body: dict[str, Json] = {"cycle_ms": 12, "unreachable": None, "rules": rules, "partners": {str(PARTNER): said}}
    return DaemonStatus(pid=4711, since=EPOCH, seen_at=now, body=body)
