"""A micro-batch whose tables are all written without Spark's MERGE: one Spark job decodes it and hands its changes over
as Arrow's bytes, so that no row of them is one of the JVM's (docs/decisions/0050).
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.spark_jobs.arrow.arrow_types import arrow_schema_of
from ticdc_bridge.spark_jobs.arrow.change_schema import arrow_schema
from ticdc_bridge.spark_jobs.arrow.library import keep, pa, pc
from ticdc_bridge.spark_jobs.lake.direct_merge import REFUSALS, DirectTable, LastChanges
from ticdc_bridge.spark_jobs.pipeline.job import Job
from ticdc_bridge.spark_jobs.pipeline.result import OTHER_TABLE, TableMerge, TableProgress
from ticdc_bridge.spark_jobs.spark.session import is_connect
from ticdc_bridge.spark_jobs.spark.transport import map_messages
from ticdc_bridge.spark_jobs.streaming.pieces import PieceBatches, pieces_type
from ticdc_bridge.spark_jobs.streaming.stages import BatchResult, count_rows

_MOST_BYTES = 1 << 29
"""Bytes of a batch's changes, of all tasks together, that this process takes."""
_PACKED = (
    "kind string, tally map<string,bigint>, messages bigint, watermarks map<int,bigint>, offsets map<int,bigint>,"
    " error struct<code:string,fields:string>, data binary"
)
_CHANGE = ("kind", "op", "commit_ts", "db", "table", "before", "after", "flags", "row")
BeginMerge = Callable[[BatchResult, int], AbstractContextManager[None]]
"""What is known of a batch, and the newest commit_ts of all its rows → what its commits are made in."""
OpenTable = Callable[[TableId], DirectTable | None]
"""A table by its name in the changes; None: it is none of the job's. One of REFUSALS where Spark has to merge it."""


@dataclass(frozen=True)
class PackedChanges:
    """Rows of the input → pieces without what was made of events: change events come as Arrow's bytes (`data`), up to
    `most` of them; one of kind "many" says that there were more.
    """

    read: PieceBatches
    packed: Any
    most: int
    names: Sequence[str]

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        changes, size = list[Any](), 0
        for pieces in self.read(batches):
            is_change = pc.equal(pieces.column("kind"), "out")
            rest, made = pieces.filter(pc.invert(is_change)), pieces.filter(is_change)
            if len(rest):
                columns = [rest.column(f.name) for f in self.packed if f.name != "data"]
                yield pa.RecordBatch.from_arrays([*columns, pa.nulls(len(rest), pa.binary())], schema=self.packed)
            if len(made) and size <= self.most:
                size += made.nbytes
                event = made.column("change")
                fields = dict(zip((f.name for f in event.type), event.flatten(), strict=True))
                changes.append(pa.table({n: fields[n] for n in self.names} | {"position": made.column("position")}))
        if size > self.most:
            yield pa.RecordBatch.from_pylist([{"kind": "many"}], self.packed)
        elif changes:
            sink, table = pa.BufferOutputStream(), pa.concat_tables(changes)
            with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
                writer.write_table(table)
            yield pa.RecordBatch.from_pylist([{"kind": "changes", "data": sink.getvalue().to_pybytes()}], self.packed)


def merge_directly(frame: DataFrame, job: Job, open_table: OpenTable, begin: BeginMerge) -> BatchResult | None:
    """Decodes a micro-batch and merges it. None: it goes by Spark, also where something of it is written already; the
    same changes do nothing twice. begin: is called before the first table is written.
    """
    query: Any = frame._jdf
    most = _MOST_BYTES // max(1, query.queryExecution().toRdd().getNumPartitions())
    read = PieceBatches(job, "change", arrow_schema_of(pieces_type()))
    names = (*_CHANGE, "source") if job.read.format == "avro" else _CHANGE  # whose deletes have no commit_ts
    rows = map_messages(frame, PackedChanges(read, arrow_schema(_PACKED), most, names), _PACKED).collect()
    if any(row["kind"] in ("dead", "many") for row in rows):
        return None
    result = count_rows([row for row in rows if row["data"] is None], skips_fatal=False)
    summary, merges, times = result.summary, list[tuple[DirectTable, LastChanges, int]](), list[int]()

    def merge(item: tuple[DirectTable, LastChanges, int]) -> None:
        (table, last, count), began = item, time.monotonic()
        table.merge(last)
        name, newest = str(table.columns.settings.id), last.newest_ts
        summary.merges[name] = TableMerge(time.monotonic() - began, newest)
        summary.ways[name, ""] += 1
        summary.tables.append(TableProgress(name, count, len(last.keys), newest))

    try:
        for id_, changes in _tables([pa.ipc.open_stream(row["data"]).read_all() for row in rows if row["data"]]):
            if id_ is None:
                summary.skipped.update(changes.column("kind").to_pylist())
                continue
            oldest_and_newest = pc.min_max(changes.column("commit_ts")).as_py()
            if oldest_and_newest["max"] is None:
                return None
            times += oldest_and_newest.values()
            if (table := open_table(id_)) is None:
                summary.skipped[OTHER_TABLE] += len(changes)
            else:
                merges.append((table, table.last_of(changes), len(changes)))
        result.commit_ts = (min(times), max(times)) if times else None
        with begin(result, max(times, default=-1)), ThreadPoolExecutor(job.at_once, "table") as pool:
            list(pool.map(merge, merges))
    except REFUSALS:
        return None
    summary.out = sum(progress.out for progress in summary.tables)
    return result


def _tables(packed: Sequence[Any]) -> Iterator[tuple[TableId | None, Any]]:
    """The row changes of each table, by its folded name; None: events that are no rows."""
    if not packed:
        return
    changes, by_id = pa.concat_tables(packed), dict[TableId, list[str]]()
    is_row = pc.equal(changes.column("kind"), "row")
    yield None, changes.filter(pc.invert(is_row))
    changes = keep(changes, is_row)
    names = pc.binary_join_element_wise(changes.column("db"), changes.column("table"), "\0")
    for name in pc.unique(names).to_pylist():  # TiDB takes names in any letters
        by_id.setdefault(TableId(*name.split("\0")).folded, []).append(name)
    for id_, letters in by_id.items():
        yield id_, keep(changes, pc.is_in(names, pa.array(letters)))


def can_merge_directly(session: Any, job: Job) -> bool:
    """False for a job whose batches all go by Spark."""
    is_plain = job.current and job.changelog is None and job.versions is None and job.order == "commit_ts"
    return (
        job.merge is not None and is_plain and job.held_by is None and not job.needs_order and not is_connect(session)
    )
