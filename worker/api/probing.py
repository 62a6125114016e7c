"""What the answers of a probe say of each assumption: confirmed, refuted, or cannot be seen by reading. Pure.

One judge for each key that reading can tell of; every other key is for a write to show, and says so. A judge confirms
only what it saw itself: an answer that would look the same under another assumption confirms nothing. Where something
else is plainly there, the finding has the value to write into the config; where it is not plain, it says what was seen
and leaves the value to a person.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from worker.api.assumptions import ASSUMPTIONS, SETTLE, Assumptions
from worker.api.classify import AMBIGUOUS, REFUSALS
from worker.api.decoding import SURELY_PERCENT
from worker.api.exchanges import Reply
from worker.api.wire import Malformed, Page, found_at, number_from, page_from, run_id_from
from worker.model.facts import EventId, Json

# What a probe finds out about one assumption, and the line of the config that says it.

Says = Literal["confirmed", "refuted", "cannot be seen by reading"]
UNSEEN: Says = "cannot be seen by reading"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was found about one key. ``value``: what to write; ``known`` is false where only a person can say it."""

    key: str
    says: Says
    seen: str
    value: Json = None
    known: bool = True

    @property
    def line(self) -> str | None:
        """The line for the config, below ``assumptions:``; None where the value is not known."""
        if self.key == SETTLE:
            return f"safety: {{settle: {self.value}}}"
        return f"{self.key}: {json.dumps(self.value, ensure_ascii=False)}" if self.known else None


# What `probe` has seen of the service, as it came: raw answers by what they are for, and where things stand in them.
#
# Pure. Kept apart from the judgement so that both can be tested alone: here only what is there is told, never what it
# means for an assumption.

DEEPEST = 3
"""How far below the top of an answer something is looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The setup of one event, and its campaigns, read one after the other."""

    event: EventId
    setup: Reply
    campaigns: Reply


@dataclass(frozen=True, slots=True, kw_only=True)
class Sights:
    """All that one probe has seen. ``pages``: answers for page 2 by the parameter that asked for it, in the order of
    asking. ``refreshed``: None where it was not tried, empty where it worked, else why not. ``benchmarks``: with
    ``type: capacity``. ``made_up``: our own record asked for with a token that is none. ``refusing``: a path that is
    documented to turn partners away."""

    first: Reply | None = None
    pages: Mapping[str, Reply] = field(default_factory=dict)
    setups: tuple[Setup, ...] = ()
    adplatform: Reply | None = None
    benchmarks: tuple[Reply, ...] = ()
    made_up: Reply | None = None
    refusing: Reply | None = None
    refreshed: str | None = None


def content_of(reply: Reply | None) -> Json:
    """The JSON of a 2xx; None for anything else."""
    return reply.content if reply is not None and reply.ok and not isinstance(reply.content, Malformed) else None


def at(path: str, value: Json) -> Json:
    """What a JMESPath finds; None where it cannot be applied."""
    try:
        return found_at(path, value)
    except Malformed:
        return None


def places(value: Json, fits: Callable[[Json], bool], path: str = "", depth: int = 0) -> Iterator[str]:
    """Every place in an answer whose value fits, as JMESPath; ``@`` for the answer itself."""
    if fits(value):
        yield path or "@"
    if depth < DEEPEST and isinstance(value, dict):
        for name, part in value.items():
            below = _spelled(name)
            yield from places(part, fits, f"{path}.{below}" if path else below, depth + 1)


def is_campaigns(value: Json) -> bool:
    """A list, not empty, of records that each name a campaign."""
    return isinstance(value, list) and bool(value) and all(_names_campaign(item) for item in value)


def has_campaigns(one: Setup, path: str) -> bool | None:
    """Whether the event has campaigns; None where its answer does not tell."""
    found = at(path, content_of(one.campaigns))
    return bool(found) if isinstance(found, list) else None


def _names_campaign(item: Json) -> bool:
    named = isinstance(item, dict) and isinstance(item.get("tc"), str) and bool(item["tc"])
    return named and isinstance(item, dict) and run_id_from(item.get("tc_run_id")) is not None


def _spelled(name: str) -> str:
    plain = name.isascii() and name.replace("_", "a").isalnum() and not name[0].isdigit() if name else False
    return name if plain else '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


# Where a setup says whether it is a draft, and in which words, told from setups beside their events' campaigns. Pure.
#
# Campaigns run only once a setup is published, so the words of events with campaigns are the words for published, and
# the words that only events without campaigns have are the words for draft. A field is taken for the state's only where
# it tells the two apart.

STATE_NAMES = ("state", "status", "phase", "stage", "lifecycle")
NO_STATE = frozenset({"id", "eid", "goal", "total_budget", "partner_id", "created_at", "updated_at"})
"""Fields that are never the state, whatever they say."""
LONGEST_WORD = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """The record of one setup. ``running``: its event has campaigns; None where that is not known."""

    event: str
    record: Mapping[str, Json]
    running: bool | None


def setup_words(setups: Iterable[Setup], assumptions: Assumptions, campaigns: str) -> tuple[Finding, ...]:
    """The findings for ``setup.state_field``, ``setup.draft`` and ``setup.published``."""
    seen = [
        _Seen(event=one.event, record=record, running=has_campaigns(one, campaigns))
        for one in setups
        if isinstance(record := content_of(one.setup), dict)
    ]
    field = _field(seen, assumptions)
    name = str(field.value) if field.known and field.says != UNSEEN else None
    running, resting = _words(seen, name, running=True), _words(seen, name, running=False)
    known_draft, known_published = set(assumptions.words("setup.draft")), set(assumptions.words("setup.published"))
    drafts = {word: event for word, event in resting.items() if word not in running and word not in known_published}
    published = {word: event for word, event in running.items() if word not in known_draft}
    published |= {word: event for word, event in resting.items() if word in known_published}
    return (
        field,
        _of_words("setup.draft", drafts, known_draft, assumptions),
        _of_words("setup.published", published, known_published, assumptions),
    )


def _of_words(key: str, found: Mapping[str, str], known: set[str], assumptions: Assumptions) -> Finding:
    value = assumptions.values[key]
    if not found:
        which = "a draft" if key == "setup.draft" else "a published setup"
        return Finding(key=key, says=UNSEEN, seen=f"{which} was not met", value=value)
    seen = ", ".join(f"{word} on {event}" for word, event in found.items())
    if set(found) <= known:
        return Finding(key=key, says="confirmed", seen=seen, value=value)
    return Finding(key=key, says="refuted", seen=seen, value=list(found))


def _field(seen: list[_Seen], assumptions: Assumptions) -> Finding:
    key, value = "setup.state_field", assumptions.text("setup.state_field")
    if not seen:
        return Finding(key=key, says=UNSEEN, seen="no setup was met that can be read", value=value)
    if all(_is_word(one.record.get(value)) for one in seen):
        shown = ", ".join(f"{one.record[value]} on {one.event}" for one in seen[:3])
        return Finding(key=key, says="confirmed", seen=shown, value=value)
    telling = [name for name in seen[0].record if _tells(name, seen)]
    named = [name for name in telling if any(word in name.lower() for word in STATE_NAMES)]
    for names in (named, telling):
        if len(names) == 1:
            shown = f"{names[0]} is {seen[0].record[names[0]]} on {seen[0].event}"
            return Finding(key=key, says="refuted", seen=f"there is no {value}; {shown}", value=names[0])
    fields = ", ".join(sorted(seen[0].record))
    return Finding(key=key, says="refuted", seen=f"there is no {value} among: {fields}", known=False)


def _tells(name: str, seen: list[_Seen]) -> bool:
    """Whether the field is a word everywhere, and never the same word with campaigns and without."""
    if name in NO_STATE or not all(_is_word(one.record.get(name)) for one in seen):
        return False
    running, resting = _words(seen, name, running=True), _words(seen, name, running=False)
    several = bool(running) and bool(resting)
    return not set(running) & set(resting) and (several or any(word in name.lower() for word in STATE_NAMES))


def _words(seen: Iterable[_Seen], name: str | None, *, running: bool) -> dict[str, str]:
    """The words of that field by events with campaigns, or without, each with one event that has it."""
    found: dict[str, str] = {}
    for one in seen:
        word = one.record.get(name) if name is not None else None
        if one.running is running and isinstance(word, str):
            found.setdefault(word, one.event)
    return found


def _is_word(value: Json) -> bool:
    return isinstance(value, str) and 0 < len(value) <= LONGEST_WORD


PAGE_PARAMETERS = ("page", "page_number", "pageNumber", "pageNo", "page_no", "p", "currentPage", "pg")
"""Names that services give to the page; the one in force is tried first."""
CONNECTED_WORDS = frozenset({"connected", "active", "linked", "ok"})
_SHOWN_MAX = 160


def findings(sights: Sights, assumptions: Assumptions, settle: str) -> tuple[Finding, ...]:
    """One finding for every assumption, in the order of the register. ``settle``: the config's ``safety.settle``."""
    setup = {one.key: one for one in setup_words(sights.setups, assumptions, campaigns_path(sights, assumptions))}
    found = [
        setup.get(key) or _JUDGES.get(key, _for_a_write(key))(sights, assumptions.values[key], assumptions)
        for key in ASSUMPTIONS
    ]
    late = "how late an effect, or a read, can be shows only when one is late"
    return (*found, Finding(key=SETTLE, says=UNSEEN, seen=late, value=settle))


Judge = Callable[[Sights, Json, Assumptions], Finding]


def _for_a_write(key: str) -> Judge:
    def judge(_sights: Sights, value: Json, _assumptions: Assumptions) -> Finding:
        return Finding(key=key, says=UNSEEN, seen="only a write shows it", value=value)

    return judge


def _page_parameter(sights: Sights, value: Json, _assumptions: Assumptions) -> Finding:
    key = "events.page_parameter"
    first = page_of(sights.first)
    if first is None or first.total is None or first.limit is None:
        why = "the list of events could not be read" if first is None else "the list does not say its total and limit"
        return Finding(key=key, says=UNSEEN, seen=why, value=value)
    if first.total <= first.limit:
        return Finding(key=key, says=UNSEEN, seen=f"{first.total} events make only one page", value=value)
    for name, reply in sights.pages.items():
        if is_second(first, page_of(reply)):
            says: Says = "confirmed" if name == value else "refuted"
            return Finding(key=key, says=says, seen=f"?{name}=2 answers page 2", value=name)
    tried = ", ".join(sights.pages)
    return Finding(key=key, says="refuted", seen=f"no page 2 by any of: {tried}", known=False)


def page_of(reply: Reply | None) -> Page | None:
    """One page of the list; None where it is none."""
    try:
        return page_from(content_of(reply))
    except Malformed:
        return None


def is_second(first: Page, page: Page | None) -> bool:
    """Whether a page is not the first again."""
    return page is not None and page.page != first.page and bool(page.ids) and page.ids != first.ids


def _refresh(sights: Sights, value: Json, _assumptions: Assumptions) -> Finding:
    key = "auth.refresh"
    if value is None:
        return Finding(key=key, says="confirmed", seen="signing in again works, which needs no other path", value=None)
    if sights.refreshed is None:
        return Finding(key=key, says=UNSEEN, seen="it was not tried", value=value)
    if sights.refreshed:
        return Finding(key=key, says="refuted", seen=sights.refreshed, value=None)
    return Finding(key=key, says="confirmed", seen="it brought a new token", value=value)


def _denied(sights: Sights, value: Json, _assumptions: Assumptions) -> Finding:
    """Both refusals must be known as such. A status that may hide an effect is never proposed."""
    key = "auth.denied"
    asked = [("a made-up token", sights.made_up), ("a path that turns partners away", sights.refusing)]
    answers = [(what, reply) for what, reply in asked if reply is not None and reply.status is not None]
    refusals = [(what, reply) for what, reply in answers if reply.denied or _refuses(reply.status)]
    if not any(what == "a made-up token" for what, _ in refusals):
        seen = "; ".join(_answered(what, reply) for what, reply in answers) or "no answer"
        return Finding(key=key, says=UNSEEN, seen=seen, value=value)
    seen = "; ".join(_answered(what, reply) for what, reply in refusals)
    unknown = [reply for _, reply in refusals if not reply.denied]
    if not unknown:
        return Finding(key=key, says="confirmed", seen=seen, value=value)
    if any(reply.status in AMBIGUOUS or not 400 <= (reply.status or 0) <= 499 for reply in unknown):
        return Finding(key=key, says="refuted", seen=f"{seen}; such a status may hide an effect", known=False)
    return Finding(key=key, says="refuted", seen=seen, value=_wider(value, unknown))


def _refuses(status: int | None) -> bool:
    """Whether a status says anything of who asks: a redirect, perhaps to a page for signing in, or a refusal."""
    return status is not None and 300 <= status <= 499 and status not in (404, 408, 425, 429)


def _answered(what: str, reply: Reply) -> str:
    codes = sorted(code for code in reply.codes if code.startswith("error."))
    return f"{what}: {reply.status}" + (f" {', '.join(codes)}" if codes else "")


def _wider(value: Json, unknown: Iterable[Reply]) -> Json:
    """The value in force, and what would have been needed: a code where there is one, because it says more than a
    status that may stand for anything else too."""
    denied = value if isinstance(value, dict) else {}
    statuses, codes = denied.get("status"), denied.get("codes")
    status_list: list[Json] = list(statuses) if isinstance(statuses, list) else []
    code_list: list[Json] = list(codes) if isinstance(codes, list) else []
    for reply in unknown:
        named: list[Json] = [code for code in sorted(reply.codes) if code.startswith("error.")]
        if named and reply.status in REFUSALS:
            code_list += [code for code in named if code not in code_list]
        elif reply.status not in status_list:
            status_list.append(reply.status)
    return {"status": status_list, "codes": code_list}


def campaigns_path(sights: Sights, assumptions: Assumptions) -> str:
    """Where the campaigns are, as far as it can be seen; the path in force where it cannot."""
    value = _campaign_items(sights, assumptions.values["campaigns.items"], assumptions).value
    return str(value) if value is not None else assumptions.text("campaigns.items")


def _campaign_items(sights: Sights, value: Json, _assumptions: Assumptions) -> Finding:
    key = "campaigns.items"
    answers = [(one, content) for one in sights.setups if (content := content_of(one.campaigns)) is not None]
    if not answers:
        return Finding(key=key, says=UNSEEN, seen="no event's campaigns could be read", value=value)
    if (there := _first_with(answers, str(value))) is not None:
        return Finding(key=key, says="confirmed", seen=f"campaigns of {there.event}", value=value)
    for one, content in answers:
        for path in places(content, is_campaigns):
            return Finding(key=key, says="refuted", seen=f"campaigns of {one.event} stand at {path}", value=path)
    if all(isinstance(at(str(value), content), list) for _, content in answers):
        filled = [one.event for one, content in answers if at(str(value), content)]
        if not filled:
            return Finding(key=key, says=UNSEEN, seen="every list that was read is empty", value=value)
        seen = f"the items of {filled[0]} have no usable tc and tc_run_id"
        return Finding(key=key, says="refuted", seen=seen, known=False)
    paths = {tuple(places(content, lambda part: isinstance(part, list))) for _, content in answers}
    seen = f"no list at {value}, as in {_short(answers[0][1])}"
    only = next(iter(paths)) if len(paths) == 1 else ()
    if len(only) == 1:
        return Finding(key=key, says="refuted", seen=f"{seen}; an empty list stands at {only[0]}", value=only[0])
    return Finding(key=key, says="refuted", seen=seen, known=False)


def _first_with(answers: Iterable[tuple[Setup, Json]], path: str) -> Setup | None:
    return next((one for one, content in answers if is_campaigns(at(path, content))), None)


def _after_publish(sights: Sights, value: Json, assumptions: Assumptions) -> Finding:
    key, path = "setup.after_publish", campaigns_path(sights, assumptions)
    published = [one for one in sights.setups if has_campaigns(one, path)]
    if readable := next((one for one in published if isinstance(content_of(one.setup), dict)), None):
        seen, right = f"{readable.event} has campaigns, and its setup can be read", "readable"
    elif gone := next((one for one in published if one.setup.status == 404), None):
        seen, right = f"{gone.event} has campaigns, and its setup answers 404", "absent"
    else:
        return Finding(key=key, says=UNSEEN, seen="no event with campaigns was met", value=value)
    return Finding(key=key, says="confirmed" if right == value else "refuted", seen=seen, value=right)


def _connected(sights: Sights, value: Json, _assumptions: Assumptions) -> Finding:
    key, content = "adplatform.connected", content_of(sights.adplatform)
    if content is None:
        return Finding(key=key, says=UNSEEN, seen="the ad platform's status could not be read", value=value)
    found = at(str(value), content)
    if isinstance(found, bool):
        return Finding(key=key, says="confirmed", seen=f"{str(found).lower()} stands there", value=value)
    seen = f"the answer is {_short(content)}"
    flags = list(places(content, lambda part: isinstance(part, bool)))
    named = [path for path in flags if "connect" in path.lower()]
    for paths in (named, flags):
        if len(paths) == 1:
            return Finding(key=key, says="refuted", seen=seen, value=paths[0])
    for path in places(content, lambda part: isinstance(part, str) and part.lower() in CONNECTED_WORDS):
        return Finding(key=key, says="refuted", seen=seen, value=f"{path} == '{at(path, content)}'")
    return Finding(key=key, says="refuted", seen=seen, known=False)


def _benchmark_at(sights: Sights, value: Json, _assumptions: Assumptions) -> Finding:
    key = "lookout_benchmark.at"
    contents = [content for reply in sights.benchmarks if (content := content_of(reply)) is not None]
    if not contents:
        return Finding(key=key, says=UNSEEN, seen="no benchmark could be read", value=value)
    if _is_shares(at(str(value), contents[0])):
        return Finding(key=key, says="confirmed", seen=_short(at(str(value), contents[0])), value=value)
    for path in places(contents[0], _is_shares):
        return Finding(key=key, says="refuted", seen=f"the two numbers stand at {path}", value=path)
    return Finding(key=key, says="refuted", seen=f"the answer is {_short(contents[0])}", known=False)


def _is_shares(value: Json) -> bool:
    return isinstance(value, dict) and all(number_from(value.get(name)) is not None for name in ("value", "benchmark"))


def _benchmark_unit(sights: Sights, value: Json, assumptions: Assumptions) -> Finding:
    """Numbers up to 1 may be small percents as well, so they refute nothing; numbers from 2 on are percents."""
    key = "lookout_benchmark.unit"
    where = _benchmark_at(sights, assumptions.values["lookout_benchmark.at"], assumptions).value
    pairs = [at(str(where), content_of(reply)) for reply in sights.benchmarks]
    largest = [
        max(abs(number_from(pair.get(name)) or 0.0) for name in ("value", "benchmark"))
        for pair in pairs
        if isinstance(pair, dict) and _is_shares(pair)
    ]
    if not largest:
        return Finding(key=key, says=UNSEEN, seen="no benchmark could be read", value=value)
    seen = ", ".join(_short(pair) for pair in pairs if _is_shares(pair))
    if value == "auto":
        told = all(one <= 1.0 or one >= SURELY_PERCENT for one in largest)
        return Finding(key=key, says="confirmed" if told else UNSEEN, seen=seen, value=value)
    if value == "fraction" and any(one >= SURELY_PERCENT for one in largest):
        right = "percent" if all(one > 1.0 for one in largest) else "auto"
        return Finding(key=key, says="refuted", seen=seen, value=right)
    if value == "percent" and any(one >= SURELY_PERCENT for one in largest):
        mixed = any(one <= 1.0 for one in largest)
        return Finding(key=key, says="refuted" if mixed else "confirmed", seen=seen, value="auto" if mixed else value)
    return Finding(key=key, says=UNSEEN, seen=seen, value=value)


def _short(value: Json) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN_MAX else text[: _SHOWN_MAX - 1] + "…"


_JUDGES: Mapping[str, Judge] = {
    "events.page_parameter": _page_parameter,
    "auth.refresh": _refresh,
    "auth.denied": _denied,
    "campaigns.items": _campaign_items,
    "setup.after_publish": _after_publish,
    "adplatform.connected": _connected,
    "lookout_benchmark.at": _benchmark_at,
    "lookout_benchmark.unit": _benchmark_unit,
}
