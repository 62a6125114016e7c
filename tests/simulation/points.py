"""Fault points: every place where a worker touches the world, numbered in the order in which it comes there.

A plan says what goes wrong at which number; a swarm draws it. What can go wrong is one closed table by kind of place,
so that "every single fault at every point" is a list that can be walked to its end.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Harm:
    """One thing that goes wrong. ``does``: where it is carried out; ``fault``: what the twin is asked for."""

    name: str
    does: str
    fault: str = ""
    seconds: float = 0.0
    params: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name

    @property
    def lasts_s(self) -> float:
        """For how long it goes on by itself."""
        return _LASTING_S.get(self.does, self.seconds if self.does.startswith(("stall", "lost", "cache")) else 0.0)


DENIED_S = 9.0
FULL_S = 8.0
MOVED_S = 30.0
_LASTING_S = {"denied": DENIED_S, "disk_full": FULL_S, "moved": MOVED_S}


def _twin(name: str, fault: str, **params: Any) -> Harm:  # noqa: ANN401 - parameters of the twin's faults
    return Harm(name=name, does="twin", fault=fault, params=params)


def _stall(name: str, does: str, seconds: float) -> Harm:
    return Harm(name=name, does=does, seconds=seconds)


SETTLE_S = 12.0
"""What the simulated operator vouches for: late effects and lagging reads together stay below it, but for those that
are named *beyond*, which are counted apart."""

RETRY_AFTER: tuple[tuple[str, str], ...] = (
    ("zero", "0"),
    ("three", "3"),
    ("negative", "-5"),
    ("past", "Sun, 06 Nov 1994 08:49:37 GMT"),
    ("date", "Sun, 01 Mar 2026 12:00:12 GMT"),
    ("ten years", "315360000"),
    ("words", "soon"),
)
SHOWN_NOTHING = frozenset(
    {"cut", "cut in the answer", "hang", "garbage", "null", "half an answer"}
    | {"killed before asking", "killed before the answer"}
)
"""Harms of a read after which nobody knows more than before."""
ANOTHER = {"id": "e999", "eid": "e999"}
"""Whose object a wrong one is."""
CLOCKS: tuple[Harm, ...] = (
    Harm(name="clock an hour ahead", does="clock", seconds=3600.0),
    Harm(name="clock an hour back", does="clock", seconds=-3600.0),
)
CACHES: tuple[Harm, ...] = (
    Harm(name="a cache for 30 s that asks where it is told to", does="cache", seconds=30.0),
    Harm(name="a cache for 30 s that tells its Age", does="cache", seconds=30.0, params={"stubborn": True}),
)
"""Reads are answered as of the moment at which this came. All caches tell the ``Age`` of what they answer; the first
kind asks the service itself for whoever says ``no-cache``, the other one does not."""
MOVED = Harm(name="kept connections stay at an old place", does="moved")
"""The service has another place from then on: connections that were there before it read of the old one, in which
nothing changes any more."""
WRONG_OBJECT = "another object"
TWICE = Harm(name="answered twice", does="twice")
"""The same answer comes once more, and is the first that the next request on that connection is given."""
WRITE: tuple[Harm, ...] = (
    _twin("429 clean", "answer_before", status=429),
    _twin("429 applied", "answer_after", status=429),
    _twin("429 applied after 2 s", "late_effect", status=429, after_s=2.0),
    _twin("429 applied after 6 s", "late_effect", status=429, after_s=6.0),
    _twin("503 clean", "answer_before", status=503),
    _twin("500 applied", "answer_after", status=500),
    _twin("504 applied after 8 s", "late_effect", status=504, after_s=8.0),
    _twin("504 after 8 s, applied after 11 s", "late_effect", status=504, delay_s=8.0, after_s=11.0),
    _twin("408 clean", "answer_before", status=408),
    _twin("409 applied", "answer_after", status=409),
    _twin("302 applied", "answer_after", status=302),
    _twin("425 clean", "answer_before", status=425),
    _twin("401 refused", "answer_before", status=401),
    _twin("403 refused", "answer_before", status=403, code="error.auth.not_authorized"),
    _twin("400 refused", "answer_before", status=400),
    _twin("422 refused", "answer_before", status=422),
    _twin("no connection", "no_connection"),
    _twin("cut before", "cut_before"),
    _twin("closed before", "cut_before", reset=False),
    _twin("cut after", "cut_after"),
    _twin("closed after", "cut_after", reset=False),
    _twin("cut in the answer", "cut_body"),
    _twin("hang before", "hang_before"),
    _twin("hang after", "hang_after"),
    _twin("slow", "slow", delay_s=8.0),
    _twin("garbage in a 200", "garbage"),
    _twin("null in a 200", "null_body"),
    _twin("expired token", "expired_token"),
    *(
        _twin(f"429 applied, Retry-After {name}", "answer_after", status=429, retry_after=value)
        for name, value in RETRY_AFTER
    ),
    Harm(name="killed before the first byte", does="kill_before"),
    Harm(name="killed after the last byte", does="kill_after"),
    Harm(name="killed in the answer", does="kill_answer"),
    _stall("stalled 5 s before the first byte", "stall_before", 5.0),
    _stall("stalled 15 s before the first byte", "stall_before", 15.0),
    _stall("stalled 30 s after the first byte", "stall_after", 30.0),
    Harm(name="a person was there first", does="person_before"),
    Harm(name="a person undoes it", does="person_after"),
    Harm(name="429 applied, rule removed", does="rule_gone", fault="answer_after", params={"status": 429}),
    Harm(name="429 clean, rule removed", does="rule_gone", fault="answer_before", params={"status": 429}),
    Harm(name="429 clean, access withdrawn", does="denied", fault="answer_before", params={"status": 429}),
    Harm(name="power cut after the effect", does="power"),
    Harm(name="429 clean, disk full for 8 s", does="disk_full", fault="answer_before", params={"status": 429}),
    Harm(name="429 applied, disk full for 8 s", does="disk_full", fault="answer_after", params={"status": 429}),
    *CLOCKS,
    _twin("another object in a 200", "wrong_types", fields=ANOTHER),
    Harm(name="429 clean, rule renamed", does="rule_renamed", fault="answer_before", params={"status": 429}),
    Harm(name="429 applied, rule renamed", does="rule_renamed", fault="answer_after", params={"status": 429}),
    _stall("stopped 20 s at the byte", "stall_at_byte", 20.0),
    _stall("stopped 40 s at the byte", "stall_at_byte", 40.0),
    *(Harm(name=f"packets lost for {seconds:g} s", does="lost", seconds=seconds) for seconds in (4.0, 12.0, 24.0)),
    Harm(name="packets lost for 6 s, and killed", does="lost_killed", seconds=6.0),
    Harm(name="packets lost for 28 s, and stopped", does="lost_stopped", seconds=28.0),
    _twin("401 applied", "answer_after", status=401),
    _twin("403 applied", "answer_after", status=403, code="error.auth.not_authorized"),
    *(replace(one, name=f"cut after, and {one.name}", fault="cut_after") for one in (*CACHES, MOVED)),
)
BEYOND: tuple[Harm, ...] = (
    _twin("429 applied after 70 s, beyond settle", "late_effect", status=429, after_s=70.0),
    _twin("cut, applied after an hour, beyond settle", "late_effect", status=503, after_s=3600.0),
)
READ: tuple[Harm, ...] = (
    _twin("500", "answer_before", status=500),
    _twin("429", "answer_before", status=429),
    *(_twin(f"429, Retry-After {name}", "answer_before", status=429, retry_after=value) for name, value in RETRY_AFTER),
    _twin("401", "answer_before", status=401),
    _twin("404", "answer_before", status=404),
    _twin("cut", "cut_before"),
    _twin("cut in the answer", "cut_body"),
    _twin("hang", "hang_before"),
    _twin("slow", "slow", delay_s=8.0),
    _twin("garbage", "garbage"),
    _twin("null", "null_body"),
    _twin("half an answer", "cut_json"),
    _twin("fields missing", "missing_fields", fields=["status", "items.status", "state", "items.tc"]),
    _twin("wrong types", "wrong_types", fields=["status", "state", "total_budget"]),
    _twin("stale by 2 s", "stale_reads", by_s=2.0),
    _twin("stale by 4 s", "stale_reads", by_s=4.0),
    _twin("half a page", "half_page"),
    _twin("items move between pages", "reordered_pages", shift=1),
    _twin("an event vanishes", "vanish", eid="e1"),
    _twin("expired token", "expired_token"),
    Harm(name="killed before asking", does="kill_before"),
    Harm(name="killed before the answer", does="kill_answer"),
    _stall("stalled 8 s before the answer", "stall_after", 8.0),
    Harm(name="rule removed", does="rule_gone"),
    Harm(name="access withdrawn", does="denied"),
    *CLOCKS,
    _twin(WRONG_OBJECT, "wrong_types", fields=ANOTHER),
    *CACHES,
    MOVED,
    TWICE,
)
SIGN_IN: tuple[Harm, ...] = (
    _twin("500", "answer_before", status=500),
    _twin("429", "answer_before", status=429, retry_after="4"),
    _twin("401", "answer_before", status=401),
    _twin("cut", "cut_after"),
    _twin("hang", "hang_before"),
    _twin("garbage", "garbage"),
    Harm(name="killed before the answer", does="kill_answer"),
)
LOOK: tuple[Harm, ...] = (Harm(name="disk I/O error", does="io"),)
BEGIN: tuple[Harm, ...] = (
    Harm(name="busy", does="busy"),
    Harm(name="killed", does="kill"),
    Harm(name="disk I/O error", does="io"),
)
COMMIT: tuple[Harm, ...] = (
    Harm(name="disk full", does="full"),
    Harm(name="sync fails, though it is there", does="sync_fails"),
    Harm(name="killed before", does="kill_before"),
    Harm(name="killed after", does="kill_after"),
    Harm(name="torn", does="torn"),
    Harm(name="sync fails, and it is not there", does="sync_lost"),
)
MARK: tuple[Harm, ...] = (
    Harm(name="disk full", does="full"),
    Harm(name="killed before", does="kill_before"),
    Harm(name="killed after", does="kill_after"),
    Harm(name="torn", does="torn"),
)
SERVER: tuple[Harm, ...] = (
    Harm(name="connection lost", does="lost"),
    Harm(name="no answer", does="lost", seconds=10.0),
)
SERVER_COMMIT: tuple[Harm, ...] = (
    Harm(name="connection lost, and it is not there", does="lost"),
    Harm(name="connection lost, though it is there", does="unheard"),
    Harm(name="no answer, though it is there", does="unheard", seconds=10.0),
    Harm(name="a warning", does="warned"),
    Harm(name="killed before", does="kill_before"),
    Harm(name="killed after", does="kill_after"),
    Harm(name="stopped before it for 2 s", does="stands", seconds=2.0),
    Harm(name="stopped before it for 20 s", does="stands", seconds=20.0),
    *(
        Harm(
            name=f"stopped before it for 2 s, meanwhile a {what}",
            does="stands",
            seconds=2.0,
            params={"meanwhile": what},
        )
        for what in ("halt", "remove rule")
    ),
)
MENU: Mapping[str, tuple[Harm, ...]] = {
    "write": WRITE,
    "read": READ,
    "sign in": SIGN_IN,
    "look": LOOK,
    "begin": BEGIN,
    "commit": COMMIT,
    "mark": MARK,
    "server": SERVER,
    "server commit": SERVER_COMMIT,
    "server sending": SERVER_COMMIT,
}
NEWER = frozenset(
    {
        ("write", "another object in a 200"),
        ("write", "429 clean, rule renamed"),
        ("write", "429 applied, rule renamed"),
        ("read", WRONG_OBJECT),
        ("look", "disk I/O error"),
        ("begin", "disk I/O error"),
        ("commit", "sync fails, and it is not there"),
    }
)
"""What came to the menu after worlds had been drawn from it that are to be drawn again as they were."""
NEWEST = frozenset(
    {
        *(("write", one.name) for one in WRITE if one.does in ("stall_at_byte", "lost", "lost_killed", "lost_stopped")),
        *(("write", one.name) for one in WRITE if one.does in ("cache", "moved")),
        *(("read", one.name) for one in (*CACHES, MOVED, TWICE)),
        ("write", "401 applied"),
        ("write", "403 applied"),
    }
)
"""And what came after these."""


def _without(*later: frozenset[tuple[str, str]]) -> Mapping[str, tuple[Harm, ...]]:
    names = frozenset[tuple[str, str]]().union(*later)
    return {kind: tuple(one for one in menu if (kind, one.name) not in names) for kind, menu in MENU.items()}


OLDER = _without(NEWER, NEWEST)
OLD = _without(NEWEST)
STALE = frozenset(one.name for one in READ if one.fault == "stale_reads")
"""Reads of the past: what is claimed of single reads is not claimed of them."""


@dataclass(slots=True)
class Points:
    """Counts the points that are crossed, and says what goes wrong there.

    ``plan``: by number; ``named``: by kind of place, and which of that kind. ``rates``: by kind of place, the share
    that goes wrong, and what may; for swarms. Nothing goes wrong any more once it is healed. ``blind_s``: from and to
    when every read is answered 500. ``over_s``: when all that has gone wrong by itself is over. ``more``: something may
    still go wrong that is not planned yet.
    """

    plan: Mapping[int, Harm] = field(default_factory=dict)
    named: Mapping[tuple[str, int], Harm] = field(default_factory=dict)
    rates: Mapping[str, tuple[float, tuple[Harm, ...]]] = field(default_factory=dict)
    chance: Random = field(default_factory=lambda: Random(0))
    healed: bool = False
    until: int = 0
    blind_s: tuple[float, float] = (0.0, 0.0)
    moment: Callable[[], float] = lambda: 0.0
    crossed: list[tuple[str, str]] = field(default_factory=list)
    of_kind: Counter[str] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)
    over_s: float = 0.0
    more: bool = False
    tell: Callable[[str], None] = lambda _text: None

    @property
    def spent(self) -> bool:
        """Whether all that was planned is over; never, where nothing was."""
        met = all(self.of_kind[kind] > nth for kind, nth in self.named)
        over = met and len(self.crossed) > max(self.plan, default=0) and self.moment() >= self.over_s
        return self.planned and over and not self.more

    @property
    def planned(self) -> bool:
        """Whether anything was planned to go wrong at a certain point."""
        return bool(self.plan or self.named)

    def cross(self, kind: str, what: str) -> Harm | None:
        """The worker is at a point; what goes wrong there, if anything."""
        number = len(self.crossed)
        self.crossed.append((kind, what))
        if not self.healed:
            self.until = number + 1
        harm = self.plan.get(number) or self.named.get((kind, self.of_kind[kind]))
        self.of_kind[kind] += 1
        if harm is not None and harm not in MENU[kind]:
            harm = None  # the worker came to another place by this number than when it was planned
        if harm is None and not self.healed and kind in self.rates:
            share, menu = self.rates[kind]
            if self.chance.random() < share:
                harm = self.chance.choice(menu)
        if kind == "read" and self.blind_s[0] <= self.moment() < self.blind_s[1]:
            harm = MENU["read"][0]
        if harm is None:
            return None
        self.done[f"{kind}: {harm.name}"] += 1
        self.over_s = max(self.over_s, self.moment() + harm.lasts_s)
        self.tell(f"point {number} {kind} {what}: {harm}")
        return harm
