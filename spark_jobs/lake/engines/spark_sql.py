"""Tables that Spark's SQL changes: what is the same for each engine that writes by it."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Condition
from typing import Final
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.names import quote_name
from ticdc_bridge.spark_jobs.lake.engines.base import TableColumn, Upsert
from ticdc_bridge.spark_jobs.spark.session import session_id
from ticdc_bridge.spark_jobs.spark.sql_expressions import sql_literal


def column_sql(column: TableColumn) -> str:
    """A column as CREATE TABLE and ADD COLUMNS take it."""
    comment = f" COMMENT {sql_literal(column.comment)}" if column.comment else ""
    return f"{quote_name(column.name)} {column.type}{comment}"


def property_sql(name: str, value: str) -> str:
    """A table property as TBLPROPERTIES takes it."""
    return f"{sql_literal(name)} = {sql_literal(value)}"


@dataclass(frozen=True)
class SqlTable(ABC):
    """The methods of a LakeTable whose SQL Delta and Iceberg have alike."""

    spark: SparkSession

    @property
    @abstractmethod
    def _sql_name(self) -> str:
        """The table's name, quoted where it needs it."""

    def read_at(self, version: int | None) -> DataFrame:
        as_of = "" if version is None else f" VERSION AS OF {version}"
        return self.spark.sql(f"SELECT * FROM {self._sql_name}{as_of}")

    def set_properties(self, properties: Mapping[str, str]) -> None:
        pairs = ", ".join(property_sql(*pair) for pair in properties.items())
        self._alter(f"SET TBLPROPERTIES ({pairs})")

    def rename(self, old: str, new: str) -> None:
        self._alter(f"RENAME COLUMN {quote_name(old)} TO {quote_name(new)}")

    def drop(self, name: str) -> None:
        self._alter(f"DROP COLUMN {quote_name(name)}")

    def comment(self, name: str, text: str) -> None:
        self._alter(f"ALTER COLUMN {quote_name(name)} COMMENT {sql_literal(text)}")

    def delete(self, where: str) -> None:
        self.spark.sql(f"DELETE FROM {self._sql_name} WHERE {where}")

    def update(self, values: Mapping[str, str], where: str) -> None:
        pairs = ", ".join(f"{quote_name(name)} = {value}" for name, value in values.items())
        self.spark.sql(f"UPDATE {self._sql_name} SET {pairs} WHERE {where}")

    def merge(self, frame: DataFrame, upsert: Upsert) -> None:
        # Keys are never NULL, and Spark finds a row by = in less time than by <=>.
        on = " AND ".join(f"t.{quote_name(column)} = s.{quote_name(source)}" for column, source in upsert.keys)
        pairs = [(quote_name(column), f"s.{quote_name(source)}") for column, source in upsert.values]
        with view_of(frame) as view:
            self.spark.sql(
                f"MERGE INTO {self._sql_name} t USING {view} s ON {on}"
                + (f" WHEN MATCHED AND ({upsert.delete}) THEN DELETE" if upsert.delete else "")
                + f" WHEN MATCHED AND ({upsert.update}) THEN UPDATE SET {', '.join(f't.{a} = {b}' for a, b in pairs)}"
                f" WHEN NOT MATCHED AND ({upsert.insert}) THEN INSERT ({', '.join(a for a, _ in pairs)})"
                f" VALUES ({', '.join(b for _, b in pairs)})"
            )

    def _check_catalog(self, location: str, catalog: str, settings: str, is_others: bool = False) -> None:
        """SetupError USAGE for one that the session does not know. settings: how one is configured; {0}: its name.
        is_others: it may be known without such a setting, as Spark's own is.
        """
        name = f"spark.sql.catalog.{catalog}"
        if self.spark.conf.get(name, None) is not None:
            return
        if not is_others or catalog not in {entry.name for entry in self.spark.catalog.listCatalogs()}:  # takes 0.1 s
            advice = f"Configure it (--conf, spark-defaults.conf): {settings.format(name)}"
            raise SetupError("USAGE", details=f"{location}: Spark knows no catalog {catalog}. {advice}")

    def _alter(self, change: str) -> None:
        self.spark.sql(f"ALTER TABLE {self._sql_name} {change}")


def keep_rows(frame: DataFrame, are_few: bool) -> DataFrame:
    """The frame's rows as they are now, however often they are read. are_few: the driver may have them.

    Rows of the driver have a size that Spark knows, and what is filtered of them is filtered while it plans.
    """
    if not are_few:
        return frame.localCheckpoint()
    return frame.sparkSession.createDataFrame(frame.toArrow(), frame.schema)


@contextmanager
def view_of(frame: DataFrame) -> Iterator[str]:
    """The frame under a name that no other has: several threads may merge in one session."""
    name = f"bridge_source_{uuid4().hex}"
    frame.createOrReplaceTempView(name)
    try:
        yield name
    finally:
        frame.sparkSession.catalog.dropTempView(name)


@dataclass
class _HeldSetting:
    """A session's setting while somebody needs it. before: its value until then, None: it was not set."""

    value: str
    before: str | None
    holders: int = 0


_held: Final = dict[tuple[str, str], _HeldSetting]()
_changed: Final = Condition()


@contextmanager
def set_for_now(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    """A session's setting, meanwhile: until the last of several threads is done; another value waits for that."""
    key = session_id(spark), name
    with _changed:
        _changed.wait_for(lambda: key not in _held or _held[key].value == value)
        if key not in _held:
            before = spark.conf.get(name, None)
            spark.conf.set(name, value)
            _held[key] = _HeldSetting(value, before)
        held = _held[key]
        held.holders += 1
    try:
        yield
    finally:
        with _changed:
            held.holders -= 1
            if not held.holders:
                del _held[key]
                _changed.notify_all()  # before what can fail: they go on when this block has ended
                spark.conf.unset(name) if held.before is None else spark.conf.set(name, held.before)
