"""One PostgreSQL server for all tests of this folder that ask for it, and asyncio for those that are coroutines."""

from collections.abc import Iterator

import pytest

from tests.contract.postgres import Server, running


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    with running() as server:
        yield server


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
