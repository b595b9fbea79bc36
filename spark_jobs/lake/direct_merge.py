"""A batch's last changes into a Delta table with deletion vectors, without Spark: the rows that they replace are marked
as gone, the new ones are appended, in one commit. By the same rules as `spark_jobs.lake.merge`.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
import pyarrow.parquet
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ticdc_bridge.schemas.model.table import Table
from ticdc_bridge.schemas.model.types import BYTES, Kind
from ticdc_bridge.spark_jobs.arrow.library import pa
from ticdc_bridge.spark_jobs.arrow.typed_changes import ORDER, ColumnShape, TableShape, UnusualChanges, typed_changes
from ticdc_bridge.spark_jobs.lake.change_checks import INEXACT_FLAGS
from ticdc_bridge.spark_jobs.lake.column_history import SchemaChange
from ticdc_bridge.spark_jobs.lake.commit_summary import FACTS_OF_DELTA
from ticdc_bridge.spark_jobs.lake.delta_protocol.data_file import arrow_type, path_of_file, write_rows
from ticdc_bridge.spark_jobs.lake.delta_protocol.deletion_vector import read_vector, write_vectors
from ticdc_bridge.spark_jobs.lake.delta_protocol.key_search import FoundRows, check_key, find_rows
from ticdc_bridge.spark_jobs.lake.delta_protocol.transaction_log import (
    Action,
    Snapshot,
    TransactionLog,
    UnsupportedTable,
    log_of,
)
from ticdc_bridge.spark_jobs.lake.engines.base import LakeTable
from ticdc_bridge.spark_jobs.lake.table_columns import LOADED, TableColumns, find_lag, newest_gap
from ticdc_bridge.spark_jobs.lake.tombstones import COMMIT_TS, RESERVED_NAMES
from ticdc_bridge.spark_jobs.pipeline.table_view import transition_dates

NO_VECTORS = "it has no deletion vectors"
REFUSALS = (UnusualChanges, UnsupportedTable, OSError, ValueError, pa.ArrowException)
"""What leaves a batch to Spark, which tells what is wrong if something is."""
_MOST_CHANGES, _MOST_BYTES = 2_000_000, 1 << 28
_SMALL_FILE, _MANY_FILES = 4 << 20, 50
_TRIES = 20
_CHECKPOINT_EVERY = 50
"""Commits after which a checkpoint of the log is written."""
_TIGHT = re.compile(r',\s*"tightBounds"\s*:\s*(?:true|false)|"tightBounds"\s*:\s*(?:true|false)\s*,')


@dataclass(frozen=True)
class LastChanges:
    """One change a key. keys: the key's columns; commit_ts, is_deleted: of each. rows: the columns of those that are
    not deleted, and rows_of: their numbers among the keys.
    """

    keys: Any
    commit_ts: Any
    is_deleted: Any
    rows: Any
    rows_of: Any

    @staticmethod
    def of(upserts: Any, deletes: Any, key: Sequence[str]) -> LastChanges:
        """The last changes of upserts and deletes (spark_jobs.arrow.typed_changes).

        At one commit_ts a delete comes before an insert: an update of the key is both (docs/decisions/0031).
        """
        both = pa.concat_tables([upserts.select([*key, *ORDER]), deletes.select([*key, *ORDER])]).combine_chunks()
        ts, position, row = (np.asarray(both.column(name)) for name in ORDER)
        is_deleted = np.arange(len(both)) >= len(upserts)
        order, ranks = np.lexsort((row, position, ~is_deleted, ts)), np.zeros(len(both), np.int64)
        ranks[order] = np.arange(len(both))
        ranked = both.select(key).append_column("\0rank", pa.array(ranks)).group_by(key).aggregate([("\0rank", "max")])
        last = np.sort(order[np.asarray(ranked.column("\0rank_max"))])
        kept = last[~is_deleted[last]]
        rows = upserts.drop_columns([*ORDER]).take(pa.array(kept)).append_column(COMMIT_TS, pa.array(ts[kept]))
        keys = both.select(key).take(pa.array(last))
        return LastChanges(keys, ts[last], is_deleted[last], rows, np.flatnonzero(~is_deleted[last]))


def open_log(lake_table: LakeTable) -> tuple[TransactionLog, Snapshot]:
    """The log of a Delta table with deletion vectors that can be written from here. UnsupportedTable for any other."""
    folder = getattr(lake_table, "log_folder", None)
    log = log_of(folder or "")
    snapshot = log.snapshot() if folder else None
    if snapshot is None or snapshot.configuration.get("delta.enableDeletionVectors") != "true":
        raise UnsupportedTable(NO_VECTORS)
    return log, snapshot


@dataclass(frozen=True)
class DirectTable:
    """A table and that of its deleted keys (`deleted` None: there is none), as they were, and what changes are like."""

    log: TransactionLog
    tombstones: TransactionLog
    snapshot: Snapshot
    deleted: Snapshot | None
    shape: TableShape
    columns: TableColumns

    @property
    def loaded_ts(self) -> int:
        """As `TableColumns.time_of` has LOADED."""
        return int(self.snapshot.configuration.get(LOADED, -1))

    @property
    def _has_positions(self) -> bool:
        """Whether deletes without a commit_ts (Avro) are among those of the deleted keys."""
        return self.deleted is not None and not RESERVED_NAMES.isdisjoint(self.deleted.fields)

    @staticmethod
    def of(columns: TableColumns, table: Table, steps: Sequence[SchemaChange]) -> DirectTable:
        """UnsupportedTable for a table that is not written so, or not yet. steps: its history."""
        log, snapshot = open_log(columns.lake_table)
        tombstones = log_of(getattr(columns.tombstone_table, "log_folder", ""))
        if columns.settings.null_values:
            raise UnsupportedTable("its messages have null values after deletes")
        if not all(map(find_spec, ("deltalake", "pyroaring"))):
            raise UnsupportedTable("deltalake and pyroaring are not installed")
        deleted = tombstones.snapshot() if tombstones.exists() else None
        settings, fields = columns.settings, snapshot.fields
        for each in filter(None, (snapshot, deleted)):
            each.refuse_others()
        types = {name: (field.kind, field.comment) for name, field in fields.items()}
        if (lag := find_lag(settings, table, steps, snapshot.configuration, types)) is not None:
            raise UnsupportedTable(lag)
        stored = [c for c in table.columns if not c.virtual]
        key = [c.name for c in stored if c.handle_key]
        if settings.on_lossy == "error" and any(c.handle_key and "_ci" in c.collate for c in stored):
            raise UnsupportedTable("its key's collation takes other letters for the same")
        if not key:
            raise UnsupportedTable("it has no key")
        for name in key:
            check_key(fields[name])
        kinds = {name: field.kind for name, field in (deleted or snapshot).fields.items() if name not in RESERVED_NAMES}
        if deleted is not None and kinds != {name: fields[name].kind for name in (*key, COMMIT_TS)}:
            raise UnsupportedTable("its deleted keys have other columns")
        shapes = {c.name: ColumnShape(arrow_type(fields[c.name]), c.type.kind in BYTES, settings.zone) for c in stored}
        since = max(newest_gap(snapshot.configuration), steps[-1].commit_ts if steps else -1)
        days = sorted(transition_dates(settings.zone))
        folds = {c.name: days for c in stored if c.handle_key and days and c.type.kind is Kind.TIMESTAMP}
        shape = TableShape(shapes, key, since, INEXACT_FLAGS, folds)
        return DirectTable(log, tombstones, snapshot, deleted, shape, columns)

    def merge_frame(self, changes: DataFrame) -> tuple[int, int]:
        """Merges row changes: how many keys, and the newest commit_ts. One of REFUSALS where Spark has to do it."""
        size = "octet_length(concat_ws('', map_values(after))) + octet_length(concat_ws('', map_values(before)))"
        facts = F.count(F.lit(1)), F.count("commit_ts"), F.sum(F.expr(size))
        count, timed, total = changes.agg(*facts).collect()[0]
        if not count or timed < count or count > _MOST_CHANGES or (total or 0) > _MOST_BYTES:
            raise UnusualChanges("more changes than this process takes, or some without a commit_ts")
        last = self.last_of(changes.select("op", "before", "after", "flags", *ORDER.values()).toArrow())
        self.merge(last)
        return len(last.keys), int(last.commit_ts.max())

    def last_of(self, changes: Any) -> LastChanges:
        """The last changes in an Arrow table of changes. UnusualChanges where Spark has to look at them."""
        return LastChanges.of(*typed_changes(changes, self.shape), self.shape.key)

    def merge(self, changes: LastChanges) -> None:
        """Brings the changes into the table: an upsert that is newer than its row and its key's delete, and a delete
        that is newer than its row. Deletes are remembered first (docs/decisions/0031); the table gets one commit. After
        a commit of somebody else the rows are looked for again.
        """
        facts = self.columns.spark.conf.get(FACTS_OF_DELTA, None)
        if changes.is_deleted.any():
            if self.deleted is None or self._has_positions:
                why = "the first deletes" if self.deleted is None else "a delete beside some without a commit_ts"
                raise UnusualChanges(why)
            mask = pa.array(changes.is_deleted)
            rows = changes.keys.filter(mask).append_column(COMMIT_TS, pa.array(changes.commit_ts[changes.is_deleted]))
            _commit(self.tombstones, self.deleted, lambda snapshot: _append(self.tombstones, snapshot, rows), facts)
        _commit(self.log, self.snapshot, lambda snapshot: self._replace(snapshot, changes), facts)
        for lake_table, log in ((self.columns.lake_table, self.log), (self.columns.tombstone_table, self.tombstones)):
            if log.exists() and _has_many_files(log.snapshot()):
                lake_table.join_files(_SMALL_FILE)  # type: ignore[attr-defined]  # it has log_folder, too

    def _late(self, changes: LastChanges) -> Any:
        """Which changes (bool) are older than the delete of their key."""
        late = np.zeros(len(changes.commit_ts), bool)
        if self.deleted is not None and len(changes.rows_of):
            oldest, snapshot = int(changes.commit_ts[changes.rows_of].min()), self.tombstones.snapshot()
            for found in _find(self.tombstones, snapshot, changes, oldest, newer_only=not self._has_positions):
                if self._has_positions:  # Kafka's offsets say what such a delete came after (docs/decisions/0042)
                    raise UnusualChanges("a key that was deleted without a commit_ts comes back")
                late[found.numbers[found.times > changes.commit_ts[found.numbers]]] = True
        return late & ~changes.is_deleted

    def _replace(self, snapshot: Snapshot, changes: LastChanges) -> Made:
        late, log = self._late(changes), self.log
        is_known, is_newer = np.zeros(len(late), bool), np.zeros(len(late), bool)
        removes, vectors, adds = list[Action](), dict[str, Any](), list[Action]()
        for found in _find(log, snapshot, changes, int(changes.commit_ts.min())):
            newer = (changes.commit_ts[found.numbers] > found.times) & ~late[found.numbers]
            is_known[found.numbers] = True
            is_newer[found.numbers[newer]] = True
            if newer.any():
                removes.append({"remove": _removal(found.add)})
                if (vector := _vector_after(log, found.add, found.positions[newer])) is not None:
                    vectors[found.add["path"]] = vector
        taken = ((is_newer | ~is_known) & ~late)[changes.rows_of]
        file, descriptors = write_vectors(log.table, vectors)
        files = [] if file is None else [file]
        adds += [{"add": _with_vector(log, snapshot.files[path], of)} for path, of in descriptors.items()]
        if taken.any():
            add = _append(log, snapshot, changes.rows.filter(pa.array(taken)))
            adds, files = [*adds, *add.actions], [*files, *add.files]
        metrics = {"numSourceRows": len(late), "numOutputRows": int(taken.sum())}
        return Made("MERGE", metrics, [*removes, *adds], files)


class Made(NamedTuple):
    """What a commit is to have; files: what is written for it."""

    operation: str
    metrics: dict[str, int]
    actions: list[Action]
    files: list[Path]


def _commit(log: TransactionLog, first: Snapshot, make: Callable[[Snapshot], Made], facts: str | None) -> None:
    """Commits what is made of the newest snapshot. facts: as JSON. UnsupportedTable for another table than at first."""
    for _ in range(_TRIES):
        snapshot = log.snapshot()
        if (snapshot.metadata, snapshot.protocol) != (first.metadata, first.protocol):
            break
        made = make(snapshot)
        if not made.actions:
            return
        info = {
            "timestamp": int(time.time() * 1000), "operation": made.operation, "operationParameters": {},
            "readVersion": snapshot.version, "isolationLevel": "Serializable",
            "isBlindAppend": made.operation == "WRITE",
            "operationMetrics": {name: str(count) for name, count in made.metrics.items()},
            "engineInfo": "ticdc-bridge", "txnId": str(uuid4()), **({"userMetadata": facts} if facts else {}),
        }  # fmt: skip
        if log.commit(snapshot.version + 1, [{"commitInfo": info}, *made.actions], made.files):
            if (snapshot.version + 1) % _CHECKPOINT_EVERY == 0:
                _write_checkpoint(log.table, snapshot.configuration)
            return
    raise UnsupportedTable("other writers change it all the time")


def _write_checkpoint(table: Path, configuration: Mapping[str, str]) -> None:
    """So that readers need not read all commits, which they do where this fails. Commits that are old enough go."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    with suppress(DeltaError, OSError):
        opened = DeltaTable(table)
        opened.create_checkpoint()
        if configuration.get("delta.enableExpiredLogCleanup", "true").lower() == "true":
            opened.cleanup_metadata()


def _has_many_files(snapshot: Snapshot) -> bool:
    """Whether it is time to join small files, in tables where Delta's own writer does so."""
    if snapshot.configuration.get("delta.autoOptimize.autoCompact") != "true" or snapshot.version % _MANY_FILES:
        return False
    return sum(int(add["size"] < _SMALL_FILE) for add in snapshot.files.values()) >= _MANY_FILES


def _append(log: TransactionLog, snapshot: Snapshot, rows: Any) -> Made:
    add = write_rows(log.table, rows, [snapshot.fields[name] for name in rows.column_names])
    return Made("WRITE", {"numOutputRows": len(rows)}, [{"add": add}], [log.table / add["path"]])


def _find(
    log: TransactionLog, snapshot: Snapshot, changes: LastChanges, since: int, newer_only: bool = False
) -> Iterator[FoundRows]:
    key = [snapshot.fields[name] for name in changes.keys.column_names]
    wanted, time_field = [column.combine_chunks() for column in changes.keys.columns], snapshot.fields[COMMIT_TS]
    return find_rows(log.table, snapshot.files.values(), key, time_field, wanted, since, newer_only)


def _vector_after(log: TransactionLog, add: Action, positions: Any) -> Any:
    """A file's deletion vector with these positions too; None where no row is left."""
    from pyroaring import BitMap64

    descriptor = add.get("deletionVector")
    vector = BitMap64() if descriptor is None else read_vector(log.table, descriptor)
    vector.update(positions.tolist())
    return None if len(vector) >= _count_rows(log, add) else vector


def _count_rows(log: TransactionLog, add: Action) -> int:
    """The rows of a data file, also those that are gone."""
    count: int | None = json.loads(add.get("stats") or "{}").get("numRecords")
    return pyarrow.parquet.read_metadata(path_of_file(log.table, add["path"])).num_rows if count is None else count


def _with_vector(log: TransactionLog, add: Action, descriptor: Action) -> Action:
    """The file again, with another vector: its bounds are those of all rows, also of those that are gone. They stay as
    they are written: a number may have more digits than a float.
    """
    stats = add.get("stats") or "{}"
    if json.loads(stats).get("numRecords") is None:
        stats = json.dumps({"numRecords": _count_rows(log, add)})
    stats = '{"tightBounds":false,' + _TIGHT.sub("", stats).strip()[1:]
    return {**add, "deletionVector": descriptor, "dataChange": True, "stats": stats}


def _removal(add: Action) -> Action:
    names = "path", "partitionValues", "size", "tags", "deletionVector"
    kept: Action = {name: add[name] for name in names if name in add}
    return {**kept, "deletionTimestamp": int(time.time() * 1000), "dataChange": True, "extendedFileMetadata": True}
