"""Rows (`schemas.columnar.rows`) → the texts and the lines of the plain form, a batch at once, by compiled kernels.

Also what messages say beside their rows (`RowChange.extra`), as JSON: for the rows that readers of whole messages take.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ticdc_bridge.schemas.columnar.rows import NO_COMMIT_TS, Binaries, CellForm, Rows, RowShape, form_of, freeze
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.table import Column
from ticdc_bridge.schemas.model.types import Kind
from ticdc_bridge.schemas.plain.writer import json_line


def plain_texts(rows: Rows) -> Binaries:
    """The value of each cell as `schemas.plain.writer` writes it: SQL text, {"hex":"…"} for bytes; one element a cell.

    NULL, ABSENT and cells of no row are not valid. Texts are UTF-8. ValueError for a cell that is no value of its
    column (`CellForm`). To be called where `COMPILED` only: without numba it takes milliseconds a row.
    """
    from ticdc_bridge.schemas.columnar.kernels import plain_lines as kernel

    count = len(rows.start)
    ends = np.cumsum([len(s.columns) for s in rows.shapes], dtype=np.int64)
    kinds = np.array([_kind(column) for shape in rows.shapes for column in shape.columns], np.uint8)
    shape, step = freeze(rows.shape, np.int64), freeze(rows.step, np.int64)
    cells = np.zeros(count, np.uint8)
    for first in (rows.after, rows.before):
        if not kernel.classify_cells(shape, freeze(first, np.int64), step, freeze(ends), freeze(kinds), cells):
            raise ValueError("a row has cells that are not there")
    start, length = freeze(rows.start, np.int64), freeze(rows.length, np.int64)
    data = freeze(rows.data, np.uint8)
    out = np.empty(kernel.text_room(freeze(cells), length, len(data)), np.uint8)
    offsets, valid = np.zeros(count + 1, np.int64), np.zeros(count, np.bool_)
    wrong = kernel.fill_texts(freeze(cells), start, length, data, out, offsets, valid)
    if wrong >= 0:
        raise ValueError(f"cell {wrong} is no value of its column")
    return Binaries(out[: offsets[-1]], offsets, valid)


def _kind(column: Column) -> int:
    from ticdc_bridge.schemas.columnar.kernels import plain_lines as kernel

    if column.type.kind is Kind.BIT:
        return kernel.BITS + (values.bit_size(column.length) if column.length else 0)
    return kernel.INT + form_of(column)


@dataclass(slots=True)
class _Text:
    """Literals one after another, each once."""

    data: bytearray = field(default_factory=bytearray)
    known: dict[str, tuple[int, int]] = field(default_factory=dict)

    def add(self, text: str) -> tuple[int, int]:
        """Its first byte and size. UnicodeEncodeError for what is not UTF-8."""
        start = self.known.get(text)
        if start is None:
            data = text.encode()
            start = self.known[text] = len(self.data), len(data)
            self.data += data
        return start


def plain_lines(
    rows: Rows, texts: Binaries, format_: str, topics: Sequence[str | None], origins: tuple[Any, Any, Any],
    extra: Binaries | None = None,
) -> Binaries:  # fmt: skip
    """A line for each row, as `schemas.plain.writer` writes the events of a format.

    texts: of the cells (`plain_lines.plain_texts`). origins: the number of each row's topic in `topics`, its partition
    and offset (int64, kernels.plain_lines.NONE: not known). extra: JSON of what stands beside each row; none: it has
    nothing. A row has one flag at most. UnicodeEncodeError where a name is not UTF-8. To be called where `COMPILED`.
    """
    from ticdc_bridge.schemas.columnar.kernels import plain_lines as kernel

    text, count = _Text(), len(rows.message)
    flag = np.zeros(count, np.int64)
    for number, flagged in enumerate(rows.flags.values(), 1):
        flag[flagged] = number
    head = f'{{"kind": "row", "format": {_json(format_)}, "topic": '
    heads = [text.add(f'{head}{_json(name)}, "partition": ') for name in topics]
    flags = [text.add(f', "flags": {_json(names)}') for names in ([], *([name] for name in rows.flags))]
    shapes = [_shape(text, shape) for shape in rows.shapes]
    columns = [column for _, _, shape_columns in shapes for column in shape_columns]

    def starts(spans: Sequence[tuple[int, int]]) -> Any:
        return freeze(np.array(spans, np.int64).reshape(-1, 2))

    lines = kernel.LineLiterals(
        freeze(np.frombuffer(bytes(text.data), np.uint8)), starts(heads), starts([s[0] for s in shapes]),
        starts([s[1] for s in shapes]), starts(flags), starts([c[0] for c in columns]),
        freeze(np.array([c[1] for c in columns], np.int64)), freeze(np.array([c[2] for c in columns], np.bool_)),
        freeze(np.cumsum([len(s[2]) for s in shapes], dtype=np.int64)),
    )  # fmt: skip
    commit_ts = np.where(rows.commit_ts == NO_COMMIT_TS, kernel.NONE, rows.commit_ts)
    beside = extra or Binaries(np.zeros(0, np.uint8), np.zeros(count + 1, np.int64), np.ones(count, np.bool_))
    topic, partition, offset = origins
    arrays = [topic, rows.shape, flag, partition, offset, rows.op, commit_ts, rows.before, rows.after, rows.step]
    arrays += [beside.data, beside.offsets]
    line_rows = kernel.LineRows._make(map(freeze, arrays))
    cells, data, length = freeze(texts.offsets), freeze(texts.data), freeze(rows.length, np.int64)
    ends = np.zeros(count + 1, np.int64)
    out = np.empty(_room(lines, line_rows, data, kernel), np.uint8)
    kernel.fill_lines(lines, line_rows, data, cells, length, out, ends)
    return Binaries(out[: ends[-1]], ends, np.ones(count, np.bool_))


def _room(lines: Any, rows: Any, data: Any, kernel: Any) -> int:
    """Bytes that the lines take at most."""
    if not len(rows.shape):
        return 0
    ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(lines.names[:, 1] + 12)))[lines.ends]
    columns = np.diff(ends, prepend=0)
    fixed = lines.topics[:, 1].max() + lines.flags[:, 1].max() + 4 * kernel.NUMBER_ROOM + 64
    image_counts = (rows.before >= 0).astype(np.int64) + (rows.after >= 0)
    literals = lines.before_op[:, 1] + lines.before_row[:, 1] + fixed
    total = int((literals[rows.shape] + columns[rows.shape] * image_counts).sum()) + len(rows.extra)
    return total + len(data) + int(kernel.ESCAPED) * int(kernel.count_escapes(data))


_Column = tuple[tuple[int, int], int, bool]


def _shape(text: _Text, shape: RowShape) -> tuple[tuple[int, int], tuple[int, int], list[_Column]]:
    """A shape's literals, and its columns in the order that its rows have them."""
    id_ = shape.table.id
    before_op = text.add(f', "db": {_json(id_.db)}, "table": {_json(id_.table)}, "op": "')
    rest = f', "schema_id": {_json(shape.schema_id)}, "table_version": {_json(shape.table_version)}'
    before_row = text.add(f'{rest}, "key": {_json(list(shape.key))}, "before": ')
    at = {column.name: n for n, column in enumerate(shape.columns)}
    columns = []
    for name in dict.fromkeys((*shape.order, *at)):
        column = shape.columns[at[name]]
        hexed = form_of(column) is CellForm.BYTES or column.type.kind is Kind.BIT
        columns.append((text.add(f"{_json(name)}: "), at[name], hexed))
    return before_op, before_row, columns


def _json(value: Any) -> str:
    """As it stands in a line. UnicodeEncodeError where the line would have to escape all that is not ASCII."""
    json.dumps(value, ensure_ascii=False).encode()
    return json_line(value)


Beside = Callable[[Binaries, Any], tuple[Binaries | None, Any]]
"""Values, and the numbers of rows' messages → (what is said beside each; None: nothing; which (bool) can't be told)."""


def _no_extra(_values: Binaries, message: Any) -> tuple[None, Any]:
    return None, np.zeros(len(message), np.bool_)


def _debezium_extra(values: Binaries, message: Any) -> tuple[Binaries, Any]:
    from ticdc_bridge.schemas.columnar.kernels import plain_lines as kernel

    count, spans = len(message), np.ascontiguousarray(values.offsets, np.int64)
    out, ends = np.empty(count * kernel.ROOM, np.uint8), np.zeros(count + 1, np.int64)
    left = np.zeros(count, np.bool_)
    first, last = freeze(spans[:-1][message]), freeze(spans[1:][message])
    kernel.extras(freeze(values.data, np.uint8), first, last, out, ends, left)
    return Binaries(out[: ends[-1]], ends, np.ones(count, np.bool_)), left


EXTRA_FIELDS: Mapping[str, Beside] = {
    "avro": _no_extra,
    "debezium": _debezium_extra,
    "open": _no_extra,
    "open-tiflow": _no_extra,
}
"""By format."""
