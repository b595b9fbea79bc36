"""Opening a store by its URL."""

from __future__ import annotations

from schemas.errors import SetupError
from service.store import history_tables as history_tables  # its tables are part of the layout
from service.store.sql import SqlStore
from service.store.sqlite import sqlite_engine

__all__ = ["SqlStore", "open_store"]


def open_store(url: str, *, wait_seconds: float = 25.0) -> SqlStore:
    """Open `sqlite:///PATH` (created if missing). `wait_seconds`: how long a request waits for a busy store.

    Raises SetupError with what is wrong: the URL, the directory, the rights, or a file that is no store of ours.
    """
    scheme, separator, path = url.partition(":///")
    if scheme.startswith("postgres"):
        raise SetupError("USAGE", details="PostgreSQL is not supported yet; use --store sqlite:///PATH")
    if scheme != "sqlite" or not separator or not path or path.startswith(":memory:"):
        raise SetupError("USAGE", details=f"store {url!r} is not understood; write sqlite:///PATH (a file)")
    return SqlStore(sqlite_engine(url, path, wait_seconds), url, wait_seconds)
