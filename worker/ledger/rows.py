"""A write and its row: one column for each field, so that operators can ask SQL what no command foresaw.

Values that the worker compares later (what is wanted, what was there before) come back exactly as they were, integers
and floats apart. Nothing here decides which row may change: see `worker.ledger.changes`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast, get_args

from sqlalchemy import Select, func, select

from worker.ledger.codec import json_of, json_text, maybe_text, maybe_time, millis_text, time_of, time_text
from worker.ledger.damage import readable
from worker.ledger.tables import writes
from worker.model.facts import Json
from worker.model.ids import EventId, PartnerId, RuleId, WriteId
from worker.model.writes import FINAL, ConfirmedBy, Intent, State, Write, WriteKey


def _states_that_are_not_final() -> Select[tuple[str]]:
    """Each state that some write is in, found from one to the next in the index by state."""
    found = select(func.min(writes.c.state).label("state")).cte("found", recursive=True)
    following = select(func.min(writes.c.state)).where(writes.c.state > found.c.state).scalar_subquery()
    found = found.union_all(select(following).where(found.c.state.is_not(None)))
    return select(found.c.state).where(found.c.state.not_in(sorted(FINAL)))


ALL_WRITES = select(writes).order_by(writes.c.id)
"""Every write, oldest first; to be narrowed."""
OPEN_WRITES = ALL_WRITES.where(writes.c.state.in_(_states_that_are_not_final()))
"""Those that are not final, also one in a state that cannot be. What has ended in years is not looked at."""
_STATES = frozenset(get_args(State))
_COLUMNS = tuple(column.name for column in writes.c)
LIFE: tuple[str, ...] = (
    *("state", "reason", "why", "rules", "attempt", "uncounted", "changed_at", "due_since", "first_sent_at"),
    *("last_sent_at", "unknown_since", "held_by", "held_until", "confirmed_by", "before", "before_known", "approved"),
    *("extra_attempts", "denied", "absent_proved"),
)
"""The columns of `life_row`, which a move may change."""
DECODED_MOST = 2_000
"""So many writes are kept as they were read; beyond them it is begun anew."""


def key_row(key: WriteKey) -> dict[str, object]:
    """The columns of the natural key."""
    return {
        "partner": key.partner,
        "event": key.event,
        "rule": key.rule,
        "episode": key.episode,
        "position": key.position,
        "item": key.item,
    }


def intent_row(intent: Intent) -> dict[str, object]:
    """The columns of what is wanted; they never change."""
    return {
        "action": intent.action,
        "target": intent.target,
        "wish": intent.wish,
        "wanted": json_text(dict(intent.wanted)),
        "params": json_text(dict(intent.params)),
        "order": intent.order,
        "spends": intent.spends,
        "stops": intent.stops,
        "do_hash": intent.do_hash,
        "context": json_text(dict(intent.context)),
    }


def life_row(write: Write) -> dict[str, object]:
    """The values of `LIFE`."""
    return {
        "state": write.state,
        "reason": write.reason,
        "why": text_safe(write.why),
        "rules": json_text(list(write.rules)),
        "attempt": write.attempt,
        "uncounted": write.uncounted,
        "changed_at": time_text(write.changed_at),
        "due_since": time_text(write.due_since),
        "first_sent_at": maybe_text(write.first_sent_at),
        "last_sent_at": maybe_text(write.last_sent_at),
        "unknown_since": maybe_text(write.unknown_since),
        "held_by": write.held_by,
        "held_until": maybe_text(write.held_until),
        "confirmed_by": write.confirmed_by,
        "before": json_text(write.before),
        "before_known": write.before_known,
        "approved": write.approved,
        "extra_attempts": write.extra_attempts,
        "denied": write.denied,
        "absent_proved": write.absent_proved,
    }


def text_safe(text: str) -> str:
    """Words for people, without what no file could hold (half a surrogate pair from a service's answer)."""
    return text if text.isascii() else text.encode("utf-8", errors="replace").decode("utf-8")


@readable
def check_state(number: object, state: object) -> None:
    """Raises `LedgerDamaged` for a state that there is not: nobody knows whether such a write holds its target."""
    if state not in _STATES:
        raise ValueError(f"write {number} is in no state that there is: {state!r}")


@readable
def write_of(row: Sequence[Any]) -> Write:
    """The write in a row of `ALL_WRITES`, as SQLAlchemy or as SQLite itself gives it."""
    at = dict(zip(_COLUMNS, row, strict=True))
    check_state(at["id"], at["state"])
    return Write(
        id=WriteId(at["id"]),
        key=WriteKey(
            partner=PartnerId(at["partner"]),
            event=EventId(at["event"]),
            rule=RuleId(at["rule"]),
            episode=at["episode"],
            position=at["position"],
            item=at["item"],
        ),
        intent=Intent(
            action=at["action"],
            target=at["target"],
            wish=at["wish"],
            wanted=_object(at["wanted"]),
            params=_object(at["params"]),
            order=at["order"],
            spends=bool(at["spends"]),
            stops=bool(at["stops"]),
            do_hash=at["do_hash"],
            context=_object(at["context"]),
        ),
        state=cast(State, at["state"]),
        reason=at["reason"],
        why=at["why"],
        rules=tuple(RuleId(str(rule)) for rule in cast("list[Json]", json_of(at["rules"]))),
        attempt=at["attempt"],
        uncounted=at["uncounted"],
        planned_at=time_of(at["planned_at"]),
        changed_at=time_of(at["changed_at"]),
        due_since=time_of(at["due_since"]),
        first_sent_at=maybe_time(at["first_sent_at"]),
        last_sent_at=maybe_time(at["last_sent_at"]),
        unknown_since=maybe_time(at["unknown_since"]),
        held_by=at["held_by"],
        held_until=maybe_time(at["held_until"]),
        confirmed_by=cast("ConfirmedBy | None", at["confirmed_by"]),
        before=json_of(at["before"]),
        before_known=bool(at["before_known"]),
        approved=bool(at["approved"]),
        extra_attempts=at["extra_attempts"],
        denied=at["denied"],
        absent_proved=bool(at["absent_proved"]),
        changed_seq=at["changed_seq"],
        sent_seq=at["sent_seq"],
    )


class Decoded:
    """Writes as they were last read, each decoded again only when its row is another one: the same open writes are
    asked for several times in every look."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Sequence[Any], Write]] = {}

    def of(self, row: Sequence[Any]) -> Write:
        """The write in a row of `ALL_WRITES` as SQLite gives it."""
        known = self._known.get(row[0])
        if known is not None and known[0] == row:
            return known[1]
        if len(self._known) >= DECODED_MOST:
            self._known.clear()
        write = write_of(row)
        self._known[row[0]] = row, write
        return write


def writes_json(write: Write) -> dict[str, Json]:
    """A write as ``writes --format json`` prints it."""
    return {
        "id": write.id,
        "state": write.state,
        "reason": write.reason,
        "partner": write.key.partner,
        "event": write.key.event,
        "rule": write.key.rule or None,
        "rules": list(write.rules),
        "episode": write.key.episode,
        "position": write.key.position,
        "item": write.key.item,
        "action": write.intent.action,
        "attempt": write.attempt,
        "planned_at": millis_text(write.planned_at),
        "changed_at": millis_text(write.changed_at),
        "held_by": write.held_by,
        "held_until": None if write.held_until is None else millis_text(write.held_until),
        "confirmed_by": write.confirmed_by,
        "before": write.before,
        "why": write.why,
        "wanted": dict(write.intent.wanted),
        "params": dict(write.intent.params),
    }


def _object(text: str) -> Mapping[str, Json]:
    return cast("dict[str, Json]", json_of(text))
