"""Real processes for the acceptance tests: a sandbox, a worker, and what one asks of them from outside.

The worker is judged only by what an operator could see: exit codes, stderr, the commands' data, and the sandbox's own
books. Waiting is always for something, with a limit, and never for a length of time.
"""

import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.calling import call
from tests.worlds import PAUSE
from worker.cli.run import SOCKET_ENV

WORKER = (sys.executable, "-m", "worker")
FIRST, SECOND = "partner-id-aurora-live", "partner-id-harbour-hall"
"""The partners of a sandbox."""
LIMIT_S = 60.0
CHECK_EVERY_S = 0.2

BOOST = """
rules:
  - id: boost-drafts
    when: event.status == 'active' && setup.state == 'DRAFT' && event.title == 'boost me'
    do: [boost]
"""


def until(true: Callable[[], Any], what: str, limit_s: float = LIMIT_S) -> Any:
    """Waits for something to become true, and returns it."""
    ends = time.monotonic() + limit_s
    while time.monotonic() < ends:
        value = true()
        if value:
            return value
        time.sleep(CHECK_EVERY_S)
    raise AssertionError(f"within {limit_s} s never: {what}")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as held:
        return int(held.getsockname()[1])


@dataclass(slots=True)
class Sandbox:
    base_url: str
    cr_url: str
    control: str
    process: "subprocess.Popen[str]"

    def get(self, what: str) -> Any:
        answer = httpx.get(f"{self.control}/_sandbox/{what}", timeout=10)
        answer.raise_for_status()
        return answer.json()

    def await_look(self) -> None:
        """Returns when the list of events has just been asked for once more: nearly an interval is left until it is
        again, so that what is changed now is seen together."""
        seen = self._lists()
        until(lambda: self._lists() > seen, "another look")

    def _lists(self) -> int:
        return sum(1 for one in self.get("requests") if one["path"].endswith("/events/"))

    def post(self, what: str, body: Mapping[str, Any]) -> None:
        answer = httpx.post(f"{self.control}/_sandbox/{what}", json=body, timeout=10)
        assert answer.is_success, answer.text

    def set(self, event: str, partner: str = FIRST, **fields: Any) -> None:
        self.post("change", {"event": event, "partner": partner, "set": fields})

    def cancel(self, event: str, partner: str = FIRST) -> None:
        self.set(event, partner, status="cancelled")

    def fault(self, kind: str, method: str, path: str, **more: Any) -> None:
        self.post("faults", {"kind": kind, "match": {"method": method, "path": path}, **more})

    def effects(self, target: str | None = None) -> list[dict[str, Any]]:
        effects: list[dict[str, Any]] = self.get("books")["list"]
        return [one for one in effects if target is None or one["target"] == target]


@contextmanager
def sandbox(
    folder: Path, *options: str, story: str | None = "story: []\n", forgiven: Sequence[str] = ()
) -> Iterator[Sandbox]:
    """A sandbox of its own on a free port; checked at the end for bad manners of its client, but those ``forgiven``."""
    arguments = [*WORKER, "sandbox", "--port", "0", *options]
    if story is not None:
        path = folder / "story.yaml"
        path.write_text(story, encoding="utf-8")
        arguments += ["--story", str(path)]
    process = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)
    try:
        found: dict[str, str] = {}
        while len(found) < 3:
            line = process.stderr.readline() if process.stderr else ""
            assert line, f"the sandbox ended with {process.wait()}"
            name, _, value = line.strip().partition(": ")
            if name in ("base_url", "cr_url", "media_url"):
                found[name] = value
        control = re.sub(r"/api/v3$", "", found["base_url"])
        running = Sandbox(base_url=found["base_url"], cr_url=found["cr_url"], control=control, process=process)
        yield running
        broken = [one for one in running.get("violations") if one["kind"] not in forgiven]
        assert broken == [], f"the worker broke a rule of the service's document: {broken}"
    finally:
        process.terminate()
        process.wait(timeout=20)
        if process.stderr is not None:
            process.stderr.close()


@contextmanager
def supervised(folder: Path, where: "Home") -> Iterator[list[tuple[str, float]]]:
    """A socket in the place of systemd's, and what the daemons of this home told it so far, each with its moment."""
    heard: list[tuple[str, float]] = []
    over = threading.Event()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.bind(str(folder / "notify"))
        line.settimeout(CHECK_EVERY_S)
        where.environment[SOCKET_ENV] = str(folder / "notify")

        def listen() -> None:
            while not over.is_set():
                with suppress(TimeoutError):
                    heard.extend((word, time.monotonic()) for word in line.recv(4096).decode().splitlines())

        listening = threading.Thread(target=listen)
        listening.start()
        try:
            yield heard
        finally:
            over.set()
            listening.join()


@dataclass(slots=True)
class Home:
    """A folder with a config, rules and a ledger, as an operator has one."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def config(self) -> Path:
        return self.folder / "config.yaml"

    def told(self, more: str) -> None:
        with self.config.open("a", encoding="utf-8") as config:
            config.write(f"{more}\n")

    def rule(self, text: str, name: str = "rules.yaml") -> None:
        (self.folder / "rules").mkdir(exist_ok=True)
        (self.folder / "rules" / name).write_text(text, encoding="utf-8")

    def call(
        self, *arguments: str, check: int | None = 0, limit_s: float = LIMIT_S
    ) -> "subprocess.CompletedProcess[str]":
        """Runs a command to its end; ``check`` is the exit code it must have.

        `run` is a process of its own. The others are asked again and again while something is waited for, and a new
        interpreter for each would cost more than all else: they run in this process, which is another than the
        daemon's, through the very door that the shell uses.
        """
        command = [*WORKER, "--config", str(self.config), *arguments]
        if arguments[0] == "run":
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=limit_s, env=self.environ(), check=False
            )
        else:
            told = call(*arguments, config=self.config)
            done = subprocess.CompletedProcess(command, told.code, told.out, told.err)
        if check is not None:
            assert done.returncode == check, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def json(self, *arguments: str) -> Any:
        return json.loads(self.call(*arguments, "--format", "json").stdout)

    def log(self, *arguments: str) -> list[dict[str, Any]]:
        text = self.call("log", *arguments, "--format", "jsonl").stdout
        return [json.loads(line) for line in text.splitlines()]

    def writes(self, *arguments: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.json("writes", *arguments)
        return found

    @property
    def states(self) -> list[str]:
        return [one["state"] for one in self.writes()]

    def comes_to(self, *states: str) -> None:
        until(lambda: self.states == [*states], f"{states}")

    def watches(self) -> None:
        """Waits for the daemon's first look."""
        until(lambda: (self.folder / "worker.db").exists() and self.json("status")["partners"], "it watches")

    @contextmanager
    def worker(self, *options: str) -> Iterator["Worker"]:
        """A running daemon, ended at the end of the block whatever happens."""
        with self.started(*WORKER, "--config", str(self.config), "run", *options) as running:
            yield running

    @contextmanager
    def started(self, *command: str) -> Iterator["Worker"]:
        """A process of the daemon's, however it is started."""
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=self.environ())
        running = Worker(process=process)
        reader = threading.Thread(target=running.listen)
        reader.start()
        try:
            yield running
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
                try:
                    process.wait(timeout=30)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
            reader.join(timeout=20)
            if process.stderr is not None:
                process.stderr.close()

    def environ(self) -> dict[str, str]:
        secret = {"CAMPAIGN_WORKER_USERNAME": "sandbox", "CAMPAIGN_WORKER_PASSWORD": "sandbox"}
        return {**os.environ, **secret, **self.environment}


@dataclass(slots=True)
class Worker:
    process: "subprocess.Popen[str]"
    lines: list[str] = field(default_factory=list)

    def listen(self) -> None:
        for line in self.process.stderr or ():
            self.lines.append(line)

    @property
    def errors(self) -> str:
        return "".join(self.lines)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(timeout=20)

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(timeout=40)


def room(process: "subprocess.Popen[Any]", most: int = resource.RLIM_INFINITY) -> None:
    """The worker's files may grow to so many bytes: as on a disk that is full, or has room again."""
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))


def home(folder: Path, box: Sandbox, rules: Sequence[str] = (PAUSE,), *, timeout: str = "3s", **safety: Any) -> Home:
    """A folder whose config points at a sandbox, with short times that a test can wait for."""
    where = Home(folder=folder)
    settings = {"settle": "2s", "evidence_within": "60s", "confirm_within": "30s", **safety}
    lines = "\n".join(f"  {name}: {value}" for name, value in settings.items())
    where.config.write_text(
        f"api:\n  base_url: {box.base_url}\n  cr_url: {box.cr_url}\n  timeout: {timeout}\nsafety:\n{lines}\n",
        encoding="utf-8",
    )
    (folder / "rules").mkdir(exist_ok=True)
    for number, text in enumerate(rules):
        where.rule(text, f"rules-{number}.yaml")
    return where


@contextmanager
def watched(folder: Path, *rules: str, **more: Any) -> Iterator[tuple[Sandbox, Home, Worker]]:
    """A sandbox, and a worker that watches it; ``more``: what else its home is told."""
    with sandbox(folder) as box:
        where = home(folder, box, rules or (PAUSE,), **more)
        with where.worker() as running:
            where.watches()
            yield box, where, running
