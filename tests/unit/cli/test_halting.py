"""`halt` on a bad night: it is there to stop money, so nothing that can wait may keep it from doing so."""

import json
import os
import shutil
from pathlib import Path

import httpx
import pytest

from tests.builders import cases
from tests.calling import call
from tests.unit.ledger.examples import E1, NOW, key, open_ledger, place_in, plan, planned, run_sql
from tests.unit.ledger.test_lock import another_process
from tests.web.scene import scene
from worker.ledger.lock import SenderLock
from worker.model.commits import Commit
from worker.model.facts import Json
from worker.writes.life import hold

BECAUSE = ("--because", "looking into it")


def halts(config: Path) -> int:
    """How many halts the ledger of this folder holds."""
    with open_ledger(config.parent) as ledger:
        return len(ledger.halts(NOW))


def the_planned(config: Path) -> dict[str, Json]:
    """The one planned write, as scripts see it."""
    (found,) = json.loads(call("writes", "--state", "planned", "--format", "json", config=config).out)
    return dict(found)


@cases(
    "text, said",
    ("mode: lve\n", "config.yaml:1:7: mode is one of", "a value that is half typed"),
    ("safty: {settle: 2m}\nledger: sqlite:///worker.db\n", "unknown key 'safty'", "a key that nobody knows"),
    ("api: {base_url: http://example.com}\n", "must begin with https://", "what spans several keys"),
    ("assumptions: {nothing: 1}\n", "there is no assumption 'nothing'", "the register of assumptions"),
    ("rules: [a]\n", "rules must be a text", "the rules are nothing that a halt needs"),
)
def test_a_config_with_mistakes_keeps_nobody_from_halting(config: Path, text: str, said: str) -> None:
    config.write_text(text, encoding="utf-8")

    goes_on = "a halt needs nothing of the config but the ledger, and goes on\n"
    call("halt", *BECAUSE, config=config).tells(0, said, goes_on)
    assert halts(config) == 1
    assert call("resume", *BECAUSE, config=config).code == 2, "what lets go again can wait for a config that is right"


@cases(
    "call_of, said",
    (("halt", "--rule", "pause", "--rule=boost", *BECAUSE), "--rule is given twice\n    run the command once for each"),
    (("halt", *BECAUSE, "--config", "x"), "--config stands before the command\n    campaign-worker --config PATH halt"),
)
def test_of_two_names_none_is_halted_alone(config: Path, call_of: tuple[str, ...], said: str) -> None:
    call(*call_of, config=config).fails(2, said)
    assert halts(config) == 0
    assert call("halt", *BECAUSE, *BECAUSE, config=config).code == 0, "two reasons are none to go on"


@cases(
    "text",
    ("ledger: worker.db\n", "the ledger itself is what is wrong"),
    ("ledger: [worker.db]\n", "and so here"),
    ("leger: sqlite:///other.db\nmode: live\n", "another ledger may be meant than the default"),
    ("mode: [\n", "no YAML at all"),
    ("mode\n", "no mapping"),
)
def test_where_the_ledger_is_in_doubt_nothing_is_said_to_be_halted(config: Path, text: str) -> None:
    config.write_text(text, encoding="utf-8")

    doubt = "nothing was halted: this config leaves in doubt where the ledger is"
    call("halt", *BECAUSE, config=config).fails(2, doubt, "kill PID", "config.yaml:")
    assert halts(config) == 0


@pytest.mark.parametrize("name", ["CAMPAIGN_WORKER_LEDGER", "CAMPAIGN_WORKER__LEGDER"])
def test_nor_where_a_variable_may_mean_another_ledger(config: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "sqlite:///other.db")
    doubt = "nothing was halted: this config leaves in doubt where the ledger is"
    call("halt", *BECAUSE, config=config).fails(2, doubt, name)
    assert halts(config) == 0


@pytest.mark.parametrize("command", [("resume",), ("approve", "1"), ("reject", "1"), ("resolve", "1", "--applied")])
def test_a_word_that_the_running_daemon_would_never_read_is_refused(config: Path, command: tuple[str, ...]) -> None:
    place, pid = place_in(config.parent), os.getpid()
    with SenderLock.acquire(place, now=NOW) as lock:
        lock.note(place, {})
        shutil.copy(place.file, config.parent / "copy.db")
        (config.parent / "copy.db").replace(place.file)

        done, halt = call(*command, *BECAUSE, config=config), call("halt", *BECAUSE, config=config)
        status, healthy = call("status", config=config), call("status", "--healthy", config=config)
        found, listed = call("status", "--format", "json", config=config), call("writes", config=config)

    other, replaced = f"is not the file that process {pid} runs on", "it was replaced beneath it"
    done.fails(3, f"{other}: {replaced}; nothing was", f"stop it (kill {pid}), put the right file back")
    halt.fails(3, f"the ledger {place.file} {other}", f"that process sends nothing more; stop it (kill {pid})")
    assert ("halted:" in halt.err, halts(config)) == (False, 0)
    for said in (" ".join(status.out.split()), found.json["ledger_refused"], listed.err):
        assert replaced in said
    healthy.fails(1, replaced)


@pytest.mark.timeout(20)
def test_a_daemon_that_an_older_program_left_running_is_named_where_it_cannot_be_halted(config: Path) -> None:
    run_sql(config.parent, "UPDATE alembic_version SET version_num = '0004'")
    alone = call("halt", *BECAUSE, config=config)
    with another_process(place_in(config.parent)) as (process, _):
        beside = call("halt", *BECAUSE, config=config)
        looked = call("status", config=config)

    alone.fails(3, "has revision 0004")
    assert "kill" not in alone.err
    for said in (beside, looked):
        said.fails(3, "has revision 0004", f"still runs on it and sends: stop it (kill {process.pid}); take a backup")


def test_a_write_is_not_shown_as_halted_once_the_halt_has_ended(config: Path) -> None:
    with open_ledger(config.parent) as ledger:
        (write,) = planned(ledger, plan(key(2)))
        held = hold(write, at=NOW, reason="halt", why="halted by ann: look", until=None)
        assert held is not None
        ledger.apply(Commit(at=NOW, moves=(held,)))
    assert call("halt", *BECAUSE, config=config).code == 0
    before = the_planned(config)
    assert (before["held_by"], before["why"]) == ("halt", "halted by ann: look")

    assert call("resume", *BECAUSE, config=config).code == 0

    after = the_planned(config)
    assert (after["held_by"], after["held_until"]) == (None, None)
    assert after["why"] == "no longer halted: the next poll judges it anew"
    explained = call("explain", "--event", E1, config=config)
    assert "held by halt" not in explained.out, "nor where it is explained"
    with scene(config.parent) as page:
        for path in ("/writes", f"/write?id={write.id}"):
            text = httpx.get(page.address + path, trust_env=False).text
            assert "no longer halted: the next poll judges it anew" in text, path


def test_a_reason_in_another_coding_halts_all_the_same(config: Path) -> None:
    done = call("halt", "--because", os.fsdecode(b"f\xfcr heute"), config=config)
    assert (done.code, halts(config)) == (0, 1)
    done = call("halt", "--because", "f\xfcr heute " * 100, config=config)
    assert (done.code, halts(config)) == (0, 2), "and so does one that is too long for the name of a file"
    unknown = call("log", "--event", os.fsdecode(b"M\xfcnchen"), config=config)
    assert unknown.code == 1, "and an id in it is of no event, and no sign of a changed log"
