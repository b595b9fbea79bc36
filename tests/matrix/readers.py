"""The table of docs/lake.md that says which reader reads which tables of the lake, made by reading them.

python -m tests.matrix.readers      writes it anew (starts Spark)
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable, QueryBuilder

from tests.matrix.generated_part import GeneratedPart
from tests.support.lake_readers import delta_by_duckdb, hadoop_metadata, iceberg_by_duckdb, iceberg_by_pyiceberg

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PART = GeneratedPart("lake.md", "readers", "python -m tests.matrix.readers")
Rows = list[dict[str, Any]]
Reader = Callable[[Path], Rows]


class Case(NamedTuple):
    """A table: how it is made. {t} in a statement is its name, after columns and properties of CREATE TABLE."""

    name: str
    columns: str
    properties: str
    statements: tuple[str, ...]


_COLUMNS, _MAPPED = "id BIGINT, n INT, v STRING", "'delta.columnMapping.mode' = 'name'"
_ROWS = "INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, cast(id AS INT), cast(id AS STRING) FROM range(5)"
_CHANGE = ("UPDATE {t} SET v = 'new' WHERE id = 1", "DELETE FROM {t} WHERE id = 2")
_RENAMED = "ALTER TABLE {t} RENAME COLUMN v TO w"
_WIDE = "'delta.enableTypeWidening' = 'true'"
_ROW_LEVEL = ", ".join(f"'write.{entry}.mode' = '{{mode}}'" for entry in ("update", "delete", "merge"))
DELTA = (
    Case("Delta, no feature", _COLUMNS, "", (_ROWS, *_CHANGE)),
    Case("Delta, `timestampNtz` (DATETIME as `timestamp_ntz`)", "id BIGINT, at TIMESTAMP_NTZ", "",
         ("INSERT INTO {t} VALUES (1, timestamp_ntz'2026-01-01 00:00:00'), (2, null)", "DELETE FROM {t} WHERE id = 2")),
    Case("Delta, column mapping (a column was renamed or dropped, or its name has a blank)", _COLUMNS, "",
         (_ROWS, *_CHANGE, f"ALTER TABLE {{t}} SET TBLPROPERTIES ({_MAPPED})", _RENAMED,
          "INSERT INTO {t} VALUES (9, 9, 'x')")),
    Case("Delta, type widening (INT became BIGINT)", _COLUMNS, _WIDE,
         (_ROWS, "ALTER TABLE {t} ALTER COLUMN n TYPE BIGINT", *_CHANGE)),
    Case("Delta, deletion vectors (a property of yours)", _COLUMNS, "'delta.enableDeletionVectors' = 'true'",
         (_ROWS, *_CHANGE)),
)  # fmt: skip
ICEBERG = (
    Case("Iceberg 2, copy-on-write", _COLUMNS, _ROW_LEVEL.format(mode="copy-on-write"), (_ROWS, *_CHANGE)),
    Case("Iceberg 2, merge-on-read", _COLUMNS, _ROW_LEVEL.format(mode="merge-on-read"), (_ROWS, *_CHANGE)),
    Case("Iceberg 2, a column renamed and one widened", _COLUMNS, "",
         (_ROWS, *_CHANGE, _RENAMED, "ALTER TABLE {t} ALTER COLUMN n TYPE BIGINT",
          "INSERT INTO {t} VALUES (9, 9, 'x')")),
)  # fmt: skip


def _by_sql(folder: Path) -> Rows:
    reader: Any = QueryBuilder().register("t", DeltaTable(str(folder))).execute("SELECT * FROM t").read_all()
    rows: Rows = pa.table(reader).to_pylist()
    return rows


DELTA_READERS: Mapping[str, Reader] = {
    "deltalake": lambda folder: DeltaTable(str(folder)).to_pyarrow_table().to_pylist(),
    "deltalake, SQL": _by_sql,
    "DuckDB": delta_by_duckdb,
    "pyarrow, the folder": lambda folder: ds.dataset(str(folder), format="parquet").to_table().to_pylist(),
}
ICEBERG_READERS: Mapping[str, Reader] = {
    "pyiceberg": lambda folder: iceberg_by_pyiceberg(hadoop_metadata(folder)),
    "DuckDB": lambda folder: iceberg_by_duckdb(hadoop_metadata(folder)),
    "pyarrow, the folder": lambda folder: ds.dataset(str(folder / "data"), format="parquet").to_table().to_pylist(),
}
_NAMES = ("deltalake", "deltalake, SQL", "pyiceberg", "DuckDB", "pyarrow, the folder")


def answers(spark: SparkSession, folder: Path) -> dict[str, dict[str, str]]:
    """Case → reader → yes (the rows that Spark reads), no (an error), or wrong (other rows, and no error)."""
    for name, value in (
        ("", "org.apache.iceberg.spark.SparkCatalog"),
        (".type", "hadoop"),
        (".warehouse", str(folder)),
    ):
        spark.conf.set(f"spark.sql.catalog.readers{name}", value)
    read: dict[str, dict[str, str]] = {}
    for number, case in enumerate(DELTA):
        position = folder / f"d{number}"
        read[case.name] = _answers(spark, case, f"delta.`{position}`", "delta", position, DELTA_READERS)
    for number, case in enumerate(ICEBERG):
        position = folder / "db" / f"i{number}"
        read[case.name] = _answers(spark, case, f"readers.db.i{number}", "iceberg", position, ICEBERG_READERS)
    return read


def _answers(
    spark: SparkSession, case: Case, name: str, kind: str, path: Path, readers: Mapping[str, Reader]
) -> dict[str, str]:
    properties = f" TBLPROPERTIES ({case.properties})" if case.properties else ""
    spark.sql(f"CREATE TABLE {name} ({case.columns}) USING {kind}{properties}")
    for statement in case.statements:
        spark.sql(statement.replace("{t}", name))
    rows = [row.asDict() for row in spark.table(name).collect()]
    assert rows
    return {reader: _answer(read, path, rows) for reader, read in readers.items()}


def _answer(read: Reader, path: Path, rows: Rows) -> str:
    try:
        found = read(path)
    except Exception:  # each library has its own
        return "no"
    return "yes" if sorted(map(repr, found)) == sorted(map(repr, rows)) else "wrong"


def section(read: Mapping[str, Mapping[str, str]]) -> str:
    """The text of the part."""
    heads = []
    for name in _NAMES:
        library, comma, how = name.partition(",")
        heads.append(f"{library} {version(library.lower())}{comma}{how}")
    lines = [f"| table | Spark | {' | '.join(heads)} |", "|---" * (len(heads) + 2) + "|"]
    for case, cells in read.items():
        shown = [{"wrong": "**wrong rows**"}.get(cells.get(name, ""), cells.get(name, "")) for name in _NAMES]
        lines.append(f"| {case} | yes | {' | '.join(shown)} |")
    return "\n".join(lines) + "\n"


def write() -> None:
    from ticdc_bridge.spark_jobs.lake import tables
    from ticdc_bridge.spark_jobs.runtime.spark_settings import SparkSettings

    spark = tables.session(SparkSettings("local[2]"), ["delta", "iceberg"])
    with tempfile.TemporaryDirectory() as folder:
        made = section(answers(spark, Path(folder)))
    spark.stop()
    PART.write(made)


if __name__ == "__main__":
    write()
