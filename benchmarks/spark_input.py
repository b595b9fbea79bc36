"""Input of the Spark benchmarks: TiCDC's Avro in Parquet with Kafka's columns; some rows are made, and repeated."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any
from zlib import crc32

from benchmarks import rows as made
from benchmarks.rows import PARTITIONS, Source, kafka_schema
from ticdc_bridge.schemas.formats.avro import schema as publish
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas, RegisteredSchema
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.schemas.model.table import Column, Table, TableId
from ticdc_bridge.schemas.model.types import BY_NAME
from ticdc_bridge.spark_jobs.runtime.cache import cache_dir

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DISTINCT = 50_000
_PER_GROUP = 10_000


def frame_of(spark: SparkSession, sources: Sequence[Source], rows: int, distinct: int = DISTINCT) -> DataFrame:
    """`rows` messages of some tables, in turn, in two files of as many rows; kept in the cache folder.

    Row n of the first `distinct` is the generator's row n; its partition is n modulo 2, and so on with each repetition.
    """
    distinct = min(rows, distinct)
    name = f"{sources[0].name}-x{len(sources)}-{rows}-of-{distinct}"
    code = crc32(Path(made.__file__).read_bytes() + Path(__file__).read_bytes())
    target = cache_dir() / "benchmarks" / f"{name}-{code:08x}"
    if not target.exists():
        _write(target, _mixed(sources, distinct), rows, distinct)
    return spark.read.parquet(str(target))


def _mixed(sources: Sequence[Source], distinct: int) -> Iterable[Message]:
    """Row n is of table n modulo their number."""
    count = len(sources)
    turns = [made.messages(source, range(n, distinct, count)) for n, source in enumerate(sources)]
    for number in range(distinct):
        yield replace(next(turns[number % count]).message, topic=sources[0].topic)


def _write(target: Path, messages: Iterable[Message], rows: int, distinct: int) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    schema = kafka_schema()
    columns: list[list[dict[str, Any]]] = [[] for _ in range(PARTITIONS)]
    for message in messages:
        columns[message.partition or 0].append(
            {
                "key": message.key, "value": message.value, "topic": message.topic, "partition": message.partition,
                "offset": message.offset, "timestamp": (message.timestamp or 0) * 1000,
            }
        )  # fmt: skip
    target.parent.mkdir(parents=True, exist_ok=True)
    part = Path(mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    for number, found in enumerate(columns):
        table, left = pa.Table.from_pylist(found, schema), rows // PARTITIONS + (number < rows % PARTITIONS)
        with pq.ParquetWriter(part / f"partition-{number}.parquet", schema) as writer:
            for turn in range(-(-left // len(found))):
                offsets = pc.add(table["offset"], turn * (distinct // PARTITIONS))
                again = table.set_column(4, "offset", offsets).slice(0, min(left, len(found)))
                writer.write_table(again, row_group_size=_PER_GROUP)
                left -= len(again)
    try:
        part.rename(target)
    except OSError:  # another process was quicker
        shutil.rmtree(part)


# ---------------------------------------------------------------------------------------------- tables
_ADDED: tuple[dict[str, Any], ...] = (
    {"kind": "int"}, {"kind": "varchar"}, {"kind": "bigint"}, {"kind": "decimal", "length": 12, "scale": 2},
    {"kind": "datetime"}, {"kind": "double"},
)  # fmt: skip


def grown(versions: int, only: Sequence[int] = ()) -> Source:
    """bench.grown: the 20 columns of `wide`, and one more in each version, as ALTER TABLE … ADD COLUMN gives.

    only: numbers of the versions that rows are made of; all of them are registered, with the ids 100 and up.
    """
    base = made.wide().versions[-1].columns
    more = tuple(_column(f"added_{n}", **_ADDED[n % len(_ADDED)]) for n in range(versions - 1))
    id_ = TableId("bench", "grown")
    tables = tuple(Table(id_, (*base, *more[:n])) for n in range(versions))
    shown = tuple(tables[n] for n in only) if only else tables
    source = _registered("tidb_bench_grown", shown, 100)
    return replace(source, name=f"grown-{versions}" + "".join(f"-{n}" for n in only))


def tables(count: int) -> list[Source]:
    """bench.wide_0, bench.wide_1 …: tables of the 19 and 20 columns of `wide`, three schema ids each."""
    made_ = [tuple(Table(TableId("bench", f"wide_{n}"), v.columns) for v in made.wide().versions) for n in range(count)]
    found = [_registered("tidb_bench", versions, 1000 + 10 * n) for n, versions in enumerate(made_)]
    every = FileSchemas([entry for source in found for entry in source.schemas.all()])
    return [replace(source, schemas=every) for source in found]


def _registered(topic: str, versions: tuple[Table, ...], first: int) -> Source:
    """Key and value schemas of the versions, with ids from `first`; subjects by topic and record."""
    id_ = versions[0].id
    key = publish.key_schema(versions[0], made.OPTIONS)
    assert key is not None
    subject = f"{topic}-{id_.table}"
    entries = [RegisteredSchema(f"{subject}-key", 1, first, key)]
    for number, version in enumerate(versions):
        text = publish.value_schema(version, made.OPTIONS)
        entries.append(RegisteredSchema(f"{subject}-value", number + 1, first + 1 + number, text))
    return Source(id_.table, topic, versions, FileSchemas(entries))


def _column(name: str, kind: str, **more: Any) -> Column:
    return Column(name, BY_NAME[kind], **more)
