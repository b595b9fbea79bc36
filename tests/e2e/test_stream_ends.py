"""How a stream ends, and what the next start finds: signals, refusals that come again, tries that were cut off."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition

from tests.support.changes import POISON, Changes, change_of
from tests.support.golden import Golden
from tests.support.processes import Job, until
from tests.support.registries import answer, golden_registry, serving
from tests.support.streams import delta_rows, letters, lines, received, run_while, send
from tests.support.table import check_rows
from ticdc_bridge.cli import main
from ticdc_bridge.clients.http import stop_requested
from ticdc_bridge.spark_jobs.streaming import sinks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.kafka import Kafka

CHECKPOINT = Path("checkpoint/spark")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kafka: Kafka, spark: SparkSession) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BRIDGE_BOOTSTRAP_SERVERS", kafka.bootstrap_servers)
    Changes().ddl(Path("ddl.jsonl"))
    yield
    spark.catalog.clearCache()


def decode(source: str, *more: str, trigger: str = "now", out: str = "out") -> list[str]:
    return ["decode", "--format", "open", "--in", f"kafka:{source}", "--ddl", "ddl.jsonl", "--out", out,
            "--stream", "--checkpoint", "checkpoint", "--trigger", trigger, *more]  # fmt: skip


def filled(kafka: Kafka, changes: Changes, count: int) -> str:
    source = kafka.create_topic(partitions=changes.partitions)
    send(kafka, source, changes.lot(count))
    return source


def rows(folder: str = "out") -> Counter[Any]:
    return Counter(change_of(line) for line in lines(folder) if line["kind"] == "row")


def commits() -> list[str]:
    return sorted(path.name for path in (CHECKPOINT / "commits").glob("[0-9]*"))


# ---- signals
def test_ctrl_c_ends_a_stream_and_the_next_start_goes_on(kafka: Kafka, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 130, with the summary of what was done; no row twice, none left out."""
    changes = Changes()
    source = filled(kafka, changes, 20)
    ended = threading.Event()

    def press() -> None:
        with suppress(AssertionError):
            until(lambda: rows() == Counter(changes.made) and bool(commits()), "the rows are written")
        while not ended.wait(1):
            os.kill(os.getpid(), signal.SIGINT)
            ended.wait(30)  # a second one would cut it off

    thread = threading.Thread(target=press)
    thread.start()
    try:
        assert main(decode(source, trigger="200ms")) == 130
    finally:
        ended.set()
        thread.join()
    err = capsys.readouterr().err
    assert "messages in 22" in err
    assert "the next start goes on from the checkpoint" in err
    send(kafka, source, changes.lot(20))
    assert main(decode(source)) == 0
    assert rows() == Counter(changes.made)


def test_a_stream_that_waits_for_the_registry_ends_when_asked(kafka: Kafka) -> None:
    """At once, though its patience is ten minutes."""
    golden = Golden("avro", "evolution.ext1")
    respond, asked = golden_registry(golden), threading.Event()

    def away(method: str, path: str, body: bytes) -> Any:
        if path == "/":
            return respond(method, path, body)
        asked.set()
        return answer(503, {"error_code": 50301, "message": "away"})

    def reported() -> None:
        assert asked.wait(120)

    source = kafka.create_topic()
    send(kafka, source, [m for m in golden.messages() if m.topic == "tidb_test_evo"][:4])
    with serving(away) as server:
        words = ["decode", "--format", "avro", "--registry", server.url, "--in", f"kafka:{source}",
                 "--patience", "600s",
                 "--table", "test.evo", "--out", "delta:rows", "--stream", "--checkpoint", "checkpoint"]  # fmt: skip
        assert run_while([*words, "--trigger", "200ms"], reported) == 0
        assert not stop_requested.is_set(), "what this process does next could not wait"
    assert commits() == []


@pytest.mark.slow
@pytest.mark.parametrize("command", ["decode", "merge"])
def test_a_java_process_that_is_killed_ends_a_stream(command: str, kafka: Kafka, spark: SparkSession) -> None:
    """At once and by its name, not as Kafka that is away; the next start goes on from the checkpoint."""
    changes = Changes()
    source = filled(kafka, changes, 20)
    more = ["--table", "shop.orders"] if command == "merge" else []
    argv = [command, *decode(source, *more, trigger="200ms", out="delta:out" if more else "out")[1:]]
    with Job(argv, Path.cwd()) as job:
        job.until(lambda: bool(commits()), "a micro-batch is done")
        (java,) = job.processes("org.apache.spark.deploy.SparkSubmit")
        began = time.monotonic()
        java.kill()
        assert job.wait(60) == 2, job.log[-3000:]
        assert time.monotonic() - began < 20
        assert "error JAVA_ENDED: the Java process of Spark was killed (SIGKILL)" in job.log
        assert "Traceback" not in job.log
        assert "KAFKA" not in job.log
    send(kafka, source, changes.lot(20))
    argv[argv.index("--trigger") + 1] = "now"
    assert main(argv) == 0
    if more:
        merged = spark.read.format("delta").load(str(Path("out").absolute())).collect()
        assert {row["id"]: str(row["total"]) for row in merged} == changes.table
    else:
        assert rows() == Counter(changes.made)


# ---- what comes again at each try
def test_messages_that_are_gone_from_kafka_stop_a_stream(kafka: Kafka, capsys: pytest.CaptureFixture[str]) -> None:
    """Their retention ended before they were read: nobody may think that they were."""
    changes = Changes(partitions=1)
    source = filled(kafka, changes, 10)
    assert main(decode(source)) == 0
    send(kafka, source, changes.lot(10))
    admin = kafka.admin
    for deleted in admin.delete_records([TopicPartition(source, 0, 15)]).values():
        deleted.result(30)
    before = commits()
    capsys.readouterr()
    assert main(decode(source, trigger="200ms")) == 2
    err = capsys.readouterr().err
    assert "STOPPED" in err
    assert "are gone from Kafka" in err
    assert commits() == before


@pytest.mark.slow
def test_a_message_that_a_topic_refuses_stops_a_stream(kafka: Kafka, capsys: pytest.CaptureFixture[str]) -> None:
    """A topic takes less than a row: told, and nothing counts as written."""
    source, out = filled(kafka, Changes(), 20), kafka.create_topic(config={"max.message.bytes": "100"})
    assert main(decode(source, out=f"kafka:{out}")) == 2
    err = capsys.readouterr().err
    assert "STOPPED" in err
    assert "RecordTooLarge" in err
    assert commits() == []
    assert received(kafka, out) == []


@pytest.mark.slow
def test_a_topic_that_takes_less_at_once_than_a_producer_sends_loses_nothing(kafka: Kafka) -> None:
    """A batch that a broker refuses is split by the client, which then may lose what was in it."""
    changes = Changes()
    source, out = filled(kafka, changes, 200), kafka.create_topic(config={"max.message.bytes": "1500"})
    assert main(decode(source, out=f"kafka:{out}")) == 0
    found = [json.loads(message.value or b"") for message in received(kafka, out)]
    assert Counter(change_of(line) for line in found if line["kind"] == "row") == Counter(changes.made)


# ---- what a checkpoint knows
def test_a_checkpoint_serves_one_job(kafka: Kafka, capsys: pytest.CaptureFixture[str]) -> None:
    changes = Changes()
    source, out = filled(kafka, changes, 10), kafka.create_topic()
    words = ["transcode", "--from", "open", "--in", f"kafka:{source}", "--ddl", "ddl.jsonl", "--time-zone", "UTC",
             "--out", f"kafka:{out}", "--stream", "--checkpoint", "checkpoint", "--trigger", "now"]  # fmt: skip
    assert main([*words, "--to", "craft"]) == 0
    written = received(kafka, out)
    assert main([*words, "--to", "open"]) == 2
    assert "--checkpoint" in capsys.readouterr().err
    assert received(kafka, out) == written


def test_a_folder_takes_the_files_of_one_stream(kafka: Kafka, capsys: pytest.CaptureFixture[str]) -> None:
    """Another checkpoint counts its micro-batches from 0 too: it would replace what the first one wrote."""
    changes = Changes()
    source = filled(kafka, changes, 10)
    assert main(decode(source)) == 0
    words = decode(source)
    words[words.index("checkpoint")] = "another"
    assert main(words) == 2
    assert "out" in capsys.readouterr().err
    assert rows() == Counter(changes.made)


@pytest.mark.slow
def test_rows_that_were_held_come_without_until_resolved_too(kafka: Kafka, capsys: pytest.CaptureFixture[str]) -> None:
    """A run without the flag writes what the run before it held back."""
    changes = Changes()
    source = kafka.create_topic(partitions=2)
    sent = changes.lot(20)
    send(kafka, source, sent[:-2])  # without watermarks
    assert main(decode(source, "--until-resolved")) == 2
    assert "not every partition of the topic has sent a watermark" in capsys.readouterr().err
    assert not rows()
    send(kafka, source, changes.lot(5))
    capsys.readouterr()
    assert main(decode(source)) == 0
    assert rows() == Counter(changes.made)
    assert "20" in capsys.readouterr().err
    for id_ in {change[2] for change in changes.made}:
        times = [change[0] for change in rows() if change[2] == id_]
        assert times == sorted(times)


class _CutOff(Exception):
    """The end of a try between a batch's dead letters and its rows."""


@pytest.mark.parametrize("dead", ["dead", pytest.param("delta:dead", marks=pytest.mark.slow)])
def test_a_try_that_was_cut_off_leaves_no_row_out(
    kafka: Kafka, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, dead: str
) -> None:
    """What failed in it may be a row when it is tried again, and the other way round: here the table is known then."""
    changes = Changes(partitions=1, poison=2)
    source = filled(kafka, changes, 10)
    Path("ddl.jsonl").write_text("")
    write = sinks._FolderSink.write

    def cut(position: Any, frame: Any, number: int, by_time: bool) -> None:
        if position._folder.name == "out":
            raise _CutOff
        write(position, frame, number, by_time)

    words = decode(source, "--dead-letter", dead)
    with monkeypatch.context() as patched, suppress(_CutOff):
        patched.setattr(sinks._FolderSink, "write", cut)
        patched.setattr(sinks._FolderSink, "write_nothing", lambda position, number: cut(position, None, number, False))
        main(words)
    assert commits() == []
    first = _dead(spark, dead)
    Changes().ddl(Path("ddl.jsonl"))
    assert main(words) == 1
    assert rows() == Counter(changes.made)
    found = _dead(spark, dead)
    assert {POISON.value} <= {*found}
    assert found == [POISON.value] * 2 or (dead.startswith("delta:") and len(found) == len(first) + 2)


def _dead(spark: SparkSession, dead: str) -> list[bytes | None]:
    if dead.startswith("delta:"):
        return [bytes(row["value"]) for row in delta_rows(spark, "dead")]
    return [message.value for message in letters("dead")]


# ---- places that can't be
def test_a_place_that_cannot_be_written_is_named_at_the_start(kafka: Kafka, capsys: pytest.CaptureFixture[str]) -> None:
    Path("file").write_text("something else")
    source = filled(kafka, Changes(), 2)

    def check(row: tuple[str, str, str]) -> None:
        *words, reported = row
        assert main(decode(source, *words)) == 2
        assert reported in capsys.readouterr().err
        assert not CHECKPOINT.exists() or commits() == []
        assert Path("file").read_text() == "something else"

    positions = [("--metrics", "absent/m.prom", "absent"), ("--dead-letter", "delta:file", "file"),
              ("--dead-letter", "file", "file")]  # fmt: skip
    check_rows(positions, check)


@pytest.mark.slow
def test_a_topic_rule_that_names_the_topic_that_is_read(kafka: Kafka, capsys: pytest.CaptureFixture[str]) -> None:
    """The job would read what it wrote, and a stream without end."""
    changes = Changes(partitions=1)
    rule = f"{kafka.topic_name()}_{{schema}}_{{table}}"
    source = kafka.create_topic(rule.replace("{schema}", "shop").replace("{table}", "orders"))
    send(kafka, source, changes.lot(10))
    existing = received(kafka, source)
    words = ["transcode", "--from", "open", "--to", "craft", "--in", f"kafka:{source}", "--ddl", "ddl.jsonl",
             "--time-zone", "UTC", "--out", "kafka:", "--topic", rule]  # fmt: skip

    def check(more: list[str]) -> None:
        assert main([*words, *more]) == 2
        assert f"the rule gives {source}, the topic that is read" in capsys.readouterr().err
        assert received(kafka, source) == existing

    check_rows([[], ["--spark"], ["--stream", "--checkpoint", "checkpoint", "--trigger", "200ms"]], check)
