"""`check`, and the rule folder of a running worker: what is missing or cannot be read is said."""

import os
import sys
from pathlib import Path

import pytest

from tests.builders import cases
from tests.calling import PAUSE, call, settle_in
from worker.cli.wiring import FolderSource
from worker.config import load_config
from worker.config.models import schema
from worker.ledger import places
from worker.model.errors import InputErrors
from worker.rules.load import files_hash, load_rules


@pytest.mark.parametrize("rules", ["rules: []\n", "# later\n"])
def test_a_folder_without_a_rule_is_warned_of(tmp_path: Path, rules: str) -> None:
    done = call("check", config=settle_in(tmp_path, rules=rules))

    done.says(0, "warning: there are no rules here, so the worker would only look")
    done.tells(0, "0 rules, 0 errors, 1 warning")
    assert call("check", "--strict", config=tmp_path / "config.yaml").code == 2


def test_a_file_that_was_cut_off_to_nothing_takes_no_rule_out_of_force(tmp_path: Path) -> None:
    config = settle_in(tmp_path)
    before = files_hash(tmp_path / "rules")
    (tmp_path / "rules" / "more.yaml").write_text("", encoding="utf-8")

    call("check", config=config).says(2, "more.yaml: is empty\n    remove it, or write it anew: ")
    with pytest.raises(InputErrors, match=r"more\.yaml: is empty"):
        load_rules(tmp_path / "rules")
    assert files_hash(tmp_path / "rules") != before, "the daemon is told, and keeps the rules that it has"


def test_a_partner_may_have_very_many_events(tmp_path: Path) -> None:
    assert call("check", "--events", "100000000", config=settle_in(tmp_path)).code == 0


def test_messages_without_what_sends_them_are_told_before_and_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = settle_in(tmp_path, "notify: [{url: {env: ALERT_URL}, on: [needs_human]}]\n")
    monkeypatch.setenv("ALERT_URL", "json://localhost")
    assert "not installed" not in call("check", config=config).out
    monkeypatch.setitem(sys.modules, "apprise", None)

    said = "notify: messages are not installed here\n    install campaign-worker[messages]"
    call("check", config=config).says(0, f"{config}: warning: {said}")
    call("run", "--for", "1ms", config=config).fails(2, f"error: {said}")


@pytest.mark.parametrize(("kind", "warned"), [("nfs4", True), ("fuse.sshfs", True), ("ext4", False)])
def test_a_ledger_on_another_machines_disk_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, *, warned: bool
) -> None:
    config, mounts, device = settle_in(tmp_path), tmp_path / "mountinfo", tmp_path.stat().st_dev
    own = f"{os.major(device)}:{os.minor(device)}"
    mounts.write_text(f"22 1 0:5 / /other rw - nfs4 far:/other rw\n23 1 {own} / / rw shared:1 - {kind} far:/own rw\n")
    monkeypatch.setattr(places, "MOUNTS", mounts)

    said = f"worker.db: warning: the ledger is on a network file system ({kind}): "
    for arguments in (("check",), ("run", "--for", "1ms")):
        done = call(*arguments, config=config)
        assert (said in done.out + done.err) == warned


def test_what_a_terminal_would_obey_is_shown_and_not_sent(tmp_path: Path) -> None:
    config = settle_in(tmp_path, rules=PAUSE + r'    "\e[31m": red')
    call("check", config=config).says(2, "unknown key '\ufffd[31m' in a rule")


def test_a_duration_that_is_none_is_said_once(tmp_path: Path) -> None:
    done = call("run", "--for", "5x", config=settle_in(tmp_path))
    assert done.code == 2
    assert done.err == "error: --for: '5x' is not a duration\n    write it as 500ms, 3s, 10m, 2h, 7d\n"


async def test_a_link_that_breaks_while_the_worker_runs_refuses_the_folder_as_a_whole(tmp_path: Path) -> None:
    source = FolderSource(load_config(settle_in(tmp_path)))
    good = source.files_hash()
    (tmp_path / "rules" / "more.yaml").symlink_to("nowhere.yaml")

    assert source.files_hash() != good, "the change is noticed"
    with pytest.raises(InputErrors, match=r"more\.yaml: is a link that leads nowhere"):
        await source.load()


def test_check_names_what_cannot_be_read(tmp_path: Path) -> None:
    config = settle_in(tmp_path)
    (tmp_path / "rules" / "team").symlink_to("../rules")

    call("check", config=config).says(2, "rules/team: leads back to a folder that it stands in")


def test_a_schema_is_printed_with_the_facts_of_the_config_also_of_a_broken_one(tmp_path: Path) -> None:
    config = settle_in(tmp_path, "facts: {ad_spend: {get: '/x/{eid}', value: spend}}\nmode: lives\n")
    found = call("schema", "tests", config=config).json
    assert "ad_spend" in found["$defs"]["facts"]["properties"]
    assert call("schema", "rules", config=tmp_path / "none.yaml").json == schema("rules"), "without a config"


@cases(
    "folder, file, told",
    (0o755, 0o644, True, "all may"),
    (0o755, 0o620, True, "somebody may write it"),
    (0o755, 0o600, False, "nobody else may"),
    (0o700, 0o644, False, "nobody else comes there"),
    (0o710, 0o604, False, "the group comes there, and may not"),
    (0o710, 0o640, True, "the group comes there, and may"),
)
def test_files_that_others_may_read_are_warned_of(tmp_path: Path, folder: int, file: int, told: bool) -> None:
    config = settle_in(tmp_path)
    old = tmp_path / "worker.db.mark"
    old.write_text("", encoding="utf-8")
    (tmp_path / "other.txt").write_text("", encoding="utf-8")
    old.chmod(file)
    (tmp_path / "other.txt").chmod(0o644)
    tmp_path.chmod(folder)

    done = call("check", config=config)

    assert ("others on this machine may read worker.db.mark\n" in done.out) is told, done.both
    assert (f"chmod 600 {old}" in done.out) is told
    assert done.code == 0


def test_what_needs_the_event_ingest_service_is_an_error_where_its_address_is_not_known(tmp_path: Path) -> None:
    rules = PAUSE.replace("[pause]", "[{frontend_status: HIDDEN}]")
    config = settle_in(tmp_path, "api: {base_url: 'http://127.0.0.1:9/api/v3'}\n", rules=rules)

    missing = "'frontend_status' needs the event-ingest service, and api.cr_url is not set"
    call("check", config=config).says(2, missing)
    config.write_text("api: {base_url: 'http://127.0.0.1:9/api/v3', cr_url: 'http://127.0.0.1:9/cr'}\n", "utf-8")
    assert call("check", config=config).code == 0
