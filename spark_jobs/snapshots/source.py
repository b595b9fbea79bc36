"""`load --source`: what it names, and the tables that are there."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ticdc_bridge.schemas.ddl.executor.versions import DdlText
from ticdc_bridge.schemas.inputs.live_tables import is_server
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.table import Column, Table
from ticdc_bridge.schemas.model.types import Kind
from ticdc_bridge.spark_jobs.lake.load import SnapshotTable
from ticdc_bridge.spark_jobs.pipeline.table_choice import TableChoice
from ticdc_bridge.spark_jobs.snapshots.dump_dialect import OPTION, DumpOptions, TextForm
from ticdc_bridge.spark_jobs.snapshots.dump_folder import PREFIX, DumpTable, read_dump
from ticdc_bridge.spark_jobs.snapshots.frames import columns_of, dump_frame, text_form_of
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
    def size(self) -> int:
        return sum(file.size for file in self.dumped.files)

    def rows(self, spark: SparkSession) -> DataFrame:
        return dump_frame(spark, self.dumped, self.form)

    def losses(self, spark: SparkSession) -> list[str]:
        """Generated columns that are stored, which no dump has; dates of Parquet, where NULL may be a zero date."""
        stored = [c.name for c in self.table.columns if c.generated is not None and not c.virtual]
        texts = [f"column {name} is generated, and a dump has no generated columns: it is NULL" for name in stored]
        if self.form is not None or not self.dumped.files:
            return texts
        from pyspark.sql import functions as F

        dates = [(n, c) for n, c in enumerate(self.columns) if c.type.kind in (Kind.DATETIME, Kind.TIMESTAMP)]
        counts = [F.count_if(F.col(f"c_{n}").isNull()).alias(c.name) for n, c in dates]
        row = self.rows(spark).agg(*counts).collect()[0].asDict() if counts else {}
        words = "NULLs, and Parquet has NULL for a zero date too"
        return texts + [f"column {name} has {count} {words}" for name, count in row.items() if count]


def _choose(tables: Sequence[SnapshotTable], choice: TableChoice) -> list[SnapshotTable]:
    """Those that are chosen. SetupError USAGE where there is none."""
    chosen = [table for table in tables if choice.takes(table.table.id)]
    if not chosen:
        names = ", ".join(sorted(str(table.table.id) for table in tables)[:10]) or "none"
        raise SetupError("USAGE", details=f"the source has no table {choice}; its tables: {names}")
    return chosen


def read_source(
    source: str, choice: TableChoice, at: int | None, zone: str, options: DumpOptions
) -> tuple[int, list[SnapshotTable]]:
    """The TSO of a source, and its tables that are chosen.

    Args:
        source: `dumpling:DIR-OR-URL` or `mysql://USER@HOST:PORT`.
        at: the TSO that is asked for.
        zone: of the sessions in which a live TiDB is read.
        options: what Dumpling was told, if anybody knows.
    Raises:
        SetupError: USAGE, TIDB_UNREACHABLE, STORE_UNREACHABLE.
    """
    if is_server(source):
        server = TidbServer.of(source, zone, at)
        return server.tso, _choose(server.tables(CHUNK_ROWS), choice)
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
    tables: list[SnapshotTable] = [_FilesTable(table, form) for table in dump.tables]
    return dump.tso, _choose(tables, choice)
