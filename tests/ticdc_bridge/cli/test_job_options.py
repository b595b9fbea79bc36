"""--dedupe, --until-resolved, --on-error, --topic, --subject-strategy, and the metrics of a run, in this process."""

import json
import socket
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.golden import Golden
from tests.ticdc_bridge.cli.test_encode import found, numbered, written
from ticdc_bridge.cli import job_runner, main
from ticdc_bridge.cli.job_options import with_login
from ticdc_bridge.clients.kafka import TopicChoice
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.event import Message, ms_to_tso
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.service.testing import running_service
from ticdc_bridge.spark_jobs.io.locations import KafkaClient
from ticdc_bridge.spark_jobs.io.message_files import read_messages
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.job import Job
from ticdc_bridge.spark_jobs.pipeline.result import Summary
from ticdc_bridge.spark_jobs.streaming import lineage, stream
from ticdc_bridge.spark_jobs.streaming.checkpoint import Checkpoint
from ticdc_bridge.spark_jobs.streaming.kafka_source import KafkaSource
from ticdc_bridge.spark_jobs.streaming.metrics import JobMetrics, check
from ticdc_bridge.spark_jobs.streaming.stages import BatchResult

OPEN = Golden("open", "wide.default")
AVRO = Golden("avro", "evolution.ext1")
BAD = Message(b"k", b"\x07nope", "t", 0, 99, None, (("x", b"\x00\xff"),))


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(name).read_text().splitlines()]


def decode(*more: str, source: list[Message]) -> int:
    return main(["decode", "--format", "open", "--in", written(source), "--out", "l", "--ddl", "stream", *more])


def test_dedupe_leaves_out_what_came_before(capsys: pytest.CaptureFixture[str]) -> None:
    messages = numbered(OPEN)
    again = [replace(m, offset=100 + (m.offset or 0)) for m in messages]
    assert decode(source=messages) == 0
    once = lines("l")
    assert decode("--dedupe", source=[*messages, *again]) == 0
    rows = [line for line in lines("l") if line["kind"] == "row"]
    assert rows == [line for line in once if line["kind"] == "row"]
    assert f"decode: skipped duplicate {len(rows)}" in capsys.readouterr().err


def test_until_resolved_waits_for_every_partition(capsys: pytest.CaptureFixture[str]) -> None:
    assert decode(source=numbered(OPEN)) == 0
    rows = [line for line in lines("l") if line["kind"] == "row"]
    stamps = sorted({line["commit_ts"] for line in rows})
    middle, end = stamps[len(stamps) // 2], stamps[-1]

    def mark(commit_ts: int, partition: int, offset: int) -> Message:
        head = json.dumps({"ts": commit_ts, "t": 3}).encode()
        key = (1).to_bytes(8, "big") + len(head).to_bytes(8, "big") + head
        return Message(key, bytes(8), "t", partition, offset)

    changes = [m for m in numbered(OPEN) if (m.value or b"")[8:9] == b"{" and b'"t":3' not in (m.key or b"")]
    turned = list(reversed(changes))
    source = [*turned, mark(end, 0, 200), mark(middle, 1, 0)]
    assert decode("--until-resolved", source=source) == 0
    released = [line["commit_ts"] for line in lines("l") if line["kind"] == "row"]
    assert released == sorted(t for t in (line["commit_ts"] for line in rows) if t <= middle)
    assert "held back" in capsys.readouterr().err
    assert decode("--until-resolved", source=[*turned, mark(end, 0, 200)]) == 0
    assert len([line for line in lines("l") if line["kind"] == "row"]) == len(rows)


def test_until_resolved_needs_a_watermark(capsys: pytest.CaptureFixture[str]) -> None:
    source = ["--format", "avro", "--schemas", str(AVRO.meta_file), "--in", str(AVRO.messages_file)]
    keyed = [m for m in numbered(AVRO) if m.value is not None]
    source[-1] = written(keyed)
    assert main(["decode", *source, "--out", "l", "--until-resolved"]) == 2
    assert "sends no watermark" in capsys.readouterr().err
    assert not Path("l").exists()


@pytest.mark.parametrize(("policy", "code"), [("dead-letter", 1), ("drop", 0), ("fail", 2)])
def test_on_error(policy: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    source = written([*numbered(AVRO)[:2], BAD, *numbered(AVRO)[2:4]])
    argv = ["transcode", "--from", "avro", "--to", "debezium", "--schemas", str(AVRO.meta_file), "--in", source]
    assert main([*argv, "--ddl", str(AVRO.meta_file), "--out", "m.jsonl", "--on-error", policy]) == code
    err = capsys.readouterr().err
    assert Path("m.jsonl").exists() == (policy != "fail")
    assert Path("m.jsonl.dead.jsonl").exists() == (policy == "dead-letter")
    error_text = {
        "dead-letter": "errors 1 (NOT_FRAMED 1)",
        "drop": "dropped 1 of",
        "fail": "stopped at t/0/99: NOT_FRAMED",
    }
    assert error_text[policy] in err


@pytest.mark.parametrize("strategy", ["topic", "record", "topic-record"])
def test_what_is_written_is_registered(strategy: str) -> None:
    """With a real service: TiCDC's and Debezium's schemas, under the subjects of the strategy, and frames with ids."""
    meta = str(AVRO.meta_file)
    rows = written([m for m in numbered(AVRO) if m.topic == "tidb_test_evo"][:4])
    argv = ["transcode", "--from", "avro", "--schemas", meta, "--ddl", meta, "--in", rows, "--to-options", "o.json"]
    Path("o.json").write_text('{"enable_tidb_extension": true}')
    with running_service() as url:
        target = ["--to-registry", url, "--subject-strategy", strategy]
        for to in ("avro", "debezium-avro"):
            assert main([*argv, "--to", to, *target, "--topic", f"{to}.{{table}}", "--out", f"{to}.jsonl"]) == 0
            assert main(["decode", "--format", to, "--registry", url, "--in", f"{to}.jsonl", "--out", "l"]) == 0
            assert len(lines("l")) == 4
        subjects = set(_get(f"{url}/subjects"))
    expected = {
        "topic": {"avro_evo-key", "avro_evo-value", "debezium-avro.evo-key", "debezium-avro.evo-value"},
        "record": {"default.test.evo-key", "default.test.evo", "default.test.evoKey", "default.test.evoEnvelope"},
        "topic-record": {
            "avro_evo-default.test.evo-key", "avro_evo-default.test.evo", "debezium-avro.evo-default.test.evoKey",
            "debezium-avro.evo-default.test.evoEnvelope",
        },
    }  # fmt: skip
    assert subjects == expected[strategy]


def test_a_schema_that_is_not_in_the_file_is_an_error() -> None:
    meta = str(AVRO.meta_file)
    Path("none.jsonl").write_text("")
    argv = ["transcode", "--from", "avro", "--to", "avro", "--schemas", meta, "--in", written(numbered(AVRO)[:2])]
    assert main([*argv, "--to-schemas", "none.jsonl", "--out", "m.jsonl"]) == 1
    assert {dict(m.headers)["bridge.reason"] for m in found("m.jsonl.dead.jsonl")} == {b"UNSUPPORTED_SCHEMA"}


def test_metrics_and_lineage(monkeypatch: pytest.MonkeyPatch) -> None:
    source = written([*numbered(AVRO)[:3], BAD])
    with running_service() as url:
        argv = ["decode", "--format", "avro", "--schemas", str(AVRO.meta_file), "--in", source, "--out", "l"]
        for _ in range(2):
            assert main([*argv, "--metrics", "m.prom", "--lineage", url, "--job", "orders"]) == 1
        edges = _get(f"{url}/lineage?job=orders&table=test.evo")
        assert _get(f"{url}/lineage?job=other") == []
        argv = ["transcode", "--from", "avro", "--to", "open", "--schemas", str(AVRO.meta_file), "--on-error", "drop"]
        assert main([*argv, "--in", source, "--out", "o", "--lineage", url, "--job", "none"]) == 0
        [nothing] = _get(f"{url}/lineage?job=none")
        job, summary = Job(CodecConfig("avro", FileSchemas([]), Options.of({}))), Summary(errors=Counter(A=1))
        head = (url, "stream", "merge", "kafka:t", "delta:x", job)
        lineage.post(*head, summary, {"t": 4}, {"t": {0: 7}}, errors_before=Counter(A=2, B=1))
        [stream_edge] = _get(f"{url}/lineage?job=stream")
        monkeypatch.setattr(job_runner, "_run_job", _away)
        assert main([*argv, "--in", source, "--out", "o", "--lineage", url, "--job", "none"]) == 2
        [stopped] = [edge for edge in _get(f"{url}/lineage?job=none") if edge["stopped"]]
    assert (stream_edge["topic"], stream_edge["waiting"], stream_edge["positions"]) == ("t", 4, {"0": 7})
    assert (stream_edge["failed"], stream_edge["errors"]) == (4, {"A": 3, "B": 1})
    assert stopped["stopped"].startswith("KAFKA_UNREACHABLE: Kafka at x:1")
    assert (nothing["table"], nothing["rows"], nothing["failed"], nothing["dead_letter"]) == ("", 0, 4, None)
    assert [(e["failed"], e["dead_letter"], e["errors"]) for e in edges] == [(1, None, {"NOT_FRAMED": 1})] * len(edges)
    text = Path("m.prom").read_text()
    assert 'bridge_job_messages_in_total{pipeline="orders"} 4.0' in text
    assert 'bridge_job_failed_total{pipeline="orders",reason="NOT_FRAMED"} 1.0' in text
    assert [(e["topic"], e["from"], e["target"]) for e in edges] == [("tidb_test_evo", "avro", "l")] * len(edges)
    assert sum(e["rows"] for e in edges) == 6


def test_a_port_of_metrics_that_is_taken(tmp_path: Path) -> None:
    """A stream says so before it reads anything."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(SetupError, match=f"--metrics :{port}: .*in use") as found:
            JobMetrics(f":{port}", "orders")
    assert found.value.code == "USAGE"
    for port_text in (":http", ":70000"):
        with pytest.raises(SetupError, match=f"--metrics {port_text}: a file or :PORT"):
            JobMetrics(port_text, "orders")
    with pytest.raises(SetupError, match="goes with --stream"):
        check(":9100")


def test_the_lag_counts_partitions_without_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a micro-batch that had nothing of a partition, that partition's messages still wait."""
    config = CodecConfig("avro", FileSchemas([]), Options.of({}))
    location = str(tmp_path / "m.prom")
    what = stream.StreamJob(
        "decode", Job(config), "kafka:t", "out", None, KafkaClient("x:1"), "c", None, metrics=location
    )
    running = object.__new__(stream._RunningStream)
    running._stream, running._source = what, KafkaSource(TopicChoice("t"), KafkaClient("x:1"), None)  # type: ignore[arg-type]
    running._metrics, running.total, running._lineage_run = JobMetrics(location, "orders"), Summary(), None
    newest = {0: 10, 1: 5, 2: 0}
    monkeypatch.setattr(KafkaSource, "_ends", lambda *_: newest)
    running._tell(BatchResult(Summary(messages=9), {0: 7, 1: 4}), 0, 1.0)
    newest = {0: 20, 1: 8, 2: 0}
    running._tell(BatchResult(Summary(messages=10), {0: 19}), 1, 2.0)
    monkeypatch.setattr(KafkaSource, "_ends", _away)
    running._tell(BatchResult(Summary(messages=1), {0: 20}), 2, 1.0)
    output = [line for line in capsys.readouterr().err.splitlines() if line.startswith("decode: batch")]
    assert [line.rpartition("lag ")[2] for line in output] == ["2, 9/s", "3, 5/s", "unknown, 1/s"]
    assert 'bridge_job_messages_in_total{pipeline="orders"} 20.0' in Path(location).read_text()
    assert 'bridge_job_lag{pipeline="orders",topic="t"} 3.0' in Path(location).read_text()
    assert running._source.positions() == {"t": {0: 21, 1: 5}}
    assert running.total.messages == 20


def test_the_topic_that_all_others_wait_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Once, where its watermarks have ended: those of a topic whose tables are all dropped do."""
    hour = ms_to_tso(3_600_000)
    job = Job(CodecConfig("open", FileSchemas([]), Options.of({})), consistent="delta:points")
    running = object.__new__(stream._RunningStream)
    running._stream = stream.StreamJob("merge", job, "kafka:a,b", "out", None, KafkaClient("x:1"), "c", None)
    running._checkpoint, running._last_warned = Checkpoint(tmp_path, {}), -1
    running._source = KafkaSource(TopicChoice("a,b"), KafkaClient("x:1"), running._checkpoint)
    running._source.numbers = [("a", 0), ("b", 0)]
    batches: list[tuple[dict[int, int], dict[int, int]]] = [
        ({}, {}), ({0: 7, 1: 7}, {0: 7, 1: 7}), ({0: hour, 1: 7}, {0: hour, 1: 7}), ({0: hour, 1: 7}, {0: hour}),
        ({0: 2 * hour, 1: 7}, {0: 2 * hour}), ({0: 2 * hour, 1: 2 * hour - 1}, {0: 2 * hour}),
    ]  # fmt: skip
    for number, (marks, new) in enumerate(batches):
        running._checkpoint.keep_watermarks(number, marks)
        running._warn_of_last(BatchResult(watermarks=new), number)
        told = capsys.readouterr().err
        assert ("all rows wait for topic b, whose newest watermark is 7," in told) == (number == 3), number


def _away(*_: object) -> dict[int, int]:
    raise SetupError("KAFKA_UNREACHABLE", servers="x:1", details="it is away")


def _get(url: str) -> Any:
    from urllib.request import urlopen

    with urlopen(url, timeout=30) as answer:
        return json.loads(answer.read())


def test_replay_sends_the_original_and_ends(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["decode", "--format", "avro", "--schemas", str(AVRO.meta_file), "--out", "l", "--dead-letter", "d.jsonl"]
    source = written([BAD, numbered(AVRO)[0]])
    for attempt in (1, 2, 3):
        assert main([*argv, "--in", source]) == 1
        (letter,) = found("d.jsonl")
        assert dict(letter.headers)["bridge.attempt"] == str(attempt).encode()
        code = main(["replay", "--in", "d.jsonl", "--out", "again.jsonl", "--reason", "NOT_FRAMED"])
        assert code == (1 if attempt == 3 else 0)
        source = "again.jsonl"
        if attempt < 3:
            (again,) = read_messages(Path("again.jsonl"))
            assert isinstance(again, Message)
            assert (again.key, again.value, again.topic, again.partition, again.offset) == (
                BAD.key, BAD.value, "t", 0, 99,
            )  # fmt: skip
            assert again.headers == (
                ("x", b"\x00\xff"), ("bridge.origin", b"t/0/99"), ("bridge.attempt", str(attempt).encode())
            )  # fmt: skip
    assert found("again.jsonl") == []
    err = capsys.readouterr().err
    assert "failed too often 1" in err
    assert "TOO_MANY_ATTEMPTS: t/0/99 failed 3 times (--max-attempts 3), the last time by NOT_FRAMED" in err
    assert main(["replay", "--in", "d.jsonl", "--out", "again.jsonl", "--reason", "TRUNCATED"]) == 0
    assert "other reason NOT_FRAMED 1" in capsys.readouterr().err
    assert main(["replay", "--in", "d.jsonl", "--out", "again.jsonl", "--reason", "LOSY_VALUE"]) == 2
    err = capsys.readouterr().err
    assert "--reason LOSY_VALUE is not known: did you mean LOSSY_VALUE? Known: BAD_LINE, " in err
    assert "MODE_NOT_CONFIGURED" not in err  # codes of the REST API are no reasons
    assert main(["replay", "--in", "d.jsonl", "--out", "again.jsonl", "--since", "2026-11-21T00:00:00Z"]) == 0
    assert "older, or without a time 1" in capsys.readouterr().err


def test_replay_sends_the_last_letter_of_a_message(capsys: pytest.CaptureFixture[str]) -> None:
    """A place that keeps all letters, as a topic does: one that failed again is not sent for its first failure too."""

    def letter(attempt: int, value: bytes = b"v", origin: bytes = b"t/0/7", reason: bytes = b"MALFORMED") -> Message:
        reported = (("bridge.reason", reason), ("bridge.origin", origin), ("bridge.attempt", str(attempt).encode()))
        return Message(b"k", value, "dead", 0, attempt, None, reported)

    nowhere = letter(1, origin=b"-/-/-")
    again = [letter(1), letter(2), letter(1), letter(2, reason=b"TRUNCATED"), letter(1, b"other"), nowhere, nowhere]
    assert main(["replay", "--in", written(again, "d.jsonl"), "--out", "again.jsonl"]) == 0
    assert [(dict(m.headers)["bridge.attempt"], m.value, m.topic, m.offset) for m in found("again.jsonl")] == [
        (b"2", b"v", "t", 7), (b"1", b"other", "t", 7), (b"1", b"v", None, None), (b"1", b"v", None, None),
    ]  # fmt: skip
    err = capsys.readouterr().err
    assert "replay: left out, it failed again since (a later letter is here) 2\n" in err
    assert "replay: left out, the same letter again 1\n" in err
    assert main(["replay", "--in", "d.jsonl", "--out", "again.jsonl", "--max-attempts", "2"]) == 1
    assert "failed too often 2" in capsys.readouterr().err
    assert {m.value for m in found("again.jsonl") if m.topic} == {b"other"}


@pytest.mark.parametrize(
    ("user", "url", "asked"),
    [
        ("u:p", "http://h:1/a", "http://u:p@h:1/a"),
        ("u:p:@/é", "https://h/a@b", "https://u:p%3A%40%2F%C3%A9@h/a@b"),
        ("u:p", "http://own:x@h", "http://own:x@h"),
        ("", "http://h", "http://h"),
        ("u:p", "nonsense", "nonsense"),
    ],
)
def test_credentials_of_the_environment(user: str, url: str, asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRIDGE_REGISTRY_USER", user)
    assert with_login(url) == asked


def test_a_protocol_of_ticdc_names_its_format() -> None:
    assert main(["decode", "--format", "open-protocol", "--in", written(numbered(OPEN)), "--out", "l"]) == 0
    assert lines("l")
