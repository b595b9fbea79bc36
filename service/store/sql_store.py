"""One store for every SQL database: transactions, layout, and what the database's errors mean."""

import logging
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

from sqlalchemy import Connection, exc

from ticdc_bridge.schemas.model.errors import BridgeError, SetupError
from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.registry.deadline import Outage, retry_until, seconds_left
from ticdc_bridge.service.registry.ports import Collect, Listener
from ticdc_bridge.service.store.dialects import Dialect, driver, drop
from ticdc_bridge.service.store.migrations import lay_out, read_layout
from ticdc_bridge.service.store.transaction import Transaction
from ticdc_bridge.service.store.write_queue import WriteQueue, check_layout

_AT_HAND = 8
_LOG = logging.getLogger("ticdc_bridge.service.store.sql")

T = TypeVar("T")


class SqlStore:
    """Keeps the promises of `service.registry.ports.Store`."""

    def __init__(self, dialect: Dialect, wait_seconds: float) -> None:
        """Waits up to `wait_seconds` for a database that is not there yet. Raises SetupError."""
        self.url = dialect.url
        self.wait_seconds = wait_seconds
        self._dialect = dialect
        self._commits = WriteQueue(dialect, wait_seconds)
        self._at_hand: deque[Connection] = deque()
        self._readers = threading.Semaphore(dialect.readers)
        self._reading = threading.local()
        self._closed = False

        def log_waiting(outage: Outage) -> None:
            why = dialect.reason(_cause(outage))
            _LOG.warning("waiting up to %g s for the store %s: %s", wait_seconds, self.url, why)

        try:
            retry_until(self._lay_out, wait_seconds, waiting=log_waiting)
        except RegistryError as error:
            dialect.engine.dispose()
            why = dialect.reason(_cause(error)) if error.__cause__ is not None else error.detail
            raise SetupError("USAGE", details=f"store {self.url!r} can't be used: {why}") from None
        except SetupError:
            dialect.engine.dispose()
            raise

    def _lay_out(self) -> None:
        with self.write_alone("Setup") as connection:
            self._dialect.finish_setup(connection, lay_out(connection, self.url))

    @contextmanager
    def write_alone(self, operation: str) -> Iterator[Connection]:
        """A transaction past the writers' turns, for what changes everything. Raises Outage, STORE_FAILED."""
        with translate_errors(self._dialect, operation), self._dialect.engine.connect() as connection:
            self._dialect.begin_setup(connection, self.wait_seconds)
            try:
                yield connection
            except BaseException:
                driver(connection).rollback()
                raise
            driver(connection).commit()

    @contextmanager
    def read(self, *, once: bool = False) -> Iterator[Transaction]:
        outer: Transaction | None = getattr(self._reading, "transaction", None)
        if outer is not None:
            yield outer
            return
        with translate_errors(self._dialect, "Read"):
            connection = self._begin_read(once=once)
            try:
                self._reading.transaction = transaction = Transaction(connection)
                yield transaction
            finally:
                self._reading.transaction = None
                self._give_back(connection)

    def _begin_read(self, *, once: bool = False) -> Connection:
        """A connection to read with. A few are kept at hand: the way through the pool costs more than a read.

        One that was at hand may have been lost since, and so may all the others; a new one tells.
        """
        if not self._readers.acquire(timeout=seconds_left(self.wait_seconds)):
            raise RegistryError("STORE_TIMEOUT", operation="Read", reason="all connections are in use")
        try:
            while True:
                try:
                    connection, fresh = self._at_hand.pop(), False
                except IndexError:
                    connection, fresh = self._dialect.engine.connect(), True
                try:
                    if not once:  # a statement alone needs no transaction
                        self._dialect.begin_read(connection)
                    return connection
                except BaseException:
                    drop(connection)
                    if fresh:
                        raise
        except BaseException:
            self._readers.release()
            raise

    def _give_back(self, connection: Connection) -> None:
        try:
            driver(connection).rollback()
            connection.rollback()
        except BaseException as error:
            drop(connection)
            if not isinstance(error, Exception):  # a connection that was only read from may be lost
                raise
        else:
            if len(self._at_hand) < _AT_HAND and not self._closed:
                self._at_hand.append(connection)
            else:
                connection.close()
        finally:
            self._readers.release()

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        with translate_errors(self._dialect, "Write"), self._commits.open_transaction() as transaction:
            yield transaction

    def write_each(self, collect: Collect[Transaction, T], wait_seconds: float) -> list[T | Exception]:
        with translate_errors(self._dialect, "Write"):
            return self._commits.run_each(collect, min(wait_seconds, self.wait_seconds))

    def listen(self, listener: Listener) -> None:
        """Tell `listener` of every change from now on."""
        self._commits.listeners.append(listener)

    def refresh(self, max_age: float) -> Future[None] | None:
        """Tell the listeners if another process has written. Quick, and never waits."""
        return self._commits.refresh(max_age)

    def check(self, *, ask: bool = True) -> None:
        self._refuse_problem(self._dialect.write_problem(None))
        if not ask:
            return
        with translate_errors(self._dialect, "Health check"):
            connection = self._begin_read()
            try:
                check_layout(read_layout(connection))
                self._refuse_problem(self._dialect.write_problem(connection))
            finally:
                self._give_back(connection)

    def _refuse_problem(self, problem: str | None) -> None:
        if problem is not None:
            raise RegistryError("STORE_FAILED", details=f"{self.url} can't be written: {problem}")

    def close(self) -> None:
        self._closed = True
        self._commits.close()
        while self._at_hand:
            self._at_hand.pop().close()
        self._dialect.engine.dispose()


@contextmanager
def read_database(dialect: Dialect) -> Iterator[Connection]:
    """One state of a database, without a store: nothing is laid out. Raises Outage, STORE_FAILED."""
    with translate_errors(dialect, "Read"), dialect.engine.connect() as connection:
        dialect.begin_read(connection)
        try:
            yield connection
        finally:
            driver(connection).rollback()


@contextmanager
def translate_errors(dialect: Dialect, operation: str) -> Iterator[None]:
    """Raises our errors in place of a driver's and SQLAlchemy's: Outage, STORE_TIMEOUT, STORE_FAILED, UNPROCESSABLE."""
    try:
        yield
    except BridgeError:
        raise
    except exc.TimeoutError:
        raise RegistryError("STORE_TIMEOUT", operation=operation, reason="all connections are in use") from None
    except (exc.SQLAlchemyError, dialect.engine.dialect.loaded_dbapi.Error) as error:
        cause = _cause(error)
        if dialect.is_transient(cause):
            raise Outage(operation, dialect.reason(cause)) from error
        refusal = dialect.refusal(cause)
        if refusal is not None:
            raise RegistryError("UNPROCESSABLE", details=refusal) from error
        raise RegistryError("STORE_FAILED", details=dialect.reason(cause)) from error


def _cause(error: BaseException) -> Exception:
    """The driver's own error behind one of ours or SQLAlchemy's."""
    cause: Any = error
    while True:
        behind: Any = cause.orig if isinstance(cause, exc.DBAPIError) else None
        if isinstance(cause, RegistryError):
            behind = cause.__cause__
        if behind is None:
            assert isinstance(cause, Exception)
            return cause
        cause = behind
