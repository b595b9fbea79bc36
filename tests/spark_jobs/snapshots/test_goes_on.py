"""`load` that was killed or stopped goes on, rows that can't be stored are taken out, and what --dry-run tells."""

import json
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import ticdc_bridge
from tests.support.dumps import DUMPS, write_dump
from tests.support.dying import start_dying
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.spark_jobs.lake import load
from ticdc_bridge.spark_jobs.snapshots.stage import Stage, begun

pytestmark = pytest.mark.usefixtures("spark")  # the session of the tests, which the commands use too
TSO = 470_000_000_000_000_000
COLUMNS = "`id` int NOT NULL, `v` varchar(200), PRIMARY KEY (`id`)"
FILES, ROWS = 12, 20_000


def rows_in(spark: SparkSession, path: Path) -> list[tuple[Any, ...]]:
    return [tuple(row)[:2] for row in spark.read.format("delta").load(str(path)).orderBy("id").collect()]


def dump(folder: Path, columns: str, files: Sequence[Sequence[Sequence[str | None]]], table: str = "t") -> str:
    """Of shop.TABLE at TSO; files: of each its rows."""
    return write_dump(folder, TSO, f"CREATE TABLE `{table}` ({columns})", *files, db="shop", table=table)


def small_dump(folder: Path, table: str = "t") -> str:
    return dump(folder, COLUMNS, [[(str(n), str(n))] for n in range(3)], table)


def words_for(source: str, out: Path) -> list[str]:
    return ["load", "--source", source, "--tables", "shop.*", "--out", f"delta:{out}/{{table}}"]


KILLED: dict[str, str] = {
    "in a chunk": "",
    "before the commit": "from ticdc_bridge.spark_jobs.lake.engines.delta_spark import SparkDelta as Dying\n"
    "Dying.add_files = die\n",
    "after the commit": "from ticdc_bridge.spark_jobs.snapshots.stage import Stage\nStage.finish = die\n",
}


def kill_when(process: subprocess.Popen[str], chunk: Path) -> None:
    """SIGKILL as soon as the first chunk is there."""
    while process.poll() is None and not any(chunk.glob("*/*.[0-9]*.json")):
        time.sleep(0.005)
    process.kill()


@pytest.mark.slow
@pytest.mark.parametrize("moment", KILLED)
def test_killed(tmp_path: Path, spark: SparkSession, moment: str, capsys: pytest.CaptureFixture[str]) -> None:
    """SIGKILL of a load: nothing is to be seen before the commit, chunks that were read are not read again."""
    text = "x" * 100
    files = [[(str(n), f"{text}{n}") for n in range(f * ROWS, (f + 1) * ROWS)] for f in range(FILES)]
    source, path = dump(tmp_path / "dump", COLUMNS, files), tmp_path / "lake" / "t"
    words, folder = words_for(source, tmp_path / "lake"), tmp_path / "lake" / "t__loading"
    process = start_dying(KILLED[moment], [*words, "--master", "local[1]"])
    if moment == "in a chunk":
        kill_when(process, folder)
    said = process.communicate()[1]
    assert process.returncode == -9, said
    before = len(list(folder.glob("*/*.[0-9]*.json")))
    assert 0 < before < FILES if moment == "in a chunk" else before == FILES, said
    is_seen = (path / "_delta_log").exists() and bool(rows_in(spark, path))
    assert is_seen is (moment == "after the commit")
    assert main(words) == 0
    said = capsys.readouterr().err
    assert f"load: shop.t: {before} of {FILES} chunks were read before\n" in said
    assert f"load: rows {FILES * ROWS}\n" in said
    assert len(rows_in(spark, path)) == FILES * ROWS
    assert rows_in(spark, path)[-1] == (FILES * ROWS - 1, f"{text}{FILES * ROWS - 1}")
    assert not folder.exists()


@pytest.mark.slow
def test_goes_on(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of two tables, what was loaded is not loaded again. Ctrl-C ends with 130. Another definition begins anew."""
    source = small_dump(tmp_path / "dump", "a")
    small_dump(tmp_path / "dump", "b")
    words, real = words_for(source, tmp_path / "lake"), load.load_current

    def stopped(target: Any, snapshot: Any, *more: Any) -> Any:
        if snapshot.id.table == "b":
            raise KeyboardInterrupt
        return real(target, snapshot, *more)

    monkeypatch.setattr(load, "load_current", stopped)
    assert main(words) == 130
    assert "the same command goes on" in capsys.readouterr().err
    assert rows_in(spark, tmp_path / "lake" / "a") == [(n, str(n)) for n in range(3)]
    monkeypatch.setattr(load, "load_current", real)
    assert main(words) == 0
    said = capsys.readouterr().err
    assert "load: shop.a was loaded before at this TSO\n" in said
    assert "load: shop.b: 3 of 3 chunks were read before\n" in said
    assert "load: rows 6\nload: written 6\n" in said
    assert not list((tmp_path / "lake").glob("*__loading"))
    shutil.rmtree(tmp_path / "lake")
    monkeypatch.setattr(load, "load_current", stopped)
    assert main(words) == 130
    for removed in ("a", "a__tombstones"):
        shutil.rmtree(tmp_path / "lake" / removed)
    monkeypatch.setattr(load, "load_current", real)
    assert main(words) == 0
    assert rows_in(spark, tmp_path / "lake" / "a") == [(n, str(n)) for n in range(3)]
    monkeypatch.setattr(load, "load_current", stopped)
    (tmp_path / "dump" / "shop.b-schema.sql").write_text(f"CREATE TABLE `b` ({COLUMNS.replace('200', '300')});\n")
    assert main(words) == 130
    small_dump(tmp_path / "dump", "b")
    monkeypatch.setattr(load, "load_current", real)
    capsys.readouterr()
    assert main([*words[:4], "shop.b", *words[5:]]) == 0
    said = capsys.readouterr().err
    assert f"load: shop.b: what a load at TSO {TSO} had read is removed: " in said
    assert "read before" not in said


def test_another_zone_begins_anew(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Chunks that were read have their times in the zone of the load that did not end."""
    columns = "`id` int NOT NULL, `at` timestamp NULL, PRIMARY KEY (`id`)"
    words = words_for(dump(tmp_path / "dump", columns, [[("1", "2024-01-01 08:00:00")]]), tmp_path / "lake")
    real = load.load_current

    def stopped(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(load, "load_current", stopped)
    assert main(words) == 130
    monkeypatch.setattr(load, "load_current", real)
    capsys.readouterr()
    assert main([*words, "--source-time-zone", "+08:00"]) == 0
    assert "read before" not in capsys.readouterr().err
    assert rows_in(spark, tmp_path / "lake" / "t") == [(1, "2024-01-01 00:00:00")]


@pytest.mark.slow
def test_dead_letters(tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """Without --dead-letter the first bad value stops a load, also into a table with rows; with it the others go in."""
    columns = "`id` int NOT NULL, `n` tinyint, `d` datetime(3), PRIMARY KEY (`id`)"
    files: list[list[tuple[str | None, ...]]] = [
        [("1", "1", "2024-01-01 00:00:00.000"), ("2", "x", None)], [("3", None, "tomorrow"), ("4", "-1", None)],
    ]  # fmt: skip
    words = words_for(dump(tmp_path / "dump", columns, files), tmp_path / "lake")
    words += ["--source-time-zone", "+08:00"]
    letters = tmp_path / "new" / "letters.jsonl"
    assert main(words) == 2
    assert "does not fit its type" in capsys.readouterr().err
    assert main([*words, "--dead-letter", str(letters)]) == 1
    said = capsys.readouterr().err
    assert "load: rows 4\nload: written 2\nload: newer in the table 0\nload: removed 0\nload: errors 2\n" in said
    assert rows_in(spark, tmp_path / "lake" / "t") == [(1, 1), (4, -1)]
    first, second = map(json.loads, letters.read_text().splitlines())
    assert first == {
        "code": "INVALID_VALUE", "detail": "column n: 'x' does not fit its type tinyint", "db": "shop", "table": "t",
        "commit_ts": TSO, "file": str(tmp_path / "dump" / "shop.t.000000000.sql"), "row": 2, "key": {"id": "2"},
        "column": "n", "value": "x",
    }  # fmt: skip
    assert (second["column"], second["row"], second["value"]) == ("d", 1, "tomorrow")
    assert main(words) == 2, "merged into the rows that are there"
    assert "does not fit its type" in capsys.readouterr().err
    assert main([*words, "--dead-letter", str(letters), "--replace"]) == 1
    assert rows_in(spark, tmp_path / "lake" / "t") == [(1, 1), (4, -1)]
    dump(tmp_path / "dump", columns, [[("x", "1", None)], [("4", "-1", None)]])
    capsys.readouterr()
    assert main([*words, "--dead-letter", str(letters), "--replace"]) == 2
    assert "its row can't be identified" in capsys.readouterr().err


@pytest.mark.slow
def test_a_time_that_stands_for_two(tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """It stops a load, or is the first of both; where its row is left out, --replace leaves the older one there."""
    columns = "`id` int NOT NULL, `at` timestamp NOT NULL, `b` timestamp NULL, PRIMARY KEY (`id`, `at`)"
    rows = [("1", "2024-07-01 00:00:00", None), ("2", "2024-07-01 00:00:00", "2024-11-03 01:30:00")]
    words = words_for(dump(tmp_path / "dump", columns, [rows]), tmp_path / "lake")
    words += ["--source-time-zone", "America/New_York"]
    assert main(words) == 2
    assert "America/New_York has no such time, or had it twice" in capsys.readouterr().err
    assert main([*words, "--on-lossy", "flag"]) == 0
    assert "shop.t: column b: times that America/New_York had twice are the first: 1\n" in capsys.readouterr().err
    assert main([*words, "--replace", "--dead-letter", "letters.jsonl"]) == 1
    assert "load: removed 0\nload: errors 1\n" in capsys.readouterr().err
    assert rows_in(spark, tmp_path / "lake" / "t") == [(n, "2024-07-01 04:00:00") for n in (1, 2)]


@pytest.mark.slow
def test_replace_in_a_new_table_and_older_versions(tmp_path: Path, spark: SparkSession) -> None:
    """Each has its own keys that the snapshot lacks."""
    first, second = (
        write_dump(tmp_path / f"{n}", TSO + n, f"CREATE TABLE `t` ({COLUMNS})", [(str(k), "v") for k in range(n, 3)])
        for n in range(2)
    )
    versions = ["--table", "d.t", "--versions", f"delta:{tmp_path}/versions"]
    assert main(["load", "--source", first, *versions]) == 0
    assert main(["load", "--source", second, *versions, "--out", f"delta:{tmp_path}/t", "--replace"]) == 0
    held = spark.read.format("delta").load(str(tmp_path / "versions")).orderBy("id").select("id", "_valid_to_ts")
    assert [tuple(row) for row in held.collect()] == [(0, TSO + 1), (1, None), (2, None)]


@pytest.mark.slow
def test_without_a_key_from_another_source(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows of the same TSO are in other files there: none comes twice, and others are refused."""
    rows, columns, places = [(n, n) for n in "112"], "`id` int, `v` varchar(9)", ("t", "log")
    to = ["--table", "shop.t", "--without-key", "append", "--out", f"delta:{tmp_path}/t"]
    to += ["--changelog", f"delta:{tmp_path}/log", "--source"]
    for number, (files, code) in enumerate([([[row] for row in rows], 0), ([rows], 0), ([rows[1:]], 2)]):
        assert main(["load", *to, dump(tmp_path / f"dump{number}", columns, files)]) == code
        held = [rows_in(spark, tmp_path / place) for place in places]
        assert held == [[(1, "1"), (1, "1"), (2, "2")]] * 2
    assert f"has 3 rows of TSO {TSO}, and this load 2" in capsys.readouterr().err


def test_a_table_that_is_called_as_the_folder_of_a_load(tmp_path: Path) -> None:
    (tmp_path / "t__loading" / "_delta_log").mkdir(parents=True)
    stage = Stage(TableId("shop", "t"), tmp_path / "t__loading" / "7-ab-cd")
    with begun([stage]):
        stage.folder.mkdir()
    assert [path.name for path in (tmp_path / "t__loading").iterdir()] == ["_delta_log"]


@pytest.mark.slow
def test_from_python(tmp_path: Path, spark: SparkSession) -> None:
    source, into = small_dump(tmp_path / "dump"), f"delta:{tmp_path / 'lake' / 't'}"
    counts = {"tso": TSO, "rows": 3, "written": 3, "newer": 0, "removed": 0, "errors": 0}
    assert ticdc_bridge.load(source, into=into, table="shop.t") == counts
    assert ticdc_bridge.load(source, into=into, table="shop.t", replace=True) == counts | {"written": 0}
    assert len(rows_in(spark, tmp_path / "lake" / "t")) == 3


def test_dry_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows, chunks and bytes, and what stands against the load; nothing is written."""
    words = words_for(small_dump(tmp_path / "dump"), tmp_path / "lake")
    assert main([*words, "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert f"tso {TSO}\nshop.t -> delta:{tmp_path}/lake/t: about 3 rows, 3 chunks, " in said
    out = f"delta:{tmp_path}/lake/{{table}}"
    words = ["load", "--source", f"dumpling:{DUMPS / 'parquet'}", "--tables", "dmp.types,dmp.keyless", "--out", out]
    assert main([*words, "--dry-run"]) == 2
    captured = capsys.readouterr()
    assert "dmp.types -> " in captured.out
    assert " 8 rows, 1 chunk, " in captured.out
    assert (
        "load: would stop: table dmp.keyless: it has no key: leave it out (--tables '…,!dmp.keyless')" in captured.err
    )
    assert "load: would stop: table dmp.types: column g_stored is generated" in captured.err
    assert main([*words, "--on-lossy", "flag"]) == 2  # before a table is read
    assert capsys.readouterr().err.startswith("error USAGE: table dmp.keyless: it has no key")
    assert main([*words, "--dry-run", "--without-key", "append", "--on-lossy", "flag"]) == 0
    capsys.readouterr()
    words = ["load", "--source", f"dumpling:{DUMPS / 'csv'}", "--table", "dmp.keyed", "--out", out, "--dry-run"]
    assert main([*words, "--dump-options", "--csv-delimiter '|'"]) == 2
    assert "load: would stop: table dmp.keyed: " in capsys.readouterr().err
    assert not (tmp_path / "lake").exists()


def test_progress(tmp_path: Path) -> None:
    """What a load says while it reads."""
    stage = Stage(TableId("shop", "t"), tmp_path / "7-ab-cd")
    assert stage.progress() == ""
    stage.folder.mkdir()
    stage._total, stage._began = 4, time.monotonic() - 60
    (stage.folder / "0.1500.json").write_bytes(b"")
    (stage.folder / ".next.part").write_bytes(bytes(3 << 20))
    assert stage.progress().startswith("1,500 rows, 1 of 4 chunks (3 MiB of the next are written), 2")
    assert "about 3 min left" in stage.progress()
