"""`--openlineage NAMESPACE`: a stream is a run of OpenLineage, whose own client sends an event for each micro-batch.

Where events go is the client's configuration (OPENLINEAGE_URL, openlineage.yml). Datasets are named as upstream
OpenLineage's `spec/Naming.md` has it: topics by their broker, tables of the lake by where their files are.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import urlsplit

import attr
from openlineage.client import OpenLineageClient, set_producer
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.generated.base import DatasetFacet, JobFacet, RunFacet
from openlineage.client.generated.column_lineage_dataset import (
    ColumnLineageDatasetFacet,
    Fields,
    InputField,
    Transformation,
)
from openlineage.client.generated.dataset_version_dataset import DatasetVersionDatasetFacet
from openlineage.client.generated.error_message_run import ErrorMessageRunFacet
from openlineage.client.generated.job_type_job import JobTypeJobFacet
from openlineage.client.generated.output_statistics_output_dataset import OutputStatisticsOutputDatasetFacet
from openlineage.client.generated.schema_dataset import SchemaDatasetFacet, SchemaDatasetFacetFields
from openlineage.client.uuid import generate_new_uuid
from pyspark.sql import SparkSession

from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.spark_jobs.io.locations import lake_location
from ticdc_bridge.spark_jobs.lake import tables
from ticdc_bridge.spark_jobs.lake.column_history import SchemaChange, schema_changes
from ticdc_bridge.spark_jobs.lake.engines.base import LakeTable
from ticdc_bridge.spark_jobs.lake.table_columns import PRIVATE
from ticdc_bridge.spark_jobs.streaming.stages import BatchResult

_PRODUCER = "https://github.com/ticdc-bridge/ticdc-bridge"


@attr.define
class MicroBatchRunFacet(RunFacet):
    """What a micro-batch read. statements: DDL between its changes, or before them since the batch before."""

    number: int
    messages: int
    failed: int
    oldestCommitTs: str | None = None
    newestCommitTs: str | None = None
    statements: list[dict[str, str]] = attr.field(factory=list)

    @staticmethod
    def _get_schema() -> str:
        return f"{_PRODUCER}/blob/main/docs/openlineage.json#/$defs/MicroBatchRunFacet"


@dataclass
class LineageRun:
    """A context: START at its begin, COMPLETE at its end, or FAIL. servers: of Kafka."""

    namespace: str
    name: str
    servers: str
    client: OpenLineageClient = field(default_factory=OpenLineageClient)
    run_id: str = field(default_factory=lambda: str(generate_new_uuid()))
    _newest_ts: int = -1

    def __enter__(self) -> LineageRun:
        set_producer(_PRODUCER)
        self._send(RunState.START, {})
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        facets: dict[str, RunFacet] = {"errorMessage": ErrorMessageRunFacet(str(error), "Python")} if error else {}
        self._send(RunState.FAIL if error else RunState.COMPLETE, facets)
        self.client.close()

    def send_batch(self, spark: SparkSession, engine: str, number: int, outcome: BatchResult) -> None:
        """RUNNING, with the topics and tables of a micro-batch. engine: of spark_jobs.lake.engines.base.ENGINES."""
        summary, of_topics = outcome.summary, dict[TableId, list[InputDataset]]()
        namespace = f"kafka://{self.servers.split(',')[0]}"
        topics = {name: InputDataset(namespace, name) for name in sorted({u[0] for u in summary.used if u[0]})}
        for topic, db, name, *_ in summary.used:
            if topic is not None and topics[topic] not in of_topics.setdefault(TableId(db, name).folded, []):
                of_topics[TableId(db, name).folded].append(topics[topic])
        facet = MicroBatchRunFacet(number, summary.messages, summary.errors.total())
        if outcome.commit_ts is not None:
            oldest, newest = outcome.commit_ts
            first = min(oldest, self._newest_ts + 1) if self._newest_ts >= 0 else oldest
            ddl = {s: None for table in outcome.written for s in table.statements if first <= s.commit_ts <= newest}
            facet.oldestCommitTs, facet.newestCommitTs = str(oldest), str(newest)
            facet.statements = [{"commitTs": str(s.commit_ts), "database": s.db, "query": s.query} for s in ddl]
            self._newest_ts = max(self._newest_ts, newest)
        outputs = list[OutputDataset]()
        for table in outcome.written:
            steps = schema_changes(table.statements, table.id)
            for location in map(lake_location, filter(None, table.locations)):
                lake_table = tables.engine_of(spark, engine, location.format)(spark, location.name)
                if lake_table.exists():
                    outputs.append(_dataset_of(lake_table, steps, table.keys, of_topics.get(table.id.folded, [])))
        self._send(RunState.RUNNING, {"ticdcBridge_microBatch": facet}, list(topics.values()), outputs)

    def _send(
        self, state: RunState, facets: dict[str, RunFacet], inputs: Sequence[InputDataset] = (),
        outputs: Sequence[OutputDataset] = (),
    ) -> None:  # fmt: skip
        of_job: dict[str, JobFacet] = {"jobType": JobTypeJobFacet("STREAMING", "TICDC_BRIDGE", "JOB")}
        event = RunEvent(
            eventTime=datetime.now(UTC).isoformat(), run=Run(self.run_id, facets), eventType=state,
            job=Job(self.namespace, self.name, of_job), inputs=[*inputs], outputs=[*outputs], producer=_PRODUCER,
        )  # fmt: skip
        try:
            self.client.emit(event)
        except Exception as error:  # of any transport: the rows are written, and lineage does not end the job
            text = " ".join(str(error).split())[:300]
            print(f"warning: an event of OpenLineage was not sent: {type(error).__name__}: {text}", file=sys.stderr)


def _dataset_of(
    lake_table: LakeTable, steps: Sequence[SchemaChange], keys: int, topics: Sequence[InputDataset]
) -> OutputDataset:
    columns, private = lake_table.read().schema.fields, json.loads(lake_table.properties().get(PRIVATE, "{}"))
    fields = [SchemaDatasetFacetFields(c.name, c.dataType.simpleString()) for c in columns]
    facets: dict[str, DatasetFacet] = {"schema": SchemaDatasetFacet(fields)}
    sources = dict[str, Fields]()
    known = next((step.after for step in reversed(steps) if step.after is not None), None)
    for column in columns:
        if known is None or column.name in known.by_name:
            method = private.get(column.name.lower())
            how = Transformation("DIRECT", "TRANSFORMATION" if method else "IDENTITY", masking=method is not None)
            names = [*_names_over_time(column.name, steps)]
            of_topics = [InputField(t.namespace, t.name, name, [how]) for t in topics for name in names]
            sources[column.name] = Fields(of_topics)
    if topics:
        facets["columnLineage"] = ColumnLineageDatasetFacet(sources)
    if (version := lake_table.version()) is not None:
        facets["version"] = DatasetVersionDatasetFacet(str(version))
    url = urlsplit(lake_table.folder())
    is_here = url.scheme in ("", "file")
    namespace = "file" if is_here else f"{url.scheme.replace('s3a', 's3')}://{url.netloc}"
    path = url.path if is_here or not url.netloc else url.path.lstrip("/")
    statistics = {"outputStatistics": OutputStatisticsOutputDatasetFacet(keys)}
    return OutputDataset(namespace, path, facets=facets, outputFacets={**statistics})


def _names_over_time(name: str, steps: Sequence[SchemaChange]) -> Iterator[str]:
    """The names of a column in messages: its own, and those before each RENAME."""
    yield name
    for step in reversed(steps):
        if (old := step.old_name(name)) is not None:
            name = old
            yield old
