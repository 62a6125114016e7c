"""Whatever a browser, a script or a stranger sends, the page answers, and decides only for who may.

Some hundreds of drawn requests run with every test run, 20,000 by ``make prove``. Each goes over a socket to the page
as the daemon serves it. Afterwards the log has no record that nobody with the right to it asked for.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, given, settings

from tests.web.hostile import Answered, Head, Request, asked, basic, requests, signed
from tests.web.scene import ANN as ALLOWED
from tests.web.scene import PASSWORD, Scene, copied, key, scene, token_of
from worker.model.commits import LogFilter
from worker.web.door import FORM_COOKIE, Keys

FEW, MANY = 300, 10_000
"""Requests of each of the two kinds, with every test run and by `make prove`."""
TOKEN = "a token of some length"
KEYS = Keys(users={**ALLOWED.users, "vic": key(), "opal": key(may="operate")}, tokens={"monitor": key(TOKEN)})
ANN = basic("ann", PASSWORD)
WITHOUT_RIGHT: tuple[tuple[Head, ...], ...] = (
    (),
    (basic("ann", "wrong password"),),
    (basic("", ""),),
    (basic("vic", PASSWORD),),
    ((b"Authorization", b"Bearer " + TOKEN.encode()),),
    ((b"Authorization", b"Bearer " + PASSWORD.encode()),),
    (ANN, (b"Origin", b"https://evil.test")),
    (ANN, (b"Cookie", b"campaign_worker_form=not so secret 1")),
)
"""Nobody, and those who may not decide, or whose form does not come from the page."""
COUNTED = pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=[pytest.mark.prove, pytest.mark.timeout(0)])])
PURPOSEFUL = ("/healthz", "/readyz")
"""Where 503 is the answer to the question."""


@contextmanager
def complaints() -> Iterator[list[str]]:
    """What is logged meanwhile: a stranger can write as much into the log as one request leaves there."""
    found: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(self.format(record))

    kept = Kept()
    logging.getLogger().addHandler(kept)
    try:
        yield found
    finally:
        logging.getLogger().removeHandler(kept)


@pytest.fixture(scope="module")
def hostile(story: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A page of this file's own, on which decisions may be taken."""
    with scene(copied(story, tmp_path_factory.mktemp("fuzz") / "own"), keys=KEYS) as found:
        yield found


def form_of(page: Scene) -> tuple[str, str]:
    """The cookie and the token that the page gives to Ann's browser."""
    with page.browser() as browser:
        token = token_of(browser)
        return browser.cookies[FORM_COOKIE], token


def fuzzed(count: int, judge: Callable[[Request], None]) -> None:
    """Draws requests and has each judged; an answer that fails is made as small as it can be."""

    checks = list(HealthCheck)

    @settings(max_examples=count, deadline=None, database=None, derandomize=count == FEW, suppress_health_check=checks)
    @given(requests())
    def each(request: Request) -> None:
        judge(request)

    with complaints() as logged:
        each()
    assert logged == []


def answered(page: Scene, request: Request) -> Answered:
    """The answer, which is none of the server's own failures."""
    answer = asked(urlsplit(page.address).port or 0, request)
    failed = answer.status is not None and answer.status >= 500
    if answer.status == 503:
        failed = not any(path in request.target.decode("latin-1") for path in PURPOSEFUL)
    assert not failed, f"{answer.status} for {request}: {answer.body[:300]!r}"
    assert b"Traceback" not in answer.body, request
    return answer


@COUNTED
def test_a_stranger_is_always_answered_and_decides_nothing(hostile: Scene, count: int) -> None:
    before, seen = hostile.ledger.head(), Counter[int | None]()
    others = iter(range(count * 10))

    def judge(request: Request) -> None:
        heads = WITHOUT_RIGHT[next(others) % len(WITHOUT_RIGHT)]
        seen[answered(hostile, signed(request, *heads)).status] += 1

    fuzzed(count, judge)

    assert hostile.ledger.head() == before, "something was decided"
    assert {200, 401, 403, 404} <= set(seen), f"the draw did not come far enough: {seen}"


@COUNTED
def test_whatever_an_operators_browser_sends_is_answered_and_decided_in_that_name_only(
    hostile: Scene, count: int
) -> None:
    before, seen = hostile.ledger.last_seq(), Counter[int | None]()
    cookie, token = form_of(hostile)

    def judge(request: Request) -> None:
        mine = signed(request, ANN, (b"Cookie", f"{FORM_COOKIE}={cookie}".encode()))
        body = mine.body and mine.body + f"&token={token}".encode()
        told = Request(method=mine.method, target=mine.target, heads=mine.heads, body=body, whole=mine.whole)
        seen[answered(hostile, told).status] += 1

    fuzzed(count, judge)

    assert {200, 303, 400, 409} <= set(seen), f"the draw did not come far enough: {seen}"

    decided = list(hostile.ledger.log(LogFilter(after_seq=before)))
    assert decided, "nothing was decided, so nothing was tried"
    assert {one["by"] for one in decided} == {"ann (page)"}
