"""The DDL events of an input, collected by Spark: what jobs learn of a stream's tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ticdc_bridge.schemas.inspect.format_lookup import format_named
from ticdc_bridge.schemas.model.errors import BridgeError
from ticdc_bridge.schemas.model.event import DdlEvent, Message
from ticdc_bridge.spark_jobs.arrow.change_schema import arrow_schema
from ticdc_bridge.spark_jobs.arrow.input_batches import message_of_input
from ticdc_bridge.spark_jobs.arrow.library import pa
from ticdc_bridge.spark_jobs.arrow.messages import RowFinder
from ticdc_bridge.spark_jobs.io.message_files import rows_of
from ticdc_bridge.spark_jobs.pipeline.codec_config import PLAIN
from ticdc_bridge.spark_jobs.pipeline.job import Job
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message
from ticdc_bridge.spark_jobs.pipeline.stream_definitions import commit_ts_of_statement
from ticdc_bridge.spark_jobs.spark.transport import map_messages

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


DDL_EVENTS = "position bigint, number int, db string, `table` string, commit_ts bigint, query string"


@dataclass(frozen=True)
class DdlBatches:
    """Rows of the input → the DDL events in them (DDL_EVENTS). What can't be read is left to PieceBatches."""

    job: Job
    schema: Any

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Any]:
        decoder, rows = self.job.read.decoder(), RowFinder(self.job.read)
        for batch in batches:
            others = rows.find_others(batch)
            out = [row for input_row in rows_of(others) for row in self._events(decoder, input_row)]
            yield pa.RecordBatch.from_pylist(out, schema=self.schema)

    def _events(self, decoder: Any, input_row: dict[str, Any]) -> Iterator[dict[str, Any]]:
        try:
            item = message_of_input(input_row, self.job.read.format == PLAIN)
            events = decode_message(decoder, item).events if isinstance(item, Message) else []
        except BridgeError:
            return
        for number, event in enumerate(events):
            if isinstance(event, DdlEvent):
                yield {
                    "position": input_row["position"], "number": number, "db": event.db, "table": event.table,
                    "commit_ts": commit_ts_of_statement(event), "query": event.query,
                }  # fmt: skip


def collect_ddl(frame: DataFrame, job: Job) -> list[DdlEvent]:
    """The DDL events of the input in its order: workers see parts of it only, so the driver must know them first."""
    if not format_named(job.read.format).carries_ddl:
        return []
    rows = map_messages(frame, DdlBatches(job, arrow_schema(DDL_EVENTS)), DDL_EVENTS)
    return [
        DdlEvent(job.read.format, r["db"], r["table"], r["commit_ts"], None, r["query"])
        for r in rows.sort("position", "number").collect()
    ]
