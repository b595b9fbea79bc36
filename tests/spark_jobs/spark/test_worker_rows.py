"""Rows to Python's workers and back by operators of ours: the same rows as Spark's own operator gives, to the byte."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from ticdc_bridge.spark_jobs.spark import worker_tuning
from ticdc_bridge.spark_jobs.spark.transport import map_batches, map_messages

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
            patched.setattr(worker_tuning, "MARK", "")
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
        place = maybe(topic), maybe(partition), maybe(dice.randrange(-(2**63), 2**63)), maybe(time)
        return data(), data(), *place, headers or None

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


def test_rows_of_kernels(spark: SparkSession, both_ways: BothWays) -> None:
    """What workers that decode give: structs, NULL in some rows or in all, lists without elements."""
    source = "struct<t:string,p:int,o:bigint,w:timestamp,i:struct<x:binary>>"
    frame = spark.range(0, 300, 1, 1).selectExpr(
        """if(id % 3 = 0, null, named_struct(
            't', if(id % 5 = 0, null, repeat('é', int(id))), 'p', if(id % 7 = 0, null, int(id)), 'o', -id,
            'w', timestamp_millis(id), 'i', if(id % 11 = 0, null, named_struct('x', binary(string(id)))))) as s""",
        "string(id) as a", "if(id % 2 = 0, null, cast(array() as array<string>)) as l", "string(null) as z",
        "boolean(null) as b", f"cast(null as {source}) as n",
    )  # fmt: skip
    kind = ", ".join(f"{name} {type_}" for name, type_ in frame.dtypes)
    both_ways(lambda: map_batches(frame, _same, kind))


def test_lists_of_structs(spark: SparkSession, both_ways: BothWays) -> None:
    """Structs in lists in structs; a batch in which one of them is NULL goes Spark's way."""
    one = "named_struct('k', repeat('é', int(k)), 'n', if(k = 3, null, k), 'i', struct(array(struct(k as x)) as y))"
    lists = f"transform(sequence(0, id % 5), k -> {one})"
    frame = spark.range(0, 200, 1, 1).selectExpr(
        "id", f"if(id % 7 = 0, null, {lists}) as a", f"if(id > 150, array({lists}[0], null), null) as b",
        "if(id % 3 = 0, array(), array(struct(cast(id / 7 as decimal(38,10)) as d))) as c",
    )  # fmt: skip
    for columns in (["id", "a"], ["a", "b"], ["a", "c"]):
        part = frame.select(*columns)
        kind = ", ".join(f"{name} {type_}" for name, type_ in part.dtypes)
        both_ways(lambda part=part, kind=kind: map_batches(part, _same, kind), maxRecordsPerBatch="50")


def test_other_types(spark: SparkSession, both_ways: BothWays) -> None:
    """They go Spark's way, within our operator; so does each batch that has lists with elements other than structs."""
    frame = spark.range(0, 100, 1, 1).selectExpr(
        "id % 2 = 0 as a", "tinyint(id) as b", "smallint(id) as c", "if(id = 3, double('NaN'), id / 3) as d",
        "cast(id / 7 as decimal(5,2)) as e", "cast(id / 7 as decimal(38,10)) as f", "date_from_unix_date(int(id)) as g",
        "if(id > 20, array('x', null), null) as h", "named_struct('k', binary(string(id)), 'l', array(id)) as i",
    )  # fmt: skip
    kind = ", ".join(f"{name} {type_}" for name, type_ in frame.dtypes)
    both_ways(lambda: map_batches(frame, _same, kind), maxRecordsPerBatch="7")


def test_what_keeps_its_place(spark: SparkSession, both_ways: BothWays) -> None:
    """Columns that are NULL in all rows: a long decimal's 16 bytes stay in Spark's rows. A map has two arrays in it."""
    none = "decimal(38,4)", "decimal(18,4)", "int", "date", "array<int>", "struct<d:decimal(38,4)>"
    frame = spark.range(0, 9, 1, 1).selectExpr(
        "id", *(f"cast(null as {type_}) as c{n}" for n, type_ in enumerate(none))
    )
    kind = ", ".join(f"{name} {type_}" for name, type_ in frame.dtypes)
    both_ways(lambda: map_batches(frame, _same, kind))
    empty = spark.range(0, 9, 1, 1).selectExpr(
        "id", "cast(map() as map<string,string>) as m", "struct(1 as a, null as b) as s"
    )
    found = map_batches(empty, _same, "id bigint, m map<string,string>, s struct<a:int,b:int>")
    assert [row.m for row in found.selectExpr("to_json(m) as m").collect()] == ["{}"] * 9


def test_maps(spark: SparkSession) -> None:
    """Spark does not group by them."""
    frame = spark.range(0, 9, 1, 1).selectExpr("if(id = 7, null, map(string(id), 'x')) as m", "id")
    found = map_batches(frame, _same, "m map<string,string>, id bigint")
    assert "TunedWorker" in _planned(found)
    assert found.collect() == frame.collect()


def _sizes(batches: Iterable[Any]) -> Iterator[Any]:
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"rows": [batch.num_rows], "bytes": [batch.nbytes]})


def test_batches_are_bounded_by_bytes(spark: SparkSession, both_ways: BothWays) -> None:
    """Large messages come in batches of few; a session that names no limit has one of ours."""
    frame = spark.range(0, 200, 1, 1).selectExpr("cast(repeat('x', 1000000) as binary) as key", "id")
    both_ways(lambda: map_batches(frame, _sizes, "rows bigint, bytes bigint"), maxBytesPerBatch="10000000")
    spark.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", str(2**31 - 1))
    rows = map_batches(frame, _sizes, "rows bigint, bytes bigint").collect()
    assert sum(row.rows for row in rows) == 200
    assert max(row.bytes for row in rows) < 70_000_000


def test_a_worker_that_gives_other_types(spark: SparkSession) -> None:
    def texts(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"id": ["1"] * batch.num_rows})

    with pytest.raises(Exception, match="ArrowColumnVector"):  # as Spark's own operator has it
        map_batches(spark.range(3), texts, "id bigint").collect()
