"""A folder that TiDB's Dumpling wrote: its TSO, its tables with their definitions, and which files are whose.

Upstream `dumpling/export`: `metadata.go`, `writer.go` (names of files), `consistency.go` (what the TSO means).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple

from ticdc_bridge.schemas.ddl.executor.versions import DdlText, versions
from ticdc_bridge.schemas.ddl.parser.lexer import SHOW
from ticdc_bridge.schemas.inputs.live_tables import unescape
from ticdc_bridge.schemas.inputs.sql_files import sql_statements
from ticdc_bridge.schemas.inputs.table_sources import definition_text
from ticdc_bridge.schemas.model.errors import DdlError, SetupError
from ticdc_bridge.schemas.model.event import MAX_TSO
from ticdc_bridge.schemas.model.table import Table, TableId
from ticdc_bridge.spark_jobs.io.object_paths import ObjectPath, path_of

PREFIX: Final = "dumpling:"
_COMPRESSED: Final = r"(?:\.(?:gz|zst|snappy))?"
_DATA: Final = re.compile(
    rf"(?P<name>.+)\.(?P<kind>sql|csv){_COMPRESSED}\Z|(?P<stem>.+?)(?:\.\w+)?\.(?P<parquet>parquet)\Z"
)
_SCHEMA: Final = re.compile(rf"(?P<db>[^.]+)\.(?P<table>[^.]+)-schema\.sql{_COMPRESSED}\Z")
_OTHER: Final = re.compile(
    r"(?P<name>.+)-schema-(?P<what>create|view|sequence|trigger|post|placement-policy-create)\.sql"
    + _COMPRESSED
    + r"\Z"
)
_DEFAULT_NAME: Final = re.compile(r"(?P<db>[^./]+)\.(?P<table>[^./]+)\.\d{9,}\Z")
_POSITION: Final = re.compile(
    r"^SHOW (?:MASTER|BINARY LOG) STATUS:.*?^\s*Pos:[ \t]*(\S[^\n]*)$", re.MULTILINE | re.DOTALL
)
_LEFT_ALONE: Final = {"view": "views", "sequence": "sequences", "trigger": "triggers", "post": "routines"}


class DumpFile(NamedTuple):
    """A file with rows. size: in bytes, as it is stored."""

    path: str
    size: int


@dataclass(frozen=True)
class DumpTable:
    """A table of a dump. definition: its CREATE TABLE as SHOW prints it. kind: sql, csv or parquet; "" without rows."""

    table: Table
    definition: DdlText
    kind: str = ""
    files: tuple[DumpFile, ...] = ()

    @property
    def id(self) -> TableId:
        return self.table.id


@dataclass(frozen=True)
class Dump:
    """left_alone: files that hold no rows of a table, by what they are."""

    location: str
    tso: int
    tables: tuple[DumpTable, ...]
    left_alone: Counter[str] = field(default_factory=Counter)


def read_dump(location: str, at: int | None = None) -> Dump:
    """What a folder of Dumpling's has.

    Args:
        location: a folder of this machine or an object store.
        at: its TSO (physical ms << 18 | logical), where its metadata does not say it.
    Raises:
        SetupError: USAGE for what is no whole dump, or has files that are nobody's.
    """
    folder = path_of(location)
    # Spark's workers have the current folder of when they began.
    folder = folder if isinstance(folder, ObjectPath) else folder.absolute()
    if not folder.is_dir():
        raise _error(location, "there is no such folder")
    paths = sorted((path for path in folder.rglob("*") if path.is_file()), key=str)
    names = {str(path)[len(str(folder)) + 1 :]: path for path in paths}
    if "metadata" not in names:
        details = (
            "it has no file called metadata, which Dumpling writes at its end: the dump is not complete, or no dump"
        )
        raise _error(location, details)
    tso = _tso(names.pop("metadata"), location, at)
    left_alone, views = Counter[str](), set[str]()
    schemas, data = dict[TableId, Path](), list[tuple[str, Path, str]]()
    for name, path in names.items():
        if other := _OTHER.fullmatch(path.name):
            left_alone.update([_LEFT_ALONE[other["what"]]] if other["what"] in _LEFT_ALONE else [])
            views |= {other["name"]} if other["what"] == "view" else set()
        elif found := _SCHEMA.fullmatch(path.name):
            schemas[TableId(unescape(found["db"]), unescape(found["table"]))] = path
        elif found := _DATA.fullmatch(name):
            data.append((found["name"] or found["stem"], path, found["kind"] or found["parquet"]))
        else:
            left_alone["other files"] += 1
    tables = {
        id_.folded: _definition(id_, path, tso, location)
        for id_, path in schemas.items()
        if path.name.partition("-schema.sql")[0] not in views
    }
    files = dict[TableId, list[tuple[str, DumpFile]]]()
    for name, path, kind in data:
        id_ = _table_of(name, tables.values(), location)
        files.setdefault(id_, []).append((kind, DumpFile(str(path), path.stat().st_size)))
    for id_, found_files in files.items():
        kinds = sorted({kind for kind, _ in found_files})
        if len(kinds) > 1:
            raise _error(location, f"table {tables[id_].id} has files of several kinds: {', '.join(kinds)}")
        tables[id_] = replace(tables[id_], kind=kinds[0], files=tuple(file for _, file in found_files))
    return Dump(location, tso, tuple(tables.values()), left_alone)


def _tso(metadata: Path, location: str, at: int | None) -> int:
    found = _POSITION.search(metadata.read_text("utf-8", "replace"))
    text = found[1].strip() if found else ""
    if not text.isdigit() or not 0 < int(text) <= MAX_TSO:
        if at is not None:
            return at
        named = f"names its snapshot by a time ({text}), not by a TSO" if text else "names no TSO"
        details = f"its metadata {named}: give the TSO of what it holds (--at N)"
        raise _error(location, details)
    if at is not None and at != int(text):
        raise _error(location, f"its metadata says that it holds the rows of TSO {text}, and --at says {at}")
    return int(text)


def _definition(id_: TableId, path: Path, tso: int, location: str) -> DumpTable:
    """As of just before the TSO: a row belongs to what was defined before its commit_ts."""
    try:
        texts = sql_statements(definition_text(path), id_.db)
        shown = replace(texts[-1], commit_ts=tso - 1, mode=SHOW)
        table = versions([shown])[-1].table
    except (DdlError, ValueError) as error:
        details = error.detail if isinstance(error, DdlError) else error
        raise _error(location, f"{path.name}: {details}") from error
    return DumpTable(table, shown)


def _table_of(name: str, tables: Iterable[DumpTable], location: str) -> TableId:
    """The table of a file with rows, by its name below the folder, without its endings. A template of the user's has
    names as they are, or with %XX as the usual one.
    """
    usual = _DEFAULT_NAME.fullmatch(name)
    if usual is not None:
        id_ = TableId(unescape(usual["db"]), unescape(usual["table"])).folded
        if any(table.id.folded == id_ for table in tables):
            return id_
    else:
        found = [table.id for table in tables if _is_named(name, table.id)]
        longest = max((len(id_.table) for id_ in found), default=0)
        found = [id_ for id_ in found if len(id_.table) == longest]
        if len(found) == 1:
            return found[0].folded
    details = (
        f"{name}: which table has these rows can't be told: its definition (DB.TABLE-schema.sql) is missing, or the"
        " name does not say it"
    )
    raise _error(location, details)


def _is_named(name: str, id_: TableId) -> bool:
    words = "[./_-]"
    for text in (name, unescape(name)):
        db = re.search(rf"(?:\A|{words}){re.escape(id_.db)}(?={words})", text)
        if db and re.search(rf"(?:\A|{words}){re.escape(id_.table)}(?:{words}|\Z)", text[db.end() :]):
            return True
    return False


def _error(location: str, details: str) -> SetupError:
    return SetupError("USAGE", details=f"{PREFIX}{location}: {details}")
