"""A batch's last changes into a Delta table with deletion vectors, without Spark: the rows that they replace are marked
as gone, the new ones are appended, in one commit. By the same rules as `spark_jobs.lake.merge`.
"""

from __future__ import annotations

import json
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
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
from ticdc_bridge.spark_jobs.arrow.library import pa, pc
from ticdc_bridge.spark_jobs.arrow.typed_changes import (
    ORDER,
    SOURCE,
    ColumnShape,
    TableShape,
    UnusualChanges,
    typed_changes,
)
from ticdc_bridge.spark_jobs.lake.change_checks import INEXACT_FLAGS
from ticdc_bridge.spark_jobs.lake.column_history import SchemaChange
from ticdc_bridge.spark_jobs.lake.commit_summary import FACTS_OF_DELTA
from ticdc_bridge.spark_jobs.lake.delta_protocol import key_search
from ticdc_bridge.spark_jobs.lake.delta_protocol.data_file import arrow_type, path_of_file, write_rows
from ticdc_bridge.spark_jobs.lake.delta_protocol.deletion_vector import read_vector, write_vectors
from ticdc_bridge.spark_jobs.lake.delta_protocol.key_search import AFTER_ALL, FoundRows, find_rows, match_keys
from ticdc_bridge.spark_jobs.lake.delta_protocol.transaction_log import (
    Action,
    Snapshot,
    TransactionLog,
    UnsupportedTable,
    log_of,
)
from ticdc_bridge.spark_jobs.lake.engines.base import LakeTable
from ticdc_bridge.spark_jobs.lake.table_columns import LOADED, TableColumns, find_lag, newest_gap
from ticdc_bridge.spark_jobs.lake.tombstones import COMMIT_TS, POSITION, RESERVED_NAMES
from ticdc_bridge.spark_jobs.lake.untimed_deletes import KafkaPosition, KeyChange, StoredKey, last_change, latest
from ticdc_bridge.spark_jobs.pipeline.table_view import transition_dates

NO_VECTORS = "it has no deletion vectors"
REFUSALS = (UnusualChanges, UnsupportedTable, OSError, ValueError, pa.ArrowException)
"""What leaves a batch to Spark, which tells what is wrong if something is."""
_MOST_CHANGES, _MOST_BYTES = 2_000_000, 1 << 28
_SMALL_FILE, _MANY_FILES = 4 << 20, 50
_TRIES = 20
_CHECKPOINT_EVERY = 50
"""Commits after which a checkpoint of the log is written."""
_NOWHERE = KafkaPosition(None, None, None, None)
_TIGHT = re.compile(r',\s*"tightBounds"\s*:\s*(?:true|false)|"tightBounds"\s*:\s*(?:true|false)\s*,')


OrderDeletes = Callable[[Any, Any, Any, Any], tuple[Any, ...]]
"""All changes (key, ORDER, SOURCE), which are deletes, the keys, and of each the number of its newest change → the
number of each key's last change, its commit_ts, and what LastChanges has as `late`, `remembered` and `found`.
"""


@dataclass(frozen=True)
class LastChanges:
    """One change a key. keys: the key's columns; commit_ts, is_deleted: of each; newest_ts: of all changes. rows: the
    columns of those that are not deleted, and rows_of: their numbers among the keys. late: which are older than their
    key's delete; remembered: new rows of deleted keys, and where those are that they replace; None: to be found by
    commit_ts. found: the rows of all keys in the DirectTable's snapshot, None: not looked for yet.
    """

    keys: Any
    commit_ts: Any
    is_deleted: Any
    newest_ts: int
    rows: Any
    rows_of: Any
    late: Any = None
    remembered: Any = None
    found: Sequence[FoundRows] | None = None

    @staticmethod
    def of(upserts: Any, deletes: Any, key: Sequence[str], order: OrderDeletes | None = None) -> LastChanges:
        """The last changes of upserts and deletes (spark_jobs.arrow.typed_changes). order: None: all have a commit_ts.

        At one commit_ts a delete comes before an insert: an update of the key is both (docs/decisions/0031).
        """
        names = [name for name in deletes.column_names if name in (*key, *ORDER, SOURCE)]
        both = pa.concat_tables([upserts.select(names), deletes.select(names)]).combine_chunks()
        ts, position, row = (np.asarray(both.column(name).fill_null(-1)) for name in ORDER)
        is_deleted = np.arange(len(both)) >= len(upserts)
        by_time, ranks = np.lexsort((row, position, ~is_deleted, ts)), np.zeros(len(both), np.int64)
        ranks[by_time] = np.arange(len(both))
        ranked = both.select(key).append_column("\0rank", pa.array(ranks)).group_by(key).aggregate([("\0rank", "max")])
        last = np.sort(by_time[np.asarray(ranked.column("\0rank_max"))])
        keys, times, more = both.select(key).take(pa.array(last)), ts[last], list[Any]()
        if order is not None:
            last, times, *more = order(both, is_deleted, keys, last)
        gone, kept = is_deleted[last], last[~is_deleted[last]]
        rows = upserts.drop_columns([n for n in names if n not in key]).take(pa.array(kept))
        rows = rows.append_column(COMMIT_TS, pa.array(ts[kept]))
        return LastChanges(keys, times, gone, int(ts.max()), rows, np.flatnonzero(~gone), *more)


def open_log(lake_table: LakeTable) -> tuple[TransactionLog, Snapshot]:
    """The log of a Delta table with deletion vectors that can be written from here. UnsupportedTable for any other."""
    folder = getattr(lake_table, "log_folder", None)
    log = log_of(folder or "")
    snapshot = log.snapshot() if folder else None
    if snapshot is None or not _has_vectors(snapshot):
        raise UnsupportedTable(NO_VECTORS)
    return log, snapshot


def _has_vectors(snapshot: Snapshot) -> bool:
    return snapshot.configuration.get("delta.enableDeletionVectors") == "true"


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
        if (folder := getattr(columns.tombstone_table, "log_folder", None)) is None:
            raise UnsupportedTable("its deleted keys are not there")
        tombstones = log_of(folder)
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
            key_search.check_key(fields[name])
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
        if not count or count > _MOST_CHANGES or (total or 0) > _MOST_BYTES:
            raise UnusualChanges("more changes than this process takes")
        source = ["source"] if timed < count or self._has_positions else []
        last = self.last_of(changes.select("op", "before", "after", "flags", *ORDER.values(), *source).toArrow())
        self.merge(last)
        return len(last.keys), last.newest_ts

    def last_of(self, changes: Any) -> LastChanges:
        """The last changes in an Arrow table of changes. UnusualChanges where Spark has to look at them."""
        upserts, deletes = typed_changes(changes, self.shape)
        if not deletes.column("\0commit_ts").null_count and not self._has_positions:
            return LastChanges.of(upserts, deletes, self.shape.key)
        fields: Mapping[str, Any] = self.deleted.fields if self.deleted is not None else {}
        if RESERVED_NAMES & fields.keys() != {POSITION} or "source" not in changes.column_names:
            raise UnusualChanges("the first deletes without a commit_ts")
        if self.deleted is None or not _has_vectors(self.deleted):
            raise UnusualChanges("its deleted keys have no deletion vectors")
        moments = pc.divide(pc.struct_field(changes.column("source"), "timestamp").cast(pa.int64()), 1000)
        lead = pc.min(pc.subtract(moments, pc.shift_right(changes.column("commit_ts"), 18))).as_py()
        order = partial(self._order_deletes, lead is not None and lead >= 0)
        return LastChanges.of(upserts, deletes, self.shape.key, order)

    def _order_deletes(self, clocks_agree: bool, both: Any, is_deleted: Any, keys: Any, last: Any) -> tuple[Any, ...]:
        """An OrderDeletes, by spark_jobs.lake.untimed_deletes."""
        ts, names = both.column("\0commit_ts"), keys.column_names
        rows, numbers = match_keys(*([of.column(n).combine_chunks() for n in names] for of in (both, keys)))
        key_of = np.zeros(len(both), np.int64)
        key_of[rows] = numbers
        assert len(rows) == len(both)
        assert self.deleted is not None
        stored = [*_find(self.log, self.snapshot, keys, 0)]
        deleted = [*_find(self.tombstones, self.deleted, keys, 0, more=self.deleted.fields[POSITION])]
        known = _known_keys(np.unique(key_of[np.asarray(ts.is_null())]).tolist(), stored, deleted)
        chosen = np.flatnonzero(np.isin(key_of, [*known]))
        some, by_key = both.take(pa.array(chosen)), defaultdict[int, list[KeyChange]](list)
        values = zip(
            *(some.column(name).to_pylist() for name in ORDER), _positions_of(some.column(SOURCE)), strict=True
        )
        for number, (commit_ts, *order, source) in zip(chosen.tolist(), values, strict=True):
            change = KeyChange(number, commit_ts, bool(is_deleted[number]), (order[0], order[1]), source or _NOWHERE)
            by_key[int(key_of[number])].append(change)
        times, late = np.asarray(ts.fill_null(-1))[last], np.zeros(len(last), bool)
        remembered = dict[int, tuple[int | None, KafkaPosition | None]]()
        remembered |= {n: (int(times[n]), None) for n in np.flatnonzero(is_deleted[last]).tolist() if n not in known}
        for number, changes in by_key.items():
            times[number] = -1
            if (found := last_change(changes, known[number], clocks_agree)) is not None:
                last[number], late[number] = found.change.number, found.is_late
                times[number] = AFTER_ALL if found.commit_ts is None else found.commit_ts
                if found.until_ts is not None or found.position is not None:
                    _, _, until_ts, position = known[number]
                    remembered[number] = latest(found.until_ts, until_ts), found.position or position
        replaced = [(of.add, of.positions[np.isin(of.numbers, [*remembered])]) for of in deleted]
        replaced = [(add, positions) for add, positions in replaced if len(positions)]
        return last, times, late, (self._rows_of_deleted(keys, remembered), replaced), stored

    def _rows_of_deleted(self, keys: Any, remembered: Mapping[int, tuple[int | None, KafkaPosition | None]]) -> Any:
        """Rows of the deleted keys."""
        assert self.deleted is not None
        kind = arrow_type(self.deleted.fields[POSITION])
        names = [field.name for field in kind]
        positions = [p and dict(zip(names, p, strict=True)) for _, p in remembered.values()]
        times = pa.array([until_ts for until_ts, _ in remembered.values()], pa.int64())
        rows = keys.take(pa.array([*remembered], pa.int64())).append_column(COMMIT_TS, times)
        return rows.append_column(POSITION, pa.array(positions, kind))

    def merge(self, changes: LastChanges) -> None:
        """Brings the changes into the table: an upsert that is newer than its row and its key's delete, and a delete
        that is newer than its row. Deletes are remembered first (docs/decisions/0031); the table gets one commit. After
        a commit of somebody else the rows are looked for again.
        """
        facts, remembered = self.columns.spark.conf.get(FACTS_OF_DELTA, None), changes.remembered
        if remembered is not None:
            if self.deleted is not None and len(remembered[0]):
                _commit(self.tombstones, self.deleted, lambda snapshot: self._remember(snapshot, *remembered), facts)
        elif changes.is_deleted.any():
            if self.deleted is None:
                raise UnusualChanges("the first deletes")
            mask = pa.array(changes.is_deleted)
            rows = changes.keys.filter(mask).append_column(COMMIT_TS, pa.array(changes.commit_ts[changes.is_deleted]))
            _commit(self.tombstones, self.deleted, lambda snapshot: _append(self.tombstones, snapshot, rows), facts)
        _commit(self.log, self.snapshot, lambda snapshot: self._replace(snapshot, changes), facts)
        for lake_table, log in ((self.columns.lake_table, self.log), (self.columns.tombstone_table, self.tombstones)):
            if log.exists() and _has_many_files(log.snapshot()):
                lake_table.join_files(_SMALL_FILE)  # type: ignore[attr-defined]  # it has log_folder, too

    def _remember(self, snapshot: Snapshot, rows: Any, replaced: Sequence[tuple[Action, Any]]) -> Made:
        """Rows of deleted keys in place of those that are there, which they were made of."""
        if self.deleted is None or snapshot.version != self.deleted.version:
            raise UnusualChanges("somebody else changed its deleted keys")
        gone, new = _without(self.tombstones, snapshot, replaced), _append(self.tombstones, snapshot, rows)
        return Made("MERGE", new.metrics, [*gone.actions, *new.actions], [*gone.files, *new.files])

    def _late(self, changes: LastChanges) -> Any:
        """Which changes (bool) are older than the delete of their key."""
        if changes.late is not None:
            return changes.late
        late = np.zeros(len(changes.commit_ts), bool)
        if self.deleted is not None and len(changes.rows_of):
            oldest, snapshot = int(changes.commit_ts[changes.rows_of].min()), self.tombstones.snapshot()
            for found in _find(self.tombstones, snapshot, changes.keys, oldest, newer_only=True):
                late[found.numbers[found.times > changes.commit_ts[found.numbers]]] = True
        return late & ~changes.is_deleted

    def _replace(self, snapshot: Snapshot, changes: LastChanges) -> Made:
        late, log = self._late(changes), self.log
        is_known, is_newer = np.zeros(len(late), bool), np.zeros(len(late), bool)
        replaced, rows = list[tuple[Action, Any]](), changes.found
        if rows is None or snapshot.version != self.snapshot.version:
            rows = [*_find(log, snapshot, changes.keys, int(changes.commit_ts.min()))]
        for found in rows:
            newer = (changes.commit_ts[found.numbers] > found.times) & ~late[found.numbers]
            is_known[found.numbers] = True
            is_newer[found.numbers[newer]] = True
            if newer.any():
                replaced.append((found.add, found.positions[newer]))
        taken = ((is_newer | ~is_known) & ~late)[changes.rows_of]
        made = [_without(log, snapshot, replaced)]
        if taken.any():
            made.append(_append(log, snapshot, changes.rows.filter(pa.array(taken))))
        metrics = {"numSourceRows": len(late), "numOutputRows": int(taken.sum())}
        return Made("MERGE", metrics, [a for of in made for a in of.actions], [f for of in made for f in of.files])


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


def _known_keys(
    untimed: Sequence[int], rows: Sequence[FoundRows], deleted: Sequence[FoundRows]
) -> dict[int, StoredKey]:
    """What is stored of keys that were deleted, and of those with a delete without a commit_ts (`untimed`), by number.
    rows, deleted: those of all keys in the table, and among the deleted keys with their POSITION.
    """
    known = {number: StoredKey() for number in untimed}
    for found in deleted:
        values = zip(found.numbers.tolist(), found.times.tolist(), _positions_of(found.values), strict=True)
        for number, until_ts, position in values:
            before = known.get(number, StoredKey())
            until_ts = latest(before.until_ts, None if until_ts == AFTER_ALL else until_ts)
            known[number] = StoredKey(None, True, until_ts, position or before.position)
    times = {n: ts for of in rows for n, ts in zip(of.numbers.tolist(), of.times.tolist(), strict=True)}
    if AFTER_ALL in times.values():
        raise UnusualChanges("a row without a commit_ts")
    return known | {number: known[number]._replace(row_ts=times.get(number)) for number in untimed}


def _without(log: TransactionLog, snapshot: Snapshot, rows: Sequence[tuple[Action, Any]]) -> Made:
    """Without the rows at positions of files. All removes come first."""
    vectors = {add["path"]: _vector_after(log, add, positions) for add, positions in rows}
    file, descriptors = write_vectors(log.table, {path: of for path, of in vectors.items() if of is not None})
    removes: list[Action] = [{"remove": _removal(add)} for add, _ in rows]
    adds = [{"add": _with_vector(log, snapshot.files[path], of)} for path, of in descriptors.items()]
    return Made("DELETE", {}, [*removes, *adds], [] if file is None else [file])


def _find(
    log: TransactionLog, snapshot: Snapshot, keys: Any, since: int, newer_only: bool = False, more: Any = None
) -> Iterator[FoundRows]:
    key, wanted = [snapshot.fields[name] for name in keys.column_names], [of.combine_chunks() for of in keys.columns]
    files, commit_ts = snapshot.files.values(), snapshot.fields[COMMIT_TS]
    return find_rows(log.table, files, key, commit_ts, wanted, since, newer_only, more) if len(keys) else iter(())


def _positions_of(places: Any) -> list[KafkaPosition | None]:
    """A column of structs as KAFKA_POSITION is one."""
    columns = [of.cast(pa.int64()) if pa.types.is_timestamp(of.type) else of for of in places.flatten()]
    rows = zip(*(column.to_pylist() for column in columns), strict=True)
    return [
        KafkaPosition(*row) if valid else None for valid, row in zip(places.is_valid().to_pylist(), rows, strict=True)
    ]


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
