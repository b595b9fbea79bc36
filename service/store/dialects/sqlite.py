"""An SQLite file as the registry wants it: durable when it says so, and writers in a row."""

from __future__ import annotations

import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine, create_engine, event

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.service.store.dialects import Dialect, WriterConnection, driver

_POOL = 64
_LEAST_ROOM: Final = 64 * 1024  # bytes: less is no room for a transaction
# Trouble of the file or its disk that may pass; anything else (no database, another layout of pages) does not.
_TRANSIENT: Final = frozenset(
    {
        sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
    }
)  # fmt: skip
_PRIMARY: Final = 0xFF  # the kind of an extended error code
# Seconds between two tries for the write lock, and for how long after another process's write there may be more.
_TURN, _LONGEST_TURN, _CROWDED = 0.001, 0.01, 1.0


class Sqlite(Dialect):
    """Keeps the promises of `dialects.Dialect`."""

    def __init__(self, url: str, path: str, wait_seconds: float) -> None:
        """Raises SetupError if the file's folder is missing, or the file can't be written."""
        self.url = url
        self._path = Path(path)
        self._file: tuple[int, int] | None = None
        try:
            folder = self._path.resolve().parent
            if not folder.is_dir():
                raise SetupError("USAGE", details=f"store {self.url!r}: the folder {folder} does not exist")
            if (problem := self._permission_problem()) is not None:
                raise SetupError("USAGE", details=f"store {self.url!r} can't be written: {problem}")
            if self._path.is_dir():
                raise SetupError("USAGE", details=f"store {self.url!r}: {self._path} is a folder: name a file in it")
        except PermissionError as error:
            raise SetupError("USAGE", details=f"store {url!r} can't be read: {_barred(error)}") from None
        self.readers = _POOL - 2  # one writes, one looks
        self.engine = create_engine(url, pool_size=_POOL, max_overflow=0, pool_timeout=wait_seconds)
        event.listen(self.engine, "connect", _prepare(wait_seconds))

    def begin_read(self, connection: Connection) -> None:
        driver(connection).execute("BEGIN")

    def begin_setup(self, connection: Connection, wait_seconds: float) -> None:
        driver(connection).execute("PRAGMA busy_timeout=0")
        _begin(driver(connection), wait_seconds)

    def finish_setup(self, connection: Connection, changed: bool) -> None:
        """Whoever has the file open sees another `data_version`."""

    def write_session(self, forget: Callable[[], None]) -> SqliteWrites:
        return SqliteWrites(self.engine, forget)

    def is_transient(self, error: Exception) -> bool:
        code: object = getattr(error, "sqlite_errorcode", None)
        return isinstance(code, int) and code & _PRIMARY in _TRANSIENT

    def refusal(self, error: Exception) -> str | None:
        too_long = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_TOOBIG
        return "A text is longer than the store can hold" if too_long else None

    def reason(self, error: Exception) -> str:
        problem = self.write_problem(None)
        return str(error) if problem is None else f"{error} ({problem})"

    def write_problem(self, connection: Connection | None) -> str | None:
        """By the file, its folder and its disk, as SQLite tells of trouble at the next commit only.

        A file that was taken away is still written by who has it open: what is written then is lost.
        """
        try:
            if not self._path.exists() and self._file is not None:
                return f"{self._path} is gone: stop the service, and put the file back or restore a backup"
            if self._path.exists():
                status = self._path.stat()
                self._file = self._file or (status.st_dev, status.st_ino)
                if self._file != (status.st_dev, status.st_ino):
                    return f"{self._path} is another file than the one in use: restart the service"
            disk = os.statvfs(self._path.resolve().parent)
            if disk.f_frsize * (disk.f_bavail if os.geteuid() else disk.f_bfree) < _LEAST_ROOM:
                return f"the disk of {self._path} is full"
            return self._permission_problem()
        except PermissionError as error:
            return _barred(error)

    def _permission_problem(self) -> str | None:
        paths = (self._path.resolve().parent, self._path, Path(f"{self._path}-wal"), Path(f"{self._path}-shm"))
        for path in (location for location in paths if location.exists()):
            what, rights = ("folder", os.W_OK | os.X_OK) if path.is_dir() else ("file", os.W_OK)
            if not os.access(path, rights, effective_ids=os.access in os.supports_effective_ids):
                return f"this user may not write the {what} {path} (its permissions, or a read-only file system)"
        return None

    def exists(self) -> bool:
        return self._path.exists()

    def after_restore(self, connection: Connection) -> None:
        """A rowid is always counted on from the highest."""


def _barred(error: PermissionError) -> str:
    return f"this user may not enter the folder {Path(error.filename).parent}, or one above it"


class SqliteWrites(WriterConnection):
    """Keeps the promises of `dialects.WriteSession`."""

    def __init__(self, engine: Engine, forget: Callable[[], None]) -> None:
        super().__init__()
        self._engine, self._forget = engine, forget
        self._watcher: Connection | None = None
        self._seen_by_writer: Any = None
        self._seen_by_watcher: Any = None
        self._watching = threading.Lock()
        self._crowded_until = float("-inf")

    @property
    def layout(self) -> int | None:
        row = driver(self.connection).execute("SELECT value FROM bridge_facts WHERE name = 'layout'").fetchone()
        return None if row is None else int(row[0])

    def begin(self, wait_seconds: float) -> bool:
        if self._writer is None:
            self._writer, self._seen_by_writer = self._engine.connect(), None
            self._raw = driver(self._writer)
            self._raw.execute("PRAGMA busy_timeout=0")
        if time.monotonic() < self._crowded_until:
            time.sleep(_TURN)  # so that those who ask for the lock find it free for a moment
        _begin(self._raw, wait_seconds)
        version = _version(self._writer)
        foreign: bool = version != self._seen_by_writer
        self._note_crowd(foreign and self._seen_by_writer is not None)
        self._seen_by_writer = version
        return foreign

    def _note_crowd(self, foreign: bool) -> None:
        if foreign:
            self._crowded_until = time.monotonic() + _CROWDED

    def write_together(self, texts: Sequence[tuple[str, list[Any]]]) -> None:
        for text, values in texts:
            driver(self.connection).execute(text, values)

    def savepoint(self) -> None:
        driver(self.connection).execute("SAVEPOINT one")

    def release(self) -> None:
        driver(self.connection).execute("RELEASE one")

    def undo(self) -> None:
        cursor = driver(self.connection).cursor()
        cursor.execute("ROLLBACK TO one")
        cursor.execute("RELEASE one")

    def is_alive(self) -> bool:
        return bool(driver(self.connection).in_transaction)

    def commit(self) -> None:
        connection = self.connection
        with self._watching:
            try:
                driver(connection).commit()
            except BaseException:
                self.rollback()
                raise
            connection.rollback()  # SQLAlchemy's own idea of a transaction ends too
            # What the watcher sees now is our commit, unless the writer too sees another one after it.
            if self._watcher is not None:
                self._seen_by_watcher = _version(self._watcher)
            version = _version(connection)
            if version != self._seen_by_writer:
                self._seen_by_writer = version
                self._note_crowd(True)
                self._forget()

    def look(self, max_age: float) -> Future[None] | None:
        """Looking takes microseconds, so it is done whatever `max_age` says."""
        if not self._watching.acquire(blocking=False):
            return None  # our own commit: it looks by itself
        try:
            if self._watcher is None:
                self._watcher = self._engine.connect()
                driver(self._watcher).execute("PRAGMA busy_timeout=0")
            version = _version(self._watcher)
            if version != self._seen_by_watcher:
                self._seen_by_watcher = version
                self._forget()
        except self._engine.dialect.loaded_dbapi.Error:
            self._forget()
        finally:
            self._watching.release()
        return None

    def close(self) -> None:
        for connection in (self._writer, self._watcher):
            if connection is not None:
                connection.close()


def _prepare(wait_seconds: float) -> Callable[[sqlite3.Connection, Any], None]:
    def prepare(connection: sqlite3.Connection, _record: Any) -> None:
        connection.isolation_level = None  # Python's own idea of when to begin is switched off
        for pragma in (
            f"busy_timeout={int(wait_seconds * 1000)}",
            "journal_mode=WAL",
            "synchronous=FULL",  # a write that was answered survives a power cut
            "foreign_keys=ON",
            "wal_autocheckpoint=4000",  # 16 MB: pages of indexes that come again and again go to the file once
        ):
            connection.execute(f"PRAGMA {pragma}")

    return prepare


def _begin(connection: sqlite3.Connection, wait_seconds: float) -> None:
    """IMMEDIATE takes the write lock at once: a read that turns into a write could fail half-way instead.

    SQLite itself asks for a taken lock ten times a second in the end, and a process that is busy writing leaves it
    for microseconds only: whoever asks so seldom could wait for ever. So the connection's own patience must be 0.
    """
    until, pause = time.monotonic() + wait_seconds, _TURN
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & _PRIMARY != sqlite3.SQLITE_BUSY or time.monotonic() + pause >= until:
                raise
        time.sleep(pause * random.uniform(0.5, 1.0))
        pause = min(pause * 1.2, _LONGEST_TURN)


def _version(connection: Connection) -> Any:
    """Another number whenever a connection other than this one has committed."""
    return driver(connection).execute("PRAGMA data_version").fetchone()
