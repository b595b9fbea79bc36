"""Checksums of a table's rows that TiDB and Spark compute alike, by ranges of the key and by groups in them.

The text of a row is that of its columns one after the other: a number or a time with a comma after it, any other value
after its length in bytes and a colon; N stands for NULL. So no two rows have the same text. Its MD5 gives two numbers
of 32 bits, one from each half. A group of rows has the count and both sums: two equal rows don't cancel. The first
number also tells the group, so that rows that differ are in few of them.

TiDB's texts are those of its CONCAT (upstream `pkg/expression/builtin_cast.go`).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ticdc_bridge.schemas.model.names import quote_name
from ticdc_bridge.schemas.model.table import Column
from ticdc_bridge.schemas.model.types import Kind
from ticdc_bridge.schemas.model.values import bit_size
from ticdc_bridge.spark_jobs.snapshots.tidb_reader import TidbTable

NEWER: Final = -1
"""The group of the lake's rows that are newer than the TSO."""
_RANGES: Final = 256
"""At most so many: Spark looks for a key's range in an expression."""
_GROUPS, _GROUPS_OF_ALL = 64, 1024
"""Groups of rows in a range; in a table that has no ranges."""
_AT_ONCE: Final = 4
"""Statements that TiDB computes side by side."""

Sums = Mapping[int, tuple[int, ...]]
"""By group: the count of its rows, and the sums of their numbers."""

# ---- the text of a value: {0} is the column
_BYTES_OF: Final[Mapping[Kind, str]] = {
    **dict.fromkeys((Kind.TEXT, Kind.ENUM, Kind.SET), "CONVERT({0} USING binary)"),
    Kind.JSON: "CONVERT(CONCAT({0}) USING binary)",
    Kind.VECTOR: "CONVERT(VEC_AS_TEXT({0}) USING binary)",
    Kind.BINARY: "{0}",
    Kind.BIT: "CAST({0} AS BINARY)",
}
"""TiDB's SQL of values that have their length before them: bytes, so that no collation plays a part. CAST(… AS BINARY)
would cut CHAR and VECTOR at their number of characters or dimensions.
"""
_TEXT_OF: Final[Mapping[Kind, str]] = {Kind.YEAR: "{0} + 0"}
"""TiDB's SQL of others, where it is not the column itself: no zeros before the year."""


def _real_text(name: str, _: Column) -> str:
    """As TiDB has it, without exponent: Java's digits are the shortest too."""
    text, whole_number = f"CAST({name} AS string)", f"try_cast({name} AS bigint)"
    exact = f"CAST(CAST({text} AS decimal(38, 15)) AS string)", f"format_string('%.343f', CAST({text} AS double))"
    near, far = (f"trim(TRAILING '.' FROM trim(TRAILING '0' FROM {digits}))" for digits in exact)
    return (  # the cases of most values first: each makes one text
        f"CASE WHEN {name} = 0 THEN left({text}, length({text}) - 2)"
        f" WHEN abs({name}) < 1e7 AND {name} = {whole_number} THEN CAST({whole_number} AS string)"
        f" WHEN abs({name}) BETWEEN 1e-3 AND 9e6 THEN {text} WHEN abs({name}) BETWEEN 1e-3 AND 1e17 THEN {near}"
        f" WHEN {name} IS NOT NULL THEN {far} END"
    )


def _time_text(name: str, column: Column) -> str:
    """With as many digits as the column has, or with more where the value has more."""
    text, zeros = f"CAST({name} AS string)", "." + "0" * (column.scale or 0)
    return f"concat({text}, substring('{zeros}', greatest(length({text}) - 18, 1)))" if column.scale else text


_LAKE_TEXT: Final[Mapping[str, Callable[[str, Column], str]]] = {
    **dict.fromkeys(
        ("smallint", "int", "bigint", "decimal", "date"),
        lambda name, _: f"CAST({name} AS string)",
    ),
    **dict.fromkeys(("string", "binary"), lambda name, _: name),
    "float": _real_text, "double": _real_text, "timestamp_ntz": _time_text, "timestamp": _time_text,
}  # fmt: skip
"""Spark's SQL by the column's type in the lake. Its session has ANSI casts and the table's time zone."""


def _tidb_hash(columns: Sequence[Column]) -> str:
    """TiDB's SQL: the MD5 of a row's text."""
    texts = list[str]()
    for column in columns:
        name, kind = quote_name(column.name), column.type.kind
        if kind in _BYTES_OF:
            is_gbk = column.charset.startswith("gb")  # its bytes would be those of GBK
            value = _BYTES_OF[kind].format(f"CONVERT({name} USING utf8mb4)" if is_gbk else name)
            size = f"IF({name} IS NULL, 'N', '{bit_size(column.length or 1)}')" if kind is Kind.BIT else ""
            texts += [size or f"IFNULL(LENGTH({value}), 'N')", "':'", f"IFNULL({value}, '')"]
        else:
            texts += [f"IFNULL(CONCAT({_TEXT_OF.get(kind, '{0}').format(name)}), 'N')", "','"]
    return f"IFNULL(MD5(CONCAT({', '.join(texts)})), '')"  # NULL is one over max_allowed_packet


def _lake_hash(columns: Sequence[Column], types: Mapping[str, str]) -> str:
    """Spark's SQL: the same."""
    texts = list[str]()
    for n, column in enumerate(columns):
        name = f"l_{n}"
        value = f"CAST({_LAKE_TEXT[types[column.name].partition('(')[0]](name, column)} AS string)"
        if column.type.kind in _BYTES_OF:  # a cast to a string leaves bytes as they are
            texts += [f"coalesce(CAST(octet_length({name}) AS string), 'N')", "':'", f"coalesce({value}, '')"]
        else:
            if types[column.name] == "string":  # TiDB has no such times, and they could end or lack a value
                value = f"if({name} = 'N' OR contains({name}, ','), '?', {value})"
            texts += [f"coalesce({value}, 'N')", "','"]
    return f"md5(CAST(concat({', '.join(texts)}) AS binary))"


# ---- ranges and groups
@dataclass(frozen=True)
class Groups:
    """How the rows of a table of TiDB's are grouped. types: of the lake's columns, called l_N there. sample: ranges of
    the key that are compared; (): all rows.

    A clustered key that begins with an integer has ranges of it. Others are ordered by a collation: their tables are
    read in chunks, and each group has rows of all of them.
    """

    table: TidbTable
    types: Mapping[str, str]
    sample: Sequence[tuple[str, str]] = ()

    @cached_property
    def first(self) -> Column | None:
        """The column that has ranges."""
        column = next(iter(self.table.key.values()))
        return column if column is not None and column.type.kind is Kind.INTEGER else None

    @cached_property
    def _cuts(self) -> list[str]:
        """The last key of each range but the last one."""
        if self.first is None or self.sample:
            return [last for _, last in self.sample[:-1]]
        cuts = [values[0] for values in self.table.cuts({quote_name(self.first.name): self.first})]
        return cuts[len(cuts) // _RANGES :: len(cuts) // _RANGES + 1]

    @cached_property
    def ranges(self) -> list[str]:
        """TiDB's conditions."""
        if self.first is None:
            return ["TRUE"]
        name = quote_name(self.first.name)
        if self.sample:
            return [f"{name} BETWEEN {first} AND {last}" for first, last in self.sample]
        after = ["", *(f"{name} > {cut}" for cut in self._cuts)]
        until = [*(f"{name} <= {cut}" for cut in self._cuts), ""]
        return [" AND ".join(filter(None, ends)) or "TRUE" for ends in zip(after, until, strict=True)]

    @property
    def _count(self) -> int:
        """Groups in a range."""
        return _GROUPS_OF_ALL if self.first is None else _GROUPS

    # ---- TiDB
    def of_tidb(self) -> Sums:
        """What TiDB has. SetupError TIDB_UNREACHABLE."""
        if self.first is None:
            sources = [(0, f"(SELECT * FROM {self.table.name} {chunk}) r") for chunk in self.table.chunks()]
        else:
            sources = [(n, f"{self.table.name} WHERE {where}") for n, where in enumerate(self.ranges)]
        sums = dict[int, tuple[int, ...]]()
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for number, found in pool.map(self._sums, sources):
                for group, *values in found:
                    id_ = number * self._count + group
                    sums[id_] = tuple(map(sum, zip(sums.get(id_, (0, 0, 0)), values, strict=True)))
        return sums

    def _sums(self, source: tuple[int, str]) -> tuple[int, list[list[int]]]:
        number, rows = source
        halves = "CRC32(LEFT(m, 16)) a, CRC32(RIGHT(m, 16)) b"
        hashes = f"SELECT {halves} FROM (SELECT {_tidb_hash(self.table.columns)} m FROM {rows}) h"
        with self.table.server.cursor() as cursor:
            cursor.execute(f"SELECT a % {self._count}, COUNT(*), SUM(a), SUM(b) FROM ({hashes}) s GROUP BY 1")
            return number, [[int(value) for value in row] for row in cursor.fetchall()]

    def to_read(self, differing: set[int]) -> set[int]:
        """With the other groups of ranges of which half or more differ: `queries` reads these as a whole."""
        counts = Counter(group // self._count for group in differing if group != NEWER)
        return differing.union(*(range(n * self._count, (n + 1) * self._count) for n, count in counts.items()
                                 if count * 2 >= self._count))  # fmt: skip

    def queries(self, groups: Iterable[int]) -> list[str]:
        """What TidbTable.read takes: the rows of these groups."""
        wanted = dict[int, list[str]]()
        for group in sorted(groups):
            if group != NEWER:
                wanted.setdefault(group // self._count, []).append(str(group % self._count))
        found = list[str]()
        for number, numbers in wanted.items():
            if len(numbers) * 2 < self._count:
                row = f"CRC32(LEFT({_tidb_hash(self.table.columns)}, 16)) % {self._count}"
                found.append(f"WHERE {self.ranges[number]} AND {row} IN ({', '.join(numbers)})")
            elif self.first is None:
                found += self.table.chunks()
            else:
                found.append(f"WHERE {self.ranges[number]}")
        return found

    # ---- the lake
    def group_sql(self, is_newer: str) -> str:
        """Spark's SQL: a row's group. is_newer: whether it is newer than the TSO."""
        return f"CASE WHEN {is_newer} THEN {NEWER} ELSE {self._range_sql()} * {self._count} + _a % {self._count} END"

    def of_lake(self, rows: DataFrame, is_newer: str) -> Sums:
        """What the lake has; NEWER too."""
        grouped = self.with_numbers(rows).groupBy(F.expr(f"{self.group_sql(is_newer)} AS id"))
        sums = grouped.agg(F.expr("count(*)"), F.expr("sum(_a)"), F.expr("sum(_b)"))
        return {row[0]: tuple(row)[1:] for row in sums.collect()}

    def with_numbers(self, rows: DataFrame) -> DataFrame:
        """Rows with `_a` and `_b`: the numbers of their texts."""
        hashed = rows.withColumn("_m", F.expr(_lake_hash(self.table.columns, self.types)))
        halves = {"_a": "substring(_m, 1, 16)", "_b": "substring(_m, 17)"}
        return hashed.withColumns({name: F.expr(f"crc32(CAST({half} AS binary))") for name, half in halves.items()})

    def _range_sql(self) -> str:
        """Spark's SQL: the number of a key's range."""
        if self.first is None:
            return "0"
        name, kind = f"l_{self.table.columns.index(self.first)}", self.types[self.first.name]

        def find(low: int, high: int) -> str:
            if low == high:
                return str(low)
            middle = (low + high) // 2
            is_lower = f"{name} <= CAST('{self._cuts[middle]}' AS {kind})"
            return f"if({is_lower}, {find(low, middle)}, {find(middle + 1, high)})"

        return find(0, len(self._cuts))
