"""The words themselves: closed lists, stable spellings, and tables that agree with each other."""

from dataclasses import replace
from typing import Any, get_args

import pytest

from tests.builders import EVENT, NOW, PARTNER, RULE, a_fact, a_write, cases
from worker.model.actions import ACTIONS, Spends
from worker.model.commits import Commit, EventSeen, PartnerMemory, Record, RuleMemory, of_write
from worker.model.errors import (
    CODES,
    SOURCE_SHOWN_MAX,
    InputErrors,
    LedgerUnwritable,
    NotFound,
    NotSafe,
    Problem,
    SendingUnmarked,
    StateConflict,
    UsageError,
    WorkerError,
    shortened,
)
from worker.model.exchange import SecretValue, Urgency
from worker.model.facts import (
    EVENT_FIELDS,
    SETUP_FIELDS,
    UNREAD,
    Known,
    WriteId,
    object_of,
)


def test_where_a_fact_came_from_makes_it_no_other_fact() -> None:
    assert a_fact({"x": 1}, began=1.0) == a_fact({"x": 1}, began=2.0), "the trace is for the log"


def test_every_action_stands_under_its_own_name_and_names_real_fields() -> None:
    tables = {"event": EVENT_FIELDS, "setup": SETUP_FIELDS, "campaigns": {"": None}}
    for name, action in ACTIONS.items():
        assert action.name == name
        assert name in action.example
        assert set(action.reads) <= set(tables), "a target is shown by a documented fact"
        for fact, field in action.writes:
            assert field in tables[fact], f"{name} writes {fact}.{field}"


def test_of_a_draft_also_fields_that_the_document_does_not_name_are_written() -> None:
    assert ACTIONS["update_draft"].written({"name": "x"}) == (("setup", "name"),)
    assert ACTIONS["create_draft"].written({"goal": "ROAS", "name": "x"})[-1] == ("setup", "name")
    assert ACTIONS["boost"].written({"name": "x"}) == (("setup", "state"), ("event", "client_campaign_status"))
    assert ACTIONS["edit_cluster"].written({"budget": 5}) == (("campaigns", ""),)


def test_a_word_takes_nothing_and_a_value_takes_one() -> None:
    for name, action in ACTIONS.items():
        if action.shape == "word":
            assert not action.params, name
        if action.shape == "value":
            assert set(action.params) == {"value"} or action.either, name


def test_the_actions_that_may_cost_money_are_those_of_the_contract() -> None:
    by = {spends: {name for name, row in ACTIONS.items() if row.spends == spends} for spends in get_args(Spends)}
    assert by == {
        "always": {"run", "create_draft", "boost", "edit_cluster", "create_campaign", "reset_setup"},
        "unless_off": {"pause", "optimisation", "ad_optimisation"},
        "with_budget": {"update_draft"},
        "unless_said": {"write"},
        "never": {"frontend_status", "series_add", "series_remove", "notify", "wait", "undo"},
    }


@cases(
    "stores",
    ({"records": (Record(at=NOW, kind="started"),)}, "a record"),
    ({"memory": (RuleMemory(partner=PARTNER, event=EVENT, rule=RULE),)}, "the memory of a rule"),
    ({"partner": PartnerMemory(partner=PARTNER)}, "the memory of a partner"),
)
def test_a_commit_is_empty_where_it_stores_nothing(stores: dict[str, Any]) -> None:
    assert (Commit(at=NOW).empty, Commit(at=NOW, **stores).empty) == (True, False)


def test_writes_and_their_evidence_go_first() -> None:
    order = [urgency.name for urgency in sorted(Urgency)]
    assert order == ["WRITE", "EVIDENCE", "STOPPING", "PREFLIGHT", "LISTING", "FACT"]


def test_kinds_and_reasons_are_closed_lists() -> None:
    with pytest.raises(ValueError, match="not a kind"):
        Record(at=NOW, kind="perhaps")
    with pytest.raises(ValueError, match="not a reason"):
        Record(at=NOW, kind="held", reason="a feeling")


def test_a_record_about_a_write_that_made_no_attempt_has_no_attempt() -> None:
    record = of_write(a_write(id=WriteId(4)), at=NOW, kind="held", reason="halt", why="x")
    assert (record.write, record.attempt) == (4, None)


@cases(
    "code, errors",
    (1, [WorkerError("x"), NotFound("x"), StateConflict("x")], "not done"),
    (2, [UsageError("x"), InputErrors(())], "not understood"),
    (3, [NotSafe("x"), LedgerUnwritable("x"), SendingUnmarked("x", write=a_write(state="sending"))], "not safe"),
)
def test_each_error_has_the_exit_code_of_what_was_known(code: int, errors: list[WorkerError]) -> None:
    assert [error.exit_code for error in errors] == [code] * len(errors)


def test_all_mistakes_of_a_text_are_said_at_once() -> None:
    problems = (Problem(file="a", message="one"), Problem(file="b", message="two"))
    assert str(InputErrors(problems)) == "a: one\nb: two"
    assert InputErrors(problems).problems == problems


def test_a_secret_shows_itself_only_where_it_is_asked_for() -> None:
    secret = SecretValue("hunter2 and more")
    assert secret.reveal() == "hunter2 and more"
    assert "hunter2" not in f"{secret} {secret!r}"


def test_a_field_of_an_event_that_is_not_known_is_none() -> None:
    known = Known(value={"status": "active"}, read_at=NOW)
    for fact, status in ((known, "active"), (replace(known, value=[]), None), (UNREAD, None)):
        seen = EventSeen(partner=PARTNER, event=EVENT, fact=fact, since=NOW)
        assert seen.field("status") == status
        assert seen.field("title") is None


def test_an_object_in_which_a_name_stands_twice_is_none() -> None:
    assert object_of([("a", 1), ("b", 1)]) == {"a": 1, "b": 1}
    with pytest.raises(ValueError, match="'b' stands twice in one object"):
        object_of([("a", 1), ("b", 1), ("b", 2)])


def shown(source: str, column: int) -> tuple[str, ...]:
    return Problem(file="r.yaml", line=7, column=column, message="wrong", source=source).lines[1:]


@cases(
    "source, column, expected",
    ("ab cd", 4, ("  7 | ab cd", "    |    ^"), "the mark stands under the place"),
    ("\tab", 2, ("  7 | \tab", "    | \t^"), "a tab is as wide above as below"),
    ("音楽 x", 4, ("  7 | 音楽 x", "    |      ^"), "some characters are two wide"),
    ("a\u0308b", 3, ("  7 | a\u0308b", "    |  ^"), "and some have no width"),
    ("a\x1bb", 3, ("  7 | a\ufffdb", "    |   ^"), "what a terminal would obey is not printed"),
    ("", 1, (), "nothing to show"),
    ("   ", 1, (), "nothing to be seen"),
)
def test_the_mark_stands_under_the_place(source: str, column: int, expected: tuple[str, ...]) -> None:
    assert shown(source, column) == expected


@pytest.mark.parametrize("column", [1, 100, 400, 1000])
def test_of_a_long_line_the_part_around_the_place_is_shown(column: int) -> None:
    line = "".join(chr(ord("a") + number % 26) for number in range(1000))
    text, mark = shown(line, column)
    assert len(text) <= SOURCE_SHOWN_MAX + len("  7 | ") + 2
    assert text[mark.index("^")] == line[column - 1]
    assert ("…" in text[:8], text.endswith("…")) == (column > 91, column < 1000)


def test_a_text_is_cut_only_where_it_is_longer_than_may_be_shown() -> None:
    assert [shortened(text, 3) for text in ("", "abc", "abcd")] == ["", "abc", "ab…"]


def test_a_finding_has_a_code_that_is_explained() -> None:
    with pytest.raises(ValueError, match="'odd' is not a code"):
        Problem(file="r.yaml", message="wrong", code="odd")
    assert Problem(file="r.yaml", message="wrong").code in CODES
