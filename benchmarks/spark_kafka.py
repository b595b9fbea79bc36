"""Kafka → decode → Avro → Kafka on a real broker, beside a job that only copies, availableNow, two partitions.

Ours reads TiCDC's Avro of `wide` (two schema ids) and writes Avro with DECIMALs as text: every record is decoded and
written anew. The broker's own CPU is left out of both sides.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import mkdtemp
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from benchmarks import rows as made
from benchmarks.cpu import Spent, Stopwatch, tree_seconds
from benchmarks.figures import Figure, Run
from benchmarks.rows import PARTITIONS, Source
from benchmarks.spark_cases import turns
from benchmarks.spark_input import frame_of
from ticdc_bridge.schemas.formats.avro import schema as publish
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas, RegisteredSchema
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.spark_jobs.io.locations import KafkaClient
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.job import Job

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.support.kafka import Kafka

ROWS, QUICK_ROWS = 1_000_000, 100_000
_ROUNDS, _QUICK_ROUNDS = 5, 2
_WARM_UPS, _QUICK_WARM_UPS = 2, 1
_TARGET = 0.45
_SAMPLE = 200
_NO_MORE: Mapping[str, str] = MappingProxyType({})
_LOTS = {"kafka.max.poll.records": "5000"}  # as our own jobs read (spark_jobs.spark.frames)
_WRITTEN = {"enable_tidb_extension": True, "avro_decimal_handling_mode": "string"}


@dataclass(frozen=True, slots=True)
class _Job:
    """A way from one topic to another. run: reads topic `source`, writes `out`, keeps its checkpoint in a folder."""

    name: str
    run: Callable[[str, str, Path], None]
    spent: list[Spent] = field(default_factory=list)


def run(run: Run) -> Iterator[Figure]:
    """The figures. RuntimeError where messages are missing, or are not those that went in."""
    from tests.support.kafka import Kafka
    from ticdc_bridge.spark_jobs.spark.session import spark_session

    rows = run.rows or (QUICK_ROWS if run.quick else ROWS)
    spark = spark_session("benchmarks", master="local[2]", config={"spark.driver.memory": "2g"})
    source = made.wide()
    run.say(f"input: {rows:,} messages of {source.name}, and a broker")
    frame = frame_of(spark, [source], rows)
    schemas = _both(source)
    folder = Path(mkdtemp(prefix="ticdc-bridge-"))
    try:
        with Kafka() as kafka:
            topic = kafka.create_topic(partitions=PARTITIONS)
            _fill(frame, kafka, topic)
            jobs = [
                _Job("passthrough", _passthrough(spark, kafka)),
                _Job("tuned", _passthrough(spark, kafka, _LOTS)),
                _Job("worker", _through_worker(spark, kafka)),
                _Job("stream", _stream(kafka, schemas)),
                _Job("api", _api(spark, kafka, schemas)),
            ]
            _measure(run, jobs, kafka, topic, rows, folder, lambda out: _check(spark, kafka, out, rows, source))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    yield from _figures(jobs, rows)


def _measure(
    run: Run, jobs: list[_Job], kafka: Kafka, topic: str, rows: int, folder: Path, check: Callable[[str], None]
) -> None:
    plan, admin = (_QUICK_WARM_UPS, _QUICK_ROUNDS) if run.quick else (_WARM_UPS, _ROUNDS), kafka.admin
    for number, (kind, counts) in enumerate(turns(*plan)):
        for job in jobs:
            out = kafka.create_topic(partitions=PARTITIONS)
            before = _broker_seconds(kafka)
            with Stopwatch() as watch:
                job.run(topic, out, folder / uuid.uuid4().hex)
            spent = Spent(watch.spent.wall, watch.spent.cpu - (_broker_seconds(kafka) - before))
            run.say(f"{kind}: {job.name} {rows / spent.wall:,.0f} rows/s, {spent.cpu / rows * 1e6:.2f} µs CPU/row")
            if number == 0 and job.name in ("stream", "api"):
                check(out)
            if counts:
                job.spent.append(spent)
            admin.delete_topics([out])[out].result(timeout=30)


def _broker_seconds(kafka: Kafka) -> float:
    assert kafka._process is not None
    return tree_seconds(kafka._process.pid)


def _figures(jobs: list[_Job], rows: int) -> Iterator[Figure]:
    """worker beside tuned is what would be reached if decoding and writing cost nothing."""
    copy, tuned = jobs[:2]
    for job in jobs:
        note = f"{rows} messages, median of {len(job.spent)}"
        rate = median(rows / s.wall for s in job.spent)
        yield Figure(f"spark-kafka.{job.name}.rate", rate, "rows/s", "more", None, None, note)
        micros = median(s.cpu for s in job.spent) / rows * 1e6
        if job is copy:
            yield Figure(f"spark-kafka.{job.name}.cpu", micros, "us/row", "less", None, None, note)
            continue
        for rival in (copy, tuned):
            if job is rival:
                continue
            target = _TARGET if rival is copy and job.name in ("stream", "api") else None
            found = median(theirs.cpu / ours.cpu for ours, theirs in zip(job.spent, rival.spent, strict=True))
            name = f"spark-kafka.{job.name}.cpu-vs-{rival.name}"
            yield Figure(name, micros, "us/row", "less", micros * found, target, note)


# ---------------------------------------------------------------------------------------------- jobs
def _both(source: Source) -> FileSchemas:
    """The schemas of the messages read (7 to 9), and of those written (107 to 109)."""
    options, entries = Options.of(_WRITTEN), list(source.schemas.all())
    key = publish.key_schema(source.versions[-1], options)
    assert key is not None
    entries.append(RegisteredSchema("out-key", 1, 107, key))
    for number, version in enumerate(source.versions):
        entries.append(RegisteredSchema("out-value", number + 1, 108 + number, publish.value_schema(version, options)))
    return FileSchemas(entries)


def _fill(frame: DataFrame, kafka: Kafka, topic: str) -> None:
    writer = frame.select("key", "value", "partition").write.format("kafka").options(**_client(kafka))
    writer.option("topic", topic).save()


def _client(kafka: Kafka) -> dict[str, str]:
    return {"kafka.bootstrap.servers": kafka.bootstrap_servers}


def _reader(spark: SparkSession, kafka: Kafka, topic: str, more: Mapping[str, str] = _NO_MORE) -> DataFrame:
    reader = spark.readStream.format("kafka").options(**_client(kafka), **more).option("subscribe", topic)
    return reader.option("startingOffsets", "earliest").load()


def _write(frame: DataFrame, kafka: Kafka, out: str, checkpoint: Path) -> None:
    writer = frame.writeStream.format("kafka").options(**_client(kafka)).option("topic", out)
    writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()


def _passthrough(
    spark: SparkSession, kafka: Kafka, more: Mapping[str, str] = _NO_MORE
) -> Callable[[str, str, Path], None]:
    def job(topic: str, out: str, checkpoint: Path) -> None:
        _write(_reader(spark, kafka, topic, more).select("key", "value"), kafka, out, checkpoint)

    return job


def _through_worker(spark: SparkSession, kafka: Kafka) -> Callable[[str, str, Path], None]:
    """A copy by way of Python's workers, which give back the batches that they get."""

    def same(batches: Iterable[Any]) -> Iterator[Any]:
        yield from batches

    def job(topic: str, out: str, checkpoint: Path) -> None:
        read = _reader(spark, kafka, topic, _LOTS).select("key", "value", "topic", "partition", "offset", "timestamp")
        copied = read.mapInArrow(same, read.schema)
        _write(copied.select("key", "value"), kafka, out, checkpoint)

    return job


def _stream(kafka: Kafka, schemas: FileSchemas) -> Callable[[str, str, Path], None]:
    """`transcode --stream --trigger now`, in this process."""
    from ticdc_bridge.spark_jobs.streaming.stream import StreamJob, run_stream

    read = CodecConfig("avro", schemas, Options.of({}, time_zone="UTC"), learn=True)
    write = CodecConfig("avro", schemas, Options.of({**_WRITTEN, "time_zone": "UTC"}))

    def job(topic: str, out: str, checkpoint: Path) -> None:
        client = KafkaClient(kafka.bootstrap_servers)
        dead = str(checkpoint.with_suffix(".dead"))
        positions = f"kafka:{topic}", f"kafka:{out}", dead, client, str(checkpoint)
        code = run_stream(StreamJob("transcode", Job(read, write), *positions, trigger=None))
        if code:
            raise RuntimeError(f"transcode ended with exit code {code}")

    return job


def _api(spark: SparkSession, kafka: Kafka, schemas: FileSchemas) -> Callable[[str, str, Path], None]:
    """transcode() between Spark's own source, read in larger lots as `tuned` is, and sink."""
    from ticdc_bridge import transcode

    def job(topic: str, out: str, checkpoint: Path) -> None:
        read = _reader(spark, kafka, topic, _LOTS)
        found = transcode(read, from_format="avro", to_format="avro", schemas=schemas, options=_WRITTEN)
        _write(found.where("error is null").select("key", "value"), kafka, out, checkpoint)

    return job


# ---------------------------------------------------------------------------------------------- checks
def _check(spark: SparkSession, kafka: Kafka, out: str, rows: int, source: Source) -> None:
    """As many messages as went in; the first of a partition decode to the generator's rows."""
    from ticdc_bridge.schemas.formats.base import Context
    from ticdc_bridge.schemas.inspect import format_lookup
    from ticdc_bridge.schemas.model.event import Message, RowChange

    reader = spark.read.format("kafka").options(**_client(kafka)).option("subscribe", out)
    frame = reader.load()
    count = frame.count()
    if count != rows:
        raise RuntimeError(f"{rows} messages went in, {count} came out")
    context = Context(_both(source), None, Options.of({}, time_zone="UTC"))
    decoder = format_lookup.format_named("avro").decoder(context)
    for message in frame.where(f"`offset` < {_SAMPLE // PARTITIONS}").collect():
        for event in decoder.decode(Message(bytes(message["key"]), message["value"] and bytes(message["value"]))):
            assert isinstance(event, RowChange)
            number = int(str((event.after or event.before or {})["id"]))
            (wanted,) = made.changes(source, range(number, number + 1))
            if (event.op, event.after) != (wanted.op, wanted.after):
                raise RuntimeError(f"{event} came out, {wanted} went in")
