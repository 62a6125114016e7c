"""Whatever is done to the log, the chain shows it and says where."""

import hashlib
import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.ledger.log import GENESIS, hash_of, verified
from worker.model.facts import Json

pytestmark = pytest.mark.timeout(20)  # a hundred examples each: slow under load and coverage, and never waiting

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


@given(st.lists(bodies, max_size=8).map(chained))
def test_a_log_that_nobody_touched_verifies(records: Records) -> None:
    assert verified(records)[1] is None


@given(logs, st.data())
def test_a_changed_field_is_found_where_it_stands(records: Records, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(records) - 1))
    name = data.draw(st.sampled_from(["kind", "why", "episode", "before", "prev", "hash"]))
    records[index] = {**records[index], name: "something else entirely"}

    _, found = verified(records)

    assert found is not None
    assert found.seq == index + 1


@given(logs, st.data())
def test_a_record_taken_out_is_found_unless_it_is_the_last(records: Records, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(records) - 2))
    del records[index]

    _, found = verified(records)

    assert found is not None
    assert found.seq == index + 1


@given(logs, st.data())
def test_two_records_in_each_others_place_are_found(records: Records, data: st.DataObject) -> None:
    first, second = sorted(data.draw(st.lists(st.integers(0, len(records) - 1), min_size=2, max_size=2, unique=True)))
    records[first], records[second] = records[second], records[first]

    _, found = verified(records)

    assert found is not None
    assert found.seq == first + 1


@given(logs, st.data())
def test_a_record_put_in_with_a_right_hash_of_its_own_is_found(records: Records, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(records) - 1))
    forged: dict[str, Json] = {"seq": index + 1, "kind": "forged", "prev": records[index]["prev"]}
    records.insert(index, {**forged, "hash": hash_of(forged)})

    assert verified(records)[1] is not None


def test_renumbering_after_a_removal_does_not_hide_it() -> None:
    records = chained([{"kind": "a"}, {"kind": "b"}, {"kind": "c"}])
    del records[1]
    records[1]["seq"] = 2

    _, found = verified(records)

    assert found is not None
    assert found.seq == 2


def test_anybody_can_verify_an_exported_line_without_our_code() -> None:
    line = json.dumps(chained([{"kind": "fired", "why": "é", "before": 1.0}])[0])

    record = json.loads(line)
    expected = record.pop("hash")
    spelled = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    assert hashlib.sha256(spelled.encode()).hexdigest() == expected


def test_an_integer_and_a_float_of_the_same_value_hash_differently() -> None:
    assert hash_of({"before": 500}) != hash_of({"before": 500.0})
