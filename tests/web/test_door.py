"""Who may come in: the page is locked unless it can only be reached from this machine, and forms are its own."""

import base64
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx
import pytest

from tests.web.scene import Scene, scene
from worker.ledger.browsing import LedgerBrowser
from worker.model.ids import WriteId
from worker.model.leafing import Wanted
from worker.web.door import Keys, digest

PASSWORD = "correct horse battery"
TOKEN = "a token of some length"


def basic(name: str, password: str = PASSWORD) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


def form(client: httpx.Client, **fields: str) -> dict[str, str]:
    """A form as the page gives it to this browser."""
    text = client.get("/write?id=2").text
    token = text.split('name="token" value="')[1].split('"')[0]
    return {"token": token, "back": "/write?id=2", "because": "seen", "name": "Ann", "id": "2", **fields}


@pytest.fixture
def client(own: Scene) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=own.address, trust_env=False) as made:
        yield made


@pytest.fixture(scope="module")
def guarded(story: Path) -> Iterator[Scene]:
    keys = Keys(
        users={"ann": digest(PASSWORD), "jürgen": digest(PASSWORD)},
        token=digest(TOKEN),
        hosts=frozenset({"worker.test"}),
    )
    with scene(story, keys=keys) as found:
        yield found


@pytest.fixture
def locked(guarded: Scene) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=guarded.address, trust_env=False) as made:
        yield made


def state_of(ledger: LedgerBrowser, write: int = 2) -> str:
    found = ledger.write(WriteId(write))
    assert found is not None
    return found.state


@pytest.mark.parametrize("path", ["/", "/log", "/metrics", "/log.csv", "/static/page.css", "/nothing"])
def test_a_locked_page_shows_a_stranger_nothing(locked: httpx.Client, path: str) -> None:
    answer = locked.get(path)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Basic ")
    assert "partner-id" not in answer.text


@pytest.mark.parametrize(
    ("headers", "status", "reason"),
    [
        (basic("ann"), 200, "a user with the right password"),
        (basic("jürgen"), 200, "a name is any text"),
        ({"Authorization": f"Bearer {TOKEN}"}, 200, "the token"),
        (basic("ann", "wrong"), 401, "a wrong password"),
        (basic("bob"), 401, "nobody of that name, with a password that somebody has"),
        (basic("ann", TOKEN), 401, "the token is no password"),
        ({"Authorization": f"Bearer {PASSWORD}"}, 401, "a password is no token"),
        ({"Authorization": "Basic !!!"}, 401, "not even base64"),
    ],
)
def test_the_right_password_or_token_opens_it_and_a_wrong_one_waits(
    guarded: Scene, locked: httpx.Client, headers: Mapping[str, str], status: int, reason: str
) -> None:
    guarded.clock.slept.clear()
    assert locked.get("/rules", headers=headers).status_code == status, reason
    assert (max(guarded.clock.slept, default=0.0) >= 1.0) == (status == 401), "guessing takes time"


def test_health_is_told_to_everybody_and_nothing_more(locked: httpx.Client) -> None:
    assert (locked.get("/healthz").status_code, locked.get("/healthz").text) == (200, "alive\n")
    stranger, known = locked.get("/readyz"), locked.get("/readyz", headers=basic("ann"))
    assert (stranger.status_code, stranger.text) == (503, "not ready\n")
    assert "partner-id-one: the last complete cycle is" in known.text


@pytest.mark.parametrize(
    ("host", "status", "reason"),
    [
        ("127.0.0.1:8080", 200, "an address cannot be somebody else's name"),
        ("[::1]:8080", 200, "an address"),
        ("localhost", 200, "this machine"),
        ("worker.test:443", 200, "a name from the config"),
        ("WORKER.test", 200, "names have no case"),
        ("evil.test", 421, "a foreign name that points here: DNS rebinding"),
        ("worker.test.evil.test", 421, "a foreign name that begins like ours"),
        ("", 421, "no name at all"),
        ("[", 421, "no name at all"),
    ],
)
def test_only_our_own_names_are_answered(locked: httpx.Client, host: str, status: int, reason: str) -> None:
    assert locked.get("/rules", headers={**basic("ann"), "Host": host}).status_code == status, reason


def test_without_a_password_what_a_proxy_passes_on_is_turned_away(client: httpx.Client) -> None:
    assert client.get("/").status_code == 200
    assert client.get("/", headers={"X-Forwarded-For": "203.0.113.7"}).status_code == 403


@pytest.mark.parametrize(
    ("headers", "fields", "reason"),
    [
        ({}, {"token": "0" * 64}, "a token that was made up"),
        ({"Origin": "https://evil.test"}, {}, "another site's form"),
        ({"Origin": "null"}, {}, "a form from nowhere"),
        ({"Sec-Fetch-Site": "cross-site"}, {}, "the browser says that it comes from elsewhere"),
        ({"Cookie": "campaign_worker_form=other"}, {}, "another browser's cookie"),
    ],
)
def test_only_the_pages_own_forms_are_taken(
    client: httpx.Client, own: Scene, headers: Mapping[str, str], fields: Mapping[str, str], reason: str
) -> None:
    body = form(client, what="applied", **fields)
    if "Cookie" in headers:
        client.cookies.clear()
    assert client.post("/act", data=body, headers=headers).status_code == 403, reason
    assert state_of(own.ledger) == "needs_human"


@pytest.mark.parametrize(
    ("fields", "status", "reason"),
    [
        ({"because": " "}, 400, "no reason"),
        ({"name": ""}, 400, "no name, and no password that would prove one"),
        ({"what": "send"}, 400, "no such decision"),
        ({"id": "x"}, 400, "no number"),
        ({"id": "99"}, 409, "no such write"),
        ({"what": "approve"}, 409, "it does not wait"),
    ],
)
def test_a_decision_that_cannot_be_made_changes_nothing(
    client: httpx.Client, own: Scene, fields: Mapping[str, str], status: int, reason: str
) -> None:
    body = {**form(client, what="applied"), **fields}
    answer = client.post("/act", data=body)
    assert (answer.status_code, "Nothing was changed" in answer.text) == (status, True), reason
    assert state_of(own.ledger) == "needs_human"


@pytest.mark.parametrize(
    ("back", "sent_to", "reason"),
    [
        ("/log?kind=waiting", "/log?kind=waiting", "where the form was"),
        ("https://evil.test/", "/", "another site"),
        ("//evil.test/", "/", "another site without its scheme"),
        ("/\\evil.test", "/", "another site as some browsers read it"),
    ],
)
def test_after_a_decision_the_browser_stays_here(client: httpx.Client, back: str, sent_to: str, reason: str) -> None:
    answer = client.post("/act", data=form(client, what="halt", back=back))
    assert (answer.status_code, answer.headers["location"]) == (303, sent_to), reason


def test_a_script_decides_with_the_token_and_is_named(story: Path, tmp_path: Path, own: Scene) -> None:
    with scene(own.folder, keys=Keys(token=digest(TOKEN))) as found:
        body = {"what": "applied", "id": "2", "because": "seen by the monitor"}
        headers = {"Authorization": f"Bearer {TOKEN}"}
        answer = httpx.post(f"{found.address}/act", data=body, headers=headers, trust_env=False)
        assert answer.status_code == 303
        assert state_of(found.ledger) == "confirmed"
        assert found.ledger.newest(Wanted(write=2), 1)[0]["by"] == "token (page)"


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


def test_nothing_stands_inline(client: httpx.Client) -> None:
    for path in ("/", "/log", "/event?event=summer-night", "/charts", "/write?id=2"):
        text = client.get(path).text
        assert "<style" not in text
        assert " style=" not in text
        assert "<script>" not in text.replace('<script src="/static/page.js" defer></script>', "")
        assert " onclick" not in text


def test_other_methods_are_not_answered(client: httpx.Client) -> None:
    assert client.put("/act").status_code == 405
    assert client.get("/act").status_code == 405
