"""Whether cost grows with rows alone: 10 times the rows, 25 times the schema ids, 200 times the tables.

The figure is CPU per row of the larger input, its rival that of the smaller one; 1 is no difference. What a query costs
to plan is in both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from benchmarks import rows as made
from benchmarks.figures import Figure, Run
from benchmarks.rows import Source
from benchmarks.spark_cases import Case, figures, measure, ratio
from benchmarks.spark_input import DISTINCT, frame_of, grown, tables
from benchmarks.spark_transcode import to_debezium

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LINEAR, _QUICK_LINEAR = (100_000, 1_000_000), (20_000, 200_000)
_ROWS, _QUICK_ROWS = 500_000, 40_000
_PYTHON_ROWS = 200_000  # what decodes in plain Python takes long
_FEW_DISTINCT = 20_000  # rows of many columns take long to make
_IDS, _TABLES = (2, 50), (1, 200)
_TARGET_LINEAR, _TARGET_IDS, _TARGET_TABLES = 10 / 11, 1 / 1.3, 1 / 1.5

Work = Callable[["DataFrame", Source], "DataFrame"]


def run(run: Run) -> Iterator[Figure]:
    """All figures. RuntimeError where rows are missing or refused."""
    from ticdc_bridge.spark_jobs.spark.session import spark_session

    spark = spark_session("benchmarks", master="local[2]", config={"spark.driver.memory": "2g"})
    yield from _linear(spark, run)
    yield from _ids(spark, run)
    yield from _tables(spark, run)


def _linear(spark: SparkSession, run: Run) -> Iterator[Figure]:
    few, many = _QUICK_LINEAR if run.quick else _LINEAR
    if run.rows:
        few, many = run.rows, run.rows * 10
    source = made.wide()
    for name, value in {"header": _header, "exact": _exact, "transcode": _transcode}.items():
        cases = [
            Case(f"{name}-{rows}-rows", rows, value(_input(spark, run, [source], rows, DISTINCT), source))
            for rows in (few, many)
        ]
        yield from _measured(run, cases, _TARGET_LINEAR)


def _ids(spark: SparkSession, run: Run) -> Iterator[Figure]:
    """Rows of the first and the last of 50 versions, and of all of them: as many columns on average."""
    few, many = _IDS
    ends, whole = grown(many, only=(0, many - 1)), grown(many)
    for name, value in {"header": _header, "exact": _exact}.items():
        cases = [
            Case(f"{name}-{ids}-ids", _count(run), value(_input(spark, run, [source], _count(run)), source))
            for ids, source in ((few, ends), (many, whole))
        ]
        yield from _measured(run, cases, _TARGET_IDS)


def _tables(spark: SparkSession, run: Run) -> Iterator[Figure]:
    for name, value in {"generic": _generic, "transcode": _transcode}.items():
        cases = []
        for count in _TABLES:
            sources = tables(count)
            rows = min(_count(run), _PYTHON_ROWS)
            frame = value(_input(spark, run, sources, rows), sources[0])
            cases.append(Case(f"{name}-{count}-tables", rows, frame))
        yield from _measured(run, cases, _TARGET_TABLES)


def _count(run: Run) -> int:
    return run.rows or (_QUICK_ROWS if run.quick else _ROWS)


def _input(
    spark: SparkSession, run: Run, sources: Sequence[Source], rows: int, distinct: int = _FEW_DISTINCT
) -> DataFrame:
    run.say(f"input: {rows:,} messages of {sources[0].name}" + (f" and {len(sources) - 1} more" if sources[1:] else ""))
    return frame_of(spark, sources, rows, distinct)


def _measured(run: Run, cases: list[Case], target: float) -> Iterator[Figure]:
    from pyspark.sql import functions as F

    for case in cases:
        found = case.frame.agg(F.count(F.lit(1)), F.count("error"), F.first("error", ignorenulls=True)).collect()[0]
        if tuple(found)[:2] != (case.rows, 0):
            raise RuntimeError(f"{case.name}: {case.rows} rows went in, this came out (rows, errors): {tuple(found)}")
    measure(cases, run)
    yield from figures("spark-scale", cases)
    yield ratio("spark-scale", cases[1], cases[0], target)


# ---------------------------------------------------------------------------------------------- work
def _header(frame: DataFrame, source: Source) -> DataFrame:
    from ticdc_bridge import decode

    return decode(frame, format="avro", schemas=source.schemas, table=source.table, check="header")


def _exact(frame: DataFrame, source: Source) -> DataFrame:
    from ticdc_bridge import decode

    return decode(frame, format="avro", schemas=source.schemas, table=source.table)


def _generic(frame: DataFrame, source: Source) -> DataFrame:
    from ticdc_bridge import decode

    return decode(frame, format="avro", schemas=source.schemas)


def _transcode(frame: DataFrame, source: Source) -> DataFrame:
    return to_debezium(frame, source.schemas)
