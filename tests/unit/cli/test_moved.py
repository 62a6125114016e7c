"""A ledger belongs to one service: another one is refused until a person says that it is the same."""

from pathlib import Path

import pytest

from tests.builders import cases
from tests.calling import Called, call, settle_in
from tests.unit.ledger.examples import ACME, E1, NOW, RULE, key, memory, open_ledger, place_in, plan, planned, sent
from worker.config.addresses import service_of
from worker.ledger.lock import SenderLock
from worker.ledger.reading import open_reading
from worker.model.commits import Commit, DaemonStatus

OLD, NEW = "http://127.0.0.1:9/api/v3", "http://127.0.0.1:10/api/v3"


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CAMPAIGN_WORKER_USERNAME", "CAMPAIGN_WORKER_PASSWORD"):
        monkeypatch.setenv(name, "sandbox")


def serving(config: Path, url: str) -> Path:
    config.write_text(f"api: {{base_url: '{url}'}}\n", encoding="utf-8")
    return config


def run(config: Path) -> Called:
    return call("run", "--for", "1ms", config=config)


def moved(config: Path, url: str) -> Called:
    return call("ledger", "moved", "--to", url, "--because", "it has a new address", config=config)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A ledger that knows a partner, has open writes, and was run with the old address."""
    found = serving(settle_in(tmp_path), OLD)
    with open_ledger(tmp_path) as ledger:
        first, _ = planned(ledger, plan(key()), plan(key(event="e2")))
        sent(ledger, first, NOW)
        ledger.apply(Commit(at=NOW, memory=(memory(),)))
    assert run(found).code == 0
    return found


def test_another_service_is_refused_with_both_and_the_two_ways_out_and_nothing_is_started(config: Path) -> None:
    done, plan_of = run(serving(config, NEW)), call("plan", config=config)

    both = f"belongs to the service {OLD}, and the config's api.base_url names {NEW}"
    for said in (done, plan_of):
        said.fails(3, both, "name another `ledger:`", f"campaign-worker ledger moved --to {NEW} --because")
    assert OLD in call("status", "--format", "json", config=config).json["ledger_refused"]
    assert call("status", "--healthy", config=config).code == 1
    assert run(serving(config, "sandbox")).code == 3, "the sandbox is a service of its own"
    assert run(serving(config, OLD + "/")).code == 0, "the same in another spelling"


def test_once_it_is_said_to_have_moved_open_writes_are_a_persons_and_everything_is_met_anew(config: Path) -> None:
    done = moved(serving(config, NEW), NEW + "/")

    assert done.code == 0
    assert f"the ledger belongs to {NEW} now: 2 open writes are now before an operator, 1 memories" in done.err
    with open_ledger(config.parent) as ledger:
        assert [write.state for write in ledger.writes()] == ["needs_human", "needs_human"]
        assert all(f"taken to {NEW}" in write.why for write in ledger.writes())
        (now,) = ledger.rule_memories(ACME, E1)
        assert (now.rule, now.episode) == (RULE, 1_000_001)
        assert ledger.partner_memory(ACME) is not None
        assert ledger.verify() is None
    (record,) = [one for one in call("log", "--format", "jsonl", config=config).out.splitlines() if "_restored" in one]
    assert f"taken from the service {OLD} to {NEW}: it has a new address" in record
    assert run(config).code == 0
    assert run(serving(config, OLD)).code == 3, "and there is no way back but by the same word"


def test_a_move_that_cannot_be_meant_changes_nothing(config: Path) -> None:
    already, not_the_configs = moved(config, OLD), moved(config, NEW)
    serving(config, NEW)
    with SenderLock.acquire(place_in(config.parent), now=NOW):
        beside = moved(config, NEW)
    place_in(config.parent).mark.unlink()
    restored = moved(config, NEW)

    already.fails(1, f"belongs to {OLD} already")
    not_the_configs.fails(1, f"api.base_url {OLD}")
    beside.fails(3, "is held by process")
    restored.fails(3, "accept-restore")
    with open_reading(f"sqlite:///{config.parent}/worker.db") as ledger:
        assert [write.state for write in ledger.writes()] == ["sending", "planned"]


def test_a_ledger_from_before_takes_the_service_that_it_is_run_with_first(config: Path) -> None:
    with open_ledger(config.parent) as ledger:
        ledger.save_status(DaemonStatus(pid=1, since=NOW, seen_at=NOW, body={"interval_s": 3.0}))

    assert run(serving(config, NEW)).code == 0
    assert run(serving(config, OLD)).code == 3


def test_a_ledger_that_knows_of_no_partner_yet_is_any_services(tmp_path: Path) -> None:
    config = serving(settle_in(tmp_path), OLD)
    assert run(config).code == 0
    assert run(serving(config, NEW)).code == 0, "the first address was a slip, and nothing was ever seen there"


def test_where_nothing_was_run_yet_nothing_can_move(tmp_path: Path) -> None:
    config = serving(settle_in(tmp_path), OLD)
    assert moved(config, OLD).code == 1
    open_ledger(tmp_path).close()
    moved(config, OLD).fails(1, "belongs to no service yet")


@cases(
    "url, spelled",
    ("https://Api.Example.com/api/v3/", "https://api.example.com/api/v3", "letters and slash"),
    ("HTTPS://api.example.com:443/api/v3", "https://api.example.com/api/v3", "a port that goes without saying"),
    ("https://api.example.com:8443/api/v3", "https://api.example.com:8443/api/v3", "another port"),
    ("http://127.0.0.1:80/api/v3", "http://127.0.0.1/api/v3", "that of http"),
    ("https://api.example.com./API/v3", "https://api.example.com/API/v3", "a dot at the end; paths keep their letters"),
    ("http://[::1]:8080/v3", "http://[::1]:8080/v3", "an address in brackets"),
    ("sandbox", "sandbox", "the embedded simulator"),
    ("nonsense", "nonsense", "what is no address stays what it is"),
)
def test_one_service_has_one_spelling(url: str, spelled: str) -> None:
    assert service_of(url) == spelled
