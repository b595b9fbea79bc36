"""`load`: dumps into lake tables of all kinds, before and after changes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from tests.support.dumps import DUMPS, ZONE, rows_of, write_dump
from ticdc_bridge.cli import main

pytestmark = pytest.mark.usefixtures("spark")  # the session of the tests, which the commands use too
KEPT = ("g_virtual", "g_stored", "c_float", "c_float_md", "c_double", "c_year")
"""Columns that a dump lacks, and those whose texts are compared as numbers."""


def load(*words: str) -> int:
    return main(["load", *words])


def read(path: Path) -> list[dict[str, Any]]:
    spark = SparkSession.getActiveSession()
    assert spark is not None
    return [row.asDict() for row in spark.read.format("delta").load(str(path)).collect()]


def texts(row: dict[str, Any]) -> dict[str, Any]:
    """A row as TiDB's texts, bytes and None."""
    return {n: v if v is None or isinstance(v, bytes) else str(v) for n, v in row.items() if n[0] != "_"}


@pytest.mark.parametrize("name", ["sql", *(pytest.param(name, marks=pytest.mark.slow) for name in ("csv", "parquet"))])
def test_a_dump_of_each_kind(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The rows are TiDB's, and the same load again changes nothing."""
    out = f"delta:{tmp_path}/{{schema}}/{{table}}"
    tables = "dmp.types,dmp.keyless,dmp.empty_one"
    words = ["--source", f"dumpling:{DUMPS / name}", "--tables", tables, "--out", out, "--source-time-zone", ZONE]
    assert load(*words, "--without-key", "append") == 2
    assert "g_stored is generated" in capsys.readouterr().err
    words += ["--without-key", "append", "--on-lossy", "flag"]
    assert load(*words) == 0
    said = capsys.readouterr().err
    assert "load: rows 12\nload: written 12\nload: newer in the table 0\nload: removed 0\nload: errors 0\n" in said
    found = {str(row["id"]): texts(row) for row in read(tmp_path / "dmp" / "types")}
    for row in rows_of("types"):
        stored = found[row["id"]]
        assert stored["g_stored"] is None
        for column, value in row.items():
            if column in ("c_float", "c_float_md", "c_double") and value is not None:
                real = np.float64 if column == "c_double" else np.float32
                assert real(stored[column]) == real(value)
            elif column not in KEPT and (name != "parquet" or stored[column] is not None):
                assert stored[column] == value, column
            elif name == "parquet" and column not in KEPT:
                assert value is None or "-00" in value, column
    assert load(*words) == 0
    assert "load: written 0\n" in capsys.readouterr().err


def test_odd_names(tmp_path: Path) -> None:
    """Of columns: quoted, dotted, reserved, and such as Delta has by column mapping alone."""
    names = ["select", "a`b", "a.b", "file", "表"]
    for more in ([], ["x y;{}=()"]):
        columns = ", ".join(f"`{name.replace('`', '``')}` int NOT NULL" for name in names + more)
        row = [str(n) for n, _ in enumerate(names + more)]
        source = write_dump(
            tmp_path / f"dump{len(more)}", 1 << 60, f"CREATE TABLE `t` ({columns}, PRIMARY KEY (`select`))", [row]
        )
        place = tmp_path / f"[{len(more)}]"  # no pattern of names
        assert load("--source", source, "--table", "d.t", "--out", f"delta:{place}") == 0
        (found,) = read(place)
        assert texts(found) == dict(zip(names + more, row, strict=True))


@pytest.mark.slow
def test_no_rows_and_odd_names(tmp_path: Path) -> None:
    """Columns that are called as those that tell rows of a snapshot apart."""
    columns = "`file` int NOT NULL, `line` int, PRIMARY KEY (`file`)"
    source = write_dump(tmp_path / "dump", 1 << 60, f"CREATE TABLE `t` ({columns})", [["1", "2"]])
    write_dump(tmp_path / "dump", 1 << 60, f"CREATE TABLE `empty` ({columns})", table="empty")
    out = f"delta:{tmp_path}/{{table}}"
    words = ["--source", source, "--tables", "d.*", "--out", out, "--versions", f"{out}_versions"]
    assert load(*words) == 0
    assert load(*words, "--replace") == 0
    assert [len(read(tmp_path / name)) for name in ("t", "t_versions", "empty", "empty_versions")] == [1, 1, 0, 0]
