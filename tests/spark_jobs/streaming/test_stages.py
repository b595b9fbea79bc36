"""--dedupe and --until-resolved: one table of cases for this process, for --spark and for a stream."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.golden import Golden
from tests.support.progress_lines import without_progress
from tests.support.table import check_rows
from tests.ticdc_bridge.cli.test_encode import numbered, written
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.spark_jobs.io.locations import KafkaClient
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.job import Job
from ticdc_bridge.spark_jobs.pipeline.result import Summary
from ticdc_bridge.spark_jobs.streaming.checkpoint import Checkpoint
from ticdc_bridge.spark_jobs.streaming.micro_batch import MicroBatchRunner
from ticdc_bridge.spark_jobs.streaming.stages import MicroBatch, Stage, add_held, drop_repeats, release

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BAD = Message(b"k", b"\x07nope", "t", 0, 900)
_TYPE = (
    "key binary, value binary, topic string, partition int, offset bigint, position bigint,"
    " timestamp timestamp, headers array<struct<key:string,value:binary>>"
)


def _messages() -> tuple[list[Message], int, int]:
    """DDL and changes in partition 0, the newest of these first; the commit_ts in the middle, and the newest."""
    changes = [m for m in numbered(Golden("open", "wide.default")) if m.key and b'"t":3' not in m.key]
    stamps = sorted({json.loads(m.key[16:])["ts"] for m in changes if m.key})
    changes.reverse()
    changes.sort(key=lambda m: b'"t":2' not in (m.key or b""))
    return _copies(changes, 0, 0), stamps[len(stamps) // 2], stamps[-1]


def _mark(commit_ts: int, partition: int, offset: int) -> Message:
    head = json.dumps({"ts": commit_ts, "t": 3}).encode()
    return Message((1).to_bytes(8, "big") + len(head).to_bytes(8, "big") + head, bytes(8), "t", partition, offset)


def _copies(messages: list[Message], partition: int, offset: int) -> list[Message]:
    return [replace(m, topic="t", partition=partition, offset=offset + n) for n, m in enumerate(messages)]


def _read(file: Path) -> list[dict[str, Any]]:
    return [line for line in map(json.loads, file.read_text().splitlines()) if line["kind"] != "error"]


def _stream(spark: SparkSession, name: str, messages: list[Message], options: list[str]) -> tuple[list[Any], Summary]:
    """The messages as two micro-batches; what was written, and the counts of both."""
    config = CodecConfig("open", FileSchemas([]), Options.of({}), learn=True)
    job = Job(config, dedupe="--dedupe" in options, until_resolved="--until-resolved" in options)
    checkpoint, kafka, total = Checkpoint(Path(f"{name}.checkpoint"), {}), KafkaClient(), Summary()
    runner = MicroBatchRunner(spark, job, f"{name}.folder", f"{name}.failed", kafka, checkpoint)
    partitions = frozenset(m.partition or 0 for m in messages if m.value != _BAD.value)
    half = len(messages) // 2
    for number, piece in enumerate((messages[:half], messages[half:])):
        rows: list[tuple[Any, ...]] = [
            (m.key, m.value, m.topic, m.partition, m.offset, (m.partition or 0) << 48 | (m.offset or 0), None, [])
            for m in piece
        ]
        total.merge(runner.process(spark.createDataFrame(rows, _TYPE).coalesce(1), number, partitions).summary)
    lines = [line for file in sorted(Path(f"{name}.folder").glob("*.jsonl")) for line in _read(file)]
    return lines, total


@pytest.mark.parametrize("some", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_stages(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], some: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    changes, middle, end = _messages()
    again, other = _copies(changes, 0, 300), _copies(changes, 1, 0)
    dedupe, resolved = ["--dedupe"], ["--until-resolved"]
    count = sum(b'"t":1' in (m.key or b"") for m in changes)
    rows: list[tuple[str, list[Message], list[str], int, int | None]] = [
        # name, messages, options, duplicates, the newest commit_ts that is released (None: the job is refused)
        ("twice in two partitions", [*changes, *other], dedupe, count, end),
        ("one that failed in between", [*changes, _BAD, *again], dedupe, count, end),
        ("the least of two", [*changes, _mark(end, 0, 200), _mark(middle, 1, 0)], resolved, 0, middle),
        ("nothing of one", [*changes, *other, _mark(end, 0, 200)], resolved, 0, -1),
        ("one that failed", [*changes, replace(_BAD, partition=7), _mark(middle, 0, 200)], resolved, 0, middle),
        ("no watermark", changes, resolved, 0, None),
        ("both", [*changes, *again, _mark(middle, 0, 700)], [*dedupe, *resolved], count, middle),
    ]

    def check(row: tuple[str, list[Message], list[str], int, int | None]) -> None:
        name, messages, options, duplicates, newest = row
        words = ["decode", "--format", "open", "--in", written(messages), "--ddl", "stream", *options]
        reported, outputs = [], []
        for location, more in (("here", []), ("spark", ["--spark"])):
            code = main([*words, "--out", f"{name}.{location}", "--dead-letter", f"{name}.{location}.dead", *more])
            reported.append((code, without_progress(capsys.readouterr().err)))
            outputs.append([Path(f"{name}.{location}{end}") for end in ("", ".dead")])
        assert reported[0] == reported[1]
        assert (reported[0][0] == 2) == (newest is None)
        for entry, two in zip(*outputs, strict=True):
            assert entry.exists() == two.exists()
            assert not entry.exists() or entry.read_bytes() == two.read_bytes()
        streamed, summary = _stream(spark, name, messages, options)
        if newest is None:  # a stream waits for watermarks that may still come
            assert summary.held == len(messages)
            return
        lines = _read(outputs[0][0])
        if resolved[0] in options:
            assert all((line["commit_ts"] or 0) <= newest for line in lines)
            order = [line["commit_ts"] for line in lines if line["commit_ts"] is not None]
            assert order == sorted(order)
        assert Counter(map(json.dumps, streamed)) == Counter(map(json.dumps, lines))
        told_lines = set(reported[0][1].splitlines())
        assert (f"decode: skipped duplicate {duplicates}" in told_lines) == bool(duplicates)
        assert summary.skipped["duplicate"] == duplicates
        summary.out += summary.errors.total()  # each is a line too, but in a stream's folder
        warnings = {f"warning: {text}" for text in summary.warnings()}  # of rows that are all held back
        assert {f"decode: {line}" for line in summary.lines()} | warnings == told_lines

    pieces = "spark.sql.shuffle.partitions"
    before = spark.conf.get(pieces)
    spark.conf.set(pieces, "1")
    try:
        check_rows(rows[-2:] if some else rows[:-2], check, lambda row: row[0])
    finally:
        spark.conf.set(pieces, str(before))


@pytest.mark.slow
def test_each_stage_alone(spark: SparkSession, tmp_path: Path) -> None:
    """What is dropped, held and released over two batches, and what a run without --until-resolved does with it."""
    job, checkpoint = Job(CodecConfig("open", FileSchemas([]), Options.of({}))), Checkpoint(tmp_path, {})
    type_ = "part int, position bigint, number int, commit_ts bigint, `rank` int, id binary,"
    type_ += " change struct<commit_ts:bigint>"
    first, second = (MicroBatch(number, job, checkpoint, frozenset({0, 1})) for number in (0, 1))

    def times(stage: Stage, batch: MicroBatch, changes: list[int]) -> list[int]:
        rows = [(0, position, 0, ts, 2, str(ts).encode(), None) for position, ts in enumerate(changes)]
        return sorted(row["commit_ts"] for row in stage(spark.createDataFrame(rows, type_), batch).collect())

    assert times(drop_repeats, first, [10, 10, 12]) == [10, 12]
    assert times(drop_repeats, second, [12, 13]) == [13]
    assert [batch.result.summary.skipped["duplicate"] for batch in (first, second)] == [1, 1]
    first.result.watermarks = {0: 11, 1: 30}
    assert times(release, first, [10, 12]) == [10]
    assert (first.result.resolved, first.result.summary.held, second.in_order) == (11, 1, False)
    assert times(add_held, second, [20]) == [12, 20]
    assert second.in_order
    second.result.watermarks = {0: 12}  # the other partition's is that of the batch before
    assert times(release, second, [20]) == [12]
    assert times(add_held, MicroBatch(3, job, checkpoint), [21]) == [21]
