"""Spark's types as Arrow's, in the form in which mapInArrow and Python data sources exchange rows.

pyspark has an inner function for it, whose parameters differ between 4.0 and 4.3. Times with a zone are in UTC,
whatever the session's zone is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ticdc_bridge.spark_jobs.arrow.library import pa

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


_ARROW = {
    "boolean": pa.bool_(), "byte": pa.int8(), "short": pa.int16(), "integer": pa.int32(), "long": pa.int64(),
    "float": pa.float32(), "double": pa.float64(), "string": pa.string(), "binary": pa.binary(),
    "date": pa.date32(), "timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us"),
    "interval day to second": pa.duration("us"), "void": pa.null(),
}  # fmt: skip
"""Of each of Spark's types without parameters, by the name in its JSON."""
_SPARK = {kind: name for name, kind in _ARROW.items()}
_SQL_NAMES = {"short": "smallint", "integer": "int", "long": "bigint"}


def arrow_schema_of(schema: StructType) -> Any:
    """Spark's schema → Arrow's. KeyError for a type that no column of ours has."""
    return pa.schema(list(arrow_type_of(schema.jsonValue())))


def spark_schema_of(schema: Any) -> StructType:
    """Arrow's schema → Spark's, in which everything may be NULL. KeyError for a type that no column of ours has."""
    from pyspark.sql.types import StructType

    return StructType.fromJson(json_of(pa.struct(list(schema))))


def ddl_of(schema: Any) -> str:
    """Arrow's schema → Spark DDL. KeyError as of `spark_schema_of`."""
    return ", ".join(f"`{f.name}` {sql_type_of(f.type)}" for f in schema)


def sql_type_of(kind: Any) -> str:
    """Arrow's type → Spark's SQL type. KeyError as of `spark_schema_of`."""
    if pa.types.is_list(kind):
        return f"array<{sql_type_of(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{sql_type_of(kind.key_type)},{sql_type_of(kind.item_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'{f.name}:{sql_type_of(f.type)}' for f in kind)}>"
    name = json_of(kind)
    return str(_SQL_NAMES.get(name, name))


def arrow_type_of(kind: Any) -> Any:
    """A type in Spark's JSON → Arrow's type. KeyError as of `arrow_schema_of`."""
    if isinstance(kind, str):
        if kind.startswith("decimal("):
            return pa.decimal128(*map(int, kind[8:-1].split(",")))
        return _ARROW[kind]
    if kind["type"] == "array":
        return pa.list_(pa.field("element", arrow_type_of(kind["elementType"]), kind["containsNull"]))
    if kind["type"] == "map":
        key = pa.field("key", arrow_type_of(kind["keyType"]), False)
        return pa.map_(key, pa.field("value", arrow_type_of(kind["valueType"]), kind["valueContainsNull"]))
    fields = kind["fields"]
    return pa.struct([pa.field(f["name"], arrow_type_of(f["type"]), f["nullable"]) for f in fields])


def json_of(kind: Any) -> Any:
    """Arrow's type → a type in Spark's JSON. KeyError as of `spark_schema_of`."""
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_list(kind):
        return {"type": "array", "elementType": json_of(kind.value_type), "containsNull": True}
    if pa.types.is_map(kind):
        types = {"keyType": json_of(kind.key_type), "valueType": json_of(kind.item_type)}
        return {"type": "map", **types, "valueContainsNull": True}
    if pa.types.is_struct(kind):
        fields = [{"name": f.name, "type": json_of(f.type), "nullable": True, "metadata": {}} for f in kind]
        return {"type": "struct", "fields": fields}
    return _SPARK[kind]
