"""What survives a restart besides writes: truth, episodes, baselines and pending changes of every (rule, event).

Memory is written in the same transaction as the writes it planned, so no crash can leave one without the other. It is
plain and frozen; `worker.engine.decide` returns a new one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Never

from worker.model.facts import Json
from worker.model.ids import EventId, PartnerId, RuleId

EPISODE_JUMP = 1_000_000
"""How far episode numbers jump over a restored ledger: past any that its lost part may have used."""

_NOTHING: Mapping[str, Never] = MappingProxyType({})
"""One for all: most memories have nothing in any of their lists, and there are very many of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The remembered value of one watched fact, normalised, with the moment it was first seen."""

    value: Json
    seen_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleMemory:
    """Memory of one (partner, event, rule).

    ``episode``: the last number issued; numbers never go back. ``open``: an episode is open. ``fired``: it has fired.
    ``true_since``: first definite true look of this stretch. ``looked_at``: last look with a definite truth.
    ``baselines``: by the key text of the watched fact (name, parameters, ``by``). ``pending``: changed values by the
    same keys, since ``pending_since``; ``pending_unheld_since``: since when nothing but an unknown ``when`` keeps it.
    ``forced``: why a firing must wait for approval: what it rests on was first seen after a silence.
    ``waited``: why the last firing had to wait, kept until its writes are first sent; ``asked``: why the next one has
    to, because it takes the place of one that waited and was cancelled by an edit. ``do_hash``: what the rule did by
    its text at the last firing.
    ``before_firing``: the baselines before the last firing, kept until its writes are first sent.
    ``stopped``: why ``enforce`` stopped; ``cleared``: the episode up to which bad ends stop it no more.
    ``held``: the last logged reason for holding the firing.
    ``at_time``: of a rule with ``at``, the newest of its times that was dealt with.
    """

    partner: PartnerId
    event: EventId
    rule: RuleId
    do_hash: str = ""
    episode: int = 0
    open: bool = False
    fired: bool = False
    true_since: datetime | None = None
    looked_at: datetime | None = None
    fired_at: datetime | None = None
    baselines: Mapping[str, Baseline] = field(default_factory=lambda: _NOTHING)
    pending: Mapping[str, Json] = field(default_factory=lambda: _NOTHING)
    pending_since: datetime | None = None
    pending_unheld_since: datetime | None = None
    forced: str | None = None
    waited: str | None = None
    asked: str | None = None
    before_firing: Mapping[str, Baseline] = field(default_factory=lambda: _NOTHING)
    stopped: str | None = None
    cleared: int = 0
    held: str | None = None
    at_time: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartnerMemory:
    """Memory of one partner. ``listed_at``: end of the last complete listing. ``after_gap_at``: looks before this are
    older than the last silence; ``reset_at``, ``restored_at``: when most events vanished at once, and when a restored
    ledger was accepted. ``gone``: known events that are out of sight, since when; ``returned``: those that came back,
    when. ``denied_at``: when the service refused our credentials for a write, with no write let in since;
    ``denied_until``: until when that holds the partner's writes."""

    partner: PartnerId
    listed_at: datetime | None = None
    after_gap_at: datetime | None = None
    reset_at: datetime | None = None
    restored_at: datetime | None = None
    denied_at: datetime | None = None
    denied_until: datetime | None = None
    gone: Mapping[EventId, datetime] = field(default_factory=dict)
    returned: Mapping[EventId, datetime] = field(default_factory=dict)
