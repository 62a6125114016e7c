"""What the life of a write tells of the wire: who must settle it has to know what was sent, and under which id."""

from tests.builders import cases
from worker.cli.log import exchanged
from worker.model.facts import Json

POST: Json = {"method": "POST", "url": "http://x/e1", "body": {"goal": "ROAS"}}
PUT: Json = {"method": "PUT", "url": "http://x/e1?status=RUNNING", "body": None}
ANSWER: Json = {"status": 429, "x_request_id": "id-7", "retry_after": 7.0, "took_ms": 12}
SENT = ["POST http://x/e1", 'body {"goal": "ROAS"}', "before: null"]


@cases(
    "record, lines",
    ({"request": PUT, "before": "DEFAULT"}, ["PUT http://x/e1?status=RUNNING", 'before: "DEFAULT"'], "sent"),
    (
        {"request": POST, "before": None, "response": ANSWER},
        [*SENT, "answered 429 in 12 ms, x-request-id id-7, Retry-After 7.0 s"],
        "sent with a body and answered",
    ),
    ({"response": {"error": "connection reset"}}, [], "why has the words already"),
    ({"evidence": {"get": "/e1", "status": None, "x_request_id": None}}, ["GET /e1: no answer"], "read in vain"),
    (
        {"evidence": {"get": "/e1", "status": 200, "x_request_id": "id-8"}},
        ["GET /e1: 200, x-request-id id-8"],
        "a read",
    ),
    ({"kind": "planned", "request": None, "response": None, "evidence": None}, [], "nothing"),
)
def test_a_record_says_in_words_what_went_over_the_wire(record: dict[str, Json], lines: list[str]) -> None:
    assert list(exchanged(record)) == lines
