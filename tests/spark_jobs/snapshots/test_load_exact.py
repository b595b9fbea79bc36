"""What `load` writes is what `merge` writes for the same rows: by dialect, types, kind of table and engine."""

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark_jobs.lake.test_merge_iceberg import new_catalog
from tests.support.dumps import DUMPS, UTC, ZONE, rows_of
from tests.ticdc_bridge.cli.test_encode import written
from ticdc_bridge import Encoder
from ticdc_bridge.cli import main
from ticdc_bridge.spark_jobs.snapshots.dump_folder import read_dump

KINDS = ("out", "changelog", "versions")
KEYS = {"types": ("id",), "keyed": ("region", "k", "d")}
CASES = [
    ("sql", "delta-spark", "exact"), ("csv", "iceberg-spark", "typed"), ("parquet", "deltalake", "exact"),
    ("parquet-zstd-utc", "delta-spark", "typed"),
]  # fmt: skip
OF_LOAD = (
    "_tidb_op",
    "_tidb_table_version",
    "_kafka_topic",
    "_kafka_partition",
    "_kafka_offset",
    "_kafka_timestamp",
    "_change",
)
"""What loaded rows have in their own way."""


def sent(tso: int) -> str:
    """The rows as TiCDC sends them at a TSO, in a file."""
    encoder, messages = Encoder("open", ddl=str(DUMPS / "schema.sql"), on_lossy="flag", time_zone="Asia/Tokyo"), []
    for name in KEYS:
        for row in rows_of(name, "Asia/Tokyo"):
            after = {n: {"hex": v.hex()} if isinstance(v, bytes) else v for n, v in row.items() if n != "g_virtual"}
            line = {
                "kind": "row", "format": "open", "topic": "t", "db": "dmp", "table": name, "op": "c", "commit_ts": tso,
                "schema_id": None, "table_version": None, "key": [], "before": None, "after": after, "flags": [],
            }  # fmt: skip
            messages += encoder.encode(line, topic="t")
    return written([replace(message, partition=0, offset=n) for n, message in enumerate(messages)])


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_values_are_those_of_merge(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: tuple[str, str, str]
) -> None:
    name, engine, types = case
    monkeypatch.chdir(tmp_path)
    catalog = new_catalog(spark)
    is_iceberg = engine == "iceberg-spark"

    def outputs(of: str) -> list[str]:
        path = f"iceberg:{catalog}.{of}_{{}}." if is_iceberg else f"delta:{tmp_path}/{of}_{{}}/"
        return [word for kind in KINDS for word in (f"--{kind}", path.format(kind) + "{table}")]

    def rows(of: str, kind: str, table: str) -> tuple[Any, Any]:
        name = f"{catalog}.{of}_{kind}.{table}" if is_iceberg else f"delta.`{tmp_path}/{of}_{kind}/{table}`"
        frame = spark.table(name).drop(*OF_LOAD)
        return frame.dtypes, {tuple(row[k] for k in KEYS[table]): row.asDict() for row in frame.collect()}

    dump = read_dump(str(DUMPS / name))
    words = ["--tables", ",".join(f"dmp.{name}" for name in KEYS), "--types", types, "--on-lossy", "flag"]
    words += ["--time-zone", "Asia/Tokyo", *([] if is_iceberg else ["--engine", engine])]
    merged = ["merge", "--format", "open", "--in", sent(dump.tso), "--ddl", str(DUMPS / "schema.sql")]
    assert main([*merged, *words, *outputs("m")]) == 0
    loaded = ["load", "--source", f"dumpling:{DUMPS / name}", "--source-time-zone", "UTC" if name in UTC else ZONE]
    assert main([*loaded, *words, *outputs("l")]) == 0
    different = []
    for kind, table in product(KINDS, {table.id.table for table in dump.tables} & KEYS.keys()):
        (kinds, expected), (found_kinds, found) = rows("m", kind, table), rows("l", kind, table)
        assert found_kinds == kinds, (kind, table)
        assert found.keys() == expected.keys(), (kind, table)
        different += [
            (kind, key, column, value, found[key][column])
            for key, row in expected.items() for column, value in row.items()
            if repr(value) != repr(found[key][column]) and not is_lost(name, column, value, found[key][column])
        ]  # fmt: skip
    assert not different, "\n".join(map(str, different[:40]))


def is_lost(dump: str, column: str, value: Any, found: Any) -> bool:
    """What a dump does not have, and load flags."""
    zero = dump.startswith("parquet") and column.startswith(("c_date", "c_timestamp")) and "-00" in str(value)
    return found is None and (column == "g_stored" or zero)
