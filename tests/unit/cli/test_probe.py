"""What `probe` prints, and that it never reads beside a daemon."""

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

import pytest

from tests.calling import call
from worker.api.probe import UNSEEN, AssumptionFinding, Probed, Resource
from worker.cli.probe import told_as_json, told_as_tables
from worker.cli.wiring import probe_of
from worker.config import Config, load_config
from worker.ledger.lock import SenderLock
from worker.ledger.places import place_of
from worker.model.errors import NotSafe
from worker.model.facts import PartnerId

HALL = PartnerId("partner-id-hall")
FOUND = Probed(
    partners=(HALL,),
    resources=(
        Resource(resource="setup", partner=HALL, get="/setup_processes/e1", status=200, gaps={"state": "is missing"}),
        Resource(
            resource="tickets", partner=HALL, get="/events/e1/tickets", status=500, why="the service answered 500"
        ),
    ),
    findings=(
        AssumptionFinding(key="setup.draft", says="refuted", seen="draft on e1", value=["draft"]),
        AssumptionFinding(key="events.page_parameter", says="refuted", seen="no page 2", known=False),
        AssumptionFinding(key="boost.body", says=UNSEEN, seen="only a write shows it", value=None),
        AssumptionFinding(key="safety.settle", says=UNSEEN, seen="only an effect shows it", value="2m"),
    ),
)


def config(folder: Path, text: str = "assumptions: {setup.draft: [DRAFT]}") -> Config:
    file = folder / "config.yaml"
    file.write_text(text, "utf-8")
    return load_config(file)


def test_beside_a_running_daemon_nothing_is_asked(tmp_path: Path) -> None:
    """The address is of nobody: asking it would end in another error."""
    found = config(tmp_path, "api: {base_url: 'http://127.0.0.1:9/api/v3'}\ncredentials: {username: a, password: b}\n")
    place = place_of(found.ledger, found.folder)

    with SenderLock.acquire(place, now=datetime(2026, 1, 1, tzinfo=UTC)), pytest.raises(NotSafe, match="is held by"):
        asyncio.run(probe_of(found, ""))


def test_a_probe_that_takes_its_time_says_that_it_is_at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said, words = Event(), list[str]()

    def heard(message: str) -> None:
        words.append(message)
        said.set()

    async def slow(_config: Config, _only: str) -> Probed:
        assert await asyncio.to_thread(said.wait, 30)
        return FOUND

    monkeypatch.setattr("worker.cli.probe.probe_of", slow)
    monkeypatch.setattr("worker.cli.output.PROGRESS_EVERY_S", 0.001)
    monkeypatch.setattr("worker.cli.output.say", heard)
    config(tmp_path)

    done = call("probe", "--format", "json", config=tmp_path / "config.yaml")

    assert done.code == 0
    assert words[0] == "0 s: one of each resource is being read, none asked again within 3s"
    assert json.loads(done.out)["partners"] == [HALL]


def test_a_script_gets_every_finding_with_its_line(tmp_path: Path) -> None:
    whole = told_as_json(FOUND, config(tmp_path))

    read = json.loads(json.dumps(whole))
    assert read == whole
    assert read["partners"] == [HALL]
    names = ("key", "says", "value", "seen", "line", "vouched")
    assert [tuple(one[name] for name in names) for one in read["assumptions"]] == [
        ("setup.draft", "refuted", ["DRAFT"], "draft on e1", 'setup.draft: ["draft"]', True),
        ("events.page_parameter", "refuted", "page", "no page 2", None, False),
        ("boost.body", UNSEEN, None, "only a write shows it", "boost.body: null", False),
        ("safety.settle", UNSEEN, "2m", "only an effect shows it", "safety: {settle: 2m}", False),
    ]
    assert {frozenset(one) for one in read["assumptions"]} == {frozenset(names)}


def test_a_person_sees_what_is_wrong_with_each_resource(capsys: pytest.CaptureFixture[str]) -> None:
    told_as_tables(FOUND)

    shown = capsys.readouterr()
    for words in (HALL, "state: is missing", "the service answered 500", "refuted", 'setup.draft: ["draft"]'):
        assert words in shown.out
    assert "0 confirmed, 2 refuted, 2 cannot be seen by reading" in shown.err
    assert "proxy" not in shown.err, "none shows itself"


def test_a_proxy_in_between_is_told_of_with_what_to_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = replace(FOUND, proxied={"server": "nginx/1.25.3", "via": "1.1 edge\x1b[2J"})

    told_as_tables(found)

    said = capsys.readouterr().err
    stands, which = "a proxy stands between this machine and the service", "server: nginx/1.25.3, via: 1.1 edge"
    assert [one for one in (stands, which, "proxy_next_upstream off", "docs/deploying.md") if one not in said] == []
    assert "\x1b" not in said
    assert told_as_json(found, config(tmp_path))["proxied"] == {"server": "nginx/1.25.3", "via": "1.1 edge\x1b[2J"}
