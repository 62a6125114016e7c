"""What a world is made of: rules, a few events, and what happens to them by itself. Small, so that many can be played.

A scene is plain values. The named ones are walked through fault by fault; `drawn` makes one from a seed, and turns on a
random few of all the kinds of trouble there are.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from tests.simulation import points
from tests.simulation.case import CLUSTER, NEW_BUDGET
from tests.simulation.case import RUN as RUN_ID
from tests.simulation.points import Harm

SCRIPT_S = 18.0
"""When the story of a drawn scene is over, and healing begins."""
TOLD_S = 14.0
"""The same of a named one: where nothing goes wrong, all is over by then, and one more look has seen so."""
Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """A rule, and what an outsider can say of it. ``wants``: whether its condition is true of an event's record and
    setup; ``done``: whether its effect is there; ``once``: how often it may fire is how often ``wants`` became true.
    ``leans_on``: the path of the fact that it needs beside the record of an event, ``{}`` the event; empty: none."""

    id: str
    text: str
    wants: Callable[[Record, str], bool] | None = None
    done: Callable[[Record, str], bool] | None = None
    once: bool = True
    leans_on: Callable[[Record], str] = lambda _: ""

    @property
    def spelled(self) -> str:
        return f"  - id: {self.id}\n    {self.text}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Something that happens at a second of the story."""

    at: float
    does: str
    details: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.at:6.2f} {self.does} {dict(self.details)}"


LATENCIES_S = (0.01, 0.03, 0.03, 0.1, 0.4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A whole world. ``rates``: what goes wrong at how many of the points of a kind; ``down_s``: how long a killed
    worker stays away; ``settings``: other numbers than the usual; ``latencies_s``: how long answers are under way,
    drawn for each. Where all take equally long, writes are ready in the same moment. ``assumed``: what the worker's
    config says of a service that is not as usual. ``replicas``: of a fleet, 0 for one worker on a file; ``partners``:
    who have the events by turns."""

    name: str
    laws: tuple[Law, ...]
    events: tuple[Record, ...]
    turns: tuple[Turn, ...] = ()
    rates: Mapping[str, tuple[float, tuple[Harm, ...]]] = field(default_factory=dict)
    twin: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    down_s: float = 1.0
    kill_steps: tuple[int, ...] = ()
    lasts_s: float = TOLD_S
    latencies_s: tuple[float, ...] = LATENCIES_S
    assumed: Mapping[str, Any] = field(default_factory=dict)
    replicas: int = 0
    partners: int = 1

    @property
    def rules(self) -> str:
        return spelled(self.laws)

    def __str__(self) -> str:
        laws = ", ".join(law.id for law in self.laws)
        events = "; ".join(", ".join(f"{key} {value}" for key, value in one.items()) for one in self.events)
        rates = "; ".join(
            f"{kind} {share:.2f} {[str(one) for one in menu]}" for kind, (share, menu) in self.rates.items()
        )
        more = (
            f"down {self.down_s:g} s, settings {dict(self.settings)}, twin {dict(self.twin)}, kills {self.kill_steps}"
        )
        return "\n".join(
            [
                f"{self.name}: {laws}",
                f"  events {events}",
                f"  rates {rates}",
                f"  {more}",
                *(f"  {one}" for one in self.turns),
            ]
        )


def spelled(laws: tuple[Law, ...]) -> str:
    """The rule file."""
    return "rules:\n" + "".join(law.spelled for law in laws) if laws else "rules: []\n"


SETUP = "/setup_processes/{}"
PAUSE = Law(
    id="pause-cancelled",
    text="when: event.status == 'cancelled'\n    priority: 10\n    do: [pause]",
    wants=lambda record, _: record["status"] == "cancelled",
    done=lambda record, _: record["client_campaign_status"] != "RUNNING",
)
KEEP = Law(
    id="keep-paused",
    text="when: event.status == 'cancelled'\n    repeat: enforce\n    cooldown: 1m\n    do: [pause]",
    wants=lambda record, _: record["status"] == "cancelled",
    once=False,
)
RUN = Law(
    id="run-flagged",
    text="when: event.frontend_status == 'FLAGGED'\n    do: [run]",
    wants=lambda record, _: record["frontend_status"] == "FLAGGED",
)
REST = Law(
    id="rest-when-sold",
    text="when: event.predicted_sales_share > 0.8\n    do: [{optimisation: 'OFF'}, {ad_optimisation: 'OFF'}]",
    wants=lambda record, _: record["predicted_sales_share"] > 0.8,
    done=lambda record, _: record["campaign_optimisation_status"] == "OFF",
)
LAUNCH = Law(
    id="launch",
    text=(
        "when: event.status == 'active' && event.category == 'launch' && setup.state == 'NONE'\n"
        "    do: [{create_draft: {goal: ROAS, total_budget: 500}}, boost]"
    ),
    once=False,
    leans_on=lambda record: SETUP if record["status"] == "active" and record["category"] == "launch" else "",
)
BOOST = Law(
    id="boost-drafts",
    text="when: event.status == 'active' && event.category == 'party' && setup.state == 'DRAFT'\n    do: [boost]",
    wants=lambda record, setup: record["status"] == "active" and record["category"] == "party" and setup == "DRAFT",
    leans_on=lambda record: SETUP if record["status"] == "active" and record["category"] == "party" else "",
)
CLUSTERS = Law(
    id="boost-on-new-clusters",
    text=(
        "on_change: suggested_tcs\n    with: {budget: 500, goal: ROAS}\n"
        "    when: event.status == 'active' && setup.state == 'DRAFT'\n    do: [boost]"
    ),
    once=False,
    leans_on=lambda record: SETUP if record["status"] == "active" else "",
)
HIDE = Law(
    id="hide-archived",
    text="when: event.status == 'archived'\n    do: [{frontend_status: HIDDEN}]",
    wants=lambda record, _: record["status"] == "archived",
    done=lambda record, _: record["frontend_status"] == "HIDDEN",
)
FACTOR = 1.2
RAISE = Law(
    id="more-for-the-draft",
    text=(
        "when: event.status == 'active' && setup.state == 'DRAFT'\n    limit: {per_event_per_day: 1}\n"
        f'    do: [{{update_draft: {{total_budget: "=setup.total_budget * {FACTOR}"}}}}]'
    ),
    once=False,
    leans_on=lambda record: SETUP if record["status"] == "active" else "",
)
WORDS = replace(RAISE, id="a-text", text=RAISE.text.replace(f'"=setup.total_budget * {FACTOR}"', "\"='999'\""))
BESIDE = replace(
    RAISE,
    id="beside-the-budget",
    text=RAISE.text.replace(f'"=setup.total_budget * {FACTOR}"', "100, extra: {daily_budget: \"='99999'\"}"),
)
"""Money that is a text, where the budget stands and beside it."""
FOR_S = 6.0
SELDOM = replace(RUN, text=f"{RUN.text}\n    limit: {{per_event_per_day: 1}}")
PATIENT = replace(HIDE, text=f"for: {FOR_S:g}s\n    {HIDE.text}")
CALM = Law(
    id="calm-ads",
    text="when: event.category == 'quiet'\n    do: [{ad_optimisation: 'OFF'}]",
    wants=lambda record, _: record["category"] == "quiet",
    done=lambda record, _: record["ad_campaign_optimisation_status"] == "OFF",
)
"""The untouched target's: it has to go on whatever happens to the others."""
LAWS = (PAUSE, KEEP, RUN, REST, LAUNCH, BOOST, CLUSTERS, HIDE)
CREATE = Law(
    id="campaign-for-cluster",
    text=(
        "when: event.status == 'active' && event.category == 'cluster'\n"
        f'    do: [{{create_campaign: {{tc: "{CLUSTER}", tc_run_id: {RUN_ID}}}}}]'
    ),
    wants=lambda record, _: record["status"] == "active" and record["category"] == "cluster",
)
UPDATE = Law(
    id="more-for-the-draft",
    text=(
        "when: event.status == 'active' && event.category == 'budget' && setup.state == 'DRAFT'\n"
        f"    do: [{{update_draft: {{total_budget: {NEW_BUDGET}}}}}]"
    ),
    wants=lambda record, setup: record["status"] == "active" and record["category"] == "budget" and setup == "DRAFT",
    leans_on=lambda record: SETUP if record["status"] == "active" and record["category"] == "budget" else "",
)


TIRED = Law(
    id="rest-the-tired",
    text="when: event.category == 'tired'\n    do: [pause]",
    wants=lambda record, _: record["category"] == "tired",
)
FELL = 50.0
PUT_BACK = Law(
    id="put-back",
    text=f"after: {TIRED.id}\n    when: since(event.capacity) < -{FELL}\n    do: [{{undo: after}}]",
    once=False,
)
ASKS = replace(PAUSE, text=PAUSE.text.replace("    do:", "    on_unknown: ask\n    do:"))
FOLLOWS = Law(
    id="calm-the-tired",
    text=f"after: {TIRED.id}\n    when: event.capacity > 0.0\n    do: [{{ad_optimisation: 'OFF'}}]",
    once=False,
)
WAIT_S = 12.0
WAITS = replace(
    TIRED, id="rest-for-a-while", text=TIRED.text.replace("[pause]", f"[pause, {{wait: {WAIT_S:g}s}}, run]")
)
WINDOW_S = 8.0
FALLS = Law(
    id="rest-what-falls",
    text=f"when: delta(event.capacity, '{WINDOW_S:g}s') < -{FELL}\n    do: [{{optimisation: 'OFF'}}]",
    once=False,
)


def _set(at: float, event: str, by: str = "world", **fields: Any) -> Turn:  # noqa: ANN401 - fields of an event
    return Turn(at=at, does="set", details={"event": event, "by": by, "set": fields})


DRAFT = {"goal": "ROAS", "total_budget": 500}
TWO_CAMPAIGNS = tuple(
    {"campaign_id": f"cmp-{name}", "tc": name, "tc_run_id": 1, "status": "ACTIVE"} for name in ("jazz", "opera")
)
CLUSTERED = {"category": "cluster", "status": "idle", "campaigns": TWO_CAMPAIGNS}
TO_ROUND = {"category": "budget", "setup": DRAFT, "status": "idle"}
OWN_MIND = frozenset({"campaigns_limit", "text_spelling", "campaign_run", "numbers_shown"})
"""What a service does of its own mind, so that no read shows just what was sent."""
ITEMS = {"campaigns.items": "items"}
CREATED_MINDS: tuple[tuple[Mapping[str, Any], Mapping[str, Any]], ...] = (
    ({"campaigns_shape": "page", "campaigns_limit": 1}, ITEMS),
    ({"campaigns_shape": "page", "campaigns_limit": 2}, ITEMS),
    ({"campaigns_shape": "limited", "campaigns_limit": 3}, ITEMS),
    *(({"text_spelling": spelling}, {}) for spelling in ("decomposed", "trimmed", "lower")),
    ({"campaign_run": "newest"}, {}),
)
ROUNDING: tuple[tuple[Mapping[str, Any], Mapping[str, Any]], ...] = (({"numbers_shown": "whole"}, {}),)
PARTY = {"category": "party", "setup": DRAFT, "status": "idle"}
OTHER = {"id": "e9", "category": "concert"}
LATER = _set(11.0, "e9", category="quiet")
LONG_AFTER = _set(190.0, "e1", title="Another")


def _scene(name: str, laws: tuple[Law, ...], event: Record, *turns: Turn, **more: Any) -> Scene:  # noqa: ANN401 - fields of a scene
    return Scene(name=name, laws=laws, events=({"id": "e1", **event},), turns=turns, **more)


CANCELLED = _set(5.0, "e1", status="cancelled")
ACTIVE = _set(5.0, "e1", status="active")


def _paused(name: str, *turns: Turn, **more: Any) -> Scene:  # noqa: ANN401 - as above
    """An event that is cancelled, and what happens after that."""
    return _scene(name, (PAUSE,), {}, CANCELLED, *turns, **more)


def _hidden(name: str, *turns: Turn, **more: Any) -> Scene:  # noqa: ANN401 - as above
    """An event that is archived, and what happens after that."""
    return _scene(name, (HIDE,), {}, _set(5.0, "e1", status="archived"), *turns, **more)


def _two(name: str, *turns: Turn, **more: Any) -> Scene:  # noqa: ANN401 - as above
    """An event to pause, and beside it one that has to go on whatever happens to the first."""
    return replace(_scene(name, (PAUSE, CALM), {}, *turns, **more), events=({"id": "e1"}, OTHER))


def _do(at: float, does: str, **details: Any) -> Turn:  # noqa: ANN401 - as a turn wants them
    return Turn(at=at, does=does, details=details)


NAMED: tuple[Scene, ...] = (
    _two("pause", CANCELLED, LATER),
    Scene(
        name="many at once",
        laws=(PAUSE,),
        events=tuple({"id": f"e{number}"} for number in range(1, 5)),
        turns=tuple(_set(5.0, f"e{number}", status="cancelled") for number in range(1, 5)),
        latencies_s=(0.03,),
    ),
    _scene("boost", (BOOST,), PARTY, ACTIVE),
    _scene("launch", (LAUNCH,), {"status": "idle", "category": "launch"}, ACTIVE, lasts_s=SCRIPT_S),
    _scene("clusters", (CLUSTERS,), {"setup": DRAFT}, _do(8.0, "suggest", event="e1", run=7), lasts_s=SCRIPT_S),
    _scene(
        "not computed",
        (CLUSTERS,),
        {"setup": DRAFT},
        _do(8.0, "suggest", event="e1", run=0),
        _do(12.0, "suggest", event="e1", run=1),
        lasts_s=SCRIPT_S,
    ),
    _hidden("hide"),
    _scene(
        "stop overtakes",
        (PAUSE, RUN),
        {"client_campaign_status": "PAUSED"},
        _set(4.5, "e1", frontend_status="FLAGGED"),
        _set(9.5, "e1", status="cancelled"),
    ),
    _scene(  # a person has set it meanwhile, so that the pause has something to do while the run is under way
        "overtaken",
        (PAUSE, RUN),
        {"client_campaign_status": "PAUSED"},
        _set(4.5, "e1", frontend_status="FLAGGED"),
        _set(8.0, "e1", by="person", client_campaign_status="RUNNING"),
        _set(8.5, "e1", status="cancelled"),
    ),
    _scene(  # and the wall clock was set back between the two
        "turned round",
        (PAUSE, RUN),
        {"client_campaign_status": "PAUSED"},
        _set(4.5, "e1", frontend_status="FLAGGED"),
        _set(8.0, "e1", by="person", client_campaign_status="RUNNING"),
        _do(8.2, "clock", seconds=-60.0),
        _set(8.5, "e1", status="cancelled"),
    ),
    _scene("enforce", (KEEP,), {"status": "cancelled"}, _set(9.5, "e1", by="person", client_campaign_status="RUNNING")),
    _scene("task fails", (PAUSE,), {}, _do(4.0, "task fails", event="e1"), CANCELLED),
    _paused("wanted no more", _set(11.0, "e1", status="active")),
    _scene("halted", (PAUSE,), {}, _do(4.5, "halt", seconds=8.0), CANCELLED),
    _paused("two", _do(5.5, "second"), _do(9.0, "second")),
    _paused("stubborn", lasts_s=90.0),
    _paused("mark lost", _do(12.0, "lose mark")),
    _paused("restored", _do(6.0, "backup"), _do(13.0, "restore")),
    _scene(
        "halt forgotten",
        (PAUSE,),
        {},
        _do(4.0, "backup"),
        _do(4.5, "halt", seconds=60.0),
        _do(14.0, "restore"),
        _set(14.5, "e1", status="cancelled"),
    ),
    Scene(
        name="few an hour",
        laws=(RUN,),
        events=({"id": "e1"}, {"id": "e2"}),
        turns=(
            _set(1.0, "e1", client_campaign_status="PAUSED"),
            _set(1.0, "e2", client_campaign_status="PAUSED"),
            _set(5.0, "e1", frontend_status="FLAGGED"),
            _set(9.0, "e2", frontend_status="FLAGGED"),
        ),
        settings={"writes_per_hour": 1},
    ),
    Scene(
        name="few at once",
        laws=(RUN,),
        events=tuple({"id": f"e{number}"} for number in range(1, 5)),
        turns=(
            *(_set(1.0, f"e{number}", client_campaign_status="PAUSED") for number in range(1, 5)),
            *(_set(5.0, f"e{number}", frontend_status="FLAGGED") for number in range(1, 5)),
        ),
        settings={"writes_per_hour": 1},
        latencies_s=(0.03,),
    ),
    _hidden("third value", _set(8.5, "e1", by="person", frontend_status="FLAGGED")),
    _hidden("edited", _do(13.5, "edit", rule=HIDE.id), lasts_s=25.0),
    _paused("reset", _do(9.5, "reset", result="initial")),
    Scene(
        name="dear",
        laws=(BOOST,),
        events=tuple({"id": f"e{number}", **PARTY} for number in (1, 2, 3)),
        turns=tuple(_set(3.0 + 2.0 * number, f"e{number}", status="active") for number in (1, 2, 3)),
        settings={"spend_per_day": 1000.0},
    ),
    Scene(
        name="dear week",
        laws=(BOOST,),
        events=tuple({"id": f"e{number}", **PARTY} for number in (1, 2, 3)),
        turns=tuple(_set(3.0 + 2.0 * number, f"e{number}", status="active") for number in (1, 2, 3)),
        settings={"spend_per_week": 1000.0},
    ),
    _scene(  # published, taken back by a person, and wanted once more
        "dear event",
        (BOOST,),
        PARTY,
        ACTIVE,
        _do(14.5, "setup", event="e1", setup={**DRAFT, "state": "DRAFT"}),
        _set(14.0, "e1", status="idle"),
        _set(18.0, "e1", status="active"),
        settings={"spend_per_event": 800.0},
        lasts_s=34.0,
    ),
    Scene(
        name="surge",
        laws=(PAUSE,),
        events=tuple({"id": f"e{number}"} for number in (1, 2, 3)),
        turns=tuple(_set(3.0 + 2.0 * number, f"e{number}", status="cancelled") for number in (1, 2, 3)),
        settings={"surge": 1},
    ),
    _scene(
        "seldom",
        (SELDOM,),
        {"client_campaign_status": "PAUSED"},
        _set(4.0, "e1", frontend_status="FLAGGED"),
        _set(8.0, "e1", by="person", client_campaign_status="PAUSED"),
        _set(8.0, "e1", frontend_status="DEFAULT"),
        _set(12.0, "e1", frontend_status="FLAGGED"),
        lasts_s=SCRIPT_S,
    ),
    _scene(
        "patient",
        (PATIENT,),
        {},
        _set(5.0, "e1", status="archived"),
        _set(9.0, "e1", status="active"),
        _set(12.0, "e1", status="archived"),
        lasts_s=25.0,
    ),
    _scene("silence", (PAUSE,), {}, _do(9.0, "silence"), _set(10.0, "e1", status="cancelled")),
    _paused("swapped", _do(12.0, "swap ledger")),
    _hidden("renamed", _do(8.0, "rename rule", rule=HIDE.id)),
    _paused("started anew", _do(12.0, "stop")),
    _two("two pages", CANCELLED, LATER, settings={"page_size": 1}),
    _two("away", CANCELLED, _do(5.1, "remove", event="e1", seconds=9.0), settings={"page_size": 1}, lasts_s=25.0),
    Scene(
        name="away from a long list",
        laws=(PAUSE, CALM),
        events=({"id": "e1"}, *({"id": f"e{number}"} for number in range(3, 10))),
        turns=(_set(20.9, "e1", status="cancelled"), _do(21.0, "remove", event="e1", seconds=60.0)),
        settings={"page_size": 1, "requests_per_minute": 60},
        lasts_s=120.0,
    ),
    _two("called off", CANCELLED, _set(8.0, "e1", status="active"), LATER, lasts_s=40.0),
    _paused("set back", _set(15.0, "e1", by="person", client_campaign_status="RUNNING"), lasts_s=30.0),
    _scene("boost and after", (BOOST,), PARTY, ACTIVE, _set(40.0, "e1", predicted_sales_share=0.2), lasts_s=45.0),
    _paused("approve", _do(9.0, "approve"), settings={"mode": "approve"}),
    _two(  # a person puts back what a rule did, and the rule, whose condition is still true, leaves it so
        "undone", CANCELLED, _do(10.5, "undo", rule=PAUSE.id), LATER, lasts_s=25.0
    ),
    _hidden(  # while the undo is on its way, another hand sets a third value
        "undone too late",
        _do(12.5, "undo", rule=HIDE.id),
        _set(12.6, "e1", by="person", frontend_status="FLAGGED"),
        lasts_s=25.0,
    ),
    _hidden(  # two people undo the same, the second a moment later and under a halt of the rule
        "undone twice",
        _do(12.3, "halt rule", rule=HIDE.id, seconds=20.0),
        _do(12.5, "undo", rule=HIDE.id),
        _do(12.6, "undo", rule=HIDE.id),
        lasts_s=30.0,
    ),
    _paused(  # while the undo is held, another hand starts the event and pauses it again: that is the last word
        "undone, there and back",
        _do(10.6, "halt", seconds=12.0),
        _do(10.7, "undo", rule=PAUSE.id),
        _set(11.0, "e1", by="person", client_campaign_status="RUNNING"),
        _set(18.0, "e1", by="person", client_campaign_status="PAUSED"),
        lasts_s=35.0,
    ),
    _paused(  # the same before the undo, by a wall clock that was set back since the pause
        "undone an hour back",
        _do(10.6, "clock", seconds=-3600.0),
        _set(11.0, "e1", by="person", client_campaign_status="RUNNING"),
        _set(18.0, "e1", by="person", client_campaign_status="PAUSED"),
        _do(21.0, "undo", rule=PAUSE.id),
        lasts_s=35.0,
    ),
    Scene(  # of two that a person has started again, one is asked for anew
        name="again",
        laws=(PAUSE,),
        events=tuple({"id": f"e{number}", "client_campaign_status": "PAUSED"} for number in (1, 2)),
        turns=(
            *(_set(5.0, f"e{number}", status="cancelled") for number in (1, 2)),
            *(_set(10.0, f"e{number}", by="person", client_campaign_status="RUNNING") for number in (1, 2)),
            _do(12.0, "again", rule=PAUSE.id, event="e1"),
        ),
        lasts_s=25.0,
    ),
    _scene(  # a person says no to what a change fired, and then asks for it after all
        "again, a change",
        (CLUSTERS,),
        {"setup": DRAFT},
        _do(8.0, "suggest", event="e1", run=7),
        _do(12.5, "reject"),
        _do(14.0, "again", rule=CLUSTERS.id),
        _do(20.0, "approve"),
        settings={"mode": "approve"},
        lasts_s=32.0,
    ),
    _two(  # while both have fired, and the last reads before their writes are under way
        "one rule halted",
        *(CANCELLED, _set(5.0, "e9", category="quiet")),
        _do(8.5, "halt rule", rule=PAUSE.id, seconds=9.0),
        lasts_s=25.0,
        latencies_s=(0.4,),
    ),
)


def _of_its_own_mind(name: str, mind: tuple[Mapping[str, Any], Mapping[str, Any]] = ({}, {})) -> Scene:
    """A service that keeps or shows what it is sent in its own way, and a rule that asks it for a campaign."""
    return _scene(name, (CREATE,), CLUSTERED, ACTIVE, twin=mind[0], assumed=mind[1], lasts_s=SCRIPT_S)


NAMED += (
    _of_its_own_mind("cluster"),
    _of_its_own_mind("cluster on page three", CREATED_MINDS[0]),
    _of_its_own_mind("cluster beyond a limit", CREATED_MINDS[2]),
    _of_its_own_mind("cluster decomposed", CREATED_MINDS[3]),
    _of_its_own_mind("cluster trimmed", CREATED_MINDS[4]),
    _of_its_own_mind("cluster in lower case", CREATED_MINDS[5]),
    _of_its_own_mind("cluster of the newest run", CREATED_MINDS[6]),
    Scene(  # and the mark is written once more after that
        name="restored beneath",
        laws=(PAUSE,),
        events=({"id": "e1"}, {"id": "e2"}),
        turns=(_do(4.0, "backup"), CANCELLED, _do(9.0, "restore beneath"), _set(9.5, "e2", status="cancelled")),
        lasts_s=30.0,
    ),
    _scene(  # what was sent since shows in the very next poll
        "restored beneath, and decided on",
        (LAUNCH,),
        {"category": "launch"},
        _do(5.0, "backup"),
        _do(9.0, "restore beneath"),
        lasts_s=25.0,
    ),
    Scene(  # and the mark is written once more after that
        name="exchanged beneath",
        laws=(PAUSE,),
        events=({"id": "e1"}, {"id": "e2"}),
        turns=(_do(4.0, "backup"), CANCELLED, _do(9.0, "exchange beneath"), _set(9.5, "e2", status="cancelled")),
        lasts_s=30.0,
    ),
    _scene(
        "two, without a lock", (PAUSE,), {}, _do(4.0, "lose lock beneath"), _do(4.1, "second"), CANCELLED, lasts_s=30.0
    ),
    _hidden(  # two changes at once, of which the log may tell although no trail is stored, and one later
        "told, not stored",
        _set(5.0, "e1", frontend_status="FLAGGED"),
        _set(16.0, "e1", by="person", frontend_status="DEFAULT"),
        lasts_s=25.0,
    ),
    _paused(  # the config is pointed at another service, and then back
        "elsewhere", _do(12.0, "elsewhere"), lasts_s=25.0
    ),
    _paused("held", _do(6.5, "hold ledger", seconds=30.0), lasts_s=45.0),
    _paused("restless", *(_do(at, "kill") for at in range(12, 236, 8)), lasts_s=240.0),
    _scene(  # a person sets less while what was computed from more waits for an approval
        "moved",
        (RAISE,),
        TO_ROUND,
        ACTIVE,
        _do(12.0, "setup", event="e1", setup={**DRAFT, "total_budget": 50}),
        _do(14.0, "approve"),
        settings={"mode": "approve"},
        lasts_s=30.0,
    ),
    _scene("a text", (WORDS,), TO_ROUND, ACTIVE),
    _scene("money in words", (BESIDE,), TO_ROUND, ACTIVE, settings={"spend_per_event": 1000.0}),
    _scene(
        "puts back",
        (TIRED, PUT_BACK),
        {"capacity": 400},
        _set(5.0, "e1", category="tired"),
        _set(12.0, "e1", capacity=300),
        _set(36.0, "e1", capacity=290),
        lasts_s=45.0,
    ),
    _scene(  # a person has put it back already, and nothing stands that a rule could
        "put back already",
        (TIRED, PUT_BACK),
        {"capacity": 400},
        _set(5.0, "e1", category="tired"),
        _do(10.5, "undo", rule=TIRED.id),
        _set(18.0, "e1", capacity=300),
        lasts_s=30.0,
    ),
    _scene(  # and the same event is tired anew: what is put back then is the second pause
        "puts back each",
        (TIRED, PUT_BACK),
        {"capacity": 400},
        _set(5.0, "e1", category="tired"),
        _set(12.0, "e1", capacity=300),
        _set(22.0, "e1", category="awake"),
        _set(27.0, "e1", category="tired"),
        _set(35.0, "e1", capacity=200),
        lasts_s=45.0,
    ),
    _scene(  # what it asks for is true all the while, and yet each firing is one of its own
        "follows each",
        (TIRED, FOLLOWS),
        {"capacity": 400},
        _set(5.0, "e1", category="tired"),
        _set(16.0, "e1", category="awake", client_campaign_status="RUNNING"),
        _set(22.0, "e1", category="tired"),
        lasts_s=40.0,
    ),
    _scene("waits", (WAITS,), {}, _set(5.0, "e1", category="tired"), lasts_s=35.0),
    _scene("waits, and is killed", (WAITS,), {}, _set(5.0, "e1", category="tired"), _do(12.0, "kill"), lasts_s=35.0),
    _scene("falls", (FALLS,), {"capacity": 400}, _set(6.0, "e1", capacity=300), lasts_s=25.0),
    _scene(  # and nobody knows yet whether it was sent
        "called off, before a person", (ASKS,), {}, CANCELLED, _set(9.0, "e1", status="active"), lasts_s=30.0
    ),
    _paused(  # the first pause is under way still when the second is wanted
        "called off and on", _set(8.5, "e1", status="active"), _set(11.5, "e1", status="cancelled"), lasts_s=30.0
    ),
    _scene(  # while the last reads before its boost are under way
        "draft taken away", (BOOST,), PARTY, ACTIVE, _do(11.0, "setup", event="e1", setup=None), lasts_s=30.0
    ),
    _paused("again, unconfirmed", _do(80.0, "again", rule=PAUSE.id), lasts_s=90.0),
    _scene("enforce for long", (KEEP,), {}, CANCELLED, LONG_AFTER, lasts_s=200.0),
    Scene(  # while one write is in flight, and the last reads before another one
        name="stopped",
        laws=(PAUSE,),
        events=({"id": "e1"}, {"id": "e2"}),
        turns=(CANCELLED, _set(9.0, "e2", status="cancelled"), _do(12.0, "stop")),
        latencies_s=(0.4,),
        lasts_s=25.0,
    ),
    _scene("draft", (UPDATE,), TO_ROUND, ACTIVE),
    _scene("draft rounded", (UPDATE,), TO_ROUND, ACTIVE, twin={"numbers_shown": "whole"}),
)

WALKED = ("pause", "boost", "launch", "clusters", "hide", "stop overtakes", "overtaken", "enforce", "approve")
"""The scenes that are walked through fault by fault with every test run; the others are for single claims."""
ALSO_WALKED = (
    *("two pages", "two", "halted", "mark lost", "restored", "swapped", "reset", "renamed", "wanted no more"),
    *("dear", "dear event", "surge", "seldom", "patient", "silence", "halt forgotten", "away", "called off"),
    *("boost and after", "set back", "turned round", "started anew"),
    *("undone", "undone too late", "undone twice", "undone, there and back", "undone an hour back"),
    *("again", "again, a change", "one rule halted"),
    *("cluster", "cluster on page three", "cluster in lower case", "draft", "draft rounded", "moved"),
    *("restored beneath", "exchanged beneath", "two, without a lock"),
    *("puts back", "put back already", "puts back each", "follows each", "waits", "falls"),
)
"""These as well by ``make prove``."""


_CANCELLED = _set(9.0, "e1", status="cancelled")


def _fleet(name: str, *turns: Turn, **more: Any) -> Scene:  # noqa: ANN401 - fields of a scene
    told = {"replicas": 3, "partners": 3, "lasts_s": 30.0, "latencies_s": (0.03,), "down_s": 40.0, **more}
    return replace(_scene(name, (PAUSE,), {}, *turns), **told)


def _often(name: str, does: str, first: float, seconds: float = 0.0, **more: Any) -> tuple[Scene, ...]:  # noqa: ANN401 - as above
    """The same scene with answers that take long, and what befalls the owner at some moments of two intervals."""
    details = {"seconds": seconds, "rule": PAUSE.id}
    turns = [Turn(at=round(first + 0.45 * number, 2), does=does, details=details) for number in range(7)]
    told = {"latencies_s": (0.9,), "partners": 1, **more}
    return tuple(_fleet(f"{name} {at}", _CANCELLED, turn, **told) for at, turn in enumerate(turns, start=1))


_GONE = _do(12.5, "kill")
FLEETS: tuple[Scene, ...] = (
    _fleet("fleet", _CANCELLED),
    _fleet("fleet, told to end", _CANCELLED, _do(12.5, "stop")),
    _fleet("fleet, killed", _CANCELLED, _GONE),
    _fleet("fleet, killed twice", _CANCELLED, _do(28.0, "kill"), partners=1, lasts_s=75.0, down_s=90.0),
    _fleet("fleet, killed soon", _CANCELLED, _do(14.5, "kill"), partners=1),
    _fleet("fleet of one, stalled", _do(9.0, "stall", seconds=12.0), replicas=1, partners=1),
    _fleet("fleet, one comes later", _do(5.0, "kill"), partners=4, replicas=2, down_s=9.0),
    _fleet("fleet, the last rule removed", _CANCELLED, _do(12.6, "remove rule", rule=PAUSE.id)),
    _fleet("fleet, restored", _do(5.0, "backup"), _CANCELLED, _do(14.0, "restore")),
    _fleet("fleet, held back", _do(8.0, "halt", seconds=20.0), _CANCELLED, _GONE, partners=1),
    *_often("fleet, stalled at", "stall", 14.4, 5.5),
    *_often("fleet, ends at", "stop", 9.2),
    *_often("fleet, a rule removed at", "remove rule", 11.0),
    replace(
        _fleet("fleet, all at once", _do(5.0, "kill"), partners=4, replicas=2, down_s=9.0),
        events=tuple({"id": f"e{number}"} for number in range(1, 5)),
        turns=(
            _do(5.0, "kill"),
            *(_set(17.0 + 0.5 * number, f"e{number}", status="cancelled") for number in range(1, 5)),
        ),
    ),
)


def named(name: str) -> Scene:
    """The scene of that name."""
    return next(one for one in (*NAMED, *FLEETS) if one.name == name)


# Drawn

SECOND = 10_000_000
"""Seeds from here on draw from all that can go wrong; those below draw from what there was when worlds of theirs were
recorded, so that each is the world that it was."""
THIRD = 11_000_000
"""And from here on also what people say by ``undo``, ``again`` and a halt of one rule."""
FOURTH = 20_000_000
"""And from here on also what nobody beside the kernel sees, answers of the past that tell so, and a service of its own
mind."""


FLEET = 30_000_000
"""And from here on they are of a fleet."""


def drawn(seed: int) -> Scene:
    """The scene of a seed, the same on every machine."""
    if seed >= FLEET:
        return _shared(seed)
    chance = Random(f"scene {seed}")
    pool = LAWS if seed < FOURTH else (*LAWS, CREATE, UPDATE)
    laws = tuple(sorted(chance.sample(pool, chance.choice([1, 1, 2, 3])), key=lambda law: law.id))
    events = tuple(_event(chance, number, laws) for number in range(1, chance.choice([2, 2, 3])))
    ids = [str(one["id"]) for one in events]
    count = chance.randint(2, 6)
    kinds = _kinds(seed)
    turns = [_cause(chance, laws, ids)]
    turns += [_turn(chance, laws, ids, kinds) for _ in range(count)]
    if seed >= THIRD:
        turns += _words(Random(f"people {seed}"), laws, ids)
    turns.sort(key=lambda one: (one.at, one.does))
    settings: dict[str, Any] = {}
    if seed >= SECOND:
        laws, settings = _braked(Random(f"brakes {seed}"), laws)
    if chance.random() < (0.06 if seed < THIRD else 0.15):
        settings["mode"] = "approve"
    if chance.random() < 0.08:
        settings["writes_per_hour"] = chance.choice([1, 2])
    if chance.random() < 0.15:
        settings["page_size"] = 1
    twin: dict[str, Any] = {}
    if chance.random() < 0.15:
        twin["task_effect"] = "when_done"
    own, told = _own_mind(Random(f"mind {seed}"), laws)
    kills = tuple(sorted(chance.randrange(20, 6000) for _ in range(chance.choice([0, 0, 0, 1, 3]))))
    return Scene(
        name=f"seed {seed}",
        laws=laws,
        events=events,
        turns=tuple(turns),
        rates=_rates(chance, _menus(seed)),
        twin={**twin, **own},
        assumed=told,
        settings=settings,
        down_s=chance.choice([0.2, 1.0, 4.0, 15.0]),
        kill_steps=kills,
        lasts_s=SCRIPT_S,
        latencies_s=(0.03,) if Random(f"latencies {seed}").random() < 0.2 else LATENCIES_S,
    )


def _shared(seed: int) -> Scene:
    """The scene of a seed below, with its rules, its people and its service, for a fleet in a fleet's troubles."""
    chance = Random(f"fleet {seed}")
    scene = drawn(seed - FLEET + chance.choice([THIRD, FOURTH]))
    turns = [one for one in scene.turns if one.does not in _OF_A_FILE]
    for _ in range(chance.randint(1, 5)):
        at, does = round(chance.uniform(2.0, SCRIPT_S + 10.0), 2), chance.choice(_OF_A_FLEET)
        seconds = chance.choice([1.0, 3.0, 6.0, 9.0, 15.0, 40.0])
        turns.append(Turn(at=at, does=does, details={"of": chance.randrange(5), "seconds": seconds}))
    rates = {kind: one for kind, one in scene.rates.items() if kind in ("write", "read", "sign in")}
    for kind, share, least_often in (
        ("server", 0.15, 0.003),
        ("server commit", 0.4, 0.01),
        ("server sending", 0.3, 0.3),
    ):
        if chance.random() < share:
            menu = points.MENU[kind]
            often = min(0.5, least_often * chance.choice([1.0, 2.0, 5.0, 20.0]))
            rates[kind] = (often, tuple(chance.sample(menu, chance.randint(1, 2))))
    return replace(
        scene,
        name=f"seed {seed}",
        turns=tuple(sorted(turns, key=lambda one: (one.at, one.does))),
        rates=rates,
        replicas=chance.choice([2, 2, 3, 3, 4, 5]),
        partners=chance.choice([1, 2, 2, 3, 4]),
        lasts_s=SCRIPT_S + 12.0,
    )


_OF_A_FILE = frozenset(
    {"power", "second", "silence", "backup", "restore", "lose ledger", "lose mark", "flip a bit", "swap ledger"}
    | {"restore beneath", "exchange beneath", "lose lock beneath", "disk full", "hold ledger", "elsewhere"}
)
_OF_A_FLEET = (
    *("kill", "kill", "stop", "stop", "stall", "stall", "clock"),
    *("cut from the service", "cut from the ledger", "cut from the ledger", "silent ledger", "server down"),
)


def _own_mind(chance: Random, laws: tuple[Law, ...]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """How the service shows otherwise what it is sent, in half of the worlds in which a rule sends such; and what the
    worker's config says of that."""
    minds = [one for law, those in ((CREATE, CREATED_MINDS), (UPDATE, ROUNDING)) if law in laws for one in those]
    return chance.choice(minds) if minds and chance.random() < 0.5 else ({}, {})


def _menus(seed: int) -> Mapping[str, tuple[Harm, ...]]:
    """All that may go wrong in the world of a seed."""
    return points.MENU if seed >= FOURTH else points.OLD if seed >= SECOND else points.OLDER


def _kinds(seed: int) -> tuple[tuple[str, float], ...]:
    """What may happen in the world of a seed, and how often."""
    newer = _NEWER_KINDS if seed >= SECOND else ()
    newest = _NEWEST_KINDS if seed >= THIRD else ()
    return (*_KINDS, *newer, *newest, *(_BENEATH_KINDS if seed >= FOURTH else ()))


def _words(chance: Random, laws: tuple[Law, ...], ids: list[str]) -> list[Turn]:
    """What somebody says late in a story, a moment or some looks apart; nothing in one world of four."""
    if chance.random() < 0.25:
        return []
    rule, event, at, found = chance.choice(laws).id, chance.choice(ids), chance.uniform(8.0, SCRIPT_S - 4.0), []
    for does in chance.choice(_SAID):
        details: dict[str, Any] = {"rule": rule}
        if does == "person":
            name, values = chance.choice(_PERSON)
            found.append(_set(round(at, 2), event, by=does, **{name: chance.choice(values)}))
        else:
            if does == "halt rule":
                details["seconds"] = chance.choice([4.0, 9.0])
            elif does == "again":
                details["event"] = chance.choice([event, None])
            found.append(Turn(at=round(at, 2), does=does, details={} if does == "reject" else details))
        at += chance.choice([0.1, 0.1, 1.0, 3.0])
    return found


def _braked(chance: Random, laws: tuple[Law, ...]) -> tuple[tuple[Law, ...], dict[str, Any]]:
    """Some rules with a brake, and some limits, of which a seed draws a few."""
    settings: dict[str, Any] = {}
    if chance.random() < 0.1:
        settings["surge"] = 1
    if BOOST in laws and chance.random() < 0.3:
        settings["spend_per_day"] = chance.choice([300.0, 500.0, 800.0])
    others = {RUN: SELDOM, HIDE: PATIENT}
    return tuple(others[law] if law in others and chance.random() < 0.3 else law for law in laws), settings


def _rates(chance: Random, menus: Mapping[str, tuple[Harm, ...]]) -> dict[str, tuple[float, tuple[Harm, ...]]]:
    """Each seed turns on a random few of all the troubles: swarms find more than everything at once."""
    rates: dict[str, tuple[float, tuple[Harm, ...]]] = {}
    for kind, share, most, least_often in (
        ("look", 0.1, 1, 0.01),
        ("write", 0.95, 6, 0.5),
        ("read", 0.5, 4, 0.02),
        ("sign in", 0.15, 2, 0.2),
        ("begin", 0.1, 1, 0.01),
        ("commit", 0.3, 2, 0.01),
        ("mark", 0.15, 1, 0.2),
    ):
        menu = menus[kind]
        if menu and chance.random() < share:
            if kind == "write" and chance.random() < 0.04:
                menu = points.BEYOND
            chosen = tuple(chance.sample(menu, min(len(menu), chance.randint(1, most))))
            often = chance.choice([1.0, 2.0, 3.5, 3.5, 20.0])  # the last: again and again, in recovery itself too
            rates[kind] = (min(0.9, least_often * often), chosen)
    return rates


def _event(chance: Random, number: int, laws: tuple[Law, ...]) -> Record:
    categories = ["concert", "launch", "party"]
    found: dict[str, Any] = {
        "id": f"e{number}",
        "category": chance.choice(categories),
        "client_campaign_status": chance.choice(["RUNNING", "RUNNING", "PAUSED", None]),
    }
    if BOOST in laws or CLUSTERS in laws or chance.random() < 0.2:
        found["setup"] = DRAFT
    if BOOST in laws:
        found["category"] = "party"
        found["status"] = chance.choice(["idle", "active"])
    for law, given in ((CREATE, CLUSTERED), (UPDATE, TO_ROUND)):
        if law in laws:
            found |= {**given, "status": chance.choice(["idle", "active"])}
    if LAUNCH in laws and chance.random() < 0.7:
        found["category"] = "launch"
        found["status"] = chance.choice(["idle", "active"])
        found.pop("setup", None)
    return found


def _cause(chance: Random, laws: tuple[Law, ...], ids: list[str]) -> Turn:
    """Something that makes one of the rules fire."""
    at, event = round(chance.uniform(3.2, 8.0), 2), chance.choice(ids)
    law = chance.choice(laws)
    fields: dict[str, dict[str, Any]] = {
        PAUSE.id: {"status": "cancelled"},
        KEEP.id: {"status": "cancelled"},
        RUN.id: {"frontend_status": "FLAGGED"},
        REST.id: {"predicted_sales_share": 0.9},
        HIDE.id: {"status": "archived"},
    }
    if law is CLUSTERS:
        return Turn(at=at + 3.5, does="suggest", details={"event": event, "run": chance.randint(2, 5)})
    return _set(at, event, **fields.get(law.id, {"status": "active"}))


_WORLD: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("status", ("active", "cancelled", "cancelled", "archived")),
    ("frontend_status", ("DEFAULT", "FLAGGED")),
    ("predicted_sales_share", (0.5, 0.9)),
    ("campaign_optimisation_status", ("ON", "OFF")),  # the service's own doing
)
_PERSON: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("client_campaign_status", ("RUNNING", "PAUSED")),
    ("campaign_optimisation_status", ("ON", "OFF")),
    ("frontend_status", ("DEFAULT", "FLAGGED", "HIDDEN")),
)
_KINDS: tuple[tuple[str, float], ...] = (
    ("world", 20.0),
    ("person", 10.0),
    ("suggest", 4.0),
    ("setup", 4.0),
    ("kill", 7.0),
    ("power", 3.0),
    ("stop", 2.0),
    ("stall", 4.0),
    ("second", 4.0),
    ("clock", 3.0),
    ("halt", 2.0),
    ("edit", 3.0),
    ("remove rule", 3.0),
    ("deny", 2.0),
    ("sign out", 1.5),
    ("approve", 2.0),
    ("reject", 1.0),
    ("reset", 1.0),
    ("remove", 1.0),
    ("task fails", 1.5),
    ("restore", 1.5),
    ("lose ledger", 0.6),
    ("lose mark", 0.6),
    ("flip a bit", 0.8),
    ("silence", 0.8),
    ("disk full", 1.5),
)
_NEWER_KINDS: tuple[tuple[str, float], ...] = (("rename rule", 3.0), ("swap ledger", 0.6))
_NEWEST_KINDS: tuple[tuple[str, float], ...] = (("undo", 3.0), ("again", 3.0), ("halt rule", 3.0), ("reject", 2.0))
_BENEATH_KINDS: tuple[tuple[str, float], ...] = (
    ("restore beneath", 1.5),
    ("exchange beneath", 1.0),
    ("lose lock beneath", 1.5),
    ("second", 3.0),
    ("hold ledger", 1.5),
    ("elsewhere", 1.0),
)
_SAID: tuple[tuple[str, ...], ...] = (
    ("undo",),
    ("undo",),
    ("undo", "undo"),
    ("undo", "person"),
    ("person", "undo"),
    ("halt rule", "undo"),
    ("undo", "again"),
    ("again",),
    ("person", "again"),
    ("reject", "again"),
    ("halt rule",),
)
"""What people say one after another, once the rules have had time to act."""


def _turn(chance: Random, laws: tuple[Law, ...], ids: list[str], kinds: tuple[tuple[str, float], ...]) -> Turn:
    at = round(chance.uniform(3.5, SCRIPT_S - 1.0), 2)
    event = chance.choice(ids)
    does = chance.choices([kind for kind, _ in kinds], weights=[weight for _, weight in kinds])[0]
    details: dict[str, Any] = {}
    match does:
        case "world" | "person":
            name, values = chance.choice(_WORLD if does == "world" else _PERSON)
            return _set(at, event, by=does, **{name: chance.choice(values)})
        case "suggest":
            details = {"event": event, "run": chance.randint(2, 5)}
        case "setup":
            details = {"event": event, "setup": chance.choice([DRAFT, None, {**DRAFT, "total_budget": 300}])}
        case "stall":
            details = {"seconds": chance.choice([2.0, 7.0, 12.0, 25.0])}
        case "clock":
            details = {"seconds": chance.choice([-7200.0, -60.0, 60.0, 7200.0, 90000.0])}
        case "halt" | "deny" | "remove" | "disk full" | "hold ledger":
            details = {"seconds": chance.choice([4.0, 9.0]), "event": event}
        case "edit" | "remove rule" | "rename rule" | "undo":
            details = {"rule": chance.choice(laws).id}
        case "again":
            details = {"rule": chance.choice(laws).id, "event": chance.choice([event, event, None])}
        case "halt rule":
            details = {"rule": chance.choice(laws).id, "seconds": chance.choice([4.0, 9.0])}
        case "reset":
            details = {"result": chance.choice(["initial", "new_ids"])}
        case "task fails":
            details = {"event": event}
        case _:
            pass
    return Turn(at=at, does=does, details=details)
