"""The log is printed as the contract says, can be narrowed, and shows every hand laid on it."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import update

from tests.builders import cases
from tests.unit.ledger.examples import ACME, NOW, RULE, after, become, fired, in_memory_ledger, planned, run_sql, sent
from worker.ledger.log import FIELDS, GENESIS, hash_of, verified
from worker.ledger.reading import PAGE_RECORDS, open_reading
from worker.ledger.sql import SqlLedger
from worker.ledger.tables import action_log
from worker.model.commits import ChainBreak, Commit, LogFilter, Record
from worker.model.facts import EventId, Json, PartnerId

CONTRACT_FIELDS = [
    *("chain", "replica", "seq", "at", "partner", "event", "rule", "episode", "write", "attempt", "action", "kind"),
    *("reason", "why", "request", "before", "response", "evidence", "facts", "by", "prev", "hash"),
]


def story(ledger: SqlLedger, records: int = 6) -> None:
    for number in range(1, records + 1):
        ledger.apply(Commit(at=after(number), records=(fired(after(number), facts={"n": number}),)))


def test_a_record_has_the_fields_of_the_contract_in_their_order(ledger: SqlLedger) -> None:
    record = Record(
        at=after(0.123456),
        kind="sending",
        reason="condition",
        why="é",
        partner=ACME,
        request={"method": "PUT", "url": "/x", "body": None},
        before="RUNNING",
        facts={"event": {"n": 1, "f": 1.0}},
        by="worker",
    )

    ledger.apply(Commit(at=NOW, records=(record,)))

    (line,) = ledger.log(LogFilter())
    assert list(line) == list(FIELDS) == CONTRACT_FIELDS
    assert line["seq"] == 1
    assert line["at"] == "2026-01-31T12:00:00.123Z"
    assert line["request"] == {"method": "PUT", "url": "/x", "body": None}
    assert line["before"] == "RUNNING"
    assert json.dumps(line["facts"]) == '{"event": {"f": 1.0, "n": 1}}'
    assert line["event"] is None
    assert verified([json.loads(json.dumps(line))])[1] is None, "an exported line verifies by itself"


@cases(
    "why, facts",
    ("\ud83d", {"x": "\ud83d"}, "half a surrogate pair can be in a service's answer"),
    ("a\x00b", {"\x00": "\x00"}, "a zero byte"),
    ("", {"x": float("inf"), "y": float("nan")}, "numbers that JSON does not have"),
)
def test_nothing_that_a_service_answers_can_stop_the_log(ledger: SqlLedger, why: str, facts: dict[str, object]) -> None:
    ledger.apply(Commit(at=NOW, records=(fired(why=why, facts=facts),)))  # type: ignore[arg-type] # JSON of a kind

    (line,) = ledger.log(LogFilter())

    assert json.dumps(line, ensure_ascii=False, allow_nan=False).encode()
    assert ledger.verify() is None


NARROWED: tuple[tuple[LogFilter, list[int]], ...] = (
    (LogFilter(partner="partner-id-acme"), [1, 3, 4, 5]),
    (LogFilter(event="e1"), [1, 2, 4, 5]),
    (LogFilter(rule=RULE), [1, 2, 3, 4, 5]),
    (LogFilter(write=1), [4, 5]),
    (LogFilter(since=after(-1)), [3, 4, 5]),
    (LogFilter(limit=2), [1, 2]),
    (LogFilter(limit=0), []),
    (LogFilter(rule="no-such-rule"), []),
)


def test_the_log_can_be_narrowed(ledger: SqlLedger) -> None:
    other = Record(at=after(-2), kind="fired", partner=PartnerId("q"), event=EventId("e1"), rule=RULE)
    ledger.apply(Commit(at=NOW, records=(fired(after(-3)), other, fired(after(-1), event="e2"))))
    (write,) = planned(ledger)
    become(ledger, write, "skipped", after(4))
    everything = list(ledger.log(LogFilter()))

    after_first = LogFilter(chain=ledger.head(ACME).chain, after_seq=1, limit=2, event="e1", partner=ACME)
    for wanted, expected in (*NARROWED, (after_first, [4, 5])):
        assert [everything.index(record) + 1 for record in ledger.log(wanted)] == expected, wanted


def test_since_means_from_that_very_moment_on(ledger: SqlLedger) -> None:
    ledger.apply(Commit(at=NOW, records=(fired(after(1.0005)),)))

    assert len(list(ledger.log(LogFilter(since=after(1.0005))))) == 1
    assert list(ledger.log(LogFilter(since=after(1.002)))) == []


def test_a_log_longer_than_a_page_comes_whole_and_lets_others_write_meanwhile(ledger: SqlLedger) -> None:
    ledger.apply(Commit(at=NOW, records=tuple(fired(after(n)) for n in range(PAGE_RECORDS + 3))))
    lines = ledger.log(LogFilter())
    first = next(lines)

    ledger.apply(Commit(at=NOW, records=(fired(),)))

    assert [first["seq"], *[line["seq"] for line in lines]] == list(range(1, PAGE_RECORDS + 5))


def test_firings_are_the_records_that_say_so(ledger: SqlLedger) -> None:
    ledger.apply(Commit(at=NOW, records=(fired(after(1)), fired(after(5), event="e2"))))
    planned(ledger)

    assert ledger.firings(ACME, after(2)) == [(RULE, EventId("e2"), after(5))]
    assert len(ledger.firings(ACME, NOW)) == 2
    assert ledger.firings(PartnerId("other"), NOW) == []


@cases(
    "statement, seq",
    ("UPDATE action_log SET why = 'nothing happened' WHERE seq = 3", 3, "a changed word"),
    ("UPDATE action_log SET at = '2026-01-31T12:00:09.000Z' WHERE seq = 2", 2, "a changed time"),
    ("UPDATE action_log SET facts = '{\"n\":9}' WHERE seq = 4", 4, "changed facts"),
    ('UPDATE action_log SET facts = \'{"n":9,"n":4}\' WHERE seq = 4', 4, "facts that readers read differently"),
    ("UPDATE action_log SET facts = '{\"n\": 4}' WHERE seq = 4", 4, "spelled otherwise"),
    ("UPDATE action_log SET facts = 'no json' WHERE seq = 5", 5, "no JSON at all"),
    ("DELETE FROM action_log WHERE seq = 1", 1, "the first one taken out"),
    ("DELETE FROM action_log WHERE seq = 3", 3, "one in the middle taken out"),
    ("UPDATE action_log SET seq = 9 WHERE seq = 6", 6, "a hole before the last"),
)
def test_verify_names_the_first_bad_record(ledger: SqlLedger, tmp_path: Path, statement: str, seq: int) -> None:
    story(ledger)
    assert ledger.verify() is None
    ledger.close()

    run_sql(tmp_path, statement)

    with open_reading(f"sqlite:///{tmp_path}/worker.db") as reader:
        found = reader.verify()
    assert isinstance(found, ChainBreak)
    assert found.seq == seq


def test_a_last_record_that_was_changed_together_with_its_hash_is_found(ledger: SqlLedger) -> None:
    story(ledger)
    *_, last = ledger.log(LogFilter())
    forged = hash_of({**last, "why": "nothing happened"})
    with ledger._store.writing() as connection:
        here = action_log.c.seq == last["seq"]
        connection.execute(update(action_log).where(here).values(why="nothing happened", hash=forged))

    found = ledger.verify()

    assert found is not None, "no record follows that would show it; how the log ended is known beside it"
    assert (found.seq, "another hash" in found.why) == (last["seq"], True)


TEXT = st.text(st.characters(exclude_categories=())) | st.sampled_from(['"\\\x00\x1f\x7f\u2028é😀', "\ud800", ""])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=5,
)
one_for_all_examples = cache(lambda: in_memory_ledger(NOW))
NUMBERS = st.none() | st.integers(min_value=0, max_value=2**62)


@settings(deadline=None)  # the first example makes the ledger of all
@given(
    texts=st.tuples(TEXT, TEXT, st.none() | TEXT, TEXT), values=st.tuples(VALUES, VALUES), numbers=st.tuples(NUMBERS)
)
def test_what_is_hashed_is_what_anybody_makes_of_the_printed_record(
    texts: tuple[str, str, str | None, str], values: tuple[Json, Json], numbers: tuple[int | None]
) -> None:
    ledger, (why, action, event, by) = one_for_all_examples(), texts
    before = ledger.last_seq(ACME)
    record = Record(at=NOW, kind="fired", why=why, action=action, by=by, episode=numbers[0], before=values[0])
    record = replace(record, event=None if event is None else EventId(event), facts={"x": values[1]})
    ledger.apply(Commit(at=NOW, records=(record, record)))

    lines = list(ledger.log(LogFilter(after_seq=before)))
    assert [line["hash"] for line in lines] == [hash_of(line) for line in lines]
    assert (len(lines), lines[1]["prev"]) == (2, lines[0]["hash"])


def test_what_tells_who_changed_a_field_is_had_for_one_event(ledger: SqlLedger) -> None:
    def told(event: str, partner: PartnerId = ACME, kind: str = "observed") -> None:
        record = Record(at=NOW, kind=kind, partner=partner, event=EventId(event), facts={"event.status": "cancelled"})
        ledger.apply(Commit(at=NOW, records=(record,)))

    told("e1")
    told("e1", kind="fired")
    told("e2")
    told("e1", partner=PartnerId("partner-id-other"))
    (write,) = planned(ledger)
    sent(ledger, write, after(1))

    found = ledger.doings(ACME, EventId("e1"))
    assert [(one.kind, one.write) for one in found] == [("observed", None), ("planned", 1), ("sending", 1)]
    assert (found[0].at, found[0].facts) == (NOW, {"event.status": "cancelled"})


# whatever is done to the log, the chain shows it and says where


Records = list[dict[str, Json]]
words = st.text(max_size=6)
bodies: st.SearchStrategy[dict[str, Json]] = st.fixed_dictionaries(
    {
        "kind": words,
        "why": words,
        "episode": st.none() | st.integers(),
        "before": st.none() | st.floats(allow_nan=False, allow_infinity=False),
    }
)


def chained(contents: Sequence[dict[str, Json]]) -> Records:
    records: Records = []
    prev = GENESIS
    for seq, body in enumerate(contents, start=1):
        record: dict[str, Json] = {"seq": seq, **body, "prev": prev}
        prev = hash_of(record)
        records.append({**record, "hash": prev})
    return records


logs = st.lists(bodies, min_size=2, max_size=8).map(chained)


@pytest.mark.timeout(20)  # a hundred examples: slow under load and coverage, and never waiting
@given(st.lists(bodies, max_size=8).map(chained))
def test_a_log_that_nobody_touched_verifies(records: Records) -> None:
    assert verified(records)[1] is None


@pytest.mark.timeout(20)  # a hundred examples: slow under load and coverage, and never waiting
@given(logs, st.data())
def test_whatever_is_done_to_a_log_is_found_where_it_is(records: Records, data: st.DataObject) -> None:
    done = data.draw(st.sampled_from(["changed", "taken out", "and renumbered", "put in", "in each other's place"]))
    at = data.draw(st.integers(0, len(records) - (1 if done in ("changed", "put in") else 2)))
    bad = at + 1
    if done == "changed":
        name = data.draw(st.sampled_from(["kind", "why", "episode", "before", "prev", "hash"]))
        records[at] = {**records[at], name: "something else entirely"}
    elif done == "put in":
        forged: dict[str, Json] = {"seq": at + 1, "kind": "forged", "prev": records[at]["prev"]}
        records.insert(at, {**forged, "hash": hash_of(forged)})
        bad += 1
    elif done == "in each other's place":
        records[at : at + 2] = records[at + 1], records[at]
    else:
        del records[at]
        if done == "and renumbered":  # with a right hash of its own: only the link shows it
            renumbered: dict[str, Json] = {**records[at], "seq": at + 1}
            records[at] = {**renumbered, "hash": hash_of(renumbered)}

    _, found = verified(records)

    assert found is not None, done
    assert found.seq == bad, done


def test_anybody_can_verify_an_exported_line_without_our_code() -> None:
    line = json.dumps(chained([{"kind": "fired", "why": "é", "before": 1.0}])[0])

    record = json.loads(line)
    expected = record.pop("hash")
    spelled = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    assert hashlib.sha256(spelled.encode()).hexdigest() == expected
