"""Tables as strangers have them: odd keys, names, charsets and values, read from a live TiDB and from real dumps."""

import json
import random
import subprocess
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pymysql
import pytest
from pymysql.constants import FIELD_TYPE
from pyspark.sql import SparkSession

from tests.spark_jobs.snapshots.test_reconcile import compare, counts, damages, lake_table, rule_of
from tests.support.tidb import _CACHE, needs_tidb, tidb_cursor
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.spark_types import SparkTypes
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.spark_jobs.lake.engines.spark_sql import set_for_now
from ticdc_bridge.spark_jobs.pipeline.table_choice import TableChoice
from ticdc_bridge.spark_jobs.snapshots import reconcile_job, source
from ticdc_bridge.spark_jobs.snapshots.frames import DumpTable
from ticdc_bridge.spark_jobs.snapshots.row_types import RowTypes
from ticdc_bridge.spark_jobs.snapshots.source import read_source
from ticdc_bridge.spark_jobs.snapshots.stage import SnapshotTable
from ticdc_bridge.spark_jobs.snapshots.tidb_reader import TidbServer

pytestmark = [*needs_tidb, pytest.mark.slow]
ZONE = "America/Sao_Paulo"
CASES = [("delta-spark", "exact"), ("deltalake", "typed")]
DIALECTS = [
    ("sql",), ("sql", "--escape-backslash=false"), ("csv",), ("csv", "--escape-backslash=false"),
    ("csv", "--csv-separator", "\t", "--csv-delimiter", "'"),
]  # fmt: skip
"""Of Dumpling: --filetype, and more."""
TABLES = {
    "numbers": (
        "u TINYINT UNSIGNED, m MEDIUMINT, g BIGINT UNSIGNED, y YEAR, d DECIMAL(65,30), f FLOAT, e DOUBLE,"
        " f2 FLOAT(7,3), e2 DOUBLE(20,4), b1 BIT(1), b64 BIT(64), z INT(8) ZEROFILL, t TINYINT(1), n NUMERIC(10,0),"
        " PRIMARY KEY (d, y, b64, e) CLUSTERED",
        ["255, -8388608, 18446744073709551615, 0, 99999999999999999999999999999999999.999999999999999999999999999999,"
         " 3.402823466e38, 1.7976931348623157e308, 1234.567, 1234567890123456.1234, 1, 18446744073709551615, 42, 1, -0",
         "0, 8388607, 0, 1901, -0.000000000000000000000000000001, 1e-38, 5e-324, -0.001, 0, 0, 0, 0, 0, 9999999999",
         "1, 0, 9223372036854775808, 2155, 0, 16777216, 1e7, 0, 0.1, 1, 256, 99999999, -1, -9999999999",
         "2, 1, 1, 2155, 0, 0.1, 12345678.25, NULL, NULL, NULL, 256, NULL, NULL, NULL",
         "3, 1, 1, 2155, 0, -1.5, 0.00012345, NULL, NULL, NULL, 257, NULL, NULL, NULL",
         "4, 1, 1, 2155, 0, 1e20, 123456789012345680, NULL, NULL, NULL, 257, NULL, NULL, NULL",
         "5, 1, 1, 2155, 0, 999999.9, 9007199254740993, NULL, NULL, NULL, 257, NULL, NULL, NULL",
         "6, 1, 1, 2155, 0, -0e0, 8, NULL, -0e0, NULL, 257, NULL, NULL, NULL",
         "NULL, NULL, NULL, 0, 0, NULL, 0, NULL, NULL, NULL, 0, NULL, NULL, NULL"],
    ),
    "places": (
        "e ENUM('','a'), s SET('x',''), f FLOAT, PRIMARY KEY (e, s, f) CLUSTERED",
        ["0, 0, 1.2345677e20", "0, 0, 1.2345678e20", "0, 0, 1.2345679e20", "1, 0, -1e-45", "1, 2, 3.4028235e38",
         "1, 2, 1.17549435e-38", "2, 1, 1.2345678e-20", "2, 3, -1.2345678e15"],
    ),
    "times": (
        "t6 TIME(6), t0 TIME, d DATE, dt DATETIME, dt6 DATETIME(6), dt3 DATETIME(3), ts TIMESTAMP NULL,"
        " ts6 TIMESTAMP(6) NULL, y YEAR, PRIMARY KEY (dt6, t6, d) CLUSTERED",
        ["'-838:59:59', '838:59:59', '1000-01-01', '1582-10-10 00:00:00', '0001-01-01 00:00:00', '1900-01-01',"
         " '1970-01-01 00:00:01', '2038-01-19 03:14:07.999999', 1970",
         "'-00:00:00.000001', '-00:00:01', '9999-12-31', '9999-12-31 23:59:59', '9999-12-31 23:59:59.999999',"
         " '2024-02-29 12:00:00.5', '2018-11-04 03:00:00', '2018-02-18 01:30:00.5', 2155",
         "'838:59:59', '25:00:00', '1582-10-15', '2018-11-04 00:30:00', '2018-11-04 00:30:00.000001',"
         " '2018-11-04 00:30:00.001', '2019-02-17 02:30:00', NULL, 2000",
         "'0', '0', '1969-12-31', '1969-12-31 23:59:59', '2018-11-04 00:30:00.000001', '1969-12-31 23:59:59.999', NULL,"
         " '2018-02-18 02:30:00', 0",
         "'0:0:0.5', NULL, '1969-12-31', NULL, '2018-11-04 00:30:00.000001', NULL, NULL, NULL, NULL"],
    ),
    "zero dates": (
        "d DATE, dt DATETIME(3), ts TIMESTAMP NULL, PRIMARY KEY (d, dt) CLUSTERED",
        ["'0000-00-00', '0000-00-00', '0000-00-00'", "'2024-00-00', '2024-01-00 10:00:00', NULL",
         "'0000-00-00', '2024-00-15 10:00:00.5', NULL", "'2024-01-01', '2024-01-01', '2024-01-01'"],
    ),
    "texts": (
        "g VARCHAR(20) CHARACTER SET gbk COLLATE gbk_chinese_ci, l CHAR(10) CHARACTER SET latin1, a TEXT CHARACTER SET"
        " ascii, c CHAR(5), v VARCHAR(20) COLLATE utf8mb4_0900_ai_ci, lt LONGTEXT, b BINARY(4), vb VARBINARY(20),"
        " bl BLOB, e ENUM('a','A ','ü','''','\\\\'), s SET('x','Y','é'), j JSON, u VARCHAR(9) CHARACTER SET utf8,"
        " PRIMARY KEY (g, b, v, l) CLUSTERED",
        ["'中文', 'é', 'a', 'x  ', 'É', '\\0\\Z\\r\\n\\t\\\\''\"', 'a', x'00ff', x'', 'ü', 'é,x',"
         " '{\"b\": 1.0, \"a\": [1e100, 1e-7, -0.0,"
         " null, true, \"é\"]}', 'ａ'",
         "'', '', '', '', '', '', '', '', '', '', '', '[]', ''",
         "'a ', ' b', NULL, 'x', '\U0001F600 ', 'NULL', x'00000001', 'NULL', x'5c4e', '''', '', '\"\\\\\\\\N\"', NULL",
         "'A%', 'B', NULL, NULL, '\\\\N', '\\\\N', x'00000001', NULL, NULL, '\\\\',"
         " 'Y', '123456789012345678901234567890', NULL",
         "'Ａ', '?', NULL, NULL, 'ss', REPEAT('é', 70000), x'ffffffff', REPEAT('\\0', 20), REPEAT('\\\\', 60000),"
         " NULL, NULL, JSON_OBJECT('d', CAST('2024-01-01 10:00:00' AS DATETIME), 't', CAST('-10:00:00' AS TIME),"
         " 'x', CAST(x'00ff' AS BINARY)), 'é'"],
    ),
    "we\"ird` ta.ble\\": (
        "`a\"b` INT, `c\\d` TEXT, `x) VALUES (` INT AS (`a\"b` + 1) VIRTUAL, `e,f` VARCHAR(20), `É` INT, ` lead` INT,"
        " `a.b` INT, `l_0` INT, `file` INT, `line` INT, `kind` INT, `key` INT, `tidb` INT, `_metadata` INT, `a``b` INT,"
        " `{x};=` INT, PRIMARY KEY (`a\"b`, `É`, `key`) NONCLUSTERED",
        ["1, 'x', DEFAULT, 'y', 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13",
         "2, NULL, DEFAULT, NULL, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13",
         "-1, 'x,y', DEFAULT, 'q\"', 0, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13"],
    ),
    "Ünïque_only": (
        "a INT NOT NULL, b VARCHAR(9) NOT NULL COLLATE utf8mb4_unicode_ci, v INT, UNIQUE KEY (v), UNIQUE KEY (b, a)",
        ["1, 'a', NULL", "1, 'B', NULL", "2, 'A ', 5", "-2147483648, 'é', 6"],
    ),
    "exchanged": (
        "a INT NOT NULL, v VARCHAR(9), UNIQUE KEY (a)) PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (10),"
        " PARTITION p1 VALUES LESS THAN (20)",
        [f"{n}, 'old'" for n in range(10, 17)],
    ),
    "random": (
        "a BIGINT UNSIGNED AUTO_RANDOM(5) PRIMARY KEY CLUSTERED, v JSON, g INT AS (1 + 1) STORED",
        ["DEFAULT, '1', DEFAULT", "DEFAULT, NULL, DEFAULT", "DEFAULT, '\"\"', DEFAULT", "DEFAULT, 'null', DEFAULT"],
    ),
}  # fmt: skip
"""By name: columns beside `id`, which tells rows for the test, and rows."""


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with tidb_cursor(tmp_path_factory.mktemp("tidb")) as (port, cursor):
        cursor.execute("CREATE DATABASE `odd db`")
        cursor.execute("USE `odd db`")
        cursor.execute("SET sql_mode = '', time_zone = 'UTC'")
        for name, (columns, rows) in TABLES.items():
            cursor.execute(f"CREATE TABLE {quoted(name)} (id INT, {columns})")
            for number, row in enumerate(rows, 1):
                cursor.execute(f"INSERT INTO {quoted(name)} VALUES ({number}, {row})")
        cursor.execute("CREATE TABLE other (id INT, a INT NOT NULL, v VARCHAR(9), UNIQUE KEY (a))")
        cursor.execute(f"INSERT INTO other VALUES {', '.join(f'({n + 20}, {n}, 5)' for n in range(8))}")
        cursor.execute("ALTER TABLE exchanged EXCHANGE PARTITION p0 WITH TABLE other")
        cursor.execute("DROP TABLE other")
        cursor.execute(f"SET time_zone = '{ZONE}'")
        yield port, cursor


def in_tidb(port: int, name: str, is_dump: bool = False) -> dict[int, dict[str, Any]]:
    """The rows by id, as TiDB sends them; FLOAT with all its digits, which a dump has not."""
    with closing(pymysql.connect(host="127.0.0.1", port=port, user="root")) as connection:
        connection.use_unicode, connection.decoders = False, {}
        cursor = connection.cursor()
        cursor.execute(f"SET time_zone = '{ZONE}', sql_select_limit = 1000")
        cursor.execute(f"SELECT * FROM `odd db`.{quoted(name)} LIMIT 0")
        names, kinds = zip(*(field[:2] for field in cursor.description), strict=True)
        form = {FIELD_TYPE.FLOAT: "{}" if is_dump else "CONCAT({})"}
        columns = ", ".join(form.get(k, "{}").format(quoted(n)) for n, k in zip(names, kinds, strict=True))
        cursor.execute(f"SELECT {columns} FROM `odd db`.{quoted(name)}")
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    return {int(row["id"]): {n: v for n, v in row.items() if n not in ("id", "x) VALUES (")} for row in rows}


def is_same(sent: bytes | None, held: Any) -> bool:
    if sent is None or held is None:
        return sent is held
    if isinstance(held, bytes):
        return sent == held
    if isinstance(held, float):
        return held == float(sent) or held == float(np.float32(sent))
    if isinstance(held, int | Decimal):
        return Decimal(sent.decode()) == held
    if isinstance(held, datetime):
        return datetime.fromisoformat(sent.decode()) == held.replace(tzinfo=None)
    return sent.decode() == str(held)


def wrong_cells(port: int, table: SnapshotTable, zone: str) -> list[Any]:
    """What a source has otherwise than TiDB, but for generated columns. zone: of its TIMESTAMP text."""
    expected = in_tidb(port, table.table.id.table, isinstance(table, DumpTable))
    types = RowTypes(table.columns, SparkTypes(), (zone, ZONE), False)
    names, wrong = [c.name for c in table.columns if c.name != "id"], list[Any]()
    for arrays in (arrays for chunk in table.chunks() for arrays in table.read(chunk)):
        values, unfit, _ = types.fit(arrays)
        wrong += unfit.items()
        for id_, *row in zip(*(array.to_pylist() for array in values), strict=True):
            sent = expected.pop(id_)
            pairs = [(name, sent[name], value) for name, value in zip(names, row, strict=True)]
            wrong += [(id_, *pair) for pair in pairs if not is_same(*pair[1:])]
    return [*wrong, *expected]


def test_rows_of_a_live_tidb(server: Any) -> None:
    """Each row is in one chunk, whatever the key, and TiDB sorts none."""
    port, cursor = server
    ids = [TableId("odd db", name) for name in TABLES]
    for table in TidbServer.of(f"mysql://root@127.0.0.1:{port}", ZONE).tables(ids, 3):
        for chunk in table.chunks():
            cursor.execute(f"EXPLAIN SELECT * FROM {table.name} {chunk}")
            assert not [row[0] for row in cursor.fetchall() if "Sort" in row[0] or "TopN" in row[0]], chunk
        assert not wrong_cells(port, table, ZONE)


@pytest.mark.parametrize("words", DIALECTS, ids=" ".join)
def test_rows_of_a_dump(server: Any, tmp_path: Path, words: tuple[str, ...]) -> None:
    port, _ = server
    command = [str(next(_CACHE.glob("v*/dumpling"))), "-h", "127.0.0.1", "-P", str(port), "-u", "root", "-B", "odd db"]
    command += ["-o", str(tmp_path / "dump"), "--params", "time_zone=UTC", "--filetype", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    # Dumpling leaves out all rows of a table whose key begins with zero dates.
    choice = TableChoice.of(["`odd db`.*", "!`odd db`.`zero dates`"])
    _, tables = read_source(f"dumpling:{tmp_path}/dump", choice, None, "UTC", {})
    assert len(tables) == len(TABLES) - 1
    for table in tables:
        assert not wrong_cells(port, table, "UTC"), table.table.id


def test_a_key_that_ends_a_chunk_at_a_time_that_was_twice(server: Any) -> None:
    """Rows after the first of both are not those after the second: some would be read twice, or not at all."""
    port, cursor = server
    cursor.execute("CREATE TABLE clocks (ts TIMESTAMP, id INT, PRIMARY KEY (ts, id) CLUSTERED)")
    try:
        cursor.execute("SET time_zone = 'UTC'")
        cursor.execute("INSERT INTO clocks VALUES ('2018-02-18 00:30:00', 1), ('2018-02-18 02:30:00', 2)")
        in_utc, in_zone = (
            TidbServer.of(f"mysql://root@127.0.0.1:{port}", zone).tables([TableId("odd db", "clocks")], 2)[0]
            for zone in ("UTC", ZONE)
        )
        assert len(in_utc.chunks()) == 2
        with pytest.raises(SetupError, match=f"ends at a time that {ZONE} had twice"):
            in_zone.chunks()
    finally:
        cursor.execute(f"SET time_zone = '{ZONE}'")
        cursor.execute("DROP TABLE clocks")


def test_what_is_no_text(server: Any) -> None:
    """Bytes that are not UTF-8, which a latin1 column may have: an error that says so, of a key too."""
    port, cursor = server
    cursor.execute("SET tidb_skip_utf8_check = 1")
    try:
        for name, key in (("in_key", "t"), ("in_value", "id")):
            columns = f"(id INT, t CHAR(9) CHARACTER SET latin1, PRIMARY KEY ({key}) CLUSTERED)"
            cursor.execute(f"CREATE TABLE {name} {columns}")
            cursor.execute(f"INSERT INTO {name} VALUES (1, x'e9')")
            (table,) = TidbServer.of(f"mysql://root@127.0.0.1:{port}", ZONE).tables([TableId("odd db", name)], 1)
            with pytest.raises(SetupError, match=r"UTF-8|utf-8"):
                [*map(list, map(table.read, table.chunks()))]
    finally:
        cursor.execute("SET tidb_skip_utf8_check = DEFAULT")
        cursor.execute("DROP TABLE IF EXISTS in_key, in_value")


def test_a_server_with_a_limit(server: Any) -> None:
    port, cursor = server
    cursor.execute("SET GLOBAL sql_select_limit = 2, GLOBAL max_execution_time = 600000")
    try:
        tidb = TidbServer.of(f"mysql://root@127.0.0.1:{port}", ZONE)
        assert len(tidb.ids()) == len(TABLES)
        (table,) = tidb.tables([TableId("odd db", "exchanged")], 100)
        assert not wrong_cells(port, table, ZONE)
        with tidb.cursor() as limits:
            limits.execute("SELECT @@max_execution_time")
            assert limits.fetchone() == (b"0",)
    finally:
        cursor.execute("SET GLOBAL sql_select_limit = DEFAULT, GLOBAL max_execution_time = DEFAULT")


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("case", CASES, ids="-".join)
@pytest.mark.parametrize("name", ["numbers"])
def test_loaded_compared_and_repaired(
    server: Any, spark: SparkSession, tmp_path: Path, name: str, case: tuple[str, str], monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """What was damaged comes out, and is mended; the key has each kind of number."""
    engine, types = case
    monkeypatch.setattr(reconcile_job, "PAUSES", (0.1,))
    monkeypatch.setattr(source, "CHUNK_ROWS", 3)
    port, _ = server
    url, out = f"mysql://root@127.0.0.1:{port}", rule_of(spark, engine, tmp_path).format(table="t")
    words = ["--table", f"odd db.{name}", "--time-zone", ZONE, "--engine", engine]
    assert main(["load", "--source", url, *words, "--types", types, "--out", out]) == 0
    expected = in_tidb(port, name)
    table = lake_table(spark, engine, out, "t")
    with set_for_now(spark, "spark.sql.session.timeZone", ZONE):
        rows = {row["id"]: row.asDict() for row in table.read().collect()}
    assert rows.keys() == expected.keys()
    both = [(c, v, rows[id_][c]) for id_, row in expected.items() for c, v in row.items()]
    assert not [cell for cell in both if not is_same(*cell[1:])]
    capsys.readouterr()
    words += ["--tidb", url, "--lake", out, "--chunk", "3"]
    assert compare(*words, "--wait", "0s") == (0, [])
    said = counts(capsys.readouterr().err)
    assert (said["rows"], said["equal"]) == (len(expected), len(expected))
    keys = set(json.loads(table.properties()["bridge.key"]))
    kinds = {f.name: f.dataType.simpleString() for f in table.read().schema}
    columns = {n: kind for n, kind in kinds.items() if n.lower() not in {*keys, "id", "_commit_ts"}}
    *others, gone = sorted(rows)
    chance, changes = random.Random(f"{name} {case}"), dict[str, str]()
    names = {quoted(c): kind for c, kind in columns.items()}
    for number, (column, kind) in enumerate(columns.items()):
        value = chance.choice(damages(kind, quoted(column), names))
        changes[column] = f"CASE WHEN id = {others[number % len(others)]} THEN {value} ELSE {quoted(column)} END"
    with set_for_now(spark, "spark.sql.session.timeZone", ZONE):
        table.update(changes, "true")
        after = {row["id"]: row for row in table.read().collect()}
        table.delete(f"id = {gone}")
    changed = {id_: {c for c in columns if rows[id_][c] != after[id_][c]} for id_ in others}
    wanted = {(id_, "different", *sorted(names)) for id_, names in changed.items() if names} | {(gone, "missing")}
    code, found = compare(*words, "--wait", "0s")
    assert code == 1
    assert {(int((d["tidb"] or d["lake"])["id"]), d["kind"], *sorted(d["columns"])) for d in found} == wanted
    assert compare(*words, "--wait", "0s", "--repair")[0] == 0
    said = counts(capsys.readouterr().err)
    assert (said["rows"], said["equal"]) == (len(expected), len(expected))
    assert compare(*words, "--wait", "0s") == (0, [])
