"""`merge` with changelog and row versions where messages are read in any order, and parts of them again.

One table has a key for each way to read one, so that Spark plans few jobs.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pytest

from tests.spark_jobs.lake.test_merge import rows
from tests.spark_jobs.lake.test_random_histories import _write_ddl, _write_schemas
from tests.support.lake_histories import START, Change, Row
from tests.ticdc_bridge.cli.test_encode import written
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.model.event import Message

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SECOND = 1000 << 18
_LOGS = ("IUDIU", "IRUD", "IRDI", "IMUD", "DIU", "ID|I", "IU|ID", "I|IRU", "IMM|I")
"""Steps of a row: insert, update, delete, R: delete and insert in one transaction, M: an update of the key; "|": the
table's TRUNCATE.
"""
_TRUNCATE_TS = START + 50 * _SECOND - 1
_DDL = [(START - 1, "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20))"), (_TRUNCATE_TS, "TRUNCATE TABLE t")]
_SPLIT = ("avro", "debezium-avro")  # an update of a key is a delete and an insert
_OPS = {"c": "I", "u": "U", "d": "D"}
Version = tuple[int, str | None, int, int | None]
"""Id, name, from and to (commit_ts)."""


class _Reading(NamedTuple):
    """How one key's messages are read: those of `part` (a bit each) first; then the others, now and then after the last
    one of the first again; then those from `first` to `last` again.
    """

    log: str
    part: int
    first: int
    last: int

    def is_early(self, number: int) -> bool:
        return bool(self.part >> number & 1)

    def runs(self, messages: Sequence[Message]) -> tuple[list[Message], list[Message], Sequence[Message]]:
        early, late = ([m for n, m in enumerate(messages) if self.is_early(n) == image] for image in (True, False))
        return early, [*(early[-1:] if self.first % 2 else []), *late], messages[self.first : self.last]


def _readings(format_: str) -> Iterator[_Reading]:
    """Of Avro, whose deletes tell no commit_ts, in the order of one partition; else any part can be another's."""
    chance = random.Random("read again")
    for log in _LOGS:
        length = len(_changes(log, 0, format_ in _SPLIT))
        pieces = [(1 << end) - 1 for end in range(length + 1)] if format_ == "avro" else range(1 << length)
        for piece, (first, last) in product(pieces, combinations(range(length + 1), 2)):
            if format_ == "avro" or chance.random() < 0.25:
                yield _Reading(log, piece, first, last)


def _changes(log: str, key: int, split: bool) -> list[Change]:
    """Of a row with the key 2 * key, after an update of its key the one after that."""
    made, row = list[Change](), cast("Row | None", None)
    begin = 50 - log.index("|") if "|" in log else 51
    for n, step in enumerate(log):
        ts, old = START + (begin + n) * _SECOND, row
        if step == "|":
            row = None
            continue
        if old is None and step != "I":
            old = {"id": str(2 * key), "name": "?"}
        id_ = str(2 * key) if old is None else str(old["id"])
        if step == "M":
            id_ = str(4 * key + 1 - int(id_))
        row = None if step == "D" else {"id": id_, "name": f"{step}{n}"}
        if step == "R" or (step == "M" and split):
            made += [Change(ts, "d", old, None), Change(ts, "c", None, row)]
        else:
            made.append(Change(ts, {"I": "c", "D": "d"}.get(step, "u"), old, row))
    return [replace(entry, types={"id": "int", "name": "varchar"}) for entry in made]


def _versions(changes: Sequence[Change], log: str) -> list[Version]:
    """A delete of a row that is not known is a row without duration."""
    made, open_ = list[Version](), dict[int, tuple[str, int]]()

    def end(id_: int, ts: int) -> None:
        name, begun = open_.pop(id_, (None, ts))
        made.append((id_, name, begun, ts))

    events = [(c.commit_ts, c) for c in changes] + ([(_TRUNCATE_TS, None)] if "|" in log else [])
    for ts, change in sorted(events, key=lambda entry: entry[0]):
        if change is None:
            for id_ in list(open_):
                end(id_, ts)
        elif change.before is not None:
            end(int(change.before["id"] or 0), ts)
        if change is not None and change.after is not None:
            open_[int(change.after["id"] or 0)] = (str(change.after["name"]), ts)
    return [*made, *((id_, name, begun, None) for id_, (name, begun) in open_.items())]


class _History(NamedTuple):
    """What `_write_schemas` takes."""

    changes: list[Change]
    statements: list[tuple[int, str]]


def _placed(
    readings: list[_Reading], keys: list[list[Change]], encoded: list[list[Message]], by_key: bool
) -> list[list[Message]]:
    """Each key's messages with their places, an early part of them in another partition than the rest."""
    made, numbers = list[list[Message]](), iter(encoded)
    for key, (reading, changes) in enumerate(zip(readings, keys, strict=True)):
        messages = list[Message]()
        for n, change in enumerate(changes):
            message, time = next(numbers)[0], (change.commit_ts >> 18) + 1 + n
            partition = 0 if by_key or reading.is_early(n) else 1
            messages.append(replace(message, topic="t", partition=partition, offset=100 * key + n, timestamp=time))
        made.append(messages)
    return made


@pytest.mark.slow
@pytest.mark.parametrize(
    ("format_", "known"), [("craft", 0), ("avro", 0), ("avro", 1), ("canal-json", 1), ("debezium", 0)]
)
def test_what_is_read_again(spark: SparkSession, format_: str, known: int) -> None:
    """Each change is in the changelog once, and each version there once with its end. known: the run from which the
    TRUNCATE is known.
    """
    readings = list(_readings(format_))
    keys = [_changes(entry.log, key, format_ in _SPLIT) for key, entry in enumerate(readings)]
    encoded, argv = _write_schemas(format_, _History([c for changes in keys for c in changes], _DDL))  # type: ignore[arg-type]
    placed = _placed(readings, keys, encoded, format_ == "avro")
    by_key = [entry.runs(messages) for entry, messages in zip(readings, placed, strict=True)]
    argv += ["--out", "delta:now", "--versions", "delta:versions", "--changelog", "delta:log", "--engine", "deltalake"]
    for run in range(3):
        _write_ddl(_DDL[: 1 + (run >= known)], "ddl.jsonl")
        batch = [message for runs in by_key for message in runs[run]]
        assert main([*argv, "--ddl", "ddl.jsonl", "--in", written(batch, f"{run}.jsonl")]) == 0
    existing = {path: _by_key(rows(spark, path)) for path in ("now", "versions", "log")}
    wrong = list[str]()
    for key, (reading, changes) in enumerate(zip(readings, keys, strict=True)):
        expected = _expected(format_, reading.log, changes)
        made = {path: _comparable(path, existing[path][key]) for path in existing}
        wrong += [
            f"{path} of {reading}: {made[path]}, not {expected[path]}" for path in made if made[path] != expected[path]
        ]
    assert not wrong, f"{len(wrong)} of {len(readings)} keys, such as " + "\n".join(wrong[:9])


def _by_key(made: list[dict[str, Any]]) -> dict[int, list[dict[str, Any]]]:
    by_key = defaultdict[int, list[dict[str, Any]]](list)
    for row in made:
        if row["id"] is not None:  # a TRUNCATE in the changelog
            by_key[row["id"] // 2].append(row)
    return by_key


def _expected(format_: str, log: str, changes: list[Change]) -> dict[str, list[Any]]:
    """The rows of each table. Avro's deletes have no commit_ts."""
    deletes = {c.commit_ts for c in changes if c.op == "d"} if format_ == "avro" else set()
    versions = _versions(changes, log)
    now = [(id_, name) for id_, name, _, to in versions if to is None]
    if format_ == "avro":
        versions = [
            (i, name, begun, None if to in deletes else to) for i, name, begun, to in versions if name is not None
        ]
    ops = [(_OPS[c.op], None if c.commit_ts in deletes and c.op == "d" else c.commit_ts) for c in changes]
    return {"now": sorted(now), "versions": sorted(versions, key=str), "log": sorted(ops, key=str)}


def _comparable(path: str, made: list[dict[str, Any]]) -> list[Any]:
    if path == "log":
        return sorted(((row["_tidb_op"], row["_tidb_commit_ts"]) for row in made), key=str)
    if path == "now":
        return sorted((row["id"], row["name"]) for row in made)
    return sorted(((row["id"], row["name"], row["_valid_from_ts"], row["_valid_to_ts"]) for row in made), key=str)
