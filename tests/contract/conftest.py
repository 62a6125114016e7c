"""One PostgreSQL server for all tests of this folder that ask for it, and asyncio for those that are coroutines."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.calling import settle_in
from tests.contract.postgres import Server, running


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    with running() as server:
        yield server


@pytest.fixture
def url(postgres: Server) -> str:
    """A new database for a ledger."""
    return postgres.ledger()


@pytest.fixture
def config(tmp_path: Path, url: str) -> Path:
    """A host of a fleet on that ledger, whose service is not there."""
    service = "api: {base_url: 'http://127.0.0.1:1/api/v3'}\ncredentials: {username: ann, password: secret}"
    return settle_in(tmp_path, f"{service}\nledger: {url}\nstate_dir: state\n")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
