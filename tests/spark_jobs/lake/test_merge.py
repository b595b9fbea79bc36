"""`merge`: the Delta table ends up as the table in TiDB is, its columns too, however often a run is repeated."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from tests.support.golden import Golden
from tests.ticdc_bridge.cli.test_encode import found, numbered, row, written
from ticdc_bridge import Encoder
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.ddl.executor.versions import DdlText
from ticdc_bridge.schemas.ddl.parser.lexer import TYPED
from ticdc_bridge.schemas.inputs.dead_letters import ATTEMPT, ORIGIN, dead_letter
from ticdc_bridge.schemas.model.errors import SetupError, WireError
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.spark_jobs.arrow.event_rows import message_row
from ticdc_bridge.spark_jobs.lake.column_history import names_over_time, schema_changes
from ticdc_bridge.spark_jobs.lake.name_history import rename_chain
from ticdc_bridge.spark_jobs.pipeline.table_view import original_default
from ticdc_bridge.spark_jobs.streaming.pieces import MESSAGE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AVRO = Golden("avro", "evolution.ext1")


def ddl(upto: str) -> str:
    """The golden's DDL as typed, up to the first statement with this word."""
    steps = [s for s in AVRO.meta["steps"] if s["kind"] == "ddl"]
    end = next(n for n, s in enumerate(steps) if upto in s["sql"])
    lines = [{"commit_ts": s["commit_ts"], "db": s["schema"], "query": s["sql"], "typed": True} for s in steps[:end]]
    Path("ddl.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return "ddl.jsonl"


def rows(spark: SparkSession, path: str, by_spark: bool = False) -> list[dict[str, Any]]:
    """A table's rows, as who wrote it reads them; by_spark: as Spark does, which takes a second or two."""
    newest = max(Path(path, "_delta_log").glob("*.json"))
    if not by_spark and '"engineInfo":"delta-rs' in newest.read_text():
        table = DeltaTable(path).to_pyarrow_table()
        made = table.select([name for name in table.column_names if name != "_commit_ts"]).to_pylist()
    else:
        frame = spark.read.format("delta").load(str(Path(path).absolute())).drop("_commit_ts")
        made = [row.asDict() for row in frame.collect()]
    return sorted(made, key=lambda row: str(row.get("id")))


ENGINES = pytest.mark.parametrize("engine", ["deltalake", pytest.param("delta-spark", marks=pytest.mark.slow)])
"""Both make the same table. In quick runs delta-spark merges in tests/e2e/test_kills.py alone."""


@pytest.mark.slow  # the next test has them one by one
def test_columns_follow_the_history_and_the_newest_change_wins(spark: SparkSession) -> None:
    """ADD with and without default, MODIFY to a wider type, DROP, RENAME COLUMN and RENAME TABLE, a delete."""
    messages = numbered(AVRO)[:-1]  # the last one comes after TRUNCATE
    argv = ["merge", "--format", "avro", "--schemas", str(AVRO.meta_file), "--table", "test.evo", "--out", "delta:evo"]
    first, second = written(messages[:6], "a.jsonl"), written(messages[6:], "b.jsonl")
    assert main([*argv, "--ddl", ddl("ADD COLUMN c2"), "--in", first, "--metrics", "m.prom"]) == 0
    text = Path("m.prom").read_text()
    assert 'bridge_job_table_merge_seconds_count{pipeline="merge",table="test.evo"} 1.0' in text
    assert re.search(r'bridge_job_table_commit_seconds{pipeline="merge",table="test.evo"} 1\.7\d+e\+09', text)
    have = dict(spark.read.format("delta").load(str(Path("evo").absolute())).dtypes)
    assert (have["c1"], set(have)) == ("bigint", {"c0", "id", "v", "c1", "_commit_ts"})
    early = rows(spark, "evo")
    truth = [(1, "a2"), (2, "b"), (3, "c"), (4, "d"), (5, "e"), (7, "g")]
    expected = [{"c0": "dflt", "id": id_, "vv": text, "c2": 9} for id_, text in truth]
    for source in (second, first):  # repeated, older changes come after newer ones
        assert main([*argv, "--ddl", ddl("TRUNCATE"), "--in", source]) == 0
        assert rows(spark, "evo") == expected
    assert [row["v"] for row in early] == ["a2", "b", "c", "d"][: len(early)]


@pytest.mark.slow
@ENGINES
def test_names_that_stand_for_other_columns(spark: SparkSession, engine: str) -> None:
    """Two columns swap names in a table that is there; a name comes again for another column; a version is all key.

    First, a driver was killed before it had made the table; last, DDL comes without a change.
    """
    Path("t/_delta_log/_staged_commits").mkdir(parents=True)
    Path("t/_delta_log/.00000000000000000000.json.1f.tmp").write_text("cut")
    texts = [
        (1, "CREATE TABLE t (id int primary key, a varchar(9), b varchar(9))"), (20, "ALTER TABLE t DROP COLUMN b"),
        (30, "ALTER TABLE t ADD COLUMN b varchar(9)"), (40, "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a"),
        (50, "ALTER TABLE t DROP COLUMN a"), (60, "ALTER TABLE t DROP COLUMN b"),
        (70, "ALTER TABLE t ADD COLUMN a int NOT NULL DEFAULT 5"), (110, "ALTER TABLE t ADD COLUMN c int DEFAULT 3"),
    ]  # fmt: skip
    ddl = [{"commit_ts": ts, "db": "d", "query": text, "typed": True} for ts, text in texts]
    changes = [
        (10, {"id": "1", "a": "x", "b": "y"}), (35, {"id": "2", "a": "p", "b": "q"}), (65, {"id": "3"}),
        (75, {"id": "4", "a": "7"}),
    ]  # fmt: skip
    lines = [row(commit_ts=ts, offset=n, after=after) for n, (ts, after) in enumerate(changes)]
    Path("l").write_text("".join(json.dumps(line) + "\n" for line in lines))
    argv = ["merge", "--format", "open", "--table", "d.t", "--out", "delta:t", "--ddl", "ddl",
            "--engine", engine]  # fmt: skip
    wanted = [
        (45, 2, [{"id": 1, "a": None, "b": "x"}, {"id": 2, "a": "q", "b": "p"}]),
        (99, 4, [{"id": 1, "a": 5}, {"id": 2, "a": 5}, {"id": 3, "a": 5}, {"id": 4, "a": 7}]),
        (120, 0, [{"id": n, "a": 7 if n == 4 else 5, "c": 3} for n in (1, 2, 3, 4)]),  # DDL alone
    ]  # fmt: skip
    for until, count, expected in wanted:
        Path("ddl").write_text("".join(json.dumps(entry) + "\n" for entry in ddl))
        assert main(["encode", "--to", "open", "--in", "l", "--out", "m", "--ddl", "ddl"]) == 0
        Path("ddl").write_text(
            "".join(json.dumps(entry) + "\n" for entry in ddl if int(str(entry["commit_ts"])) < until)
        )
        assert main([*argv, "--in", written(found("m")[:count], "some.jsonl")]) == 0
        assert rows(spark, "t") == expected


def test_a_table_without_a_key_is_refused(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    del spark
    query = "CREATE TABLE evo (id int, v varchar(9), c1 int)"
    Path("ddl.jsonl").write_text(json.dumps({"commit_ts": 1, "db": "test", "query": query}))
    argv = ["merge", "--format", "avro", "--schemas", str(AVRO.meta_file), "--table", "test.evo", "--out", "delta:x"]
    assert main([*argv, "--ddl", "ddl.jsonl", "--in", written(numbered(AVRO)[:2])]) == 2
    assert "has no primary or NOT NULL unique key" in capsys.readouterr().err


@pytest.mark.slow
@ENGINES
def test_a_key_of_which_the_old_row_has_what_changed(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], engine: str
) -> None:
    """only-output-updated-columns: what the old row lacks is as it was. A new row without a key column is an error."""
    columns = "a int, b int, v varchar(9), primary key (a, b)"
    Path("ddl").write_text(json.dumps({"commit_ts": 1, "db": "d", "query": f"CREATE TABLE t ({columns})"}))
    texts = ["1 1 x", "1 2 y", "3 3 z"]
    first, second, third = (dict(zip("abv", text.split(), strict=True)) for text in texts)
    changes = [
        *({"commit_ts": 5, "after": entry} for entry in (first, second, third)),
        {"commit_ts": 6, "op": "u", "before": first, "after": {**first, "a": "2"}},
        {"commit_ts": 7, "op": "u", "before": third, "after": {**third, "v": "zz"}},
    ]
    lines = [row(offset=n, key=["a", "b"], **change) for n, change in enumerate(changes)]
    Path("l").write_text("".join(json.dumps(line) + "\n" for line in lines))
    Path("options").write_text('{"only_output_updated_columns": true}')
    argv = ["encode", "--to", "open", "--in", "l", "--out", "m", "--ddl", "ddl", "--to-options", "options"]
    assert main(argv) == 0
    argv = ["merge", "--format", "open", "--table", "d.t", "--ddl", "ddl", "--engine", engine]
    assert main([*argv, "--in", "m", "--out", "delta:t"]) == 0
    have = spark.read.format("delta").load(str(Path("t").absolute())).orderBy("a").collect()
    assert [(r.a, r.b, r.v) for r in have] == [(1, 2, "y"), (2, 1, "x"), (3, 3, "zz")]
    stones = spark.read.format("delta").load(str(Path("t__tombstones").absolute())).collect()
    assert [tuple(stone) for stone in stones] == [(1, 1, 6)]
    (message, *_) = found("m")
    document = json.loads((message.value or b"")[8:])
    del document["u"]["b"]
    text = json.dumps(document).encode()
    cut = replace(message, value=len(text).to_bytes(8, "big") + text)
    assert main([*argv, "--in", written([cut]), "--out", "delta:other"]) == 1
    assert "errors 1 (DEFINITION_MISMATCH 1)" in capsys.readouterr().err


@pytest.mark.slow
def test_dead_letters_in_a_delta_table_are_replayed(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    failed = Message(b"k", b"\xff", "t", 1, 7, 9, (("h", None),))
    letters = [dead_letter(WireError(code, where="value", details=""), failed) for code in ("MALFORMED", "NOT_FRAMED")]
    frame = spark.createDataFrame([message_row(m) for m in letters], MESSAGE)
    frame.write.format("delta").save(str(Path("dead").absolute()))
    assert main(["replay", "--in", "delta:dead", "--out", "again.jsonl", "--reason", "MALFORMED"]) == 0
    (message,) = found("again.jsonl")
    assert message == Message(b"k", b"\xff", "t", 1, 7, 9, (("h", None), (ORIGIN, b"t/1/7"), (ATTEMPT, b"1")))
    assert main(["replay", "--in", "delta:none", "--out", "again.jsonl"]) == 2
    assert "no table of dead letters" in capsys.readouterr().err


def test_history_of_names() -> None:
    queries = [
        (1, "CREATE TABLE t (id int primary key, a int)"), (2, "ALTER TABLE t RENAME COLUMN a TO b"),
        (3, "RENAME TABLE t TO u"), (4, "ALTER TABLE u CHANGE b c bigint NOT NULL"), (5, "DROP TABLE u"),
        (6, "CREATE TABLE u (id int primary key, c bigint)"),
    ]  # fmt: skip
    statements = [DdlText(ts, "d", query, TYPED) for ts, query in queries]
    for name in ("t", "u"):
        steps = schema_changes([*statements, *statements], TableId("d", name))
        assert [(s.commit_ts, s.renamed, s.emptied) for s in steps] == [
            (1, {}, True), (2, {"a": "b"}, False), (3, {}, False), (4, {"b": "c"}, False), (5, {}, False),
            (6, {}, True),
        ]  # fmt: skip
        assert names_over_time(steps[:5], "c") == [(2, "a"), (4, "b")]
        assert [id_ and id_.table for _, id_ in rename_chain(statements, TableId("d", name)).names()] == ["t", "u"]
    again = [
        (1, "CREATE TABLE t (id int primary key, a int, b int)"), (2, "ALTER TABLE t RENAME COLUMN a TO c"),
        (3, "ALTER TABLE t ADD COLUMN a int"), (4, "ALTER TABLE t DROP COLUMN b"),
        (5, "ALTER TABLE t ADD COLUMN b varchar(3)"), (6, "ALTER TABLE t RENAME COLUMN b TO d"),
        (7, "ALTER TABLE t RENAME COLUMN a TO c, RENAME COLUMN c TO a"),
    ]  # fmt: skip
    steps = schema_changes([DdlText(ts, "d", query, TYPED) for ts, query in again], TableId("d", "t"))
    assert {name: names_over_time(steps, name) for name in "acd"} == {
        "a": [(2, "a"), (7, "c")], "c": [(3, None), (7, "a")], "d": [(5, None), (6, "b")],
    }  # fmt: skip
    with pytest.raises(SetupError, match="can't be followed"):
        schema_changes([DdlText(1, "d", "ALTER TABLE t ADD COLUMN x int", TYPED)], TableId("d", "t"))


def test_what_added_columns_show_in_older_rows() -> None:
    text = "CREATE TABLE t (a int NOT NULL, b varchar(3) NOT NULL DEFAULT 'x', c datetime(2) NOT NULL, d json NOT NULL,"
    text += " e timestamp DEFAULT CURRENT_TIMESTAMP, f decimal(5,2) NOT NULL, g enum('p','q') NOT NULL, h int,"
    text += " i bit(12) NOT NULL, j binary(3) NOT NULL, k varbinary(3) NOT NULL)"
    (step,) = schema_changes([DdlText(1, "d", text, TYPED)], TableId("d", "t"))
    assert step.after is not None
    assert {c.name: original_default(c) for c in step.after.columns} == {
        "a": (True, "0"), "b": (True, "x"), "c": (True, "0000-00-00 00:00:00.00"), "d": (True, "null"),
        "e": (False, None), "f": (True, "0.00"), "g": (True, "p"), "h": (True, None),
        "i": (True, b"\0\0"), "j": (True, b"\0\0\0"), "k": (True, b""),
    }  # fmt: skip
    for zone, known, unsure in (
        ("", (False, None), "ADD COLUMN"), ("Asia/Shanghai", (True, "2019-12-31 16:00:00"), "")
    ):  # fmt: skip
        added = DdlText(2, "d", "ALTER TABLE t ADD COLUMN x TIMESTAMP DEFAULT '2020-01-01'", TYPED, zone)
        *_, step = schema_changes([DdlText(1, "d", text, TYPED), added], TableId("d", "t"))
        assert step.after is not None
        assert (original_default(step.after.by_name["x"]), step.unsure) == (known, unsure)


@pytest.mark.slow
@ENGINES
def test_types_that_change(spark: SparkSession, capsys: pytest.CaptureFixture[str], engine: str) -> None:
    """A text that is a number by the time of the ALTER, FLOAT to DOUBLE, the first DATETIME of a typed table."""
    texts = [
        (1, "CREATE TABLE t (id int primary key, v varchar(9), f float, ts timestamp NULL)"),
        (35, "ALTER TABLE t MODIFY ts timestamp(3) NULL"), (40, "ALTER TABLE t MODIFY v int"),
        (50, "ALTER TABLE t MODIFY f double"), (60, "ALTER TABLE t ADD COLUMN d datetime"),
    ]  # fmt: skip
    Path("ddl").write_text(
        "".join(json.dumps({"commit_ts": ts, "db": "d", "query": text, "typed": True}) + "\n" for ts, text in texts)
    )
    changes = [
        (10, {"id": "1", "v": "x", "f": "0.1", "ts": None}),
        (20, {"id": "1", "v": "5", "f": "0.1", "ts": "2024-01-01 00:00:00"}),
        (70, {"id": "2", "v": "7", "f": "0.1", "ts": None, "d": "2024-01-02 03:04:05"}),
    ]  # fmt: skip
    lines = [row(commit_ts=ts, offset=n, after=after) for n, (ts, after) in enumerate(changes)]
    Path("l").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert main(["encode", "--to", "open", "--in", "l", "--out", "m", "--ddl", "ddl"]) == 0
    argv = ["merge", "--format", "open", "--table", "d.t", "--types", "typed", "--time-zone", "UTC", "--engine", engine,
            "--out", "delta:t"]  # fmt: skip
    assert main([*argv, "--ddl", "ddl", "--in", written(found("m")[:1], "first.jsonl")]) == 2
    assert "column v: the value in the change at commit_ts 10" in capsys.readouterr().err
    older = "".join(Path("ddl").read_text().splitlines(keepends=True)[:1])
    Path("older").write_text(older)
    argv[-1] = "delta:u"
    assert main([*argv, "--ddl", "older", "--in", written(found("m")[1:2], "early.jsonl")]) == 0
    assert main([*argv, "--ddl", "ddl", "--in", "m"]) == 0
    moment = datetime(2024, 1, 2, 3, 4, 5)
    merged = rows(spark, "u", by_spark=True)
    assert [stamp and stamp.timestamp() for stamp in (entry.pop("ts") for entry in merged)] == [1704067200.0, None]
    assert merged == [
        {"id": 1, "v": 5, "f": 0.10000000149011612, "d": None}, {"id": 2, "v": 7, "f": 0.1, "d": moment}
    ]  # fmt: skip


@pytest.mark.slow
def test_zones_of_timestamps(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """A default of an unknown zone, text of another zone than the table's, a key that stands for two times: none is
    written.
    """
    texts = [
        (1, "CREATE TABLE t (id int primary key, ts timestamp NULL)"), (2, "CREATE TABLE k (ts timestamp PRIMARY KEY)"),
        (40, "ALTER TABLE t ADD COLUMN d timestamp NULL DEFAULT '2020-01-01'"),
    ]  # fmt: skip
    lines = [{"commit_ts": ts, "db": "d", "query": text, "typed": True} for ts, text in texts]
    Path("ddl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    changes = [
        row(commit_ts=10, offset=0, after={"id": "1", "ts": "2024-01-01 00:00:00"}),
        row(commit_ts=50, offset=1, after={"id": "2", "ts": None, "d": None}),
        row(commit_ts=51, offset=2, table="k", key=["ts"], after={"ts": "2025-11-02 00:59:59"}),
        row(commit_ts=52, offset=3, table="k", key=["ts"], after={"ts": "2025-11-02 01:30:00"}),
    ]
    Path("l").write_text("".join(json.dumps(line) + "\n" for line in changes))
    assert main(["encode", "--to", "open", "--in", "l", "--out", "m", "--ddl", "ddl"]) == 0
    options = ["--format", "open", "--in", "m", "--ddl", "ddl", "--engine", "deltalake"]
    argv = ["merge", *options, "--table", "d.t", "--out", "delta:t", "--time-zone", "UTC"]
    assert main(argv) == 2
    assert "ADD COLUMN at commit_ts 40: DEFAULT '2020-01-01 00:00:00' of column d is in" in capsys.readouterr().err
    argv += ["--ddl-time-zone", "Asia/Shanghai"]
    for zone, code in (("Z", 0), ("utc", 0), ("Asia/Shanghai", 2)):
        assert main([*argv, "--time-zone", zone]) == code
    assert "has TIMESTAMP text of time zone UTC, and these rows of Asia/Shanghai" in capsys.readouterr().err
    assert rows(spark, "t") == [
        {"id": 1, "ts": "2024-01-01 00:00:00", "d": "2019-12-31 16:00:00"}, {"id": 2, "ts": None, "d": None}
    ]  # fmt: skip
    for more, code in ((["UTC"], 0), (["America/New_York"], 2), (["America/New_York", "--on-lossy", "flag"], 0)):
        name = f"delta:k{more[0]}".replace("/", "_") + str(code)
        assert main(["merge", *options, "--table", "d.k", "--out", name, "--time-zone", *more]) == code
    assert "column ts is in the key, and a message does not hold its value exactly (timestamp_fold)" in (
        capsys.readouterr().err
    )


@pytest.mark.slow
@ENGINES
def test_partitions_that_do_not_hold_their_values(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], engine: str
) -> None:
    """Delta has NULL there, or bytes as other ones: refused, where a delete and NULL are not; also by a later run."""
    query = "CREATE TABLE t (id INT PRIMARY KEY, r VARCHAR(40), b VARBINARY(9), n DECIMAL(20,10))"
    Path("ddl").write_text(json.dumps({"commit_ts": 1, "db": "d", "query": query}) + "\n")
    texts = ["x", None, "", "y", "__HIVE_DEFAULT_PARTITION__"]
    rest = {"b": {"hex": "ff"}, "n": "-0.0000000001"}
    lines = [row(commit_ts=9 + n, offset=n, after={"id": str(n), "r": r, **rest}) for n, r in enumerate(texts)]
    lines.insert(4, row(commit_ts=20, offset=9, op="d", before={"id": "2", "r": "", **rest}, after=None))
    Path("l").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert main(["encode", "--to", "open", "--in", "l", "--out", "m", "--ddl", "ddl"]) == 0
    argv = ["merge", "--format", "open", "--ddl", "ddl", "--table", "d.t", "--engine", engine, "--out"]
    partitioned = ["--partition-by", "r"]
    for column, many, more, reason in (
        ("r", 2, partitioned, ""), ("r", 3, [], "empty or"), ("r", 5, [], ""), ("r", 6, partitioned, "empty or"),
        ("b", 1, ["--partition-by", "b"], "binary"), ("n", 1, ["--partition-by", "n"], "decimal(20,10)"),
    ):  # fmt: skip
        code = main([*argv, f"delta:{column}", *more, "--in", written(found("m")[:many])])
        said = capsys.readouterr().err
        assert code == (2 if reason else 0)
        assert (f"by which delta:{column} is partitioned, is {reason}" in said) == bool(reason)
    assert [(entry["id"], entry["r"]) for entry in rows(spark, "r")] == [(0, "x"), (1, None), (3, "y")]


@pytest.mark.slow
def test_a_key_that_messages_do_not_hold_exactly(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """Two rows of TiDB, one key in the messages: refused in each kind of table; without harm in other columns."""
    del spark
    texts = {
        "k": "CREATE TABLE k (d DECIMAL(30,4) PRIMARY KEY, v INT)",
        "v": "CREATE TABLE v (v INT PRIMARY KEY, d DECIMAL(30,4))",
    }
    lines = [{"commit_ts": 1, "db": "d", "query": text} for text in texts.values()]
    Path("ddl.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    encoder = Encoder("debezium", ddl="ddl.jsonl", on_lossy="flag", options={"enable_tidb_extension": True})
    for table in texts:
        after = ({"d": f"12345678901234567890.000{n}", "v": str(n)} for n in (1, 2))
        key = [table.replace("k", "d")]
        changes = [row(db="d", table=table, commit_ts=9 + n, after=entry, key=key) for n, entry in enumerate(after)]
        messages = [
            m for change in changes for m in encoder.encode(change, topic="t", partition=0, offset=change["commit_ts"])
        ]
        argv = ["merge", "--format", "debezium", "--ddl", "ddl.jsonl", "--table", f"d.{table}", "--engine", "deltalake"]
        argv += ["--in", written([replace(m, partition=0, offset=n) for n, m in enumerate(messages)])]
        for option in ("--out", "--changelog", "--versions"):
            code, output = main([*argv, option, f"delta:{table}{option}"]), capsys.readouterr().err
            assert (code, "column d is in the key" in output) == ((2, True) if table == "k" else (0, False)), output
            if table == "k":
                assert main([*argv, "--on-lossy", "flag", option, f"delta:{table}{option}"]) == 0
