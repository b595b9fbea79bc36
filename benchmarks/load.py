"""`load` of a table of 20 columns: Dumpling's Parquet, SQL and CSV, and a live TiDB.

Parquet's rival is `spark.read.parquet(…).write.format("delta")`, which checks no value and knows no key. SQL and CSV
have a number of rows to reach, into Delta. The live TiDB's rival is one unbuffered cursor in one task, as Debezium's
connector reads, by PyMySQL; TiDB's own CPU is left out: a reader's seconds are its CPU by the tasks that share it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, redirect_stderr
from functools import partial
from io import StringIO
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from benchmarks.cpu import Stopwatch
from benchmarks.figures import Figure, Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROWS, _QUICK_ROWS = 2_000_000, 200_000
_LIVE_ROWS, _QUICK_LIVE_ROWS = 200_000, 50_000
_ROUNDS, _QUICK_ROUNDS = 3, 1
_FILES: Final = 4
_CHUNKS: Final = 8
_STATEMENT: Final = 5_000  # rows of an INSERT, about Dumpling's 1 MB
_PARQUET_TARGET, _LIVE_TARGET = 0.7, 3.0
_GOALS: Final = {"sql": 150_000, "csv": 200_000}
_UNQUOTED: Final = ("BIGINT", "INT", "TINYINT", "SMALLINT", "DECIMAL", "DOUBLE")
_TIME: Final = "timestamp_ntz'2026-01-01' + make_dt_interval(0, 0, 0, id % 30000000)"
COLUMNS: Final = {
    "id": ("BIGINT NOT NULL", "id"), "a": ("INT", "cast(id % 1000 as int)"), "b": ("INT", "cast(id % 77 as int)"),
    "flag": ("TINYINT", "cast(id % 2 as int)"), "size": ("SMALLINT", "cast(id % 30000 as int)"),
    "big": ("BIGINT", "id * 7919"), "more": ("BIGINT", "id * 104729"), "year": ("INT", "cast(2000 + id % 26 as int)"),
    "price": ("DECIMAL(12,2)", "cast(id % 100000 / 100 as decimal(12,2))"),
    "tax": ("DECIMAL(10,4)", "cast(id % 7000 / 1000 as decimal(10,4))"), "rate": ("DOUBLE", "id / 8"),
    "name": ("VARCHAR(60)", "concat('name ', id)"), "city": ("VARCHAR(60)", "concat('city ', id % 500)"),
    "mail": ("VARCHAR(60)", "concat('user', id, '@example.com')"),
    "note": ("VARCHAR(200)", "repeat('note ', int(id % 9))"),
    "code": ("CHAR(8)", "lpad(cast(id % 99999999 as string), 8, '0')"),
    "at": ("DATETIME", _TIME), "changed": ("TIMESTAMP", _TIME),
    "due": ("DATE", f"cast(cast({_TIME} as date) as string)"),
    "kind": ("ENUM('new','old')", "if(id % 3 = 0, 'new', 'old')"),
}  # fmt: skip
"""By name: the type, and Spark SQL of the value by `id`, as Dumpling writes it in Parquet."""
CREATE: Final = f"CREATE TABLE `wide` ({', '.join(f'`{n}` {t}' for n, (t, _) in COLUMNS.items())}, PRIMARY KEY (`id`))"


def run(run: Run) -> Iterator[Figure]:
    """CPU of loads of dumps. RuntimeError where rows are missing."""
    rows = run.rows or (_QUICK_ROWS if run.quick else _ROWS)
    rounds = _QUICK_ROUNDS if run.quick else _ROUNDS
    with tempfile.TemporaryDirectory() as folder:
        root, spark = Path(folder), session()
        for kind in ("parquet", "sql", "csv"):
            run.say(f"a dump of {rows:,} rows in {kind}")
            write_dump(spark, root / kind, kind, rows)
        for kind in ("parquet", "sql", "csv"):
            ours, theirs = list[float](), list[float]()
            for number in range(rounds + 1):  # the first one warms up
                run.say(f"load of {kind}, {number} of {rounds}")
                out = root / f"{kind}-{number}"
                ours.append(_cpu(run_load, f"dumpling:{root / kind}", out))
                if spark.read.format("delta").load(str(out)).count() != rows:
                    raise RuntimeError(f"{kind}: rows are missing")
                if kind == "parquet":
                    files = spark.read.parquet(f"{root / kind}/*.parquet")
                    theirs.append(_cpu(files.write.format("delta").save, f"{out}-rival"))
            cpu = median(ours[1:])
            if kind == "parquet":
                spent, rival = cpu / rows * 1e6, median(theirs[1:]) / rows * 1e6
                yield Figure("load-parquet", spent, "µs CPU a row", "less", rival, _PARQUET_TARGET)
                continue
            yield Figure(f"load-{kind}", rows / cpu, "rows a CPU second", "more", _GOALS[kind], 1, "rival: the goal")


def run_live(run: Run) -> Iterator[Figure]:
    """A live TiDB, which tests/support/tidb starts. RuntimeError where rows are missing."""
    from tests.support.tidb import running_tidb

    rows = run.rows or (_QUICK_LIVE_ROWS if run.quick else _LIVE_ROWS)
    with tempfile.TemporaryDirectory() as folder, running_tidb(Path(folder) / "tidb") as port:
        root, spark = Path(folder), session()
        run.say(f"a table of {rows:,} rows")
        write_dump(spark, root / "sql", "sql", rows)
        replay(root / "sql", port)
        ours, theirs = list[float](), list[float]()
        for number in range((_QUICK_ROUNDS if run.quick else _ROUNDS) + 1):
            run.say(f"reading, {number}")
            ours.append(_cpu(_read_chunks, port, rows) / 2)
            theirs.append(_cpu(_read_by_cursor, port, rows))
        name = f"load-tidb.{rows}"
        yield Figure(name, rows / median(ours[1:]), "rows a second", "more", rows / median(theirs[1:]), _LIVE_TARGET)


def session() -> SparkSession:
    from ticdc_bridge.spark_jobs.lake.tables import lake_config
    from ticdc_bridge.spark_jobs.spark.session import spark_session

    config = {"spark.driver.memory": "2g", **lake_config(("delta",))}
    return spark_session("benchmarks", master="local[2]", config=config)


def _cpu(work: Callable[..., object], *arguments: object) -> float:
    with Stopwatch() as watch:
        work(*arguments)
    return watch.spent.cpu


def run_load(source: str, out: Path) -> None:
    with redirect_stderr(StringIO()) as said:
        if main_code("load", "--source", source, "--table", "shop.wide", "--out", f"delta:{out}"):
            raise RuntimeError(said.getvalue())


def main_code(*words: str) -> int:
    """The exit code of a command."""
    from ticdc_bridge.cli import main

    return main([*words])


def write_dump(spark: SparkSession, folder: Path, kind: str, rows: int) -> None:
    """As Dumpling writes it with its defaults."""
    frame = spark.range(rows).repartitionByRange(_FILES, "id").sortWithinPartitions("id")
    frame = frame.selectExpr(*(f"{value} as `{name}`" for name, (_, value) in COLUMNS.items()))
    folder.mkdir()
    (folder / "metadata").write_text("SHOW MASTER STATUS:\n\tLog: tidb-binlog\n\tPos: 463299738777157634\n\tGTID:\n")
    (folder / "shop-schema-create.sql").write_text("CREATE DATABASE `shop`;\n")
    (folder / "shop.wide-schema.sql").write_text(f"{CREATE};\n")
    with tempfile.TemporaryDirectory() as made:
        if kind == "parquet":
            frame.write.parquet(f"{made}/x")
        else:
            quote = """ "'" """ if kind == "sql" else """ '"' """
            values = (
                f"`{name}`" if type_.startswith(_UNQUOTED) else f"{quote}, `{name}`, {quote}"
                for name, (type_, _) in COLUMNS.items()
            )
            line = ", ',', ".join(values)
            frame.selectExpr(f"concat({line})").write.text(f"{made}/x")
        for number, path in enumerate(sorted(Path(made, "x").glob("part-*"))):
            if kind == "parquet":
                path.rename(folder / f"shop.wide.{number:09}.snappy.parquet")
                continue
            lines = path.read_text().splitlines()
            if kind == "csv":
                text = "\r\n".join([",".join(f'"{name}"' for name in COLUMNS), *lines, ""])
            else:
                parts = (lines[n : n + _STATEMENT] for n in range(0, len(lines), _STATEMENT))
                text = "".join("INSERT INTO `wide` VALUES\n(" + "),\n(".join(part) + ");\n" for part in parts)
            (folder / f"shop.wide.{number:09}.{kind}").write_text(text, newline="")


def replay(folder: Path, port: int) -> None:
    import pymysql

    with closing(pymysql.connect(host="127.0.0.1", port=port, user="root", autocommit=True)) as connection:
        cursor = connection.cursor()
        cursor.execute("CREATE DATABASE shop")
        cursor.execute("USE shop")
        cursor.execute(CREATE)
        for path in sorted(folder.glob("*.0*.sql")):
            for statement in path.read_text().split(";\n"):
                if statement:
                    cursor.execute(statement)


def _read_chunks(port: int, rows: int) -> None:
    """As load's workers read: chunks side by side; what they give is not kept."""
    from ticdc_bridge.schemas.model.table import TableId
    from ticdc_bridge.spark_jobs.snapshots.tidb_reader import TidbServer

    server = TidbServer.of(f"mysql://root@127.0.0.1:{port}", "UTC")
    (table,) = server.tables([TableId("shop", "wide")], rows // _CHUNKS)
    _ = table.key  # asked for here
    with ProcessPoolExecutor(2) as pool:
        if sum(pool.map(partial(_count, table), table.chunks())) != rows:
            raise RuntimeError("rows are missing")


def _count(table: Any, cut: str) -> int:
    return sum(len(arrays[0]) for arrays in table.read(cut))


def _read_by_cursor(port: int, rows: int) -> None:
    """One unbuffered cursor, each value as a number, text or time."""
    import pymysql
    from pymysql.cursors import SSCursor

    with closing(pymysql.connect(host="127.0.0.1", port=port, user="root", cursorclass=SSCursor)) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT * FROM shop.wide")
        count = 0
        while found := cursor.fetchmany(10_000):
            count += len(found)
    if count != rows:
        raise RuntimeError("rows are missing")
