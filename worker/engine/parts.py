"""What every step of a cycle is built from, handed in as one: the three ports, the settings, the rules in force."""

from collections.abc import Callable
from dataclasses import dataclass, field

from worker.engine.decide import Decision
from worker.engine.ports import Clock, Ledger, Notifier, Service
from worker.engine.settings import EngineSettings
from worker.model.errors import UsageError
from worker.model.exchange import Message
from worker.model.rules import RuleSet
from worker.model.writes import Write
from worker.rules.mentions import Fields, worth_keeping


class RulesInUse:
    """The rule set in force; replaced as a whole by a successful load and by nothing else."""

    def __init__(self, rules: RuleSet) -> None:
        self.current = rules
        self._needed: tuple[RuleSet, Fields] | None = None

    @property
    def needed(self) -> Fields:
        """The fields of an event's record that rules look at or that are kept; None for all of them."""
        if self._needed is None or self._needed[0] is not self.current:
            self._needed = (self.current, worth_keeping(self.current.rules).get("event"))
        return self._needed[1]


def _nobody(_write: Write, _defect: Exception) -> None:
    """Nobody is told; for tests that look at the state instead."""


class Nowhere:
    """The notifier of a worker that was given none: it takes no message, so that none is called delivered."""

    async def hand_over(self, message: Message) -> None:
        """Raises `UsageError`: the message is held."""
        raise UsageError(f"nobody takes messages here: {message.text}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """``notifier``: who takes the messages of rules. ``stopping``: nothing new may be recorded any more. ``defect``:
    told of an exception that should not exist. ``scrubbed``: takes the secrets that the service's client has in hand
    out of a text. ``decided``: told of every decision once it is stored; ``tending``: told within the task of a write
    that it begins."""

    clock: Clock
    service: Service
    ledger: Ledger
    settings: EngineSettings
    notifier: Notifier = field(default_factory=Nowhere)
    rules: RulesInUse = field(default_factory=lambda: RulesInUse(RuleSet()))
    stopping: Callable[[], bool] = lambda: False
    defect: Callable[[Write, Exception], None] = _nobody
    scrubbed: Callable[[str], str] = str
    decided: Callable[[Decision], None] = lambda _decision: None
    tending: Callable[[Write], None] = lambda _write: None
