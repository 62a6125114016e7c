"""Builds the page's parts from a config and a running daemon: keys, decisions, the rules in force, figures.

A decision from the page is an operator's decision: the same move by the same code, stored in a short transaction of its
own, which the daemon sees in its next cycle. The page never holds the ledger open for writing.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from worker.cli.common import amiss_with, engine_settings, ledger_url
from worker.cli.deciding import Chosen, decided, told
from worker.cli.wiring import operators_ledger
from worker.config import Config, SignIn, WebPage, resolve
from worker.engine.explaining import Seen, wanted_of
from worker.engine.operators import approved, rejected, resolved
from worker.ledger.browsing import open_browser
from worker.ledger.places import place_of, unread
from worker.logs import logger
from worker.model.commits import Move
from worker.model.errors import InputErrors, NotFound, UsageError
from worker.model.exchange import Clock
from worker.model.facts import PartnerId, RuleId
from worker.model.rules import RuleSet
from worker.model.writes import UNSETTLED, State, Write
from worker.rules.files import files_hash, read_files
from worker.system import SystemClock, secret_text, utc_now
from worker.web.app import application
from worker.web.door import NOBODY, SECRET_LENGTH_MIN, WRONG_MAX, Key, Keys, digest
from worker.web.metrics import Meter
from worker.web.pages import EVERY, NotAllowed, PageParts, Said, Samples
from worker.web.server import PageServer
from worker.web.views import RuleShown, RulesShown, cut

# The daemon's sign of life: a task on its loop that says when it last moved.
#
# A process can stand and do nothing: a loop that hangs neither decides nor settles, and looks well from outside. The
# page asks the pulse for ``/healthz``, and the service manager is told by it.

BEAT_S = 1.0


class Pulse:
    """Beats on the loop where `beating` runs; may be asked from any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = clock.monotonic()

    def silence(self) -> float:
        """For how long the loop has not moved, in seconds; less than a beat or two where all is well."""
        return self._clock.monotonic() - self._last

    async def beating(self, told: Callable[[], None] = lambda: None) -> None:
        """Beats until it is cancelled; ``told`` is called at every beat."""
        while True:
            self._last = self._clock.monotonic()
            told()
            await self._clock.sleep(BEAT_S)


def key_of(sign_in: SignIn) -> Key:
    """What opens the page. Raises `UsageError` for a secret that is missing or too short."""
    text = resolve(sign_in.secret, os.environ).reveal()
    if len(text) < SECRET_LENGTH_MIN:
        raise UsageError(
            f"{sign_in.secret.key} is shorter than {SECRET_LENGTH_MIN} characters",
            hint="whoever reaches the page may guess: make it long and random",
        )
    return Key(secret=digest(text), may=sign_in.may, up_to=sign_in.up_to)


class KeyRing:
    """Who may come in now. A file of a secret is read again when it has changed; while it cannot be read, or holds
    nothing that could be a secret, nobody comes in by it. Raises `UsageError` at first for what is no secret."""

    def __init__(self, web: WebPage) -> None:
        self._web = web
        self._read: dict[str, tuple[object, Key]] = {}
        for one in (*web.users.values(), *web.tokens.values()):
            self._read[one.secret.key] = (_signature(one), key_of(one))

    def __call__(self) -> Keys:
        """The keys of now."""
        users, tokens = (
            {name: self._key(one) for name, one in given.items()} for given in (self._web.users, self._web.tokens)
        )
        return Keys(users=users, tokens=tokens, hosts=self._web.hosts)

    def _key(self, sign_in: SignIn) -> Key:
        signature, key = self._read[sign_in.secret.key]
        found = _signature(sign_in)
        if found != signature:
            try:
                key = key_of(sign_in)
            except UsageError as error:
                key = Key(secret=NOBODY)
                logger().warning("page_secret_unusable", error=str(error), hint=error.hint)
            self._read[sign_in.secret.key] = (found, key)
        return key


def _signature(sign_in: SignIn) -> object:
    """What tells a changed file from the one that was read; the same for ever where no file is named."""
    if sign_in.secret.file is None:
        return None
    try:
        found = sign_in.secret.file.stat()
    except OSError as error:
        return error.errno
    return found.st_mtime_ns, found.st_size, found.st_ino


class Page:
    """The page that a config asks for. Raises `UsageError` for a secret that is missing or too short."""

    def __init__(self, config: Config, web: WebPage) -> None:
        self._config = config
        self._web = web
        self._keys = KeyRing(web)

    @contextmanager
    def beside(
        self,
        *,
        rules: Callable[[], RuleSet],
        pulse: Pulse,
        meter: Meter,
        alarm: Callable[[str, Mapping[str, object]], None],
    ) -> Iterator[None]:
        """Serves the page while the block lasts."""

        def refused(place: str, name: str, count: int) -> None:
            meter.sign_in_refused()
            if count in (1, WRONG_MAX):
                logger().warning("sign_in_refused", peer=place, name_given=name, in_a_minute=count)
            if count == WRONG_MAX:
                alarm("sign_ins_refused", {"peer": place, "in_a_minute": count})

        clock, samples, url = SystemClock(), Samples(), ledger_url(self._config)
        place = place_of(url)
        with open_browser(url) as ledger:
            parts = PageParts(
                ledger=ledger,
                decisions=PageDecisions(self._config),
                rules=lambda: rules_shown(self._config, rules()),
                in_force=rules,
                clock=clock,
                entropy=secret_text,
                silence=pulse.silence,
                interval=self._config.poll.interval,
                measured=lambda: meter.measured(ledger, clock.now()),
                amiss=lambda: amiss_with(ledger, place, unread(place)),
                deciding=engine_settings(self._config).deciding,
                keys=self._keys,
                refused=refused,
            )

            async def sampling() -> None:
                while True:
                    samples.take(ledger, clock.now())
                    await clock.sleep(EVERY.total_seconds())

            def failed(error: BaseException) -> None:
                logger().warning("page_failed", error=repr(error))
                alarm("page_failed", {"error": repr(error)})

            app = application(parts, samples)
            with PageServer(app, host=self._web.host, port=self._web.port, beside=sampling, failed=failed) as server:
                address = f"http://{_spelled(self._web.host)}:{server.port}/"
                logger().info("page", address=address, locked=self._keys().locked)
                yield


def rules_shown(config: Config, rules: RuleSet) -> RulesShown:
    """The rules in force, with their texts where the files still say what is in force."""
    try:
        texts = read_files(config.rules)
        same = files_hash(config.rules) == rules.hash
    except InputErrors:
        texts, same = {}, False
    return RulesShown(
        rules={
            str(rule.id): RuleShown(
                id=rule.id,
                description=rule.description,
                file=_relative(rule.file, config.folder),
                line=rule.line,
                mode=rule.mode or config.mode,
                enabled=rule.enabled,
                text=cut(texts.get(rule.file, ""), rule.line) if same else "",
            )
            for rule in rules.rules
        },
        same_as_files=same,
    )


class PageDecisions:
    """See `worker.web.pages.Decisions`."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._settings = engine_settings(config)

    def approve(self, ids: Sequence[int], said: Said) -> tuple[str, ...]:
        """As the command `approve`. Raises `NotAllowed` where one of them spends more than this operator may approve,
        or nobody knows how much."""

        def verdict(ledger: Seen, write: Write) -> Move:
            spent = wanted_of(ledger, write)
            if said.up_to is not None and (spent.unknown or (spent.amount or 0.0) > said.up_to):
                raise NotAllowed(
                    f"{said.by} may approve up to {said.up_to:g}, and write {write.id} {spent.spends}",
                    hint="ask somebody who may approve more (web.users in the config); nothing was changed",
                )
            return approved(write, because=said.because, by=said.by, now=utc_now(), amount=spent.amount)

        return self._decided(ids, ("waiting",), verdict)

    def reject(self, ids: Sequence[int], said: Said) -> tuple[str, ...]:
        """As the command `reject`."""
        states: tuple[State, ...] = ("waiting", "planned", "needs_human")
        return self._decided(
            ids, states, lambda _, write: rejected(write, because=said.because, by=said.by, now=utc_now())
        )

    def resolve(self, ids: Sequence[int], said: Said, *, applied: bool) -> tuple[str, ...]:
        """As the command `resolve`."""

        def verdict(_: Seen, write: Write) -> Move:
            return resolved(
                write, applied=applied, because=said.because, by=said.by, now=utc_now(), settings=self._settings
            )

        return self._decided(ids, ("needs_human",), verdict)

    def waiting_of(self, rule: str, *, up_to: int) -> tuple[int, ...]:
        """Only what the person has seen: a write that came since then was not meant."""
        with operators_ledger(self._config) as ledger:
            found = [one for one in ledger.open_writes() if one.state == "waiting" and one.key.rule == rule]
        return tuple(int(one.id) for one in found if one.id <= up_to)

    def halt(self, said: Said, *, partner: str, rule: str, lasting: timedelta | None) -> tuple[str, ...]:
        """As the command `halt`."""
        now = utc_now()
        with operators_ledger(self._config) as ledger:
            ledger.append_halt(
                partner=PartnerId(partner) if partner else None,
                rule=RuleId(rule) if rule else None,
                until=None if lasting is None else now + lasting,
                because=said.because,
                by=said.by,
                at=now,
            )
            flying = [one for one in ledger.open_writes() if one.state in UNSETTLED]
        return ("halted", *(f"not settled: write {one.id}, {one.state}" for one in flying[:20]))

    def resume(self, said: Said, *, partner: str, rule: str) -> tuple[str, ...]:
        """As the command `resume`."""
        with operators_ledger(self._config) as ledger:
            ended = ledger.resume_halts(
                partner=PartnerId(partner) if partner else None,
                rule=RuleId(rule) if rule else None,
                because=said.because,
                by=said.by,
                at=utc_now(),
            )
        if not ended:
            raise NotFound("no such halt is in force", hint="somebody else has ended it; look again")
        return tuple(f"resumed: {one.partner or 'every partner'}, {one.rule or 'every rule'}" for one in ended)

    def _decided(
        self, ids: Sequence[int], states: tuple[State, ...], verdict: Callable[[Seen, Write], Move]
    ) -> tuple[str, ...]:
        if not ids:
            raise UsageError("no write was named", hint="go back and reload")
        with operators_ledger(self._config) as ledger:
            moves = decided(ledger, Chosen(ids=tuple(ids), states=states), verdict)
            return tuple(line.replace(" -> ", " → ") for line in told(ledger, moves))


def _relative(file: str, folder: Path) -> str:
    path = Path(file)
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path)


def _spelled(host: str) -> str:
    return f"[{host}]" if ":" in host else host
