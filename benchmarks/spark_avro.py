"""TiCDC Avro in Spark: our decode() against only reading the file, a fastavro UDF per record, and bare from_avro.

All cases run in one session, in turn, round after round: what else the machine does falls on all of them. Before
anything is timed, each case's result is checked against the generator.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from decimal import Decimal
from io import BytesIO
from multiprocessing import get_context
from statistics import median
from typing import TYPE_CHECKING, Any, Literal
from unittest.mock import patch

from benchmarks.cpu import Spent
from benchmarks.figures import Figure, Run
from benchmarks.rows import PARTITIONS, Source, changes
from benchmarks.spark_cases import Case, figures, measure, ratio, turns
from benchmarks.spark_input import frame_of
from ticdc_bridge.schemas.model.event import Row
from ticdc_bridge.schemas.model.names import quote_name
from ticdc_bridge.schemas.model.spark_types import spark_type
from ticdc_bridge.schemas.model.types import Kind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

ROWS, QUICK_ROWS = 500_000, 50_000
_FEWER = 8  # what decodes in plain Python takes so many times fewer rows
_SAMPLE = 40  # rows compared with the generator, of each case
_TARGET_UDF, _TARGET_BARE = 10.0, 0.85
_RACE, _JVMS = ("header", "columns", "exact", "from_avro"), 5
_WHOLE = ("header", "exact", "kernels")  # whose rows are compared, all and in all columns
_RACE_WARM_UPS, _RACE_ROUNDS = 12, 7
_COLUMNS = ("op", "commit_ts", "before", "after", "source")  # of an event: what bare from_avro has, beside the message


def run(source: Source, run: Run) -> Iterator[Figure]:
    """The figures of one table."""
    rows = run.rows or (QUICK_ROWS if run.quick else ROWS)
    spark = _session()
    cases = _cases(spark, source, rows, run.say)
    run.say("checking the results against the generator")
    _check(source, cases)
    measure(list(cases.values()), run)
    race = cases if run.quick else _raced(source, cases, run)
    prefix = f"spark-avro-{source.name}"
    yield from figures(prefix, list((cases | race).values()))
    for name in ("header", "columns"):
        yield ratio(prefix, race[name], race["from_avro"], _TARGET_BARE)
    yield ratio(prefix, cases["header"], cases["fastavro-udf"], _TARGET_UDF)
    for rival in ("from_avro", "fastavro-udf", "header"):
        among = race if rival in _RACE else cases
        yield ratio(prefix, among["exact"], among[rival], None)
    yield ratio(prefix, cases["kernels"], cases["from_avro"], None)
    yield ratio(prefix, cases["generic"], cases["fastavro-udf"], None)


def _session() -> SparkSession:
    from ticdc_bridge.spark_jobs.spark.session import spark_session

    return spark_session("benchmarks", master="local[2]", config={"spark.driver.memory": "2g"})


# ---------------------------------------------------------------------------------------------- the race
def _raced(source: Source, cases: Mapping[str, Case], run: Run) -> dict[str, Case]:
    """The cases that are close to one another, run alone in some JVMs, one after the other.

    What HotSpot makes of the same code differs by a twentieth from one JVM to the next.
    """
    race = {name: cases[name].again() for name in _RACE}
    for number in range(1, _JVMS + 1):
        run.say(f"{', '.join(_RACE)}: JVM {number} of {_JVMS}")
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            found = process.submit(_in_a_jvm, source, race["header"].rows).result()
        for name, spent in found.items():
            race[name].spent.extend(spent)
        reported = (
            f"{name} {median(s.cpu for s in spent) / race[name].rows * 1e6:.2f}" for name, spent in found.items()
        )
        run.say(f"JVM {number}, µs/row: {', '.join(reported)}")
    return race


def _in_a_jvm(source: Source, rows: int) -> dict[str, list[Spent]]:
    """What each round of the cases took, in a process with a JVM of its own."""

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    cases = _cases(_session(), source, rows, say, _RACE)
    plan = turns(_RACE_WARM_UPS, _RACE_ROUNDS)
    measure([*cases.values()], Run(False, rows, say), plan)
    return {name: case.spent for name, case in cases.items()}


# ---------------------------------------------------------------------------------------------- cases
def _cases(
    spark: SparkSession, source: Source, rows: int, say: Callable[[str], None], names: tuple[str, ...] = ()
) -> dict[str, Case]:
    """names: of those that are wanted; () for all."""
    from ticdc_bridge import decode

    def read(of: Source, count: int) -> DataFrame:
        say(f"input: {count:,} messages of {of.name}")
        return frame_of(spark, [of], count)

    few = max(rows // _FEWER, _SAMPLE)
    whole, part, one_id = read(source, rows), read(source, few), read(source.only_newest(), rows)

    def ours(messages: DataFrame, table: str | None, check: Literal["exact", "header"] = "exact") -> DataFrame:
        return decode(messages, format="avro", schemas=source.schemas, table=table, check=check)

    header = ours(whole, source.table, "header")
    cases = (
        Case("read", rows, whole),
        Case("header", rows, header),
        Case("columns", rows, header.select(*_COLUMNS)),
        Case("exact", rows, ours(whole, source.table)),
        Case("kernels", rows, _by_kernels(lambda: ours(whole, source.table))),
        Case("generic", few, ours(part, None)),
        Case("fastavro-udf", few, part.select("*", fastavro_udf(source)("key", "value").alias("decoded"))),
        Case("from_avro", rows, one_id.select("*", bare_from_avro(source).alias("decoded"))),
    )
    return {case.name: case for case in cases if not names or case.name in names}


def _by_kernels(decoded: Callable[[], DataFrame]) -> DataFrame:
    """What is decoded in Python's workers, as streams are, and batches where Spark's JVM has no reader of ours."""
    from ticdc_bridge.spark_jobs.spark import avro_jvm

    class_of = avro_jvm.class_of

    def without_reader(spark: SparkSession, name: str) -> Any:
        return None if name == "AvroRows" else class_of(spark, name)

    with patch.object(avro_jvm, "class_of", without_reader):
        return decoded()


def bare_from_avro(source: Source) -> Column:
    """The newest value schema over whatever is in `value`: no look at the id, no key, no op."""
    from pyspark.sql import functions as F
    from pyspark.sql.avro.functions import from_avro

    text = source.schemas.by_id(source.value_ids()[-1], "value")
    return from_avro(F.substring("value", 6, 1 << 30), text, {"mode": "PERMISSIVE"})


def fastavro_udf(source: Source) -> Any:
    """The rival: (key, value) → struct of the newest version's columns, _tidb_op and _tidb_commit_ts, by fastavro.

    Of a delete, which has no value, the key's columns are there. BIGINT UNSIGNED comes as the wire's signed long.
    """
    from pyspark.sql import functions as F

    columns = source.versions[-1].columns
    long = {c.name: "bigint" for c in columns if c.type.kind is Kind.INTEGER and c.type.bits == 64}
    shown = [f"{quote_name(c.name)} {long.get(c.name) or spark_type(c)}" for c in columns]
    kind = f"struct<{', '.join(shown)}, _tidb_op string, _tidb_commit_ts bigint>"
    names = (*(c.name for c in columns), "_tidb_op", "_tidb_commit_ts")
    texts = {e.id: e.schema for e in source.schemas.all() if isinstance(e.id, int)}
    decoder = FastavroDecoder(texts, names)
    return F.udf(lambda key, value: decoder(key, value), kind)  # a lambda has no type hints for Spark to judge by


class FastavroDecoder:
    """A record by the schema of its header's id; a schema is parsed once in each worker's task."""

    def __init__(self, texts: Mapping[int, str], names: tuple[str, ...]) -> None:
        self._texts = dict(texts)
        self._names = names
        self._parsed: dict[int, Any] = {}

    def __call__(self, key: bytes | None, value: bytes | None) -> tuple[Any, ...] | None:
        from fastavro import schemaless_reader

        data = key if value is None else value
        if data is None:
            return None
        zero, id_ = struct.unpack_from(">bi", data)
        if zero:
            raise ValueError(f"the first byte is {zero}")
        schema = self._parsed.get(id_) or self._parse(id_)
        body = BytesIO(data)
        body.seek(5)
        record: dict[str, Any] = schemaless_reader(body, schema, None)  # type: ignore[assignment]
        if value is None:
            record["_tidb_op"] = "d"
        return tuple(map(record.get, self._names))

    def _parse(self, id_: int) -> Any:
        import json

        from fastavro import parse_schema

        parsed = self._parsed[id_] = parse_schema(json.loads(self._texts[id_]))
        return parsed


# ---------------------------------------------------------------------------------------------- checks
def _check(source: Source, cases: Mapping[str, Case]) -> None:
    """Each case gives as many rows as went in, none of them an error, and the generator's values. RuntimeError."""
    from pyspark.sql import functions as F

    marks = {}
    for case in cases.values():
        totals = {"rows": F.count(F.lit(1))}
        if "error" in case.frame.columns:
            totals["errors"] = F.count("error")
        if case.name in _WHOLE:
            totals["mark"] = F.bit_xor(F.xxhash64(*case.frame.columns))
        found = case.frame.select(*(c.alias(n) for n, c in totals.items())).collect()[0].asDict()
        if found["rows"] != case.rows or found.get("errors"):
            raise RuntimeError(f"{case.name}: {case.rows} rows went in, this came out: {found}")
        marks[case.name] = found.get("mark")
        where = "source." if "source" in case.frame.columns else ""
        number = F.expr(f"{where}offset * {PARTITIONS} + {where}partition")
        sample = {r["_n"]: r for r in case.frame.withColumn("_n", number).where(F.col("_n") < _SAMPLE).collect()}
        if case.name != "read":
            of = source.only_newest() if case.name == "from_avro" else source
            _check_sample(case.name, of, sample)
    if len({marks[name] for name in _WHOLE}) > 1:
        raise RuntimeError(f"{', '.join(_WHOLE)} give different rows")


def _check_sample(case: str, source: Source, sample: Mapping[int, Any]) -> None:
    for number, event in zip(sorted(sample), changes(source, range(len(sample))), strict=True):
        row, ours = sample[number], case in ("header", "columns", "exact", "kernels", "generic")
        found = row[("before" if event.op == "d" else "after") if ours else "decoded"]
        want = event.before if event.op == "d" else event.after
        if event.op == "d" and case == "from_avro":
            want = None  # it does not read keys
        op = row["op"] if ours else found["_tidb_op"] if found is not None else None
        if (want is None) != (found is None) or (want is not None and op != event.op) or not _same(source, want, found):
            raise RuntimeError(f"{case}: row {number} is {row}, the generator made {event.op} {want}")


def _same(source: Source, want: Row | None, found: Any) -> bool:
    """A row as the generator made it against a map in plain form or a struct of typed columns."""
    if want is None:
        return found is None
    values = found if isinstance(found, dict) else found.asDict()
    return all(_equal(want.get(c.name), values.get(c.name), c.type.kind) for c in source.versions[-1].columns)


def _equal(want: str | bytes | None, found: Any, kind: Kind) -> bool:
    if want is None or found is None:
        return want is None and found is None
    if isinstance(want, bytes):
        return bool(found in (want, f'{{"hex":"{want.hex()}"}}'))
    if isinstance(found, str):
        return found == want
    if kind in (Kind.FLOAT, Kind.DOUBLE):
        digits = struct.Struct("f" if kind is Kind.FLOAT else "d")
        return digits.pack(found) == digits.pack(float(want))
    difference = Decimal(want) - found
    return difference == 0 or (kind is Kind.INTEGER and difference == 1 << 64)
