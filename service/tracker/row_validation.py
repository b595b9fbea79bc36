"""Rows on their way past: do they fit the version that the history gives them? They never change it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from schemas.codec.bounded_cache import BoundedCache
from schemas.model.event import RowChange
from schemas.model.table import Column, Table
from service.history.compare import difference
from service.history.model import Drift, DriftKind, Key, State, TableVersionRow
from service.history.times import clean

_TYPED = frozenset({"open", "open-tiflow", "craft", "canal-json"})
"""Formats whose rows name the columns' types; the others' types are told by names only, or not at all."""
_FLAGGED = frozenset({"open", "open-tiflow", "craft"})
_MOST = 20_000


@dataclass(slots=True)
class RowSample:
    """Rows of one form, seen between two commit_ts."""

    table: Table
    format: str
    whole: bool
    first: int
    last: int
    count: int = 0


At = Callable[[str, str, int], TableVersionRow | None]


class RowValidator:
    """Collects rows, and judges them once their versions are sealed. at: (db, table, commit_ts) → version."""

    def __init__(self, changefeed: str, at: At) -> None:
        self._changefeed, self._at = changefeed, at
        self._sights: dict[tuple[int, bool], RowSample] = {}
        verdicts = BoundedCache[tuple[int, bool, str, int], tuple[Table, tuple[DriftKind, str] | None]](_MOST)
        self._verdicts = verdicts

    def take_row(self, row: RowChange) -> str:
        """Why the row is not looked at, "" where it is."""
        commit_ts = row.commit_ts
        if commit_ts is None:
            return "row without commit_ts"
        whole = row.op in ("c", "u") and not row.key_only
        key = (id(row.table), whole)
        sight = self._sights.get(key)
        if sight is None:
            if len(self._sights) >= _MOST:
                return "row of one form too many that waits for its version"
            sight = self._sights[key] = RowSample(row.table, row.format, whole, commit_ts, commit_ts)
        sight.first, sight.last = min(sight.first, commit_ts), max(sight.last, commit_ts)
        sight.count += 1
        return ""

    def judge(self, sealed_ts: int | None) -> tuple[list[Drift], dict[tuple[Key, int], int]]:
        """(what contradicts, how many rows fitted which version) of the rows up to sealed_ts; None: of all of them."""
        drift: list[Drift] = []
        fitting: dict[tuple[Key, int], int] = {}
        for key, sight in list(self._sights.items()):
            if sealed_ts is not None and sight.last > sealed_ts:
                continue
            del self._sights[key]
            versions = {
                v and v.position: v for ts in (sight.first, sight.last) if (v := self._version(sight, ts)) or True
            }
            for version in versions.values():
                verdict = self._verdict(sight, version)
                name = sight.table.id
                if verdict is not None:
                    ts = version.from_ts if version else None
                    of = (verdict[0], name.db, name.table, sight.first, verdict[1], ts, sight.count)
                    drift.append(Drift(self._changefeed, *of))
                elif version is not None and version.table is not None:
                    place = ((name.db.lower(), name.table.lower()), version.from_ts)
                    fitting[place] = fitting.get(place, 0) + sight.count
        return drift, fitting

    def _version(self, sight: RowSample, commit_ts: int) -> TableVersionRow | None:
        return self._at(clean(sight.table.id.db), clean(sight.table.id.table), commit_ts)

    def _verdict(self, sight: RowSample, version: TableVersionRow | None) -> tuple[DriftKind, str] | None:
        if version is None:
            return "unknown_table", "rows of a table that the history does not know: give a snapshot of it"
        if version.state is State.GONE:
            return "gap", "rows of a table that is gone in the history: give a snapshot of it"
        if version.table is None:
            return None  # it says itself that it is unknown
        key = (id(sight.table), sight.whole, version.table_id, version.from_ts)
        entry = self._verdicts.get(key)
        if entry is not None and entry[0] is sight.table:
            return entry[1]
        verdict = compare_tables(version.table, sight)
        self._verdicts[key] = (sight.table, verdict)
        return verdict


def compare_tables(table: Table, sight: RowSample) -> tuple[DriftKind, str] | None:
    """What rows contradict in a version: its columns, their types, or which of them is the handle key."""
    row_table = sight.table
    missing = (
        [c.name for c in table.columns if not c.virtual and c.name not in row_table.by_name] if sight.whole else []
    )
    extra = [c.name for c in row_table.columns if c.name not in table.by_name]
    if missing or extra:
        parts = [f"{what} {', '.join(names[:8])}" for what, names in (("without", missing), ("with", extra)) if names]
        return "columns", f"rows {' and '.join(parts)}"
    if sight.format in _TYPED:
        differs = difference(table, _with_known_details(table, row_table), all_columns=False)
        if differs:
            return "type", f"rows have {differs}"
    if sight.format in _FLAGGED and sight.whole and set(table.handle_key) != set(row_table.handle_key):
        return "flags", f"rows have handle key {row_table.handle_key}, the history says {table.handle_key}"
    return None


def _with_known_details(table: Table, row_table: Table) -> Table:
    """What rows do not tell is taken from the history: sizes, elements, whether a column can be NULL."""
    return replace(row_table, columns=tuple(_complete_column(c, table.by_name[c.name]) for c in row_table.columns))


def _complete_column(row_column: Column, column: Column) -> Column:
    return replace(
        row_column, length=column.length, scale=column.scale, elements=column.elements, nullable=column.nullable
    )
