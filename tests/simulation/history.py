"""What the judge is given: plain values that say what was seen from outside, and nothing of the worker's own.

The twin's books (effects, requests, changes by others), the wire-tap, the action log as rows of a table, and when the
processes lived. Times are seconds of the simulated world, but for those in the log, which are the worker's wall clock.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """One write that took effect in the service."""

    at_s: float
    event: str
    target: str
    operation: str
    request_id: str
    changed: bool
    repeated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Other:
    """A change that no request made. An empty event and the target ``*``: everything."""

    at_s: float
    event: str
    target: str


@dataclass(slots=True, kw_only=True)
class Wire:
    """One request that writes, as the wire-tap saw it. ``at_s``: when its sender handed it over; ``entered_s``: when it
    came into the network, ``heard_s``: when its sender knew an end of it; None: never. ``sending_seq``: the newest
    ``sending`` on disk when its first byte left; ``mark_seq``: how far the mark beside the ledger had got. ``life``:
    which of the ledger's lives it belongs to."""

    at_s: float
    owner: str
    life: int
    method: str
    url: str
    request_id: str
    reached: bool
    sending_seq: int
    mark_seq: int
    heard_s: float | None
    entered_s: float | None
    harm: str
    partner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """An event of the service from a moment on; None: it was not there. ``campaigns``: names and runs."""

    at_s: float
    event: str
    record: Mapping[str, Any] | None
    setup: str
    suggested: str
    budget: float = 0.0
    campaigns: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What an outsider can say of a rule."""

    rule: str
    once: bool
    wants: Callable[[Mapping[str, Any], str], bool] | None
    done: Callable[[Mapping[str, Any], str], bool] | None
    on_suggested: bool
    cooldown_s: float
    for_s: float = 0.0
    limit: int = 0
    factor: float = 0.0
    after: str = ""
    fell: float = 0.0
    wait_s: float = 0.0
    window_s: float = 0.0
    leans_on: Callable[[Mapping[str, Any]], str] = lambda _: ""

    def holds(self, one: Version) -> bool:
        """Whether its condition is true of an event as it was."""
        return self.wants is not None and one.record is not None and self.wants(one.record, one.setup)

    def may_hold(self, one: Version) -> bool:
        """The same of a rule on changes, once one of them has made it fire."""
        if not self.on_suggested:
            return self.holds(one)
        return one.record is not None and one.record["status"] == "active" and one.setup == "DRAFT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """One read as it came to the service. ``whole``: nothing went wrong with its answer; ``partly``: something did, and
    it may have shown a part all the same; ``lie``: a 404 for something that is there; ``foreign``: the answer was
    another object; ``as_of_s``: which moment it showed, where that was not its own; ``told``: and said so."""

    at_s: float
    owner: str
    path: str
    whole: bool
    partly: bool = False
    lie: bool = False
    foreign: bool = False
    request_id: str = ""
    as_of_s: float | None = None
    told: bool = False
    partner: str = ""

    @property
    def shows_s(self) -> float:
        """The moment that its answer shows."""
        return self.at_s if self.as_of_s is None else self.as_of_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """One worker process. ``how`` it ended: killed, stopped, or what it said. ``elsewhere``: its config named another
    service than the ledger was made with."""

    owner: str
    from_s: float
    to_s: float
    how: str
    elsewhere: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """Whose a partner of a fleet is from a moment on: the process's name, empty for nobody's, and in which epoch.
    ``id``: under which the process lived then."""

    at_s: float
    partner: str
    owner: str
    epoch: int
    id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """What befell a process of a fleet, or, without a name, its server, and until when."""

    kind: str
    owner: str
    at_s: float
    until_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """What is known of a fleet beside its partner's history. ``names``: the process behind each replica's id;
    ``events``: whose they are; ``unheard``: the records of sendings whose commit nobody answered; ``over_s``: when
    all are told to end; ``harmed_s``: when something went wrong with a transaction; ``dropped``: which rule was in
    force no more from when on; ``denied``: from when to when the service named no partner; ``unsigned``: when a sign-in
    went wrong; ``asked``: when the partner was asked for anything, at most so often ``per_minute``."""

    partner: str
    partners: Sequence[str]
    events: Mapping[str, str]
    owned: Sequence[Owned]
    names: Mapping[str, str]
    troubles: Sequence[Trouble]
    harmed_s: Sequence[float]
    dropped: Sequence[tuple[str, float]]
    unheard: Sequence[int]
    over_s: float
    per_minute: int
    denied: Sequence[tuple[float, float]] = ()
    unsigned: Sequence[float] = ()
    asked: Sequence[float] = ()


@dataclass(slots=True, kw_only=True)
class History:
    """One played world. ``logs``: the action log of each life of the ledger, the last one last; ``stamps``: for each,
    when the records up to a number were committed; ``lost``: when each but the last of them was taken away, or put
    back to what it had been. ``slowed``: something kept a whole process waiting, not one write. ``unstored``:
    something kept a process from storing. ``cramped``: from when to when the disk was full.
    ``unheld``: when the lock and the ledger's own file were taken from beneath those who ran, both; ``unlocked_s``:
    when the lock first was. ``stalls``: which process did nothing, from when to when, while time went on.
    ``told_to_stop``: when each process was.
    ``paged``: the list of events comes in several pages, of which each shows but some. ``own_mind``: no read shows just
    what was sent. ``writes``: number, state
    and attempt of each, as the ledger's own table says in the end. ``ours``: by the number of a record of the last log
    that tells a change, whether people are told that it was the worker's own."""

    what: str
    settle_s: float
    evidence_reads: int
    evidence_within_s: float
    max_attempts: int
    writes_per_hour: int
    spend_per_week: float | None
    spend_per_day: float | None
    spend_per_event: float | None
    surge: tuple[int, float]
    gap_s: float
    logs: list[list[Row]]
    ours: Mapping[int, bool]
    stamps: list[list[tuple[int, float]]]
    lost: list[float]
    writes: list[tuple[int, str, int]]
    effects: list[Effect]
    others: list[Other]
    wire: list[Wire]
    reads: list[Read]
    throttled: list[float]
    versions: list[Version]
    wishes: tuple[Wish, ...]
    lives: list[Life]
    halts: list[tuple[float, float]]
    rule_halts: list[tuple[str, float, float]]
    violations: list[tuple[str, float, str]]
    healed_s: float
    ended_s: float
    paged: bool = False
    own_mind: bool = False
    stale: bool = False
    approves: bool = False
    harmed: bool = False
    edited: frozenset[str] = frozenset()
    blank: frozenset[int] = frozenset()
    slowed: bool = False
    unstored: bool = False
    cramped: Sequence[tuple[float, float]] = ()
    unheld: Sequence[tuple[float, float]] = ()
    unlocked_s: float = inf
    stalls: Sequence[tuple[str, float, float]] = ()
    told_to_stop: Mapping[str, float] = field(default_factory=dict)
    clock_moved: bool = False
    clock_back: bool = False
    defects: list[str] = field(default_factory=list)
    sharing: Sharing | None = None

    def awake_s(self, owner: str, from_s: float, to_s: float) -> float:
        """How long a process ran in that time: what is stalled hears, stores and sends nothing."""
        stalled = (min(to_s, one[2]) - max(from_s, one[1]) for one in self.stalls if one[0] == owner)
        return to_s - from_s - sum(max(0.0, one) for one in stalled)

    def of(self, event: str, until_s: float = inf) -> list[Version]:
        """The event as it was in the service from its beginning to that moment."""
        return [one for one in self.versions if one.event == event and one.at_s <= until_s]

    def at(self, event: str, at_s: float) -> Version | None:
        """The event as it was in the service at that moment; None before its beginning."""
        return next(iter(self.of(event, at_s)[-1:]), None)

    def shown(self, event: str) -> list[Read]:
        """The reads that can have shown the event's own record: of the list, or of it alone."""
        return [one for one in self.reads if one.path in ("/events/", f"/events/{event}")]

    def lies(self, event: str, from_s: float = -inf, to_s: float = inf) -> int:
        """How often the service said of something of the event that it was not there, though it was: whoever is told so
        sees a condition end, and begin anew with the next read."""
        return sum(one.lie and from_s <= one.at_s <= to_s and event in one.path.split("/") for one in self.reads)
