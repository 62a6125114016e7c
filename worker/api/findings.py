"""What a probe finds out about one assumption, and the line of the config that says it."""

import json
from dataclasses import dataclass
from typing import Literal

from worker.api.assumptions import SETTLE
from worker.model.facts import Json

Says = Literal["confirmed", "refuted", "cannot be seen by reading"]
UNSEEN: Says = "cannot be seen by reading"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was found about one key. ``value``: what to write; ``known`` is false where only a person can say it."""

    key: str
    says: Says
    seen: str
    value: Json = None
    known: bool = True

    @property
    def line(self) -> str | None:
        """The line for the config, below ``assumptions:``; None where the value is not known."""
        if self.key == SETTLE:
            return f"safety: {{settle: {self.value}}}"
        return f"{self.key}: {json.dumps(self.value, ensure_ascii=False)}" if self.known else None
