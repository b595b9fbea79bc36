"""Rows of any tables (`schemas.columnar.rows`) → TiCDC Avro keys and values by compiled kernels, as `AvroEncoder` does.

A program per shape and topic, one call of the kernel per batch. Without numba all rows are left.
"""

from typing import Any

import numpy as np

from ticdc_bridge.schemas.columnar.debezium_writer import find_refused
from ticdc_bridge.schemas.columnar.kernels import avro_write as kernel
from ticdc_bridge.schemas.columnar.kernels.jit import COMPILED
from ticdc_bridge.schemas.columnar.rows import (
    NO_COMMIT_TS,
    Binaries,
    Rows,
    RowShape,
    Topics,
    WrittenMessages,
    find_distinct,
    form_of,
    freeze,
)
from ticdc_bridge.schemas.columnar.time_zones import FIRST, LAST, zone_changes
from ticdc_bridge.schemas.formats.avro import schema as publish
from ticdc_bridge.schemas.formats.avro.encoder import OVERHEAD, AvroEncoder, RecordSchema, SchemaIds
from ticdc_bridge.schemas.formats.avro.values import union_of
from ticdc_bridge.schemas.formats.base import Context, SchemasInMemory
from ticdc_bridge.schemas.formats.framing import frame
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import MAX_TSO, ms_to_tso, tso_physical_ms
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Column, Table, TableId
from ticdc_bridge.schemas.model.types import BY_NAME, Kind

_MOST_PROGRAMS = 4096
_C, _U, _D = b"cud"


class AvroWriter:
    """Writes what `AvroEncoder` does for the same rows; ids are registered in the order in which it does.

    SetupError as `AvroEncoder` and the source of schemas.
    """

    def __init__(self, context: Context) -> None:
        AvroEncoder(context)  # refuses options that don't go together
        self._options = context.options
        self._plans = SchemaIds(context.schemas, context.options)
        self._forget()

    def _forget(self) -> None:
        self._programs: dict[tuple[int, str, bool], tuple[RowShape, int]] = {}
        self._made = _Programs(self._options)

    def write(self, rows: Rows, topics: Topics, timestamps: Any) -> WrittenMessages:
        """topics, timestamps: of each row (`RowsWriter`). Flags: synthetic_commit_ts, timestamp_fold, empty_record."""
        count = len(rows.shape)
        if not COMPILED or not count:
            return WrittenMessages.nothing(count)
        if len(self._programs) > _MOST_PROGRAMS:
            self._forget()
        valued = np.full(count, True) if self._options.avro_include_before_value else rows.op != _D
        program = self._program_of(rows, topics, valued)
        commit_ts, synthetic = self._commit_ts(rows, timestamps, valued)
        program = np.where(commit_ts < NO_COMMIT_TS, -1, program)
        of = self._made.arrays().of
        empty = (program >= 0) & ((of[:, 4] < 0) & (of[:, 6] < 0))[program]  # deletes with neither key nor value
        if self._options.avro_enable_watermark and self._options.enable_tidb_extension:
            empty &= rows.commit_ts < 0
        if self._options.on_lossy == "error":
            program, empty = np.where(empty, -1, program), np.zeros(count, np.bool_)
        keys, values, left, folds = self._run(rows, program, commit_ts)
        flags = {"synthetic_commit_ts": synthetic, "empty_record": empty, **self._folds(program, folds)}
        return WrittenMessages(keys, values, left, {name: mask for name, mask in flags.items() if mask.any()})

    # ---- programs
    def _program_of(self, rows: Rows, topics: Topics, valued: Any) -> Any:
        """The program of each row, -1 for rows that the encoder refuses whatever their values are."""
        # A row of which only the key is known can be written as a delete alone.
        key_only = np.array([shape.key_only for shape in rows.shapes], np.bool_)[rows.shape]
        usable = ((rows.op == _C) | (rows.op == _U) | (rows.op == _D)) & ~(key_only & (rows.op != _D))
        usable &= ~find_refused(rows, self._options)
        kinds = (rows.shape * len(topics.names) + topics.of) * 2 + valued
        distinct, first, back = find_distinct(np.where(usable, kinds, -1))
        programs = np.full(len(distinct), -1, np.int64)
        for k in np.argsort(first, kind="stable").tolist():  # in the order in which the encoder meets them
            if distinct[k] >= 0:
                pair, with_value = divmod(int(distinct[k]), 2)
                shape, topic = divmod(pair, len(topics.names))
                programs[k] = self._program(rows.shapes[shape], topics.names[topic], bool(with_value))
        return programs[back]

    def _program(self, shape: RowShape, topic: str | None, valued: bool) -> int:
        if topic is None:
            return -1
        if (entry := self._programs.get((id(shape), topic, valued))) is not None:
            return entry[1]
        try:
            plan = self._plans.of(shape.table, topic, None, valued)
            number = self._made.add(shape, plan.key, plan.value)
        except WireError:
            return -1  # the encoder says why; perhaps the schema is there in the next batch
        self._programs[id(shape), topic, valued] = shape, number
        return number

    # ---- rows
    def _commit_ts(self, rows: Rows, timestamps: Any, valued: Any) -> tuple[Any, Any]:
        """commit_ts as the value has it, and which are made of the timestamp, as by `required_commit_ts`."""
        is_in_time = (timestamps > 0) & (timestamps <= tso_physical_ms(MAX_TSO))
        is_synthetic = valued & (rows.commit_ts == NO_COMMIT_TS) & is_in_time
        if self._options.on_lossy == "error":
            is_synthetic &= rows.op != _D
        if not self._options.enable_tidb_extension or not is_synthetic.any():
            return rows.commit_ts, np.zeros(len(is_synthetic), np.bool_)
        made = np.where(is_synthetic, timestamps, 0) * ms_to_tso(1)
        return np.where(is_synthetic, made, rows.commit_ts), is_synthetic

    def _run(self, rows: Rows, program: Any, commit_ts: Any) -> tuple[Binaries, Binaries, Any, Any]:
        """(keys, values, rows that are left, bits of ambiguous TIMESTAMPs)."""
        count, options = len(program), self._options
        arrays = (program, commit_ts, rows.op, rows.after, rows.before, rows.step, rows.start, rows.length, rows.data)
        plain = kernel.WriteRows(*map(freeze, arrays))
        watermarks = options.avro_enable_watermark and options.enable_tidb_extension
        modes = kernel.WriteOptions(
            options.avro_include_before_value, options.enable_tidb_extension, options.enable_row_checksum, watermarks
        )
        programs = self._made.arrays()
        left, folds, pieces = np.zeros(count, np.bool_), np.zeros(count, np.int64), []
        for field, room in enumerate(kernel.message_sizes(programs, modes, plain)):
            data, ends = np.empty(room, np.uint8), np.empty(count + 1, np.int64)
            kernel.write(programs, modes, plain, field, data, ends, left, folds)
            pieces.append(Binaries(data[: ends[-1]], ends, ends[1:] > ends[:-1]))
        size = sum(array.offsets[1:] - array.offsets[:-1] for array in pieces) + OVERHEAD
        return pieces[0], pieces[1], left | (size > options.max_message_bytes), folds

    def _folds(self, program: Any, folds: Any) -> dict[str, Any]:
        """The flag of each TIMESTAMP column with times that were ambiguous: by name, which rows."""
        flags: dict[str, Any] = {}
        for row in np.flatnonzero(folds).tolist():
            for bit, column in enumerate(self._made.zoned[program[row]]):
                if folds[row] >> bit & 1:
                    flags.setdefault(f"timestamp_fold:{column}", np.zeros(len(folds), np.bool_))[row] = True
        return flags


# ---------------------------------------------------------------------------------------------- programs
class _Programs:
    """Programs of the kernel, in flat arrays. zoned: of each program, its TIMESTAMP columns by their bit."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._fields: list[tuple[int, ...]] = []
        self._of: list[tuple[int, ...]] = []
        self._heads = bytearray()
        self._zones: list[tuple[int, int]] = []
        self._pairs: list[tuple[int, ...]] = []
        self._pair_of: dict[str, int] = {options.time_zone: -1}
        self._arrays: Any = None
        self.zoned: list[tuple[str, ...]] = []

    def add(self, shape: RowShape, key: RecordSchema | None, value: RecordSchema | None) -> int:
        """The program's number. key, value: what `SchemaIds` says; None: such rows have none."""
        cells = {column.name: (k, column) for k, column in enumerate(shape.columns)}
        zoned = tuple(c.name for c in shape.table.columns if c.type.kind is Kind.TIMESTAMP)
        bounds, heads = [], []
        for field in (key, value):
            first, head = len(self._fields), len(self._heads)
            for column in () if field is None else field.columns:
                self._fields.append(self._field(column, cells.get(column.name), zoned))
            self._heads += b"" if field is None else frame(field.id, b"")
            bounds += [first, len(self._fields)]
            heads += [-1, -1] if field is None else [head, len(self._heads)]
        self._of.append((*bounds, *heads, self._pair(shape.zone) if zoned else -1))
        self.zoned.append(zoned)
        self._arrays = None
        return len(self._of) - 1

    def _field(self, column: Column, cell: tuple[int, Column] | None, zoned: tuple[str, ...]) -> tuple[int, ...]:
        null, _ = union_of(column, self._options)
        union = {None: kernel.NOT_NULL, b"\x00": kernel.NULL_FIRST, b"\x02": kernel.VALUE_FIRST}[null]
        if cell is None:
            return (kernel.VIRTUAL if column.virtual else kernel.LEFT, -1, union, 0, 0, 0)
        kind = column.type.kind
        what, first, second = self._field_kind(column)
        if form_of(column) is not form_of(cell[1]):
            what = kernel.LEFT
        return (what, cell[0], union, first, second, zoned.index(column.name) if kind is Kind.TIMESTAMP else 0)

    def _field_kind(self, column: Column) -> tuple[int, int, int]:
        kind = column.type.kind
        if kind is Kind.INTEGER:
            text = publish.avro_type(column, self._options)["type"] == "string"
            signed = kernel.UINT_TEXT if text else kernel.UINT if column.unsigned else kernel.INT
            return signed, column.type.bits, 0
        if kind is Kind.DECIMAL:
            if self._options.avro_decimal_handling_mode == "string":
                return kernel.DECIMAL_TEXT, column.length or 0, column.scale or 0
            assert column.length is not None
            assert column.scale is not None
            return kernel.DECIMAL, column.length, column.scale
        return _FIELDS.get(kind, kernel.SPAN), column.length or 0, 0

    def _pair(self, zone: str) -> int:
        """The row of `pairs` from a zone to the target's."""
        if zone not in self._pair_of:
            try:
                both = [zone_changes(name) for name in (zone, self._options.time_zone)]
                reach = (FIRST, LAST)
            except ValueError:
                both, reach = [((0, 0),)] * 2, (1, 0)  # no such zone: only the zero value has the same text
            pair: list[int] = []
            for changes in both:
                pair += [len(self._zones), len(changes) - 1]
                self._zones += changes
            self._pair_of[zone] = len(self._pairs)
            self._pairs.append((*pair, *reach))
        return self._pair_of[zone]

    def arrays(self) -> Any:
        """`avro_write.WriteSteps`."""
        if self._arrays is None:
            heads = np.frombuffer(bytes(self._heads) or b"\0", np.uint8)
            lists = ((self._fields, 6), (self._of, 9), (self._zones, 2), (self._pairs, 6))
            fields, of, zones, pairs = (freeze(np.array(rows or [(0,) * n], np.int64)) for rows, n in lists)
            self._arrays = kernel.WriteSteps(fields, of, freeze(heads), zones, pairs)
        return self._arrays


_FIELDS = {
    Kind.YEAR: kernel.YEAR,
    Kind.FLOAT: kernel.FLOAT,
    Kind.DOUBLE: kernel.DOUBLE,
    Kind.BIT: kernel.BIT,
    Kind.TIMESTAMP: kernel.TIMESTAMP,
}


# ---------------------------------------------------------------------------------------------- compiling
def warm() -> bool:
    """Compiles the kernels or loads them from the cache (`schemas.columnar.kernels.jit`): once in a driver or an image.

    Workers then find them. Out: False without numba, where there is nothing to compile.
    """
    if not COMPILED:
        return False
    table = Table(TableId("a", "b"), (Column("id", BY_NAME["int"], primary_key=True),))
    ones = np.ones(1, np.int64)
    rows = Rows(
        (RowShape(table, table.columns, ("id",)),), ones - 1, ones - 1, ones, np.array([ord("c")], np.uint8), ones - 1,
        -ones, ones, ones, ones * 8, np.zeros(0, np.uint8),
    )  # fmt: skip
    return not AvroWriter(Context(SchemasInMemory())).write(rows, Topics(["t"], ones - 1), ones).left.any()
