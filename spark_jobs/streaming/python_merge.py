"""`merge` as a function of Python programs, for batches and for `foreachBatch`: the command's work on a DataFrame."""

import gc
import os
from collections.abc import Mapping
from typing import Any, Literal, Required, TypedDict, Unpack

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ticdc_bridge.clients.history import HistoryTables
from ticdc_bridge.clients.registry import Schemas
from ticdc_bridge.schemas.inputs.table_definitions import statements_of
from ticdc_bridge.schemas.inputs.table_sources import definition_source
from ticdc_bridge.schemas.inspect.format_lookup import format_named
from ticdc_bridge.schemas.model.errors import BridgeError, SetupError
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.spark_types import SparkTypes
from ticdc_bridge.schemas.model.table import Table
from ticdc_bridge.spark_jobs.io.locations import KafkaClient, table_location_of
from ticdc_bridge.spark_jobs.lake.engines.base import AUTO, ENGINES
from ticdc_bridge.spark_jobs.lake.tables import engine_of
from ticdc_bridge.spark_jobs.pipeline.arguments import (
    File,
    check_choices,
    check_frame,
    claims_of,
    schemas_of,
    tables_of,
    with_parameter_names,
)
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig, check_any_order
from ticdc_bridge.spark_jobs.pipeline.job import Job, OnError, Order, WithoutKey
from ticdc_bridge.spark_jobs.pipeline.table_view import OnLossy, TableView, table_id
from ticdc_bridge.spark_jobs.spark.errors import error_of
from ticdc_bridge.spark_jobs.spark.frames import kafka_columns
from ticdc_bridge.spark_jobs.streaming.micro_batch import MicroBatchRunner

_NO_OPTIONS: Mapping[str, Any] = {}


class MergeArguments(TypedDict, total=False):
    """The arguments of `merge` beside messages and into; table and format are needed."""

    table: Required[str]
    format: Required[str]
    registry: str | None
    schemas: Schemas | File | None
    ddl: File | None
    history: str | HistoryTables | None
    time_zone: str
    types: Literal["exact", "typed"]
    on_lossy: OnLossy
    on_error: OnError
    dead_letter: str | None
    engine: str
    claim_checks: File | None
    options: Mapping[str, Any]


@with_parameter_names
def merge(
    messages: DataFrame,
    *,
    into: str,
    table: str,
    format: str,
    registry: str | None = None,
    schemas: Schemas | File | None = None,
    ddl: File | None = None,
    history: str | HistoryTables | None = None,
    time_zone: str = "UTC",
    types: Literal["exact", "typed"] = "exact",
    on_lossy: OnLossy = "error",
    on_error: OnError = "fail",
    dead_letter: str | None = None,
    engine: str = AUTO,
    claim_checks: File | None = None,
    options: Mapping[str, Any] = _NO_OPTIONS,
    changelog: str | None = None,
    without_key: WithoutKey = "refuse",
    order: Order = "commit_ts",
) -> dict[str, int]:
    """Merges a batch of messages into a table of the lake, which then is as the table in TiDB is: the command `merge`.

    A batch that comes again changes nothing, so `foreachBatch` needs no more than this call:
    `.foreachBatch(lambda batch, number: merge(batch, into=…, …))`. Batches of one table come one after the other.

    Args:
        messages: as `decode` takes them, topic, partition, offset and timestamp with them.
        into: `delta:PATH` or `iceberg:CATALOG.DB.TABLE`.
        table: "db.table".
        format, registry, schemas, time_zone, claim_checks, options: as `decode` has them.
        ddl: a file of statements. Without it and `history` the columns are those of the registered schemas, and no
            column goes.
        history: the URL of a service that tracks the table, or HistoryTables.
        types, on_lossy, engine, without_key, order: as the command has them.
        on_error: what becomes of a message that can't be read: it ends the call ("fail"), goes to `dead_letter`
            ("dead-letter"), or is counted ("drop").
        dead_letter: delta:PATH or kafka:TOPIC.
        changelog: where all changes go too, as `changelog` writes them.

    Returns:
        The counts that the command prints: `messages`, `rows.c`, `out` (keys written), `skipped.other table`, ….

    Raises:
        SetupError: wrong arguments, or a change that can't be made exactly; then nothing of the batch is written.
    """
    return _apply(
        messages, into, {"changelog": changelog, "without_key": without_key, "order": order}, table=table,
        format=format, registry=registry, schemas=schemas, ddl=ddl, history=history, time_zone=time_zone, types=types,
        on_lossy=on_lossy, on_error=on_error, dead_letter=dead_letter, engine=engine, claim_checks=claim_checks,
        options=options,
    )  # fmt: skip


@with_parameter_names
def changelog(
    messages: DataFrame, *, into: str, order: Order = "commit_ts", **arguments: Unpack[MergeArguments]
) -> dict[str, int]:
    """Appends each change of a batch once to a table of the lake: the command `merge --changelog`.

    A batch that comes again adds none.

    Args:
        messages, into, order: as `merge` has them.
        arguments: the other arguments of `merge`; table and format are needed.

    Returns:
        The counts of `merge`; `out` is the rows written.

    Raises:
        SetupError: as `merge`.
    """
    for name in {"table", "format"} - arguments.keys():
        raise SetupError("USAGE", details=f"{name}= is needed")
    for name in arguments.keys() - MergeArguments.__annotations__.keys():
        raise SetupError("USAGE", details=f"{name}= is no argument of changelog()")
    return _apply(messages, into, {"current": False, "changelog": into, "order": order}, **arguments)


def _apply(
    messages: DataFrame, into: str, kind: Mapping[str, Any], *, table: str, format: str, registry: str | None = None,
    schemas: Schemas | File | None = None, ddl: File | None = None, history: str | HistoryTables | None = None,
    time_zone: str = "UTC", types: Literal["exact", "typed"] = "exact", on_lossy: OnLossy = "error",
    on_error: OnError = "fail", dead_letter: str | None = None, engine: str = AUTO, claim_checks: File | None = None,
    options: Mapping[str, Any] = _NO_OPTIONS,
) -> dict[str, int]:  # fmt: skip
    """kind: the fields of Job that say which tables are written."""
    check_frame(messages, "messages")
    check_choices(
        without_key=(kind.get("without_key", "refuse"), ("refuse", "append")),
        order=(kind.get("order", "commit_ts"), ("commit_ts", "offset")),
        types=(types, ("exact", "typed")), on_lossy=(on_lossy, ("error", "flag")),
        on_error=(on_error, ("fail", "dead-letter", "drop")), engine=(engine, (AUTO, *ENGINES)),
    )  # fmt: skip
    if messages.isStreaming:
        details = "messages is a stream: call it for each of its batches, by writeStream.foreachBatch"
        raise SetupError("USAGE", details=details)
    if (on_error == "dead-letter") != (dead_letter is not None):
        raise SetupError("USAGE", details='on_error="dead-letter" and dead_letter=PLACE go together')
    if (location := table_location_of(into)) is None:
        raise SetupError("USAGE", details=f"into={into!r}: delta:PATH or iceberg:CATALOG.DB.TABLE is needed")
    if ddl is not None and os.fspath(ddl) == "stream":
        details = 'ddl="stream" needs a checkpoint, which the command has: give a file of statements, or history='
        raise SetupError("USAGE", details=details)
    id_, spark = table_id(table), messages.sparkSession
    codec = CodecConfig(
        format_named(format).name,
        schemas_of(format, registry, schemas),
        Options.of({"time_zone": time_zone, "on_lossy": on_lossy, **options}),
        history if isinstance(history, HistoryTables) else tables_of(ddl, history, table),
        claims_of(claim_checks),
        view=TableView(Table(id_, ()), SparkTypes(types, "text"), "null", on_lossy),
    )
    check_any_order(codec)
    engine_of(spark, engine, location.format)(spark, location.name)  # refuses a place that it can't write to
    statements = statements_of(None if ddl is None else definition_source(os.fspath(ddl)), id_.db)
    job = Job(codec, on_error=on_error, merge=engine, **kind)
    runner = MicroBatchRunner(spark, job, into, dead_letter, KafkaClient(), None, id_, statements)
    position = F.expr("(cast(partition AS bigint) << 48) | `offset`")
    frame = kafka_columns(messages).withColumn("position", F.coalesce(position, F.monotonically_increasing_id()))
    try:
        summary = runner.process(frame, 0).summary
    except BridgeError:
        raise
    except Exception as error:
        raise error_of(error) or error from error
    finally:
        gc.collect()  # as after each micro-batch of a stream: of the calls before, too
    return {"messages": summary.messages, "out": summary.out, **summary.tally(used=False)}
