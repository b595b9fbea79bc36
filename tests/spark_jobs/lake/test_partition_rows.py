"""Which rows a partition has: SQL made of its definition, beside what TiDB says."""

import random
from collections.abc import Iterator
from typing import Any

import duckdb
import pymysql
import pytest

from tests.support.lake_histories import History, comparable
from tests.support.tidb import needs_tidb, tidb_cursor
from ticdc_bridge.schemas.ddl.executor.versions import DdlText, versions
from ticdc_bridge.schemas.ddl.parser.lexer import SHOW, WIRE
from ticdc_bridge.schemas.model.table import Table
from ticdc_bridge.spark_jobs.lake.column_history import schema_changes
from ticdc_bridge.spark_jobs.lake.partition_sql import RemovedPartitions, Spread, UnknownRows, rows_of

ID = versions([DdlText(1, "d", "CREATE TABLE t (a INT)")])[0].table.id


def table_of(*statements: str, mode: Any = WIRE) -> Table:
    texts = [DdlText(0, "", "CREATE DATABASE d"), *(DdlText(n, "d", t, mode) for n, t in enumerate(statements, 1))]
    return versions(texts)[-1].table


def sql_of(table: Table, *names: str, zone: str = "UTC", ddl_zone: str = "UTC") -> str:
    by = table.details.partitioning if table.details else None
    return rows_of(RemovedPartitions(by, names, ddl_zone), lambda name: Spread(name, table.by_name[name], zone))


def is_in(sql: str, **values: Any) -> bool | None:
    columns = ", ".join(f"{'NULL' if v is None else repr(v)} AS {name}" for name, v in values.items())
    row = duckdb.sql(f"SELECT {sql} FROM (SELECT {columns})").fetchone()
    assert row is not None
    return None if row[0] is None else bool(row[0])


DAYS = "CREATE TABLE t (d DATE) PARTITION BY RANGE (TO_DAYS(d)) (PARTITION p0 VALUES LESS THAN (TO_DAYS('2026-01-01')),"
CASES = (
    (f"{DAYS} PARTITION p1 VALUES LESS THAN MAXVALUE)", "p0",
     {"2025-12-31": True, "2026-01-01": False, "0000-00-00": True, "2026-00-00": True, None: True}),
    (f"{DAYS} PARTITION p1 VALUES LESS THAN MAXVALUE)", "p1",
     {"2025-12-31": False, "2026-01-01": True, "2027-00-00": False, None: False}),
    ("CREATE TABLE t (d DATETIME(2)) PARTITION BY RANGE (YEAR(d)) (PARTITION p0 VALUES LESS THAN (2025), "
     "PARTITION p1 VALUES LESS THAN (2026))", "p1",
     {"2025-01-01 00:00:00.00": True, "2025-12-31 23:59:59.99": True, "2026-01-01 00:00:00.00": False, None: False}),
    ("CREATE TABLE t (d DATETIME(2)) PARTITION BY RANGE COLUMNS (d) (PARTITION p0 VALUES LESS THAN ('2025-01-01'), "
     "PARTITION p1 VALUES LESS THAN ('2025-01-01 10:00:00.5'))", "p1",
     {"2025-01-01 00:00:00.00": True, "2025-01-01 10:00:00.49": True, "2025-01-01 10:00:00.50": False}),
    ("CREATE TABLE t (d INT) PARTITION BY LIST (d) (PARTITION p0 VALUES IN (1, -2), PARTITION p1 VALUES IN (NULL, 3), "
     "PARTITION p2 DEFAULT)", "p1", {1: False, 3: True, None: True, 7: False}),
    ("CREATE TABLE t (d INT) PARTITION BY LIST (d) (PARTITION p0 VALUES IN (1, -2), PARTITION p2 VALUES IN (DEFAULT))",
     "P2", {1: False, -2: False, None: True, 7: True}),
    ("CREATE TABLE t (d INT) PARTITION BY HASH (d) PARTITIONS 3", "p1", {1: True, -1: True, 2: False, -4: True}),
    ("CREATE TABLE t (d INT) PARTITION BY HASH (d) PARTITIONS 3", "p0", {None: True, 3: True}),
    ("CREATE TABLE t (d BIGINT UNSIGNED) PARTITION BY HASH (d) PARTITIONS 3", "p1",
     {(1 << 64) - 1: True, 1: True, 2: False}),
    ("CREATE TABLE t (d VARCHAR(9)) PARTITION BY RANGE COLUMNS (d) (PARTITION p0 VALUES LESS THAN ('b'), "
     "PARTITION p1 VALUES LESS THAN (MAXVALUE))", "p1", {"b": True, "a": False, "bb": True, "b ": None, None: False}),
)  # fmt: skip


@pytest.mark.parametrize(("create", "name", "rows"), CASES)
def test_rows_of_a_partition(create: str, name: str, rows: dict[Any, bool | None]) -> None:
    sql = sql_of(table_of(create), name)
    assert {value: is_in(sql, d=value) for value in rows} == rows


def test_times_in_zones() -> None:
    """UNIX_TIMESTAMP of a text is in the zone of the session; a bound that clocks show twice is refused."""
    create = "CREATE TABLE t (s TIMESTAMP) PARTITION BY RANGE (UNIX_TIMESTAMP(s)) (PARTITION p VALUES LESS THAN ({}))"
    text, number = table_of(create.format("UNIX_TIMESTAMP('2026-01-01')")), table_of(create.format(1767225600))
    assert sql_of(number, "p", zone="Asia/Shanghai") == "(coalesce((s < '2026-01-01 08:00:00' OR s IS NULL), false))"
    assert sql_of(text, "p", zone="UTC", ddl_zone="Asia/Shanghai").startswith("(coalesce((s < '2025-12-31 16:00:00'")
    with pytest.raises(UnknownRows, match="--ddl-time-zone"):
        sql_of(text, "p", ddl_zone="")
    with pytest.raises(UnknownRows, match="was twice"):
        sql_of(table_of(create.format(1761438600)), "p", zone="Europe/Berlin")


def test_what_changes_do_not_have() -> None:
    """A virtual column is in no change, and in no table of the lake."""
    create = "CREATE TABLE t (a INT, g INT AS (a) VIRTUAL) PARTITION BY RANGE (g) (PARTITION p VALUES LESS THAN (5))"
    (*_, step) = schema_changes([DdlText(1, "d", create), DdlText(2, "d", "ALTER TABLE t TRUNCATE PARTITION p")], ID)
    assert (step.unsure, step.removed) == ("TRUNCATE PARTITION", None)
    assert step.why.startswith("column g, virtual")


def test_definitions_change_at_their_statements() -> None:
    """Each statement has the partitions of before it; what is not known says why."""
    create = "CREATE TABLE t (id INT PRIMARY KEY) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10))"
    texts = [
        create, "ALTER TABLE t ADD PARTITION (PARTITION p1 VALUES LESS THAN (20), PARTITION p2 VALUES LESS THAN (30))",
        "ALTER TABLE t DROP PARTITION p0", "ALTER TABLE t TRUNCATE PARTITION p1",
        "ALTER TABLE t REORGANIZE PARTITION p1, p2 INTO (PARTITION a VALUES LESS THAN (5), "
        "PARTITION b VALUES LESS THAN (30))",
        "ALTER TABLE t DROP PARTITION a", "ALTER TABLE t PARTITION BY KEY (id) PARTITIONS 4",
        "ALTER TABLE t TRUNCATE PARTITION p1", "ALTER TABLE t TRUNCATE PARTITION ALL",
    ]  # fmt: skip
    steps = {s.commit_ts: s for s in schema_changes([DdlText(n, "d", text) for n, text in enumerate(texts, 1)], ID)}
    known = dict[int, str]()
    for ts, step in steps.items():
        if step.word or step.unsure:
            columns = step.before.by_name if step.before else {}
            spread = {name: Spread(name, column) for name, column in columns.items()}
            known[ts] = rows_of(step.removed, spread.__getitem__) if step.removed else step.why
    assert known == {
        3: "(coalesce((id < 10 OR id IS NULL), false))",
        4: "(coalesce((id < 20 OR id IS NULL), false))",
        6: "(coalesce((id < 5 OR id IS NULL), false))",
        8: "which rows its partitions have is not known: KEY, or another function than those followed",
        9: "true",
    }
    assert [(s.unsure, s.word) for s in steps.values()][-2:] == [
        ("TRUNCATE PARTITION", ""), ("", "TRUNCATE PARTITION")]  # fmt: skip


# ---- beside a real TiDB
@pytest.fixture(scope="module")
def cursor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with tidb_cursor(tmp_path_factory.mktemp("tidb")) as (_, cursor):
        cursor.execute("SET sql_mode = ''")
        cursor.execute("SET time_zone = '+00:00'")
        cursor.execute("CREATE DATABASE d")
        cursor.execute("USE d")
        yield cursor


COLUMNS = {
    "n": "INT", "u": "BIGINT UNSIGNED", "d": "DATE", "e": "DATETIME(3)", "s": "TIMESTAMP NULL", "v": "VARCHAR(9)",
}  # fmt: skip


class _Histories:
    """Random partitions, statements that change them, and rows that are near their bounds."""

    def __init__(self, seed: int) -> None:
        self.random, self.names = random.Random(seed), 0
        self.kind = self.random.choice([*_RANGES, "list", "lists", "years", "hash", "hashed"])

    def definition(self, upper: int, last: bool = False) -> str:
        self.names += 1
        if last:
            bound = ", ".join(["MAXVALUE"] * (_RANGES[self.kind][0].count("`") // 2))
            return f"PARTITION q{self.names} VALUES LESS THAN ({bound})"
        return f"PARTITION q{self.names} VALUES LESS THAN ({_RANGES[self.kind][1](upper)})"

    def create(self) -> str:
        columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
        return f"CREATE TABLE t (id INT, {columns}) {self.partitions()}"

    def partitions(self) -> str:
        if self.kind in ("hash", "hashed"):
            column = "n" if self.kind == "hash" else "u"
            return f"PARTITION BY HASH (`{column}`) PARTITIONS {self.random.randint(1, 7)}"
        if self.kind in _RANGES:
            bounds = sorted(self.random.sample(range(-3, 12), self.random.randint(1, 5)))
            bounds = [bound for bound in bounds if bound > 0 or self.kind in ("n", "nv")] or [5]
            parts = [self.definition(bound) for bound in bounds]
            parts += [self.definition(0, last=True)] * self.random.randint(0, 1)
            return f"PARTITION BY RANGE {_RANGES[self.kind][0]} ({', '.join(parts)})"
        values = [*range(-2, 9), None]
        self.random.shuffle(values)
        parts = [
            f"PARTITION q{n} VALUES IN ({', '.join(map(self.value, values[n * 3 : n * 3 + 3]))})" for n in range(3)
        ]
        parts += ["PARTITION q3 DEFAULT"] * self.random.randint(0, 1)
        by = {"list": "LIST (`n`)", "lists": "LIST COLUMNS (`v`, `n`)", "years": "LIST (YEAR(`d`))"}[self.kind]
        return f"PARTITION BY {by} ({', '.join(parts)})"

    def value(self, value: int | None) -> str:
        number = "NULL" if value is None else str(value + (2020 if self.kind == "years" else 0))
        text = "NULL" if value is None else f"'{'abcdefghijkl'[value + 2]}'"
        return f"({text}, {number})" if self.kind == "lists" else number

    def row(self, number: int) -> list[Any]:
        pick = self.random.choice
        day = pick([f"202{pick('0123')}-{pick(['01', '02', '12'])}-{pick(['01', '02', '31', '00'])}", "0000-00-00"])
        day = day if day[5:] != "02-31" else "2021-02-28"
        time = f"{pick(['00:00:00', '11:59:59', '12:00:00'])}.{pick(['000', '500', '999'])}"
        stamp = f"2020-01-{pick(['01', '02', '05', '11'])} {time[:8]}"
        text = pick(["", "a", "b", "c", "cc", "d", "h", "ä", "z"])
        values = [pick([*range(-4, 13)]), pick([0, 5, (1 << 64) - 1, 1 << 63, pick(range(20))]), day,
                  day if day[8:] == "00" else f"{day} {time}", stamp, text]  # fmt: skip
        return [number, *(None if self.random.random() < 0.1 else value for value in values)]

    def statement(self, names: list[str]) -> str:
        """About the partitions that there are."""
        pick, kind = self.random.choice, self.random.randrange(4)
        if self.kind.startswith("hash"):
            more = ["ALTER TABLE t COALESCE PARTITION 1"] * (len(names) > 1)
            return pick(
                [*more, "ALTER TABLE t ADD PARTITION PARTITIONS 2", f"ALTER TABLE t TRUNCATE PARTITION {names[0]}"]
            )
        if kind == 0 and self.kind in _RANGES:
            return f"ALTER TABLE t ADD PARTITION ({self.definition(20 + self.names)})"
        if kind == 1 and self.kind in _RANGES and len(names) > 1:
            old = ", ".join(names[(at := self.random.randrange(len(names) - 1)) : at + 2])
            return f"ALTER TABLE t REORGANIZE PARTITION {old} INTO ({self.definition(11 + self.names)})"
        if kind == 2 and len(names) > 1:
            return f"ALTER TABLE t DROP PARTITION {pick(names)}"
        if kind == 3:
            return f"ALTER TABLE t {self.partitions()}"
        chosen = self.random.sample(names, self.random.randint(1, len(names)))
        return f"ALTER TABLE t TRUNCATE PARTITION {', '.join(chosen)}"


_RANGES: dict[str, tuple[str, Any]] = {
    "n": ("(`n`)", str),
    "u": ("(`u`)", lambda n: str(n)),
    "v": ("COLUMNS (`v`)", lambda n: f"'{chr(97 + n)}'"),
    "nv": ("COLUMNS (`n`, `v`)", lambda n: f"{n}, '{chr(97 + n % 5)}'"),
    "date": ("COLUMNS (`d`)", lambda n: f"'202{n // 10}-{n % 10 + 1:02}-01'"),
    "datetime": ("COLUMNS (`e`)", lambda n: f"'202{n // 10}-{n % 10 + 1:02}-01 12:00:00.5'"),
    "days": ("(TO_DAYS(`d`))", lambda n: f"TO_DAYS('202{n // 10}-{n % 10 + 1:02}-02')"),
    "times": ("(TO_DAYS(`e`))", lambda n: f"TO_DAYS('202{n // 10}-{n % 10 + 1:02}-02')"),
    "year": ("(YEAR(`d`))", lambda n: str(2018 + n)),
    "unix": ("(UNIX_TIMESTAMP(`s`))", lambda n: f"UNIX_TIMESTAMP('2020-01-{n:02} 12:00:00')"),
}


@pytest.mark.slow
@pytest.mark.skipif(needs_tidb[0].args[0], reason="no TiDB")
@pytest.mark.parametrize("seed", range(60))
def test_partitions_are_tidbs(cursor: Any, seed: int) -> None:
    """After random statements, each partition has the rows that TiDB finds in it; SHOW CREATE TABLE says the same."""
    history, statements = _Histories(seed), list[str]()
    cursor.execute("DROP TABLE IF EXISTS t")
    compared = 0
    for turn in range(6):
        names = _names(cursor) if turn else []
        statement = history.statement(names) if turn else history.create()
        try:
            cursor.execute(statement)
        except pymysql.err.Error:
            assert turn, statement
            continue
        statements.append(statement)
        for number in range(40):
            row = history.row(turn * 100 + number)
            cursor.execute(f"INSERT IGNORE INTO t VALUES ({', '.join(['%s'] * len(row))})", row)
        cursor.execute("SHOW CREATE TABLE t")
        tables = [table_of(*statements), table_of(cursor.fetchone()[1], mode=SHOW)]
        cursor.execute(f"SELECT id, n, u, {', '.join(f'CAST({name} AS CHAR)' for name in 'desv')} FROM t")
        rows = duckdb.connect()
        rows.execute("CREATE TABLE t (id INT, n INT, u DECIMAL(20,0), d TEXT, e TEXT, s TEXT, v TEXT)")
        for values in cursor.fetchall():
            rows.execute(f"INSERT INTO t VALUES ({', '.join('?' * 7)})", values)
        for name in _names(cursor):
            cursor.execute(f"SELECT id FROM t PARTITION ({name})")
            held = {row[0] for row in cursor.fetchall()}
            for table in tables:
                found = rows.execute(f"SELECT id FROM t WHERE {sql_of(table, name)}").fetchall()
                assert {row[0] for row in found} == held, (statements, name)
            compared += len(held)
    assert compared


def _names(cursor: Any) -> list[str]:
    where = "table_schema = 'd' AND table_name = 't' ORDER BY partition_ordinal_position"
    cursor.execute(f"SELECT partition_name FROM information_schema.partitions WHERE {where}")
    return [row[0] for row in cursor.fetchall()]


@pytest.mark.slow
@pytest.mark.skipif(needs_tidb[0].args[0], reason="no TiDB")
@pytest.mark.parametrize("seed", range(8))
def test_histories_of_partitions_are_tidbs(cursor: Any, seed: int) -> None:
    """What merges of random histories (test_random_histories, test_random_pasts) are held to."""
    history = History(f"partitions/{seed}", schema=False, partitions=True)
    steps = [(ts, text, None) for ts, text in history.statements] + [(c.commit_ts, "", c) for c in history.changes]
    cursor.execute("DROP TABLE IF EXISTS t")
    for _, text, change in sorted(steps, key=lambda step: step[0]):
        if change is None:
            cursor.execute(text)
            continue
        if change.before is not None:
            cursor.execute("DELETE FROM t WHERE id = %s", (change.before["id"],))
        if change.after is not None:
            names = ", ".join(change.after)
            marks = ", ".join(["%s"] * len(change.after))
            cursor.execute(f"REPLACE INTO t ({names}) VALUES ({marks})", list(change.after.values()))
    cursor.execute("SELECT * FROM t")
    columns = [column[0] for column in cursor.description]
    rows = {str(row[0]): dict(zip(columns, map(comparable, row), strict=True)) for row in cursor.fetchall()}
    assert rows == history.table()
    assert history.gone
