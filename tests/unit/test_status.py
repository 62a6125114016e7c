"""`campaign-worker status`: the rules in force beside the files as they are now."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner

from worker.cli import commands
from worker.cli.app import app
from worker.ledger.sql import SqlLedger
from worker.model.commits import DaemonStatus
from worker.model.facts import Json
from worker.rules.files import files_hash
from worker.system import utc_now

RULE = "rules: [{id: a, when: event.status == 'cancelled', do: [pause]}]\n"
SINCE = "2026-03-01T12:00:00Z"

commands.register()


@pytest.mark.parametrize(
    ("daemon", "line", "reason"),
    [
        ({"hash": "FILES", "loaded_at": SINCE}, "the same", "nothing was edited"),
        (
            {"hash": "c0ffee", "loaded_at": SINCE, "error": "r.yaml:1:1: wrong", "refused_at": SINCE},
            "so the last good rules stay in force: r.yaml:1:1: wrong",
            "edited, and broken",
        ),
        ({"hash": "c0ffee", "loaded_at": SINCE}, "to be taken up at the next start", "edited while nothing runs"),
        ({}, "to be taken up at the next start", "never started"),
    ],
)
def test_the_rules_in_force_are_set_against_the_files(
    tmp_path: Path, daemon: Mapping[str, str], line: str, reason: str
) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "r.yaml").write_text(RULE, encoding="utf-8")
    (tmp_path / "config.yaml").write_text("ledger: sqlite:///w.db\n", encoding="utf-8")
    on_disk = files_hash(tmp_path / "rules")
    rules: dict[str, Json] = {key: on_disk if value == "FILES" else value for key, value in daemon.items()}
    with SqlLedger.open(f"sqlite:///{tmp_path}/w.db", clock_now=utc_now) as ledger:
        now = utc_now()
        ledger.save_status(DaemonStatus(pid=1, since=now, seen_at=now, body={"rules": rules}))

    call = ["--config", str(tmp_path / "config.yaml"), "status"]
    table = CliRunner().invoke(app, call)
    assert line in " ".join(table.stdout.split()), reason
    said = json.loads(CliRunner().invoke(app, [*call, "--format", "json"]).stdout)
    assert said["rules"] == {
        **dict.fromkeys(("hash", "loaded_at", "error", "refused_at")),
        "ids": [],
        **rules,
        "files_hash": on_disk,
    }
