"""`merge` of random histories: rows, keys and columns change, messages come again and are read in pieces, jobs are
killed at each of their commits; then the table is TiDB's.

BRIDGE_SOAK=N: N rounds; BRIDGE_SEED: of other histories; BRIDGE_ONLY: those whose "SEED/N FORMAT ENGINE" has this.
"""

from __future__ import annotations

import json
import os
import random
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.golden import Registry
from tests.support.lake_histories import Change, Delivery, History, comparable
from tests.ticdc_bridge.cli.test_encode import written
from ticdc_bridge import Encoder
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.spark_jobs.lake import change_checks, tables
from ticdc_bridge.spark_jobs.lake.engines.base import ENGINES as ENGINE_ENTRIES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ticdc_bridge.spark_jobs.lake.engines.base import Engine, LakeTable

ROUNDS = int(os.environ.get("BRIDGE_SOAK", "4"))
SEED = os.environ.get("BRIDGE_SEED", "1")
ENGINES = tuple(ENGINE_ENTRIES)
_CATALOGS = count()
FORMATS = (
    "avro", "open", "debezium", "craft", "canal-json", "debezium-avro", "debezium-mysql", "open-tiflow",
    "debezium-tidb",
)  # fmt: skip
_BATCHES = 4
_OPTIONS = {name: {"enable_tidb_extension": True} for name in ("avro", "debezium", "debezium-avro")}


class _Killed(BaseException):
    """The job's end in the middle of it."""


class _KillingTable:
    """A table of which the `kills`th change ends the job: before it or after it was made."""

    def __init__(self, table: LakeTable, kills: _Kills) -> None:
        self._table, self._kills = table, kills

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._table, name)
        if name not in _CHANGES:
            return method

        def call(*args: Any, **kwargs: Any) -> Any:
            self._kills.step(name)
            result = method(*args, **kwargs)
            self._kills.step(name)
            return result

        return call


_CHANGES = ("set_properties", "create", "overwrite", "allow", "add", "rename", "drop", "comment", "widen", "delete",
            "update", "merge", "add_rows", "add_files", "reorder")  # fmt: skip


class _Kills:
    def __init__(self) -> None:
        self.left, self.count, self.of = -1, 0, list[str]()

    def step(self, name: str) -> None:
        self.left -= 1
        if self.left == 0:
            self.count += 1
            self.of.append(name)
            raise _Killed(name)


@pytest.fixture
def kills(monkeypatch: pytest.MonkeyPatch) -> _Kills:
    real, made = tables.engine_of, _Kills()

    def engine_of(spark: SparkSession, name: str, table_format: str = "delta") -> Engine:
        engine = real(spark, name, table_format)
        return lambda session, path: _KillingTable(engine(session, path), made)

    monkeypatch.setattr(tables, "engine_of", engine_of)
    return made


def _encoded(format_: str, history: History, registry: Registry) -> list[list[Message]]:
    """Messages of each change."""
    if format_ == "canal-json":
        return [[_canal_message(change)] for change in history.changes]
    encoder = Encoder(format_, registry=registry, ddl="all.jsonl", on_lossy="flag", options=_OPTIONS.get(format_, {}))
    return [encoder.encode(change.line(), topic="t") for change in history.changes]


def _canal_message(change: Change) -> Message:
    row = change.after or change.before or {}
    value = {
        "id": 0, "database": "d", "table": "t", "pkNames": ["id"], "isDdl": False, "es": change.commit_ts >> 18,
        "type": {"c": "INSERT", "u": "UPDATE", "d": "DELETE"}[change.op], "ts": 1, "sql": "",
        "sqlType": dict.fromkeys(row, 12), "mysqlType": change.types, "data": [row],
        "old": [change.before] if change.op == "u" else None, "_tidb": {"commitTs": change.commit_ts},
    }  # fmt: skip
    return Message(None, json.dumps(value).encode(), "t")


def _write_ddl(statements: list[tuple[int, str]], name: str) -> str:
    lines = [{"commit_ts": ts, "db": "d", "query": text} for ts, text in statements]
    Path(name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return name


def _round(number: int) -> tuple[str, str, str]:
    """(seed, format, engine): each pair of them in turn."""
    engines = len(ENGINES)
    pairs = [(f, ENGINES[(n + turn) % engines]) for turn in range(engines) for n, f in enumerate(FORMATS)]
    return f"{SEED}/{number}", *pairs[number % len(pairs)]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(ROUNDS))
def test_the_table_is_tidbs_after_any_delivery(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, kills: _Kills, number: int
) -> None:
    seed, format_, engine = _round(number)
    if os.environ.get("BRIDGE_ONLY", "") not in f"{seed} {format_} {engine}":
        pytest.skip("not this one")
    take_as_many(monkeypatch, seed)
    history = _history(seed, format_)
    encoded, argv = _write_schemas(format_, history)
    argv += ["--out", _location(spark, engine), "--engine", engine]
    chance = random.Random(f"{seed} kills")
    for batch_number, (batch, newest) in enumerate(Delivery(history, encoded, format_ == "avro").batches(_BATCHES)):
        statements = [s for s in history.statements if s[0] <= newest or batch_number >= _BATCHES - 1]
        run = [*argv, "--in", written(batch, f"{batch_number}.jsonl"), "--ddl", _write_ddl(statements, "ddl.jsonl")]
        kills.left = chance.randint(1, 12)
        try:
            code = main(run)
        except _Killed:
            kills.left = -1
            code = main(run)
        assert code == 0, f"{seed} {format_} {engine}: after {kills.of}"
    assert not _difference(spark, history, engine), f"{seed} {format_} {engine}: after {kills.of}"


def take_as_many(monkeypatch: pytest.MonkeyPatch, seed: str) -> None:
    """In one of three rounds each batch is taken for one of many changes, whose rows the driver does not get."""
    if random.Random(f"{seed} many").randrange(3) == 0:
        monkeypatch.setattr(change_checks, "_MAX_DRIVER_ROWS", -1)


def _write_schemas(format_: str, history: History) -> tuple[list[list[Message]], list[str]]:
    """The history's messages (`_encoded`), and the words of a merge that reads them; their schemas and DDL in files."""
    _write_ddl(history.statements, "all.jsonl")
    registry = Registry()
    encoded = _encoded(format_, history, registry)
    schemas = [
        {"subject": subject, "version": n, "id": registry.id_of(subject, text), "schema": text}
        for subject, texts in registry.subjects.items() for n, text in enumerate(texts, 1)
    ]  # fmt: skip
    Path("schemas.jsonl").write_text("".join(json.dumps(schema) + "\n" for schema in schemas))
    argv = ["merge", "--format", format_, "--table", "d.t"]
    argv += ["--time-zone", "UTC", *(["--schemas", "schemas.jsonl"] if schemas else [])]
    return encoded, argv


def _iceberg_name(table: str) -> str:
    """A table of this test's catalog."""
    return f"{Path('catalog').read_text()}.d.{table}"


def _location(spark: SparkSession, engine: str, table: str = "lake") -> str:
    if ENGINE_ENTRIES[engine].table_format == "delta":
        return f"delta:{table}"
    if Path("catalog").exists():
        return f"iceberg:{_iceberg_name(table)}"
    name = f"random{next(_CATALOGS)}"
    settings = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "hadoop",
        ".warehouse": str(Path("lake").absolute()),
    }
    for setting, value in settings.items():
        spark.conf.set(f"spark.sql.catalog.{name}{setting}", value)
    Path("catalog").write_text(name)
    return f"iceberg:{_iceberg_name(table)}"


def _history(seed: str, format_: str) -> History:
    split = format_ == "avro" or seed.endswith(("0", "3", "6"))
    return History(seed, split, schema=True, swaps=True, partitions=seed.endswith(("2", "5", "8")))


def _difference(spark: SparkSession, history: History, engine: str) -> str:
    if ENGINE_ENTRIES[engine].table_format == "delta":
        frame = spark.read.format("delta").load(str(Path("lake").absolute()))
    else:
        frame = spark.table(_iceberg_name("lake"))
    rows = [row.asDict() for row in frame.drop("_commit_ts").collect()]
    known = {str(row["id"]): {name: comparable(value) for name, value in row.items()} for row in rows}
    expected = history.table()
    keys = sorted(k for k in {*known, *expected} if known.get(k) != expected.get(k))
    if not keys and len(rows) == len(known):
        return ""
    return f"{keys} of {len(rows)} rows differ: " + ", ".join(f"{known.get(k)} not {expected.get(k)}" for k in keys[:1])
