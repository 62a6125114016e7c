"""From one read of a target to what `advance` is told of it: the evidence, and all that may speak against it.

Every reader goes through here, a round of evidence, the last look before another attempt and a rule test, so that none
of them can believe what another one would doubt. *Not there* is the word that lets a write be sent again; so it is
weakened to *cannot tell* wherever the absence has another explanation. Presence is never weakened.
"""

from collections.abc import Iterable
from typing import Literal

from worker.model.facts import Fact, Known
from worker.model.writes import UNSETTLED, Write
from worker.writes.evidence import CONFIRM, Evidence, fact_name, judge
from worker.writes.inputs import Looked

SILENT = "the setup answered 404, and the event itself did not answer after it"
RUNNING = "the service's task for this write still runs"
COVERED = "an opposite write of ours was sent after it"


def needs_event(write: Write, fact: Fact) -> bool:
    """Whether the event must have answered after this read: a setup that is not there is a 404, and that alone may
    come from a service that knows nothing of the event (API section 7). So is what a rule's own ``confirm`` found not
    to be there, and there it may be the very effect."""
    if isinstance(fact, Known) and isinstance(fact.value, dict) and fact_name(write.intent) == CONFIRM:
        return fact.value.get("absent") is True
    if fact_name(write.intent) != "setup" or not isinstance(fact, Known) or not isinstance(fact.value, dict):
        return False
    return fact.value.get("state") == "NONE" and judge(write, fact).says == "not_there"


def looked(
    write: Write, fact: Fact, others: Iterable[Write], *, began: float, running: bool, event_answered: bool
) -> Looked:
    """What a read of the write's target, begun at monotonic ``began``, says of it.

    ``others``: every write of the target, final ones too. ``running``: the service's task of this write still runs.
    ``event_answered``: the event answered after this read; asked for only where `needs_event`.
    """
    others = tuple(others)
    evidence = judge(write, fact)
    if needs_event(write, fact) and not event_answered:
        evidence = Evidence(says="cannot_tell", value=evidence.value, why=SILENT)
    if evidence.says == "not_there" and covered(write, others):
        evidence = Evidence(says="cannot_tell", why=COVERED)
    if running and evidence.says != "there":
        evidence = Evidence(says="cannot_tell", value=evidence.value, why=f"{RUNNING}: {evidence.why}")
    overtook = overtaken(write, others) if write.intent.stops else None
    return Looked(evidence=evidence, began=began, overtook=overtook)


def covered(write: Write, others: Iterable[Write]) -> bool:
    """An opposite write of our own went after it: what reads show then is that one's doing, and proves nothing."""
    sent = write.sending_order
    return any(
        other.id != write.id
        and other.sent
        and other.state != "rejected"
        and other.intent.wish != write.intent.wish
        and other.sending_order is not None
        and sent is not None
        and other.sending_order >= sent
        for other in others
    )


def overtaken(write: Write, others: Iterable[Write]) -> Literal["unsettled", "landed"] | None:
    """Whether the write went ahead of an opposite one, and what is known of that now."""
    found: Literal["unsettled", "landed"] | None = None
    own = write.sending_order
    for other in others:
        sent = other.sending_order
        opposite = other.id != write.id and other.intent.wish != write.intent.wish and not other.intent.stops
        if not opposite or sent is None or own is None or sent > own:
            continue
        if other.state in UNSETTLED and not other.absent_proved:
            return "unsettled"
        if other.state == "confirmed" and other.change_order > own:
            found = "landed"
    return found
