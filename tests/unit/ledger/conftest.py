"""A ledger for each test that asks for one, on each database that keeps them."""

from collections.abc import Iterator
from inspect import signature
from pathlib import Path

import pytest

from tests.contract.postgres import Server, running
from tests.unit.ledger.examples import NOW
from worker.ledger.sql import SqlLedger


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    with running() as server:
        yield server


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each test with a ledger runs on both; one that asks for the folder, too, is about the file in it."""
    if "ledger" in metafunc.fixturenames:
        of_a_file = "tmp_path" in signature(metafunc.function).parameters
        metafunc.parametrize("url", ["file"] if of_a_file else ["file", "server"], indirect=True)


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "file":
        return f"sqlite:///{tmp_path}/worker.db"
    server: Server = request.getfixturevalue("postgres")
    return server.ledger()


@pytest.fixture
def ledger(url: str) -> Iterator[SqlLedger]:
    with SqlLedger.open(url, clock_now=lambda: NOW) as opened:
        yield opened
