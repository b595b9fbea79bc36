"""`spark.read.format("ticdc")` and `readStream`: the events of `decode`, from files and from Kafka."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from tests.support.golden import Golden
from ticdc_bridge import decode
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.spark_jobs.arrow.change_schema import CHANGES, change_type
from ticdc_bridge.spark_jobs.io.endpoints import message_sink, read_source
from ticdc_bridge.spark_jobs.io.locations import KafkaClient
from ticdc_bridge.spark_jobs.io.message_files import message_line
from ticdc_bridge.spark_jobs.spark import data_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.support.kafka import Kafka

AVRO = Golden("avro", "evolution.ext1")
ZONE = "Asia/Shanghai"


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    monkeypatch.chdir(tmp_path)
    data_source.register(spark)
    return spark


def _messages() -> list[Message]:
    some = AVRO.messages() * 8  # so many that compiled readers take them
    found = [Message(m.key, m.value, "t", n % 2, n, 1700000000000 + n) for n, m in enumerate(some)]
    return [*found, Message(b"k", b"\x07nope", "t", 0, len(found), 5)]


def _rows(frame: DataFrame) -> list[Any]:
    rows = (r.asDict(recursive=True) for r in frame.where("kind <> 'other'").collect())
    return sorted(({k: v for k, v in r.items() if k != "source"} for r in rows), key=repr)


@pytest.mark.slow
def test_files_in_ranges(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = "".join(json.dumps(message_line(m)) + "\n" for m in _messages())
    Path("in").mkdir()
    Path("in/a.jsonl").write_text(lines)
    Path("in/b.jsonl").write_text("no message\n\n")
    common = {"format": "avro", "schemas": str(AVRO.meta_file), "time_zone": ZONE}
    reader = session.read.format("ticdc").options(**common)
    rows = [(m.key, m.value, m.topic, list(m.headers)) for m in _messages()]
    headers = "headers array<struct<key:string,value:binary>>"
    frame = session.createDataFrame(rows, f"key binary, value binary, topic string, {headers}")
    want = decode(frame, format="avro", schemas=AVRO.schemas, time_zone=ZONE)
    bad = {"kind": "error", "code": "BAD_LINE"}
    got, wanted = _rows(reader.load(str(Path("in").absolute()))), _rows(want)
    assert [r for r in got if not (r["error"] and r["error"]["code"] == bad["code"])] == wanted
    assert len(got) == len(wanted) + 1
    typed = reader.options(table="test.evo", types="typed", missing="default").load(str(Path("in/a.jsonl").absolute()))
    same = decode(frame, format="avro", schemas=AVRO.schemas, time_zone=ZONE, table="test.evo", missing="default")
    assert typed.schema["after"].json() == same.schema["after"].json()
    assert _rows(typed) == _rows(same)
    # each line is read once, wherever the ranges end
    few = _messages()[-9:]
    lines = "".join(json.dumps(message_line(m)) + "\n" for m in few)
    Path("in/a.jsonl").write_text(lines)
    for step in (1, 97, len(lines)):
        monkeypatch.setattr(data_source, "_RANGE", step)
        pieces = list(data_source._file_partitions(Path("in/a.jsonl")))[:4000]
        items = [i for p in pieces for i in data_source._lines(p, p.end or 0)]
        assert items == few


def test_a_storage_sinks_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One part, read in the sink's order; a folder of messages is a part a file."""
    monkeypatch.chdir(tmp_path)
    file = Path("sink/d/t/466000000000000000/2026/CDC000001.json")
    file.parent.mkdir(parents=True)
    file.write_text('{"database":"d","type":"INSERT","data":[]}\n')
    assert [Path(piece.path).name for piece in data_source._file_partitions(Path("sink"))] == ["sink"]
    (message,) = read_source("sink", KafkaClient())
    assert isinstance(message, Message)
    assert message.topic == "d_t"


def test_its_schema_is_that_of_decode(session: SparkSession) -> None:
    from pyspark.sql.types import StructType

    assert change_type() == StructType.fromDDL(f"{CHANGES}, headers array<struct<key:string,value:binary>>")


@pytest.mark.slow  # each starts a process of Python; test_usage has options without Spark
def test_wrong_options_say_what_to_do(session: SparkSession) -> None:
    for options, reported in (
        ({"path": "x"}, "option 'format' is missing"),
        ({"format": "open", "topics": "x"}, "option 'topics' is not known"),
        ({"format": "open"}, "give a path"),
        ({"format": "open", "path": "/nosuch.jsonl"}, "No such file"),
        ({"format": "open", "path": str(Path.cwd())}, "this folder has no message files"),
        ({"format": "simple", "path": "x"}, "give table definitions"),
    ):
        with pytest.raises(PySparkException, match=reported):
            session.read.format("ticdc").options(**options).load().collect()
    limited = session.readStream.format("ticdc").options(format="avro", schemas=str(AVRO.meta_file), topic="t")
    with pytest.raises(PySparkException, match="at least 1"):
        limited.option("max_per_batch", "0").load()
    query = limited.option("max_per_batch", "9").load().writeStream.format("noop")
    with pytest.raises(PySparkException, match="limits for a Python source"):
        query.option("checkpointLocation", "limited").start().processAllAvailable()


@pytest.mark.slow
def test_kafka_as_a_batch_and_as_a_stream(session: SparkSession, kafka: Kafka) -> None:
    topic = kafka.create_topic(partitions=2)

    def send(messages: list[Message]) -> None:
        sink = message_sink(f"kafka:{topic}", KafkaClient(kafka.bootstrap_servers))
        for message in messages:
            sink.write(message)
        sink.close()

    messages = [replace(m, timestamp=None) for m in _messages()]  # Kafka would delete what is too old
    options = {
        "format": "avro", "schemas": str(AVRO.meta_file), "time_zone": ZONE, "topic": topic, "table": "test.evo",
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
    }  # fmt: skip
    send(messages[:5])
    batch = session.read.format("ticdc").options(**options).load()
    assert batch.count() == 5
    stream = session.readStream.format("ticdc").options(**options).load()

    def now() -> int:
        out, checkpoint = str(Path("out").absolute()), str(Path("checkpoint").absolute())
        query = stream.writeStream.format("parquet").option("path", out).option("checkpointLocation", checkpoint)
        query.trigger(availableNow=True).start().awaitTermination()
        return session.read.schema(stream.schema).parquet(out).count()

    assert now() == 5
    send(messages[5:])
    assert now() == len(messages)
    found = session.read.parquet(str(Path("out").absolute()))
    assert found.schema["after"].json() == batch.schema["after"].json()
    assert _rows(found) == _rows(session.read.format("ticdc").options(**options).load())
