"""What several commands need: the config's ledger, times, durations and reasons as people type them, who is asking."""

import os
import pwd
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from worker.cli.app import Invocation
from worker.cli.configs import config_from
from worker.cli.opening import ledger_url
from worker.cli.output import say
from worker.config import Config
from worker.ledger.holding import exchanged, unread
from worker.ledger.places import FOLDER_HINT, LedgerPlace, no_folder, place_of
from worker.ledger.reading import LedgerReader, open_reading
from worker.model.errors import NotFound, NotSafe, UsageError
from worker.model.ids import PartnerId
from worker.model.records import WORKER
from worker.rules.durations import parse_duration
from worker.system import utc_now

LEDGER_HINT = "`campaign-worker run` makes it, --config names another config"


def config_of(invocation: Invocation) -> Config:
    """The config, checked; every mistake at once as `InputErrors`."""
    return config_from(invocation.config_path)


def reader_of(invocation: Invocation) -> LedgerReader:
    """The ledger for reading, beside a running daemon or without one. Needs no credentials."""
    url = ledger_url(config_of(invocation))
    other = unread(place_of(url))
    ledger = open_reading(url)
    say_no_ledger(url)
    amiss = amiss_with(ledger, place_of(url), other)
    if amiss is not None:
        say(amiss)
    return ledger


def amiss_with(ledger: LedgerReader, place: LedgerPlace, other: NotSafe | None = None) -> str | None:
    """What is said of a ledger that can be read, and is not the one that the daemon runs on or could be started on.
    ``other``: what was `unread` before it was opened."""
    other = other or exchanged(place)
    if other is not None:
        return f"{other}: {other.hint}"
    refused = ledger.refused()
    if refused is None:
        return None
    return f"{refused}; `campaign-worker run` will refuse it: {refused.hint}"


def say_no_ledger(url: str) -> None:
    """A wrong folder looks like a worker that never did anything, so it is said that there is no ledger."""
    place = place_of(url)
    missing = no_folder(place)
    if missing is not None:
        say(f"{missing}: {FOLDER_HINT}")
    elif not place.file.exists():
        say(f"there is no ledger {place.file} yet; {LEDGER_HINT}")


def no_ledger(url: str) -> NotFound:
    """The error where what is asked for needs a ledger, and there is none."""
    place = place_of(url)
    missing = no_folder(place)
    if missing is not None:
        return NotFound(missing, hint=FOLDER_HINT)
    return NotFound(f"there is no ledger {place.file}", hint=LEDGER_HINT)


def moment(text: str | None, option: str) -> datetime | None:
    """A time as people type it: ``2h`` ago, or an ISO time. Raises `UsageError`."""
    if text is None:
        return None
    with suppress(ValueError):
        return utc_now() - parse_duration(text)
    try:
        at = datetime.fromisoformat(text)
        return at.astimezone(UTC) if at.tzinfo is not None else at.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        hint = "write how long ago (30m, 2h, 7d) or a time (2026-03-01T12:00:00Z)"
        raise UsageError(f"{option}: {text!r} is no time", hint=hint) from error


def duration(text: str | None, option: str) -> timedelta | None:
    """A duration as in the config. Raises `UsageError`."""
    if text is None:
        return None
    try:
        found = parse_duration(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error
    if not found:
        raise UsageError(f"{option}: must be longer than 0s")
    return found


def given(because: str) -> str:
    """The reason that an operator gives, which must say something. Raises `UsageError`."""
    if not because.strip():
        raise UsageError("--because is empty", hint="write why; whoever reads the log will ask")
    return because


def operator() -> str:
    """Who is asking, for the log: the user of the system, whom the kernel knows; and beside it, as a claim, who sudo
    says it was. Never the worker itself, though its user in a container is called that."""
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        user = f"uid {os.getuid()}"
    claimed = os.environ.get("SUDO_USER")
    named = f"user {user}" if user == WORKER else user
    return f"{named} (claims to be {claimed})" if claimed and claimed != user else named


def looked_at(ledger: LedgerReader, partner: PartnerId) -> datetime | None:
    """The newest complete list that the ledger knows of."""
    said = ledger.status()
    partners = said.body.get("partners") if said is not None else None
    one = partners.get(partner) if isinstance(partners, dict) else None
    last = one.get("last_ok_at") if isinstance(one, dict) else None
    memory = ledger.partner_memory(partner)
    found = [datetime.fromisoformat(last)] if isinstance(last, str) else []
    if memory is not None and memory.listed_at is not None:
        found.append(memory.listed_at)
    return max(found, default=None)
