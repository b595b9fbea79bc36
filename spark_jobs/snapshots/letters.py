"""`load --dead-letter`: rows with a value that is none of its column's type, as JSON lines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from pyspark.sql import functions as F

from ticdc_bridge.schemas.model.errors import SetupError, WireError
from ticdc_bridge.spark_jobs.io.message_files import LineWriter
from ticdc_bridge.spark_jobs.lake.column_values import ColumnValues
from ticdc_bridge.spark_jobs.lake.load import Snapshot, SnapshotTable, unfit_text

CODE: Final = "INVALID_VALUE"


def without_unfit(
    snapshot: Snapshot, values: ColumnValues, letters: Path, source: SnapshotTable, replaces: bool
) -> tuple[Snapshot, int]:
    """The snapshot without rows of which a value is none of its column's type, which become lines of a file; how many.

    Args:
        letters: the file, which is there when there are such rows.
        replaces: keys that the snapshot lacks are removed. SetupError STOPPED where one of these values is in the key:
            whose row it is can't be told.
    """
    unfit, names = snapshot.unfit(values), [column.name for column in snapshot.columns]
    texts = F.array(*(F.expr(snapshot.text(n)) for n in range(len(names))))
    marked = snapshot.rows.withColumn("unfit", unfit)
    keys = {names.index(name): name for name in snapshot.table.handle_key if name in names}
    found = marked.where("unfit IS NOT NULL").select("unfit", "file", "line", texts.alias("texts"))
    writer, count = LineWriter(letters), 0
    for row in found.toLocalIterator():
        column, count = snapshot.columns[row["unfit"]], count + 1
        if replaces and row["unfit"] in keys:
            writer.abandon()
            details = f"{unfit_text(column)}, and it is in the key: with --replace, its row can't be told"
            raise SetupError("STOPPED", where=str(snapshot.id), details=details)
        value = row["texts"][row["unfit"]]
        details = f"{value!r} is none of its type {column.type.name}"
        error = WireError(CODE, column=column.name, details=details)
        line = {
            "code": error.code, "detail": error.detail, "db": snapshot.id.db, "table": snapshot.id.table,
            "commit_ts": snapshot.tso, **source.position(row["file"], row["line"]),
            "key": {name: row["texts"][n] for n, name in keys.items()}, "column": column.name, "value": value,
        }  # fmt: skip
        writer.write(line)
    if not count:
        writer.abandon()
        return snapshot, 0
    writer.close()
    return replace(snapshot, rows=marked.where("unfit IS NULL").drop("unfit"), count=snapshot.count - count), count


def collect_letters(files: Iterable[Path], out: Path) -> None:
    """The lines of these files, those that are there, in one; without lines an older file of that name goes."""
    files = [file for file in files if file.exists()]
    if not files:
        out.unlink(missing_ok=True)
        return
    writer = LineWriter(out)
    for file in files:
        with file.open(encoding="utf-8") as lines:
            for line in lines:
                writer.write_text(line.rstrip("\n"))
    writer.close()
