"""Tables of the lake as `merge` needs them, whichever library writes them: one file and one entry in ENGINES each.

Other distributions add an EngineEntry by entry points of the group `ticdc_bridge.engines`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.plugins import plugins

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table of the lake. type: as Spark writes it in DDL. comment: "" for none."""

    name: str
    type: str
    comment: str = ""


class Commit(NamedTuple):
    """A version (Delta) or snapshot (Iceberg), and what it says of its changes (spark_jobs.lake.commit_summary)."""

    version: int
    facts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Upsert:
    """How the rows of a source `s` go into a table `t`.

    keys, values: a column of the table and that of the source, by name; keys are never NULL. delete, update, insert:
    conditions over both in SQL that Spark and DataFusion take; delete None: nothing is deleted.
    """

    keys: Sequence[tuple[str, str]]
    values: Sequence[tuple[str, str]]
    update: str
    insert: str = "true"
    delete: str | None = None


class RowFile(NamedTuple):
    """A file of Parquet with rows for a table. size: in bytes. stats: as Delta's log has them (JSON)."""

    path: str
    size: int
    stats: str


class LakeTable(Protocol):
    """A table of the lake, which need not be there yet. Each method that changes it makes one commit."""

    @property
    def location(self) -> str:
        """As --out has it."""

    def folder(self) -> str:
        """Where its files are: a path of this machine, or a URL."""

    def exists(self) -> bool: ...

    def prepare(self) -> dict[str, str]:
        """The properties of a table that is to be changed. SetupError STOPPED where this library can't write it."""

    def column_type(self, kind: str) -> str:
        """The type that a column of this Spark type has in the table. SetupError USAGE where it has none for it."""

    def read(self) -> DataFrame: ...

    def version(self) -> int | None:
        """The newest version (Delta) or snapshot (Iceberg); None: it has none yet."""

    def read_at(self, version: int | None) -> DataFrame:
        """As it was then; None: as it is."""

    def commits(self, most: int | None = None) -> list[Commit]:
        """Those that are kept, or `most` of them, the newest first."""

    def properties(self) -> dict[str, str]: ...

    def set_properties(self, properties: Mapping[str, str]) -> None:
        """Sets table properties, in one commit."""

    def text_partitions(self) -> Sequence[str]:
        """Columns by which it is partitioned, where a partition's value is kept as text."""

    def create(
        self, columns: Sequence[TableColumn], properties: Mapping[str, str], partitioned_by: Sequence[str] = (),
        clustered_by: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """The table without rows. SetupError USAGE for a layout that this library, or the format, does not have."""

    def overwrite(self, frame: DataFrame) -> None:
        """The table anew, with the frame's columns; the frame may be made of the table's own rows."""

    def add_rows(self, frame: DataFrame) -> None:
        """Adds rows. frame: has the table's columns, of its types and in its order."""

    def add_files(self, files: Sequence[RowFile]) -> bool:
        """Adds copies of files that have some of the table's columns, of its types; False: nothing was done."""

    def allow(self, types: Sequence[str], have: Sequence[str]) -> None:
        """Before columns of these types come. have: the types of those that are there."""

    def add(self, column: TableColumn, value: str | None = None, others: str = "false") -> bool:
        """Adds a column. value: SQL, of it in the rows that are there; others: SQL, rows that do not get it.

        True: the rows have it, and no file is new; False: no row has it.
        """

    def rename(self, old: str, new: str) -> None: ...

    def drop(self, name: str) -> None: ...

    def comment(self, name: str, text: str) -> None: ...

    def reorder(self, names: Sequence[str]) -> None:
        """Makes these the first columns, in this order, where that changes metadata only; else all stay in place."""

    def widen(self, name: str, kind: str) -> bool:
        """Another type in place; False: the table must be written anew."""

    def delete(self, where: str) -> None:
        """where: Spark SQL over the table's columns, as the values of update, by column."""

    def update(self, values: Mapping[str, str], where: str) -> None: ...

    def merge(self, frame: DataFrame, upsert: Upsert) -> None:
        """frame: rows that are the same each time they are read (spark_sql.keep_rows)."""

    # ---- upkeep
    def purge(self) -> None:
        """Writes files anew that have rows which are gone."""

    def compact(self) -> None:
        """Small files become larger ones; rows stay as they are."""

    def expire(self, keep_hours: int) -> None:
        """Removes older versions or snapshots, and their files. The number of a stream's last batch stays known."""


T = TypeVar("T")


def convert_errors(error_of: Callable[[Any, Exception], SetupError | None]) -> Callable[[type[T]], type[T]]:
    """A decorator of classes: their public methods raise `error_of(table, error)`, the error itself for None."""

    def convert(method: FunctionType) -> Callable[..., Any]:
        @wraps(method)
        def call_method(table: Any, /, *args: Any, **kwargs: Any) -> Any:
            try:
                return method(table, *args, **kwargs)
            except Exception as error:  # Java's as they are, or as pyspark's own
                if (converted := error_of(table, error)) is None:
                    raise
                raise converted from error

        return call_method

    def decorate(table_class: type[T]) -> type[T]:
        for name in dir(table_class):
            if isinstance(method := getattr(table_class, name), FunctionType) and not name.startswith("_"):
                setattr(table_class, name, convert(method))
        return table_class

    return decorate


Engine = Callable[["SparkSession", str], LakeTable]


class EngineEntry(NamedTuple):
    """table_format: of the tables it writes (spark_jobs.io.locations.TableLocation). table_class: MODULE:CLASS."""

    table_format: str
    table_class: str


_BUILT_IN: Mapping[str, EngineEntry] = {
    "delta-spark": EngineEntry("delta", "ticdc_bridge.spark_jobs.lake.engines.delta_spark:SparkDelta"),
    "deltalake": EngineEntry("delta", "ticdc_bridge.spark_jobs.lake.engines.delta_rs:Deltalake"),
    "iceberg-spark": EngineEntry("iceberg", "ticdc_bridge.spark_jobs.lake.engines.iceberg_spark:SparkIceberg"),
}
ENGINES: Mapping[str, EngineEntry] = {
    **_BUILT_IN,
    **{name: entry.load() for name, entry in plugins("ticdc_bridge.engines", _BUILT_IN).items()},
}
AUTO = "auto"


def types_error(location: str, why: str) -> SetupError:
    """That rows can't be appended to a table."""
    details = f"its columns and those of the rows don't fit together: {' '.join(why.split())[:500]}"
    return SetupError("STOPPED", where=location, details=details)


def engine(name: str) -> Engine:
    """An entry of ENGINES, imported."""
    module, class_name = ENGINES[name].table_class.split(":")
    table_class: Engine = getattr(import_module(module), class_name)
    return table_class
