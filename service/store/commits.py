"""The one connection that writes: writers take turns in it, and those who wait share a commit.

A writer's work is a savepoint of the open transaction. Whoever finishes while another one waits leaves the commit to
that one and waits for it; so under load one commit, which is what costs, makes several writes durable. Nobody is told
that a write is done before its commit is.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, Engine

from schemas.errors import RegistryError
from service.registry.footprint import ANYTHING, Listener, Part
from service.store.sqlite import BY_HAND, driver
from service.store.transaction import Transaction

_MOST: Final = 64

T = TypeVar("T")


@dataclass(slots=True)
class Shared:
    """A transaction that several writers share."""

    members: int = 0
    changes: set[Part] = field(default_factory=set)
    done: bool = False
    error: BaseException | None = None


class Commits:
    """`writing` is a turn; `refresh` looks whether another process has written."""

    def __init__(self, engine: Engine, wait_seconds: float) -> None:
        self.listeners: list[Listener] = []
        self._wait_seconds = wait_seconds
        self._engine = engine
        self._writer: Connection | None = None
        self._watcher: Connection | None = None
        self._seen_by_writer: Any = None
        self._seen_by_watcher: Any = None
        self._watching = threading.Lock()
        self._turns = threading.Condition()
        self._busy = False
        self._waiting = 0
        self._shared: Shared | None = None

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """Raises RegistryError STORE_TIMEOUT, and what the database raises."""
        with self._turn(self._wait_seconds) as (connection, shared), part_of(shared, connection) as transaction:
            yield transaction

    def each(self, works: Sequence[Callable[[Transaction], T]], wait_seconds: float) -> list[T | Exception]:
        """Every work in one turn, each apart: see `service.registry.ports.Store.write_each`."""
        outcomes: list[T | Exception] = []
        with self._turn(wait_seconds) as (connection, shared):
            for work in works:
                try:
                    with part_of(shared, connection) as transaction:
                        outcomes.append(work(transaction))
                except Exception as error:
                    if not driver(connection).in_transaction:
                        raise
                    outcomes.append(error)
        return outcomes

    @contextmanager
    def _turn(self, wait_seconds: float) -> Iterator[tuple[Connection, Shared]]:
        """The writer's connection while it is ours; what was done in it is durable afterwards."""
        shared = self._take_turn(wait_seconds)
        connection = self._writer
        assert connection is not None
        try:
            if shared.error is not None:
                raise shared.error
            yield connection, shared
        except BaseException as error:
            if not driver(connection).in_transaction:
                shared.error = error  # the database gave up the whole transaction, and so the others' part too
            raise
        finally:
            self._finish(shared)
        if shared.error is not None:
            raise shared.error

    def _take_turn(self, wait_seconds: float) -> Shared:
        deadline = time.monotonic() + wait_seconds
        with self._turns:
            self._waiting += 1
            got = self._turns.wait_for(lambda: not self._busy, wait_seconds)
            self._waiting -= 1
            self._busy = True if got else self._busy
            shared = self._shared
            if not got:
                self._turns.notify_all()  # somebody may have left the commit to us
        if not got:
            raise RegistryError("STORE_TIMEOUT", operation="Write")
        if shared is None:
            try:
                self._begin(max(deadline - time.monotonic(), 0))
            except BaseException:
                self._pass_on()
                raise
            shared = self._shared = Shared()
        shared.members += 1
        return shared

    def _finish(self, shared: Shared) -> None:
        """Commit, or leave it to the next one in the row; either way it is done when this returns."""
        with self._turns:
            if self._waiting and shared.members < _MOST:
                self._busy = False
                self._turns.notify_all()
                # The one who waited may give up instead of taking the turn; then the commit falls to one of us.
                self._turns.wait_for(lambda: shared.done or (not self._busy and not self._waiting))
                if shared.done:
                    return
                self._busy = True
        try:
            self._commit(shared)
        except BaseException as error:
            shared.error = error
        self._pass_on(shared)

    def _pass_on(self, shared: Shared | None = None) -> None:
        with self._turns:
            if shared is not None:
                shared.done, self._shared = True, None
            self._busy = False
            self._turns.notify_all()

    # ---- the database

    def _begin(self, wait_seconds: float) -> None:
        if self._writer is None:
            self._writer = self._engine.connect().execution_options(**{BY_HAND: True})
        cursor = driver(self._writer).cursor()
        cursor.execute(f"PRAGMA busy_timeout={int(wait_seconds * 1000)}")
        # IMMEDIATE takes the write lock at once: a read that turns into a write could fail half-way instead
        cursor.execute("BEGIN IMMEDIATE")
        seen = version(self._writer)
        if seen != self._seen_by_writer:
            self._seen_by_writer = seen
            self._tell(lambda one: one.forget())

    def _commit(self, shared: Shared) -> None:
        assert self._writer is not None
        self._tell(lambda one: one.changing(shared.changes))
        try:
            with self._watching:
                try:
                    if shared.error is not None:
                        raise shared.error
                    driver(self._writer).commit()
                except BaseException:
                    driver(self._writer).rollback()
                    raise
                finally:
                    self._writer.rollback()  # SQLAlchemy's own idea of a transaction ends too
                # What the watcher sees now is our commit, unless the writer too sees another one after it.
                if self._watcher is not None:
                    self._seen_by_watcher = version(self._watcher)
                foreign = version(self._writer) != self._seen_by_writer
        finally:
            self._tell(lambda one: one.changed(shared.changes))
        if foreign:
            self._seen_by_writer = version(self._writer)
            self._tell(lambda one: one.forget())

    def refresh(self) -> None:
        """Tell the listeners to forget everything if another process has written since the last look."""
        if not self._watching.acquire(blocking=False):
            return  # our own commit: it looks by itself
        try:
            if self._watcher is None:
                self._watcher = self._engine.connect().execution_options(**{BY_HAND: True})
                driver(self._watcher).execute("PRAGMA busy_timeout=0")
            seen = version(self._watcher)
            if seen != self._seen_by_watcher:
                self._seen_by_watcher = seen
                self._tell(lambda one: one.forget())
        except self._engine.dialect.loaded_dbapi.Error:
            self._tell(lambda one: one.forget())
        finally:
            self._watching.release()

    def _tell(self, what: Callable[[Listener], None]) -> None:
        for one in self.listeners:
            what(one)

    def close(self) -> None:
        for connection in (self._writer, self._watcher):
            if connection is not None:
                connection.close()


@contextmanager
def part_of(shared: Shared, connection: Connection) -> Iterator[Transaction]:
    """One writer's part of a shared transaction: all of it or, if it raises, nothing."""
    changes: set[Part] = set()
    with savepoint(connection):
        yield Transaction(connection, changes)
    shared.changes |= changes | ({ANYTHING} if changes else set())


@contextmanager
def savepoint(connection: Connection) -> Iterator[None]:
    cursor = driver(connection).cursor()
    cursor.execute("SAVEPOINT one")
    try:
        yield
    except BaseException:
        if driver(connection).in_transaction:
            cursor.execute("ROLLBACK TO one")
            cursor.execute("RELEASE one")
        raise
    cursor.execute("RELEASE one")


def version(connection: Connection) -> Any:
    """Another number whenever a connection other than this one has committed (SQLite: PRAGMA data_version)."""
    return driver(connection).execute("PRAGMA data_version").fetchone()
