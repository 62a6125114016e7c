"""People beside a running worker: what their commands do is done by the daemon that runs, once, and is on record.

Everything is judged by exit codes, by what commands print, and by the sandbox's own books.
"""

from pathlib import Path

import pytest

from tests.acceptance.processes import Home, Sandbox, home, sandbox, until, watched

pytestmark = pytest.mark.timeout(180)
PUT = ("PUT", "/client_campaign_status$")
WHY = ("--because", "the import was wrong")


def states(where: Home) -> list[str]:
    return [one["held_by"] or one["state"] for one in where.writes()]


def values(box: Sandbox, event: str) -> list[str]:
    return [one["after"] for one in box.effects() if one["eid"] == event]


def test_a_night_with_a_wrong_rule_a_second_worker_and_an_end_in_mid_send(tmp_path: Path) -> None:
    with sandbox(tmp_path) as box:
        where = home(tmp_path, box, timeout="5s")
        with where.worker() as one, where.worker() as other:
            until(lambda: one.process.poll() is not None or other.process.poll() is not None, "one of them ends")
            running, refused = (one, other) if one.process.poll() is None else (other, one)
            assert refused.process.poll() == 3, "of two started in the same second, one runs"
            until(lambda: "is held by process" in refused.errors, "the other says why")

            box.fault("answer_before", *PUT, params={"status": 422})
            box.cancel("e3")
            until(lambda: states(where) == ["rejected"], "the service said no")
            where.call("again", "1", "99", *WHY, check=1)
            assert "may fire again" in where.call("again", "1", *WHY).stderr
            until(lambda: states(where) == ["rejected", "confirmed"], "the running worker tried again")
            where.call("again", "1", *WHY, check=1)

            where.call("undo", "1", *WHY, check=1)
            dry = where.json("undo", "--rule", "pause-cancelled", "--since", "1h", "--dry-run", *WHY)
            assert [(row["write"], row["becomes"]) for row in dry] == [(2, "would be undone")]
            undone = where.json("undo", "--rule", "pause-cancelled", "--since", "1h", *WHY)
            assert [(row["write"], row["undone_by"]) for row in undone] == [(2, 3)]
            until(lambda: states(where) == ["rejected", "confirmed", "confirmed"], "it is put back")
            assert values(box, "e3") == ["PAUSED", "RUNNING"]

            where.call("halt", "--rule", "pause-cancelled", "--for", "1h", *WHY)
            box.cancel("e5")
            until(lambda: states(where)[3:] == ["halt"], "held")
            (held,) = where.writes("--state", "planned")
            assert held["held_until"] is not None
            assert values(box, "e5") == []

            box.fault("slow", *PUT, params={"delay_s": 1.5})
            where.call("resume", "--rule", "pause-cancelled", *WHY)
            until(lambda: states(where)[3:] == ["sending"], "in mid-send")
            assert running.stop() == 0
        assert states(where)[3:] == ["applied"], "what was in flight was awaited, and its answer is on record"
        assert values(box, "e5") == ["PAUSED"]
        assert where.log()[-1]["kind"] == "stopped"
        told = [(one["kind"], one["write"]) for one in where.log() if one["by"] != "worker"]
        assert told == [("again", 1), ("undone", 2), ("planned", 3), ("halted", None), ("resumed", None)]
        assert "the chain holds" in where.call("log", "--verify").stdout
        assert box.get("books")["repeated"] == 0


def test_a_burst_is_dropped_reopened_and_let_go_by_one_command_each_beside_a_backup(tmp_path: Path) -> None:
    rule = ("--rule", "pause-cancelled", *WHY)
    backup = tmp_path / "backup.db"
    with watched(tmp_path, surge="{events: 1, within: 10m}") as (box, where, running):
        box.await_look()
        box.cancel("e3")
        box.cancel("e5")
        until(lambda: states(where).count("waiting") == 2 and len(where.writes()) == 2, "the burst waits")
        assert {one["reason"] for one in where.writes()} == {"surge"}
        where.call("reject", *rule)
        until(lambda: states(where) == ["cancelled", "cancelled"], "dropped as one")
        where.call("reject", *rule, check=1)
        where.call("again", *rule)
        until(lambda: states(where)[2:] == ["waiting", "waiting"], "and it waits anew")
        where.call("ledger", "backup", str(backup))
        where.call("ledger", "backup", str(backup), check=1)
        assert box.effects() == []
        where.call("approve", *rule)
        until(lambda: states(where)[2:] == ["confirmed", "confirmed"], "let go as one")
        assert running.stop() == 0
        assert (len(box.effects()), box.get("books")["repeated"]) == (2, 0)
        assert {one["by"] == "worker" for one in where.log() if one["kind"] in ("approved", "resolved", "again")} == {
            False
        }
        for name in ("worker.db-wal", "worker.db-shm"):
            (tmp_path / name).unlink(missing_ok=True)
        backup.replace(tmp_path / "worker.db")
        assert "accept-restore" in where.call("run", check=3).stderr
        where.call("ledger", "accept-restore")
        assert states(where) == ["cancelled", "cancelled", "needs_human", "needs_human"]
