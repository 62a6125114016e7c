"""What is said where the ledger holds something that this program cannot have written.

SQLite keeps no checksums of its file, so a disk that changes a bit is noticed only where the changed value makes no
sense: JSON that is none, a time that is none, a state that no write can be in. Such a value is never repaired and never
passed on; whoever asked is told that the ledger is damaged. What still makes sense is taken as it stands: in the action
log the chain shows it (``log --verify``), in the other tables nothing does.
"""

from collections.abc import Callable
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from worker.model.errors import LedgerDamaged

P = ParamSpec("P")
T = TypeVar("T")
DAMAGED_HINT: Final = (
    "nothing is sent. Keep the file, with its -wal and -shm, in another place, put the newest backup where it was, and "
    "go on with `campaign-worker ledger accept-restore`; never with an empty ledger, it would do again what was done"
)


def damaged(why: object, name: str = "the ledger") -> LedgerDamaged:
    """The error that says so."""
    return LedgerDamaged(f"{name} is damaged: {why}", hint=DAMAGED_HINT)


def readable(read: Callable[P, T]) -> Callable[P, T]:
    """For what makes values of a stored row: whatever such a row cannot be made into is damage, and no defect."""

    @wraps(read)
    def reading(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return read(*args, **kwargs)
        except LedgerDamaged:
            raise
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise damaged(f"a stored value cannot be read: {error}") from error

    return reading
