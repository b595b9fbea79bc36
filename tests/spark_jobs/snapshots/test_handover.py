"""`load --in kafka:…`: whether a changefeed began at or before the snapshot, by a real broker's topics."""

import json
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from pyspark.sql import SparkSession

from tests.support.dumps import write_dump
from tests.support.kafka import Broker
from tests.support.streams import send
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.model.event import Message

TSO = 463_299_738_777_157_634
SECOND = 1000 << 18
CREATE = "CREATE TABLE `t` (\n  `id` int NOT NULL,\n  PRIMARY KEY (`id`)\n)"


def row(seconds: int | None, partition: int = 0) -> Message:
    """A change so long after the snapshot; None: of a changefeed that tells no commit_ts."""
    value = {
        "id": 0, "database": "d", "table": "t", "pkNames": ["id"], "isDdl": False, "type": "INSERT", "es": 1, "ts": 1,
        "sql": "", "sqlType": {"id": 4}, "mysqlType": {"id": "int"}, "data": [{"id": "1"}], "old": None,
    }  # fmt: skip
    timed = {} if seconds is None else {"_tidb": {"commitTs": TSO + seconds * SECOND}}
    return Message(None, json.dumps({**value, **timed}).encode(), partition=partition)


def watermark(seconds: int, partition: int = 0) -> Message:
    value = {"id": 0, "database": "", "table": "", "pkNames": None, "isDdl": False, "type": "TIDB_WATERMARK", "es": 1,
             "ts": 1, "sql": "", "sqlType": None, "mysqlType": None, "data": None, "old": None,
             "_tidb": {"watermarkTs": TSO + seconds * SECOND}}  # fmt: skip
    return Message(None, json.dumps(value).encode(), partition=partition)


def load(kafka: Broker, topic: str, folder: Path, *more: str) -> int:
    source = str(folder / "dump")
    if not (folder / "dump").exists():
        write_dump(folder / "dump", TSO, CREATE, [("1",)])
    words = ["load", "--source", f"dumpling:{source}", "--table", "d.t", "--out", f"delta:{folder}/lake", "--dry-run"]
    words += ["--in", f"kafka:{topic}", "--bootstrap-servers", kafka.bootstrap_servers, "--format", "canal-json"]
    return main([*words, *more])


@pytest.mark.parametrize(
    ("messages", "code", "text"),
    [
        ([watermark(-1), row(5)], 0, ""),
        ([row(5, 1), watermark(0, 0), watermark(9, 1)], 0, ""),
        ([row(3), row(-2), watermark(9)], 0, ""),
        ([watermark(2), row(5)], 2, f"begins with commit_ts {TSO + 2 * SECOND}, after the snapshot (TSO {TSO})"),
        ([row(5), row(7, 1)], 2, f"cdc cli changefeed create --start-ts={TSO} …"),
        ([row(None)], 0, "has no message with a commit_ts"),
        ([], 0, "has no message with a commit_ts"),
    ],
    ids=["before", "at", "by its change", "later", "later change", "untimed", "empty"],
)  # fmt: skip
def test_what_a_topic_begins_with(
    kafka: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str], messages: list[Message], code: int, text: str
) -> None:
    topic = kafka.create_topic(partitions=2)
    send(kafka, topic, messages)  # type: ignore[arg-type]
    assert load(kafka, topic, tmp_path) == code
    said = capsys.readouterr().err
    assert text in said
    assert ("warning: whether" in said) is (code == 0 and text != "")
    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize(
    ("left", "code", "text"),
    [
        ([watermark(0)], 0, ""),
        ([watermark(4)], 2, f"begins at offset 2 with commit_ts {TSO + 4 * SECOND}"),
        ([], 0, "begins at offset 2, and what is left of it has no commit_ts"),
    ],
    ids=["before", "after", "nothing"],
)
def test_what_retention_left(
    kafka: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str], left: list[Message], code: int, text: str
) -> None:
    """A gap may be where messages are gone, whatever other partitions have."""
    topic = kafka.create_topic(partitions=2)
    send(kafka, topic, [watermark(-9, 1), watermark(-9), row(1), *left])  # type: ignore[arg-type]
    admin = kafka.admin
    gone = admin.delete_records([TopicPartition(topic, 0, 2)])
    assert [future.result().low_watermark for future in gone.values()] == [2]
    assert load(kafka, topic, tmp_path) == code
    assert text in capsys.readouterr().err


def test_a_place_that_is_no_topic(kafka: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert load(kafka, "no_such_topic", tmp_path) == 2
    assert "UNKNOWN_TOPIC" in capsys.readouterr().err
    assert load(kafka, "", tmp_path) == 2
    assert "kafka:TOPIC is needed" in capsys.readouterr().err


def change(kind: str, id_: int, seconds: int) -> Message:
    message = json.loads(row(seconds).value or b"")
    message |= {"type": kind, "data": [{"id": str(id_)}]}
    return Message(None, json.dumps(message).encode(), partition=0)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_stream_after_its_checkpoint_is_lost_and_after_retention(
    kafka: Broker, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """What docs/production.md says for both: a new checkpoint from the topic's beginning; a load, then the same."""
    monkeypatch.chdir(tmp_path)
    topic = kafka.create_topic()
    (tmp_path / "t.sql").write_text(f"{CREATE};")
    write_dump(tmp_path / "dump", TSO, CREATE, [("1",), ("2",)])

    def merged(checkpoint: str) -> int:
        words = ["merge", "--format", "canal-json", "--ddl", "t.sql", "--in", f"kafka:{topic}", "--table", "d.t"]
        words += ["--bootstrap-servers", kafka.bootstrap_servers, "--out", f"delta:{tmp_path}/lake"]
        return main([*words, "--stream", "--trigger", "now", "--checkpoint", checkpoint])

    def ids() -> set[int]:
        return {row["id"] for row in spark.read.format("delta").load(str(tmp_path / "lake")).collect()}

    send(kafka, topic, [watermark(-9), change("INSERT", 3, 1), change("DELETE", 1, 2)])  # type: ignore[arg-type]
    words = ["load", "--source", "dumpling:dump", "--table", "d.t", "--out", f"delta:{tmp_path}/lake", "--replace"]
    words += ["--in", f"kafka:{topic}", "--bootstrap-servers", kafka.bootstrap_servers, "--format", "canal-json"]
    assert (main(words), merged("first"), ids()) == (0, 0, {2, 3})
    send(kafka, topic, [change("DELETE", 2, 3), change("INSERT", 4, 4)])  # type: ignore[arg-type]
    assert (merged("second"), ids()) == (0, {3, 4})  # the first checkpoint is lost

    send(kafka, topic, [change("DELETE", 3, 5), change("INSERT", 5, 6), watermark(7)])  # type: ignore[arg-type]
    admin = kafka.admin  # held: its answers go with it
    [future] = admin.delete_records([TopicPartition(topic, 0, 7)]).values()
    future.result(60)
    assert merged("second") == 2
    assert "are gone from Kafka" in capsys.readouterr().err
    assert main(words) == 2  # the old dump leaves a gap
    assert "begins at offset 7 with commit_ts" in capsys.readouterr().err
    write_dump(tmp_path / "dump", TSO + 8 * SECOND, CREATE, [("4",), ("5",)])
    assert main(words) == 0
    send(kafka, topic, [change("INSERT", 6, 9)])  # type: ignore[arg-type]
    assert (merged("third"), ids()) == (0, {4, 5, 6})
