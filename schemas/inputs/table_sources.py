"""Where table definitions come from: a file, a folder, or a live TiDB (`--ddl`).

A folder is dumpling's (`db.table-schema.sql`, `db-schema-create.sql`; mydumper's is the same), whose data files are
not read; or it holds .sql files. Files may be compressed.
"""

import logging
import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from pathlib import Path
from typing import Any, Final

from ticdc_bridge.schemas.codec.compression import inflate_file
from ticdc_bridge.schemas.ddl.executor.versions import DdlText
from ticdc_bridge.schemas.inputs.definition_files import statements
from ticdc_bridge.schemas.inputs.live_tables import TableStatements, is_server, live_tables, unescape
from ticdc_bridge.schemas.inputs.sql_files import NoTable, sql_statements
from ticdc_bridge.schemas.model.credentials import mask_credentials
from ticdc_bridge.schemas.model.errors import Hint, SetupError
from ticdc_bridge.schemas.model.reasons import reason_of

_MOST: Final = 1 << 30
_ENDS: Final = r"\.sql(?:\.(?:gz|bz2|xz|zst|lz4|snappy))?\Z"
_LOG: Final = logging.getLogger(__name__)
_SQL: Final = re.compile(_ENDS)
# Upstream dumpling `export/writer.go`: other characters of names are %XX.
_DATABASE: Final = re.compile(rf"(?P<db>[^.]+)-schema-create{_ENDS}")
_TABLE: Final = re.compile(rf"(?P<db>[^.]+)\.(?P<table>[^.]+)-schema{_ENDS}")


def definition_source(text: str) -> Path | str:
    """A source as it is given: the URL of a server, or a path."""
    return text if is_server(text) else Path(text)


def source_statements(source: Path | str, db: str) -> TableStatements:
    """The statements that define its tables. db: of names that have none.

    ValueError and OSError say what is wrong, without the source's name.
    """
    if isinstance(source, str):
        return live_tables(source, mysql_client())
    texts = _folder(source, db) if source.is_dir() else statements(definition_text(source), db)
    return TableStatements(texts, None)


def read_statements(source: Path | str, db: str) -> TableStatements:
    """As `source_statements`. SetupError USAGE says what is wrong with --ddl."""
    try:
        return source_statements(source, db)
    except (OSError, ValueError) as error:
        raise usage_error(source, reason_of(error)) from error


def usage_error(source: Path | str, details: str) -> SetupError:
    return SetupError("USAGE", details=f"{Hint.DDL} {mask_credentials(str(source))}: {details}")


def mysql_client() -> Any:
    """The module pymysql. ValueError where it is not installed."""
    try:
        import pymysql
    except ImportError as error:
        raise ValueError("a live TiDB needs the Python package PyMySQL: install it (pip install pymysql)") from error
    return pymysql


def definition_text(path: Path) -> str:
    """A file's text, inflated where it is compressed. ValueError, OSError."""
    data = path.read_bytes()
    try:
        data = inflate_file(data, _MOST)
        # Windows' PowerShell writes UTF-16.
        encoding = "utf-16" if data[:2] in (BOM_UTF16_LE, BOM_UTF16_BE) else "utf-8-sig"
        return data.decode(encoding).replace("\r\n", "\n")
    except UnicodeError as error:
        raise ValueError("it is neither UTF-8 nor UTF-16 text") from error


def _folder(folder: Path, db: str) -> list[DdlText]:
    paths = sorted(path for path in folder.iterdir() if path.is_file() and _SQL.search(path.name))
    dumped = [(path, match) for kind in (_DATABASE, _TABLE) for path in paths if (match := kind.fullmatch(path.name))]
    every = [(path, unescape(match["db"])) for path, match in dumped] or [(path, db) for path in paths]
    if not every:
        raise ValueError("the folder has no .sql file; dumpling's have names such as shop.orders-schema.sql")
    texts: list[DdlText] = []
    for path, database in every:
        try:
            texts += sql_statements(definition_text(path), database)
        except ValueError as error:
            if not isinstance(error, NoTable) or (path == every[-1][0] and not texts):
                raise ValueError(f"{path.name}: {error}") from error
            _LOG.warning("%s is left out, as its table can't be one of TiDB's: %s", path.name, error)
    return texts
