"""Open Protocol messages → events (upstream ticdc and tiflow `codec/open`)."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from ticdc_bridge.schemas.codec import claim_check, compression, json_exact
from ticdc_bridge.schemas.codec.bounded_cache import BoundedCache
from ticdc_bridge.schemas.codec.byte_signatures import is_open_value, with_body_name
from ticdc_bridge.schemas.codec.json_exact import Number
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.formats.framing import MAX_MESSAGE, malformed_error
from ticdc_bridge.schemas.formats.open_protocol import frame
from ticdc_bridge.schemas.formats.open_protocol import values as cell_values
from ticdc_bridge.schemas.formats.open_protocol.schema import ColumnHeader, describe
from ticdc_bridge.schemas.formats.other_fields import EXTRA as OTHER_FIELDS
from ticdc_bridge.schemas.formats.other_fields import other_fields
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import MAX_TSO, DdlEvent, Event, Message, Op, RowChange, Watermark
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.ports import TableSource
from ticdc_bridge.schemas.model.reasons import reason_of
from ticdc_bridge.schemas.model.table import Column, DefinitionMismatch, Table, TableId, TableVersion, Value
from ticdc_bridge.schemas.model.types import ALWAYS_NULL, ELEMENTS, MAX_COLUMNS, Kind

# ---- A row's JSON → op, and the cells and values of its sides (upstream ticdc and tiflow `codec/open`).

_IMAGES = frozenset(("u", "p", "d"))
_CELL_KEYS = {"t", "h", "f", "v"}

Cells = tuple[ColumnHeader, ...]
Image = tuple[Cells, list[Any]]
_NOTHING: Image = ((), [])


_ARRAY = re.compile(r'(?:[^"\[]++|"(?:[^"\\]++|\\.)*+")*+\[', re.DOTALL)
_LONG = 1 << 20


def parse(text: str) -> Any:
    """A row's or a DDL statement's text → JSON as pairs. ValueError.

    There are no arrays in it. A long text is searched for them first: parsed, they take too much memory.
    """
    if len(text) > _LONG and "[" in text and _ARRAY.match(text):
        raise ValueError("an array, which the Open Protocol does not have")
    return json_exact.decode_pairs(text)


def images(document: Any) -> tuple[Op, Image, Image, list[str]]:
    """A row's value → op, new row, old row, columns whose old value stands nowhere by name."""
    if not isinstance(document, tuple):
        raise ValueError("a row is a JSON object")
    members = dict(document)
    if len(members) != len(document) or not members or members.keys() & _IMAGES not in ({"u"}, {"u", "p"}, {"d"}):
        raise ValueError(f"a row has u, u and p, or d, not {', '.join(map(repr, list(members)[:4])) or 'nothing'}")
    if "d" in members:
        before, _ = _image(members["d"])
        return "d", _NOTHING, _require_columns(before), []
    after, _ = _image(members["u"])
    if "p" not in members:
        return "c", _require_columns(after), _NOTHING, []
    before, nameless = _image(members["p"])
    unnamed: list[str] = []
    if nameless:
        before, unnamed = _name_cells(after, before, nameless)
    return "u", _require_columns(after), before, unnamed  # with only-output-updated-columns p may be empty


def others_of(field: str, members: dict[str, Any], names: frozenset[str]) -> dict[str, Any]:
    """`other_fields` of an object whose inner objects are pairs. ValueError."""
    found = {name: _without_pairs(value) for name, value in members.items() if name not in names}
    return other_fields(**{field: (found, frozenset())})


def _without_pairs(value: Any) -> Any:
    if isinstance(value, tuple):
        return {name: _without_pairs(inner) for name, inner in value}
    return [_without_pairs(inner) for inner in value] if isinstance(value, list) else value


def _require_columns(image: Image) -> Image:
    if not image[0]:
        raise ValueError("a row without columns")
    return image


_NamelessCells = list[tuple[int, tuple[tuple[str, Any], ...]]]


def _image(pairs: Any) -> tuple[Image, _NamelessCells]:
    """The columns of one side; and (position, fields) of those that TiCDC wrote without their name."""
    if not isinstance(pairs, tuple):
        raise ValueError("u, p and d are JSON objects")
    if len(pairs) > MAX_COLUMNS * len(_CELL_KEYS):  # nameless columns give four pairs at most
        raise ValueError(f"more columns than TiDB's {MAX_COLUMNS}")
    cells: list[ColumnHeader] = []
    values: list[Any] = []
    nameless: _NamelessCells = []
    names: set[str] = set()
    for name, fields in pairs:
        if not isinstance(fields, tuple):
            nameless.append((len(cells), ((name, fields),)))
            continue
        if name in names:
            raise ValueError(f"column {name!r} stands twice")
        names.add(name)
        name.encode()
        cell, value = _cell(name, fields)
        cells.append(cell)
        values.append(value)
    if len(cells) > MAX_COLUMNS:
        raise ValueError(f"more columns than TiDB's {MAX_COLUMNS}")
    if nameless:
        nameless = list(_groups(nameless))
    return (tuple(cells), values), nameless


def _cell(name: str, fields: tuple[tuple[str, Any], ...]) -> tuple[ColumnHeader, Any]:
    members = dict(fields)
    if len(members) != len(fields) or not members.keys() <= _CELL_KEYS or "t" not in members or "v" not in members:
        raise ValueError(f"column {name!r}: t, f and v are needed, and h may be")
    handle = members.get("h", False)
    if not isinstance(handle, bool):
        raise ValueError(f"column {name!r}: h is no boolean")
    flags = _small_number(members["f"], name, "f") if "f" in members else None
    return ColumnHeader(name, _small_number(members["t"], name, "t"), handle, flags), members["v"]


def _small_number(value: Any, name: str, what: str) -> int:
    if type(value) is not Number or len(value) > 5 or not value.isdigit():
        raise ValueError(f"column {name!r}: {what} is no such number")
    return int(value)


def _groups(nameless: _NamelessCells) -> Iterator[tuple[int, tuple[tuple[str, Any], ...]]]:
    """Fields without a column's name, put together: each group begins with its type code."""
    group: list[tuple[str, Any]] = []
    at = 0
    for position, (pair,) in nameless:
        if pair[0] == "t" and group:
            yield at, tuple(group)
            group = []
        elif group and position != at:
            raise ValueError(f"{pair[0]!r} stands beside the columns of the old row")
        group.append(pair)
        at = position
    yield at, tuple(group)


def _name_cells(after: Image, before: Image, nameless: _NamelessCells) -> tuple[Image, list[str]]:
    """Gives old values their names back that TiCDC left out (only-output-updated-columns; upstream `codec.go:321`).

    It leaves the name out where a value became NULL. The columns come in table order, so the nameless one is a column
    of this type and these flags that is NULL now and lies between its neighbours. Where as many values as columns are
    left they belong together in order; where more columns could be meant none is taken: their names are returned.
    """
    order = {cell.name: index for index, cell in enumerate(after[0])}
    if any(cell.name not in order for cell in before[0]):
        raise ValueError("the old row has a column that the new row does not have")
    positions = [order[cell.name] for cell in before[0]]
    if positions != sorted(positions):
        raise ValueError("the old row's columns are in another order than the new row's")
    old_indexes, nulls = set(positions), dict[ColumnHeader, list[int]]()
    for index, (cell, value) in enumerate(zip(*after, strict=True)):
        if value is None and index not in old_indexes:
            nulls.setdefault(cell._replace(name=""), []).append(index)
    # Values of one kind between the same neighbours share their candidates.
    alike: dict[tuple[int, ColumnHeader], list[Any]] = {}
    for at, fields in nameless:
        cell, value = _cell("", fields)
        alike.setdefault((at, cell), []).append(value)
    by_name = dict(zip((c.name for c in before[0]), before[1], strict=True))
    unnamed: list[str] = []
    for (at, cell), values in alike.items():
        those = nulls.get(cell, [])
        low = bisect_right(those, positions[at - 1]) if at else 0
        high = bisect_left(those, positions[at]) if at < len(positions) else len(those)
        names = [after[0][index].name for index in those[low:high]]
        if len(names) < len(values):
            raise ValueError("the old row has a value without its column's name, and no column it could be of")
        if len(names) > len(values):
            unnamed += names
        else:
            by_name.update(zip(names, values, strict=True))
    ordered = tuple(c for c in after[0] if c.name in by_name)
    return (ordered, [by_name[c.name] for c in ordered]), unnamed


# ---- Row values of the Open Protocol → row changes, by readers compiled per table shape.

_MOST_KEPT = 1_000_000  # columns of all layouts together


class EventKey(NamedTuple):
    """An event's key. `extra`: what is kept to write it again; `claim`: where the row is, for a claim-check."""

    kind: int
    table: TableId
    commit_ts: int
    extra: dict[str, Any]
    key_only: bool
    claim: str | None


class _Column(NamedTuple):
    """How a column is read: from a JSON number or a string; None: its type code says that it is NULL."""

    name: str
    numeric: bool | None
    read: cell_values.Read


@dataclass(frozen=True, slots=True)
class _Layout:
    """A compiled pair of sides: how to read them, and what holds for every such row.

    doubts: (flag, column) of values that are not known for certain: ENUM and SET without their names, character
    columns that could be binary. zeros: ENUM columns with an empty element, which index 0 must not be taken for.
    is_complete: the row has all columns.
    """

    table: Table
    version: int | None
    after: tuple[_Column, ...]
    before: tuple[_Column, ...]
    odd: dict[str, list[int | bool | None]]
    doubts: tuple[tuple[str, str], ...]
    zeros: frozenset[str]
    is_complete: bool
    mismatch: DefinitionMismatch | None


class OpenRowReader:
    """Reads row values of one format. ValueError for what is no row of the Open Protocol."""

    def __init__(self, format_: str, tables: TableSource | None, options: Options) -> None:
        self._format, self._tables, self._options = format_, tables, options
        self._layouts: BoundedCache[tuple[Any, ...], _Layout] = BoundedCache(
            1024, _MOST_KEPT, lambda key, _: len(key[2]) + len(key[3])
        )

    def read(self, key: EventKey, text: str) -> RowChange:
        """A row's value as text → the change."""
        version = self._tables.at(key.table, key.commit_ts) if self._tables else None
        replaced = "\\ufffd" in text
        if replaced:
            text = _REPLACED.sub(rf"\1{_MARK}", text)
        document = parse(text)
        op, after, before, unnamed = images(document)
        marked = _unmark(after, before) if replaced else ()
        shape = (key.table, version.commit_ts if version else None, after[0], before[0])
        layout = self._layouts.find(shape, lambda: self._compile(key.table, version, after[0], before[0]))
        new = None if op == "d" else _read(layout.after, after[1])
        old = None if op == "c" else _read(layout.before, before[1])
        event = self._event(key, op, layout, new, old)
        if len(document) > 2 or (len(document) == 2 and op != "u"):
            event.extra |= others_of("value", dict(document), _IMAGES)  # written again as it is
        _note_zeros(event, layout, (("after", after), ("before", before)))
        event.note_mismatch(layout.mismatch)
        for name in marked:
            event.flag(f"replaced_utf8:{name}")
        for name in unnamed:
            event.flag(f"old_value_unnamed:{name}")
        return event

    def _event(
        self, key: EventKey, op: Op, layout: _Layout, after: dict[str, Value] | None, before: dict[str, Value] | None
    ) -> RowChange:
        flags = [flag for flag, name in layout.doubts if (after or {}).get(name) or (before or {}).get(name)]
        if key.key_only:
            flags.append("handle_key_only")
        if self._options.no_old_value and op == "c":
            flags.append("op_unknown")
        extra = key.extra.copy()
        if layout.odd:
            extra["columns"] = dict(layout.odd)
        return RowChange(
            self._format, layout.table, op, key.commit_ts, before, after, layout.table.handle_key,
            self._options.time_zone, None, layout.version, flags, extra,
            key.key_only or (op == "d" and not layout.is_complete),
        )  # fmt: skip

    def _compile(self, id_: TableId, version: TableVersion | None, after: Cells, before: Cells) -> _Layout:
        cells = {cell.name: cell for cell in (*before, *after)}
        for cell in before:
            if cells[cell.name] != cell:
                raise ValueError(f"column {cell.name!r} has another type or flags in the old row")
        # The order is the new row's, and the old row's where it has columns alone.
        ordered = tuple(cells[name] for name in dict.fromkeys(c.name for c in (*after, *before)))
        described = describe(id_, ordered, version, self._options)
        table, version = described.table, described.version
        columns = {}
        for cell in ordered:
            column = table.by_name[cell.name]
            if cell.code in ALWAYS_NULL:
                columns[cell.name] = _Column(cell.name, None, _refuse_value)
                continue
            read = cell_values.reader(column, self._options.open_varchar_base64)
            columns[cell.name] = _Column(cell.name, column.type.kind in cell_values.NUMBERS, read)
        carried = [table.by_name[cell.name] for cell in ordered]
        stored_columns = [c for c in table.columns if not c.virtual]
        new, old = (tuple(columns[c.name] for c in cells) for cells in (after, before))
        doubts = tuple((f"{flag}:{c.name}", c.name) for c in carried if (flag := _doubt(c)))
        zeros = frozenset(c.name for c in carried if c.type.kind is Kind.ENUM and "" in c.elements)
        has_key_alone = version is None and all(c.handle_key for c in carried)
        is_complete = len(carried) == len(stored_columns) and not has_key_alone
        commit_ts = version.commit_ts if version else None
        return _Layout(table, commit_ts, new, old, described.odd, doubts, zeros, is_complete, described.mismatch)


def _refuse_value(_value: str) -> Value:
    raise ValueError("a value, where the type code says NULL")


def _doubt(column: Column) -> str:
    if column.type.kind in ELEMENTS and not column.elements:
        return "enum_number"
    return "binary_or_text" if column.type.kind is Kind.TEXT and column.vague else ""


def _read(columns: tuple[_Column, ...], values: list[Any]) -> dict[str, Value]:
    row: dict[str, Value] = {}
    name = ""
    try:
        for (name, numeric, read), value in zip(columns, values, strict=True):
            if value is None:
                row[name] = None
            elif numeric is None:
                read(value)
            elif not isinstance(value, str) or (type(value) is Number) is not numeric:
                raise ValueError(f"a JSON {'number' if numeric else 'string'} is needed")
            else:
                row[name] = read(str(value))
    except (ValueError, ArithmeticError) as error:
        reason = "not UTF-8" if isinstance(error, UnicodeError) else reason_of(error)
        raise ValueError(f"column {name!r}: {reason}") from error
    return row


# Classic TiCDC's JSON has the escape \ufffd where bytes were not UTF-8, and U+FFFD itself where the text has it. Half a
# surrogate pair, which no message holds, stands for the escape until the columns are known.
_REPLACED = re.compile(r"((?<!\\)(?:\\\\)*)\\ufffd")
_MARK = "\udfff"


def _unmark(*row_images: Image) -> list[str]:
    """Puts U+FFFD where bytes were lost; returns the columns."""
    names = []
    for cells, values in row_images:
        for index, value in enumerate(values):
            if isinstance(value, str) and _MARK in value:
                values[index] = value.replace(_MARK, "\ufffd")
                names.append(cells[index].name)
    return names


def _note_zeros(event: RowChange, layout: _Layout, row_images: tuple[tuple[str, Image], ...]) -> None:
    """Remembers which `""` is index 0 (a value that is no element), where the ENUM has an empty element too."""
    if layout.zeros:
        zeros = [
            f"{image}.{cell.name}"
            for image, (cells, values) in row_images
            for cell, value in zip(cells, values, strict=True)
            if cell.name in layout.zeros and value == "0"
        ]
        if zeros:
            event.extra["enum_zero"] = zeros


ROW, DDL, RESOLVED = 1, 2, 3
_KEY_NAMES = frozenset(("ts", "scm", "tbl", "t", "rid", "ptn", "ohk", "ccl"))
_BROKEN = (KeyError, TypeError, AttributeError, ValueError, ArithmeticError)


class OpenDecoder:
    """Reads batches of rows, DDL and resolved events, of new and classic TiCDC alike.

    Types come from type codes and flags; ENUM and SET are numbers unless a table version tells their names. A value
    may be a Snappy block or an LZ4 frame: its first bytes tell. Only handle key columns (`ohk`): flag
    `handle_key_only`. A claim-check's row is fetched with `Context.claims`.
    """

    format = "open"

    def __init__(self, context: Context) -> None:
        self._claims = context.claims
        self._rows = OpenRowReader(self.format, context.tables, context.options)
        self._last_key: tuple[bytes, EventKey] | None = None

    def decode(self, message: Message) -> list[Event]:
        """One message → its events in order. WireError NOT_FRAMED, TRUNCATED, TRAILING_BYTES, MALFORMED, TOO_LARGE,
        CLAIM_CHECK, EMPTY_RECORD; then none of its rows counts."""
        return self._decode(message.key, message.value, claimed=False)

    def _decode(self, key: bytes | None, value: bytes | None, claimed: bool) -> list[Event]:
        if key is None:
            reason = "a message without a key: the Open Protocol's key says what it is"
            named = with_body_name("", value, json_read=False) if value and not is_open_value(value) else ""
            raise WireError("EMPTY_RECORD", details=f"{reason}; {named}" if named else reason)
        if value is None and not frame.begins(key):
            raise WireError("EMPTY_RECORD", details="a message without a value: the Open Protocol has no tombstones")
        keys = [self._key(data) for data in frame.split_key(key)]
        if not value and all(k.kind == RESOLVED for k in keys):  # as old releases wrote them
            return [Watermark(self.format, k.commit_ts) for k in keys]
        values = frame.split_value(value or b"", len(keys))
        room = MAX_MESSAGE
        events: list[Event] = []
        for event_key, data in zip(keys, values, strict=True):
            if event_key.kind == RESOLVED:
                if data:
                    raise malformed_error("value", "a resolved event has no value")
                events.append(Watermark(self.format, event_key.commit_ts))
                continue
            if event_key.claim is not None:
                events.append(self._read_claimed(event_key, claimed))
                continue
            try:
                plain = compression.decompress(data, room)
            except ValueError as error:
                raise malformed_error("value", with_body_name(str(error), data)) from error
            if plain is not data:
                room -= len(plain)
            try:
                events.append(self._event(event_key, json_exact.document(plain)))
            except _BROKEN as error:
                what = "DDL" if event_key.kind == DDL else f"row of {event_key.table}"
                details = f"not an Open Protocol {what}: {with_body_name(reason_of(error), plain)}"
                raise malformed_error("value", details) from error
        return events

    def _event(self, key: EventKey, text: str) -> Event:
        if key.kind == DDL:
            body = _object(parse(text))
            query = json_exact.string(body["q"], "q")
            query.encode()
            others = {name: value for name, value in key.extra.items() if name == OTHER_FIELDS}
            return DdlEvent(self.format, *key.table, key.commit_ts, _integer(body["t"], "t", 1 << 31), query, others)
        return self._rows.read(key, text)

    def _read_claimed(self, key: EventKey, nested: bool) -> Event:
        """The row that a claim-check message points to: a file of a whole message with this one row."""
        uri = str(key.claim)
        if nested:
            raise malformed_error("value", f"the claim-check's content points to another one, {uri}")
        inner_key, inner_value = claim_check.fetch_message(self._claims, uri)
        events = self._decode(inner_key, inner_value, claimed=True)
        if len(events) != 1 or not isinstance(events[0], RowChange):
            raise WireError("CLAIM_CHECK", uri=uri[:300], details="the file holds no single row")
        row = events[0]
        claim_check.check_row(uri, (None, key.commit_ts, key.table), (None, row.commit_ts, row.table.id))
        return row

    def _key(self, data: bytes) -> EventKey:
        if self._last_key is not None and data == self._last_key[0]:
            return self._last_key[1]
        try:
            key = _parse_key(data)
        except _BROKEN as error:
            details = f"not an Open Protocol key: {with_body_name(reason_of(error), data)}"
            raise malformed_error("key", details) from error
        self._last_key = data, key
        return key


class OpenTiflowDecoder(OpenDecoder):
    """The same messages under the classic encoder's name."""

    format = "open-tiflow"


def _parse_key(data: bytes) -> EventKey:
    """ValueError, KeyError or TypeError for what is no key."""
    # A claim-check of new TiCDC has ohk twice, true and then false: the last one counts.
    fields = _object(parse(json_exact.document(data)), twice="ohk")
    kind = _integer(fields["t"], "t", RESOLVED + 1)
    if kind not in (ROW, DDL, RESOLVED):
        raise ValueError(f"event type {kind}")
    table = TableId(*(json_exact.string(fields.get(name, ""), name) for name in ("scm", "tbl")))
    "".join(table).encode()
    if kind == ROW and not all(table):
        raise ValueError("a row without the name of its table")
    extra = others_of("key", fields, _KEY_NAMES)
    for name in ("ptn", "rid"):
        if name in fields:
            extra[name] = json_exact.integer(fields[name], name)
    key_only = fields.get("ohk", False)
    if not isinstance(key_only, bool):
        raise ValueError("ohk is no boolean")
    if key_only:
        extra["ohk"] = True
    claim = fields.get("ccl")
    if claim is not None:
        json_exact.string(claim, "ccl").encode()
    return EventKey(kind, table, _integer(fields["ts"], "ts", MAX_TSO + 1), extra, key_only, claim or None)


def _object(pairs: Any, twice: str = "") -> dict[str, Any]:
    if not isinstance(pairs, tuple):
        raise ValueError("a JSON object is needed")
    members = dict(pairs)
    if len(members) != len(pairs) - max(0, sum(name == twice for name, _ in pairs) - 1):
        raise ValueError("a key stands twice in one object")
    return members


def _integer(value: Any, what: str, limit: int) -> int:
    number = json_exact.integer(value, what)
    if not 0 <= number < limit:
        raise ValueError(f"{what} {number} is out of range")
    return number
