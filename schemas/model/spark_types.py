"""Columns as Spark's types: their names, which of them widens into which, and values for Python."""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

from ticdc_bridge.schemas.model.names import quote_name
from ticdc_bridge.schemas.model.table import Column, Table, Value
from ticdc_bridge.schemas.model.type_text import type_text
from ticdc_bridge.schemas.model.types import BYTES, TYPES, Kind

MAX_SPARK_PRECISION = 38


@dataclass(frozen=True, slots=True)
class SparkTypes:
    """Which Spark types temporal columns have.

    types: "exact" is text, which holds every value; "typed" is date, timestamp_ntz (DATETIME) and timestamp, which
    hold no zero, partial or invalid date. time: TIME as text or as a day-time interval, which holds every value but
    not how many fraction digits it was written with.
    """

    types: Literal["exact", "typed"] = "exact"
    time: Literal["text", "interval"] = "text"

    @property
    def kinds(self) -> dict[Kind, str]:
        """The kinds of columns that are not text, with their Spark types."""
        by_kind = dict(_TYPED) if self.types == "typed" else {}
        return by_kind | ({Kind.TIME: "interval day to second"} if self.time == "interval" else {})


INTEGER_BITS = {row.spark: row.bits for row in TYPES if row.bits and row.name == row.spark}
"""Spark's integers, which are those of TiDB that have their names."""
_TYPED = {Kind.DATE: "date", Kind.DATETIME: "timestamp_ntz", Kind.TIMESTAMP: "timestamp"}
EXACT = SparkTypes()


def spark_type(column: Column, types: SparkTypes = EXACT) -> str:
    """Spark SQL type of the column; by default one that holds every value exactly.

    DECIMAL over 38 digits is text, and so are temporal values where `types` does not say otherwise.
    """
    if types is not EXACT and column.type.kind in types.kinds:
        return types.kinds[column.type.kind]
    if column.type.kind is Kind.DECIMAL:
        if column.length is None or column.scale is None or column.length > MAX_SPARK_PRECISION:
            return "string"
        return f"decimal({column.length},{column.scale})"
    return (column.type.spark_unsigned if column.unsigned else "") or column.type.spark


_JSON_NAMES = {"smallint": "short", "int": "integer", "bigint": "long"}


def json_type(column: Column, types: SparkTypes = EXACT) -> str:
    """`spark_type` as a StructType's JSON names it."""
    name = spark_type(column, types)
    return _JSON_NAMES.get(name, name)


def ddl(table: Table) -> str:
    """The columns as `StructType.fromDDL` and CREATE TABLE take them; virtual generated columns are left out."""
    return ",".join(f"{quote_name(c.name)} {spark_type(c).upper()}" for c in table.columns if not c.virtual)


def struct(table: Table, types: SparkTypes = EXACT, certain: bool | None = None) -> dict[str, Any]:
    """The same as `StructType.fromJson` takes it. Every column may be NULL: a row before or after may lack it.

    certain: with each column's TiDB type as metadata (`metadata_of`); None: without.
    """
    return {
        "type": "struct",
        "fields": [
            {
                "name": c.name, "type": json_type(c, types), "nullable": True,
                "metadata": {} if certain is None else metadata_of(c, certain),
            }
            for c in table.columns
            if not c.virtual
        ],
    }  # fmt: skip


def metadata_of(column: Column, certain: bool) -> dict[str, str]:
    """A column's metadata: {"tidb_type": "decimal(12,2) unsigned"}, {} for a type that is not known.

    certain: the column is from a table definition, and its type is as SHOW CREATE TABLE has it. Else it is from
    TiCDC's Avro schema: upper case as there, a name that stands for several types (INT, TEXT, BLOB), with the digits,
    length or elements that the schema tells.
    """
    if column.vague:
        return {}
    if certain:
        return {"tidb_type": type_text(column)}
    name, kind = column.type.avro_name, column.type.kind
    if kind in (Kind.DECIMAL, Kind.BIT, Kind.ENUM, Kind.SET):
        name += type_text(column).removesuffix(" unsigned").removeprefix(column.type.name)
    return {"tidb_type": name + (" UNSIGNED" if column.unsigned else "")}


def python_value(column: Column, value: Value) -> Any:
    """A plain value as Arrow takes it for the column's exact Spark type."""
    if value is None:
        return None
    convert = _PYTHON.get(spark_type(column).partition("(")[0])
    if isinstance(value, bytes):
        return value if column.type.kind in BYTES else f'{{"hex":"{value.hex()}"}}'
    return convert(value) if convert else value


_PYTHON: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("smallint", "int", "bigint"), int), "float": float, "double": float, "decimal": Decimal,
}  # fmt: skip


def widens(old: str, new: str) -> bool:
    """Every value of Spark type `old` is one of `new`, without a change."""
    if old == new or (old, new) in _WIDENING:
        return True
    if not (old.startswith("decimal(") and new.startswith("decimal(")):
        return False
    (digits, scale), (more, finer) = (map(int, kind[8:-1].split(",")) for kind in (old, new))
    return scale <= finer and digits - scale <= more - finer  # room for the digits on both sides of the point


_WIDENING = {
    ("int", "bigint"), ("int", "decimal(20,0)"), ("bigint", "decimal(20,0)"), ("float", "double"),
    ("smallint", "int"), ("smallint", "bigint"),
}  # fmt: skip
