"""Messages to Python's workers and rows back by our operator: the rows that Spark's own gives, to the byte."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from ticdc_bridge.spark_jobs.spark import transport
from ticdc_bridge.spark_jobs.spark.transport import map_messages, with_headers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_HEADERS = "headers array<struct<key:string,value:binary>>"
_KAFKA = f"key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, {_HEADERS}"
_LIMITS = ("maxRecordsPerBatch", "maxBytesPerBatch", "useLargeVarTypes")
BothWays = Callable[..., None]


@pytest.fixture
def both_ways(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[BothWays]:
    """Makes a frame with our operator and with Spark's, and compares them byte by byte: Spark groups by bytes.

    settings: of the session, spark.sql.execution.arrow's, while it is compared.
    """
    names = {name: f"spark.sql.execution.arrow.{name}" for name in _LIMITS}
    old = {name: str(spark.conf.get(name)) for name in names.values()}

    def compare(make: Callable[[], DataFrame], **settings: str) -> None:
        for name, value in settings.items():
            spark.conf.set(names[name], value)
        ours = make()
        with monkeypatch.context() as patched:
            patched.setattr(transport, "WithHeaders", lambda run: lambda batches: run(map(with_headers, batches)))
            plain = make()
        assert "TunedWorker" in _planned(ours)
        assert "TunedWorker" not in _planned(plain)
        both = ours.withColumn("which", F.lit(1)).unionAll(plain.withColumn("which", F.lit(10_000)))
        sums = both.groupBy(*(f"`{name}`" for name in ours.columns)).agg(F.sum("which").alias("sum"))
        rows, different = sums.agg(F.count("sum"), F.count_if(F.col("sum") % 10_001 != 0)).collect()[0]
        assert rows
        assert not different, f"{different} of {rows} rows"

    yield compare
    for name, value in old.items():
        spark.conf.set(name, value)


def _planned(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def _same(batches: Iterable[Any]) -> Iterator[Any]:
    yield from batches


def _messages(count: int) -> list[tuple[Any, ...]]:
    """With values of all lengths about the words in which they are copied, and NULL anywhere."""
    dice = random.Random(count)

    def maybe(value: Any) -> Any:
        return None if dice.random() < 0.2 else value

    def data() -> Any:
        return maybe(dice.randbytes(dice.choice((0, 1, 7, 8, 9, 63, 64, 65, 127, dice.randrange(5000)))))

    def message() -> tuple[Any, ...]:
        time = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(microseconds=dice.randrange(-(10**15), 10**15))
        headers = [(f"é{k}", maybe(dice.randbytes(k))) for k in range(dice.choice((0, 0, 2)))]
        topic, partition = "".join(dice.choices("aé漢😀", k=dice.randrange(40))), dice.randrange(-(2**31), 2**31)
        origin = maybe(topic), maybe(partition), maybe(dice.randrange(-(2**63), 2**63)), maybe(time)
        return data(), data(), *origin, headers or None

    return [message() for _ in range(count)]


_SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "settings",
    [
        {"maxRecordsPerBatch": "9"}, pytest.param({}, marks=_SLOW),
        pytest.param({"maxRecordsPerBatch": "0"}, marks=_SLOW), pytest.param({"useLargeVarTypes": "true"}, marks=_SLOW),
    ],
)  # fmt: skip
def test_messages(spark: SparkSession, both_ways: BothWays, settings: dict[str, str]) -> None:
    frame = spark.createDataFrame(_messages(300), _KAFKA).coalesce(1)
    both_ways(lambda: map_messages(frame, _same, _KAFKA), **settings)


def test_rows_of_workers(spark: SparkSession, both_ways: BothWays) -> None:
    """They come back by Spark's projection: structs and lists, NULL in some rows or in all."""
    columns = (
        "int(id) as p", "if(id % 7 = 0, null, decimal(id) / 7) as d", "cast(null as decimal(38,4)) as e", "id = 3 as b",
        "if(id > 20, array('x', null), null) as h", "cast(null as struct<d:decimal(38,4)>) as i", "string(id) as a",
        "struct(nullif(string(id), '4') as k, array(struct(id as x)) as l) as s",
    )  # fmt: skip
    frame = spark.range(0, 40, 1, 1).selectExpr("id", *columns)
    table = frame.toArrow()

    def rows(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            yield table.take(batch.column(0)).combine_chunks().to_batches()[0]

    both_ways(lambda: map_messages(frame.select("id"), rows, frame.schema), maxRecordsPerBatch="7")


def test_columns_that_are_not_copied(spark: SparkSession) -> None:
    """Rows with one go to workers by Spark's operator."""
    frame = spark.range(3).selectExpr("id", "id = 1 as b")
    found = map_messages(frame, _same, frame.schema)
    assert "TunedWorker" not in _planned(found)
    assert found.collect() == frame.collect()


def _sizes(batches: Iterable[Any]) -> Iterator[Any]:
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"rows": [batch.num_rows], "bytes": [batch.nbytes]})


def test_batches_are_bounded_by_bytes(spark: SparkSession, both_ways: BothWays) -> None:
    """Large messages come in batches of few; a session that names no limit has one of ours."""
    frame = spark.range(0, 200, 1, 1).selectExpr("cast(repeat('x', 1000000) as binary) as value", "id")
    both_ways(lambda: map_messages(frame, _sizes, "rows bigint, bytes bigint"), maxBytesPerBatch="10000000")
    spark.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", str(2**31 - 1))
    rows = map_messages(frame, _sizes, "rows bigint, bytes bigint").collect()
    assert sum(row.rows for row in rows) == 200
    assert max(row.bytes for row in rows) < 70_000_000


def test_a_worker_that_gives_other_types(spark: SparkSession) -> None:
    def texts(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"id": ["1"] * batch.num_rows})

    with pytest.raises(Exception, match="ArrowColumnVector"):  # as Spark's own operator has it
        map_messages(spark.range(3), texts, "id bigint").collect()


def test_memory_is_free_when_a_task_ends_early(spark: SparkSession) -> None:
    """Rows that are not all taken, and a worker that fails: what batches were made in does not stay with the JVM."""

    def fail(batches: Iterable[Any]) -> Iterator[Any]:
        yield next(iter(batches))
        raise ValueError("no more")

    jvm: Any = spark._jvm
    allocator = jvm.org.apache.spark.sql.util.ArrowUtils.rootAllocator()
    frame = spark.range(0, 30_000, 1, 1)
    before = allocator.getAllocatedMemory()
    assert map_messages(frame, _same, frame.schema).limit(1).count() == 1
    with pytest.raises(Exception, match="no more"):
        map_messages(frame, fail, frame.schema).collect()
    for _ in range(100):  # a task may end after its job
        if allocator.getAllocatedMemory() > before:
            time.sleep(0.1)
    assert allocator.getAllocatedMemory() <= before
