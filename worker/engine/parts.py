"""What every step of a cycle is built from, handed in as one: the three ports, the settings, the rules in force."""

from collections.abc import Callable
from dataclasses import dataclass, field

from worker.engine.ports import Clock, Ledger, Service
from worker.engine.settings import EngineSettings
from worker.model.rules import RuleSet
from worker.model.writes import Write


class RulesInUse:
    """The rule set in force; replaced as a whole by a successful load and by nothing else."""

    def __init__(self, rules: RuleSet) -> None:
        self.current = rules


def _nobody(_write: Write, _defect: Exception) -> None:
    """Nobody is told; for tests that look at the state instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """``stopping``: nothing new may be recorded any more. ``defect``: told of an exception that should not exist.
    ``scrubbed``: takes the secrets that the service's client has in hand out of a text."""

    clock: Clock
    service: Service
    ledger: Ledger
    settings: EngineSettings
    rules: RulesInUse = field(default_factory=lambda: RulesInUse(RuleSet()))
    stopping: Callable[[], bool] = lambda: False
    defect: Callable[[Write, Exception], None] = _nobody
    scrubbed: Callable[[str], str] = str
