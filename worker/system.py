"""The only file that reads clocks, sleeps and draws randomness.

Everything else is handed a `Clock` and a `random.Random`, so that the same code runs under virtual time. Monotonic time
is the boot clock where the system has one: it goes on while the machine sleeps, so a process that was suspended knows
how old its facts are.
"""

import random
import secrets
import time
from datetime import UTC, datetime


class SystemClock:
    """The real clock."""

    def now(self) -> datetime:
        """Wall time, aware, UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds that never go back, suspended time included where the system can tell."""
        boot = getattr(time, "CLOCK_BOOTTIME", None)
        return time.clock_gettime(boot) if boot is not None else time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Waits; not at all for nothing or less."""
        import asyncio  # noqa: PLC0415 - with TLS and all: most commands read a clock, and never wait by it

        await asyncio.sleep(max(0.0, seconds))


def new_random() -> random.Random:
    """A source of jitter. Not for secrets."""
    return random.Random()  # noqa: S311 - jitter only


def utc_now() -> datetime:
    """Wall time, for the commands that run once."""
    return datetime.now(UTC)


def pause(seconds: float) -> None:
    """Waits, in a command that has nothing else to do."""
    time.sleep(seconds)


def secret_text() -> str:
    """A text that nobody can guess, of letters, digits, - and _."""
    return secrets.token_urlsafe(32)
