"""`--openlineage NAMESPACE`: a stream is a run of OpenLineage, whose own client sends an event for each micro-batch.

Where events go is the client's configuration (OPENLINEAGE_URL, openlineage.yml). Datasets are named as upstream
OpenLineage's `spec/Naming.md` has it: topics by their broker, tables of the lake by where their files are.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

import attr
from openlineage.client import OpenLineageClient, set_producer
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.generated.base import DatasetFacet, JobFacet, OutputDatasetFacet, RunFacet
from openlineage.client.generated.column_lineage_dataset import (
    ColumnLineageDatasetFacet,
    Fields,
    InputField,
    Transformation,
)
from openlineage.client.generated.error_message_run import ErrorMessageRunFacet
from openlineage.client.generated.job_type_job import JobTypeJobFacet
from openlineage.client.generated.output_statistics_output_dataset import OutputStatisticsOutputDatasetFacet
from openlineage.client.generated.schema_dataset import SchemaDatasetFacet, SchemaDatasetFacetFields
from openlineage.client.uuid import generate_new_uuid
from pyspark.sql import SparkSession

from ticdc_bridge.schemas.ddl.executor.versions import DdlText
from ticdc_bridge.schemas.model.credentials import mask_credentials
from ticdc_bridge.schemas.model.errors import BridgeError
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.spark_jobs.io.locations import lake_location, without_file_scheme
from ticdc_bridge.spark_jobs.lake import tables
from ticdc_bridge.spark_jobs.lake.column_history import SchemaChange, schema_changes
from ticdc_bridge.spark_jobs.lake.table_columns import private_of
from ticdc_bridge.spark_jobs.spark.errors import shorten_message
from ticdc_bridge.spark_jobs.streaming.stages import BatchResult, WrittenTable

_PRODUCER = "https://github.com/ticdc-bridge/ticdc-bridge"
_PATIENCE = 10.0
"""Seconds for events that still wait at the end."""


class _KnownTable(NamedTuple):
    """namespace, name: of the dataset. private: columns that are masked."""

    namespace: str
    name: str
    private: Mapping[str, str]


@attr.define
class MicroBatchRunFacet(RunFacet):
    """What a micro-batch read. statements: DDL of its tables between its changes, or since the run's batch before."""

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
    """A context: START at its begin, COMPLETE at its end, or FAIL. servers: of Kafka. What can't be sent is a warning:
    the rows are written.
    """

    namespace: str
    name: str
    servers: str
    client: OpenLineageClient = field(default_factory=OpenLineageClient)
    run_id: str = field(default_factory=lambda: str(generate_new_uuid()))
    _newest_ts: int = -1
    _known: dict[str, _KnownTable] = field(default_factory=dict)
    _steps: dict[TableId, tuple[Sequence[DdlText], Sequence[SchemaChange]]] = field(default_factory=dict)

    def __enter__(self) -> LineageRun:
        set_producer(_PRODUCER)
        with _as_warning():
            self._send(RunState.START, {})
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        with _as_warning():
            # Any other text may have a value of a row.
            text = f"{error.code}: {error.detail}" if isinstance(error, BridgeError) else type(error).__name__
            message = ErrorMessageRunFacet(mask_credentials(text)[:1000], "Python")
            self._send(RunState.FAIL if error else RunState.COMPLETE, {"errorMessage": message} if error else {})
        with _as_warning():
            self.client.close(_PATIENCE)

    def send_batch(self, spark: SparkSession, engine: str, number: int, outcome: BatchResult) -> None:
        """RUNNING, with the topics and tables of a micro-batch. engine: of spark_jobs.lake.engines.base.ENGINES."""
        with _as_warning():
            summary, of_topics = outcome.summary, dict[TableId, list[InputDataset]]()
            server = self.servers.split(",")[0].rpartition("://")[2].rpartition("@")[2].strip()
            topics = {t: InputDataset(f"kafka://{server}", t) for t in sorted({u[0] for u in summary.used if u[0]})}
            for topic, db, name, *_ in summary.used:
                if topic is not None and topics[topic] not in of_topics.setdefault(TableId(db, name).folded, []):
                    of_topics[TableId(db, name).folded].append(topics[topic])
            outputs, statements = list[OutputDataset](), dict[DdlText, None]()
            for table in outcome.written:
                steps = self._steps_of(table)
                times = {step.commit_ts for step in steps}
                statements |= {s: None for s in table.statements if s.commit_ts in times}
                for target in dict.fromkeys(filter(None, table.locations)):
                    keys = table.keys if target == table.locations[0] else None
                    outputs += self._datasets_of(spark, engine, target, steps, keys, of_topics.get(table.id.folded, []))
            facet = self._facet_of(number, outcome, statements)
            self._send(RunState.RUNNING, {"ticdcBridge_microBatch": facet}, list(topics.values()), outputs)

    def _steps_of(self, table: WrittenTable) -> Sequence[SchemaChange]:
        """Its history, which seldom has a new statement."""
        statements, steps = self._steps.get(table.id, (None, []))
        if statements != table.statements:
            steps = schema_changes(table.statements, table.id)
            self._steps[table.id] = table.statements, steps
        return steps

    def _facet_of(self, number: int, outcome: BatchResult, statements: Iterable[DdlText]) -> MicroBatchRunFacet:
        facet = MicroBatchRunFacet(number, outcome.summary.messages, outcome.summary.errors.total())
        if outcome.commit_ts is not None:
            oldest, newest = outcome.commit_ts
            first = min(oldest, self._newest_ts + 1) if self._newest_ts >= 0 else oldest
            ddl = [s for s in statements if first <= s.commit_ts <= newest]
            facet.oldestCommitTs, facet.newestCommitTs = str(oldest), str(newest)
            facet.statements = [{"commitTs": str(s.commit_ts), "database": s.db, "query": s.query} for s in ddl]
            self._newest_ts = max(self._newest_ts, newest)
        return facet

    def _datasets_of(
        self, spark: SparkSession, engine: str, target: str, steps: Sequence[SchemaChange], keys: int | None,
        topics: Sequence[InputDataset],
    ) -> Iterator[OutputDataset]:  # fmt: skip
        """The table at a target, if it is there yet. keys: that were written; None: it is not known."""
        location = lake_location(target)
        lake_table = tables.engine_of(spark, engine, location.format)(spark, location.name)
        if target not in self._known:
            if not lake_table.exists():
                return
            masked = private_of(lake_table.properties())
            self._known[target] = _KnownTable(*_dataset_name(lake_table.folder()), masked)
        namespace, name, private = self._known[target]
        columns = lake_table.read().schema.fields
        facets: dict[str, DatasetFacet] = {
            "schema": SchemaDatasetFacet([SchemaDatasetFacetFields(c.name, c.dataType.simpleString()) for c in columns])
        }
        if topics:
            facets["columnLineage"] = _column_lineage([c.name for c in columns], steps, private, topics)
        of_output: dict[str, OutputDatasetFacet] = {}
        if keys is not None:
            of_output["outputStatistics"] = OutputStatisticsOutputDatasetFacet(keys)
        yield OutputDataset(namespace, name, facets=facets, outputFacets=of_output)

    def _send(
        self, state: RunState, facets: dict[str, RunFacet], inputs: Sequence[InputDataset] = (),
        outputs: Sequence[OutputDataset] = (),
    ) -> None:  # fmt: skip
        of_job: dict[str, JobFacet] = {"jobType": JobTypeJobFacet("STREAMING", "TICDC_BRIDGE", "JOB")}
        event = RunEvent(
            eventTime=datetime.now(UTC).isoformat(), run=Run(self.run_id, {**facets}), eventType=state,
            job=Job(self.namespace, self.name, of_job), inputs=[*inputs], outputs=[*outputs], producer=_PRODUCER,
        )  # fmt: skip
        self.client.emit(event)


@contextmanager
def _as_warning() -> Iterator[None]:
    """Around what goes into an event: Spark, catalogs and transports raise errors of their own."""
    try:
        yield
    except Exception as error:
        text = mask_credentials(f"{type(error).__name__}: {shorten_message(error)[:300]}")
        print(f"warning: an event of OpenLineage was not sent: {text}", file=sys.stderr)


def _dataset_name(folder: str) -> tuple[str, str]:
    """Namespace and name. folder: a path, or a URL, whose name and password are left out."""
    folder = without_file_scheme(folder)
    scheme, _, rest = folder.rpartition("://")
    if not scheme:
        return "file", folder.rstrip("/")
    authority, _, path = rest.partition("/")
    if ":" in authority.rpartition("@")[0]:
        authority = authority.rpartition("@")[2]
    return f"{scheme.replace('s3a', 's3')}://{authority}", ("/" if scheme == "hdfs" else "") + path.rstrip("/")


def _column_lineage(
    columns: Sequence[str], steps: Sequence[SchemaChange], private: Mapping[str, str], topics: Sequence[InputDataset]
) -> ColumnLineageDatasetFacet:
    known, sources = next((s.after for s in reversed(steps) if s.after is not None), None), dict[str, Fields]()
    for column in columns:
        if known is None or column in known.by_name:
            is_masked = column.lower() in private
            how = Transformation("DIRECT", "TRANSFORMATION" if is_masked else "IDENTITY", masking=is_masked)
            names = [*_names_over_time(column, steps)]
            sources[column] = Fields([InputField(t.namespace, t.name, n, [how]) for t in topics for n in names])
    return ColumnLineageDatasetFacet(sources)


def _names_over_time(name: str, steps: Sequence[SchemaChange]) -> Iterator[str]:
    """The names of a column in messages: its own, and those before each RENAME."""
    yield name
    for step in reversed(steps):
        if (old := step.old_name(name)) is not None:
            name = old
            yield old
