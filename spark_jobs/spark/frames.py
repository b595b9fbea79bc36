"""DataFrames with Kafka's columns: from message files and from Kafka."""

from collections.abc import Mapping, Sequence
from contextlib import suppress

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ticdc_bridge.clients.kafka import TopicChoice
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.spark_jobs.io.endpoints import lines_file
from ticdc_bridge.spark_jobs.io.message_files import NO_KEY_OR_VALUE, OTHER_TYPES
from ticdc_bridge.spark_jobs.io.object_paths import arrow_source, path_of
from ticdc_bridge.spark_jobs.io.stores import spark_location
from ticdc_bridge.spark_jobs.pipeline.codec_config import PLAIN, CodecConfig
from ticdc_bridge.spark_jobs.pipeline.storage_definitions import stated_tables
from ticdc_bridge.spark_jobs.spark.sql_expressions import sql_literal

_TYPES = {
    "key": "binary", "value": "binary", "topic": "string", "partition": "int", "offset": "bigint",
    "timestamp": "timestamp", "headers": "array<struct<key:string,value:binary>>",
}  # fmt: skip
_SWAPPED = "array<struct<value:binary,key:string>>"
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
# What these columns may be; anything else would become NULL, or another time.
_TAKEN = {
    "topic": ("string",), "partition": _INTEGERS, "offset": _INTEGERS, "timestamp": ("timestamp", "bigint"),
    "headers": ("array<",),
}  # fmt: skip
KAFKA_COLUMNS = tuple(_TYPES)
KAFKA_SQL = tuple(f"`{name}`" for name in KAFKA_COLUMNS)
_LINE = (
    "topic string, partition int, `offset` bigint, timestamp bigint, key_b64 string, value_b64 string,"
    " headers array<array<string>>"
)


def read_files(spark: SparkSession, path: str) -> DataFrame:
    """A message file or folder (JSON lines, Parquet by name) → Kafka's columns; a line that is none fails the query."""
    location = spark_location(path)
    if path.endswith(".parquet"):
        return _add_kafka_columns(spark.read.parquet(location), path)
    header = "struct(h[0] as key, unbase64(h[1]) as value)"
    return spark.read.schema(_LINE).option("mode", "FAILFAST").json(location).selectExpr(
        "unbase64(key_b64) as key", "unbase64(value_b64) as value", "topic", "partition", "`offset`",
        "timestamp_millis(timestamp) as timestamp", f"transform(headers, h -> {header}) as headers",
    )  # fmt: skip


def _add_kafka_columns(frame: DataFrame, path: str) -> DataFrame:
    """A Parquet file's rows with Kafka's columns, NULL but for key and value. SetupError USAGE as of read_messages."""
    untyped = _untyped_columns(path)
    kinds = {name: kind for name, kind in frame.dtypes if name not in untyped}
    if missing := sorted({"key", "value"} - {*frame.columns}):
        raise SetupError("USAGE", details=NO_KEY_OR_VALUE.format(path=path, missing=", ".join(missing)))
    if any(kinds.get(name, "binary") != "binary" for name in ("key", "value")) or (
        kinds.get("headers", _SWAPPED) not in (_SWAPPED, _TYPES["headers"])
    ):
        raise SetupError("USAGE", details=OTHER_TYPES.format(path=path))
    none = {name: F.lit(None).cast(kind) for name, kind in _TYPES.items() if name not in kinds}
    return kafka_columns(frame.withColumns(none)).selectExpr(*KAFKA_SQL)


def kafka_columns(messages: DataFrame) -> DataFrame:
    """The frame with all of Kafka's columns, NULL where it lacks one, and headers where it has them.

    A timestamp in bigint is Kafka's own: milliseconds. SetupError USAGE without key and value, and for a column of
    another type than Kafka's.
    """
    if str(messages.sparkSession.conf.get("spark.sql.timestampType")) == "TIMESTAMP_NTZ":
        details = "spark.sql.timestampType is TIMESTAMP_NTZ: times would lose their zone; set it to TIMESTAMP_LTZ"
        raise SetupError("USAGE", details=details)
    have = kinds_of(messages, KAFKA_COLUMNS)
    if have.get("key") != "binary" or have.get("value") != "binary":
        types = dict(messages.dtypes)
        raise SetupError("USAGE", details=f"messages need key and value in binary, these have {types}")
    for name, kinds in _TAKEN.items():
        if not have.get(name, "void").startswith((*kinds, "void")):
            raise SetupError("USAGE", details=f"column {name}: Kafka's is {_TYPES[name]}, not {have[name]}")
    names = (name for name in KAFKA_COLUMNS if name != "headers" or name in have)
    columns = {name: F.col(name) if name in have else F.lit(None) for name in names}
    if "timestamp" in have:  # -1 is Kafka's word for none, which Spark takes for a time
        time = F.timestamp_millis("timestamp") if have["timestamp"] == "bigint" else F.col("timestamp")
        columns["timestamp"] = F.when(time >= F.timestamp_millis(F.lit(0)), time)
    if have.get("headers") == _SWAPPED:  # a cast goes by place, not by name
        columns["headers"] = F.transform("headers", lambda h: F.struct(h["key"], h["value"]))
    return messages.select(*(column.cast(_TYPES[name]).alias(name) for name, column in columns.items()))


def kinds_of(frame: DataFrame, names: Sequence[str]) -> dict[str, str]:
    """Types of the columns that the frame has of these, in any case where its session takes names so."""
    exact = str(frame.sparkSession.conf.get("spark.sql.caseSensitive")).lower() == "true"
    kinds: dict[str, str] = {}
    for name, kind in frame.dtypes:
        column = name if exact else name.lower()
        if column in kinds and column in names:
            raise SetupError("USAGE", details=f"the frame has two columns {column}")
        kinds[column] = kind
    return {name: kinds[name] for name in names if name in kinds}


def _untyped_columns(path: str) -> set[str]:
    """Columns of a file that are NULL and of no type: Arrow writes them as Parquet's int."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with suppress(SetupError):  # a store that Spark alone has the keys of
        if (file := path_of(path)).is_file():
            return {field.name for field in pq.read_schema(arrow_source(file)) if pa.types.is_null(field.type)}
    return set()


# Records that Spark takes from its consumer at a time. By default they are 500, which costs a sixth of the CPU of
# copying a topic; what a lot holds is bounded by bytes all the same (max.partition.fetch.bytes). The Java client gives
# messages of transactions that were aborted (Kafka Connect's, exactly once), unless it is told; librdkafka does not.
_READER = {"max.poll.records": "5000", "isolation.level": "read_committed"}


def kafka_read_options(topics: TopicChoice, settings: Mapping[str, str]) -> dict[str, str]:
    """Options of Spark's Kafka source, of batches and streams. settings: of the client, which win over ours."""
    return {
        **{f"kafka.{name}": value for name, value in {**_READER, **settings}.items()},
        **topics.spark_options(),
        "kafka.allow.auto.create.topics": "false",  # a topic that was deleted stays deleted
        "includeHeaders": "true",
    }


def with_position(frame: DataFrame, sources: Sequence[tuple[str, int]] | None) -> DataFrame:
    """Kafka's rows with `position`, the order of the output: the source's number, and the offset in 48 bits.

    sources: of several topics the (topic, partition) by number, which `source_number` is; None: the partition is it.
    """
    if sources is None:
        return frame.selectExpr(*KAFKA_SQL, "(cast(partition as bigint) << 48) | `offset` as position")
    rows = ", ".join(f"({sql_literal(topic)}, {partition}, {n})" for n, (topic, partition) in enumerate(sources))
    numbers = frame.sparkSession.sql(f"SELECT * FROM VALUES {rows} AS s(topic, partition, source_number)")
    joined = frame.join(F.broadcast(numbers), ["topic", "partition"], "left")
    unknown = "raise_error('a topic came while the batch was read: the next try has it')"
    position = f"(cast(coalesce(source_number, cast({unknown} as int)) as bigint) << 48) | `offset` as position"
    return joined.selectExpr(*KAFKA_SQL, "source_number", position)


def input_of_job(
    spark: SparkSession,
    location: str,
    topics: TopicChoice | None,
    settings: Mapping[str, str] | None,
    from_offset: int,
    read: CodecConfig,
    sources: Sequence[tuple[str, int]] | None = None,
) -> DataFrame:
    """What a command reads, with `position` (as with_position has it). Files come as raw lines (column `line`).

    What is no file of lines is made one first, on this machine. SetupError USAGE when it is not there.
    """
    if topics is not None and settings is not None:
        # To the high watermarks of now, by partition and offset, as a reader without Spark goes through the topic.
        records = spark.read.format("kafka").options(**kafka_read_options(topics, settings)).load()
        return with_position(records.where(f"`offset` >= {from_offset}").selectExpr(*KAFKA_SQL), sources)
    if location.endswith(".parquet"):
        if not path_of(location).is_file():
            raise SetupError("USAGE", details=f"{location}: No such file or directory")
        location = str(path_of(location).absolute())  # the JVM may have been started elsewhere
        return read_files(spark, location).selectExpr("*", "monotonically_increasing_id() as position")
    file = lines_file(location, read.options, read.format == PLAIN, stated_tables(read.tables))
    lines = spark.read.option("lineSep", "\n").text(spark_location(str(file.absolute())))
    return lines.selectExpr("cast(value as binary) as line", "monotonically_increasing_id() as position")
