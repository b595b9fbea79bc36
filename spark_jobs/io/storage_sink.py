"""Folders of TiCDC's storage sink, read as Canal-JSON messages: data files in Canal-JSON or CSV, and schema files.

`{db}/{table}/{version}/[{partition}/][{date}/]CDC000001.json`, in a CSV changefeed .csv; what a table was is in
`{db}/{table}/meta/schema_{version}_{checksum}.json`, a database's DDL in `{db}/meta/`, and the checkpoint in `metadata`
(upstream tiflow `pkg/sink/cloudstorage/path.go` and `table_definition.go`; TiDB's documents, "Sync to storage services"
and "TiCDC CSV protocol"). Releases before 6.5.2 kept `schema.json` beside the data files.

Files come in the order of table version, then date and number; a DDL before the files of its version. A CSV row becomes
a Canal-JSON message with the types of its schema file (`_csv`: ENUM and SET by name).
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from schemas.formats.canal_json import column_of_type
from schemas.model.errors import SetupError, WireError
from schemas.model.event import Message
from schemas.model.options import Options
from schemas.model.reasons import reason_of
from schemas.model.table import Table, TableId, TableVersion
from spark_jobs.io.message_files import opened
from spark_jobs.io.storage_csv import CsvDialect, CsvRow

_DATA = re.compile(r"CDC_?(?:(.+)_)?(\d{6,20})\.(json|csv)(?:\.gz|\.zst)?\Z", re.ASCII)
_SCHEMA = re.compile(r"schema_(\d{1,20})_\d{1,10}\.json\Z", re.ASCII)
_DATE = re.compile(r"\d{4}(?:-\d\d){0,2}\Z", re.ASCII)
_IGNORED = re.compile(r"CDC.*\.index\Z|\..*|_.*")
_MOST_FILE = 1 << 30  # TiCDC's file-size ends at 512 MiB

Item = Message | tuple[WireError, Message]


def is_data_file(path: Path) -> bool:
    """Whether a file is called as the sink calls its data files."""
    return _DATA.match(path.name) is not None


def is_storage_folder(place: str) -> bool:
    """Whether a folder is one of a storage sink: it has data files or schema files somewhere."""
    path = Path(place)
    return path.is_dir() and any(
        is_data_file(file) or (_SCHEMA.match(file.name) and file.parent.name == "meta") for file in path.rglob("*.*")
    )


@dataclass(frozen=True)
class TableFile:
    """A schema file. `version` is the table version, a commit_ts."""

    path: Path
    document: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> TableFile:
        """SetupError USAGE for what is none."""
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(document, dict) or not isinstance(document.get("Schema"), str):
                raise ValueError("no 'Schema'")
            if type(document.get("TableVersion")) is not int:
                raise ValueError("no 'TableVersion'")
            return cls(path, document)
        except (OSError, ValueError, RecursionError) as error:
            raise SetupError(
                "USAGE", details=f"{path}: no schema file of a storage sink: {reason_of(error)}"
            ) from error

    @property
    def version(self) -> int:
        return int(self.document["TableVersion"])

    @property
    def id(self) -> TableId:
        return TableId(self.document["Schema"], str(self.document.get("Table") or ""))

    @cached_property
    def types(self) -> dict[str, str]:
        """The columns' types as Canal-JSON's mysqlType has them. SetupError USAGE."""
        try:
            return {column["ColumnName"]: _type_text(column) for column in self.document.get("TableColumns") or ()}
        except (LookupError, TypeError, AttributeError) as error:
            raise SetupError("USAGE", details=f"{self.path}: TableColumns: {reason_of(error)}") from error

    @property
    def keys(self) -> list[str]:
        columns = self.document.get("TableColumns") or ()
        return [column["ColumnName"] for column in columns if column.get("ColumnIsPk") == "true"]

    def table_version(self) -> TableVersion | None:
        """The table that it describes; None for a database's, a table's that is gone, and one with ENUM or SET, whose
        elements are not told. SetupError USAGE.
        """
        if not self.types or {"enum", "set"} & set(self.types.values()):
            return None
        try:
            columns = tuple(column_of_type(name, text, name in self.keys) for name, text in self.types.items())
        except ValueError as error:
            raise SetupError("USAGE", details=f"{self.path}: {error}") from error
        return TableVersion(self.version, Table(self.id, columns))

    def ddl_message(self) -> Message | None:
        """Its statement as a message; None for a table that was there when the changefeed began."""
        if not self.document.get("Query"):
            return None
        return Message(None, _json_bytes({
            "database": self.id.db, "table": self.id.table, "isDdl": True, "type": "QUERY",
            "sql": self.document["Query"], "_tidb": {"commitTs": self.version},
        }))  # fmt: skip


def _type_text(column: dict[str, Any]) -> str:
    """ColumnType, ColumnPrecision and ColumnScale → a type as MySQL writes it. Scale is left out where it is 0."""
    name, _, unsigned = column["ColumnType"].lower().partition(" ")
    name = {"var_string": "varchar", "tidbvectorfloat32": "vector"}.get(name, name)
    length, scale = column.get("ColumnPrecision"), column.get("ColumnScale")
    if name in ("datetime", "timestamp", "time"):
        name += f"({scale or 0})"
    elif name == "decimal" or (name in ("float", "double") and scale):
        name += f"({length},{scale or 0})"
    elif name == "bit":
        name += f"({length or 1})"
    return f"{name} {unsigned}".strip()


def _json_bytes(document: dict[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogateescape")


class StorageFolder:
    """What is in a folder of a storage sink: data files and schema files in their order."""

    def __init__(self, place: str) -> None:
        """SetupError USAGE for a folder that has none, and for damaged schema files."""
        self._root = Path(place)
        self.tables: list[TableFile] = []
        self._data: list[Path] = []
        self._checkpoints: list[Path] = []
        self.others: list[Path] = []
        for path in sorted(p for p in self._root.rglob("*") if p.is_file()):
            if is_data_file(path):
                self._data.append(path)
            elif path.name == "schema.json" or (_SCHEMA.match(path.name) and path.parent.name == "meta"):
                self.tables.append(TableFile.read(path))
            elif path.name == "metadata":
                self._checkpoints.append(path)
            elif not _IGNORED.match(path.name):
                self.others.append(path)
        if not self._data and not self.tables:
            details = f"{place}: no data files (CDC000001.json, .csv) or schema files of a storage sink are in it"
            raise SetupError("USAGE", details=details)

    def definitions(self) -> list[TableVersion]:
        """The tables that schema files describe. SetupError USAGE."""
        return [version for file in self.tables if (version := file.table_version()) is not None]

    def read(self, options: Options) -> Iterator[Item]:
        """The messages of all files, DDL and the checkpoint among them; a line that is none with its error."""
        if self.others:
            names = ", ".join(str(path.relative_to(self._root)) for path in self.others[:3])
            count = f"{len(self.others)} file{'s' * (len(self.others) > 1)}"
            print(f"warning: {self._root}: not read: {count} that no storage sink writes: {names}", file=sys.stderr)
        counts: dict[str, int] = {}
        for _, entry in sorted([*map(self._ddl_place, self.tables), *map(self._data_place, self._data)], key=_place_of):
            items = self._statement(entry) if isinstance(entry, TableFile) else read_data_file(entry, options)
            for item in items:
                yield _with_position(item, entry, counts)
        yield from filter(None, map(_checkpoint, self._checkpoints))

    @staticmethod
    def _statement(file: TableFile) -> Iterator[Item]:
        message = file.ddl_message()
        return iter(() if message is None else (message,))

    @staticmethod
    def _ddl_place(file: TableFile) -> tuple[tuple[Any, ...], TableFile | Path]:
        return (file.version, file.id, 0, (), "", 0), file

    @staticmethod
    def _data_place(path: Path) -> tuple[tuple[Any, ...], TableFile | Path]:
        where, match = DataPlace.of(path), _DATA.match(path.name)
        assert match is not None
        return (where.version, (where.db, where.table), 1, where.below, match[1] or "", int(match[2])), path


def _place_of(entry: tuple[tuple[Any, ...], Any]) -> tuple[Any, ...]:
    return entry[0]


@dataclass(frozen=True)
class DataPlace:
    """What the folders around a data file say. below: partition and date. version 0: they say nothing."""

    db: str
    table: str
    version: int
    below: tuple[str, ...]
    folder: Path

    @classmethod
    def of(cls, path: Path) -> DataPlace:
        parts = path.resolve().parts[:-1]
        last = len(parts) - 1
        if last >= 0 and _DATE.match(parts[last]) and (last < 1 or parts[last - 1].isdecimal()):
            last -= 1  # a date stands below the version, or below the partition
        if last >= 3 and all(parts[n].isdecimal() for n in (last, last - 1)):
            last -= 1  # a partition's id
        if last < 2 or not parts[last].isdecimal():
            return cls("", "", 0, parts[-1:], path.parent)
        return cls(parts[last - 2], parts[last - 1], int(parts[last]), parts[last + 1 :], Path(*parts[: last + 1]))

    def table_file(self) -> TableFile | None:
        """The schema file of the version."""
        beside = self.folder / "schema.json"
        files = (
            [beside]
            if beside.is_file()
            else sorted((self.folder.parent / "meta").glob(f"schema_{self.version}_*.json"))
        )
        return TableFile.read(files[0]) if files else None


def _with_position(item: Item, entry: TableFile | Path, counts: dict[str, int]) -> Item:
    """The topic is the table, as TiCDC's default rule for topics names it; offsets count its messages."""
    if isinstance(entry, TableFile):
        db, table = entry.id
    else:
        place = DataPlace.of(entry)
        db, table = place.db, place.table
    topic = f"{db}_{table}" if table else db or "storage"
    offset = counts[topic] = counts.get(topic, -1) + 1
    message = item if isinstance(item, Message) else item[1]
    message = replace(message, topic=topic, partition=0, offset=offset)
    return message if isinstance(item, Message) else (item[0], message)


def _checkpoint(path: Path) -> Message | None:
    """The checkpoint as a watermark: every change up to it is in the folder. None where the file is damaged."""
    try:
        checkpoint = json.loads(path.read_text(encoding="utf-8"))["checkpoint-ts"]
    except (OSError, ValueError, LookupError, TypeError):
        print(f"warning: {path}: no checkpoint-ts is in it", file=sys.stderr)
        return None
    body = {"isDdl": False, "type": "TIDB_WATERMARK", "_tidb": {"watermarkTs": checkpoint}}
    return Message(None, _json_bytes(body))


# ---- data files
def read_data_file(path: Path, options: Options) -> Iterator[Item]:
    """The messages of a data file. SetupError USAGE for CSV whose schema file is not there, or that does not end."""
    if ".json" in path.suffixes:
        with opened(path) as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield _line(line.strip(b" \t\r\n"), f"{path.name}:{number}")
        return
    place = DataPlace.of(path)
    table = place.table_file()
    if table is None:
        details = (
            f"{path}: its schema file is needed: {place.folder.parent.name or '.'}/meta/schema_{place.version}_….json"
        )
        raise SetupError("USAGE", details=f"{details} (keep the sink's folders as they are)")
    yield from _csv_messages(path, table, options)


def _line(line: bytes, where: str) -> Item:
    if line[:1] == b"{":
        return Message(None, line)
    return WireError("BAD_LINE", where=where, details="no JSON object, as Canal-JSON is"), Message(None, line)


_HEADER = "ticdc-meta$"  # how names of columns begin, with output-field-header


def _csv_messages(path: Path, table: TableFile, options: Options) -> Iterator[Item]:
    """Each row as a message; the D and I of an update (output-old-value) as one."""
    with opened(path) as file:
        data = file.read(_MOST_FILE + 1)
    if len(data) > _MOST_FILE:
        raise SetupError("USAGE", details=f"{path}: more than {_MOST_FILE >> 20} MiB")
    rows = CsvDialect.of(options).rows(data.decode("utf-8", "surrogateescape"))
    old: tuple[CsvRow, str] | None = None
    for number, (cells, raw) in enumerate(rows, 1):
        if number == 1 and cells and (cells[0] or "").startswith(_HEADER):
            continue
        where = f"{path.name}, row {number}"
        try:
            if cells is None:
                raise ValueError("a value in quotes does not end, or more follows it")
            row = CsvRow.of(cells, table.id, table.types, options.csv_binary_encoding_method)
            is_new = old is not None and row.of_update and row.kind == "INSERT"
            if old is not None and not is_new:
                raise ValueError("the old row of an update stands before it, and it is not the new one")
        except ValueError as error:
            for text in (raw,) if old is None else (old[1], raw):
                failed = WireError("BAD_LINE", where=where, details=reason_of(error))
                yield failed, Message(None, text.encode("utf-8", "surrogateescape"))
            old = None
            continue
        if row.of_update and row.kind == "DELETE":
            old = row, raw
        else:
            before, old = old, None
            yield Message(None, _canal_json(row, table, before[0] if before else None))
    if old is not None:
        failed = WireError("BAD_LINE", where=path.name, details="it ends after the old row of an update: it is cut")
        yield failed, Message(None, old[1].encode("utf-8", "surrogateescape"))


def _canal_json(row: CsvRow, table: TableFile, old: CsvRow | None) -> bytes:
    tidb = {} if row.commit_ts is None else {"_tidb": {"commitTs": row.commit_ts}}
    return _json_bytes({
        "database": table.id.db, "table": table.id.table, "pkNames": table.keys, "isDdl": False,
        "type": "UPDATE" if row.of_update else row.kind, "mysqlType": table.types, "data": [row.values],
        "old": [old.values] if old else None, "_csv": True, **tidb,
    })  # fmt: skip
