"""The partitions of a table: which rows each of them has, as DDL says it."""

from __future__ import annotations

from enum import Enum
from typing import Literal, NamedTuple


class Limit(Enum):
    """What stands in place of a value: LESS THAN MAXVALUE, and the LIST partition of all other rows."""

    MAXVALUE = "MAXVALUE"
    DEFAULT = "DEFAULT"


class UnixTime(NamedTuple):
    """UNIX_TIMESTAMP('…'): a text in the zone of the session that ran the statement."""

    text: str


Bound = int | str | None | Limit | UnixTime


class Partition(NamedTuple):
    """values: of RANGE one tuple, the bound of each column; of LIST one for each value; of HASH none."""

    name: str
    values: tuple[tuple[Bound, ...], ...] = ()


class PartitionChange(NamedTuple):
    """What a clause of ALTER TABLE does. names: of the partitions that it is about, () for all; new: those that come;
    hashed: how many of HASH come or go.
    """

    names: tuple[str, ...] = ()
    new: tuple[Partition, ...] = ()
    hashed: int = 0


class Partitioning(NamedTuple):
    """PARTITION BY. function: TO_DAYS, YEAR or UNIX_TIMESTAMP of the one column, "" for none. partitions: in order."""

    method: Literal["RANGE", "LIST", "HASH"]
    function: str
    columns: tuple[str, ...]
    partitions: tuple[Partition, ...]

    def number(self, name: str) -> int | None:
        """Where a partition stands; None: there is none of that name. Names are the same in any letters."""
        return next((n for n, part in enumerate(self.partitions) if part.name.lower() == name.lower()), None)

    def with_hash(self, count: int) -> Partitioning:
        """With so many partitions, of which new ones have the names that TiDB gives them."""
        new = (Partition(f"p{n}") for n in range(len(self.partitions), count))
        return self._replace(partitions=(*self.partitions[:count], *new))

    def after(self, what: str, change: PartitionChange | None) -> Partitioning | None:
        """After a clause of ALTER TABLE, of these first words; None where it is not known."""
        verb, parts = what.removesuffix(" PARTITION"), self.partitions
        if verb in ("FIRST", "LAST", "MERGE FIRST", "SPLIT MAXVALUE"):  # of intervals
            return None
        if verb not in ("ADD", "DROP", "COALESCE", "REORGANIZE"):
            return self
        if change is None:
            return None
        if change.hashed:
            return self.with_hash(len(parts) + (change.hashed if verb == "ADD" else -change.hashed))
        gone = [number for number in map(self.number, change.names) if number is not None]
        at, kept = min(gone, default=len(parts)), [part for n, part in enumerate(parts) if n not in gone]
        return self._replace(partitions=(*kept[:at], *change.new, *kept[at:]))
