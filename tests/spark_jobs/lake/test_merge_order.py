"""`merge` of what comes again, and of what has no commit_ts: deletes from Avro, changes of Debezium's MySQL connector.

One table per test has a key for each sequence, so that Spark plans few jobs.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.spark_jobs.lake.test_merge import rows
from tests.support.table import check_rows
from tests.ticdc_bridge.cli.test_encode import written
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.codec.varint import uvarint, zigzag
from ticdc_bridge.schemas.model.event import Message

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

ENGINES = pytest.mark.parametrize("engine", ["deltalake", pytest.param("delta-spark", marks=pytest.mark.slow)])


def merge_orders(engine: str, *more: str) -> int:
    return main(["merge", "--table", "shop.orders", "--out", "delta:lake", "--engine", engine, *more])


# ---------------------------------------------------------------------------------- Avro's deletes
BASE, T0 = 463_299_738_777_157_634, 1_767_348_246_678
_INT = {"type": "int", "connect.parameters": {"tidb_type": "INT"}}
_TEXT = {"type": "string", "connect.parameters": {"tidb_type": "TEXT"}}
_KEY = {"type": "record", "name": "orders", "namespace": "default.shop", "fields": [{"name": "id", "type": _INT}]}
_EXTENSION = (("_tidb_op", "string", ""), ("_tidb_commit_ts", "long", 0), ("_tidb_commit_physical_time", "long", 0))
_VALUE = {
    **_KEY,
    "fields": [
        *_KEY["fields"],
        {"name": "name", "type": ["null", _TEXT], "default": None},
        *({"name": name, "type": kind, "default": default} for name, kind, default in _EXTENSION),
    ],
}

# What comes, by runs: an insert or update at a time A < B < C, a delete "-"; and the name the row has at last. After
# ">" messages go to another partition, which a reader has after the first one, after "<" to one before it. A digit: the
# messages of that run are read again. `X|N`: X was sent before all of run N.
AVRO: list[tuple[Sequence[str], str | None]] = [
    (["A"], "A"),
    (["A", "B"], "B"),
    (["B", "A"], "B"),
    (["A-"], None),
    (["A-", "A"], None),
    (["A", "-", "A"], None),
    (["A", "-A"], None),
    (["AB-", "AB"], None),
    (["AB-", "AB-"], None),
    (["A-A", "-"], None),
    (["A-", "A", "A"], None),
    (["A-", "B"], "B"),
    (["A-", "A", "B"], "B"),
    (["A-B", "A"], "B"),
    (["A-B", "A-B"], "B"),
    (["A-B", "-B"], "B"),
    (["A-B", "-", "B"], "B"),
    (["A-B-B"], "B"),
    (["A-BA-B"], "B"),
    (["A-", "B", "-B"], "B"),
    (["A-B", "-", "A"], None),
    (["A-B-", "A"], None),
    (["A-B-", "A-B-"], None),
    (["A-B-C", "-B-C"], "C"),
    (["A-B-C-", "B"], None),
    (["AB", "A-"], None),
    (["A-B", "A-", "B"], "B"),
    (["-", "A"], "A"),
    (["-B-B"], "B"),
    (["-B", "-B"], "B"),
    (["-", "B", "-B"], "B"),
    (["-B", "-", "B"], "B"),
    (["-B-", "B"], "B"),
    # Read again, as by a job that begins anew.
    (["A-", "B", "0"], "B"),
    (["A", "-", "B", "1"], "B"),
    (["A-B", "-C", "0"], "C"),
    (["A-B-", "C", "0", "1"], "C"),
    (["-", "A", "0"], "A"),
    (["A-", "0", "B", "0"], "B"),
    (["A-B", "0", "-", "0"], None),
    (["A-B", "-", "0", "B"], "B"),
    (["A-B", "-", "0", "1", "B", "0"], "B"),
    (["A-B", "-", "B", "1"], "B"),
    (["A-B", "-B", "1"], "B"),
    (["A-B", "-", "1", "B", "1"], "B"),
    (["A-B", "-", "B", "-", "1"], None),
    (["A", "-", "B", "-", "1", "B", "3"], "B"),
    # The topic has more partitions than before.
    (["A>-"], None),
    (["A<-"], None),
    (["A<-B"], "B"),
    (["A>-<B"], "B"),
    (["A", "<-", "B"], "B"),
    (["A", ">-", "A"], None),
    (["A-", ">B"], "B"),
    (["A-B>-B"], "B"),
    (["A-B<-B-"], None),
    (["A-B", "<-", "<B"], "B"),
    # A reader is behind in the old partition.
    ([">-", "A|0"], None),
    ([">-B", "A|0"], "B"),
    ([">-", "B|1", "A|0"], "B"),
    (["A", ">-", "-B|0", ">B"], "B"),
    (["A", ">-", "B|0"], None),
]


def _long(number: int) -> bytes:
    return uvarint(zigzag(number))


def runs_of_key(
    sequence: Sequence[str], key: int, message: Callable[[int, str, int, int, int], Message] | None = None
) -> list[list[Message]]:
    """The messages of a key, by runs. message: makes that of a step, else one of Avro."""
    message = message or _avro_message
    runs = list[list[Message]]()
    offsets = [1000 * key] * 3
    for number, steps in enumerate(sequence):
        if steps.isdigit():
            runs.append(runs[int(steps)])
            continue
        steps, _, late = steps.partition("|")
        partition, clock, made = 1, (number + 1) * 100 if not late else int(late) * 100, list[Message]()
        for step in steps:
            if step in "<>":
                partition = 0 if step == "<" else 2
                continue
            made.append(message(key, step, partition, offsets[partition], T0 + clock))
            offsets[partition] += 1
            clock += 1
        runs.append(made)
    return runs


def _avro_message(key: int, step: str, partition: int, offset: int, time: int) -> Message:
    commit_ts = None if step == "-" else BASE + (ord(step) << 20)
    return avro_message(key, commit_ts, step, Place(partition, offset, time))


class Place(NamedTuple):
    partition: int
    offset: int
    time: int


def avro_message(key: int, commit_ts: int | None, name: str, location: Place) -> Message:
    """A row of the name, or without a commit_ts its delete."""
    data, value = b"\0\0\0\0\1" + _long(key), None
    if commit_ts is not None:
        text = name.encode()
        row = _long(key) + b"\x02" + _long(len(text)) + text + b"\x02c" + _long(commit_ts) + _long(commit_ts >> 18)
        value = b"\0\0\0\0\2" + row
    return Message(data, value, "orders", *location)


def write_avro_schemas() -> str:
    """The schemas of `_avro_message`, in a file."""
    Path("schemas.jsonl").write_text(
        "".join(
            json.dumps({"subject": f"orders-{field}", "version": 1, "id": n, "schema": json.dumps(schema)}) + "\n"
            for n, (field, schema) in enumerate((("key", _KEY), ("value", _VALUE)), 1)
        )
    )
    return "schemas.jsonl"


@pytest.mark.slow
@ENGINES
def test_deletes_from_avro_and_what_comes_again(spark: SparkSession, engine: str) -> None:
    schemas = write_avro_schemas()
    runs = defaultdict[int, list[Message]](list)
    for key, (sequence, _) in enumerate(AVRO):
        for run, made in enumerate(runs_of_key(sequence, key)):
            runs[run] += made
    for run, messages in sorted(runs.items()):
        messages.sort(key=lambda m: (m.partition, m.offset))  # as Kafka gives them
        location = written(messages, f"{run}.jsonl")
        assert merge_orders(engine, "--format", "avro", "--schemas", schemas, "--in", location) == 0
    known = {row["id"]: row["name"] for row in rows(spark, "lake")}
    wrong = {str(sequence): known.get(n) for n, (sequence, last) in enumerate(AVRO) if known.get(n) != last}
    assert not wrong


# The same around a TRUNCATE that came after A and before B.
TRUNCATED: list[tuple[Sequence[str], str | None]] = [
    (["A"], None), (["A-"], None), (["AB"], "B"), (["A-B", "A-B"], "B"), (["A-B", "A-", "B"], "B"),
    (["A-B", "A-"], "B"), (["A-B", "-B"], "B"), (["A-B", "-", "B"], "B"), (["A-", "B", "0"], "B"),
    (["A-", "B", "0", "1"], "B"), (["A-B", "-"], None), (["AB", "-"], None), (["A", "B", "-", "0"], None),
    (["A-B-", "A-B-"], None), (["A-B", "A"], "B"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("known", [0, 1], ids=["at first", "later"])
def test_deletes_from_avro_around_a_truncate(spark: SparkSession, known: int) -> None:
    """A delete of before it that comes again takes no row of after it. known: the run from which the DDL has it."""
    create = {"commit_ts": 1, "db": "shop", "query": "CREATE TABLE orders (id INT PRIMARY KEY, name TEXT)"}
    truncate = {"commit_ts": BASE + (ord("B") << 20) - 1, "db": "shop", "query": "TRUNCATE TABLE orders"}
    argv = ["--format", "avro", "--schemas", write_avro_schemas(), "--ddl", "ddl.jsonl", "--versions", "delta:v"]
    runs = defaultdict[int, list[Message]](list)
    for key, (sequence, _) in enumerate(TRUNCATED):
        for run, made in enumerate(runs_of_key(sequence, key)):
            runs[run] += made
    for run, messages in sorted(runs.items()):
        statements = [create, truncate] if run >= known else [create]
        Path("ddl.jsonl").write_text("".join(json.dumps(statement) + "\n" for statement in statements))
        assert merge_orders("deltalake", *argv, "--in", written(messages, f"{run}.jsonl")) == 0
    existing = {row["id"]: row["name"] for row in rows(spark, "lake")}
    wrong = {str(sequence): existing.get(n) for n, (sequence, last) in enumerate(TRUNCATED) if existing.get(n) != last}
    assert not wrong
    open_rows = {row["id"]: row["name"] for row in rows(spark, "v") if row["_valid_to"] is None}
    assert open_rows == existing


@pytest.mark.slow
def test_updates_from_avro_before_another_key(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """Avro has no old row: which row of the new key an older update changed is not known. In each kind of table."""
    at = BASE + (ord("C") << 20)
    ddl = [
        (1, "CREATE TABLE orders (id INT PRIMARY KEY NONCLUSTERED, name VARCHAR(20) NOT NULL)"),
        (at - 2, "ALTER TABLE orders DROP PRIMARY KEY"), (at - 1, "ALTER TABLE orders ADD PRIMARY KEY (name)"),
    ]  # fmt: skip
    schemas = write_avro_schemas()
    by_name = {**_KEY, "fields": [{"name": "name", "type": _TEXT}]}
    with Path(schemas).open("a") as file:
        file.write(json.dumps({"subject": "orders-key", "version": 2, "id": 3, "schema": json.dumps(by_name)}) + "\n")
    argv = ["merge", "--table", "shop.orders", "--format", "avro", "--schemas", schemas, "--ddl", "ddl"]
    argv += ["--engine", "deltalake"]
    left, other, last = (_avro_message(1, step, 0, n, T0 + n) for n, step in enumerate("ABC"))
    last = replace(last, key=b"\0\0\0\0\3" + _long(1) + b"C")
    update = replace(other, value=(other.value or b"").replace(b"\x02c", b"\x02u"))
    truncate = (at - 3, "TRUNCATE TABLE orders")
    cases: list[tuple[str, list[Message], list[tuple[int, str]], str]] = [
        ("rows", [left, other, last], ddl, ""),
        ("an update", [left, update, last], ddl, "the update at commit_ts"),
        ("then emptied", [left, update, last], [*ddl, truncate], ""),
        ("an update after it", [left, replace(last, value=(last.value or b"").replace(b"\x02c", b"\x02u"))], ddl, ""),
    ]

    def check(case: tuple[str, list[Message], list[tuple[int, str]], str]) -> None:
        name, messages, statements, words = case
        lines = [json.dumps({"commit_ts": ts, "db": "shop", "query": text}) + "\n" for ts, text in statements]
        Path("ddl").write_text("".join(lines))
        for option in ("--out", "--versions"):
            if name == "then emptied" and option == "--versions":
                continue  # versions of before it are kept
            location = f"delta:{name.replace(' ', '_')}{option[2:]}"
            capsys.readouterr()
            code = main([*argv, option, location, "--in", written(messages)])
            assert (code, words in capsys.readouterr().err) == (2 if words else 0, True)

    check_rows(cases, check, lambda case: case[0])


# Changes of keys before a RENAME TABLE, in one topic, and after it, in another; the row's name at last.
RENAMED: list[tuple[str, str, str | None]] = [
    ("A", "", "A"), ("A", "N", "N"), ("A-", "", None), ("A", "-", None), ("", "N", "N"), ("A-", "N", "N"),
    ("A", "N-", None), ("A-B", "-N", "N"), ("A-B-", "N-P", "P"), ("AB", "-", None),
]  # fmt: skip
# Which topics are read by each run.
READ: list[Sequence[str]] = [("orders", "sales"), ("sales", "orders"), ("both", "orders")]


@pytest.mark.slow
def test_a_table_renamed_over_two_topics(spark: SparkSession) -> None:
    """With changelog and row versions, whichever topic is read first."""
    schemas = [json.loads(line) for line in Path(write_avro_schemas()).read_text().splitlines()]
    sales = [{**schema, "id": schema["id"] + 2, "subject": schema["subject"].replace("orders", "sales"),
              "schema": schema["schema"].replace("orders", "sales")} for schema in schemas]  # fmt: skip
    Path("schemas.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in [*schemas, *sales]))
    statements = [(1, "CREATE TABLE orders (id INT PRIMARY KEY, name TEXT)"),
                  (BASE + (ord("M") << 26), "RENAME TABLE orders TO sales")]  # fmt: skip
    lines = [json.dumps({"commit_ts": ts, "db": "shop", "query": text}) + "\n" for ts, text in statements]
    Path("ddl.jsonl").write_text("".join(lines))
    topics = dict[str, list[Message]](orders=[], sales=[])
    for key, (before, after, _) in enumerate(RENAMED):
        for topic, steps in (("orders", before), ("sales", after)):
            time = T0 + (ord("A" if topic == "orders" else "N") << 8)
            for step in steps:
                commit_ts = None if step == "-" else BASE + (ord(step) << 26)
                time = max(time + 50, (commit_ts or 0) >> 18) + 1
                message = avro_message(key, commit_ts, step, Place(0, len(topics[topic]), time))
                topics[topic].append(message if topic == "orders" else _of_sales(message))
    expected = {key: last for key, (_, _, last) in enumerate(RENAMED) if last is not None}
    logs = dict[int, set[Any]]()
    for number, runs in enumerate(READ):
        positions = [f"--{name}=delta:{name}{number}" for name in ("out", "changelog", "versions")]
        for run in runs:
            messages = topics["orders"] + topics["sales"] if run == "both" else topics[run]
            argv = ["--format", "avro", "--schemas", "schemas.jsonl", "--ddl", "ddl.jsonl", "--engine", "deltalake"]
            assert main(["merge", "--table", "shop.sales", *argv, *positions, "--in", written(messages)]) == 0
        assert {row["id"]: row["name"] for row in rows(spark, f"out{number}")} == expected, runs
        versions = rows(spark, f"versions{number}")
        assert {row["id"]: row["name"] for row in versions if row["_valid_to"] is None} == expected, runs
        logs[number] = {(r["_change"], r["_tidb_op"], r["name"]) for r in rows(spark, f"changelog{number}")}
        assert len(logs[number]) == sum(map(len, topics.values()))
    assert all(log == logs[0] for log in logs.values())


def _of_sales(message: Message) -> Message:
    """With the ids of the other table's schemas."""
    key, value = message.key or b"", message.value
    value = value and value[:4] + b"\4" + value[5:]
    return replace(message, topic="sales", key=key[:4] + b"\3" + key[5:], value=value)


# ---------------------------------------------------------------------------------- what changes nothing
@pytest.mark.slow
def test_a_change_that_comes_again_makes_no_commit(spark: SparkSession) -> None:
    location = written(runs_of_key(["ABC"], 1)[0] + runs_of_key(["A"], 2)[0])
    commits = list[int]()
    for _ in "12":
        assert merge_orders("deltalake", "--format", "avro", "--schemas", write_avro_schemas(), "--in", location) == 0
        commits.append(len(list(Path("lake/_delta_log").glob("*.json"))))
    assert commits[0] == commits[1]
    assert [row["name"] for row in rows(spark, "lake")] == ["C", "A"]
