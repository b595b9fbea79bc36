"""`load` from a real TiDB: at one TSO, in chunks by every kind of key, and again into a table that is there."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.dying import start_dying
from tests.support.tidb import needs_tidb, tidb_cursor
from ticdc_bridge.cli import main
from ticdc_bridge.spark_jobs.snapshots import source

pytestmark = [*needs_tidb, pytest.mark.slow]
TABLES = {
    "number": "(id BIGINT PRIMARY KEY CLUSTERED, v VARCHAR(20))",
    "composite": "(a VARCHAR(9), b VARBINARY(9), c DATETIME(3), v VARCHAR(20), PRIMARY KEY (a, b, c) CLUSTERED)",
    "loose": "(id BIGINT UNSIGNED PRIMARY KEY NONCLUSTERED, v VARCHAR(20))",
    "random": "(id BIGINT AUTO_RANDOM PRIMARY KEY CLUSTERED, v VARCHAR(20))",
    "folded": "(name VARCHAR(9) COLLATE utf8mb4_general_ci PRIMARY KEY CLUSTERED, v VARCHAR(20))",
}
ROWS = {
    "number": "VALUES (1,'a'), (-9223372036854775808,'b'), (3,NULL), (9223372036854775807,'it''s'), (5,'')",
    "composite": "VALUES ('é',x'00','2024-01-01 00:00:00.001','a'), ('é',x'00ff','2024-01-01','b'), "
    "('',x'','1970-01-01','c'), ('a''b',x'27','2024-01-01','d'), ('a\\\\b',x'5c','2024-01-01','e')",
    "loose": "VALUES (18446744073709551615,'a'), (0,'b'), (7,'c'), (8,'d'), (9,'e')",
    "random": "(v) VALUES ('a'), ('b'), ('c'), ('d'), ('e')",
    "folded": "VALUES ('b','1'), ('A','2'), ('c','3'), ('Z','4'), ('_','5')",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with tidb_cursor(tmp_path_factory.mktemp("tidb")) as (port, cursor):
        cursor.execute("CREATE DATABASE shop")
        for name, columns in TABLES.items():
            cursor.execute(f"CREATE TABLE shop.{name} {columns}")
            cursor.execute(f"INSERT INTO shop.{name} {ROWS[name]}")
        yield port, cursor


def newest_tso(cursor: Any) -> int:
    cursor.execute("SHOW MASTER STATUS")
    return int(cursor.fetchone()[1])


def rows_of(spark: SparkSession, path: Path) -> set[tuple[Any, ...]]:
    return {tuple(row)[:-1] for row in spark.read.format("delta").load(str(path)).collect()}


def held(cursor: Any, name: str) -> set[tuple[Any, ...]]:
    cursor.execute(f"SELECT * FROM shop.{name}")
    texts = {"composite": lambda row: (*row[:2], f"{row[2]:%Y-%m-%d %H:%M:%S}.{row[2].microsecond // 1000:03}", row[3])}
    return set(map(texts.get(name, tuple), cursor.fetchall()))


def test_chunks_and_reload(
    server: Any,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Chunks of two rows give every row once; what came after the TSO is not there, until --replace at a later one."""
    port, cursor = server
    monkeypatch.setattr(source, "CHUNK_ROWS", 2)
    words = ["load", "--source", f"mysql://root@127.0.0.1:{port}", "--tables", "shop.*"]
    words += ["--out", f"delta:{tmp_path}/{{table}}", "--versions", f"delta:{tmp_path}/v/{{table}}"]
    at, before = newest_tso(cursor), {name: held(cursor, name) for name in TABLES}
    cursor.execute("DELETE FROM shop.number WHERE id = 1")
    cursor.execute("UPDATE shop.number SET v = 'new' WHERE id = 3")
    cursor.execute("INSERT INTO shop.number VALUES (11, 'late')")
    assert main([*words, "--at", str(at)]) == 0
    assert "load: rows 25\nload: written 25\n" in capsys.readouterr().err
    for name, rows in before.items():
        assert rows_of(spark, tmp_path / name) == rows, name
    again = [*words[:4], "shop.number", *words[5:]]
    assert main([*again, "--replace"]) == 0
    assert "load: removed 1\n" in capsys.readouterr().err
    assert rows_of(spark, tmp_path / "number") == held(cursor, "number")
    assert main([*again, "--at", str(at)]) == 0, "an older load changes nothing"
    assert rows_of(spark, tmp_path / "number") == held(cursor, "number")
    versions = spark.read.format("delta").load(str(tmp_path / "v" / "number"))
    assert versions.where("_valid_to IS NULL").count() == len(held(cursor, "number"))


def test_goes_on_at_its_tso(
    server: Any,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A load that was killed goes on at its TSO, with the chunks that it has read, as long as TiDB has it."""
    port, cursor = server
    monkeypatch.setattr(source, "CHUNK_ROWS", 2)
    words = ["load", "--source", f"mysql://root@127.0.0.1:{port}", "--tables", "shop.*"]
    words += ["--out", f"delta:{tmp_path}/{{table}}"]
    before = {name: held(cursor, name) for name in TABLES}
    dies = (
        "from ticdc_bridge.spark_jobs.snapshots import source, stage\nsource.CHUNK_ROWS = 2\nstage.Stage.finish = die\n"
    )
    process = start_dying(dies, words)
    said = process.communicate()[1]
    assert process.returncode == -9, said
    (folder,) = tmp_path.glob("composite__loading/*")
    (folder / "1.2.json").unlink()
    cursor.execute("INSERT INTO shop.number VALUES (12, 'later')")
    assert main(words) == 0
    said = capsys.readouterr().err
    assert f"load: goes on at tso {folder.name.partition('-')[0]}, where a load did not end" in said
    assert "load: shop.composite: 2 of 3 chunks were read before\n" in said
    assert said.count("were read before") == 1
    for name, rows in before.items():
        assert rows_of(spark, tmp_path / name) == rows, name
    assert not list(tmp_path.glob("*__loading"))
    process = start_dying(dies, words)
    process.communicate()
    (folder,) = tmp_path.glob("composite__loading/*")
    for path in tmp_path.glob("*__loading/*"):
        path.rename(path.with_name(f"{1 << 40}-{path.name.partition('-')[2]}"))
    assert main(words) == 0
    said = capsys.readouterr().err
    assert f"load: a load at tso {1 << 40} did not end, and TiDB has removed the rows of that TSO" in said
    assert f"what a load at TSO {1 << 40} had read is removed" in said
    assert rows_of(spark, tmp_path / "number") == held(cursor, "number")


def test_what_stands_against_a_load(
    server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """--dry-run: a missing right and garbage collection are told."""
    port, cursor = server
    words = ["load", "--tables", "shop.*", "--out", f"delta:{tmp_path}/{{table}}", "--dry-run", "--source"]
    assert main([*words, f"mysql://root@127.0.0.1:{port}"]) == 0
    said = capsys.readouterr().out
    assert f"shop.loose -> delta:{tmp_path}/loose: about " in said
    cursor.execute("CREATE USER writer")
    cursor.execute("GRANT INSERT ON shop.number TO writer")
    assert main([*words, f"mysql://writer@127.0.0.1:{port}"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("load: would stop: table shop.number: TiDB at 127.0.0.1:")
    assert "SELECT command denied" in said
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 3600)
    assert main([*words, f"mysql://root@127.0.0.1:{port}"]) == 2
    assert "load: would stop: tidb_gc_life_time is 10m0s: the TSO is 60 min old" in capsys.readouterr().err


def test_what_the_server_refuses(server: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    port, _ = server
    words = ["load", "--table", "shop.number", "--out", f"delta:{tmp_path}/x", "--source"]
    assert main([*words, f"mysql://nobody@127.0.0.1:{port}"]) == 2
    said = capsys.readouterr().err
    assert "error TIDB_UNREACHABLE" in said
    assert said.endswith(" (error 1045): give its password in BRIDGE_TIDB_PASSWORD\n")
    assert main([*words, f"mysql://root@127.0.0.1:{port}", "--at", str(1 << 40)]) == 2
    assert "error TIDB_UNREACHABLE" in capsys.readouterr().err


def test_private_columns(
    server: Any,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What is public of a table is compared, and nothing else of it is read or written."""
    port, cursor = server
    cursor.execute(
        "CREATE TABLE shop.users (id INT PRIMARY KEY, email VARCHAR(40), token VARBINARY(20), n DECIMAL(5,2))"
    )
    cursor.execute("INSERT INTO shop.users VALUES (1, 'secret1', x'00ff', 1.5), (2, NULL, NULL, NULL)")
    monkeypatch.setenv("BRIDGE_MASK_KEY", "a key of the tests' own")
    where = ["--table", "shop.users", "--engine", "deltalake", "--exclude", "token", "--mask", "email=hmac"]
    lake, tidb = f"delta:{tmp_path}/users", f"mysql://root@127.0.0.1:{port}"
    reconcile = ["reconcile", *where, "--lake", lake, "--tidb", tidb, "--wait", "0s", "--out", str(tmp_path / "found")]
    assert main(["load", *where, "--source", tidb, "--out", lake]) == 0
    assert {row[0]: len(row[1] or "") for row in rows_of(spark, tmp_path / "users")} == {1: 64, 2: 0}
    assert main(reconcile) == 0
    cursor.execute("UPDATE shop.users SET email = 'secret3', n = 2.5 WHERE id = 1")
    assert main(reconcile) == 1
    found = (tmp_path / "found").read_text()
    assert '"columns": ["n"]' in found
    assert "secret" not in found
    assert main([*reconcile, "--repair"]) == 2
    assert "without --repair" in capsys.readouterr().err
