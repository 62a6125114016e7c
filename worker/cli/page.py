"""Builds the page's parts from a config and a running daemon: keys, decisions, the rules in force, figures.

A decision from the page is an operator's decision: the same move by the same code, stored in a short transaction of its
own, which the daemon sees in its next cycle. The page never holds the ledger open for writing.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from ipaddress import ip_network
from pathlib import Path
from subprocess import DEVNULL, PIPE
from threading import Thread

from worker.cli import decisions
from worker.cli.common import amiss_with, clock_of, engine_settings, ledger_url
from worker.cli.trial import for_a_child
from worker.cli.wiring import operators_ledger
from worker.config import Config, SignIn, WebPage, resolve
from worker.config.addresses import host_and_port
from worker.engine.daemon import Daemon
from worker.engine.operators import Word
from worker.ledger.browsing import open_browser
from worker.ledger.places import files_of, unread
from worker.logs import logger
from worker.model.errors import NotFound, UsageError
from worker.system import secret_text
from worker.web.app import PageServer, application
from worker.web.door import NOBODY, SECRET_LENGTH_MIN, WRONG_MAX, Key, Keys, Visitor, digest
from worker.web.metrics import Meter
from worker.web.pages import Act, PageParts
from worker.web.views import SeenByTests, iso

TESTS_WITHIN_S = 120.0


class ServedPage:
    """The page that a config asks for. Raises `UsageError` for a secret that is missing or too short."""

    def __init__(self, config: Config, web: WebPage) -> None:
        self._config = config
        self._web = web
        self._keys = KeyRing(web)

    @contextmanager
    def served(
        self, daemon: Daemon, silence: Callable[[], float], meter: Meter, alarm: Callable[..., None]
    ) -> Iterator[None]:
        """Serves the page while the block lasts."""
        clock, url = daemon.clock, ledger_url(self._config)

        def refused(peer: str, name: str, count: int) -> None:
            meter.sign_in_refused()
            if count == 1:
                logger().warning("sign_in_refused", peer=peer, name_given=name, in_a_minute=count)
            if count == WRONG_MAX:
                alarm("sign_ins_refused", peer=peer, in_a_minute=count)

        def failed(error: BaseException) -> None:
            alarm("page_failed", error=repr(error))

        with open_browser(url) as ledger, closing(RuleTestRun(self._config)) as tested:
            parts = PageParts(
                ledger=ledger,
                decide=partial(decide, self._config),
                in_force=lambda: daemon.rules,
                rules_at=self._config.rules,
                clock=clock,
                entropy=secret_text,
                silence=silence,
                interval=self._config.poll.interval,
                measured=lambda: meter.measured(ledger, clock.now()),
                amiss=lambda: amiss_with(ledger, url, unread(files_of(url))),
                deciding=engine_settings(self._config).deciding,
                tested=tested,
                keys=self._keys,
                refused=refused,
            )

            app, (host, port) = application(parts), host_and_port(self._web.listen)
            with PageServer(app, host=host, port=port, failed=failed) as server:
                named = f"[{host}]" if ":" in host else host
                logger().info("page", address=f"http://{named}:{server.port}/", locked=self._keys().locked)
                yield


class RuleTestRun:
    """What the rule tests say of the rules in force: run by a process of their own when somebody looks, once for each
    state of the files, so that the daemon is never held up by them."""

    def __init__(self, config: Config) -> None:
        self._command = [sys.executable, "-m", "worker", "--config", str(config.file), "test", "--format", "json"]
        self._folder = config.rules
        self._of: object = None
        self._child: subprocess.Popen[bytes] | None = None
        self._found = SeenByTests(state="running")

    def __call__(self, rules: str) -> SeenByTests:
        """What is known by now. ``rules``: the hash of those in force."""
        files = [(str(one), changed_at(one)) for one in self._folder.rglob("tests/**/*.yaml")]
        if (now := (rules, sorted(files))) != self._of:
            self.close()
            if self._of is not None:
                self._found = SeenByTests(state="running")
            self._of = now
            Thread(target=self._run, name="rule tests", daemon=True).start()
        return self._found

    def close(self) -> None:
        """Nobody looks any more."""
        if self._child is not None:
            self._child.kill()

    def _run(self) -> None:
        of = self._of
        command, env = self._command, for_a_child()
        with subprocess.Popen(command, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL, env=env) as child:  # noqa: S603 - ourselves
            self._child = child
            try:
                said = json.loads(child.communicate(timeout=TESTS_WITHIN_S)[0] or b"null")
            except (subprocess.TimeoutExpired, ValueError):
                child.kill()
                said = None
        if of == self._of:
            self._found = SeenByTests.of(said) if child.returncode in (0, 1) and said else SeenByTests(state="failed")
            if child.returncode < 0:  # it took too long, or the machine had no room for it: not so the next time
                self._of = None


def changed_at(file: Path) -> int | None:
    """When a file was changed, in nanoseconds; None where it is gone by now, or a link to nothing."""
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return None


def decide(config: Config, act: Act, visitor: Visitor) -> list[str]:
    """What a form asks for, as the commands do it. Raises `WorkerError` with nothing changed."""
    word = Word(because=act.because, by=f"{visitor.name} (page)", at=clock_of(config).now())
    ids = _as_shown(config, act) if act.what not in ("halt", "resume") else ()
    match act.what:
        case "approve":
            return decisions.approve_writes(config, ids, word, up_to=visitor.up_to, shown=act.shown)
        case "reject":
            return decisions.reject_writes(config, ids, word)
        case "applied" | "not_applied":
            return decisions.resolve_writes(config, ids, word, applied=act.what == "applied")
        case "undo":
            return decisions.undo_writes(config, ids, word)
        case "halt":
            return decisions.halt_writes(config, word, act.partner or None, act.rule or None, act.lasting)
        case "resume":
            return decisions.resume_writes(config, word, act.partner or None, act.rule or None, act.ids)
        case other:
            raise UsageError(f"there is no decision {other!r}")


def _as_shown(config: Config, act: Act) -> Sequence[int]:
    """The writes that are meant; of a whole rule those that wait still. What has changed since it was shown is another
    question: somebody looked before an attempt that has left since. Raises `NotFound` where nothing else is meant."""
    with operators_ledger(config) as ledger:
        writes = decisions.numbered(ledger, act.ids)
    moved = [one for one in writes if act.stood.get(int(one.id)) not in (None, iso(one.changed_at))]
    if moved and not act.rule:
        why = f"write {moved[0].id} has changed since it was shown, and is {moved[0].state} now; nothing was changed"
        raise NotFound(why, hint="look at it again")
    of_rule = [one for one in writes if one.state == "waiting" and one.key.rule == act.rule and one not in moved]
    meant = [int(one.id) for one in of_rule] if act.rule else act.ids
    if not meant:
        raise NotFound("no write was named that waits still", hint="go back and reload")
    return meant


def key_of(sign_in: SignIn) -> Key:
    """What opens the page. Raises `UsageError` for a secret that is missing or too short."""
    may = frozenset(sign_in.may)
    if sign_in.secret is None:
        return Key(secret=NOBODY, may=may, up_to=sign_in.up_to)
    text = resolve(sign_in.secret, os.environ).reveal()
    if len(text) < SECRET_LENGTH_MIN:
        hint = "whoever reaches the page may guess: make it long and random"
        raise UsageError(f"{sign_in.secret.key} is shorter than {SECRET_LENGTH_MIN} characters", hint=hint)
    return Key(secret=digest(text), may=may, up_to=sign_in.up_to)


class KeyRing:
    """Who may come in now: secrets are read for every request, so that a changed file counts at once. While one cannot
    be read, or holds nothing that could be a secret, nobody comes in by it. Raises `UsageError` at first."""

    def __init__(self, web: WebPage) -> None:
        self._web = web
        self._unusable: set[str] = set()
        self._proxies = tuple(map(ip_network, web.proxy.addresses)) if web.proxy is not None else ()
        sign_ins: tuple[SignIn, ...] = (*web.users.values(), *web.tokens.values())
        for one in sign_ins:
            key_of(one)

    def __call__(self) -> Keys:
        """The keys of now."""
        return Keys(
            users={name: self._key(one) for name, one in self._web.users.items()},
            tokens={name: self._key(one) for name, one in self._web.tokens.items()},
            hosts=frozenset(self._web.hosts),
            proxies=self._proxies,
            named_in=self._web.proxy.header if self._web.proxy is not None else "",
        )

    def _key(self, sign_in: SignIn) -> Key:
        name = sign_in.secret.key if sign_in.secret is not None else ""
        try:
            key = key_of(sign_in)
        except UsageError as error:
            if name not in self._unusable:
                logger().warning("page_secret_unusable", error=str(error), hint=error.hint)
                self._unusable.add(name)
            return Key(secret=NOBODY)
        self._unusable.discard(name)
        return key
