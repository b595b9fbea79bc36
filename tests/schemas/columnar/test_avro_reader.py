"""The compiled Avro reader gives what the decoder gives, or leaves the message to it.

BRIDGE_FUZZ=N: damaged messages (2,000; 20,000 in the slow test). BRIDGE_BOUNDS=1: once more with numba's bounds checks.
"""

import random
import struct
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.each import each
from tests.support.fuzz import SEED, WITH_BOUNDS, amounts, damaged, run_with_bounds_checks
from tests.support.golden import Registry, cases
from tests.support.message_arrays import batch_of, binaries, read_batch
from tests.support.rows import change
from ticdc_bridge.schemas.codec import avro as binary
from ticdc_bridge.schemas.columnar import avro_reader
from ticdc_bridge.schemas.columnar.avro_reader import AvroReader
from ticdc_bridge.schemas.columnar.kernels.jit import COMPILED
from ticdc_bridge.schemas.columnar.rows import NULL
from ticdc_bridge.schemas.formats.avro import schema as publish
from ticdc_bridge.schemas.formats.avro.decoder import AvroDecoder
from ticdc_bridge.schemas.formats.avro.encoder import AvroEncoder
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.inputs.table_definitions import TableDefinitions
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import Event, Message, RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.ports import SchemaId
from ticdc_bridge.schemas.model.table import Column, Table, TableId, TableVersion
from ticdc_bridge.schemas.model.types import BY_NAME
from ticdc_bridge.schemas.model.values import bit_size

pytestmark = pytest.mark.skipif(not COMPILED, reason="numba is not installed")

GOLDENS = cases("avro")


class _All:
    """The schemas of all golden cases side by side: those of case n have ids from n × 1000 on, and its topics n_."""

    def __init__(self) -> None:
        self._of = [golden.schemas for golden in GOLDENS]

    def by_id(self, schema_id: SchemaId, where: str, subject: str | None = None) -> str:
        assert isinstance(schema_id, int)
        if not 0 <= schema_id // 1000 < len(self._of):
            raise WireError("UNKNOWN_SCHEMA_ID", where=where, id=schema_id, source="the goldens")
        return self._of[schema_id // 1000].by_id(schema_id % 1000, where)

    def newest(self, subject: str) -> str | None:
        number, _, rest = subject.partition("_")
        return self._of[int(number)].newest(rest)

    def id_of(self, subject: str, schema: str) -> SchemaId:
        raise NotImplementedError


def _moved(number: int, part: bytes | None) -> bytes | None:
    if part is None or part[:1] != b"\0" or len(part) < 5:
        return part
    return b"\0" + (int.from_bytes(part[1:5], "big") + 1000 * number).to_bytes(4, "big") + part[5:]


@cache
def _everything() -> list[Message]:
    """The messages of all golden cases, one batch."""
    return [
        replace(m, key=_moved(n, m.key), value=_moved(n, m.value), topic=f"{n}_{m.topic}")
        for n, golden in enumerate(GOLDENS)
        for m in golden.messages()
    ]


def _decoded(decoder: AvroDecoder, message: Message) -> list[Event] | None:
    try:
        return decoder.decode(message)
    except WireError:
        return None


def _same(context: Context, messages: Sequence[Message], without_extra: bool = False) -> dict[int, RowChange]:
    """The rows taken, each compared with the decoder's."""
    found = read_batch(AvroReader(context, without_extra), messages, "avro")
    decoder = AvroDecoder(context)
    for number, event in found.items():
        expected = _decoded(decoder, messages[number])
        if without_extra and expected:
            expected = [replace(e, extra={}) for e in expected if isinstance(e, RowChange)]
        assert expected == [event], (number, messages[number])
    return found


def test_any_tables_and_ids_in_one_batch() -> None:
    messages = list(_everything())
    random.Random(SEED).shuffle(messages)
    found = _same(Context(_All()), messages)
    assert len(found) > 0.95 * len(messages)
    assert len({e.schema_id for e in found.values()}) > 100


def fuzz(count: int) -> int:
    """Damages messages of all golden cases. What is taken is what the decoder gives; out: how many."""
    messages, rng = _everything(), random.Random(SEED)
    values, keys = [m.value for m in messages if m.value], [m.key for m in messages if m.key]
    return len(_same(Context(_All()), [damaged(rng, rng.choice(messages), values, keys) for _ in range(count)]))


@pytest.mark.parametrize("mutations", amounts(2_000, 20_000))
def test_damaged_messages(mutations: int) -> None:
    assert mutations // 100 < fuzz(mutations) < mutations // 2


@WITH_BOUNDS
def test_damaged_messages_with_bounds_checks(tmp_path: Path) -> None:
    code = "from tests.schemas.columnar.test_avro_reader import fuzz; print(fuzz(20000))"
    assert int(run_with_bounds_checks(code, tmp_path)) > 0


def test_cut_messages() -> None:
    image = next(g for g in GOLDENS if g.name == "wide.before.ext1").side()
    messages = next(g for g in GOLDENS if g.name == "wide.before.ext1").messages()[:4]
    cut = [replace(m, value=m.value[:n]) for m in messages if m.value for n in range(len(m.value))]
    longer = [replace(m, value=m.value + b"\0") for m in messages if m.value]
    assert not _same(Context(image.schemas, None, image.options), [*cut, *longer])


def test_rows_between_messages_that_are_left() -> None:
    image = GOLDENS[0].side()
    messages = [m for m in GOLDENS[0].messages() if m.value][:3]
    wrong = replace(messages[0], value=b"\0\0\0\xff\xff\x02")
    mixed = [wrong, messages[0], replace(messages[0], key=b""), messages[1], wrong, messages[2], Message(None, None)]
    assert set(_same(Context(image.schemas, None, image.options), mixed)) == {1, 3, 5}


def test_a_key_that_is_wrong_leaves_its_row() -> None:
    golden = next(g for g in GOLDENS if g.name == "pk_types.ext1")
    image = golden.side()
    messages = golden.messages()
    assert all(m.key for m in messages)
    wrong = [replace(m, key=(m.key or b"") + b"\0") for m in messages]
    assert not _same(Context(image.schemas, None, image.options), wrong)


def test_what_cells_do_not_say_is_left_unless_asked_for() -> None:
    golden = next(g for g in GOLDENS if g.name == "checksum.checksum")
    image = golden.side()
    context = Context(image.schemas, None, image.options)
    assert len(_same(context, golden.messages())) == 1  # the delete, of which the key is all
    assert len(_same(context, golden.messages(), without_extra=True)) == len(golden.messages())


def test_nothing_is_taken_without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro_reader, "COMPILED", False)
    image, messages = GOLDENS[0].side(), GOLDENS[0].messages()
    rows, left = AvroReader(Context(image.schemas)).read(*batch_of(messages))
    assert left.tolist() == list(range(len(messages)))
    assert len(rows.message) == len(rows.shapes) == 0


def test_no_messages() -> None:
    assert read_batch(AvroReader(Context(Registry())), [], "avro") == {}


def test_one_shape_for_equal_rows_of_all_batches() -> None:
    image, messages = GOLDENS[0].side(), GOLDENS[0].messages()
    reader = AvroReader(Context(image.schemas))
    first, second = (reader.read(*batch_of(messages))[0] for _ in range(2))
    assert first.shapes
    assert all(shape is other for shape, other in zip(first.shapes, second.shapes, strict=True))


def test_a_schema_that_is_registered_later_is_found() -> None:
    registry = Registry()
    context = Context(registry, options=Options.of({"enable_tidb_extension": True}))
    table = Table(TableId("a", "b"), (Column("id", BY_NAME["int"], nullable=False, primary_key=True),))
    message = AvroEncoder(context).encode(change(table, {"id": "7"}), Message(None, None, "t"))[0]
    texts, registry._texts = registry._texts, []
    reader = AvroReader(context)
    assert not read_batch(reader, [message], "avro")
    registry._texts = texts
    assert read_batch(reader, [message], "avro")[0].after == {"id": "7"}


# ---------------------------------------------------------------------------------------------- single values
def _one_column(column: Column, bodies: Sequence[bytes], **options: str) -> tuple[Context, list[Message]]:
    """Messages of a table of this column, and an INT after it, which is 1."""
    registry = Registry()
    given = Options.of(options)
    after = Column("next", BY_NAME["int"], nullable=False)
    text = publish.value_schema(Table(TableId("a", "b"), (column, after)), given)
    id_ = registry.id_of("t-value", text)
    assert isinstance(id_, int)
    head = b"\0" + id_.to_bytes(4, "big")
    return Context(registry, options=given), [Message(None, head + body + b"\x02", "t") for body in bodies]


def _column(kind: str, **more: object) -> Column:
    return Column("c", BY_NAME[kind], **{"nullable": False, **more})  # type: ignore[arg-type]


def _check(column: Column, bodies: Sequence[bytes], left: int = 0, **options: str) -> None:
    """left: how many the decoder takes and the kernel need not."""
    context, messages = _one_column(column, bodies, **options)
    found = _same(context, messages)
    sound = [m for m in messages if _decoded(AvroDecoder(context), m)]
    assert len(sound) - left <= len(found) <= len(sound)


@given(st.lists(st.binary(max_size=36), min_size=1, max_size=20), st.integers(1, 65), st.data())
@settings(max_examples=150, deadline=None)
@example([b"\x80" + bytes(7), b"\x80" + bytes(15), b"\xff" * 8, b"\xff" * 20, bytes(32), b"\0", b"\x7f" * 8], 65, None)
def test_decimals_as_bytes(numbers: list[bytes], precision: int, data: st.DataObject | None) -> None:
    scale = 30 if data is None else data.draw(st.integers(0, min(precision, 30)))
    column = _column("decimal", length=precision, scale=scale)
    _check(column, [binary.write_bytes(number) for number in numbers])


def test_decimals_at_the_ends_of_their_precision() -> None:
    for precision in range(1, 66):
        most = 10**precision
        numbers = [n for top in (most - 1, most, most // 10) for n in (top, -top)]
        for scale in {0, min(precision, 30), precision // 2 % 31}:
            column = _column("decimal", length=precision, scale=scale)
            _check(column, [binary.write_decimal(number) for number in numbers])


_DECIMALS = ("0", "-0", "1.5", "-1.50", "00.1", "1.", ".5", "+1", "1e5", "", "-", "9" * 65, "9" * 66, "1." + "0" * 66)


def test_decimals_as_text() -> None:
    texts = [binary.write_bytes(text.encode()) for text in (*_DECIMALS, "１", "0." + "1" * 65)]
    _check(_column("decimal", length=65, scale=30), texts, avro_decimal_handling_mode="string")


def test_unsigned_integers_as_text() -> None:
    numbers = (0, 1, 9, 10, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 64, 10**19, 10**20)
    texts = [*map(str, numbers), "-0", "-1", "00", "", "1a", "/", ":", "18446744073709551620", "99999999999999999999"]
    bodies = [binary.write_bytes(text.encode()) for text in texts]
    _check(_column("bigint", unsigned=True), bodies, left=1, avro_bigint_unsigned_handling_mode="string")


_LONGS = [n for shift in range(0, 63, 7) for n in (1 << shift, -(1 << shift), (1 << shift) - 1)]
_LONGS += [(1 << 63) - 1, -(1 << 63)]
_VARINTS = [binary.write_long(n) for n in _LONGS]
_ODD = [b"\x80\x00", b"\xff" * 9 + b"\x01", b"\xff" * 9 + b"\x02", b"\x80" * 10 + b"\x01", b"\x81" * 9 + b"\x00", b""]


@each("kind", ["mediumint", "int", "bigint", "year"])
@each("unsigned", [False, True])
def test_integers(kind: str, unsigned: bool) -> None:
    years = [binary.write_long(n) for n in (0, 1, 1900, 1901, 2155, 2156, 1901 << 32)]
    _check(_column(kind, unsigned=unsigned and kind != "year"), [*_VARINTS, *_ODD, *years])


def test_floats() -> None:
    bits = [0, 1, 0x7FFFFF, 0x800000, 0x3DCCCCCD, 0x7F7FFFFF, 0x7F800000, 0x7FC00000, 0x400000]
    rng = random.Random(SEED)
    bits += [rng.getrandbits(31) for _ in range(500)]
    _check(_column("float"), [struct.pack("<I", bit | sign << 31) for bit in bits for sign in (0, 1)])


def test_doubles() -> None:
    bits = [0, 1, (1 << 52) - 1, 1 << 52, 0x7FEFFFFFFFFFFFFF, 0x7FF0000000000000, 0x7FF8000000000000]
    rng = random.Random(SEED)
    bits += [rng.getrandbits(63) for _ in range(500)]
    _check(_column("double"), [struct.pack("<Q", bit | sign << 63) for bit in bits for sign in (0, 1)])


@each("length", [1, 7, 8, 9, 16, 63, 64])
def test_bits(length: int) -> None:
    size = bit_size(length)
    numbers = [0, 1, (1 << length) - 1, min(1 << length, (1 << 8 * size) - 1)]
    texts = [number.to_bytes(size, "big") for number in numbers] + [b"", bytes(size + 1), bytes(size - 1)]
    _check(_column("bit", length=length), [binary.write_bytes(text) for text in texts])


def test_texts_and_bytes() -> None:
    texts = ["", "a", "é" * 40, "東京", "\0", "a" * 1000 + "é"]
    wrong = [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"a" * 50 + b"\xf5\x80\x80\x80"]
    bodies = [binary.write_bytes(text.encode()) for text in texts] + [binary.write_bytes(text) for text in wrong]
    lengths = [binary.write_long(n) for n in (-1, 1 << 40, (1 << 63) - 1, -(1 << 63), 3)]
    _check(_column("text"), [*bodies, *lengths], left=len(wrong))
    _check(_column("blob"), [*bodies, *lengths])


def test_null_in_both_orders_of_its_union() -> None:
    bodies = [b"\x00", b"\x02", b"\x00\x04", b"\x02\x04", b"\x01", b"\x04", b"\x80\x00", b""]
    _check(_column("int", nullable=True), bodies)
    _check(_column("int", nullable=True, has_default=True, default="5"), bodies)
    context, messages = _one_column(_column("int", nullable=True), [b"\x00"])
    rows, _ = AvroReader(context).read(*batch_of(messages))
    assert rows.length.tolist() == [NULL, 8]


# ---------------------------------------------------------------------------------------------- definitions
class _Asked:
    """Definitions of which nothing is known but the protocol's answers."""

    def __init__(self, tables: TableDefinitions) -> None:
        self.at, self.sanitised = tables.at, tables.sanitised


def _versions() -> tuple[Context, list[Message], TableDefinitions]:
    """Rows of a table that changed its columns' order and types without another Avro schema."""
    registry = Registry()
    columns = (
        Column("id", BY_NAME["int"], nullable=False, handle_key=True, primary_key=True),
        Column("na-me", BY_NAME["varchar"], length=10),
        Column("n", BY_NAME["smallint"]),
    )
    wider = (columns[0], columns[2], replace(columns[1], type=BY_NAME["text"], length=None))
    longer = (*wider, Column("more", BY_NAME["bit"], length=4))
    tables = [Table(TableId("a-b", "t"), some) for some in (columns, wider, longer)]
    options = Options.of({"enable_tidb_extension": True})
    encoder = AvroEncoder(Context(registry, options=options))
    messages = []
    for n in range(60):
        row = {"id": str(n), "na-me": f"name {n}", "n": str(-n)}
        gone = n % 7 == 6
        event = change(tables[0], None if gone else row, row if gone or n % 2 else None, commit_ts=100 + n)
        messages += encoder.encode(event, Message(None, None, "t"))
    known = TableDefinitions([TableVersion(commit_ts, t) for commit_ts, t in zip((110, 130, 150), tables, strict=True)])
    return Context(registry, known, options), messages, known


def test_table_versions_by_commit_ts() -> None:
    context, messages, known = _versions()
    found = _same(context, messages)
    assert len(found) == len(messages)
    assert {e.table_version for e in found.values() if e.op != "d"} == {None, 110, 130, 150}
    one_by_one = replace(context, tables=_Asked(known))
    assert read_batch(AvroReader(one_by_one), messages, "avro") == found


def test_a_definition_of_other_types_is_the_decoders() -> None:
    """BIT(4) of the schema and BIT(8) of the definition: their numbers are not the same bytes."""
    context, messages = _one_column(_column("bit", length=4), [binary.write_bytes(b"\1")])
    after = Column("next", BY_NAME["int"], nullable=False)
    for kind, taken in (("bit", 0), ("int", 0), ("varbinary", 0)):
        table = Table(TableId("a", "b"), (_column(kind, length=8), after))
        known = replace(context, tables=TableDefinitions([TableVersion(1, table)]))
        assert len(_same(known, messages)) == taken


def test_deletes_of_many_columns_that_their_keys_lack_keep_within_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro_reader, "_MOST_ABSENT", 3)
    context, messages, _ = _versions()
    deletes = [m for m in messages if m.value is None]
    assert len(deletes) > 3
    assert not _same(replace(context, tables=None), deletes)
    assert len(_same(replace(context, tables=None), deletes[:1])) == 1


def test_binaries_may_be_part_of_larger_ones() -> None:
    made = binaries([b"ab", None, b""])
    assert made.offsets.tolist() == [3, 5, 5, 5]
    assert np.array_equal(made.valid, [True, False, True])
