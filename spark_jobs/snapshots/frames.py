"""A dump's table: its rows by file, as text and bytes, or as Parquet has them."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from ticdc_bridge.schemas.codec.compression import UNREADABLE, unsnap_frames
from ticdc_bridge.schemas.columnar.dump_reader import DumpCut, DumpTextError, TextForm
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.table import Column, TableId
from ticdc_bridge.schemas.model.types import Kind
from ticdc_bridge.spark_jobs.arrow.library import pa
from ticdc_bridge.spark_jobs.io.object_paths import arrow_source, path_of
from ticdc_bridge.spark_jobs.lake.load import SourceError
from ticdc_bridge.spark_jobs.snapshots.dump_dialect import FileHead, arrow_rows, head_rows
from ticdc_bridge.spark_jobs.snapshots.stage import Estimate, SnapshotTable

PREFIX: Final = "dumpling:"
_HEAD: Final = 256 << 10
"""Bytes of a file that are looked at for its dialect."""
_HEADS: Final = 20
"""Files of a table that are."""

_BATCH: Final = 1 << 16
"""Rows of Parquet that are read together."""
_NO_ROW: Final = "it has no row, and Dumpling makes no such file: it is cut"


@dataclass
class DumpTable(SnapshotTable):
    """A table of a dump. kind: sql, csv, parquet, "" without rows. sizes: of files as stored. form: of its texts."""

    kind: str = ""
    files: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    form: TextForm = field(default_factory=TextForm)

    @property
    def id(self) -> TableId:
        return self.table.id

    def heads(self) -> Iterator[FileHead]:
        """The first bytes of its first files. The last is none that is whole where there are more."""
        for number, file in enumerate(self.files[:_HEADS] if self.columns else (), 1):
            try:
                with opened(path_of(file)) as content:
                    data = content.read(_HEAD)
                if not data:
                    raise EOFError(_NO_ROW)
            except UNREADABLE as error:
                raise SetupError("USAGE", details=f"{file}: {error}") from error
            has_more = number == _HEADS < len(self.files)
            yield FileHead(Path(file).name, data, self.columns, len(data) < _HEAD and not has_more)

    @property
    def zero_dates(self) -> list[Column]:
        """Columns whose NULL may be a zero date."""
        kinds = (Kind.DATETIME, Kind.TIMESTAMP) if self.kind == "parquet" else ()
        return [column for column in self.columns if column.type.kind in kinds]

    @property
    def identity(self) -> str:
        return repr((self.table, self.form, self.files, self.sizes))

    def chunks(self) -> list[str]:
        return self.files

    def read(self, chunk: str) -> Iterator[list[Any]]:
        """SourceError for a file that is not as it should be."""
        path, has_rows = path_of(chunk), self.kind == "parquet"
        try:
            for columns in (self._parquet_rows if has_rows else self._text_rows)(path):
                has_rows = has_rows or len(columns[0]) > 0
                yield columns
            if not has_rows:
                raise DumpTextError(_NO_ROW)
        except (DumpTextError, pa.ArrowException, *UNREADABLE) as error:
            raise SourceError(f"{path}: {str(error).splitlines()[0]}") from error

    def _text_rows(self, path: Path) -> Iterator[list[Any]]:
        with opened(path) as file:
            yield from arrow_rows(file.read, self.columns, replace(self.form, table=self.id.table))

    def _parquet_rows(self, path: Path) -> Iterator[list[Any]]:
        from pyarrow.parquet import ParquetFile

        names = [column.name for column in self.columns]
        with ParquetFile(arrow_source(path)) as file:
            if missing := sorted({*names} - {*file.schema_arrow.names}):
                raise DumpTextError(f"it has no column {', '.join(missing)}, as the table's definition has")
            for batch in file.iter_batches(_BATCH, columns=names):
                batch.validate(full=True)  # a text may have bytes that are not UTF-8
                yield [batch.column(name) for name in names]

    def losses(self) -> list[str]:
        """Generated columns that are stored, which no dump has; dates of Parquet, where NULL may be a zero date."""
        stored = [c for c in self.table.columns if c.generated is not None and not c.virtual]
        if any(column.handle_key for column in stored):
            details = "a column of its key is generated, and a dump has no generated columns: load it from its TiDB"
            raise SetupError("STOPPED", where=str(self.id), details=details)
        texts = super().losses()
        texts += [f"column {c.name} is generated, and a dump has no generated columns: it is NULL" for c in stored]
        words = "NULLs, and Parquet has NULL for a zero date too"
        counts = self._parquet_counts[1].items()
        return texts + [f"column {name} has {count} {words}" for name, count in counts if count]

    def estimate(self) -> Estimate:
        """Exact where footers say it; of texts by the bytes of the first rows."""
        count, size, rows, read = len(self.files), sum(self.sizes), 0, 1
        if self.kind == "parquet":
            return Estimate(self._parquet_counts[0], True, count, size)
        for path in map(path_of, self.files[:1]):
            with path.open("rb") as raw, _inflated(raw, path.suffix) as content:
                data = content.read(_HEAD)
                read = max(min(raw.tell(), size), 1)  # a stream that inflates has read on
            with suppress(DumpCut):
                for part in head_rows(data, False, self.columns, self.form):
                    rows += len(part[0])
        return Estimate(round(rows * size / read), False, count, size)

    def position(self, file: int, line: int) -> dict[str, str | int]:
        return {"file": self.files[file], "row": line + 1}

    @cached_property
    def _parquet_counts(self) -> tuple[int, dict[str, int]]:
        """From its Parquet files: the rows, and the NULLs of each column of dates. SetupError STOPPED."""
        from pyarrow.parquet import ParquetFile

        rows, nulls = 0, dict.fromkeys((column.name for column in self.zero_dates), 0)
        for path in map(path_of, self.files if self.kind == "parquet" else ()):
            try:
                with ParquetFile(arrow_source(path)) as file:
                    rows += file.metadata.num_rows
                    for name in nulls:
                        nulls[name] += _null_count(file, name)
            except (pa.ArrowException, ValueError, OSError) as error:
                reason = str(error).partition("\n")[0]
                details = f"its files are cut or damaged, or have other columns than its definition: {reason}"
                raise SetupError("STOPPED", where=str(self.id), details=details) from error
        return rows, nulls


def _null_count(file: Any, name: str) -> int:
    """How many NULLs a column has in a file of Parquet."""
    at, count = file.schema_arrow.names.index(name), 0
    for group in range(file.num_row_groups):
        known = file.metadata.row_group(group).column(at).statistics
        has_count = known is not None and known.has_null_count
        count += (known if has_count else file.read_row_group(group, [name]).column(0)).null_count
    return count


def opened(path: Path) -> Any:
    """A file of a dump, inflated as it is read."""
    return _inflated(path.open("rb"), path.suffix)


def _inflated(file: Any, suffix: str) -> Any:
    codec = {".gz": "gzip", ".zst": "zstd"}.get(suffix)
    if codec is not None:
        return pa.CompressedInputStream(file, codec)
    return unsnap_frames(file) if suffix == ".snappy" else file
