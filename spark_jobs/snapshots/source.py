"""`load --source`: what it names, and the tables that are there."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from ticdc_bridge.schemas.inputs.live_tables import is_server
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.spark_jobs.arrow.warm_up import warm_dump_texts
from ticdc_bridge.spark_jobs.pipeline.table_choice import TableChoice
from ticdc_bridge.spark_jobs.snapshots.dump_dialect import refuse_alike, text_form
from ticdc_bridge.spark_jobs.snapshots.dump_folder import read_dump
from ticdc_bridge.spark_jobs.snapshots.frames import PREFIX
from ticdc_bridge.spark_jobs.snapshots.stage import SnapshotTable, Stages
from ticdc_bridge.spark_jobs.snapshots.tidb_reader import NO_SNAPSHOT, TidbServer, error_number

CHUNK_ROWS: Final = 200_000


def _choose(ids: Sequence[TableId], choice: TableChoice) -> list[TableId]:
    """Those that are chosen. SetupError USAGE where there is none."""
    chosen = [id_ for id_ in ids if choice.takes(id_)]
    if not chosen:
        names = ", ".join(sorted(map(str, ids))[:10]) or "none"
        raise SetupError("USAGE", details=f"the source has no table {choice} that may be read; its tables: {names}")
    return chosen


def read_source(
    source: str, choice: TableChoice, at: int | None, zone: str, options: Mapping[str, Any],
    stages: Stages | None = None, chunk_rows: int | None = None,
) -> tuple[int, list[SnapshotTable]]:  # fmt: skip
    """The TSO of a source, and its tables that are chosen.

    Args:
        source: `dumpling:DIR-OR-URL` or `mysql://USER@HOST:PORT`.
        at: the TSO that is asked for.
        zone: of the sessions in which a live TiDB is read.
        options: the options that Dumpling ran with (spark_jobs.snapshots.dump_dialect.dump_options).
        stages: of a load's tables; without `at` one of a live TiDB that has not ended goes on at its TSO.
        chunk_rows: of a live TiDB's chunks. Default: CHUNK_ROWS.
    Raises:
        SetupError: USAGE, TIDB_UNREACHABLE, STORE_UNREACHABLE.
    """
    if is_server(source):
        server = TidbServer.of(source, zone, at)
        ids = _choose(server.ids(), choice)
        if at is None and stages is not None and (begun := stages.unfinished(ids)) is not None:
            then = replace(server, tso=begun)
            try:
                ids = _choose(then.ids(), choice)
                server = then
                print(f"load: goes on at tso {begun}, where a load did not end (--at N takes another)", file=sys.stderr)
            except SetupError as error:
                if error_number(error) not in NO_SNAPSHOT:
                    raise
                words = "did not end, and TiDB has removed the rows of that TSO (GC): a new one begins"
                print(f"load: a load at tso {begun} {words}", file=sys.stderr)
        return server.tso, [*server.tables(ids, chunk_rows or CHUNK_ROWS)]
    if not source.startswith(PREFIX):
        raise SetupError("USAGE", details=f"{source}: dumpling:DIR-OR-URL or mysql://USER@HOST:PORT is needed")
    dump = read_dump(source.removeprefix(PREFIX), at)
    for what, count in sorted(dump.skipped.items()) if stages is not None else ():
        print(f"load: skipped {what} {count}", file=sys.stderr)
    ids = _choose([table.id for table in dump.tables], choice)
    kinds = {table.kind for table in dump.tables} - {""}
    if not kinds:
        raise SetupError("USAGE", details=f"{source}: it has definitions and no file with rows (dumpling -d)")
    for kind in kinds & {"sql", "csv"}:  # what any of its tables proves holds for all
        warm_dump_texts()
        tables = [table for table in dump.tables if table.kind == kind]
        form = text_form(kind == "csv", (head for table in tables for head in table.heads()), options)
        for table in tables:
            table.form = form
            if table.id in ids:
                refuse_alike(form, table.columns, str(table.id))
    return dump.tso, [table for table in dump.tables if table.id in ids]
