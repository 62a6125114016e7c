"""A terminal of any width: what the next command asks for is whole, and what gives way is the rest."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.builders import an_intent
from tests.calling import call, settle_in
from tests.unit.ledger.examples import ACME, key, open_ledger, plan, planned
from worker.model.commits import Commit, of_write

OTHER = "partner-id-harbour-hall"
WHY = "3 reads in a row say that it is not there, and its condition no longer holds: event.status is 'active' by now"
WIDTHS = (40, 60, 80, 100, 110, 120, 140, 160, 200)
Shown = Callable[..., list[str]]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """22 writes of one partner; the last waits, and has a decision of a person's."""
    folder = tmp_path_factory.mktemp("home")
    settle_in(folder)
    with open_ledger(folder) as ledger:
        more = [plan(key(event=f"e{number}"), an_intent("pause")) for number in range(1, 22)]
        *_, last = planned(ledger, *more, replace(plan(key(event="e22"), an_intent(), state="waiting"), why=WHY))
        said = of_write(last, at=last.planned_at, kind="approved", reason="person", why="let go: seen")
        ledger.apply(Commit(at=last.planned_at, records=(replace(said, by="root"),)))
    return folder


@pytest.fixture
def shown(config: Path, monkeypatch: pytest.MonkeyPatch) -> Shown:
    def lines(columns: int | None, *arguments: str) -> list[str]:
        monkeypatch.delenv("COLUMNS", raising=False)
        if columns is not None:
            monkeypatch.setenv("COLUMNS", str(columns))
        return [line.rstrip() for line in call(*arguments, config=config).out.splitlines()]

    return lines


@pytest.mark.parametrize("columns", WIDTHS)
def test_what_the_next_command_asks_for_is_whole_on_one_line(shown: Shown, columns: int) -> None:
    writes = shown(columns, "writes", "--state", "waiting")
    log = shown(columns, "log", "--write", "22")

    assert max(map(len, [*writes, *log])) <= columns
    assert any({"22", "waiting", "e22"} <= set(line.split()) for line in writes), writes
    for seq, kind in (("22", "waiting"), ("23", "approved")):
        assert any({seq, kind, "e22", "22"} <= set(line.split()) for line in log), log
    assert "pause-cancelled" in " ".join(writes).replace(";", " ").split(), "a rule is named to `approve --rule`"
    for text, lines in ((WHY, writes), (WHY, log), ("(by root)", log)):
        assert set(text.split()) <= set(" ".join(lines).split()), lines


def test_on_80_columns_each_write_and_each_record_is_a_block(shown: Shown) -> None:
    assert shown(80, "writes", "--state", "waiting") == [
        f"writes (partner {ACME})",
        "id 22  waiting  e22",
        "    reason: condition; rule: pause-cancelled; action: pause; wanted: PAUSED;",
        "    attempt: 0; changed_at: 2026-01-31 12:00:00",
        "    3 reads in a row say that it is not there, and its condition no longer",
        "    holds: event.status is 'active' by now",
    ]
    assert shown(80, "log", "--write", "22")[-4:] == [
        "seq 23  approved  e22  write 22",
        "    at: 2026-01-31 12:00:00; reason: person; rule: pause-cancelled; action:",
        "    pause",
        "    let go: seen (by root)",
    ]


def test_the_words_fold_first_and_then_what_says_nothing_is_left_out(shown: Shown) -> None:
    def head(columns: int | None) -> tuple[str, list[str]]:
        title, names, *_ = shown(columns, "writes", "--state", "waiting")
        return title.strip(), names.split()

    every = ["id", "state", "reason", "partner", "event", "rule", "action", "wanted"]
    every += ["attempt", "held_by", "changed_at", "why"]
    assert head(None) == head(200) == head(180) == ("writes", every)
    assert head(150) == (f"writes (partner {ACME})", [name for name in every if name not in ("partner", "held_by")])


def test_two_partners_are_told_apart_in_the_least_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_ledger(tmp_path) as ledger:
        planned(ledger, plan(), plan(key(partner=OTHER)))
    config = settle_in(tmp_path)
    for columns in (60, 130):
        monkeypatch.setenv("COLUMNS", str(columns))
        found = "".join(call("writes", config=config).out.split())
        assert [name in found for name in (ACME, OTHER)] == [True, True], columns


def test_a_pipe_gets_the_table_whole_however_long_an_id_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    long = "event-" + "0" * 180
    with open_ledger(tmp_path) as ledger:
        planned(ledger, plan(key(event=long)))
    _, names, _, row, *_ = call("writes", config=settle_in(tmp_path)).out.splitlines()
    assert names.split()[:5] == ["id", "state", "reason", "partner", "event"]
    assert row.split()[:5] == ["1", "planned", "condition", ACME, long]


def test_only_a_person_is_named_in_the_log_and_to_who_follows_it(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    (told,) = [line for line in shown(None, "log") if "(by " in line]
    assert (told.split()[0], told.endswith("let go: seen (by root)")) == ("23", True)

    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("worker.cli.log.pause", interrupted)
    *others, last = shown(80, "log", "--follow", "--write", "22")
    assert last.endswith("  let go: seen (by root)")
    assert [line for line in others if "(by " in line] == []
    assert others[0].endswith(WHY)


@pytest.mark.parametrize("columns", ["0", "", "wide"])
def test_a_width_that_is_none_is_as_if_nobody_had_said_one(
    config: Path, monkeypatch: pytest.MonkeyPatch, shown: Shown, columns: str
) -> None:
    whole = shown(None, "writes")
    monkeypatch.setenv("COLUMNS", columns)

    assert [line.rstrip() for line in call("writes", config=config).out.splitlines()] == whole
