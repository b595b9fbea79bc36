"""Tables that stopped while a stream goes on: their changes wait beside the checkpoint (docs/decisions/0051)."""

import hashlib
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.spark_jobs.streaming.checkpoint import Checkpoint

_FILE: Final = "set_aside.json"  # of the checkpoint
MOST_ROWS: Final = 20_000_000
MOST_BATCHES: Final = 10_000
"""Of a table's changes that wait."""
_LONGEST_PAUSE: Final = 10  # of 2^n micro-batches


class SetAsideTables:
    """By the key that spark_jobs.streaming.many_tables gives a table. Of each is kept: db, table; reason; seen, what it
    was tried with; tried, in which micro-batch; tries; needs, up to which commit_ts changes are gone; batches: number,
    rows and largest commit_ts of each that waits.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._tables: dict[str, dict[str, Any]] = checkpoint.read(_FILE, {})
        self._untried = set(self._tables)

    def __contains__(self, key: str) -> bool:
        return key in self._tables

    def ids(self) -> dict[str, TableId]:
        return {key: TableId(table["db"], table["table"]) for key, table in self._tables.items()}

    def reason(self, key: str) -> tuple[int, str]:
        """How many changes wait, and why."""
        return _rows(self._tables[key]["batches"]), self._tables[key]["reason"]

    def needs(self, key: str) -> int:
        """Up to which commit_ts changes are gone that waited too long; -1: none are."""
        return int(self._tables[key]["needs"]) if key in self._tables else -1

    def is_due(self, key: str, number: int, seen: list[int]) -> bool:
        """True if the table is to be tried in this micro-batch. seen: what it is tried with."""
        table = self._tables[key]
        next_try: int = table["tried"] + (1 << min(table["tries"], _LONGEST_PAUSE))
        return key in self._untried or table["seen"] != seen or number >= next_try

    def waiting(self, key: str, number: int, session: SparkSession) -> DataFrame | None:
        """The changes of the micro-batches before this one; None: there are none."""
        paths = [self._checkpoint.rows_at(_folder(key), n) for n, *_ in self._tables[key]["batches"] if n < number]
        return session.read.option("mergeSchema", "true").parquet(*paths) if paths else None

    def keep(self, key: str, id_: TableId, number: int, changes: DataFrame | None, rows: int, newest: int) -> int:
        """Keeps a micro-batch's changes, once; how many older ones are kept no more. newest: their last commit_ts."""
        new = {"needs": -1, "batches": [], "reason": "", "seen": [], "tried": number, "tries": 0}
        table = self._tables.setdefault(key, new) | {"db": id_.db, "table": id_.table}
        batches, gone = [batch for batch in table["batches"] if batch[0] != number], []
        if changes is not None:
            changes.coalesce(1).write.mode("overwrite").parquet(self._checkpoint.rows_at(_folder(key), number))
            batches.append([number, rows, newest])
        while len(batches) > 1 and (_rows(batches) > MOST_ROWS or len(batches) > MOST_BATCHES):
            gone.append(batches.pop(0))
        self._store(key, table | {"batches": batches, "needs": max([table["needs"], *(batch[2] for batch in gone)])})
        for batch in gone:
            self._checkpoint.forget(_folder(key), batch[0])
        return _rows(gone)

    def record_try(self, key: str, number: int, seen: list[int], reason: str) -> bool:
        """Keeps why a table, whose changes are kept, stopped; True if that is another reason than before."""
        self._untried.discard(key)
        table = self._tables[key]
        is_new: bool = table["reason"] != reason
        tries = 0 if is_new else table["tries"] + 1
        self._store(key, table | {"reason": reason, "seen": seen, "tried": number, "tries": tries})
        return is_new

    def release(self, key: str) -> int:
        """The table goes on; how many changes had waited."""
        batches = self._tables[key]["batches"]
        self._store(key, None)
        self._checkpoint.forget(_folder(key))
        return _rows(batches)

    def _store(self, key: str, table: dict[str, Any] | None) -> None:
        self._tables = {**self._tables, key: table} if table else {k: t for k, t in self._tables.items() if k != key}
        self._checkpoint.keep(_FILE, self._tables)


def _rows(batches: list[list[int]]) -> int:
    return sum(rows for _, rows, _ in batches)


def _folder(key: str) -> str:
    return f"set_aside/{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"
