"""Where rules come from while the daemon runs, and which of them are in force."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from worker.model.facts import Json
from worker.model.moments import spelled
from worker.model.rules import RuleSet


class RuleSource(Protocol):
    """Where rules come from. ``changed`` is cheap; ``load`` raises `InputErrors` and changes nothing."""

    def files_hash(self) -> str: ...
    def load(self) -> RuleSet: ...


@dataclass(slots=True)
class RulesStatus:
    """Which rule set is in force, since when, and why the files on disk are not, and since when not."""

    hash: str
    files_hash: str
    loaded_at: datetime
    ids: tuple[str, ...] = ()
    error: str | None = None
    refused_at: datetime | None = None

    def said(self) -> dict[str, Json]:
        """What the daemon saves of them."""
        return {
            "hash": self.hash,
            "files_hash": self.files_hash,
            "loaded_at": spelled(self.loaded_at),
            "error": self.error,
            "ids": list(self.ids),
            "refused_at": spelled(self.refused_at),
        }
