"""Features of Delta tables that older or smaller readers lack: set when a change needs them, with a warning before.

`--reader-features full` sets them in new tables, by Delta's own defaults (`FULL`). Which reader reads what: the table
in docs/lake.md, which tests hold.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, StructType

from ticdc_bridge.spark_jobs.lake.engines.base import TableColumn
from ticdc_bridge.spark_jobs.lake.engines.spark_sql import property_sql


@dataclass(frozen=True)
class Feature:
    """A feature of a table. property, value: what sets it. then: what readers do with the table then."""

    title: str
    property: str
    value: str
    then: str


MAPPING: Final = Feature(
    "column mapping", "delta.columnMapping.mode", "name", "deltalake can't write the table then, and reads NULL"
)
WIDENING: Final = Feature("type widening", "delta.enableTypeWidening", "true", "deltalake can't read the table then")
NTZ: Final = Feature(
    "timestampNtz", "delta.feature.timestampNtz", "supported", "readers without it can't read the table then"
)
_DEFAULTS: Final = "spark.databricks.delta.properties.defaults."
FULL: Final[Mapping[str, str]] = {
    **{_DEFAULTS + feature.property.removeprefix("delta."): feature.value for feature in (MAPPING, WIDENING)},
    _DEFAULTS + "enableDeletionVectors": "true",
    _DEFAULTS + "autoOptimize.autoCompact": "true",
}
"""Settings of a session whose new tables have the features from the start: --reader-features full. With deletion
vectors a batch writes the rows that it changes, and not the files that they are in; Delta joins the small files again.
"""
_ODD: Final = re.compile(r"[ ,;{}()\n\t=]")
"""Characters of a column's name that Parquet does not have in Spark: such a name needs column mapping."""
_INTEGERS: Final = ("tinyint", "smallint", "int", "bigint")
_DIGITS: Final = {"tinyint": 10, "smallint": 10, "int": 10, "bigint": 20}
_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")


def properties_for(spark: SparkSession, path: str, names: Iterable[str]) -> dict[str, str]:
    """The properties that a new table needs for columns of these names, after a warning."""
    odd = next((name for name in names if _ODD.search(name)), None)
    if odd is None or spark.conf.get(_DEFAULTS + "columnMapping.mode", None):
        return {}
    _warn(path, MAPPING, f"column {odd!r}")
    return {MAPPING.property: MAPPING.value}


def need(spark: SparkSession, path: str, sql_name: str, feature: Feature, why: str) -> None:
    """Sets a feature in a table that lacks it, after a warning."""
    have = spark.sql(f"DESCRIBE DETAIL {sql_name}").collect()[0]["properties"]
    if have.get(feature.property, "none") in (feature.value, "id"):
        return
    _warn(path, feature, why)
    spark.sql(f"ALTER TABLE {sql_name} SET TBLPROPERTIES ({property_sql(feature.property, feature.value)})")


def need_for_name(spark: SparkSession, path: str, sql_name: str, name: str) -> None:
    """Column mapping, where a column's name needs it."""
    if _ODD.search(name):
        need(spark, path, sql_name, MAPPING, f"column {name!r}")


def need_for_rows(spark: SparkSession, path: str, sql_name: str, have: StructType, rows: StructType) -> None:
    """Before rows with other columns than the table's are appended: what their names and types need."""
    known = dict(_fields(have))
    for name, kind in _fields(rows):
        leaf = name[-1]
        if name not in known and _ODD.search(leaf):
            need(spark, path, sql_name, MAPPING, f"column {leaf!r}")
        old = known.get(name)
        texts = None if old is None else (old.simpleString(), kind.simpleString())
        if texts is not None and _append_widens(*texts):
            need_for_type(spark, path, sql_name, ".".join(name), *texts)


def other_type(have: StructType, rows: StructType) -> str | None:
    """What is said of a column whose type in the rows the table's can neither be nor become; None: there is none."""
    known = {name: kind.simpleString() for name, kind in _fields(have) if kind.typeName() != "struct"}
    for name, kind in _fields(rows):
        old, new = known.get(name), kind.simpleString()
        if old is not None and old != new and not _append_widens(old, new):
            return f"{'.'.join(name)} is {old} there, and {new} in the rows"
    return None


def _append_widens(have: str, kind: str) -> bool:
    """True if rows of a type widen the column by an append: not from an integer to another kind of number."""
    return (have in _INTEGERS) == (kind in _INTEGERS) and widens(have, kind)


def need_for_type(spark: SparkSession, path: str, sql_name: str, name: str, have: str, kind: str) -> None:
    """Type widening, where a column's new type needs it."""
    if widens(have, kind):
        need(spark, path, sql_name, WIDENING, f"column {name} from {have} to {kind}")


def widens(have: str, kind: str) -> bool:
    """True if Delta makes this type of that one without new files (upstream delta `TypeWidening.scala`)."""
    old, new = _DECIMAL.fullmatch(have), _DECIMAL.fullmatch(kind)
    if have in _INTEGERS:
        if new is not None:
            return int(new[1]) - int(new[2]) >= _DIGITS[have]
        return kind in _INTEGERS[_INTEGERS.index(have) + 1 :] or (kind == "double" and have != "bigint")
    if old is not None and new is not None:
        more = int(new[1]) - int(old[1]), int(new[2]) - int(old[2])
        return more != (0, 0) and more[0] >= more[1] >= 0
    return (have, kind) in (("float", "double"), ("date", "timestamp_ntz"))


def _warn(path: str, feature: Feature, why: str) -> None:
    print(f"warning: delta:{path}: {why} needs Delta's {feature.title}: {feature.then}", file=sys.stderr)


def _fields(schema: StructType, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], DataType]]:
    """All fields by their names from the outermost, those of structs too."""
    for field in schema.fields:
        name = (*above, field.name)
        yield name, field.dataType
        inner: Any = field.dataType
        if inner.typeName() == "struct":
            yield from _fields(inner, name)


def field_names(schema: StructType) -> list[str]:
    """The names of all fields, those of structs too."""
    return [name[-1] for name, _ in _fields(schema)]


def names_in(columns: Iterable[TableColumn]) -> list[str]:
    """The names of columns, and of the fields of structs in their types, which stand in backquotes."""
    return [name for feature in columns for name in (feature.name, *re.findall(r"`((?:[^`]|``)+)`", feature.type))]
