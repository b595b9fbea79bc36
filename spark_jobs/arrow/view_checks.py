"""Rows of the compiled kernels held to a table view: does each value fit its Spark type?

What `TableView.apply` would refuse, flag or add to, and all that is not surely none of this, is told row by row: such
messages are the plain codec's, which says why (`spark_jobs.pipeline.table_view`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow
import pyarrow.compute

from schemas.columnar.rows import CellForm, Rows, RowShape, form_of
from schemas.model.ports import TableSource
from schemas.model.spark_types import INTEGER_BITS, spark_type
from schemas.model.table import Column
from schemas.model.types import Kind
from schemas.model.values import integer_limits
from spark_jobs.pipeline.codec_config import CodecConfig
from spark_jobs.pipeline.table_view import READ, TableView, check_number, default_of, transition_dates

pa: Any = pyarrow  # the stubs know less than the library
pc: Any = pyarrow.compute


_DAY = r"-(0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8])"
_CLOCK = r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?$"
# Texts that surely fit; others are looked at one by one.
_SURE = {
    Kind.DATE: f"^[1-9]\\d{{3}}{_DAY}$",
    Kind.DATETIME: f"^[1-9]\\d{{3}}{_DAY} {_CLOCK}",
    Kind.TIMESTAMP: f"^(19[7-9]|20[0-3])\\d{_DAY} {_CLOCK}",
    Kind.TIME: r"^-?\d\d\d?:[0-5]\d:[0-5]\d(\.\d{1,6})?$",
}


def find_wrong_times(texts: Any, kind: Kind, zone: str) -> Any:
    """Which texts (bool) are no value of their Spark type, or may be two times at once."""
    sure = pc.match_substring_regex(texts, _SURE[kind])
    if kind is Kind.TIMESTAMP and transition_dates(zone):
        days = pa.array(sorted(transition_dates(zone)))
        sure = pc.and_(sure, pc.invert(pc.is_in(pc.utf8_slice_codeunits(texts, 0, 10), days)))
    doubtful = np.flatnonzero(np.asarray(pc.invert(pc.fill_null(sure, True))))
    wrong = np.zeros(len(texts), bool)
    if len(doubtful):
        fits = _fits_text(READ[kind], zone, transition_dates(zone) if kind is Kind.TIMESTAMP else frozenset())
        verdicts: dict[str, bool] = {}
        for n, text in zip(doubtful, texts.take(pa.array(doubtful)).to_pylist(), strict=True):
            if text not in verdicts:
                verdicts[text] = fits(text)
            wrong[n] = not verdicts[text]
    return wrong


def _fits_text(read: Callable[[str, str], Any], zone: str, twice: frozenset[str]) -> Callable[[str], bool]:
    def fits(text: str) -> bool:
        try:
            read(text, zone)
        except (ValueError, ArithmeticError):
            return False
        return text[:10] not in twice

    return fits


_INTEGERS = (CellForm.INT, CellForm.UINT)
_REALS = (CellForm.DOUBLE, CellForm.FLOAT)
_BYTES, _FLOATS = (Kind.BIT, Kind.BINARY), (Kind.FLOAT, Kind.DOUBLE)


class ViewCheck:
    """What a view makes of rows. tables: their definitions. Not for several threads at once."""

    def __init__(self, view: TableView, tables: TableSource | None) -> None:
        self._view, self._tables = view, tables
        self._certain = tables is not None

    # ---- what does not surely fit
    def find_doubtful(self, rows: Rows, texts: Any) -> Any:
        """Which rows (bool) of the table the view may refuse, flag or add to. texts: of the cells, an Arrow array."""
        wrong = np.array([self._is_odd(shape) for shape in rows.shapes], bool)[rows.shape]
        has = self._view.has
        if not any(has(shape.table.id) for shape in rows.shapes):
            return wrong
        zone = next(shape.zone for shape in rows.shapes if has(shape.table.id))
        wrong |= np.array([shape.zone != zone for shape in rows.shapes], bool)[rows.shape]
        for name, column, read in self._view.checked_columns:
            forms = {
                form_of(c) for shape in rows.shapes if has(shape.table.id) for c in shape.columns if c.name == name
            }
            unfit = _temporal(column, zone) if read is not None else _number(column, forms)
            if unfit is None:
                continue
            for first in (rows.before, rows.after):
                cell = self._cells(rows, first, name)
                which = np.flatnonzero(cell >= 0)
                wrong[which[unfit(rows, cell[which], texts)]] = True
        return wrong

    def _is_odd(self, shape: RowShape) -> bool:
        """Whether all rows of a shape are the plain codec's.

        Defaults are added, columns are of another nature, or some are in no definition.
        """
        view = self._view
        if not view.table.columns:
            return self._has_other_letters(shape)
        if not view.has(shape.table.id):
            return False
        conversion = view.conversion_of(shape.table, older=True, tables=self._tables)
        if conversion.renames or shape.table.id != view.table.id or not all(s.widens for s in conversion.steps):
            return True
        added = view.missing == "default" and not shape.key_only
        if added and any(default_of(c, shape.zone) is not None for c in conversion.lacking):
            return True
        own = {c.name: c for c in shape.columns}
        if self._certain and shape.table_version is None and not own.keys() <= view.table.by_name.keys():
            return True
        pairs = ((own[c.name].type.kind, c.type.kind) for c in view.visible_columns if c.name in own)
        # What a FLOAT or DOUBLE holds of another type's numbers is the codec's to say.
        return any((a in _BYTES) != (b in _BYTES) or (a is not b and b in _FLOATS) for a, b in pairs)

    def _has_other_letters(self, shape: RowShape) -> bool:
        """Whether the names of a shape are not the definition's: merge, which follows them over time, wants those."""
        if self._tables is None:
            return False
        if shape.table_version is None:
            return self._view.has(shape.table.id)
        version = self._tables.at(shape.table.id, shape.table_version + 1)
        return version is None or any(c.name not in version.table.by_name for c in shape.columns)

    def _cells(self, rows: Rows, first: Any, name: str) -> Any:
        """The cell of the named column in each row from `first` on, -1 where there is none; of rows of the table."""
        places = np.array([self._place(shape, name) for shape in rows.shapes], np.int64)[rows.shape]
        return np.where((first >= 0) & (places >= 0), first + rows.step * places, -1)

    def _place(self, shape: RowShape, name: str) -> int:
        if not self._view.has(shape.table.id):
            return -1
        return next((n for n, c in enumerate(shape.columns) if c.name == name), -1)

    # ---- structs
    def kinds(self, shapes: Sequence[RowShape]) -> list[str]:
        """Of rows of each shape: `row`, or `other` for those of other tables."""
        return ["row" if self._view.has(shape.table.id) else "other" for shape in shapes]

    def structs(self, rows: Rows, chosen: Any, first: Any, texts: Any, kind: Any) -> Any:
        """One side of the chosen rows, none of them doubtful, as a struct array of a type; null for other tables' rows.

        Columns that a row lacks are NULL. first: the side's first cells, of all rows.
        """
        ours = np.array([self._view.has(shape.table.id) for shape in rows.shapes], bool)[rows.shape]
        columns = {c.name: c for c in self._view.visible_columns}
        arrays = []
        for field in kind:
            cell = self._cells(rows, first, field.name)[chosen]
            cell_texts = texts.take(pa.array(cell, mask=cell < 0))
            arrays.append(self._typed_array(columns[field.name], cell_texts, rows, field.type))
        absent = ~(ours & (first >= 0))[chosen]
        return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=pa.array(absent))

    def _typed_array(self, column: Column, texts: Any, rows: Rows, kind: Any) -> Any:
        if pa.types.is_string(kind):
            return texts
        zone = rows.shapes[0].zone if rows.shapes else "UTC"
        if pa.types.is_binary(kind):
            return pa.array([None if t is None else bytes.fromhex(t[8:-2]) for t in texts.to_pylist()], kind)
        try:
            return _cast(column, texts, zone, kind)
        except pa.ArrowException:  # what Arrow reads less of than the codec
            make = self._makers[column.name]
            return pa.array([None if t is None else make(t, zone) for t in texts.to_pylist()], kind)

    @cached_property
    def _makers(self) -> dict[str, Callable[[Any, str], Any]]:
        return dict(self._view.makers)


def view_of(side: CodecConfig) -> ViewCheck | None:
    """The side's view, where it or definitions know the table's columns: else it has nothing to say."""
    certain = side.tables is not None
    if side.view is None or not (side.view.table.columns or certain):
        return None
    return ViewCheck(side.view, side.tables)


def _cast(column: Column, texts: Any, zone: str, kind: Any) -> Any:
    """Texts → a type of Arrow. pa.ArrowException where that is not sure to be what the codec makes of them."""
    if column.type.kind is Kind.TIMESTAMP and not pa.types.is_decimal(kind):
        if not pc.all(pc.match_substring_regex(texts, _SURE[Kind.TIMESTAMP])).as_py():
            raise pa.ArrowInvalid("times of which the zone's rules are not sure")
        local = texts.cast(pa.timestamp("us"))
        name = "UTC" if zone.upper() in ("UTC", "Z") else zone
        return pc.assume_timezone(local, name, ambiguous="raise", nonexistent="raise").cast(kind)
    if pa.types.is_duration(kind):
        raise pa.ArrowInvalid("not read from text")
    return texts.cast(kind)


_Unfit = Callable[[Rows, Any, Any], Any]
"""Rows, cells of a column and the texts of all cells → which of these (bool) may not fit."""


def _temporal(column: Column, zone: str) -> _Unfit:
    return lambda _rows, cell, texts: find_wrong_times(texts.take(pa.array(cell)), column.type.kind, zone)


def _number(column: Column, forms: set[CellForm]) -> _Unfit | None:
    """None where any value of the forms fits the column's Spark type."""
    kind = spark_type(column)
    if kind == "string" or (kind == "decimal(20,0)" and forms <= set(_INTEGERS)):
        return None
    if kind in INTEGER_BITS and forms <= set(_INTEGERS):
        return _in_range(INTEGER_BITS[kind], forms)
    if kind in ("float", "double") and forms <= {*_INTEGERS, *_REALS}:
        return None
    sure = ""
    if kind.startswith("decimal("):
        precision, scale = map(int, kind[8:-1].split(","))
        whole = precision - scale
        sure = f"^-?[0-9]{{1,{whole}}}" if whole else "^-?0"
        sure += f"([.][0-9]{{1,{scale}}})?$" if scale else "$"
    return lambda _rows, cell, texts: _find_unfit_texts(column, texts.take(pa.array(cell)), sure)


def _in_range(bits: int, forms: set[CellForm]) -> _Unfit | None:
    low, high = integer_limits(bits, unsigned=False)

    def find_unfit(rows: Rows, cell: Any, _texts: Any) -> Any:
        values = rows.place[cell]
        # A UINT beyond int64 is below 0 as the int64 of the same bits.
        return (rows.length[cell] >= 0) & ((values < (low if forms == {CellForm.INT} else 0)) | (values > high))

    return find_unfit


def _find_unfit_texts(column: Column, texts: Any, sure: str) -> Any:
    fine = pc.fill_null(pc.match_substring_regex(texts, sure), True) if sure else texts.is_null()
    doubtful = np.flatnonzero(np.asarray(pc.invert(fine)))
    wrong = np.zeros(len(texts), bool)
    for n, text in zip(doubtful.tolist(), texts.take(pa.array(doubtful)).to_pylist(), strict=True):
        wrong[n] = not _fits_number(column, text)
    return wrong


def _fits_number(column: Column, text: str) -> bool:
    try:
        check_number(column, text, column.type.kind)
    except (ValueError, ArithmeticError):
        return False
    return True
