"""What one read says of a write: there, not there, or cannot tell.

Presence is proof, absence is not. *Not there* means that the target reads exactly as it did before the first attempt,
and that the effect would read otherwise: a list must be whole, nothing like what is wanted may be in it, and nothing
wanted may be such that it could be shown as what was there before. A third value is for an operator at once. A fact
that is unknown, or lacks the field, cannot tell; nothing is guessed.
"""

import json
import re
import string
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, assert_never

from worker.model.actions import ACTIONS, BUDGETS, Action, cents
from worker.model.commits import Says
from worker.model.facts import SETUP_FIELDS, Fact, FactKey, Json, Known, Unknown, number_of, record_of
from worker.model.writes import UNSETTLED, Intent, Write

# When two values are one, and when they could not be told apart. Pure.
#
# A service may keep a text in another normal form or trimmed, and show a number rounded. So what is *the same* is proof
# that something is there, and what is only *alike* proves nothing: neither that it is there nor that it is not.

_DECIMAL = re.compile(r"\s*[+-]?\d+(\.\d+)?\s*", re.ASCII)


def plain(text: str) -> str:
    """The text in normal form C, without surrounding blanks."""
    return unicodedata.normalize("NFC", text).strip()


def folded(text: str) -> str:
    """What is left of a text where case, accents, blanks, punctuation at its ends, compatible characters and those that
    nobody sees do not count."""
    spelled = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold())
    seen = "".join(one for one in spelled if unicodedata.category(one) not in ("Cf", "Cc", "Mn") or one.isspace())
    return " ".join(seen.split()).strip(string.punctuation + " ") or seen


def same(one: Json, other: Json) -> bool:
    """Whether a service that keeps one shows the other, to the letter."""
    return _throughout(one, other, _to_the_letter)


def _throughout(one: Json, other: Json, equal: Callable[[Json, Json], bool]) -> bool:
    """Whether two values have one shape, and what stands in the same place of it is ``equal``."""
    match one, other:
        case list(), list():
            return len(one) == len(other) and all(_throughout(*pair, equal) for pair in zip(one, other, strict=True))
        case dict(), dict():
            return one.keys() == other.keys() and all(_throughout(one[name], other[name], equal) for name in one)
        case _:
            return equal(one, other)


def _to_the_letter(one: Json, other: Json) -> bool:
    return plain(one) == plain(other) if isinstance(one, str) and isinstance(other, str) else one == other


def same_field(name: str, one: Json, other: Json) -> bool:
    """The same of a field or parameter of this name: budgets are compared in cents, also where one is spelled as a
    text."""
    amount = cents(_number(one)) if name in BUDGETS else None
    return same(one, other) or (amount is not None and amount == cents(_number(other)))


def alike(one: Json, other: Json) -> bool:
    """Whether a service that rounds, or does not keep to the letter, could show the other for the one: numbers less
    than 1 apart, also where they are spelled as texts, and texts that are the same once they are folded."""
    return _throughout(one, other, _nearly)


def _nearly(one: Json, other: Json) -> bool:
    numbers = _number(one), _number(other)
    if numbers[0] is not None and numbers[1] is not None:
        return abs(numbers[0] - numbers[1]) < 1
    if isinstance(one, str) and isinstance(other, str):
        return folded(one) == folded(other)
    return one == other


def _number(value: Json) -> float | None:
    if isinstance(value, str):
        return float(value) if _DECIMAL.fullmatch(value) else None
    return number_of(value)


# What a rule wants a target to be, in a form that two rules can be compared by.
#
# Equal wishes share one write; opposite ones are sorted out by priority (`worker.engine.planning`). Two sets of values
# are opposite where they differ in a value that both name: one rule's goal and another's budget go together.

EXACT_MAX = 1 << 53
"""The largest whole number up to which every whole number is a double."""
RESET = "reset"
"""The axis of a wish that undoes whatever else is wished of its target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a rule wants a target to be. ``parts``: the values that it is made of, by name, where it is made of some.
    A message has no target: it goes with everything, and stands for nobody else's."""

    target: str
    axis: str
    value: str
    stops: bool = False
    parts: tuple[tuple[str, str], ...] = ()

    @property
    def text(self) -> str:
        """Stable spelling, stored with the write."""
        return f"{self.axis}:{self.value}"

    def opposes(self, other: "Wish") -> bool:
        """Whether both cannot be had: another value on the same axis of the same target, or a reset against anything
        else."""
        if not self.target or self.target != other.target or self.text == other.text:
            return False
        if self.axis != other.axis:
            return RESET in (self.axis, other.axis)
        if self.parts and other.parts:
            theirs = dict(other.parts)
            return any(theirs.get(name, value) != value for name, value in self.parts)
        return self.value != other.value


def wish_of(action: str, params: Mapping[str, Json]) -> Wish:
    """The wish of an action with these parameters."""
    row = ACTIONS[action]
    target = target_of(row, params)
    match row.shown:
        case "field":
            value = row.value if row.value is not None else str(params.get("value"))
            return Wish(target=target, axis="value", value=value, stops=value in row.stops)
        case "setup" if row.value is not None:
            return Wish(target=target, axis="state", value=row.value)
        case "setup" | "campaign" | "series":
            parts = tuple((name, _spelled(value)) for name, value in sorted(_parts(row, params).items()))
            return Wish(target=target, axis="values", value=f"{action} {_spelled(dict(params))}", parts=parts)
        case "confirm":
            return _call(target, params)
        case "answer":
            return Wish(target=target, axis=RESET, value=action)
        case "handover" | "clock" | "undone":
            return Wish(target=target, axis="message", value=_spelled(text_of_message(params)))
    assert_never(row.shown)


def text_of_message(params: Mapping[str, Json]) -> Json:
    """What a message says; one that was planned by an earlier version has its text as the value."""
    return params.get("text", params.get("value"))


def _call(target: str, params: Mapping[str, Json]) -> Wish:
    """Two requests that replace one thing want it to be two things; two that add something each add it."""
    sent = _spelled({name: params[name] for name in ("host", "query", "body") if name in params})
    adds = params.get("method") == "POST"
    return Wish(target=target, axis=f"call {sent}" if adds else "call", value=sent)


def target_of(row: Action, params: Mapping[str, Json]) -> str:
    """What an action with these parameters writes to, within its event: one target, however its name is spelled."""
    return re.sub(r"\{(\w+)\}", lambda found: plain(str(params.get(found[1], found[0]))), row.target)


def members(params: Mapping[str, Json]) -> list[str]:
    """The events that a series is to gain or to lose, each once and in order."""
    value = params.get("value")
    return sorted({str(one) for one in value}) if isinstance(value, list) else []


def _parts(row: Action, params: Mapping[str, Json]) -> dict[str, Json]:
    """The values that it asks for, by what must not be asked to be two things at once."""
    if row.shown == "campaign":
        return {"exists": True, **{name: value for name, value in params.items() if name not in ("tc", "tc_run_id")}}
    if row.shown == "series":
        return dict.fromkeys(members(params), row.value)
    return dict(params)


def _spelled(value: Json) -> str:
    return json.dumps(_as_doubles(value), sort_keys=True, ensure_ascii=False)


def _as_doubles(value: Json) -> Json:
    """The value with every number as a double, so that a written 500 and a computed 500.0 are one wish."""
    if isinstance(value, dict):
        return {name: _as_doubles(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_as_doubles(part) for part in value]
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > EXACT_MAX:
        return value
    return float(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The verdict of one read. ``third`` is the reason code where the target shows something else altogether."""

    says: Says
    value: Json = None
    why: str = ""
    third: str | None = None


NULL_GAP = "null"
"""How the reason of a gap begins where a documented field was null (`worker.api.answers` writes it so)."""
ABSENT: Mapping[str, Json] = {"exists": False}
"""What is read of a campaign that is not there."""
SERIES = "campaign_event_series"
LACKS = "the answer lacks the target's field"
LONG = 20
"""Campaigns. A shorter list of a round length holds no new one back: it is much likelier whole than cut off."""


CONFIRM = "confirm"
"""The fact that a rule's own ``confirm`` reads: ``{when, response}``, judged as it was read."""
HASHED = "sha256:"
"""What the ``response`` begins with where the answer was too long to be kept."""


def fact_key(intent: Intent) -> FactKey:
    """The fact that shows this write's target. For what no read can show, the one that would show its event."""
    confirm = intent.params.get(CONFIRM)
    if ACTIONS[intent.action].shown == "confirm" and isinstance(confirm, Mapping):
        names = {**confirm, **{name: intent.params[name] for name in ("client_id",) if name in intent.params}}
        return FactKey(name=CONFIRM, params=tuple((name, str(value)) for name, value in sorted(names.items())))
    return FactKey(name=ACTIONS[intent.action].own_fact or "event")


def fact_name(intent: Intent) -> str:
    """The name of that fact."""
    return fact_key(intent).name


def target_value(intent: Intent, fact: Fact) -> tuple[bool, Json]:
    """Whether the target could be read, and its value: the field of the event, the compared fields of the setup or of
    one campaign, or those of the events asked for that are in the series. Of a campaign that is to be created and is
    not there, the names of all that are.

    A null where the document allows none reads as None: for a status field it says that there is nothing to set.
    """
    row = ACTIONS[intent.action]
    if row.shown == "campaign":
        return _campaign(intent, fact)
    if not isinstance(fact, Known) or not isinstance(fact.value, Mapping):
        return False, None
    if row.shown == "confirm":
        return ("when" in fact.value), dict(fact.value)
    if row.shown == "setup":
        return _setup(intent, fact.value)
    if row.shown == "series":
        return _series(intent, fact.value)
    if row.target in fact.value:
        return True, fact.value[row.target]
    return (True, None) if fact.gaps.get(row.target, "").startswith(NULL_GAP) else (False, None)


def own_values(intent: Intent, fact: Fact, names: Iterable[str]) -> Mapping[str, Json] | None:
    """These fields of the write's own target; one that it does not have is null. None where they cannot be told.
    ``fact``: the one in which the action's own fields stand."""
    if not isinstance(fact, Known) or any(name in fact.gaps for name in names):
        return None
    campaigns = _listed(fact)
    record = fact.value if campaigns is None else next(iter(named_so(intent, campaigns)), {})
    return {name: record.get(name) for name in names} if isinstance(record, Mapping) else None


def already_so(intent: Intent, fact: Fact) -> bool | None:
    """Whether the target has the wanted value, or, for what is to be created, whether there is one; an event without
    campaigns has nothing to pause. None where that cannot be told."""
    readable, value = target_value(intent, fact)
    if not readable or _hidden(intent, fact, value, sent=False):
        return None
    row = ACTIONS[intent.action]
    if row.creates and isinstance(value, Mapping):
        return _exists(value)
    return _present(intent, value) or (row.null_is_so and value is None)


def unclear(intent: Intent, fact: Fact) -> str:
    """Why it cannot be told whether the target has the wanted value, in words; where `already_so` is None."""
    if not isinstance(fact, Known):
        return fact.why
    gaps = [f"{name}: {fact.gaps[name]}" for _, name in ACTIONS[intent.action].writes if name in fact.gaps]
    return _hidden(intent, fact, target_value(intent, fact)[1], sent=False) or "; ".join(gaps) or LACKS


def was_so(write: Write) -> bool:
    """Whether the target read as wanted before an undo already, as one may that is shown rounded: that it reads so
    after it proves nothing then. No other write is sent to what reads as wanted."""
    return write.undo and write.before is not None and _present(write.intent, write.before)


def judge(write: Write, fact: Fact) -> Evidence:
    """What one read, begun after the attempt, says of the write."""
    readable, value = target_value(write.intent, fact)
    if not readable:
        return Evidence(says="cannot_tell", why=unclear(write.intent, fact))
    if _present(write.intent, value):
        if was_so(write):
            return Evidence(says="cannot_tell", value=value, why=f"the target read {_told(value)} before it, too")
        return Evidence(says="there", value=value, why=f"the target reads {_told(value)}, as wanted")
    if write.before_known and value == write.before and _tells(write.intent, value):
        doubt = _hidden(write.intent, fact, value, sent=True) or _as_before(write)
        if doubt:
            return Evidence(says="cannot_tell", value=value, why=doubt)
        return Evidence(says="not_there", value=value, why=f"the target reads {_told(value)}, as before")
    if _read_in_part(write, value):
        return Evidence(says="cannot_tell", value=value, why="the answer lacks a field that would tell")
    third = "other_value" if ACTIONS[write.intent.action].creates else "third_value"
    why = f"the target reads {_told(value)}: neither {_told(write.before)} as before nor what was wanted"
    return Evidence(says="cannot_tell", value=value, why=why, third=third)


def _setup(intent: Intent, record: Mapping[str, Json]) -> tuple[bool, Json]:
    """What of a setup counts for "exactly as before": the fields the document names, and those that are sent."""
    if "state" not in record:
        return False, None
    names = dict.fromkeys((*SETUP_FIELDS, *intent.wanted, *intent.params))
    return True, {name: record[name] for name in names if name in record}


def _campaign(intent: Intent, fact: Fact) -> tuple[bool, Json]:
    """The one campaign, in the fields that are sent. Of several of one name, the one that has the wanted values. That
    it is not there, or not as wanted, only a whole list can say."""
    campaigns = _listed(fact)
    if campaigns is None:
        return False, None
    found = [
        {"exists": True, **{name: one[name] for name in intent.wanted if name in one and name != "exists"}}
        for one in named_so(intent, campaigns)
    ]
    wanted = next((one for one in found if _agree(intent.wanted, one) and one.keys() >= intent.wanted.keys()), None)
    if wanted is not None:
        return True, wanted
    if not isinstance(fact, Known):
        return False, None
    if found:
        return True, found[0]
    if not ACTIONS[intent.action].creates:
        return True, dict(ABSENT)
    names: list[Json] = [f"{one.get('tc')}:{one.get('tc_run_id')}" for one in campaigns]
    return True, {**ABSENT, "others": sorted(names, key=str)}


def _listed(fact: Fact) -> list[Mapping[str, Json]] | None:
    """The campaigns of a list, or of the part of one that was read."""
    found = fact.part if isinstance(fact, Unknown) else fact.value
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else None


def _hidden(intent: Intent, fact: Fact, value: Json, *, sent: bool) -> str:
    """Why a campaign that is not in its list may be there all the same, in words; empty where it is not: the list may
    be cut off, or the service has it under another spelling or run.

    Before anything was sent only a campaign of a newer run may be this one (API section 2.1 tells runs apart), and a
    list must be long before its length alone holds a new campaign back.
    """
    if ACTIONS[intent.action].shown == "confirm" and sent and isinstance(value, Mapping) and value.get("full"):
        return "a list is as long as a page may be, and nothing says whether there is more"
    if ACTIONS[intent.action].shown != "campaign" or not isinstance(value, Mapping) or _exists(value):
        return ""
    listed = _listed(fact) or ()
    long = sent or (ACTIONS[intent.action].creates and len(listed) >= LONG)
    if fact.trace is not None and fact.trace.full and long:
        return f"{len(listed)} campaigns are as many as a page may hold, and nothing says whether there are more"
    name, run = str(intent.params.get("tc")), intent.params.get("tc_run_id")
    for one in listed:
        other, theirs = str(one.get("tc")), one.get("tc_run_id")
        if folded(other) == folded(name) and (sent or theirs == run or _newer(theirs, run)):
            return f"a campaign like it is there, {other!r} of run {theirs}: it may be this one"
    return ""


def _newer(one: Json, other: Json) -> bool:
    return isinstance(one, int | float) and isinstance(other, int | float) and one > other


def _as_before(write: Write) -> str:
    """What is wanted that could be shown as what was there before, in words: then reading as before proves nothing."""
    wanted, before = write.intent.wanted, write.before
    known = list(before.items()) if isinstance(before, Mapping) else [(write.intent.target, before)]
    if isinstance(before, Mapping) and ACTIONS[write.intent.action].shown == "confirm":
        wanted, known = write.intent.params, list(_named_in(before.get("response")))
        hashed = str(before.get("response")).startswith(HASHED)
        if hashed and any(_named_in([wanted.get("query"), wanted.get("body")])):
            return "what was to be set could be shown as what was there before, in an answer too long to be kept"
    for name, value in _named_in(wanted):
        for other, shown in known:
            if other == name and alike(value, shown) and not same(value, shown):
                return f"{name} {value!r} was to be set, and could be shown as {shown!r}, which it was before"
    return ""


def _named_in(value: Json | Mapping[str, Json]) -> Iterator[tuple[str, Json]]:
    """Everything that has a name, at any depth."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield name, part
            yield from _named_in(part)
    elif isinstance(value, list):
        for part in value:
            yield from _named_in(part)


def named_so(intent: Intent, campaigns: Sequence[Json] | Sequence[Mapping[str, Json]]) -> list[Mapping[str, Json]]:
    """The campaigns that are found by the names that the write gives."""
    name, run = intent.params.get("tc"), intent.params.get("tc_run_id")
    found = (one for one in campaigns if isinstance(one, Mapping) and same(one.get("tc"), name))
    return [one for one in found if one.get("tc_run_id") == run]


def _series(intent: Intent, record: Mapping[str, Json]) -> tuple[bool, Json]:
    """Those of the events asked for that are in the series now; what becomes of others is nobody's business here. One
    that is like another, and not the same, is neither in nor out."""
    siblings = record.get(SERIES)
    if not isinstance(siblings, list):
        return False, None
    inside, like = {plain(str(one)) for one in siblings}, {folded(str(one)) for one in siblings}
    asked = members(intent.params)
    if any(folded(one) in like and plain(one) not in inside for one in asked):
        return False, None
    return True, [one for one in asked if plain(one) in inside]


def _present(intent: Intent, value: Json) -> bool:
    row = ACTIONS[intent.action]
    if row.shown == "series":
        return value == (members(intent.params) if row.value == "in" else [])
    if not isinstance(value, Mapping):
        return same(value, intent.wanted.get(intent.target))
    if row.shown == "confirm":
        return value["when"] is True
    wanted = intent.wanted
    if not _exists(value) or not all(name in value and same_field(name, value[name], wanted[name]) for name in wanted):
        return False
    return not row.creates or _agree(intent.params, value)


def _exists(value: Mapping[str, Json]) -> bool:
    return value.get("state") != "NONE" and value.get("exists") is not False


def _tells(intent: Intent, value: Json) -> bool:
    """Whether the effect would show here: a record without a field that was sent reads the same before and after."""
    return not isinstance(value, Mapping) or not _exists(value) or intent.wanted.keys() <= value.keys()


def _read_in_part(write: Write, value: Json) -> bool:
    """Whether what was read of a record agrees, as far as it goes, with what was wanted or with what was before: then
    a field that is missing on one side could make it either, and nothing else may be concluded."""
    if not isinstance(value, Mapping) or not _exists(value) or ACTIONS[write.intent.action].shown == "confirm":
        return False
    sent = write.intent.params if ACTIONS[write.intent.action].creates else {}
    others = [{**sent, **write.intent.wanted}]
    if isinstance(write.before, Mapping):
        others.append(dict(write.before))
    return any(_agree(other, value) for other in others)


def _agree(one: Mapping[str, Json], other: Mapping[str, Json]) -> bool:
    return all(same_field(name, one[name], other[name]) for name in one if name in other)


def _told(value: Json) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {part}" for name, part in value.items())
    return repr(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRead:
    """One read of the target, begun at monotonic ``began``, said this; `read_of` makes it from a fact.

    ``overtook``: the write went ahead of an opposite one that was not settled then; it is still ``unsettled``, or it
    has ``landed`` meanwhile. None where it overtook nothing, or nothing that came to anything.
    """

    evidence: Evidence
    began: float
    overtook: Literal["unsettled", "landed"] | None = None


# From one read of a target to what `advance` is told of it: the evidence, and all that may speak against it.
#
# Every reader goes through here, a round of evidence, the last poll before another attempt and a rule test, so that
# none of them can believe what another one would doubt. *Not there* is the word that lets a write be sent again; so it
# is weakened to *cannot tell* wherever the absence has another explanation. Presence is never weakened.

SILENT = "the setup answered 404, and the event itself did not answer after it"
RUNNING = "the service's task for this write still runs"
COVERED = "an opposite write of ours was sent after it"


def needs_event(write: Write, fact: Fact) -> bool:
    """Whether the event must have answered after this read: a setup that is not there is a 404, and that alone may
    come from a service that knows nothing of the event (API section 7). So is what a rule's own ``confirm`` found not
    to be there, and there it may be the very effect."""
    name, record = fact_name(write.intent), record_of(fact)
    if name == CONFIRM:
        return record.get("absent") is True
    return name == "setup" and record.get("state") == "NONE" and judge(write, fact).says == "not_there"


def read_of(
    write: Write, fact: Fact, others: Iterable[Write], *, began: float, running: bool, event_answered: bool
) -> TargetRead:
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
    return TargetRead(evidence=evidence, began=began, overtook=overtook)


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
