"""Table → Spark SQL types of its exact values (types.md §1). Texts only; Spark itself is not needed."""

from __future__ import annotations

from typing import Any

from schemas.table import Column, Table
from schemas.types import Kind

MAX_SPARK_PRECISION = 38


def spark_type(column: Column) -> str:
    """Spark SQL type that holds every value of the column exactly. DECIMAL over 38 digits and temporal values: text."""
    if column.type.kind is Kind.DECIMAL:
        if column.length is None or column.scale is None or column.length > MAX_SPARK_PRECISION:
            return "string"
        return f"decimal({column.length},{column.scale})"
    if column.unsigned and column.type.spark_unsigned:
        return column.type.spark_unsigned
    return column.type.spark


def row_type(table: Table) -> str:
    """Spark SQL struct of a table's row; virtual generated columns are left out."""
    fields = (f"{quoted(c.name)}:{spark_type(c)}" for c in table.columns if not c.virtual)
    return f"struct<{','.join(fields)}>"


def quoted(name: str) -> str:
    """A name as a Spark SQL identifier."""
    return "`" + name.replace("`", "``") + "`"


# Spark SQL's names of types → those in a StructType's JSON.
_JSON_NAMES = {"smallint": "short", "int": "integer", "bigint": "long"}


def ddl(table: Table) -> str:
    """The columns as `StructType.fromDDL` and CREATE TABLE take them; virtual generated columns are left out."""
    return ",".join(f"{quoted(c.name)} {spark_type(c).upper()}" for c in table.columns if not c.virtual)


def struct(table: Table) -> dict[str, Any]:
    """The same as `StructType.fromJson` takes it. Every column may be NULL: a row before or after may lack it."""
    return {
        "type": "struct",
        "fields": [
            {"name": c.name, "type": _JSON_NAMES.get(spark_type(c), spark_type(c)), "nullable": True, "metadata": {}}
            for c in table.columns
            if not c.virtual
        ],
    }
