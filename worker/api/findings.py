"""What the answers of a probe say of each assumption: confirmed, refuted, or cannot be seen by reading. Pure.

One judge for each key that reading can tell of; every other key is for a write to show, and says so. A judge confirms
only what it saw itself: an answer that would look the same under another assumption confirms nothing. Where something
else is plainly there, the finding has the value to write into the config; where it is not plain, it says what was seen
and leaves the value to the operator.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from worker.api.answers import EventPage, Malformed, found_at, number_from, run_id_from
from worker.api.assumptions import ASSUMPTIONS, SETTLE, Assumptions
from worker.api.exchanges import AMBIGUOUS, REFUSALS, ReadResponse, codes_in
from worker.api.facts import SHARES, SURELY_PERCENT
from worker.model.facts import EventId, Json

Says = Literal["confirmed", "refuted", "cannot be seen by reading"]
UNSEEN: Says = "cannot be seen by reading"
ONLY_A_WRITE = "only a write shows it"
PAGE_PARAMETERS = ("page", "page_number", "pageNumber", "pageNo", "page_no", "p", "currentPage", "pg")
"""Names that services give to the page; the one in force is tried first."""
CONNECTED_WORDS = frozenset({"connected", "active", "linked", "ok"})
STATE_NAMES = ("state", "status", "phase", "stage", "lifecycle")
LONGEST_WORD = 40
DEEPEST = 3
"""How far below the top of an answer something is looked for."""
_SHOWN_MAX = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class AssumptionFinding:
    """What was found about one key. ``value``: what to write; ``known`` is false where only the operator can say it."""

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

    def confirmed(self, seen: str) -> "AssumptionFinding":
        """The value in force is right."""
        return replace(self, says="confirmed", seen=seen)

    def refuted(self, seen: str, *right: Json) -> "AssumptionFinding":
        """The value in force is wrong; the one that is right, where it can be told."""
        return replace(self, says="refuted", seen=seen, value=right[0] if right else None, known=bool(right))

    def unseen(self, seen: str) -> "AssumptionFinding":
        """Nothing speaks for the value in force, or against it."""
        return replace(self, seen=seen)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupSeen:
    """The setup of one event, and its campaigns, read one after the other; None where there was no JSON. ``gone``: it
    answered 404."""

    event: EventId
    setup: Json
    gone: bool
    campaigns: Json

    def running(self, path: str) -> bool | None:
        """Whether the event has campaigns; None where its answer does not tell."""
        found = _at(path, self.campaigns)
        return bool(found) if isinstance(found, list) else None

    def word(self, name: str) -> str | None:
        """What a field of the setup says, if that is a word."""
        found = self.setup.get(name) if isinstance(self.setup, dict) else None
        return found if isinstance(found, str) and 0 < len(found) <= LONGEST_WORD else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sights:
    """All that one probe has seen. ``pages``: answers for page 2 by the parameter that asked for it, in the order of
    asking. ``refreshed``: None where it was not tried, empty where it worked, else why not. ``benchmarks``: with
    ``type: capacity``, those with JSON. ``made_up``: our own record asked for with a token that is none. ``refusing``:
    a path that is documented to turn partners away."""

    first: EventPage | None = None
    pages: Mapping[str, EventPage | None] = field(default_factory=dict)
    setups: tuple[SetupSeen, ...] = ()
    adplatform: Json = None
    benchmarks: tuple[Json, ...] = ()
    made_up: ReadResponse | None = None
    refusing: ReadResponse | None = None
    refreshed: str | None = None


def findings(sights: Sights, assumptions: Assumptions, settle: str) -> tuple[AssumptionFinding, ...]:
    """One finding for every assumption, in the order of the register. ``settle``: the config's ``safety.settle``."""
    late = "how late an effect, or a read, can be shows only when one is late"
    judged = [_finding(key, sights, assumptions) for key in ASSUMPTIONS]
    return (*judged, AssumptionFinding(key=SETTLE, says=UNSEEN, seen=late, value=settle))


def _finding(key: str, sights: Sights, assumptions: Assumptions) -> AssumptionFinding:
    unseen = AssumptionFinding(key=key, says=UNSEEN, seen=ONLY_A_WRITE, value=assumptions.values[key])
    judge = JUDGES.get(key)
    return unseen if judge is None else judge(unseen, sights, assumptions)


def is_second(first: EventPage, page: EventPage | None) -> bool:
    """Whether a page is not the first again."""
    return page is not None and page.page != first.page and bool(page.ids) and page.ids != first.ids


def _page_parameter(it: AssumptionFinding, sights: Sights, _assumptions: Assumptions) -> AssumptionFinding:
    first = sights.first
    if first is None:
        return it.unseen("the list of events could not be read")
    if first.total is None or first.limit is None:
        return it.unseen("the list does not say its total and limit")
    if first.total <= first.limit:
        return it.unseen(f"{first.total} events make only one page")
    for name, page in sights.pages.items():
        if is_second(first, page):
            seen = f"?{name}=2 answers page 2"
            return it.confirmed(seen) if name == it.value else it.refuted(seen, name)
    return it.refuted(f"no page 2 by any of: {', '.join(sights.pages)}")


def _refresh(it: AssumptionFinding, sights: Sights, _assumptions: Assumptions) -> AssumptionFinding:
    if it.value is None:
        return it.confirmed("signing in again works, which needs no other path")
    if sights.refreshed is None:
        return it.unseen("it was not tried")
    return it.refuted(sights.refreshed, None) if sights.refreshed else it.confirmed("it brought a new token")


def _denied(it: AssumptionFinding, sights: Sights, _assumptions: Assumptions) -> AssumptionFinding:
    """Both refusals must be known as such. A status that may hide an effect is never proposed."""
    asked = [("a made-up token", sights.made_up), ("a path that turns partners away", sights.refusing)]
    answers = [(what, reply) for what, reply in asked if reply is not None and reply.status is not None]
    refusals = [(what, reply) for what, reply in answers if reply.denied or _turns_away(reply.status)]
    if not any(what == "a made-up token" for what, _ in refusals):
        return it.unseen("; ".join(_answered(what, reply) for what, reply in answers) or "no answer")
    seen = "; ".join(_answered(what, reply) for what, reply in refusals)
    unknown = [reply for _, reply in refusals if not reply.denied]
    if not unknown:
        return it.confirmed(seen)
    if any(reply.status in AMBIGUOUS or not 400 <= (reply.status or 0) <= 499 for reply in unknown):
        return it.refuted(f"{seen}; such a status may hide an effect")
    return it.refuted(seen, _wider(it.value, unknown))


def _turns_away(status: int | None) -> bool:
    """Whether a status says anything of who asks: a redirect, perhaps to a page for signing in, or a refusal."""
    return status is not None and 300 <= status <= 499 and status not in (404, 408, 425, 429)


def _answered(what: str, reply: ReadResponse) -> str:
    return f"{what}: {reply.status} {', '.join(_codes(reply))}".rstrip()


def _codes(reply: ReadResponse) -> list[str]:
    return sorted(code for code in codes_in(reply.body) if code.startswith("error."))


def _wider(value: Json, unknown: Iterable[ReadResponse]) -> Json:
    """The value in force, and what would have been needed: a code where there is one, because it says more than a
    status that may stand for anything else too."""
    denied = value if isinstance(value, dict) else {}
    statuses, codes = ([*part] if isinstance(part := denied.get(name), list) else [] for name in ("status", "codes"))
    for reply in unknown:
        named = _codes(reply)
        if named and reply.status in REFUSALS:
            codes += [code for code in named if code not in codes]
        elif reply.status not in statuses:
            statuses.append(reply.status)
    return {"status": statuses, "codes": codes}


# Where a setup says whether it is a draft, and in which words, told from setups beside their events' campaigns.
#
# Campaigns run only once a setup is published, so the words of events with campaigns are the words for published, and
# the words that only events without campaigns have are the words for draft. A field is taken for the state's only where
# it tells the two apart.


def _state_field(it: AssumptionFinding, sights: Sights, assumptions: Assumptions) -> AssumptionFinding:
    seen = [one for one in sights.setups if isinstance(one.setup, dict)]
    value, path = assumptions.text("setup.state_field"), campaigns_path(sights, assumptions)
    if not seen or not isinstance(first := seen[0].setup, dict):
        return it.unseen("no setup was met that can be read")
    if all(one.word(value) for one in seen):
        return it.confirmed(", ".join(f"{one.word(value)} on {one.event}" for one in seen[:3]))
    names = [name for name in first if _may_be_state(name, seen, path)]
    if len(names) == 1:
        return it.refuted(f"there is no {value}; {names[0]} is {first[names[0]]} on {seen[0].event}", names[0])
    return it.refuted(f"there is no {value} among: {', '.join(sorted(first))}")


def _state_words(it: AssumptionFinding, sights: Sights, assumptions: Assumptions) -> AssumptionFinding:
    """The words for a draft, or for a published setup."""
    field, path = _finding("setup.state_field", sights, assumptions), campaigns_path(sights, assumptions)
    seen = sights.setups if field.known and field.says != UNSEEN else ()
    running, resting = (_words(str(field.value), seen, path, running=running) for running in (True, False))
    drafts, published = (set(assumptions.words(key)) for key in ("setup.draft", "setup.published"))
    if it.key == "setup.draft":
        which, known = "a draft", drafts
        found = {word: event for word, event in resting.items() if word not in running and word not in published}
    else:
        which, known = "a published setup", published
        found = {word: event for word, event in running.items() if word not in drafts}
        found |= {word: event for word, event in resting.items() if word in published}
    if not found:
        return it.unseen(f"{which} was not met")
    shown = ", ".join(f"{word} on {event}" for word, event in found.items())
    return it.confirmed(shown) if set(found) <= known else it.refuted(shown, list(found))


def _may_be_state(name: str, seen: Sequence[SetupSeen], path: str) -> bool:
    """Whether it sounds so, is a word everywhere, and never the same word with campaigns and without."""
    if not any(word in name.lower() for word in STATE_NAMES) or not all(one.word(name) for one in seen):
        return False
    running, resting = (_words(name, seen, path, running=running) for running in (True, False))
    return not set(running) & set(resting)


def _words(name: str, seen: Iterable[SetupSeen], path: str, *, running: bool) -> dict[str, str]:
    """The words of that field by events with campaigns, or without, each with one event that has it."""
    found: dict[str, str] = {}
    for one in seen:
        if one.running(path) is running and (word := one.word(name)) is not None:
            found.setdefault(word, one.event)
    return found


def campaigns_path(sights: Sights, assumptions: Assumptions) -> str:
    """Where the campaigns are, as far as it can be seen; the path in force where it cannot."""
    found = _finding("campaigns.items", sights, assumptions).value
    return str(found) if found is not None else assumptions.text("campaigns.items")


def _campaign_items(it: AssumptionFinding, sights: Sights, assumptions: Assumptions) -> AssumptionFinding:
    """An event without campaigns shows nothing, but that its list is where it is looked for."""
    path = assumptions.text("campaigns.items")
    contents = [one.campaigns for one in sights.setups if one.campaigns is not None and _at(path, one.campaigns) != []]
    empty = any(one.campaigns is not None for one in sights.setups)
    unread = "every list that was read is empty" if empty else "no event's campaigns could be read"
    return _by_path(it, contents, _are_campaigns, unread)


def _are_campaigns(value: Json) -> bool:
    """A list, not empty, of records that each name a campaign."""
    return isinstance(value, list) and bool(value) and all(_names_campaign(item) for item in value)


def _names_campaign(item: Json) -> bool:
    if not isinstance(item, dict):
        return False
    return isinstance(item.get("tc"), str) and bool(item["tc"]) and run_id_from(item.get("tc_run_id")) is not None


def _after_publish(it: AssumptionFinding, sights: Sights, assumptions: Assumptions) -> AssumptionFinding:
    path = campaigns_path(sights, assumptions)
    published = [one for one in sights.setups if one.running(path)]
    if readable := next((one for one in published if isinstance(one.setup, dict)), None):
        seen, right = f"{readable.event} has campaigns, and its setup can be read", "readable"
    elif gone := next((one for one in published if one.gone), None):
        seen, right = f"{gone.event} has campaigns, and its setup answers 404", "absent"
    else:
        return it.unseen("no event with campaigns was met")
    return it.confirmed(seen) if right == it.value else it.refuted(seen, right)


def _connected(it: AssumptionFinding, sights: Sights, _assumptions: Assumptions) -> AssumptionFinding:
    contents = [] if sights.adplatform is None else [sights.adplatform]
    unread = "the ad platform's status could not be read"
    found = _by_path(it, contents, lambda part: isinstance(part, bool), unread)
    if found.known:
        return found
    for path in _places(contents[0], lambda part: isinstance(part, str) and part.lower() in CONNECTED_WORDS):
        return it.refuted(found.seen, f"{path} == '{_at(path, contents[0])}'")
    return found


def _benchmark_at(it: AssumptionFinding, sights: Sights, _assumptions: Assumptions) -> AssumptionFinding:
    return _by_path(it, sights.benchmarks, _are_shares, "no benchmark could be read")


def _by_path(
    it: AssumptionFinding, contents: Sequence[Json], fits: Callable[[Json], bool], unread: str
) -> AssumptionFinding:
    """Of a JMESPath that has to lead to something of this kind: whether it does, and where else one stands."""
    if not contents:
        return it.unseen(unread)
    for found in (_at(str(it.value), content) for content in contents):
        if fits(found):
            return it.confirmed(f"{_short(found)} stands there")
    places = {place for content in contents for place in _places(content, fits)}
    if len(places) == 1:
        return it.refuted(f"{_short(contents[0])}, in which it stands at {min(places)}", min(places))
    return it.refuted(f"the answer is {_short(contents[0])}")


def _are_shares(value: Json) -> bool:
    return isinstance(value, dict) and all(number_from(value.get(name)) is not None for name in SHARES)


def _benchmark_unit(it: AssumptionFinding, sights: Sights, assumptions: Assumptions) -> AssumptionFinding:
    """Numbers up to 1 may be small percents as well, so they refute nothing; numbers from 2 on are percents."""
    where = _finding("lookout_benchmark.at", sights, assumptions).value
    pairs = [pair for content in sights.benchmarks if _are_shares(pair := _at(str(where), content))]
    if not pairs:
        return it.unseen("no benchmark could be read")
    numbers = [[number_from(pair.get(name)) or 0.0 for name in SHARES] for pair in pairs if isinstance(pair, dict)]
    largest = [max(map(abs, pair)) for pair in numbers]
    seen = ", ".join(_short(pair) for pair in pairs)
    percents = any(one >= SURELY_PERCENT for one in largest)
    fractions = any(one <= 1.0 for one in largest)
    if it.value == "auto":
        told = all(one <= 1.0 or one >= SURELY_PERCENT for one in largest)
        return it.confirmed(seen) if told else it.unseen(seen)
    if not percents:
        return it.unseen(seen)
    if it.value == "percent":
        return it.refuted(seen, "auto") if fractions else it.confirmed(seen)
    return it.refuted(seen, "auto" if fractions else "percent")


def _at(path: str, value: Json) -> Json:
    """What a JMESPath finds; None where it cannot be applied."""
    try:
        return found_at(path, value)
    except Malformed:
        return None


def _places(value: Json, fits: Callable[[Json], bool], path: str = "", depth: int = 0) -> Iterator[str]:
    """Every place in an answer whose value fits, as JMESPath; ``@`` for the answer itself."""
    if fits(value):
        yield path or "@"
    if depth < DEEPEST and isinstance(value, dict):
        for name, part in value.items():
            below = _spelled(name)
            yield from _places(part, fits, f"{path}.{below}" if path else below, depth + 1)


def _spelled(name: str) -> str:
    plain = name.isascii() and name.replace("_", "a").isalnum() and not name[0].isdigit() if name else False
    return name if plain else '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _short(value: Json) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN_MAX else text[: _SHOWN_MAX - 1] + "…"


JUDGES: Mapping[str, Callable[[AssumptionFinding, Sights, Assumptions], AssumptionFinding]] = {
    "events.page_parameter": _page_parameter,
    "auth.refresh": _refresh,
    "auth.denied": _denied,
    "setup.state_field": _state_field,
    "setup.draft": _state_words,
    "setup.published": _state_words,
    "setup.after_publish": _after_publish,
    "campaigns.items": _campaign_items,
    "adplatform.connected": _connected,
    "lookout_benchmark.at": _benchmark_at,
    "lookout_benchmark.unit": _benchmark_unit,
}
