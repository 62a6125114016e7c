"""Why each rule did or did not fire for an event, as the page shows it: the same as the command ``explain`` says."""

from collections.abc import Iterator
from dataclasses import dataclass

from worker.engine.explaining import STANDINGS, EventKnown, RuleExplained, explain
from worker.ledger.browsing import LedgerBrowser
from worker.model.ids import EventId, PartnerId
from worker.model.rules import RuleSet
from worker.model.trail import Evaluation
from worker.rules.explain import Explained
from worker.web.views import iso, lasting, spelled

TONES = {"true": "good", "false": "quiet", "unknown": "warn"}
STANDING_TONES = {"fired": "busy", "held": "warn", "true": "good", "unknown": "warn"}
PARTS_MAX = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class PartShown:
    """One part of a condition, with the values it looked at. ``depth`` counts from 0, and is drawn up to 4."""

    depth: int
    source: str
    truth: str
    tone: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """How it was last evaluated otherwise."""

    standing: str
    tone: str
    at: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleWhy:
    """One rule for one event. ``since`` is empty where it was never evaluated. ``before``: its other endings, newest
    first, so that what holds now does not hide that it fired."""

    rule: str
    standing: str
    tone: str
    since: str
    at: str
    why: str
    reason: str
    edited: bool
    parts: tuple[PartShown, ...]
    before: tuple[Before, ...]

    @property
    def standings(self) -> tuple[str, ...]:
        """What it is and was."""
        return self.standing, *(one.standing for one in self.before)


def why_of(ledger: LedgerBrowser, rules: RuleSet, partner: str, event: str) -> tuple[RuleWhy, ...]:
    """Every rule that was ever looked at for the event; those that had something to do with it come first."""
    owner, eid = PartnerId(partner), EventId(event)
    known = EventKnown(
        partner=owner,
        event=eid,
        evaluations=ledger.evaluations([eid], owner),
        memories=ledger.rule_memories(owner, eid),
        writes=(),
        text=ledger.condition_text,
    )
    shown = [_shown(one) for one in explain(known, rules) if one.last is not None]
    return tuple(sorted(shown, key=lambda one: not any(word in ("fired", "held") for word in one.standings)))


def _shown(one: RuleExplained) -> RuleWhy:
    last = one.last.evaluation if one.last is not None else None
    parts = one.last.parts if one.last is not None else None
    return RuleWhy(
        rule=one.rule,
        standing=STANDINGS[one.standing],
        tone=STANDING_TONES.get(one.standing, "quiet"),
        since="" if last is None else iso(last.since),
        at="" if last is None else iso(last.at),
        why="" if last is None else last.why,
        reason="" if last is None else last.reason or "",
        edited=one.edited,
        parts=() if parts is None or last is None else tuple(_parts(parts, one, 0))[:PARTS_MAX],
        before=tuple(_before(other.evaluation) for other in one.others),
    )


def _before(one: Evaluation) -> Before:
    tone = STANDING_TONES.get(one.ending, "quiet")
    return Before(standing=STANDINGS[one.ending], tone=tone, at=iso(one.at), why=one.why)


def _parts(part: Explained, one: RuleExplained, depth: int) -> Iterator[PartShown]:
    at = one.last.evaluation.at if one.last is not None else None
    values = []
    for seen in part.values:
        age = "" if at is None or seen.read_at is None else f", {lasting(at - seen.read_at)} old"
        values.append(f"{seen.path}: {seen.missing or spelled(seen.value)}{age}")
    truth = part.truth.value
    yield PartShown(depth=min(depth, 4), source=part.source, truth=truth, tone=TONES[truth], values=tuple(values))
    for inner in part.parts:
        yield from _parts(inner, one, depth + 1)
