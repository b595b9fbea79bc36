"""Spark and the in-process codec are two implementations of one contract."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from tests.support import shop
from tests.support.progress_lines import without_progress
from ticdc_bridge import decode
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas, RegisteredSchema
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.spark_jobs.io.message_files import message_line
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message
from ticdc_bridge.spark_jobs.spark import decode_plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def _frame(spark: SparkSession, messages: list[Message]) -> DataFrame:
    rows = [(m.key, m.value, m.topic, n) for n, m in enumerate(messages)]
    return spark.createDataFrame(rows, "key binary, value binary, topic string, offset bigint")


def _damaged(messages: list[Message]) -> list[Message]:
    """Each way a message can be wrong, between good ones."""
    good = [m for m in messages if m.value is not None][:4]
    value = good[0].value or b""
    bad = [b"", b"{}", b"\x00\x00\x00", b"\x00\x00\x00\x00\x63" + value[5:], value[:-3], value + b"\x00", value[:5]]
    broken = [Message(good[0].key, b, good[0].topic) for b in bad]
    broken += [Message(b"\x00\x00\x00\x00\x01", value, good[0].topic), Message(b"", value, good[0].topic)]
    broken += [Message(None, None, good[0].topic)]
    return [good[0], *broken, *good[1:]]


@pytest.fixture(params=["compiled", pytest.param("catalyst", marks=pytest.mark.slow)])
def _exact(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Avro by the compiled reader, and by Spark's own where there is no numba."""
    if request.param == "catalyst":
        monkeypatch.setattr(decode_plan, "warm_table_rows", lambda _format: False)


@pytest.mark.usefixtures("_exact")
def test_exact_check_finds_what_spark_lets_pass(spark: SparkSession) -> None:
    messages = _damaged(shop.messages())
    decoder = shop.avro_side().decoder()
    want = [e.code if (e := decode_message(decoder, m).error) else None for m in messages]
    frame = decode(_frame(spark, messages), format="avro", schemas=shop.schemas(), table="shop.customers")
    rows = sorted((r.asDict(recursive=True) for r in frame.collect()), key=lambda r: r["source"]["offset"])
    assert [r["error"]["code"] if r["error"] else None for r in rows] == want
    for row, message in zip(rows, messages, strict=True):
        if row["error"] is not None:
            assert (row["error"]["key"], row["error"]["value"]) == (message.key, message.value)
            assert row["after"] is None
    assert want.count(None) == 4


_T = {"type": "record", "name": "t", "namespace": "default.d"}
_FIELDS = [
    {"name": "id", "type": {"type": "int", "connect.parameters": {"tidb_type": "INT"}}},
    {
        "name": "p",
        "type": {
            "type": "bytes", "connect.parameters": {"tidb_type": "DECIMAL"}, "logicalType": "decimal",
            "precision": 10, "scale": 2,
        },
    },
    {"name": "v", "type": {"type": "string", "connect.parameters": {"tidb_type": "TiDBVECTORFloat32"}}},
]  # fmt: skip


def _strange_schemas() -> FileSchemas:
    """One table's schemas, between others that no TiDB table has."""
    return FileSchemas(
        [
            RegisteredSchema("other-value", 1, 7, 'syntax = "proto3";'),
            RegisteredSchema("alien-value", 1, 8, json.dumps({**_T, "namespace": "x.d", "fields": []})),
            RegisteredSchema("alien2-value", 1, 9, json.dumps({**_T, "fields": [{"name": "a", "type": "string"}]})),
            RegisteredSchema("t-key", 1, 1, json.dumps({**_T, "fields": _FIELDS[:1]})),
            RegisteredSchema("t-value", 1, 2, json.dumps({**_T, "fields": _FIELDS})),
        ]
    )


@pytest.mark.usefixtures("_exact")
def test_exact_check_takes_what_only_the_codec_reads(spark: SparkSession) -> None:
    """A padded decimal, text that is not UTF-8, a watermark and a delete with a commit_ts: events, not errors."""
    key, head, ts = b"\0\0\0\0\1\2", b"\0\0\0\0\2\2", (463316726494789637).to_bytes(8, "big")
    messages = [
        Message(key, head + b"\2\x80" + b"\2[", "t"), Message(key, head + b"\4\xff\x80" + b"\2[", "t"),
        Message(key, head + b"\2\5" + b"\2\xff", "t"), Message(key, b"\3" + ts, "t"), Message(None, b"\2" + ts, "t"),
        Message(key, head, "t"),
    ]  # fmt: skip
    frame = decode(_frame(spark, messages), format="avro", schemas=_strange_schemas(), table="d.t")
    rows = sorted((r.asDict(recursive=True) for r in frame.collect()), key=lambda r: r["source"]["offset"])
    assert [r["kind"] for r in rows] == ["row", "row", "row", "row", "watermark", "error"]
    assert [r["after"] and (r["after"]["p"], r["after"]["v"]) for r in rows[:3]] == [
        (Decimal("-1.28"), "["), (Decimal("-1.28"), "["), (Decimal("0.05"), '{"hex":"ff"}'),
    ]  # fmt: skip
    assert (rows[3]["op"], rows[3]["commit_ts"], rows[3]["before"]["id"]) == ("d", 463316726494789637, 1)
    assert rows[4]["commit_ts"] == 463316726494789637
    assert rows[5]["error"]["code"] == "TRUNCATED"


def test_wrong_usage_says_what_to_do(spark: SparkSession) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"format": "nosuch"}, "format 'nosuch' is not known"),
        ({"format": "avro"}, "give registry= or schemas="),
        ({"format": "avro", "schemas": shop.schemas(), "table": "orders"}, "db.table is needed"),
        ({"format": "debezium", "table": "shop.orders"}, "its columns are not known"),
    ]
    for kwargs, reported in wrong:
        with pytest.raises(SetupError, match=reported):
            decode(_frame(spark, shop.messages()[:1]), **kwargs)


# ---- the command line
_Run = Callable[..., "subprocess.CompletedProcess[str]"]


def _run(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "spark_jobs", *words]
    root = str(Path(__file__).parents[3])
    return subprocess.run(
        command, cwd=folder, env={**os.environ, "PYTHONPATH": root}, capture_output=True, text=True, check=False
    )


def _in_process(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """As `_run`, in this process and its session."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        return subprocess.CompletedProcess(words, main(list(words)), out.getvalue(), err.getvalue())


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("run", [_in_process, pytest.param(_run, marks=pytest.mark.slow)])
def test_spark_by_command_line_equals_in_process(tmp_path: Path, run: _Run) -> None:
    """Same lines, same dead letters, same counts, same exit code; with lines that are no messages among them."""
    lines = [json.dumps(message_line(m)) for m in _damaged(shop.messages())]
    lines[2:2] = ["", "no json", '{"x": 1}']
    (tmp_path / "in.jsonl").write_text("\n".join(lines) + "\n")
    words = ["decode", "--format", "avro", "--schemas", str(shop.SCHEMAS_FILE), "--in", "in.jsonl"]
    runs = {}
    for name, more in (("plain", []), ("spark", ["--spark", "--master", "local[2]"])):
        out, dead = f"{name}.jsonl", f"{name}.dead.jsonl"
        runs[name] = run(*words, "--out", out, "--dead-letter", dead, *more, folder=tmp_path)
        assert runs[name].returncode == 1, runs[name].stderr
    assert (tmp_path / "plain.jsonl").read_bytes() == (tmp_path / "spark.jsonl").read_bytes()
    assert (tmp_path / "plain.dead.jsonl").read_bytes() == (tmp_path / "spark.dead.jsonl").read_bytes()
    assert runs["plain"].stderr == without_progress(runs["spark"].stderr)
    assert runs["plain"].stdout == runs["spark"].stdout == ""


@pytest.mark.slow
def test_the_demo(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "registry.db").write_bytes(b"what an earlier run left")
    run = _run("demo", "--dir", "out", folder=tmp_path)
    assert run.returncode == 0, run.stderr
    lines = without_progress(run.stderr).splitlines()
    assert [line for line in lines if not line.startswith("demo: ")] == []
    assert "rows 273 (insert 200, update 43, delete 30)" in run.stdout
    assert "errors 0" in run.stdout
    written = [json.loads(line) for line in (tmp_path / "out" / "debezium.jsonl").read_text().splitlines()]
    assert len(written) == 273
    assert {w["payload"]["source"]["table"] for w in written} == {"customers", "orders"}
    # The registry, whose command line names its store, has ended with the demo.
    commands = [" ".join(p.info["cmdline"] or ()) for p in psutil.process_iter(["cmdline"])]
    assert not [command for command in commands if str(tmp_path) in command]
