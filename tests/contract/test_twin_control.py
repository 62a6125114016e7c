"""The control paths and the page: what an operator of the sandbox can see and do, from this machine only."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.builders import cases
from worker.sandbox.app import ConnectionCutError, sandbox_app
from worker.sandbox.faults import Fault
from worker.sandbox.service import Twin
from worker.sandbox.start import FIRST_PARTNER, SECOND_PARTNER, demo_world

PAUSE = "/api/v3/events/e1/client_campaign_status?client_campaign_status=PAUSED"
ROOT = Path(__file__).resolve().parents[2]


async def no_sleep(seconds: float) -> None:
    raise AssertionError(f"nothing here waits, and yet {seconds} s")


@dataclass(frozen=True, kw_only=True, slots=True)
class Operator:
    client: httpx.AsyncClient
    service: Twin
    headers: dict[str, str]

    async def post(self, path: str, body: object) -> httpx.Response:
        return await self.client.post(f"/_sandbox/{path}", json=body)

    async def pause(self) -> int:
        return (await self.client.put(PAUSE, headers=self.headers)).status_code


def client_of(service: Twin, clock: Callable[[], float], host: str = "127.0.0.1") -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app=sandbox_app(service, clock=clock, sleep=no_sleep), client=(host, 4242))
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8700")


@asynccontextmanager
async def operating(client_host: str = "127.0.0.1") -> AsyncIterator[Operator]:
    service = Twin(demo_world(), origin_s=0.0)
    async with client_of(service, lambda: 10.0, client_host) as client:
        tokens = (await client.post("/api/v3/auth", json={"username": "sandbox", "password": "sandbox"})).json()
        headers = {"Authorization": f"Bearer {tokens['AccessToken']}", "X-Preferred-Partner-Id": FIRST_PARTNER}
        yield Operator(client=client, service=service, headers=headers)


@pytest.fixture
async def it() -> AsyncIterator[Operator]:
    async with operating() as operator:
        yield operator


async def test_every_row_that_is_served_is_listed(it: Operator) -> None:
    rows = (await it.client.get("/_sandbox/rows")).json()

    assert {"methods": ["GET"], "host": "api", "path": "/partners/", "who": "partner", "form": "documented"} in rows
    assert any(row["form"] == "our own" for row in rows)


async def test_books_violations_and_requests_from_a_number_on_can_be_read(it: Operator) -> None:
    for _ in range(2):
        await it.pause()
        await it.client.get("/api/v3/events/e1", headers=it.headers)
    books = (await it.client.get("/_sandbox/books")).json()
    every = (await it.client.get("/_sandbox/requests")).json()

    assert (books["writes_sent"], books["effects"], books["repeated"]) == (2, 2, 1)
    assert [effect["repeated"] for effect in books["list"]] == [False, True]
    assert [each["kind"] for each in (await it.client.get("/_sandbox/violations")).json()] == ["read_floor"]
    assert [each["method"] for each in every] == ["POST", "PUT", "GET", "PUT", "GET"]
    assert (await it.client.get("/_sandbox/requests?since=1")).json() == every[1:]
    assert (await it.client.get("/_sandbox/requests?since=²")).json() == every, "a word that is no number"


async def test_faults_can_be_asked_for_and_taken_back(it: Operator) -> None:
    asked = await it.post("faults", [{"kind": "answer_after", "match": {"method": "PUT"}}, {"kind": "storm"}])
    assert [fault["kind"] for fault in asked.json()] == ["answer_after", "storm"]
    assert await it.pause() == 429
    assert len(it.service.books.effects) == 1
    assert (await it.client.delete("/_sandbox/faults")).json() == []
    assert await it.pause() == 204


async def test_a_person_and_the_world_can_change_an_event(it: Operator) -> None:
    change = {"event": "e1", "partner": SECOND_PARTNER, "by": "person", "set": {"status": "cancelled"}}
    assert (await it.post("change", change)).status_code == 200
    assert (await it.post("change", {"event": "e4", "suggested_tcs": [{"tc": "x", "tc_run_id": 1}]})).json() == {
        "changed": True
    }

    found = it.service.world.at(SECOND_PARTNER, "e1")
    assert found is not None
    assert found.record["status"] == "cancelled"
    assert it.service.books.outside[0].by == "person"


async def test_settings_can_be_changed_while_it_runs_and_all_can_be_reset(it: Operator) -> None:
    changed = await it.post("settings", {"task_fails": True})
    assert changed.json()["task_fails"] is True
    await it.post("settings", {"task_fails": False})
    await it.pause()
    await it.post("reset", {})
    event = await it.client.get("/api/v3/events/e1", headers=it.headers)

    assert event.json()["client_campaign_status"] == "RUNNING"


@cases(
    "path, body, message",
    ("faults", {"kind": "slwo"}, "did you mean 'slow'", "a fault"),
    ("faults", [3], "fault cannot be 3: expected a map", "no fault"),
    ("change", {"event": "e1", "set": {"status": "x"}}, "several partners have an event 'e1'", "whose event?"),
    ("change", {"event": "e4", "set": {"staus": "x"}}, "unknown field 'staus', did you mean 'status'", "a field"),
    ("settings", {"task_fail": True}, "did you mean 'task_fails'", "a setting"),
)
async def test_what_cannot_be_done_is_refused_with_the_nearest_right_name(
    it: Operator, path: str, body: object, message: str
) -> None:
    answer = await it.post(path, body)

    assert answer.status_code == 422
    assert message in answer.json()["error"]
    assert (await it.client.post(f"/_sandbox/{path}", content=b"{")).status_code == 422, "nor is what is no JSON done"


@pytest.mark.parametrize("path", ["/", "/_sandbox/books", "/_sandbox/faults", "/_sandbox/settings"])
async def test_another_machine_is_refused(path: str) -> None:
    async with operating("192.0.2.7") as it:
        assert (await it.client.get(path)).status_code == 403


@pytest.mark.parametrize("headers", [{"host": "evil.example"}, {"origin": "https://evil.example"}])
@pytest.mark.parametrize("path", ["faults", "change", "settings", "reset"])
async def test_a_page_of_another_site_in_a_browser_here_is_refused(
    it: Operator, headers: dict[str, str], path: str
) -> None:
    answer = await it.client.post(f"/_sandbox/{path}", json={"kind": "storm"}, headers=headers)

    assert answer.status_code == 403
    assert it.service.faults.left == ()


async def test_the_page_shows_events_requests_and_books_and_escapes_what_it_shows(it: Operator) -> None:
    await it.post("change", {"event": "e3", "set": {"title": "<script>alert(1)</script>"}})
    await it.pause()
    page = (await it.client.get("/")).text

    assert "writes sent 1, effects 1" in page
    assert "&lt;script&gt;" in page
    assert "<script>" not in page


async def test_without_a_server_that_can_break_connections_a_cut_is_an_error(it: Operator) -> None:
    it.service.faults.add(Fault(kind="cut_before"))
    with pytest.raises(ConnectionCutError):
        await it.pause()


PROGRAM = """
import asyncio, time
from worker.sandbox.start import FIRST_DAY
from worker.sandbox.app import serve
from worker.sandbox.start import built
asyncio.run(serve(built(None, 4, FIRST_DAY), clock=time.monotonic, sleep=asyncio.sleep, port=0))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_sandbox_process_tells_its_address_and_ends_when_told_to(number: signal.Signals) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stderr=subprocess.PIPE, text=True, env=environment
    ) as running:
        assert running.stderr is not None
        lines = [running.stderr.readline() for _ in range(3)]
        base_url = lines[0].removeprefix("base_url: ").strip()
        health = httpx.get(f"{base_url}/status/")
        running.send_signal(number)
        rest = running.stderr.read()

    assert health.json() == {"status": "ok"}
    assert [line.split(":")[0] for line in lines] == ["base_url", "cr_url", "media_url"]
    assert (running.returncode, rest) == (0, "")


async def test_times_count_from_the_first_request_whenever_the_machine_was_started() -> None:
    async with client_of(Twin(demo_world()), iter([5000.0, 5002.5]).__next__) as client:
        for _ in range(2):
            await client.put(PAUSE)
        requests = (await client.get("/_sandbox/requests")).json()
        violations = (await client.get("/_sandbox/violations")).json()
        page = (await client.get("/")).text

    assert [one["at_s"] for one in requests] == [0.0, 2.5]
    assert {one["at_s"] for one in violations} == {0.0, 2.5}
    assert "<td>2.5</td>" in page
    assert "5002" not in page
