"""Whoever is asked for a yes is shown what the yes is to: by `writes`, by `log --write` and by `approve`."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.builders import an_intent
from tests.calling import call, settle_in
from tests.unit.ledger.examples import ACME, E1, NOW, key, open_ledger, plan, planned
from worker.model.commits import OF_PARTNER, Change, Changes, Commit, Observed
from worker.model.facts import FactKey, Json, Known

DRAFT: dict[str, Json] = {"state": "DRAFT", "goal": "ROAS", "total_budget": 500.0, "campaigns": ["c" * 300]}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """What waits: both halves of a frontend_status, the boost of a draft that was read, and one that never was."""
    status: dict[str, Json] = {"value": "HIDDEN"}
    with open_ledger(tmp_path) as ledger:
        draft = Observed(event=E1, key=FactKey(name="setup"), fact=Known(value=DRAFT, read_at=NOW), at=NOW)
        euros = Known(value={"id": "client-1", "currency": "EUR"}, read_at=NOW)
        owner = Observed(event=OF_PARTNER, key=FactKey(name="partner"), fact=euros, at=NOW)
        changes = (Change(now=draft, before=None), Change(now=owner, before=None))
        ledger.apply(Commit(at=NOW, changes=Changes(partner=ACME, changes=changes)))
        planned(
            ledger,
            *(
                plan(replace(key(), item=item), an_intent("frontend_status", status, item), state="waiting")
                for item in ("event", "cr")
            ),
            plan(key(2), an_intent("boost"), state="waiting"),
            plan(key(event="e2"), an_intent("boost"), state="waiting"),
        )
    return settle_in(tmp_path)


WANTED = (
    (1, "HIDDEN (event)"),
    (2, "HIDDEN (cr)"),
    (3, "DRAFT -> PUBLISHED, draft: total_budget 500, goal ROAS; spends 500 EUR"),
    (4, "PUBLISHED; amount unknown: the draft has not been read yet"),
)


def test_the_table_of_writes_shows_what_each_wants_and_which_half_it_is(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    shown = call("writes", "--state", "waiting", config=config).out.splitlines()
    at = next(line for line in shown if "wanted" in line).index("wanted")
    assert [line[at:].split("  ")[0].strip() for line in shown[-4:]] == [words for _, words in WANTED]


def test_writes_as_json_have_the_values_and_the_parameters(config: Path) -> None:
    found = json.loads(call("writes", "--format", "json", config=config).out)
    assert [(one["item"], one["wanted"], one["params"]) for one in found] == [
        ("event", {"frontend_status": "HIDDEN"}, {"value": "HIDDEN"}),
        ("cr", {}, {"value": "HIDDEN"}),
        ("", {"state": "PUBLISHED"}, {}),
        ("", {"state": "PUBLISHED"}, {}),
    ]
    assert [(one["wants"], one["now"], one["spends"], one["amount"]) for one in found] == [
        ("HIDDEN (event)", "", "", None),
        ("HIDDEN (cr)", "", "", None),
        ("PUBLISHED, draft: total_budget 500, goal ROAS", "DRAFT", "spends 500 EUR", 500.0),
        ("PUBLISHED", "", "amount unknown: the draft has not been read yet", None),
    ]


@pytest.mark.parametrize(("number", "words"), WANTED)
def test_the_life_of_a_write_begins_with_what_it_wants(config: Path, number: int, words: str) -> None:
    shown = call("log", "--write", str(number), config=config).out.splitlines()
    action = "frontend_status" if number < 3 else "boost"
    assert shown[0].strip() == f"write {number}, waiting: {action} {words}"
    assert "write 1" not in call("log", config=config).out


def test_approve_and_reject_say_what_they_let_go_and_what_they_drop(config: Path) -> None:
    done = call("approve", "1", "2", "3", config=config)
    assert done.err.splitlines() == [
        "these 3 writes spend: 500 EUR in all",
        "write 1: waiting -> planned: frontend_status HIDDEN (event)",
        "write 2: waiting -> planned: frontend_status HIDDEN (cr)",
        "write 3: waiting -> planned: boost DRAFT -> PUBLISHED, draft: total_budget 500, goal ROAS; spends 500 EUR",
    ]
    dropped = "write 4: waiting -> cancelled: boost PUBLISHED; amount unknown: the draft has not been read yet\n"
    assert call("reject", "4", config=config).err == dropped
