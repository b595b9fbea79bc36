"""PostgreSQL as the registry wants it, for several service processes at once.

Two kinds of rows in `bridge_facts` are its own. `changes` is a number that every write transaction raises first of
all: its row lock makes writers wait for each other, in all processes, and the number shows that somebody has written.
`writer UUID` is the number of the last transaction that a process committed: after a connection is lost in the middle
of a COMMIT, it tells whether that one counts (the server's own transaction ids may be used again after a crash).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import psycopg
import sqlalchemy as sa
from psycopg import errors
from sqlalchemy.pool import NullPool

from ticdc_bridge.schemas.model.credentials import mask_url
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.service.store.dialects import driver
from ticdc_bridge.service.store.dialects.postgres_writes import WRITER, PostgresWrites, milliseconds
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
_LOCK: Final = "SELECT pg_advisory_xact_lock({lock})"


class Postgres:
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
            "paramstyle": "format",  # by place, as `Ready` gives them
        }
        pool = {"pool_size": connections, "max_overflow": 0, "pool_timeout": wait_seconds}
        self.engine = sa.create_engine(parsed, **common, **pool)
        # Whoever writes or looks does not stand in line with readers.
        self._apart = sa.create_engine(parsed, **common, poolclass=NullPool)
        for engine in (self.engine, self._apart):
            sa.event.listen(engine, "connect", _prepare)

    def connect(self) -> sa.Connection:
        return self.engine.connect()

    def begin_read(self, connection: sa.Connection) -> None:
        driver(connection).execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def begin_setup(self, connection: sa.Connection, wait_seconds: float) -> None:
        raw = driver(connection)
        _check_server(raw, self.url)
        raw.execute(f"BEGIN; SET LOCAL lock_timeout = {milliseconds(wait_seconds)}")
        raw.execute(_LOCK.format(lock=_SETUP_LOCK))
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

    def exists(self) -> bool:
        return True

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


def _check_server(raw: psycopg.Connection[Any], url: str) -> None:
    version = raw.info.server_version // 10000
    if version < OLDEST:
        raise SetupError("USAGE", details=f"store {url!r} is PostgreSQL {version}; {OLDEST} is the oldest that will do")
    encoding = raw.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise SetupError("USAGE", details=f"store {url!r} is a database in {encoding}; make one with ENCODING 'UTF8'")
