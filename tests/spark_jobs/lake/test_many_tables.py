"""Several tables in one job: each in its place, whatever becomes of the others."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable
from py4j.finalizer import ThreadSafeFinalizer  # type: ignore[import-untyped]

from tests.spark_jobs.lake.test_merge import rows
from tests.support.dumps import write_dump
from tests.support.golden import Golden
from tests.support.processes import until
from tests.support.streams import delta_count, run_while, send
from tests.support.table import check_rows
from tests.ticdc_bridge.cli.test_encode import found, row
from ticdc_bridge.cli import main
from ticdc_bridge.spark_jobs.lake.engines.spark_sql import set_for_now
from ticdc_bridge.spark_jobs.streaming.metrics import JobMetrics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.kafka import Kafka

TABLES = {
    "shop.orders": "id INT PRIMARY KEY, note VARCHAR(20)",
    "shop.items": "sku VARCHAR(9) PRIMARY KEY, qty INT",
    "shop.nokey": "a INT",
    "crm.orders": "id INT PRIMARY KEY, name VARCHAR(20)",
}


def ddl(*more: tuple[int, str, str]) -> str:
    """Definitions as TiCDC sends them. more: (commit_ts, db, query)."""
    texts = [(1, *name.partition(".")[::2], columns) for name, columns in TABLES.items()]
    lines = [(ts, db, f"CREATE TABLE {table} ({columns})") for ts, db, table, columns in texts]
    made = [{"commit_ts": ts, "db": db, "query": query} for ts, db, query in [*lines, *more]]
    Path("ddl.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in made))
    return "ddl.jsonl"


def change(name: str, ts: int, /, **after: str | None) -> dict[str, Any]:
    """An insert; the key is its first column."""
    db, _, table = name.partition(".")
    return row(db=db, table=table, commit_ts=ts, after=after, key=[next(iter(after))])


def messages(*changes: dict[str, Any], name: str = "in.jsonl") -> str:
    """The changes as messages of the Open protocol, in a file."""
    lines = [{**entry, "offset": n} for n, entry in enumerate(changes)]
    Path("lines").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert main(["encode", "--to", "open", "--in", "lines", "--out", name, "--ddl", "ddl.jsonl"]) == 0
    return name


OUT = "delta:lake/{schema}/{table}"
MERGE = ["merge", "--format", "open", "--ddl", "ddl.jsonl", "--in", "in.jsonl", "--engine", "deltalake"]


def test_each_table_is_merged_into_its_place(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    ddl()
    messages(
        change("shop.orders", 10, id="1", note="a"), change("shop.items", 11, sku="x", qty="3"),
        change("crm.orders", 12, id="1", name="other"), change("shop.orders", 13, id="1", note="b"),
        change("shop.nokey", 14, a="1"),
    )  # fmt: skip
    assert main([*MERGE, "--tables", "shop.*,!shop.nokey", "--out", OUT]) == 0
    assert rows(spark, "lake/shop/orders") == [{"id": 1, "note": "b"}]
    assert rows(spark, "lake/shop/items") == [{"sku": "x", "qty": 3}]
    places = ["lake/shop/items", "lake/shop/orders"]
    assert sorted(str(p) for p in Path("lake").glob("*/*")) == [p + end for p in places for end in ("", "__tombstones")]
    # One that makes the table, one a batch; without a delete none to the deleted keys.
    assert len(list(Path("lake/shop/orders/_delta_log").glob("*.json"))) == 2
    output = capsys.readouterr().err
    assert "merge: out 2" in output
    assert "merge: skipped other table 2" in output
    assert "merge:   shop.orders: rows 2, out 1, newest change 1970-01-01 00:00:00 UTC, " in output


@pytest.mark.slow
def test_a_table_that_fails_leaves_the_others_right(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """One has no key: the others are written, and written again without effect once it is left out.

    A dead letter goes beside the tables, of which none is there at first.
    """
    ddl()
    messages(
        change("shop.orders", 10, id="1", note="a"), change("shop.nokey", 14, a="1"),
        change("shop.items", 11, sku="x", qty="3"),
    )  # fmt: skip
    argv, good = [*MERGE, "--out", OUT], Path("in.jsonl").read_text()
    Path("in.jsonl").write_text(good + json.dumps({"topic": "t", "offset": 9, "key_b64": None, "value_b64": "AA=="}))
    assert main([*argv, "--tables", "shop.*"]) == 2
    assert len(Path("lake/merge.dead.jsonl").read_text().splitlines()) == 1
    Path("in.jsonl").write_text(good)
    output = capsys.readouterr().err
    assert "error table shop.nokey: " in output
    assert "2 of 3 tables of the batch are written" in output
    assert (rows(spark, "lake/shop/orders"), rows(spark, "lake/shop/items")) == (
        [{"id": 1, "note": "a"}], [{"sku": "x", "qty": 3}],
    )  # fmt: skip
    assert main([*argv, "--tables", "shop.*", "--tables", "!shop.nokey"]) == 0
    assert rows(spark, "lake/shop/orders") == [{"id": 1, "note": "a"}]


@pytest.mark.slow
def test_tables_follow_their_ddl(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """A renamed table keeps its place; DDL alone is followed; a new table with an old name needs a place of its own."""
    ddl()
    messages(change("shop.orders", 10, id="1", note="a"), change("shop.items", 11, sku="x", qty="3"))
    argv = [*MERGE, "--out", OUT, "--tables", "shop.*,!shop.nokey", "--engine", "delta-spark"]
    assert main(argv) == 0
    ddl((20, "shop", "RENAME TABLE orders TO sales"), (30, "shop", "ALTER TABLE sales ADD COLUMN n INT DEFAULT 7"),
        (40, "shop", "TRUNCATE TABLE items"))  # fmt: skip
    messages(change("shop.sales", 35, id="2", note="b", n="1"), change("shop.orders", 15, id="3", note="c"))
    assert main(argv) == 0
    assert rows(spark, "lake/shop/orders", by_spark=True) == [
        {"id": 1, "note": "a", "n": 7}, {"id": 2, "note": "b", "n": 1}, {"id": 3, "note": "c", "n": 7},
    ]  # fmt: skip
    assert rows(spark, "lake/shop/items", by_spark=True) == []
    ddl((20, "shop", "RENAME TABLE orders TO sales"), (30, "shop", "ALTER TABLE sales ADD COLUMN n INT DEFAULT 7"),
        (40, "shop", "TRUNCATE TABLE items"), (50, "shop", "CREATE TABLE orders (id INT PRIMARY KEY)"))  # fmt: skip
    messages(change("shop.orders", 60, id="2"))
    capsys.readouterr()
    assert main(argv) == 2
    assert "one was renamed and keeps it" in capsys.readouterr().err


@pytest.mark.slow
def test_decode_appends_each_tables_rows_typed(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    ddl((15, "shop", "ALTER TABLE orders RENAME COLUMN note TO text"))
    messages(
        change("shop.orders", 10, id="1", note="a"), change("shop.items", 11, sku="x", qty="3"),
        change("shop.orders", 16, id="2", text="b"), change("shop.nokey", 13, a="5"),
    )  # fmt: skip
    argv = ["decode", "--format", "open", "--ddl", "ddl.jsonl", "--in", "in.jsonl", "--out", "delta:l/{schema}_{table}"]
    assert main([*argv, "--tables", "shop.*", "--types", "typed"]) == 0
    made = {}
    for name in ("orders", "items", "nokey"):
        frame = spark.read.format("delta").load(str(Path(f"l/shop_{name}").absolute()))
        made[name] = sorted(tuple(r["after"].asDict().values()) for r in frame.collect())
    assert made == {"orders": [(1, "a"), (2, "b")], "items": [("x", 3)], "nokey": [(5,)]}
    shown = ["id int PRIMARY KEY, `note` varchar(20)", "id int PRIMARY KEY, `text` varchar(20)"]
    lines = [{"commit_ts": ts, "db": "shop", "query": f"CREATE TABLE orders ({columns})", "mode": "show"}
             for ts, columns in zip((1, 15), shown, strict=True)]  # fmt: skip
    Path("ddl.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert main([*argv[:-1], "delta:m/{table}", "--tables", "shop.orders", "--types", "typed"]) == 2
    assert "column note: it was renamed to text, or it was dropped and text was added" in capsys.readouterr().err


GOLDENS = (
    Golden("avro", "evolution.ext1"), Golden("open", "evolution.default"), Golden("craft", "evolution.default"),
    Golden("simple", "evolution.json"), Golden("canal-json", "evolution.ext"),
    Golden("debezium", "evolution.ext.schema"), Golden("debezium-avro", "evolution.str.ext"),
)  # fmt: skip


@pytest.mark.slow
def test_a_table_among_others_is_as_alone(spark: SparkSession) -> None:
    """Of each format, over DDL with a rename and a truncation."""

    def check(golden: Golden) -> None:
        name, meta = f"{golden.format}", str(golden.meta_file)
        argv = ["merge", "--format", golden.format, "--in", str(golden.messages_file), "--engine", "deltalake"]
        argv += ["--from-options", meta, "--ddl", meta, *([] if golden.format == "simple" else ["--schemas", meta])]
        alone = main([*argv, "--table", "test.evo", "--out", f"delta:alone/{name}"])
        many = main([*argv, "--tables", "test.*", "--out", f"delta:many/{name}/{{schema}}.{{table}}"])
        assert (alone, many) == (0, 0)
        (location,) = (p.name for p in Path("many", name).iterdir() if not p.name.endswith("__tombstones"))
        assert rows(spark, f"many/{name}/{location}") == rows(spark, f"alone/{name}")

    check_rows(GOLDENS, check)


@pytest.mark.slow
def test_a_stream_learns_tables_from_its_topic(spark: SparkSession, kafka: Kafka) -> None:
    """DDL comes between the rows, in batches of a few messages: a table is renamed after its place was made."""

    def check(golden: Golden) -> None:
        topic = kafka.create_topic()
        send(kafka, topic, [replace(m, partition=0) for m in golden.messages()])
        name = golden.format
        argv = ["merge", "--format", name, "--schemas", str(golden.meta_file), "--engine", "deltalake"]
        argv += ["--in", f"kafka:{topic}", "--bootstrap-servers", kafka.bootstrap_servers, "--time-zone", "UTC"]
        assert main([*argv, "--table", "test.evo2", "--out", f"delta:one/{name}"]) == 0
        stream = ["--stream", "--checkpoint", f"cp/{name}", "--trigger", "now", "--max-per-batch", "7"]
        assert main([*argv, "--out", f"delta:many/{name}/{{table}}", *stream]) == 0
        (location,) = (p.name for p in Path("many", name).iterdir() if not p.name.endswith("__tombstones"))
        assert location == "evo"
        assert rows(spark, f"many/{name}/evo") == rows(spark, f"one/{name}")

    check_rows((Golden("open", "evolution.default"), Golden("canal-json", "evolution.ext")), check)


@pytest.mark.slow
def test_a_stream_waits_for_its_table(spark: SparkSession, kafka: Kafka, capsys: pytest.CaptureFixture[str]) -> None:
    """Batches of other tables alone come before it is created."""
    ddl()
    messages(*(change("shop.items", n, sku=str(n), qty="1") for n in range(2, 6)), name="others")
    messages(change("shop.orders", 9, id="1", note="x"), name="in.jsonl")
    topic = kafka.create_topic()
    created = row(
        kind="ddl",
        db="shop",
        table="orders",
        commit_ts=7,
        ddl_type=3,
        query=f"CREATE TABLE orders ({TABLES['shop.orders']})",
    )
    Path("lines").write_text(json.dumps(created) + "\n")
    assert main(["encode", "--to", "open", "--in", "lines", "--out", "ddl"]) == 0
    for part in ("others", "ddl", "in.jsonl"):
        send(kafka, topic, [replace(m, partition=0) for m in found(part)])
    argv = ["merge", "--format", "open", "--ddl", "stream", "--in", f"kafka:{topic}", "--table", "shop.orders"]
    argv += ["--bootstrap-servers", kafka.bootstrap_servers, "--time-zone", "UTC", "--out", "delta:t"]
    assert main([*argv, "--stream", "--checkpoint", "cp", "--trigger", "now", "--max-per-batch", "2"]) == 0
    assert rows(spark, "t") == [{"id": 1, "note": "x"}]
    assert "warning: table shop.orders: its columns are not known" in capsys.readouterr().err
    argv[argv.index("stream")], argv[argv.index("shop.orders")] = "ddl.jsonl", "shop.order"
    assert main([*argv, "--stream", "--checkpoint", "other", "--trigger", "now"]) == 2
    assert "the history of shop.order can't be followed" in capsys.readouterr().err


LAYOUT = """\
tables = ["shop.orders", "shop.items"]
target = "delta:lake/{schema}/{table}"
partition-by = ["qty"]
[[table]]
name = "shop.orders"
target = "delta:elsewhere"
cluster_by = "note,ID"
"""


@pytest.mark.slow
def test_tables_are_laid_out_as_the_file_says(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """Also after a type that writes the table anew; a column that is not there, and what deltalake can't, is said."""
    ddl()
    messages(change("shop.orders", 10, id="1", note="7"), change("shop.items", 11, sku="x", qty="3"))
    Path("job.toml").write_text(LAYOUT)
    argv = ["merge", "--format", "open", "--ddl", "ddl.jsonl", "--in", "in.jsonl", "--file", "job.toml"]
    assert main([*argv, "--engine", "deltalake"]) == 2
    assert "deltalake can't cluster" in capsys.readouterr().err
    assert main([*argv, "--engine", "delta-spark"]) == 0

    def layout(path: str) -> tuple[list[str], list[str]]:
        row = spark.sql(f"DESCRIBE DETAIL delta.`{Path(path).absolute()}`").collect()[0]
        return row["partitionColumns"], row["clusteringColumns"]

    assert (layout("lake/shop/items"), layout("elsewhere")) == ((["qty"], []), ([], ["note", "id"]))
    ddl((20, "shop", "ALTER TABLE orders MODIFY note INT"))
    messages(change("shop.orders", 30, id="2", note="8"))
    assert main([*argv, "--engine", "delta-spark"]) == 0
    assert rows(spark, "elsewhere", by_spark=True) == [{"id": 1, "note": 7}, {"id": 2, "note": 8}]
    assert layout("elsewhere") == ([], ["note", "id"])
    messages(change("shop.items", 40, sku="y", qty="3"))
    assert main([*argv, "--engine", "delta-spark", "--out", "delta:new/{table}", "--partition-by", "colour"]) == 2
    assert "table shop.items has no column colour" in capsys.readouterr().err


OWN_PLACES = """\
tables = ["shop.orders", "shop.items"]
changelog = "delta:log/{schema}/{table}"
[[table]]
name = "shop.orders"
changelog = "delta:orders_log"
versions = "delta:past/{table}"
"""


@pytest.mark.slow
def test_changelogs_and_versions_have_places_of_their_own(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """One table alone has versions; after a rename its places are the same. A target without --out is refused."""
    ddl()
    messages(change("shop.orders", 10, id="1", note="7"), change("shop.items", 11, sku="x", qty="3"))
    Path("job.toml").write_text(OWN_PLACES)
    argv = ["merge", "--format", "open", "--ddl", "ddl.jsonl", "--in", "in.jsonl", "--file", "job.toml"]
    argv += ["--engine", "deltalake"]
    assert main(argv) == 0
    ddl((20, "shop", "RENAME TABLE orders TO sales"))
    messages(change("shop.sales", 30, id="2", note="8"))
    assert main([*argv, "--tables", "shop.*"]) == 0
    ids = {p: [entry.get("id", entry.get("sku")) for entry in rows(spark, p)] for p in ("orders_log", "past/orders")}
    assert ids == {"orders_log": [1, 2], "past/orders": [1, 2]}
    assert [entry["sku"] for entry in rows(spark, "log/shop/items")] == ["x"]
    assert sorted(p.parent.name for p in Path().glob("**/_delta_log")) == ["items", "orders", "orders_log"]
    Path("job.toml").write_text(OWN_PLACES + 'target = "delta:now"\n')
    assert main(argv) == 2
    assert "target is for the current table, and this job writes none" in capsys.readouterr().err


@pytest.mark.slow
def test_a_stream_finds_new_tables_and_topics(spark: SparkSession, kafka: Kafka, tmp_path: Path) -> None:
    """Two topics that a pattern takes, then a table in one that is new, and a topic that is; a restart goes on."""
    del spark
    ddl()
    prefix = kafka.topic_name("many")
    first = found(messages(change("shop.orders", 10, id="1", note="a"), change("shop.orders", 11, id="2", note="b")))
    second = found(messages(change("crm.orders", 10, id="1", name="x")))
    later = found(messages(change("shop.items", 20, sku="s", qty="1"), change("shop.orders", 21, id="1", note="c")))
    third = found(messages(change("crm.orders", 22, id="1", name="y"), change("shop.nokey", 23, a="1")))
    for name, sent in ((f"{prefix}_a", first), (f"{prefix}_b", second)):
        send(kafka, kafka.create_topic(name, 2), [replace(m, partition=n % 2) for n, m in enumerate(sent)])
    argv = [
        "merge", "--format", "open", "--ddl", "ddl.jsonl", "--engine", "deltalake", "--topics", f"{prefix}_.*",
        "--tables", "*.*,!shop.nokey", "--out", OUT, "--stream", "--checkpoint", "cp", "--metrics", "m.prom",
        "--bootstrap-servers", kafka.bootstrap_servers,
    ]  # fmt: skip

    def script() -> None:
        wait_for(lambda: delta_count("lake/crm/orders") == 1 and delta_count("lake/shop/orders") == 2)
        send(kafka, f"{prefix}_a", [replace(m, partition=n % 2) for n, m in enumerate(later)])
        wait_for(lambda: delta_count("lake/shop/items") == 1)
        send(kafka, kafka.create_topic(f"{prefix}_c"), third)
        wait_for(lambda: "y" in str(_delta("lake/crm/orders")))

    assert run_while([*argv, "--trigger", "1s"], script) == 0
    assert _delta("lake/shop/orders") == [{"id": 1, "note": "c"}, {"id": 2, "note": "b"}]
    send(kafka, f"{prefix}_c", found(messages(change("crm.orders", 30, id="1", name="z"))))
    assert main([*argv, "--trigger", "now"]) == 0
    assert _delta("lake/crm/orders") == [{"id": 1, "name": "z"}]
    reported = Path("m.prom").read_text()
    assert f'topic="{prefix}_c"' in reported
    assert 'table="crm.orders"' in reported


@pytest.mark.slow
def test_a_stream_keeps_no_frame_of_its_batches(
    spark: SparkSession, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Python holds of the JVM after a micro-batch does not grow: with each frame its plan would stay there."""
    del spark
    ddl()
    topic, held = kafka.create_topic(), list[int]()
    sent = found(messages(*(change("shop.orders", 10 + n, id=str(n % 3), note=str(n)) for n in range(12))))
    send(kafka, topic, [replace(m, partition=0) for m in sent])
    monkeypatch.setattr(JobMetrics, "update", lambda *_: held.append(len(ThreadSafeFinalizer.finalizers)))
    argv = [*MERGE[:-1], "delta-spark", "--tables", "shop.orders", "--out", OUT, "--stream", "--checkpoint", "cp"]
    argv[argv.index("in.jsonl")] = f"kafka:{topic}"
    argv += ["--bootstrap-servers", kafka.bootstrap_servers, "--trigger", "now", "--max-per-batch", "1"]
    gc.disable()  # of itself it looks for them now and then
    try:
        assert main(argv) == 0
    finally:
        gc.enable()
    assert len(held) >= 12
    assert max(held[8:12]) < max(held[2:6]) + 40  # uncollected, a batch leaves 760


@pytest.mark.slow
def test_a_table_that_stops_is_set_aside_until_it_is_loaded(
    spark: SparkSession, kafka: Kafka, capsys: pytest.CaptureFixture[str]
) -> None:
    """While the stream runs, and over a restart: the load makes up for the statement, and what waited is merged."""
    del spark
    ddl((20, "shop", "ALTER TABLE items EXCHANGE PARTITION p WITH TABLE elsewhere"))
    topic, tso = kafka.create_topic(), 35
    sent = [
        found(messages(change("shop.orders", 10, id="1", note="a"), change("shop.items", 11, sku="x", qty="1"))),
        found(messages(change("shop.items", 30, sku="y", qty="2"), change("shop.items", 40, sku="x", qty="3"))),
        found(messages(change("shop.orders", 41, id="1", note="b"))),
        found(messages(change("shop.orders", 42, id="2", note="c"))),
    ]  # fmt: skip
    send(kafka, topic, [replace(m, partition=0) for m in sent[0]])
    argv = [
        *MERGE,
        "--tables",
        "shop.*",
        "--out",
        OUT,
        "--versions",
        "delta:past/{table}",
        "--stream",
        "--checkpoint",
        "cp",
    ]
    argv[argv.index("in.jsonl")] = f"kafka:{topic}"
    argv += ["--bootstrap-servers", kafka.bootstrap_servers, "--metrics", "m.prom", "--stream"]
    argv += ["--checkpoint", "cp"]
    assert main([*argv, "--trigger", "now"]) == 2
    output = capsys.readouterr().err
    assert "table shop.items is set aside" in output
    assert "merge: set aside shop.items: 1 change waiting: stopped at shop.items: EXCHANGE PARTITION at" in output
    assert _delta("lake/shop/orders") == [{"id": 1, "note": "a"}]
    send(kafka, topic, [replace(m, partition=0) for m in sent[1]])

    def script() -> None:
        wait_for(lambda: "table_set_aside" in (text := Path("m.prom").read_text()) and 'shop.items"} 3.0' in text)
        create = f"CREATE TABLE `items` ({TABLES['shop.items']})"
        dump = write_dump(Path("dump"), tso, create, [["x", "1"], ["z", "9"]], db="shop", table="items")
        load = ["load", "--source", dump, "--table", "shop.items", "--engine", "deltalake", "--replace"]
        assert main([*load, "--out", "delta:lake/shop/items", "--versions", "delta:past/items"]) == 0
        send(kafka, topic, [replace(m, partition=0) for m in sent[2]])
        wait_for(lambda: 'shop.items"}' not in Path("m.prom").read_text().partition("table_set_aside{")[2])

    assert run_while([*argv, "--trigger", "1s"], script) == 0
    assert "table shop.items goes on, with 3 changes that waited" in capsys.readouterr().err
    assert {row["sku"]: row["qty"] for row in _delta("lake/shop/items")} == {"x": 3, "z": 9}
    send(kafka, topic, [replace(m, partition=0) for m in sent[3]])
    assert main([*argv, "--trigger", "now"]) == 0
    assert not list(Path("cp/set_aside").iterdir())


def _delta(path: str) -> list[dict[str, Any]]:
    made = DeltaTable(path).to_pyarrow_table().drop_columns(["_commit_ts"]).to_pylist()
    return sorted(made, key=lambda row: str(row.get("id")))


def wait_for(condition: Callable[[], bool]) -> None:
    def holds() -> bool:
        with suppress(Exception):  # it is not there yet
            return condition()
        return False

    until(holds, "the rows", 500)


def test_a_setting_that_tables_need_stays_until_the_last_is_written(spark: SparkSession) -> None:
    """Tables are written by threads of one session: one that is done before another takes no setting from it. Frames
    know their session as another object; who needs another value waits for it.
    """
    name, same = "spark.sql.parquet.outputTimestampType", spark.range(1).sparkSession
    before = spark.conf.get(name)
    first, second = set_for_now(spark, name, "TIMESTAMP_MICROS"), set_for_now(same, name, "TIMESTAMP_MICROS")
    first.__enter__()
    second.__enter__()

    def other() -> str | None:
        with set_for_now(spark, name, "TIMESTAMP_MILLIS"):
            return spark.conf.get(name)

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(other)
        first.__exit__(None, None, None)
        assert (spark.conf.get(name), waiting.done()) == ("TIMESTAMP_MICROS", False)
        second.__exit__(None, None, None)
        assert waiting.result(60) == "TIMESTAMP_MILLIS"
    assert spark.conf.get(name) == before
