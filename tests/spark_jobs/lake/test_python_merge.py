"""`merge` in Python: the command's table, from a batch and from `foreachBatch`, however often a batch comes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark_jobs.lake.test_merge import rows
from tests.support.table import check_rows
from tests.ticdc_bridge.cli.test_encode import written
from ticdc_bridge import changelog, merge
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.spark_jobs.spark.frames import read_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TS = 463_299_738_777_157_634
_CREATE = {"commit_ts": 1, "db": "shop", "query": "CREATE TABLE orders (id INT PRIMARY KEY, name VARCHAR(20))"}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ddl.jsonl").write_text(json.dumps(_CREATE) + "\n")


def _message(offset: int, op: str, id_: int, name: str, table: str = "orders") -> Message:
    row = {"id": id_, "name": name}
    value = {
        "before": row if op == "d" else None, "after": None if op == "d" else row, "op": op, "ts_ms": 1,
        "source": {"connector": "TiCDC", "db": "shop", "table": table, "commit_ts": _TS + (offset << 18), "ts_ms": 1},
    }  # fmt: skip
    return Message(None, json.dumps({"payload": value}).encode(), "orders", 0, offset, 1_764_000_000_000)


def _frame(spark: SparkSession, messages: list[Message]) -> DataFrame:
    return read_files(spark, str(Path(written(messages, "m.jsonl")).absolute()))


_BATCHES = (
    [_message(0, "c", 1, "a"), _message(1, "c", 2, "b"), _message(2, "c", 9, "x", "others")],
    [_message(3, "d", 1, "a"), _message(4, "c", 3, "c")],
    [_message(1, "c", 2, "b"), _message(0, "c", 1, "a"), _message(5, "u", 3, "d")],
)
_LAST = [{"id": 2, "name": "b"}, {"id": 3, "name": "d"}]
_ARGUMENTS: dict[str, Any] = {"into": "delta:lake", "table": "shop.orders", "format": "debezium", "ddl": "ddl.jsonl"}


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["deltalake", "delta-spark"])
def test_for_each_batch(spark: SparkSession, engine: str) -> None:
    here, counts = Path().absolute(), list[dict[str, int]]()
    for number, messages in enumerate(_BATCHES):
        _frame(spark, messages).coalesce(1).write.parquet(f"{here}/in/{number}")

    def write(batch: DataFrame, number: int) -> None:
        for _ in "ab":  # a batch may come again
            counts.append(merge(batch, engine=engine, **_ARGUMENTS))
        changelog(batch, engine=engine, **{**_ARGUMENTS, "into": "delta:log"})

    source = spark.readStream.schema(spark.read.parquet(f"{here}/in/0").schema).option("maxFilesPerTrigger", 1)
    query = source.parquet(f"{here}/in/*").writeStream.foreachBatch(write)
    query = query.option("checkpointLocation", f"{here}/check")
    query.trigger(availableNow=True).start().awaitTermination()
    assert rows(spark, "lake", by_spark=True) == _LAST
    logged = spark.read.format("delta").load(f"{here}/log").select("_tidb_op", "id").collect()
    assert sorted(map(tuple, logged)) == [("D", 1), ("I", 1), ("I", 2), ("I", 3), ("U", 3)]
    assert sum(count["messages"] for count in counts) == 2 * sum(map(len, _BATCHES))
    assert sum(count.get("skipped.other table", 0) for count in counts) == 2


_WRONG: list[tuple[dict[str, Any], str]] = [
    ({"into": "lake"}, "into='lake': delta:PATH or"), ({"table": "orders"}, "table 'orders'"),
    ({"ddl": "stream"}, 'ddl="stream"'), ({"on_error": "dead-letter"}, "dead_letter=PLACE go together"),
    ({"dead_letter": "delta:dead"}, "dead_letter=PLACE go together"), ({"engine": "hudi"}, "engine="),
    ({"types": "wide"}, "types="), ({"format": "maxwell"}, "maxwell"),
]  # fmt: skip


@pytest.mark.slow
def test_arguments_that_are_refused(spark: SparkSession) -> None:
    messages = _frame(spark, _BATCHES[0])

    def check(row: tuple[dict[str, Any], str]) -> None:
        with pytest.raises(SetupError) as caught:
            merge(messages, **{**_ARGUMENTS, **row[0]})
        assert row[1] in str(caught.value), str(caught.value)
        assert "--" not in str(caught.value)

    check_rows(_WRONG, check)
    with pytest.raises(SetupError, match="format= is needed"):
        changelog(messages, into="delta:log", table="shop.orders")  # type: ignore[call-arg]
    with pytest.raises(SetupError, match="tables= is no argument"):
        changelog(messages, **{**_ARGUMENTS, "tables": "shop.*"})
    bad = _frame(spark, [Message(b"k", b"no json", "orders", 0, 0)])
    with pytest.raises(SetupError, match="stopped at"):
        merge(bad, **_ARGUMENTS)
    assert merge(bad, on_error="drop", **_ARGUMENTS)["messages"] == 1
    with pytest.raises(SetupError, match="read it with format=debezium"):  # as a worker of Spark's says
        merge(_frame(spark, _BATCHES[0]), **{**_ARGUMENTS, "format": "canal-json"})
