"""The command line: exit codes, what goes to which stream, files that appear whole, processes that are stopped."""

import base64
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.support.golden import ROOT, Golden
from tests.support.registries import answer, serving
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.spark_jobs.io.message_files import message_line, read_messages
from ticdc_bridge.spark_jobs.io.parquet import ParquetWriter

AVRO = Golden("avro", "evolution.ext1")
DEBEZIUM = Golden("debezium", "evolution.ext.schema")
BAD = Message(b"k", b"\x07nope", "t", 0, 3, 5, (("x", b"\x00\xff"),))


def _file(path: Path | str, messages: list[Message]) -> str:
    Path(path).write_text("".join(json.dumps(message_line(m)) + "\n" for m in messages))
    return str(path)


def _avro(*more: str, source: str | None = None) -> list[str]:
    source = source or str(AVRO.messages_file)
    return ["decode", "--format", "avro", "--in", source, "--schemas", str(AVRO.meta_file), *more]


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
    argv = ["transcode", "--from", "debezium", "--to", "avro", "--in", source, "--schemas", str(AVRO.meta_file)]
    argv += ["--ddl", str(DEBEZIUM.meta_file)]
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


def test_a_zone_that_is_not_given_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = tmp_path / "schemas.jsonl"
    lines.write_text("\n".join(json.dumps(row) for row in AVRO.meta["registered_schemas"]))
    argv = ["transcode", "--from", "avro", "--to", "debezium", "--in", str(AVRO.messages_file), "--schemas", str(lines)]
    argv += ["--out", "o.jsonl"]
    assert main(argv) == 0
    assert capsys.readouterr().err.count("warning: --time-zone is not given") == 1
    assert main([*argv, "--time-zone", "Asia/Shanghai"]) == 0
    assert "warning" not in capsys.readouterr().err


def test_command_options_beat_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    golden = Golden("avro", "wide.ext1")
    argv = ["transcode", "--from", "avro", "--to", "debezium", "--in", str(golden.messages_file)]
    argv += ["--schemas", str(golden.meta_file)]
    assert main([*argv, "--out", "e.jsonl"]) == 1
    assert "LOSSY_VALUE" in capsys.readouterr().err
    assert main([*argv, "--out", "f.jsonl", "--on-lossy", "flag"]) == 0
    assert len(list(read_messages(Path("f.jsonl")))) == len(golden.messages())
    options = tmp_path / "o.json"
    options.write_text('{"enable_tidb_extension":true,"debezium_disable_schema":true,"on_lossy":"flag"}')
    assert main([*argv, "--out", "g.jsonl", "--options", str(options)]) == 0
    [first, *_] = (m for m in read_messages(Path("g.jsonl")) if isinstance(m, Message))
    assert set(json.loads(first.value or b"")) == {"payload"}


def test_an_old_output_stays_when_a_run_fails() -> None:
    Path("o.jsonl").write_text("of yesterday\n")
    with serving(lambda _m, path, _b: answer(200 if path == "/" else 403, {})) as server:
        words = ["--in", str(AVRO.messages_file), "--registry", server.url, "--out", "o.jsonl"]
        assert main(["decode", "--format", "avro", *words]) == 2
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
    assert process.wait(60) == 141
    assert err == ""


def test_ctrl_c_ends_with_130_and_an_output_that_is_not_there() -> None:
    asked, release = threading.Event(), threading.Event()

    def respond(_method: str, path: str, _body: bytes) -> Any:
        if path != "/":
            asked.set()
            release.wait(60)
        return answer(200, {})

    with serving(respond) as server:
        words = [
            "--in",
            str(AVRO.messages_file),
            "--registry",
            server.url,
            "--registry-wait",
            "60s",
            "--out",
            "o.jsonl",
        ]
        process = _module("decode", "--format", "avro", *words)
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


def test_an_import_that_is_interrupted_ends_with_130(tmp_path: Path) -> None:
    """CPython ends a `-m` by the signal where text that was evaluated, as of a dataclass, was interrupted last."""
    run = "c._run = lambda *_: exec('raise KeyboardInterrupt')"
    (tmp_path / "interrupted.py").write_text(f"import ticdc_bridge.cli as c\n{run}\nraise SystemExit(c.main())\n")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(tmp_path), str(ROOT)))}
    done = subprocess.run([sys.executable, "-m", "interrupted"], env=env, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (130, b"")


def test_the_same_input_gives_the_same_bytes_in_every_process() -> None:
    """Nothing depends on the order of a hash."""
    outputs = set()
    for seed in ("1", "2", "3"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        argv = [sys.executable, "-m", "spark_jobs", *_transcode("--out", "-", "--dead-letter", "d.jsonl")]
        outputs.add(subprocess.run(argv, env=env, capture_output=True, timeout=60, check=True).stdout)
    assert len(outputs) == 1
