"""How a moment is spelled wherever people and programs read it, as ISO 8601 with a Z for UTC."""

from datetime import UTC, datetime
from typing import overload

BEFORE_ALL = datetime.min.replace(tzinfo=UTC)
"""Earlier than any other."""


@overload
def spelled(at: datetime) -> str: ...
@overload
def spelled(at: None) -> None: ...
def spelled(at: datetime | None) -> str | None:
    """``2026-03-01T12:00:00Z``; None for no moment. A fraction of a second is kept as it is."""
    return None if at is None else at.isoformat().replace("+00:00", "Z")
