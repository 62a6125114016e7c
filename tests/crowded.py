"""A ledger as it is after months: many events, many writes, and their whole lives in the log.

Records and rows are of the size and the kinds that the daemon makes; only the times of recording are made up, and one
commit holds many lives, because what is asked of such a ledger is how fast it can be looked at.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from worker.ledger.sql import SqlLedger
from worker.model.commits import Commit, Move, Record, of_write
from worker.model.facts import EventId, Json, PartnerId, RuleId
from worker.model.writes import Intent, Plan, State, Write, WriteKey

START = datetime(2026, 1, 1, tzinfo=UTC)
APART = timedelta(minutes=3)
RECORDS_A_WRITE = 7
COMMIT_WRITES = 500
RULES = tuple(RuleId(name) for name in ("pause-cancelled", "boost-on-new-clusters", "hide-archived", "rare-rule"))
PARTNERS = tuple(PartnerId(f"partner-id-{name}") for name in ("north", "south", "east"))
ENDS: tuple[State, ...] = ("confirmed",) * 17 + ("rejected", "unconfirmed", "skipped")
EVENTS = 2_000
WAITS: State = "waiting"
ASKS: State = "needs_human"


def crowded(folder: Path, *, records: int, events: int = EVENTS, waiting: int = 1) -> SqlLedger:
    """A ledger with at least that many records of so many events, the newest ones still open: some wait, one needs a
    person."""
    ledger = SqlLedger.open(f"sqlite:///{folder}/worker.db", clock_now=lambda: START)
    number, many, at = 0, -(-records // RECORDS_A_WRITE), START
    while number < many:
        numbers = range(number, min(number + COMMIT_WRITES, many))
        at = START + numbers[-1] * APART
        plans = ledger.apply(Commit(at=at, plans=tuple(_plan(one, events) for one in numbers)))
        moves = tuple(_life(write, START + one * APART) for one, write in zip(numbers, plans, strict=True))
        seen = tuple(record for one in numbers for record in _seen(one, START + one * APART, events))
        ledger.apply(Commit(at=at, records=seen, moves=moves))
        number = numbers[-1] + 1
    states = (*[WAITS] * waiting, ASKS)
    opened = ledger.apply(Commit(at=at, plans=tuple(_plan(number + place, events) for place in range(len(states)))))
    soon = at + timedelta(seconds=1)
    ledger.apply(Commit(at=at, moves=tuple(_moved(*one, soon) for one in zip(opened, states, strict=True))))
    return ledger


def last_moment(records: int) -> datetime:
    """A moment after everything in such a ledger."""
    return START + (records // RECORDS_A_WRITE + 2) * APART


def _key(number: int, events: int) -> WriteKey:
    rule = RULES[3] if number % 5_000 == 4_999 else RULES[number % 3]
    return WriteKey(
        partner=PARTNERS[number % len(PARTNERS)],
        event=EventId(f"event-{number % events}"),
        rule=rule,
        episode=number // events + 1,
        position=0,
    )


def _plan(number: int, events: int) -> Plan:
    intent = Intent(
        action="pause",
        target="client_campaign_status",
        wish="value:PAUSED",
        wanted={"client_campaign_status": "PAUSED"},
        stops=True,
        do_hash="a" * 64,
        context={"facts": {"event.status": "cancelled", "event.frontend_status": "DEFAULT"}},
    )
    return Plan(key=_key(number, events), intent=intent, state="planned", reason="condition", why=_why(number))


def _why(number: int) -> str:
    return f"event.status is 'cancelled'; event.frontend_status is 'DEFAULT'; look {number}"


def _seen(number: int, at: datetime, events: int) -> list[Record]:
    key = _key(number, events)
    facts: dict[str, Json] = {"event.status": "cancelled", "before": "active", "ours": False}
    looked: dict[str, Json] = {"event": {"read_at": at.isoformat(), "value": {"status": "cancelled"}}}
    why = "event.status changed from 'active' to 'cancelled', not by the worker"
    return [
        Record(at=at, kind="observed", why=why, partner=key.partner, event=key.event, facts=facts),
        Record(
            at=at,
            kind="fired",
            reason="condition",
            why=_why(number),
            partner=key.partner,
            event=key.event,
            rule=key.rule,
            episode=key.episode,
            facts=looked,
        ),
    ]


def _life(write: Write, at: datetime) -> Move:
    """From planned to its end in one move: what a page shows is the records."""
    end = ENDS[write.id % len(ENDS)]
    url = (
        f"https://service.example/api/v3/events/{write.key.event}/client_campaign_status?client_campaign_status=PAUSED"
    )
    steps: tuple[tuple[str, dict[str, object]], ...] = (
        ("sending", {"request": {"method": "PUT", "url": url, "body": None}, "before": "RUNNING"}),
        (
            "applied",
            {"response": {"status": 204, "x_request_id": f"req-{write.id}", "retry_after": None, "took_ms": 91}},
        ),
        (
            "evidence",
            {"evidence": {"get": f"/events/{write.key.event}", "says": "there", "status": 200, "value": "PAUSED"}},
        ),
        (end, {}),
    )
    records = []
    for after, (kind, more) in enumerate(steps):
        plain = of_write(
            replace(write, attempt=1), at=at + timedelta(seconds=3 * after), kind=kind, reason=None, why=kind
        )
        records.append(replace(plain, **more))  # type: ignore[arg-type] # fields of Record
    ended = replace(write, state=end, attempt=1, changed_at=records[-1].at, first_sent_at=at, last_sent_at=at)
    return Move(before=write, after=ended, records=tuple(records))


def _moved(write: Write, state: State, at: datetime) -> Move:
    after = replace(write, state=state, reason="surge", changed_at=at)
    return Move(before=write, after=after, records=(of_write(after, at=at, kind=state, reason="surge", why="asked"),))
