"""The log as a file for auditors, narrowed as the page is: JSON lines or CSV, oldest first, with the chain's head.

It is made in pieces, each in its own turn, so that an export of months holds up neither the page nor the daemon. The
head stands in a header of the answer and in the file's name: with it, an export of the whole log can be verified on
another machine.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace

from starlette.responses import PlainTextResponse, Response, StreamingResponse

from worker.ledger.exporting import csv_head, csv_lines, json_lines
from worker.model.commits import LogFilter
from worker.model.facts import Json
from worker.web.filters import log_asked
from worker.web.parts import PageParts
from worker.web.turns import Turns

FORMS: Mapping[str, str] = {"jsonl": "application/jsonl", "csv": "text/csv"}
PIECE = 500


async def exported(parts: PageParts, turns: Turns, form: str, query: Mapping[str, str]) -> Response:
    """The records that an address asks for, as a file."""
    asked = log_asked(query, parts.clock.now())
    unsupported = [name for name in ("kind", "reason", "until") if name in asked.given]
    if asked.problems or unsupported:
        words = "; ".join([*asked.problems, *(f"{name}: an export cannot be narrowed by it" for name in unsupported)])
        return PlainTextResponse(words + "\n", 400)
    wanted = asked.wanted
    narrowed = LogFilter(
        since=wanted.since, partner=wanted.partner, event=wanted.event, rule=wanted.rule, write=wanted.write
    )
    seq, head = await turns.run(parts.ledger.head)
    headers = {
        "Content-Disposition": f'attachment; filename="campaign-worker-log-{seq}-{head[:12]}.{form}"',
        "X-Chain-Head": f"{seq}:{head}",
    }
    pieces = _pieces(parts, turns, narrowed, form)
    return StreamingResponse(pieces, headers=headers, media_type=f"{FORMS[form]}; charset=utf-8")


async def _pieces(parts: PageParts, turns: Turns, wanted: LogFilter, form: str) -> AsyncIterator[str]:
    if form == "csv":
        yield csv_head()
    after = 0
    while True:
        page = replace(wanted, after_seq=after, limit=PIECE)
        records: list[dict[str, Json]] = await turns.run(lambda page=page: list(parts.ledger.log(page)))  # type: ignore[misc]
        if not records:
            return
        yield csv_lines(records) if form == "csv" else json_lines(records)
        last = records[-1]["seq"]
        after = last if isinstance(last, int) else after
