"""`erase`: the rows of one key leave tables of the lake, and the files of their newest version."""

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from pyspark.sql import SparkSession

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.names import quote_name
from ticdc_bridge.spark_jobs.io.locations import TableLocation
from ticdc_bridge.spark_jobs.lake import changelog, tables
from ticdc_bridge.spark_jobs.lake.engines.base import LakeTable
from ticdc_bridge.spark_jobs.lake.table_columns import private_of
from ticdc_bridge.spark_jobs.lake.tombstones import COMMIT_TS, RESERVED_NAMES
from ticdc_bridge.spark_jobs.pipeline.private_columns import HMAC, ColumnMask, read_key
from ticdc_bridge.spark_jobs.spark.errors import is_conflict
from ticdc_bridge.spark_jobs.spark.sql_expressions import sql_literal

_TRIES = 10


class Erased(NamedTuple):
    """rows: that are gone. version: the newest one (Delta) or snapshot (Iceberg), whose files do not have them."""

    location: str
    rows: int
    version: int | None


def erase(spark: SparkSession, engine: str, location: TableLocation, key: Mapping[str, str]) -> Iterator[Erased]:
    """Of a table and its deleted keys. key: texts as the lake has them, by column; of a column with hmac as TiDB has.

    SetupError USAGE for a column that the table has not, a value that is not of its type, and another key of hmac.
    """
    for table_location in (location, location.tombstones):
        table = tables.engine_of(spark, engine, location.format)(spark, table_location.name)
        if table_location is not location and not table.exists():
            continue
        where = _condition(table, key)
        if rows := table.read().where(where).count():
            _commit(partial(table.delete, where))
        _commit(table.purge)  # an earlier run may have ended before it
        yield Erased(table.location, rows, table.version())


def _commit(change: Callable[[], None]) -> None:
    """Makes a change, again where a stream commits to the table meanwhile."""
    for left in reversed(range(_TRIES)):
        try:
            return change()
        except Exception as error:
            if not (left and is_conflict(error)):
                raise


def check_key(spark: SparkSession, engine: str, location: TableLocation, columns: Collection[str]) -> None:
    """SetupError USAGE for columns that are not the key, where the table's deleted keys say what that is."""
    deleted = tables.engine_of(spark, engine, location.format)(spark, location.tombstones.name)
    if deleted.exists():
        key = {name.lower() for name in deleted.read().columns if name not in RESERVED_NAMES} - {COMMIT_TS}
        if key != {name.lower() for name in columns}:
            details = (
                f"--key: the key of {location} is {', '.join(sorted(key))}: give each of these, and no other column"
            )
            raise SetupError("USAGE", details=details)


def _condition(table: LakeTable, key: Mapping[str, str]) -> str:
    """SQL of the key's rows; of a changelog also of changes from it to another key."""
    frame, private = table.read(), private_of(table.properties())
    types = {name.lower(): (name, kind) for name, kind in frame.dtypes}
    terms, before = list[str](), list[str]()
    for column, given in key.items():
        if column.lower() not in types:
            raise SetupError("USAGE", details=f"--key {column}: {table.location} has no such column")
        (name, kind), value = types[column.lower()], given
        if method := private.get(column.lower()):
            mask = ColumnMask(methods={name: HMAC}, key=read_key())
            if mask.facts[name] != method:
                details = f"{table.location} has it by {method.split()[0]}, or by another BRIDGE_MASK_KEY"
                raise SetupError("USAGE", details=f"--key {column}: {details}")
            value = mask.hash(given, HMAC)
        if frame.sparkSession.sql(f"SELECT try_cast({sql_literal(value)} AS {kind})").collect()[0][0] is None:
            raise SetupError("USAGE", details=f"--key {column}: {table.location} has {kind}, and the value is none")
        terms.append(f"{quote_name(name)} = CAST({sql_literal(value)} AS {kind})")
        before.append(f"_before[{sql_literal(name)}] = {sql_literal(value)}")
    where = " AND ".join(terms)
    return f"({where}) OR ({' AND '.join(before)})" if changelog.CHANGE in frame.columns else where
