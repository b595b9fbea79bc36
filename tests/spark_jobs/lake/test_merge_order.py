"""`merge` of what comes again, and of what has no commit_ts: deletes from Avro, changes of Debezium's MySQL connector.

One table per test has a key for each sequence, so that Spark plans few jobs.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from schemas.codec.varint import uvarint, zigzag
from schemas.model.errors import SetupError
from schemas.model.event import Message
from schemas.model.table import TableId
from spark_jobs.commands.main import main
from spark_jobs.lake.binlog_changes import check_servers
from spark_jobs.pipeline.event_order import BINLOG_SERVER
from tests.spark_jobs.commands.test_encode import written
from tests.spark_jobs.lake.test_merge import rows
from tests.support.table import check_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

ENGINES = pytest.mark.parametrize("engine", ["deltalake", pytest.param("delta-spark", marks=pytest.mark.slow)])


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _merge(engine: str, *more: str) -> int:
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
    (["A", ">-", "B|0", ">B"], None),
]


def _long(number: int) -> bytes:
    return uvarint(zigzag(number))


def _runs(sequence: Sequence[str], key: int) -> list[list[Message]]:
    """The messages of a key, by runs."""
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
            made.append(_avro_message(key, step, partition, offsets[partition], T0 + clock))
            offsets[partition] += 1
            clock += 1
        runs.append(made)
    return runs


def _avro_message(key: int, step: str, partition: int, offset: int, time: int) -> Message:
    data = b"\0\0\0\0\1" + _long(key)
    if step == "-":
        return Message(data, None, "orders", partition, offset, time)
    commit_ts = BASE + (ord(step) << 20)
    text = step.encode()
    value = _long(key) + b"\x02" + _long(1) + text + b"\x02c" + _long(commit_ts) + _long(commit_ts >> 18)
    return Message(data, b"\0\0\0\0\2" + value, "orders", partition, offset, time)


def write_avro_schemas() -> str:
    """The schemas of `_avro_message`, in a file."""
    Path("schemas.jsonl").write_text(
        "".join(
            json.dumps({"subject": f"orders-{part}", "version": 1, "id": n, "schema": json.dumps(schema)}) + "\n"
            for n, (part, schema) in enumerate((("key", _KEY), ("value", _VALUE)), 1)
        )
    )
    return "schemas.jsonl"


@ENGINES
def test_deletes_from_avro_and_what_comes_again(spark: SparkSession, engine: str) -> None:
    schemas = write_avro_schemas()
    runs = defaultdict[int, list[Message]](list)
    for key, (sequence, _) in enumerate(AVRO):
        for run, made in enumerate(_runs(sequence, key)):
            runs[run] += made
    for run, messages in sorted(runs.items()):
        messages.sort(key=lambda m: (m.partition, m.offset))  # as Kafka gives them
        place = written(messages, f"{run}.jsonl")
        assert _merge(engine, "--format", "avro", "--schemas", schemas, "--in", place) == 0
    there = {row["id"]: row["name"] for row in rows(spark, "lake")}
    wrong = {str(sequence): there.get(n) for n, (sequence, last) in enumerate(AVRO) if there.get(n) != last}
    assert not wrong


# The same around a TRUNCATE that came after A and before B.
TRUNCATED: list[tuple[Sequence[str], str | None]] = [
    (["A"], None),
    (["A-"], None),
    (["AB"], "B"),
    (["A-B", "A-B"], "B"),
    (["A-B", "A-", "B"], "B"),
    (["A-B", "A-"], "B"),
    (["A-B", "-B"], "B"),
    (["A-B", "-", "B"], "B"),
    (["A-", "B", "0"], "B"),
    (["A-", "B", "0", "1"], "B"),
    (["A-B", "-"], None),
    (["AB", "-"], None),
    (["A", "B", "-", "0"], None),
    (["A-B-", "A-B-"], None),
    (["A-B", "A"], "B"),
]


@pytest.mark.slow
@pytest.mark.parametrize("known", [0, 1], ids=["at first", "later"])
def test_deletes_from_avro_around_a_truncate(spark: SparkSession, known: int) -> None:
    """A delete of before it that comes again takes no row of after it. known: the run from which the DDL has it."""
    create = {"commit_ts": 1, "db": "shop", "query": "CREATE TABLE orders (id INT PRIMARY KEY, name TEXT)"}
    truncate = {"commit_ts": BASE + (ord("B") << 20) - 1, "db": "shop", "query": "TRUNCATE TABLE orders"}
    argv = ["--format", "avro", "--schemas", write_avro_schemas(), "--ddl", "ddl.jsonl", "--versions", "delta:v"]
    runs = defaultdict[int, list[Message]](list)
    for key, (sequence, _) in enumerate(TRUNCATED):
        for run, made in enumerate(_runs(sequence, key)):
            runs[run] += made
    for run, messages in sorted(runs.items()):
        statements = [create, truncate] if run >= known else [create]
        Path("ddl.jsonl").write_text("".join(json.dumps(one) + "\n" for one in statements))
        assert _merge("deltalake", *argv, "--in", written(messages, f"{run}.jsonl")) == 0
    there = {row["id"]: row["name"] for row in rows(spark, "lake")}
    wrong = {str(sequence): there.get(n) for n, (sequence, last) in enumerate(TRUNCATED) if there.get(n) != last}
    assert not wrong
    open_rows = {row["id"]: row["name"] for row in rows(spark, "v") if row["_valid_to"] is None}
    assert open_rows == there


@pytest.mark.slow
def test_updates_from_avro_before_another_key(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """Avro has no old row: which row of the new key an older update changed is not known. In each kind of table."""
    at = BASE + (ord("C") << 20)
    ddl = [
        (1, "CREATE TABLE orders (id INT PRIMARY KEY NONCLUSTERED, name VARCHAR(20) NOT NULL)"),
        (at - 2, "ALTER TABLE orders DROP PRIMARY KEY"), (at - 1, "ALTER TABLE orders ADD PRIMARY KEY (name)"),
    ]  # fmt: skip
    argv = ["merge", "--table", "shop.orders", "--format", "avro", "--schemas", write_avro_schemas(), "--ddl", "ddl"]
    argv += ["--engine", "deltalake"]
    one, other, last = (_avro_message(1, step, 0, n, T0 + n) for n, step in enumerate("ABC"))
    update = replace(other, value=(other.value or b"").replace(b"\x02c", b"\x02u"))
    truncate = (at - 3, "TRUNCATE TABLE orders")
    cases: list[tuple[str, list[Message], list[tuple[int, str]], str]] = [
        ("rows", [one, other, last], ddl, ""),
        ("an update", [one, update, last], ddl, "the update at commit_ts"),
        ("then emptied", [one, update, last], [*ddl, truncate], ""),
        ("an update after it", [one, replace(last, value=(last.value or b"").replace(b"\x02c", b"\x02u"))], ddl, ""),
    ]

    def check(case: tuple[str, list[Message], list[tuple[int, str]], str]) -> None:
        name, messages, statements, words = case
        lines = [json.dumps({"commit_ts": ts, "db": "shop", "query": text}) + "\n" for ts, text in statements]
        Path("ddl").write_text("".join(lines))
        for option in ("--out", "--versions"):
            if name == "then emptied" and option == "--versions":
                continue  # versions of before it are kept
            place = f"delta:{name.replace(' ', '_')}{option[2:]}"
            capsys.readouterr()
            code = main([*argv, option, place, "--in", written(messages)])
            assert (code, words in capsys.readouterr().err) == (2 if words else 0, True)

    check_rows(cases, check, lambda case: case[0])


# ---------------------------------------------------------------------------------- the connector's positions
# (op, name, file, pos, row) of the changes of a key, by runs; and the name at last.
_Step = tuple[str, str, str, int, int]
BINLOG: list[tuple[Sequence[Sequence[_Step]], str | None]] = [
    ([[("r", "a", "bin.000003", 4, 0), ("u", "b", "bin.000003", 23, 0), ("u", "c", "bin.000003", 123, 0)]], "c"),
    ([[("u", "c", "bin.000003", 123, 0), ("u", "b", "bin.000003", 23, 0), ("r", "a", "bin.000009", 4, 0)]], "c"),
    ([[("c", "a", "bin.000009", 900, 0)], [("u", "b", "bin.000123", 4, 0)], [("c", "a", "bin.000009", 900, 0)]], "b"),
    ([[("u", "b", "bin.999999", 900, 0), ("u", "c", "bin.1000000", 4, 0)]], "c"),
    ([[("u", "b", "bin.1", 900, 1), ("u", "a", "bin.1", 900, 0)]], "b"),
    ([[("c", "a", "bin.1", 900, 0), ("d", "a", "bin.1", 901, 0)], [("c", "a", "bin.1", 900, 0)]], None),
    ([[("r", "a", "bin.1", 900, 0)], [("d", "a", "bin.1", 950, 0)], [("r", "a", "bin.1", 900, 0)]], None),
    ([[("c", "a", "bin.1", 5, 0), ("d", "a", "bin.1", 6, 0), ("c", "b", "bin.1", 7, 0)]], "b"),
    ([[("c", "a", "bin.1", (1 << 32) - 1, 0), ("u", "b", "bin.2", 4, 0)]], "b"),
]
_DDL = {"commit_ts": 1, "db": "shop", "query": "CREATE TABLE orders (id INT PRIMARY KEY, name VARCHAR(20))"}


def _connector_message(key: int, step: _Step, offset: int, **source: Any) -> Message:
    op, name, file, pos, number = step
    row = {"id": key, "name": name}
    value = {
        "before": row if op in "ud" else None, "after": None if op == "d" else row, "op": op, "ts_ms": 1,
        "source": {
            "connector": "mysql", "ts_ms": 1764000000000, "db": "shop", "table": "orders", "file": file, "pos": pos,
            "row": number, **source,
        },
    }  # fmt: skip
    return Message(json.dumps({"id": key}).encode(), json.dumps(value).encode(), "orders", 0, offset)


@pytest.mark.slow
@ENGINES
def test_the_connectors_changes_in_the_order_of_the_binlog(
    spark: SparkSession, engine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("ddl.jsonl").write_text(json.dumps(_DDL) + "\n")
    connector = ("--format", "debezium-mysql", "--ddl", "ddl.jsonl")
    runs = defaultdict[int, list[Message]](list)
    for key, (sequence, _) in enumerate(BINLOG):
        for run, steps in enumerate(sequence):
            runs[run] += [_connector_message(key, step, 100 * key + n) for n, step in enumerate(steps)]
    for run, messages in sorted(runs.items()):
        assert _merge(engine, *connector, "--in", written(messages, f"{run}.jsonl")) == 0
    there = {row["id"]: row["name"] for row in rows(spark, "lake")}
    wrong = {n: there.get(n) for n, (_, last) in enumerate(BINLOG) if there.get(n) != last}
    assert not wrong

    # What nobody can order is refused, and the reason names no switch of another product.
    step = ("u", "z", "bin.5", 4, 0)
    refused: list[tuple[list[Message], str]] = [
        ([_connector_message(1, step, 0, commit_ts=BASE)], "ordered by binlog position"),
        ([_connector_message(1, step, 0), _connector_message(2, step, 1, commit_ts=BASE)], "merge them apart"),
        ([_connector_message(1, ("u", "z", "", 0, 0), 0)], "debezium-mysql"),
        (
            [_connector_message(1, ("u", name, file, 4, 0), n, gtid=f"{server * 36}:7") for n, (name, file, server)
             in enumerate((("y", "bin.7", "a"), ("z", "bin.1", "b")))], "failover",
        ),
    ]  # fmt: skip
    for messages, words in refused:
        capsys.readouterr()
        assert _merge(engine, *connector, "--in", written(messages)) == 2
        told = capsys.readouterr().err
        assert words in told
        assert "enable-tidb-extension" not in told


_Change = tuple[int, str, int, int]
"""partition, server, number of the transaction, position."""
# What is kept of earlier batches, the newest position then, the changes of this one; what is kept after it, or "!".
SERVERS: list[tuple[str | None, int | None, list[_Change], str | None]] = [
    (None, None, [(0, "a", 1, 10), (0, "a", 2, 20), (1, "a", 3, 5)], '{"a": null}'),
    ('{"a": null}', 20, [(0, "a", 1, 10), (0, "a", 3, 30)], None),
    ('{"a": null}', 20, [(0, "b", 1, 30)], '{"a": null, "b": 1}'),  # it reads a replica, whose source is another now
    ('{"a": null}', 20, [(0, "b", 1, 10)], "!"),
    ('{"a": null}', 20, [(0, "a", 9, 25), (0, "b", 1, 10)], "!"),
    ('{"a": 9, "b": 1}', 30, [(0, "a", 4, 10), (0, "b", 1, 30), (0, "b", 2, 40)], '{"a": 9, "b": 2}'),  # sent again
    ('{"a": 9, "b": 1}', 30, [(0, "a", 10, 20)], "!"),  # the first server is read again
    (None, None, [(0, "a", 8, 20), (0, "b", 1, 4)], "!"),
    (None, None, [(0, "a", 8, 20), (1, "b", 1, 4)], '{"a": 8, "b": 1}'),  # another partition may be behind
    (None, None, [(0, "a", 8, 20), (0, "b", 1, 30), (0, "a", 8, 20), (0, "b", 1, 30)], '{"a": 8, "b": 1}'),
    ('{"server_id 1": null}', 20, [(0, "server_id 2", 0, 10)], "!"),
    ('{"server_id 1": null}', 20, [(0, "server_id 2", 0, 30)], '{"server_id 1": null, "server_id 2": 0}'),
]


@pytest.mark.slow
def test_positions_of_another_server_after_a_failover(spark: SparkSession) -> None:
    source = "struct<topic:string,partition:int>"
    columns = f"commit_ts bigint, position bigint, row int, source {source}, flags array<string>"

    def check(row: tuple[str | None, int | None, list[_Change], str | None]) -> None:
        stored, newest, changes, kept = row
        rows = [
            (position, n, 0, ("t", partition), [BINLOG_SERVER + f"{number} {server}"])
            for n, (partition, server, number, position) in enumerate(changes)
        ]
        frame = spark.createDataFrame(rows, columns)
        if kept == "!":
            with pytest.raises(SetupError, match="failover"):
                check_servers(frame, stored, lambda: newest, TableId("shop", "orders"))
        else:
            assert check_servers(frame, stored, lambda: newest, TableId("shop", "orders")) == kept

    check_rows(SERVERS, check)
