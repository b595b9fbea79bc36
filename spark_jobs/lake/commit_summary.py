"""The summary of a snapshot: what each commit to a table of the lake says of the changes in it.

TiCDC's own Iceberg sink writes `tidb.committed_resolved_ts`, so one tool reads both; the other keys are ours. A session
puts them into every snapshot that it commits, so they hold for all tables of a micro-batch.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from pyspark.sql import SparkSession

from ticdc_bridge.spark_jobs.lake.engines.iceberg_spark import APPLICATION, BATCH
from ticdc_bridge.spark_jobs.lake.engines.spark_sql import set_for_now

RESOLVED_TS = "tidb.committed_resolved_ts"
COMMIT_TS = "bridge.commit_ts"
OFFSETS = "bridge.offsets"
_SETTING = "spark.sql.iceberg.snapshot-property."
FACTS_OF_DELTA = "spark.databricks.delta.commitInfo.userMetadata"


def summary_of_commit(
    application: str | None, batch: int | None, topic: str | None, offsets: Mapping[int, int],
    commit_ts: int | None, resolved_ts: int | None,
) -> dict[str, str]:  # fmt: skip
    """The keys of a snapshot's summary whose values are known (not None).

    application, batch: of a stream, whose batches have numbers. topic, offsets: the newest offset read of each
    partition; topic None: a file. commit_ts: the highest of the batch's changes. resolved_ts: all changes up to here
    were read.
    """
    values = {APPLICATION: application, BATCH: batch, COMMIT_TS: commit_ts, RESOLVED_TS: resolved_ts}
    if topic is not None and offsets:
        values[OFFSETS] = json.dumps({topic: {str(p): at for p, at in sorted(offsets.items())}})
    return {name: str(value) for name, value in values.items() if value is not None}


@contextmanager
def with_commit_facts(spark: SparkSession, facts: Mapping[str, str]) -> Iterator[None]:
    """Commits of this session say `facts` meanwhile: in Iceberg's summary, as JSON in delta-spark's `userMetadata`."""
    with ExitStack() as stack:
        for name, value in facts.items():
            stack.enter_context(set_for_now(spark, _SETTING + name, value))
        stack.enter_context(set_for_now(spark, FACTS_OF_DELTA, json.dumps(facts)))
        yield
