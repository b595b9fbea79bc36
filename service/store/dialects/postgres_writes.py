"""The connection that writes to PostgreSQL, in turn with those of other processes, and the look-out for them."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Final

import psycopg
from psycopg import errors, pq
from sqlalchemy import Connection, Engine, exc

from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.registry.deadline import Outage, retry_until
from ticdc_bridge.service.store.dialects import driver, drop


class ChangeCounter:
    """Which writes are known here. `forget` is called when there was one that is not."""

    def __init__(self, forget: Callable[[], None]) -> None:
        self._forget = forget
        self._lock = threading.Lock()
        self._seen = 0
        self._committing = 0

    @property
    def last_seen(self) -> int:
        return self._seen

    def note_begin(self, number: int) -> bool:
        """Our transaction, alone now, will be `number`; out: whether others have written since what was seen last."""
        with self._lock:
            foreign = number - 1 != self._seen
            self._seen = number - 1
        return foreign

    def note_committing(self, number: int) -> None:
        """From now on the database may show this number, which is ours."""
        with self._lock:
            self._committing = number

    def note_committed(self, number: int) -> None:
        with self._lock:
            self._seen, self._committing = max(self._seen, number), 0

    def note_doubt(self) -> None:
        """The transaction failed, or nobody knows: if its number shows up, take it for another's."""
        with self._lock:
            self._committing = 0

    def note_seen(self, number: int, committed: int, last_seen: int) -> None:
        """The database showed `number`, and `committed` as the last of this process.

        `last_seen`: what had been seen when the question was put.
        """
        with self._lock:
            if last_seen <= number <= self._seen or number == committed == self._committing:
                return
            self._seen = number  # lower than what was known: the database lost writes, in a failover for instance
        self._forget()

    def note_unknown(self) -> None:
        """The number can't be seen now."""
        self._forget()


class ChangePoller:
    """A thread that looks when somebody asks. All who ask while one look is under way share the next one."""

    def __init__(self, look: Callable[[], None]) -> None:
        """`look` never raises."""
        self._look = look
        self._asked = threading.Condition()
        self._next: Future[None] | None = None
        self._thread: threading.Thread | None = None
        self._began = float("-inf")
        self._closed = False

    def request_look(self, max_age: float) -> Future[None] | None:
        """What ends when a look that began after now has ended; None if the last one began within `max_age` seconds."""
        with self._asked:
            if self._closed or time.monotonic() - self._began < max_age:
                return None
            if self._next is None:
                self._next = Future()
                self._asked.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="store-looks", daemon=True)
                self._thread.start()
            return self._next

    def _run(self) -> None:
        while True:
            with self._asked:
                self._asked.wait_for(lambda: self._next is not None or self._closed)
                future, self._next = self._next, None
            if future is None:
                return
            future.set_running_or_notify_cancel()  # from now on nobody who waits can take it from the others
            began = time.monotonic()
            self._look()
            self._began = began
            future.set_result(None)

    def close(self) -> None:
        """No more looks; those that are waited for end first."""
        with self._asked:
            self._closed = True
            self._asked.notify()
        if self._thread is not None:
            self._thread.join(timeout=5)


WRITER: Final = "writer "

_IDLE_MS: Final = 120_000  # a process that stands still must not keep the others waiting for ever
_LOOK_MS: Final = 2_000
_BEGIN: Final = """BEGIN ISOLATION LEVEL READ COMMITTED;
SET LOCAL lock_timeout = {wait_ms}; SET LOCAL idle_in_transaction_session_timeout = {idle_ms};
WITH now AS (UPDATE bridge_facts SET value = (value::bigint + 1)::text WHERE name = 'changes' RETURNING value)
INSERT INTO bridge_facts (name, value) SELECT '{writer}', value FROM now
ON CONFLICT (name) DO UPDATE SET value = excluded.value RETURNING value::bigint;
SELECT value::int FROM bridge_facts WHERE name = 'layout';
SAVEPOINT one"""
_LOOK: Final = """SELECT now.value::bigint, coalesce(own.value::bigint, 0)
FROM bridge_facts now LEFT JOIN bridge_facts own ON own.name = %s WHERE now.name = 'changes'"""
_COMMITTED: Final = "SELECT value::bigint FROM bridge_facts WHERE name = %s"


class PostgresWrites:
    """Keeps the promises of `dialects.WriteSession`."""

    def __init__(self, engine: Engine, wait_seconds: float, forget: Callable[[], None]) -> None:
        self._engine = engine
        self._wait_seconds = wait_seconds
        self._name = f"{WRITER}{uuid.uuid4()}"
        self._number = 0
        self._used = False
        """True if the savepoint that is there is somebody's already."""
        self._writer: Connection | None = None
        self.layout: int | None = None
        self._raw: Any = None  # the driver's, which SQLAlchemy's would replace by a new one when it is lost
        self._watcher: psycopg.Connection[Any] | None = None
        self._numbers = ChangeCounter(forget)
        self._looks = ChangePoller(self._see)

    @property
    def connection(self) -> Connection:
        assert self._writer is not None
        return self._writer

    def begin(self, wait_seconds: float) -> bool:
        statement = _BEGIN.format(wait_ms=milliseconds(wait_seconds), idle_ms=_IDLE_MS, writer=self._name)
        fresh = self._writer is None
        try:
            number = self._start(statement)
        except psycopg.Error as error:
            is_lost = self._writer is None or self._raw.closed
            self.rollback()
            if isinstance(error, errors.ReadOnlySqlTransaction) and self._writer is not None:
                drop(self._writer)  # a server that is none any more; the next connection may find the one that is
                self._writer = None
            if fresh or not is_lost:
                raise
            number = self._start(statement)  # the connection had been lost before; a new one may do
        self._number, self._used = number, False
        return self._numbers.note_begin(number)

    def _start(self, statement: str) -> int:
        if self._writer is None:
            self._writer = _connect(self._engine)
            self._raw = driver(self._writer)
        cursor = self._raw.execute(statement)
        while cursor.description is None and cursor.nextset():
            pass  # of several statements, one has rows
        row = cursor.fetchone()
        if row is None:
            self.rollback()
            raise RegistryError("STORE_FAILED", details="the row 'changes' of bridge_facts is gone")
        cursor.nextset()  # a statement of its own: it sees what was committed while this one waited for its turn
        layout = cursor.fetchone()
        self.layout = None if layout is None else int(layout[0])
        return int(row[0])

    def write_together(self, texts: Sequence[tuple[str, list[Any]]]) -> None:
        """One statement: foreign keys are checked at its end. psycopg's pipeline saves as many ways, but no CPU."""
        *others, (last, _) = texts
        pieces = ", ".join(f"part{index} AS ({text})" for index, (text, _) in enumerate(others))
        self._raw.execute(
            f"WITH {pieces} {last}" if others else last, [value for _, values in texts for value in values]
        )

    def savepoint(self) -> None:
        """The first one came with BEGIN, and a release comes with the next: each word to the server costs a way."""
        if self._used:
            self._raw.execute("RELEASE one; SAVEPOINT one")
        self._used = True

    def release(self) -> None:
        """Left to the next savepoint, or to the commit; but a part in which a statement failed unseen is undone."""
        status = self._raw.info.transaction_status
        if status == pq.TransactionStatus.INERROR:
            self.undo()
        if status != pq.TransactionStatus.INTRANS:
            raise errors.InFailedSqlTransaction("a statement failed, or the transaction ended")

    def undo(self) -> None:
        self._raw.execute("ROLLBACK TO one")

    def is_alive(self) -> bool:
        return self._writer is not None and self._raw.info.transaction_status in (
            pq.TransactionStatus.INTRANS,
            pq.TransactionStatus.INERROR,
        )

    def commit(self) -> None:
        self._numbers.note_committing(self._number)
        try:
            self._commit()
        except BaseException:
            self._numbers.note_doubt()
            raise
        self._numbers.note_committed(self._number)

    def _commit(self) -> None:
        connection = self.connection
        try:
            status = self._raw.execute("COMMIT").statusmessage
        except psycopg.Error:
            is_lost = bool(self._raw.closed)
            self.rollback()
            self._numbers.note_doubt()
            if not is_lost or not self._was_committed():
                raise
            return
        except BaseException:
            self.rollback()
            raise
        connection.rollback()  # SQLAlchemy's own idea of a transaction ends too
        if status != "COMMIT":  # what PostgreSQL does with a transaction in which a statement failed
            raise errors.InFailedSqlTransaction("the transaction was rolled back")

    def _was_committed(self) -> bool:
        """True if the COMMIT that got no answer counts. Raises STORE_TIMEOUT if the server does not come back."""
        until = time.monotonic() + self._wait_seconds

        def look() -> bool:
            try:
                with self._engine.connect() as connection:
                    raw = driver(connection)
                    # Whoever was cut off in its COMMIT may still be at it; its row lock tells when it is done.
                    raw.execute(f"BEGIN; SET LOCAL lock_timeout = {milliseconds(until - time.monotonic())}")
                    raw.execute("SELECT value FROM bridge_facts WHERE name = 'changes' FOR UPDATE")
                    row = raw.execute(_COMMITTED, [self._name]).fetchone()
                    raw.execute("ROLLBACK")
                    return row is not None and int(row[0]) == self._number
            except (psycopg.Error, exc.SQLAlchemyError):
                raise Outage("Write", "the connection was lost in a COMMIT") from None

        return retry_until(look, self._wait_seconds)

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

    def look(self, max_age: float) -> Future[None] | None:
        return self._looks.request_look(max_age)

    def _see(self) -> None:
        last_seen = self._numbers.last_seen
        try:
            if self._watcher is None:
                fairy = self._engine.raw_connection()
                raw: Any = fairy.dbapi_connection
                fairy.detach()
                raw.execute(f"SET statement_timeout = {_LOOK_MS}")
                assert isinstance(raw, psycopg.Connection)
                self._watcher = raw
            row = self._watcher.execute(_LOOK, [self._name]).fetchone()
            if row is None:
                raise psycopg.DataError("no row")
        except Exception:  # whatever it is, nothing is known then
            watcher, self._watcher = self._watcher, None
            if watcher is not None:
                watcher.close()
            self._numbers.note_unknown()
            return
        self._numbers.note_seen(int(row[0]), int(row[1]), last_seen)

    def close(self) -> None:
        self._looks.close()
        if self._writer is not None:
            drop(self._writer)
        if self._watcher is not None:
            self._watcher.close()


def _connect(engine: Engine) -> Connection:
    try:
        return engine.connect()
    except exc.DBAPIError as error:
        raise error.orig if isinstance(error.orig, psycopg.Error) else error from None


def milliseconds(seconds: float) -> int:
    return max(int(seconds * 1000), 1)  # 0 would mean without end
