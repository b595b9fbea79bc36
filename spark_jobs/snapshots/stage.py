"""What a load has read so far, kept beside its table until all tables are complete: a killed load goes on from there.

PLACE__loading/TSO-SOURCE-ROWS/ has NUMBER.ROWS.parquet for each chunk that was read, which appears complete or not at
all. SOURCE and ROWS are digests: of what the load was given, and of what its rows come from (definition, files).
So chunks of another load are never taken for those of this one.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote
from uuid import uuid4

import numpy as np
import pyarrow

from ticdc_bridge.schemas.ddl.executor.versions import DdlText
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.table import Column, Table, TableId
from ticdc_bridge.schemas.model.types import BYTES
from ticdc_bridge.spark_jobs.io.locations import TableLocation, split_iceberg_name
from ticdc_bridge.spark_jobs.io.message_files import finish, partial_path_of
from ticdc_bridge.spark_jobs.io.object_paths import ObjectPath, partial_path_for, path_of, remove_folder
from ticdc_bridge.spark_jobs.io.stores import StoreUrl, spark_location
from ticdc_bridge.spark_jobs.lake.load import Loaded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pa: Any = pyarrow  # the stubs know less than the library

_CHUNKS, _DONE = "_chunks.json", "_done.json"
_FOLDER: Final = re.compile(r"(?P<tso>\d+)-(?P<source>[0-9a-f]+)-[0-9a-f]+")
_CHUNK: Final = re.compile(r"(?P<number>\d+)\.(?P<rows>\d+)\.parquet")
_GROUP: Final = 16 << 20
"""Bytes of rows that a worker holds before it writes them: a row group of the file."""


class Estimate(NamedTuple):
    """What a table has. size: in bytes."""

    rows: int
    is_exact: bool
    chunks: int
    size: int


@dataclass
class SnapshotTable(ABC):
    """A table at the TSO. definition: its CREATE TABLE, as of just before the TSO. columns: those that can be read."""

    table: Table
    definition: DdlText
    columns: Sequence[Column]

    @property
    @abstractmethod
    def identity(self) -> str:
        """What its rows come from: tables of one identity and TSO have the same rows in the same chunks."""

    @abstractmethod
    def chunks(self) -> list[str]:
        """What `read` takes."""

    @abstractmethod
    def read(self, chunk: str) -> Iterator[list[Any]]:
        """In Spark's workers: the rows of a chunk in batches, an array of each column."""

    def rows(self, spark: SparkSession, stage: Stage) -> tuple[DataFrame, int]:
        """As Snapshot has them, and how many; chunks that were not read before are read now."""
        return stage.rows(spark, self), stage.count()

    @abstractmethod
    def estimate(self) -> Estimate:
        """SetupError where the table can't be read."""

    def losses(self) -> list[str]:
        """What the source does not hold exactly: a sentence a column. SetupError where it can't be read at all."""
        return []

    def position(self, file: int, line: int) -> dict[str, str | int]:
        """Where a row stands, for people; {} where its key alone tells it."""
        del file, line
        return {}

    def obstacles(self, rows: int) -> list[str]:
        """What stands against a load of so many rows of the source, a sentence each."""
        del rows
        return []


def stage_root(location: TableLocation, id_: TableId, given: str | None, conf: Mapping[str, str]) -> Path:
    """The folder that a table's load keeps its chunks in.

    Args:
        given: --stage, for all tables; None: beside the table, or in the warehouse of Iceberg's catalog.
        conf: settings of Spark, which may name the warehouse.
    Raises:
        SetupError: USAGE where no folder is known.
    """
    if given is not None:
        names = (quote(name, safe="").replace(".", "%2E") for name in id_)
        return path_of(given).resolve() / ".".join(names)
    if location.format == "delta":
        return path_of(location.name.rstrip("/") + "__loading").resolve()
    setting = f"spark.sql.catalog.{split_iceberg_name(location.name)[0]}.warehouse"
    warehouse = conf.get(setting)
    if warehouse is None and "pyspark" in sys.modules:
        from pyspark.sql import SparkSession

        session = SparkSession.getActiveSession()
        warehouse = session.conf.get(setting, None) if session else None
    warehouse = re.sub(r"\Afile:/+", "/", warehouse or "")
    if not warehouse.startswith("/") and StoreUrl.of(warehouse) is None:  # some catalogs have a name for it
        details = f"table {id_}: where is what was read kept until the table is complete? Give --stage DIR-OR-URL"
        raise SetupError("USAGE", details=details)
    return path_of(warehouse) / f"{location.name}__loading"


@dataclass(frozen=True)
class Stages:
    """The stages of a load's tables. source: what the load was given, but for its TSO."""

    source: str
    root_of: Callable[[TableId], Path]

    def unfinished(self, ids: Iterable[TableId]) -> int | None:
        """The newest TSO of such a load of these tables that has not ended."""
        folders = [folder for id_ in ids for folder in _folders(self.root_of(id_)) if not (folder / _DONE).exists()]
        names = filter(None, (_FOLDER.fullmatch(folder.name) for folder in folders))
        return max((int(name["tso"]) for name in names if name["source"] == _digest(self.source)), default=None)

    def of(self, table: SnapshotTable, tso: int) -> Stage:
        name = f"{tso}-{_digest(self.source)}-{_digest(table.identity)}"
        return Stage(table.table.id, self.root_of(table.table.id) / name)


class Stage:
    """What was read of a table at a TSO."""

    def __init__(self, id_: TableId, folder: Path) -> None:
        self.folder, self._id = folder, id_
        self._total, self._before, self._began = 0, (0, 0), 0.0

    def begin(self) -> None:
        """What is there of other loads goes, with a line that says so."""
        for other in _folders(self.folder.parent):
            if other.name != self.folder.name:
                if not (other / _DONE).exists():
                    why = "it had another TSO, source, place or definition"
                    tso = other.name.partition("-")[0]
                    print(f"load: {self._id}: what a load at TSO {tso} had read is removed: {why}", file=sys.stderr)
                remove_folder(other)

    def rows(self, spark: SparkSession, table: SnapshotTable) -> DataFrame:
        """The rows of all chunks; those that were not read before are read now, a task a chunk."""
        path = self.folder / _CHUNKS
        if not path.exists():  # else they are those that the load began with
            self._write(_CHUNKS, table.chunks())
        chunks, have = json.loads(path.read_text("utf-8")), self._chunks()
        lacking = [(n, chunk) for n, chunk in enumerate(chunks) if n not in have]
        if have:
            print(f"load: {self._id}: {len(have)} of {len(chunks)} chunks were read before", file=sys.stderr)
        if lacking:
            self._before = len(have), sum(rows for _, rows in have.values())
            self._total, self._began = len(chunks), time.monotonic()
            writer = _ChunkWriter(table, str(self.folder), lacking)
            # a task a chunk: Spark cuts a range evenly
            spark.range(0, len(lacking), 1, len(lacking)).mapInArrow(writer, "rows bigint").collect()
            self._total = 0
        paths = [spark_location(str(path)) for path, _ in self._chunks().values()]
        schema = ", ".join(f"{name} {kind}" for name, kind in _fields_of(table.columns).items())
        return spark.read.schema(schema).parquet(*paths) if paths else spark.createDataFrame([], schema)

    def count(self) -> int:
        """How many rows were read."""
        return sum(rows for _, rows in self._chunks().values())

    def progress(self) -> str:
        """How far the reading is, in words; "" where nothing is being read."""
        if not self._total:
            return ""
        have, (chunks, rows) = self._chunks(), self._before
        seconds, count = time.monotonic() - self._began, sum(read for _, read in have.values())
        text = f"{count:,} rows, {len(have)} of {self._total} chunks, {(count - rows) / seconds:,.0f} rows/s"
        done = len(have) - chunks
        return f"{text}, about {duration(seconds * (self._total - len(have)) / done)} left" if done else text

    def done(self) -> Loaded | None:
        """What the load that was not ended did to this table; None where it was not complete."""
        with suppress(FileNotFoundError, ValueError, TypeError):
            return Loaded(*json.loads((self.folder / _DONE).read_text("utf-8")))
        return None

    def finish(self, loaded: Loaded) -> None:
        """The table is complete: its chunks go, and the note of it stays until those of all tables go."""
        self._write(_DONE, loaded)
        for path, _ in self._chunks().values():
            path.unlink(missing_ok=True)

    def _write(self, name: str, value: Any) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        path, partial = partial_path_of(self.folder / name)
        assert partial is not None
        partial.write_text(json.dumps(value), encoding="utf-8")
        finish(partial, path)

    def _chunks(self) -> dict[int, tuple[Path, int]]:
        found = ((path, _CHUNK.fullmatch(path.name)) for path in self.folder.glob("*.parquet"))
        return {int(name["number"]): (path, int(name["rows"])) for path, name in found if name}


@contextmanager
def begun(stages: Sequence[Stage]) -> Iterator[None]:
    """Stages of the tables of a load: they stay where it ends before it is complete, and one of them has anything."""
    for stage in stages:
        stage.begin()
    try:
        yield
    except BaseException:
        if any(stage.count() or stage.done() for stage in stages):
            print("load: what was read is kept: the same command goes on from there", file=sys.stderr)
        else:
            _remove(stages)
        raise
    _remove(stages)


def _remove(stages: Iterable[Stage]) -> None:
    for stage in stages:
        remove_folder(stage.folder.parent)


@dataclass(frozen=True)
class _ChunkWriter:
    """In Spark's workers: numbers of `chunks` (number, what it is) → their rows in files of the folder."""

    table: SnapshotTable
    folder: str
    chunks: Sequence[tuple[int, str]]

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            rows = [self._write(*self.chunks[n]) for n in batch.column(0).to_pylist()]
            yield pa.RecordBatch.from_arrays([pa.array(rows, pa.int64())], ["rows"])

    def _write(self, number: int, chunk: str) -> int:
        from pyarrow.parquet import ParquetWriter

        schema = _schema_of(self.table.columns)
        folder = path_of(self.folder)
        # Its own name for each try: an older one may be writing still.
        is_object = isinstance(folder, ObjectPath)
        partial = partial_path_for(folder) if is_object else folder / f".{number}.{uuid4().hex}.part"
        rows, size, held = 0, 0, list[Any]()
        try:
            with ParquetWriter(partial, schema, use_dictionary=False, write_statistics=False) as file:  # half the CPU
                for batch in _numbered(self.table.read(chunk), number, schema):
                    held.append(batch)
                    rows, size = rows + batch.num_rows, size + batch.nbytes
                    if size >= _GROUP:
                        file.write_table(pa.Table.from_batches(held))
                        size, held = 0, []
                file.write_table(pa.Table.from_batches(held, schema))
            with partial.open("rb") as written:
                os.fsync(written.fileno())
            finish(partial, folder / f"{number}.{rows}.parquet")
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        return rows


@dataclass(frozen=True)
class _ChunkReader:
    """In Spark's workers: numbers of `chunks` → their rows, which `read` reads."""

    read: Callable[[str], Iterator[list[Any]]]
    columns: Sequence[Column]
    chunks: Sequence[str]

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        schema = _schema_of(self.columns)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from _numbered(self.read(self.chunks[number]), number, schema)


def read_rows(
    spark: SparkSession, columns: Sequence[Column], read: Callable[[str], Iterator[list[Any]]], chunks: Sequence[str]
) -> DataFrame:
    """Rows as Stage.rows has them, read whenever they are asked for. read: as of SnapshotTable."""
    schema = ", ".join(f"{name} {kind}" for name, kind in _fields_of(columns).items())
    if not chunks:
        return spark.createDataFrame([], schema)
    reader = _ChunkReader(read, columns, chunks)
    return spark.range(0, len(chunks), 1, len(chunks)).mapInArrow(reader, schema)


def _numbered(rows: Iterable[list[Any]], number: int, schema: Any) -> Iterator[Any]:
    """Batches of a chunk's rows, with the columns `file` and `line`."""
    line = 0
    for arrays in rows:
        count = len(arrays[0])
        lines = pa.array(np.arange(line, line + count))
        arrays = [*arrays, pa.repeat(pa.scalar(number, pa.int32()), count), lines]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        line += count


def _schema_of(columns: Sequence[Column]) -> Any:
    kinds = {"binary": pa.binary(), "string": pa.string(), "int": pa.int32(), "bigint": pa.int64()}
    return pa.schema([(name, kinds[kind]) for name, kind in _fields_of(columns).items()])


def _fields_of(columns: Sequence[Column]) -> dict[str, str]:
    """The columns of read rows and their Spark types: c_N, `file` (the chunk) and `line` (the row's number in it)."""
    kinds = ("binary" if column.type.kind in BYTES else "string" for column in columns)
    return {**{f"c_{n}": kind for n, kind in enumerate(kinds)}, "file": "int", "line": "bigint"}


def duration(seconds: float) -> str:
    """A time for people."""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:,.0f} min"


def _folders(root: Path) -> list[Path]:
    return [path for path in root.iterdir() if _FOLDER.fullmatch(path.name)] if root.is_dir() else []


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
