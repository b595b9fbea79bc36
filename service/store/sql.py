"""One store for every SQL database: transactions, layout, and what the database's errors mean."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from sqlalchemy import Connection, Engine, exc, inspect, select
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from schemas.errors import BridgeError, RegistryError, SetupError
from service.registry.footprint import Listener
from service.store.commits import Commits
from service.store.migrations import migrate
from service.store.sqlite import BY_HAND, WRITES, driver
from service.store.tables import LAYOUT, facts, metadata
from service.store.transaction import Transaction

_AT_HAND = 8

T = TypeVar("T")


class SqlStore:
    """Keeps the promises of `service.registry.ports.Store`."""

    def __init__(self, engine: Engine, url: str, wait_seconds: float) -> None:
        self.url = url
        self._engine = engine
        self._wait_seconds = wait_seconds
        self._commits = Commits(engine, wait_seconds)
        self._at_hand: deque[Connection] = deque()
        self._closed = False
        try:
            self._lay_out()
        except exc.SQLAlchemyError as error:
            engine.dispose()
            raise SetupError("USAGE", details=f"store {url!r} can't be used: {_reason(error)}") from None
        except SetupError:
            engine.dispose()
            raise

    def _lay_out(self) -> None:
        with self._engine.connect().execution_options(**{WRITES: self._wait_seconds}) as connection, connection.begin():
            known = inspect(connection).get_table_names()
            if known and facts.name not in known:
                raise SetupError("USAGE", details=f"store {self.url!r} holds another program's tables")
            metadata.create_all(connection)
            row = {"name": "layout", "value": str(LAYOUT)}
            connection.execute(sqlite_insert(facts).values(row).on_conflict_do_nothing())
            layout = int(connection.execute(select(facts.c.value).where(facts.c.name == "layout")).scalar_one())
            if not 1 <= layout <= LAYOUT:
                details = f"store {self.url!r} has layout {layout}; this version reads layouts 1 to {LAYOUT}"
                raise SetupError("USAGE", details=details)
            migrate(connection, layout)

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        with self._translated("Read"):
            connection = self._take()
            try:
                driver(connection).execute("BEGIN")
                yield Transaction(connection)
            finally:
                self._give_back(connection)

    def _take(self) -> Connection:
        """A connection to read with. A few are kept at hand: the way through the pool costs more than a read."""
        try:
            return self._at_hand.pop()
        except IndexError:
            return self._engine.connect().execution_options(**{BY_HAND: True})

    def _give_back(self, connection: Connection) -> None:
        try:
            driver(connection).rollback()
            connection.rollback()
        except BaseException:
            connection.invalidate()
            connection.close()
            raise
        if len(self._at_hand) < _AT_HAND and not self._closed:
            self._at_hand.append(connection)
        else:
            connection.close()

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        with self._translated("Write"), self._commits.writing() as transaction:
            yield transaction

    def write_each(self, works: Sequence[Callable[[Transaction], T]], wait_seconds: float) -> list[T | Exception]:
        with self._translated("Write"):
            return self._commits.each(works, min(wait_seconds, self._wait_seconds))

    def listen(self, listener: Listener) -> None:
        """Tell `listener` of every change from now on."""
        self._commits.listeners.append(listener)

    def refresh(self) -> None:
        """Tell the listeners if another process has changed the file. Quick, and never waits."""
        self._commits.refresh()

    def check(self) -> None:
        """Raise RegistryError if the store can't be read now."""
        with self._translated("Health check"), self._engine.begin() as connection:
            connection.execute(select(facts.c.value)).first()

    def close(self) -> None:
        self._closed = True
        self._commits.close()
        while self._at_hand:
            self._at_hand.pop().close()
        self._engine.dispose()

    @contextmanager
    def _translated(self, operation: str) -> Iterator[None]:
        try:
            yield
        except BridgeError:
            raise
        except exc.TimeoutError:
            raise RegistryError("STORE_TIMEOUT", operation=operation) from None
        except (exc.SQLAlchemyError, self._engine.dialect.loaded_dbapi.Error) as error:
            if "locked" in _reason(error) or "busy" in _reason(error):
                raise RegistryError("STORE_TIMEOUT", operation=operation) from error
            raise RegistryError("STORE_FAILED", details=_reason(error)) from error


def _reason(error: Exception) -> str:
    """The database's own words, without the statement and its parameters."""
    return str(error.orig) if isinstance(error, exc.DBAPIError) else str(error)
