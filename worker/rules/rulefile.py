"""One rule file: from positioned YAML to rules, with every mistake at its place.

Every key of a rule is read here and nowhere else; what a key means is said in the registry. A rule with a mistake is no
rule: nothing is guessed, nothing is left out silently.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from zoneinfo import available_timezones

from worker.model.errors import Problem
from worker.model.facts import QUERY_VALUES, PartnerId, RuleId
from worker.model.rules import Rule, Surge, Watch
from worker.model.writes import Mode
from worker.rules.actions import read_do
from worker.rules.celtypes import Type
from worker.rules.cron import CronTimes, cron_error
from worker.rules.evaluate import Expression
from worker.rules.expressions import Expressions, with_relative
from worker.rules.fields import Form, present
from worker.rules.nearest import instead, meant, nearest
from worker.rules.parameters import DATES, day_of
from worker.rules.registry import PARAMETERS, RULE_KEYS, WITHOUT_DEFAULT, Registry
from worker.rules.yaml import Entries, Items, Scalar, Value

RULES_MAX = 1_000
ID_LENGTH_MAX = 100
ENFORCE_COOLDOWN_MIN = timedelta(minutes=1)
_ANY_DAY = datetime(2026, 1, 1, tzinfo=UTC)
_ID = re.compile(r"[^\s\x00-\x1f\x7f]+")
_ID_GAP = re.compile(r"[\s\x00-\x1f\x7f]+")
_OF_OTHER_TOOLS: Mapping[str, str] = {
    **dict.fromkeys(("if", "condition", "conditions", "trigger", "triggers", "match", "where", "filter"), "when"),
    **dict.fromkeys(("action", "actions", "then", "run", "steps", "effect"), "do"),
    **dict.fromkeys(("name", "rule", "key"), "id"),
    **dict.fromkeys(("comment", "notes", "title"), "description"),
    **dict.fromkeys(("schedule", "cron"), "at"),
    **dict.fromkeys(("wait", "delay", "debounce", "duration", "hold"), "for"),
    "throttle": "cooldown",
    **dict.fromkeys(("dry_run", "approval"), "mode"),
    **dict.fromkeys(("watch", "changed", "on", "changes"), "on_change"),
    **dict.fromkeys(("params", "parameters", "args"), "with"),
}
"""Keys that people know from other tools, and the key of a rule that does the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A rule with the text it was read from, for findings that need both."""

    rule: Rule
    entries: Entries = field(repr=False, compare=False)
    warnings: tuple[Problem, ...] = ()


class RuleReader:
    """Reads the rules of files into one form. ``ids``: every id met, also of rules with mistakes."""

    def __init__(self, registry: Registry) -> None:
        self.form = Form()
        self.ids: list[Scalar] = []
        self._registry = registry

    def file(self, value: Value) -> list[Written]:
        """The rules of one file."""
        if not isinstance(value, Entries):
            hint = "write `rules:` above it, and indent what follows by two spaces"
            self.form.note(value, "a rule file begins with `rules:`", hint=hint)
            return []
        self.form.keys(value, "a rule file", ("rules",))
        rules = present(value).get("rules")
        if rules is None:
            return []
        if not isinstance(rules, Items):
            self.form.note(rules, "rules must be a list", hint="begin each rule with `- id: …`")
            return []
        if len(rules.items) > RULES_MAX:
            self.form.note(rules, f"more than {RULES_MAX} rules in a file", hint="split the file")
            return []
        return [written for item in rules.items if (written := self._rule(item)) is not None]

    def _rule(self, item: Value) -> Written | None:
        if not isinstance(item, Entries):
            self.form.note(item, "a rule is a mapping that begins with `id:`", hint="write - id: … and its other keys")
            return None
        before = len(self.form.problems)
        keys = self._keys(item)
        rule_id = self._id(item, keys)
        watches = self._watches(keys["on_change"]) if "on_change" in keys else ()
        expressions = Expressions(self.form, self._registry, watches)
        when = self._when(keys, expressions)
        if not {"when", "on_change"} & (keys.keys() | meant_keys(item)):
            hint = "say for which events it is meant: when: event.status == 'cancelled'"
            self.form.note(item, "a rule needs `when`, `on_change` or both", hint=hint, code="missing")
        if "do" not in keys.keys() | meant_keys(item):
            self.form.note(item, "a rule needs `do`", hint="say what to do: do: [pause]", code="missing")
        do = read_do(keys["do"], self.form, expressions) if "do" in keys else ()
        times = self._at(keys)
        rule = Rule(
            id=RuleId(rule_id),
            file=item.document.file,
            line=item.document.line_of(item.start),
            when=when,
            on_change=watches,
            at=times,
            parameters=self._parameters(keys),
            do=do,
            when_hash=_digest("" if when is None else when.source),
            do_hash=_digest(*(_canonical(keys.get(name)) for name in ("do", "with"))),
        )
        self._asked(rule, item)
        rule = with_relative(self._paced(rule, keys), self.form, expressions, self._registry)
        rule = self._reached(rule, keys)
        if len(self.form.problems) > before:
            return None
        return Written(rule=rule, entries=item, warnings=tuple(expressions.warnings))

    def _keys(self, item: Entries) -> Mapping[str, Value]:
        """The keys with values; each that is no key of a rule is told, with the one that could be meant."""
        for key, _ in item.entries:
            if key.text in _OF_OTHER_TOOLS and key.text not in RULE_KEYS:
                known = _OF_OTHER_TOOLS[key.text]
                message = f"unknown key '{key.text}' in a rule; here it is '{known}'"
                self.form.note(key, message, hint=f"write {RULE_KEYS[known].example}", code="key")
            elif key.text not in RULE_KEYS:
                message = f"unknown key '{key.text}' in a rule{meant(key.text, RULE_KEYS)}"
                self.form.note(key, message, hint=instead(key.text, RULE_KEYS), code="key")
        return present(item)

    def _id(self, item: Entries, keys: Mapping[str, Value]) -> str:
        value = keys.get("id")
        if value is None:
            if "id" not in meant_keys(item):
                hint = "give it a name of its own: id: pause-cancelled"
                self.form.note(item, "a rule needs `id`", hint=hint, code="missing")
            return ""
        found = self.form.text(value, "id")
        if found is not None and (len(found) > ID_LENGTH_MAX or not _ID.fullmatch(found)):
            hint = f"write {_ID_GAP.sub('-', found.strip())[:ID_LENGTH_MAX]}"
            self.form.note(value, f"an id has no spaces and at most {ID_LENGTH_MAX} characters", hint=hint)
        if found is not None and isinstance(value, Scalar):
            self.ids.append(value)
        return found or ""

    def _when(self, keys: Mapping[str, Value], expressions: Expressions) -> Expression | None:
        value = keys.get("when")
        if value is None:
            return None
        if not isinstance(value, Scalar):
            hint = "quote it, or begin it on a new line after `when: |`"
            self.form.note(value, "when must be a condition in one text", hint=hint)
            return None
        return expressions.condition(value)

    def _watches(self, value: Value) -> tuple[Watch, ...]:
        items = value.items if isinstance(value, Items) else (value,)
        if not items:
            self.form.note(value, "on_change names at least one fact", hint="write on_change: suggested_tcs")
        found: list[Watch] = []
        for item in items:
            watch = self._watch(item)
            if watch is not None and watch.fact in {one.fact for one in found}:
                self.form.note(item, f"'{watch.fact}' is watched twice", hint="remove one of the two")
            elif watch is not None:
                found.append(watch)
        return tuple(found)

    def _watch(self, item: Value) -> Watch | None:
        if isinstance(item, Scalar):
            return Watch(fact=item.text) if self._fact(item) else None
        entries = self.form.mapping(item, "on_change", ("fact", "by"), required=("fact",))
        if entries is None:
            return None
        fact, by = entries.get("fact"), present(entries).get("by")
        if fact is not None and not isinstance(fact, Scalar):
            self.form.note(fact, "on_change.fact must be the name of a fact", hint="write {fact: event, by: [status]}")
        if not isinstance(fact, Scalar) or not self._fact(fact):
            return None
        names = self.form.texts(by, "by") if by is not None else ()
        if names and isinstance(by, Items):
            self._compared(self._registry.facts[fact.text].type, by)
        return Watch(fact=fact.text, by=names or ())

    def _fact(self, value: Scalar) -> bool:
        watchable = self._registry.watchable()
        if value.text in watchable:
            return True
        head, _, tail = value.text.partition(".")
        name = f"'{value.text}' is no fact that can be watched"
        if tail and head in watchable:
            self.form.note(value, name, hint=f"write {{fact: {head}, by: [{tail}]}}", code="fact")
        else:
            message, hint = name + meant(value.text, watchable), instead(value.text, watchable)
            self.form.note(value, message, hint=hint, code="fact")
        return False

    def _compared(self, watched: Type, by: Items) -> None:
        """A compared field that resembles a documented one is misspelt; any other may be one that is not documented."""
        record = watched.items if watched.kind == "list" else watched
        fields = record.fields if record is not None else None
        if fields is None:
            return
        for item in by.items:
            if isinstance(item, Scalar) and item.text not in fields and nearest(item.text, fields) is not None:
                message = f"no documented field '{item.text}'{meant(item.text, fields)}"
                self.form.note(item, message, hint=instead(item.text, fields), code="field")

    def _parameters(self, keys: Mapping[str, Value]) -> dict[str, str | float | int]:
        value = keys.get("with")
        entries = self.form.mapping(value, "with", tuple(PARAMETERS)) if value is not None else None
        found: dict[str, str | float | int] = {}
        for name, part in (present(entries) if entries is not None else {}).items():
            read = self._parameter(name, part)
            if read is not None:
                found[name] = read
        return found

    def _parameter(self, name: str, value: Value) -> str | float | int | None:
        form, what = self.form, f"with.{name}"
        if name == "budget":
            return form.number(value, what)
        if name == "runtime_in_days":
            return form.whole(value, what, 1)
        if name in QUERY_VALUES:
            return form.word(value, what, QUERY_VALUES[name])
        if name == "lead_form_id" and isinstance(value, Scalar) and not value.text:
            return ""
        if name in PARAMETERS:
            found = form.text(value, what)
            if found is not None and name in DATES and day_of(found, _ANY_DAY) is None:
                form.note(value, f"{what} is a day, such as 2026-03-01, today or today-30d")
            return found
        return None

    def _asked(self, rule: Rule, item: Value) -> None:
        """Parameters that no fact can tell must stand in the rule."""
        for name in sorted(rule.names):
            takes = self._registry.facts[name].takes if name in self._registry.facts else ()
            for lacking in sorted(WITHOUT_DEFAULT.intersection(takes) - rule.parameters.keys()):
                said = f"{name} is asked with {lacking}, which the rule must give"
                self.form.note(item, said, hint=f"with: {{{lacking}: …}}; {PARAMETERS[lacking]}", code="missing")

    def _paced(self, rule: Rule, keys: Mapping[str, Value]) -> Rule:
        """When a rule may fire: ``for``, ``repeat``, ``cooldown``, ``limit``."""
        form = self.form
        if "repeat" in keys:
            word = form.word(keys["repeat"], "repeat", ("once", "enforce"))
            rule = replace(rule, repeat="enforce" if word == "enforce" else "once")
        if rule.repeat == "enforce" and rule.on_change:
            hint = "leave `repeat` out: each change is a firing of its own"
            form.note(keys["repeat"], "enforce goes with a condition, not with on_change", hint=hint)
        if rule.repeat == "enforce" and rule.at is not None:
            hint = "leave `repeat` out: each time is a firing of its own"
            form.note(keys["repeat"], "enforce looks all the time, and `at` only at its times", hint=hint)
        if "for" in keys:
            rule = replace(rule, hold_for=form.duration(keys["for"], "for"))
        if "cooldown" in keys:
            rule = replace(rule, cooldown=form.duration(keys["cooldown"], "cooldown"))
            if rule.repeat == "enforce" and rule.cooldown is not None and rule.cooldown < ENFORCE_COOLDOWN_MIN:
                form.note(
                    keys["cooldown"], "with repeat: enforce the cooldown is 1m or more", hint="write cooldown: 1m"
                )
        limit = (
            form.mapping(keys["limit"], "limit", ("per_event_per_day",), ("per_event_per_day",))
            if "limit" in keys
            else None
        )
        count = limit.get("per_event_per_day") if limit is not None else None
        if count is not None:
            rule = replace(rule, per_event_per_day=form.whole(count, "limit.per_event_per_day", 1))
        return rule

    def _reached(self, rule: Rule, keys: Mapping[str, Value]) -> Rule:
        """Whom a rule reaches and how freely: ``partners``, ``enabled``, ``mode``, ``surge`` and so on."""
        form = self.form
        if "description" in keys:
            rule = replace(rule, description=form.text(keys["description"], "description") or "")
        if "priority" in keys:
            rule = replace(rule, priority=form.whole(keys["priority"], "priority") or 0)
        if "partners" in keys:
            names = form.texts(keys["partners"], "partners") or ()
            rule = replace(rule, partners=frozenset(PartnerId(name) for name in names))
        if "enabled" in keys:
            rule = replace(rule, enabled=form.flag(keys["enabled"], "enabled") is True)
        if "mode" in keys:
            rule = replace(rule, mode=_MODES.get(form.word(keys["mode"], "mode", tuple(_MODES)) or ""))
        if "on_unknown" in keys:
            word = form.word(keys["on_unknown"], "on_unknown", ("settle", "ask"))
            rule = replace(rule, on_unknown="ask" if word == "ask" else "settle")
        if "surge" in keys:
            rule = replace(rule, surge=self._surge(keys["surge"]))
        return rule

    def _surge(self, value: Value) -> Surge | None:
        names = ("events", "within")
        entries = self.form.mapping(value, "surge", names, required=names)
        given = present(entries) if entries is not None else {}
        events = self.form.whole(given["events"], "surge.events", 1) if "events" in given else None
        within = self.form.duration(given["within"], "surge.within") if "within" in given else None
        return Surge(events=events, within=within) if events is not None and within is not None else None

    def _at(self, keys: Mapping[str, Value]) -> CronTimes | None:
        """The times at which a rule is looked at."""
        zone, at = keys.get("timezone"), keys.get("at")
        known = zone is None or (isinstance(zone, Scalar) and zone.text in available_timezones())
        if zone is not None and not known:
            hint = "as in timezone: Europe/Berlin"
            self.form.note(zone, "timezone must be the name of a time zone, such as Europe/Berlin", hint=hint)
        if at is None:
            if zone is not None and known:
                self.form.note(zone, "timezone goes with `at`", hint="remove it, or add at: '0 8 * * *'")
            return None
        wrong = cron_error(at.text) if isinstance(at, Scalar) else "at must be a cron expression of five fields"
        if wrong or not isinstance(at, Scalar):
            hint = "minute, hour, day, month, weekday: '0 8 * * 1-5' is eight o'clock on weekdays"
            self.form.note(at, wrong, hint=hint)
            return None
        name = zone.text if isinstance(zone, Scalar) else "UTC"
        return CronTimes(source=at.text, timezone=name) if known else None


def meant_keys(item: Entries) -> frozenset[str]:
    """The keys that misspelt ones of a rule could be: what is misspelt is not missing as well."""
    wrong = [key.text for key, _ in item.entries if key.text not in RULE_KEYS]
    return frozenset(_OF_OTHER_TOOLS.get(name) or nearest(name, RULE_KEYS) or "" for name in wrong)


_MODES: Mapping[str, Mode] = {"shadow": "shadow", "approve": "approve", "live": "live"}


def _canonical(value: Value | None) -> str:
    return "" if value is None else json.dumps(value.json, sort_keys=True, ensure_ascii=False)


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()
