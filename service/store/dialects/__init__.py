"""Differences of databases, a module each: how a transaction begins, who else writes, what errors mean.

A transaction is begun and ended by hand, past SQLAlchemy, whose way of doing so costs more than a read does.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from sqlalchemy import Column, ColumnElement, Connection, Engine


class WriteSession(Protocol):
    """The one connection that writes, made anew after a loss; used by one thread at a time, but for `look`."""

    @property
    def connection(self) -> Connection:
        """The connection of the open transaction."""

    @property
    def layout(self) -> int | None:
        """The layout of the tables, as this transaction sees it."""

    def begin(self, wait_seconds: float) -> bool:
        """Start a transaction that is alone; out: whether others wrote. Raises a transient error after the time."""

    def write_together(self, texts: Sequence[tuple[str, list[Any]]]) -> None:
        """Run INSERTs and UPDATEs, each with its values, that do not look at one another's rows."""

    def savepoint(self) -> None: ...

    def release(self) -> None: ...

    def undo(self) -> None:
        """Back to the savepoint, after an error of a statement too."""

    def is_alive(self) -> bool:
        """True if the transaction is still open. The database may have given it up, or the connection is lost."""

    def commit(self) -> None:
        """Make the transaction durable. Raises the driver's error if nothing was written, STORE_TIMEOUT if unknown."""

    def rollback(self) -> None:
        """End the transaction without a trace; never raises."""

    def look(self, max_age: float) -> Future[None] | None:
        """See whether others have written; if so, or if unknown, call `forget`. Out: as `ports.Store.refresh`."""

    def close(self) -> None: ...


class WriterConnection:
    """What the `WriteSession`s of all databases share."""

    def __init__(self) -> None:
        self._writer: Connection | None = None
        self._raw: Any = None
        """The driver's own, which SQLAlchemy's would replace by a new one when it is lost."""

    @property
    def connection(self) -> Connection:
        assert self._writer is not None
        return self._writer

    def rollback(self) -> None:
        connection, self._writer = self._writer, None
        if connection is None:
            return
        try:
            self._raw.rollback()
            connection.rollback()
            self._writer = connection
        except Exception:
            drop(connection)


class Dialect(Protocol):
    """One kind of database."""

    url: str
    """For messages: no password in it."""

    engine: Engine
    """Gives connections whose transactions are begun and ended by hand."""

    readers: int
    """How many connections of the engine may be used to read at once."""

    def begin_read(self, connection: Connection) -> None:
        """Start a transaction that sees one state of the database and never waits for writers."""

    def begin_setup(self, connection: Connection, wait_seconds: float) -> None:
        """Start a transaction that may change the tables themselves; alone until it ends, whatever is there yet."""

    def finish_setup(self, connection: Connection, changed: bool) -> None:
        """In a setup transaction, when the tables are there: let the others know of a change; tidy up."""

    def write_session(self, forget: Callable[[], None]) -> WriteSession:
        """forget: called when another process has written."""

    def is_transient(self, error: Exception) -> bool:
        """True if what the driver raised may pass by itself: no turn, no connection, a server that restarts."""

    def refusal(self, error: Exception) -> str | None:
        """Why the database can't hold a value, if that is what the driver says."""

    def reason(self, error: Exception) -> str:
        """The database's own words, without the statement and its parameters."""

    def write_problem(self, connection: Connection | None) -> str | None:
        """Why nothing can be written for now, told without writing; None where nothing is known to be wrong.

        connection: one in a read transaction; None: only what can be told without asking the database.
        """

    def is_local_fact(self, name: str) -> bool:
        """True if a row of `bridge_facts` is this dialect's own business, so that it is in no backup."""
        return False

    def sort_key(self, column: Column[Any]) -> ColumnElement[Any]:
        """The column for an ORDER BY that sorts as Python does."""
        return column

    def exists(self) -> bool:
        """True if connecting makes nothing new."""
        return True

    def after_restore(self, connection: Connection) -> None:
        """Rows came in with their numbers: let the database go on counting above them."""


def driver(connection: Connection) -> Any:
    """The database driver's own connection."""
    return connection.connection.dbapi_connection


def drop(connection: Connection) -> None:
    """Get rid of a connection that may be broken."""
    try:
        connection.invalidate()
        connection.close()
    except Exception:  # it is gone, whatever it says about that
        return
