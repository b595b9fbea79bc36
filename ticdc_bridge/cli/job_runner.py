"""decode, encode and transcode once their sides are known: in this process, in Spark, or as a stream."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ticdc_bridge.cli.codec_arguments import kafka_of, seconds, spark_settings
from ticdc_bridge.cli.job_options import JobOptions
from ticdc_bridge.schemas.ddl.executor.versions import DdlText
from ticdc_bridge.schemas.inputs.kafka_settings import TOPIC
from ticdc_bridge.schemas.inspect.format_lookup import format_named
from ticdc_bridge.schemas.model.errors import BridgeError, SetupError
from ticdc_bridge.spark_jobs.io import endpoints, locations
from ticdc_bridge.spark_jobs.io.endpoints import DeadLetters, LineSink, Sink
from ticdc_bridge.spark_jobs.io.locations import KafkaClient, name_of_location, table_location_of, topics_of_location
from ticdc_bridge.spark_jobs.io.object_paths import path_of
from ticdc_bridge.spark_jobs.io.storage_sink import is_storage_folder
from ticdc_bridge.spark_jobs.jobs import in_process
from ticdc_bridge.spark_jobs.pipeline.job import Job
from ticdc_bridge.spark_jobs.pipeline.newest_columns import with_newest
from ticdc_bridge.spark_jobs.pipeline.progress import print_summary, show_progress
from ticdc_bridge.spark_jobs.pipeline.result import Summary
from ticdc_bridge.spark_jobs.pipeline.storage_definitions import stated_tables
from ticdc_bridge.spark_jobs.pipeline.table_choice import is_rule
from ticdc_bridge.spark_jobs.pipeline.table_view import table_of
from ticdc_bridge.spark_jobs.pipeline.topic_rules import check_topic_rule
from ticdc_bridge.spark_jobs.runtime.spark_settings import SparkSettings
from ticdc_bridge.spark_jobs.streaming import lineage, metrics


def dead_letter_location(args: JobOptions) -> str | None:
    """Where failed messages go: for encode and transcode there is a place always."""
    if args.on_error == "drop":
        return None
    has_error_lines = args.command in ("decode", "merge") and not args.out.endswith(".avro")
    if args.dead_letter or (has_error_lines and not (args.stream or table_location_of(args.out))):
        location: str | None = args.dead_letter
        return location
    if is_rule(args.out):  # beside the tables
        folder = args.out.partition("{")[0].rpartition("/")[0]
        beside = folder.removeprefix("delta:") if folder.startswith("delta:") else "."
        return f"{beside}/{args.command}.dead{'' if args.stream else '.jsonl'}"
    if args.stream and args.on_error == "dead-letter":
        return f"{name_of_location(args.out) or args.command}.dead"
    if args.out == "-":
        return f"{args.command}.dead.jsonl"
    source = name_of_location(args.source)
    if (topics := topics_of_location(args.source)) is not None:
        source = topics.only or args.command
    name = name_of_location(args.out) or source
    return f"{name}.dead.jsonl"


def run_job(args: JobOptions, job: Job, statements: Sequence[DdlText] = ()) -> int:
    """Runs the job; its exit code. statements: a merged table's history. SetupError when it can't start or go on."""
    try:
        return _run_job(args, job, statements)
    except BridgeError as error:
        if error.code != "USAGE":  # a mistyped command says nothing about the job
            head = lineage.head_of(args.job or args.command, args.command, args.source, args.out, job)
            stopped = {"stopped": f"{error.code}: {error.detail}"[:1000]}
            lineage.send(args.lineage, {**head, **stopped, "tables": [lineage.edge(None, 0)]})
        raise


def _run_job(args: JobOptions, job: Job, statements: Sequence[DdlText]) -> int:
    kafka, location = replace(kafka_of(args), read=topics_of_location(args.source)), dead_letter_location(args)
    _check_locations(args, job, kafka, location)
    table = getattr(args, "table", None)
    name = args.job or args.command
    to_table = table_location_of(args.out) is not None or (table and not args.out.endswith((".parquet", ".avro")))
    in_spark = bool(args.spark or args.stream or to_table)
    written = location, args.checkpoint, *job.more_locations
    settings = spark_settings(args, in_spark, args.source, args.out, *written)
    if args.out.endswith(".avro") and (args.spark or args.stream):
        raise SetupError("USAGE", details=f"{args.out}: Spark writes no Avro file: leave out --spark and --stream")
    trigger = None if args.trigger == "now" else seconds(args.trigger, "--trigger")
    patience = seconds(args.patience or "10m", "--patience")
    if args.stream:
        from ticdc_bridge.spark_jobs.streaming.stream import StreamJob, run_stream

        stream = StreamJob(
            args.command, job, args.source, args.out, location, kafka, str(args.checkpoint), trigger,
            table=table_of(table), most=args.max_per_batch, spark=settings, metrics=args.metrics,
            metrics_host=args.metrics_host, lineage=args.lineage, job_name=name,
            openlineage=getattr(args, "openlineage", None), patience=patience, as_json=args.json,
            is_patient=args.patience is not None, statements=tuple(statements),
        )  # fmt: skip
        return run_stream(stream)
    metrics.check(args.metrics)
    if table and args.out.endswith((".parquet", ".avro")):
        summary = _table_file(args, job, kafka, settings, location)
    elif to_table:
        from ticdc_bridge.spark_jobs.streaming.batch import run_to_table

        summary = run_to_table(job, args.source, args.out, location, kafka, settings, table, statements)
    else:
        dead = DeadLetters(location, kafka) if location else None
        out = endpoints.message_sink(args.out, kafka, args.topic) if job.write else endpoints.line_sink(args.out, kafka)
        summary = _run(args, job, out, dead, kafka, settings)
    metrics.JobMetrics(args.metrics, name).update(summary)
    lineage.post(args.lineage, name, args.command, args.source, args.out, job, summary, dead_letter=location)
    print_summary(args.command, summary, table_of(table), args.json)
    return summary.exit_code


def _check_locations(args: JobOptions, job: Job, kafka: KafkaClient, dead_letters: str | None) -> None:
    """SetupError USAGE where what is read, written and asked for does not go together."""
    locations.refuse_table_source(args.source)
    if bool(args.stream) is not bool(args.checkpoint):
        raise SetupError("USAGE", details="--stream and --checkpoint DIR go together")
    if kafka.read is None and args.source != "-" and "://" not in args.source and not Path(args.source).exists():
        raise SetupError("USAGE", details=f"{args.source}: No such file or directory")  # before Spark starts
    if is_storage_folder(args.source) and job.read.format not in ("canal-json", "auto"):
        raise SetupError("USAGE", details=f"{args.source}: a storage sink's folder: read it with --format canal-json")
    for option in ("--checkpoint", "--metrics"):
        locations.check_is_path(getattr(args, option[2:]) or "", option, local=option == "--metrics")
    if not args.stream:  # streams make their folders; so do dead letters beside tables of which none is there yet
        letters = "" if table_location_of(args.out) else dead_letters or ""
        locations.check_folders({"--out": args.out, "--dead-letter": letters})
    locations.check_different({"--in": args.source, "--out": args.out, "--dead-letter": dead_letters})
    if job.topic is not None:
        check_topic_rule(job.topic)
    if job.until_resolved and kafka.read is not None and kafka.read.only is None:
        raise SetupError("USAGE", details="--until-resolved needs one topic's watermarks: run a job for each topic")
    names_topics = job.write is not None and format_named(job.write.format).names_topics
    if args.out == TOPIC and not (args.topic or names_topics) and locations.topic_of_location(args.source) is not None:
        raise SetupError("USAGE", details="--out kafka: would write into the topic that is read: give --topic RULE")
    if args.topic and dead_letters == TOPIC + args.topic:
        raise SetupError("USAGE", details=f"--topic {args.topic}: dead letters go there: name another one")
    if args.out == TOPIC and args.topic and kafka.read is not None and kafka.read.takes(args.topic):
        raise SetupError("USAGE", details=f"--topic {args.topic}: that is the topic that is read: name another one")
    if args.max_per_batch is not None and args.max_per_batch < 1:
        raise SetupError("USAGE", details=f"--max-per-batch {args.max_per_batch}: a number above 0 is needed")


def _run(
    args: JobOptions,
    job: Job,
    out: LineSink | Sink,
    dead: DeadLetters | None,
    kafka: KafkaClient,
    settings: SparkSettings,
) -> Summary:
    """In Spark or in this process."""
    if args.spark:
        from ticdc_bridge.spark_jobs.streaming.batch import run_in_order

        return run_in_order(job, args.source, out, dead, kafka, settings)
    incoming: in_process.Incoming
    if args.command == "encode":
        incoming = endpoints.plain_source(args.source, kafka)
    else:
        incoming = endpoints.read_source(args.source, kafka, job.read.options, stated_tables(job.read.tables))
    incoming = show_progress(incoming, args.command, count_waiting(args.source, kafka))
    is_pipe = args.source == "-" and not Path("/dev/stdin").is_file()
    return in_process.run_in_process(incoming, job, out, dead, prompt=is_pipe)


def _table_file(
    args: JobOptions, job: Job, kafka: KafkaClient, settings: SparkSettings, location: str | None
) -> Summary:
    """decode of one table to FILE.parquet or FILE.avro, its columns typed."""
    job = replace(job, read=with_newest(job.read))
    dead = DeadLetters(location, kafka) if location else None
    out: TableParquet | TableAvro
    if args.out.endswith(".avro"):
        from ticdc_bridge.spark_jobs.jobs.table_avro import TableAvro, record_config

        write = record_config(job.read, args.on_lossy or "error")
        job, out = replace(job, write=write), TableAvro(path_of(args.out), write)
    else:
        from ticdc_bridge.spark_jobs.jobs.table_parquet import TableParquet

        out = TableParquet(path_of(args.out), job.read)
    summary = _run(args, job, out, dead, kafka, settings)
    out.report(summary)
    return summary


def count_waiting(location: str, kafka: KafkaClient) -> int | None:
    """How many messages there are to read, for the bar on a terminal; None where that is not known beforehand."""
    topics = topics_of_location(location)
    if topics is None or not sys.stderr.isatty():
        return None
    from ticdc_bridge.clients.kafka import extents

    settings = kafka.settings()
    ranges = [extent for topic in topics.find(settings) for extent in extents(topic, settings).values()]
    return sum(max(high - max(low, kafka.from_offset), 0) for low, high in ranges)
