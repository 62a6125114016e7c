"""What the life of a write tells of the wire: who must settle it has to know what was sent, and under which id."""

import pytest

from worker.cli.log import exchanged
from worker.model.facts import Json

POST: Json = {"method": "POST", "url": "http://x/e1", "body": {"goal": "ROAS"}}
PUT: Json = {"method": "PUT", "url": "http://x/e1?status=RUNNING", "body": None}
ANSWER: Json = {"status": 429, "x_request_id": "id-7", "retry_after": 7.0, "took_ms": 12}
SENT = ["POST http://x/e1", 'body {"goal": "ROAS"}', "before: null"]


@pytest.mark.parametrize(
    ("record", "lines"),
    [
        ({"request": PUT, "before": "DEFAULT"}, ["PUT http://x/e1?status=RUNNING", 'before: "DEFAULT"']),
        (
            {"request": POST, "before": None, "response": ANSWER},
            [*SENT, "answered 429 in 12 ms, x-request-id id-7, Retry-After 7.0 s"],
        ),
        ({"response": {"error": "connection reset"}}, []),
        ({"evidence": {"get": "/e1", "status": None, "x_request_id": None}}, ["GET /e1: no answer"]),
        ({"evidence": {"get": "/e1", "status": 200, "x_request_id": "id-8"}}, ["GET /e1: 200, x-request-id id-8"]),
        ({"kind": "planned", "request": None, "response": None, "evidence": None}, []),
    ],
    ids=["sent", "sent with a body and answered", "why has the words already", "a failed read", "a read", "nothing"],
)
def test_a_record_says_in_words_what_went_over_the_wire(record: dict[str, Json], lines: list[str]) -> None:
    assert list(exchanged(record)) == lines
