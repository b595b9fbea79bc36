"""An SQLite file as the registry wants it: durable when it says so, and writers in a row."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine, create_engine, event

from schemas.errors import SetupError

WRITES: Final = "bridge_writes"
"""Execution option of a connection whose transaction is going to write: for how many seconds it may wait its turn."""

BY_HAND: Final = "bridge_by_hand"
"""Execution option of a connection whose transactions we begin and end ourselves, past SQLAlchemy."""

_POOL = 64


def sqlite_engine(url: str, path: str, wait_seconds: float) -> Engine:
    """An engine whose transactions begin when we say so. Raises SetupError if the file's folder is missing."""
    folder = Path(path).resolve().parent
    if not folder.is_dir():
        raise SetupError("USAGE", details=f"store {url!r}: the folder {folder} does not exist")
    engine = create_engine(url, pool_size=_POOL, max_overflow=0, pool_timeout=wait_seconds)

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _record: Any) -> None:
        connection.isolation_level = None  # Python's own idea of when to begin is switched off
        for pragma in (
            f"busy_timeout={int(wait_seconds * 1000)}",
            "journal_mode=WAL",
            "synchronous=FULL",  # a write that was answered survives a power cut
            "foreign_keys=ON",
            "wal_autocheckpoint=4000",  # 16 MB: what writes change in the indexes goes to the file once, not 4 times
        ):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        options = connection.get_execution_options()
        if options.get(BY_HAND):
            return
        wait = options.get(WRITES)
        if wait is None:
            connection.exec_driver_sql("BEGIN")
            return
        # IMMEDIATE takes the write lock at once: a read that turns into a write could fail half-way instead
        connection.exec_driver_sql(f"PRAGMA busy_timeout={int(wait * 1000)}")
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def driver(connection: Connection) -> sqlite3.Connection:
    """The database's own connection."""
    own: Any = connection.connection.dbapi_connection
    assert isinstance(own, sqlite3.Connection)
    return own
