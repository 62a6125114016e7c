"""The life of a write in plain letters, for a terminal at night: from the table of states, and what commands really do.

docs/operating.md is written by hand; what stands between its two marks is made here, and the gate compares. The drawn
picture, docs/life.svg, is drawn by hand; a test compares its arrows with the same table.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Final

from tests.builders import NOW, RULE, a_policy, a_write
from tests.reference.pages import ROOT
from tests.unit.engine.ruletest_bench import SETTINGS
from worker.engine.operators import Word, approved, rejected, resolved
from worker.engine.planning import edits_of
from worker.model.rules import RuleSet
from worker.model.writes import FINAL, State, Write
from worker.writes.evidence import Evidence, TargetRead
from worker.writes.life import MOVES, Settling, advance

FILE: Final = ROOT / "docs" / "operating.md"
BEGIN: Final = "<!-- Made by `make docs` from the table of states. -->"
END: Final = "<!-- Until here. -->"
WAY: Final[tuple[State, ...]] = ("planned", "sending", "applied", "confirmed")
"""What a write passes through on an ordinary day."""

_WORD: Final = {"because": "looked", "by": "ann", "now": NOW}
COMMANDS: Final[Mapping[str, tuple[tuple[State, ...], Callable[[Write], State]]]] = {
    "approve": (("waiting",), lambda write: approved(write, **_WORD).after.state),  # type: ignore[arg-type]
    "reject": (("waiting", "planned", "needs_human"), lambda write: rejected(write, **_WORD).after.state),  # type: ignore[arg-type]
    "resolve --applied": (("needs_human",), lambda write: _resolved(write, applied=True)),
    "resolve --not-applied": (("needs_human",), lambda write: _resolved(write, applied=False)),
}
"""What a person can say, of a write in which states, and what becomes of the write then."""


def _resolved(write: Write, *, applied: bool) -> State:
    verdict = resolved(write, Word(because="looked", by="ann", at=NOW), applied=applied, settings=SETTINGS)
    return verdict.after.state


def also_by_itself() -> frozenset[tuple[State, State]]:
    """Moves that a command makes and that also come without one: a read shows the effect after all, a rule is gone."""
    look = TargetRead(began=2.0, evidence=Evidence(says="there", why="seen"))
    shown = advance(a_write(state="needs_human"), Settling(ended=1.0), look, a_policy(), (NOW, 3.0)).move
    waits = replace(a_write(state="waiting"), attempt=0, rules=(RULE,))
    gone = [one.change for one in edits_of(RuleSet(), [waits], {}, NOW)]
    return frozenset((one.before.state, one.after.state) for one in (shown, *gone) if one is not None)


def said_by_a_person() -> dict[tuple[State, State], list[str]]:
    """The moves that a command makes, and which command."""
    found: dict[tuple[State, State], list[str]] = {}
    for command, (states, becomes) in COMMANDS.items():
        for state in states:
            write = a_write(state=state)
            if state in ("planned", "waiting"):
                write = replace(write, attempt=0)
            found.setdefault((state, becomes(write)), []).append(command)
    return found


def spelled() -> str:
    """The same in plain letters: what goes by itself, what a person decides, and the ends."""
    people = said_by_a_person()
    mine = {pair for pair in people if pair[0] in YOURS} - also_by_itself()
    by_itself = [f"  {' --> '.join(WAY)}"]
    for state, after in MOVES.items():
        others = [to for to in after if (state, to) not in mine and not _on_the_way(state, to)]
        if others:
            by_itself.append(f"  {state:<12} --> {', '.join(others)}")
    decided = [
        f"  {state:<12} {' or '.join(commands):<24} --> {to}"
        for (state, to), commands in people.items()
        if state in YOURS
    ]
    ends = [f"  {state}" for state in MOVES if state in FINAL]
    parts = ("by itself", *by_itself, "", "by you", *decided, "", "the end", "  " + ", ".join(e.strip() for e in ends))
    return "\n".join(("```text", *parts, "```"))


YOURS: Final = frozenset({"waiting", "needs_human"})


def _on_the_way(state: State, to: State) -> bool:
    return (state, to) in pairwise(WAY)


def pictures() -> str:
    """Everything between the marks."""
    return f"{BEGIN}\n\n{spelled()}\n\n{END}"


def text() -> str:
    """The whole page, with the pictures as they are now."""
    page = FILE.read_text("utf-8")
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + pictures() + after
