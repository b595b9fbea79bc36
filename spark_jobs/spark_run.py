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
from spark_jobs.codec import Mark, check_any_order
from spark_jobs.columns import arrow_schema
from spark_jobs.endpoints import DeadLetters, KafkaClient, LineSink, Sink, topic_of
from spark_jobs.flow import Flow, Work, failed
from spark_jobs.frames import input_of_job
from spark_jobs.job_batches import DDL_EVENTS, RESULTS, DdlBatches, JobBatches
from spark_jobs.jobs import all_or_abandoned, tell
from spark_jobs.learned import Learned
from spark_jobs.messages import parse_line
from spark_jobs.packed import map_messages
from spark_jobs.progress import tracked
from spark_jobs.session import spark_session
from spark_jobs.summary import Summary

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def run(
    place: str, work: Work, out: LineSink | Sink, dead: DeadLetters | None, kafka: KafkaClient, master: str | None
) -> Summary:
    """Messages → lines or messages, in order, as jobs.run."""
    summary = Summary()
    flow: Flow[str] = Flow(work, summary)
    sink: Any = out

    as_text = getattr(sink, "write_text", None)  # lines need not be read again to be written

    def write(piece: str) -> None:
        summary.out += 1
        if as_text is not None:
            as_text(piece)
        else:
            sink.write(parse_line(piece.encode(), "result"))

    with all_or_abandoned(out, dead):
        for row, fault in _results(place, work, kafka, master):
            summary.add(row["tally"] or {})
            summary.messages += row["messages"] or 1
            tell(row["notes"] or [], summary.messages)
            pieces = (row["lines"] if work.write is None else row["out"]) or []
            if fault is not None:
                if work.write is None and work.on_error != "drop":
                    write((pieces or [json_line(plain_error(*fault))])[0])
                failed(work, *fault, dead, summary)
                continue
            marks = [Mark(m["commit_ts"], m["rank"], m["id"], m["count"]) for m in row["marks"] or ()]
            for piece in flow.take(pieces, marks, row["partition"], row["resolved"]):
                write(piece)
        for piece in flow.rest():
            write(piece)
    return summary


def _results(
    place: str, work: Work, kafka: KafkaClient, master: str | None
) -> Iterator[tuple[dict[str, Any], tuple[WireError, Message] | None]]:
    """(result, error and message if it failed) of each message, or of several, in the order of the input."""
    check_any_order(work.read)
    spark = spark_session("ticdc-bridge", master=master)
    source = topic_of(place)
    frame = input_of_job(spark, place, source, kafka.java_settings() if source else None, kafka.from_offset)
    work = with_learned(frame, work)
    found = map_messages(frame, JobBatches(work, arrow_schema(RESULTS)), RESULTS)
    # One job on all cores, then the results in order; a file's partitions are in its order already.
    found = found.persist()
    try:
        found.count()
        cores = spark.sparkContext.defaultParallelism
        results = found.repartitionByRange(cores, "position").sortWithinPartitions("position") if source else found
        number = 0
        for row in tracked(results.toLocalIterator(), "results"):
            result = row.asDict(recursive=True)
            number += result["messages"] or 1
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


def with_learned(frame: DataFrame, work: Work) -> Work:
    """The work, its sides knowing the tables that DDL in the input defines.

    Workers see parts of the input only, so the driver collects the DDL first.
    """
    read, tables = work.read, work.read.tables
    if read.learn:
        learned = Learned(read.tables)
        if format_named(read.format).carries_ddl:
            events = map_messages(frame, DdlBatches(work, arrow_schema(DDL_EVENTS)), DDL_EVENTS)
            for row in events.sort("position", "number").collect():
                learned.learn(DdlEvent(read.format, row["db"], row["table"], row["commit_ts"], None, row["query"]))
        tables = learned
    write = replace(work.write, tables=tables) if work.write else None
    return replace(work, read=replace(read, tables=tables), write=write)


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
