"""PostgreSQL as the registry wants it, for several service processes at once.

Two kinds of rows in `bridge_facts` are its own. `changes` is a number that every write transaction raises first of
all: its row lock makes writers wait for each other, in all processes, and the number shows that somebody has written.
`writer UUID` is the number of the last transaction that a process committed: after a connection is lost in the middle
of a COMMIT, it tells whether that one counts (the server's own transaction ids may be used again after a crash).
"""

from __future__ import annotations

import re
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Final

import psycopg
import sqlalchemy as sa
from psycopg import errors, pq
from sqlalchemy.pool import NullPool

from ticdc_bridge.schemas.model.credentials import mask_url
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.registry.deadline import Outage, retry_until
from ticdc_bridge.service.store.dialects import Dialect, WriterConnection, driver, drop
from ticdc_bridge.service.store.tables import metadata

OLDEST: Final = 13
CHANGES: Final = "changes"

_SETUP_LOCK: Final = 7_401_926_385  # an advisory lock of ours: tables may not be there yet to be locked
_FORGOTTEN: Final = 1_000_000  # a writer's row that is that many transactions old is nobody's any more
# A server or a network that is gone is noticed within seconds, not after TCP's two hours.
_NETWORK: Final = {
    "connect_timeout": "5", "keepalives_idle": "5", "keepalives_interval": "2", "keepalives_count": "3",
    "tcp_user_timeout": "10000", "application_name": "ticdc-bridge",
}  # fmt: skip
# Classes of SQLSTATE, or whole ones, that may pass by themselves.
_TRANSIENT: Final = (
    "08",  # connection
    "25006",  # read-only: a standby that is about to take over
    "25P03",  # idle for too long
    "40",  # serialization failure, deadlock
    "53",  # no memory, no disk, too many connections
    "55P03",  # no lock within the time
    "57014",  # canceled by a timeout
    "57P01",  # shut down
    "57P02",  # crashed
    "57P03",  # starting up
    "57P05",  # idle session
    "58030",  # I/O
)
# libpq gives no code for a connection that was refused; in another language than English it is only noticed later.
_NEVER: Final = re.compile(r"FATAL: .*(does not exist|authentication failed|no pg_hba.conf entry|permission denied)")
_MAY_WRITE: Final = """SELECT pg_is_in_recovery(), current_setting('default_transaction_read_only')::bool,
NOT has_table_privilege('bridge_facts', 'UPDATE') OR NOT has_table_privilege('schemas', 'INSERT')"""
_NOT_WRITTEN: Final = (
    "the server is a standby",
    "transactions are read-only (default_transaction_read_only)",
    "the user has no right to write the tables",
)
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


class Postgres(Dialect):
    """Keeps the promises of `dialects.Dialect`."""

    def __init__(self, url: str, wait_seconds: float, connections: int) -> None:
        """`connections`: how many readers use at once; one writes, and one looks. Raises SetupError for a bad URL."""
        parsed = _parse_url(url)
        self.url = mask_url(url)
        self._wait_seconds = wait_seconds
        self.readers = connections
        defaults = {name: value for name, value in _NETWORK.items() if name not in parsed.query}
        common: dict[str, Any] = {
            "connect_args": defaults,
            "isolation_level": "AUTOCOMMIT",  # SQLAlchemy begins nothing; we do
            "paramstyle": "format",  # by position, as `PreparedStatement` gives them
        }
        pool = {"pool_size": connections, "max_overflow": 0, "pool_timeout": wait_seconds}
        self.engine = sa.create_engine(parsed, **common, **pool)
        # Whoever writes or looks does not stand in line with readers.
        self._apart = sa.create_engine(parsed, **common, poolclass=NullPool)
        for engine in (self.engine, self._apart):
            sa.event.listen(engine, "connect", _prepare)

    def begin_read(self, connection: sa.Connection) -> None:
        driver(connection).execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def begin_setup(self, connection: sa.Connection, wait_seconds: float) -> None:
        raw = driver(connection)
        if (version := raw.info.server_version // 10000) < OLDEST:
            details = f"store {self.url!r} is PostgreSQL {version}; {OLDEST} is the oldest that will do"
            raise SetupError("USAGE", details=details)
        if (encoding := raw.info.parameter_status("server_encoding")) != "UTF8":
            details = f"store {self.url!r} is a database in {encoding}; make one with ENCODING 'UTF8'"
            raise SetupError("USAGE", details=details)
        raw.execute(f"BEGIN; SET LOCAL lock_timeout = {milliseconds(wait_seconds)}")
        raw.execute(f"SELECT pg_advisory_xact_lock({_SETUP_LOCK})")
        if raw.execute("SELECT to_regclass('bridge_facts') IS NOT NULL").fetchone()[0]:
            raw.execute("SELECT value FROM bridge_facts WHERE name = 'changes' FOR UPDATE")

    def finish_setup(self, connection: sa.Connection, changed: bool) -> None:
        raw = driver(connection)
        raw.execute("INSERT INTO bridge_facts (name, value) VALUES ('changes', '0') ON CONFLICT (name) DO NOTHING")
        if changed:
            raw.execute("UPDATE bridge_facts SET value = (value::bigint + 1)::text WHERE name = 'changes'")
        raw.execute(
            "DELETE FROM bridge_facts WHERE name LIKE 'writer %' AND value::bigint < (SELECT value::bigint - "
            f"{_FORGOTTEN} FROM bridge_facts WHERE name = 'changes')"
        )

    def write_session(self, forget: Callable[[], None]) -> PostgresWrites:
        return PostgresWrites(self._apart, self._wait_seconds, forget)

    def is_transient(self, error: Exception) -> bool:
        if not isinstance(error, psycopg.Error):
            return False
        if error.sqlstate is not None:
            return error.sqlstate.startswith(_TRANSIENT)
        # No code: libpq's own words about a connection, or a connection that is closed already.
        never = _NEVER.search(str(error))
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) and never is None

    def refusal(self, error: Exception) -> str | None:
        if isinstance(error, errors.ProgramLimitExceeded):
            return "A name is longer than the store can hold"
        if isinstance(error, psycopg.DataError) and error.sqlstate is None and "NUL" in str(error):
            return "A text holds a NUL character, which PostgreSQL can't hold"
        return None

    def reason(self, error: Exception) -> str:
        primary = error.diag.message_primary if isinstance(error, psycopg.Error) else None
        return primary or " ".join(str(error).split())

    def write_problem(self, connection: sa.Connection | None) -> str | None:
        if connection is None:
            return None
        row = driver(connection).execute(_MAY_WRITE).fetchone()
        return next((why for why, is_so in zip(_NOT_WRITTEN, row, strict=True) if is_so), None)

    def is_local_fact(self, name: str) -> bool:
        return name == CHANGES or name.startswith(WRITER)

    def sort_key(self, column: sa.Column[Any]) -> sa.ColumnElement[Any]:
        return column.collate("C") if isinstance(column.type, sa.String) else column

    def after_restore(self, connection: sa.Connection) -> None:
        raw = driver(connection)
        for table in metadata.sorted_tables:
            column = table.autoincrement_column
            if column is not None and isinstance(column.type, sa.Integer):
                name, key = table.name, column.name
                raw.execute(
                    f"SELECT setval(pg_get_serial_sequence('{name}', '{key}'), max({key})) FROM {name} "
                    f"HAVING max({key}) IS NOT NULL"
                )


def _prepare(connection: psycopg.Connection[Any], _record: Any) -> None:
    # The server too is to notice a machine that is gone: it may have been the one that writes.
    connection.execute("SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3")
    # An answer is given when the write is on disk; a stricter setting of the server stays.
    connection.execute(
        "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') IN "
        "('off', 'local')"
    )


def _parse_url(url: str) -> sa.URL:
    try:
        parsed = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        parsed = None
    if parsed is None or not parsed.database:
        details = f"store {mask_url(url)!r} is not understood; write postgresql://HOST/DATABASE"
        raise SetupError("USAGE", details=details)
    return parsed.set(drivername="postgresql+psycopg")


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
        """The transaction failed, or that is not known: if its number shows up, take it for another's."""
        with self._lock:
            self._committing = 0

    def note_seen(self, number: int, committed: int, last_seen: int) -> None:
        """The database showed `number`, and `committed` as this process's last. `last_seen`: seen before asking."""
        with self._lock:
            if last_seen <= number <= self._seen or number == committed == self._committing:
                return
            self._seen = number  # lower than what was known: the database lost writes, in a failover for instance
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
        """A future that ends with a look that begins after now; None if the last one began within `max_age` seconds."""
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


class PostgresWrites(WriterConnection):
    """Keeps the promises of `dialects.WriteSession`."""

    def __init__(self, engine: sa.Engine, wait_seconds: float, forget: Callable[[], None]) -> None:
        super().__init__()
        self._engine = engine
        self._wait_seconds = wait_seconds
        self._name = f"{WRITER}{uuid.uuid4()}"
        self._number = 0
        self._used = False
        """True if the savepoint that is there is somebody's already."""
        self.layout: int | None = None
        self._watcher: psycopg.Connection[Any] | None = None
        self._forget = forget
        self._numbers = ChangeCounter(forget)
        self._looks = ChangePoller(self._see)
        self.look = self._looks.request_look

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
            try:
                self._writer = self._engine.connect()
            except sa.exc.DBAPIError as error:
                raise error.orig if isinstance(error.orig, psycopg.Error) else error from None
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
        parameters = [value for _, values in texts for value in values]
        self._raw.execute(f"WITH {pieces} {last}" if others else last, parameters)

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
        in_transaction = (pq.TransactionStatus.INTRANS, pq.TransactionStatus.INERROR)
        return self._writer is not None and self._raw.info.transaction_status in in_transaction

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
                    row = raw.execute("SELECT value::bigint FROM bridge_facts WHERE name = %s", [self._name]).fetchone()
                    raw.execute("ROLLBACK")
                    return row is not None and int(row[0]) == self._number
            except (psycopg.Error, sa.exc.SQLAlchemyError):
                raise Outage("Write", "the connection was lost in a COMMIT") from None

        return retry_until(look, self._wait_seconds)

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
            self._forget()
            return
        self._numbers.note_seen(int(row[0]), int(row[1]), last_seen)

    def close(self) -> None:
        self._looks.close()
        if self._writer is not None:
            drop(self._writer)
        if self._watcher is not None:
            self._watcher.close()


def milliseconds(seconds: float) -> int:
    return max(int(seconds * 1000), 1)  # 0 would mean without end
