"""Changes without some of their table's columns, and batches without a row of it: merge guesses no NULL, and no key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark_jobs.lake.test_merge import rows
from tests.support.golden import Registry
from tests.support.rows import Tables, column
from tests.support.table import check_rows
from tests.ticdc_bridge.cli.test_encode import written
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.inspect.format_lookup import format_named
from ticdc_bridge.schemas.model.event import Message, RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Table, TableId

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TS = 463_299_738_777_157_634
_CREATE = "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(9) NOT NULL, note VARCHAR(9))"
_ADD = "ALTER TABLE t ADD COLUMN more INT"
_A = {"id": 1, "name": "a", "note": "x"}


def _ddl(*statements: tuple[int, str]) -> None:
    lines = [{"commit_ts": ts, "db": "shop", "query": query} for ts, query in statements]
    Path("ddl.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def _message(n: int, op: str, row: dict[str, Any], by_offset: bool) -> Message:
    """TiCDC's Debezium, or a connector's, without schema: the row has what columns it has."""
    at: dict[str, Any] = {"connector": "mysql"} if by_offset else {"connector": "TiCDC", "commit_ts": _TS + n}
    before = {"id": row["id"]} if op == "u" else None
    body = {
        "before": before,
        "after": row,
        "op": op,
        "ts_ms": 1,
        "source": {"db": "shop", "table": "t", "ts_ms": 1, **at},
    }
    return Message(json.dumps({"id": row["id"]}).encode(), json.dumps(body).encode(), "t", 0, n, 1_764_000_000_000)


@pytest.mark.slow
def test_a_column_that_was_not_sent_is_not_written_as_null(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    later = _TS + 5
    cases: list[tuple[str, list[tuple[int, str]], bool, str, dict[str, Any], str]] = [
        # what, DDL, by offset, the second change (op, row), the column that is named, or "" where it is written
        ("an update", [(1, _CREATE)], False, "u", {"id": 1, "name": "b"}, "note"),
        ("an update by offset", [(1, _CREATE)], True, "u", {"id": 1, "name": "b"}, "note"),
        ("an insert", [(1, _CREATE)], False, "c", {"id": 2, "name": "b"}, ""),
        ("an insert without what is needed", [(1, _CREATE)], False, "c", {"id": 2, "note": "b"}, "name"),
        ("before it was added", [(1, _CREATE), (later, _ADD)], False, "u", {**_A, "name": "b"}, ""),
        ("after it was added", [(1, _CREATE), (_TS + 1, _ADD)], False, "u", {**_A, "name": "b"}, "more"),
        ("inserted after it was added", [(1, _CREATE), (_TS + 1, _ADD)], False, "c", {"id": 2, "name": "b"}, ""),
    ]  # fmt: skip

    def check(case: tuple[str, list[tuple[int, str]], bool, str, dict[str, Any], str]) -> None:
        what, statements, by_offset, op, row, lacking = case
        path, log = what.replace(" ", "_"), "log_" + what.replace(" ", "_")
        form = "debezium-mysql" if by_offset else "debezium"
        argv = ["merge", "--format", form, "--ddl", "ddl.jsonl", "--table", "shop.t", "--out", f"delta:{path}",
                *(["--order", "offset"] if by_offset else []), "--changelog", f"delta:{log}"]  # fmt: skip
        _ddl(*statements)
        assert main([*argv, "--in", written([_message(0, "c", _A, by_offset)], "a.jsonl")]) == 0
        capsys.readouterr()
        code = main([*argv, "--in", written([_message(2, op, row, by_offset)], "b.jsonl")])
        found = {entry["id"]: entry["note"] for entry in rows(spark, path)}
        if lacking:
            assert code == 2
            assert f"STOPPED: stopped at shop.t: column {lacking}: " in capsys.readouterr().err
            assert (found, len(rows(spark, log))) == ({1: "x"}, 1)
        else:
            assert (code, found) == (0, {1: "x"} if op == "u" else {1: "x", 2: None})

    check_rows(cases, check, lambda case: case[0])


@pytest.mark.slow
def test_avro_without_ddl_and_keys_from_before_a_rename(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """Messages of other tables alone are counted. A delete from before the key's column got another name is applied,
    also where the table changed since.
    """
    registry, options = Registry(), Options.of({"enable_tidb_extension": True})

    def avro(name: str, key: str, id_: int, n: int, op: str = "c", *more: str) -> Message:
        keys = column(key, "int", nullable=False, handle_key=True, primary_key=True)
        of = Table(TableId("shop", name), (keys, *(column(m, "int") for m in more)))
        row: dict[str, Any] = {key: str(id_), **dict.fromkeys(more)}
        before, after = (None, row) if op == "c" else (row, None)
        event = RowChange("made", of, "c" if op == "c" else "d", _TS + n, before, after, (key,), "UTC")
        encoder = format_named("avro").encoder(Context(registry, Tables(of), options))
        [made] = encoder.encode(event, Message(None, None, name))
        return Message(made.key, made.value, name, 0, n, 1_767_348_247_683 + n)

    first = [avro("t", "id", 1, 0), avro("t", "id", 2, 1), avro("t", "id", 1, 2, "d")]
    others, last = [avro("o", "id", 1, 0)], [avro("t", "r", 3, 90, "c", "n")]
    entries = [
        {"subject": subject, "version": n, "id": registry.id_of(subject, text), "schema": text}
        for subject, texts in registry.subjects.items()
        for n, text in enumerate(texts, 1)
    ]
    Path("s.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    argv = ["merge", "--format", "avro", "--schemas", "s.jsonl", "--table", "shop.t"]
    assert main([*argv, "--out", "delta:a", "--in", written(others, "o.jsonl")]) == 0
    assert "other table 1" in capsys.readouterr().err
    _ddl((1, "CREATE TABLE t (id INT PRIMARY KEY)"), (_TS + 50, "ALTER TABLE t ADD COLUMN n INT"),
         (_TS + 60, "ALTER TABLE t RENAME COLUMN id TO r"))  # fmt: skip
    assert main([*argv, "--ddl", "ddl.jsonl", "--out", "delta:b", "--in", written(first + last, "t.jsonl")]) == 0
    assert [row["r"] for row in sorted(rows(spark, "b"), key=lambda row: str(row["r"]))] == [2, 3]
