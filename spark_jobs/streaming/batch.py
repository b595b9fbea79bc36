"""`--spark`: decode, encode and transcode with the codecs in Spark's workers, in one go.

Outputs and counts are those of spark_jobs.jobs.in_process.in_process; besides, a Delta table, or one table's typed
columns.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from schemas.ddl.executor.versions import DdlText
from schemas.model.errors import SetupError, WireError
from schemas.model.event import Message
from schemas.plain.writer import json_line, plain_error
from spark_jobs.arrow.change_schema import arrow_schema
from spark_jobs.io.endpoints import DeadLetters, LineSink, Sink, complete_together
from spark_jobs.io.locations import KafkaClient, delta_path_of, topic_of_location
from spark_jobs.io.message_files import parse_line
from spark_jobs.pipeline.codec_config import check_any_order
from spark_jobs.pipeline.event_order import EventOrder
from spark_jobs.pipeline.job import Job
from spark_jobs.pipeline.progress import print_notes, show_progress
from spark_jobs.pipeline.result import Summary
from spark_jobs.pipeline.table_view import table_of
from spark_jobs.pipeline.watermark_buffer import WatermarkBuffer, handle_failure
from spark_jobs.spark.frames import input_of_job
from spark_jobs.spark.session import spark_session
from spark_jobs.spark.transport import map_messages
from spark_jobs.streaming.ddl_events import learn_tables
from spark_jobs.streaming.micro_batch import MicroBatchRunner
from spark_jobs.streaming.pieces import RESULTS, JobBatches
from spark_jobs.streaming.sinks import session_of


def run_batch(
    work: Job,
    source: str,
    out: str,
    dead: str | None,
    kafka: KafkaClient,
    master: str | None,
    table: str | None,
    statements: Sequence[DdlText] = (),
) -> Summary:
    """Everything up to the high watermarks of now, appended to the table in one transaction."""
    check_any_order(work.read)
    if delta_path_of(out) is None:
        raise SetupError("USAGE", details="--table goes with --out delta:PATH or FILE.parquet")
    if dead is not None and delta_path_of(dead) is None and topic_of_location(dead) is None:
        DeadLetters(dead, kafka)  # says whether the place can be written
    spark = session_of(work, master, out, dead)
    topic = topic_of_location(source)
    frame = input_of_job(spark, source, topic, kafka.java_settings() if topic else None, kafka.from_offset)
    runner = MicroBatchRunner(spark, work, out, dead, kafka, None, table_of(table), statements)
    return runner.process(frame, 0).summary


def run(
    place: str, work: Job, out: LineSink | Sink, dead: DeadLetters | None, kafka: KafkaClient, master: str | None
) -> Summary:
    """Messages → lines or messages, in order, as jobs.run."""
    summary = Summary()
    flow: WatermarkBuffer[str] = WatermarkBuffer(work, summary)
    sink: Any = out

    as_text = getattr(sink, "write_text", None)  # lines need not be read again to be written

    def write(piece: str) -> None:
        summary.out += 1
        if as_text is not None:
            as_text(piece)
        else:
            sink.write(parse_line(piece.encode(), "result"))

    with complete_together(out, dead):
        for row, fault in _results(place, work, kafka, master):
            summary.add(row["tally"] or {})
            summary.messages += row["messages"] or 1
            print_notes(row["notes"] or [], summary.messages)
            pieces = (row["lines"] if work.write is None else row["out"]) or []
            if fault is not None:
                if work.write is None and work.on_error != "drop":
                    write((pieces or [json_line(plain_error(*fault))])[0])
                handle_failure(work, *fault, dead, summary)
                continue
            marks = [EventOrder(m["commit_ts"], m["rank"], m["id"], m["count"]) for m in row["marks"] or ()]
            for piece in flow.take(pieces, marks, row["partition"], row["resolved"]):
                write(piece)
        for piece in flow.rest():
            write(piece)
    return summary


def _results(
    place: str, work: Job, kafka: KafkaClient, master: str | None
) -> Iterator[tuple[dict[str, Any], tuple[WireError, Message] | None]]:
    """(result, error and message if it failed) of each message, or of several, in the order of the input."""
    check_any_order(work.read)
    spark = spark_session("ticdc-bridge", master=master)
    source = topic_of_location(place)
    frame = input_of_job(spark, place, source, kafka.java_settings() if source else None, kafka.from_offset)
    work = learn_tables(frame, work)
    outcomes = map_messages(frame, JobBatches(work, arrow_schema(RESULTS)), RESULTS)
    # One job on all cores, then the results in order; a file's partitions are in its order already.
    outcomes = outcomes.persist()
    try:
        outcomes.count()
        cores = spark.sparkContext.defaultParallelism
        results = (
            outcomes.repartitionByRange(cores, "position").sortWithinPartitions("position") if source else outcomes
        )
        number = 0
        for row in show_progress(results.toLocalIterator(), "results"):
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
                yield result, _failure_of(result)
    finally:
        outcomes.unpersist()


def _bad_line(line: bytes, where: str) -> WireError:
    try:
        parse_line(line, where)
    except WireError as error:
        return error
    raise AssertionError(f"{where}: refused by a worker, but it is a message")


def _failure_of(result: dict[str, Any]) -> tuple[WireError, Message] | None:
    if result["error"] is None:
        return None
    error = WireError(result["error"]["code"], **json.loads(result["error"]["fields"]))
    return error, parse_line(result["origin"].encode(), "result")
