"""The proof of the prover: flaws that are put into the worker on purpose, and the worlds in which each is found.

Each flaw is a small change of the worker's own source, made in memory while a block lasts. A judge that lets one pass
proves nothing; `tests/simulation/test_mutations.py` plays every one.
"""

import importlib
import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from types import FunctionType
from typing import Any, cast
from unittest.mock import patch

import httpx

from tests.simulation import process
from tests.simulation.loop import OWNER
from tests.simulation.nemesis import Try
from tests.virtual import EPOCH
from worker.api import transport

Change = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A flaw, and the worlds that show it; at least one of them must. ``tested_by``: the test that finds it, where no
    world has what it needs."""

    name: str
    why: str
    applied: Callable[[], AbstractContextManager[None]]
    shown_by: tuple[Try, ...] = ()
    tested_by: str = ""


def _found(where: str) -> FunctionType:
    """The worker's function of ``module:name`` or ``module:Class.name``, without its decorators."""
    module, _, path = where.partition(":")
    found: Any = importlib.import_module(f"worker.{module}")
    for name in path.split("."):
        found = found.__dict__[name] if isinstance(found, type) else getattr(found, name)
    if isinstance(found, classmethod | staticmethod):
        found = found.__func__
    if isinstance(found, property):
        found = found.fget
    return cast(FunctionType, inspect.unwrap(found))


def flaw(where: str, *changes: Change) -> Callable[[], AbstractContextManager[None]]:
    """A change of a function's source: each first text, which must be there, becomes the second. The function itself is
    changed, so that it does not matter who has imported it or in which table it stands."""

    @contextmanager
    def applied() -> Iterator[None]:
        function = _found(where)
        source = textwrap.dedent(inspect.getsource(function))
        for old, new in changes:
            assert old in source, f"{where} has no {old!r} any more: the mutation must be brought up to date"
            source = source.replace(old, new, 1)
        made: dict[str, Any] = {}
        lines = source.split("\n")
        first = next(index for index, line in enumerate(lines) if line.startswith(("def ", "async def ")))
        exec(compile("\n".join(lines[first:]), f"<flaw in {where}>", "exec"), function.__globals__, made)  # noqa: S102 - our own text
        kept = function.__code__
        function.__code__ = made[function.__name__].__code__
        try:
            yield
        finally:
            function.__code__ = kept

    return applied


def several(*parts: Callable[[], AbstractContextManager[None]]) -> Callable[[], AbstractContextManager[None]]:
    """Some changes at once."""

    @contextmanager
    def applied() -> Iterator[None]:
        if not parts:
            yield
            return
        with parts[0](), several(*parts[1:])():
            yield

    return applied


@contextmanager
def _by_the_wall() -> Iterator[None]:
    """Order and waits are taken from the wall clock."""

    def monotonic(self: process.SimClock) -> float:
        return (self.now() - EPOCH).total_seconds()

    with patch.object(process.SimClock, "monotonic", monotonic):
        yield


@contextmanager
def _kept_connections() -> Iterator[None]:
    """All reads go over one connection, as long as that is used."""
    kept: list[httpx.AsyncBaseTransport] = []

    class Kept:
        def __init__(self, made: Callable[[], httpx.AsyncBaseTransport]) -> None:
            self._made = made

        async def __aenter__(self) -> httpx.AsyncBaseTransport:
            if not kept or kept[0]._owner != OWNER.get():  # type: ignore[attr-defined]  # the simulation's own
                kept[:] = [self._made()]
            return kept[0]

        async def __aexit__(self, *_: object) -> None:
            """It is kept."""

    async def read(self: transport.Wire, request: httpx.Request, bytes_max: int) -> transport.Whole:
        made = self._transports.reads
        return await self._whole(lambda: Kept(made), request, bytes_max)  # type: ignore[arg-type,return-value]

    with patch.object(transport.Wire, "read", read), patch.dict(transport.ALWAYS, {"Connection": "keep-alive"}):
        yield


def at(scene: str, kind: str, name: str, nth: int = 0) -> Try:
    """A named scene with a harm at the nth point of a kind of its fault-free run."""
    return Try(scene=scene, named=((kind, nth, name),))


def plain(scene: str) -> Try:
    """A named scene as it is."""
    return Try(scene=scene)


def gives_up(when: str, reason: str) -> Callable[[], AbstractContextManager[None]]:
    """What is still unknown ends as skipped, for this reason, as soon as this is so."""
    gone = f"""    if {when}:
        gone = move(write, "skipped", at=now, reason="{reason}", why="never mind")
        return Next(move=gone, settling=None, then="rest")
    young = now"""
    return flaw("writes.life:_still_unknown", ("    young = now", gone))


def stops_at(way: str) -> Callable[[], AbstractContextManager[None]]:
    """A step that has any before it is held, or skipped, whatever became of those."""
    each = "    for write in situation.earlier:\n"
    ends = f'        return No(way="{way}", reason="sequence", why="never mind")\n'
    return flaw("guards:sequence", (each, each + ends))


_SENT_BEFORE = (
    "    outcome = await self._outward.send(write, self._outward.request_for(write), not_after=9e9)\n"
    "        sending, request,"
)
_ALL_UNKNOWN = """unsettled = ('unknown', 'needs_human')
    everybody = self._ledger.open_writes(write.key.partner)
    return others, tuple(one for one in everybody if one.id != write.id and one.state in unsettled)"""
HIDDEN = at("pause", "write", "429 applied")
CLEAN = at("pause", "write", "429 clean")
ONCE = "    return await self._whole(self._transports.writes, request, ANSWER_BYTES_MAX)"
TWICE = f"""    try:
        {ONCE.strip()}
    except httpx.TransportError:
        {ONCE.strip()}"""
AS_IF_NOT_SENT = """back = move(write, "planned", at=now, reason="not_sent", why=why)
        return Next(move=back, settling=None, then="send")"""
ROUNDED = (
    "tests/engine/test_undo.py"
    "::test_an_undo_of_what_is_shown_rounded_as_it_was_before_is_sent_once_and_not_taken_for_done"
)

_ALL: tuple[Mutant, ...] = (
    Mutant(
        name="send before the record",
        why="the request leaves before its sending is on disk",
        applied=flaw(
            "engine.execute:Executor.attempt",
            ("    sending, request,", _SENT_BEFORE),
            ("outcome = await self._outward.send(write, request, not_after=not_after)\n", "pass\n"),
        ),
        shown_by=(plain("pause"),),
    ),
    Mutant(
        name="a record that failed",
        why="a write is sent although its record could not be made",
        applied=flaw(
            "engine.execute:Executor._record_sending",
            (
                "held = self._ledger.record_sending(sending)",
                "try: held = self._ledger.record_sending(sending)\n    except SendingUnmarked: held = None",
            ),
        ),
        shown_by=(at("many at once", "mark", "disk full"),),
    ),
    Mutant(
        name="429 is a no",
        why="a 429 is taken for a refusal",
        applied=flaw("api.exchanges:outcome_of_answer", ("status in REFUSALS", "status in REFUSALS | {429}")),
        shown_by=(HIDDEN,),
    ),
    Mutant(
        name="5xx is a no",
        why="an error of the service is taken for a refusal",
        applied=flaw("api.exchanges:outcome_of_answer", ("status in REFUSALS", "status in REFUSALS or status >= 500")),
        shown_by=(at("pause", "write", "500 applied"),),
    ),
    Mutant(
        name="429 was not sent",
        why="a 429 is taken for a request that never happened",
        applied=flaw(
            "api.exchanges:outcome_of_answer",
            ("in REFUSALS:", "== 429:\n        return NotSent(cause='connect', why='429')\n    if status in REFUSALS:"),
        ),
        shown_by=(HIDDEN,),
    ),
    Mutant(
        name="a cut was not sent",
        why="a broken connection is taken for one that never was",
        applied=flaw("api.exchanges:outcome_of_error", ("Uncertain(why", "NotSent(cause='connect', why")),
        shown_by=(at("pause", "write", "cut after"),),
    ),
    Mutant(
        name="one read is enough",
        why="a single read that does not show the effect is taken for its absence",
        applied=flaw("writes.life:_proved_absent", ("settling.absent < policy.evidence_reads", "settling.absent < 1")),
        shown_by=(Try(scene="pause", named=(("write", 0, "429 clean"),), blind_s=(8.0, 19.0)),),
    ),
    Mutant(
        name="settle is not waited for",
        why="absence is believed before the latest moment at which an effect may land",
        applied=flaw(
            "writes.life:_proved_absent",
            ("settling.last_read - settling.ended - settling.late_s >= policy.settle.total_seconds()", "True"),
        ),
        shown_by=(at("pause", "write", "cut before"), at("pause", "write", "504 applied after 8 s")),
    ),
    Mutant(
        name="time is a permit",
        why="an unknown write is sent again because its back-off is over",
        applied=flaw("writes.life:may_resend", ("return _proved_absent(settling, policy) and ", "return ")),
        shown_by=(at("pause", "write", "504 applied after 8 s"), CLEAN),
    ),
    Mutant(
        name="a crash was not sent",
        why="a row found in sending at start is planned again",
        applied=flaw(
            "writes.life:advance",
            (
                (
                    'unknown = _became_unknown(write, reason, f"{why}; whether it took effect is not known", '
                    "policy, now, monotonic)"
                ),
                AS_IF_NOT_SENT,
            ),
        ),
        shown_by=(at("pause", "write", "killed after the last byte"),),
    ),
    Mutant(
        name="synchronous=NORMAL",
        why="a commit returns before it is on the disk",
        applied=flaw(
            "ledger.database:make_durable",
            ("PRAGMA synchronous=FULL", "PRAGMA synchronous=NORMAL"),
            ("or synchronous != FULL", ""),
        ),
        shown_by=(
            at("pause", "write", "power cut after the effect"),
            at("boost", "write", "power cut after the effect"),
        ),
    ),
    Mutant(
        name="wall clock for order",
        why="waits are measured by a clock that people set",
        applied=_by_the_wall,
        shown_by=(
            Try(scene="pause", named=(("write", 0, "429 clean"), ("read", 12, "clock an hour ahead"))),
            Try(scene="pause", named=(("write", 0, "504 applied after 8 s"), ("read", 12, "clock an hour ahead"))),
        ),
    ),
    Mutant(
        name="no high-water check",
        why="a restored ledger is gone on with",
        applied=flaw("ledger.mark:compared", ("mark.hash != (found.hash if mark.seq else GENESIS)", "False")),
        shown_by=(plain("restored"),),
    ),
    Mutant(
        name="no mark",
        why="the mark beside the ledger is not replaced",
        applied=flaw("ledger.sql:SqlLedger._remember", ("elif self._store.place is not None:", "elif False:")),
        shown_by=(plain("pause"),),
    ),
    Mutant(
        name="a halt without a mark",
        why="the mark beside the ledger does not follow what a person says",
        applied=flaw("ledger.sql:SqlLedger.mark_words", ("if place is None:", "if True:")),
        shown_by=(plain("halt forgotten"),),
    ),
    Mutant(
        name="a client that repeats",
        why="the client sends a write again by itself when its connection breaks",
        applied=flaw("api.transport:Wire.write", (ONCE, TWICE)),
        shown_by=(at("pause", "write", "cut after"),),
    ),
    Mutant(
        name="caps count only successes",
        why="attempts whose outcome is unknown cost nothing",
        applied=flaw("ledger.reading:view_of", ("execute(_SENT", "execute(_SENT.where(_A.outcome == 'accepted')")),
        shown_by=(at("few an hour", "write", "429 applied"),),
    ),
    Mutant(
        name="no cap on writes",
        why="the number of writes in an hour is not looked at",
        applied=flaw("guards:held_in_transaction", ("len(sent) >= most", "False")),
        shown_by=(plain("few an hour"),),
    ),
    Mutant(
        name="attempts without end",
        why="max_attempts is not looked at",
        applied=flaw("writes.life:attempts_left", ("return write.counted <", "return True or write.counted <")),
        shown_by=(Try(scene="stubborn", always=("write", "cut before")),),
    ),
    Mutant(
        name="an empty list is a change",
        why="a list that is not computed yet is taken for one that lost its items",
        applied=several(
            flaw("rules.facts:normalised", ("if watch.fact in BY_DEFAULT and not value:", "if False:")),
            flaw("api.facts:_suggested_tcs", ("if not value:", "if False:")),
        ),
        shown_by=(plain("not computed"),),
    ),
    Mutant(
        name="baseline outside the transaction",
        why="memory moves although the decision was not stored, and stays so",
        applied=several(
            flaw(
                "engine.deciding:Decider._decided_on",
                ("state.stored.commit", "_take(state, commit.memory)\n    state.stored.commit"),
            ),
            flaw("engine.deciding:Decider._taken_up", (" or state.stored.trial is not None", "")),
        ),
        shown_by=(Try(scene="clusters", full_s=(8.0, 13.0)),),
    ),
    Mutant(
        name="unknown closes an episode",
        why="a condition that cannot be told is taken for false",
        applied=flaw(
            "engine.episodes:decide_condition",
            ("judgement.truth is Truth.UNKNOWN", "False"),
            ("Truth.FALSE:", "not Truth.TRUE:"),
        ),
        shown_by=(Try(scene="pause", named=(("read", 6, "wrong types"),)),),
    ),
    Mutant(
        name="late senders send",
        why="a process that was stopped for longer than the time-out sends all the same",
        applied=flaw("api.exchanges:Exchanges.write", ("self._clock.monotonic() > not_after", "False")),
        shown_by=(at("pause", "write", "stalled 15 s before the first byte"),),
    ),
    Mutant(
        name="halts are not read",
        why="a halt is looked at nowhere",
        applied=flaw("guards:halted", ("No | None:", "No | None:\n    return None")),
        shown_by=(plain("halted"),),
    ),
    Mutant(
        name="no lock",
        why="a second process may send from the same ledger",
        applied=flaw("ledger.lock:_exclusive", ("for _ in range", "return True\n    for _ in range")),
        shown_by=(plain("two"),),
    ),
    Mutant(
        name="no quiet start",
        why="a started process reads at once",
        applied=several(
            flaw(
                "engine.daemon:Daemon.run",
                ("await self._or_stop(self._clock.sleep(self._settings.interval.total_seconds()))", "pass"),
            ),
            flaw(
                "reading.gate:Gate.opens_at",
                ("self._open_at if asked is None else max(self._open_at", "0.0 if asked is None else max(0.0"),
            ),
        ),
        shown_by=(plain("pause"),),
    ),
    Mutant(
        name="no floor",
        why="the same resource is read as often as anybody asks",
        applied=flaw("reading.gate:Gate._wait_for_floor", ("until = self.opens_at(*key)", "until = 0.0")),
        shown_by=(plain("pause"), CLEAN),
    ),
    Mutant(
        name="Retry-After is not heard",
        why="the wait that the service asks for is not kept",
        applied=flaw("api.exchanges:retry_after", ("all(re.fullmatch(", "all(None and re.fullmatch(")),
        shown_by=(at("pause", "read", "429, Retry-After ten years", 4),),
    ),
    Mutant(
        name="Retry-After ends with its process",
        why="a process that is started anew asks at once, whatever the one before was asked for",
        applied=flaw("reading.gate:Pacer.go_on_waiting", ("timedelta(0) < left <= LONGEST_RETRY_AFTER", "False")),
        shown_by=(at("started anew", "read", "429, Retry-After ten years", 4),),
    ),
    Mutant(
        name="sent though not wanted",
        why="the condition is not judged again before the first byte",
        applied=flaw("guards:condition_holds", ("judgement = situation.judgement", "return None")),
        shown_by=(at("wanted no more", "write", "429 clean"),),
    ),
    Mutant(
        name="an answer is a proof",
        why="a 2xx confirms a write without a read",
        applied=flaw("writes.life:_after_attempt", ("if not policy.reads_back:", "if True:")),
        shown_by=(plain("task fails"),),
    ),
    Mutant(
        name="overtaken and forgotten",
        why="an opposite write that a pause had overtaken lands after it, and the pause is not sent anew",
        applied=flaw("writes.life:_after_read", ('read.overtook == "landed"', "False")),
        shown_by=(at("overtaken", "write", "504 after 8 s, applied after 11 s"),),
    ),
    Mutant(
        name="a granted attempt asks no rule",
        why="what a person granted another attempt is sent against a stronger wish",
        applied=flaw("engine.preflight:WhoAsks._overruled", (" and not write.sent", "")),
        shown_by=(at("stop overtakes", "write", "hang after"),),
    ),
    Mutant(
        name="two read one task",
        why="an overtaken write goes on reading the task of the one that came after it",
        applied=flaw("engine.settle:Settler._task", ("if own is not None and any(", "if False and any(")),
        shown_by=(at("stop overtakes", "write", "stalled 5 s before the first byte"),),
    ),
    Mutant(
        name="presence is not believed",
        why="a read that shows the effect confirms nothing",
        applied=flaw("writes.life:_after_read", ('read.evidence.says == "there":', "False:")),
        shown_by=(plain("pause"),),
    ),
    Mutant(
        name="a restart counts as waiting",
        why="a row found in sending is as old as if this process had watched it all the time",
        applied=flaw("writes.life:advance", (", late_s=event.late_s", " - 12.0")),
        shown_by=(at("pause", "write", "killed before the first byte"),),
    ),
    Mutant(
        name="tasks are asked at once",
        why="the waits between reads of a task are not kept",
        applied=flaw("engine.settle:Settler._task", ("self._clock.monotonic() < watch.due", "False")),
        shown_by=(CLEAN, at("pause", "write", "cut before")),
    ),
    Mutant(
        name="approval is not asked",
        why="what should wait for a person goes off",
        applied=flaw("engine.views:mode_of", ("    return ", "    return 'live' or ")),
        shown_by=(plain("approve"),),
    ),
    Mutant(
        name="a chain that starts anew",
        why="each transaction begins its own chain of hashes",
        applied=flaw("ledger.log:Journal.__init__", ("hash=row.hash", 'hash="0" * 64')),
        shown_by=(plain("pause"),),
    ),
    Mutant(
        name="a sending without a record",
        why="the row says sending and the log does not",
        applied=flaw("ledger.sql:make_move", ("move.records", "move.records if move.after.state != 'sending' else ()")),
        shown_by=(plain("pause"),),
    ),
    Mutant(
        name="a restored write is planned",
        why="what was open in a restored ledger is sent again without a person",
        applied=flaw(
            "writes.life:restored", ('state="needs_human"', 'state="planned"'), ('"needs_human"', '"planned"')
        ),
        shown_by=(at("mark lost", "write", "429 clean"),),
    ),
    Mutant(
        name="everything is so already",
        why="a write is skipped although its target has another value",
        applied=flaw("guards:target_says", ("if so and not any", "if True or not any")),
        shown_by=(plain("pause"),),
    ),
    Mutant(
        name="silently given up",
        why="what is proved absent is neither sent again nor put before a person",
        applied=gives_up("may_resend(write, settling, policy, monotonic)", "attempts"),
        shown_by=(at("pause", "write", "503 clean"),),
    ),
    Mutant(
        name="given up at the first absence",
        why="a write ends as skipped before settle is over, and its effect lands",
        applied=gives_up("read.evidence.says == 'not_there'", "no_longer_holds"),
        shown_by=(at("boost", "write", "504 applied after 8 s"),),
    ),
    Mutant(
        name="a second step for ever held",
        why="the next step of a sequence is never sent",
        applied=stops_at("hold"),
        shown_by=(plain("launch"),),
    ),
    Mutant(
        name="a second step skipped",
        why="the next step of a sequence ends although the one before it is confirmed",
        applied=stops_at("skip"),
        shown_by=(plain("launch"),),
    ),
    Mutant(
        name="a person's yes sends again",
        why="what a person says is there is sent once more",
        applied=flaw("writes.life:_verdict", ("    if event.applied:", "    if event.applied and write.attempt == 0:")),
        shown_by=(at("hide", "write", "429 applied", 1),),
    ),
    Mutant(
        name="an edited rule fires again",
        why="a condition that was true by the old text opens an episode by the new one",
        applied=flaw(
            "engine.episodes:while_true",
            ("memory.open:", "memory.open or (memory.fired and view.rule.priority == 3 and memory.episode < 2):"),
        ),
        shown_by=(plain("edited"),),
    ),
    Mutant(
        name="one unknown holds all",
        why="a write that nobody knows of holds up the writes of other events",
        applied=flaw(
            "engine.execute:Executor._on_target",
            ("return others, tuple(one for one in others if holds_back(one, write))", _ALL_UNKNOWN),
        ),
        shown_by=(at("pause", "write", "503 clean"),),
    ),
    Mutant(
        name="no cooldown",
        why="a rule that enforces acts again at once",
        applied=several(
            flaw("engine.episodes:_enforced", ("within(moments, view.now, cooldown)", "[]")),
            flaw("engine.views:held_by_pace", ("    cooldown = rule.cooldown\n", "    cooldown = None\n")),
        ),
        shown_by=(plain("enforce"),),
    ),
    Mutant(
        name="an end without its record",
        why="the row says confirmed and the log does not",
        applied=flaw(
            "ledger.sql:make_move", ("move.records", "move.records if move.after.state != 'confirmed' else ()")
        ),
        shown_by=(plain("pause"),),
    ),
    *(
        Mutant(
            name=f"any other value is {says}",
            why="what is neither as before nor as wanted is not put before a person",
            applied=flaw(
                "writes.evidence:judge",
                (
                    'return Evidence(says="cannot_tell", value=value, why=why, third=third)',
                    f'return Evidence(says="{says}", value=value, why=why)',
                ),
            ),
            shown_by=(at("third value", "write", "429 clean"),),
        )
        for says in ("there", "not_there")
    ),
    Mutant(
        name="a header that breaks the look",
        why="a Retry-After that nobody can read ends the task that reads",
        applied=flaw("api.exchanges:http_date", ("(ValueError, TypeError, IndexError, OverflowError)", "KeyError")),
        shown_by=(at("pause", "read", "429, Retry-After words", 4),),
    ),
    Mutant(
        name="what cannot be told counts on",
        why="a read that could not tell does not start the row of reads anew",
        applied=flaw("writes.life:_counted", ("absent=0, last_read", "absent=settling.absent, last_read")),
        shown_by=(Try(scene="boost", named=(("write", 0, "503 clean"), ("read", 15, "fields missing"))),),
    ),
    Mutant(
        name="money is no object",
        why="budgets are sent beyond the limit of a day",
        applied=flaw("guards:_passed", ("if limit is None or total <= limit:", "if True:")),
        shown_by=(plain("dear"),),
    ),
    Mutant(
        name="a week that is over at once",
        why="budgets are sent beyond the limit of a week",
        applied=flaw("guards:held_by_spend", ("counted, now, WEEK", "counted, now, HOUR / 3600")),
        shown_by=(plain("dear week"),),
    ),
    Mutant(
        name="what nobody knows costs nothing",
        why="the limit of a week counts only what is known to have come to something",
        applied=flaw("ledger.rows:settle_attempt", ("after.state, UNKNOWN", "after.state, ABSENT")),
        shown_by=(Try(scene="dear week", named=(("write", 0, "429 applied"), ("write", 1, "429 applied"))),),
    ),
    Mutant(
        name="one event takes it all",
        why="budgets are sent beyond the limit of an event",
        applied=flaw("guards:held_by_spend", ("of_event, limit.per_event,", "of_event, None,")),
        shown_by=(plain("dear event"),),
    ),
    Mutant(
        name="a surge goes through",
        why="a rule that fires for too many events asks nobody",
        applied=flaw("engine.planning:Planner._surging", ("if len(pieces) > surge.events:", "if False:")),
        shown_by=(plain("surge"),),
    ),
    Mutant(
        name="as often as it likes",
        why="a rule acts on an event more often than its limit a day",
        applied=flaw("engine.views:held_by_pace", ("is not None and len(recent)", "and False")),
        shown_by=(plain("seldom"),),
    ),
    Mutant(
        name="at once",
        why="a condition that has to last is acted on at the first look",
        applied=flaw("engine.views:held_by_pace", ("    if rule.hold_for is not None and", "    if False and")),
        shown_by=(plain("patient"),),
    ),
    Mutant(
        name="since the first time",
        why="how long a condition has lasted is counted through times when it was false",
        applied=flaw(
            "engine.views:held_by_pace",
            ("view.rule, view.now\n", "view.rule, view.now\n    since = since and min(since, now.replace(second=7))\n"),
        ),
        shown_by=(plain("patient"),),
    ),
    Mutant(
        name="a silence is none",
        why="what changed while nobody looked for an hour is sent without a person's word",
        applied=flaw(
            "engine.views:silence_before",
            ('memory.after_gap_at:\n        return "gap"', "memory.after_gap_at:\n        return None"),
        ),
        shown_by=(plain("silence"),),
    ),
    Mutant(
        name="anybody's setup",
        why="the setup of another event is taken for the one that was asked for",
        applied=flaw("api.facts:_setup", ("    if whose is not None and", "    if False and")),
        shown_by=(at("boost", "read", "another object", 10),),
    ),
    Mutant(
        name="a restored ledger asks nobody",
        why="what is true at the first look after a loss is sent without a person's word",
        applied=flaw("engine.views:silence_before", ('return "restored"', "return None")),
        shown_by=(plain("restored"),),
    ),
    Mutant(
        name="order by the wall clock",
        why="which of two opposite writes was sent last goes by times, and a clock that is set back turns them round",
        applied=flaw("model.writes:Write.sending_order", ("(self.sent_seq, ", "(0, ")),
        shown_by=(at("turned round", "write", "504 after 8 s, applied after 11 s"),),
    ),
    Mutant(
        name="under way for ever",
        why="a write whose commit failed counts as under way for good, and the next 401 holds all others",
        applied=flaw(
            "engine.execute:Executor.attempt",
            (
                "finally:\n        state.in_flight.pop",
                "except ZeroDivisionError: pass\n    else:\n        state.in_flight.pop",
            ),
        ),
        shown_by=(Try(scene="called off", named=(("commit", 8, "disk full"), ("write", 0, "401 refused"))),),
    ),
    Mutant(
        name="claimed for ever",
        why="looks leave the facts of an event alone for good after a pre-flight that broke off",
        applied=flaw(
            "engine.preflight:Preflight.together",
            ("finally:\n        state.claimed", "except ZeroDivisionError: pass\n    else:\n        state.claimed"),
        ),
        shown_by=(Try(scene="boost and after", named=(("read", 8, "fields missing"), ("commit", 8, "disk full"))),),
    ),
    Mutant(
        name="back before the list is whole",
        why="what some pages show of an event that was away is decided on as if it had been there all the time",
        applied=flaw("engine.observe:Reader._of_part", (" - state.memory.gone.keys()", "")),
        shown_by=(plain("away from a long list"),),
    ),
    Mutant(
        name="unconfirmed though seen",
        why="what the service accepted ends as unconfirmed by the very read that shows it",
        applied=flaw(
            "writes.life:_after_read", ('"confirmed",', '"unconfirmed" if write.state == "applied" else "confirmed",')
        ),
        shown_by=(plain("set back"),),
    ),
    Mutant(
        name="presence is believed late",
        why="a read that shows the effect counts only once settle is over",
        applied=flaw("writes.life:_after_read", ('"there":\n', '"there" and read.began - settling.ended >= 12.0:\n')),
        shown_by=(at("set back", "write", "429 applied"),),
    ),
    Mutant(
        name="an undo over another hand",
        why="an undo is sent although another hand has set the target since",
        applied=flaw("guards:as_it_was_left", ("write = situation.write", "return None\n    write = situation.write")),
        shown_by=(plain("undone too late"),),
    ),
    Mutant(
        name="an undo over a hand that came and went",
        why="what looks have seen another hand do while an undo was held is not asked before it is sent",
        applied=flaw("guards:as_it_was_left", ("if touched is None", "if True")),
        shown_by=(plain("undone, there and back"),),
    ),
    Mutant(
        name="other hands by the wall clock",
        why="what another hand did since a write goes by times, and a clock that is set back hides it",
        applied=flaw("engine.operators:_by_another", ("one.seq <= after", "one.at < (write.last_sent_at or one.at)")),
        shown_by=(plain("undone an hour back"),),
    ),
    Mutant(
        name="nothing that has ended is ours",
        why="a change that a write has made is another hand's once that write is final",
        applied=flaw("engine.derived:attributed", ("write in writes", "write in writes if not write.final")),
        shown_by=(plain("pause"),),
    ),
    Mutant(
        name="stored, and told again",
        why="changes whose commit was reported as failed, and is there, are told once more",
        applied=flaw("engine.state:Stored.commit", ("if self.trial is not None and", "if False and")),
        shown_by=(at("pause", "commit", "sync fails, though it is there", 6),),
    ),
    Mutant(
        name="a change that is never told",
        why="the record of a change is lost with the commit that failed",
        applied=flaw("engine.state:Stored.commit", ("try:\n        made", "self.took(trial)\n    try:\n        made")),
        shown_by=(at("pause", "write", "429 applied, disk full for 8 s"),),
    ),
    Mutant(
        name="what is lacking is forgotten",
        why="what a field was before a list lacked it is forgotten, and what it became meanwhile is in no record",
        applied=flaw("engine.state:_missed", ("if name in known", "if False")),
        shown_by=(Try(scene="dear event", named=(("read", 11, "fields missing"),)),),
    ),
    Mutant(
        name="what was lacking is known to one process",
        why="a process does not ask what a field was before the answers began to lack it, before it was started",
        applied=flaw("engine.state:Stored.load", ("if one.last:", "if False:")),
        shown_by=(Try(scene="dear event", named=(("read", 9, "fields missing"), ("commit", 11, "killed after"))),),
    ),
    Mutant(
        name="an undo that waits is none",
        why="a write is sent once more while its undo waits for approval",
        applied=flaw("writes.undo:put_back_by", ("one.state in UNSENT", 'one.state == "planned"')),
        shown_by=(Try(seed=12_631_893),),
    ),
    Mutant(
        name="whoever was told of since",
        why="a change that was seen before a write, and told after it, is another hand's since",
        applied=flaw(
            "engine.operators:_by_another",
            ("facts[name] == write.intent.wanted.get(write.intent.target) and not came", "False"),
        ),
        shown_by=(Try(seed=11_404_699),),
    ),
    Mutant(
        name="sent once more to be undone",
        why="an unknown write that a person has put back is sent again where it is proved absent",
        applied=flaw("guards:put_back", ("if undo is None:", "if True:")),
        shown_by=(at("put back already", "write", "429 clean"),),
    ),
    Mutant(
        name="two undos of one write",
        why="what is to be put back already is put back by another undo as well",
        applied=flaw("writes.undo:undoing", ("if under_way is not None:", "if False:")),
        shown_by=(plain("undone twice"),),
    ),
    Mutant(
        name="an undo asks the condition",
        why="an undo, which has no rule, is held as one whose rule is gone",
        applied=flaw("engine.preflight:still_holds", ("    if write.by_operator:\n", "    if False:\n")),
        shown_by=(plain("undone"),),
    ),
    Mutant(
        name="again for every event",
        why="what a person asks for again for one event fires anew for the others as well",
        applied=flaw(
            "engine.operators:reopening",
            (
                "list(changes.values())",
                "[MemoryChange(before=one, after=_reopened(one, write)) for one in memories.values()]",
            ),
        ),
        shown_by=(plain("again"),),
    ),
    Mutant(
        name="again, and nothing",
        why="a person's word that a rule may act anew is stored, and its episode stays closed",
        applied=flaw("engine.operators:_reopened", ("reopened(with_remembered(memory, write))", "memory")),
        shown_by=(plain("again"),),
    ),
    Mutant(
        name="a rule's halt before the reads only",
        why="a halt of one rule is not read in the transaction that records the attempt",
        applied=flaw(
            "guards:held_in_transaction",
            ("halts=view.halts", "halts=tuple(one for one in view.halts if one.rule is None)"),
        ),
        shown_by=(plain("one rule halted"),),
    ),
    Mutant(
        name="one rule's halt is everybody's",
        why="a halt of one rule holds the writes of all others",
        applied=flaw("guards:halt_of", ("halt.rule in (None, rule)", "True")),
        shown_by=(plain("one rule halted"),),
    ),
    Mutant(
        name="a dead process's bytes go out",
        why="what the kernel has of a request is delivered although the connection was closed, or its process died",
        applied=flaw("api.transport:_discard", ('struct.pack("ii", 1, 0)', 'struct.pack("ii", 0, 0)')),
        shown_by=(at("pause", "write", "packets lost for 6 s, and killed"),),
    ),
    Mutant(
        name="packets are sent anew for ever",
        why="the kernel goes on with a request that nobody acknowledges for longer than the attempt may last",
        applied=flaw("api.transport:_discard", ("max(1, round(timeout_s * 1000))", "0")),
        shown_by=(at("pause", "write", "packets lost for 28 s, and stopped"),),
    ),
    Mutant(
        name="no fence",
        why="a process that was stopped between the last check and the byte lives on, and the byte leaves",
        applied=flaw("api.transport:Wire.write", ("with self._transports.fence():", "if True:")),
        shown_by=(at("pause", "write", "stopped 40 s at the byte"),),
    ),
    Mutant(
        name="connections are kept",
        why="reads go over a connection that leads to a place which the service has left",
        applied=_kept_connections,
        shown_by=(at("stubborn", "write", "cut after, and kept connections stay at an old place"),),
    ),
    Mutant(
        name="an answer that came before",
        why="what comes twice on a kept connection is taken for the answer to the next request",
        applied=_kept_connections,
        shown_by=tuple(at("set back", "read", "answered twice", nth) for nth in range(6, 12)),
    ),
    Mutant(
        name="the Age of an answer is not asked",
        why="an answer that a cache has kept is taken for what is so now",
        applied=flaw("api.exchanges:_age_s", ("return int(", "return 0 * int(")),
        shown_by=(at("stubborn", "write", "cut after, and a cache for 30 s that tells its Age"),),
    ),
    Mutant(
        name="nobody lives long enough",
        why="an unknown write reaches no person where the worker is started again and again",
        applied=flaw("writes.life:_read_for_long", ("    ", "    return False\n    ")),
        shown_by=(Try(scene="restless", named=(("write", 0, "cut before"),)),),
    ),
    Mutant(
        name="what was held sleeps on",
        why="a write goes on waiting when what had held it is settled",
        applied=flaw("engine.state:PartnerState.wake_beside", ("place = (write", "return\n    place = (write")),
        shown_by=(at("stop overtakes", "write", "504 after 8 s, applied after 11 s"),),
    ),
    Mutant(
        name="what is shown rounded is put back already",
        why="an undo ends as already so where a service that rounds shows what it undoes as what it would put back",
        applied=flaw("guards:_may_be_as_left", ("return situation.left_unread and", "return False and")),
        tested_by=ROUNDED,
    ),
    Mutant(
        name="presence proves what was there before",
        why="an undo counts as confirmed by a value that was shown before it was sent",
        applied=flaw("writes.evidence:was_so", ("write.undo and", "False and")),
        tested_by=ROUNDED,
    ),
    Mutant(
        name="raised from what was",
        why="a value is sent although what it was computed from is another one by now",
        applied=flaw("guards:as_computed_from", ("if not moved:", "if True:")),
        shown_by=(plain("moved"),),
    ),
    Mutant(
        name="the mark goes back",
        why="a ledger that was put back beneath the worker is gone on with, and its mark hides that",
        applied=flaw("ledger.sql:SqlLedger._require_to_be_of", ("    try:", "    return\n    try:")),
        shown_by=(plain("restored beneath"),),
    ),
    Mutant(
        name="what was put back is decided on",
        why="a ledger that was put back beneath the worker is noticed at the next sending only, or by the mark",
        applied=flaw("ledger.sql:SqlLedger._recording", ("if place is not None and journal", "if not journal")),
        shown_by=(plain("restored beneath, and decided on"),),
    ),
    Mutant(
        name="another file, and nobody looks",
        why="the ledger's files are exchanged beneath the worker, and it sends by what is nobody's any more",
        applied=flaw("ledger.database:Store.require_same", ("in self._files.items():", "in ():")),
        shown_by=(plain("exchanged beneath"),),
    ),
    Mutant(
        name="the lock file is all",
        why="the ledger's own file is not locked, so that a second process may send when the lock file is gone",
        applied=flaw("ledger.lock:_claimed", ("    several = linked", "    return -1\n    several = linked")),
        shown_by=(plain("two, without a lock"),),
    ),
    Mutant(
        name="anybody's ledger",
        why="what was done for one service is taken for done at another one",
        applied=flaw("ledger.reading:LedgerReader.refused_for", ("if own in (None, service)", "if True")),
        shown_by=(plain("elsewhere"),),
    ),
    Mutant(
        name="a part is the whole",
        why="what stands on another page of a list is taken not to be there",
        applied=flaw("api.listing:lacking", ("first, last = ", "return ''\n    first, last = ")),
        shown_by=(at("cluster on page three", "write", "429 applied"),),
    ),
    Mutant(
        name="to the letter",
        why="what the service spells otherwise, or books under another run, is taken not to be there",
        applied=several(
            flaw("writes.evidence:_hidden", ("if ACTIONS[", "return ''\n    if ACTIONS[")),
            flaw("writes.evidence:_campaign", ("sorted(names, key=str)", "[]")),
        ),
        shown_by=tuple(at(f"cluster {how}", "write", "429 applied") for how in ("in lower case", "of the newest run")),
    ),
    Mutant(
        name="rounded is absent",
        why="a number that is shown rounded, as the one before it, is taken for one that was never set",
        applied=flaw("writes.evidence:_as_before", ("wanted, before = ", "return ''\n    wanted, before = ")),
        shown_by=(at("draft rounded", "write", "429 applied"),),
    ),
    Mutant(
        name="refused, and so not done",
        why="a write that no read shows is sent anew after a refusal that came when the effect was there",
        applied=flaw("writes.life:_may_have_landed", ("(not policy.reads_back", "(False")),
        shown_by=tuple(at("hide", "write", f"{status} applied", 1) for status in (401, 403)),
    ),
    Mutant(
        name="refused, and so not spent",
        why="what spends counts as not sent after a refusal that came when the effect was there",
        applied=flaw("writes.life:_may_have_landed", ("policy.spends or ", "")),
        shown_by=tuple(at(scene, "write", "403 applied") for scene in ("boost", "cluster", "launch")),
    ),
    Mutant(
        name="any value will do",
        why="what a rule computes is sent, whatever it is",
        applied=flaw("model.actions:fault_of", ("if not _finite", "return ''\n    if not _finite")),
        shown_by=(plain("a text"),),
    ),
    Mutant(
        name="a text is no money",
        why="money that is written as a text counts for nothing",
        applied=flaw("model.actions:_number", ("int | float | str)", "int | float)")),
        shown_by=(plain("money in words"),),
    ),
    Mutant(
        name="an undone write stands",
        why="a rule acts after a write that somebody has put back",
        applied=flaw("writes.undo:last_firing", ("if one.id not in undone]", "]")),
        shown_by=(plain("put back already"),),
    ),
    Mutant(
        name="an undo for every look",
        why="a rule puts back the same firing again, as long as it stands",
        applied=flaw(
            "engine.episodes:decide_condition", ("< _comes_after(view)", "<= _comes_after(view) and memory.fired")
        ),
        shown_by=(plain("puts back"),),
    ),
    Mutant(
        name="a firing like the one before",
        why="a rule acts for the first firing of another one, and for none after it",
        applied=flaw("engine.episodes:_comes_after", ("first if isinstance(first, int) else ", "")),
        shown_by=(plain("follows each"),),
    ),
    Mutant(
        name="since, of now",
        why="what has changed since a write is taken against the value of this moment",
        applied=flaw(
            "engine.derived:_last_write", ("since_then(rule, kept, seen, now)", "{'event': seen.facts[EVENT].value}")
        ),
        shown_by=(plain("puts back"),),
    ),
    Mutant(
        name="a baseline that moves",
        why="what is kept of the moment of a write is what was read before its last attempt",
        applied=several(
            flaw("engine.preflight:Preflight._following", ("and not write.sent", "")),
            flaw("ledger.rows:update_write", ("before.sent or ", "")),
        ),
        shown_by=(at("puts back", "write", "429 clean"),),
    ),
    Mutant(
        name="a window beyond the record",
        why="what was before the worker looked is taken to be what it saw first",
        applied=flaw(
            "engine.derived:_Record._at",
            ("if one.at <= at), None)", "if one.at <= at), states[0])"),
            ("begun < at < end", "False"),
        ),
        shown_by=(plain("falls"),),
    ),
    Mutant(
        name="what was begun is made anew unasked",
        why="an edit, a stronger rule or `again` cuts a firing short, and the budget is raised once more",
        applied=flaw("engine.planning:begun", ('"begun" if any(map(once_only, writes)) else None', "None")),
        tested_by="tests/engine/test_begun.py",
    ),
    Mutant(
        name="a list counts as whole beside its total",
        why="what an answer says of its list in a record of its own is not heard: a page proves absence",
        applied=flaw("api.listing:_beside", ("(within and _holds(part, items))", "False")),
        tested_by="tests/unit/api/test_extent.py",
    ),
    Mutant(
        name="nobody is told of what is unknown of a partner that is gone",
        why="a write of a partner that is not watched any more stays unknown for ever",
        applied=flaw("engine.partners:held_while_gone", ("now - write.changed_at >= within", "False")),
        tested_by="tests/unit/engine/test_partners_gone.py",
    ),
    Mutant(
        name="a renamed partner begins as a new one",
        why="what was done for it under its former name is done once more, unasked",
        applied=flaw("ledger.sql:SqlLedger.identify", ("restored_at=now", "restored_at=None")),
        tested_by="tests/engine/test_partners_change.py",
    ),
    Mutant(
        name="a wait that forgets",
        why="a wait is over once its process was started anew",
        applied=flaw("engine.execute:Executor._wait", ("left_s > 0.0", "left_s > 0.0 and write.held_by is None")),
        tested_by="tests/engine/test_waits.py"
        "::test_the_next_step_comes_when_the_wait_is_over_and_not_before_over_restarts",
    ),
)
MUTANTS = {one.name: one for one in _ALL}
