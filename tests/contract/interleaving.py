"""Two transactions on a real server, statement by statement, in every order in which they can go.

Each side stops before each statement and each commit. What can go on is played in each order, one run for each: a side
that waits for the other's lock cannot, and the server says so. So what holds here holds for whatever scheduling.
"""

from collections.abc import Callable
from contextlib import ExitStack
from threading import Event, Thread
from time import sleep
from typing import Any
from unittest.mock import patch

import psycopg
from sqlalchemy import event

from tests.contract.postgres import Server
from worker.ledger import postgres
from worker.ledger.sql import SqlLedger
from worker.model.errors import WorkerError

RUNS_MAX = 2_000
UNHURRIED = {**postgres.SETTINGS, "lock_timeout": "1min", "idle_in_transaction_session_timeout": "1min"}
"""Orders are played here, not times: a machine that stands for seconds in between changes nothing."""
BLOCKED = "SELECT cardinality(pg_blocking_pids(%s)) > 0"
Side = tuple[SqlLedger, Callable[[SqlLedger], object]]


class Player(Thread):
    """One side. ``said``: what came of it, once it has ended; an error that people read counts as such."""

    def __init__(self, side: Side) -> None:
        super().__init__(daemon=True)
        self._ledger, self._play = side
        self._go, self.stands = Event(), Event()
        self.ended, self.pid = False, 0
        self.said: object = None
        engine = self._ledger._store.engine
        event.listen(engine, "before_cursor_execute", lambda connection, *_: self._pause(connection))
        event.listen(engine, "commit", self._pause)

    def run(self) -> None:
        try:
            self.said = self._play(self._ledger)
        except WorkerError as error:
            self.said = error
        self.ended = True
        self.stands.set()

    def _pause(self, connection: Any) -> None:  # noqa: ANN401 - the driver's own, behind two others
        self.pid = connection.connection.driver_connection.info.backend_pid
        self.stands.set()
        assert self._go.wait(30), "nobody lets it go on"
        self._go.clear()

    def step(self) -> None:
        self.stands.clear()
        self._go.set()


def in_every_order(server: Server, sides: Callable[[], tuple[Side, ...]]) -> list[tuple[list[int], list[object]]]:
    """Plays all orders, each from new sides. For each: who ended, in their order, and what each said."""
    found, orders = [], [[]]  # type: ignore[var-annotated] # lists of numbers
    with server.connect() as asking, patch.object(postgres, "SETTINGS", UNHURRIED):
        while orders:
            order = orders.pop()
            with ExitStack() as stack:
                players = [Player((stack.enter_context(ledger), play)) for ledger, play in sides()]
                found.append(_played(players, order, orders, asking))
            assert len(found) < RUNS_MAX, "too many orders: begin nearer to what matters"
    return found


def _played(
    players: list[Player], order: list[int], orders: list[list[int]], asking: psycopg.Connection[tuple[object, ...]]
) -> tuple[list[int], list[object]]:
    made: list[int] = []
    ended: list[int] = []
    for one in players:
        one.start()
    while True:
        for one in sorted(players, key=lambda one: made[-1:] != [players.index(one)]):  # who went on last, first
            while not one.stands.is_set() and not (
                one.pid and asking.execute(BLOCKED, (one.pid,)).fetchone() == (True,)
            ):
                sleep(0.0002)
        ended += [at for at, one in enumerate(players) if one.ended and at not in ended]
        able = [at for at, one in enumerate(players) if one.stands.is_set() and not one.ended]
        if not able:
            assert len(ended) == len(players), "they wait for each other"
            return ended, [one.said for one in players]
        if len(made) >= len(order):
            orders += [[*made, other] for other in able[1:]]
        made.append(order[len(made)] if len(made) < len(order) else able[0])
        players[made[-1]].step()
