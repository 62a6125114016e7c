"""What the life of a write tells of the wire: who must settle it has to know what was sent, and under which id."""

import pytest

from worker.cli.log import exchanged
from worker.model.facts import Json

CASES: list[tuple[dict[str, Json], list[str], str]] = [
    (
        {"request": {"method": "PUT", "url": "http://x/e1?status=RUNNING", "body": None}, "before": "DEFAULT"},
        ["PUT http://x/e1?status=RUNNING", 'before: "DEFAULT"'],
        "what was sent",
    ),
    (
        {"request": {"method": "POST", "url": "http://x/e1", "body": {"goal": "ROAS"}}, "before": None},
        ["POST http://x/e1", 'body {"goal": "ROAS"}', "before: null"],
        "with its body",
    ),
    (
        {"response": {"status": 429, "x_request_id": "id-7", "retry_after": 7.0, "took_ms": 12}},
        ["answered 429 in 12 ms, x-request-id id-7, Retry-After 7.0 s"],
        "what was answered",
    ),
    ({"response": {"error": "connection reset"}}, [], "why has the words already"),
    (
        {"evidence": {"get": "/events/e1", "status": None, "x_request_id": None}},
        ["GET /events/e1: no answer"],
        "a read that failed",
    ),
    (
        {"evidence": {"get": "/events/e1", "status": 200, "x_request_id": "id-8"}},
        ["GET /events/e1: 200, x-request-id id-8"],
        "a read",
    ),
    ({"kind": "planned", "request": None, "response": None, "evidence": None}, [], "nothing was exchanged"),
]


@pytest.mark.parametrize(("record", "lines", "reason"), CASES, ids=[one[2] for one in CASES])
def test_a_record_says_in_words_what_went_over_the_wire(record: dict[str, Json], lines: list[str], reason: str) -> None:
    assert list(exchanged(record)) == lines, reason
