"""Where micro-batches go: Kafka, a table of the lake, or a folder with a file a batch."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, cast

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ticdc_bridge.clients.kafka import TopicChoice, largest_messages, partition_counts, same_topic_error
from ticdc_bridge.schemas.model.errors import SetupError, WireError
from ticdc_bridge.schemas.plain.writer import json_line, plain_error
from ticdc_bridge.spark_jobs.io.endpoints import DeadLetters, LineSink, Sink
from ticdc_bridge.spark_jobs.io.locations import (
    KafkaClient,
    TableLocation,
    is_catalog_name,
    table_location_of,
    topic_of_location,
)
from ticdc_bridge.spark_jobs.io.message_files import LineWriter, message_line, message_of_row, parse_line
from ticdc_bridge.spark_jobs.io.object_paths import path_of
from ticdc_bridge.spark_jobs.lake import tables
from ticdc_bridge.spark_jobs.lake.engines import delta_files
from ticdc_bridge.spark_jobs.lake.engines.base import AUTO
from ticdc_bridge.spark_jobs.pipeline.job import Job
from ticdc_bridge.spark_jobs.pipeline.progress import print_notes, show_progress
from ticdc_bridge.spark_jobs.pipeline.result import Summary
from ticdc_bridge.spark_jobs.pipeline.table_choice import is_rule
from ticdc_bridge.spark_jobs.pipeline.watermark_buffer import handle_failure
from ticdc_bridge.spark_jobs.runtime.spark_settings import SparkSettings
from ticdc_bridge.spark_jobs.spark import avro_jvm
from ticdc_bridge.spark_jobs.streaming.checkpoint import Checkpoint
from ticdc_bridge.spark_jobs.streaming.pieces import error_of_row

ID = "bridge.id"
"""Header of a message that a stream wrote: partition/offset/event/part of the source, the same on every try."""

_INPUT_ORDER = ("position", "number", "part")
_BATCH = 16384  # bytes: the Java producer's batch.size, if nobody says another


class BatchSink(ABC):
    @abstractmethod
    def write(self, rows: DataFrame, number: int, by_time: bool) -> None:
        """Takes the rows of micro-batch `number`. by_time: ordered by commit_ts."""

    def write_nothing(self, number: int) -> None:  # noqa: B027
        """Micro-batch `number` has no rows for here; what an earlier try wrote stays, unless it can be taken back."""


class TopicSink(BatchSink):
    """At least once; each message of a stream carries ID, so that its readers can drop what came twice.

    A stream's messages keep the partition they were read from (modulo the topic's), as in this process: there the
    changes of a row are in their order, whatever the key of the format written, and so are watermarks.
    """

    def __init__(self, topic: str | None, kafka: KafkaClient, rule: str | None, stream: bool) -> None:
        self._topic, self._stream = topic, stream
        self.fixed = None if rule else topic
        """The topic of all messages; None: each has its own."""
        self._settings, self._java, self._rule = kafka.settings(), kafka.java_settings(), rule
        self._taken: dict[str, int] = {}  # max.message.bytes of topics whose broker has said it
        self._read = kafka.read

    def counts(self) -> dict[str, int]:
        """Partitions of the topics that are there. SetupError KAFKA_UNREACHABLE."""
        return partition_counts(self._settings, self.fixed, (self._rule or "").partition("{")[0])

    def write(self, rows: DataFrame, number: int, by_time: bool) -> None:
        if "line" in rows.columns:
            message = [F.lit(None).cast("binary").alias("key"), F.col("line").cast("binary").alias("value")]
            empty = F.array().cast("array<struct<key:string,value:binary>>").alias("headers")
            rows = rows.select(*message, F.lit(self._topic).alias("topic"), empty, *_INPUT_ORDER)
        topic = F.lit(self.fixed) if self.fixed else F.col("topic")
        columns = [F.col(name) for name in ("key", "value", "headers")]
        if not self.fixed:
            columns.append(topic)
        if self._stream:
            columns.append(self._partition(rows, topic).alias("partition"))
            columns += [F.col(name) for name in _INPUT_ORDER if set(_INPUT_ORDER) <= set(rows.columns)]
        self.save(rows.select(*columns))

    def _partition(self, rows: DataFrame, topic: Column) -> Column:
        """Where a row goes; NULL, for Kafka's partitioner, in a topic that is not there yet."""
        topics = [self.fixed] if self.fixed else [row["topic"] for row in rows.select("topic").distinct().collect()]
        counts, count = self.counts(), F.lit(None).cast("int")
        for name in (name for name in topics if name in counts):
            count = F.when(topic == name, F.lit(counts[name])).otherwise(count)
        source = F.col("partition") if "partition" in rows.columns else F.expr("cast(shiftright(position, 48) as int)")
        return source % count

    def save(self, rows: DataFrame) -> None:
        """Writes rows of key, value, headers and, where they have them, topic and partition as they are; with their ids
        where they have position and part (number: 0 where it is not there).
        """
        options = {f"kafka.{name}": value for name, value in (self._java | self._smaller_batches()).items()}
        if "topic" not in rows.columns:
            options["topic"] = str(self.fixed)
        elif self._read is not None:
            rows = rows.withColumn("topic", _topic_or_error(self._read))
        options |= {"includeHeaders": "true", "kafka.enable.idempotence": "true"}
        if "position" in rows.columns:
            rows = rows if "number" in rows.columns else rows.withColumn("number", F.lit(0))
            if avro_jvm.send_with_ids(rows, options, ID):
                return
            rows = _with_ids(rows)
        rows.write.format("kafka").options(**options).save()

    def _smaller_batches(self) -> dict[str, str]:
        """Where a topic takes less at once than the producer sends: no batch of several messages is larger than that.

        A batch that a broker refuses is split; of what is refused again Spark is never told (up to kafka-clients
        3.9.1), or the producer never ends. A message that is alone in its batch fails, and Spark with it.
        """
        if self.fixed not in self._taken:
            self._taken |= largest_messages(self._settings, self.counts().keys() - self._taken.keys())
        least = min(self._taken.values(), default=None)
        if least is None or least >= int(self._java.get("batch.size", _BATCH)):
            return {}
        return {"batch.size": str(least)}


def _with_ids(rows: DataFrame) -> DataFrame:
    """Rows whose headers end with their ids, as avro_jvm/KafkaSend.java makes them."""
    where = (F.expr("shiftright(position, 48)"), F.expr("position & 281474976710655"), "number", "part")
    header = F.struct(F.lit(ID).alias("key"), F.concat_ws("/", *where).cast("binary").alias("value"))
    headers = F.concat(F.coalesce("headers", F.array()), F.array(header))
    return rows.withColumn("headers", headers).drop(*_INPUT_ORDER)


def _topic_or_error(read: TopicChoice) -> Column:
    """A row's topic; a topic that is read ends the job."""
    topic = F.col("topic")
    is_read = topic.isin(*read.names) if read.pattern is None else topic.rlike(rf"\A(?:{read.pattern.pattern})\z")
    return F.when(is_read, F.raise_error(same_topic_error(read.only or read.text))).otherwise(topic)


class TableSink(BatchSink):
    """Exactly once: the batch's number stands in the table's own log.

    Dead letters: where others failed than in an earlier try of the batch, all of the batch come once more, so that
    none is missing.
    """

    def __init__(self, location: TableLocation, checkpoint: Checkpoint | None, dead: bool) -> None:
        if location.format == "delta":
            delta_files.check_folder(location.name)
        self._location, self._checkpoint, self._dead = location, checkpoint, dead

    def write(self, rows: DataFrame, number: int, by_time: bool) -> None:
        extra = [name for name in ("position", "number", "part", "rank", "id") if name in rows.columns]
        tables.append(rows.drop(*extra), self._location, self._transaction_id(rows, number))

    def _transaction_id(self, rows: DataFrame, number: int) -> tuple[str, int] | None:
        checkpoint = self._checkpoint
        if checkpoint is None:
            return None
        if not self._dead:
            return checkpoint.id, number
        digest = rows.selectExpr("count(1) AS n", "bit_xor(xxhash64(position)) AS which").first()
        failures = f"{digest['n']}/{digest['which']}" if digest else ""
        others = checkpoint.has_other_failures(number, failures)
        return f"{checkpoint.id}/dead{f'/{failures}' if others else ''}", number


class _FolderSink(BatchSink):
    """Exactly once: a batch that comes again replaces its file, and no file that another stream wrote."""

    def __init__(self, folder: Path, checkpoint: Checkpoint, dead: bool) -> None:
        """SetupError USAGE where it is no folder, or has files of another stream."""
        if folder.exists() and not folder.is_dir():
            raise SetupError("USAGE", details=f"{folder}: a stream writes a folder, with a file a micro-batch")
        self._folder, self._checkpoint, self._what = folder, checkpoint, "dead" if dead else "out"
        if checkpoint.is_new and (file := next(iter(folder.glob("[0-9]" * 12 + ".jsonl")), None)):
            raise _foreign_folder_error(file)

    def write(self, rows: DataFrame, number: int, by_time: bool) -> None:
        path = self._file(number)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SetupError("USAGE", details=f"{self._folder}: {error.strerror or error}") from error
        if path.exists() and not self._checkpoint.has_written(self._what, number):
            raise _foreign_folder_error(path)
        self._checkpoint.record_write(self._what, number)
        _lines(rows, path, by_time)

    def write_nothing(self, number: int) -> None:
        """The file of an earlier try goes."""
        if self._checkpoint.has_written(self._what, number):
            self._file(number).unlink(missing_ok=True)

    def _file(self, number: int) -> Path:
        return self._folder / f"{number:012d}.jsonl"


def _foreign_folder_error(path: Path) -> SetupError:
    details = f"{path} is there already, and not of this --checkpoint: choose another folder, or empty this one"
    return SetupError("USAGE", details=details)


class _FileSink(BatchSink):
    """The one file of a batch job. dead: of dead letters."""

    def __init__(self, path: Path, dead: bool) -> None:
        self._path, self._dead = path, dead

    def write(self, rows: DataFrame, number: int, by_time: bool) -> None:
        if self._dead:  # they may go beside tables of which none is there yet
            self._path.parent.mkdir(parents=True, exist_ok=True)
        _lines(rows, self._path, by_time)


def _lines(rows: DataFrame, path: Path, by_time: bool) -> None:
    order = [name for name in (("commit_ts", "rank") if by_time else ()) + _INPUT_ORDER if name in rows.columns]
    writer = LineWriter(path)
    for row in rows.sort(*order).toLocalIterator():
        if "line" in rows.columns:
            writer.write_text(row["line"])
        else:
            message = message_of_row({**row.asDict(recursive=True), "offset": None})
            writer.write_text(json_line(message_line(message)))
    writer.close()


class OrderedSink:
    """Outputs of spark_jobs.io, which take a batch job's pieces (in text) in the order of the input, by the driver."""

    def __init__(self, job: Job, source: str, out: LineSink | Sink, dead: DeadLetters | None) -> None:
        """source: the place that is read, so that the error of a bad line has its number."""
        self._job, self._source, self._dead = job, source, dead
        self._out = cast(Any, out)
        # Lines need not be read again to be written.
        self._write_line: Any = getattr(out, "write_text", lambda text: self._out.write(parse_line(text.encode(), "")))

    def write_pieces(self, pieces: DataFrame, summary: Summary) -> int:
        """How many lines or messages were written. SetupError where a message or a worker ends the job, after these."""
        job, out, lines, messages = self._job, 0, 0, 0
        rows = self._in_order(pieces).select("kind", "line", "number", "messages", "error")
        for row in show_progress(rows.toLocalIterator(), "results"):
            kind = row["kind"]
            if kind == "out":
                for line in row["line"].split("\n"):
                    self._write_line(line)
                    out += 1
            elif kind == "counts":
                lines, messages = lines + row["number"], messages + row["messages"]
            elif kind == "note":
                print_notes([row["line"]], messages + row["messages"])
            elif kind == "fatal":
                raise error_of_row(SetupError, row["error"])
            else:
                error, origin = error_of_row(WireError, row["error"]), parse_line(row["line"].encode(), "")
                if error.fields.get("where") == "":  # a line that is no message
                    where = f"{Path(self._source).name}:{lines + row['number'] + 1}"
                    error = WireError(error.code, **{**error.fields, "where": where})
                if job.write is None and job.on_error != "drop":
                    self._out.write(plain_error(error, origin))
                    out += 1
                handle_failure(job, error, origin, self._dead, summary)
        return out

    def _in_order(self, pieces: DataFrame) -> DataFrame:
        if self._job.until_resolved:
            return pieces.sort("commit_ts", F.expr("if(commit_ts is null, null, `rank`)"), *_INPUT_ORDER)
        if topic_of_location(self._source) is None and not self._job.dedupe:
            return pieces  # a file's partitions are in its order already
        return pieces.sort(*_INPUT_ORDER)


def sink_for(
    location: str, kafka: KafkaClient, form: str, rule: str | None, checkpoint: Checkpoint | None, dead: bool = False
) -> BatchSink:
    """A writer of micro-batches to kafka:TOPIC, kafka:, a table or a folder. SetupError USAGE for any other."""
    topic, table = topic_of_location(location, empty=True), table_location_of(location)
    if topic is not None:
        if form == "line" and not topic:
            raise SetupError("USAGE", details="kafka:TOPIC: decode needs the topic's name")
        return TopicSink(topic or None, kafka, rule, checkpoint is not None)
    if table is not None:
        return TableSink(table, checkpoint, dead)
    if form == "change" or location == "-" or location.endswith(".parquet"):
        details = f"--out {location}: choose delta:PATH, iceberg:CATALOG.DB.TABLE, kafka:TOPIC or a folder"
        raise SetupError("USAGE", details=details)
    path = path_of(location)
    return _FileSink(path, dead) if checkpoint is None else _FolderSink(path, checkpoint, dead)


def session_of(job: Job, settings: SparkSettings, out: str, dead: str | None) -> SparkSession:
    """The session of a job that writes to these places. SetupError as spark_jobs.lake.tables.session."""
    target, letters = table_location_of(out), table_location_of(dead or "")
    has_delta_letters = letters is not None and letters.format == "delta"
    if has_delta_letters and job.merge == "deltalake":
        raise SetupError("USAGE", details=f"--dead-letter {dead}: only delta-spark writes there: a file or a topic")
    by = "delta-spark" if has_delta_letters else job.merge or "delta-spark"
    others = map(table_location_of, job.more_locations)
    written = [location for location in (target, *others) if location is not None]
    for table_format in {location.format for location in written}:
        tables.check_engine(job.merge or AUTO, table_format)  # before Spark starts
    formats = sorted({location.format for location in (*written, *([letters] if letters else []))})
    spark = tables.session(settings, formats, by=by, shared=is_rule(out))
    engines = [*((location, job.merge or AUTO) for location in written), *([(letters, AUTO)] if letters else [])]
    for location, engine in engines:
        if job.merge is not None or location.format == "iceberg" or is_catalog_name(location.name):
            # Refuses a location that it can't write to.
            tables.engine_of(spark, engine, location.format)(spark, location.name)
    return spark
