"""Whoever is asked for a yes sees what it costs: on the page, in the commands and in messages, in the same words."""

import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import httpx
import pytest

from tests.builders import cases
from tests.calling import call
from tests.web.scene import ANN, PASSWORD, Scene, copied, key, left_by, scene, token_of
from tests.worlds import Town, draft, happening, world
from worker.cli.common import ledger_url
from worker.ledger.lock import SenderLock
from worker.ledger.places import place_of
from worker.ledger.reading import open_reading
from worker.messages import Notice, Outbox, Subscriber
from worker.model.commits import LogFilter
from worker.web.door import Keys

RULES = """
rules:
  - id: boost-drafts
    mode: approve
    when: event.status == 'active' && setup.state == 'DRAFT'
    do: [boost]
  - id: run-flagged
    mode: approve
    when: event.frontend_status == 'FLAGGED'
    do: [run]
  - id: pause-archived
    mode: approve
    when: event.status == 'archived'
    do: [pause]
"""
FIRST = "DRAFT -> PUBLISHED, draft: total_budget 500, goal ROAS"
SECOND = "DRAFT -> PUBLISHED, draft: total_budget 256.1, goal ROAS"
NO_AMOUNT = "amount unknown: it names no budget of its own"


def play(folder: Path) -> None:
    """Two boosts, a run and a pause wait; nothing was ever sent."""

    async def story(here: Town) -> None:
        await here.run(9)
        here.set("e3", frontend_status="FLAGGED")
        here.set("e4", status="archived")
        await here.until(lambda: here.states() == ["waiting"] * 4, "all wait")

    paused = happening("e3", client_campaign_status="PAUSED")
    place = world(draft("e1"), draft("e2", total_budget=256.1), paused, happening("e4"))
    left_by(folder, place, RULES, story)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("amounts")
    play(folder)
    return folder


@pytest.fixture
def waits(played: Path, tmp_path: Path) -> Iterator[Scene]:
    with scene(copied(played, tmp_path / "own"), keys=ANN) as found:
        yield found


def text(html: str) -> str:
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", html)))


def approved(found: Scene, **form: str | list[str]) -> str:
    """What Ann reads when she has approved so."""
    with found.browser(follow_redirects=True) as ann:
        filled = {**form, "what": "approve", "because": "go", "token": token_of(ann, "/")}
        return text(ann.post("/act", data=filled).text)


PATHS = ("/", "/writes", "/writes?state=waiting", "/event?event=e1", "/write?id=1")


@pytest.mark.parametrize("path", PATHS)
def test_every_view_says_what_a_boost_publishes_and_spends(waits: Scene, path: str) -> None:
    shown = text(waits.get(path).text)
    assert f"boost {FIRST} spends 500 EUR" in shown or f"Does {FIRST}" in shown
    assert "spends 500 EUR" in shown
    assert "()" not in shown


@pytest.mark.parametrize("path", [*PATHS, "/write?id=2", "/write?id=3", "/event?event=e3"])
def test_no_control_that_approves_stands_without_the_amount(waits: Scene, path: str) -> None:
    forms = re.findall(r"<form.*?</form>", waits.get(path).text, flags=re.DOTALL)
    approving = [form for form in forms if 'value="approve"' in form]
    assert approving, "something is asked here"
    for form in approving:
        number, *others = re.findall(r'name="id" value="(\d+)"', form)
        number = "all" if others else number
        expected = {"1": "spends 500 EUR", "2": "spends 256.1 EUR", "3": NO_AMOUNT, "all": "756.1 EUR in all"}
        assert expected.get(number, "") in text(form), form
        assert number != "4" or "unknown" not in form, "what spends nothing says nothing"


def test_what_is_approved_stands_field_by_field_beside_the_yes(waits: Scene) -> None:
    forms = re.findall(r"<form.*?</form>", waits.get("/").text, flags=re.DOTALL)
    (asked,) = (text(form) for form in forms if re.findall(r'name="id" value="(\d+)"', form) == ["1"])
    assert "state DRAFT → PUBLISHED" in asked
    assert "total_budget 500 as it is" in asked


def test_all_of_a_rule_together_are_approved_beside_their_sum(waits: Scene) -> None:
    shown = text(waits.get("/").text)
    assert "All 2 together spend: 756.1 EUR in all" in shown
    assert NO_AMOUNT in shown, "of the run nobody knows"


def test_the_answer_to_an_approval_says_what_was_approved(waits: Scene) -> None:
    shown = approved(waits, id="1", back="/")
    assert f"write 1: waiting → planned: boost {FIRST.replace('->', '→')}; spends 500 EUR" in shown


def filled_in(found: Scene, of: str) -> dict[str, list[str]]:
    """The first form that approves one write by its ``id``, or all of a ``rule``, as the page fills it in."""
    forms = re.findall(r"<form.*?</form>", found.get("/").text, flags=re.DOTALL)
    form = next(one for one in forms if 'value="approve"' in one and ('name="rule" value=' in one) == (of == "rule"))
    filled: dict[str, list[str]] = {}
    for name, value in re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', form):
        filled.setdefault(name, []).append(value)
    return filled


@pytest.mark.parametrize("meanwhile", ["came to wait", "waits again with other values"])
def test_all_of_a_rule_together_are_those_that_stood_on_the_page(waits: Scene, meanwhile: str) -> None:
    """One with a smaller number may have been planned before, and have come to wait while the page lay open."""
    filled = filled_in(waits, "rule")
    if meanwhile == "came to wait":
        filled["id"].remove("1")
    else:
        filled["stood"][0] = "1:2026-03-01T12:00:00.001Z"
    approved(waits, **filled)
    assert [str(one.state) for one in waits.ledger.writes()] == ["waiting", "planned", "waiting", "waiting"]


@pytest.mark.parametrize(
    ("of", "shown", "then"),
    [("id", {1: 50_000}, {1: 400.0}), ("rule", {1: 50_000, 2: 25_610}, {1: 400.0, 2: 256.1})],
)
def test_what_is_approved_is_the_amount_that_stood_on_the_page(
    waits: Scene, of: str, shown: dict[int, int], then: dict[int, float]
) -> None:
    """The draft of a boost may be raised while the page lies open: then it asks again before it is sent."""
    filled = filled_in(waits, of)
    assert filled["shown"] == [f"{number}:{cents}" for number, cents in shown.items()]
    filled["shown"][0] = "1:40000"  # the draft was at 400 when the page was opened
    approved(waits, **filled)
    said = [one for one in waits.ledger.log(LogFilter()) if one["kind"] == "approved"]
    assert {one["write"]: one["facts"] for one in said} == {one: {"amount": amount} for one, amount in then.items()}


@pytest.mark.parametrize("wrong", ["1:", "1:nan", "x:500"])
def test_an_amount_that_is_none_decides_nothing(waits: Scene, wrong: str) -> None:
    assert "reload" in approved(waits, id="1", shown=wrong)
    assert {one.state for one in waits.ledger.writes()} == {"waiting"}


@cases(
    "up_to, numbers, status",
    (500.0, ["1"], 303, "just"),
    (300.0, ["2"], 303, "less"),
    (300.0, ["4"], 303, "what spends nothing"),
    (300.0, ["1"], 403, "more"),
    (300.0, ["2", "1"], 403, "one of them more"),
    (1e9, ["3"], 403, "nobody knows how much"),
    (None, ["1", "2", "3", "4"], 303, "any amount"),
)
def test_somebody_approves_up_to_an_amount_and_nothing_of_what_goes_beyond(
    waits: Scene, up_to: float | None, numbers: list[str], status: int
) -> None:
    """Also where the form says that more was shown: then the write asks again before it spends that."""
    with scene(waits.folder, keys=Keys(tokens={"ben": key(may="view approve", up_to=up_to)})) as found:
        form = {"what": "approve", "id": numbers, "because": "go", "shown": [f"{one}:9900000000" for one in numbers]}
        headers = {"Authorization": f"Bearer {PASSWORD}"}
        answer = httpx.post(f"{found.address}/act", data=form, headers=headers, trust_env=False)
        assert answer.status_code == status, answer.text
        planned = [str(one.id) for one in found.ledger.writes() if one.state == "planned"]
        said = [one["facts"] for one in found.ledger.log(LogFilter(kind="approved"))]
    assert planned == ([] if status == 403 else sorted(numbers))
    assert said == [{"amount": 99_000_000.0 if up_to is None else up_to}] * len(planned)


def test_plan_says_it_of_what_waits(waits: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "500")
    config = waits.folder / "config.yaml"
    with SenderLock.acquire(place_of(ledger_url(waits.config)), now=waits.clock.now()):
        rows = json.loads(call("plan", "--format", "json", config=config).out)["writes"]
        table = call("plan", config=config).out
    assert [(row["event"], row["spends"], row["amount"]) for row in rows] == [
        ("e1", "spends 500 EUR", 500.0),
        ("e2", "spends 256.1 EUR", 256.1),
        ("e3", NO_AMOUNT, None),
        ("e4", "", None),
    ]
    assert "PUBLISHED, draft: total_budget 500, goal ROAS; spends 500 EUR" in table


def test_who_is_asked_by_a_message_reads_the_same(waits: Scene) -> None:
    sent: list[Notice] = []

    class Wire:
        def send(self, message: Notice) -> bool:
            sent.append(message)
            return True

    seconds = iter((0.0, 60.0, 120.0))
    (waits.folder / "worker.db.told").write_text('{"seq": 0}\n', encoding="utf-8")
    outbox = Outbox(
        [Subscriber(key="ops", send=Wire().send, on=frozenset({"waiting"}))],
        ledger=open_reading(f"sqlite:///{waits.folder}/worker.db"),
        place=waits.folder / "worker.db",
        seconds=lambda: next(seconds),
        told=lambda *_: None,
    )
    outbox.begin()
    outbox.tell_news()
    outbox.tell_news()
    (message,) = sent
    assert f"write 1: boost of e1, spends 500 EUR, {FIRST}: " in message.body
    assert f"write 3: run of e3, {NO_AMOUNT}, PAUSED -> RUNNING: " in message.body
    assert "write 4: pause of e4, RUNNING -> PAUSED: " in message.body
