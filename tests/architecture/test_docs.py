"""What people read agrees with what the code does: nothing is stale, nothing unexplained, nothing named that is not.

docs/reference.md and docs/schema/ are made from the code and compared with what the code would make now. The pages
written by hand are read for what they show as code: every command, option, key, file and YAML block must be real.
"""

import ast
import json
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final, get_args

import pytest
import yaml

from tests.architecture.test_tidy import complain
from tests.builders import cases
from tests.reference import delays, night, soak
from tests.reference.commands import Command, commands
from tests.reference.config import config_keys
from tests.reference.document import FILE, keys_of_tests, text
from tests.reference.pages import ROOT, Page, pages
from tests.reference.words import EXIT_CODES, LOG_FIELDS, TEST_KEYS
from worker.api.assumptions import ASSUMPTIONS
from worker.config import read_config
from worker.config.models import SchemaOf, schema
from worker.ledger.log import FIELDS
from worker.model import errors
from worker.model.actions import ACTIONS
from worker.model.commits import ALARMS, KINDS, REASONS
from worker.model.errors import CODES, InputErrors, WorkerError
from worker.model.writes import State
from worker.rules.functions import FUNCTIONS
from worker.rules.load import load_rules
from worker.rules.models import RulesText, RuleText
from worker.rules.registry import BUILT_IN, BUILT_IN_REGISTRY
from worker.web.metrics import METRICS

PAGES: Final = pages()
BY_HAND: Final = tuple(page for page in PAGES if page.path != FILE)
OPERATING: Final = ROOT / "docs" / "operating.md"
NEEDS_HUMAN: Final = frozenset(
    ["ask", "attempts", "no_evidence", "no_readback", "other_value", "restored", "task_failed", "third_value", "toggle"]
)
WAITING: Final = frozenset({"gap", "mode", "reset", "restored", "surge"})
OWN_WORDS: Final = frozenset({"docs/sandbox.md"})
"""Pages whose YAML is of another kind, with a gate of its own (tests/unit/sandbox/test_docs.py)."""


# what is made from the code


def test_the_reference_is_what_the_code_says_now() -> None:
    stands = FILE.read_text("utf-8") if FILE.exists() else ""
    if stands == text():
        return
    differ = sorted(set(text().splitlines()) ^ set(stands.splitlines()))[:10]
    complain(differ, "docs/reference.md is stale; it differs in:", "Run `make docs`, and commit what it writes.")


def test_the_pictures_for_the_night_are_what_the_states_and_the_commands_are_now() -> None:
    assert night.BEGIN in night.FILE.read_text("utf-8"), "the page for the night has lost the place for its pictures"
    differ = sorted(set(night.text().splitlines()) ^ set(night.FILE.read_text("utf-8").splitlines()))
    complain(differ, "the pictures of docs/operating.md are stale:", "Run `make docs`, and commit what it writes.")


def test_the_pictures_are_drawn_from_the_figures_that_were_recorded() -> None:
    stale = [one.FILE.name for one in (delays, soak) if one.FILE.read_text("utf-8") != one.text()]
    complain(stale, "a picture is stale:", "Run `make docs`, and commit what it writes.")


@pytest.mark.parametrize("of", get_args(SchemaOf))
def test_the_schemas_are_what_the_code_says_now(of: SchemaOf) -> None:
    file = ROOT / "docs" / "schema" / f"{of}.json"
    fresh = json.dumps(schema(of), ensure_ascii=False, indent=2) + "\n"
    stale = [] if file.exists() and file.read_text("utf-8") == fresh else [file.relative_to(ROOT).as_posix()]
    complain(stale, "a schema is stale:", "Run `make schema`, and commit what it writes.")


# what must be explained


@cache
def sections() -> dict[str, str]:
    """The parts of docs/reference.md by their headings, each without the parts below it. `write` is a fact and an
    action, whose parts are taken together."""
    parts = re.split(r"^#+ (.+)$", FILE.read_text("utf-8"), flags=re.MULTILINE)
    found: dict[str, str] = {}
    for heading, body in zip(parts[1::2], parts[2::2], strict=True):
        found[heading.strip("`")] = found.get(heading.strip("`"), "") + body
    return found


def rows(section: str) -> dict[str, str]:
    """The rows of a part's tables by their first cell: what is said of it."""
    found = re.findall(r"^\| `?([^`|]+?)`? \| (.+) \|$", sections().get(section, ""), re.MULTILINE)
    return dict(found)


def unexplained(section: str, names: Iterable[str]) -> list[str]:
    said = rows(section)
    return [f"{section}: {name}" for name in names if len(re.findall(r"\w+", said.get(name, ""))) < 2]


@pytest.mark.parametrize(
    ("section", "names"),
    [
        ("States of a write", get_args(State)),
        ("Kinds of records", KINDS),
        ("Reasons", REASONS),
        ("Fields of a record", FIELDS),
        ("Keys of a rule", RuleText.keys()),
        ("Assumptions", (*ASSUMPTIONS, "safety.settle")),
        ("Rule tests", keys_of_tests()),
        ("What check finds", CODES),
        ("config.yaml", [key.name for key in config_keys()]),
        ("Figures", METRICS),
        ("Alarms", ALARMS),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_word_is_explained_in_the_reference(section: str, names: Iterable[str]) -> None:
    complain(unexplained(section, names), "without a word about it:", "Say it where the name is registered.")


def test_every_key_of_every_section_of_the_config_is_in_the_reference() -> None:
    """The models are walked apart from the reference, so that its own walk cannot leave out a section."""
    whole = schema("config")
    written = {key.name.rpartition(".")[2] for key in config_keys()}
    defined = {name for part in whole["$defs"].values() for name in part["properties"]} - {"env", "file"}
    assert defined | set(whole["properties"]) <= written


def test_every_fact_is_explained_with_every_documented_field() -> None:
    found: list[str] = []
    for name, fact in BUILT_IN.items():
        body = sections().get(name, "")
        record = fact.type.items if fact.type.kind == "list" else fact.type
        fields = record.fields if record is not None and record.fields is not None else {}
        own = name not in ("campaigns", "adplatform", "events")  # fields that an assumption places, or those of `event`
        if fact.about[1:] not in body or (fact.get and fact.get not in body):
            found.append(f"fact {name}")
        found.extend(f"{name}.{field}" for field in fields if own and f"| `{field}` |" not in body)
    complain(found, "facts without a word:", "Name the fact's fields in tests/reference/document.py.")


def test_every_action_is_explained() -> None:
    found = [
        name
        for name, action in ACTIONS.items()
        if action.example not in sections().get(name, "")
        or any(f"| `{param}` |" not in sections()[name] for param in action.params)
    ]
    complain(found, "actions without a word:", "See tests/reference/document.py.")


def test_every_action_is_shown_in_a_rule() -> None:
    path = ROOT / "docs" / "actions.md"
    blocks = Page(path=path, text=path.read_text("utf-8")).fences("yaml")
    rules = [rule for block in blocks for rule in yaml.safe_load(block)["rules"]]
    shown = {step if isinstance(step, str) else next(iter(step)) for rule in rules for step in rule["do"]}
    complain(sorted(ACTIONS.keys() - shown), "actions without a rule that uses them:", "See docs/actions.md.")


def test_every_function_is_explained() -> None:
    body = sections()["Functions"]
    complain([name for name in FUNCTIONS if f"{name}(" not in body], "functions without a word:", "Give it an about.")


def test_every_command_and_every_option_is_explained() -> None:
    found = [f"{one.path}: no words" for one in commands() if one.path and not one.about]
    found += [f"{one.path} {option.spelled}" for one in commands() for option in one.options if not option.about]
    found += [one.path for one in commands() if one.path and one.path not in sections()]
    complain(found, "without a word about it:", "Give the command a docstring and the option a help.")


def test_words_of_our_own_are_about_what_is_there() -> None:
    assert set(LOG_FIELDS) == set(FIELDS)
    assert set(TEST_KEYS) == set(keys_of_tests())
    codes = {one.exit_code for one in vars(errors).values() if isinstance(one, type) and issubclass(one, WorkerError)}
    assert codes <= set(EXIT_CODES)


# what the page for the night must have


@cache
def calls(folder: str) -> tuple[ast.Call, ...]:
    """Every call below a folder, or in one file."""
    files = [ROOT / folder] if folder.endswith(".py") else sorted((ROOT / folder).rglob("*.py"))
    trees = (ast.parse(file.read_text("utf-8")) for file in files)
    return tuple(node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call))


def constants(call: str, argument: int | str, folder: str) -> set[str]:
    """The constant that an argument of every such call below a folder has."""
    found: set[str] = set()
    for node in calls(folder):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name != call:
            continue
        given = [one.value for one in node.keywords if one.arg == argument]
        if isinstance(argument, int):
            given = node.args[argument : argument + 1]
        found |= {one.value for one in given if isinstance(one, ast.Constant) and isinstance(one.value, str)}
    return found


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (constants("alarm", 0, "worker/engine"), "an alarm of the daemon"),
        (constants("warning", 0, "worker/cli") - {"cycle"}, "a warning of the daemon"),
        (constants("No", "reason", "worker/guards.py") - {"read"}, "a guard's no"),
        (constants("Hold", "reason", "worker/guards.py"), "a limit"),
        (constants("Hold", "reason", "worker/engine"), "what holds a firing"),
        (NEEDS_HUMAN, "why a write needs an operator"),
        (WAITING, "why a write waits"),
        (get_args(State), "a state"),
        (REASONS, "a reason"),
        (ALARMS, "what can be asked for in messages"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_page_for_the_night_says_what_to_do(names: Iterable[str], reason: str) -> None:
    body = OPERATING.read_text("utf-8")
    assert set(names), f"nothing was found that is {reason}"
    missing = [name for name in sorted(names) if f"`{name}`" not in body]
    complain(missing, f"docs/operating.md does not say what to do about {reason}:", "Add a row for it.")


def test_what_asks_for_a_person_is_a_reason_code() -> None:
    assert set(REASONS) >= NEEDS_HUMAN | WAITING


# what pages name must exist


@cache
def by_path() -> dict[str, Command]:
    return {one.path: one for one in commands()}


def wrong_in(call: tuple[str, ...]) -> str | None:
    """What of a call does not exist; placeholders such as COMMAND or ID are left alone."""
    words = [word.strip("[]…,.") for word in call]
    path, rest = "", words
    while rest:
        if rest[0].startswith("-"):
            option = next((one for one in by_path()[path].options if rest[0] in one.names), None)
            rest = rest[2:] if option is not None and option.value else rest[1:]
        elif by_path()[path].group and re.fullmatch(r"[a-z][a-z-]*", rest[0]):
            path = f"{path} {rest[0]}".strip()
            if path not in by_path():
                return f"there is no command {path!r}"
            rest = rest[1:]
        else:
            break
    known = by_path()[path].names | by_path()[""].names | {"--help", "-h"}
    options = [one.partition("=")[0] for word in words for one in word.split("|") if one.startswith("-")]
    unknown = [one for one in options if one not in known and len(one) > 1]
    return f"{path or 'the program'} has no option {unknown[0]}" if unknown else None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_that_a_page_shows_exists(page: Page) -> None:
    found = [f"{' '.join(call)}: {wrong}" for call in page.calls() if (wrong := wrong_in(call)) is not None]
    found += [f"{name}: no command" for name in page.first_cells("command") if name.split(" ")[0] not in by_path()]
    complain(found, f"{page.name} shows commands that do not exist:", "Correct the page, or build the command.")


def known_keys() -> frozenset[str]:
    """Every key that stands before a colon in a file that people write."""
    config = {key.name for key in config_keys()}
    last = {name.rpartition(".")[2].removesuffix("[]") for name in (*config, *keys_of_tests())}
    params = {name for action in ACTIONS.values() for name in action.params}
    rules = {*RulesText.keys(), *RuleText.keys(), "by", "each", "tests"}
    return frozenset({*config, *last, *ASSUMPTIONS, *rules, *ACTIONS, *params})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_config_key_that_a_page_names_exists(page: Page) -> None:
    keys = known_keys()
    tops = {key.name for key in config_keys() if "." not in key.name}
    found: list[str] = []
    for span in page.spans():
        dotted = re.fullmatch(r"([a-z_]+)(\.[a-z_]+)+:?", span)
        if dotted and dotted[1] in tops and Path(span).suffix not in (".py", ".md", ".yaml", ".db"):
            found += [] if span.rstrip(":") in keys else [span]
        before_colon = re.match(r"([a-z_]+(?:\.[a-z_]+)*):(?: |$)", span)
        if before_colon and page.name not in OWN_WORDS:
            found += [] if before_colon[1] in keys else [span]
    complain(found, f"{page.name} names keys that do not exist:", "Correct the page, or the schema of the file.")


@pytest.mark.parametrize("page", [page for page in BY_HAND if page.name not in OWN_WORDS], ids=lambda page: page.name)
def test_every_yaml_block_that_a_page_shows_is_accepted(page: Page, tmp_path: Path) -> None:
    """Rules are read with the names that the config shown before them gives."""
    found: list[str] = []
    registry = BUILT_IN_REGISTRY
    for number, block in enumerate(page.fences("yaml")):
        top = yaml.safe_load(block)
        try:
            if isinstance(top, dict) and isinstance(top.get("rules"), list):
                file = tmp_path / f"{number}.yaml"
                file.write_text(block, "utf-8")
                load_rules(file, registry)
            elif isinstance(top, dict) and not {"tests", "story"} & top.keys():
                registry = read_config(Path("config.yaml"), block).registry
        except InputErrors as wrong:
            found.append(f"block {number + 1}: {wrong}")
    complain(found, f"{page.name} shows YAML that the worker refuses:", "Correct the page.")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_that_a_page_names_exists(page: Page) -> None:
    found: list[str] = []
    for link in page.links():
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.path.parent / path).resolve() if path else page.path
        if not target.exists():
            found.append(link)
        elif anchor and anchor not in Page(path=target, text=target.read_text("utf-8")).anchors():
            found.append(f"{link}: no such heading")
    paths = [one for one in page.spans() if re.fullmatch(r"(docs|worker|tests|rules|benchmarks|\.ci)/[\w./-]*", one)]
    written = re.findall(r"[Ss]ave (?:this|it)\s+as `([^`]+)`", page.text)
    found.extend(path for path in paths if not (ROOT / path).exists() and path not in written)
    complain(found, f"{page.name} names files that do not exist:", "Correct the page, or add the file.")


def test_every_test_that_a_page_names_exists() -> None:
    """A claim stands beside the test that shows it: ``tests/….py::test_…``; ``::test_…`` alone is of the same file."""
    missing = []
    for page in PAGES:
        for line in page.text.splitlines():
            file = ""
            for named, test in re.findall(r"`(tests/[\w/]+\.py)?(?:::(test_\w+))?`", line):
                file = named or file
                path = ROOT / file
                if test and not (path.is_file() and f"def {test}(" in path.read_text("utf-8")):
                    missing.append(f"{page.path}: {file}::{test}")
    assert missing == [], "name the test as it is called by now"


def test_where_things_are_is_where_they_are() -> None:
    """A row of CONTRIBUTING.md names files, and after a file the functions and classes that stand in it."""
    missing = []
    for line in (ROOT / "CONTRIBUTING.md").read_text("utf-8").splitlines():
        file = ""
        for named in re.findall(r"`([\w/.]+)`", line):
            if named.startswith("worker/"):
                file = named
            elif file and not re.search(rf"\b{named.split('.')[-1]}\b", (ROOT / file).read_text("utf-8")):
                missing.append(f"{file}: {named}")
    assert missing == [], "say where it is by now"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_make_target_that_a_page_names_exists(page: Page) -> None:
    known = set(re.findall(r"^([.a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    complain(sorted(set(page.targets()) - known), f"{page.name} names make targets that do not exist:", "Correct it.")


@cases(
    "call, wrong",
    ("writes --state needs_human", None, "a command with its option"),
    ("ledger backup FILE", None, "a command of a group"),
    ("--config PATH COMMAND", None, "what stands in capitals is for the reader to fill in"),
    ("resolve 7 --applied|--not-applied --because TEXT", None, "either of two options"),
    ("-c x.yaml run --for 10m", None, "options of the program come first"),
    ("wirtes", "there is no command 'wirtes'", "a misspelt command"),
    ("ledger restore", "there is no command 'ledger restore'", "a misspelt command of a group"),
    ("run --since 2h", "run has no option --since", "another command's option"),
)
def test_a_call_is_judged_as_the_parser_would(call: str, wrong: str | None) -> None:
    assert wrong_in(tuple(call.split())) == wrong
