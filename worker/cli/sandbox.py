"""``sandbox``: serves a simulator of the service, to try rules on and to develop against; ``demo``: a story on it."""

import asyncio
import json
from collections.abc import Mapping
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from rich.console import Console

from worker.cli.common import ledger_url
from worker.cli.output import STYLES, print_table, say
from worker.cli.signals import stopping
from worker.cli.wiring import FIRST_EVENT_IN, FolderSource, embedded_sandbox, running_daemon
from worker.config import Config, load_config
from worker.engine.ports import CycleReport
from worker.ledger.reading import LedgerReader, open_reading
from worker.logs import configure
from worker.model.commits import LogFilter, Record
from worker.model.errors import UsageError, WorkerError
from worker.model.facts import Json
from worker.rules.spelling import duration_text
from worker.sandbox.app import DEFAULT_PORT, SandboxError, serve
from worker.sandbox.changes import MAX_EVENTS
from worker.sandbox.service import Twin
from worker.sandbox.settings import SandboxInputError
from worker.sandbox.start import DEMO_EVENTS, FIRST_DAY, STANDARD, built, dialects
from worker.system import SystemClock

app = typer.Typer()


@app.command("sandbox")
def sandbox(
    port: Annotated[int, typer.Option(help="Loopback port; 0 for any free one.", min=0, max=65535)] = DEFAULT_PORT,
    story: Annotated[Path | None, typer.Option(help="A story file: what happens when (docs/sandbox.md).")] = None,
    events: Annotated[
        int | None, typer.Option(help=f"How many events; {DEMO_EVENTS} by default.", min=1, max=MAX_EVENTS)
    ] = None,
    dialect: Annotated[
        str, typer.Option(help=f"How the service is where its document is silent: {', '.join(dialects())}.")
    ] = STANDARD,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="NAME=VALUE: any setting of docs/sandbox.md; can be repeated.")
    ] = None,
    faults: Annotated[
        list[str] | None,
        typer.Option("--fault", help="What goes wrong: 'KIND [METHOD] [PATH] [NAME=VALUE …]'; can be repeated."),
    ] = None,
) -> None:
    """Serve a simulator of the service on loopback, which keeps its own record of what took effect.

    Prints the addresses for a config on stderr, and with a dialect the assumptions that go with it. Sign in as sandbox
    / sandbox. The page at / shows events, requests and books; faults and changes are asked for under /_sandbox/ as well
    (docs/sandbox.md). The story, and every time in the books (at_s), counts in seconds from the first request.

    Example: campaign-worker sandbox --events 50 --fault 'answer_after PUT /client_campaign_status times=2 status=503'
    """
    clock = SystemClock()
    try:
        service = built(story, events, FIRST_DAY, dialect=dialect, settings=settings or (), faults=faults or ())
        tell_dialect(dialect)
        asyncio.run(serve(service, clock=clock.monotonic, sleep=clock.sleep, port=port))
    except SandboxInputError as error:
        raise UsageError(str(error), hint="docs/sandbox.md shows every word of it") from error
    except SandboxError as error:
        raise WorkerError(str(error)) from error


def tell_dialect(name: str) -> None:
    """The lines that a config needs for a dialect; `campaign-worker probe` finds those that reading can show."""
    if dialects()[name].tells:
        say("assumptions:")
        for key, value in dialects()[name].tells.items():
            say(f"  {key}: {json.dumps(value, ensure_ascii=False)}")


# ``demo``: the whole story in under two minutes, on the embedded sandbox.
#
# A real daemon, a real ledger in a temporary folder, a real socket to the twin; only the times of the ``safety``
# section are shortened, so that a lost answer is settled in seconds instead of minutes. What it shows while it runs
# are the records of the action log as they are made, and what it says at the end comes from the twin's own books.

STORY_S = 66.0
LONGEST = timedelta(seconds=112)
ASK_EVERY_S = 0.5
SETTLE = "8s"
SHOWN = ("fired", "sending", "applied", "unknown", "evidence", "confirmed", "needs_human", "rejected", "refused")
"""The kinds of records that are shown."""
LOG_NAMES = ("at", "kind", "event", "write", "action", "why")
STORY = """\
For about a minute a service is simulated: events are cancelled, and drafts get another recommended audience.
Two rules, below, pause the former and publish the latter. Four writes lose their answers: two to a 429, two to a
connection that is cut. Half of these four took effect all the same. The worker finds out which by reading, sends the
others again, and repeats none. At the end the simulator opens its own books.

(In real time: a poll every {every}. What a lost answer takes to be settled, safety.settle, is {settle} here, not 2m.
The service is at {url}.)
"""
CONFIG = f"""\
api: {{timeout: 5s}}
ledger: sqlite:///demo.db
safety: {{settle: {SETTLE}, evidence_within: 60s, confirm_within: 30s}}
"""


@app.command("demo")
def demo() -> None:
    """Show the whole story on a sandbox: events change, rules fire, answers get lost, nothing is repeated.

    Takes about a minute, and needs nothing: no account, no config, no network.
    """
    configure(telling=True)
    with TemporaryDirectory(prefix="campaign-worker-demo-") as folder:
        config = _prepared(Path(folder))
        service = asyncio.run(_played(config, Show()))
        with open_reading(ledger_url(config)) as ledger:
            _closing(ledger, service)


class Show:
    """Where the story is shown: a line for each record that matters, and on a terminal how far it is below them."""

    def __init__(self) -> None:
        self.console = Console(stderr=True, highlight=False, markup=False)
        self.clock = SystemClock()
        self._began = self.clock.monotonic()

    @property
    def at_s(self) -> float:
        """How far the story is."""
        return self.clock.monotonic() - self._began

    def tell(self, record: Record) -> None:
        """One record of the action log, as it is made."""
        if record.kind not in SHOWN:
            return
        why = (record.why[:100] + "…") if len(record.why) > 101 else record.why
        self.console.print(f"{self.at_s:6.1f}s  ", end="", style="dim")
        self.console.print(f"{record.kind:<12}", end="", style=STYLES.get(record.kind))
        who, what = _whose(record.partner, record.event), record.action or record.rule or ""
        self.console.print(f"{who:<17} {what:<8} {why}", soft_wrap=True)

    def cycle(self, _report: CycleReport) -> None:
        """Nothing that the audience needs."""

    def note(self, message: str, **_keys: object) -> None:
        """Nothing that the audience needs."""

    def alarm(self, message: str, **keys: object) -> None:
        """A trouble, shown as it comes."""
        self.console.print(f"{message}: {keys}", style="red")


def _prepared(folder: Path) -> Config:
    rules = folder / "rules"
    rules.mkdir()
    shipped = Path(__file__).parent / "demo_rules.yaml"
    (rules / "demo.yaml").write_text(shipped.read_text("utf-8"), encoding="utf-8")
    file = folder / "config.yaml"
    file.write_text(CONFIG, encoding="utf-8")
    return load_config(file)


async def _played(config: Config, stage: Show) -> Twin:
    """The story to its end: until nothing is open any more, or somebody ends it earlier."""
    told: list[int] = []
    for number in stopping():
        asyncio.get_running_loop().add_signal_handler(number, told.append, number)
    service = built(None, None, stage.clock.now() + FIRST_EVENT_IN)
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(embedded_sandbox(stage.clock, service))
        say(STORY.format(every=duration_text(config.poll.interval), settle=SETTLE, url=address.url("api")))
        say((config.rules / "demo.yaml").read_text("utf-8").partition("#\n")[2])
        daemon = await stack.enter_async_context(
            running_daemon(config, FolderSource(config), reporter=stage, tell=stage.tell, address=address)
        )
        shown = stack.enter_context(stage.console.status("signing in"))
        running = asyncio.ensure_future(daemon.run(lasting=LONGEST))
        while not running.done():
            await stage.clock.sleep(ASK_EVERY_S)
            books = service.books.summary()
            shown.update(f"{stage.at_s:4.0f}s  sent {books['writes_sent']}, effects {books['effects']}")
            if told or (stage.at_s > STORY_S and not _open(config)):
                daemon.stop()
                break
        await running
    if told:
        say("stopped before the end of the story; nothing is left of it")
        raise typer.Exit(128 + told[0])
    return service


def _open(config: Config) -> bool:
    with open_reading(ledger_url(config)) as ledger:
        return bool(ledger.open_writes())


def _closing(ledger: LedgerReader, service: Twin) -> None:
    """The action log, and the sandbox's own books as the last lines."""
    records = [record for record in ledger.log(LogFilter()) if record["kind"] in SHOWN]
    print_table("the action log (2.1 is the first attempt of write 2)", LOG_NAMES, map(log_row, records))
    met = sorted({f"{seen.fault} ({seen.method} {seen.path})" for seen in service.books.requests if seen.fault})
    print("what the sandbox did to the worker: " + "; ".join(met))
    broken = ledger.verify()
    print(f"the log's chain {'holds' if broken is None else 'is BROKEN'}: {ledger.last_seq()} records")
    print(f"manners the sandbox found wanting: {len(service.violations())}")
    summary = service.books.summary()
    left = ledger.open_writes()
    print(f"writes sent {summary['writes_sent']}, effects {summary['effects']}, repeated {summary['repeated']}")
    if summary["repeated"] or broken is not None or left or service.violations():
        why = f"the demo did not end as it should: {len(left)} writes open, {summary['repeated']} repeated"
        raise WorkerError(why, hint="this is a defect; the table above shows the way to it")


def log_row(record: Mapping[str, Json]) -> list[Json]:
    """One record as the closing table has it; what was answered stands in the words."""
    at = record["at"]
    attempt = f"{record['write']}.{record['attempt']}" if record["attempt"] else record["write"]
    return [
        at[11:21] if isinstance(at, str) else at,
        record["kind"],
        _whose(record["partner"], record["event"]),
        attempt,
        record["action"],
        record["why"],
    ]


def _whose(partner: Json, event: Json) -> str:
    """Partner and event in one word, as the passing lines have them."""
    return f"{partner or ''}/{event or ''}".replace("partner-id-", "")
