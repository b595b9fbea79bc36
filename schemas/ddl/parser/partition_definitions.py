"""What a DDL statement says of partitions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ticdc_bridge.schemas.ddl.parser.calls import Call


class PartitionValue(NamedTuple):
    """A value in VALUES. kind: int, fraction, text, bits, null, maxvalue, default, or "" for any other expression.

    text: the digits of a number, or the text.
    """

    kind: str
    text: str = ""


def _part(value: PartitionValue) -> int | str | None:
    return None if value.kind in ("maxvalue", "null") else int(value.text) if value.kind == "int" else value.text


@dataclass(frozen=True, slots=True)
class PartitionDef:
    """One partition. values: LESS THAN, IN, HISTORY, CURRENT or "". literals: its values, each a tuple; single: one of
    LESS THAN, or a list of single ones. subpartitions: how many are written. policy: of placement.
    """

    name: str
    values: str = ""
    literals: tuple[tuple[PartitionValue, ...], ...] = field(default=(), compare=False)
    subpartitions: int = 0
    policy: str = field(default="", compare=False)

    @property
    def single(self) -> bool:
        return len(self.literals) == 1 if self.values == "LESS THAN" else all(len(v) == 1 for v in self.literals)

    @property
    def has_maxvalue(self) -> bool:
        return any(one.kind == "maxvalue" for values in self.literals for one in values)

    @property
    def has_default(self) -> bool:
        """Whether a list takes what is in no other one."""
        return any(values[0].kind == "default" for values in self.literals)

    @property
    def rows(self) -> tuple[tuple[int | str | None, ...], ...]:
        """Of each value its part for each column: whole numbers, texts, None for MAXVALUE, in a list for NULL. Without
        values that have anything else."""
        found = self.literals
        if self.values == "LESS THAN":
            found = (tuple(one for v in self.literals for one in v),)
        plain = [v for v in found if all(one.kind in ("int", "text", "maxvalue", "null") for one in v)]
        return tuple(tuple(_part(one) for one in v) for v in plain if v)

    @property
    def numbers(self) -> tuple[int, ...]:
        """Those of the single values that are written as whole numbers."""
        return tuple(int(v[0].text) for v in self.literals if len(v) == 1 and v[0].kind == "int")


class Interval(NamedTuple):
    """INTERVAL of RANGE partitions. positive: it begins with a digit above 0. amount: None where it is no whole number.
    unit: of time, "" for none. first, last: ends of the first and the last one, None where they are not written. null,
    maxvalue: partitions besides.
    """

    positive: bool
    amount: int | None
    unit: str
    first: PartitionValue | None
    last: PartitionValue | None
    null: bool
    maxvalue: bool


@dataclass(frozen=True, slots=True)
class PartitionBy:
    """How rows are spread over partitions. names: of columns, and what else an expression names. indexes: of UPDATE
    INDEXES, each with whether it is global. method: see Partitioning. count: PARTITIONS n. interval: INTERVAL makes the
    partitions. subpartitions: SUBPARTITIONS n. plain: the expression is a column and nothing else. functions: words
    before a parenthesis in the expression, in small letters, and operators but + - * %. fractions: a number in it has a
    point or an exponent.
    """

    names: tuple[str, ...] = field(default=(), compare=False)
    indexes: tuple[tuple[str, bool], ...] = ()
    method: str = ""
    partitions: tuple[PartitionDef, ...] = ()
    count: int | None = None
    interval: Interval | None = None
    subpartitioned: bool = False
    plain: bool = False
    subpartitions: int | None = None
    functions: tuple[str, ...] = field(default=(), compare=False)
    fractions: bool = field(default=False, compare=False)
    calls: tuple[Call, ...] = field(default=(), compare=False)
