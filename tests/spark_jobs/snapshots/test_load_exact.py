"""What `load` writes is what `merge` writes for the same rows: by dialect, types, kind of table and engine."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark_jobs.lake.test_merge_iceberg import new_catalog
from tests.support.dumps import BY_TIME, DUMPS, UTC, ZONE, rows_of
from tests.ticdc_bridge.cli.test_encode import written
from ticdc_bridge import Encoder
from ticdc_bridge.cli import main

TABLES = ("types", "keyed", "loose")
ZEROS = ("5", "6")
"""Ids of the rows with zero dates or parts of dates, which no type of Spark but text holds."""
CASES = [
    ("sql", "delta-spark", "exact"), ("csv", "iceberg-spark", "typed"), ("parquet", "deltalake", "exact"),
    ("sql-noescape", "deltalake", "typed"), ("csv-bigquery", "iceberg-spark", "exact"),
    ("parquet-zstd-utc", "delta-spark", "typed"),
]  # fmt: skip


def messages() -> str:
    """The rows as TiCDC sends them, in a file."""
    encoder, sent = Encoder("open", ddl=str(DUMPS / "schema.sql"), on_lossy="flag"), []
    for name in TABLES:
        for row in rows_of(name):
            after = {n: {"hex": v.hex()} if isinstance(v, bytes) else v for n, v in row.items() if n != "g_virtual"}
            line = {
                "kind": "row", "format": "open", "topic": "t", "db": "dmp", "table": name, "op": "c", "commit_ts": BY_TIME,
                "schema_id": None, "table_version": None, "key": [], "before": None, "after": after, "flags": [],
            }  # fmt: skip
            sent += [
                replace(m, partition=0, offset=len(sent) + n) for n, m in enumerate(encoder.encode(line, topic="t"))
            ]
    return written(sent)


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_values_are_those_of_merge(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: tuple[str, str, str], capsys
) -> None:
    name, engine, types = case
    monkeypatch.chdir(tmp_path)
    catalog = new_catalog(spark)

    def places(of: str) -> list[str]:
        kinds = ("out", "changelog", "versions")
        if engine == "iceberg-spark":
            return [w for kind in kinds for w in (f"--{kind}", f"iceberg:{catalog}.{of}_{kind}.{{table}}")]
        return [w for kind in kinds for w in (f"--{kind}", f"delta:{tmp_path}/{of}_{kind}/{{table}}")]

    def rows(of: str, kind: str, table: str) -> Any:
        frame = (
            spark.table(f"{catalog}.{of}_{kind}.`{table}`") if engine == "iceberg-spark"
            else spark.read.format("delta").load(f"{tmp_path}/{of}_{kind}/{table}")
        )  # fmt: skip
        left_out = ("_tidb_", "_row", "_message", "_source")
        names = [n for n in frame.columns if not n.startswith(left_out)]
        return frame.select(*(f"`{n.replace('`', '``')}`" for n in names))

    tables = [t for t in TABLES if t.isidentifier()]
    common = [
        "--on-lossy",
        "flag",
        "--tables",
        ",".join(f"dmp.{t}" for t in tables),
        "--without-key",
        "append",
        "--types",
        types,
        "--time-zone",
        "Asia/Tokyo",
    ]
    common += [] if engine == "iceberg-spark" else ["--engine", engine]
    assert (
        main(
            ["merge", "--format", "open", "--in", messages(), "--ddl", str(DUMPS / "schema.sql"), *common, *places("m")]
        )
        == 0
    ), capsys.readouterr().err
    zone = "UTC" if name in UTC else ZONE
    source = ["--source", f"dumpling:{DUMPS / name}", "--source-time-zone", zone]
    assert main(["load", *source, *common, *places("l")]) == 0, capsys.readouterr().err
    for kind in ("out", "changelog", "versions"):
        for table in tables:
            merged, loaded = rows("m", kind, table), rows("l", kind, table)
            if merged.dtypes != loaded.dtypes:
                print(kind, table, set(merged.dtypes) ^ set(loaded.dtypes))
            a, b = (sorted(map(lambda r: repr(r.asDict()), f.collect())) for f in (merged, loaded))
            a, b = (
                sorted((r.asDict() for r in f.collect()), key=lambda r: repr(list(r.values())[:3]))
                for f in (merged, loaded)
            )
            if len(a) != len(b):
                print("COUNT", kind, table, len(a), len(b))
            for x, y in zip(a, b):
                for n in x:
                    if repr(x[n]) != repr(y.get(n)):
                        print("DIFF", kind, table, list(x.values())[0], n, repr(x[n])[:100], repr(y.get(n))[:100])
