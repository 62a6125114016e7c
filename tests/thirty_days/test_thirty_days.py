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
from worker.rules.load import load

pytestmark = [pytest.mark.prove, pytest.mark.timeout(0)]
LEFT_ALONE = {
    "budget-for-new-clusters": ("e2", "", "a draft has no campaigns yet"),
    "cut-after-a-dear-day": ("e9", "", "it spends little"),
    "draft-and-publish": ("e10", "", "2,500 are recommended, and 1,000 allowed"),
    "halve-campaigns-that-sell-nothing": ("e1", "jazz:1", "its neighbour sells nothing, it does"),
    "halve-in-the-last-three-days": ("e9", "", "it sells too slowly for that"),
    "keep-optimisation-on": ("e10", "19", "switched off a day and some hours before the show"),
    "optimise-a-day-after-launch": ("e4", "", "a draft that stays one"),
    "optimise-in-two-steps": ("e10", "", "a draft that stays one"),
    "pause-archived": ("e6", "", "cancelled is not archived"),
    "pause-at-night": ("e8", "09", "archived on the day before"),
    "pause-cancelled": ("e8", "", "archived is not cancelled"),
    "pause-once-it-has-begun": ("e12", "", "it plays in April"),
    "pause-the-slowest-in-town": ("e6", "", "three of the four in Porto sell more, and one sells less"),
    "pause-what-spends-and-sells-nothing": ("e12", "", "one ticket in three days"),
    "pause-when-flagged": ("e8", "", "archived, and not flagged"),
    "pause-when-moved": ("e6", "", "its status changes, its date does not"),
    "pause-when-sold-out": ("e5", "03", "three hours of 0.98 are no six"),
    "pause-where-the-return-is-poor": ("e12", "", "it earns a little more than it costs"),
    "publish-when-the-audience-grows": ("e2", "03", "another order, and then one cluster less"),
    "put-back-what-did-not-help": ("e12", "", "a person has raised it, and not the rule"),
    "raise-after-a-price-cut": ("e11", "", "it became dearer"),
    "raise-the-best-campaign": ("e11", "soul:1", "its neighbour is the best"),
    "raise-the-draft-each-morning": ("e10", "", "it sells well"),
    "raise-what-works": ("e12", "", "it earns less than four times its cost"),
    "rest-optimisation-before-the-show": ("e12", "", "it plays in April"),
    "rest-small-halls": ("e5", "", "a large hall"),
    "run-again-after-a-cancellation": ("e6", "07", "it is shown as cancelled still, so another rule pauses"),
    "run-in-the-morning": ("e12", "19", "a person has paused it"),
    "show-as-cancelled": ("e8", "", "archived is not cancelled"),
    "tell-of-a-pause-by-hand": ("e12", "14", "six hours are no day"),
    "tell-of-slow-starts": ("e4", "14", "on a Saturday, and it sells again on Sunday"),
    "tell-when-sales-lag": ("e4", "", "it sells as its benchmark says"),
    "tell-when-the-budget-is-nearly-used": ("e11", "", "less than a tenth is used"),
    "tell-when-the-forecast-falls": ("e9", "08", "less than a tenth by then"),
}
"""Of each rule an event that it must leave alone: of it one item, or all of it on one day of the month; and why."""


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
    rules = {rule.id for rule in load(folder / "rules").rules.rules}
    assert {line.partition(":")[0] for line in FIRED.read_text("utf-8").splitlines() if line[0] != " "} == rules
    assert spelled(writes) == FIRED.read_text("utf-8"), "python -m tests.thirty_days writes it anew"


def test_every_rule_held_back_where_it_should(month: tuple[Path, list[Write]]) -> None:
    folder, writes = month
    assert LEFT_ALONE.keys() == {rule.id for rule in load(folder / "rules").rules.rules}
    for rule, (event, only, why) in LEFT_ALONE.items():
        done = [one for one in writes if rule in (one.rules or (one.key.rule,)) and one.key.event == event]
        assert not [one for one in done if only in ("", one.key.item, f"{one.planned_at:%d}")], f"{rule}: {why}"


def test_backtest_makes_the_same_writes_but_for_two_that_are_known(month: tuple[Path, list[Write]]) -> None:
    folder, writes = month
    called = call("backtest", "--format", "json", config=folder / "config.yaml")
    assert called.code == 0, called.err
    found = called.json["writes"]
    others = [(one["kind"], one["event"], one["made"]["rule"]) for one in found if one["kind"] != "same"]
    assert sorted(others) == DIFFERS
    made = Counter(write.key.rule for write in writes if write.state not in ("skipped", "planned"))
    assert not made - Counter(one["made"]["rule"] for one in found), "some are not told of"
