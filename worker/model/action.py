"""The shape of one row of the table of actions: everything that tells one action from another.

Checking, schema, docs, planning, guards, evidence and rule tests go by these fields and by no action's name, so that a
new action of a known kind is one row of `worker.model.actions` and one request of `worker.api.requests`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from worker.model.document import EVENT_FIELDS, GOALS

ParamType = Literal[
    "string",
    "number",
    "integer",
    "goal",
    "on_off",
    "frontend_status",
    "eids",
    "texts",
    "any",
    "host",
    "method",
    "path",
    "query",
    "body",
    "flag",
    "confirm",
]
"""``eids``: a list of event ids. ``any``: any JSON. From ``host`` on, the parts of a request that a rule makes by hand,
in which ``{eid}``, ``{partner_id}`` and ``{client_id}`` are filled in (`worker.rules.calls`)."""
Spends = Literal["never", "always", "unless_off", "with_budget", "unless_said"]
"""``unless_off``: all but the value that stops spending; ``with_budget``: where money is among what is sent;
``unless_said``: unless the rule says ``spends: false``."""
Shown = Literal["field", "setup", "campaign", "series", "confirm", "answer", "handover"]
"""What shows the effect: a field of the event, the setup, one campaign among the event's campaigns, the members of the
event's series, a condition of the rule's own on a fresh GET; nothing but the answer, because no read can; or that it
was handed over, because it is a message and no request."""
Budget = Literal["own", "draft"]
"""Whose budget a write commits: one among its own parameters, if it has one, or that of the draft it publishes."""

_OWN_FACTS: Mapping[Shown, str] = {"field": "event", "setup": "setup", "campaign": "campaigns"}
BUDGETS: tuple[str, ...] = ("total_budget", "budget")
"""Parameters that are a budget, in the partner's currency: those that the service's budget range is for."""
WORDS: Mapping[ParamType, tuple[str, ...]] = {
    "goal": GOALS,
    "on_off": ("ON", "OFF"),
    "frontend_status": EVENT_FIELDS["frontend_status"].values,
}
"""The parameters that are one of a few words."""
EXTRA = "extra"
"""The key of an action under which parameters stand that neither the document nor an assumption names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Param:
    """One parameter of an action. ``of_item``: with ``each`` it comes from the item, where it is not written."""

    type: ParamType
    required: bool = False
    of_item: bool = False
    about: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A row of the document that belongs to an action: no rule writes to it by hand."""

    method: str
    path: str
    host: Literal["api", "cr"] = "api"


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One row of the table. ``shape``: how it is written in ``do``: a bare word, ``name: value`` or ``name: {…}``.

    ``target``: what it writes to within the event; names in braces stand for its parameters. A message has none.
    ``extra_params``: it takes parameters that nobody names, under ``extra``.
    ``value``: the value that the action's name implies. ``stops``: values that do nothing but stop spending.
    ``null_is_so``: a null there means that there is nothing to do.
    ``items``: the writes that it makes, one after the other; ``unseen``: those of them that no read can show.
    ``creates``: it makes what is not there; whatever else is there then is somebody else's.
    ``each``: with ``each: added`` it makes one write for each item of the list that changed.
    ``in_order``: none goes before an older one on the same target, also where that one is held.
    ``needs``: states of the setup in which the service takes it; empty for any.
    ``task``: the service works on it in a task whose state can be read afterwards.
    ``semantics``: the assumption that says whether it sets its value or flips it.
    ``brings``: fields of the event that the document says it sets beside its target.
    ``reads``: names of the facts that show before, already-so and evidence. ``writes``: (fact, field) that it changes;
    an empty field is the whole fact. ``assumptions``: keys of the register that its request or its evidence lean on.
    """

    name: str
    about: str
    shape: Literal["word", "value", "mapping"]
    params: Mapping[str, Param] = field(default_factory=dict)
    extra_params: bool = False
    target: str
    value: str | None = None
    stops: tuple[str, ...] = ()
    null_is_so: bool = False
    items: tuple[str, ...] = ("",)
    unseen: tuple[str, ...] = ()
    creates: bool = False
    each: bool = False
    in_order: bool = False
    spends: Spends
    shown: Shown
    budget: Budget = "own"
    needs: tuple[str, ...] = ()
    task: bool = False
    semantics: str | None = None
    reads: tuple[str, ...]
    writes: tuple[tuple[str, str], ...]
    brings: tuple[tuple[str, str], ...] = ()
    assumptions: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()
    section: str
    example: str

    @property
    def bare(self) -> str | None:
        """The parameter of an action that is written as ``name: value``."""
        return next(iter(self.params)) if self.shape == "value" else None

    @property
    def own_fact(self) -> str:
        """The fact in which its target's own fields stand; empty where none shows them."""
        return _OWN_FACTS.get(self.shown, "")

    @property
    def beside(self) -> tuple[str, ...]:
        """Parameters that may also stand beside the action's name, as in ``{edit_cluster: {…}, each: added}``."""
        return ("each",) if self.each else tuple(name for name in self.params if name == "confirm")

    @property
    def required(self) -> tuple[str, ...]:
        """The parameters that must be there."""
        return tuple(name for name, one in self.params.items() if one.required)

    @property
    def commits(self) -> bool:
        """Whether it always carries a budget."""
        return self.budget == "draft" or any(name in BUDGETS for name in self.required)

    def written(self, params: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
        """What a write with these parameters changes: of a setup also the fields that the document does not name."""
        if self.shown != "setup" or not self.extra_params:
            return self.writes
        return tuple(dict.fromkeys((*self.writes, *(("setup", name) for name in params))))
