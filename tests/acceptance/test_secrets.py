"""A service that gives back what it was sent: no secret of it in the log, the ledger, the status or on stderr."""

import base64
import json
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from tests.acceptance.processes import Home, until
from tests.calling import call
from tests.worlds import PARTNER, PAUSE, tenant
from worker.ledger.reading import open_reading

PASSWORD = "Tr0ub4dor & 3"
IDENTITY = base64.urlsafe_b64encode(json.dumps({"idp:groups": [PARTNER]}).encode()).decode().rstrip("=")
TOKENS = {
    "AccessToken": "access-f00dfeedf00dfeedf00dfeed-0001",
    "IdToken": f"eyJhbGciOiJub25lIn0.{IDENTITY}.c2lnbmVk",
    "RefreshToken": "refresh-cafebabecafebabecafebabe-01",
    "ExpiresIn": 3600,
}
EVENT = {"id": "e1", "status": "cancelled", "client_campaign_status": "RUNNING", "campaign_status": "RUNNING"}


class Echo(BaseHTTPRequestHandler):
    """Signs in, shows one cancelled event, and answers everything else with an error that repeats the request."""

    signs_in = True
    signed_in: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.signed_in.append(self.path)
        if self.path.endswith("/auth") and self.signs_in:
            self._answer(200, json.dumps(TOKENS).encode())
        else:
            self._answer(401, b"refused: " + sent)

    def do_GET(self) -> None:
        if self.path.split("?")[0].endswith("/events/"):
            page = {"total": 1, "limit": 100, "page": 1, "items": [EVENT]}
            self._answer(200, json.dumps(page).encode())
        elif "/partners/" in self.path:
            self._answer(200, json.dumps(tenant(PARTNER).record).encode())
        elif self.path.endswith("/events/e1"):
            self._answer(200, json.dumps(EVENT).encode())
        else:
            self._echo(500)

    def do_PUT(self) -> None:
        self._echo(422)

    def _echo(self, status: int) -> None:
        said = {"known": [PASSWORD, *map(str, TOKENS.values())], "sent": dict(self.headers.items())}
        self._answer(status, json.dumps(said).encode())

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("x-request-id", f"trace of {self.headers.get('Authorization', 'nobody')}")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's own name
        """Not on our stderr."""


@contextmanager
def served(handler: type[Echo]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/api/v3"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def where(tmp_path: Path) -> Home:
    made = Home(folder=tmp_path, environment={"CAMPAIGN_WORKER_PASSWORD": PASSWORD})
    made.rule(PAUSE)
    return made


def state(where: Home) -> str | None:
    with open_reading(f"sqlite:///{where.folder}/worker.db") as ledger:
        return next((write.state for write in ledger.writes()), None)


def leaks(text: bytes) -> list[str]:
    """Which secrets stand in a text."""
    secrets = {"password": PASSWORD, **{name: str(token) for name, token in TOKENS.items() if name != "ExpiresIn"}}
    return [name for name, secret in secrets.items() if secret.encode() in text or secret[:24].encode() in text]


def test_an_error_that_repeats_the_request_leaves_no_secret_anywhere(where: Home) -> None:
    with served(Echo) as base_url:
        where.config.write_text(f"api: {{base_url: '{base_url}'}}\n", "utf-8")
        with where.worker("--verbose") as running:
            until(lambda: state(where) == "rejected", "the service has said no")
            assert resource.prlimit(running.process.pid, resource.RLIMIT_CORE) == (0, 0), "no core dump has its memory"
            assert running.stop() == 0

    shown = "".join(
        call(*command, config=where.config).both
        for command in (("log", "--format", "jsonl"), ("log",), ("writes", "--format", "json"), ("status",))
    )
    assert "the service answered 422" in shown, "the beginning of what it said is kept"
    assert "trace of" in shown
    assert leaks(shown.encode()) == []
    assert leaks(running.errors.encode()) == []
    for file in where.folder.glob("worker.db*"):
        assert leaks(file.read_bytes()) == [], file.name
        assert file.stat().st_mode & 0o077 == 0, f"{file.name} is its user's alone, whatever the umask"


def test_refused_credentials_exit_3_show_no_secret_and_leave_no_word_of_running(where: Home) -> None:
    class Refusing(Echo):
        signs_in = False
        signed_in: ClassVar[list[str]] = []

    with served(Refusing) as base_url:
        where.config.write_text(f"api: {{base_url: '{base_url}'}}\n", "utf-8")
        done = where.call("run", check=3)

    assert "credentials" in done.stderr
    assert len(Refusing.signed_in) == 1, "a refused sign-in is not repeated at start"
    status = call("status", config=where.config)
    assert "does not run" in status.out
    assert "the service refused the sign-in with status 401" in status.out
    assert call("status", "--healthy", config=where.config).code == 1
    assert leaks((done.stdout + done.stderr + status.both).encode()) == []
    for file in where.folder.glob("worker.db*"):
        assert leaks(file.read_bytes()) == [], file.name
