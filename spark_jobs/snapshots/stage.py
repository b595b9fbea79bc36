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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import quote
from uuid import uuid4

import numpy as np
import pyarrow

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.table import Column, TableId
from ticdc_bridge.schemas.model.types import Kind
from ticdc_bridge.spark_jobs.io.locations import TableLocation, split_iceberg_name
from ticdc_bridge.spark_jobs.io.message_files import finish, partial_path_of
from ticdc_bridge.spark_jobs.io.object_paths import ObjectPath, partial_path_for, path_of, remove_folder
from ticdc_bridge.spark_jobs.io.stores import StoreUrl, spark_location
from ticdc_bridge.spark_jobs.lake.load import Loaded, SnapshotTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pa: Any = pyarrow  # the stubs know less than the library

OPTION: Final = "--stage"
_BEGUN, _DONE, LETTERS = "_begun.json", "_done.json", "_letters.jsonl"
_FOLDER: Final = re.compile(r"(?P<tso>\d+)-(?P<source>[0-9a-f]+)-[0-9a-f]+")
_CHUNK: Final = re.compile(r"(?P<number>\d+)\.(?P<rows>\d+)\.parquet")
_GROUP: Final = 16 << 20
"""Bytes of rows that a worker holds before it writes them: a row group of the file."""
_OFTEN: Final = 5.0
"""Seconds after which a worker says how far it is."""


class ChunkReader(Protocol):
    """Reads chunks of a table in Spark's workers."""

    @property
    def columns(self) -> Sequence[Column]: ...

    def read(self, chunk: str) -> Iterator[tuple[list[Any], float]]:
        """The rows of a chunk in batches: an array of each column, and how much of the chunk is read then (0 to 1)."""
        ...


def fields_of(columns: Sequence[Column]) -> dict[str, str]:
    """The columns of read rows and their Spark types: c_N, `file` (the chunk) and `line` (the row's number in it)."""
    kinds = ("binary" if column.type.kind in (Kind.BIT, Kind.BINARY) else "string" for column in columns)
    return {**{f"c_{n}": kind for n, kind in enumerate(kinds)}, "file": "int", "line": "bigint"}


def stage_root(location: TableLocation, id_: TableId, given: str | None, conf: Mapping[str, str]) -> Path | None:
    """The folder that a table's load keeps its chunks in.

    Args:
        given: --stage, for all tables; None: beside the table, or in the warehouse of Iceberg's catalog.
        conf: settings of Spark, which may name the warehouse.
    Returns:
        None where no folder is known.
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
        return None
    return path_of(warehouse) / f"{location.name}__loading"


@dataclass(frozen=True)
class Stages:
    """The stages of a load's tables. source: what the load was given, but for its TSO. root_of: None: there is none."""

    source: str
    root_of: Callable[[TableId], Path | None]

    def unfinished(self, ids: Iterable[TableId]) -> int | None:
        """The newest TSO of such a load of these tables that has not ended."""
        folders = [folder for id_ in ids for folder in _folders(self.root_of(id_)) if not (folder / _DONE).exists()]
        names = filter(None, (_FOLDER.fullmatch(folder.name) for folder in folders))
        return max((int(name["tso"]) for name in names if name["source"] == _digest(self.source)), default=None)

    def of(self, table: SnapshotTable, tso: int) -> Stage | None:
        root = self.root_of(table.table.id)
        name = f"{tso}-{_digest(self.source)}-{_digest(table.identity)}"
        return None if root is None else Stage(table.table.id, root / name)


class Stage:
    """What was read of a table at a TSO."""

    def __init__(self, id_: TableId, folder: Path) -> None:
        self.folder, self._id = folder, id_
        self._weights, self._began, self._first = list[int](), 0.0, (0, 0.0)

    def begin(self) -> None:
        """Makes the folder. What is there of other loads goes, with a line that says so."""
        for other in _folders(self.folder.parent):
            if other.name != self.folder.name:
                if not (other / _DONE).exists():
                    why = "it had another TSO, source, place or definition"
                    tso = other.name.partition("-")[0]
                    print(f"load: {self._id}: what a load at TSO {tso} had read is removed: {why}", file=sys.stderr)
                remove_folder(other)
        self.folder.mkdir(parents=True, exist_ok=True)
        if not (self.folder / _BEGUN).exists():
            _write(self.folder / _BEGUN, json.dumps({"table": str(self._id)}))

    def kept(self, name: str, make: Callable[[], list[str]]) -> list[str]:
        """What the load that began has made of this name; made now where it has not."""
        path = self.folder / f"_{name}.json"
        if not path.exists():
            _write(path, json.dumps(make()))
        texts: list[str] = json.loads(path.read_text("utf-8"))
        return texts

    def rows(
        self, spark: SparkSession, reader: ChunkReader, chunks: Sequence[str], weights: Sequence[int]
    ) -> DataFrame:
        """The rows of all chunks; those that were not read before are read now, a task a chunk.

        weights: how much each chunk is of the table.
        """
        have = self._chunks()
        lacking = [(n, chunk) for n, chunk in enumerate(chunks) if n not in have]
        if have:
            print(f"load: {self._id}: {len(have)} of {len(chunks)} chunks were read before", file=sys.stderr)
        if lacking:
            self._weights, self._began = list(weights), time.monotonic()
            self._first = self._so_far()[1:]
            writer = _ChunkWriter(reader, str(self.folder), lacking)
            # a task a chunk: Spark cuts a range evenly
            spark.range(0, len(lacking), 1, len(lacking)).mapInArrow(writer, "rows bigint").collect()
            self._weights = []
        paths = [spark_location(str(path)) for path, _ in self._chunks().values()]
        schema = ", ".join(f"{name} {kind}" for name, kind in fields_of(reader.columns).items())
        return spark.read.schema(schema).parquet(*paths) if paths else spark.createDataFrame([], schema)

    def count(self) -> int:
        """How many rows were read."""
        return sum(rows for _, rows in self._chunks().values())

    def progress(self) -> str:
        """How far the reading is, in words; "" where nothing is being read."""
        if not self._weights:
            return ""
        chunks, rows, share = self._so_far()
        seconds = time.monotonic() - self._began
        text = (
            f"{rows:,} rows, {chunks} of {len(self._weights)} chunks, {(rows - self._first[0]) / seconds:,.0f} rows/s"
        )
        done = share - self._first[1]
        return f"{text}, about {duration(seconds * (1 - share) / done)} left" if done > 0 else text

    def done(self) -> Loaded | None:
        """What the load that was not ended did to this table; None where it was not complete."""
        with suppress(FileNotFoundError, ValueError, TypeError):
            return Loaded(**json.loads((self.folder / _DONE).read_text("utf-8")))
        return None

    def finish(self, loaded: Loaded) -> None:
        """The table is complete: its chunks go, and the note of it stays until those of all tables go."""
        _write(self.folder / _DONE, json.dumps(asdict(loaded)))
        for path, _ in self._chunks().values():
            path.unlink(missing_ok=True)

    def _chunks(self) -> dict[int, tuple[Path, int]]:
        found = ((path, _CHUNK.fullmatch(path.name)) for path in self.folder.glob("*.parquet"))
        return {int(name["number"]): (path, int(name["rows"])) for path, name in found if name}

    def _so_far(self) -> tuple[int, int, float]:
        """Chunks, rows, and the share of the table."""
        have = self._chunks()
        rows, weight = sum(n for _, n in have.values()), float(sum(self._weights[n] for n in have))
        for number in set(range(len(self._weights))) - set(have):
            with suppress(FileNotFoundError, ValueError):  # none yet, or not all of it
                count, share = (self.folder / f"_{number}.read").read_text("utf-8").split()
                rows, weight = rows + int(count), weight + float(share) * self._weights[number]
        return len(have), rows, weight / max(sum(self._weights), 1)


@contextmanager
def begun(stages: Sequence[Stage | None]) -> Iterator[None]:
    """Stages of the tables of a load: they stay where it ends before it is complete, and one of them has anything."""
    given = [stage for stage in stages if stage is not None]
    for stage in given:
        stage.begin()
    try:
        yield
    except BaseException:
        if any(stage.count() or stage.done() for stage in given):
            print("load: what was read is kept: the same command goes on from there", file=sys.stderr)
        else:
            _remove(given)
        raise
    _remove(given)


def _remove(stages: Iterable[Stage]) -> None:
    for stage in stages:
        remove_folder(stage.folder.parent)


@dataclass(frozen=True)
class _ChunkWriter:
    """In Spark's workers: numbers of `chunks` (number, what it is) → their rows in files of the folder."""

    reader: ChunkReader
    folder: str
    chunks: Sequence[tuple[int, str]]

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            rows = [self._write(*self.chunks[n]) for n in batch.column(0).to_pylist()]
            yield pa.RecordBatch.from_arrays([pa.array(rows, pa.int64())], ["rows"])

    def _write(self, number: int, chunk: str) -> int:
        from pyarrow.parquet import ParquetWriter

        kinds = {"binary": pa.binary(), "string": pa.string(), "int": pa.int32(), "bigint": pa.int64()}
        schema = pa.schema([(name, kinds[kind]) for name, kind in fields_of(self.reader.columns).items()])
        folder = path_of(self.folder)
        # Its own name for each try: an older one may be writing still.
        is_object = isinstance(folder, ObjectPath)
        partial = partial_path_for(folder) if is_object else folder / f".{number}.{uuid4().hex}.part"
        rows, size, held, said = 0, 0, list[Any](), time.monotonic()
        try:
            with ParquetWriter(partial, schema, use_dictionary=False, write_statistics=False) as file:  # half the CPU
                for arrays, share in self.reader.read(chunk):
                    count = len(arrays[0])
                    arrays += [pa.repeat(pa.scalar(number, pa.int32()), count), pa.array(np.arange(rows, rows + count))]
                    held.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
                    rows, size = rows + count, size + held[-1].nbytes
                    if size >= _GROUP:
                        file.write_table(pa.Table.from_batches(held))
                        size, held = 0, []
                    if time.monotonic() - said > _OFTEN:
                        (folder / f"_{number}.read").write_bytes(f"{rows} {share}".encode())
                        said = time.monotonic()
                file.write_table(pa.Table.from_batches(held, schema))
            with partial.open("rb") as written:
                os.fsync(written.fileno())
            finish(partial, folder / f"{number}.{rows}.parquet")
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        return rows


def duration(seconds: float) -> str:
    """A time for people: 40 s, 12 min, 3.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def no_stage(id_: TableId) -> SetupError:
    """That nothing says where the chunks of a table are kept."""
    details = f"table {id_}: where are its chunks kept until the table is complete? Give a folder ({OPTION} DIR-OR-URL)"
    return SetupError("USAGE", details=details)


def _folders(root: Path | None) -> list[Path]:
    return (
        [path for path in root.iterdir() if _FOLDER.fullmatch(path.name)] if root is not None and root.is_dir() else []
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _write(path: Path, text: str) -> None:
    path, partial = partial_path_of(path)
    assert partial is not None
    partial.write_text(text, encoding="utf-8")
    finish(partial, path)
