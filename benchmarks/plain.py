"""A plain script, as somebody would write it in an afternoon: the floor that several benchmarks measure against.

It reads the list with httpx and `json.loads`, judges each condition of each event by a CEL library in Rust, and keeps
the events as JSON in SQLite. It proves nothing, logs nothing, and forgets what it did where it is killed.
"""

import json
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import cel
import httpx

from tests.twin import BASE_URLS, TwinTransport
from tests.virtual import VirtualClock, VirtualLoop
from tests.worlds import PARTNER
from worker.sandbox.service import Twin

Record = dict[str, Any]


@asynccontextmanager
async def reader(twin: Twin, loop: VirtualLoop, page: int) -> AsyncIterator[Callable[[], Awaitable[list[Record]]]]:
    """What reads the whole list, page by page, signed in."""
    transport = TwinTransport(twin, clock=loop.time, sleep=VirtualClock(loop).sleep)
    async with httpx.AsyncClient(transport=transport, base_url=BASE_URLS["api"]) as client:
        signed = await client.post("/auth", json={"username": "sandbox", "password": "sandbox"})
        token = json.loads(signed.content)["AccessToken"]
        headers = {"Authorization": f"Bearer {token}", "X-Preferred-Partner-Id": PARTNER}

        async def read() -> list[Record]:
            found: list[Record] = []
            total = 1
            while len(found) < total:
                asked = {"limit": page, "page": len(found) // page + 1}
                answer = json.loads((await client.get("/events/", params=asked, headers=headers)).content)
                found += answer["items"]
                total = answer["total"]
            return found

        yield read


def judged(conditions: Sequence[str], events: Iterable[Record], more: Record | None = None) -> int:
    """How many of the conditions are true, over all events."""
    programs = [cel.compile(one) for one in conditions]
    true = 0
    for event in events:
        values = cel.Context(variables={"event": event, **(more or {})})
        true += sum(program.execute(values) is True for program in programs)
    return true


def keep(file: Path, events: Iterable[Record]) -> None:
    """Every event, in one transaction."""
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("CREATE TABLE IF NOT EXISTS events (id TEXT PRIMARY KEY, record TEXT)")
        rows = ((one["id"], json.dumps(one)) for one in events)
        database.executemany("INSERT OR REPLACE INTO events VALUES (?, ?)", rows)


def kept(file: Path) -> list[Record]:
    """What it kept."""
    with closing(sqlite3.connect(file)) as database:
        return [json.loads(row[0]) for row in database.execute("SELECT record FROM events")]
