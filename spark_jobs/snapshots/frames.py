"""The rows of a dump's table as a DataFrame: c_0, c_1 … in plain form or as Parquet has them, and where each stood.

Columns: c_N for each of `columns_of`, `file` (its number in the dump's list) and `line` (its number in the file).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow

from ticdc_bridge.schemas.codec.compression import UNREADABLE, unsnap_frames
from ticdc_bridge.schemas.columnar.dump_reader import DumpTextError
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.names import quote_name
from ticdc_bridge.schemas.model.table import Column, Table
from ticdc_bridge.schemas.model.types import Kind
from ticdc_bridge.spark_jobs.io.object_paths import path_of
from ticdc_bridge.spark_jobs.io.stores import spark_location
from ticdc_bridge.spark_jobs.lake.load import SourceError
from ticdc_bridge.spark_jobs.snapshots.dump_dialect import DumpOptions, FileHead, TextForm, text_form
from ticdc_bridge.spark_jobs.snapshots.dump_folder import PREFIX, Dump, DumpTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pa: Any = pyarrow  # the stubs know less than the library

_HEAD: Final = 256 << 10
"""Bytes of a file that are looked at for its dialect."""
_HEADS: Final = 20
"""Files of a table that are."""
_BYTES: Final = (Kind.BIT, Kind.BINARY)


def columns_of(table: Table) -> list[Column]:
    """Those that a dump has: generated columns are left out, STORED ones too (upstream `export/sql.go`)."""
    return [column for column in table.columns if column.generated is None]


def opened(path: Path) -> Any:
    """A file of a dump, inflated as it is read."""
    file = path.open("rb")
    codec = {".gz": "gzip", ".zst": "zstd"}.get(path.suffix)
    if codec is not None:
        return pa.CompressedInputStream(file, codec)
    return unsnap_frames(file) if path.suffix == ".snappy" else file


def text_form_of(dump: Dump, tables: Sequence[DumpTable], options: DumpOptions) -> TextForm | None:
    """How the texts of these tables are read; None where they are Parquet. SetupError USAGE."""
    kinds = {table.kind for table in tables if table.kind}
    if len(kinds) > 1:
        details = f"its tables have files of several kinds ({', '.join(sorted(kinds))}): load them one by one"
        raise SetupError("USAGE", details=f"{PREFIX}{dump.location}: {details}")
    if not kinds & {"sql", "csv"}:
        return None
    heads = list[FileHead]()
    for table in tables:
        for file in table.files[:_HEADS]:
            with opened(path_of(file.path)) as content:
                data = content.read(_HEAD)
                heads.append(FileHead(Path(file.path).name, data, columns_of(table.table), len(data) < _HEAD))
    return text_form(kinds.pop(), heads, options)


def dump_frame(spark: SparkSession, table: DumpTable, form: TextForm | None) -> DataFrame:
    """The rows of a table. A file that is not as it should be ends the query with SourceError."""
    from pyspark.sql import functions as F

    columns = columns_of(table.table)
    if form is None and table.files:
        frames = [
            spark.read.parquet(spark_location(file.path)).select(
                *(F.col(quote_name(column.name)).alias(f"c_{n}") for n, column in enumerate(columns)),
                F.lit(number).alias("file"), F.col("_metadata.row_index").alias("line"),
            )
            for number, file in enumerate(table.files)
        ]  # fmt: skip
        return _union(frames)
    types = ", ".join(f"c_{n} {'binary' if c.type.kind in _BYTES else 'string'}" for n, c in enumerate(columns))
    schema = f"{types}, file int, line bigint"
    if form is None or not table.files:
        return spark.createDataFrame([], schema)
    files = spark.createDataFrame(
        [(number, file.path) for number, file in enumerate(table.files)], "file int, path string"
    )
    read = _FileReader(columns, form)
    return files.repartitionByRange(len(table.files), "file").mapInArrow(read, schema)


def _union(frames: list[DataFrame]) -> DataFrame:
    while len(frames) > 1:  # in pairs: a plan of thousands of unions in one another can't be analysed
        frames = [a.union(b) for a, b in zip(frames[::2], frames[1::2], strict=False)] + frames[len(frames) & ~1 :]
    return frames[0]


@dataclass(frozen=True)
class _FileReader:
    """In Spark's workers: rows of files (number, path) → the rows in them."""

    columns: Sequence[Column]
    form: TextForm

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        names = [*(f"c_{n}" for n in range(len(self.columns))), "file", "line"]
        for batch in batches:
            for entry in batch.to_pylist():
                path, first = path_of(entry["path"]), 0
                with opened(path) as content:
                    try:
                        for columns in self.form.rows(content.read, self.columns):
                            count = len(columns[0])
                            numbers = pa.array(range(first, first + count), pa.int64())
                            files = pa.array([entry["file"]] * count, pa.int32())
                            first += count
                            yield pa.RecordBatch.from_arrays([*columns, files, numbers], names)
                    except (DumpTextError, *UNREADABLE) as error:
                        raise SourceError(f"{path}: {error}") from error
