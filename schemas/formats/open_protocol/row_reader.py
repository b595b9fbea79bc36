"""Row values of the Open Protocol → row changes, by readers compiled per table shape."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NamedTuple

from ticdc_bridge.schemas.codec.bounded_cache import BoundedCache
from ticdc_bridge.schemas.codec.json_exact import Number
from ticdc_bridge.schemas.formats.open_protocol import values as cell_values
from ticdc_bridge.schemas.formats.open_protocol.columns import describe
from ticdc_bridge.schemas.formats.open_protocol.document import Cells, Side, beside_sides, parse, sides
from ticdc_bridge.schemas.model.event import Op, RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.ports import TableSource
from ticdc_bridge.schemas.model.reasons import reason_of
from ticdc_bridge.schemas.model.table import Column, DefinitionMismatch, Table, TableId, TableVersion, Value
from ticdc_bridge.schemas.model.types import ALWAYS_NULL, Kind

_MOST_KEPT = 1_000_000  # columns of all layouts together


class RowKey(NamedTuple):
    """What an event's key says of a row; `extra` goes into the event."""

    id: TableId
    commit_ts: int
    extra: dict[str, Any]
    key_only: bool = False


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
    whole: the row has all columns.
    """

    table: Table
    version: int | None
    after: tuple[_Column, ...]
    before: tuple[_Column, ...]
    odd: dict[str, list[int | bool | None]]
    doubts: tuple[tuple[str, str], ...]
    zeros: frozenset[str]
    whole: bool
    mismatch: DefinitionMismatch | None


class OpenRowReader:
    """Reads row values of one format. ValueError for what is no row of the Open Protocol."""

    def __init__(self, format_: str, tables: TableSource | None, options: Options) -> None:
        self._format, self._tables, self._options = format_, tables, options
        self._layouts: BoundedCache[tuple[Any, ...], _Layout] = BoundedCache(
            1024, _MOST_KEPT, lambda key, _: len(key[2]) + len(key[3])
        )

    def read(self, key: RowKey, text: str) -> RowChange:
        """A row's value as text → the change."""
        version = self._tables.at(key.id, key.commit_ts) if self._tables else None
        replaced = "\\ufffd" in text
        if replaced:
            text = _REPLACED.sub(rf"\1{_MARK}", text)
        document = parse(text)
        op, after, before, unnamed = sides(document)
        marked = _unmark(after, before) if replaced else ()
        layout = self._layout(key.id, version, after[0], before[0])
        new = None if op == "d" else _read(layout.after, after[1])
        old = None if op == "c" else _read(layout.before, before[1])
        event = self._event(key, op, layout, new, old)
        if len(document) > 2 or (len(document) == 2 and op != "u"):
            event.extra |= beside_sides(document)
        _note_zeros(event, layout, (("after", after), ("before", before)))
        if layout.mismatch is not None:
            event.note_mismatch(layout.mismatch)
        for name in marked:
            event.flag(f"replaced_utf8:{name}")
        for name in unnamed:
            event.flag(f"old_value_unnamed:{name}")
        return event

    def _event(
        self,
        key: RowKey,
        op: Op,
        layout: _Layout,
        after: dict[str, Value] | None,
        before: dict[str, Value] | None,
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
            key.key_only or (op == "d" and not layout.whole),
        )  # fmt: skip

    def _layout(self, id_: TableId, version: TableVersion | None, after: Cells, before: Cells) -> _Layout:
        key = (id_, version.commit_ts if version else None, after, before)
        layout = self._layouts.get(key)
        if layout is None:
            layout = self._layouts[key] = self._compile(id_, version, after, before)
        return layout

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
        return _Layout(
            table,
            version.commit_ts if version else None,
            tuple(columns[c.name] for c in after),
            tuple(columns[c.name] for c in before),
            described.odd,
            tuple((f"{flag}:{c.name}", c.name) for c in carried for flag in _doubts(c)),
            frozenset(c.name for c in carried if c.type.kind is Kind.ENUM and "" in c.elements),
            whole=len(carried) == len(stored_columns) and not (version is None and all(c.handle_key for c in carried)),
            mismatch=described.mismatch,
        )


def _refuse_value(_value: str) -> Value:
    raise ValueError("a value, where the type code says NULL")


def _doubts(column: Column) -> list[str]:
    if column.type.kind in (Kind.ENUM, Kind.SET) and not column.elements:
        return ["enum_number"]
    return ["binary_or_text"] if column.type.kind is Kind.TEXT and column.vague else []


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
        raise ValueError(f"column {name!r}: {_error_text(error)}") from error
    return row


# Classic TiCDC's JSON has the escape \ufffd where bytes were not UTF-8, and U+FFFD itself where the text has it. Half a
# surrogate pair, which no message holds, stands for the escape until the columns are known.
_REPLACED = re.compile(r"((?<!\\)(?:\\\\)*)\\ufffd")
_MARK = "\udfff"


def _unmark(*sides: Side) -> list[str]:
    """Puts U+FFFD where bytes were lost; returns the columns."""
    names = []
    for cells, values in sides:
        for index, value in enumerate(values):
            if isinstance(value, str) and _MARK in value:
                values[index] = value.replace(_MARK, "\ufffd")
                names.append(cells[index].name)
    return names


def _error_text(error: Exception) -> str:
    return "not UTF-8" if isinstance(error, UnicodeError) else reason_of(error)


def _note_zeros(event: RowChange, layout: _Layout, sides: tuple[tuple[str, Side], ...]) -> None:
    """Remembers which `""` is index 0 (a value that is no element), where the ENUM has an empty element too."""
    if layout.zeros:
        zeros = [
            f"{side}.{cell.name}"
            for side, (cells, values) in sides
            for cell, value in zip(cells, values, strict=True)
            if cell.name in layout.zeros and value == "0"
        ]
        if zeros:
            event.extra["enum_zero"] = zeros
