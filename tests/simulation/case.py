"""A history with its log, its wire and its books put side by side: what every claim of the judge looks at."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import inf
from typing import Any
from urllib.parse import unquote

from tests.simulation.history import Effect, History, Row, Wire

TICK_S = 0.002
"""Records keep milliseconds."""
STATES = frozenset(
    {"planned", "waiting", "sending", "applied", "unknown", "needs_human", "confirmed", "unconfirmed"}
    | {"rejected", "refused", "skipped", "cancelled", "shadowed"}
)
FINAL = frozenset({"confirmed", "unconfirmed", "rejected", "refused", "skipped", "cancelled", "shadowed"})
HOUR_S = 3600.0
ASKED_MOST_S = 315360000.0
"""The ten years of the menu."""
WAITED_MOST_S = 900.0
TIMEOUT_S = 10.0
LAST_BYTE_S = 2 * TIMEOUT_S + 5.0
"""So long after its record the last byte of an attempt may enter the network."""
AT_THE_BYTE = ("stopped 20 s at the byte", "stopped 40 s at the byte")
"""Stops between the last check and the byte."""
UNDER_WAY_S = 0.45
"""The longest that an answer is under way by itself."""
INTERVAL_S = 3.0
FLOOR_S = 3.0
REFUSED_AFTER = ("401 applied", "403 applied")
"""Refusals of the credentials that come when the effect is there."""
SPENDS = frozenset({"run", "create_draft", "update_draft", "boost", "create_campaign"})
UNSEEN = "last_updated_on_fe"
"""The call that no read shows."""


@dataclass(slots=True)
class Attempt:
    """One ``sending`` record, what followed it, and the requests on the wire that belong to it."""

    write: str
    life: int
    row: Row
    at_s: float
    after: Row | None = None
    wire: list[Wire] = field(default_factory=list)

    @property
    def taken_back(self) -> bool:
        """Whether it was recorded that nothing had left, so that it does not count."""
        return self.after is not None and self.after["kind"] == "planned"

    @property
    def taken_over(self) -> bool:
        """Whether another replica found it under way: its sender may know much later that it is over."""
        return self.after is not None and self.after["reason"] == "takeover"

    @property
    def ended_s(self) -> float:
        """When its sender knew that it was over; a sender that died knew it when it died."""
        return max((one.heard_s if one.heard_s is not None else one.at_s for one in self.wire), default=self.at_s)


@dataclass(slots=True)
class Deed:
    """One write over its whole life: its records, its attempts, its effects."""

    rows: list[Row] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)

    def based(self, before: float = inf) -> Attempt | None:
        """The attempt at which it was read last what was there before, up to a record: each that was planned anew,
        because none before it had an effect."""
        anew = ("resend", "overtaken")
        bases = [one for one in self.attempts if one is self.attempts[0] or one.row["reason"] not in anew]
        return next((one for one in reversed(bases) if one.row["seq"] < before), None)

    @property
    def state(self) -> str:
        return str(next(row["kind"] for row in reversed(self.rows) if row["kind"] in STATES))

    @property
    def event(self) -> str:
        return str(self.rows[0]["event"])

    @property
    def undo(self) -> bool:
        """Whether a person asked for it, to put back what other writes changed: it has no rule."""
        return self.rows[0]["rule"] is None

    @property
    def undoes(self) -> list[int]:
        """The numbers of the writes that an undo is for, a person's or a rule's, newest first; of any other none."""
        found = re.search(r"(?:^|: )undo of ([0-9, ]+): ", str(self.rows[0]["why"]))
        return [int(one) for one in found[1].split(", ")] if found is not None else []

    @property
    def unseen(self) -> bool:
        """Whether it is the second half of a change of frontend status, which no read shows."""
        if self.rows[0]["action"] != "frontend_status":
            return False
        return any(UNSEEN in str(one.row["request"]["url"]) for one in self.attempts)

    @property
    def spends(self) -> bool:
        """Whether it costs money where it happens twice; what is turned on and off here is only ever turned off."""
        return self.rows[0]["action"] in SPENDS

    @property
    def granted(self) -> int:
        """How often a person said that it was not there, or an opposite write that it had overtaken landed after it:
        each allows one more effect."""
        told = [row for row in self.rows if row["kind"] in STATES or row["kind"] == "resolved"]
        said = [row for row, after in pairwise(told) if row["kind"] == "resolved" and after["kind"] == "planned"]
        again = sum(1 for row in said if str(row["why"]).startswith("it did not take effect"))
        return again + self.count("planned", reason="overtaken")

    def count(self, kind: str, **fields: str) -> int:
        return sum(row["kind"] == kind and all(row[key] == value for key, value in fields.items()) for row in self.rows)


@dataclass(slots=True)
class Case:
    """A history with its log, wire and books put side by side. ``lines``: each write as each life of the ledger tells
    it, and which; a restored ledger goes on from where it was, so that its lives branch."""

    history: History
    deeds: dict[str, Deed]
    lines: list[tuple[Deed, list[Row], int]]
    strays: list[tuple[Wire, str]]
    orphans: list[Effect]
    forgiven: Counter[str]
    last: list[Row]
    committed_s: Callable[[int, int], float]

    @property
    def accepted(self) -> int:
        """How often a person has accepted the last ledger as restored: what is true then may be asked for once more."""
        return sum(row["kind"] == "ledger_restored" for row in self.last)

    @property
    def forgot(self) -> bool:
        """Whether the last ledger does not know an attempt of an earlier life: what it counts, it counts without."""
        known = {row["hash"] for row in self.last}
        return any(one.row["hash"] not in known for deed in self.deeds.values() for one in deed.attempts)


def case_of(history: History) -> Case:
    """Joins what belongs together: records by their hash, requests by what was asked, effects by their request."""
    deeds: dict[str, Deed] = {}
    by_life: list[list[Attempt]] = []
    known: dict[str, Attempt] = {}
    lines: list[tuple[Deed, list[Row], int]] = []

    def committed_s(life: int, seq: int) -> float:
        return next((at_s for upto, at_s in history.stamps[life] if upto >= seq), history.ended_s)

    seen: set[str] = set()
    for life, rows in enumerate(history.logs):
        name: dict[int, str] = {}
        mine: list[Attempt] = []
        own: dict[str, list[Row]] = {}
        for row in rows:
            if row["write"] is None or (row["kind"] == "evidence" and row["evidence"] is None):
                continue  # of no write, or what an owner of before has to say of one, which moves nothing
            write = name.setdefault(row["write"], row["hash"])
            deed = deeds.setdefault(write, Deed())
            own.setdefault(write, []).append(row)
            if row["hash"] not in seen:
                deed.rows.append(row)
            if row["kind"] == "sending":
                if row["hash"] not in known:
                    at_s = committed_s(life, row["seq"])
                    known[row["hash"]] = Attempt(write=write, life=life, row=row, at_s=at_s)
                    deed.attempts.append(known[row["hash"]])
                mine.append(known[row["hash"]])
        seen |= {row["hash"] for row in rows}
        by_life.append(mine)
        lines.extend((deeds[write], told, life) for write, told in own.items())
    _follow(lines, known)
    strays = [stray for wire in history.wire if (stray := _joined(*_where_it_began(history, wire, by_life)))]
    by_request = {wire.request_id: one for mine in by_life for one in mine for wire in one.wire}
    orphans = []
    for effect in history.effects:
        maker = by_request.get(effect.request_id)
        if maker is None:
            orphans.append(effect)
        else:
            deeds[maker.write].effects.append(effect)
    return Case(
        history=history,
        deeds=deeds,
        lines=lines,
        strays=strays,
        orphans=orphans,
        forgiven=Counter(),
        last=history.logs[-1],
        committed_s=committed_s,
    )


def asked_again(rows: list[Row], fired: Row) -> bool:
    """Whether this firing is what a person asked for once more, so that it has that person's word."""
    same = [row for row in rows if (row["rule"], row["event"]) == (fired["rule"], fired["event"])]
    told = [row for row in same if row["kind"] in ("fired", "again") and row["seq"] < fired["seq"]]
    return bool(told) and told[-1]["kind"] == "again"


def agains(rows: list[Row], rule: str, event: str) -> int:
    """How often a person has asked for the rule's firing once more: each of its episodes counts once, and so does each
    of another rule whose write stood for its wish as well."""
    stood = {
        found[1]
        for row in rows
        if (row["kind"], row["rule"], row["event"]) == ("fired", rule, event)
        and (found := re.search(r"rule (\S+) stands for the same desired value", str(row["why"]))) is not None
    }
    asked = {(row["rule"], row["episode"]) for row in rows if row["kind"] == "again" and row["event"] == event}
    return sum(of == rule or of in stood for of, _ in asked)


def became_of_firing(rows: list[Row], fired: Row) -> str | None:
    """What the first write of a firing became at once; None: it has none."""
    named = ("rule", "event", "episode")
    return next(
        (
            row["kind"]
            for row in rows
            if row["seq"] > fired["seq"]
            and row["kind"] in ("planned", "waiting", "sending")
            and all(row[name] == fired[name] for name in named)
        ),
        None,
    )


def _follow(lines: list[tuple[Deed, list[Row], int]], known: dict[str, Attempt]) -> None:
    """What became of each attempt, in the life of the ledger that knows it first."""
    for _, told, _ in lines:
        for row, after in pairwise([row for row in told if row["kind"] in STATES]):
            if row["kind"] == "sending" and known[row["hash"]].after is None:
                known[row["hash"]].after = after


def _where_it_began(history: History, wire: Wire, by_life: list[list[Attempt]]) -> tuple[Wire, list[Attempt]]:
    """The attempts of the ledger that its sender knew: one that stood still before the first byte had its record on
    disk before it, and the ledger may have been exchanged since; or it stood before the record as well."""
    began_s = min(
        (one for owner, one, to_s in history.stalls if owner == wire.owner and one <= wire.at_s <= to_s), default=inf
    )
    life = sum(lost_s <= began_s for lost_s in history.lost[: wire.life])
    known = [one for one in by_life[life] if one.at_s <= began_s]
    if life == wire.life or not any(_asks(one.row) == (wire.method, wire.url) for one in known):
        return wire, by_life[wire.life]
    newest = max((one.row["seq"] for one in known), default=-1)
    return replace(wire, sending_seq=newest, mark_seq=newest), known


def _joined(wire: Wire, attempts: list[Attempt]) -> tuple[Wire, str] | None:
    """Gives the request to its attempt; or says why it has none."""
    same = [one for one in attempts if _asks(one.row) == (wire.method, wire.url) and one.row["seq"] <= wire.sending_seq]
    if not same:
        return wire, "no sending record for it was on disk when its first byte left"
    attempt = same[-1]
    attempt.wire.append(wire)
    if len(attempt.wire) > 1:
        return wire, f"it is request {len(attempt.wire)} of one attempt"
    if wire.mark_seq < attempt.row["seq"]:
        return wire, f"the mark had only reached {wire.mark_seq} of {attempt.row['seq']} when its first byte left"
    return None


def _asks(row: Row) -> tuple[str, str]:
    return str(row["request"]["method"]), unquote(str(row["request"]["url"]))


def refused_after_its_effect(deed: Deed, attempt: Attempt) -> bool:
    """Whether the credentials were refused once the effect was there, of a write that a read shows and that costs
    nothing."""
    return not deed.unseen and not deed.spends and any(wire.harm in REFUSED_AFTER for wire in attempt.wire)


def too_late(case: Case, deed: Deed, effect: Effect) -> bool:
    """Whether an effect landed later than ``settle`` after its attempt."""
    attempt = next(one for one in deed.attempts if any(wire.request_id == effect.request_id for wire in one.wire))
    return effect.at_s - attempt.ended_s > case.history.settle_s


def touched(case: Case, event: str, target: str, from_s: float, to_s: float, not_by: Deed | None = None) -> bool:
    """Whether anybody else changed the target between."""
    for other in case.history.others:
        if from_s <= other.at_s <= to_s and (other.target == "*" or (other.event == event and other.target == target)):
            return True
    own = {id(one) for one in not_by.effects} if not_by is not None else set()
    return any(
        from_s <= one.at_s <= to_s
        and one.event == event
        and id(one) not in own
        and (one.target == target or one.operation == "boost")
        for one in case.history.effects
    )


CLUSTER, RUN = " Caf\u00e9 & Soul ", 7
"""The campaign that a rule creates."""
NEW_BUDGET = 500.4
"""What a rule makes of a draft's budget."""
FIELDS = {
    "pause": ("client_campaign_status", "PAUSED"),
    "run": ("client_campaign_status", "RUNNING"),
    "optimisation": ("campaign_optimisation_status", "OFF"),
    "ad_optimisation": ("ad_campaign_optimisation_status", "OFF"),
    "frontend_status": ("frontend_status", "HIDDEN"),
}
"""What the rules' actions set, and to what."""


def undone_by(case: Case, deed: Deed) -> list[Deed]:
    """The writes that an undo is to put back, newest first; of any other write none, nor of one of a draft."""
    if not deed.undoes or deed.rows[0]["action"] not in FIELDS:
        return []
    life = next(life for one, _, life in case.lines if one is deed)
    numbers = {rows[0]["write"]: one for one, rows, of_life in case.lines if of_life == life}
    return [numbers[one] for one in deed.undoes if one in numbers]


def wanted_of(case: Case, deed: Deed) -> tuple[str, Any]:
    """The field that a write sets, and to what: an undo to what was there before the oldest of the writes that it
    undoes was sent."""
    name, value = FIELDS[str(deed.rows[0]["action"])]
    if not deed.undoes:
        return name, value
    undone = undone_by(case, deed)
    base = undone[-1].based() if undone else None
    return name, None if base is None else base.row["before"]


def left_by(case: Case, deed: Deed) -> tuple[str, Any] | None:
    """The field that an undo sets, and what the newest of the writes that it undoes had left there."""
    undone = undone_by(case, deed)
    return wanted_of(case, undone[0]) if undone else None


TARGETS = {
    **{action: field for action, (field, _) in FIELDS.items()},
    **dict.fromkeys(("boost", "create_draft", "update_draft"), "setup"),
    "create_campaign": f"campaign:{CLUSTER}:{RUN}",
}


def target_of(deed: Deed) -> str:
    action = str(deed.rows[0]["action"])
    return TARGETS.get(action, action)


def same_target(one: Deed, other: Deed) -> bool:
    """Whether two writes are about the same target of the same event."""
    return one is not other and (one.event, target_of(one)) == (other.event, target_of(other))
