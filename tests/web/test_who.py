"""What the page says of persons: who approved a write, who had one put back and why, and which call a write is."""

import re
from collections.abc import Iterator
from html import unescape

import pytest

from tests.web.scene import Scene, left_by, scene
from tests.worlds import Town, happening, world
from worker.engine.operators import Word, approved, undo_of
from worker.model.commits import Commit

RULES = """
rules:
  - id: hide-archived
    mode: approve
    when: event.status == 'archived'
    do: [{frontend_status: HIDDEN}, {optimisation: "OFF"}]
"""


async def story(here: Town) -> None:
    await here.run(6)
    here.set("e1", status="archived")
    await here.until(lambda: here.states() == ["waiting"] * 3, "all of e1 wait")
    moves = [approved(one, because="the hall says so", by="Ann", now=here.clock.now()) for one in here.writes()]
    here.ledger.apply(Commit(at=here.clock.now(), moves=tuple(moves)))
    await here.until(lambda: here.states() == ["confirmed"] * 3, "done")
    word = Word(because="the import was wrong", by="Bob", at=here.clock.now())
    here.ledger.apply(undo_of(here.ledger, here.writes()[:1], word, shadow=False).commit(word.by, word.at))
    await here.until(lambda: set(here.states()) == {"confirmed"} and len(here.states()) > 3, "put back")
    here.set("e2", status="archived")
    await here.until(lambda: here.states().count("waiting") == 3, "all of e2 wait")


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Ann approves all that a rule wants of e1; Bob has its first value put back. Of e2 everything still waits."""
    folder = tmp_path_factory.mktemp("who")
    left_by(folder, world(happening("e1"), happening("e2")), RULES, story)
    with scene(folder) as found:
        yield found


def text(found: Scene, path: str) -> str:
    """A page as it is read, one line for each piece."""
    page = found.get(path).text
    words = unescape(re.sub(r"<(?!/?(a|strong|span)\b)[^>]*>", "\n", page))
    return re.sub(r"\s*\n\s*", "\n", re.sub(r"<[^>]*>", "", words))


def test_an_undo_says_what_was_undone_by_whom_and_why(told: Scene) -> None:
    page = text(told, "/event?event=e1")
    assert (
        "By the worker: write 4, which Bob asked for: undo of 1: frontend_status back from 'HIDDEN' to 'DEFAULT': "
        "the import was wrong" in page
    ), page
    assert "no condition" not in page.split("History")[0]


def test_an_approved_write_says_who_approved_it(told: Scene) -> None:
    assert (
        "By the worker: write 3 of rule hide-archived, because event.status is 'archived'; "
        "approved by Ann: the hall says so" in text(told, "/event?event=e1")
    )


def test_the_two_calls_of_a_frontend_status_are_told_apart(told: Scene) -> None:
    for path in ("/writes?event=e2", "/", "/event?event=e2"):
        page = text(told, path)
        found = [f"\n{words}\n" in page for words in ("DEFAULT -> HIDDEN (event)", "HIDDEN (cr)")]
        assert found == [True, True], path


def test_an_undo_is_named_where_a_rule_would_be(told: Scene) -> None:
    assert "\nfrontend_status of e1, an undo: " in text(told, "/write?id=4")
    assert "\nan undo\n" in text(told, "/writes?event=e1")
    assert "an undo" not in text(told, "/rules"), "and is no rule that there was"
    assert told.get("/rule").status_code == 404
    pages = [told.get(path).text for path in ("/", "/writes", "/write?id=4")]
    assert [page for page in pages if '"/rule"' in page] == [], "no link to a rule without a name"
