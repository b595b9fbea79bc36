"""Plain values as typed columns, in Spark's SQL (docs/reference.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ticdc_bridge.schemas.model.spark_types import spark_type
from ticdc_bridge.schemas.model.table import Column, Table, TableId
from ticdc_bridge.schemas.model.types import BYTES, NUMBERS, Kind

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn


def is_of(id_: TableId, db: SparkColumn, table: SparkColumn) -> SparkColumn:
    """Whether these names are the table's: TiDB compares names without case."""
    from pyspark.sql import functions as F

    return (F.lower(db) == id_.folded.db) & (F.lower(table) == id_.folded.table)


def typed_row(image: str, table: Table) -> str:
    """SQL: map<string,string> column `image` in plain form → struct of the table's row; NULL stays NULL."""
    fields = list[str]()
    for column in (c for c in table.columns if not c.virtual):
        name = sql_literal(column.name)
        convert, value = CAST_SQL.get(column.type.kind), f"{image}[{name}]"
        fields += name, convert(value, column) if convert else value
    return f"CASE WHEN {image} IS NOT NULL THEN named_struct({', '.join(fields)}) END"


def unfit_sql(table: Table) -> str | None:
    """SQL: the first column whose plain value its Spark type can't hold, else NULL; None where each holds any text."""
    cases = []
    for column in (c for c in table.columns if not c.virtual):
        fits = _FITS.get(column.type.kind)
        if fits is None:
            continue
        for image in ("before", "after"):
            value = f"{image}[{sql_literal(column.name)}]"
            cases.append(f"WHEN {value} IS NOT NULL AND NOT coalesce({fits(value, column)}, false)"
                         f" THEN {sql_literal(column.name)}")  # fmt: skip
    return f"CASE {' '.join(cases)} END" if cases else None


def _castable_sql(value: str, column: Column) -> str:
    kind = spark_type(column)
    condition = f"abs(try_cast({value} AS float)) < double('infinity')" if kind == "float" else "true"
    return f"try_cast({value} AS {kind}) IS NOT NULL AND {condition}"


def _decimal_fits(value: str, column: Column) -> str:
    kind = spark_type(column)
    if not kind.startswith("decimal"):
        return "true"
    precision, scale = (int(n) for n in kind[8:-1].split(","))
    return f"{value} RLIKE '^-?0*[0-9]{{0,{precision - scale}}}([.][0-9]{{0,{scale}}}0*)?$'"


def sql_literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


CAST_SQL: dict[Kind, Callable[[str, Column], str]] = {
    **dict.fromkeys(NUMBERS, lambda value, column: f"CAST({value} AS {spark_type(column)})"),
    # {"hex":"00ff"}: the digits are what stands between the 8th character and the last two.
    **dict.fromkeys(BYTES, lambda value, _: f"unhex(substring({value}, 9, length({value}) - 10))"),
}
"""SQL of a value in plain form → SQL of the value in its column's type. Other kinds stay text."""
_FITS: dict[Kind, Callable[[str, Column], str]] = {
    **dict.fromkeys((Kind.INTEGER, Kind.YEAR, Kind.DOUBLE, Kind.FLOAT), _castable_sql),
    Kind.DECIMAL: _decimal_fits,
    **dict.fromkeys(BYTES, lambda value, _: f"""{value} RLIKE '^[{{]"hex":"([0-9a-f][0-9a-f])*"[}}]$'"""),
}
