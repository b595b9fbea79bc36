"""`verify`: the events of two topics or files, compared one by one.

Events meet by table, key and commit_ts, whatever their order; per key the order is compared too. What a format is known
to lose (schemas.inspect.losses) is counted as expected, by its name; everything else is a difference.
"""

from __future__ import annotations

import pickle
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import chain
from typing import IO, Any, NamedTuple
from zlib import crc32

from ticdc_bridge.schemas.codec.bounded_cache import BoundedCache
from ticdc_bridge.schemas.inspect import losses
from ticdc_bridge.schemas.inspect.losses import ValuePair, WrittenValue, explains, makes
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import DdlEvent, Message, RowChange
from ticdc_bridge.schemas.model.names import sanitise_name
from ticdc_bridge.schemas.model.table import Table
from ticdc_bridge.schemas.model.types import Kind
from ticdc_bridge.schemas.plain.writer import plain_value
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.event_order import change_id, split_key_change
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message, position_text
from ticdc_bridge.spark_jobs.pipeline.result import MessageResult, Used, list_counts, mismatch_warning
from ticdc_bridge.spark_jobs.pipeline.stream_definitions import LearningDecoder

_BUCKETS = 64
Incoming = Iterable[Message | tuple[WireError, Message]]
Key = tuple[str, str, tuple[tuple[str, Any], ...]]


@dataclass
class VerifyReport:
    """What a comparison found. events: rows of each side. expected: known losses by format and name.

    messages: read on both sides; used: where their rows came from; mismatches: definitions that were not used.
    """

    events: list[int] = field(default_factory=lambda: [0, 0])
    ddl: list[int] = field(default_factory=lambda: [0, 0])
    equal: int = 0
    with_losses: int = 0
    repeated: list[int] = field(default_factory=lambda: [0, 0])
    expected: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    checksums: Counter[str] = field(default_factory=Counter)
    differences: list[dict[str, Any]] = field(default_factory=list)
    most: int = 1000
    messages: int = 0
    used: Counter[Used] = field(default_factory=Counter)
    mismatches: Counter[str] = field(default_factory=Counter)

    def add(self, kind: str, **more: Any) -> None:
        """Counts a difference, and keeps the first `most` of them."""
        self.kinds[kind] += 1
        if len(self.differences) < self.most:
            self.differences.append({"kind": kind, **more})

    @property
    def exit_code(self) -> int:
        return 1 if self.kinds else 0

    def as_json(self) -> dict[str, Any]:
        return {
            "verdict": "different" if self.kinds else "same", "rows": self.events, "ddl": self.ddl,
            "equal": self.equal, "with_expected_losses": self.with_losses, "repeated": self.repeated,
            "expected_losses": dict(sorted(self.expected.items())), "checksums": dict(sorted(self.checksums.items())),
            "differences": dict(sorted(self.kinds.items())), "listed": self.differences,
        }  # fmt: skip

    def warnings(self) -> list[str]:
        """Definitions that were not used, and no rows at all."""
        warnings = [mismatch_warning(text, count) for text, count in sorted(self.mismatches.items())]
        if self.messages and not any(self.events):
            warnings.append(f"{self.messages} messages, and no row")
        return warnings

    def lines(self) -> Iterator[str]:
        """The report for people."""
        yield f"rows {self.events[0]} and {self.events[1]}"
        yield f"equal {self.equal}"
        yield f"equal but for expected losses {self.with_losses}"
        for name, count in sorted(self.expected.items()):
            yield f"  expected loss: {name}: {count}"
        if any(self.repeated):
            yield f"repeated (the same change again) {self.repeated[0]} and {self.repeated[1]}: left out"
        if self.checksums:
            yield "checksums " + ", ".join(f"{name} {n}" for name, n in sorted(self.checksums.items()))
        yield f"differences {self.kinds.total()}{list_counts(self.kinds)}"
        for difference in self.differences:
            yield "  " + " ".join(f"{name}={value}" for name, value in difference.items())
        if self.kinds.total() > len(self.differences):
            yield f"  … and {self.kinds.total() - len(self.differences)} more"


@dataclass(frozen=True)
class ComparedInput:
    """One side of a comparison."""

    incoming: Incoming
    config: CodecConfig
    name: str


def compare(first: ComparedInput, second: ComparedInput, report: VerifyReport) -> VerifyReport:
    """Compares all events. Memory: a 64th of the rows at a time, the rest waits in temporary files."""
    with ExitStack() as stack:
        spools = [_Spool(stack), _Spool(stack)]
        statements = [
            _read(entry, spool, report, n) for n, (entry, spool) in enumerate(zip((first, second), spools, strict=True))
        ]
        if all(statements):  # DDL is compared where both sides have some
            first_ddl, second_ddl = statements
            for kind, missing in (("ddl_missing", first_ddl - second_ddl), ("ddl_extra", second_ddl - first_ddl)):
                for commit_ts, query in sorted(missing, key=repr):
                    report.add(kind, commit_ts=commit_ts, query=query)
        for bucket in range(_BUCKETS):
            groups = [spool.groups(bucket) for spool in spools]
            for key in groups[0].keys() | groups[1].keys():
                _key(groups[0].get(key, []), groups[1].get(key, []), report, second.config.format)
    return report


class BinlogPosition(NamedTuple):
    """A change without commit_ts in MySQL's binlog. file: its number. gtid: tells two servers' apart, without order."""

    file: int
    pos: int
    row: int
    gtid: str | None = None


def binlog_position(event: RowChange) -> BinlogPosition | None:
    """The position of a change that Debezium's MySQL or MariaDB connector read; None where its source tells none."""
    source = event.extra.get("source")
    if event.commit_ts is not None or not isinstance(source, dict):
        return None
    file, pos, row, gtid = (source.get(name) for name in ("file", "pos", "row", "gtid"))
    suffix = file.rpartition(".")[2] if isinstance(file, str) else ""
    if not (suffix.isascii() and suffix.isdigit()) or type(pos) is not int or pos < 0:
        return None
    row = row if type(row) is int and row >= 0 else 0
    return BinlogPosition(int(suffix), pos, row, gtid if isinstance(gtid, str) else None)


class _Spool:
    """Rows in files by the hash of their key; tables stay in memory, once each."""

    def __init__(self, stack: ExitStack) -> None:
        self._files: list[IO[bytes]] = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(_BUCKETS)]  # noqa: SIM115
        self._tables: list[Table] = []
        self._known: dict[int, int] = {}
        self._number = 0

    def add(self, key: Key, event: RowChange, location: str, binlog: BinlogPosition | None) -> None:
        at = self._known.get(id(event.table))
        if at is None:
            at = self._known[id(event.table)] = len(self._tables)
            self._tables.append(event.table)
        slim = replace(event, table=None, extra={})  # type: ignore[arg-type]
        self._number += 1
        file = self._files[crc32(repr(key).encode("utf-8", "replace")) % _BUCKETS]
        pickle.dump((key, at, self._number, location, binlog, slim), file)

    def groups(self, bucket: int) -> dict[Key, list[_Row]]:
        file = self._files[bucket]
        file.seek(0)
        by_key: dict[Key, list[_Row]] = defaultdict(list)
        while True:
            try:
                key, at, number, position, binlog, event = pickle.load(file)
            except EOFError:
                return by_key
            event.table = self._tables[at]
            by_key[key].append(_Row(event, number, position, binlog))


@dataclass(frozen=True, slots=True)
class _Row:
    event: RowChange
    number: int
    position: str
    binlog: BinlogPosition | None


def _read(compared: ComparedInput, spool: _Spool, report: VerifyReport, n: int) -> set[tuple[int | None, str]]:
    """Spools the rows of a side; its DDL statements."""
    decoder, ddl = LearningDecoder(compared.config).decoder, set[tuple[int | None, str]]()
    seen_ids: BoundedCache[bytes, bool] = BoundedCache(1_000_000)
    for item in compared.incoming:
        message = item[1] if isinstance(item, tuple) else item
        report.messages += 1
        result = MessageResult(error=item[0]) if isinstance(item, tuple) else decode_message(decoder, message, True)
        if (error := result.error) is not None:
            report.add("error", side=compared.name, at=position_text(message), code=error.code, detail=error.detail)
            continue
        report.checksums.update(outcome for outcome in result.checksums if outcome != "absent")
        for note in result.notes:
            report.add("checksum", side=compared.name, at=position_text(message), detail=note)
        # Debezium's connectors send an update of the key as a delete and an insert: each event is of one key here.
        single = (split_key_change(e) if isinstance(e, RowChange) else (e,) for e in result.events)
        for number, event in enumerate(chain.from_iterable(single)):
            if isinstance(event, DdlEvent):
                ddl.add((event.commit_ts, event.query))
            if not isinstance(event, RowChange):
                continue
            report.events[n] += 1
            if event.mismatch is not None:
                report.mismatches[str(event.mismatch)] += 1
            report.used[message.topic, event.db, event.table_name, event.table_version, event.schema_id] += 1
            # With its values: a change that comes again and says something else is no repetition.
            position = binlog_position(event)
            known = change_id(event, message, number) if position is None else (_key_of(event), event.op, position)
            id_ = repr((known, event.before, event.after)).encode("utf-8", "backslashreplace")
            id_ = blake2b(id_, digest_size=16).digest()
            if event.key and (event.commit_ts is not None or position is not None) and seen_ids.get(id_):
                report.repeated[n] += 1  # sent at least once: a repeated change is the same change
                continue
            seen_ids[id_] = True
            spool.add(_key_of(event), event, position_text(message), position)
    report.ddl[n] = len(ddl)
    return ddl


def _key_of(event: RowChange) -> Key:
    """What rows of both sides meet by. Without a key: the commit_ts."""
    row: Mapping[str, Any] = (event.before if event.op == "d" else event.after) or {}
    names = (sanitise_name(event.db).lower(), sanitise_name(event.table_name).lower())  # as TiDB compares names
    if not event.key or any(name not in row for name in event.key):
        return (*names, (("", event.commit_ts),))
    return (*names, tuple(sorted((sanitise_name(n).lower(), _comparable_value(event, n, row[n])) for n in event.key)))


def _comparable_value(event: RowChange, name: str, value: Any) -> Any:
    """A key's value in a form that all formats agree on: TIMESTAMP in UTC, fraction digits and DECIMAL zeros cut."""
    column = event.table.by_name.get(name)
    kind = column.type.kind if column else None
    if isinstance(value, bytes):
        return int.from_bytes(value, "big") if kind is Kind.BIT else value
    if not isinstance(value, str):
        return value
    try:
        if kind is Kind.TIMESTAMP:
            value = values.shift_zone(value, event.zone, "UTC")[0]
    except ValueError:
        return value
    if kind in (Kind.TIMESTAMP, Kind.DATETIME, Kind.TIME, Kind.DECIMAL) and "." in value:
        return value.rstrip("0").rstrip(".")
    return value


def _key(entry: list[_Row], two: list[_Row], report: VerifyReport, format_: str) -> None:
    """The events of one key: each finds its other, by commit_ts (or binlog position), else by its turn."""
    waiting: dict[int | BinlogPosition | None, list[_Row]] = defaultdict(list)
    positions = {row.binlog for row in entry} & {row.binlog for row in two}
    for row in two:
        waiting[_meets_by(row, positions)].append(row)
    pairs: list[tuple[_Row, _Row]] = []
    left: list[_Row] = []
    for row in entry:
        same = waiting.get(_meets_by(row, positions)) or []
        alike = (o for o in same if (o.event.op == "d") == (row.event.op == "d"))
        # Of rows without a key those with the same values meet: their order is nobody's to keep.
        fits = None if row.event.key else next((o for o in same if _values(o) == _values(row)), None)
        fits = fits or next(alike, None)
        if fits is None:
            left.append(row)
        else:
            same.remove(fits)
            pairs.append((row, fits))
    rest = [row for rows in waiting.values() for row in rows]
    for row in list(left):  # a delete whose format tells no commit_ts
        others = (o for o in rest if None in (_time(row), _time(o)) and (o.event.op == "d") == (row.event.op == "d"))
        other = next(others, None)
        if other is not None:
            left.remove(row)
            rest.remove(other)
            pairs.append((row, other))
    for kind, rows in (("missing", left), ("extra", rest)):
        for row in rows:
            report.add(kind, **_row_identity(row))
    last = 0
    for row, other in sorted((pair for pair in pairs if pair[0].event.key), key=lambda pair: pair[0].number):
        if other.number < last:
            report.add("order", **_row_identity(row), other=other.position)
        last = max(last, other.number)
    for row, other in pairs:
        _pair(row, other, report, format_)


def _values(row: _Row) -> Any:
    return row.event.op, row.event.before, row.event.after


def _meets_by(row: _Row, positions: set[BinlogPosition | None]) -> int | BinlogPosition | None:
    """The commit_ts, else the binlog position where the other side has it too."""
    return _time(row) if _time(row) is not None else row.binlog if row.binlog in positions else None


def _time(row: _Row) -> int | None:
    """The commit_ts, None for one that was made up."""
    return None if "synthetic_commit_ts" in row.event.flags else row.event.commit_ts


def _pair(row: _Row, other: _Row, report: VerifyReport, format_: str) -> None:
    has_losses = False
    same = True
    first, second = row.event, other.event
    for difference in losses.differences(first, second, second.table_version is not None, format_):
        name = _expected_loss(difference, first, second)
        if name is None:
            same = False
            column = {"column": difference.cell.column.name} if difference.cell else {}
            texts = {"one": _text(difference.first), "two": _text(difference.second), "other": other.position}
            report.add("value" if difference.cell else difference.where, **_row_identity(row), **column, **texts)
        else:
            has_losses = True
            report.expected[name] += 1
    if same and has_losses:
        report.with_losses += 1
    elif same:
        report.equal += 1


def _expected_loss(difference: losses.EventDifference, first: RowChange, second: RowChange) -> str | None:
    """The known loss that a difference is, of either format, by name."""
    if difference.where == "commit_ts":
        unplaced = "synthetic_commit_ts" in {*first.flags, *second.flags} or None in (first.commit_ts, second.commit_ts)
        return "commit_ts that the source does not have" if unplaced else None
    if difference.where == "table" and sanitise_name(str(difference.first)) == sanitise_name(str(difference.second)):
        return "names: sanitised"
    turned = {"extra": "missing", "missing": "extra"}
    column = difference.cell.column if difference.cell else None
    existing = second.table.by_name.get(column.name, column) if column else None
    back = WrittenValue(existing, difference.second, second, first.table_version is not None) if existing else None
    forth_pair = ValuePair(column, difference.first, difference.second, first, second)
    back_pair = ValuePair(existing, difference.second, difference.first, second, first)
    for where, cell, pair in (
        (difference.where, difference.cell, forth_pair),
        (turned.get(difference.where, difference.where), back, back_pair),
    ):
        for loss in losses.LOSSES:
            if loss.where == where and _is_of(loss, pair.back) and explains(loss, cell) and makes(loss, pair):
                return f"{pair.back.format}: {loss.what}"
    return None


def _is_of(loss: losses.Loss, event: RowChange) -> bool:
    """True if a format loses this, in any of its forms."""
    of = any(form.partition("/")[0] == event.format for form in loss.to)
    return of and not (loss.undefined and event.table_version is not None)


def _row_identity(row: _Row) -> dict[str, Any]:
    event = row.event
    cells = (event.before if event.op == "d" else event.after) or {}
    key = {name: plain_value(cells[name]) for name in event.key if name in cells}
    return {"table": str(event.table.id), "key": key, "op": event.op, "commit_ts": event.commit_ts, "at": row.position}


def _text(value: Any) -> Any:
    return plain_value(value) if isinstance(value, bytes) else value if isinstance(value, str | None) else str(value)
