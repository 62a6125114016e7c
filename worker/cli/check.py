"""``init``: what one starts from, written into a folder; ``check``: config and rules, without the network; ``schema``:
JSON Schema of the files that people write.

What `init` writes is the project's own, so that there is one of each: a wheel has these files beside this module
(pyproject.toml says so), a checkout at its root.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal, get_args

import typer

from worker.cli.common import config_file, config_for, engine_settings, ledger_warnings, unconfirmed_lines
from worker.cli.output import Format, answering, print_json, say
from worker.config import Config
from worker.config.load import repaired
from worker.config.models import SchemaOf
from worker.config.models import schema as schema_of
from worker.engine.checking import EVENTS, Estimate, estimate, ping_pongs, quarrels
from worker.engine.views import EngineSettings
from worker.model.errors import Code, InputErrors, NotFound, Problem, UsageError, printable
from worker.model.facts import Json
from worker.model.rules import Rule
from worker.rules.lint import lint
from worker.rules.load import TESTS, examined, texts_of
from worker.rules.registry import BUILT_IN_REGISTRY, Registry
from worker.rules.spelling import counted, few

app = typer.Typer()

ALIKE_SHOWN = 3
"""So many warnings of one kind are shown whole."""
EVENTS_MAX = 100_000_000
"""No partner has so many; what is reckoned stays a number that can be printed."""


@app.command("check")
def check(
    context: typer.Context,
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Rule files or folders. Default: the config's rules.")
    ] = None,
    events: Annotated[
        int, typer.Option("--events", min=1, max=EVENTS_MAX, help="Events of a partner, to reckon what the rules cost.")
    ] = EVENTS,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 2 for warnings as well, as in a build.")] = False,
    output: Format = "table",
) -> None:
    """Check config and rules without the network. Every mistake at once; errors exit 2, warnings alone 0.

    Each finding names its place, shows the line, and says what to do. Errors come first, all of them; of many warnings
    of one kind the first few. At the end stands how many requests a minute these rules cost at the most.

    Example: campaign-worker check --strict rules/summer.yaml
    """
    config, problems = _config(context, paths)
    looked = []
    if config is not None:
        settings = engine_settings(config)
        named = _apart(paths or [config.rules])
        looked = [checked(path, config.registry, settings, events, config.rules) for path in named]
    found = in_order((*problems, *(problem for one in looked for problem in one.problems)))
    broken = any(problem.severity == "error" for problem in found)
    assumed: tuple[str, ...] = ()
    if config is not None and not broken:
        confirmed = (f"confirmed by you: {key}" for key in sorted(config.confirmed))
        assumed = (*confirmed, *unconfirmed_lines(config, (rule for one in looked for rule in one.rules)))
    estimates, rules = [one.estimate for one in looked if not broken], sum(len(one.rules) for one in looked)
    with answering(2 if broken or (strict and found) else 0):
        if output == "json":
            print_json(
                {
                    "problems": [_json(problem) for problem in found],
                    "rules": rules,
                    "requests": [one.as_json() for one in estimates],
                    "assumptions": list(assumed),
                }
            )
        else:
            if found:
                print(printable("\n\n".join(blocks(found)), "\n\t"))
            for line in (*(one.sentence for one in estimates), *assumed):
                say(line)
        say(summary(rules, found))


def _apart(paths: Iterable[Path]) -> list[Path]:
    """The paths without those that are looked at with another one: named before, or in a folder that is named."""
    places = {Path(os.path.realpath(path)): path for path in paths}

    def elsewhere(place: Path) -> bool:
        around = (place.relative_to(one).parts for one in places if one in place.parents)
        return any(TESTS not in inside for inside in around)

    return [path for place, path in places.items() if not elsewhere(place)]


def _config(context: typer.Context, paths: list[Path] | None) -> tuple[Config | None, tuple[Problem, ...]]:
    """The config with its warnings, or its mistakes with what of it can be used to look at the rules all the same."""
    try:
        config = config_for(context, paths)
    except InputErrors as errors:
        found = repaired(config_file(context))
        if found is None:
            say("the rules were not looked at: the config must be readable first")
        return found, errors.problems
    return config, (*config.warnings, *_not_installed(config), *ledger_warnings(config))


def _not_installed(config: Config) -> Iterator[Problem]:
    """What `run` would refuse here, and perhaps not where it is to run."""
    if config.notify and find_spec("apprise") is None:
        from worker.messages import INSTALL, NOT_INSTALLED  # noqa: PLC0415 - for those who lack it

        yield Problem(file=str(config.file), message=NOT_INSTALLED, hint=INSTALL, severity="warning", code="config")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What was found under one path. ``rules``: those that have no mistake."""

    rules: tuple[Rule, ...]
    problems: tuple[Problem, ...]
    estimate: Estimate


def checked(
    path: Path, registry: Registry, settings: EngineSettings, events: int = EVENTS, folder: Path | None = None
) -> Checked:
    """Everything there is to say about the rules under a path: the loader's mistakes, the warnings about each rule,
    about pairs, and about the cost. The command, its golden messages and an editor's call all say the same. A part of
    the ``folder`` is read among the others."""

    def advice(message: str, hint: str, code: Code) -> Problem:
        return Problem(file=str(path), message=message, hint=hint, severity="warning", code=code)

    others = _beside(path, folder)
    texts, unreadable = texts_of(path)
    loaded = examined({**others, **texts}, unreadable, registry)
    rules = tuple(rule for rule in loaded.rules.rules if rule.file not in others)
    needed = estimate(rules, registry, settings, events)
    own = replace(loaded, written=tuple(one for one in loaded.written if one.rule.file not in others))
    around = folder if others and path.is_dir() else path  # tests of a part may stand beside all of it
    found = [*loaded.errors, *lint(own, around, registry), *quarrels(loaded, registry), *ping_pongs(loaded)]
    found = [one for one in found if one.file not in others]
    if not rules and not any(one.severity == "error" for one in found):
        where = path / "NAME.yaml" if path.is_dir() else path
        hint = f"write one in {where}: `rules:`, and below it `- id: NAME`, `when: CONDITION` and `do: [ACTION]`"
        found.append(advice("there are no rules here, so the worker would only look", hint, "empty"))
    found += [advice(message, hint, "budget") for message, hint in needed.warnings]
    return Checked(rules=rules, problems=in_order(found), estimate=needed)


def _beside(path: Path, folder: Path | None) -> Mapping[str, str]:
    """The other files of the folder, where the path is a part of it: what its rules name may stand there."""
    place = os.path.realpath(path)
    if folder is None or place == os.path.realpath(folder):  # then there are none
        return {}
    texts, _ = texts_of(folder)
    others = {name: text for name, text in texts.items() if not Path(os.path.realpath(name)).is_relative_to(place)}
    return others if len(others) < len(texts) else {}


def in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Each finding once: the errors, then the warnings, both in the order of the files."""

    def place(one: Problem) -> tuple[bool, str, int, int, str]:
        return one.severity != "error", one.file, one.line, one.column, one.message

    return tuple(sorted(dict.fromkeys(problems), key=place))


def blocks(problems: Iterable[Problem]) -> Iterator[str]:
    """Each finding in lines: every error, and of each kind of warning the first few. The others of it are a line: who
    mends the first has seen what they are, and who is flooded reads none."""
    warnings: dict[Code, list[Problem]] = {}
    for problem in problems:
        if problem.severity == "error":
            yield "\n".join(problem.lines)
        else:
            warnings.setdefault(problem.code, []).append(problem)
    for code, found in warnings.items():
        yield from ("\n".join(problem.lines) for problem in found[:ALIKE_SHOWN])
        if left := found[ALIKE_SHOWN:]:
            places = few([f"{one.file}:{one.line}:{one.column}" for one in left])
            yield f"{counted(len(left), 'more warning')} of this kind ({code}; --format json has all): {places}"


def summary(rules: int, problems: Iterable[Problem]) -> str:
    """How many rules, errors and warnings."""
    severities = [problem.severity for problem in problems]
    errors = severities.count("error")
    return f"{counted(rules, 'rule')}, {counted(errors, 'error')}, {counted(len(severities) - errors, 'warning')}"


def _json(problem: Problem) -> dict[str, Json]:
    found = asdict(problem)
    found["remedy"] = found.pop("hint")
    return found


@app.command("schema")
def schema(
    context: typer.Context,
    kind: Annotated[Literal["config", "rules", "tests"], typer.Argument(help="Which file's schema to print.")],
) -> None:
    """Print the JSON Schema of config, rule files or rule tests, for an editor to complete and check by.

    Facts of the config's own are in it, where a config can be read.

    Example: campaign-worker schema rules > docs/schema/rules.json
    """
    config = repaired(config_file(context))
    print_json(schema_of(kind, config.registry if config is not None else BUILT_IN_REGISTRY))


FILES = (
    "config.yaml",
    "rules/boost-on-new-clusters.yaml",
    "rules/pause-cancelled.yaml",
    "rules/tests/boost-on-new-clusters.yaml",
    "rules/tests/pause-cancelled.yaml",
)
HOMES = (Path(__file__).parent / "starter", Path(__file__).parents[2])
SCHEMAS = "schema"
"""The folder of the schemas, which the first line of each file names to an editor."""


@app.command("init")
def init(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", show_default=False, help="Where to. Default: the current folder.")
    ] = Path(),
) -> None:
    """Write what one starts from: a config, two rules with their tests, and schemas for an editor.

    It runs at once, on the embedded sandbox. Nothing is overwritten: where one of the files is there already, none is
    written.

    Example: campaign-worker init my-rules
    """
    texts = {folder / name: text for name, text in starting_files().items()}
    there = [file for file in texts if file.exists()]
    if there:
        more = f" and {len(there) - 1} more of its files are" if there[1:] else " is"
        hint = "name another folder: campaign-worker init DIR"
        raise NotFound(f"{there[0]}{more} there already, so nothing was written", hint=hint)
    written: list[Path] = []
    for file, text in texts.items():
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("x", encoding="utf-8") as opened:
                written.append(file)
                opened.write(text)
        except OSError as error:
            for one in written:
                one.unlink()
            where = error.filename or file
            raise UsageError(f"{where} cannot be written: {error.strerror}", hint="name another folder") from None
    print(*written, sep="\n")
    say(f"next:{'' if folder == Path() else f' cd {folder}, then'} campaign-worker check, campaign-worker test,")
    say("      campaign-worker run --for 30s, which is safe: it watches the embedded sandbox until you name a service")


def starting_files() -> dict[str, str]:
    """Each file by its name."""
    home = next(folder for folder in HOMES if (folder / "config.yaml").exists())
    shipped = {name: (home / name).read_text("utf-8") for name in FILES}
    schemas = {f"{SCHEMAS}/{kind}.json": f"{json.dumps(schema_of(kind), indent=2)}\n" for kind in get_args(SchemaOf)}
    return {name: text.replace("docs/schema/", f"{SCHEMAS}/") for name, text in shipped.items()} | schemas
