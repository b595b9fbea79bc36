"""Defects that were found, each with the smallest case that showed it."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.golden import Golden
from tests.support.progress_lines import without_progress
from tests.support.registries import answer, serving
from tests.support.table import check_rows
from ticdc_bridge.cli import main
from ticdc_bridge.clients.registry import HttpSchemas
from ticdc_bridge.schemas.model.errors import SetupError, WireError
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.spark_jobs.io.message_files import message_line, read_messages
from ticdc_bridge.spark_jobs.spark.frames import read_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ASKED: tuple[Callable[[HttpSchemas], object], ...] = (
    lambda r: r.by_id(1, "value"),
    lambda r: r.newest("s"),
    lambda r: r.id_of("s", "{}"),
)
AVRO, DBZ = Golden("avro", "pk_int.ext1"), Golden("debezium", "pk_int.schema")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def dbz(*more: str, source: str | None = None) -> list[str]:
    return ["decode", "--format", "debezium", "--in", source or str(DBZ.messages_file), *more]


# ---- D. lost output, credentials
def test_d1_out_and_dead_letter_of_one_name() -> None:
    """Exit 0 and the output is GONE: DeadLetters.close unlinks --dead-letter, which is --out."""
    code = main(dbz("--out", "x.jsonl", "--dead-letter", "x.jsonl"))
    assert code == 2 or Path("x.jsonl").exists()


def test_d2_dead_letter_that_is_the_input() -> None:
    """A replay of dead letters into the same file deletes the input when all went well; before anyone looked."""
    Path("dl.jsonl").write_text(DBZ.messages_file.read_text())
    assert (
        main(dbz("--out", "o.jsonl", "--dead-letter", "dl.jsonl", source="dl.jsonl")) == 2 or Path("dl.jsonl").exists()
    )


def test_d3_credentials_of_a_wrong_url_are_masked(capsys: pytest.CaptureFixture[str]) -> None:
    def check(url: str) -> None:
        assert main(["decode", "--format", "avro", "--in", "x", "--registry", url]) == 2
        assert "s3cret" not in capsys.readouterr().err

    check_rows(["user:s3cret@localhost:8081", "ftp://user:s3cret@localhost", "http://user:s3cret@:8081"], check)


def test_d4_url_with_a_port_that_is_none() -> None:
    """ValueError traceback (exit 1), and it shows the part of a password with `/` that looks like a port."""

    def check(url: str) -> None:
        assert main(["decode", "--format", "avro", "--in", "x", "--registry", url, "--registry-wait", "0.1"]) == 2

    secret = ["http://user:s3cret@localhost:port", "http://user:12/s3cret@localhost:8081"]
    check_rows([*secret, "http://[::1", "http://h:99999"], check)


# ---- E. tracebacks (exit code 1 then means "done, some in the dead letter")
def _check_refused(status: int, body: bytes) -> None:
    with serving(lambda *_: answer(status, body)) as server:
        for call in ASKED:
            with pytest.raises((SetupError, WireError)):
                call(HttpSchemas(server.url, wait=0.1))


def test_e1_registry_that_answers_200_with_something_else() -> None:
    check_rows([b"hello", b"[]", b"{}", b"5", b'{"schema":5}', b"null"], lambda body: _check_refused(200, body))


def test_e2_registry_that_refuses_with_a_body_that_is_no_object() -> None:
    check_rows([400, 403, 409, 422], lambda status: _check_refused(status, b"[]"))


def test_e4_a_port_that_does_not_speak_http() -> None:
    """http.client.BadStatusLine and IncompleteRead are neither OSError nor ValueError."""
    head = b"HTTP/1.1 200 OK\r\nContent-Length: "
    check_rows([b"SSH-2.0-OpenSSH_9.2\r\n", head + b"100\r\n\r\nshort", head + b"x\r\n\r\n"], _check_reply)


def _check_reply(reply: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)
        stop = threading.Event()

        def talk() -> None:
            while not stop.is_set():
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                with client:
                    client.recv(4096)
                    client.sendall(reply)

        thread = threading.Thread(target=talk)
        thread.start()
        try:
            with pytest.raises((SetupError, WireError)):
                HttpSchemas(f"http://127.0.0.1:{server.getsockname()[1]}", wait=0.1).by_id(1, "value")
        finally:
            stop.set()
            socket.create_connection(server.getsockname()).close()
            thread.join()


def test_e9_parquet_timestamps_without_a_zone_are_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silent wrong value: taken in the machine's zone."""
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    try:
        table = {
            "key": pa.array([b"a"], pa.binary()),
            "value": pa.array([b"b"], pa.binary()),
            "timestamp": pa.array([datetime(2024, 1, 1)], pa.timestamp("us")),
        }
        pq.write_table(pa.table(table), "t.parquet")
        [message] = read_messages(Path("t.parquet"))
        assert isinstance(message, Message)
        assert message.timestamp == 1_704_067_200_000
    finally:
        monkeypatch.undo()
        time.tzset()


def test_e10_kafka_settings_that_are_none() -> None:
    """KafkaException from Consumer(config), Producer(config); UnicodeDecodeError."""

    def check(config: bytes) -> None:
        Path("k.conf").write_bytes(config)
        more = ["--kafka-config", "k.conf", "--bootstrap-servers", "127.0.0.1:1"]
        assert main(dbz(*more, source="kafka:T")) == 2
        assert main(dbz(*more, "--dead-letter", "kafka:T")) == 2

    check_rows([b"foo.bar=1\n", b"socket.timeout.ms=x\n", b"sasl.password=\xff\n"], check)


def test_e11_a_folder_as_output() -> None:
    Path("folder").mkdir()
    for option in ("--out", "--dead-letter"):
        assert main(dbz(option, "folder")) == 2, option


def test_e12_dead_letters_in_parquet_are_parquet() -> None:
    """JSON lines under the name x.parquet: --in x.parquet refuses them."""
    Path("i.jsonl").write_text(json.dumps(message_line(Message(b"k", b"bad"))))
    main(dbz("--dead-letter", "x.parquet", source="i.jsonl"))
    [found] = read_messages(Path("x.parquet"))
    assert isinstance(found, Message)
    assert found.value == b"bad"


def test_e13_message_too_large_for_the_broker(kafka: Any) -> None:
    """KafkaException(MSG_SIZE_TOO_LARGE) from produce is not caught."""
    topic = kafka.create_topic()
    Path("i.jsonl").write_text(json.dumps(message_line(Message(b"k", b"x" * 1_100_000))))
    assert (
        main(dbz("--dead-letter", f"kafka:{topic}", "--bootstrap-servers", kafka.bootstrap_servers, source="i.jsonl"))
        == 2
    )


def test_e14_negative_partition(kafka: Any) -> None:
    topic = kafka.create_topic()
    Path("i.jsonl").write_text(json.dumps(message_line(Message(b"k", b"x", "t", -5))))
    assert main(
        dbz("--dead-letter", f"kafka:{topic}", "--bootstrap-servers", kafka.bootstrap_servers, source="i.jsonl")
    ) in (1, 2)


# ---- F. small
def test_f1_registry_wait(capsys: pytest.CaptureFixture[str]) -> None:
    """nan and inf waited for ever."""
    words = ["decode", "--format", "avro", "--in", "x", "--registry", "http://127.0.0.1:1", "--registry-wait"]

    def check(text: str) -> None:
        assert main([*words, text]) == 2
        assert "USAGE" in capsys.readouterr().err

    check_rows(["nan", "inf", "5smsm", "s", ""], check, repr)


def test_f2_zone_that_is_not_given_is_reported_when_avro_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    """Debezium → Avro without --time-zone writes TIMESTAMP in UTC without a word."""
    lines = Path("s.jsonl")
    lines.write_text("\n".join(json.dumps(row) for row in AVRO.meta["registered_schemas"]))
    main(
        [
            "transcode", "--from", "debezium", "--to", "avro", "--in", str(DBZ.messages_file), "--schemas", str(lines),
            "--out", "o.jsonl",
        ]
    )  # fmt: skip
    assert "--time-zone" in capsys.readouterr().err


def test_f3_definitions_of_another_form() -> None:
    """AttributeError, RecursionError."""
    for content in ('{"steps":["x"]}', "[" * 100_000):
        Path("d.json").write_text(content)
        assert main(dbz("--ddl", "d.json")) == 2, content[:20]


def test_f4_nothing_is_left_beside_after_a_start_that_failed() -> None:
    assert main(dbz("--out", "o.jsonl", source="no-such-file.jsonl")) == 2
    assert os.listdir() == []


# ---- G. outputs of decode
def test_g1_decode_to_parquet() -> None:
    assert main(dbz("--out", "o.parquet")) == 0
    assert main(dbz("--out", "o.jsonl")) == 0
    lines = [json.loads(line) for line in Path("o.jsonl").read_text().splitlines()]
    rows = pq.read_table("o.parquet").to_pylist()
    assert [r["kind"] for r in rows] == [x["kind"] for x in lines]
    for row, line in zip(rows, lines, strict=True):
        if row["kind"] == "row":
            assert dict(row["after"] or ()) == (line["after"] or {})
            assert (row["commit_ts"], row["key"], row["flags"]) == (line["commit_ts"], line["key"], line["flags"])


def test_g3_a_pipe_stays_a_pipe() -> None:
    os.mkfifo("pipe")
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(Path("pipe").read_bytes()))
    reader.start()
    assert main(dbz("--out", "pipe")) == 0
    reader.join()
    assert main(dbz("--out", "o.jsonl")) == 0
    assert Path("pipe").is_fifo()
    assert read == [Path("o.jsonl").read_bytes()]


def test_g4_a_link_keeps_its_target() -> None:
    Path("real.jsonl").write_text("old")
    Path("link.jsonl").symlink_to("real.jsonl")
    assert main(dbz("--out", "link.jsonl")) == 0
    assert Path("link.jsonl").is_symlink()
    assert Path("real.jsonl").read_text() != "old"


def test_g7_an_unknown_id_is_not_asked_for_again_and_again() -> None:
    missing = answer(404, {"error_code": 40403, "message": "Schema 7 not found"})
    with serving(lambda *_: missing) as server:
        registry = HttpSchemas(server.url)
        for _ in range(50):
            with pytest.raises(WireError):
                registry.by_id(7, "value")
        assert len(server.seen) == 1


def test_s1_parquet_without_all_of_kafkas_columns_in_spark(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """An internal error with --spark, without `headers`, which Spark's Kafka source leaves out unless told."""
    stamped = [m for m in AVRO.messages() if m.value is not None]
    table = {
        "key": pa.array([m.key for m in stamped], pa.binary()),
        "value": pa.array([m.value for m in stamped], pa.binary()),
        "partition": pa.array([m.partition for m in stamped], pa.int64()), "headers": pa.nulls(len(stamped)),
        "offset": pa.array([m.offset for m in stamped], pa.int32()),
        "timestamp": pa.array([datetime(2024, 1, 1)] * len(stamped), pa.timestamp("us")),
    }  # fmt: skip
    argv = ["decode", "--format", "avro", "--schemas", str(AVRO.meta_file), "--time-zone", "UTC", "--in", "t.parquet"]
    swapped = pa.array([[{"value": b"v", "key": "k"}]] * len(stamped))  # the struct's fields in the other order
    for columns in ([*table], ["key", "value"], ["key", "value", "headers"]):
        found = {name: table[name] for name in columns}
        pq.write_table(pa.table(found if len(columns) != 3 else found | {"headers": swapped}), "t.parquet")
        assert main([*argv, "--out", "here.jsonl"]) == 0
        assert main([*argv, "--out", "spark.jsonl", "--spark"]) == 0
        assert Path("spark.jsonl").read_text() == Path("here.jsonl").read_text()
    read = read_files(spark, str(Path("t.parquet").absolute())).selectExpr("headers[0].key k", "headers[0].value v")
    assert {(row["k"], bytes(row["v"])) for row in read.collect()} == {("k", b"v")}
    capsys.readouterr()
    texts = pa.array(["k"]), pa.array(["v"])
    headers = {"key": pa.array([b"k"]), "value": pa.array([b"v"]), "headers": pa.array([[{"x": 1}]])}
    for bad in (dict(zip(("key", "value"), texts, strict=True)), {"key": pa.array([b"k"])}, headers):
        pq.write_table(pa.table(bad), "t.parquet")
        reported = []
        for more in ([], ["--spark"]):
            assert main([*argv, *more]) == 2
            reported.append(without_progress(capsys.readouterr().err).replace(f"{Path().absolute()}/", ""))
        assert reported[0] == reported[1]
