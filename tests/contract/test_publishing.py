"""Rules of a fleet are published: as a whole, with a number, and nothing is decided or sent under older ones."""

import asyncio
import fcntl
import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.calling import Called, call
from tests.contract.interleaving import Side, in_every_order
from tests.contract.postgres import Server
from tests.unit.ledger.examples import NOW, after, become, key, memory, no_brake, plan, planned, to_sending
from worker.cli.wiring import PublishedSource
from worker.config import load_config
from worker.ledger.reading import open_reading
from worker.ledger.sql import SqlLedger
from worker.model.commits import Commit, Sending
from worker.model.errors import StateConflict
from worker.model.writes import Write

BROKEN = "rules:\n  - id: pause-cancelled\n    when: event.stats == 'cancelled'\n    do: [pause]\n"
ANOTHER = "rules:\n  - id: another\n    when: event.status == 'cancelled'\n    do: [pause]\n"


def publish(config: Path, rules: str | None = None) -> Called:
    if rules is not None:
        (config.parent / "rules" / "rules.yaml").write_text(rules)
    return call("rules", "publish", config=config)


def test_the_first_set_makes_the_ledger_and_the_next_takes_its_place(config: Path, url: str) -> None:
    assert publish(config).err.startswith("generation 1 is in force: 1 rule")
    assert publish(config).err.startswith("nothing to do")
    assert publish(config, ANOTHER).err.startswith("generation 2 is in force: 1 rule")
    with open_reading(url) as ledger:
        found = ledger.published()
    assert found is not None
    assert (found.generation, found.files) == (2, {"rules.yaml": ANOTHER})
    log = call("log", "--format", "json", config=config)
    assert log.out.count('"rules_loaded"') == 2


def test_who_publishes_is_told_what_is_held_until_it_is_confirmed(config: Path) -> None:
    """A worker that has its ledger in a file says so at its start; one of a fleet did not know of its rules by then."""
    assert "not confirmed" not in publish(config).err, "against this machine nothing need be confirmed"
    config.write_text(config.read_text().replace("http://127.0.0.1:1", "https://api.example"))
    config.write_text(
        config.read_text().replace("username: ann, password: secret", "username: {env: A}, password: {env: B}")
    )
    done = publish(config, ANOTHER)
    assert (done.code, "held: client_campaign_status.query" in done.err) == (0, True), done.err


def test_what_was_published_is_known_again_in_its_folder(config: Path) -> None:
    for more in ((), ("another.yaml",), ("another.yaml", "season/third.yaml")):
        for name in more:
            (config.parent / "rules" / name).parent.mkdir(exist_ok=True)
            (config.parent / "rules" / name).write_text(ANOTHER.replace("another", Path(name).stem))
        publish(config)
        rules = json.loads(call("status", "--format", "json", config=config).out)["rules"]
        assert rules["hash"] == rules["files_hash"]


def test_a_set_with_a_mistake_changes_nothing(config: Path, url: str) -> None:
    publish(config)
    done = publish(config, BROKEN)
    assert (done.code, "event.stats" in done.err) == (2, True)
    assert publish(config, "rules: []\n").code == 2
    with open_reading(url) as ledger:
        assert ledger.generation() == 1


def test_until_a_set_is_published_a_replica_says_what_it_waits_for(config: Path) -> None:
    ran = call("run", "--for", "1s", config=config)
    assert "`campaign-worker rules publish`" in ran.err
    assert "`campaign-worker rules publish`" in " ".join(call("status", config=config).out.split())


@pytest.mark.parametrize(("folder", "why"), [("state", "in use by another worker"), ("config.yaml", "cannot be made")])
def test_a_replica_has_a_state_dir_of_its_own_or_does_not_start(config: Path, folder: str, why: str) -> None:
    """Of two that wrote there, each took away what shows the other that the database has forgotten what was sent."""
    publish(config)
    config.write_text(config.read_text().replace("state_dir: state", f"state_dir: {folder}"))
    (config.parent / "state").mkdir()
    others = os.open(config.parent / "state", os.O_RDONLY)
    fcntl.flock(others, fcntl.LOCK_EX)
    ran = call("run", "--for", "1s", config=config)
    os.close(others)
    assert (ran.code, why in ran.err) == (3, True), ran.err


def test_a_replica_takes_up_what_is_published_whatever_lies_in_its_folder(config: Path, url: str) -> None:
    with SqlLedger.open(url, clock_now=lambda: NOW) as ledger:
        source = PublishedSource(load_config(config), ledger)
        nothing = source.files_hash()
        assert asyncio.run(source.load()).rules == ()
        publish(config, ANOTHER)
        assert source.files_hash() != nothing
        (config.parent / "rules" / "rules.yaml").write_text(BROKEN)
        assert [rule.id for rule in asyncio.run(source.load()).rules] == ["another"]


@pytest.mark.parametrize(
    ("lies_there", "command", "code", "said"),
    [
        (BROKEN, ("backtest",), 1, "no observations are recorded yet"),
        (BROKEN, ("explain", "--event", "e1"), 0, "event.status == 'cancelled'"),
        (ANOTHER, ("plan", "--rule", "another"), 1, "no rule 'another'"),
        (ANOTHER, ("plan", "--rule", "pause-cancelled"), 1, "signing in failed"),
        (ANOTHER, ("halt", "--rule", "pause-cancelled", "--because", "a look first"), 0, "halted"),
        (ANOTHER, ("halt", "--rule", "another", "--because", "a look first"), 0, "halted"),
        (ANOTHER, ("halt", "--rule", "neither", "--because", "a look first"), 1, "neither"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_commands_go_by_what_is_in_force_whatever_lies_in_the_folder_and_no_replica_has_said_so(
    config: Path, url: str, lies_there: str, command: tuple[str, ...], code: int, said: str
) -> None:
    publish(config)
    if command[0] == "explain":
        with SqlLedger.open(url, clock_now=lambda: NOW) as ledger:
            ledger.apply(Commit(at=NOW, memory=(memory(1),)))
    (config.parent / "rules" / "rules.yaml").write_text(lies_there)
    done = call(*command, config=config)
    (done.says if command[0] == "explain" else done.tells)(code, said)


def decide(ledger: SqlLedger, _: Write) -> object:
    return ledger.apply(Commit(at=NOW, plans=(plan(key(2)),)))


def send(ledger: SqlLedger, write: Write) -> object:
    return ledger.record_sending(Sending(move=to_sending(write, after(1)), check=no_brake, amount=None))


@pytest.mark.parametrize("act", [decide, send])
def test_in_no_order_is_anything_stored_under_rules_that_are_out_of_force(
    act: Callable[[SqlLedger, Write], object], postgres: Server
) -> None:
    def sides() -> tuple[Side, ...]:
        url = postgres.ledger()
        replica, operator = (SqlLedger.open(url, clock_now=lambda: NOW) for _ in range(2))
        (write,) = planned(replica)
        replica.decides_under(0)
        publish = partial(operator.publish, {"a.yaml": ANOTHER}, why="", by="ann", at=NOW)
        return (replica, lambda ledger: act(ledger, write)), (operator, lambda _: publish())

    found = in_every_order(postgres, sides)
    for ended, (acted, published) in found:
        assert published == 1
        assert ended == [0, 1] or isinstance(acted, StateConflict), "publish had returned"
    assert {isinstance(acted, StateConflict) for _, (acted, _) in found} == {True, False}, len(found)


def test_what_came_of_a_write_is_stored_under_any_rules(url: str) -> None:
    with SqlLedger.open(url, clock_now=lambda: NOW) as replica:
        (write,) = planned(replica)
        replica.decides_under(0)
        replica.publish({"a.yaml": ANOTHER}, why="", by="ann", at=NOW)
        become(replica, write, "waiting", after(1))
        with pytest.raises(StateConflict, match="generation 1 of the rules is in force"):
            decide(replica, write)
        replica.decides_under(1)
        decide(replica, write)
