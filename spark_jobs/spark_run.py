"""`--spark`: the same commands with the codecs in Spark's workers. Outputs and counts are those of spark_jobs.jobs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schemas.errors import SetupError, WireError
from schemas.event import DdlEvent, Message
from schemas.plain import json_line, plain_error
from schemas.wire import format_named
from spark_jobs.codec import Side, check_any_order
from spark_jobs.columns import arrow_schema
from spark_jobs.endpoints import DeadLetters, KafkaClient, LineSink, Sink, topic_of
from spark_jobs.frames import input_of_job
from spark_jobs.jobs import all_or_abandoned, tell
from spark_jobs.learned import Learned
from spark_jobs.messages import parse_line
from spark_jobs.progress import tracked
from spark_jobs.session import spark_session
from spark_jobs.summary import Summary
from spark_jobs.workers import DDL_EVENTS, RESULTS, DdlBatches, RunBatches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def decode(
    place: str, read: Side, out: LineSink, dead: DeadLetters | None, kafka: KafkaClient, master: str | None
) -> Summary:
    """Messages → plain-form lines in order, as jobs.decode."""
    summary = Summary()
    with all_or_abandoned(out, dead):
        for row, failed in _results(place, read, None, None, kafka, master):
            summary.add(row["tally"] or {})
            summary.messages += 1
            tell(row["notes"] or [], summary.messages)
            lines = row["lines"] or [json_line(plain_error(*failed))] if failed else row["lines"]
            for line in lines:
                out.write_text(line)
                summary.out += 1
            if failed is not None and dead is not None:
                dead.write(*failed)
    return summary


def transcode(
    place: str, read: Side, write: Side, out: Sink, dead: DeadLetters, kafka: KafkaClient, master: str | None,
    topic: str | None,
) -> Summary:  # fmt: skip
    """Messages → messages of another format in order, as jobs.transcode."""
    summary = Summary()
    with all_or_abandoned(out, dead):
        for row, failed in _results(place, read, write, topic, kafka, master):
            summary.add(row["tally"] or {})
            summary.messages += 1
            for line in row["out"] or ():
                out.write(parse_line(line.encode(), "result"))
                summary.out += 1
            if failed is not None:
                dead.write(*failed)
    return summary


def _results(
    place: str, read: Side, write: Side | None, topic: str | None, kafka: KafkaClient, master: str | None
) -> Iterator[tuple[dict[str, Any], tuple[WireError, Message] | None]]:
    """(result, error and message if it failed) of each message, in the order of the input."""
    check_any_order(read)
    spark = spark_session("ticdc-bridge", master=master)
    source = topic_of(place)
    frame = input_of_job(spark, place, source, kafka.settings() if source else None, kafka.from_offset)
    learned = _learned(frame, read)
    read, write = replace(read, tables=learned), replace(write, tables=learned) if write else None
    found = frame.mapInArrow(RunBatches(read, write, topic, arrow_schema(RESULTS)), RESULTS)
    # One job on all cores, then the results in order; a file's partitions are in its order already.
    found = found.persist()
    try:
        found.count()
        cores = spark.sparkContext.defaultParallelism
        results = found.repartitionByRange(cores, "position").sortWithinPartitions("position") if source else found
        for number, row in enumerate(tracked(results.toLocalIterator(), "results"), 1):
            result = row.asDict(recursive=True)
            if result["fatal"] is not None:
                raise SetupError(result["fatal"]["code"], **json.loads(result["fatal"]["fields"]))
            if result["bad"] is not None:
                line = bytes.fromhex(result["bad"])
                error = _bad_line(line, f"{Path(place).name}:{number}")
                result["tally"] = {f"errors.{error.code}": 1}
                yield result, (error, Message(None, line.rstrip(b"\r\n")))
            elif result["tally"] is not None:
                yield result, _failed(result)
    finally:
        found.unpersist()


def _learned(frame: DataFrame, read: Side) -> Learned:
    """The tables that DDL in the input defines: workers see parts of it only, so the driver collects it first."""
    learned = Learned(read.tables)
    if format_named(read.format).carries_ddl:
        events = frame.mapInArrow(DdlBatches(read, arrow_schema(DDL_EVENTS)), DDL_EVENTS)
        for row in events.sort("position", "number").collect():
            learned.learn(DdlEvent(read.format, row["db"], row["table"], row["commit_ts"], None, row["query"]))
    return learned


def _bad_line(line: bytes, where: str) -> WireError:
    try:
        parse_line(line, where)
    except WireError as error:
        return error
    raise AssertionError(f"{where}: refused by a worker, but it is a message")


def _failed(result: dict[str, Any]) -> tuple[WireError, Message] | None:
    if result["error"] is None:
        return None
    error = WireError(result["error"]["code"], **json.loads(result["error"]["fields"]))
    return error, parse_line(result["origin"].encode(), "result")
