"""`load --dead-letter`: rows with a value that is none of its column's type, as JSON lines."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import functions as F

from ticdc_bridge.schemas.model.errors import SetupError, WireError
from ticdc_bridge.spark_jobs.io.message_files import LineWriter
from ticdc_bridge.spark_jobs.lake.column_values import ColumnValues
from ticdc_bridge.spark_jobs.lake.load import Snapshot, unfit_text
from ticdc_bridge.spark_jobs.snapshots.stage import SnapshotTable


def without_unfit(
    snapshot: Snapshot, values: ColumnValues, writer: LineWriter, source: SnapshotTable, replaces: bool
) -> tuple[Snapshot, int]:
    """The snapshot without rows of which a value is none of its column's type, which are written; how many.

    replaces: keys that the snapshot lacks are removed: SetupError STOPPED where one of these values is in the key.
    """
    unfit, names = snapshot.unfit(values), [column.name for column in snapshot.columns]
    texts = F.array(*(F.expr(snapshot.text(n)) for n in range(len(names))))
    marked = snapshot.rows.withColumn("unfit", unfit)
    keys = {names.index(name): name for name in snapshot.table.handle_key if name in names}
    found = marked.where("unfit IS NOT NULL").select("unfit", "file", "line", texts.alias("texts"))
    count = 0
    for row in found.toLocalIterator():
        column, count = snapshot.columns[row["unfit"]], count + 1
        if replaces and row["unfit"] in keys:
            details = f"{unfit_text(column)}, and it is in the key: with --replace, its row can't be told"
            raise SetupError("STOPPED", where=str(snapshot.id), details=details)
        value = row["texts"][row["unfit"]]
        details = f"{value!r} is none of its type {column.type.name}"
        error = WireError("INVALID_VALUE", column=column.name, details=details)
        line = {
            "code": error.code, "detail": error.detail, "db": snapshot.id.db, "table": snapshot.id.table,
            "commit_ts": snapshot.tso, **source.position(row["file"], row["line"]),
            "key": {name: row["texts"][n] for n, name in keys.items()}, "column": column.name, "value": value,
        }  # fmt: skip
        writer.write(line)
    if not count:
        return snapshot, 0
    return replace(snapshot, rows=marked.where("unfit IS NULL").drop("unfit"), count=snapshot.count - count), count
