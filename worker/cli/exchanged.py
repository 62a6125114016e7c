"""What a record of a write's life says of the wire, in words: the request, the answer, the read.

Who is asked whether a write took effect must know what was sent, and by which request id the service knows it.
"""

import json
from collections.abc import Iterator, Mapping

from worker.model.facts import Json


def exchanged(record: Mapping[str, Json]) -> Iterator[str]:
    """Lines for a person; none where the record tells of no request."""
    request, response, evidence = record.get("request"), record.get("response"), record.get("evidence")
    if isinstance(request, Mapping):
        yield f"{request.get('method')} {request.get('url')}"
        if request.get("body") is not None:
            yield f"body {_spelled(request['body'])}"
        yield f"before: {_spelled(record.get('before'))}"
    if isinstance(response, Mapping) and "status" in response:
        waits = response.get("retry_after")
        more = "" if waits is None else f", Retry-After {waits} s"
        yield f"answered {response['status']} in {response.get('took_ms')} ms{_request_id(response)}{more}"
    if isinstance(evidence, Mapping) and evidence.get("get") is not None:
        yield f"GET {evidence['get']}: {evidence.get('status') or 'no answer'}{_request_id(evidence)}"


def _request_id(answer: Mapping[str, Json]) -> str:
    known = answer.get("x_request_id")
    return "" if known is None else f", x-request-id {known}"


def _spelled(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)
