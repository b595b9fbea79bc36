"""One store for every SQL database: transactions, layout, and what the database's errors mean."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Engine, exc, inspect, select
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from schemas.errors import BridgeError, RegistryError, SetupError
from service.store.migrations import migrate
from service.store.sqlite import WRITES
from service.store.tables import LAYOUT, facts, metadata
from service.store.transaction import Transaction


class SqlStore:
    """Keeps the promises of `service.registry.ports.Store`."""

    def __init__(self, engine: Engine, url: str, wait_seconds: float) -> None:
        self.url = url
        self._engine = engine
        self._wait_seconds = wait_seconds
        # SQLite lets waiting writers poll; a queue within the process is fairer and quicker.
        self._turn = threading.Lock()
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
        with self._translated("Read"), self._engine.begin() as connection:
            yield Transaction(connection)

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        deadline = time.monotonic() + self._wait_seconds
        if not self._turn.acquire(timeout=self._wait_seconds):
            raise RegistryError("STORE_TIMEOUT", operation="Write")
        try:
            with self._translated("Write"):
                left = max(deadline - time.monotonic(), 0)
                connection = self._engine.connect().execution_options(**{WRITES: left})
                with connection, connection.begin():
                    yield Transaction(connection)
        finally:
            self._turn.release()

    def check(self) -> None:
        """Raise RegistryError if the store can't be read now."""
        with self._translated("Health check"), self._engine.begin() as connection:
            connection.execute(select(facts.c.value)).first()

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def _translated(self, operation: str) -> Iterator[None]:
        try:
            yield
        except BridgeError:
            raise
        except exc.TimeoutError:
            raise RegistryError("STORE_TIMEOUT", operation=operation) from None
        except exc.SQLAlchemyError as error:
            if "locked" in _reason(error) or "busy" in _reason(error):
                raise RegistryError("STORE_TIMEOUT", operation=operation) from error
            raise RegistryError("STORE_FAILED", details=_reason(error)) from error


def _reason(error: exc.SQLAlchemyError) -> str:
    """The database's own words, without the statement and its parameters."""
    return str(error.orig) if isinstance(error, exc.DBAPIError) else str(error)
