"""Values as sources have them → the exact types of lake tables, in Spark's workers, before a row is written."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ticdc_bridge.schemas.model.spark_types import SparkTypes
from ticdc_bridge.schemas.model.table import Column
from ticdc_bridge.schemas.model.types import ELEMENTS, Kind
from ticdc_bridge.schemas.model.values import bit_size, shift_zone
from ticdc_bridge.spark_jobs.arrow.library import pa, pc
from ticdc_bridge.spark_jobs.arrow.table_columns import arrow_type, find_transition_days, find_wrong_times
from ticdc_bridge.spark_jobs.lake.load import SourceError
from ticdc_bridge.spark_jobs.pipeline.table_view import transition_dates
from ticdc_bridge.spark_jobs.snapshots.dump_dialect import is_value

_DATE, _TIME = r"\d{4}-\d\d-\d\d", r"\d\d:\d\d:\d\d(\.\d{1,6})?"
_FORMS: Final = {
    Kind.DATE: f"^{_DATE}$", Kind.DATETIME: f"^{_DATE} {_TIME}$", Kind.TIMESTAMP: f"^{_DATE} {_TIME}$",
    Kind.TIME: rf"^-?\d?{_TIME}$", Kind.DECIMAL: r"^-?\d+(\.\d+)?$",
}  # fmt: skip
"""Texts of types that the lake has as text."""


@dataclass(frozen=True)
class RowTypes:
    """types: of the lake table, whose dates hold less than text. zones: of TIMESTAMP text in the source, in the table.
    is_lossy: a date that its type can't hold is NULL, and of a text that stands for two times the first is taken; but
    not in a key.
    """

    columns: Sequence[Column]
    types: SparkTypes
    zones: tuple[str, str]
    is_lossy: bool

    def fit(self, arrays: Sequence[Any]) -> tuple[list[Any], dict[int, int], Counter[str]]:
        """Some rows, an array of each column (text, bytes, or as Parquet has it), in the columns' exact types.

        Returns:
            The arrays; by row that does not fit the number of its first column that is none of its type; how many
            values are lost, by what they are. SourceError for a column of a type that no dump has for it.
        """
        typed, unfit, losses = list[Any](), dict[int, int](), dict[str, Any]()
        for number, (column, array) in enumerate(zip(self.columns, arrays, strict=True)):
            if pa.types.is_timestamp(array.type) and column.type.kind in (Kind.DATETIME, Kind.TIMESTAMP):
                array = _texts_of(array, column.scale or 0)
            values, odd = self._fit(array, column)
            odd |= _find_foreign(values, column)
            wrong = twice = np.zeros(len(array), bool)
            if column.type.kind is Kind.TIMESTAMP and self.zones[0] != self.zones[1]:
                twice = _find_twice(array, self.zones[0])
            if column.type.kind is Kind.TIMESTAMP and (column.handle_key or column.type.kind in self.types.kinds):
                here = _find_twice(values, self.zones[1])
                if column.handle_key and not self.is_lossy:  # as in merge: two rows could become one
                    odd |= here
                losses[f"column {column.name}: times that {self.zones[1]} had twice are the first"] = here
            if column.type.kind is Kind.FLOAT and pa.types.is_string(array.type):
                is_cut = pc.match_substring(array, "e")
                losses[f"column {column.name}: numbers of which the dump has six digits"] = _mask(is_cut)
            if column.type.kind in self.types.kinds:
                wrong = find_wrong_times(values, column.type.kind, self.zones[1], with_twice=False) & ~odd
            if column.handle_key or not self.is_lossy:
                odd |= wrong | twice
            elif wrong.any() or twice.any():
                losses[f"column {column.name}: dates that its type can't hold are NULL"] = wrong
                losses[f"column {column.name}: times that {self.zones[0]} had twice are the first"] = twice
                values = pc.if_else(pa.array(wrong), None, values)
            if column.handle_key:  # never NULL in TiDB: Parquet has no zero date
                odd |= _mask(values.is_null())
            typed.append(values)
            for row in np.flatnonzero(odd).tolist():
                unfit.setdefault(row, number)
        fits = np.ones(len(arrays[0]), bool)
        fits[[*unfit]] = False
        return typed, unfit, Counter({text: int((rows & fits).sum()) for text, rows in losses.items()})

    def _fit(self, array: Any, column: Column) -> tuple[Any, Any]:
        """A column in its exact type, and which of its values (bool) are none of it."""
        kind, wanted = column.type.kind, arrow_type(column)
        if array.type == wanted and kind in _FORMS and pa.types.is_string(wanted):
            odd = _mask(pc.invert(pc.match_substring_regex(array, _FORMS[kind])))
            if kind is Kind.TIMESTAMP and self.zones[0] != self.zones[1]:
                shifted = {text.as_py(): _shift(text.as_py(), *self.zones)[0] for text in pc.unique(array)}
                values = pa.array(map(shifted.get, array.to_pylist()), wanted)
                return values, odd | _mask(pc.and_(array.is_valid(), values.is_null()))
            return array, odd
        if array.type == wanted:
            return array, np.zeros(len(array), bool)
        if pa.types.is_string(wanted) or pa.types.is_binary(wanted) or pa.types.is_temporal(array.type):
            raise SourceError(f"column {column.name} is of type {array.type} there: is the file of another table?")
        return _cast(array, wanted)


def _find_foreign(array: Any, column: Column) -> Any:
    """Which values (bool) have another number of bits or bytes than the column, or labels that it has not."""
    kind, size = column.type.kind, column.length
    if kind in ELEMENTS:
        labels = [label for label in pc.unique(array).to_pylist() if not is_value(label, column)]
        return _mask(pc.is_in(array, pa.array(labels, array.type))) if labels else np.False_
    if kind is Kind.BIT:
        return _mask(pc.not_equal(pc.binary_length(array), bit_size(size or 1)))
    return _mask(pc.greater(pc.binary_length(array), size)) if kind is Kind.BINARY and size else np.False_


def _shift(text: str | None, source: str, target: str) -> tuple[str | None, bool]:
    try:
        return shift_zone(text, source, target) if text else (None, False)
    except ValueError:
        return None, False


def _find_twice(texts: Any, zone: str) -> Any:
    """Which texts (bool) stand for two times in a zone."""
    if not transition_dates(zone):
        return np.zeros(len(texts), bool)
    doubtful = pc.unique(texts.filter(find_transition_days(texts, zone))).to_pylist()
    return _mask(pc.is_in(texts, pa.array([text for text in doubtful if _shift(text, zone, "UTC")[1]], texts.type)))


def _texts_of(times: Any, scale: int) -> Any:
    """Times of Parquet as text; one with more digits than its column has them all, and is none of its type."""
    if not scale:
        return times.cast(pa.timestamp("s")).cast(pa.string())
    texts = times.cast(pa.timestamp("us")).cast(pa.string())
    more = pc.not_equal(pc.utf8_slice_codeunits(texts, 20 + scale), "0" * (6 - scale))
    return pc.if_else(more, pc.binary_join_element_wise(texts, "?", ""), pc.utf8_slice_codeunits(texts, 0, 20 + scale))


def _cast(array: Any, wanted: Any) -> tuple[Any, Any]:
    """Numbers as another type, or text as numbers."""
    is_text = pa.types.is_string(array.type)
    try:
        if is_text and pc.any(pc.match_substring(array, "x")).as_py():  # Arrow reads 0x10, too
            raise pa.ArrowInvalid("no number")
        values = array.cast(wanted)
    except pa.ArrowInvalid:  # says of none which it is
        values = pa.array([_cast_value(value, wanted) for value in array], wanted)
    odd = pc.and_(array.is_valid(), values.is_null())
    if pa.types.is_floating(wanted):
        odd = pc.or_(odd, pc.invert(pc.fill_null(pc.is_finite(values), True)))
    return values, _mask(odd)


def _cast_value(value: Any, wanted: Any) -> Any:
    try:
        return None if "x" in str(value) else value.cast(wanted).as_py()
    except pa.ArrowInvalid:
        return None


def _mask(found: Any) -> Any:
    """Arrow's bools as numpy's; NULL is False."""
    return np.asarray(pc.fill_null(found, False)).copy()
