"""What tests of rule tests share: rules and tests as texts, and a bench with the shipped numbers."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from worker.api.assumptions import assumptions_from
from worker.api.exchanges import outcome_of_answer
from worker.api.requests import write_request
from worker.engine.playing import Bench
from worker.engine.ruletests import Ran, run_test
from worker.engine.views import DecidingSettings, EngineSettings
from worker.guards import Limits
from worker.ledger.sql import ScratchLedger
from worker.model.exchange import Answered, Outcome, WriteRequest
from worker.model.facts import EventId, PartnerId
from worker.model.rules import RuleSet
from worker.model.writes import Intent
from worker.rules.load import read_rules
from worker.rules.registry import BUILT_IN_REGISTRY
from worker.rules.tests import read_tests

SETTINGS = EngineSettings(
    deciding=DecidingSettings(),
    limits=Limits(),
    interval=timedelta(seconds=3),
    timeout=timedelta(seconds=10),
    stop_within=timedelta(seconds=20),
    settle=timedelta(minutes=2),
    evidence_reads=3,
    evidence_within=timedelta(minutes=15),
    confirm_within=timedelta(minutes=2),
    max_attempts=3,
)
PAUSE = "{id: pause, when: \"event.status == 'cancelled'\", do: [pause]}"
BOOST = "{id: boost, on_change: suggested_tcs, when: \"setup.state == 'DRAFT'\", do: [boost]}"


LEDGER = ScratchLedger.new()
ASSUMPTIONS, _ = assumptions_from({})


def outcome_of(status: int) -> Outcome:
    return outcome_of_answer(Answered(status=status), b"", ASSUMPTIONS)


def request_for(partner: PartnerId, event: EventId, intent: Intent, item: str) -> WriteRequest:
    return write_request(partner, event, intent, item, ASSUMPTIONS)


def bench_of(rules: RuleSet, settings: EngineSettings) -> Bench:
    """These rules, on one ledger for all of them."""
    return Bench(
        rules=rules,
        registry=BUILT_IN_REGISTRY,
        settings=settings,
        ledger=LEDGER,
        request_for=request_for,
        outcome_of=outcome_of,
    )


def a_bench(*rules: str, **changes: Any) -> Bench:  # noqa: ANN401 - fields of EngineSettings
    """The shipped numbers, and these rules."""
    text = "rules:\n" + "".join(f"  - {rule}\n" for rule in rules)
    return bench_of(read_rules({"r.yaml": text}).rules, replace(SETTINGS, **changes))


def ran(bench: Bench, body: str) -> Ran:
    """The one test of this body, run."""
    lines = "".join(f"    {line}\n" for line in body.strip("\n").splitlines())
    (test,) = read_tests({"t.yaml": f"tests:\n  - name: a\n{lines}"}, bench.rules, bench.registry)
    return run_test(test, bench)


def passes(bench: Bench, body: str) -> Ran:
    """The test, which must pass."""
    done = ran(bench, body)
    assert done.passed, "\n".join(line for failure in done.failures for line in failure.lines)
    return done


def failing(bench: Bench, body: str) -> list[str]:
    """The words of the test's failures, of which there must be some."""
    done = ran(bench, body)
    assert not done.passed
    return [line for failure in done.failures for line in failure.lines]
