"""Whether rows fit the version that the history gives them. Rows never change the history."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ticdc_bridge.schemas.codec.bounded_cache import BoundedCache
from ticdc_bridge.schemas.model.event import RowChange
from ticdc_bridge.schemas.model.names import sanitise_name
from ticdc_bridge.schemas.model.table import Table, TableId
from ticdc_bridge.service.history.changes import difference
from ticdc_bridge.service.history.model import Drift, DriftKind, Key, State, TableVersionRow, clean

_TYPED = frozenset({"open", "open-tiflow", "craft", "canal-json"})
"""Formats whose rows name the columns' types; the others' types are known by names only, or not at all."""
_FLAGGED = frozenset({"open", "open-tiflow", "craft"})
_MOST = 20_000
_MOST_WAITING = 500_000


@dataclass(slots=True)
class RowSample:
    """Rows of one form that wait for their versions. counts: commit_ts → how many."""

    table: Table
    format: str
    complete: bool
    counts: dict[int, int] = field(default_factory=dict)


At = Callable[[str, str, int], TableVersionRow | None]
Sent = Callable[[Table], Table]
Tables = Callable[[], Mapping[tuple[str, str], Sequence[TableId]]]


class RowValidator:
    """Collects rows, and compares them once their versions are sealed.

    at: (db, table, commit_ts) → version. sent: a version's table → what rows carry of it, by column selectors.
    tables: those of the history, by names as Avro has them (history.table_schemas.tables_by_avro_name).
    """

    def __init__(self, changefeed: str, at: At, sent: Sent, tables: Tables) -> None:
        self._changefeed, self._at, self._sent, self._tables = changefeed, at, sent, tables
        self._by_avro: Mapping[tuple[str, str], Sequence[TableId]] = {}
        """`tables`: asked once for all rows that are compared together, if one needs them."""
        self._samples: dict[tuple[int, bool], RowSample] = {}
        self._waiting = 0
        self._verdicts = BoundedCache[tuple[int, bool, str, int], tuple[Table, tuple[DriftKind, str] | None]](_MOST)

    def take_row(self, row: RowChange) -> str:
        """Why the row is not looked at, "" where it is."""
        commit_ts = row.commit_ts
        if commit_ts is None:
            return "row without commit_ts"
        has_row = row.op in ("c", "u") and not row.key_only
        key = (id(row.table), has_row)
        sample = self._samples.get(key)
        if sample is None:
            if len(self._samples) >= _MOST:
                return "row that waits for its version, beyond the limit of forms"
            sample = self._samples[key] = RowSample(row.table, row.format, has_row)
        count = sample.counts.get(commit_ts, 0)
        if not count:
            if self._waiting >= _MOST_WAITING:
                return "row that waits for its version, beyond the limit of commit_ts"
            self._waiting += 1
        sample.counts[commit_ts] = count + 1
        return ""

    def judge(self, is_sealed: Callable[[str, int], bool]) -> tuple[list[Drift], dict[tuple[Key, int], int]]:
        """(what contradicts, how many rows fitted which version) of the rows whose versions are sealed.

        is_sealed: (format, commit_ts) → whether no DDL can change any more which version a row of then has.
        """
        self._by_avro = {}
        drift: list[Drift] = []
        fitting: dict[tuple[Key, int], int] = {}
        for key, sample in list(self._samples.items()):
            ready = sorted(ts for ts in sample.counts if is_sealed(sample.format, ts))
            for version, times in self._by_version(sample, ready):
                count = sum(sample.counts.pop(ts) for ts in times)
                verdict, name = self._verdict(sample, version), version.id if version else sample.table.id
                if verdict is not None:
                    since = version.from_ts if version else None
                    of = (verdict[0], name.db, name.table, times[0], verdict[1], since, count)
                    drift.append(Drift(self._changefeed, *of))
                elif version is not None and version.table is not None:
                    position = ((name.db.lower(), name.table.lower()), version.from_ts)
                    fitting[position] = fitting.get(position, 0) + count
            self._waiting -= len(ready)
            if not sample.counts:
                del self._samples[key]
        return drift, fitting

    def count_waiting(self) -> int:
        return sum(sum(sample.counts.values()) for sample in self._samples.values())

    def _by_version(
        self, sample: RowSample, times: Sequence[int]
    ) -> Iterator[tuple[TableVersionRow | None, Sequence[int]]]:
        """Times in order, those of one version together."""
        while times:
            version = self._version(sample, times[0])
            if version is None:  # up to the first time at which there is one
                end = max(bisect_left(times, True, key=lambda ts: self._version(sample, ts) is not None), 1)
            else:
                end = len(times) if version.to_ts is None else bisect_right(times, version.to_ts)
            yield version, times[:end]
            times = times[end:]

    def _version(self, sample: RowSample, commit_ts: int) -> TableVersionRow | None:
        name = TableId(clean(sample.table.id.db), clean(sample.table.id.table))
        version = self._at(*name, commit_ts)
        if version is not None or sample.format != "avro":
            return version
        self._by_avro = self._by_avro or self._tables()
        found = [entry for id_ in self._by_avro.get(name.folded, ()) if (entry := self._at(*id_, commit_ts))]
        return next((item for item in found if item.state is not State.GONE), found[0] if found else None)

    def _verdict(self, sample: RowSample, version: TableVersionRow | None) -> tuple[DriftKind, str] | None:
        if version is None:
            return "unknown_table", "rows of a table that the history does not know: give a snapshot of it"
        if version.state is State.GONE:
            return "gap", "rows of a table that is gone in the history: give a snapshot of it"
        if version.table is None:
            return None  # it says itself that it is unknown
        key = (id(sample.table), sample.complete, version.table_id, version.from_ts)
        entry = self._verdicts.get(key)
        if entry is not None and entry[0] is sample.table:
            return entry[1]
        verdict = compare_tables(self._sent(version.table), sample)
        self._verdicts[key] = (sample.table, verdict)
        return verdict


def compare_tables(table: Table, sample: RowSample) -> tuple[DriftKind, str] | None:
    """Contradictions between rows and a version: its columns, their types, or which of them is the handle key."""
    row_table = sample.table
    sent = {sanitise_name(c.name) if sample.format == "avro" else c.name: c for c in table.columns}
    left = [c.name for name, c in sent.items() if not c.virtual and name not in row_table.by_name]
    missing = left if sample.complete else []
    extra = [c.name for c in row_table.columns if c.name not in sent]
    if missing or extra:
        pieces = [f"{what} {', '.join(names[:8])}" for what, names in (("without", missing), ("with", extra)) if names]
        return "columns", f"rows {' and '.join(pieces)}"
    if sample.format in _TYPED:
        # What rows do not tell is taken from the history: sizes, elements, whether a column can be NULL.
        columns = [
            replace(c, length=known.length, scale=known.scale, elements=known.elements, nullable=known.nullable)
            for c in row_table.columns
            for known in (table.by_name[c.name],)
        ]
        differs = difference(table, replace(row_table, columns=tuple(columns)), all_columns=False)
        if differs:
            return "type", f"rows have {differs}"
    if sample.format in _FLAGGED and sample.complete and set(table.handle_key) != set(row_table.handle_key):
        return "flags", f"rows have handle key {row_table.handle_key}, the history says {table.handle_key}"
    return None
