"""Wrong words, settings that fit nothing and registries that say no: exit code 2, and no output."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.commands.main import main
from tests.spark_jobs.commands.test_command_line import AVRO, DEBEZIUM, _avro, _lines
from tests.support.registries import answer, golden_registry, serving
from tests.support.table import check_rows


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run in a folder of their own, without settings from outside."""
    monkeypatch.chdir(tmp_path)
    for name in [n for n in os.environ if n.startswith("BRIDGE_")]:
        monkeypatch.delenv(name)


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
