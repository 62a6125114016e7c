"""``test``: rule tests, on the daemon's own cycle and a virtual clock, without the network.

The rules are those of the config; tests that lie elsewhere, in a folder `tests` of another rule folder, are run on the
rules beside them. A mistake in a test or a rule is told with its place before anything runs.
"""

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Annotated
from xml.etree import ElementTree as ET

import typer

from worker.api.exchanges import outcome_of_answer
from worker.api.requests import write_request
from worker.cli.common import assumptions_of, config_for, engine_settings
from worker.cli.output import Format, answering, going_on, print_json, say
from worker.config import Config
from worker.engine.playing import Bench
from worker.engine.ruletests import Ran, run_test
from worker.ledger.sql import ScratchLedger
from worker.model.errors import InputErrors, Problem, UsageError, WorkerError, printable
from worker.model.exchange import Answered, Outcome, WriteRequest
from worker.model.facts import EventId, Json, PartnerId
from worker.model.rules import RuleSet
from worker.model.writes import Intent
from worker.rules.load import TESTS, load_rules, read_files, tests_below
from worker.rules.spelling import counted, duration_text
from worker.rules.tests import read_tests
from worker.system import SystemClock

app = typer.Typer()


FIRE, HOLD_BACK = "fire", "hold back"
"""What no test may have seen a rule do."""
LARGE = 100_000
"""Files of tests that are longer together than this are read and run by several processes side by side."""
SIDE_BY_SIDE_MAX = 4
"""So many at the most: each takes 40 MB, and the page runs them beside the worker, within its container's bounds."""


_Group = tuple[RuleSet, Mapping[str, str]]
"""Files of tests, by name, and the rules that they are run on."""


@app.command("test")
def rule_tests(
    context: typer.Context,
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Files or folders of rule tests. Default: every tests/ among the rules.")
    ] = None,
    junit: Annotated[Path | None, typer.Option("--junit", help="Also write a JUnit XML report to this file.")] = None,
    output: Format = "table",
) -> None:
    """Run rule tests, without the network. Exits 1 if one fails or there is none, 2 for a mistake.

    Example: campaign-worker test rules/tests/pause-cancelled.yaml
    """
    config = config_for(context, paths)
    unseen: dict[str, list[str]] = {FIRE: [], HOLD_BACK: []}
    done: list[Ran] = []
    groups, problems = _groups(config, paths)
    for rules, texts in [] if problems else groups:
        try:
            found = _run(rules, texts, config)
        except InputErrors as errors:
            problems.extend(errors.problems)
        else:
            done.extend(found)
            _add_unseen(unseen, rules, found)
    if problems:
        raise InputErrors(tuple(problems))
    if junit is not None:
        _write(junit, _report(done))
    failed, polls = sum(1 for one in done if not one.passed), sum(one.polls for one in done)
    with answering(1 if failed or not done else 0):
        if output == "json":
            print_json(_as_json(done, unseen))
        else:
            _print(done, unseen)
        tests = f"{counted(len(done), 'test')}, {failed} failed, {counted(polls, 'poll')}"
        say(tests if done else "there are no rule tests here")


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


def _run(rules: RuleSet, texts: Mapping[str, str], config: Config) -> list[Ran]:
    """The tests of one rule folder, in the order of their files; many of them by as many processes as may run. Raises
    `InputErrors` with every mistake in them, and then those of a process have not run."""

    def share(files: Sequence[str]) -> list[Ran]:
        tests = read_tests({name: texts[name] for name in files}, rules, config.registry)
        clock, bench, done = SystemClock(), bench_of(config, rules), list[Ran]()
        with going_on("rule tests are run") as progress:
            for test in tests:
                progress(f"{test.file}:{test.line}: {test.name}")
                began = clock.monotonic()
                ran = run_test(test, bench)
                done.append(replace(ran, took_s=clock.monotonic() - began))
        return done

    names, side_by_side = list(texts), min(len(os.sched_getaffinity(0)), SIDE_BY_SIDE_MAX)
    if sum(map(len, texts.values())) < LARGE or side_by_side < 2:
        return share(names)
    done = _forked(share, [part for start in range(side_by_side) if (part := names[start::side_by_side])])
    return sorted(done, key=lambda one: names.index(one.file))


def _forked(share: Callable[[Sequence[str]], list[Ran]], parts: Sequence[Sequence[str]]) -> list[Ran]:
    """Each part in a process of its own, which has the rules as they were read here."""
    context = get_context("fork")

    def work(part: Sequence[str], there: Connection) -> None:
        for number in (signal.SIGINT, signal.SIGPIPE):  # who stops them all is told once, by the parent
            signal.signal(number, signal.SIG_DFL)
        try:
            there.send(share(part))
        except WorkerError as error:
            there.send(error)

    running: list[tuple[ForkProcess, Connection]] = []
    for part in parts:
        here, there = context.Pipe(duplex=False)
        child = context.Process(target=work, args=(part, there), daemon=True)
        child.start()
        there.close()  # before the next one, which would keep it open: a child that is killed is noticed
        running.append((child, here))
    found: list[list[Ran] | WorkerError] = []
    for child, here in running:
        with suppress(EOFError):
            found.append(here.recv())
        child.join()
        if child.exitcode == -signal.SIGINT:  # who stops them all may reach it before the parent
            raise KeyboardInterrupt
        if child.exitcode:
            raise WorkerError("a process that ran rule tests has ended before its time", hint="run them again")
    if wrong := [problem for one in found if isinstance(one, InputErrors) for problem in one.problems]:
        raise InputErrors(tuple(sorted(wrong, key=lambda one: (one.file, one.line))))
    done: list[Ran] = []
    for one in found:
        if isinstance(one, WorkerError):
            raise one
        done += one
    return done


# what to run, and on which rules


def _groups(config: Config, paths: Sequence[Path] | None) -> tuple[list[_Group], list[Problem]]:
    """The tests by the rule folder that they are run on, and what is wrong with files and rules."""
    texts: dict[Path, dict[str, str]] = {}
    problems: list[Problem] = []
    for path in paths or tests_below(config.rules):
        try:
            found = {name: text for folder in _folders(path) for name, text in read_files(folder).items()}
            texts.setdefault(_rules_for(path, config), {}).update(found)
        except InputErrors as errors:
            problems.extend(errors.problems)
    groups: list[_Group] = []
    for folder, files in (texts or {config.rules: {}}).items():
        try:
            groups.append((load_rules(folder, config.registry), files))
        except InputErrors as errors:
            problems.extend(errors.problems)
    return groups, problems


def _folders(path: Path) -> list[Path]:
    """Where the tests under a path lie: a folder of rules has them in `tests`, any other folder is one of tests."""
    if not path.is_dir() or TESTS in path.absolute().parts:
        return [path]
    return tests_below(path) or [path]


def _rules_for(path: Path, config: Config) -> Path:
    """The config's rules for what lies among them; for tests elsewhere, the folder above their folder `tests`."""
    place, rules = path.resolve(), config.rules.resolve()
    if place.is_relative_to(rules):
        return config.rules
    for folder in (place, *place.parents):
        if folder.name == TESTS and folder.is_dir() and any(folder.parent.glob("*.yaml")):
            return folder.parent
    return place if place.is_dir() and (place / TESTS).is_dir() else config.rules


# what to say


def _add_unseen(unseen: Mapping[str, list[str]], rules: RuleSet, done: Sequence[Ran]) -> None:
    """The enabled rules that no test saw fire, or saw hold back."""
    fired = {rule for one in done for rule in one.fired}
    held_back = {rule for one in done for rule in one.held_back}
    for words, seen in ((FIRE, fired), (HOLD_BACK, held_back)):
        unseen[words] += [rule.id for rule in rules.rules if rule.enabled and rule.id not in seen]


def _print(done: Sequence[Ran], unseen: Mapping[str, Sequence[str]]) -> None:
    for one in done:
        head = f"ok      {one.name}" if one.passed else f"FAILED  {one.name}  ({one.file}:{one.line})"
        print(printable(head))
        for failure in one.failures:
            for line in failure.lines:
                print(printable(f"    {line}"))
    for words, names in unseen.items():
        if names:
            print(f"no test saw these rules {words}: {', '.join(names)}")


def _as_json(done: Sequence[Ran], unseen: Mapping[str, Sequence[str]]) -> dict[str, object]:
    failed = sum(1 for one in done if not one.passed)
    return {
        "passed": len(done) - failed,
        "failed": failed,
        "tests": [_test_json(one) for one in done],
        "never_fired": list(unseen[FIRE]),
        "never_held_back": list(unseen[HOLD_BACK]),
    }


def _test_json(one: Ran) -> dict[str, Json]:
    return {
        "name": one.name,
        "file": one.file,
        "line": one.line,
        "passed": one.passed,
        "looks": one.polls,
        "took_ms": round(one.took_s * 1000),
        "fired": [str(rule) for rule in sorted(one.fired)],
        "held_back": [str(rule) for rule in sorted(one.held_back)],
        "failures": [{**asdict(failure), "at": duration_text(failure.at)} for failure in one.failures],
    }


# JUnit


def _report(done: Sequence[Ran]) -> ET.Element:
    """One suite a file, one case a test."""
    whole = ET.Element("testsuites", _counts(done))
    for file in dict.fromkeys(one.file for one in done):
        of_file = [one for one in done if one.file == file]
        suite = ET.SubElement(whole, "testsuite", {"name": _xml(file), **_counts(of_file)})
        for one in of_file:
            attributes = {"classname": _xml(file), "name": _xml(one.name), "file": _xml(file), "line": str(one.line)}
            case = ET.SubElement(suite, "testcase", {**attributes, "time": f"{one.took_s:.3f}"})
            for failure in one.failures:
                head, *rest = failure.lines
                element = ET.SubElement(case, "failure", {"message": _xml(head), "type": failure.claim})
                element.text = _xml("\n".join((head, *rest)))
    return whole


def _counts(done: Sequence[Ran]) -> dict[str, str]:
    return {
        "tests": str(len(done)),
        "failures": str(sum(1 for one in done if not one.passed)),
        "errors": "0",
        "time": f"{sum(one.took_s for one in done):.3f}",
    }


def _write(file: Path, report: ET.Element) -> None:
    ET.indent(report)
    try:
        ET.ElementTree(report).write(file, encoding="utf-8", xml_declaration=True)
    except OSError as error:
        hint = "name a file in a folder that exists, with room, where this user may write"
        raise UsageError(f"--junit {file}: cannot be written: {error.strerror}", hint=hint) from None


def _xml(text: str) -> str:
    """The text without the characters that XML cannot hold."""
    return printable(text, "\t\n\r")
