"""`reconcile` finds exactly the rows and columns that were damaged, of every type, and none where nothing was."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark_jobs.lake.test_merge_iceberg import new_catalog
from tests.support.dumps import DUMPS, ZONE
from tests.support.tidb import needs_tidb, tidb_cursor
from ticdc_bridge import reconcile
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.model.spark_types import SparkTypes
from ticdc_bridge.spark_jobs.io.locations import table_location_of
from ticdc_bridge.spark_jobs.lake.commit_summary import RESOLVED_TS, with_commit_facts
from ticdc_bridge.spark_jobs.lake.engines.base import LakeTable
from ticdc_bridge.spark_jobs.lake.table_columns import LOADED
from ticdc_bridge.spark_jobs.lake.tables import engine_of
from ticdc_bridge.spark_jobs.pipeline.job import Job
from ticdc_bridge.spark_jobs.pipeline.table_choice import TableChoice
from ticdc_bridge.spark_jobs.snapshots import reconcile_job
from ticdc_bridge.spark_jobs.snapshots.load_job import snapshot_config
from ticdc_bridge.spark_jobs.snapshots.reconcile_job import ReconcileJob, run_reconcile
from ticdc_bridge.spark_jobs.streaming.metrics import JobMetrics

CASES = [(engine, types) for types in ("exact", "typed") for engine in ("delta-spark", "deltalake", "iceberg-spark")]
KEYS = {
    "composite": "(a VARCHAR(9), b VARBINARY(9), c DATETIME(3), v VARCHAR(20), PRIMARY KEY (a, b, c) CLUSTERED)",
    "loose": "(a BIGINT UNSIGNED PRIMARY KEY NONCLUSTERED, v VARCHAR(20))",
    "random": "(a BIGINT AUTO_RANDOM PRIMARY KEY CLUSTERED, v VARCHAR(20))",
    "folded": "(a VARCHAR(9) COLLATE utf8mb4_general_ci PRIMARY KEY CLUSTERED, v VARCHAR(20))",
    "named": "(a ENUM('z','b','a','é'), b SET('q','c'), v VARCHAR(20), PRIMARY KEY (a, b) CLUSTERED)",
    "floats": "(a FLOAT, b TIMESTAMP(3), v VARCHAR(20), PRIMARY KEY (a, b) CLUSTERED)",
    "bits": "(a BIT(12), v VARCHAR(20), PRIMARY KEY (a) CLUSTERED)",
    "pair": "(a INT UNSIGNED, b CHAR(5), v VARCHAR(20), PRIMARY KEY (a, b) CLUSTERED)",
}
ROWS = {
    "composite": "VALUES ('é',x'00','2024-01-01 00:00:00.001','a'), ('é',x'00ff','2024-01-01','b'), "
    "('',x'','1970-01-01','c'), ('a''b',x'27','2024-01-01','d'), ('a\\\\b',x'5c','2024-01-01','e')",
    "loose": "VALUES (18446744073709551615,'a'), (0,'b'), (7,'c'), (8,'d'), (9,'e')",
    "random": "(v) VALUES ('a'), ('b'), ('c'), ('d'), ('e')",
    "folded": "VALUES ('b','1'), ('A','2'), ('c','3'), ('Z','4'), ('_','5')",
    "named": "VALUES ('z','q','1'), ('b','','2'), ('a','c','3'), ('é','q,c','4'), ('z','c','5')",
    "floats": "VALUES (0.1,'2024-01-01','1'), (1e-7,'2024-01-01','2'), (3e38,'2024-01-01 00:00:00.5','3'), "
    "(0.1,'2024-01-02','4'), (-1.5,'2024-01-02','5')",
    "bits": "VALUES (0,'1'), (5,'2'), (256,'3'), (4095,'4'), (6,'5')",
    "pair": "VALUES (1,'a','1'), (1,'b','2'), (4294967295,'','3'), (7,'x','4'), (7,'X','5')",
}
pytestmark = [*needs_tidb, pytest.mark.slow]
COPIES = 8
"""Of the golden rows, for each of which there is another damage."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with tidb_cursor(tmp_path_factory.mktemp("tidb")) as (port, cursor):
        cursor.execute("CREATE DATABASE dmp")
        cursor.execute("USE dmp")
        cursor.execute(f"SET time_zone = '{ZONE}', sql_mode = ''")
        for ending in ("-schema", ".000000000"):
            text = (DUMPS / "sql" / f"dmp.types{ending}.sql").read_text("utf-8")
            for statement in text.split(";\n"):
                if statement.strip() and "SET NAMES" not in statement:
                    cursor.execute(statement)
        cursor.execute("SHOW COLUMNS FROM types")
        names = [row[0] for row in cursor.fetchall() if not row[0].startswith("g_") and row[0] != "id"]
        for number in range(1, COPIES + 1):
            columns = ", ".join(names)
            cursor.execute(f"INSERT INTO types (id, {columns}) SELECT id + {1000 * number}, {columns} FROM types"
                           " WHERE id BETWEEN 1 AND 999")  # fmt: skip
        cursor.execute("CREATE TABLE typed LIKE types")
        dates = ("c_date", "c_datetime", "c_datetime6", "c_timestamp", "c_timestamp3", "c_timestamp6")
        values = ", ".join(f"IF(CONCAT({n}) REGEXP '^0000|-00', NULL, {n})" if n in dates else n for n in names)
        cursor.execute(f"INSERT INTO typed (id, {', '.join(names)}) SELECT id, {values} FROM types")
        for name, columns in KEYS.items():
            cursor.execute(f"CREATE TABLE {name} {columns}")
            cursor.execute(f"INSERT INTO {name} {ROWS[name]}")
        yield port, cursor


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconcile_job, "PAUSES", (0.1,))


def rule_of(spark: SparkSession, engine: str, folder: Path) -> str:
    return f"iceberg:{new_catalog(spark)}.lake.{{table}}" if engine == "iceberg-spark" else f"delta:{folder}/{{table}}"


def lake_table(spark: SparkSession, engine: str, out: str, table: str) -> LakeTable:
    location = table_location_of(out.format(table=table))
    assert location is not None
    return engine_of(spark, engine, location.format)(spark, location.name)


def compare(*words: str) -> tuple[int, list[dict[str, Any]]]:
    code = main(["reconcile", *words, "--out", "found.jsonl"])
    return code, [json.loads(line) for line in Path("found.jsonl").read_text().splitlines()]


def counts(text: str) -> dict[str, int]:
    lines = [line.removeprefix("reconcile: ").split() for line in text.splitlines() if line.startswith("reconcile: ")]
    return {line[0]: int(line[1]) for line in lines if len(line) == 2 and line[1].isdigit()}


def damages(kind: str, column: str, names: dict[str, str]) -> list[str]:
    """SQL: other values of a column of this type of the lake."""
    if kind == "string":
        twin = next((n for n, k in names.items() if k == kind and n != column), column)
        return [f"concat({column}, ' ')", f"if(upper({column}) = {column}, lower({column}), upper({column}))",
                f"nullif({column}, '')", f"coalesce({column}, '')", f"coalesce({column}, 'N')", twin,
                f"reverse({column})", f"concat({column}, '0')",
                f"regexp_replace({column}, '[1-9](?=[^0-9]*$)', '0')"]  # fmt: skip
    if kind == "binary":
        return [
            f"concat({column}, X'00')",
            f"nullif({column}, X'')",
            f"coalesce({column}, X'')",
            f"concat(X'00', {column})",
        ]
    if kind.startswith("decimal"):
        scale = kind[8:-1].split(",")[1]
        unit = f"CAST('1e-{scale}' AS {kind})"
        return [f"CAST(if({column} > 0, {column} - {unit}, {column} + {unit}) AS {kind})", f"coalesce({column}, 0)"]
    if kind in ("float", "double"):
        bits = f"CAST({column} * (1 + 3e-{7 if kind == 'float' else 16}D) AS {kind})"
        return [bits, f"coalesce({column}, CAST(0 AS {kind}))", f"CAST(-{column} AS {kind})"]
    if kind.startswith("timestamp"):
        steps = ("INTERVAL '0.000001' SECOND", "INTERVAL '8' HOUR")
        return ["NULL", *(f"if(year({column}) > 2000, {column} - {s}, {column} + {s})" for s in steps)]
    if kind == "date":
        return [f"date_add({column}, if(year({column}) > 2000, -1, 1))", "NULL"]
    return [f"CAST({column} ^ 1 AS {kind})", f"CAST(coalesce({column}, 0) AS {kind})"]


def damage(table: LakeTable, chance: random.Random) -> tuple[dict[int, set[str]], int]:
    """Other values in a column of each row, and how many rows these are by id: the names of the columns."""
    before = {row["id"]: row for row in table.read().collect()}
    types = {f.name: f.dataType.simpleString() for f in table.read().schema if f.name not in ("id", "_commit_ts")}
    columns = [*types]
    cases = dict[str, list[str]]()
    for number, id_ in enumerate(sorted(before)):
        column = columns[number % len(columns)]
        value = chance.choice(damages(types[column], column, types))
        cases.setdefault(column, []).append(f"WHEN id = {id_} THEN {value}")
    table.update({name: f"CASE {' '.join(texts)} ELSE {name} END" for name, texts in cases.items()}, "true")
    after = {row["id"]: row for row in table.read().collect()}
    changed = {id_: {c for c in columns if before[id_][c] != after[id_][c]} for id_ in before}
    return {id_: names for id_, names in changed.items() if names}, len(before)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_finds_what_was_damaged(
    server: Any, spark: SparkSession, tmp_path: Path, case: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    engine, types = case
    port, _ = server
    name, out = "types" if types == "exact" else "typed", rule_of(spark, engine, tmp_path)
    url = f"mysql://root@127.0.0.1:{port}"
    words = ["--table", f"dmp.{name}", "--time-zone", "Asia/Tokyo", "--engine", engine]
    assert main(["load", "--source", url, *words, "--types", types, "--out", out]) == 0
    words = ["--tidb", url, "--lake", out, *words, "--chunk", "20"]
    assert compare(*words) == (0, [])
    rows = counts(capsys.readouterr().err)["rows"]
    table = lake_table(spark, engine, out, name)
    expected, all_rows = damage(table, random.Random(f"{case}"))
    assert rows == all_rows
    assert len(expected) > all_rows / 4
    gone = next(row["id"] for row in table.read().orderBy("id").collect() if row["id"] not in expected)
    table.delete(f"id = {gone}")
    ids = {gone}
    code, found = compare(*words, "--wait", "1s")
    assert code == 1
    by_kind = {kind: {int(d["key"]["id"]): d for d in found if d["kind"] == kind} for kind in ("different", "missing")}
    assert by_kind["missing"].keys() == ids
    assert {id_: set(d["columns"]) for id_, d in by_kind["different"].items()} == expected
    said = counts(capsys.readouterr().err)
    assert said["equal"] == rows - len(expected) - len(ids)
    assert compare(*words, "--wait", "0s", "--repair")[0] == 0
    said = counts(capsys.readouterr().err)
    assert (said["rows"], said["equal"], said["newer"]) == (rows, rows, 0)


@pytest.mark.timeout(1200)
def test_every_kind_of_key(
    server: Any, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A row of the lake is changed, one is gone, one is new; then they are mended, changelog and versions too."""
    port, _ = server
    url, tables, out = f"mysql://root@127.0.0.1:{port}", ",".join(f"dmp.{name}" for name in KEYS), f"delta:{tmp_path}"
    past = ["--changelog", f"{out}/log/{{table}}", "--versions", f"{out}/v/{{table}}"]
    words = ["--tables", tables]
    assert main(["load", "--source", url, *words, "--out", f"{out}/{{table}}", *past]) == 0
    words += ["--tidb", url, "--lake", f"{out}/{{table}}", "--chunk", "2"]
    assert compare(*words) == (0, [])
    said = counts(capsys.readouterr().err)
    assert (said["rows"], said["equal"]) == (5 * len(KEYS), 5 * len(KEYS))
    expected = set()
    for name in KEYS:
        table = lake_table(spark, "delta-spark", f"{out}/{{table}}", name)
        rows = table.read()
        values = [row["v"] for row in rows.orderBy("v").collect()]
        table.update({"v": "'changed'"}, f"v = '{values[0]}'")
        table.delete(f"v = '{values[1]}'")
        new = {"a": {"bits": "X'0007'", "named": "'b'", "composite": "'n'", "folded": "'C'"}.get(name, "77")}
        if name == "named":
            new["b"] = "'q,c'"
        cells = [f"CAST({new.get(n, n)} AS {k}) AS {n}" for n, k in rows.where("v <> 'changed'").dtypes]
        table.add_rows(rows.where(f"v = '{values[2]}'").selectExpr(*cells).localCheckpoint())
        expected |= {(name, "different", values[0]), (name, "missing", values[1]), (name, "extra", values[2])}
    code, found = compare(*words, "--wait", "1s")
    assert code == 1
    assert {(d["table"], d["kind"], (d["tidb"] or d["lake"])["v"]) for d in found} == expected
    assert all(d["columns"] == (["v"] if d["kind"] == "different" else []) for d in found)
    assert compare(*words, *past, "--wait", "0s", "--repair")[0] == 0
    for name in KEYS:
        log = spark.read.format("delta").load(f"{tmp_path}/log/{name}")
        assert log.where("_tidb_op = 'R'").count() == 7, name
        assert log.where("_tidb_op = 'D'").count() == 1, name
        versions = spark.read.format("delta").load(f"{tmp_path}/v/{name}")
        assert versions.where("_valid_to IS NULL").count() == 5, name


@pytest.mark.timeout(600)
@pytest.mark.parametrize("engine", ["delta-spark", "deltalake", "iceberg-spark"])
def test_what_is_newer_or_late(
    server: Any, spark: SparkSession, tmp_path: Path, engine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    port, cursor = server
    out, url = rule_of(spark, engine, tmp_path), f"mysql://root@127.0.0.1:{port}"
    cursor.execute("DROP TABLE IF EXISTS late")
    cursor.execute("CREATE TABLE late (id INT PRIMARY KEY, v VARCHAR(9))")
    cursor.execute("INSERT INTO late VALUES (1,'a'),(2,'b'),(3,'c'),(4,'d'),(5,'e')")
    words = ["--table", "dmp.late", "--engine", engine]
    assert main(["load", "--source", url, *words, "--out", out]) == 0
    cursor.execute("SHOW MASTER STATUS")
    tso = int(cursor.fetchone()[1])
    words += ["--tidb", url, "--lake", out]
    table, deleted = (lake_table(spark, engine, out, name) for name in ("late", "late__tombstones"))
    # What merge wrote after the TSO: an update, a delete, an insert.
    cursor.execute("UPDATE late SET v = 'new' WHERE id = 1")
    cursor.execute("DELETE FROM late WHERE id = 2")
    cursor.execute("INSERT INTO late VALUES (6, 'f')")
    cursor.execute("SHOW MASTER STATUS")
    later = int(cursor.fetchone()[1])
    table.update({"v": "'new'", "_commit_ts": str(later)}, "id = 1")
    table.delete("id = 2")
    rows = table.read().where("id = 3").selectExpr("6 AS id", "'f' AS v", f"{later} AS _commit_ts")
    table.add_rows(rows.selectExpr(*(f"CAST({n} AS {k}) AS {n}" for n, k in table.read().dtypes)).localCheckpoint())
    code, found = compare(*words, "--wait", "0s", "--at", str(tso))
    assert (code, [(d["kind"], d["key"]) for d in found]) == (1, [("missing", {"id": "2"})]), "its delete is forgotten"
    assert counts(capsys.readouterr().err)["newer"] == 2
    deleted.overwrite(spark.sql(f"SELECT 2 AS id, CAST({later} AS bigint) AS _commit_ts"))
    assert compare(*words, "--wait", "0s", "--at", str(tso)) == (0, [])
    said = counts(capsys.readouterr().err)
    assert said == {"tso": tso, "rows": 5, "equal": 3, "different": 0, "missing": 0, "extra": 0, "newer": 3}
    assert compare(*words, "--wait", "0s") == (0, [])
    # What the lake has not yet at the newest TSO, and gets while it is asked for.
    cursor.execute("UPDATE late SET v = 'late' WHERE id IN (3, 4)")
    assert compare(*words, "--wait", "0s")[0] == 1
    ask = reconcile_job.ReconciledTable._ask_again

    def merged(self: Any, rows: Any) -> Any:
        table.update({"v": "'late'"}, "id = 3")
        cursor.execute("UPDATE late SET v = 'd' WHERE id = 4")
        return ask(self, rows)

    reconcile_job.ReconciledTable._ask_again = merged  # type: ignore[method-assign]
    try:
        assert compare(*words, "--wait", "20s") == (0, [])
    finally:
        reconcile_job.ReconciledTable._ask_again = ask  # type: ignore[method-assign]
    assert reconcile(out, table="dmp.late", tidb=url, wait=0.0, engine=engine)["equal"] == 5
    # The lake knows up to where it has read: nothing is late there.
    cursor.execute("SHOW MASTER STATUS")
    resolved = int(cursor.fetchone()[1])
    with with_commit_facts(spark, {RESOLVED_TS: str(resolved)}):
        lake_table(spark, engine.replace("deltalake", "delta-spark"), out, "late").update({"v": "v"}, "id = 3")
    cursor.execute("UPDATE late SET v = 'unread' WHERE id = 5")
    capsys.readouterr()
    assert compare(*words, "--wait", "0s") == (0, [])
    assert counts(capsys.readouterr().err)["tso"] == resolved
    table.set_properties({LOADED: str(resolved + 1)})
    assert compare(*words, "--wait", "0s")[0] == 1, "a load after it has written rows that would not be judged"


def test_keys_that_tidb_takes_for_the_same(
    server: Any,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each of two statements finds the row, by other letters: it comes once, and the old key goes. Not at another's."""
    port, _ = server
    out, words = rule_of(spark, "delta-spark", tmp_path), ["--tidb", f"mysql://root@127.0.0.1:{port}"]
    assert main(["load", "--source", words[1], "--table", "dmp.folded", "--out", out]) == 0
    table = lake_table(spark, "delta-spark", out, "folded")
    table.update({"a": "lower(a)"}, "a IN ('A', 'Z')")
    monkeypatch.setattr(reconcile_job, "_KEYS", 1)
    words += ["--table", "dmp.folded", "--lake", out, "--wait", "0s"]
    code, found = compare(*words)
    assert (code, len(found)) == (1, 4)
    with monkeypatch.context() as patched:
        patched.setattr(reconcile_job, "literal", lambda *_: "NULL")
        assert compare(*words, "--repair")[0] == 2
        assert main(["reconcile", *words[:-1], "1s"]) == 2, "a row that is missing would be equal"
    assert "TiDB has a row that it does not find by its key" in capsys.readouterr().err
    assert compare(*words, "--repair")[0] == 0
    assert sorted(row["a"] for row in table.read().collect()) == ["A", "Z", "_", "b", "c"]
    capsys.readouterr()
    for name, value in (("bridge.name", "dmp.other"), ("bridge.schema_ts", str(1 << 62))):
        table.set_properties({name: value})
        assert compare(*words)[0] == 0
        assert main(["reconcile", *words, "--repair"]) == 2
    said = capsys.readouterr().err
    assert "folded has the rows of dmp.other" in said
    assert f"folded follows statements up to commit_ts {1 << 62}" in said


def test_many_rows_that_are_late(
    server: Any, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are compared at the TSO again, whatever TiDB has written since; each table has its own TSO."""
    port, cursor = server
    out, url = rule_of(spark, "delta-spark", tmp_path), f"mysql://root@127.0.0.1:{port}"
    for name in ("many", "many2"):
        cursor.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, v VARCHAR(9))")
        cursor.execute(f"INSERT INTO {name} VALUES (1,'a'),(2,'b'),(3,'c')")
    assert main(["load", "--source", url, "--tables", "dmp.many*", "--out", out]) == 0
    table, compare_all = lake_table(spark, "delta-spark", out, "many"), reconcile_job.ReconciledTable._compare
    cursor.execute("UPDATE many SET v = 'late'")

    def and_merge(self: Any) -> Any:
        found = compare_all(self)
        table.update({"v": "'late'", "_commit_ts": str(self.tso)}, "v <> 'late'")
        cursor.execute("UPDATE many SET v = 'later'")
        return found

    monkeypatch.setattr(reconcile_job, "_MOST", 2)
    monkeypatch.setattr(reconcile_job.ReconciledTable, "_compare", and_merge)
    read = snapshot_config("UTC", SparkTypes(), "error")
    job = ReconcileJob(Job(read), out, url, TableChoice.of(["dmp.many*"]), "UTC", 0.1, mends=True)
    times = list[int]()
    metrics = JobMetrics(None, "reconcile")
    checked = run_reconcile(job, lambda: spark, metrics, lambda edge: times.append(edge["reconciled"]))
    assert (checked.equal, checked.judged) == (6, 0)
    assert times[0] < times[1]


def test_a_range_that_is_read_as_a_whole(server: Any, spark: SparkSession, tmp_path: Path) -> None:
    """Half of its groups differ: rows of the others are in the lake."""
    port, cursor = server
    out, url = rule_of(spark, "delta-spark", tmp_path), f"mysql://root@127.0.0.1:{port}"
    cursor.execute("CREATE TABLE wide (id INT PRIMARY KEY, v INT)")
    cursor.execute(f"INSERT INTO wide VALUES {', '.join(f'({n}, {n})' for n in range(640))}")
    assert main(["load", "--source", url, "--table", "dmp.wide", "--out", out]) == 0
    cursor.execute("UPDATE wide SET v = -v WHERE id % 16 = 1")
    code, found = compare("--table", "dmp.wide", "--tidb", url, "--lake", out, "--wait", "0s")
    assert (code, {d["kind"] for d in found}, len(found)) == (1, {"different"}, 40)
