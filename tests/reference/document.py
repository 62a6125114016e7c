"""docs/reference.md, made from the registries that the worker itself goes by.

It stands among the tests because the gate makes the text anew and compares (tests/architecture/test_docs.py); `make
docs` writes it. What the code says in words is taken from there; only what has no registry is worded in `words`.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, get_args

from tests.reference.commands import Command, commands
from tests.reference.config import config_keys
from tests.reference.figures import figures
from tests.reference.spelling import code, flow, sentence, table
from tests.reference.words import EXIT_CODES, LOG_FIELDS, TEST_KEYS, WRITE_FIELDS
from worker.api.assumptions import ASSUMPTIONS, SETTLE
from worker.api.probe import JUDGES
from worker.engine.views import PARTNER_FACTS_EVERY
from worker.ledger.log import FIELDS
from worker.model.actions import ACTIONS, Action, Param
from worker.model.commits import KINDS, REASONS
from worker.model.endpoints import Endpoint, Host
from worker.model.errors import CODES
from worker.model.facts import EVENT_FIELDS, GOALS, LISTS, RECORDS, Field
from worker.model.writes import UNSETTLED
from worker.rules.actions import METHODS
from worker.rules.functions import FUNCTIONS, MACRO_ABOUT, Function
from worker.rules.models import RuleText, WithText
from worker.rules.registry import BUILT_IN, WORDS, FactName, of_field
from worker.rules.spelling import duration_text
from worker.rules.tests import Answer, RuleTest, StepOfTest
from worker.writes.life import MOVES

ROOT: Final = Path(__file__).resolve().parents[2]
FILE: Final = ROOT / "docs" / "reference.md"

_FIELDS_OF: Final[Mapping[str, Mapping[str, Field]]] = {**RECORDS, **LISTS}

_HEAD: Final = """\
<!-- Made by `make docs` from the code. Edit the registry that a word comes from, not this file. -->

# Reference

Every word that can be written or is printed. The page to read first is the [front page](index.md); when something
is wrong, [operating.md](operating.md). "Section" means a section of the service's API document.

- [Commands](#commands), [exit codes](#exit-codes)
- [config.yaml](#configyaml), [assumptions](#assumptions)
- [Rules](#rules): [keys](#keys-of-a-rule), [facts](#facts), [functions](#functions), [actions](#actions),
  [rule tests](#rule-tests), [what check finds](#what-check-finds)
- [States of a write](#states-of-a-write)
- [The action log](#the-action-log): [fields](#fields-of-a-record), [kinds](#kinds-of-records), [reasons](#reasons)
- [Figures](#figures) for Prometheus, [alarms](#alarms)
"""


def text() -> str:
    parts = (_HEAD, _commands(), _config(), _assumptions(), _rules(), _facts(), _functions(), _actions(), _tests())
    whole = "\n".join((*parts, _codes(), _states(), _log(), figures()))
    return re.sub(r"\n{3,}", "\n\n", whole)


# commands and config


def _commands() -> str:
    parts = ["## Commands\n", "`campaign-worker [OPTIONS] COMMAND`; `python -m worker` is the same.\n"]
    parts.extend(_command(one) if one.path else _options(one) for one in commands())
    codes = table(("code", "means"), [(str(code), words) for code, words in sorted(EXIT_CODES.items())])
    return "\n".join((*parts, "## Exit codes\n", codes))


def _command(one: Command) -> str:
    return "\n".join((f"### `{one.path}`\n", f"`campaign-worker {one.usage}`\n", f"{one.about}\n", _options(one)))


def _options(one: Command) -> str:
    rows = [(f"`{option.spelled}`", option.about + option.default_words) for option in one.options]
    return table(("option", "does"), rows) if rows else ""


def _config() -> str:
    about = (
        "Durations are written `500ms`, `3s`, `10m`, `2h`, `7d`; paths count from the config's folder; an unknown key "
        "is an error. For editors: [config.json](schema/config.json).\n\n"
        "Any key can be set from the environment, above the file: `CAMPAIGN_WORKER__API__BASE_URL` is `api.base_url`. "
        "An empty variable sets nothing. "
        "The value is written as in the file, also a list or a mapping: `CAMPAIGN_WORKER__SAFETY__GAP='{then: ask}'`. "
        "A name of your own must be lower case there. `CAMPAIGN_WORKER__ASSUMPTIONS__SETUP__DRAFT` is the assumption "
        "`setup.draft`.\n"
    )
    rows = [(f"`{key.name}`", key.type, key.default, key.about) for key in config_keys()]
    return "\n".join(("## config.yaml\n", about, table(("key", "type", "default", "what it is"), rows)))


def _assumptions() -> str:
    about = (
        "What the service's document leaves open. A key written under `assumptions:` is a fact that you confirm. In "
        "mode `live`, against anything but the sandbox and this machine, a write that depends on a default that nobody "
        "confirmed, or whose rule decides by a fact that does, is held (`assumption`). `safety.settle` is confirmed "
        "in the same way: until it is written, an unknown write that spends goes to an operator at once.\n"
    )
    rows = [
        (
            f"`{row.key}`",
            row.about + (f"; settled as well by writing `{row.instead}`" if row.instead else ""),
            f"`{flow(row.default)}`",
            row.origin,
            ", ".join(code(name) for name in (*row.needed_by, *_actions_leaning_on(row.key, row.needed_by))),
            "yes" if row.key in JUDGES else "no, only a write shows it",
        )
        for row in ASSUMPTIONS.values()
    ]
    settle = next(key for key in config_keys() if key.name == SETTLE)
    rows.append((f"`{SETTLE}`", settle.about, settle.default, "not in the document", "every unknown write", "no"))
    head = (
        "key",
        "what it says",
        "default",
        "where the document is silent",
        "what depends on it",
        "can reading confirm it",
    )
    return "\n".join(("## Assumptions\n", about, table(head, rows)))


def _actions_leaning_on(key: str, named: Sequence[str]) -> list[str]:
    return [name for name, action in ACTIONS.items() if key in action.assumptions and name not in named]


# rules


def _rules() -> str:
    about = "For editors: [rules.json](schema/rules.json).\n"
    said = {name: str(key.description).partition(" — ") for name, key in RuleText.keys().items()}
    rows = [(f"`{name}`", about, f"`{example}`") for name, (about, _, example) in said.items()]
    with_rows = [(f"`{name}`", str(key.description)) for name, key in WithText.keys().items()]
    return "\n".join(
        (
            "## Rules\n",
            about,
            "### Keys of a rule\n",
            table(("key", "what it is", "example"), rows),
            "Keys of `with`, the parameters of facts:\n",
            table(("key", "what it is"), with_rows),
        )
    )


def _facts() -> str:
    about = (
        "Only facts that a rule names are read. A documented field is `fact.field`; any other one is `fact['field']`. "
        "Every number from the service is a double: calculate with `2.0`, not with `2`.\n"
    )
    return "\n".join(("### Facts\n", about, *(_fact(fact) for fact in BUILT_IN.values())))


def _fact(fact: FactName) -> str:
    lines = [f"#### `{fact.name}`\n", f"{sentence(fact.about)} Example: `{fact.example}`\n"]
    rows = [("cost", _cost(fact))]
    if fact.get:
        rows.insert(0, ("read from", f"`{fact.get}`, section {fact.section}"))
    if fact.takes:
        rows.append(("takes", ", ".join(f"`{name}`" for name in fact.takes) + ", from `with`"))
    if fact.name not in _FIELDS_OF:
        rows.append(("type", WORDS[fact.type.kind]))
    lines.append(table(("", ""), rows))
    if fact.name in _FIELDS_OF:
        lines.append(table(("field", "type", "what it is", "section"), _fields(_FIELDS_OF[fact.name])))
    if fact.name == "set_by":
        what = ("worker, external or unseen", "the ids of the rules whose write set it; empty where none did")
        rows = [(f"`{name}`", what[name.endswith("_rules")]) for name in fact.type.fields or ()]
        lines.append(table(("field", "what it is"), rows))
    if fact.name == "write":
        rows = [(f"`{name}`", WRITE_FIELDS[name]) for name in fact.type.fields or ()]
        lines.append(table(("field", "what it is"), rows))
    return "\n".join(lines)


def _cost(fact: FactName) -> str:
    if fact.per_event_request:
        return "one request for each event, and only while the rest of the condition can still be true"
    if fact.level == "event":
        return "nothing: it comes with the list of events"
    if fact.level in ("local", "made"):
        return "nothing: the worker makes it"
    if fact.name == "partner":
        every = duration_text(PARTNER_FACTS_EVERY)
        return f"one request for each partner, every {every}; every `poll.interval` where a rule names it"
    return "one request for each partner, every `poll.interval`"


def _fields(fields: Mapping[str, Field]) -> list[tuple[str, ...]]:
    return [(f"`{name}`", _field_type(field), field.about, field.section) for name, field in fields.items()]


def _field_type(field: Field) -> str:
    words = of_field(field).words
    if field.values:
        words = ", ".join(f"`{value}`" for value in field.values) + (", others" if field.open_set else "")
    return f"{words}, or null" if field.nullable else words


def _functions() -> str:
    rows = [(f"`{_signature(one)}`", one.gives.words, one.about) for one in FUNCTIONS.values()]
    rows += [(f"`{name}`", "", about) for name, about in MACRO_ABOUT.items()]
    about = "What conditions, and values in `do` that begin with `=`, can call. Any other name is an error.\n"
    return "\n".join(("### Functions\n", about, table(("function", "gives", "what it is"), rows)))


def _signature(one: Function) -> str:
    kinds = ["any" if len(kinds) > 6 else "|".join(sorted(kinds)) for kinds in one.takes]
    kinds[len(kinds) - one.optional :] = ["[zone]"] * one.optional
    call = f"{one.name}({', '.join(kinds)})"
    return call if one.plain else f"{kinds[0]}.{one.name}({', '.join(kinds[1:])})"


def _actions() -> str:
    about = (
        "*Spends*: the write can cost money if it happens twice or wrongly. *Stops*: it only stops spending, is exempt "
        "from `safety.writes_per_hour`, and overtakes an unsettled opposite write. A value that begins with `=` is CEL "
        'and computed at the firing: `total_budget: "=defaults.total_budget * 1.2"`.\n'
    )
    parts = [_action(action) for action in ACTIONS.values()]
    return "\n".join(("### Actions\n", about, *parts))


_ASKS_NOTHING: Final = frozenset({"answer", "handover", "clock", "undone"})


def _action(action: Action) -> str:
    leans = ", ".join(f"`{key}`" for key in action.assumptions) or "nothing"
    rows = [
        *([("request", _requests(action))] if action.calls else ()),
        *([("target", f"`{action.target}`")] if action.target else ()),
        ("spends", "as the writes that it becomes" if action.shown == "undone" else _spends(action)),
        *([("refused without", "a draft" if "DRAFT" in action.needs else "a published setup")] if action.needs else ()),
        *([("already so", _already_so(action))] if action.shown not in _ASKS_NOTHING else ()),
        ("evidence", _evidence(action)),
        ("held unless confirmed", leans),
        *([("section", action.calls[0].section)] if action.calls else ()),
        ("example", f"`{action.example}`"),
    ]
    params = [(f"`{name}`", _param(param), param.about) for name, param in action.params.items()]
    if action.extra_params:
        about = "parameters that neither the document nor an assumption names; they are sent beside the others"
        params.append(("`extra`", "mapping", about))
    if action.each:
        forms = "`added`, `campaigns`, `clusters`, or `{of: …, where: …}`"
        params.append(("`each`", forms, "one write for each cluster that the list has gained, or for each item"))
    taken = table(("parameter", "type", "what it is"), params) if params else ""
    return "\n".join((f"#### `{action.name}`\n", sentence(action.about) + "\n", taken, table(("", ""), rows)))


def _param(param: Param) -> str:
    words = {
        "goal": ", ".join(f"`{goal}`" for goal in GOALS),
        "on_off": "`ON`, `OFF`",
        "frontend_status": ", ".join(f"`{value}`" for value in EVENT_FIELDS["frontend_status"].values),
        "eids": "list of event ids",
        "texts": "list of texts",
        "host": ", ".join(f"`{host}`" for host in get_args(Host)),
        "method": ", ".join(f"`{method}`" for method in METHODS),
        "query": "mapping",
        "body": "any JSON",
        "flag": "true or false",
        "confirm": "mapping",
        "rule": "a rule's id, or `after`",
        "any": "anything",
    }.get(param.type, param.type)
    return words + (", required" if param.required else "") + (" without `each`" if param.of_item else "")


def _host(call: Endpoint) -> str:
    return f"[{call.host}] " if call.host != "api" else ""


def _requests(action: Action) -> str:
    return ", then ".join(f"`{one.method} {_host(one)}{one.path}`" for one in action.calls)


def _spends(action: Action) -> str:
    match action.spends:
        case "unless_off" if action.value is None:
            return f"`ON` spends, `{action.stops[0]}` stops"
        case "unless_off":
            return "no; stops"
        case "with_budget":
            return "with money among what it sends: a budget, or a key that says so"
        case "unless_said":
            return "yes, unless `spends: false`"
        case _:
            return "yes" if action.spends == "always" else "no"


def _already_so(action: Action) -> str:
    match action.shown:
        case "field":
            return "the field has the value" + ("; null: nothing to pause" if action.null_is_so else "")
        case "setup" | "campaign":
            what = "setup" if action.shown == "setup" else "campaign"
            if action.creates:
                return f"there is a {what}"
            return "it is published" if action.value else f"the {'draft' if what == 'setup' else what} has the values"
        case "confirm":
            return "`confirm.when` is true"
        case _:
            return f"the series {'has' if action.value == 'in' else 'lacks'} them"


def _evidence(action: Action) -> str:
    shown = {
        "field": f"a later read of `event.{action.target}`",
        "setup": "a later read of the setup: " + ("PUBLISHED" if action.value else "the values sent"),
        "campaign": "a later read of the campaigns: " + ("it is there" if action.creates else "it has the values sent"),
        "series": "a later read of `event.campaign_event_series`",
        "confirm": "`confirm.when` on a fresh GET; without `confirm` none, and its 2xx confirms it",
        "handover": "none: the hand-over itself",
        "clock": "none: the clock",
        "undone": "that of the writes that it becomes",
        "answer": "none: its 2xx confirms it, and after an unknown outcome an operator must look",
    }[action.shown]
    second = "; the second write cannot be read back: its 2xx confirms it, and an unknown one is for an operator"
    return shown + (second if action.unseen else "")


def _tests() -> str:
    about = (
        "Files in `rules/tests/`, run by `campaign-worker test`. For editors: [tests.json](schema/tests.json). A poll "
        "happens every `poll.interval` and right after each step's `set`.\n"
    )
    rows = [(f"`{name}`", TEST_KEYS.get(name, "")) for name in keys_of_tests()]
    return "\n".join(("### Rule tests\n", about, table(("key", "what it is"), rows)))


def _codes() -> str:
    about = (
        "`check` and `test` tell each mistake as `file:line:column: message`, with the line, a mark under the place, "
        "and what to do. `check --format json` has the same as `file`, `line`, `column`, `severity` (`error` or "
        "`warning`), `code`, `message`, `remedy` and `source`. Words may change, codes do not.\n"
    )
    rows = [(f"`{code}`", words) for code, words in CODES.items()]
    return "\n".join(("### What check finds\n", about, table(("code", "what it is"), rows)))


def keys_of_tests() -> tuple[str, ...]:
    """The keys of a rule test, of its steps, and of an answer."""
    steps, answers = StepOfTest.keys(), Answer.keys()
    return (*RuleTest.keys(), *(f"steps.{name}" for name in steps), *(f"answers.{name}" for name in answers))


# what is printed


def _states() -> str:
    about = (
        "Every change of state goes through one table (`worker/writes/life.py`); [a picture](at-most-once.md) "
        "shows it. A state that *holds its target* keeps other writes off it, because its effect may exist. Where an "
        "operator accepts a restored ledger (`ledger accept-restore`), every write that is not final becomes "
        "`needs_human`.\n"
    )
    rows = [
        (f"`{state}`", KINDS[state], ", ".join(f"`{to}`" for to in after) or "final", _role(state))
        for state, after in MOVES.items()
    ]
    return "\n".join(("## States of a write\n", about, table(("state", "means", "can become", "holds"), rows)))


def _role(state: str) -> str:
    return "its target" if state in UNSETTLED else ""


def _log() -> str:
    return "\n".join(
        (
            "## The action log\n",
            "`campaign-worker log` prints it, oldest first; nothing is ever changed or removed in it.\n",
            "### Fields of a record\n",
            table(("field", "what it is"), [(f"`{name}`", LOG_FIELDS.get(name, "")) for name in FIELDS]),
            "### Kinds of records\n",
            table(("kind", "means"), [(f"`{kind}`", about) for kind, about in KINDS.items()]),
            "### Reasons\n",
            "Codes in `reason` and `held_by`. What to do about each hold is in [operating.md](operating.md).\n",
            table(("reason", "means"), [(f"`{code}`", about) for code, about in sorted(REASONS.items())]),
        )
    )
