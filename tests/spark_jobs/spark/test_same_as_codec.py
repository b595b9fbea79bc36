"""Every golden case: the plans of the reader in Spark's JVM make of it what the in-process codec makes of it."""

from __future__ import annotations

import base64
import json
import struct
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.json_formats import encoded
from tests.support.golden import Golden, cases
from tests.support.json_batches import SETTINGS, wide
from ticdc_bridge import decode
from ticdc_bridge.schemas.formats.base import SingleTable
from ticdc_bridge.schemas.model.event import Message, RowChange
from ticdc_bridge.schemas.model.spark_types import python_value
from ticdc_bridge.schemas.model.table import Column, TableId, TableVersion, Value
from ticdc_bridge.schemas.model.types import Kind
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message
from ticdc_bridge.spark_jobs.pipeline.result import MessageResult
from ticdc_bridge.spark_jobs.spark import avro_jvm
from ticdc_bridge.spark_jobs.spark.avro_jvm.plan import AvroPlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def _decoded(golden: Golden, config: CodecConfig) -> list[tuple[Message, MessageResult]]:
    decoder = config.decoder()
    return [(m, decode_message(decoder, m)) for m in golden.messages()]


def _tables(found: list[tuple[Message, MessageResult]]) -> list[TableId]:
    return list(dict.fromkeys(e.table.id for _, r in found for e in r.events if isinstance(e, RowChange)))


# ---------------------------------------------------------------------------------------------- Avro in the JVM
@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.slow, id="all")])
@pytest.mark.parametrize("exact", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["header", "exact"])
def test_avro_plans(spark: SparkSession, exact: bool, step: int) -> None:
    """One query over all cases: each with its own schemas, each table with its own plan. Exact: where numba is not."""
    wanted: dict[tuple[str, str, int], tuple[MessageResult, AvroPlan]] = {}
    unions: list[dict[TableId, DataFrame]] = []  # a table once in each: its metric has its name
    for golden in cases("avro")[::step]:
        found = _decoded(golden, golden.side())
        for id_ in _tables(found):
            plan = AvroPlan.of(golden.side(), id_, exact=exact)
            if plan is None:
                continue
            mine = [(n, m, r) for n, (m, r) in enumerate(found) if _concerns(r, id_, exact)]
            wanted |= {(str(golden), str(id_), n): (r, plan) for n, _, r in mine}
            free = next((u for u in unions if id_ not in u and len(u) < 10), None)
            if free is None:
                unions.append(free := {})
            free[id_] = _shown(plan, _frame(spark, [(m, n) for n, m, _ in mine]), golden, id_)
    for union in unions:
        for row in reduce(lambda a, b: a.unionAll(b), union.values()).collect():
            result, plan = wanted.pop((row["case"], row["of"], row["offset"]))
            _compare(row, result, plan)
    assert not wanted


def _concerns(result: MessageResult, id_: TableId, exact: bool) -> bool:
    """True if a case's message is asked of the plan: one that fails, or a row of the table."""
    if result.error is not None:
        return exact
    (event,) = result.events or (None,)
    return isinstance(event, RowChange) and event.table.id == id_ and event.schema_id is not None


def _frame(spark: SparkSession, messages: list[tuple[Message, int]]) -> DataFrame:
    from ticdc_bridge.spark_jobs.spark.frames import kafka_columns

    rows = [(m.key, m.value, m.topic, n) for m, n in messages]
    return kafka_columns(spark.createDataFrame(rows, "key binary, value binary, topic string, offset bigint"))


def _shown(plan: AvroPlan, frame: DataFrame, golden: Golden, id_: TableId) -> DataFrame:
    from pyspark.sql import functions as F

    as_text = {"ignoreNullFields": "false"}
    images = [F.to_json(F.struct(F.col(s).alias("row")), as_text).alias(s) for s in ("before", "after")]
    head = [F.lit(str(golden)).alias("case"), F.lit(str(id_)).alias("of"), F.col("source.offset").alias("offset")]
    code = F.col("error.code").alias("code")
    decoded = plan.decode(frame)
    assert decoded is not None, "the session takes no class of ours"
    return decoded.select(*head, "op", "commit_ts", "schema_id", "key", "flags", code, *images)


def _compare(row: Any, result: MessageResult, plan: AvroPlan) -> None:
    where = f"{row['case']} {row['of']} message {row['offset']}"
    if result.error is not None:
        assert row["code"] == result.error.code, where
        return
    assert row["code"] is None, where
    (event,) = result.events
    assert isinstance(event, RowChange)
    for name in ("op", "commit_ts", "schema_id", "flags"):
        assert row[name] == getattr(event, name), f"{where} {name}"
    assert row["key"] == list(event.key), where
    for image, values in (("before", event.before), ("after", event.after)):
        got = json.loads(row[image], parse_float=Decimal, parse_int=Decimal)["row"]
        for column in plan.table.columns if got is not None and values is not None else ():
            wanted = _json(column, (values or {}).get(column.name))
            assert _number(column, got[column.name]) == wanted, f"{where} {image}.{column.name}"
        assert (got is None) == (values is None), f"{where} {image}"


def _json(column: Column, value: Value) -> Any:
    """A plain value as Spark's to_json writes it of the column's type."""
    found = python_value(column, value)
    if isinstance(found, bytes):
        return base64.b64encode(found).decode()
    return _number(column, Decimal(found) if isinstance(found, int) else found)


def _number(column: Column, found: Any) -> Any:
    if found is None or column.type.kind not in (Kind.FLOAT, Kind.DOUBLE):
        return found
    return struct.pack("<f" if column.type.kind is Kind.FLOAT else "<d", float(found))


@pytest.mark.slow
@pytest.mark.parametrize("format_", ["debezium", "open"])
def test_binary_rows_are_sparks_own(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_: str
) -> None:
    """Rows that workers write and rows that Spark writes of the same columns are one and the same to Spark."""
    of, events = wide(200)
    messages = encoded(format_, SETTINGS[format_][0], events, of)
    rows = [(m.key, m.value, "t", 0, n) for n, m in enumerate(messages)]
    frame = spark.createDataFrame(rows, "key binary, value binary, topic string, partition int, offset long")
    definition = SingleTable(TableVersion(0, of))

    def decoded() -> DataFrame:
        return decode(frame, format=format_, ddl=definition, table=str(of.id)).select(
            "after", "before", "source.offset"
        )

    ours = decoded()
    assert "BinaryRows" in ours._jdf.queryExecution().optimizedPlan().toString()
    monkeypatch.setattr(avro_jvm, "class_of", lambda *_, **__: None)
    theirs = decoded()
    assert "BinaryRows" not in theirs._jdf.queryExecution().optimizedPlan().toString()
    assert ours.schema == theirs.schema
    theirs.write.parquet(str(tmp_path / "theirs"))  # a metric's name stands once in a plan
    theirs = spark.read.parquet(str(tmp_path / "theirs"))
    assert ours.count() == theirs.count() == ours.union(theirs).distinct().count() == len(events)
    fields = [f"{image}.`{c.name}`" for image in ("after", "before") for c in of.columns[::4]]
    alone = [{tuple(map(repr, row)) for row in frame.select("offset", *fields).collect()} for frame in (ours, theirs)]
    assert alone[0] == alone[1]
    frames = [frame.where("after.id > 7 AND before IS NOT NULL").select("after.id") for frame in (ours, theirs)]
    assert frames[0].count() == frames[1].count() > 0
