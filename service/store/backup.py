"""A store as one file and back, whatever kind of database it is in.

The file is gzip over lines of JSON. The first is {"format", "version", "layout", "tables": {name: [column]}}. Then a
line a row, [table, [value]], tables in the order in which they can be filled and rows in that of their keys; bytes are
base64. The last is {"end": true, "rows": {table: number}, "sha256"}, over all the rows' lines.
"""

import base64
import gzip
import hashlib
import itertools
import json
import os
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.reasons import usage_errors
from ticdc_bridge.service.store.dialects import Dialect
from ticdc_bridge.service.store.migrations import LAYOUT_FACT, bring_up, read_layout, refuse
from ticdc_bridge.service.store.sql_store import SqlStore, read_database
from ticdc_bridge.service.store.tables import facts, metadata

FORMAT: Final = "ticdc-bridge backup"
VERSION: Final = 1

_BATCH: Final = 500
_LONGEST_LINE: Final = 256 * 1024 * 1024
_PLAIN: Final = (sa.String, sa.Boolean, sa.Integer, sa.BigInteger)  # Text is a String


@dataclass(slots=True)
class Contents:
    """How many rows of each table, and what they are (sha256 of their lines)."""

    rows: dict[str, int] = field(default_factory=dict)
    digest: Any = field(default_factory=hashlib.sha256)

    def add(self, table: str, line: bytes) -> None:
        self.rows[table] = self.rows.get(table, 0) + 1
        self.digest.update(line)

    @property
    def sha256(self) -> str:
        return str(self.digest.hexdigest())

    def summary(self) -> str:
        """For people."""
        return ", ".join(f"{count} {name}" for name, count in self.rows.items() if count) or "nothing"


Columns = Mapping[str, list[str]]
"""Table → its columns, in the order of the values."""


def backup(dialect: Dialect, target: Path) -> Contents:
    """Write one consistent state of a store, of this layout or an older one, to a file that appears when it is whole.

    Nothing is changed in the store, and nobody who writes to it waits. Raises SetupError for what is no store of ours,
    is of a newer layout, or a file that can't be written; Outage, STORE_FAILED.
    """
    if not dialect.exists():
        raise SetupError("USAGE", details=f"store {dialect.url!r} does not exist")
    with read_database(dialect) as connection:
        table_names = sa.inspect(connection).get_table_names()
        layout = read_layout(connection) if facts.name in table_names else None
        if layout is None:
            raise SetupError("USAGE", details=f"store {dialect.url!r} holds no registry")
        refuse(layout, f"store {dialect.url!r}")
        # The tables and columns of ours that a store has; an older layout lacks some.
        columns = {}
        for table in metadata.sorted_tables:
            if table.name in table_names:
                names = {column["name"] for column in sa.inspect(connection).get_columns(table.name)}
                columns[table.name] = [column.name for column in table.columns if column.name in names]
        with usage_errors(f"can't write {target}"):
            return _write(target, layout, columns, connection, dialect)


def _write(target: Path, layout: int, columns: Columns, connection: sa.Connection, dialect: Dialect) -> Contents:
    contents = Contents(dict.fromkeys(columns, 0))
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as raw:
            with gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=6, mtime=0, filename="") as out:
                out.write(_line({"format": FORMAT, "version": VERSION, "layout": layout, "tables": dict(columns)}))
                for table, line in lines(connection, columns, dialect):
                    contents.add(table, line)
                    out.write(line)
                out.write(_line({"end": True, "rows": contents.rows, "sha256": contents.sha256}))
            raw.flush()
            os.fsync(raw.fileno())
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return contents


def lines(connection: sa.Connection, columns: Columns, dialect: Dialect) -> Iterator[tuple[str, bytes]]:
    """Every row of these tables and columns as its table and its line, in the order of a backup."""
    for name, some in columns.items():
        table = metadata.tables[name]
        existing = [table.c[column] for column in some]
        query = sa.select(*existing).order_by(*(dialect.sort_key(column) for column in table.primary_key))
        binary = [is_binary(column) for column in existing]
        with connection.execute(query, execution_options={"yield_per": _BATCH}) as rows:
            for row in rows:
                if table is facts and (row[0] == LAYOUT_FACT or dialect.is_local_fact(row[0])):
                    continue
                values = [
                    base64.b64encode(value).decode() if coded and value is not None else value
                    for value, coded in zip(row, binary, strict=True)
                ]
                yield name, _line([name, values])


def is_binary(column: sa.Column[Any]) -> bool:
    """True if the values are bytes. Raises TypeError for a type that a backup can't hold exactly."""
    if isinstance(column.type, sa.LargeBinary):
        return True
    if not isinstance(column.type, _PLAIN):
        raise TypeError(f"{column}: a backup holds text, numbers, booleans and bytes, not {column.type!r}")
    return False


def restore(store: SqlStore, dialect: Dialect, source: Path) -> tuple[Contents, bool]:
    """Fill an empty store from a backup, all of it or nothing, and compare; out: what is there, and whether it was.

    A store that holds the same already is left alone. A backup of an older layout is brought up to the current one.
    Raises SetupError for a file that is no whole backup or of a newer layout, and for a store that holds something
    else; Outage, STORE_FAILED.
    """
    header, contents = check(source)
    with store.write_alone("Restore") as connection:
        columns: Columns = header["tables"]
        old = measure_contents(connection, _all_columns(), dialect)
        if any(old.rows.values()):
            if measure_contents(connection, columns, dialect).sha256 == contents.sha256:
                return contents, True
            details = (
                f"store {dialect.url!r} is not empty ({old.summary()}) and not what {source} holds; take an empty one"
            )
            raise SetupError("USAGE", details=details)
        with gzip.open(source, "rb") as file:
            parsed = (json.loads(line) for line in itertools.islice(file, 1, None))
            entries = itertools.takewhile(lambda entry: isinstance(entry, list), parsed)
            for name, some in itertools.groupby(entries, key=lambda entry: entry[0]):
                table = metadata.tables[name]
                while batch := [_row(table, columns[name], values) for _, values in itertools.islice(some, _BATCH)]:
                    connection.execute(sa.insert(table), batch)
        new = measure_contents(connection, columns, dialect)
        if (new.sha256, new.rows) != (contents.sha256, contents.rows):
            details = f"{source}: the store does not give back what was put in; nothing is kept"
            raise SetupError("USAGE", details=details)
        dialect.after_restore(connection)
        bring_up(connection, header["layout"])
        dialect.finish_setup(connection, True)
    return contents, False


def measure_contents(connection: sa.Connection, columns: Columns, dialect: Dialect) -> Contents:
    contents = Contents(dict.fromkeys(columns, 0))
    for table, line in lines(connection, columns, dialect):
        contents.add(table, line)
    return contents


def _row(table: sa.Table, columns: list[str], values: list[Any]) -> dict[str, Any]:
    return {
        name: base64.b64decode(value) if value is not None and is_binary(table.c[name]) else value
        for name, value in zip(columns, values, strict=True)
    }


def check(source: Path) -> tuple[dict[str, Any], Contents]:
    """Read all of a backup; out: its first line, and what it holds. Raises SetupError for what is no whole backup."""
    try:
        with gzip.open(source, "rb") as file:
            header = _header(source, file.readline(_LONGEST_LINE))
            contents = Contents(dict.fromkeys(header["tables"], 0))
            for line in iter(lambda: file.readline(_LONGEST_LINE), b""):
                row = json.loads(line)
                if isinstance(row, dict):
                    end = {"end": True, "rows": contents.rows, "sha256": contents.sha256}
                    if row != end or file.read(1):
                        details = f"{source} is damaged: its end does not fit what is before it"
                        raise SetupError("USAGE", details=details)
                    return header, contents
                contents.add(row[0], line)
    except (EOFError, zlib.error, gzip.BadGzipFile, ValueError, TypeError, KeyError, IndexError):
        raise SetupError("USAGE", details=f"{source} is no backup, or is damaged") from None
    except OSError as error:
        raise SetupError("USAGE", details=f"can't read {source}: {error.strerror or error}") from None
    raise SetupError("USAGE", details=f"{source} was cut: its end is missing")


def _header(source: Path, line: bytes) -> dict[str, Any]:
    header = json.loads(line)
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise SetupError("USAGE", details=f"{source} is no backup")
    if header["version"] > VERSION:
        details = f"{source} is a backup of version {header['version']}; {VERSION} is known here"
        raise SetupError("USAGE", details=details)
    refuse(int(header["layout"]), str(source))
    tables = _all_columns()
    for name, columns in header["tables"].items():
        if name not in tables or not set(columns) <= set(tables[name]):
            raise SetupError("USAGE", details=f"{source} has a table {name!r} that is not known here, or columns of it")
    return header


def _all_columns() -> dict[str, list[str]]:
    return {table.name: [column.name for column in table.columns] for table in metadata.sorted_tables}


def _line(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
