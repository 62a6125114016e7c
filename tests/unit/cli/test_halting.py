"""`halt` on a bad night: it is there to stop money, so nothing that can wait may keep it from doing so."""

from pathlib import Path

import pytest

from tests.calling import call
from tests.unit.ledger.examples import NOW, open_ledger

BECAUSE = ("--because", "looking into it")


def halts(config: Path) -> int:
    """How many halts the ledger of this folder holds."""
    with open_ledger(config.parent) as ledger:
        return len(ledger.halts(NOW))


@pytest.mark.parametrize(
    ("text", "said", "reason"),
    [
        ("mode: lve\n", "config.yaml:1:7: mode is one of", "a value that is half typed"),
        ("safty: {settle: 2m}\nledger: sqlite:///worker.db\n", "unknown key 'safty'", "a key that nobody knows"),
        ("api: {base_url: http://example.com}\n", "must begin with https://", "what spans several keys"),
        ("assumptions: {nothing: 1}\n", "there is no assumption 'nothing'", "the register of assumptions"),
        ("rules: [a]\n", "rules must be a text", "the rules are nothing that a halt needs"),
    ],
)
def test_a_config_with_mistakes_keeps_nobody_from_halting(config: Path, text: str, said: str, reason: str) -> None:
    config.write_text(text, encoding="utf-8")

    done = call("halt", *BECAUSE, config=config)

    assert (done.code, halts(config)) == (0, 1), reason
    assert said in done.err
    assert "a halt needs nothing of the config but the ledger, and goes on\n" in done.err
    assert call("resume", *BECAUSE, config=config).code == 2, "what lets go again can wait for a config that is right"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ledger: worker.db\n", "the ledger itself is what is wrong"),
        ("ledger: [worker.db]\n", "and so here"),
        ("leger: sqlite:///other.db\nmode: live\n", "another ledger may be meant than the default"),
        ("mode: [\n", "no YAML at all"),
        ("mode\n", "no mapping"),
    ],
)
def test_where_the_ledger_is_in_doubt_nothing_is_said_to_be_halted(config: Path, text: str, reason: str) -> None:
    config.write_text(text, encoding="utf-8")

    done = call("halt", *BECAUSE, config=config)

    assert (done.code, halts(config)) == (2, 0), reason
    assert "nothing was halted: this config leaves in doubt where the ledger is" in done.err
    assert "kill PID" in done.err
    assert "config.yaml:" in done.err
