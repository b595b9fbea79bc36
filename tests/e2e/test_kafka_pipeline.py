"""The whole way on real parts: broker, registry over HTTP, Structured Streaming, and back."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import functions as F

from tests.support import shop
from ticdc_bridge import decode, transcode
from ticdc_bridge.cli import main
from ticdc_bridge.clients.kafka import read_topic
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.service.testing import running_service
from ticdc_bridge.spark_jobs.io.locations import KafkaClient
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message, plain_lines, transcode_message
from ticdc_bridge.spark_jobs.spark import avro_jvm
from ticdc_bridge.spark_jobs.streaming.sinks import TopicSink

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

    from tests.support.kafka import Kafka

CUSTOMERS, ORDERS = "tidb_shop_customers", "tidb_shop_orders"


@pytest.fixture(scope="module")
def registry() -> Iterator[str]:
    """A registry that TiCDC's schemas are registered in, over HTTP."""
    with running_service() as url:
        shop.register(url)
        yield url


@pytest.fixture(scope="module")
def produced(kafka: Kafka) -> list[Message]:
    """TiCDC's messages in Kafka, as the broker has them: keys on two partitions, with a header and a poison message."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "enable.idempotence": True})
    for topic in (CUSTOMERS, ORDERS):
        kafka.create_topic(topic, 2)
    for number, message in enumerate(shop.messages()):
        producer.produce(message.topic or "", message.value, message.key, headers=[("n", str(number).encode())])
    producer.produce(ORDERS, b"\x00\x00\x00\x00\x04cut", b"poison", partition=0)
    assert producer.flush(30) == 0
    settings = {"bootstrap.servers": kafka.bootstrap_servers}
    return [m for topic in (CUSTOMERS, ORDERS) for m in read_topic(topic, settings)]


def _stream(spark: SparkSession, kafka: Kafka) -> DataFrame:
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", kafka.bootstrap_servers)
        .option("subscribe", f"{CUSTOMERS},{ORDERS}")
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .load()
    )


def test_a_confluent_client_reads_what_ticdc_wrote(registry: str, produced: list[Message]) -> None:
    with SchemaRegistryClient({"url": registry}) as client:
        deserialize = AvroDeserializer(client)
        for message in produced:
            if message.topic == CUSTOMERS and message.value is not None:
                row: dict[str, Any] = deserialize(message.value, SerializationContext(CUSTOMERS, MessageField.VALUE))
                assert row["_tidb_op"] in ("c", "u")


@pytest.mark.slow
def test_streaming_decode_equals_the_codec(
    spark: SparkSession, kafka: Kafka, registry: str, produced: list[Message], tmp_path: Path
) -> None:
    changes = decode(_stream(spark, kafka), format="avro", registry=registry, time_zone=shop.ZONE)
    query = (
        changes.writeStream.format("parquet")
        .option("path", str(tmp_path / "changes"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    found = {
        (r["source"]["topic"], r["source"]["partition"], r["source"]["offset"]): r.asDict(recursive=True)
        for r in spark.read.parquet(str(tmp_path / "changes")).collect()
    }
    assert len(found) == len(produced)
    decoder = shop.avro_side().decoder()
    for message in produced:
        row = found[message.topic, message.partition, message.offset]
        want = plain_lines(decode_message(decoder, message), message)[0]
        if want["kind"] == "error":
            assert message.key == b"poison"
            assert (row["error"]["code"], row["error"]["value"]) == (want["code"], message.value)
            continue
        for name in ("op", "commit_ts", "db", "table", "schema_id", "key", "flags"):
            assert row[name] == want[name], name
        for image in ("before", "after"):
            assert row[image] == _texts(want[image])


def _texts(row: dict[str, Any] | None) -> dict[str, str | None] | None:
    if row is None:
        return None
    return {k: json.dumps(v, separators=(",", ":")) if isinstance(v, dict) else v for k, v in row.items()}


def test_streaming_transcode_to_a_debezium_topic(
    spark: SparkSession, kafka: Kafka, registry: str, produced: list[Message], tmp_path: Path
) -> None:
    target, dead = kafka.create_topic("shop_debezium", 2), kafka.create_topic("shop_dead", 1)
    out = transcode(
        _stream(spark, kafka),
        from_format="avro",
        to_format="debezium",
        registry=registry,
        time_zone=shop.ZONE,
        options=shop.DEBEZIUM_OPTIONS,
    )

    def write(batch: DataFrame, _number: int) -> None:
        batch.persist()
        for condition, topic in (("error is null", target), ("error is not null", dead)):
            rows = batch.where(condition).selectExpr("partition % 2 as partition", "key", "value", "headers")
            rows = rows if topic == target else rows.drop("partition")
            options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "topic": topic, "includeHeaders": "true"}
            rows.write.format("kafka").options(**options).save()
        batch.unpersist()

    query = (
        out.writeStream.foreachBatch(write)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    settings = {"bootstrap.servers": kafka.bootstrap_servers}
    assert [m.value for m in read_topic(dead, settings)] == [m.value for m in produced if m.key == b"poison"]
    decoder, encoder = shop.avro_side().decoder(), shop.debezium_side().encoder()
    want = defaultdict(list)
    for message in produced:
        for written in transcode_message(decoder, encoder, message).out:
            want[written.headers].append((written.key, written.value))
    got = defaultdict(list)
    for message in read_topic(target, settings):
        got[message.headers].append((message.key, message.value))
    assert len(got) == len(shop.messages())
    assert got == want


@pytest.mark.slow
@pytest.mark.parametrize(("fixed", "in_sink"), [(True, True), (False, True), (False, False)])
def test_a_streams_messages_end_with_their_ids(
    spark: SparkSession, kafka: Kafka, fixed: bool, in_sink: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By our task in the sink and by Spark's own: headers in their order, NULLs among them, then the id; key, value and
    headers NULL or empty.
    """
    headers = [None, [], [("a", b"1"), ("a", None), ("", b"")]]
    texts = [(None, b"v"), (b"", b""), (b"k", None)]
    rows = [
        (key, value, header, index % 2 if index else None, (index << 48) + n, n % 4, index, "")
        for n, (key, value) in enumerate(texts)
        for index, header in enumerate(headers)
    ]
    kind = "key binary, value binary, headers array<struct<key:string,value:binary>>, partition int, position bigint"
    topic = kafka.create_topic(partitions=2)
    frame = spark.createDataFrame(rows, f"{kind}, number int, part int, topic string").coalesce(1)
    frame = frame.drop("topic") if fixed else frame.selectExpr("* except (topic)", f"'{topic}' as topic")
    sink = TopicSink(topic if fixed else None, KafkaClient(kafka.bootstrap_servers), None if fixed else "t", True)
    assert avro_jvm.class_of(spark, "KafkaSend") is not None
    if not in_sink:
        monkeypatch.setattr(avro_jvm, "class_of", lambda *_: None)
    sink.save(frame)
    sink.save(frame.drop("number").limit(2))
    if not fixed:
        with pytest.raises(Exception, match="contains a null topic"):
            sink.save(frame.withColumn("topic", F.lit(None).cast("string")))
    read = read_topic(topic, {"bootstrap.servers": kafka.bootstrap_servers})
    found = [(m.key, m.value, m.headers) for m in read]
    wanted = [
        (key, value, (*(header or ()), ("bridge.id", f"{index}/{n}/{n % 4}/{index}".encode())))
        for n, (key, value) in enumerate(texts)
        for index, header in enumerate(headers)
    ]
    wanted += [(None, b"v", (("bridge.id", f"{piece}/0/0/{piece}".encode()),)) for piece in (0, 1)]
    assert sorted(found, key=repr) == sorted(wanted, key=repr)


@pytest.mark.usefixtures("spark")
def test_command_line_reads_and_writes_topics(
    kafka: Kafka, registry: str, produced: list[Message], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From a topic and into a topic, in-process and in Spark: the same lines, messages and dead letters."""
    words = ["--bootstrap-servers", kafka.bootstrap_servers, "--registry", registry, "--in", f"kafka:{ORDERS}"]
    settings = {"bootstrap.servers": kafka.bootstrap_servers}
    options = tmp_path / "options.json"
    options.write_text(json.dumps(shop.DEBEZIUM_OPTIONS))
    lines, written = [], []
    for name, more in (("plain", []), ("spark", ["--spark"])):
        out, dead = kafka.create_topic(f"out_{name}", 2), kafka.create_topic(f"dead_{name}", 1)
        position = tmp_path / f"{name}.jsonl"
        runs = (
            ["decode", "--format", "avro", *words, "--out", str(position), *more],
            ["transcode", "--from", "avro", "--to", "debezium", *words, "--time-zone", shop.ZONE, "--to-options",
             str(options), "--out", f"kafka:{out}", "--dead-letter", f"kafka:{dead}", *more],
        )  # fmt: skip
        for run in runs:
            assert main(run) == 1
            assert "errors 1 (TRUNCATED 1)" in capsys.readouterr().err
        lines.append(position.read_bytes())
        written.append([(m.partition, m.key, m.value, m.headers) for m in read_topic(out, settings)])
        (letter,) = read_topic(dead, settings)
        assert (letter.key, letter.value) == (b"poison", b"\x00\x00\x00\x00\x04cut")
        assert dict(letter.headers)["bridge.reason"] == b"TRUNCATED"
    assert lines[0] == lines[1]
    assert written[0] == written[1]
    assert len(written[0]) == sum(m.topic == ORDERS for m in produced) - 1
