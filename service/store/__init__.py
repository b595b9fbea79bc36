"""The SQL store of the registry and of table histories: all SQL, and opening a store by its URL.

It keeps the promises of `service.registry.ports` and `service.history.model`; each database has a module in `dialects`.
"""

from pathlib import Path
from typing import Final

from ticdc_bridge.schemas.model.credentials import mask_url
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.service.store import tables as tables  # its tables are part of the layout
from ticdc_bridge.service.store.dialects import Dialect
from ticdc_bridge.service.store.sql_store import SqlStore

__all__ = ["SqlStore", "dialect_of", "open_store", "store_exists"]

CONNECTIONS: Final = 8


def open_store(url: str, *, wait_seconds: float = 25.0, connections: int = CONNECTIONS) -> SqlStore:
    """Open `sqlite:///PATH` or `postgresql://…`; the tables are made if missing, and brought up to date if older.

    `wait_seconds`: how long a request waits for a store that is busy or away. `connections`: how many a PostgreSQL
    store reads with at once (one more writes, and one looks for what others write).
    Raises SetupError with what is wrong: the URL, the directory, the rights, the server, or a store that is not ours.
    """
    return SqlStore(dialect_of(url, wait_seconds, connections), wait_seconds)


def store_exists(url: str) -> bool:
    """True if there is a file where the URL names one; True for what is no SQLite file, or can't be looked at."""
    scheme, _, path = url.partition(":///")
    try:
        return scheme != "sqlite" or Path(path).exists()
    except PermissionError:  # opening it says which folder may not be entered
        return True


def dialect_of(url: str, wait_seconds: float, connections: int) -> Dialect:
    """The dialect of the database that a URL names. Raises SetupError for a URL that names none."""
    scheme, separator, path = url.partition("://")
    if separator and scheme == "sqlite":
        from ticdc_bridge.service.store.dialects.sqlite import Sqlite

        if not path.startswith("/") or not path[1:] or path[1:].startswith(":memory:"):
            raise SetupError("USAGE", details=f"store {url!r} is not understood; write sqlite:///PATH (a file)")
        return Sqlite(url, path[1:], wait_seconds)
    if not separator or scheme not in ("postgresql", "postgresql+psycopg", "postgres"):
        details = f"store {mask_url(url)!r} is not understood; write sqlite:///PATH or postgresql://HOST/DATABASE"
        raise SetupError("USAGE", details=details)
    try:
        from ticdc_bridge.service.store.dialects.postgres import Postgres
    except ImportError as error:
        raise SetupError("USAGE", details=f"a PostgreSQL store needs psycopg, which can't be loaded: {error}") from None
    return Postgres(url, wait_seconds, connections)
