"""Row values of the Open Protocol → row changes, by readers compiled per table shape.

A shape that comes again is read by one regular expression made of its column heads: TiCDC writes the same text around
the values of every row. A row in another spelling is parsed as JSON; both give the same events.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from schemas.codec import go_text, json_exact
from schemas.codec.bounded import Bounded
from schemas.codec.json_exact import Number
from schemas.event import Op, RowChange
from schemas.ports import TableSource
from schemas.table import Table, TableId, TableVersion, Value
from schemas.types import Kind
from schemas.wire.open_protocol import cells as cell_values
from schemas.wire.open_protocol.columns import Cell, describe

_FAST_AT, _FAST_COLUMNS = (8, 80, 800, 8000, 80000), 300  # compiling a pattern costs as much as some ten rows
_CELL_KEYS = {"t", "h", "f", "v"}


class RowKey(NamedTuple):
    """What an event's key says of a row; `extra` goes into the event."""

    id: TableId
    commit_ts: int
    extra: dict[str, Any]
    key_only: bool = False


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    numeric: bool
    read: cell_values.Read


@dataclass(frozen=True, slots=True)
class _Layout:
    """A compiled pair of sides: how to read them, and what holds for every such row.

    numbered: columns whose names of elements are not known; unsure: character columns that could be binary;
    zeros: ENUM columns with an empty element, which index 0 must not be taken for.
    """

    table: Table
    version: int | None
    after: tuple[_Column, ...]
    before: tuple[_Column, ...]
    odd: dict[str, list[int | bool | None]]
    numbered: tuple[str, ...]
    unsure: tuple[str, ...]
    zeros: frozenset[str]
    whole: bool


@dataclass(frozen=True, slots=True)
class _Fast:
    pattern: re.Pattern[str]
    one: _Layout
    both: _Layout | None
    width: int


_Cells = tuple[Cell, ...]
_Side = tuple[_Cells, list[Any]]
_NOTHING: _Side = ((), [])


class RowReader:
    """Reads row values of one format. ValueError for what is no row of the Open Protocol."""

    def __init__(
        self, format_: str, tables: TableSource | None, zone: str, varchar_base64: bool, op_unknown: bool
    ) -> None:
        self._format, self._tables, self._zone = format_, tables, zone
        self._varchar_base64, self._op_unknown = varchar_base64, op_unknown
        self._layouts: Bounded[tuple[Any, ...], _Layout] = Bounded()
        self._seen: Bounded[int, int] = Bounded()
        self._fast: Bounded[tuple[Any, ...], _Fast] = Bounded(256)

    def read(self, key: RowKey, text: str) -> RowChange:
        """A row's value as text → the change."""
        version = self._tables.at(key.id, key.commit_ts) if self._tables else None
        shape = (key.id, version.commit_ts if version else None, text[:4])
        fast = self._fast.get(shape)
        if fast is not None:
            found = fast.pattern.fullmatch(text)
            if found is not None and "\\ufffd" not in text:
                return self._fast_row(key, fast, found)
        replaced = "\\ufffd" in text
        if replaced:
            text = _REPLACED.sub(rf"\1{_MARK}", text)
        op, after, before, unnamed = _sides(json_exact.decode_pairs(text))
        marked = _unmark(after, before) if replaced else ()
        layout = self._layout(key.id, version, after[0], before[0])
        event = self._event(key, op, layout, _read(layout.after, after[1]), _read(layout.before, before[1]))
        _note_zeros(event, layout, (("after", after), ("before", before)))
        for name in marked:
            event.flag(f"replaced_utf8:{name}")
        for name in unnamed:
            event.flag(f"old_value_unnamed:{name}")
        seen = self._seen.get(id(layout), 0) + 1
        self._seen[id(layout)] = seen
        if seen in _FAST_AT and not unnamed and not layout.zeros:
            self._make_fast(shape, key.id, version, op, after[0], before[0])
        return event

    def _event(
        self,
        key: RowKey,
        op: Op,
        layout: _Layout,
        after: dict[str, Value] | None,
        before: dict[str, Value] | None,
    ) -> RowChange:
        sides = [side for side in (after, before) if side is not None]
        flags = [
            f"{flag}:{name}"
            for flag, names in (("enum_number", layout.numbered), ("binary_or_text", layout.unsure))
            for name in names
            if any(side.get(name) is not None for side in sides)
        ]
        if key.key_only:
            flags.append("handle_key_only")
        if self._op_unknown and op == "c":
            flags.append("op_unknown")
        extra = dict(key.extra)
        if layout.odd:
            extra["columns"] = dict(layout.odd)
        return RowChange(
            self._format, layout.table, op, key.commit_ts, before, after, layout.table.handle_key, self._zone,
            None, layout.version, flags, extra, key.key_only or (op == "d" and not layout.whole),
        )  # fmt: skip

    def _layout(self, id_: TableId, version: TableVersion | None, after: _Cells, before: _Cells) -> _Layout:
        known = (id_, version.commit_ts if version else None, after, before)
        layout = self._layouts.get(known)
        if layout is None:
            layout = self._layouts[known] = self._compile(id_, version, after, before)
        return layout

    def _compile(self, id_: TableId, version: TableVersion | None, after: _Cells, before: _Cells) -> _Layout:
        cells = {cell.name: cell for cell in (*before, *after)}
        for cell in before:
            if cells[cell.name] != cell:
                raise ValueError(f"column {cell.name!r} has another type or flags in the old row")
        # The order is the new row's, and the old row's where it has columns alone.
        ordered = tuple(cells[name] for name in dict.fromkeys(c.name for c in (*after, *before)))
        described = describe(id_, ordered, version)
        table = described.table
        made = {}
        for cell in ordered:
            column = table.by_name[cell.name]
            read = cell_values.reader(column, self._varchar_base64)
            made[cell.name] = _Column(cell.name, column.type.kind in cell_values.NUMBERS, read)
        carried = [table.by_name[cell.name] for cell in ordered]
        kept = [c for c in table.columns if not c.virtual]
        return _Layout(
            table,
            version.commit_ts if version else None,
            tuple(made[c.name] for c in after),
            tuple(made[c.name] for c in before),
            described.odd,
            tuple(c.name for c in carried if c.type.kind in (Kind.ENUM, Kind.SET) and not c.elements),
            tuple(c.name for c in carried if c.type.kind is Kind.TEXT and c.vague),
            frozenset(c.name for c in carried if c.type.kind is Kind.ENUM and "" in c.elements),
            whole=len(carried) == len(kept) and not (version is None and all(c.handle_key for c in carried)),
        )

    # ---- the fast way
    def _make_fast(
        self, shape: tuple[Any, ...], id_: TableId, version: TableVersion | None, op: Op, after: _Cells, before: _Cells
    ) -> None:
        if len(after) + len(before) > _FAST_COLUMNS:
            return
        if op == "d":
            one = self._layout(id_, version, (), before)
            self._fast[shape] = _Fast(re.compile(rf'\{{"d":{_pattern(before, one.table)}\}}'), one, None, len(before))
            return
        old = before or after  # an insert tells how the updates of its table look
        one, both = self._layout(id_, version, after, ()), self._layout(id_, version, after, old)
        text = rf'\{{"u":{_pattern(after, one.table)}(?:,"p"(:){_pattern(old, both.table)})?\}}'
        self._fast[shape] = _Fast(re.compile(text), one, both, len(after))

    def _fast_row(self, key: RowKey, fast: _Fast, found: re.Match[str]) -> RowChange:
        texts = found.groups()
        if fast.both is None:
            return self._event(key, "d", fast.one, None, _read_texts(fast.one.before, texts))
        if texts[fast.width] is None:
            return self._event(key, "c", fast.one, _read_texts(fast.one.after, texts), None)
        after, before = _read_texts(fast.both.after, texts), _read_texts(fast.both.before, texts[fast.width + 1 :])
        return self._event(key, "u", fast.both, after, before)


def _read(columns: tuple[_Column, ...], found: list[Any]) -> dict[str, Value] | None:
    if not columns:
        return None
    row: dict[str, Value] = {}
    for column, value in zip(columns, found, strict=True):
        if value is None:
            row[column.name] = None
            continue
        if not isinstance(value, str) or (type(value) is Number) is not column.numeric:
            raise ValueError(f"column {column.name!r}: a JSON {'number' if column.numeric else 'string'} is needed")
        try:
            row[column.name] = column.read(str(value))
        except (ValueError, ArithmeticError) as error:
            raise ValueError(f"column {column.name!r}: {_shown(error)}") from error
    return row


def _read_texts(columns: tuple[_Column, ...], texts: Iterable[str | None]) -> dict[str, Value]:
    row: dict[str, Value] = {}
    for column, text in zip(columns, texts, strict=False):
        if text is None:
            row[column.name] = None
            continue
        try:
            if not column.numeric and "\\" in text:
                text = go_text.json_unescape(text)
            row[column.name] = column.read(text)
        except (ValueError, ArithmeticError) as error:
            raise ValueError(f"column {column.name!r}: {_shown(error)}") from error
    return row


# Classic TiCDC's JSON has the escape \ufffd where bytes were not UTF-8, and U+FFFD itself where the text has it. Half a
# surrogate pair, which no message holds, stands for the escape until the columns are known.
_REPLACED = re.compile(r"((?<!\\)(?:\\\\)*)\\ufffd")
_MARK = "\udfff"


def _unmark(*sides: _Side) -> list[str]:
    """Puts U+FFFD where bytes were lost; returns the columns."""
    names = []
    for cells, found in sides:
        for index, value in enumerate(found):
            if isinstance(value, str) and _MARK in value:
                found[index] = value.replace(_MARK, "\ufffd")
                names.append(cells[index].name)
    return names


def _shown(error: Exception) -> str:
    return "not UTF-8" if isinstance(error, UnicodeError) else str(error)


def _note_zeros(event: RowChange, layout: _Layout, sides: tuple[tuple[str, _Side], ...]) -> None:
    """Remembers which `""` is index 0 (a value that is no element), where the ENUM has an empty element too."""
    if layout.zeros:
        zeros = [
            f"{side}.{cell.name}"
            for side, (cells, found) in sides
            for cell, value in zip(cells, found, strict=True)
            if cell.name in layout.zeros and value == "0"
        ]
        if zeros:
            event.extra["enum_zero"] = zeros


# ---------------------------------------------------------------------------------- JSON → cells
def _sides(document: Any) -> tuple[Op, _Side, _Side, list[str]]:
    """A row's value → op, new row, old row, columns whose old value stands nowhere by name."""
    if not isinstance(document, tuple):
        raise ValueError("a row is a JSON object")
    found = dict(document)
    if len(found) != len(document) or not found or found.keys() not in ({"u"}, {"u", "p"}, {"d"}):
        raise ValueError(f"a row has u, u and p, or d, not {', '.join(map(repr, list(found)[:4])) or 'nothing'}")
    if "d" in found:
        before, _ = _side(found["d"])
        return "d", _NOTHING, _whole(before), []
    after, _ = _side(found["u"])
    if "p" not in found:
        return "c", _whole(after), _NOTHING, []
    before, bare = _side(found["p"])
    unnamed: list[str] = []
    if bare:
        before, unnamed = _name_bare(after, before, bare)
    return "u", _whole(after), _whole(before), unnamed


def _whole(side: _Side) -> _Side:
    if not side[0]:
        raise ValueError("a row without columns")
    return side


_Bare = list[tuple[int, tuple[tuple[str, Any], ...]]]


def _side(pairs: Any) -> tuple[_Side, _Bare]:
    """The columns of one side; and (position, fields) of those that TiCDC wrote without their name."""
    if not isinstance(pairs, tuple):
        raise ValueError("u, p and d are JSON objects")
    cells: list[Cell] = []
    found: list[Any] = []
    bare: _Bare = []
    names: set[str] = set()
    for name, fields in pairs:
        if not isinstance(fields, tuple):
            bare.append((len(cells), ((name, fields),)))
            continue
        if name in names:
            raise ValueError(f"column {name!r} stands twice")
        names.add(name)
        name.encode()
        cell, value = _cell(name, fields)
        cells.append(cell)
        found.append(value)
    if bare:
        bare = list(_groups(bare))
    return (tuple(cells), found), bare


def _cell(name: str, fields: tuple[tuple[str, Any], ...]) -> tuple[Cell, Any]:
    told = dict(fields)
    if len(told) != len(fields) or not told.keys() <= _CELL_KEYS or "t" not in told or "v" not in told:
        raise ValueError(f"column {name!r}: t, f and v are needed, and h may be")
    handle = told.get("h", False)
    if not isinstance(handle, bool):
        raise ValueError(f"column {name!r}: h is no boolean")
    flags = _small(told["f"], name, "f") if "f" in told else None
    return Cell(name, _small(told["t"], name, "t"), handle, flags), told["v"]


def _small(value: Any, name: str, what: str) -> int:
    if type(value) is not Number or len(value) > 5 or not value.isdigit():
        raise ValueError(f"column {name!r}: {what} is no such number")
    return int(value)


def _groups(bare: _Bare) -> Iterator[tuple[int, tuple[tuple[str, Any], ...]]]:
    """Fields without a column's name, put together: each group begins with its type code."""
    group: list[tuple[str, Any]] = []
    at = 0
    for position, (pair,) in bare:
        if pair[0] == "t" and group:
            yield at, tuple(group)
            group = []
        elif group and position != at:
            raise ValueError(f"{pair[0]!r} stands beside the columns of the old row")
        group.append(pair)
        at = position
    yield at, tuple(group)


def _name_bare(after: _Side, before: _Side, bare: _Bare) -> tuple[_Side, list[str]]:
    """Gives old values their names back that TiCDC left out (only-output-updated-columns; upstream `codec.go:321`).

    It leaves the name out where a value became NULL. The columns come in table order, so the nameless one is a column
    of this type and these flags that is NULL now and lies between its neighbours. Where several could be meant, none
    is taken: their names are returned.
    """
    order = {cell.name: index for index, cell in enumerate(after[0])}
    nulls = [cell for cell, value in zip(*after, strict=True) if value is None]
    named = [order.get(cell.name) for cell in before[0]]
    if None in named:
        raise ValueError("the old row has a column that the new row does not have")
    positions = [index for index in named if index is not None]
    taken = set(positions)
    options: list[tuple[int, ...]] = []
    for at, fields in bare:
        cell, _ = _cell("", fields)
        low = positions[at - 1] if at else -1
        high = positions[at] if at < len(positions) else len(order)
        alike = [order[null.name] for null in nulls if replace(null, name="") == cell]
        options.append(tuple(i for i in alike if low < i < high and i not in taken))
    return _assign(after[0], before, bare, options)


def _assign(cells: _Cells, before: _Side, bare: _Bare, options: list[tuple[int, ...]]) -> tuple[_Side, list[str]]:
    """Groups with the same candidates take them in table order, one each, where there are as many."""
    named = dict(zip((c.name for c in before[0]), before[1], strict=True))
    unnamed: list[str] = []
    for candidates in dict.fromkeys(options):
        groups = [fields for (_, fields), own in zip(bare, options, strict=True) if own == candidates]
        if len(candidates) < len(groups):
            raise ValueError("the old row has a value without its column's name, and no column it could be of")
        if len(candidates) > len(groups):
            unnamed += [cells[i].name for i in candidates]
            continue
        for fields, index in zip(groups, candidates, strict=True):
            named[cells[index].name] = _cell("", fields)[1]
    ordered = tuple(c for c in cells if c.name in named)
    return (ordered, [named[c.name] for c in ordered]), unnamed


# ---------------------------------------------------------------------------------- cells → regular expression
_INTEGER = "(-?(?:0|[1-9][0-9]{0,19}))"
_REAL = r"(-?(?:0|[1-9][0-9]{0,400})(?:\.[0-9]{1,400})?(?:[eE][+-]?[0-9]{1,4})?)"
_STRING = r'"([^"\\\x00-\x1f]*+(?:\\[^\x00-\x1f][^"\\\x00-\x1f]*+)*+)"'


def _pattern(cells: _Cells, table: Table) -> str:
    """The text of one side as TiCDC writes it, with a group per column, empty for NULL."""
    return r"\{" + ",".join(_cell_pattern(cell, table) for cell in cells) + r"\}"


def _cell_pattern(cell: Cell, table: Table) -> str:
    spellings = dict.fromkeys((go_text.jsoniter_string(cell.name), go_text.std_string(cell.name)))
    name = "|".join(map(re.escape, spellings))
    kind = table.by_name[cell.name].type.kind
    value = _STRING
    if kind in cell_values.NUMBERS:
        value = _REAL if kind in (Kind.FLOAT, Kind.DOUBLE) else _INTEGER
    handle = '"h":true,' if cell.handle else ""
    flags = "" if cell.flags is None else f'"f":{cell.flags},'
    return rf'(?:{name}):\{{"t":{cell.code},{handle}{flags}"v":(?:null|{value})\}}'
