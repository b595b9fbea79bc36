"""Kafka in and out of the commands: what is read, dead letters, tombstones, topics and brokers that are not there."""

from __future__ import annotations

import json
import socket
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.command_line import parse_job
from tests.support.golden import Golden
from tests.ticdc_bridge.cli.test_decode import AVRO, BAD, _avro, _file, _lines, _transcode
from ticdc_bridge.cli import main
from ticdc_bridge.cli.jobs.decode import Decode
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.spark_jobs.io.message_files import read_messages

if TYPE_CHECKING:
    from tests.support.kafka import Kafka


def _produce(kafka: Kafka, topic: str, messages: list[Message]) -> None:
    from confluent_kafka import Producer

    failures: list[object] = []
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for m in messages:
        producer.produce(
            topic,
            m.value,
            m.key,
            partition=m.partition or 0,
            headers=list(m.headers),
            timestamp=m.timestamp or 0,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    assert producer.flush(60) == 0
    assert failures == []


def _consume(kafka: Kafka, topic: str) -> list[Message]:
    from ticdc_bridge.clients.kafka import read_topic

    return list(read_topic(topic, {"bootstrap.servers": kafka.bootstrap_servers}))


def _schemas_of(topic: str) -> str:
    """The case's schemas under the subjects of another topic."""
    rows = [
        {**row, "subject": f"{topic}-{row['subject'].rpartition('-')[2]}"} for row in AVRO.meta["registered_schemas"]
    ]
    path = Path(f"{topic}.schemas.jsonl")
    path.write_text("\n".join(map(json.dumps, rows)))
    return str(path)


def _placeless(line: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in line.items() if k not in ("topic", "partition", "offset")}


def test_kafka_is_read_as_the_file_is(kafka: Kafka, capsys: pytest.CaptureFixture[str]) -> None:
    topic = kafka.create_topic(partitions=2)
    messages = [replace(m, partition=i % 2) for i, m in enumerate(AVRO.messages())]
    _produce(kafka, topic, messages)
    argv = _avro("--bootstrap-servers", kafka.bootstrap_servers, "--ddl", str(AVRO.meta_file), source=f"kafka:{topic}")
    argv += ["--schemas", _schemas_of(topic)]
    assert main(argv) == 0
    lines = _lines(capsys.readouterr().out)
    assert [(x["topic"], x["partition"], x["offset"]) for x in lines] == [
        (topic, p, o) for p in (0, 1) for o in range(len([m for m in messages if m.partition == p]))
    ]
    wanted = [_placeless(x) for x in AVRO.plain(ddl=True)]
    assert [_placeless(x) for x in lines] == wanted[0::2] + wanted[1::2]


def test_kafka_to_kafka_with_dead_letters(kafka: Kafka, capsys: pytest.CaptureFixture[str]) -> None:
    source, target, dead = (kafka.create_topic() for _ in range(3))
    stamped = [
        replace(m, timestamp=1_767_348_246_000 + i, headers=(("n", str(i).encode()),))
        for i, m in enumerate(AVRO.messages())
    ]
    bad = replace(BAD, timestamp=1_767_348_246_678)
    _produce(kafka, source, [*stamped[:3], bad, *stamped[3:]])
    servers = ["--bootstrap-servers", kafka.bootstrap_servers]
    location = [f"--in=kafka:{source}", *servers, "--out", f"kafka:{target}", "--dead-letter", f"kafka:{dead}"]
    same = ["--ddl", str(AVRO.meta_file), "--schemas", _schemas_of(source)]
    assert main([*_transcode(*same), *location]) == 1
    assert "transcode: errors 1 (NOT_FRAMED 1)" in capsys.readouterr().err
    named = _file("i.jsonl", [replace(m, topic=source) for m in stamped])
    assert main(_transcode(*same, "--out", "o.jsonl", source=named)) == 0
    wanted = [m for m in read_messages(Path("o.jsonl")) if isinstance(m, Message)]
    got = _consume(kafka, target)
    assert [(m.key, m.value, m.timestamp, m.headers) for m in got] == [
        (m.key, m.value, m.timestamp, m.headers) for m in wanted
    ]
    [letter] = _consume(kafka, dead)
    assert (letter.key, letter.value, letter.timestamp, letter.headers[0]) == (
        bad.key,
        bad.value,
        bad.timestamp,
        bad.headers[0],
    )
    assert dict(letter.headers)["bridge.origin"] == f"{source}/0/3".encode()
    # A dead letter is read again like any other message, and counted.
    assert main([*_avro("--dead-letter", "again.jsonl", source=f"kafka:{dead}"), *servers]) == 1
    [again] = (m for m in read_messages(Path("again.jsonl")) if isinstance(m, Message))
    assert dict(again.headers)["bridge.attempt"] == b"2"


def test_kafka_tombstones_and_empty_topics(kafka: Kafka, capsys: pytest.CaptureFixture[str]) -> None:
    from ticdc_bridge.clients.kafka import TopicWriter

    topic, empty = kafka.create_topic(), kafka.create_topic()
    writer = TopicWriter(None, {"bootstrap.servers": kafka.bootstrap_servers})
    sent = [
        Message(b"k", None, topic),
        Message(None, b"", topic),
        Message(b"", b"v", topic, 9, None, 5, (("a", None), ("a", b""))),
    ]
    for message in sent:
        writer.write(message)
    writer.close()
    got = _consume(kafka, topic)
    assert [(m.key, m.value, m.headers) for m in got] == [(m.key, m.value, m.headers) for m in sent]
    assert main([*_avro(source=f"kafka:{empty}"), "--bootstrap-servers", kafka.bootstrap_servers]) == 0
    assert capsys.readouterr().out == ""


def test_unknown_topic_ends_with_2(kafka: Kafka, capsys: pytest.CaptureFixture[str]) -> None:
    argv = _avro("--out", "o.jsonl", "--bootstrap-servers", kafka.bootstrap_servers, source="kafka:no-such-topic")
    assert main(argv) == 2
    assert "no-such-topic" in capsys.readouterr().err
    assert not Path("o.jsonl").exists()


@pytest.mark.parametrize("place", ["--in", pytest.param("--dead-letter", marks=pytest.mark.slow)])  # 10 s each
def test_a_broker_that_is_down_ends_with_2(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        servers = f"127.0.0.1:{taken.getsockname()[1]}"
        argv = _transcode("--bootstrap-servers", servers, source=_file("i.jsonl", [BAD, *AVRO.messages()]))
        assert main([*argv, "--out", "o.jsonl", place, "kafka:T"]) == 2
    err = capsys.readouterr().err
    assert "error KAFKA_UNREACHABLE: Kafka at 127.0.0.1:" in err
    assert not Path("o.jsonl").exists()


def test_a_topic_rule_with_a_name_that_no_rule_knows(capsys: pytest.CaptureFixture[str]) -> None:
    argv = _transcode("--topic", "{db}_x", source=_file("i.jsonl", AVRO.messages()))
    assert main([*argv, "--out", "o.jsonl"]) == 2
    reported = "topic rule '{db}_x': {db} is not known; a rule may have {schema} and {table}"
    assert reported in capsys.readouterr().err
    assert not Path("o.jsonl").exists()


def test_a_local_master_tries_a_task_again_and_what_spark_says_is_reported_plainly(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    masters = {"local": "local[1,4]", "local[3]": "local[3,4]", "local[*]": "local[*,4]", "local[2,1]": "local[2,1]"}
    for given, used in {**masters, "spark://h:7077": "spark://h:7077"}.items():
        assert parse_job(["decode", "--format", "open", "--in", "x", "--master", given]).master == used
    texts = {
        "Job aborted: org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)": "STOPPED",
        "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node": "KAFKA_UNREACHABLE",
        "org.apache.kafka.common.errors.TimeoutException: Topic t not present in metadata after 9 ms": "UNKNOWN_TOPIC",
        "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: no such topic": "UNKNOWN_TOPIC",
        "io.delta.exceptions.ConcurrentAppendException: [DELTA_CONCURRENT_APPEND] files were added": "STOPPED",
        "org.apache.spark.SparkException: Could not parse Master URL: 'nonsense'": "USAGE",
    }
    for text, code in texts.items():

        def fails(_args: object, text: str = text) -> int:
            raise RuntimeError(text)

        monkeypatch.setattr(Decode, "run", fails)
        assert main(["decode", "--format", "open", "--in", "x"]) == 2
        assert f"error {code}" in capsys.readouterr().err


@pytest.mark.parametrize("engine", [(), pytest.param(("--spark",), marks=pytest.mark.slow)], ids=["here", "spark"])
def test_several_topics_are_read_in_order(
    engine: tuple[str, ...], kafka: Kafka, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    """By name and by pattern: sorted by topic, partition and offset. None of them is written."""
    if engine:
        request.getfixturevalue("spark")
    prefix = kafka.topic_name("several")
    names = [kafka.create_topic(f"{prefix}.{end}", partitions=n) for end, n in (("b", 2), ("a", 1), ("x", 1))]
    messages = Golden("open", "wide.default").messages()[:6]
    for name, partitions in zip(names, (2, 1, 1), strict=True):
        _produce(kafka, name, [replace(m, partition=i % partitions) for i, m in enumerate(messages)])
    argv = ["decode", "--format", "open", "--ddl", "stream", "--bootstrap-servers", kafka.bootstrap_servers, *engine]
    wanted = [(f"{prefix}.a", 0, o) for o in range(6)] + [(f"{prefix}.b", p, o) for p in (0, 1) for o in range(3)]
    for source in (["--topics", rf"{prefix}\.[ab]"], ["--in", f"kafka:{prefix}.b,{prefix}.a"]):
        assert main([*argv, *source, "--out", "o.jsonl"]) == 0
        lines = _lines(Path("o.jsonl").read_text())
        assert list(dict.fromkeys((x["topic"], x["partition"], x["offset"]) for x in lines)) == wanted
    capsys.readouterr()
    for source, why in (
        (["--in", f"kafka:{prefix}.a,{prefix}.none"], f"Topic {prefix}.none: there is no such topic at "),
        (["--in", f"kafka:{prefix}.a,{prefix}.none"], f"similar: {prefix}."),
        (["--topics", f"{prefix}none.*"], "no topic's name fits"),
        (["--topics", f"{prefix}.*", "--until-resolved"], "a job for each topic"),
    ):
        assert main([*argv, *source, "--out", "o.jsonl"]) == 2
        assert why in capsys.readouterr().err
    write = ["transcode", "--from", "open", "--to", "debezium", *argv[3:], "--time-zone", "UTC"]
    assert main([*write, "--topics", rf"{prefix}\.[ab]", "--out", "kafka:", "--topic", f"{prefix}.a"]) == 2
    assert "the topic that is read" in capsys.readouterr().err
