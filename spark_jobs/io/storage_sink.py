"""Folders of TiCDC's storage sink, read as Canal-JSON messages: data files in Canal-JSON or CSV, and schema files.

`{db}/{table}/{version}/[{partition}/][{date}/]CDC000001.json`, in a CSV changefeed .csv, or with the table's id instead
of its names (use-table-id-as-path); schema files are in `meta` beside the versions (`storage_tables`), and the
checkpoint in `metadata` (upstream ticdc `pkg/cloudstorage/path_key.go`; TiDB's documents, "Sync to storage services"
and "TiCDC CSV protocol"). Releases before 6.5.2 kept `schema.json` beside the data files.

Files come in the order of table version, then date and number; a DDL before the files of its version. A CSV row becomes
a Canal-JSON message with the types of its schema file (`_csv`: ENUM and SET by name).
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

from ticdc_bridge.schemas.inputs.message_lines import OTHER_TERMINATOR, text_after_object
from ticdc_bridge.schemas.model.errors import SetupError, WireError
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.ports import TableSource
from ticdc_bridge.schemas.model.reasons import reason_of
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.spark_jobs.io.message_files import opened
from ticdc_bridge.spark_jobs.io.object_paths import ObjectPath, path_of
from ticdc_bridge.spark_jobs.io.storage_csv import CsvDialect, CsvLayout, CsvRow, not_recorded
from ticdc_bridge.spark_jobs.io.storage_tables import SCHEMA_FILE, TableFile, json_bytes

_DATA = re.compile(r"CDC_?(?:(.+)_)?(\d{6,20})\.(json|csv)(?:\.gz|\.zst)?\Z", re.ASCII)
_TSO_DIGITS = 15  # a table version has at least as many, a table's id fewer
_DATE = re.compile(r"\d{4}(?:-\d\d){0,2}\Z", re.ASCII)
_IGNORED = re.compile(r"CDC.*\.index\Z|\..*|_.*")
_MOST_FILE = 1 << 30  # TiCDC's file-size ends at 512 MiB

Item = Message | tuple[WireError, Message]


def is_data_file(path: Path) -> bool:
    """True if a file is called as the sink calls its data files."""
    return _DATA.match(path.name) is not None


def is_storage_folder(location: str) -> bool:
    """True if a folder is one of a storage sink: it has data files or schema files somewhere."""
    path = path_of(location)
    return path.is_dir() and any(
        is_data_file(file) or (SCHEMA_FILE.match(file.name) and file.parent.name == "meta")
        for file in path.rglob("*.*")
    )


class StorageFolder:
    """What is in a folder of a storage sink: data files and schema files in their order."""

    def __init__(self, location: str) -> None:
        """SetupError USAGE for a folder that has none, and for damaged schema files."""
        self._root = path_of(location)
        self.tables: list[TableFile] = []
        self.data: list[Path] = []
        self._checkpoints: list[Path] = []
        self.others: list[Path] = []
        for path in sorted(p for p in self._root.rglob("*") if p.is_file()):
            if is_data_file(path):
                self.data.append(path)
            elif path.name == "schema.json" or (SCHEMA_FILE.match(path.name) and path.parent.name == "meta"):
                self.tables.append(TableFile.read(path))
            elif path.name == "metadata":
                self._checkpoints.append(path)
            elif not _IGNORED.match(path.name):
                self.others.append(path)
        if not self.data and not self.tables:
            details = f"{location}: no data files (CDC000001.json, .csv) or schema files of a storage sink are in it"
            raise SetupError("USAGE", details=details)

    def read(self, options: Options, tables: TableSource | None = None) -> Iterator[Item]:
        """The messages of all files; a line that is none with its error. tables: say what columns CSV leaves out."""
        if self.others:
            names = ", ".join(str(path.relative_to(self._root)) for path in self.others[:3])
            count = f"{len(self.others)} file{'s' * (len(self.others) > 1)}"
            print(f"warning: {self._root}: not read: {count} that no storage sink writes: {names}", file=sys.stderr)
        counts: dict[str, int] = {}
        entries: list[tuple[tuple[Any, ...], TableFile | Path]]
        entries = [((t.version, t.id, 0, (), "", 0), t) for t in self.tables]
        for path in self.data:
            where, match = DataFolder.of(path), _DATA.match(path.name)
            assert match is not None
            table = TableId(where.db, where.table)
            entries.append(((where.version, table, 1, where.below, match[1] or "", int(match[2])), path))
        for (_, id_, *_), entry in sorted(entries, key=lambda entry: entry[0]):
            items: Iterable[Item]
            if isinstance(entry, TableFile):
                items = filter(None, (entry.ddl_message(),))
            else:
                items = read_data_file(entry, options, tables)
            # The topic is the table, as TiCDC's default rule for topics names it; offsets count its messages.
            topic = f"{id_.db}_{id_.table}" if id_.table else id_.db or "storage"
            for item in items:
                offset = counts[topic] = counts.get(topic, -1) + 1
                message = item if isinstance(item, Message) else item[1]
                message = replace(message, topic=topic, partition=0, offset=offset)
                yield message if isinstance(item, Message) else (item[0], message)
        yield from filter(None, map(_checkpoint, self._checkpoints))


def schema_files(location: str) -> list[TableFile]:
    """The schema files of a folder or data file, also those that stand beside a part of a sink's folder. Empty for what
    is of no storage sink. SetupError USAGE for damaged ones.
    """
    path = path_of(location)
    folder = StorageFolder(location) if is_storage_folder(location) else None
    data = folder.data if folder else [path] if path.is_file() and is_data_file(path) else []
    beside = {DataFolder.of(file).folder.parent / "meta" for file in data}
    files = {file.path.resolve(): file for file in (folder.tables if folder else ())}
    for found in sorted(file for meta in beside for file in meta.glob("schema_*.json") if SCHEMA_FILE.match(file.name)):
        files.setdefault(found.resolve(), TableFile.read(found))
    return list(files.values())


@dataclass(frozen=True)
class DataFolder:
    """What the folders around a data file say. below: partition and date. version 0: they say nothing."""

    db: str
    table: str
    version: int
    below: tuple[str, ...]
    folder: Path

    @classmethod
    def of(cls, path: Path) -> DataFolder:
        """SetupError USAGE for a damaged schema file."""
        pieces = path.resolve().parts[:-1]
        last = len(pieces) - 1
        if last >= 0 and _DATE.match(pieces[last]) and (last < 1 or pieces[last - 1].isdecimal()):
            last -= 1  # a date stands below the version, or below the partition
        if last >= 3 and all(pieces[n].isdecimal() for n in (last, last - 1)) and len(pieces[last]) < _TSO_DIGITS:
            last -= 1  # a partition's id
        if last < 2 or not pieces[last].isdecimal():
            return cls("", "", 0, pieces[-1:], path.parent)
        folder = path_of(str(Path(*pieces[: last + 1])))
        data_folder = cls(pieces[last - 2], pieces[last - 1], int(pieces[last]), pieces[last + 1 :], folder)
        file = data_folder.table_file()
        return data_folder if file is None else replace(data_folder, db=file.id.db, table=file.id.table)

    def table_file(self) -> TableFile | None:
        """The schema file of the version. SetupError USAGE."""
        find = _table_of_objects if isinstance(self.folder, ObjectPath) else _table_of_folder
        return find(self.folder, self.version)


def _table_of_folder(folder: Path, version: int) -> TableFile | None:
    beside, meta = folder / "schema.json", folder.parent / "meta"
    files = [beside] if beside.is_file() else sorted(meta.glob(f"schema_{version}_*.json"))
    return TableFile.read(files[0]) if files else None


_table_of_objects = lru_cache(maxsize=1024)(_table_of_folder)  # each data file asks, and a store takes its time


def _checkpoint(path: Path) -> Message | None:
    """The checkpoint as a watermark: every change up to it is in the folder. None where the file is damaged."""
    try:
        checkpoint = json.loads(path.read_text(encoding="utf-8"))["checkpoint-ts"]
    except (OSError, ValueError, LookupError, TypeError):
        print(f"warning: {path}: no checkpoint-ts is in it", file=sys.stderr)
        return None
    body = {"isDdl": False, "type": "TIDB_WATERMARK", "_tidb": {"watermarkTs": checkpoint}}
    return Message(None, json_bytes(body))


# ---- data files
def read_data_file(path: Path, options: Options, tables: TableSource | None = None) -> Iterator[Item]:
    """The messages of a data file. SetupError USAGE for CSV whose schema file is not there, and for
    more than TiCDC writes into a file, where all of it is read at once: CSV, and lines with a terminator.
    """
    if ".json" in path.suffixes:
        with opened(path) as file:
            end = options.terminator.encode()
            lines: Iterable[bytes] = _content(file, path).split(end) if end else file
            for number, line in enumerate(lines, 1):
                text, where = line.strip(b" \t\r\n"), f"{path.name}:{number}"
                rest = "" if text[-1:] == b"}" else text_after_object(text)
                if text[:1] == b"{" and not rest:
                    yield Message(None, text)
                elif text:
                    details = OTHER_TERMINATOR.format(rest[:20]) if rest else "no JSON object, as Canal-JSON is"
                    yield WireError("BAD_LINE", where=where, details=details), Message(None, text)
        return
    folder = DataFolder.of(path)
    table = folder.table_file()
    if table is None:
        details = (
            f"{path}: its schema file is needed: {folder.folder.parent.name or '.'}/meta/schema_{folder.version}_….json"
        )
        raise SetupError("USAGE", details=f"{details} (keep the sink's folders as they are)")
    yield from _csv_messages(path, table, options, tables)


def _content(file: IO[bytes], path: Path) -> bytes:
    """All of a data file. SetupError USAGE for more than TiCDC writes into one."""
    data = file.read(_MOST_FILE + 1)
    if len(data) > _MOST_FILE:
        raise SetupError("USAGE", details=f"{path}: more than {_MOST_FILE >> 20} MiB")
    return data


def _csv_messages(path: Path, table: TableFile, options: Options, tables: TableSource | None) -> Iterator[Item]:
    """Each row as a message; the D and I of an update (output-old-value) as one."""
    with opened(path) as file:
        data = _content(file, path)
    text, dialect = data.decode("utf-8", "surrogateescape"), CsvDialect.of(options)
    rows = enumerate(dialect.rows(text), 1)
    # All columns of the schema file, but for those that a definition of the same columns calls virtual.
    defined = None if tables is None else tables.at(table.id, table.version + 1)
    virtual = {c.name for c in defined.table.columns if c.virtual} if defined else set()
    sure = defined is not None and {c.name for c in defined.table.columns} == table.types.keys()
    types = {name: kind for name, kind in table.types.items() if name not in virtual}
    layout = CsvLayout(table.id, types, options.csv_binary_encoding_method, table.version, sure)
    reason = ""
    try:
        dialect.refuse_other_terminator(text)
        layout, begins = _layout_with_header(layout, dialect, text)
        if begins:
            next(rows)
    except ValueError as error:
        reason = reason_of(error)
    old: tuple[CsvRow, str] | None = None
    for number, row_text in rows:
        where = f"{path.name}, row {number}"
        try:
            if reason:
                raise ValueError(reason)
            row = CsvRow.of(row_text, layout)
            is_new = old is not None and row.of_update and row.kind == "INSERT"
            if old is not None and not is_new:
                raise ValueError("the old row of an update stands before it, and it is not the new one")
        except ValueError as error:
            for raw in (row_text.raw,) if old is None else (old[1], row_text.raw):
                failed = WireError("BAD_LINE", where=where, details=reason_of(error))
                yield failed, Message(None, raw.encode("utf-8", "surrogateescape"))
            old = None
            continue
        if row.of_update and row.kind == "DELETE":
            old = row, row_text.raw
        else:
            before, old = old, None
            yield Message(None, _canal_json(row, table, layout, before[0] if before else None))
    if old is not None:
        failed = WireError("BAD_LINE", where=path.name, details="it ends after the old row of an update: it is cut")
        yield failed, Message(None, old[1].encode("utf-8", "surrogateescape"))


def _layout_with_header(layout: CsvLayout, dialect: CsvDialect, text: str) -> tuple[CsvLayout, bool]:
    """The layout, and whether the file begins with a header. ValueError where rows may lack columns."""
    ambiguous = False
    for number, row in enumerate(dialect.rows(text)):
        if number == 0 and row.cells and (with_header := layout.with_header(row.cells)):
            return with_header, True
        ambiguous = layout.may_lack_columns(row)
        if not ambiguous:
            break
    if ambiguous:
        column = next(iter(layout.types))
        raise ValueError(f"the first value of its rows may be column {column!r} or the commit_ts: {not_recorded()}")
    return layout, False


def _canal_json(row: CsvRow, table: TableFile, layout: CsvLayout, old: CsvRow | None) -> bytes:
    tidb = {} if row.commit_ts is None else {"_tidb": {"commitTs": row.commit_ts}}
    return json_bytes({
        "database": table.id.db, "table": table.id.table, "pkNames": [k for k in table.keys if k in layout.types],
        "isDdl": False, "type": "UPDATE" if row.of_update else row.kind, "mysqlType": layout.types,
        "data": [row.values], "old": [old.values] if old else None, "_csv": True, **tidb,
    })  # fmt: skip
