"""A micro-batch's changes of one table as rows with the table's columns."""

from __future__ import annotations

from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from schemas.model.errors import SetupError
from schemas.model.table import Table, TableId
from schemas.model.type_text import type_text
from spark_jobs.pipeline.codec_config import CodecConfig
from spark_jobs.pipeline.newest_columns import with_newest
from spark_jobs.pipeline.table_view import TableView
from spark_jobs.spark.sql_expressions import unfit_sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DEFINITIONS_LOCK = Lock()
"""Definitions and registries are asked by one thread at a time."""


def typed_rows(changes: DataFrame, id_: TableId, read: CodecConfig) -> DataFrame:
    """Changes with maps → before and after as structs of the newest columns of their table.

    SetupError STOPPED for a value that its column can't hold exactly, USAGE where the columns are not known.
    """
    from spark_jobs.spark.decode_plan import apply_view

    view = read.view or TableView(Table(id_, ()))
    viewed = view.table.id.folded == id_.folded and bool(view.table.columns)
    if not viewed:
        with DEFINITIONS_LOCK:
            read = with_newest(replace(read, view=replace(view, table=Table(id_, ()))))
        assert read.view is not None
        _check_fit(changes, read.view.table)  # else the workers looked at each value
    return apply_view(changes, read)


def _check_fit(changes: DataFrame, table: Table) -> None:
    """SetupError STOPPED where a row of another version has a value that a column of this one can't hold exactly."""
    if (condition := unfit_sql(table)) is None:
        return
    row = changes.withColumn("_unfit", F.expr(condition)).where("_unfit IS NOT NULL").first()
    if row is None:
        return
    source, name = row["source"], row["_unfit"]
    where = f"{source['topic']}/{source['partition']}/{source['offset']}"
    column = table.by_name[name]
    details = (
        f"table {table.id}, column {name}: it is {type_text(column)} in the newest version, and this row's value does "
        "not fit: its version's column was another. Leave --table out (each row by its own version), or use merge"
    )
    raise SetupError("STOPPED", where=where, details=details)
