"""The reader of ours in Spark's JVM: threads, sessions, streams, clusters, and where no class is taken."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest
from pyspark.sql import functions as F

from tests.spark_jobs.spark.test_avro_header import ID, NAME, OPTIONS
from ticdc_bridge import decode
from ticdc_bridge.schemas.formats.avro import schema as publish
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas, RegisteredSchema
from ticdc_bridge.schemas.inspect import format_lookup
from ticdc_bridge.schemas.model.event import Message, RowChange
from ticdc_bridge.schemas.model.table import Table, TableId
from ticdc_bridge.spark_jobs.spark import avro_jvm, decode_plan
from ticdc_bridge.spark_jobs.spark.left_out_rows import observed_metrics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def _messages(spark: SparkSession) -> tuple[DataFrame, FileSchemas]:
    """Four messages of d.t: two rows, a delete as avro-enable-watermark writes it, and one that is cut."""
    table = Table(TableId("d", "t"), (ID, NAME))
    key = publish.key_schema(table, OPTIONS)
    assert key is not None
    value = publish.value_schema(table, OPTIONS)
    schemas = FileSchemas([RegisteredSchema("t-key", 1, 11, key), RegisteredSchema("t-value", 1, 12, value)])
    encoder = format_lookup.format_named("avro").encoder(Context(schemas, options=OPTIONS))
    rows: list[tuple[bytes | None, bytes | None]] = []
    for number in (1, 2):
        event = RowChange("avro", table, "c", 5 << 18, None, {"id": str(number), "name": "a"}, ("id",), "UTC")
        (message,) = encoder.encode(event, Message(None, None, "t"))
        rows.append((message.key, message.value))
    rows.append((rows[0][0], b"\3" + (7 << 18).to_bytes(8, "big")))
    rows.append((rows[0][0], (rows[0][1] or b"")[:9]))
    return spark.createDataFrame(rows, "key binary, value binary"), schemas


def _seen(messages: DataFrame, schemas: FileSchemas, check: Literal["exact", "header"] = "header") -> list[Any]:
    found = decode(messages, format="avro", schemas=schemas, table="d.t", check=check)
    assert "AvroRows" in found._jdf.queryExecution().toString()
    return [(r.kind, r.op, r.commit_ts, r.before or r.after, r.error and r.error.code) for r in found.collect()]


_WANTED = [
    ("row", "c", 5 << 18, (1, "a"), None), ("row", "c", 5 << 18, (2, "a"), None),
    ("row", "d", 7 << 18, (1, None), None), ("error", None, None, None, "TRUNCATED"),
]  # fmt: skip


@pytest.mark.parametrize("check", ["header", pytest.param("exact", marks=pytest.mark.slow)])
def test_another_thread_and_another_session(spark: SparkSession, check: Literal["exact", "header"]) -> None:
    """A thread of Python has one of its own in the JVM; Spark's SQL command ADD JAR is heard by one of them only."""
    assert _seen(*_messages(spark), check) == _WANTED
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: _seen(*_messages(spark), check)).result() == _WANTED
    assert _seen(*_messages(spark.newSession()), check) == _WANTED


def test_for_each_batch(spark: SparkSession, tmp_path: Path) -> None:
    messages, schemas = _messages(spark)
    messages.coalesce(1).write.parquet(str(tmp_path / "in"))
    found: list[Any] = []
    stream = spark.readStream.schema(messages.schema).parquet(str(tmp_path / "in"))
    writer = stream.writeStream.foreachBatch(lambda batch, _: found.extend(_seen(batch, schemas)))
    query = writer.trigger(availableNow=True).option("checkpointLocation", str(tmp_path / "at")).start()
    query.awaitTermination()
    assert found == _WANTED


def test_a_stream_without_numba(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader of ours stands in for the kernels, and the codec for what it refuses: an id that came later."""
    messages, schemas = _messages(spark)
    messages.coalesce(1).write.parquet(str(tmp_path / "in"))
    monkeypatch.setattr(decode_plan, "warm_table_rows", lambda _format: False)
    stream = spark.readStream.schema(messages.schema).parquet(str(tmp_path / "in"))
    changes = decode(stream, format="avro", schemas=schemas, table="d.t")
    writer = changes.writeStream.format("memory").queryName("changes").trigger(availableNow=True)
    writer.option("checkpointLocation", str(tmp_path / "at")).start().awaitTermination()
    rows = spark.table("changes").collect()
    assert [(r.kind, r.op, r.commit_ts, r.before or r.after, r.error and r.error.code) for r in rows] == _WANTED


def test_refused_messages_come_last(spark: SparkSession) -> None:
    """From the thousandth on, whatever else there is goes through Python with them."""
    messages, schemas = _messages(spark)
    row, _, _, cut = messages.collect()
    for many in (0, 3, 1500):
        given = spark.createDataFrame([row, *[cut, row] * many], messages.schema).coalesce(1)
        seen = _seen(given, schemas, "exact")
        first = min(many, 1000) + (many < 1000)
        assert seen[:first] == [_WANTED[0]] * first
        assert seen[first:].count(_WANTED[3]) == many
        assert seen.count(_WANTED[0]) == many + 1
        assert len(seen) == 2 * many + 1


def test_a_field_of_a_struct_alone(spark: SparkSession) -> None:
    """Spark prunes what nobody asks for: what is left stands where it was."""
    messages, schemas = _messages(spark)
    placed = messages.coalesce(1).selectExpr(
        "*", "'t' topic", "3 partition", "7 + monotonically_increasing_id() offset"
    )
    for check in ("exact", "header"):
        changes = decode(placed, format="avro", schemas=schemas, table="d.t", check=check)
        whole = {(r.source.offset, r.error and r.error.code, r.after and r.after.name) for r in changes.collect()}
        fields = changes.selectExpr("source.offset", "error.code", "after.name AS name")
        assert {tuple(r) for r in fields.collect()} == whole
        assert {offset for offset, _, _ in whole} == {7, 8, 9, 10}


def test_a_filter_does_not_read_twice(spark: SparkSession) -> None:
    messages, schemas = _messages(spark)
    found = decode(messages, format="avro", schemas=schemas, table="d.t", check="header")
    asked = found.where("error IS NULL AND op = 'c'").select("after.*")
    assert [tuple(r) for r in asked.collect()] == [(1, "a"), (2, "a")]
    assert asked._jdf.queryExecution().optimizedPlan().toString().count("AvroRows") == 1


def test_where_the_session_takes_no_class(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark Connect has no JVM to give one to: the kernels read, as with exact."""
    messages, schemas = _messages(spark)
    monkeypatch.setattr(avro_jvm, "class_of", lambda *_, **__: None)
    found = decode(messages, format="avro", schemas=schemas, table="d.t", check="header")
    assert "AvroRows" not in found._jdf.queryExecution().toString()
    rows = found.collect()
    assert [(r.kind, r.op, r.commit_ts, r.before or r.after, r.error and r.error.code) for r in rows] == _WANTED
    monkeypatch.setattr(decode_plan, "warm_table_rows", lambda _format: False)
    rows = decode(messages, format="avro", schemas=schemas, table="d.t").collect()
    assert sorted(str(r.error and r.error.code) for r in rows) == ["None", "None", "None", "TRUNCATED"]


def test_where_spark_does_not_take_the_classes(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """They may not fit another Spark: the log says so once."""
    monkeypatch.setattr(avro_jvm, "_loaders", {})
    monkeypatch.setattr(avro_jvm, "_SOURCES", ("RowValues.java",))  # which needs a class that is not there
    assert avro_jvm.class_of(spark, "AvroRows") is avro_jvm.class_of(spark, "AvroRows") is None
    assert caplog.text.count("its JVM does not take our classes") == 1


def test_what_ended_the_rows_to_kafka_is_reported(spark: SparkSession) -> None:
    """Not that messages before them were not sent either, which closing the task says."""
    kind = "key binary, value binary, headers array<struct<key:string,value:binary>>, partition int, position bigint"
    rows = [(None, b"v", None, None, n, n, 0) for n in range(5)]
    frame = spark.createDataFrame(rows, f"{kind}, number int, part int").coalesce(1)
    frame = frame.withColumn("topic", F.lit("t"))
    failing = frame.where(F.when(F.col("number") == 1, F.raise_error(F.lit("no such row"))).otherwise(F.lit(True)))
    nowhere = {"kafka.bootstrap.servers": "127.0.0.1:9", "kafka.max.block.ms": "1"}
    with pytest.raises(Exception, match="no such row"):
        avro_jvm.send_with_ids(failing, nowhere, "id")
    with pytest.raises(Exception, match="not present in metadata"):
        avro_jvm.send_with_ids(frame, nowhere, "id")


@pytest.mark.slow
def test_classes_are_compiled_where_the_cache_has_none(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def archive() -> Path:
        avro_jvm._archive.cache_clear()
        return avro_jvm._archive(spark.sparkContext._gateway, ("AvroInput.java", "Refused.java"))  # not in the JVM

    monkeypatch.setenv("BRIDGE_CACHE", str(tmp_path / "cache"))
    made = archive()
    assert made.parent == tmp_path / "cache" / "classes"
    again = made.read_bytes()
    made.unlink()
    assert archive().read_bytes() == again  # the same text gives the same archive
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("BRIDGE_CACHE", str(tmp_path / "file"))  # a cache that can't be written
    assert archive().read_bytes() == again
    avro_jvm._archive.cache_clear()


_ON_A_CLUSTER = """
import sys
from ticdc_bridge import decode
from ticdc_bridge.spark_jobs.spark.session import spark_session
from tests.spark_jobs.spark.test_avro_jvm_sessions import _WANTED, _messages, _seen

if __name__ == "__main__":
    spark = spark_session("cluster", master="local-cluster[2,1,1024]", config={"spark.executor.memory": "512m"})
    found = [_seen(*_messages(spark), check) == _WANTED for check in ("header", "exact")]
    print("same:", *found)
"""


@pytest.mark.slow
def test_on_a_cluster(tmp_path: Path) -> None:
    """Executors in processes of their own, which get the classes from the driver."""
    (tmp_path / "job.py").write_text(_ON_A_CLUSTER)
    root = str(Path(__file__).resolve().parents[3])
    job = subprocess.run(
        [sys.executable, "job.py"], cwd=tmp_path, env={**os.environ, "PYTHONPATH": root, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert "same: True True" in job.stdout, job.stderr[-3000:]


def _more_messages(spark: SparkSession) -> tuple[DataFrame, FileSchemas]:
    """`_messages`, a DDL event, a watermark, and a row of another table; with offsets."""
    messages, schemas = _messages(spark)
    other = publish.value_schema(Table(TableId("d", "other"), (ID, NAME)), OPTIONS)
    known = FileSchemas([*schemas.all(), RegisteredSchema("o-value", 1, 99, other)])
    ddl = json.dumps({"query": "DROP TABLE x", "type": 4, "schema": "d", "table": "t", "commitTs": 9 << 18}).encode()
    (row, *_) = messages.collect()
    odd = [
        (None, b"\1" + ddl),
        (None, b"\2" + (449 << 50).to_bytes(8, "big")),
        (row.key, b"\0\0\0\0\x63" + row.value[5:]),
    ]
    frame = spark.createDataFrame([*map(tuple, messages.collect()), *odd], messages.schema).coalesce(1)
    return frame.selectExpr("*", "'t' topic", "3 partition", "monotonically_increasing_id() offset"), known


@pytest.mark.slow
def test_what_python_says_is_there_for_filters(spark: SparkSession) -> None:
    """Spark's optimizer takes no column for what it is in rows of the reader alone."""
    messages, schemas = _more_messages(spark)
    changes = decode(messages, format="avro", schemas=schemas, table="d.t")
    rows = changes.collect()
    assert [(r.source.offset, r.kind) for r in rows] == [
        (0, "row"), (1, "row"), (2, "row"), (3, "error"), (4, "ddl"), (5, "watermark"),
    ]  # fmt: skip
    assert observed_metrics(changes) == {
        "ticdc_bridge_other_tables.d.t": {"rows": 1}, "ticdc_bridge_late_tables.d.t": {"rows": 0},
    }  # fmt: skip
    for filter_, offsets in (
        ("query IS NOT NULL", [4]), ("ddl_type = 4", [4]), ("ddl_type IS NULL", [0, 1, 2, 3, 5]),
        ("error.code = 'TRUNCATED'", [3]), ("db IS NULL", [3, 5]), ("kind = 'watermark'", [5]), ("op = 'd'", [2]),
    ):  # fmt: skip
        found = changes.where(filter_).select("source.offset").collect()
        assert [r.offset for r in found] == offsets, filter_


@pytest.mark.slow
def test_one_frame_twice_in_a_query(spark: SparkSession) -> None:
    messages, schemas = _more_messages(spark)
    changes = decode(messages, format="avro", schemas=schemas, table="d.t").cache()
    both = changes.alias("a").join(changes.alias("b"), F.expr("a.source.offset = b.source.offset"))
    assert both.where("a.kind <=> b.kind").count() == 6
    changes.unpersist()


@pytest.mark.slow
def test_a_session_whose_strategies_are_set_later(spark: SparkSession) -> None:
    messages, schemas = _more_messages(spark)
    changes = decode(messages, format="avro", schemas=schemas, table="d.t")
    methods: Any = spark._jsparkSession.experimental()
    before = methods.extraStrategies()
    none: Any = spark._jvm
    getattr(methods, "extraStrategies_$eq")(none.PythonUtils.toSeq([]))
    try:
        with pytest.raises(Exception, match=r"call decode\(\) again"):
            changes.collect()
    finally:
        getattr(methods, "extraStrategies_$eq")(before)
    assert changes.count() == 6
