"""`merge --versions`: what each row looked like when, whatever the order in which its changes come."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from tests.spark_jobs.lake.test_changelog import STATEMENTS, open_messages, write_statements
from tests.spark_jobs.lake.test_merge import rows
from tests.spark_jobs.lake.test_merge_order import AVRO, BASE, T0, _avro_message, write_avro_schemas
from tests.spark_jobs.lake.test_merge_order import runs_of_key as avro_runs
from tests.ticdc_bridge.cli.test_encode import found, row, written
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.spark_jobs.spark.frames import input_of_job

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession


ENGINES = pytest.mark.parametrize("engine", ["deltalake", "delta-spark"])
# from, to, id, aa, b, b__dropped_20
VERSIONS: list[tuple[Any, ...]] = [
    (10, 11, 1, "one", "x", 7), (11, 50, 2, "one", "x", 8), (25, 35, 3, "three", "x", None),
    (35, 45, 3, "three", "y", None), (55, None, 9, "nine", "z", None),
]  # fmt: skip


def versions_of(spark: SparkSession, path: str, *names: str) -> list[tuple[Any, ...]]:
    made = [tuple(entry[name] for name in ("_valid_from_ts", "_valid_to_ts", *names)) for entry in rows(spark, path)]
    return sorted(made, key=str)


@ENGINES
@pytest.mark.slow
def test_versions_of_batches_in_any_order(spark: SparkSession, engine: str) -> None:
    """All at once, and cut, late and redelivered, with DDL around: the same versions."""
    messages = open_messages()
    argv = ["merge", "--format", "open", "--table", "d.t", "--engine", engine]
    runs = {
        "whole": [(messages, 99)],
        "cut": [(messages[:2], 15), (messages[:3], 28), (messages[2:5], 46), (messages[3:], 99), ([], 99)],
        "late": [(messages[4:], 99), (messages[1:3], 99), (messages[:1] + messages[3:5], 99)],
    }
    names = ("id", "aa", "b", "b__dropped_20")
    for name, pieces in runs.items():
        for piece, until in pieces:
            more = ["--ddl", write_statements(until), "--in", written(piece, "some.jsonl")]
            assert main([*argv, *more, "--versions", f"delta:{name}"]) == 0
        assert versions_of(spark, name, *names) == VERSIONS
    assert STATEMENTS[-1] == (50, "TRUNCATE TABLE t")


# Changes of one key, by runs: "a5" is a row with the text a at commit_ts 5, "-5" its delete; the versions in the end.
CHANGES: list[tuple[list[str], str]] = [
    (["a5 b7 -9"], "5-7 a, 7-9 b"), (["a5", "-9", "b7"], "5-7 a, 7-9 b"), (["-9", "a5"], "5-9 a"),
    (["-9", "a12", "b5"], "5-9 b, 12- a"), (["-9 -20", "a5", "b15"], "5-9 a, 15-20 b"),
    (["a5 -9", "-7"], "5-7 a, 9-9 None"), (["a5 -9", "-7", "b8"], "5-7 a, 8-9 b"), (["-9", "b9"], "9- b"),
    (["a5 -9 b9", "a5 -9"], "5-9 a, 9- b"), (["a5 b7", "a5 b7", "b7", "a5"], "5-7 a, 7- b"),
    (["c9", "b7", "a5"], "5-7 a, 7-9 b, 9- c"), (["a5 -9", "a5 -9"], "5-9 a"),
]  # fmt: skip


def _messages_of(runs: list[list[tuple[str, str]]]) -> list[list[Message]]:
    """(key, step) of each run → messages."""
    lines, ends = list[dict[str, Any]](), list[int]()
    for run in runs:
        for key, step in run:
            at, old = int(step[1:]), {"id": key, "v": None}
            change: dict[str, Any] = {"op": "d", "before": old, "after": None} if step[0] == "-" else {
                "op": "c", "after": {"id": key, "v": step[0]}
            }  # fmt: skip
            lines.append(row(commit_ts=at, offset=len(lines), **change))
        ends.append(len(lines))
    Path("l").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert main(["encode", "--to", "open", "--in", "l", "--out", "m", "--ddl", "ddl"]) == 0
    made = found("m")
    return [made[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


@ENGINES
@pytest.mark.slow
def test_changes_of_a_key_in_any_order(spark: SparkSession, engine: str) -> None:
    query = "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))"
    Path("ddl").write_text(json.dumps({"commit_ts": 1, "db": "d", "query": query, "typed": True}) + "\n")
    count = max(len(parts) for parts, _ in CHANGES)
    runs: list[list[tuple[str, str]]] = [[] for _ in range(count)]
    for key, (pieces, _) in enumerate(CHANGES):
        for n, piece in enumerate(pieces):
            runs[n] += [(str(key), step) for step in piece.split()]
    argv = ["merge", "--format", "open", "--table", "d.t", "--ddl", "ddl", "--engine", engine]
    for messages in _messages_of(runs):
        assert main([*argv, "--in", written(messages, "some.jsonl"), "--versions", "delta:v"]) == 0
    made: dict[int, list[tuple[Any, ...]]] = {}
    for begin, end, id_, text in versions_of(spark, "v", "id", "v"):
        made.setdefault(id_, []).append((begin, end, text))
    texts = {
        id_: ", ".join(
            f"{a}-{'' if b is None else b} {text}" for a, b, text in sorted(some, key=lambda entry: entry[0])
        )
        for id_, some in made.items()
    }
    wrong = {str(parts): texts.get(n) for n, (parts, expected) in enumerate(CHANGES) if texts.get(n) != expected}
    assert not wrong


@pytest.mark.slow
def test_messages_are_read_no_more_often_for_three_tables(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    messages = open_messages()
    argv = ["merge", "--format", "open", "--table", "d.t", "--ddl", write_statements(99), "--engine", "deltalake"]
    argv += ["--in", written(messages, "some.jsonl")]
    counts = list[int]()
    for number, kinds in enumerate((("out",), ("out", "changelog", "versions"))):
        lines = spark.sparkContext.accumulator(0)

        def count_line(line: bytes, lines: Any = lines) -> bytes:
            lines.add(1)
            return line

        def read(*args: Any, count_line: Any = count_line) -> Any:
            return input_of_job(*args).withColumn("line", F.udf(count_line, "binary", useArrow=False)("line"))

        monkeypatch.setattr("ticdc_bridge.spark_jobs.streaming.batch.input_of_job", read)
        assert main([*argv, *(f"--{kind}=delta:{kind}{number}" for kind in kinds)]) == 0
        counts.append(lines.value)
    assert counts[0] == counts[1] > 0
    assert [len(rows(spark, f"{kind}1")) for kind in ("out", "changelog", "versions")] == [1, 7, 5]


def test_what_has_no_versions(capsys: pytest.CaptureFixture[str]) -> None:
    """No place at all, one place for two tables, rules and places mixed."""
    argv = ["merge", "--format", "open", "--table", "d.t", "--in", "x.jsonl"]
    refused = [
        ([], "merge: where to? Add --out"),
        (["--out", "delta:a", "--versions", "delta:a"], "are the same place"),
        (["--changelog", "x.parquet"], "--changelog x.parquet: delta:PATH or iceberg:"),
        (["--out", "delta:a", "--changelog", "delta:{schema}/{table}"], "or none"),
        (["--versions", "delta:{schema}"], "--versions delta:{schema}: {table} is missing"),
    ]
    for more, words in refused:
        assert main([*argv, *more]) == 2
        assert words in capsys.readouterr().err


# Runs of Avro's messages as in test_merge_order.AVRO; its versions: "A-B" is A up to B's commit, "A-1.1" A up
# to Kafka's time of message 1 of run 1 (both from 0), "A-" A without an end.
ENDS: list[tuple[Sequence[str], str]] = [
    (["A-"], "A-0.1"), (["A", "-"], "A-1.0"), (["A", "-", "-"], "A-1.0"), (["A-", "A"], "A-0.1"), (["A-B"], "A-0.1 B-"),
    (["A-", "B", "0"], "A-0.1 B-"), (["A-B", "-B"], "A-0.1 B-"), (["A-B", "A-B"], "A-0.1 B-"),
    (["A-B", "-", "B"], "A-0.1 B-"), (["A-B-", "A-B-"], "A-0.1 B-1.3"), (["A-B-C", "-B-C"], "A-0.1 B-0.3 C-"),
    (["A-B-C-B-C"], "A-0.1 B-0.3 C-"), (["A-B-C-B-C-", "B"], "A-0.1 B-0.3 C-0.9"), (["A-BC-BC"], "A-0.1 B-C C-"),
    (["A-B-", "B-C"], "A-0.1 B-1.1 C-"), (["AB-C"], "A-B B-0.2 C-"), (["AC-", "B"], "A-B B-C C-0.2"), (["-"], ""),
    (["-", "A"], "A-"), (["-", "A", "0"], "A-"), (["-B-", "B"], "B-"), (["A", ">-", "A"], "A-1.0"),
    ([">-", "A|0"], "A-0.0"), ([">-B", "A|0"], "A-0.0 B-"),
]  # fmt: skip


@ENGINES
@pytest.mark.slow
def test_deletes_without_a_commit_ts_end_versions_when_kafka_had_them(spark: SparkSession, engine: str) -> None:
    """Avro's. The versions without an end are the rows of the current table; a delete comes by its message."""
    schemas = write_avro_schemas()
    runs = defaultdict[int, list[Message]](list)
    for key, sequence in enumerate([sequence for sequence, _ in [*ENDS, *AVRO]]):
        for run, made in enumerate(avro_runs(sequence, key)):
            runs[run] += made
    argv = ["merge", "--table", "shop.orders", "--format", "avro", "--schemas", schemas, "--engine", engine]
    for run, messages in sorted(runs.items()):
        messages.sort(key=lambda m: (m.partition, m.offset))
        location = written(messages, f"{run}.jsonl")
        assert main([*argv, "--versions", "delta:v", "--out", "delta:c", "--in", location]) == 0
    versions, by_key = rows(spark, "v"), defaultdict[int, list[str]](list)
    for version in versions:
        end = version["_valid_to_ts"]
        text = "" if end is None else chr((end - BASE) >> 20)
        if (message := version["_valid_to_message"]) is not None:
            assert end is None
            assert version["_valid_to"] >= max(version["_valid_from"], message["timestamp"])
            clock = round(message["timestamp"].timestamp() * 1000) - T0
            text = f"{clock // 100 - 1}.{clock % 100}"
        else:
            assert (end is None) == (version["_valid_to"] is None)
        by_key[version["id"]].append(f"{version['name']}-{text}")
    texts = [" ".join(sorted(by_key[key])) for key in range(len(ENDS))]
    assert not [(entry, text) for entry, text in zip(ENDS, texts, strict=True) if entry[1] != text]
    open_rows = {(entry["id"], entry["name"]) for entry in versions if entry["_valid_to"] is None}
    assert open_rows == {(entry["id"], entry["name"]) for entry in rows(spark, "c")}


@pytest.mark.slow
def test_what_no_version_can_end_by(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """A delete without a commit_ts, whose message has no timestamp."""
    del spark
    argv = ["merge", "--table", "shop.orders", "--format", "avro", "--schemas", write_avro_schemas()]
    messages = [_avro_message(1, "A", 0, 0, 1000), replace(_avro_message(1, "-", 0, 1, 0), timestamp=None)]
    assert main([*argv, "--versions", "delta:v", "--engine", "deltalake", "--in", written(messages)]) == 2
    assert "1 delete without a commit_ts, and without a timestamp" in capsys.readouterr().err
    assert not Path("v").exists()
