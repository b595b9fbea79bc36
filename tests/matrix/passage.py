"""An event → a form of a format → the event that a reader gets of it, and what is different then."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from schemas import values
from schemas.errors import LossyError, WireError
from schemas.event import DdlEvent, Event, Message, Row, RowChange, Watermark, tso_physical_ms
from schemas.names import sanitise_name
from schemas.options import Options
from schemas.table import Column, Value
from schemas.types import BY_NAME, Kind
from schemas.wire.base import Decoder
from spark_jobs.codec import Side, decode_one, transcode_one
from tests.matrix.losses import LOSSES, Cell, applies, explains
from tests.support.golden import Golden, Registry

_EXT = {"enable_tidb_extension": True}
_STRINGS = {"avro_decimal_handling_mode": "string", "avro_bigint_unsigned_handling_mode": "string"}
_PRECISE = {"bigint_unsigned_handling_mode": "precise"}
FORMS: dict[str, dict[str, Any]] = {
    "avro": _EXT,
    "avro/before": {**_EXT, "avro_include_before_value": True},
    "craft": {},
    "open": {},
    "open-tiflow": {},
    "debezium": {},
    "debezium/ext": _EXT,
    "debezium-avro": {"avro_bigint_unsigned_handling_mode": "string"},
    "debezium-mysql": _PRECISE,
}
MORE_FORMS: dict[str, dict[str, Any]] = {
    "avro/strings": {**_EXT, **_STRINGS},
    "debezium/noschema": {"debezium_disable_schema": True},
    "debezium-avro/long": {},
    "debezium-avro/strings": {**_EXT, **_STRINGS},
    "debezium-mysql/avro": {**_PRECISE, "encoding_format": "avro"},
    "debezium-mysql/long": {},
    "debezium-mysql/double": {**_PRECISE, "decimal_handling_mode": "double"},
    "debezium-mysql/connect": {**_PRECISE, "time_precision_mode": "connect"},
    "debezium-mysql/isostring": {**_PRECISE, "time_precision_mode": "isostring"},
    "debezium-mysql/nanoseconds": {**_PRECISE, "time_precision_mode": "nanoseconds"},
    "debezium-mysql/noschema": {
        "debezium_disable_schema": True, "decimal_handling_mode": "string", "bigint_unsigned_handling_mode": "precise",
        "time_precision_mode": "adaptive_time_microseconds", "binary_handling_mode": "hex",
    },
}  # fmt: skip
# What the reader of a form has to be told, as its messages do not say it.
_TOLD = ("time_precision_mode", "decimal_handling_mode", "binary_handling_mode")


@dataclass(frozen=True)
class Difference:
    """where: as `Loss.where` ("digits", "bits": the same value in more digits or bytes). cell: None: of the event."""

    where: str
    cell: Cell | None
    first: Any
    second: Any

    def __str__(self) -> str:
        name = self.cell.column.name + " " + self.cell.column.type.name if self.cell else "event"
        return f"{self.where} of {name}: {self.first!r} → {self.second!r}"[:300]


@dataclass
class Tally:
    """What happened on a way: events that came back, differences and refusals by loss, and what nothing explains."""

    same: int = 0
    used: Counter[tuple[int, str]] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    unexplained: list[str] = field(default_factory=list)


class Given:
    """A decoder that has its events already."""

    def __init__(self, event: Event) -> None:
        self.event = event

    def decode(self, message: Message) -> list[Event]:
        return [self.event]


class Passage:
    """One form, with a registry and definitions (None: without)."""

    def __init__(self, form: str, zone: str, tables: Any, options: dict[str, Any] | None = None) -> None:
        self.form, self.format = form, form.partition("/")[0]
        self.defined = tables is not None
        chosen = {**FORMS, **MORE_FORMS}[form] if options is None else options
        registry: Any = Registry()
        self._writers = [
            Side(self.format, registry, Options.of({**chosen, "time_zone": zone, "on_lossy": mode}), tables).encoder()
            for mode in ("error", "flag")
        ]
        told = {k: v for k, v in chosen.items() if k in _TOLD and self.format == "debezium-mysql"}
        self._reader = Side(self.format, registry, Options.of({**told, "time_zone": zone}), tables).decoder()

    def send(self, event: RowChange, origin: Message, lossy: bool = False) -> tuple[RowChange, RowChange | WireError]:
        """(the event with the flags it got, what comes back of it). WireError where it is not written."""
        event = replace(event, flags=list(event.flags))
        origin = replace(origin, topic=f"t.{event.db}.{event.table_name}")
        result = transcode_one(Given(event), self._writers[lossy], origin)
        if result.error is not None:
            raise result.error
        return event, self._read(result.out)

    def _read(self, messages: list[Message]) -> RowChange | WireError:
        """What a reader gets: one row (a tombstone is none), or the error that the message is to it."""
        try:
            events = [e for message in messages for e in self._reader.decode(message)]
        except WireError as error:
            return error
        assert len(events) == 1, f"{len(events)} events came back"
        assert isinstance(events[0], RowChange)
        return events[0]

    def check(self, event: RowChange, origin: Message, tally: Tally) -> None:
        """Sends the event, strictly and (where that is refused) with losses flagged; tallies what happened."""
        for lossy in (False, True):
            try:
                sent, seen = self.send(event, origin, lossy)
            except WireError as error:
                self._refused(event, error, tally)
                if isinstance(error, LossyError) and not lossy:
                    continue
                return
            if isinstance(seen, WireError):
                self._explain(Difference("unread", None, event.op, str(seen)), set(sent.flags), tally)
                return
            found = list(differences(sent, seen, self.defined, self.format))
            for one in found:
                self._explain(one, {*sent.flags, *seen.flags}, tally)
            tally.same += not found
            return

    def _refused(self, event: RowChange, error: WireError, tally: Tally) -> None:
        tally.refused[error.code] += 1
        cells = [None, *self._cells(event, error.fields.get("column", ""))]
        for loss in LOSSES:
            about = any(explains(loss, cell) for cell in cells if cell or len(cells) == 1)
            if about and loss.error == error.code and applies(loss, self.form, self.defined):
                tally.used[loss.row, loss.what] += 1
                return
        tally.unexplained.append(f"{event.table.id} {event.op} refused: {error.code} {error.detail}"[:300])

    def _cells(self, event: RowChange, name: str) -> Iterator[Cell]:
        column = event.table.by_name.get(name)
        if column is not None:
            for row in (event.before, event.after):
                yield Cell(column, (row or {}).get(name), event, self.defined)

    def _explain(self, found: Difference, flags: set[str], tally: Tally) -> None:
        column = found.cell.column.name if found.cell else ""
        for loss in LOSSES:
            told = not loss.flag or {loss.flag, f"{loss.flag}:{column}"} & flags
            about = loss.where == found.where and applies(loss, self.form, self.defined)
            if told and about and explains(loss, found.cell):
                tally.used[loss.row, loss.what] += 1
                return
        tally.unexplained.append(f"{found} {sorted(flags)}"[:400])


# ---------------------------------------------------------------------------------- comparison
def differences(first: RowChange, second: RowChange, defined: bool, format_: str) -> Iterator[Difference]:
    """What a reader gets otherwise than it was. Values are compared exactly, FLOAT as float32 (plain-form.md)."""
    rename = sanitise_name if format_ == "avro" and not defined else str
    names = (first.db, first.table_name, *(c.name for c in first.table.columns if not c.virtual))
    if rename is sanitise_name and any(sanitise_name(n) != n for n in names):
        yield Difference("name", None, names, (second.db, second.table_name))
    for what, one, other in (
        ("op", first.op, second.op),
        ("commit_ts", first.commit_ts, second.commit_ts),
        ("table", tuple(map(rename, (first.db, first.table_name))), (second.db, second.table_name)),
        ("key", {*map(rename, first.key)}, {*second.key}),
    ):
        if one != other:
            yield Difference(what, None, one, other)
    for side in ("before", "after"):
        row, back = _visible(first, side), _visible(second, side)
        if (row is None) != (back is None):
            yield Difference(side, None, row, back)
        elif row is not None and back is not None:
            yield from _rows(first, second, {rename(n): (n, v) for n, v in row.items()}, back, defined)


def _visible(event: RowChange, side: str) -> Row | None:
    row: Row | None = getattr(event, side)
    if row is None:
        return None
    hidden = {c.name for c in event.table.columns if c.virtual}
    return {name: value for name, value in row.items() if name not in hidden}


_NO_COLUMN = Column("", BY_NAME["text"])


def _rows(
    first: RowChange, second: RowChange, one: dict[str, tuple[str, Value]], other: Row, defined: bool
) -> Iterator[Difference]:
    for name, (own, value) in one.items():
        cell = Cell(first.table.by_name.get(own, _NO_COLUMN), value, first, defined)
        if name not in other:
            yield Difference("missing", cell, value, "(absent)")
        elif (where := _differs(cell.column, value, _zoned(cell.column, other[name], first, second))) != "":
            yield Difference(where, cell, value, other[name])
    for name, value in other.items():
        if name not in one:
            cell = Cell(second.table.by_name.get(name, _NO_COLUMN), value, first, defined)
            hidden = name in first.table.by_name and first.table.by_name[name].virtual
            where = "extra" if value is not None else "virtual" if hidden else "filled" if first.key_only else "extra"
            yield Difference(where, cell, "(absent)", value)


def _zoned(column: Column, value: Value, first: RowChange, second: RowChange) -> Value:
    if column.type.kind is not Kind.TIMESTAMP or not isinstance(value, str) or first.zone == second.zone:
        return value
    try:
        return values.shift_zone(value, second.zone, first.zone)[0]
    except ValueError:
        return value  # no TIMESTAMP's text: its type was not known


def _differs(column: Column, one: Value, other: Value) -> str:
    if one == other:
        return ""
    kind = column.type.kind
    if one is None or other is None:
        return "cell"
    if kind is Kind.FLOAT and _float32(one) == _float32(other) is not None:
        return ""
    if kind in (Kind.DATETIME, Kind.TIME, Kind.TIMESTAMP) and _longest(one) == _longest(other):
        return "digits"
    if isinstance(one, bytes) and isinstance(other, bytes) and kind is Kind.BIT:
        return "bits" if int.from_bytes(one, "big") == int.from_bytes(other, "big") else "cell"
    return "cell"


def _float32(value: Value) -> float | None:
    """What a FLOAT's text says as a double; both of a damaged one and of the float32 that it happens to be."""
    try:
        return values.as_float32(values.real(str(value)))
    except (ValueError, OverflowError):
        return None


def _longest(value: Value) -> str:
    whole, _, fraction = str(value).partition(".")
    return f"{whole}.{fraction.ljust(6, '0')}"


# ---------------------------------------------------------------------------------- sources
@cache
def _source(golden: Golden, defined: bool) -> tuple[tuple[Event, Message], ...]:
    return tuple(read_all(golden, golden.side(defined).decoder()))


def read_all(golden: Golden, decoder: Decoder) -> list[tuple[Event, Message]]:
    """What a decoder reads of a golden case, with the messages it came in."""
    moments = _moments(golden)
    out: list[tuple[Event, Message]] = []
    for place, message in enumerate(golden.messages()):
        origin = replace(message, timestamp=moments[place], offset=place)
        out += [(event, origin) for event in decode_one(decoder, origin).events]
    return out


def source_rows(golden: Golden, defined: bool) -> list[tuple[RowChange, Message]]:
    """The rows of a golden case with the messages they came in.

    A message's timestamp is the millisecond after the commit's, as Kafka's would be; the formats without commit_ts
    need one. Messages that can't be read (a record without key and value) are other tests' business.
    """
    return [(event, origin) for event, origin in _source(golden, defined) if isinstance(event, RowChange)]


def source_others(golden: Golden) -> list[tuple[DdlEvent | Watermark, Message]]:
    """The statements and watermarks of a golden case with the messages they came in."""
    return [(event, origin) for event, origin in _source(golden, True) if not isinstance(event, RowChange)]


def _moments(golden: Golden) -> list[int]:
    """Milliseconds of each message: of its step in the meta; of the last step where it tells none."""
    steps = {step["step"]: step.get("commit_ts") or 0 for step in golden.meta["steps"]}
    last = max(steps.values(), default=0)
    lines = golden.messages_file.read_text(encoding="utf-8").splitlines()
    return [tso_physical_ms(steps.get(json.loads(line).get("step"), last) or last) + 1 for line in lines if line]
