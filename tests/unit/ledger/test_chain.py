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
