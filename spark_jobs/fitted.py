"""Arrow batches of the compiled kernels, held to a table view: in Spark's Python workers.

The kernels give temporal values as text. Where one does not fit the type that was asked for, its whole message goes to
the in-process decoder, which tells why, or flags it (spark_jobs.table_view).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow
import pyarrow.compute

from schemas.types import Kind
from schemas.wire import format_named
from spark_jobs.table_view import READ, TableView, transition_dates
from spark_jobs.typed_workers import TypedBatches
from spark_jobs.workers import Batches

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


@dataclass(frozen=True)
class Fitted:
    """`inner`, its rows checked: the same schema comes out."""

    inner: TypedBatches
    view: TableView

    def __call__(self, batches: Batches) -> Iterator[Any]:
        """While `inner` reads, an offset is the message's number in its batch: its rows are told by it."""
        now: list[Any] = []

        def numbered() -> Iterator[Any]:
            for batch in batches:
                now[:] = [batch]
                at = batch.schema.get_field_index("offset")
                numbers = pa.array(np.arange(batch.num_rows, dtype=np.int64))
                yield batch.set_column(at, batch.schema.field(at), numbers)

        plain, last, made = self.inner.side.decoder(), None, list[Any]()
        for out in self.inner(numbered()):
            if last is not None and now[0] is not last:
                yield from self._checked(last, made, plain)
                made = []
            last = now[0]
            made.append(out)
        if last is not None:
            yield from self._checked(last, made, plain)

    def _checked(self, batch: Any, made: list[Any], plain: Any) -> Iterator[Any]:
        numbers = [np.asarray(out.column("source").field("offset")) for out in made]
        bad = [n[self._unfit(out)] for n, out in zip(numbers, made, strict=True)]
        left = np.unique(np.concatenate(bad)) if bad else np.zeros(0, np.int64)
        for out, number in zip(made, numbers, strict=True):
            if len(left):
                stays = ~np.isin(number, left)
                out, number = out.filter(pa.array(stays)), number[stays]
            yield _placed(out, batch.column("offset").take(pa.array(number)))
        if len(left):
            yield self.inner._odd(plain, batch.take(pa.array(left)))

    def _unfit(self, out: Any) -> Any:
        """Numbers of the rows with a value that does not fit, or that may be two times at once."""
        kernel = np.asarray(out.column("odd").is_null())
        wrong = np.zeros(out.num_rows, bool)
        kinds = self.view.types.kinds
        zone = format_named(self.inner.side.format).zone or self.inner.side.options.time_zone
        for side in ("before", "after"):
            rows = out.column(side)
            for column in self.view.table.columns:
                if column.type.kind in kinds and not column.virtual:
                    texts = pc.struct_field(rows, [rows.type.get_field_index(column.name)])
                    wrong |= _wrong(texts, column.type.kind, zone)
        return np.flatnonzero(wrong & kernel)


def _wrong(texts: Any, kind: Kind, zone: str) -> Any:
    sure = pc.match_substring_regex(texts, _SURE[kind])
    if kind is Kind.TIMESTAMP and transition_dates(zone):
        days = pa.array(sorted(transition_dates(zone)))
        sure = pc.and_(sure, pc.invert(pc.is_in(pc.utf8_slice_codeunits(texts, 0, 10), days)))
    doubtful = np.flatnonzero(np.asarray(pc.invert(pc.fill_null(sure, True))))
    wrong = np.zeros(len(texts), bool)
    if len(doubtful):
        fits = _fits(READ[kind], zone, transition_dates(zone) if kind is Kind.TIMESTAMP else frozenset())
        known: dict[str, bool] = {}
        for n, text in zip(doubtful, texts.take(pa.array(doubtful)).to_pylist(), strict=True):
            if text not in known:
                known[text] = fits(text)
            wrong[n] = not known[text]
    return wrong


def _fits(read: Callable[[str, str], Any], zone: str, twice: frozenset[str]) -> Callable[[str], bool]:
    def fits(text: str) -> bool:
        try:
            read(text, zone)
        except (ValueError, ArithmeticError):
            return False
        return text[:10] not in twice

    return fits


def _placed(out: Any, offsets: Any) -> Any:
    """The batch with the messages' own offsets."""
    source = out.column("source")
    fields = list(source.type)
    arrays = [offsets if f.name == "offset" else source.field(f.name) for f in fields]
    whole = pa.StructArray.from_arrays(arrays, fields=fields)
    return out.set_column(out.schema.get_field_index("source"), out.schema.field("source"), whole)
