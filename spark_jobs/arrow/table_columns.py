"""One table's columns of what compiled readers read: whose rows are they, do their values fit, and what Arrow has of
them.

What is not surely read as the plain codec does it is left to that codec, which says why (pipeline.table_view).
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ticdc_bridge.schemas.columnar.columns import ColumnValues, cells_of, read_columns
from ticdc_bridge.schemas.columnar.rows import Rows, RowShape
from ticdc_bridge.schemas.inspect.format_lookup import format_named
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.spark_types import INTEGER_BITS, json_type, python_value, spark_type, widens
from ticdc_bridge.schemas.model.table import Column
from ticdc_bridge.schemas.model.types import Kind
from ticdc_bridge.schemas.model.values import integer_limits
from ticdc_bridge.spark_jobs.arrow.arrow_types import arrow_type_of
from ticdc_bridge.spark_jobs.arrow.library import array_of, pa, pc
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.table_view import READ, TableView, default_of, transition_dates

OF_TABLE, OTHERS, LEFT = 0, 1, 2
"""What rows of a shape are: the table's, another table's, or for the plain codec to read."""
_DAY = r"-(0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8])"
_CLOCK = r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?$"
# Texts that surely fit; others are looked at one by one.
_SURE = {
    Kind.DATE: f"^[1-9]\\d{{3}}{_DAY}$",
    Kind.DATETIME: f"^[1-9]\\d{{3}}{_DAY} {_CLOCK}",
    Kind.TIMESTAMP: f"^(19[7-9]|20[0-3])\\d{_DAY} {_CLOCK}",
    Kind.TIME: r"^-?\d\d\d?:[0-5]\d:[0-5]\d(\.\d{1,6})?$",
}


class TableColumns:
    """The columns of the table that a side has in view. Not for several threads at once."""

    def __init__(self, config: CodecConfig) -> None:
        assert config.view is not None
        self.view: TableView = config.view
        self._config = config

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return tuple(self.view.visible_columns)

    @cached_property
    def zone(self) -> str:
        """The zone of the TIMESTAMP text that the readers give."""
        return format_named(self._config.format).zone or self._config.options.time_zone

    # ---- shapes
    def locate(self, rows: Rows, key: tuple[str, ...] | None = None) -> tuple[Any, Any]:
        """(what each row is; where each shape's cells are among the columns). key: that our rows have; None: any."""
        shapes = [self._locate_shape(shape, key) for shape in rows.shapes]
        of_shape = np.array([of for of, _ in shapes], np.int64)
        positions = np.array([pieces for _, pieces in shapes], np.int64).reshape(len(shapes), len(self.columns))
        return of_shape[rows.shape], positions

    def _locate_shape(self, shape: RowShape, key: tuple[str, ...] | None) -> tuple[int, list[int]]:
        none = [-1] * len(self.columns)
        tables = self._config.tables
        if not self.view.table.columns:  # merge follows names over time, and wants those of the definition
            has_other_letters = shape.table_version is None and self.view.has(shape.table.id)
            if tables is not None and shape.table_version is not None:
                version = tables.at(shape.table.id, shape.table_version + 1)
                has_other_letters = version is None or any(c.name not in version.table.by_name for c in shape.columns)
            return LEFT if tables is not None and has_other_letters else OTHERS, none
        if not self.view.has(shape.table.id):
            return OTHERS, none
        conversion = self.view.conversion_of(shape.table, older=True, tables=tables)
        if conversion.renames or not all(step.widens for step in conversion.steps):
            return LEFT, none
        types = {c.name: spark_type(c) for c in self.columns}
        certain = tables is None or shape.table_version is not None
        if not certain and not all(c.name in types for c in shape.columns):
            return LEFT, none
        fits = all(c.name not in types or widens(spark_type(c), types[c.name]) for c in shape.columns)
        positions = cells_of(shape, self.columns) if fits and (key is None or shape.key == key) else None
        return (LEFT, none) if positions is None else (OF_TABLE, positions)

    def adds_defaults(self, rows: Rows) -> bool:
        """True if some of the rows may get a default for a column that they lack."""
        return self.view.missing == "default" and any(
            c.name not in s.table.by_name for s in rows.shapes for c in self.columns if not s.key_only
        )

    # ---- values
    def build_image(self, rows: Rows, shape: Any, cells: tuple[Any, Any], positions: Any, bad: Any) -> list[Any]:
        """The columns of one side in their exact types: times are text.

        cells: first and step of each row; bad: gets the rows that can't be so, whose values are of no account.
        ValueError as of `read_columns`.
        """
        columns, unfit = read_columns(rows, shape, *cells, self.columns, positions)
        bad |= unfit
        arrays, view = [], self.view
        for typed in columns:
            if typed.form in ("int", "uint"):
                bad |= _find_too_large(typed)
            column, array = typed.column, array_of_column(typed)
            lack = [not s.key_only and column.name not in s.table.by_name for s in rows.shapes]
            if view.missing == "default" and any(lack):
                default = pa.scalar(python_value(column, default_of(column, self.zone)), array.type)
                array = pc.if_else(pa.array(np.array(lack)[shape]), default, array)
            if column.type.kind in view.types.kinds:
                bad |= find_wrong_times(array, column.type.kind, self.zone)
            arrays.append(array)
        return arrays

    def build_struct(self, rows: Rows, first: Any, chosen: Any, positions: Any, kind: Any, bad: Any) -> Any:
        """One side of the chosen rows as a struct of the view's types (kind), NULL where a row lacks the side.

        first: the side's first cells, of all rows. bad, ValueError: as of `build_image`.
        """
        first = first[chosen]
        if not (first >= 0).any():
            return pa.nulls(len(first), kind)
        arrays = self.build_image(rows, rows.shape[chosen], (first, rows.step[chosen]), positions, bad)
        if self.view.types.kinds:
            good = None if not bad.any() else pa.array(~bad)
            for n, (column, field) in enumerate(zip(self.columns, kind, strict=True)):
                if column.type.kind in self.view.types.kinds:
                    texts = arrays[n] if good is None else pc.if_else(good, arrays[n], None)
                    arrays[n] = self._cast_times(column, texts, field.type)
        return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=pa.array(first < 0))

    def find_doubtful(self, rows: Rows) -> Any:
        """Which rows (bool) of the table the view may refuse, flag or write otherwise. ValueError of `read_columns`."""
        status, positions = self.locate(rows)
        odd = np.array([self._has_other_texts(shape) for shape in rows.shapes], bool)[rows.shape]
        wrong = (status == LEFT) | (odd & (status == OF_TABLE))
        of_table = np.flatnonzero((status == OF_TABLE) & ~wrong)
        bad = np.zeros(len(of_table), np.bool_)
        for first in (rows.before, rows.after):
            if len(of_table) and (first[of_table] >= 0).any():
                self.build_image(rows, rows.shape[of_table], (first[of_table], rows.step[of_table]), positions, bad)
        wrong[of_table[bad]] = True
        return wrong

    def _has_other_texts(self, shape: RowShape) -> bool:
        """True if the table's name, or a value, may be another text in the newest columns than in the message."""
        table = self.view.table
        added = self.view.missing == "default" and not shape.key_only
        if shape.table.id != table.id or (added and not {c.name for c in self.columns} <= shape.table.by_name.keys()):
            return True
        steps = self.view.conversion_of(shape.table, older=True, tables=self._config.tables).steps
        return any((step.source.type.kind, step.new.type.kind) != (Kind.INTEGER, Kind.INTEGER) for step in steps)

    def _cast_times(self, column: Column, texts: Any, kind: Any) -> Any:
        """Texts of times that fit → the view's type of them."""
        try:
            return _cast(column, texts, self.zone, kind)
        except pa.ArrowException:  # what Arrow reads less of than the codec
            read = READ[column.type.kind]
            return pa.array([None if text is None else read(text, self.zone) for text in texts.to_pylist()], kind)


def table_columns_of(config: CodecConfig) -> TableColumns | None:
    """The table in the side's view, where it or definitions know its columns: else it has nothing to say."""
    if config.view is None or not (config.view.table.columns or config.tables is not None):
        return None
    return TableColumns(config)


def _find_too_large(typed: ColumnValues) -> Any:
    """Integers that their column's Spark type does not hold."""
    bits = INTEGER_BITS.get(spark_type(typed.column), 65)
    signed = typed.form == "int"
    if bits > 64 or (bits == 64 and signed):
        return np.zeros(len(typed.valid), np.bool_)
    low, high = integer_limits(bits, unsigned=False)
    return ((typed.values > high) | (typed.values < (low if signed else 0))) & typed.valid


def find_wrong_times(texts: Any, kind: Kind, zone: str, with_twice: bool = True) -> Any:
    """Which texts (bool) are no value of their Spark type, or may be two times at once (with_twice)."""
    sure = pc.match_substring_regex(texts, _SURE[kind])
    if kind is Kind.TIMESTAMP and transition_dates(zone):
        sure = pc.and_(sure, pc.invert(find_transition_days(texts, zone)))
    doubtful = np.flatnonzero(np.asarray(pc.invert(pc.fill_null(sure, True))))
    wrong = np.zeros(len(texts), bool)
    if len(doubtful):
        twice = transition_dates(zone) if kind is Kind.TIMESTAMP else frozenset()
        verdicts: dict[str, bool] = {}
        for n, text in zip(doubtful, texts.take(pa.array(doubtful)).to_pylist(), strict=True):
            if text not in verdicts:
                try:
                    READ[kind](text, zone)
                    verdicts[text] = with_twice and text[:10] in twice
                except (ValueError, ArithmeticError):
                    verdicts[text] = True
            wrong[n] = verdicts[text]
    return wrong


def find_transition_days(texts: Any, zone: str) -> Any:
    """Which texts of times (bool) have a date at which the zone's clocks turn."""
    days = pa.array(sorted(transition_dates(zone)), texts.type)
    return pc.is_in(pc.utf8_slice_codeunits(texts, 0, 10), days)


def _cast(column: Column, texts: Any, zone: str, kind: Any) -> Any:
    """Texts of times → a type of Arrow. pa.ArrowException where that is not sure to be what the codec makes of them."""
    if column.type.kind is Kind.TIMESTAMP:
        if not pc.all(pc.match_substring_regex(texts, _SURE[Kind.TIMESTAMP])).as_py():
            raise pa.ArrowInvalid("times of which the zone's rules are not sure")
        local = texts.cast(pa.timestamp("us"))
        name = "UTC" if zone.upper() in ("UTC", "Z") else zone
        return pc.assume_timezone(local, name, ambiguous="raise", nonexistent="raise").cast(kind)
    if pa.types.is_duration(kind):
        raise pa.ArrowInvalid("not read from text")
    return texts.cast(kind)


# ---- typed columns as Arrow arrays, in the exact types
def arrow_type(column: Column) -> Any:
    """Arrow type of the column's exact Spark type."""
    return arrow_type_of(json_type(column))


def row_type(columns: Sequence[Column]) -> Any:
    return pa.struct([pa.field(c.name, arrow_type(c)) for c in columns])


def array_of_column(typed: ColumnValues) -> Any:
    """A typed column in the column's exact type."""
    return _ARRAYS[typed.form](typed)


def _plain_numbers(typed: ColumnValues) -> Any:
    kind = arrow_type(typed.column)
    if pa.types.is_decimal(kind):  # BIGINT UNSIGNED
        pairs = np.zeros((len(typed.valid), 2), np.uint64)
        pairs[:, 0] = typed.values
        return _decimals(ColumnValues(typed.column, "decimal", pairs, typed.valid))
    narrow = typed.values.astype(kind.to_pandas_dtype())  # a copy: what it is a slice of is much larger
    return array_of(kind, typed.valid, narrow)


def _decimals(typed: ColumnValues) -> Any:
    return array_of(arrow_type(typed.column), typed.valid, typed.values)


def _texts(typed: ColumnValues) -> Any:
    return array_of(arrow_type(typed.column), typed.valid, typed.offsets, typed.values)


def _bits(typed: ColumnValues) -> Any:
    if not typed.column.length:
        pairs = zip(typed.values.tolist(), typed.valid.tolist(), strict=True)
        binaries = [n.to_bytes(max(1, (n.bit_length() + 7) // 8), "big") if v else None for n, v in pairs]
        return pa.array(binaries, pa.binary())
    width, count = values.bit_size(typed.column.length), len(typed.valid)
    data = np.ascontiguousarray(typed.values.astype(">u8").view(np.uint8).reshape(count, 8)[:, 8 - width :])
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(width)
    return _texts(ColumnValues(typed.column, "bytes", data, typed.valid, offsets))


_ARRAYS: dict[str, Callable[[ColumnValues], Any]] = {
    **dict.fromkeys(("int", "uint", "double", "float"), _plain_numbers),
    "decimal": _decimals,
    "text": _texts,
    "bytes": _texts,
    "bit": _bits,
}
