"""The rows of a dump's table as a DataFrame: c_0, c_1 … in plain form or as Parquet has them, and where each stood.

Columns: c_N for each of `columns_of`, `file` (its number in the dump's list) and `line` (its number in the file).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow

from ticdc_bridge.schemas.codec.compression import UNREADABLE, unsnap_frames
from ticdc_bridge.schemas.columnar.dump_reader import DumpCut, DumpTextError
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.names import quote_name
from ticdc_bridge.schemas.model.table import Column, Table
from ticdc_bridge.spark_jobs.io.object_paths import arrow_source, path_of
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


def columns_of(table: Table) -> list[Column]:
    """Those that a dump has: generated columns are left out, STORED ones too (upstream `export/sql.go`)."""
    return [column for column in table.columns if column.generated is None]


def opened(path: Path) -> Any:
    """A file of a dump, inflated as it is read."""
    return inflated(path.open("rb"), path.suffix)


def inflated(file: Any, suffix: str) -> Any:
    """What is in an open file of this ending."""
    codec = {".gz": "gzip", ".zst": "zstd"}.get(suffix)
    if codec is not None:
        return pa.CompressedInputStream(file, codec)
    return unsnap_frames(file) if suffix == ".snappy" else file


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


def parquet_frame(spark: SparkSession, table: DumpTable) -> DataFrame:
    """The rows of a table in Parquet."""
    from pyspark.sql import functions as F

    columns = columns_of(table.table)
    frames = [
        spark.read.parquet(spark_location(file.path)).select(
            *(F.col(quote_name(column.name)).alias(f"c_{n}") for n, column in enumerate(columns)),
            F.lit(number).alias("file"), F.col("_metadata.row_index").alias("line"),
        )
        for number, file in enumerate(table.files)
    ]  # fmt: skip
    return _union(frames)


def _union(frames: list[DataFrame]) -> DataFrame:
    while len(frames) > 1:  # in pairs: a plan of thousands of unions in one another can't be analysed
        frames = [a.union(b) for a, b in zip(frames[::2], frames[1::2], strict=False)] + frames[len(frames) & ~1 :]
    return frames[0]


@dataclass(frozen=True)
class FileReader:
    """A spark_jobs.snapshots.stage.ChunkReader of SQL and CSV: a chunk is a file, by its path."""

    columns: Sequence[Column]
    form: TextForm

    def read(self, chunk: str) -> Iterator[tuple[list[Any], float]]:
        """SourceError for a file that is not as it should be."""
        path = path_of(chunk)
        size = max(path.stat().st_size, 1)
        with path.open("rb") as file:
            try:
                for columns in self.form.rows(inflated(file, path.suffix).read, self.columns):
                    yield columns, min(file.tell() / size, 1)
            except (DumpTextError, *UNREADABLE) as error:
                raise SourceError(f"{path}: {error}") from error


def null_counts(table: DumpTable, names: Sequence[str]) -> dict[str, int]:
    """How many NULLs these columns have in files of Parquet."""
    from pyarrow.parquet import ParquetFile

    counts = dict.fromkeys(names, 0)
    for path in (path_of(file.path) for file in table.files if names):
        with ParquetFile(arrow_source(path)) as file:
            at = {file.schema_arrow.names[n]: n for n in range(len(file.schema_arrow.names))}
            for name, group in product(names, range(file.num_row_groups)):
                known: Any = file.metadata.row_group(group).column(at[name]).statistics
                has_count = known is not None and known.has_null_count
                counts[name] += (known if has_count else file.read_row_group(group, [name]).column(0)).null_count
    return counts


def row_estimate(table: DumpTable, form: TextForm | None) -> tuple[int, bool]:
    """How many rows a table's files have, and whether that is exact: of texts by the bytes of the first rows."""
    if form is None:
        from pyarrow.parquet import read_metadata

        return sum(read_metadata(arrow_source(path_of(file.path))).num_rows for file in table.files), True
    rows, size, total = 0, 0, sum(file.size for file in table.files)
    for file in table.files[:1]:
        path = path_of(file.path)
        with path.open("rb") as raw:
            data = inflated(raw, path.suffix).read(_HEAD)
            # A stream that inflates has read on.
            size = file.size if len(data) < _HEAD else min(raw.tell(), file.size)
        with suppress(DumpCut):
            for columns in form.rows(BytesIO(data).read, columns_of(table.table)):
                rows += len(columns[0])
    is_exact = len(table.files) < 2 and size == total
    return rows if is_exact else round(rows * total / max(size, 1)), is_exact
