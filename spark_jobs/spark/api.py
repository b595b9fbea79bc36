"""The Spark API: `decode`, `encode` and `transcode`, DataFrame in, DataFrame out; batch and streaming alike.

`messages` is any DataFrame with `key` and `value` in binary, and optionally topic, partition, offset, timestamp and
headers: what Spark's Kafka source yields.
"""

import warnings
from collections.abc import Mapping
from typing import Any, Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ticdc_bridge.clients.registry import Schemas
from ticdc_bridge.schemas.inputs.subject_names import STRATEGIES, Strategy
from ticdc_bridge.schemas.inspect.format_lookup import format_named
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.ports import TableSource
from ticdc_bridge.schemas.model.spark_types import SparkTypes
from ticdc_bridge.spark_jobs.arrow.change_schema import MESSAGES, SKIPPED, change_schema, message_schema
from ticdc_bridge.spark_jobs.arrow.warm_up import warm_transcode
from ticdc_bridge.spark_jobs.arrow.worker_functions import TranscodeBatches
from ticdc_bridge.spark_jobs.pipeline import arguments
from ticdc_bridge.spark_jobs.pipeline.arguments import File, check_frame, with_parameter_names
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig, check_any_order
from ticdc_bridge.spark_jobs.pipeline.result import Summary
from ticdc_bridge.spark_jobs.pipeline.table_view import Missing, OnLossy, table_id
from ticdc_bridge.spark_jobs.pipeline.topic_rules import check_topic_rule
from ticdc_bridge.spark_jobs.spark.decode_plan import decoded_changes, typed_changes_of
from ticdc_bridge.spark_jobs.spark.frames import kafka_columns, kinds_of
from ticdc_bridge.spark_jobs.spark.left_out_rows import observed_metrics, without_unwritten
from ticdc_bridge.spark_jobs.spark.transport import map_messages

CHANGE_COLUMNS = tuple(name for name in change_schema().names if name not in ("commit_time", "table_version"))
_NO_OPTIONS: Mapping[str, Any] = {}
CraftFloat = Literal["auto", "damaged", "sound"]


# What no change event is without, and the types that Spark's Python workers get it in.
_NEEDED = {
    "kind": ("string",), "op": ("string",), "commit_ts": ("bigint", "int"), "db": ("string",), "table": ("string",),
    "before": ("map<", "struct<", "void"), "after": ("map<", "struct<", "void"),
}  # fmt: skip


@with_parameter_names
def decode(
    messages: DataFrame,
    *,
    format: str,
    registry: str | None = None,
    schemas: Schemas | File | None = None,
    ddl: File | TableSource | None = None,
    history: str | None = None,
    table: str | None = None,
    time_zone: str = "UTC",
    check: Literal["exact", "header"] = "exact",
    missing: Missing = "null",
    types: Literal["exact", "typed"] = "exact",
    time: Literal["text", "interval"] = "text",
    on_lossy: OnLossy | None = None,
    claim_checks: File | None = None,
    craft_float: CraftFloat = "auto",
    options: Mapping[str, Any] = _NO_OPTIONS,
) -> DataFrame:
    """Messages → change events.

    Args:
        messages: key, value and, where there are, topic, partition, offset, timestamp and headers.
        format: of the messages, or "auto".
        registry: URL of a schema registry.
        schemas: a file of schemas in its place (JSON lines, a golden's meta.json), or an object that has them.
        ddl: table definitions: a file as --ddl takes it, or a TableSource.
        history: URL of a service that tracks the tables (HistoryTables as `ddl` for one of several changefeeds).
        table: "db.table" makes before and after structs of its columns and leaves other tables' events out (counted by
            the metric `ticdc_bridge_other_tables.db.table`); without it they are map<string,string> in plain form.
        time_zone: of TIMESTAMP text, as an annotation: values are not converted.
        check: what becomes of an Avro message that the reader in Spark's JVM refuses, which asks of it what the
            in-process decoder asks: "header" makes it an error, with "exact" that decoder looks at it, in a Python
            worker (it also knows ids that were registered later, Glue's header, and DDL and watermarks between the
            rows). Streams and typed columns are read as with "exact".
        missing: what a row has for a column that its version lacks, with `table`: NULL, or the default it came with.
        types: with `table`; "exact" has temporal values as text, "typed" as date, timestamp_ntz (DATETIME) and
            timestamp.
        time: TIME as text or as a day-time interval. A value that the type can't hold (a zero date) is an error, with
            on_lossy="flag" NULL and the flag `not_typed:<column>`.
        on_lossy: also of values that the format can't keep exactly, which are flagged unless it is "error".
        claim_checks: a folder with the files that claim-check messages point to, as the workers see it.
        craft_float: whether TiCDC damaged the FLOATs of Craft messages that a number follows; "auto": where
            their bytes may be the number's.
        options: of the format read, by TiCDC's or Debezium's names.

    Returns:
        spark_jobs.arrow.change_schema.CHANGES; with `headers` where messages have them. A message that can't be decoded
        is a row with `error` and its bytes.

    Raises:
        SetupError: wrong usage, or a registry or history that is away.
    """
    check_frame(messages, "messages")
    arguments.check_choices(
        check=(check, ("exact", "header")), missing=(missing, ("null", "default")), types=(types, ("exact", "typed")),
        time=(time, ("text", "interval")), on_lossy=(on_lossy, (None, "error", "flag")),
    )  # fmt: skip
    config = CodecConfig(
        format_named(format).name,
        arguments.schemas_of(format, registry, schemas),
        Options.of({"time_zone": time_zone, "on_lossy": on_lossy or "flag", "craft_float": craft_float, **options}),
        arguments.tables_of(ddl, history, table),
        arguments.claims_of(claim_checks),
    )
    check_any_order(config)
    if table is not None:
        view = SparkTypes(types, time), missing, on_lossy or "error"
        return typed_changes_of(kafka_columns(messages), config, table_id(table), check, view)
    if (types, time, missing) != ("exact", "text", "null"):
        raise SetupError("USAGE", details="types=, time= and missing= go with table=")
    return decoded_changes(kafka_columns(messages), config)


def count_changes(changes: DataFrame) -> dict[str, int]:
    """Counts change events, and what was left out of them: one Spark job. A RuntimeWarning where no row is.

    `decode` is lazy, and what it leaves out is known when a job has ended: nothing can warn of a result without rows
    before.

    Args:
        changes: change events of `decode` or of the data source, as a batch.

    Returns:
        `messages`, and by name what came of them: `rows.c`, `other.ddl`, `errors.NOT_FRAMED`, `skipped.tombstone`,
        `skipped.other table` and the like.

    Raises:
        SetupError: USAGE for a stream (its metrics are in `StreamingQuery.lastProgress`) and for what are no change
            events.
    """
    check_frame(changes, "changes")
    if changes.isStreaming:
        details = "changes is a stream: its counts are in lastProgress['observedMetrics'] of the query"
        raise SetupError("USAGE", details=details)
    first = F.count(F.when(F.col("row") == 0, 1)).alias("messages")
    code = F.col("error.code").alias("code")
    counted = _events(changes, ("row", "error")).groupBy("kind", "op", "db", "table", code).agg(F.count("*"), first)
    summary, rows = Summary(), counted.collect()
    for kind, op, db, name, code_text, count, messages in rows:
        summary.messages += messages
        if kind == "row":
            summary.rows[op] += count
            summary.used[None, db, name, None, None] += count
        elif kind == "error":
            summary.errors[code_text] += count
        else:
            skipped = {"other": "other table", **dict.fromkeys(SKIPPED, kind)}.get(kind)
            (summary.skipped if skipped else summary.other)[skipped or kind] += count
    table = None
    for name, metrics in observed_metrics(counted).items():
        which, _, of = name.partition(".")
        table = of if which in _OF_TABLE else table
        for field, count in metrics.items():
            if left_out := _LEFT_OUT.get((which, field)):
                summary.skipped[left_out] += count
                summary.messages += count
    summary.skipped, summary.out = +summary.skipped, summary.rows.total()
    for text in summary.warnings(table_id(table) if table else None):
        warnings.warn(text, RuntimeWarning, stacklevel=2)
    return {"messages": summary.messages, **summary.tally(used=False)}


_OF_TABLE = ("ticdc_bridge_other_tables", "ticdc_bridge_late_tables")
_LEFT_OUT = {
    ("ticdc_bridge_tombstones", "rows"): "tombstone", ("ticdc_bridge_tombstones", "empty"): "empty",
    **{(name, "rows"): "other table" for name in _OF_TABLE},
}  # fmt: skip
"""Observed metrics and their fields → what they count."""


@with_parameter_names
def transcode(
    messages: DataFrame,
    *,
    from_format: str,
    to_format: str,
    registry: str | None = None,
    schemas: Schemas | File | None = None,
    to_registry: str | None = None,
    to_schemas: Schemas | File | None = None,
    ddl: File | TableSource | None = None,
    history: str | None = None,
    time_zone: str = "UTC",
    options: Mapping[str, Any] = _NO_OPTIONS,
    topic: str | None = None,
    subject_strategy: Strategy = "topic",
    from_options: Mapping[str, Any] = _NO_OPTIONS,
    claim_checks: File | None = None,
    craft_float: CraftFloat = "auto",
) -> DataFrame:
    """Messages → messages of another format.

    Args:
        messages: as `decode` takes them.
        from_format: the format read.
        to_format: the format written.
        registry, schemas: of the format read, as `decode` has them.
        to_registry, to_schemas: of the format written; by default those of the format read.
        ddl, history, time_zone: as `decode` has them.
        options: of the format written, by TiCDC's names.
        topic: where to write, a topic or a rule for topics; by default the source's.
        subject_strategy: names the subjects of what an Avro format registers.
        from_options: of the format read.
        claim_checks, craft_float: as `decode` has them.

    Returns:
        spark_jobs.arrow.change_schema.MESSAGES, ready for Spark's Kafka sink. A message that can't be decoded or
        written is itself with `error`: filter on it, and send the rest to a dead letter topic. What the format has no
        form for is counted by the metric `ticdc_bridge_skipped`: tombstones, DDL, watermarks.

    Raises:
        SetupError: wrong usage, or a registry or history that is away.
    """
    check_frame(messages, "messages")
    _check_written(to_format, topic, subject_strategy)
    read_schemas = arguments.schemas_of(from_format, registry, schemas)
    has_schemas = to_registry is not None or to_schemas is not None
    write_schemas = arguments.schemas_of(
        to_format, to_registry if has_schemas else registry, to_schemas if has_schemas else schemas
    )
    read = CodecConfig(
        format_named(from_format).name,
        read_schemas,
        Options.of({"time_zone": time_zone, "craft_float": craft_float, **from_options}),
        arguments.tables_of(ddl, history),
        arguments.claims_of(claim_checks),
    )
    check_any_order(read)
    written = Options.of({"time_zone": time_zone, **options})
    write = CodecConfig(to_format, write_schemas, written, strategy=subject_strategy)
    warm_transcode(read.format, write.format)
    batches = TranscodeBatches(read, write, topic, message_schema())
    return without_unwritten(map_messages(kafka_columns(messages), batches, MESSAGES))


@with_parameter_names
def encode(
    changes: DataFrame,
    *,
    format: str,
    registry: str | None = None,
    schemas: Schemas | File | None = None,
    from_registry: str | None = None,
    from_schemas: Schemas | File | None = None,
    ddl: File | TableSource | None = None,
    history: str | None = None,
    time_zone: str = "UTC",
    options: Mapping[str, Any] = _NO_OPTIONS,
    topic: str | None = None,
    subject_strategy: Strategy = "topic",
) -> DataFrame:
    """Change events → messages.

    Args:
        changes: as `decode` gives them, rows as maps or structs. A delete of which only the key is not NULL is taken
            for one that carries nothing but its key.
        format: of the messages.
        registry, schemas: of the format written.
        from_registry, from_schemas: the Avro schemas that events name by schema_id; by default those of the format
            written.
        ddl, history: the columns' types; without them the schema that an event's schema_id names has them.
        time_zone: of the TIMESTAMP text in the events.
        options, topic, subject_strategy: as `transcode` has them.

    Returns:
        spark_jobs.arrow.change_schema.MESSAGES. An event that can't be written is a row with `error`.

    Raises:
        SetupError: wrong usage, such as a column that is missing, or a registry or history that is away.
    """
    from ticdc_bridge.spark_jobs.arrow.event_encoder import EncodeBatches

    check_frame(changes, "changes")
    _check_written(format, topic, subject_strategy)
    events = _events(changes)
    write_schemas = arguments.schemas_of(format, registry, schemas)
    has_schemas = from_registry is not None or from_schemas is not None
    read_schemas = arguments.schemas_of("avro", from_registry, from_schemas) if has_schemas else write_schemas
    read = CodecConfig("avro", read_schemas, Options.of({}, time_zone=time_zone), arguments.tables_of(ddl, history))
    written = Options.of({"time_zone": time_zone, **options})
    write = CodecConfig(format_named(format).name, write_schemas, written, strategy=subject_strategy)
    batches = EncodeBatches(read, write, topic, message_schema())
    return without_unwritten(events.mapInArrow(batches, MESSAGES))


def _events(changes: DataFrame, more: tuple[str, ...] = ()) -> DataFrame:
    """The columns of change events, `more` with them. SetupError USAGE where one is missing or of another type."""
    have = kinds_of(changes, CHANGE_COLUMNS)
    if missing := sorted(set(more) - have.keys()):
        raise SetupError("USAGE", details=f"change events, as decode() gives them, have a column {missing[0]}")
    for name, kinds in _NEEDED.items():
        if not have.get(name, "").startswith(kinds):
            what = f"is {have[name]}" if name in have else "is missing"
            kind = kinds[0].rstrip("<")
            details = f"change events, as decode() gives them, have a column {name} of type {kind}: here it {what}"
            raise SetupError("USAGE", details=details)
    return changes.select(*(F.col(name).alias(name) for name in have))


def _check_written(format: str, topic: str | None, strategy: str) -> None:
    """SetupError USAGE for a format that is not written, a rule for topics that is none, or no subject strategy."""
    arguments.check_choices(subject_strategy=(strategy, STRATEGIES))
    if not format_named(format).writes:
        raise SetupError("USAGE", details=f"{format} is read, not written: choose another format to write")
    if topic is not None:
        check_topic_rule(topic)
