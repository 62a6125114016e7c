"""Transactions on the ledger's database, whichever it is: SQLAlchemy's connection, and what happens when it says no.

Everything of a transaction is durable when it is left, or nothing of it. After an error of the database the connection
is thrown away, so nothing half done can be committed later, and the next transaction starts afresh and works again when
the database does. ``sqlite`` and ``postgres`` say how one begins and what errors mean. Nothing here knows a table.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from sqlalchemy import Connection, Engine, Executable, Row
from sqlalchemy.exc import DBAPIError

from worker.ledger.places import LedgerPlace, identity
from worker.model.commits import Record
from worker.model.errors import LedgerUnwritable

Values = Mapping[str, object]


class Store(ABC):
    """Transactions on one ledger. ``place``: its files, where it has any; ``name``: as errors name it."""

    def __init__(self, engine: Engine, name: str, place: LedgerPlace | None = None) -> None:
        self.engine = engine
        self.name = name
        self.place = place
        self.refused: LedgerUnwritable | None = None
        """Why nothing is written any more, whatever comes: the ledger is not what it was."""
        self.in_a_loop = False
        """Whether a transaction that writes waits a moment only for other processes: whoever asks has a loop to keep
        moving, and asks again by itself."""
        self.tell: Callable[[Record], None] = lambda _record: None
        """Who is told of each record once it is stored."""
        self._files: dict[str, tuple[int, int] | None] = {}
        """What must lie where it did."""
        self._turn: AbstractContextManager[object] = nullcontext()
        self._at_rest: list[Connection] = []
        """The connection that the next transaction takes: to take one from SQLAlchemy's pool costs more than most
        statements."""

    @property
    def lasting(self) -> bool:
        """Whether the ledger outlives this process."""
        return True

    def chains(self, partners: Iterable[str | None]) -> Sequence[str]:  # noqa: ARG002 - those of a fleet are otherwise
        """The chains in which these partners' records are, None for what concerns all: where one process writes,
        there is one chain, without a name."""
        return ("",)

    def begin_sending(self, connection: Connection) -> None:  # noqa: B027 - see below
        """Begins a transaction that records an attempt, which a halt that is under way waits for, or goes before.
        Where one writes at a time there is nothing to do."""

    def begin_halt(self, connection: Connection) -> None:  # noqa: B027 - as above
        """Begins one that forbids attempts: once those that are under way have ended, and before any other."""

    def reading(self) -> AbstractContextManager[Connection]:
        """A transaction that sees one state of the ledger and changes nothing."""
        return self._transaction(writing=False)

    def writing(self) -> AbstractContextManager[Connection]:
        """A transaction that nobody else writes in between; all of it is durable on leaving, or none of it."""
        self.require_same()
        return self._transaction(writing=True)

    def require_same(self) -> None:
        """Raises `LedgerUnwritable` where the files are not those that were opened: what is written to a file that was
        removed is seen by nobody else, and lost with this process."""
        if self.refused is not None:
            raise self.refused
        for file, known in self._files.items():
            if identity(file) != known:
                what = "" if self.name.endswith(file) else f": {file} is not the one that it opened"
                raise LedgerUnwritable(
                    f"{self.name} was replaced or removed while it was in use{what}",
                    hint="stop the worker, see which file is the right one, and start again",
                )

    def rows(self, asked: Executable, values: Values | None = None) -> Sequence[Row[*tuple[Any, ...]]]:
        """Every row of the answer to one question."""
        with self.reading() as connection:
            return connection.execute(asked, values).all()

    @abstractmethod
    def begin(self, connection: Connection, *, writing: bool) -> None:
        """Begins a transaction; one that writes, once nobody else is in one."""

    def require_certain(self, connection: Connection) -> None:  # noqa: B027 - that to a file is
        """Raises `LedgerUnwritable` where nothing may rest on the commit that was just made."""

    @abstractmethod
    def in_words(self, error: BaseException) -> LedgerUnwritable | None:
        """The driver's error in the words of the error tree; None for any other error."""

    def spoils(self, error: BaseException) -> bool:
        """Whether the connection on which this happened is of no use any more."""
        return not isinstance(error, Exception) or self.in_words(error) is not None

    @contextmanager
    def _transaction(self, *, writing: bool) -> Iterator[Connection]:
        """The driver's errors are raised in the ledger's words, and end the connection."""
        connection = None
        with self._turn:
            try:
                connection = self.taken()
                with connection.begin():
                    self.begin(connection, writing=writing)
                    yield connection
                self.require_certain(connection)
            except BaseException as error:
                found = error.orig or error if isinstance(error, DBAPIError) else error
                if connection is not None and self.spoils(found):
                    connection.invalidate()
                said = self.in_words(found)
                if said is not None:
                    raise said from found
                raise
            finally:
                if connection is not None:
                    self.give_back(connection)

    def taken(self) -> Connection:
        """A connection that nobody else has; to be given back."""
        try:
            return self._at_rest.pop()
        except IndexError:
            return self.engine.connect()

    def give_back(self, connection: Connection) -> None:
        """Keeps one connection, and closes any other."""
        if connection.invalidated or self._at_rest:
            connection.close()
        else:
            self._at_rest.append(connection)

    def close(self) -> None:
        """Closes every connection; a later transaction opens one again."""
        while self._at_rest:
            self._at_rest.pop().close()
