"""An export can be verified on another machine: a change, a gap, a cut end and another log are all found."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.builders import cases
from tests.unit.ledger.examples import ACME, NOW, fired, in_memory_ledger
from worker.ledger.log import GENESIS, Head, csv_head, csv_lines, json_lines, read_export, verified
from worker.model.commits import Commit, LogFilter
from worker.model.facts import Json

NASTY: list[Json] = [None, "RUNNING", "", "'", "=1+1", 5, 5.0, -0.5, True, [], {"a": None}, '{"a": 1}', 'a\nb\r\nc,"d"']
WORDS = ("=HYPERLINK(1)", "'quoted", "+1", "-1", "@x", "\ttab", "", "a\nb", "a\rb", 'say "x", y', "\ufeffé\u2028\x00")


def a_log() -> list[dict[str, Json]]:
    """Records with everything that a file format could spoil."""
    records = [
        replace(fired(NOW + timedelta(seconds=number), event=word or "e", why=word), kind="sending", before=value)
        for number, (word, value) in enumerate((word, value) for word in WORDS for value in NASTY)
    ]
    with in_memory_ledger(NOW) as ledger:
        ledger.apply(Commit(at=NOW, records=(*records, fired(facts={"event": {"value": {"title": "=x"}}}))))
        return list(ledger.log(LogFilter()))


LOG = a_log()
HEAD = Head(seq=len(LOG), hash=str(LOG[-1]["hash"]))


def lines(text: str) -> list[str]:
    return list(io.StringIO(text, newline=""))


@pytest.mark.parametrize("form", ["jsonl", "csv", "json"])
def test_an_export_comes_back_as_it_was_and_reaches_its_head(form: str) -> None:
    forms = {"jsonl": json_lines(LOG), "csv": csv_head() + csv_lines(LOG), "json": json.dumps(LOG, indent=2)}
    text = forms[form]
    found = list(read_export(lines(text)))
    assert found == LOG
    assert verified(found, [HEAD]) == ({"": HEAD}, None)


def test_no_cell_of_a_csv_is_a_formula() -> None:
    cells = [cell for row in csv.reader(lines(csv_lines(LOG))) for cell in row]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "@"))]
    assert not [cell for cell in cells if cell.startswith("-") and not cell[1:2].isdigit()]


@cases(
    "records, bad, words",
    ([*LOG[:3], {**LOG[3], "why": float("inf")}], 4, "was changed", "no JSON value"),
    ([*LOG[:3], {**LOG[3], "prev": "0" * 64}], 4, "does not follow", "the link was changed"),
    ([*LOG[:3], {"seq": None}], 4, "record 4 is missing", "no record"),
    ([{**LOG[0], "seq": True}], 1, "was changed", "a number that is none"),
)
def test_what_was_done_to_an_export_is_found(records: Sequence[dict[str, Json]], bad: int, words: str) -> None:
    _, broken = verified(records, [HEAD])
    assert broken is not None
    assert (broken.seq, words in broken.why) == (bad, True)


def test_an_export_with_more_than_the_head_is_not_what_the_head_was_taken_of() -> None:
    for head, bad in ((Head(seq=5, hash=str(LOG[4]["hash"])), 6), (Head(), 1)):
        _, broken = verified(LOG, [head])
        assert broken is not None
        assert (broken.seq, "what stands after the head" in broken.why) == (bad, True)
    assert verified([], [Head()]) == ({}, None)


@pytest.mark.parametrize("text", ["", "5", "5:abc", f"x:{GENESIS}", f"-1:{GENESIS}", "5:" + "g" * 64])
def test_what_is_no_head_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="SEQ:HASH"):
        Head.parse(text)


def test_a_head_is_spelled_as_it_is_read() -> None:
    for head in (HEAD, replace(HEAD, chain=ACME), replace(HEAD, chain="a:1")):
        assert Head.parse(str(head)) == head


def test_an_export_of_before_there_were_chains_still_holds() -> None:
    old = [{name: value for name, value in one.items() if name not in ("chain", "replica")} for one in LOG]
    assert verified(old, [HEAD])[1] is None
    columns = csv_head().removeprefix("chain,replica,")
    cells = "".join(line.removeprefix(",,") for line in csv_lines(LOG).splitlines(keepends=True))
    assert list(read_export(lines(columns + cells))) == old


@cases(
    "text, words",
    ("nonsense", "line", "words"),
    ("seq,at\n1,2\n", "line", "other columns"),
    ('{"seq": 1}\nnonsense\n', "line", "a record without a hash, and words"),
    ('"x"\n', "line", "a text"),
    ('{"a": ' * 99_999, "line", "nothing but braces"),
    ("[1, 2]\n", "element 1 is no record", "an array of numbers"),
    ('[\n{"seq": 1, "hash": "x"},\n{"seq": 2}]\n', "element 2 is no record", "an array with a record without a hash"),
    ('[\n{"seq": 1, "hash": "x"},\n', "begins as a JSON array and is none", "an array that is cut off"),
    ("[" * 99_999, "begins as a JSON array and is none", "nothing but brackets"),
)
def test_what_is_no_export_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        list(read_export(lines(text)))


def test_a_value_beside_the_one_that_the_chain_covers_is_found() -> None:
    whole, twice = json_lines(LOG), "'why' stands twice in one object"
    for text in (whole.replace('"seq":4,', '"why":"nothing happened","seq":4,'), json.dumps(LOG)):
        forged = text.replace('"seq": 4, ', '"why": "nothing happened", "seq": 4, ')
        assert forged != whole
        with pytest.raises(ValueError, match=twice):
            list(read_export(lines(forged)))
    cells = csv_head() + csv_lines(LOG)
    with pytest.raises(ValueError, match="'title' stands twice"):
        list(read_export(lines(cells.replace('""title"": ', '""title"": 1, ""title"": '))))


def test_the_columns_of_a_csv_are_the_names_that_the_chain_covers() -> None:
    swapped = csv_head().replace("partner,event", "event,partner")
    assert swapped != csv_head()
    with pytest.raises(ValueError, match="line 1: the columns of an export are chain,replica,seq,at,partner,event"):
        list(read_export(lines(swapped + csv_lines(LOG))))
