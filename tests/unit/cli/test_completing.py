"""What a shell offers behind an option: the names that config, rules and ledger know."""

from collections.abc import Sequence
from pathlib import Path

from typer.testing import CliRunner

from tests.builders import cases
from worker.cli.app import app


def offered(config: Path, *words: str, begun: str = "") -> Sequence[str]:
    """What bash is told for these words, the last of which is only begun."""
    line = " ".join(["campaign-worker", "--config", str(config), *words, begun])
    asked = {"_CAMPAIGN_WORKER_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) + 3)}
    return CliRunner().invoke(app, [], prog_name="campaign-worker", env=asked).stdout.split()


@cases(
    "words, begun, names",
    (("writes", "--state"), "need", ["needs_human"], "a state"),
    (("log", "--kind"), "plan", ["planned"], "a kind"),
    (("writes", "--event"), "", ["e1"], "an event of a write"),
    (("log", "--rule"), "p", ["pause-cancelled"], "a rule that begins so"),
    (("log", "--rule"), "x", [], "no rule begins so"),
    (("approve", "--rule"), "", ["pause-cancelled"], "a rule to approve of"),
    (("explain", "--event"), "", ["e1"], "an event to explain"),
    (("halt", "--partner"), "", ["partner-id-acme"], "a partner"),
)
def test_names_are_completed(config: Path, words: tuple[str, ...], begun: str, names: list[str]) -> None:
    assert offered(config, *words, begun=begun) == names


def test_where_nothing_can_be_read_nothing_is_offered(tmp_path: Path) -> None:
    assert offered(tmp_path / "none.yaml", "log", "--rule") == []
