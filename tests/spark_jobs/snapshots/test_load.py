"""`load`: dumps into lake tables of all kinds, before and after changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.dumps import DUMPS, UTC, ZONE, rows_of
from ticdc_bridge.cli import main


def load(*words: str) -> int:
    return main(["load", *words])


def read(path: Path) -> list[dict[str, Any]]:
    spark = SparkSession.getActiveSession()
    assert spark is not None
    rows = spark.read.format("delta").load(str(path)).collect()
    return [row.asDict() for row in rows]


@pytest.fixture(autouse=True)
def _session(spark: SparkSession) -> None:
    """The session of the tests, which the commands use too."""


def texts(row: dict[str, Any]) -> dict[str, Any]:
    """A row as TiDB's texts, to compare by."""
    return {n: v if v is None or isinstance(v, bytes) else str(v) for n, v in row.items() if n[0] != "_"}


@pytest.mark.parametrize("name", ["sql", "csv", "parquet"])
def test_a_dump_of_each_kind(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    zones = ("--time-zone", "UTC", "--source-time-zone", "UTC" if name in UTC else ZONE)
    out = str(tmp_path / "{schema}" / "{table}")
    words = ("--source", f"dumpling:{DUMPS / name}", "--tables", "dmp.*", "--out", f"delta:{out}", *zones)
    assert load(*words, "--on-lossy", "flag", "--without-key", "append") == 0
    assert "load: rows 27\nload: written 27\n" in capsys.readouterr().err
    found = {str(row["id"]): texts(row) for row in read(tmp_path / "dmp" / "types")}
    for row in rows_of("types"):
        for column, value in row.items():
            if column not in ("g_virtual", "g_stored", "c_float", "c_float_md", "c_double"):
                assert found[str(row["id"])][column] == value or name == "parquet", column
    assert load(*words, "--on-lossy", "flag", "--without-key", "append") == 0
    assert "load: written 0\n" in capsys.readouterr().err
