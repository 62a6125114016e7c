"""Thirty days with every rule of the cookbook in force, on the simulator's own story: each fires where it should, and
leaves alone what it should. `backtest` over the record then makes the very same writes.

`story.yaml` says what happens, `fired.txt` what every rule did, event by event, to be read by whoever reviews a change.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.calling import call
from tests.thirty_days.__main__ import FIRED, played, spelled
from worker.model.writes import Write
from worker.rules.load import load_rules

pytestmark = [pytest.mark.prove, pytest.mark.timeout(0)]
DIFFERS = [("earlier", "e7", "optimise-in-two-steps"), ("gone", "e3", "put-back-what-did-not-help")]
"""What backtest does not do as the worker did: docs/proof.md says why."""


@pytest.fixture(scope="module")
def month(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, list[Write]]]:
    """The folder of the worker, and what it wrote."""
    folder = tmp_path_factory.mktemp("month")
    with played(folder) as here:
        assert here.twin.untold == []
        here.judge()
        yield folder, here.ledger.writes()


def test_every_rule_did_what_is_written_down(month: tuple[Path, list[Write]]) -> None:
    folder, writes = month
    rules = {rule.id for rule in load_rules(folder / "rules").rules}
    assert {line.partition(":")[0] for line in FIRED.read_text("utf-8").splitlines() if line[0] != " "} == rules
    assert spelled(writes) == FIRED.read_text("utf-8"), "python -m tests.thirty_days writes it anew"


def test_backtest_makes_the_same_writes_but_for_two_that_are_known(month: tuple[Path, list[Write]]) -> None:
    folder, writes = month
    called = call("backtest", "--format", "json", config=folder / "config.yaml")
    assert called.code == 0, called.err
    found = called.json["writes"]
    others = [(one["kind"], one["event"], one["made"]["rule"]) for one in found if one["kind"] != "same"]
    assert sorted(others) == DIFFERS
    made = Counter(write.key.rule for write in writes if write.state not in ("skipped", "planned"))
    assert not made - Counter(one["made"]["rule"] for one in found), "some are not told of"
