"""`halt`, `resume`, `approve`, `reject` and `resolve`: a slip of the operator's is an error, and changes nothing."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.builders import cases
from tests.calling import Called, call, settle_in
from tests.unit.ledger.examples import ACME, NOW, RULE, key, open_ledger, plan, planned, sent
from worker.ledger.reading import open_reading
from worker.model.commits import LogFilter
from worker.model.facts import RuleId

WHY = ("--because", "x")
HUGE = "99999999999999999999999"
"""More than SQLite can hold, or be asked for."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A worker that has planned three writes: two of two partners are sent and unsettled, one of another rule waits."""
    folder = tmp_path_factory.mktemp("home")
    settle_in(folder)
    with open_ledger(folder) as ledger:
        here, there, _ = planned(
            ledger,
            plan(key()),
            replace(plan(key(partner="partner-id-other")), rules=(RULE, RuleId("boost-now"))),
            plan(key(rule="boost-now", event="e2"), state="waiting"),
        )
        sent(ledger, here, NOW)
        sent(ledger, there, NOW)
    return folder


def kinds(config: Path) -> list[str]:
    with open_reading(f"sqlite:///{config.parent}/worker.db") as ledger:
        return [str(record["kind"]) for record in ledger.log(LogFilter())]


@cases(
    "arguments, code, said",
    (("halt", "--because", ""), 2, "--because is empty"),
    (("halt", "--because", " \t"), 2, "--because is empty"),
    (("resume", "--because", ""), 2, "--because is empty"),
    (("resolve", "1", "--applied", "--because", ""), 2, "--because is empty"),
    (("approve", "3", "--because", " "), 2, "--because is empty"),
    (("reject", "3", "--because", ""), 2, "--because is empty"),
    (("halt", *WHY, "--for", "0s"), 2, "--for: must be longer than 0s"),
    (("halt", *WHY, "--rule", "pause-canceled"), 1, "of rule 'pause-canceled'; did you mean 'pause-cancelled'?"),
    (("halt", *WHY, "--partner", "partner-id-acne"), 1, f"of partner 'partner-id-acne'; did you mean '{ACME}'?"),
    (("halt", *WHY, "--partner", "zz"), 1, "there are 2 partners, such as partner-id-acme, partner-id-other"),
    (("approve", "--rule", "boost-nou"), 1, "of rule 'boost-nou'; did you mean 'boost-now'?"),
    (("approve", "1", "--rule", "pause-cancelled"), 2, "with --rule, and not both"),
    (("approve", "--rule", ""), 2, "with --rule, and not both"),
    (("reject", "--rule", ""), 2, "with --rule, and not both"),
    (("again", "--rule", "", *WHY), 2, "and not both"),
    (("undo", "--rule", "", "--since", "900d", *WHY), 2, "and not both"),
    (("rules", "publish", ""), 2, "FOLDER is empty"),
    (("resume", *WHY, "--rule", "pause-cancelled"), 1, "error: no halt is in force"),
    (("approve", HUGE), 1, f"there is no write {HUGE}; nothing was changed"),
    (("reject", HUGE), 1, f"there is no write {HUGE}; nothing was changed"),
    (("resolve", HUGE, "--applied", *WHY), 1, f"there is no write {HUGE}; nothing was changed"),
)
def test_a_slip_changes_nothing_and_says_what_was_meant(
    config: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    before = kinds(config)

    call(*arguments, config=config).fails(code, said)
    assert kinds(config) == before


@cases(
    "arguments, scope, flying",
    ((), "every partner, every rule", ["write 1", "write 2"]),
    (("--partner", ACME), f"{ACME}, every rule", ["write 1"]),
    (("--rule", "pause-cancelled"), "every partner, pause-cancelled", ["write 1", "write 2"]),
    (("--rule", RULE, "--partner", "partner-id-other"), "partner-id-other, pause-cancelled", ["write 2"]),
    (("--rule", "boost-now"), "every partner, boost-now", ["write 2"]),
    (("--rule", "boost-now", "--partner", ACME), f"{ACME}, boost-now", []),
)
def test_halt_says_its_scope_and_lists_what_is_in_flight_within(
    config: Path, arguments: tuple[str, ...], scope: str, flying: list[str]
) -> None:
    done = call("halt", "--because", "look", *arguments, config=config)

    done.tells(0, f"halted: {scope}\n")
    assert [line.split(": ")[1].split(",")[0] for line in done.err.splitlines()[1:]] == flying
    assert kinds(config)[-1] == "halted"


@cases(
    "arguments",
    (("--rule", "boost-now"), "the ledger alone: its file was removed"),
    (("--rule", "fresh"), "the rule files alone: it never did anything"),
    (("--partner", "partner-id-new"), "the config's list alone"),
)
def test_a_name_is_known_from_the_ledger_the_rules_or_the_config(config: Path, arguments: tuple[str, ...]) -> None:
    config.write_text("partners: [partner-id-new]\n", "utf-8")
    fresh = "rules:\n- {id: fresh, when: event.status == 'cancelled', do: [pause]}\n"
    (config.parent / "rules" / "rules.yaml").write_text(fresh, "utf-8")

    assert call("halt", "--because", "look", *arguments, config=config).code == 0


def test_rules_that_do_not_load_keep_nobody_from_halting_what_the_ledger_knows(config: Path) -> None:
    (config.parent / "rules" / "rules.yaml").write_text("rules: [", "utf-8")

    assert call("halt", "--because", "look", "--rule", "pause-cancelled", config=config).code == 0
    unknown = call("halt", "--because", "look", "--rule", "fresh", config=config)
    unknown.fails(1, "without --partner and --rule everything is halted")


def test_a_halt_of_a_name_makes_it_no_better_known(config: Path) -> None:
    assert call("halt", "--because", "look", config=config).code == 0
    assert call("resume", "--because", "looked", "--rule", "nope", config=config).err.startswith(
        "error: no such halt is in force; in force: every partner, every rule (look)"
    )


def nothing_to_do(config: Path) -> list[Called]:
    commands = [("halt", *WHY), ("approve", "1", *WHY), ("resolve", "1", "--applied", *WHY), ("resume", *WHY)]
    return [call(*one, config=config) for one in commands]


def test_without_a_ledger_nothing_is_decided_and_none_is_made(tmp_path: Path) -> None:
    config = settle_in(tmp_path)

    assert {one.code for one in nothing_to_do(config)} == {1}
    assert not (tmp_path / "worker.db").exists()


def test_a_lost_ledger_is_said_to_be_lost_before_anything_is_decided(config: Path) -> None:
    (config.parent / "worker.db").unlink()

    for done in nothing_to_do(config):
        done.fails(3, "was lost: only its mark")
    assert not (config.parent / "worker.db").exists()


@cases(
    "user, claimed, named",
    ("ann", None, "ann", "the kernel knows who"),
    ("worker", None, "user worker", "as in the container"),
    ("root", "ann", "root (claims to be ann)", "a variable that anybody can set"),
    ("ann", "ann", "ann", "no claim of another"),
)
def test_the_log_names_who_the_kernel_knows_and_marks_who_is_only_claimed(
    config: Path, monkeypatch: pytest.MonkeyPatch, user: str, claimed: str | None, named: str
) -> None:
    monkeypatch.setattr("worker.cli.common.pwd.getpwuid", lambda _: SimpleNamespace(pw_name=user))
    monkeypatch.setenv("USER", "somebody else")
    monkeypatch.delenv("SUDO_USER", raising=False) if claimed is None else monkeypatch.setenv("SUDO_USER", claimed)

    call("halt", "--because", "prices", config=config)
    call("resume", "--because", "mended", config=config)

    with open_reading(f"sqlite:///{config.parent}/worker.db") as ledger:
        said = [record["by"] for record in ledger.log(LogFilter()) if record["kind"] in ("halted", "resumed")]
    assert said[-2:] == [named, named]
