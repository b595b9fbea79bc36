"""The command line: exit codes, what goes to which stream, files that appear whole, and Kafka in and out."""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from schemas.model.event import Message
from spark_jobs.commands import decode
from spark_jobs.commands.main import main, parser
from spark_jobs.io.message_files import message_line, read_messages
from spark_jobs.io.parquet import ParquetWriter
from tests.support.golden import ROOT, Golden
from tests.support.registries import answer, golden_registry, serving
from tests.support.table import check_rows

if TYPE_CHECKING:
    from tests.support.kafka import Kafka

AVRO = Golden("avro", "evolution.ext1")
DEBEZIUM = Golden("debezium", "evolution.ext.schema")
BAD = Message(b"k", b"\x07nope", "t", 0, 3, 5, (("x", b"\x00\xff"),))


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run in a folder of their own, without settings from outside."""
    monkeypatch.chdir(tmp_path)
    for name in [n for n in os.environ if n.startswith("BRIDGE_")]:
        monkeypatch.delenv(name)


def _file(path: Path | str, messages: list[Message]) -> str:
    Path(path).write_text("".join(json.dumps(message_line(m)) + "\n" for m in messages))
    return str(path)


def _avro(*more: str, source: str | None = None) -> list[str]:
    return [
        "decode",
        "--format",
        "avro",
        "--in",
        source or str(AVRO.messages_file),
        "--schemas",
        str(AVRO.meta_file),
        *more,
    ]


def _transcode(*more: str, source: str | None = None) -> list[str]:
    source = source or str(AVRO.messages_file)
    return ["transcode", "--from", "avro", "--to", "debezium", "--in", source, "--schemas", str(AVRO.meta_file), *more]


def _lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def _module(*argv: str, **more: Any) -> subprocess.Popen[bytes]:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-m", "spark_jobs", *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, **more
    )


# ---- streams and exit codes
def test_stdout_holds_data_only_and_the_summary_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(_avro("--ddl", str(AVRO.meta_file))) == 0
    out, err = capsys.readouterr()
    assert _lines(out) == AVRO.plain(ddl=True)
    rows = [line["op"] for line in _lines(out)]
    total = len(AVRO.messages())
    counted = ", ".join(
        f"{name} {rows.count(op)}" for op, name in (("c", "insert"), ("u", "update"), ("d", "delete")) if op in rows
    )
    assert err.splitlines() == [
        f"decode: messages in {total}",
        f"decode: rows {total} ({counted})",
        f"decode: out {total}",
        "decode: errors 0",
    ]


def test_a_message_that_fails_is_a_line_in_its_place_and_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    good = AVRO.messages()
    source = _file("m.jsonl", [good[0], BAD, good[1]])
    with open(source, "a", encoding="utf-8") as file:
        file.write("no message\n\n")
    assert main(_avro("--dead-letter", "dead.jsonl", source=source)) == 1
    out, err = capsys.readouterr()
    assert [line["kind"] for line in _lines(out)] == ["row", "error", "row", "error"]
    error = _lines(out)[1]
    assert (error["code"], error["topic"], error["partition"], error["offset"]) == ("NOT_FRAMED", "t", 0, 3)
    assert (base64.b64decode(error["key_b64"]), base64.b64decode(error["value_b64"])) == (BAD.key, BAD.value)
    assert "decode: errors 2 (BAD_LINE 1, NOT_FRAMED 1)" in err.splitlines()
    dead = [m for m in read_messages(Path("dead.jsonl")) if isinstance(m, Message)]
    assert [(m.key, m.value) for m in dead] == [(BAD.key, BAD.value), (None, b"no message")]
    assert dead[0].headers[0] == ("x", b"\x00\xff")
    assert dict(dead[0].headers)["bridge.origin"] == b"t/0/3"


def test_every_message_is_counted_somewhere(capsys: pytest.CaptureFixture[str]) -> None:
    """in = out + skipped + errors, whatever happened to each message."""
    source = _file("m.jsonl", [*DEBEZIUM.messages(), BAD])
    argv = [
        "transcode",
        "--from",
        "debezium",
        "--to",
        "avro",
        "--in",
        source,
        "--schemas",
        str(AVRO.meta_file),
        "--ddl",
        str(DEBEZIUM.meta_file),
    ]
    assert main([*argv, "--options", str(AVRO.meta_file), "--out", "o.jsonl"]) == 1
    err = capsys.readouterr().err
    counts = {words[1]: int(words[-1]) for words in (line.split(" (")[0].split() for line in err.splitlines())}
    skipped = sum(int(line.split()[-1]) for line in err.splitlines() if line.startswith("transcode: skipped"))
    written, dead = len(list(read_messages(Path("o.jsonl")))), len(list(read_messages(Path("o.jsonl.dead.jsonl"))))
    assert (written, dead) == (counts["out"], counts["errors"])
    assert counts["messages"] == written + skipped + dead == len(DEBEZIUM.messages()) + 1
    assert skipped > 0


def test_transcode_writes_messages_and_no_dead_letters_without_errors(capsys: pytest.CaptureFixture[str]) -> None:
    Path("o.jsonl.dead.jsonl").write_text("of an earlier run\n")
    assert main(_transcode("--ddl", str(AVRO.meta_file), "--out", "o.jsonl", "--topic", "other")) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "warning" not in err  # the meta knows the zone
    found = [m for m in read_messages(Path("o.jsonl")) if isinstance(m, Message)]
    assert len(found) == len(AVRO.messages())
    assert {m.topic for m in found} == {"other"}
    assert sorted(p.name for p in Path().iterdir()) == ["o.jsonl"]


def test_transcode_in_parquet_is_the_same(tmp_path: Path) -> None:
    assert main(_transcode("--out", "o.jsonl")) == 0
    writer = ParquetWriter(tmp_path / "i.parquet")
    for message in AVRO.messages():
        writer.write(message)
    writer.close()
    assert main(_transcode("--out", "o.parquet", source="i.parquet")) == 0
    assert list(read_messages(Path("o.parquet"))) == list(read_messages(Path("o.jsonl")))


def test_a_zone_that_is_not_given_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = tmp_path / "schemas.jsonl"
    lines.write_text("\n".join(json.dumps(row) for row in AVRO.meta["registered_schemas"]))
    argv = [
        "transcode",
        "--from",
        "avro",
        "--to",
        "debezium",
        "--in",
        str(AVRO.messages_file),
        "--schemas",
        str(lines),
        "--out",
        "o.jsonl",
    ]
    assert main(argv) == 0
    assert capsys.readouterr().err.count("warning: --time-zone is not given") == 1
    assert main([*argv, "--time-zone", "Asia/Shanghai"]) == 0
    assert "warning" not in capsys.readouterr().err


def test_command_options_beat_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    golden = Golden("avro", "wide.ext1")
    argv = [
        "transcode",
        "--from",
        "avro",
        "--to",
        "debezium",
        "--in",
        str(golden.messages_file),
        "--schemas",
        str(golden.meta_file),
    ]
    assert main([*argv, "--out", "e.jsonl"]) == 1
    assert "LOSSY_VALUE" in capsys.readouterr().err
    assert main([*argv, "--out", "f.jsonl", "--on-lossy", "flag"]) == 0
    assert len(list(read_messages(Path("f.jsonl")))) == len(golden.messages())
    options = tmp_path / "o.json"
    options.write_text('{"enable_tidb_extension":true,"debezium_disable_schema":true,"on_lossy":"flag"}')
    assert main([*argv, "--out", "g.jsonl", "--options", str(options)]) == 0
    [first, *_] = (m for m in read_messages(Path("g.jsonl")) if isinstance(m, Message))
    assert set(json.loads(first.value or b"")) == {"payload"}


# ---- wrong usage
_WRONG: tuple[tuple[list[str], str], ...] = (
    (["--time-zone", "Mars/Olympus"], "Mars/Olympus"),
    (["--registry-wait", "soon"], ""),
    (["--schemas", "no.jsonl"], "no.jsonl"),
    (["--ddl", "ddl.jsonl"], "--ddl"),
    (["--ddl", "no.jsonl"], "no.jsonl"),
    (["--from-options", "bad.json"], "bad.json"),
    (["--from-options", "list.json"], "object"),
    (["--from-options", "unknown.json"], "avro_decimal"),
    (["--from-options", "type.json"], "bool"),
    (["--from-options", "choice.json"], "precise or string"),
    (["--in", "no.jsonl"], "no.jsonl"),
    (["--in", "."], "directory"),
    (["--in", "kafka:"], "topic"),
    (["--in", "kafka:T"], "--bootstrap-servers"),
    (["--out", "no/x.jsonl"], "x.jsonl"),
    (["--in", "kafka:T", "--kafka-config", "no.conf"], "no.conf"),
    (["--in", "kafka:T", "--kafka-config", "bad.conf"], "bad.conf:2"),
)


def test_wrong_settings_end_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in {
        "ddl.jsonl": '{"commit_ts":1,"db":"d","query":"CREATE TABLE t(a int)"}\n' * 2,
        "bad.json": "{",
        "list.json": "[]",
        "unknown.json": '{"avro_decimals":"x"}',
        "type.json": '{"enable_tidb_extension":"yes"}',
        "choice.json": '{"avro_decimal_handling_mode":"exact"}',
        "bad.conf": "# a comment\nnonsense\n",
    }.items():
        Path(name).write_text(text)

    def check(row: tuple[list[str], str]) -> None:
        more, told = row
        argv = _avro(*more)
        if more[0] == "--registry-wait":
            argv = [*argv[:5], "--registry", "http://127.0.0.1:1", *more]
        assert main(argv) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert told in err
        assert err.startswith("error USAGE: ")
        assert "Traceback" not in err

    check_rows(_WRONG, check)


_WRONG_WORDS = (
    "",
    "nope",
    "decode",
    "decode --format nope --in x",
    "decode --format avro",
    "decode --format avro --in x --nope",
    "transcode --from avro --in x",
    "decode --format avro --in x --on-lossy never",
)


def test_wrong_words_end_with_2_and_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    def check(words: str) -> None:
        with pytest.raises(SystemExit) as caught:
            main(words.split())
        assert caught.value.code == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert "--help" in err

    check_rows(_WRONG_WORDS, check)


def test_schemas_are_needed_where_the_format_needs_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["decode", "--format", "avro", "--in", str(AVRO.messages_file)]) == 2
    assert "--registry URL or --schemas FILE" in capsys.readouterr().err
    argv = ["transcode", "--from", "debezium", "--to", "avro", "--in", str(DEBEZIUM.messages_file), "--out", "o.jsonl"]
    assert main(argv) == 2
    assert "--registry URL or --schemas FILE" in capsys.readouterr().err


# ---- registry
def test_the_registry_can_come_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(golden_registry(AVRO)) as server:
        monkeypatch.setenv("BRIDGE_REGISTRY", server.url)
        assert main(["decode", "--format", "avro", "--in", str(AVRO.messages_file), "--time-zone", AVRO.zone]) == 0
    assert _lines(capsys.readouterr().out) == AVRO.plain()


def test_a_registry_that_is_down_ends_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://me:s3cret@127.0.0.1:{taken.getsockname()[1]}"
        argv = [
            "decode",
            "--format",
            "avro",
            "--in",
            str(AVRO.messages_file),
            "--registry",
            url,
            "--registry-wait",
            "0.3s",
            "--out",
            "o.jsonl",
        ]
        assert main(argv) == 2
    err = capsys.readouterr().err
    assert err.startswith("error REGISTRY_UNREACHABLE: schema registry http://127.0.0.1:")
    assert "s3cret" not in err
    assert not Path("o.jsonl").exists()


@pytest.mark.parametrize(("status", "code"), [(401, "REGISTRY_REFUSED"), (500, "REGISTRY_UNREACHABLE")])
def test_a_registry_that_says_no_ends_with_2_and_leaves_no_output(
    status: int, code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def respond(_method: str, path: str, _body: bytes) -> Any:
        return answer(200, {}) if path == "/" else answer(status, {"message": "no"})

    with serving(respond) as server:
        url = f"http://me:s3cret@127.0.0.1:{server.port}"
        argv = [
            "decode",
            "--format",
            "avro",
            "--in",
            str(AVRO.messages_file),
            "--registry",
            url,
            "--registry-wait",
            "0.2s",
            "--out",
            "o.jsonl",
        ]
        assert main(argv) == 2
    err = capsys.readouterr().err
    assert code in err
    assert "s3cret" not in err
    assert not Path("o.jsonl").exists()


def test_an_old_output_stays_when_a_run_fails() -> None:
    Path("o.jsonl").write_text("of yesterday\n")
    with serving(lambda _m, path, _b: answer(200 if path == "/" else 403, {})) as server:
        argv = [
            "decode",
            "--format",
            "avro",
            "--in",
            str(AVRO.messages_file),
            "--registry",
            server.url,
            "--out",
            "o.jsonl",
        ]
        assert main(argv) == 2
    assert Path("o.jsonl").read_text() == "of yesterday\n"


# ---- processes
def test_a_reader_that_goes_away_is_no_traceback() -> None:
    _file("many.jsonl", AVRO.messages() * 400)
    process = _module(*_avro(source="many.jsonl"))
    assert process.stdout is not None
    assert process.stderr is not None
    first = json.loads(process.stdout.readline())
    process.stdout.close()
    err = process.stderr.read().decode()
    process.stderr.close()
    assert first["kind"] == "row"
    assert process.wait(60) == 1
    assert err == ""


def test_ctrl_c_ends_with_130_and_an_output_that_is_not_there() -> None:
    asked, release = threading.Event(), threading.Event()

    def respond(_method: str, path: str, _body: bytes) -> Any:
        if path != "/":
            asked.set()
            release.wait(60)
        return answer(200, {})

    with serving(respond) as server:
        argv = [
            "decode",
            "--format",
            "avro",
            "--in",
            str(AVRO.messages_file),
            "--registry",
            server.url,
            "--registry-wait",
            "60s",
            "--out",
            "o.jsonl",
        ]
        process = _module(*argv)
        try:
            assert asked.wait(60)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        finally:
            release.set()
            process.kill()
            process.wait()
    assert process.returncode == 130
    assert (out, err) == (b"", b"interrupted: the output is not complete\n")
    assert not Path("o.jsonl").exists()


def test_the_same_input_gives_the_same_bytes_in_every_process() -> None:
    """Nothing depends on the order of a hash."""
    outputs = set()
    for seed in ("1", "2", "3"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        argv = [sys.executable, "-m", "spark_jobs", *_transcode("--out", "-", "--dead-letter", "d.jsonl")]
        outputs.add(subprocess.run(argv, env=env, capture_output=True, timeout=60, check=True).stdout)
    assert len(outputs) == 1


@pytest.mark.parametrize("argv", [["--help"], ["decode", "--help"], ["transcode", "--help"]])
def test_help(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(argv)
    assert caught.value.code == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "exit codes" in out or argv == ["--help"]


# ---- Kafka
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
    from spark_jobs.io.kafka import read_topic

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
    place = [
        f"--in=kafka:{source}",
        "--bootstrap-servers",
        kafka.bootstrap_servers,
        "--out",
        f"kafka:{target}",
        "--dead-letter",
        f"kafka:{dead}",
    ]
    same = ["--ddl", str(AVRO.meta_file), "--schemas", _schemas_of(source)]
    assert main([*_transcode(*same), *place]) == 1
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
    assert (
        main(
            [
                *_avro("--dead-letter", "again.jsonl", source=f"kafka:{dead}"),
                "--bootstrap-servers",
                kafka.bootstrap_servers,
            ]
        )
        == 1
    )
    [again] = (m for m in read_messages(Path("again.jsonl")) if isinstance(m, Message))
    assert dict(again.headers)["bridge.attempt"] == b"2"


def test_kafka_tombstones_and_empty_topics(kafka: Kafka, capsys: pytest.CaptureFixture[str]) -> None:
    from spark_jobs.io.kafka import TopicWriter

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
    assert (
        main([*_avro("--out", "o.jsonl", source="kafka:no-such-topic"), "--bootstrap-servers", kafka.bootstrap_servers])
        == 2
    )
    assert "no-such-topic" in capsys.readouterr().err
    assert not Path("o.jsonl").exists()


@pytest.mark.parametrize("place", ["--in", "--dead-letter"])
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
    told = "topic rule '{db}_x': {db} is not known; a rule may have {schema} and {table}"
    assert told in capsys.readouterr().err
    assert not Path("o.jsonl").exists()


def test_a_local_master_tries_a_task_again_and_what_spark_says_is_told_plainly(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    masters = {"local": "local[1,4]", "local[3]": "local[3,4]", "local[*]": "local[*,4]", "local[2,1]": "local[2,1]"}
    for given, used in {**masters, "spark://h:7077": "spark://h:7077"}.items():
        assert parser().parse_args(["decode", "--format", "open", "--in", "x", "--master", given]).master == used
    texts = {
        "Job aborted: org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)": "STOPPED",
        "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node": "KAFKA_UNREACHABLE",
        "org.apache.spark.SparkException: Could not parse Master URL: 'nonsense'": "USAGE",
    }
    for text, code in texts.items():

        def fails(_args: object, text: str = text) -> int:
            raise RuntimeError(text)

        monkeypatch.setattr(decode, "run", fails)
        assert main(["decode", "--format", "open", "--in", "x"]) == 2
        assert f"error {code}" in capsys.readouterr().err
