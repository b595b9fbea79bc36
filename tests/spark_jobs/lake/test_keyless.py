"""`merge --without-key append`: inserts of a table without a key, each once; what can't be applied is counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark_jobs.lake.test_merge import ENGINES
from tests.ticdc_bridge.cli.test_encode import found, row, written
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.model.event import Message

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DDL = [
    (1, "CREATE TABLE t (a int, v varchar(9))"), (40, "ALTER TABLE t ADD COLUMN w int DEFAULT 5"),
    (60, "TRUNCATE TABLE t"), (90, "ALTER TABLE t ADD PRIMARY KEY (a)"),
]  # fmt: skip
_CHANGES: list[dict[str, Any]] = [
    {"commit_ts": 10, "op": "c", "after": {"a": "1", "v": "x"}},
    {"commit_ts": 10, "op": "c", "after": {"a": "1", "v": "x"}},  # another row, equal to the first
    {"commit_ts": 20, "op": "u", "before": {"a": "1", "v": "x"}, "after": {"a": "1", "v": "y"}},
    {"commit_ts": 30, "op": "d", "before": {"a": "1", "v": "y"}, "after": None},
    {"commit_ts": 50, "op": "c", "after": {"a": "2", "v": "z", "w": "7"}},
    {"commit_ts": 70, "op": "c", "after": {"a": "3", "v": "z", "w": "8"}},
    {"commit_ts": 95, "op": "c", "after": {"a": "4", "v": "z", "w": "9"}},
]


def _merge(messages: list[Message], until: int, *more: str) -> int:
    lines = [{"commit_ts": ts, "db": "d", "query": text} for ts, text in _DDL if ts < until]
    Path("ddl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    location = written(messages, "in.jsonl")
    return main(
        ["merge", "--format", "open", "--table", "d.t", "--ddl", "ddl", "--in", location, "--out", "delta:t", *more]
    )


@pytest.mark.slow
@ENGINES
def test_inserts_of_a_table_without_a_key(spark: SparkSession, capsys: pytest.CaptureFixture[str], engine: str) -> None:
    Path("ddl").write_text("".join(json.dumps({"commit_ts": t, "db": "d", "query": q}) + "\n" for t, q in _DDL))
    lines = [row(offset=n, key=[], **change) for n, change in enumerate(_CHANGES)]
    Path("l").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert main(["encode", "--to", "open", "--in", "l", "--out", "m", "--ddl", "ddl"]) == 0
    messages, append = found("m"), ("--without-key", "append", "--engine", engine)

    def existing() -> list[tuple[Any, ...]]:
        frame = spark.read.format("delta").load(str(Path("t").absolute())).drop("_commit_ts", "_place")
        return sorted(map(tuple, frame.collect()))

    assert _merge(messages[:4], 35, "--engine", engine) == 2
    assert "--without-key append" in capsys.readouterr().err
    for _ in "ab":  # what is read again adds nothing
        assert _merge(messages[:4], 35, *append) == 0
        output = capsys.readouterr().err
        assert "update of a table without a key 1" in output
        assert "delete of a table without a key 1" in output
        assert existing() == [(1, "x"), (1, "x")]
    assert _merge(messages[:5], 55, *append) == 0
    assert existing() == [(1, "x", 5), (1, "x", 5), (2, "z", 7)]
    assert _merge(messages[:6], 80, *append) == 0
    assert existing() == [(3, "z", 8)]
    assert _merge(messages[6:], 99, *append) == 2  # it has a key now
    assert "--out PLACE" in capsys.readouterr().err
    assert _merge([Message(m.key, m.value) for m in messages[5:6]], 80, *append) == 2
    assert "topic, partition and offset" in capsys.readouterr().err
