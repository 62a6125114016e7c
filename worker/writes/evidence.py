"""What one read says of a write: there, not there, or cannot tell.

Presence is proof, absence is not. *Not there* means that the target reads exactly as it did before the first attempt,
and that the effect would read otherwise: a list must be whole, nothing like what is wanted may be in it, and nothing
wanted may be such that it could be shown as what was there before. A third value is for a person at once. A fact that
is unknown, or lacks the field, cannot tell; nothing is guessed.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from worker.model.actions import ACTIONS
from worker.model.document import SETUP_FIELDS
from worker.model.facts import Fact, FactKey, Json, Known, Unknown
from worker.model.records import Says
from worker.model.writes import Intent, Write
from worker.writes.likeness import alike, folded, plain, same, same_field
from worker.writes.wishes import members


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The verdict of one read. ``third`` is the reason code where the target shows something else altogether."""

    says: Says
    value: Json = None
    why: str = ""
    third: str | None = None


NULL_GAP = "null"
"""How the reason of a gap begins where a documented field was null (`worker.api.wire` writes it so)."""
ABSENT: Mapping[str, Json] = {"exists": False}
"""What is read of a campaign that is not there."""
SERIES = "campaign_event_series"
LACKS = "the answer lacks the target's field"
LONG = 20
"""Campaigns. A shorter list of a round length holds no new one back: it is much likelier whole than cut off."""


CONFIRM = "confirm"
"""The fact that a rule's own ``confirm`` reads: ``{when, response}``, judged as it was read."""


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
    if not isinstance(fact, Known):
        return False, None
    if not isinstance(fact.value, Mapping):
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
    record = fact.value if campaigns is None else next(iter(_named_so(intent, campaigns)), {})
    return {name: record.get(name) for name in names} if isinstance(record, Mapping) else None


def already_so(intent: Intent, fact: Fact) -> bool | None:
    """Whether the target has the wanted value, or, for what is to be created, whether there is one; None where that
    cannot be told."""
    readable, value = target_value(intent, fact)
    if not readable or _hidden(intent, fact, value, sent=False):
        return None
    if ACTIONS[intent.action].creates and isinstance(value, Mapping):
        return _exists(value)
    return _present(intent, value)


def unclear(intent: Intent, fact: Fact) -> str:
    """Why it cannot be told whether the target has the wanted value, in words; where `already_so` is None."""
    if not isinstance(fact, Known):
        return fact.why
    return _hidden(intent, fact, target_value(intent, fact)[1], sent=False) or LACKS


def there(intent: Intent, fact: Fact) -> bool:
    """Whether the very effect of the write is read."""
    readable, value = target_value(intent, fact)
    return readable and _present(intent, value)


def judge(write: Write, fact: Fact) -> Evidence:
    """What one read, begun after the attempt, says of the write."""
    readable, value = target_value(write.intent, fact)
    if not readable:
        return Evidence(says="cannot_tell", why=unclear(write.intent, fact))
    if _present(write.intent, value):
        return Evidence(says="there", value=value, why=f"the target reads {_spelled(value)}, as wanted")
    if write.before_known and value == write.before and _tells(write.intent, value):
        doubt = _hidden(write.intent, fact, value, sent=True) or _as_before(write)
        if doubt:
            return Evidence(says="cannot_tell", value=value, why=doubt)
        return Evidence(says="not_there", value=value, why=f"the target reads {_spelled(value)}, as before")
    if _read_in_part(write, value):
        return Evidence(says="cannot_tell", value=value, why="the answer lacks a field that would tell")
    third = "other_value" if ACTIONS[write.intent.action].creates else "third_value"
    why = f"the target reads {_spelled(value)}: neither {_spelled(write.before)} as before nor what was wanted"
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
        for one in _named_so(intent, campaigns)
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


def _named_so(intent: Intent, campaigns: Iterable[Mapping[str, Json]]) -> list[Mapping[str, Json]]:
    """The campaigns that are found by the names that the write gives."""
    name, run = intent.params.get("tc"), intent.params.get("tc_run_id")
    return [one for one in campaigns if same(one.get("tc"), name) and one.get("tc_run_id") == run]


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


def _spelled(value: Json) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {part}" for name, part in value.items())
    return repr(value)
