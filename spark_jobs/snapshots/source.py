"""`load --source`: what it names, and the tables that are there."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from ticdc_bridge.schemas.ddl.executor.versions import DdlText
from ticdc_bridge.schemas.inputs.live_tables import is_server
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.table import Column, Table, TableId
from ticdc_bridge.schemas.model.types import Kind
from ticdc_bridge.spark_jobs.lake.load import Estimate, SnapshotTable
from ticdc_bridge.spark_jobs.pipeline.table_choice import TableChoice
from ticdc_bridge.spark_jobs.snapshots.dump_dialect import OPTION, DumpOptions, TextForm
from ticdc_bridge.spark_jobs.snapshots.dump_folder import PREFIX, DumpTable, read_dump
from ticdc_bridge.spark_jobs.snapshots.frames import (
    FileReader,
    columns_of,
    null_counts,
    parquet_frame,
    row_estimate,
    text_form_of,
)
from ticdc_bridge.spark_jobs.snapshots.stage import Stage, Stages, fields_of, no_stage
from ticdc_bridge.spark_jobs.snapshots.tidb_reader import TidbServer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHUNK_ROWS: Final = 200_000


@dataclass(frozen=True)
class _FilesTable:
    """A dump's table (spark_jobs.lake.load.SnapshotTable)."""

    dumped: DumpTable
    form: TextForm | None

    @property
    def table(self) -> Table:
        return self.dumped.table

    @property
    def definition(self) -> DdlText:
        return self.dumped.definition

    @property
    def columns(self) -> Sequence[Column]:
        return columns_of(self.table)

    @property
    def identity(self) -> str:
        return repr((self.table, self.form, self.dumped.files))

    def rows(self, spark: SparkSession, stage: Stage | None) -> DataFrame:
        files = self.dumped.files
        if self.is_read_in_place:
            return parquet_frame(spark, self.dumped)
        if self.form is None:
            schema = ", ".join(f"{name} {kind}" for name, kind in fields_of(self.columns).items())
            return spark.createDataFrame([], schema)
        if stage is None:
            raise no_stage(self.table.id)
        reader = FileReader(self.columns, self.form)
        return stage.rows(spark, reader, [file.path for file in files], [max(file.size, 1) for file in files])

    def losses(self) -> list[str]:
        """Generated columns that are stored, which no dump has; dates of Parquet, where NULL may be a zero date."""
        stored = [c.name for c in self.table.columns if c.generated is not None and not c.virtual]
        texts = [f"column {name} is generated, and a dump has no generated columns: it is NULL" for name in stored]
        if not self.is_read_in_place:
            return texts
        dates = [c.name for c in self.columns if c.type.kind in (Kind.DATETIME, Kind.TIMESTAMP)]
        words = "NULLs, and Parquet has NULL for a zero date too"
        counts = null_counts(self.dumped, dates)
        return texts + [f"column {name} has {count} {words}" for name, count in counts.items() if count]

    def estimate(self) -> Estimate:
        """Exact where footers, or the first bytes, say it."""
        files = self.dumped.files
        return Estimate(*row_estimate(self.dumped, self.form), len(files), sum(file.size for file in files))

    def position(self, file: int, line: int) -> dict[str, str | int]:
        return {"file": self.dumped.files[file].path, "row": line + 1}

    def obstacles(self, seconds: float) -> list[str]:
        del seconds
        return []

    @property
    def is_read_in_place(self) -> bool:
        """Parquet needs no stage."""
        return self.form is None and bool(self.dumped.files)


def _choose(ids: Sequence[TableId], choice: TableChoice) -> list[TableId]:
    """Those that are chosen. SetupError USAGE where there is none."""
    chosen = [id_ for id_ in ids if choice.takes(id_)]
    if not chosen:
        names = ", ".join(sorted(map(str, ids))[:10]) or "none"
        raise SetupError("USAGE", details=f"the source has no table {choice}; its tables: {names}")
    return chosen


def read_source(
    source: str, choice: TableChoice, at: int | None, zone: str, options: DumpOptions, stages: Stages
) -> tuple[int, list[SnapshotTable]]:
    """The TSO of a source, and its tables that are chosen.

    Args:
        source: `dumpling:DIR-OR-URL` or `mysql://USER@HOST:PORT`.
        at: the TSO that is asked for.
        zone: of the sessions in which a live TiDB is read.
        options: what Dumpling was told, if anybody knows.
        stages: of the tables; without `at` a load of a live TiDB that has not ended goes on at its TSO.
    Raises:
        SetupError: USAGE, TIDB_UNREACHABLE, STORE_UNREACHABLE.
    """
    if is_server(source):
        server = TidbServer.of(source, zone, at)
        ids = _choose(server.ids(), choice)
        if at is None and (begun := stages.unfinished(ids)) is not None:
            then = replace(server, tso=begun)
            if then.has_snapshot():
                print(f"load: goes on at tso {begun}, where a load did not end (--at N takes another)", file=sys.stderr)
                server, ids = then, _choose(then.ids(), choice)
            else:
                words = "did not end, and TiDB has collected what was there then: a new one begins"
                print(f"load: a load at tso {begun} {words}", file=sys.stderr)
        return server.tso, [*server.tables(ids, CHUNK_ROWS)]
    if not source.startswith(PREFIX):
        details = f"--source {source}: dumpling:DIR-OR-URL or mysql://USER@HOST:PORT is needed"
        raise SetupError("USAGE", details=details)
    dump = read_dump(source.removeprefix(PREFIX), at)
    for what, count in sorted(dump.left_alone.items()):
        print(f"load: left alone: {what} {count}", file=sys.stderr)
    chosen = [table for table in dump.tables if choice.takes(table.id)]
    if chosen and not any(table.files for table in dump.tables):
        raise SetupError("USAGE", details=f"{source}: it has definitions and no file with rows (dumpling -d)")
    form = text_form_of(dump, chosen, options)
    for name in form.assumed if form else ():
        details = f"nothing in {source} proves {name}: Dumpling's default is taken ({OPTION} says another)"
        print(f"warning: {details}", file=sys.stderr)
    ids = _choose([table.id for table in dump.tables], choice)
    return dump.tso, [_FilesTable(table, form) for table in dump.tables if table.id in ids]
