"""decode, encode and transcode in one go to a Delta table, or (decode) to one table's typed columns."""

from __future__ import annotations

from collections.abc import Sequence

from schemas.ddl.versions import DdlText
from schemas.errors import SetupError
from spark_jobs.codec import check_any_order
from spark_jobs.endpoints import DeadLetters, KafkaClient, delta_of, topic_of
from spark_jobs.flow import Work
from spark_jobs.frames import input_of_job
from spark_jobs.micro_batch import Runner
from spark_jobs.sinks import session_of
from spark_jobs.summary import Summary
from spark_jobs.tables import table_of


def run_batch(
    work: Work,
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
    if delta_of(out) is None:
        raise SetupError("USAGE", details="--table goes with --out delta:PATH or FILE.parquet")
    if dead is not None and delta_of(dead) is None and topic_of(dead) is None:
        DeadLetters(dead, kafka)  # says whether the place can be written
    spark = session_of(work, master, out, dead)
    topic = topic_of(source)
    frame = input_of_job(spark, source, topic, kafka.java_settings() if topic else None, kafka.from_offset)
    runner = Runner(spark, work, out, dead, kafka, None, table_of(table), statements)
    return runner.process(frame, 0).summary
