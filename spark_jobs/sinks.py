"""Where micro-batches go: Kafka, a Delta table, or a folder with a file a batch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from schemas.errors import SetupError
from schemas.event import Message
from schemas.plain import json_line
from spark_jobs import lake
from spark_jobs.checkpoint import Checkpoint
from spark_jobs.endpoints import KafkaClient, delta_of, topic_of
from spark_jobs.messages import LineWriter, message_line, message_of_row

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ID = "bridge.id"
"""Header of a message that a stream wrote: partition/offset/event/part of the source, the same on every try."""

_PLACE = ("position", "number", "part")


class Place(Protocol):
    def write(self, rows: DataFrame, number: int, by_time: bool) -> None:
        """Takes the rows of micro-batch `number`, the same ones if it comes again. by_time: ordered by commit_ts."""
        ...


class Topic:
    """At least once; each message of a stream carries ID, so that its readers can drop what came twice.

    A stream's messages keep the partition they were read from (modulo the topic's), as in this process: there the
    changes of a row are in their order, whatever the key of the format written, and so are watermarks.
    """

    def __init__(self, topic: str | None, kafka: KafkaClient, rule: str | None, stream: bool) -> None:
        self._topic, self._stream = topic, stream
        self.fixed = None if rule else topic
        """The topic of all messages; None: each has its own."""
        self._settings, self._rule = kafka.settings(), rule

    def counts(self) -> dict[str, int]:
        """Partitions of the topics that are there. SetupError KAFKA_UNREACHABLE."""
        from spark_jobs.kafka import partition_counts

        return partition_counts(self._settings, self.fixed, (self._rule or "").partition("{")[0])

    def write(self, rows: DataFrame, number: int, by_time: bool) -> None:
        from pyspark.sql import functions as F

        if "line" in rows.columns:
            message = [F.lit(None).cast("binary").alias("key"), F.col("line").cast("binary").alias("value")]
            empty = F.array().cast("array<struct<key:string,value:binary>>").alias("headers")
            rows = rows.select(*message, F.lit(self._topic).alias("topic"), empty, *_PLACE)
        headers = F.coalesce("headers", F.array())
        if self._stream and set(_PLACE) <= set(rows.columns):
            where = (F.expr("shiftright(position, 48)"), F.expr("position & 281474976710655"), "number", "part")
            told = F.struct(F.lit(ID).alias("key"), F.concat_ws("/", *where).cast("binary").alias("value"))
            headers = F.concat(headers, F.array(told))
        topic = F.lit(self.fixed) if self.fixed else F.col("topic")
        columns = [F.col("key"), F.col("value"), headers.alias("headers")]
        if not self.fixed:
            columns.append(topic)
        if self._stream:
            columns.append(self._partition(rows, topic).alias("partition"))
        self.save(rows.select(*columns))

    def _partition(self, rows: DataFrame, topic: Column) -> Column:
        """Where a row goes; NULL, for Kafka's partitioner, in a topic that is not there yet."""
        from pyspark.sql import functions as F

        written = [self.fixed] if self.fixed else [row["topic"] for row in rows.select("topic").distinct().collect()]
        known, count = self.counts(), F.lit(None).cast("int")
        for name in (name for name in written if name in known):
            count = F.when(topic == name, F.lit(known[name])).otherwise(count)
        return F.expr("cast(shiftright(position, 48) as int)") % count

    def save(self, rows: DataFrame) -> None:
        """Writes rows of key, value, headers and, where they have them, topic and partition as they are."""
        options = {f"kafka.{name}": value for name, value in self._settings.items()}
        writer = rows.write.format("kafka").options(**options).option("includeHeaders", "true")
        if "topic" not in rows.columns:
            writer = writer.option("topic", self.fixed)
        writer.option("kafka.enable.idempotence", "true").save()


class _Table:
    """Exactly once: the batch's number stands in the table's own log."""

    def __init__(self, path: str, checkpoint: Checkpoint | None, dead: bool) -> None:
        self._path = path
        self._application = f"{checkpoint.id}{'/dead' if dead else ''}" if checkpoint else None

    def write(self, rows: DataFrame, number: int, by_time: bool) -> None:
        extra = [name for name in ("position", "number", "part", "rank", "id") if name in rows.columns]
        lake.append(rows.drop(*extra), self._path, (self._application, number) if self._application else None)


class _Folder:
    """Exactly once: a batch that comes again replaces its file."""

    def __init__(self, folder: Path) -> None:
        if folder.exists() and not folder.is_dir():
            raise SetupError("USAGE", details=f"{folder}: a stream writes a folder, with a file a micro-batch")
        self._folder = folder

    def write(self, rows: DataFrame, number: int, by_time: bool) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SetupError("USAGE", details=f"{self._folder}: {error.strerror or error}") from error
        _lines(rows, self._folder / f"{number:012d}.jsonl", by_time)


class _File:
    """The one file of a batch job."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, rows: DataFrame, number: int, by_time: bool) -> None:
        _lines(rows, self._path, by_time)


def _lines(rows: DataFrame, path: Path, by_time: bool) -> None:
    order = [name for name in (("commit_ts", "rank") if by_time else ()) + _PLACE if name in rows.columns]
    writer = LineWriter(path)
    for row in rows.sort(*order).toLocalIterator():
        writer.write_text(row["line"] if "line" in rows.columns else json_line(message_line(_message(row))))
    writer.close()


def _message(row: Any) -> Message:
    return message_of_row({**row.asDict(recursive=True), "offset": None})


def place_of_frames(
    place: str, kafka: KafkaClient, form: str, rule: str | None, checkpoint: Checkpoint | None, dead: bool = False
) -> Place:
    """A writer of micro-batches to kafka:TOPIC, kafka:, delta:PATH or a folder. SetupError USAGE for any other."""
    topic, path = topic_of(place, empty=True), delta_of(place)
    if topic is not None:
        if form == "line" and not topic:
            raise SetupError("USAGE", details="kafka:TOPIC: decode needs the topic's name")
        return Topic(topic or None, kafka, rule, checkpoint is not None)
    if path is not None:
        return _Table(path, checkpoint, dead)
    if form == "change" or place == "-" or place.endswith(".parquet"):
        raise SetupError("USAGE", details=f"--out {place}: choose delta:PATH, kafka:TOPIC or a folder")
    return _File(Path(place)) if dead and checkpoint is None else _Folder(Path(place))
