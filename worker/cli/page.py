"""Builds the page's parts from a config and a running daemon: keys, decisions, the rules in force, figures.

A decision from the page is an operator's decision: the same move by the same code, stored in a short transaction of its
own, which the daemon sees in its next cycle. The page never holds the ledger open for writing.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from worker.cli.common import amiss_with, engine_settings, ledger_url
from worker.cli.decisions import approve_writes, halt_writes, reject_writes, resolve_writes, resume_writes
from worker.cli.wiring import operators_ledger
from worker.config import Config, SignIn, WebPage, resolve
from worker.engine.operators import Word
from worker.ledger.browsing import open_browser
from worker.ledger.places import place_of, unread
from worker.logs import logger
from worker.model.errors import InputErrors, NotFound, UsageError
from worker.model.exchange import Clock
from worker.model.rules import RuleSet
from worker.rules.files import files_hash, read_files
from worker.system import SystemClock, secret_text, utc_now
from worker.web.app import application
from worker.web.door import NOBODY, SECRET_LENGTH_MIN, WRONG_MAX, Key, Keys, Visitor, digest
from worker.web.metrics import Meter
from worker.web.pages import Act, PageParts, Samples
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
                decide=partial(decide, self._config),
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
                    await clock.sleep(Samples.EVERY.total_seconds())

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


def decide(config: Config, act: Act, visitor: Visitor) -> list[str]:
    """What a form asks for, as the commands do it. Raises `WorkerError` with nothing changed."""
    word = Word(because=act.because, by=f"{visitor.name} (page)", at=utc_now())
    if act.what in ("halt", "resume"):
        partner, rule = act.partner or None, act.rule or None
        if act.what == "resume":
            return resume_writes(config, word, partner, rule)
        return halt_writes(config, word, partner, rule, act.lasting)
    ids = _seen_waiting(config, act.rule, act.up_to) if act.rule else act.ids
    if not ids:
        raise UsageError("no write was named", hint="go back and reload")
    if act.what == "approve":
        return approve_writes(config, ids, word, up_to=visitor.up_to)
    if act.what == "reject":
        return reject_writes(config, ids, word)
    return resolve_writes(config, ids, word, applied=act.what == "applied")


def _seen_waiting(config: Config, rule: str, up_to: int) -> list[int]:
    """The writes of a rule that wait and that the person has seen: one that came since then was not meant."""
    with operators_ledger(config) as ledger:
        waiting = [one for one in ledger.open_writes() if one.state == "waiting" and one.key.rule == rule]
    found = [int(one.id) for one in waiting if one.id <= up_to]
    if not found:
        raise NotFound(f"rule {rule} has no write that waits any more", hint="look again")
    return found


def _relative(file: str, folder: Path) -> str:
    path = Path(file)
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path)


def _spelled(host: str) -> str:
    return f"[{host}]" if ":" in host else host
