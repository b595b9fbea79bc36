"""TiCDC Avro, many messages at once → rows in flat arrays (`schemas.columnar.rows`), by a compiled kernel.

What comes out is what `AvroDecoder` gives, for messages of any number of tables and schema ids in one call. What the
kernel can't take as it is (Glue's framing, DDL, watermarks, text that is not UTF-8, anything wrong) is left to it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ticdc_bridge.schemas.codec.bounded_cache import BoundedCache
from ticdc_bridge.schemas.columnar.avro_steps import RecordSteps, carries, compile_steps
from ticdc_bridge.schemas.columnar.kernels import avro_read as kernel
from ticdc_bridge.schemas.columnar.kernels.avro_read import Scratch
from ticdc_bridge.schemas.columnar.kernels.jit import COMPILED
from ticdc_bridge.schemas.columnar.rows import (
    NO_COMMIT_TS,
    Binaries,
    ChunkMemory,
    Rows,
    RowsBuilder,
    RowShape,
    Topics,
    find_distinct,
    freeze,
)
from ticdc_bridge.schemas.formats.avro.decoder import DefinitionsOfRecords, NewestRecords
from ticdc_bridge.schemas.formats.avro.values import RecordReader, compile_record
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.formats.framing import MAX_MESSAGE
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.names import names_of_columns, topic_subject
from ticdc_bridge.schemas.model.ports import SchemaId, TableSource, TableSpans
from ticdc_bridge.schemas.model.table import Column, Table, TableVersion

# ---- What rows read from Avro have in common: records of value and key, and the table's definition → `RowShape`.


@dataclass(frozen=True, slots=True, eq=False)
class RecordPair:
    """Rows of one schema and key. record: names and columns; cells: the columns in the order they are read.

    keys: names of the key record's columns. extra: the events carry more than a row.
    """

    record: RecordReader
    cells: tuple[Column, ...]
    keys: tuple[str, ...]
    schema_id: SchemaId
    key_only: bool
    extra: bool

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.record.columns)


def record_pair_of(
    record: RecordReader, cells: tuple[Column, ...], key: RecordReader | None, schema_id: SchemaId, key_only: bool,
    extra: bool,
) -> RecordPair | None:  # fmt: skip
    """None where the key has a column that the row lacks: the decoder refuses the message."""
    keys = tuple(c.name for c in key.columns) if key is not None else ()
    if not set(keys) <= {c.name for c in record.columns}:
        return None
    return RecordPair(record, cells, keys, schema_id, key_only, extra or record.keyspace != "default")


class ShapeCache:
    """The shape of each kind and table version, and what is to be done for it. One object for equal shapes."""

    def __init__(self, zone: str) -> None:
        self._zone = zone
        self._known: BoundedCache[tuple[RecordPair, int], tuple[TableVersion | None, tuple[RowShape, Any] | None]] = (
            BoundedCache(100_000)
        )
        self._same: BoundedCache[RowShape, RowShape] = BoundedCache(100_000)

    def of(self, kind: RecordPair, version: TableVersion | None) -> tuple[RowShape, Any] | None:
        """The shape, and where each of its cells is among the kind's (int64, -1: absent; None: all in place).

        None where the version's cells can't say what the schema's do.
        """
        entry = self._known.get((kind, id(version)))
        if entry is None or entry[0] is not version:
            entry = self._known[kind, id(version)] = version, self._make_shape(kind, version)
        return entry[1]

    def _make_shape(self, kind: RecordPair, version: TableVersion | None) -> tuple[RowShape, Any] | None:
        defined = version.table.columns if version else ()
        names, twice = names_of_columns(c.name for c in defined if not c.virtual)
        if not twice.isdisjoint(kind.names):
            return None  # the decoder says why
        if version is not None and all(name in names for name in kind.keys):
            table, keys = version.table, tuple(names[name] for name in kind.keys)
        else:
            version, keys, names = None, kind.keys, {name: name for name in kind.names}
            table = Table.keyed(kind.record.id, kind.record.columns, keys)
        columns = tuple(c for c in table.columns if not c.virtual)
        indexes = {names[c.name]: n for n, c in enumerate(kind.cells) if c.name in names}
        if not all(carries(kind.cells[indexes[c.name]], c) for c in columns if c.name in indexes):
            return None
        source = [indexes.get(c.name, -1) for c in columns]
        present = [n for n in source if n >= 0]
        shape = RowShape(
            table, columns, keys or table.handle_key, version.known_commit_ts if version else None,
            kind.schema_id if isinstance(kind.schema_id, int) else None, self._zone, kind.key_only,
            () if present == sorted(present) else tuple(names[kind.cells[n].name] for n in sorted(present)),
        )  # fmt: skip
        shape = self._same.setdefault(shape, shape)
        return shape, None if source == list(range(len(kind.cells))) else np.array(source, np.int64)


# ---------------------------------------------------------------------------------------------- table versions
def versions_at(
    tables: TableSource | None, definitions: DefinitionsOfRecords, kind: RecordPair, commit_ts: Any, index: Any
) -> Iterator[tuple[Any, TableVersion | None]]:
    """The rows at `index`, by the version that their table has at their commit_ts; not those that have none to tell, or
    one that does not describe them: the decoder says so.
    """
    if tables is None:
        yield index, None
        return
    stamps = commit_ts[index]
    unknown = stamps == NO_COMMIT_TS
    if unknown.any():
        yield from _find_version(definitions, kind, None, index[unknown])
        index, stamps = index[~unknown], stamps[~unknown]
    if not isinstance(tables, TableSpans):
        yield from _find_in_python(definitions, kind, stamps, index)
        return
    while len(index):
        commit_ts = int(stamps[0])
        after, until = tables.sanitised_span(kind.record.id, commit_ts)
        here = (stamps > after) & (stamps <= until)
        yield from _find_version(definitions, kind, commit_ts, index[here])
        index, stamps = index[~here], stamps[~here]


def _find_version(
    definitions: DefinitionsOfRecords, kind: RecordPair, commit_ts: int | None, index: Any
) -> Iterator[tuple[Any, TableVersion | None]]:
    try:
        version, mismatch = definitions.find(kind.record, commit_ts, kind.keys)
    except WireError:
        return  # the decoder says why
    if mismatch is None:
        yield index, version


def _find_in_python(
    definitions: DefinitionsOfRecords, kind: RecordPair, stamps: Any, index: Any
) -> Iterator[tuple[Any, TableVersion | None]]:
    """Each commit_ts is asked for: the rows of one version together."""
    different, of = np.unique(stamps, return_inverse=True)
    by_version: dict[int, tuple[TableVersion | None, list[int]]] = {}
    for n, commit_ts in enumerate(different.tolist()):
        for _, version in _find_version(definitions, kind, commit_ts, index):
            by_version.setdefault(id(version), (version, []))[1].append(n)
    for version, stamped in by_version.values():
        yield index[np.isin(of, stamped)], version


_MOST_ABSENT = 1 << 22  # cells of columns that deletes by their keys alone lack, in one batch
_MOST_TEXTS, _HEAVIEST = 16_384, 64 << 20  # schemas that stay compiled, and their characters


class CompiledSchemas:
    """Keeps what is made of schema texts, whatever registry they come from: readers of many jobs may share it.

    zone: of TIMESTAMP text. Not for several threads at once.
    """

    def __init__(self, zone: str) -> None:
        self._records: BoundedCache[tuple[str, str], RecordReader] = _new_text_cache()
        self._programs: BoundedCache[tuple[str, str, int], RecordSteps | None] = _new_text_cache()
        self.kinds: BoundedCache[tuple[Any, ...], tuple[RecordReader | None, RecordPair | None]] = BoundedCache(65_536)
        self.shapes = ShapeCache(zone)

    def record(self, text: str, where: str) -> RecordReader:
        """As `compile_record`, which raises."""
        return self._records.find((text, where), lambda: compile_record(text, where))

    def program(self, text: str, where: str, schema_id: int) -> RecordSteps | None:
        """None for a schema that only the decoder reads."""
        key = (text, where, schema_id)
        if key not in self._programs:
            try:
                self._programs[key] = compile_steps(schema_id, self.record(text, where), text)
            except WireError:
                self._programs[key] = None
        return self._programs[key]


def _new_text_cache() -> BoundedCache[Any, Any]:
    return BoundedCache(_MOST_TEXTS, _HEAVIEST, lambda key, _: len(key[0]))


class AvroReader:
    """Programs are compiled once per schema id (`schemas.columnar.rows.RowsReader`).

    without_extra: messages whose events carry more than a row (a checksum, a keyspace) are taken too, without that;
    else they are left. compiled: shared with other readers of the context's zone.
    """

    def __init__(self, context: Context, without_extra: bool = False, compiled: CompiledSchemas | None = None) -> None:
        self._context = context
        self._without_extra = without_extra
        self._compiled = compiled or CompiledSchemas(context.options.time_zone)
        self._programs: BoundedCache[tuple[int, str, str | None], RecordSteps | None] = BoundedCache(100_000)
        self._newest = NewestRecords(context.schemas, self._compiled.record)
        self._definitions = DefinitionsOfRecords(context.tables, context.options)
        self._shapes = ShapeCache(context.options.time_zone)  # of table versions, which are the job's

    def read(self, keys: Binaries, values: Binaries, topics: Topics) -> tuple[Rows, Any]:
        """Messages → (rows, indices of the messages that `AvroDecoder` has to read). SetupError: no registry."""
        count = len(values.valid)
        if not COMPILED or not count:
            return RowsBuilder(ChunkMemory()).rows(), np.arange(count)
        value, key, programs = self._message_fields(values, keys, topics)
        rows, cells, data = _run(value, key, programs)
        shape = np.full(len(rows.message), -1, np.int64)
        shapes: dict[int, tuple[int, RowShape]] = {}  # by object: one stands for all that are equal
        moves: list[tuple[Any, Any]] = []
        absent = 0
        for chosen, kind in self._groups(rows, programs, topics):
            for index, version in versions_at(self._context.tables, self._definitions, kind, rows.commit_ts, chosen):
                entry = (self._compiled.shapes if version is None else self._shapes).of(kind, version)
                if entry is None:
                    continue
                if entry[1] is not None:
                    absent += len(index) * int((entry[1] < 0).sum())
                    if absent > _MOST_ABSENT:
                        continue
                    moves.append((index, entry[1]))
                shape[index] = shapes.setdefault(id(entry[0]), (len(shapes), entry[0]))[0]
        used = tuple(item for _, item in shapes.values())
        return _build_rows(_rearrange_cells(rows, cells, moves), shape, used, data, count)

    # ---- programs
    def _message_fields(
        self, values: Binaries, keys: Binaries, topics: Topics
    ) -> tuple[kernel.MessageField, kernel.MessageField, list[RecordSteps]]:
        """Values and keys with the programs of their schema ids on their topics, and these programs."""
        numbers: dict[RecordSteps, int] = {}
        pieces, names = [], topics.names
        for where, binaries in (("value", values), ("key", keys)):
            offsets = np.ascontiguousarray(binaries.offsets, np.int64)
            data, offsets = freeze(binaries.data[offsets[0] : offsets[-1]], np.uint8), freeze(offsets - offsets[0])
            ids = np.empty(len(offsets) - 1, np.int64)  # or what stands there instead
            kernel.ids(data, offsets, freeze(binaries.valid, np.bool_), MAX_MESSAGE, ids)
            if len(names) > 1:
                ids = ids * len(names) + np.asarray(topics.of, np.int64)
            different, _, of = find_distinct(ids)
            table = np.empty(len(different), np.int64)
            for index, code in enumerate(different.tolist()):
                id_, topic = divmod(code, len(names))
                table[index] = _NO_IDS[where].get(id_, kernel.UNREADABLE)
                program = None if id_ in _NO_IDS[where] else self._program(id_, where, names[topic])
                if program is not None:
                    table[index] = numbers.setdefault(program, len(numbers))
            pieces.append((data, offsets, table[of]))
        programs = list(numbers)
        return self._fitting(pieces[0], programs, "value"), self._fitting(pieces[1], programs, "key"), programs

    def _fitting(self, array: tuple[Any, Any, Any], programs: list[RecordSteps], where: str) -> kernel.MessageField:
        """A part without the programs of messages that are none of theirs: too short, or a value's where a key is."""
        data, offsets, chosen = array
        if programs:
            unfit = np.array([where == "key" and not p.keyed for p in programs], np.bool_)
            least = np.array([p.least + kernel.HEADER for p in programs], np.int64)
            read = np.maximum(chosen, 0)
            chosen[(chosen >= 0) & (unfit[read] | (np.diff(offsets) < least[read]))] = kernel.UNREADABLE
        return kernel.MessageField(data, offsets, chosen)

    def _program(self, schema_id: int, where: str, topic: str | None) -> RecordSteps | None:
        if not schema_id:
            return None  # an id of 8 bytes begins so
        asked = (schema_id, where, topic)
        if asked not in self._programs:
            try:
                text = self._context.schemas.by_id(schema_id, where, topic_subject(topic, where))
            except WireError:
                return None  # not known now: the decoder asks again, and says so
            self._programs[asked] = self._compiled.program(text, where, schema_id)
        return self._programs[asked]

    # ---- what rows have in common
    def _groups(
        self, rows: kernel.ReadRows, programs: list[RecordSteps], topics: Topics
    ) -> Iterator[tuple[Any, RecordPair]]:
        """Rows of the same records of value and key (a delete by its key: of the same topic), and what they are."""
        width, names = len(programs) + 1, len(topics.names)
        code = rows.value * width + rows.key + 1
        alone = np.flatnonzero(rows.value < 0)
        if len(alone):
            code[alone] = -1 - (rows.key[alone] * names + np.asarray(topics.of, np.int64)[rows.message[alone]])
        for entry, index in _group_by_code(code):
            if entry >= 0:
                value, key = divmod(entry, width)
                kind = self._upsert(programs[value], programs[key - 1] if key else None)
            else:
                key, topic = divmod(-1 - entry, names)
                kind = self._delete(programs[key], topics.names[topic])
            if kind is not None and (self._without_extra or not kind.extra):
                yield index, kind

    def _upsert(self, value: RecordSteps, key: RecordSteps | None) -> RecordPair | None:
        def make() -> tuple[None, RecordPair | None]:
            record, keys = value.record, key.record if key is not None else None
            pair = record_pair_of(record, record.columns, keys, value.schema_id, key_only=False, extra=value.extra)
            return None, pair

        return self._compiled.kinds.find((value, key), make)[1]

    def _delete(self, key: RecordSteps, topic: str | None) -> RecordPair | None:
        """The key record lists only the key; the newest value schema of the topic tells the other columns' names."""
        record = self._newest.of(topic) or key.record
        columns = key.record.columns
        if record.id != key.record.id or not {c.name for c in columns} <= {c.name for c in record.columns}:
            record = key.record
        kinds = self._compiled.kinds
        entry = kinds.get((key, id(record)))
        if entry is None or entry[0] is not record:
            kind = record_pair_of(record, columns, key.record, key.schema_id, key_only=True, extra=False)
            entry = kinds[key, id(record)] = record, kind
        return entry[1]


_NO_IDS = {
    "value": {kernel.NOTHING: kernel.NULL, kernel.STRANGE: kernel.UNREADABLE, kernel.DELETED: kernel.MARK},
    "key": {kernel.NOTHING: kernel.NULL, kernel.STRANGE: kernel.UNREADABLE, kernel.DELETED: kernel.UNREADABLE},
}


# ---------------------------------------------------------------------------------------------- arrays
def _group_by_code(code: Any) -> Iterator[tuple[int, Any]]:
    """The different codes, and where each stands, in order."""
    if not len(code):
        return
    if (code == code[0]).all():
        yield int(code[0]), np.arange(len(code))
        return
    different, _, of = find_distinct(code)
    order = np.argsort(of.astype(np.min_scalar_type(len(different))), kind="stable")  # small numbers sort quickest
    yield from zip(different.tolist(), np.split(order, np.cumsum(np.bincount(of))[:-1]), strict=True)


def _run(
    value: kernel.MessageField, key: kernel.MessageField, programs: list[RecordSteps]
) -> tuple[kernel.ReadRows, int, Any]:
    """The kernel over all messages → (the rows taken, how many cells they have, the bytes that spans point into)."""
    steps = [step for program in programs for step in program.steps]
    read_steps = kernel.ReadSteps(
        freeze(np.array(steps, np.int64).reshape(-1, kernel.STEP)),
        freeze(np.cumsum([len(program.steps) for program in programs], dtype=np.int64)),
    )
    most = freeze(np.array([(p.cells, p.text) for p in programs], np.int64).reshape(-1, 2))
    rooms = [kernel.room(field, most) for field in (value, key)]
    count, cells, text = len(value.program), sum(room[0] for room in rooms), sum(room[1] for room in rooms)
    message, commit_ts, after, before, of_value, of_key = (np.empty(count, np.int64) for _ in range(6))
    rows = kernel.ReadRows(
        message, commit_ts, np.empty(count, np.uint8), after, before, of_value, of_key, np.empty(count, np.bool_),
        np.empty(cells, np.int64), np.empty(cells, np.int64),
    )  # fmt: skip
    alone = bool(((value.program < 0) & (key.program >= 0)).any())
    base = len(value.data)
    start = base + (len(key.data) if alone else 0)
    scratch = Scratch(
        np.empty(text, np.uint8), np.empty(96, np.uint8), np.empty(8, np.uint64), np.zeros(kernel.STATES, np.int64)
    )
    row_count, used = kernel.read(value, key, base, start, read_steps, rows, scratch)
    read_rows = kernel.ReadRows._make([*(field[:row_count] for field in rows[:-2]), rows.start, rows.length])
    scratch_size = int(scratch.state[kernel.SCRATCH])
    data = value.data
    if alone or scratch_size:
        data = np.concatenate([data, *([key.data] if alone else []), scratch.scratch[:scratch_size]])
    return read_rows, used, data


def _rearrange_cells(rows: kernel.ReadRows, cells: int, moves: list[tuple[Any, Any]]) -> kernel.ReadRows:
    """moves: rows, and where each of their new cells is among the old (-1: absent)."""
    if not moves:
        return rows._replace(start=rows.start[:cells], length=rows.length[:cells])
    image_counts = [int((rows.after[index] >= 0).sum() + (rows.before[index] >= 0).sum()) for index, _ in moves]
    more = sum(image * len(source) for image, (_, source) in zip(image_counts, moves, strict=True))
    rows = rows._replace(
        start=np.concatenate([rows.start[:cells], np.empty(more, np.int64)]),
        length=np.concatenate([rows.length[:cells], np.empty(more, np.int64)]),
    )
    for index, source in moves:
        cells = kernel.rearrange(index, source, cells, rows)
    return rows


def _build_rows(
    rows: kernel.ReadRows, shape: Any, shapes: tuple[RowShape, ...], data: Any, count: int
) -> tuple[Rows, Any]:
    if (shape < 0).any():
        index = np.flatnonzero(shape >= 0)
        rows = kernel.ReadRows._make([*(array[index] for array in rows[:-2]), rows.start, rows.length])
        shape = shape[index]
    left = np.ones(count, np.bool_)
    left[rows.message] = False
    flags = {"op_unknown": rows.unknown} if rows.unknown.any() else {}
    result = Rows(
        shapes, rows.message, shape, rows.commit_ts, rows.op, rows.after, rows.before, np.ones(len(shape), np.int64),
        rows.start, rows.length, data, flags,
    )  # fmt: skip
    return result, np.flatnonzero(left)
