"""``test``: rule tests, on the daemon's own cycle and a virtual clock, without the network.

The rules are those of the config; tests that lie elsewhere, in a folder `tests` of another rule folder, are run on the
rules beside them. A mistake in a test or a rule is told with its place before anything runs.
"""

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from xml.etree import ElementTree as ET

import typer

from worker.api.classify import outcome_of_answer
from worker.api.requests import write_request
from worker.cli.common import assumptions_of, config_for, engine_settings
from worker.cli.output import Format, counted, print_json, say
from worker.config import Config
from worker.engine.playing import Bench
from worker.engine.ruletests import Failure, Ran, run_test
from worker.ledger.sql import ScratchLedger
from worker.model.errors import InputErrors, Problem, UsageError, printable
from worker.model.exchange import Answered, Outcome, WriteRequest
from worker.model.facts import EventId, Json, PartnerId, RuleId
from worker.model.rules import RuleSet
from worker.model.writes import Intent
from worker.rules.durations import duration_text
from worker.rules.load import TESTS, load_rules, read_files
from worker.rules.tests import RuleTest, read_tests
from worker.system import SystemClock

app = typer.Typer()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Timed:
    """One test that ran, and how long it took."""

    ran: Ran
    took_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """Tests that are run on one rule folder."""

    rules: RuleSet
    tests: tuple[RuleTest, ...]


@app.command("test")
def rule_tests(
    context: typer.Context,
    paths: Annotated[
        list[Path] | None,
        typer.Argument(help="Files or folders of rule tests. Default: every tests/ among the rules."),
    ] = None,
    junit: Annotated[Path | None, typer.Option("--junit", help="Also write a JUnit XML report to this file.")] = None,
    output: Annotated[Format, typer.Option("--format", help="table or json.")] = Format.table,
) -> None:
    """Run rule tests, without the network. Exits 1 if one fails or there is none, 2 for a mistake.

    Example: campaign-worker test rules/tests/pause-cancelled.yaml
    """
    config = config_for(context, paths)
    unseen: dict[str, list[str]] = {"fire": [], "hold_back": []}
    done: list[_Timed] = []
    with _nothing_collected():
        try:
            groups = _groups(config, paths)
        except InputErrors as errors:
            if junit is not None:
                _write(junit, _error_report(errors.problems))
            raise
        for group in groups:
            ran = _run(group, bench_of(config, group.rules))
            done.extend(ran)
            _add_unseen(unseen, group.rules, [one.ran for one in ran])
    if junit is not None:
        _write(junit, _report(done))
    if output is Format.json:
        print_json(_as_json(done, unseen))
    else:
        _print(done, unseen)
    failed = sum(1 for one in done if not one.ran.passed)
    looks = sum(one.ran.looks for one in done)
    say(f"{counted(len(done), 'test')}, {failed} failed, {looks} looks" if done else "there are no rule tests here")
    if failed or not done:
        raise typer.Exit(1)


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Without the collector of cycles, which took an eighth of the time: nearly all that a run makes is freed without
    it, and the process ends soon."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def bench_of(config: Config, rules: RuleSet) -> Bench:
    """What rule tests and `backtest` run on: these rules under the config's numbers, with nobody to ask."""
    assumptions = assumptions_of(config)

    def outcome_of(status: int) -> Outcome:
        return outcome_of_answer(Answered(status=status), b"", assumptions)

    def request_for(partner: PartnerId, event: EventId, intent: Intent, item: str) -> WriteRequest:
        return write_request(partner, event, intent, item, assumptions)

    return Bench(
        rules=rules,
        registry=config.registry,
        settings=engine_settings(config),
        ledger=ScratchLedger.new(),
        request_for=request_for,
        outcome_of=outcome_of,
    )


def _run(group: _Group, bench: Bench) -> list[_Timed]:
    clock = SystemClock()
    done: list[_Timed] = []
    for one in group.tests:
        began = clock.monotonic()
        ran = run_test(one, bench)
        done.append(_Timed(ran=ran, took_s=clock.monotonic() - began))
    return done


# what to run, and on which rules


def _groups(config: Config, paths: Sequence[Path] | None) -> list[_Group]:
    """The tests by the rule folder that they are run on. Raises `InputErrors` with every mistake of all of them."""
    texts: dict[Path, dict[str, str]] = {}
    problems: list[Problem] = []
    for path in paths or _tests_below(config.rules):
        try:
            found = {name: text for folder in _folders(path) for name, text in read_files(folder).items()}
            texts.setdefault(_rules_for(path, config), {}).update(found)
        except InputErrors as errors:
            problems.extend(errors.problems)
    groups: list[_Group] = []
    for folder, files in (texts or {config.rules: {}}).items():
        try:
            rules = load_rules(folder, config.registry)
            groups.append(_Group(rules=rules, tests=read_tests(files, rules, config.registry)))
        except InputErrors as errors:
            problems.extend(errors.problems)
    if problems:
        raise InputErrors(tuple(problems))
    return groups


def _folders(path: Path) -> list[Path]:
    """Where the tests under a path lie: a folder of rules has them in `tests`, any other folder is one of tests."""
    if not path.is_dir() or TESTS in path.absolute().parts:
        return [path]
    return _tests_below(path) or [path]


def _tests_below(rules: Path) -> list[Path]:
    """The folders of tests among rules, at any depth."""
    return sorted(one for one in rules.rglob(TESTS) if one.is_dir())


def _rules_for(path: Path, config: Config) -> Path:
    """The config's rules for what lies among them; for tests elsewhere, the folder above their folder `tests`."""
    place, rules = path.resolve(), config.rules.resolve()
    if place.is_relative_to(rules):
        return config.rules
    for folder in (place, *place.parents):
        if folder.name == TESTS and folder.is_dir() and any(folder.parent.glob("*.yaml")):
            return folder.parent
    if place.is_dir() and (place / TESTS).is_dir():
        return place
    return config.rules


# what to say


def _add_unseen(unseen: Mapping[str, list[str]], rules: RuleSet, done: Sequence[Ran]) -> None:
    """The enabled rules that no test saw fire, or saw hold back."""
    fired: set[RuleId] = set().union(*(one.fired for one in done))
    held_back: set[RuleId] = set().union(*(one.held_back for one in done))
    for rule in rules.rules:
        if rule.enabled and rule.id not in fired:
            unseen["fire"].append(rule.id)
        if rule.enabled and rule.id not in held_back:
            unseen["hold_back"].append(rule.id)


def _print(done: Sequence[_Timed], unseen: Mapping[str, Sequence[str]]) -> None:
    for one in done:
        test = one.ran.test
        if one.ran.passed:
            print(f"ok      {test.name}")
            continue
        print(f"FAILED  {test.name}  ({test.file}:{test.line})")
        for failure in one.ran.failures:
            for line in failure.lines:
                print(f"    {line}")
    for words, names in (("fire", unseen["fire"]), ("hold back", unseen["hold_back"])):
        if names:
            print(f"no test saw these rules {words}: {', '.join(names)}")


def _as_json(done: Sequence[_Timed], unseen: Mapping[str, Sequence[str]]) -> dict[str, object]:
    failed = sum(1 for one in done if not one.ran.passed)
    return {
        "passed": len(done) - failed,
        "failed": failed,
        "tests": [_test_json(one) for one in done],
        "never_fired": list(unseen["fire"]),
        "never_held_back": list(unseen["hold_back"]),
    }


def _test_json(one: _Timed) -> dict[str, Json]:
    test = one.ran.test
    return {
        "name": test.name,
        "file": test.file,
        "line": test.line,
        "passed": one.ran.passed,
        "looks": one.ran.looks,
        "took_ms": round(one.took_s * 1000),
        "fired": [str(rule) for rule in sorted(one.ran.fired)],
        "held_back": [str(rule) for rule in sorted(one.ran.held_back)],
        "failures": [_failure_json(failure) for failure in one.ran.failures],
    }


def _failure_json(failure: Failure) -> Json:
    return {
        "at": duration_text(failure.at),
        "line": failure.line,
        "claim": failure.claim,
        "expected": list(failure.expected),
        "happened": list(failure.happened),
        "missing": list(failure.missing),
        "surplus": list(failure.surplus),
        "because": [{"rule": one.rule, "event": one.event, "why": one.why} for one in failure.because],
    }


# JUnit


def _report(done: Sequence[_Timed]) -> ET.Element:
    """One suite a file, one case a test."""
    whole = ET.Element("testsuites", _counts(done))
    for file in dict.fromkeys(one.ran.test.file for one in done):
        of_file = [one for one in done if one.ran.test.file == file]
        suite = ET.SubElement(whole, "testsuite", {"name": _xml(file), **_counts(of_file)})
        for one in of_file:
            test = one.ran.test
            attributes = {"classname": _xml(file), "name": _xml(test.name), "file": _xml(file), "line": str(test.line)}
            case = ET.SubElement(suite, "testcase", {**attributes, "time": f"{one.took_s:.3f}"})
            for failure in one.ran.failures:
                head, *rest = failure.lines
                element = ET.SubElement(case, "failure", {"message": _xml(head), "type": failure.claim})
                element.text = _xml("\n".join((head, *rest)))
    return whole


def _error_report(problems: Sequence[Problem]) -> ET.Element:
    """Nothing ran: one case with an error for each mistake."""
    counts = {"tests": str(len(problems)), "failures": "0", "errors": str(len(problems)), "time": "0.000"}
    whole = ET.Element("testsuites", counts)
    suite = ET.SubElement(whole, "testsuite", {"name": "rule tests", **counts})
    for problem in problems:
        attributes = {"classname": _xml(problem.file), "name": _xml(str(problem)), "time": "0.000"}
        case = ET.SubElement(suite, "testcase", attributes)
        ET.SubElement(case, "error", {"message": _xml(str(problem)), "type": "input"})
    return whole


def _counts(done: Sequence[_Timed]) -> dict[str, str]:
    return {
        "tests": str(len(done)),
        "failures": str(sum(1 for one in done if not one.ran.passed)),
        "errors": "0",
        "time": f"{sum(one.took_s for one in done):.3f}",
    }


def _write(file: Path, report: ET.Element) -> None:
    ET.indent(report)
    try:
        ET.ElementTree(report).write(file, encoding="utf-8", xml_declaration=True)
    except OSError as error:
        raise UsageError(f"--junit {file}: cannot be written: {error.strerror}") from None


def _xml(text: str) -> str:
    """The text without the characters that XML cannot hold."""
    return printable(text, "\t\n\r")
