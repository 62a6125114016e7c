"""Who may come in: the page is locked unless it can only be reached from this machine, and forms are its own."""

import asyncio
import base64
import re
import select
import socket
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from datetime import UTC, datetime
from ipaddress import ip_network
from pathlib import Path

import httpx
import pytest
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response
from starlette.types import Message

from tests.builders import cases
from tests.calling import call
from tests.virtual import EPOCH
from tests.web.scene import ANN, ENDS, PASSWORD, FixedClock, Scene, key, scene, token_of
from worker.cli.page import KeyRing
from worker.config import load_config
from worker.model.commits import LogFilter
from worker.web.app import PEER_MAX, Deadlined, PageServer
from worker.web.door import LINE_MAX, NOBODY, WRONG_MAX, WRONG_WAIT_S, Door, Key, Keys, visitor_of

TOKEN = "a token of some length"


def basic(name: str, password: str = PASSWORD) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


def form(client: httpx.Client, **fields: str) -> dict[str, str]:
    """A form as the page gives it to this browser."""
    return {"token": token_of(client), "back": "/write?id=2", "because": "seen", "id": "2", **fields}


@pytest.fixture
def client(own: Scene) -> Iterator[httpx.Client]:
    with own.browser() as made:
        yield made


@pytest.fixture(scope="module")
def guarded(story: Path) -> Iterator[Scene]:
    tokens = {"monitor": key(TOKEN), "grün": key("ein längerer Schlüssel")}
    keys = Keys(users={"ann": key(), "jürgen": key()}, tokens=tokens, hosts=frozenset({"worker.test"}))
    with scene(story, keys=keys) as found:
        yield found


@pytest.fixture
def locked(guarded: Scene) -> Iterator[httpx.Client]:
    with guarded.browser(auth=None) as made:
        yield made


@pytest.mark.parametrize("path", ["/", "/log", "/metrics", "/log.csv", "/static/page.css", "/nothing"])
def test_a_locked_page_shows_a_stranger_nothing(locked: httpx.Client, path: str) -> None:
    answer = locked.get(path)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Basic ")
    assert "partner-id" not in answer.text


@cases(
    "headers, status",
    (basic("ann"), 200, "a user with the right password"),
    (basic("jürgen"), 200, "a name is any text"),
    ({"Authorization": f"Bearer {TOKEN}"}, 200, "the token"),
    ({b"Authorization": "Bearer ein längerer Schlüssel".encode()}, 200, "a token is any text"),
    (basic("ann", "wrong"), 401, "a wrong password"),
    (basic("bob"), 401, "nobody of that name, with a password that somebody has"),
    (basic("ann", TOKEN), 401, "the token is no password"),
    ({"Authorization": f"Bearer {PASSWORD}"}, 401, "a password is no token"),
    ({"Authorization": "Basic !!!"}, 401, "not even base64"),
    ({b"Authorization": "Basic ÄÖÜ".encode()}, 401, "not even ASCII"),
    ({b"Authorization": "Bearer ÄÖÜ".encode()}, 401, "not even ASCII"),
)
def test_the_right_password_or_token_opens_it_and_a_wrong_one_waits(
    guarded: Scene, locked: httpx.Client, headers: Mapping[str, str] | Mapping[bytes, bytes], status: int
) -> None:
    guarded.clock.slept.clear()
    assert locked.get("/rules", headers=headers).status_code == status
    assert (max(guarded.clock.slept, default=0.0) >= 1.0) == (status == 401), "guessing takes time"


def test_health_is_told_to_everybody_and_nothing_more(locked: httpx.Client) -> None:
    assert (locked.get("/healthz").status_code, locked.get("/healthz").text) == (200, "alive\n")
    for headers in ({}, basic("ann"), basic("ann", "wrong")):
        answer = locked.get("/readyz", headers=headers)
        assert (answer.status_code, answer.text) == (503, "not ready\n"), "no password is tried here"


@cases(
    "host, status",
    ("127.0.0.1:8080", 200, "an address cannot be somebody else's name"),
    ("[::1]:8080", 200, "an address"),
    ("localhost", 200, "this machine"),
    ("worker.test:443", 200, "a name from the config"),
    ("WORKER.test", 200, "names have no case"),
    ("evil.test", 421, "a foreign name that points here: DNS rebinding"),
    ("worker.test.evil.test", 421, "a foreign name that begins like ours"),
    ("", 421, "no name at all"),
    ("[", 421, "no name at all"),
)
def test_only_our_own_names_are_answered(locked: httpx.Client, host: str, status: int) -> None:
    assert locked.get("/rules", headers={**basic("ann"), "Host": host}).status_code == status


def test_without_a_password_what_a_proxy_passes_on_is_turned_away(shown: Scene) -> None:
    assert shown.get(auth=None).status_code == 200
    assert shown.get(auth=None, headers={"X-Forwarded-For": "203.0.113.7"}).status_code == 403


@cases(
    "headers, fields",
    ({}, {"token": "0" * 64}, "a token that was made up"),
    ({"Origin": "https://evil.test"}, {}, "another site's form"),
    ({"Origin": "null"}, {}, "a form from nowhere"),
    ({"Sec-Fetch-Site": "cross-site"}, {}, "the browser says that it comes from elsewhere"),
    ({"Cookie": "campaign_worker_form=other"}, {}, "another browser's cookie"),
)
def test_only_the_pages_own_forms_are_taken(
    client: httpx.Client, own: Scene, headers: Mapping[str, str], fields: Mapping[str, str]
) -> None:
    body = form(client, what="applied", **fields)
    if "Cookie" in headers:
        client.cookies.clear()
    assert client.post("/act", data=body, headers=headers).status_code == 403
    assert own.state_of() == "needs_human"


@cases(
    "fields, status",
    ({"because": " "}, 400, "no reason"),
    ({"what": "send"}, 400, "no such decision"),
    ({"id": "x"}, 400, "no number"),
    ({"id": "99"}, 409, "no such write"),
    ({"what": "approve"}, 409, "it does not wait"),
)
def test_a_decision_that_cannot_be_made_changes_nothing(
    client: httpx.Client, own: Scene, fields: Mapping[str, str], status: int
) -> None:
    body = {**form(client, what="applied"), **fields}
    answer = client.post("/act", data=body)
    assert (answer.status_code, "Nothing was changed" in answer.text) == (status, True)
    assert own.state_of() == "needs_human"


@pytest.mark.parametrize("what", ["applied", "not_applied", "reject"])
def test_what_is_said_of_one_attempt_does_not_count_for_the_next(client: httpx.Client, own: Scene, what: str) -> None:
    """Ann looks at the service while her form is open; meanwhile somebody grants an attempt, and it needs one again."""
    filled = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', client.get("/write?id=2").text))
    body = {**filled, "what": what, "because": "seen"}
    with closing(sqlite3.connect(own.folder / "worker.db")) as ledger, ledger:
        ledger.execute("UPDATE writes SET attempt = 2, changed_at = '2026-03-01T12:00:59.000000Z' WHERE id = 2")
    answer = client.post("/act", data=body)
    assert answer.status_code == 409
    assert "write 2 has changed since it was shown, and is needs_human now" in answer.text
    assert own.state_of() == "needs_human"


def test_a_resume_ends_what_was_shown_and_not_what_was_halted_since(client: httpx.Client, own: Scene) -> None:
    config = own.folder / "config.yaml"
    assert call("halt", "--because", "looking into it", config=config).code == 0
    resume = next(one for one in client.get("/").text.split("</form>") if 'value="resume"' in one)
    filled = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', resume.rpartition("<form")[2])
    assert call("halt", "--because", "it spends twice: leave it halted", config=config).code == 0
    answer = client.post("/act", data={**dict(filled), "what": "resume", "because": "understood"})
    assert answer.status_code == 303
    assert [one.because for one in own.ledger.halts(own.clock.now())] == ["it spends twice: leave it halted"]


@pytest.mark.parametrize(("given", "kept"), [("", "no reason given"), ("settled by hand", "settled by hand")])
def test_an_approval_or_a_rejection_needs_no_reason(client: httpx.Client, own: Scene, given: str, kept: str) -> None:
    answer = client.post("/act", data=form(client, what="reject", because=given))

    assert answer.is_redirect
    assert own.state_of() == "cancelled"
    last = list(own.ledger.log(LogFilter(write=2)))[-1]
    assert kept in str(last["why"])


@cases(
    "back, sent_to",
    ("/log?kind=waiting", "/log?kind=waiting", "where the form was"),
    ("https://evil.test/", "/", "another site"),
    ("//evil.test/", "/", "another site without its scheme"),
    ("/\\evil.test", "/", "another site as some browsers read it"),
)
def test_after_a_decision_the_browser_stays_here(client: httpx.Client, back: str, sent_to: str) -> None:
    answer = client.post("/act", data=form(client, what="halt", back=back))
    assert (answer.status_code, answer.headers["location"]) == (303, sent_to)


def test_what_was_decided_is_said_however_long_it_is(client: httpx.Client) -> None:
    assert client.post("/act", data=form(client, what="halt", because="夏 " * 450)).status_code == 303
    answer = client.post("/act", data=form(client, what="resume", id="1"))
    assert len(answer.headers["set-cookie"]) < 2_500, "a browser drops what is longer, and a proxy the whole answer"
    assert "Done: resumed: halt of every partner, every rule (夏 夏" in client.get("/").text


def decide(found: Scene, what: str, **headers: str) -> int:
    """What the page says to a decision by a program, or by whoever comes along."""
    body = {"what": what, "id": "2", "because": "seen by the monitor"}
    return httpx.post(f"{found.address}/act", data=body, headers=headers, trust_env=False).status_code


def test_a_script_decides_with_a_token_that_may_and_is_named(own: Scene) -> None:
    with scene(own.folder, keys=Keys(tokens={"monitor": key(TOKEN, "view operate")})) as found:
        assert decide(found, "applied", Authorization=f"Bearer {TOKEN}") == 303
        assert found.state_of() == "confirmed"
        assert found.ledger.newest(LogFilter(write=2), 1)[0]["by"] == "monitor (page)"


@pytest.mark.parametrize("what", ["approve", "reject", "applied", "not_applied", "halt", "resume", "undo"])
def test_neither_a_token_that_reads_nor_a_page_without_users_decides_anything(
    own: Scene, shown: Scene, what: str
) -> None:
    with scene(own.folder, keys=Keys(tokens={"prometheus": key(TOKEN)})) as found:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        assert found.get("/metrics", auth=None, headers=headers).status_code == 200
        assert decide(found, what, **headers) == 403
        assert (found.state_of(), found.ledger.halts(found.clock.now())) == ("needs_human", ())
    page = shown.get(auth=None)
    assert (page.status_code, "<form method=" in page.text) == (200, False), "there is nothing to press"
    body = {"what": what, "id": "2", "because": "seen", "name": "Ann"}
    assert "may not" in httpx.post(f"{shown.address}/act", data=body, trust_env=False).text
    assert (shown.state_of(), shown.ledger.halts(shown.clock.now())) == ("needs_human", ())


@pytest.mark.parametrize(
    ("may", "allowed"),
    [
        ("view", set()),
        ("view approve", {"approve", "reject"}),
        ("view operate", {"applied", "not_applied", "halt", "resume"}),
    ],
)
def test_somebody_does_what_the_config_says_and_sees_only_that(own: Scene, may: str, allowed: set[str]) -> None:
    with scene(own.folder, keys=Keys(users={"bea": key(may=may)})) as found:
        pages = [found.get(path, auth=("bea", PASSWORD)).text for path in ("/", "/write?id=2")]
        said = {decide(found, what, **basic("bea")) for what in ("approve", "reject", "applied", "halt", "resume")}
    shown = set(re.findall(r'name="what" value="(\w+)"', "".join(pages)))
    assert shown <= allowed
    assert bool(shown) == bool(allowed)
    assert said == {403}, "not without the page's own form"


def test_who_may_operate_puts_back_what_a_write_changed(client: httpx.Client, own: Scene) -> None:
    pause = client.get("/writes.json?rule=pause-cancelled").json()["writes"][0]["id"]
    body = {
        "token": token_of(client, f"/write?id={pause}"),
        "what": "undo",
        "id": str(pause),
        "because": "the import was wrong",
    }
    assert client.post("/act", data=body).status_code == 303
    (undone,) = own.ledger.log(LogFilter(kind="undone"))
    assert (undone["by"], undone["why"]) == ("ann (page)", "the import was wrong")
    assert client.post("/act", data=body).status_code == 409, "it is not undone twice"


def test_a_form_given_to_one_is_not_taken_from_another(own: Scene) -> None:
    both = Keys(users=dict.fromkeys(("ann", "ben"), ANN.users["ann"]))
    with scene(own.folder, keys=both) as found, found.browser() as client:
        body = form(client, what="applied")
        client.auth = ("ben", PASSWORD)
        assert client.post("/act", data=body).status_code == 403
        assert found.state_of() == "needs_human"


def test_who_guesses_is_not_listened_to_any_more_and_keeps_nobody_out(own: Scene) -> None:
    told: list[tuple[str, str, int]] = []
    keys = replace(ANN, users={**ANN.users, "ben": key(TOKEN)})
    with scene(own.folder, keys=keys, refused=lambda *said: told.append(said)) as found:

        def says(name: str, password: str) -> int:
            return found.get("/rules", auth=(name, password)).status_code

        assert says("ann", PASSWORD) == 200
        assert [says("ann", f"guess number {number}") for number in range(WRONG_MAX)] == [401] * WRONG_MAX
        assert says("ann", "once more") == 429
        assert says("ann", PASSWORD) == 200, "Ann was right before"
        assert says("ben", TOKEN) == 200, "Ben is new here"
    assert told == [("127.0.0.1", "ann", number + 1) for number in range(WRONG_MAX + 1)]


@pytest.mark.parametrize("given", [basic(TOKEN, ""), basic("bob"), {"Authorization": f"Bearer {PASSWORD}"}])
def test_of_a_wrong_sign_in_only_the_name_of_a_user_is_told_on(own: Scene, given: Mapping[str, str]) -> None:
    told: list[tuple[str, str, int]] = []
    with scene(own.folder, keys=ANN, refused=lambda *said: told.append(said)) as found:
        assert found.get(auth=None, headers=given).status_code == 401
    assert told == [("127.0.0.1", "(unknown)", 1)], "what was given may be a secret, and this is logged"


def test_a_form_that_is_too_long_is_turned_away(client: httpx.Client) -> None:
    assert client.post("/act", data={"because": "x" * 70_000}).status_code == 400


@pytest.mark.parametrize("path", ["/", "/nothing", "/static/page.js", "/metrics", "/log.jsonl"])
def test_every_answer_forbids_what_is_inline_foreign_or_framed(client: httpx.Client, path: str) -> None:
    answer = client.get(path)
    assert answer.headers["content-security-policy"].startswith(
        "default-src 'none'; style-src 'self'; script-src 'self'"
    )
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"


def test_other_methods_are_not_answered(client: httpx.Client) -> None:
    assert client.put("/act").status_code == 405
    assert client.get("/act").status_code == 405


def test_silent_connections_keep_nobody_from_page_and_probes(shown: Scene) -> None:
    with ExitStack() as held:
        host, port = shown.address.removeprefix("http://").split(":")
        for number in range(PEER_MAX * 3):
            silent = held.enter_context(socket.create_connection((host, int(port)), timeout=5))
            if number % 2:
                silent.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
        with shown.browser(auth=None, timeout=5) as client:
            assert [client.get(path).status_code for path in ("/healthz", "/readyz", "/")] == [200, 503, 200]


class WaitingClock(FixedClock):
    """Who gave a wrong password is left waiting for a while."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(3.0 if seconds == WRONG_WAIT_S else 0)


@pytest.mark.parametrize("most", ["PEER_MAX", "CONNECTIONS_MAX"])
def test_wrong_passwords_on_many_connections_keep_nobody_out(
    story: Path, monkeypatch: pytest.MonkeyPatch, most: str
) -> None:
    monkeypatch.setattr(f"worker.web.app.{most}", 8)
    wrong = basic("ann", "wrong")["Authorization"]
    with scene(story, keys=ANN, clock=WaitingClock(EPOCH + ENDS)) as found, ExitStack() as held:
        host, port = found.address.removeprefix("http://").split(":")
        assert found.get().status_code == 200
        for _ in range(30):
            one = held.enter_context(socket.create_connection((host, int(port)), timeout=5))
            one.sendall(f"GET / HTTP/1.1\r\nHost: {host}\r\nAuthorization: {wrong}\r\n\r\n".encode())
        with found.browser(timeout=5) as client:
            assert [client.get(path).status_code for path in ("/healthz", "/readyz", "/rules")] == [200, 503, 200]


def test_a_connection_counts_for_its_whole_network_of_ipv6() -> None:
    one = Deadlined.__new__(Deadlined)
    one.client = ("2001:db8::77", 4711)
    assert one.peer == "2001:db8::/64"


def test_a_connection_on_which_nothing_comes_is_closed(shown: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.web.app.HEAD_WITHIN_S", 1.0)
    host, port = shown.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as silent:
        silent.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
        with suppress(ConnectionResetError):
            assert silent.recv(1) == b""


def test_a_password_file_that_changes_is_read_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", TOKEN)
    file = tmp_path / "ann"
    file.write_text(PASSWORD)
    signing_in = f"users: {{ann: {{password: {{file: {file}}}}}}}, tokens: {{t: {{token: {{env: TOKEN}}}}}}"
    (tmp_path / "config.yaml").write_text(f"web: {{listen: '127.0.0.1:1', {signing_in}}}")
    web = load_config(tmp_path / "config.yaml").web
    assert web is not None
    ring = KeyRing(web)

    def comes_in(password: str) -> bool:
        return visitor_of(ring(), Headers(basic("ann", password))) is not None

    assert (comes_in(PASSWORD), comes_in("another long one")) == (True, False)
    file.write_text("another long one")
    assert (comes_in(PASSWORD), comes_in("another long one")) == (False, True)
    for broken in ("", "short"):
        file.write_text(broken)
        assert (comes_in("another long one"), comes_in(broken), ring().locked) == (False, False, True)
    file.unlink()
    assert (comes_in("another long one"), ring().locked) == (False, True)
    file.write_text(PASSWORD)
    assert comes_in(PASSWORD)


BLANKS = "夏\u00a0 \u2009 \u202f \u3000夜"


@cases(
    "path, text, shown_as",
    ("/log?event=", "over-1\u202e4lp", "over-1\ufffd4lp", "what turns the direction of reading"),
    ("/events?text=", BLANKS, BLANKS, "blanks stay blanks"),
)
def test_a_page_shows_no_letter_that_turns_the_direction_of_reading(
    shown: Scene, path: str, text: str, shown_as: str
) -> None:
    answer = shown.get(path + text)
    assert shown_as in answer.text
    assert "\u202e" not in answer.text


def test_a_download_over_a_slow_line_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server has given away its last chunk long before a slow reader has it."""
    monkeypatch.setattr("worker.web.app.HEAD_WITHIN_S", 1.0)
    body = b"x" * 20_000_000

    app, failures = Response(body), list[BaseException]()
    with PageServer(app, host="127.0.0.1", port=0, failed=failures.append) as server, ExitStack() as held:
        slow = held.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=20))
        slow.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        count, ends = len(slow.recv(1)), time.monotonic() + 4.0
        while time.monotonic() < ends:  # for longer than a silent connection may
            select.select([], [], [], 0.2)
            count += len(slow.recv(1000))
        while part := slow.recv(1_000_000):
            count += len(part)
    assert count > len(body)
    assert failures == []


@pytest.mark.parametrize(
    ("cookie", "words"),
    [(None, "sent no cookie with this form. Allow cookies"), ("other", "from before the page was started anew")],
)
def test_a_form_that_is_not_taken_says_what_to_do(client: httpx.Client, cookie: str | None, words: str) -> None:
    given = form(client)
    client.cookies.clear()
    headers = {} if cookie is None else {"Cookie": f"campaign_worker_form={cookie}"}
    answer = client.post("/act", data={**given, "what": "approve"}, headers=headers)
    assert (answer.status_code, words in answer.text) == (403, True), answer.text


PROXY = Keys(
    users={"ann": Key(secret=NOBODY, may=frozenset({"view", "operate"})), "jürgen": key()},
    tokens={"monitor": key(TOKEN)},
    proxies=(ip_network("127.0.0.0/8"),),
    named_in="X-Remote-User",
)


@pytest.mark.parametrize(
    ("names", "status", "words"),
    [
        (["ann"], 200, "signed in as ann, who may operate, view"),
        (["jürgen"], 200, "signed in as jürgen"),
        (["eve"], 403, "must stand under web.users"),
        ([""], 403, "must stand under web.users"),
        (["ann", "jürgen"], 403, "must stand under web.users"),
        ([], 401, "A user name and a password are needed"),
    ],
)
def test_whom_the_proxy_of_the_config_names_is_believed(story: Path, names: list[str], status: int, words: str) -> None:
    with scene(story, keys=PROXY) as page:
        answer = page.get(auth=None, headers=[(b"X-Remote-User", name.encode()) for name in names])
    assert answer.status_code == status
    assert words in answer.text


def test_a_name_from_anywhere_else_is_nothing(story: Path) -> None:
    elsewhere = replace(PROXY, proxies=(ip_network("10.0.0.5"), ip_network("fd00::/64")))
    with scene(story, keys=elsewhere) as page:
        named = {b"X-Remote-User": "jürgen".encode()}
        assert page.get(auth=None, headers=named).status_code == 401
        assert page.get(auth=("ann", "wrong"), headers=named).status_code == 401
        bearer = {"X-Remote-User": "ann", "Authorization": f"Bearer {TOKEN}"}
        assert "signed in as monitor" in page.get(auth=None, headers=bearer).text


@pytest.mark.parametrize("word", ["", "\0" * 32])
def test_nobody_without_a_password_comes_in_by_one(story: Path, word: str) -> None:
    with scene(story, keys=PROXY) as page:
        assert page.get(auth=("ann", word)).status_code == 401


def test_what_somebody_decides_through_a_proxy_has_their_name(own: Scene) -> None:
    form = {"what": "applied", "id": "2", "because": "seen"}
    with scene(own.folder, keys=PROXY) as page, page.browser(auth=None, headers={"X-Remote-User": "ann"}) as ann:
        assert ann.post("/act", data=form).status_code == 403, "a form of somebody else's page"
        token = token_of(ann)
        assert ann.post("/act", data={**form, "token": token}).status_code == 303
        assert ann.post("/act", data={**form, "what": "approve", "token": token}).status_code == 403
    assert [one["by"] for one in own.ledger.newest(LogFilter(write=2), 1)] == ["ann (page)"]


class CountedSleep:
    """A clock that stands, and knows how many waited at once at the most."""

    def __init__(self) -> None:
        self.waiting = self.most = 0

    def now(self) -> datetime:
        return datetime(2026, 3, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:  # noqa: ARG002 - nothing is waited for
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        await asyncio.sleep(0)
        self.waiting -= 1


async def test_after_many_wrong_ones_guesses_are_judged_one_after_the_other() -> None:
    clock, answers = CountedSleep(), list[int]()
    door = Door(PlainTextResponse("in"), keys=lambda: ANN, clock=clock, refused=lambda *_: None)

    async def ask(guess: str) -> None:
        async def send(message: Message) -> None:
            answers.extend([message["status"]] if message["type"] == "http.response.start" else ())

        head = [(b"host", b"localhost"), (b"authorization", basic("ann", guess)["Authorization"].encode())]
        scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": head}
        await door({**scope, "client": ("203.0.113.9", 1)}, receive, send)

    async def receive() -> Message:
        return {"type": "http.request"}

    for number in range(WRONG_MAX):
        await ask(f"guess number {number}")
    clock.most = 0
    await asyncio.gather(*(ask(f"one of many {number}") for number in range(30)), ask(PASSWORD))

    assert clock.most == 1
    assert sorted(answers) == [200, *[401] * WRONG_MAX, *[429] * 30]

    answers.clear()
    many = [ask(f"one of very many {number}") for number in range(LINE_MAX)]
    await asyncio.gather(*many, ask("one too many"), ask(PASSWORD))
    assert answers == [429, 200, *[429] * LINE_MAX], (
        "the line has an end, and who was right before does not stand in it"
    )
