"""`merge --changelog`: a row for each change, once, in columns that no DDL takes away."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark_jobs.lake.test_merge import rows
from tests.spark_jobs.lake.test_merge_order import BASE, _avro_message, write_avro_schemas
from tests.spark_jobs.lake.test_offset_order import _DDL, _connector_message
from tests.support.table import check_rows
from tests.ticdc_bridge.cli.test_encode import found, row, written
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.model.event import Message

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENGINES = pytest.mark.parametrize("engine", ["deltalake", "delta-spark"])
# A table that gets, loses and renames columns, and is emptied; its changes, in the columns of their time.
STATEMENTS = [
    (1, "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(9), b INT)"),
    (20, "ALTER TABLE t DROP COLUMN b"),
    (30, "ALTER TABLE t ADD COLUMN b VARCHAR(5) DEFAULT 'x'"),
    (40, "ALTER TABLE t RENAME COLUMN a TO aa"),
    (50, "TRUNCATE TABLE t"),
]
CHANGES: list[tuple[int, str, dict[str, str] | None, dict[str, str] | None]] = [
    (10, "c", None, {"id": "1", "a": "one", "b": "7"}),
    (11, "u", {"id": "1", "a": "one", "b": "7"}, {"id": "2", "a": "one", "b": "8"}),
    (25, "c", None, {"id": "3", "a": "three"}),
    (35, "u", {"id": "3", "a": "three", "b": "x"}, {"id": "3", "a": "three", "b": "y"}),
    (45, "d", {"id": "3", "aa": "three", "b": "y"}, None),
    (55, "c", None, {"id": "9", "aa": "nine", "b": "z"}),
]
# commit_ts, op, row identity, old row identity, id, aa, b, b__dropped_20
LOG: list[tuple[Any, ...]] = [
    (10, "I", '["1"]', None, 1, "one", "x", 7), (11, "U", '["2"]', '["1"]', 2, "one", "x", 8),
    (25, "I", '["3"]', None, 3, "three", "x", None), (35, "U", '["3"]', '["3"]', 3, "three", "y", None),
    (45, "D", '["3"]', '["3"]', 3, "three", "y", None), (50, "TRUNCATE", None, None, None, None, None, None),
    (55, "I", '["9"]', None, 9, "nine", "z", None),
]  # fmt: skip
_NAMES = ("_tidb_commit_ts", "_tidb_op", "_tidb_row_identity", "_tidb_old_row_identity", "id", "aa", "b")


def write_statements(until: int) -> str:
    lines = [{"commit_ts": ts, "db": "d", "query": text, "typed": True} for ts, text in STATEMENTS if ts < until]
    Path("ddl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return "ddl"


def open_messages() -> list[Message]:
    """CHANGES as messages of the Open protocol."""
    lines = [
        row(commit_ts=ts, op=op, offset=n, before=before, after=after)
        for n, (ts, op, before, after) in enumerate(CHANGES)
    ]
    Path("l").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert main(["encode", "--to", "open", "--in", "l", "--out", "m", "--ddl", write_statements(99)]) == 0
    return found("m")


def log_of(spark: SparkSession, path: str) -> list[tuple[Any, ...]]:
    names = (*_NAMES, "b__dropped_20")
    return sorted(
        (tuple(entry[name] for name in names) for entry in rows(spark, path)), key=lambda entry: int(entry[0])
    )


def _merge(messages: list[Message], until: int, *more: str) -> int:
    argv = ["merge", "--format", "open", "--table", "d.t", "--ddl", write_statements(until)]
    return main([*argv, "--in", written(messages, "some.jsonl"), *more])


def test_a_change_is_there_once(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """Beside the current table, and again when all comes again."""
    messages = open_messages()
    positions = ("--engine", "deltalake", "--out", "delta:now", "--changelog", "delta:log")
    for _ in range(2):
        assert _merge(messages, 99, *positions) == 0
        assert log_of(spark, "log") == LOG
    assert "skipped in the changelog already 6" in capsys.readouterr().err
    assert rows(spark, "now") == [{"id": 9, "aa": "nine", "b": "z"}]
    update = next(entry for entry in rows(spark, "log") if entry["_tidb_commit_ts"] == 11)
    assert dict(update["_before"]) == {"id": "1", "a": "one", "b": "7"}
    assert (update["_tidb_identity_kind"], update["_kafka_topic"], update["_kafka_offset"]) == ("pk", "t", 1)


@ENGINES
@pytest.mark.slow
def test_batches_give_the_log_that_one_run_gives(spark: SparkSession, engine: str) -> None:
    """Cut anywhere, redelivered, late, and with DDL that comes before, with or after the changes around it."""
    messages = open_messages()
    for piece, until in ((slice(0, 2), 15), (slice(0, 3), 28), (slice(2, 5), 46), (slice(3, 6), 99), (slice(0), 99)):
        assert _merge(messages[piece], until, "--engine", engine, "--changelog", "delta:log") == 0
    assert log_of(spark, "log") == LOG


_A = BASE + (ord("A") << 20)


def _orders(name: str, *more: str) -> list[str]:
    write_avro_schemas()
    Path("ddl").write_text(json.dumps(_DDL) + "\n")
    return ["merge", "--table", "shop.orders", "--engine", "deltalake", "--changelog", f"delta:{name}", *more]


@pytest.mark.slow
def test_changes_without_a_commit_ts(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """They are known by their place in Kafka; without it nobody can tell whether they are new."""
    avro = ("--format", "avro", "--schemas", "schemas.jsonl")
    connector = ("--format", "debezium-mysql", "--ddl", "ddl", "--order", "offset")
    insert, delete = _avro_message(1, "A", 0, 0, 1000), _avro_message(1, "-", 0, 1, 2000)
    untimed = [_connector_message(1, op, name, n) for n, (op, name) in enumerate((("r", "a"), ("u", "b"), ("u", "c")))]
    cases: list[tuple[str, tuple[str, ...], list[list[Message]], str, list[tuple[Any, ...]]]] = [
        (
            "avro", avro, [[insert, delete], [delete, insert]], "_tidb_commit_ts",
            [("D", None, "kafka/orders/0/1/2000/0"), ("I", _A, f'{_A}/I/["1"]')],
        ),
        (
            "mysql", connector, [untimed, untimed[1:]], "_kafka_offset",
            [(op, at, f"kafka/orders/0/{at}/0") for at, op in enumerate("IUU")],
        ),
    ]  # fmt: skip

    def check(case: Any) -> None:
        name, options, runs, order, expected = case
        for messages in runs:
            assert main([*_orders(name, *options), "--in", written(messages)]) == 0
        made = [(entry["_tidb_op"], entry[order], entry["_change"]) for entry in rows(spark, name)]
        assert sorted(made, key=str) == sorted(expected, key=str)

    check_rows(cases, check, lambda case: case[0])
    deleted = next(entry for entry in rows(spark, "avro") if entry["_tidb_op"] == "D")
    assert (str(deleted["_commit_date"]), deleted["_kafka_timestamp"].timestamp()) == ("1970-01-01", 2.0)
    capsys.readouterr()
    unplaced = [Message(delete.key, delete.value)]
    assert main([*_orders("other", *avro), "--in", written(unplaced)]) == 2
    assert "neither a commit_ts with its row's key nor a topic" in capsys.readouterr().err


@pytest.mark.slow
def test_columns_that_are_called_as_ours(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """Names that a job has for itself are a table's own all the same, or refused by name."""
    names = (
        *"position row op commit_ts before after source turn gone late complete ts time opens k_0 v_0".split(),
        "_place",
    )
    columns = ", ".join(f"`{name}` varchar(9)" for name in names)
    create = {"commit_ts": 1, "db": "d", "query": f"CREATE TABLE t (k_1 INT PRIMARY KEY, {columns})"}
    Path("ddl").write_text(json.dumps(create) + "\n")
    values = {"k_1": "1", **{name: f"{n}" for n, name in enumerate(names)}}
    changed = {**values, "row": "new", "_place": "p"}
    lines = [row(commit_ts=10, key=["k_1"], offset=0, after=values),
             row(commit_ts=11, key=["k_1"], op="u", offset=1, before=values, after=changed)]  # fmt: skip
    Path("l").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert main(["encode", "--to", "open", "--in", "l", "--out", "m", "--ddl", "ddl"]) == 0
    argv = ["merge", "--format", "open", "--table", "d.t", "--ddl", "ddl", "--engine", "deltalake"]
    argv += ["--out", "delta:t", "--changelog", "delta:log", "--versions", "delta:v"]
    for message in found("m"):
        assert main([*argv, "--in", written([message])]) == 0
    for path in ("t", "log", "v"):
        existing = [
            entry for entry in rows(spark, path) if entry.get("_tidb_op") != "I" and entry.get("_valid_to") is None
        ]
        assert [{name: str(entry[name]) for name in changed} for entry in existing] == [changed], path
    Path("ddl").write_text(
        json.dumps({**create, "query": f"CREATE TABLE t (k_1 INT, {columns}, PRIMARY KEY (_place))"})
    )
    Path("l").write_text(json.dumps(row(commit_ts=10, key=["_place"], offset=0, after=values)) + "\n")
    assert main(["encode", "--to", "open", "--in", "l", "--out", "m2", "--ddl", "ddl"]) == 0
    assert main([*argv[:-6], "--out", "delta:other", "--in", written(found("m2"))]) == 2
    assert "has a column _place of its own" in capsys.readouterr().err
