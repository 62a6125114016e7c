"""Every broken rule file in tests/broken_rules/, and what `check` says of it: written down, and read by people."""

from pathlib import Path

import pytest

from tests.broken_rules.__main__ import cases, found_in, golden, said
from worker.model.errors import CODES


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.stem)
def test_what_is_said_of_a_broken_rule_is_what_was_agreed(case: Path) -> None:
    stands = golden(case).read_text("utf-8") if golden(case).exists() else ""
    assert said(case) == stands, "read what is said now; if it is better, `make golden` writes it down"
    problems = found_in(case).problems
    assert problems, "a broken rule is told"
    assert all(one.hint for one in problems), "each with what to do about it"
    assert all(
        one.line and one.column and one.source for one in problems if one.code not in ("ending", "untested", "empty")
    )


def test_the_broken_rules_are_many_and_of_every_kind() -> None:
    assert len(cases()) >= 50
    told = {one.code for case in cases() for one in found_in(case).problems}
    of_config = {"config", "exposed", "network_disk"}
    of_tests = {"rule", "event", "reason", "state", "answer"}
    assert told >= set(CODES) - of_config - of_tests - {"later", "file", "budget"}
