"""The action log's words: kinds, reason codes and the shape of a record before it gets its number and hash.

Both lists are closed: a record with another word cannot be made, and docs explain each one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

from worker.model.facts import EventId, Json, PartnerId, RuleId, WriteId
from worker.model.writes import Write

WORKER = "worker"
"""Who it was, where it was no person."""

KINDS: Mapping[str, str] = {
    "observed": "a field that some rule looks at changed; says whether it was the worker's doing",
    "fired": "a rule fired for an event",
    "held": "a firing or a write is held, or the reason changed",
    "planned": "a write was decided",
    "waiting": "a write waits for a person's approval",
    "sending": "the next attempt is on disk; its request may leave now",
    "applied": "the service accepted the write",
    "unknown": "the write was sent and nobody knows whether it took effect",
    "needs_human": "only a person can tell",
    "confirmed": "the effect is there",
    "unconfirmed": "the service accepted it and reads never showed it",
    "rejected": "the service said no",
    "refused": "a guard said no for good",
    "skipped": "not sent: not needed or no longer wanted",
    "shadowed": "decided in shadow mode; nothing is sent",
    "cancelled": "ended by a person or an edited rule",
    "evidence": "what one read said of an unsettled write",
    "approved": "a person let a waiting write go",
    "resolved": "a person's verdict on a write",
    "again": "a person reopened what had ended without effect",
    "undone": "a person asked to put back what a write changed",
    "halted": "a person stopped new writes",
    "resumed": "a person let writes go on",
    "started": "the daemon started",
    "stopped": "the daemon stopped",
    "rules_loaded": "a rule set was taken up",
    "rules_refused": "a rule folder failed to load; the last good set stays",
    "ledger_restored": "a restored ledger was accepted",
}

REASONS: Mapping[str, str] = {
    "condition": "the condition became true",
    "change": "a watched fact changed",
    "undo": "a person asked to put back what another write changed",
    "changed_since": "another hand has changed the target since the write that is to be undone",
    "drift": "the target left the wanted value (repeat: enforce)",
    "at": "the rule is looked at only at its times",
    "missed": "a time of the rule was missed by more than 5 minutes, and is left",
    "for": "the condition has not held long enough",
    "cooldown": "the rule acted on this event too recently",
    "limit": "the rule used up its actions for this event and day",
    "writes_per_hour": "the partner's writes of the last hour are used up",
    "surge": "the rule fires for unusually many events",
    "spend": "the budget allowed for sending is used up",
    "gap": "first look after a long silence",
    "reset": "most events vanished at once and came back",
    "restored": "the ledger was restored, or taken to another service",
    "delete": "a DELETE always waits for a person",
    "undocumented": "a request that the service's document does not name always waits for a person",
    "mode": "the mode asks for approval or is shadow",
    "halt": "a person halted writes",
    "conflict": "another rule wishes the opposite",
    "shared": "an equal write of another rule stands for this one",
    "target_busy": "another write on this target is not settled",
    "target_unreadable": "the target's value could not be read",
    "fact_unknown": "a fact that the condition needs is unknown",
    "assumption": "the write leans on an assumption nobody vouched for",
    "product_off": "the partner's product is off",
    "credentials": "the service refused the credentials",
    "backoff": "waiting after a refusal or failure",
    "no_draft": "there is no draft to act on",
    "not_published": "the setup is not published",
    "budget_range": "the budget is outside the allowed range",
    "bad_value": "a computed value is no value of its parameter",
    "already_so": "the target already has the value",
    "nothing_to_pause": "the event has no campaigns to pause",
    "moved": "the target no longer reads what the value was computed from",
    "no_longer_holds": "the condition no longer holds",
    "superseded": "a newer write takes its place",
    "sequence": "an earlier step is not final, or ended the sequence",
    "attempts": "no attempt is left",
    "no_evidence": "reads could not settle it in time",
    "no_readback": "this effect cannot be read back",
    "third_value": "the target shows neither the old nor the wanted value",
    "other_value": "something else than what was sent is there",
    "toggle": "the write is a toggle: a second one would undo the first",
    "ask": "unknown outcomes are put before a person by configuration",
    "accepted": "the service accepted the write",
    "answer": "the answer itself is the confirmation",
    "read": "a read shows the effect",
    "refused_by_service": "the service refused the write",
    "ambiguous": "the answer may hide an effect",
    "not_sent": "no byte of the attempt left",
    "denied": "the service refused our credentials for this attempt",
    "task_failed": "the service's task for this write failed",
    "never_confirmed": "reads kept disagreeing with the accepted write",
    "crash": "the process ended while the write was being sent",
    "resend": "proved absent; sent once more",
    "rule_edited": "the rule's action was edited",
    "rule_gone": "the rule was removed",
    "partner_gone": "the partner is no longer among those that are watched",
    "same_partner": "the partner is the same as another one that is watched, or may be",
    "person": "a person decided",
    "overtaken": "the overtaken opposite write landed afterwards",
    "event_gone": "the event itself answers 404",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One line of the action log, before the ledger gives it ``seq`` and its place in the chain."""

    at: datetime
    kind: str
    reason: str | None = None
    why: str = ""
    partner: PartnerId | None = None
    event: EventId | None = None
    rule: RuleId | None = None
    episode: int | None = None
    write: WriteId | None = None
    attempt: int | None = None
    action: str | None = None
    request: Mapping[str, Json] | None = None
    before: Json = None
    response: Mapping[str, Json] | None = None
    evidence: Mapping[str, Json] | None = None
    facts: Mapping[str, Json] | None = None
    by: str = WORKER

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"{self.kind!r} is not a kind of record")
        if self.reason is not None and self.reason not in REASONS:
            raise ValueError(f"{self.reason!r} is not a reason code")


class Doing(NamedTuple):
    """What is needed of a record of an event to tell who changed what, and since when a write was planned."""

    seq: int
    at: datetime
    kind: str
    write: int | None
    reason: str | None
    facts: Mapping[str, Json] | None


DOINGS: tuple[str, ...] = (
    *("observed", "planned", "waiting", "sending", "confirmed"),
    *("rejected", "refused", "skipped", "cancelled"),
)
"""The kinds of such records."""
Says = Literal["there", "not_there", "cannot_tell"]


def of_write(write: Write, *, at: datetime, kind: str, reason: str | None, why: str) -> Record:
    """A record about a write, with all the ids filled in."""
    return Record(
        at=at,
        kind=kind,
        reason=reason,
        why=why,
        partner=write.key.partner,
        event=write.key.event,
        rule=write.key.rule or None,
        episode=write.key.episode,
        write=write.id,
        attempt=write.attempt or None,
        action=write.intent.action,
    )


# What somebody can ask to be told of: kinds and reasons of the log, what the daemon cries out, and what rules say.

ALARMS: Mapping[str, str] = {
    "service_unreachable": "the service cannot be reached",
    "partners_unknown": "who the partners are could not be asked",
    "partner_denied": "the service refuses a partner",
    "partner_failing": "no look at a partner has got through for a minute",
    "retry_after_long": "the service asks to be left alone for longer than 15 minutes",
    "partner_lost": "a partner is gone from the sign-in",
    "partner_held": "a partner is not watched: it is the same as another, or may be",
    "cycle_failed": "a look ended with an error",
    "ledger_unwritable": "the ledger cannot be written, so nothing is sent",
    "defect": "a fault of this program in one write",
    "page_failed": "the page fell over",
    "sign_ins_refused": "many wrong passwords or tokens came to the page from one place",
}
"""What the daemon cries out beside the log, as its log lines name it."""
MESSAGE = "notify"
"""What a rule itself says (the action ``notify``)."""
HANDED_OVER = "handed over: "
"""How the reason begins by which a message is confirmed in the log; what follows is its text."""
TOPICS = frozenset({*KINDS, *REASONS, *ALARMS, MESSAGE})
"""Everything that ``notify: on`` takes."""
