"""The actions that a rule can name: one table for validation, docs, planning, guards and evidence.

Each action says what it writes, on which target, whether doing it twice or wrongly can cost money, and which fact shows
its effect. How the request looks is the client's business (`worker.api.requests`), because it leans on assumptions.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

ParamType = Literal["string", "number", "integer", "goal", "on_off", "frontend_status", "list", "any"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Param:
    """One parameter of an action. A ``bare`` action takes its only parameter as the value itself."""

    type: ParamType
    required: bool = False
    about: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One row of the table. ``shape``: how it is written in ``do``: a bare word, ``name: value`` or ``name: {…}``.

    ``reads``: names of the facts that show before, already-so and evidence. ``writes``: (fact, field) it changes.
    ``assumptions``: keys of the register that its request or its evidence lean on.
    """

    name: str
    about: str
    shape: Literal["word", "value", "mapping"]
    params: Mapping[str, Param] = field(default_factory=dict)
    extra_params: bool = False
    target: str
    spends: bool
    reads: tuple[str, ...]
    writes: tuple[tuple[str, str], ...]
    assumptions: tuple[str, ...] = ()
    section: str
    example: str


EVERY_WRITE = ("auth.denied",)
"""What every write leans on: which answers mean that it was turned away at the door and did not happen."""

ACTIONS: Mapping[str, Action] = {
    action.name: replace(action, assumptions=(*action.assumptions, *EVERY_WRITE))
    for action in (
        Action(
            name="pause",
            about="pause all campaigns of the event; nothing to do where the event has no campaign status",
            shape="word",
            target="client_campaign_status",
            spends=False,
            reads=("event",),
            writes=(("event", "client_campaign_status"),),
            assumptions=(
                "client_campaign_status.query",
                "client_campaign_status.semantics",
                "task.succeeded",
                "task.failed",
            ),
            section="3.2",
            example="do: [pause]",
        ),
        Action(
            name="run",
            about="run all campaigns of the event",
            shape="word",
            target="client_campaign_status",
            spends=True,
            reads=("event",),
            writes=(("event", "client_campaign_status"),),
            assumptions=(
                "client_campaign_status.query",
                "client_campaign_status.semantics",
                "task.succeeded",
                "task.failed",
            ),
            section="3.2",
            example="do: [run]",
        ),
        Action(
            name="optimisation",
            about="switch automated optimisation ON or OFF",
            shape="value",
            params={"value": Param(type="on_off", required=True, about="ON or OFF")},
            target="campaign_optimisation_status",
            spends=True,
            reads=("event",),
            writes=(("event", "campaign_optimisation_status"),),
            assumptions=("campaign_optimisation_status.query", "campaign_optimisation_status.semantics"),
            section="3.2",
            example='do: [{optimisation: "OFF"}]',
        ),
        Action(
            name="ad_optimisation",
            about="switch automated optimisation of the ad campaigns ON or OFF",
            shape="value",
            params={"value": Param(type="on_off", required=True, about="ON or OFF")},
            target="ad_campaign_optimisation_status",
            spends=True,
            reads=("event",),
            writes=(("event", "ad_campaign_optimisation_status"),),
            assumptions=("ad_campaign_optimisation_status.query", "ad_campaign_optimisation_status.semantics"),
            section="3.2",
            example='do: [{ad_optimisation: "OFF"}]',
        ),
        Action(
            name="frontend_status",
            about="set what users see: two writes, the second on the event-ingest service cannot be read back",
            shape="value",
            params={"value": Param(type="frontend_status", required=True, about="DEFAULT, FLAGGED, HIDDEN, CANCELLED")},
            target="frontend_status",
            spends=False,
            reads=("event",),
            writes=(("event", "frontend_status"),),
            assumptions=("frontend_status.query", "last_updated_on_fe.query"),
            section="3.2",
            example="do: [{frontend_status: HIDDEN}]",
        ),
        Action(
            name="create_draft",
            about="create the event's setup process",
            shape="mapping",
            params={
                "goal": Param(type="goal", required=True, about="goal of the campaign"),
                "total_budget": Param(type="number", required=True, about="budget in the partner's currency"),
            },
            extra_params=True,
            target="setup",
            spends=True,
            reads=("setup",),
            writes=(("setup", "state"), ("setup", "goal"), ("setup", "total_budget")),
            assumptions=("setup.state_field", "setup.draft"),
            section="4.5",
            example="do: [{create_draft: {goal: ROAS, total_budget: 500}}]",
        ),
        Action(
            name="boost",
            about="publish the event's draft; refused where there is none",
            shape="word",
            target="setup",
            spends=True,
            reads=("setup",),
            writes=(("setup", "state"),),
            assumptions=("setup.state_field", "setup.draft", "setup.published", "setup.after_publish", "boost.body"),
            section="4.5",
            example="do: [boost]",
        ),
    )
}
