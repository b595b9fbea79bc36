"""Random histories of one table: what TiDB did, the table at the end, and how Kafka may deliver the changes."""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from ticdc_bridge.schemas.model.event import Message

START = 463_299_738_777_157_634
_STEP = 500 << 18  # 500 ms
_DDL_KINDS = ("add", "add", "drop", "rename", "widen", "readd", "truncate", "swap")
_WIDER = {"int": "bigint", "varchar(10)": "varchar(40)", "decimal(8,2)": "decimal(12,4)", "smallint": "int"}
_TYPES = (*_WIDER, "bigint", "varchar(40)")

Row = dict[str, str | None]


@dataclass(frozen=True)
class Change:
    """One change. types: of its row's columns."""

    commit_ts: int
    op: str
    before: Row | None
    after: Row | None
    types: dict[str, str] = field(default_factory=dict)

    def line(self) -> dict[str, Any]:
        return {
            "kind": "row", "format": "open", "topic": "t", "db": "d", "table": "t", "op": self.op,
            "commit_ts": self.commit_ts, "schema_id": None, "table_version": None, "key": ["id"],
            "before": self.before, "after": self.after, "flags": [],
        }  # fmt: skip

    @property
    def ids(self) -> set[str]:
        """Keys of the rows that it touches."""
        return {str(row["id"]) for row in (self.before, self.after) if row is not None}


@dataclass
class History:
    """`changes` and `statements` in the order of their commits, `rows`: the table after all of them.

    split: an update of a key is a delete and an insert, as TiCDC sends it for Avro, and newer versions always. schema:
    DDL beside CREATE TABLE. swaps: two rows exchange their keys in one transaction, which MySQL can't do. partitions:
    by HASH or RANGE of the key, which are dropped, truncated and changed. gone: the keys that a statement took away.
    """

    seed: str
    split: bool = True
    schema: bool = True
    swaps: bool = True
    keys: int = 40
    steps: int = 160
    changes: list[Change] = field(default_factory=list)
    statements: list[tuple[int, str]] = field(default_factory=list)
    rows: dict[str, Row] = field(default_factory=dict)
    columns: dict[str, str] = field(default_factory=dict)
    partitions: bool = False
    gone: dict[int, set[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._random, self._ts, self._names = random.Random(self.seed), START, 0
        self._key_type = self._random.choice(["int", "varchar(20)"])
        self._key_type = "int" if self.partitions else self._key_type
        self.columns = {"a": "int", "b": "varchar(10)", "c": "decimal(8,2)"}
        columns = ", ".join(f"{name} {kind}" for name, kind in self.columns.items())
        parts = f" {self._partition_by()}" if self.partitions else ""
        self._ddl(f"CREATE TABLE t (id {self._key_type} PRIMARY KEY, {columns}){parts}")
        for _ in range(self.steps):
            if self.partitions and self._random.random() < 0.05:
                self._change_partitions()
            elif self.schema and self._random.random() < 0.05:
                self._alter(self._random.choice(_DDL_KINDS))
            else:
                self._transaction()

    # ---- what TiDB does
    def _next_ts(self) -> int:
        self._ts += _STEP * self._random.randint(1, 3)
        return self._ts

    def _ddl(self, text: str) -> None:
        self.statements.append((self._next_ts(), text))

    def _alter(self, kind: str) -> None:
        pick = self._random.choice(sorted(self.columns)) if self.columns else None
        if kind in ("add", "readd") or pick is None:
            self._names += 1
            type_ = self._random.choice(_TYPES)
            name = f"n{self._names}" if kind != "readd" else self._random.choice(["a", "b", "c", "n1"])
            if name in self.columns:
                return
            value, clause = self._random.choice([(None, ""), ("7", "DEFAULT '7'"), ("3", "NOT NULL DEFAULT '3'")])
            self._ddl(f"ALTER TABLE t ADD COLUMN {name} {type_} {clause}")
            self.columns[name] = type_
            for row in self.rows.values():
                row[name] = value
        elif kind == "drop":
            self._ddl(f"ALTER TABLE t DROP COLUMN {pick}")
            del self.columns[pick]
            for row in self.rows.values():
                del row[pick]
        elif kind == "rename":
            self._names += 1
            self._rename({pick: f"r{self._names}"})
        elif kind == "swap" and len(self.columns) > 1:
            left, other = self._random.sample(sorted(self.columns), 2)
            self._rename({left: other, other: left})
        elif kind == "widen" and self.columns[pick] in _WIDER:
            self.columns[pick] = _WIDER[self.columns[pick]]
            self._ddl(f"ALTER TABLE t MODIFY COLUMN {pick} {self.columns[pick]}")
        elif kind == "truncate" and self._random.random() < 0.4:
            self._ddl("TRUNCATE TABLE t")
            self._lose(set(self.rows))

    def _lose(self, ids: set[str]) -> None:
        self.gone[self._ts] = ids
        for id_ in ids:
            del self.rows[id_]

    def _partition_by(self) -> str:
        """_parts: of RANGE the upper bound by name, in order; of HASH the number by name."""
        if self._random.random() < 0.3:
            count = self._random.randint(2, 5)
            self._is_hash, self._parts = True, {f"p{n}": n for n in range(count)}
            return f"PARTITION BY HASH (id) PARTITIONS {count}"
        self._is_hash, self._parts = False, {f"p{n}": (n + 1) * self.keys // 4 for n in range(3)} | {"last": 1 << 31}
        return f"PARTITION BY RANGE (id) ({self._definitions(self._parts)})"

    def _definitions(self, parts: dict[str, int]) -> str:
        bounds = {name: "MAXVALUE" if bound == 1 << 31 else f"({bound})" for name, bound in parts.items()}
        return ", ".join(f"PARTITION {name} VALUES LESS THAN {bound}" for name, bound in bounds.items())

    def _change_partitions(self) -> None:
        names, pick = list(self._parts), self._random.choice(["truncate", "drop", "reorganize", "by"])
        name = self._random.choice(names)
        at = names.index(name)
        if pick == "by":
            self._ddl(f"ALTER TABLE t {self._partition_by()}")
        elif pick == "reorganize" and not self._is_hash and at:
            new = {f"n{self._ts % 9973}": self._parts[name]}
            self._ddl(f"ALTER TABLE t REORGANIZE PARTITION {names[at - 1]}, {name} INTO ({self._definitions(new)})")
            kept = [(n, self._parts[n]) for n in names if n not in names[at - 1 : at + 1]]
            self._parts = dict(sorted([*kept, *new.items()], key=lambda part: part[1]))
        elif pick in ("truncate", "drop") and (pick == "truncate" or (not self._is_hash and name != names[-1])):
            self._ddl(f"ALTER TABLE t {pick.upper()} PARTITION {name}")
            lower = self._parts[names[at - 1]] if at else -(1 << 31)
            if self._is_hash:
                self._lose({id_ for id_ in self.rows if int(id_) % len(names) == at})
            else:
                self._lose({id_ for id_ in self.rows if lower <= int(id_) < self._parts[name]})
            if pick == "drop":
                del self._parts[name]

    def _rename(self, names: dict[str, str]) -> None:
        self._ddl("ALTER TABLE t " + ", ".join(f"RENAME COLUMN {a} TO {b}" for a, b in names.items()))
        self.columns = {names.get(name, name): kind for name, kind in self.columns.items()}
        self.rows = {id_: {names.get(n, n): v for n, v in row.items()} for id_, row in self.rows.items()}

    def _transaction(self) -> None:
        """Up to four changes at one commit_ts, of other keys each."""
        commit_ts, touched, made = self._next_ts(), set[str](), list[Change]()
        for _ in range(self._random.choice([1, 1, 1, 2, 4])):
            id_ = str(self._random.randrange(self.keys))
            if id_ in touched:
                continue
            touched.add(id_)
            old = self.rows.get(id_)
            if old is None:
                self.rows[id_] = self._row(id_)
                made.append(Change(commit_ts, "c", None, dict(self.rows[id_])))
                continue
            kind = self._random.choice(["update", "update", "delete", "key", "swap"])
            if kind == "delete":
                del self.rows[id_]
                made.append(Change(commit_ts, "d", dict(old), None))
            elif kind == "update":
                self.rows[id_] = self._row(id_)
                made.append(Change(commit_ts, "u", dict(old), dict(self.rows[id_])))
            else:
                other = str(self._random.randrange(self.keys))
                if other in touched or (kind == "key") == (other in self.rows) or (kind == "swap" and not self.swaps):
                    continue
                touched.add(other)
                made += self._move(commit_ts, id_, other)
        types = {"id": self._key_type, **self.columns}
        made = [replace(c, types=types) for c in made]
        deletes = [c for c in made if c.op == "d"]
        self.changes += [*deletes, *(c for c in made if c.op != "d")]

    def _move(self, commit_ts: int, id_: str, other: str) -> Iterator[Change]:
        """The row gets another key; the row that has that, gets this."""
        old, existing = self.rows.pop(id_), self.rows.pop(other, None)
        for before, key in ((old, other), (existing, id_)):
            if before is None:
                continue
            after = self.rows[key] = {**before, "id": key}
            if self.split:
                yield Change(commit_ts, "d", dict(before), None)
                yield Change(commit_ts, "c", None, dict(after))
            else:
                yield Change(commit_ts, "u", dict(before), dict(after))

    def _row(self, id_: str) -> Row:
        return {"id": id_, **{name: self._value(kind) for name, kind in self.columns.items()}}

    def _value(self, kind: str) -> str | None:
        number = self._random.randrange(1000)
        return f"{number}.{number % 100:02}" + "00" * (kind == "decimal(12,4)") if "decimal" in kind else str(number)

    def table(self) -> dict[str, dict[str, Any]]:
        """The rows by key, in a form that rows of a lake's table can be brought to (`comparable`)."""
        return {id_: {name: comparable(value) for name, value in row.items()} for id_, row in self.rows.items()}


def comparable(value: Any) -> Any:
    """A value without what types of columns add: 1.50 and 1.5000 are one, 7 and "7" too."""
    try:
        return None if value is None else Decimal(str(value)).normalize()
    except ArithmeticError:
        return value


@dataclass
class Delivery:
    """How Kafka gives a history's messages to a reader: partitions, what is sent again, batches.

    by_key: all changes of a key in one partition, until the topic gets its last one (Avro's deletes tell no commit_ts);
    else in any. past: the times of deletes are looked at, too.
    """

    history: History
    encoded: list[list[Message]]
    by_key: bool
    past: bool = False
    partitions: int = 3

    def batches(self, count: int) -> Iterator[tuple[list[Message], int]]:
        """(messages as a batch reads them, the newest commit_ts sent so far). Each message has its place and time."""
        random_ = random.Random(f"{self.history.seed} delivery")
        logs: list[list[tuple[Message, int]]] = [[] for _ in range(self.partitions)]
        now = 0
        for n, has_grown in self._sent(random_):
            partitions, commit_ts = self.partitions - (not has_grown), self.history.changes[n].commit_ts
            where = self._partition(n) % partitions if self.by_key else random_.randrange(partitions)
            log = logs[where]
            now = max(now, commit_ts >> 18) + 1
            for message in self.encoded[n]:
                log.append((Message(message.key, message.value, "t", where, len(log), now), commit_ts))
        ends = [[*sorted(random_.randint(0, len(log)) for _ in range(count - 1)), len(log)] for log in logs]
        begun, newest = [0] * len(logs), START
        for number in range(count):
            batch: list[Message] = []
            for where, log in enumerate(logs):
                # Now and then a reader begins at an earlier place than it stopped (its checkpoint was lost).
                first = random_.randint(0, begun[where]) if random_.random() < 0.2 else begun[where]
                for message, commit_ts in log[first : ends[where][number]]:
                    batch.append(message)
                    newest = max(newest, commit_ts)
                begun[where] = ends[where][number]
            yield batch, newest
            if random_.random() < 0.25:  # a job reads a part again that lies before its checkpoint
                ranges = [sorted(random_.randint(0, end) for _ in "ab") for end in begun]
                again = [log[first:last] for log, (first, last) in zip(logs, ranges, strict=True)]
                yield [message for piece in again for message, _ in piece], newest

    def _partition(self, n: int) -> int:
        return hash_of(min(self.history.changes[n].ids))

    def _sent(self, random_: random.Random) -> Iterator[tuple[int, bool]]:
        """Numbers of changes as a changefeed sends them, and whether the topic has all its partitions, which it gets
        between two transactions. It restarts earlier (by_key: not back over that), and repeats a change.
        """
        changes, n, last, least, restarts = self.history.changes, 0, 0, 0, 3
        grows_at, has_grown = random_.randrange(len(changes)), False
        while n < len(changes):
            grows = n == last >= grows_at and not has_grown and self._begins_transaction(n)
            if restarts and random_.random() < (0.5 if grows else 0.03):
                restarts -= 1
                n = max(least, n - random_.randint(1, 40))
                # A changefeed begins after a commit_ts: with all changes of a transaction.
                while n > least and not self._begins_transaction(n):
                    n -= 1
            if grows:
                has_grown, least = True, n if self.by_key else 0
            yield n, has_grown
            n += 1
            last = max(last, n)
            again = range(n) if not self.by_key else self._rows_to_repeat(n, last)
            if again and random_.random() < 0.04:
                yield random_.choice(again), has_grown

    def _begins_transaction(self, n: int) -> bool:
        changes = self.history.changes
        return n == 0 or changes[n - 1].commit_ts != changes[n].commit_ts

    def _rows_to_repeat(self, n: int, last: int) -> list[int]:
        """Of Avro's changes before the nth those that may come again alone: no delete, as it looks like another; no row
        of a key that gets another partition; nor the last one of a key that was deleted again, which looks as if it
        came back: it is back until the next change of the key (past). last: how many were sent.
        """
        deletes, ends, back = Counter[str](), dict[str, int](), set[int]()
        for number, change in enumerate(self.history.changes[:last]):
            id_ = min(change.ids)
            if self.past and change.op == "d" and deletes[id_]:
                back.add(ends[id_])
            deletes[id_] += change.op == "d"
            ends[id_] = number if change.op != "d" else -1
        ids = {i: min(self.history.changes[i].ids) for i in range(n) if self.history.changes[i].op != "d"}
        stays = {i: id_ for i, id_ in ids.items() if not self.moves(id_)}
        return [i for i, id_ in stays.items() if i not in back and (deletes[id_] < 2 or ends[id_] >= 0)]

    @classmethod
    def moves(cls, id_: str) -> bool:
        """True if a key gets another partition (by_key) when the topic gets its last one."""
        return hash_of(id_) % cls.partitions != hash_of(id_) % (cls.partitions - 1)


def hash_of(text: str) -> int:
    return sum(text.encode()) * 31
