"""A dump's table: its rows as a DataFrame, in plain form or as Parquet has them, and where each stood.

Columns: c_N for each of `DumpTable.columns`, `file` (its number) and `line` (its number in the file).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow

from ticdc_bridge.schemas.codec.compression import UNREADABLE, unsnap_frames
from ticdc_bridge.schemas.columnar.dump_reader import BYTES, DumpTextError, TextForm
from ticdc_bridge.schemas.ddl.executor.versions import DdlText
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.names import quote_name
from ticdc_bridge.schemas.model.table import Column, Table, TableId
from ticdc_bridge.schemas.model.types import Kind
from ticdc_bridge.spark_jobs.io.object_paths import path_of
from ticdc_bridge.spark_jobs.io.stores import spark_location
from ticdc_bridge.spark_jobs.lake.load import SourceError
from ticdc_bridge.spark_jobs.snapshots.dump_dialect import FileHead, arrow_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pa: Any = pyarrow  # the stubs know less than the library

PREFIX: Final = "dumpling:"
_HEAD: Final = 256 << 10
"""Bytes of a file that are looked at for its dialect."""
_HEADS: Final = 20
"""Files of a table that are."""

_NO_ROW: Final = "it has no row, and Dumpling makes no such file: it is cut"


@dataclass
class DumpTable:
    """A table of a dump (spark_jobs.lake.load.SnapshotTable).

    Args:
        definition: its CREATE TABLE as SHOW prints it.
        kind: of its files: sql, csv or parquet; "" without rows.
        size: of its files in bytes, as they are stored.
        form: how its texts are read.
    """

    table: Table
    definition: DdlText
    kind: str = ""
    files: list[str] = field(default_factory=list)
    size: int = 0
    form: TextForm = field(default_factory=TextForm)

    @property
    def id(self) -> TableId:
        return self.table.id

    @property
    def columns(self) -> list[Column]:
        """Generated columns are left out, STORED ones too (upstream `export/sql.go`)."""
        return [column for column in self.table.columns if column.generated is None]

    def heads(self) -> Iterator[FileHead]:
        """The first bytes of its first files. The last is none that is whole where there are more."""
        for number, file in enumerate(self.files[:_HEADS], 1):
            try:
                with opened(path_of(file)) as content:
                    data = content.read(_HEAD)
                if not data:
                    raise EOFError(_NO_ROW)
            except UNREADABLE as error:
                raise SetupError("USAGE", details=f"{file}: {error}") from error
            has_more = number == _HEADS < len(self.files)
            yield FileHead(Path(file).name, data, self.columns, len(data) < _HEAD and not has_more)

    def rows(self, spark: SparkSession) -> DataFrame:
        """A file that is not as it should be ends the query with SourceError."""
        from pyspark.errors import PySparkException
        from pyspark.sql import functions as F

        if self.kind == "parquet":
            columns = [F.col(quote_name(column.name)).alias(f"c_{n}") for n, column in enumerate(self.columns)]
            try:
                frame = spark.read.parquet(*map(spark_location, self.files))
                number = F.array_position(F.lit(sorted(frame.inputFiles())), F.col("_metadata.file_path")).cast("int")
                return frame.select(*columns, number.alias("file"), F.col("_metadata.row_index").alias("line"))
            except PySparkException as error:
                reason = str(error).partition("\n")[0]
                details = f"its files are cut or damaged, or have other columns than its definition: {reason}"
                raise SetupError("STOPPED", where=str(self.id), details=details) from error
        types = ", ".join(f"c_{n} {'binary' if c.type.kind in BYTES else 'string'}" for n, c in enumerate(self.columns))
        schema = f"{types}, file int, line bigint"
        if not self.files:
            return spark.createDataFrame([], schema)
        files = spark.createDataFrame([*enumerate(self.files)], "file int, path string")
        return files.repartitionByRange(len(self.files), "file").mapInArrow(FileReader(self.columns, self.form), schema)

    def losses(self, spark: SparkSession) -> list[str]:
        """Generated columns that are stored, which no dump has; dates of Parquet, where NULL may be a zero date."""
        stored = [c for c in self.table.columns if c.generated is not None and not c.virtual]
        for column in stored:
            if column.handle_key:
                details = (
                    f"column {column.name} of the key is generated, and a dump has no generated columns: read the TiDB"
                )
                raise SetupError("STOPPED", where=str(self.id), details=details)
        texts = [f"column {c.name} is generated, and a dump has no generated columns: it is NULL" for c in stored]
        dates = [(n, c) for n, c in enumerate(self.columns) if c.type.kind in (Kind.DATETIME, Kind.TIMESTAMP)]
        if self.kind != "parquet" or not dates:
            return texts
        from pyspark.sql import functions as F

        counts = [F.count_if(F.col(f"c_{n}").isNull()).alias(f"n_{n}") for n, _ in dates]
        row = self.rows(spark).agg(*counts).collect()[0]
        words = "NULLs, and Parquet has NULL for a zero date too"
        return texts + [f"column {c.name} has {row[f'n_{n}']} {words}" for n, c in dates if row[f"n_{n}"]]


def opened(path: Path) -> Any:
    """A file of a dump, inflated as it is read."""
    file = path.open("rb")
    codec = {".gz": "gzip", ".zst": "zstd"}.get(path.suffix)
    if codec is not None:
        return pa.CompressedInputStream(file, codec)
    return unsnap_frames(file) if path.suffix == ".snappy" else file


@dataclass(frozen=True)
class FileReader:
    """In Spark's workers: rows of files (number, path) → the rows in them."""

    columns: Sequence[Column]
    form: TextForm

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        names = [*(f"c_{n}" for n in range(len(self.columns))), "file", "line"]
        for number, file in ((e["file"], e["path"]) for batch in batches for e in batch.to_pylist()):
            first = 0
            try:
                with opened(path_of(file)) as content:
                    for columns in arrow_rows(content.read, self.columns, self.form):
                        count = len(columns[0])
                        lines = pa.array(np.arange(first, first + count, dtype=np.int64))
                        first += count
                        yield pa.RecordBatch.from_arrays(
                            [*columns, pa.repeat(pa.scalar(number, pa.int32()), count), lines], names
                        )
                if not first:
                    raise DumpTextError(_NO_ROW)
            except (DumpTextError, *UNREADABLE) as error:
                raise SourceError(f"{file}: {error}") from error
