"""What a load has read so far, kept beside its table until all tables are complete: a killed load goes on from there.

PLACE__loading/TSO-SOURCE-ROWS/ has for each chunk that was read NUMBER.parquet, its rows; NUMBER.letters, those with a
value that does not fit its type; then NUMBER.ROWS.json: it is complete (a ChunkNote). SOURCE and ROWS are
digests: of what the load was given, and of what its rows come from (definition, files). So chunks of another load are
never taken for those of this one. A file of rows becomes one of the table's where that takes it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import uuid4

import numpy as np
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ticdc_bridge.schemas.ddl.executor.versions import DdlText
from ticdc_bridge.schemas.model.errors import Hint, SetupError, WireError
from ticdc_bridge.schemas.model.table import Column, Table, TableId
from ticdc_bridge.schemas.model.types import Kind
from ticdc_bridge.spark_jobs.arrow.arrow_types import ddl_of, spark_schema_of
from ticdc_bridge.spark_jobs.arrow.library import pa
from ticdc_bridge.spark_jobs.arrow.table_columns import arrow_type
from ticdc_bridge.spark_jobs.io.locations import TableLocation, is_catalog_name, split_table_name, without_file_scheme
from ticdc_bridge.spark_jobs.io.message_files import finish, partial_path_of
from ticdc_bridge.spark_jobs.io.object_paths import ObjectPath, partial_path_for, path_of, remove_folder
from ticdc_bridge.spark_jobs.io.stores import StoreUrl, spark_location
from ticdc_bridge.spark_jobs.lake.engines.base import RowFile
from ticdc_bridge.spark_jobs.lake.load import FILE, LINE, Loaded, SourceError, row_message
from ticdc_bridge.spark_jobs.lake.merge import ROW_MESSAGE
from ticdc_bridge.spark_jobs.lake.tombstones import COMMIT_TS
from ticdc_bridge.spark_jobs.snapshots.row_types import RowTypes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_CHUNKS, _DONE = "_chunks.json", "_done.json"
_FOLDER: Final = re.compile(r"(?P<tso>\d+)-(?P<source>[0-9a-f]+)-[0-9a-f]+")
_CHUNK: Final = re.compile(r"(?P<number>\d+)\.(?P<rows>\d+)\.json")
_GROUP: Final = 64 << 20
"""Bytes of rows that a worker holds before it writes them: a row group of the file."""
_LOOKED_AT: Final = 1 << 14
"""Rows of a chunk by which its file is laid out."""
_INDEXED: Final = 32
"""Columns of which Delta's log has statistics."""
_MOST_TEXT: Final = 32
"""Letters of a text that is one."""


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

    @abstractmethod
    def estimate(self) -> Estimate:
        """SetupError where the table can't be read."""

    def losses(self) -> list[str]:
        """What the source does not hold exactly: a sentence a column. SetupError where it can't be read at all."""
        if not self.columns:
            details = (
                "all its columns are generated, and this source has none of them: leave it out (--tables '…,!DB.T')"
            )
            raise SetupError("STOPPED", where=str(self.table.id), details=details)
        return []

    def position(self, file: int, line: int) -> dict[str, str | int]:
        """Where a row stands, for people; {} where its key alone tells it."""
        return {}

    def obstacles(self, rows: int) -> list[str]:
        """What stands against a load of so many rows of the source, a sentence each."""
        return []


def stage_root(location: TableLocation, conf: Mapping[str, str]) -> Path:
    """The folder that a table's load keeps its chunks in: beside the table, or in a warehouse.

    conf: settings of Spark. Some catalogs have a name for their warehouse: then Spark's is taken.
    """
    if location.format == "delta" and not is_catalog_name(location.name):
        return path_of(location.name.rstrip("/") + "__loading").resolve()
    session = SparkSession.getActiveSession()
    for setting in (f"spark.sql.catalog.{split_table_name(location.name)[0]}.warehouse", "spark.sql.warehouse.dir"):
        found = conf.get(setting) or (session and session.conf.get(setting, None)) or ""
        warehouse = without_file_scheme(found)
        if warehouse.startswith("/") or StoreUrl.of(warehouse) is not None:
            break
    else:
        warehouse = "spark-warehouse"
    return path_of(warehouse).absolute() / f"{location.name}__loading"


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

    def read(self, spark: SparkSession, table: SnapshotTable, writing: ChunkWriting) -> DataFrame:
        """The rows of all chunks, read now if need be, a task a chunk: c_N, ours that `writing` adds, FILE and LINE."""
        path = self.folder / _CHUNKS
        if not path.exists():  # else they are those that the load began with
            self._write(_CHUNKS, table.chunks())
        chunks, have = json.loads(path.read_text("utf-8")), self._chunks()
        lacking = [(n, chunk) for n, chunk in enumerate(chunks) if n not in have]
        if have:
            print(f"load: {self._id}: {len(have)} of {len(chunks)} chunks were read before", file=sys.stderr)
        if lacking:
            self._before = len(have), self.count()
            self._total, self._began = len(chunks), time.monotonic()
            writer = _ChunkWriter(table, writing, str(self.folder), lacking)
            # a task a chunk: Spark cuts a range evenly
            spark.range(0, len(lacking), 1, len(lacking)).mapInArrow(writer, "rows bigint").collect()
            self._total = 0
            if len(self._chunks()) < len(chunks):
                why = "files that Spark's workers write there are not seen here: take a folder that all of them reach"
                raise SetupError("USAGE", details=f"{self.folder}: {why}")
        schema = spark_schema_of(writing.schema)
        frame, number, line = spark.createDataFrame([], schema), F.lit(0), F.lit(0)
        if paths := [spark_location(file.path) for file in self.files()]:
            frame = spark.read.schema(schema).option("__globPaths__", "false").parquet(*paths)
            file = frame.metadataColumn("_metadata")
            number, line = F.substring_index(file["file_name"], ".", 1).cast("int"), file["row_index"]
        frame = frame.select("*", number.alias(FILE), line.alias(LINE))
        names = [f"c_{n}" for n in range(len(table.columns))]
        return frame.toDF(*names, *frame.columns[len(names) :])

    def count(self) -> int:
        """How many rows were read that fit their types."""
        return sum(rows for rows, _ in self._chunks().values())

    @cached_property
    def notes(self) -> dict[int, ChunkNote]:
        """The notes of all chunks, when all have been read."""
        notes = ((n, path.read_text("utf-8")) for n, (_, path) in sorted(self._chunks().items()))
        return {n: ChunkNote(**json.loads(text)) for n, text in notes}

    def files(self) -> list[RowFile]:
        notes = ((n, note) for n, note in self.notes.items() if note.rows)
        return [RowFile(str(self.folder / f"{n}.parquet"), note.size, note.stats) for n, note in notes]

    def letters(self) -> list[Path]:
        """Files of dead letters, as JSON lines."""
        return [self.folder / f"{n}.letters" for n, note in self.notes.items() if note.errors]

    def progress(self) -> str:
        """How far the reading is, in words; "" where nothing is being read."""
        if not self._total:
            return ""
        have, (chunks, rows) = self._chunks(), self._before
        seconds, count, size = time.monotonic() - self._began, self.count(), 0
        with suppress(FileNotFoundError):  # a chunk has ended meanwhile
            size = sum(path.stat().st_size for path in self.folder.glob(".*.part"))
        partly = f" ({size >> 20:,} MiB of the next are written)" if size else ""
        text = f"{count:,} rows, {len(have)} of {self._total} chunks{partly}, {(count - rows) / seconds:,.0f} rows/s"
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
        for number in self.notes:
            (self.folder / f"{number}.parquet").unlink(missing_ok=True)

    def _write(self, name: str, value: Any) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        path, partial = partial_path_of(self.folder / name)
        assert partial is not None
        partial.write_text(json.dumps(value), encoding="utf-8")
        finish(partial, path)

    def _chunks(self) -> dict[int, tuple[int, Path]]:
        """By number how many rows, and the note."""
        found = ((path, _CHUNK.fullmatch(path.name)) for path in self.folder.glob("*.json"))
        return {int(name["number"]): (int(name["rows"]), path) for path, name in found if name}


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
    for root in (stage.folder.parent for stage in stages):
        # A table may be called so, too.
        is_ours = not root.is_dir() or all(_FOLDER.fullmatch(path.name) for path in root.iterdir())
        for folder in [root] if is_ours else _folders(root):
            remove_folder(folder)


@dataclass(frozen=True)
class ChunkWriting:
    """How the rows of a table are written.

    Args:
        added: our columns of the lake table: COMMIT_TS, and ROW_MESSAGE of a table without a key; none for a changelog.
        has_letters: rows that do not fit their types are left out and kept; else the first one ends the load.
        replaces: keys that the snapshot lacks are removed, so that each row's must be known.
    """

    types: RowTypes
    tso: int
    added: Sequence[str]
    has_letters: bool
    replaces: bool

    @property
    def schema(self) -> Any:
        kinds = {COMMIT_TS: pa.int64(), ROW_MESSAGE: pa.string()}
        pairs = [(column.name, arrow_type(column)) for column in self.types.columns]
        return pa.schema([*pairs, *((name, kinds[name]) for name in self.added)])

    def constants(self, chunk: int, first: int, count: int) -> list[Any]:
        """The values of `added`, of rows from number `first` on."""
        made = {
            COMMIT_TS: lambda: pa.repeat(pa.scalar(self.tso), count),
            ROW_MESSAGE: lambda: pa.array(row_message(self.tso, chunk, n) for n in range(first, first + count)),
        }
        return [made[name]() for name in self.added]


class ChunkNote(NamedTuple):
    """rows: in its file. errors: rows left out. nulled: lost values, by what they are. size, stats: as in RowFile."""

    rows: int
    errors: int
    nulled: dict[str, int]
    size: int
    stats: str


@dataclass(frozen=True)
class _ChunkWriter:
    """In Spark's workers: numbers of `chunks` (number, what it is) → their rows in files of the folder."""

    table: SnapshotTable
    writing: ChunkWriting
    folder: str
    chunks: Sequence[tuple[int, str]]

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            rows = [self._write(*self.chunks[n]) for n in batch.column(0).to_pylist()]
            yield pa.RecordBatch.from_arrays([pa.array(rows, pa.int64())], ["rows"])

    def _write(self, number: int, chunk: str) -> int:
        from pyarrow.parquet import ParquetWriter

        schema, collected, nulled = self.writing.schema, list[Any](), Counter[str]()
        rows = errors = size = line = 0
        held, batches = list[Any](), self.table.read(chunk)
        first = [*islice(batches, 1)]
        options: Any = {"store_decimal_as_integer": True, "use_dictionary": self._repeating(first)}
        partial, letters, note = (self._new_file() for _ in range(3))
        try:
            with ParquetWriter(partial, schema, metadata_collector=collected, **options) as file:
                for arrays in chain(first, batches):
                    values, unfit, lost = self.writing.types.fit(arrays)
                    nulled += lost
                    if unfit:
                        rows_of = number, line, arrays, values
                        with letters.open("a", encoding="utf-8") as out:
                            out.writelines(self._letter(*rows_of, *pair) for pair in sorted(unfit.items()))
                        kept = np.delete(np.arange(len(arrays[0])), [*unfit])
                        values = [array.take(kept) for array in values]
                    line, count = line + len(arrays[0]), len(values[0])
                    values += self.writing.constants(number, rows, count)
                    held.append(pa.RecordBatch.from_arrays(values, schema=schema))
                    rows, errors, size = rows + count, errors + len(unfit), size + held[-1].nbytes
                    if size >= _GROUP:
                        file.write_table(pa.Table.from_batches(held))
                        size, held = 0, []
                file.write_table(pa.Table.from_batches(held, schema))
            stats = _stats(collected[0], schema)
            found = ChunkNote(rows, errors, dict(+nulled), partial.stat().st_size, json.dumps(stats))
            note.write_text(json.dumps(found._asdict()), encoding="utf-8")
            names = {partial: f"{number}.parquet", letters: f"{number}.letters", note: f"{number}.{rows}.json"}
            for written, name in names.items():  # the note is the last
                if written.exists():
                    with written.open("rb") as content:
                        os.fsync(content.fileno())
                    finish(written, path_of(self.folder) / name)
        finally:
            for written in (partial, letters, note):
                written.unlink(missing_ok=True)
        return rows

    def _repeating(self, first: Sequence[Sequence[Any]]) -> list[str]:
        """Columns whose values come again, by the first rows: for others, a dictionary is most of a file's cost."""
        parts = [array.slice(0, _LOOKED_AT) for arrays in first for array in arrays]
        pairs = zip(self.writing.types.columns, parts, strict=bool(parts))
        return [COMMIT_TS, *(c.name for c, part in pairs if len(part.unique()) < 0.9 * len(part))]

    def _new_file(self) -> Path:
        """Its own name for each try: an older one may be writing still."""
        folder = path_of(self.folder)
        return partial_path_for(folder) if isinstance(folder, ObjectPath) else folder / f".{uuid4().hex}.part"

    def _letter(
        self, chunk: int, first: int, arrays: Sequence[Any], typed: Sequence[Any], row: int, number: int
    ) -> str:
        """A row with a value that does not fit its column's type. SourceError where it ends the load.

        typed: of the arrays, as the table has them: the key is to be found there.
        """
        table, column, zones = self.table.table, self.table.columns[number], self.writing.types.zones
        text = f"column {column.name}: a value of the snapshot does not fit its type {column.type.name}"
        if not self.writing.has_letters:
            is_date = column.type.kind in self.writing.types.types.kinds
            hint = f"; {Hint.TYPES.of('exact')} keeps zero dates as text" * is_date
            hint += f", {Hint.ON_LOSSY_FLAG} writes NULL" * (is_date and not column.handle_key)
            if column.type.kind is Kind.TIMESTAMP and zones[0] != zones[1]:
                hint += f"; {zones[0]} has no such time, or had it twice: dump with --params time_zone=+00:00"
            elif column.type.kind is Kind.TIMESTAMP and column.handle_key:
                hint += f"; {zones[1]} had it twice, so two rows could become one: {Hint.ON_LOSSY_FLAG} accepts that"
            raise SourceError(f"{text}: --dead-letter FILE takes such rows out{hint}")

        def plain(array: Any) -> str | None:
            value = array[row].as_py()
            return f'{{"hex":"{value.hex()}"}}' if isinstance(value, bytes) else None if value is None else str(value)

        value = plain(arrays[number])
        pairs = zip(self.table.columns, [*typed[:number], arrays[number], *typed[number + 1 :]], strict=True)
        key = {c.name: plain(array) for c, array in pairs if c.handle_key}
        if self.writing.replaces and (column.handle_key or None in key.values()):
            raise SourceError(f"{text}, and it is in the key: with --replace, its row can't be identified")
        details = f"{value!r} does not fit its type {column.type.name}"
        error = WireError("INVALID_VALUE", column=column.name, details=details)
        letter = {
            "code": error.code, "detail": error.detail, "db": table.id.db, "table": table.id.table,
            "commit_ts": self.writing.tso, **self.table.position(chunk, first + row),
            "key": key, "column": column.name, "value": value,
        }  # fmt: skip
        return json.dumps(letter, ensure_ascii=False) + "\n"


def _stats(metadata: Any, schema: Any) -> dict[str, Any]:
    """What Delta's log has of a file of Parquet: NULLs, the least and the greatest integers and short texts."""
    stats: dict[str, Any] = {"numRecords": metadata.num_rows, "minValues": {}, "maxValues": {}, "nullCount": {}}
    groups = [metadata.row_group(n) for n in range(metadata.num_row_groups) if metadata.row_group(n).num_rows]
    for number, field in enumerate([*schema][:_INDEXED] if groups else []):
        found = [group.column(number).statistics for group in groups]
        if not all(known is not None and known.has_null_count for known in found):
            continue
        stats["nullCount"][field.name] = sum(known.null_count for known in found)
        values = [value for known in found if known.has_min_max for value in (known.min, known.max)]
        empty = [known.null_count == group.num_rows for known, group in zip(found, groups, strict=True)]
        is_known = all(known.has_min_max or nothing for known, nothing in zip(found, empty, strict=True))
        is_short = all(isinstance(v, int) or (isinstance(v, str) and len(v) <= _MOST_TEXT) for v in values)
        if values and is_known and is_short and (pa.types.is_integer(field.type) or pa.types.is_string(field.type)):
            stats["minValues"][field.name], stats["maxValues"][field.name] = min(values), max(values)
    return stats


@dataclass(frozen=True)
class _ChunkReader:
    """In Spark's workers: numbers of `chunks` → their rows in exact types, with FILE and LINE."""

    read: Callable[[str], Iterator[list[Any]]]
    types: RowTypes
    chunks: Sequence[str]

    @property
    def schema(self) -> Any:
        pairs = [(f"c_{n}", arrow_type(column)) for n, column in enumerate(self.types.columns)]
        return pa.schema([*pairs, (FILE, pa.int32()), (LINE, pa.int64())])

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self._rows(number)

    def _rows(self, number: int) -> Iterator[Any]:
        line = 0
        for arrays in self.read(self.chunks[number]):
            values, unfit, _ = self.types.fit(arrays)
            if unfit:
                column = self.types.columns[min(unfit.items())[1]]
                raise SourceError(
                    f"column {column.name}: a value of the source does not fit its type {column.type.name}"
                )
            count = len(arrays[0])
            lines = pa.array(np.arange(line, line + count))
            line += count
            values += [pa.repeat(pa.scalar(number, pa.int32()), count), lines]
            yield pa.RecordBatch.from_arrays(values, schema=self.schema)


def read_rows(
    spark: SparkSession, types: RowTypes, read: Callable[[str], Iterator[list[Any]]], chunks: Sequence[str]
) -> DataFrame:
    """Rows as Stage.read has them, read whenever they are asked for. read: as of SnapshotTable."""
    reader = _ChunkReader(read, types, chunks)
    schema = ddl_of(reader.schema)
    if not chunks:
        return spark.createDataFrame([], schema)
    return spark.range(0, len(chunks), 1, len(chunks)).mapInArrow(reader, schema)


def duration(seconds: float) -> str:
    """A time for people."""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:,.0f} min"


def _folders(root: Path) -> list[Path]:
    return [path for path in root.iterdir() if _FOLDER.fullmatch(path.name)] if root.is_dir() else []


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
