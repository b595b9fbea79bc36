"""A micro-batch's changes of one table as rows with the table's columns."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from threading import Lock

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ticdc_bridge.schemas.model.errors import Hint, SetupError
from ticdc_bridge.schemas.model.table import Column as TableColumn
from ticdc_bridge.schemas.model.table import Table, TableId
from ticdc_bridge.schemas.model.type_text import type_text
from ticdc_bridge.schemas.model.types import BY_NAME
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.newest_columns import with_newest
from ticdc_bridge.spark_jobs.pipeline.table_view import TableView
from ticdc_bridge.spark_jobs.spark.sql_expressions import unfit_sql

DEFINITIONS_LOCK = Lock()
"""Definitions and registries are asked by one thread at a time."""


def typed_rows(changes: DataFrame, id_: TableId, read: CodecConfig) -> DataFrame:
    """Changes with maps → before and after as structs of the newest columns of their table.

    SetupError STOPPED for a value that its column can't hold exactly, and where nothing says which column is which;
    USAGE where the columns are not known.
    """
    from ticdc_bridge.spark_jobs.spark.decode_plan import apply_view

    view = read.view or TableView(Table(id_, ()))
    viewed = view.table.id.folded == id_.folded and bool(view.table.columns)
    if not viewed:
        with DEFINITIONS_LOCK:
            read = with_newest(replace(read, view=replace(view, table=Table(id_, ()))))
            changes = _by_newest_names(changes, read)
        assert read.view is not None
        _check_fit(changes, read.view.table)  # else the workers looked at each value
    return apply_view(changes, read)


def _by_newest_names(changes: DataFrame, read: CodecConfig) -> DataFrame:
    """Rows of older versions by the names that their columns have in the newest. SetupError STOPPED."""
    view, row = read.view, F.coalesce("after", "before")
    assert view is not None
    names = F.array_sort(F.map_keys(row))
    rows = changes.where(row.isNotNull())
    for version, columns in rows.select("table_version", names).distinct().collect():
        definition = read.tables.at(view.table.id, version + 1) if read.tables and version is not None else None
        described = tuple(TableColumn(name, BY_NAME["text"]) for name in columns)
        table = definition.table if definition else Table(view.table.id, described)
        conversion = view.conversion_of(table, older=True, tables=read.tables)
        of_version = F.col("table_version").eqNullSafe(F.lit(version)) & (names == F.array(*map(F.lit, columns)))
        if conversion.unclear is not None:
            source = rows.where(of_version).select("source").first()[0]  # type: ignore[index]
            where = f"{source['topic']}/{source['partition']}/{source['offset']}"
            column, why = conversion.unclear
            raise SetupError("STOPPED", where=where, details=f"table {table.id}, column {column}: {why}")
        if conversion.names:
            new_names = {**{name: name for name in columns}, **conversion.names}
            renamed = {image: _by_names(F.col(image), new_names) for image in ("before", "after")}
            renamed["key"] = F.transform("key", _namer(new_names))
            made = {name: F.when(of_version, column).otherwise(F.col(name)) for name, column in renamed.items()}
            changes = changes.withColumns(made)
    return changes


def _by_names(row: Column, names: Mapping[str, str | None]) -> Column:
    """A map by its names' new ones, without those that have none."""
    removed = [old for old, new in names.items() if new is None]
    rename = _namer(names)
    return F.transform_keys(F.map_filter(row, lambda name, _: ~name.isin(removed)), lambda name, _: rename(name))


def _namer(names: Mapping[str, str | None]) -> Callable[[Column], Column]:
    new_names = F.create_map(*(F.lit(name) for pair in names.items() for name in pair))
    return lambda name: F.coalesce(new_names[name], name)


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
        f"not fit: its version's column was another. Leave {Hint.TABLE} out (each row by its own version), or use merge"
    )
    raise SetupError("STOPPED", where=where, details=details)
