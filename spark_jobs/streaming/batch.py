"""`--spark`: what there is now in one go, as one batch of spark_jobs.streaming.micro_batch without a checkpoint."""

from collections.abc import Sequence

from pyspark.sql import SparkSession

from ticdc_bridge.clients.kafka import extents, number_sources
from ticdc_bridge.schemas.ddl.executor.versions import DdlText
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.spark_jobs.io.endpoints import DeadLetters, LineSink, Sink, complete_together
from ticdc_bridge.spark_jobs.io.locations import KafkaClient, table_location_of, topic_of_location, topics_of_location
from ticdc_bridge.spark_jobs.pipeline.codec_config import check_any_order
from ticdc_bridge.spark_jobs.pipeline.job import Job
from ticdc_bridge.spark_jobs.pipeline.progress import report_slow_steps
from ticdc_bridge.spark_jobs.pipeline.result import Summary
from ticdc_bridge.spark_jobs.pipeline.table_view import table_of
from ticdc_bridge.spark_jobs.runtime.spark_settings import SparkSettings
from ticdc_bridge.spark_jobs.spark.frames import input_of_job
from ticdc_bridge.spark_jobs.spark.session import running_tasks
from ticdc_bridge.spark_jobs.streaming.micro_batch import MicroBatchRunner
from ticdc_bridge.spark_jobs.streaming.sinks import OrderedSink, session_of
from ticdc_bridge.spark_jobs.streaming.table_results import print_tables


def run_to_table(
    job: Job, source: str, out: str, dead: str | None, kafka: KafkaClient, settings: SparkSettings, table: str | None,
    statements: Sequence[DdlText] = (),
) -> Summary:  # fmt: skip
    """Everything up to the high watermarks of now, appended to the table in one transaction."""
    if table_location_of(out) is None:
        details = "--table goes with --out delta:PATH, iceberg:CATALOG.DB.TABLE or FILE.parquet"
        raise SetupError("USAGE", details=details)
    if dead is not None and table_location_of(dead) is None and topic_of_location(dead) is None:
        DeadLetters(dead, kafka)  # says whether the place can be written
    summary = _run(job, source, out, dead, kafka, settings, table, statements)
    session = SparkSession.getActiveSession()
    if job.merge is not None and session is not None:
        chosen = {str(id_): id_ for id_ in (TableId(db, name) for _, db, name, *_ in summary.used)}
        written = [chosen[entry.name] for entry in summary.tables if entry.name in chosen]
        asked = table_of(table)
        print_tables("merge", session, job, out, written if asked is None else [asked])
    return summary


def run_in_order(
    job: Job, source: str, out: LineSink | Sink, dead: DeadLetters | None, kafka: KafkaClient, settings: SparkSettings
) -> Summary:
    """Outputs and counts are those of spark_jobs.jobs.in_process."""
    with complete_together(out, dead):
        return _run(job, source, OrderedSink(job, source, out, dead), None, kafka, settings)


def _run(
    job: Job, source: str, out: str | OrderedSink, dead: str | None, kafka: KafkaClient, settings: SparkSettings,
    table: str | None = None, statements: Sequence[DdlText] = (),
) -> Summary:  # fmt: skip
    check_any_order(job.read)
    topics = topics_of_location(source)
    client, sources = kafka.java_settings() if topics else None, None
    if topics is not None and topics.only is not None:
        extents(topics.only, kafka.settings())  # says that Kafka or the topic is not there, before Spark starts
    elif topics is not None:
        sources = number_sources(topics.find(kafka.settings()), [])
    spark = session_of(job, settings, out if isinstance(out, str) else "", dead)
    frame = input_of_job(spark, source, topics, client, kafka.from_offset, job.read, sources)
    runner = MicroBatchRunner(spark, job, out, dead, kafka, None, table_of(table), statements)
    with report_slow_steps(f"Spark works on {source}", after=10, state=lambda: running_tasks(spark)):
        return runner.process(frame, 0).summary
