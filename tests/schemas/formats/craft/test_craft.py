"""Craft: TiCDC's own bytes, the options, and other formats' rows."""

import struct
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.each import each
from tests.support.golden import GOLDEN, Golden, Registry, both, cases
from tests.support.rows import COMMIT_TS, ORIGIN, Pair, Tables, change, column, table
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.formats.craft import layout as craft
from ticdc_bridge.schemas.formats.craft import layout as p
from ticdc_bridge.schemas.formats.craft.decoder import CraftDecoder
from ticdc_bridge.schemas.formats.craft.encoder import CraftEncoder
from ticdc_bridge.schemas.formats.craft.layout import RowCells, RowOut, write_rows
from ticdc_bridge.schemas.inspect.format_lookup import format_named
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import DdlEvent, Message, RowChange, Watermark
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.message_codec import transcode_message

CRAFT = GOLDEN / "craft"


def decoder(tables: Tables | None = None, **options: Any) -> CraftDecoder:
    return CraftDecoder(Context(Registry(), tables, Options.of(options)))


def encoder(**options: Any) -> CraftEncoder:
    return CraftEncoder(Context(Registry(), None, Options.of(options)))


def decode(value: bytes) -> list[Any]:
    return decoder().decode(Message(None, value))


def refused(value: bytes) -> str:
    with pytest.raises(WireError) as caught:
        decode(value)
    assert caught.value.code in ("MALFORMED", "TOO_LARGE")
    return caught.value.detail


# ---- TiCDC's bytes
@each(("golden", "ddl"), **both(cases("craft")))
def test_bytes(golden: Golden, ddl: bool) -> None:
    """encode(decode(message)) is the message: one row each, and batched as the original batched."""
    reader, writer = golden.side(ddl).decoder(), CodecConfig("craft", golden.schemas, golden.options()).encoder()
    for message in golden.messages():
        result = transcode_message(reader, writer, message)
        assert result.error is None, result.error
        assert result.out == [message]


def test_the_rows_of_all_messages_batch_anew() -> None:
    """Rows of single-row messages, given together, make the batches that TiCDC made of them."""
    for case, made in (("wide", "build_at_end.batch64"), ("wide", "maxbytes1024"), ("partition", "maxbytes1024")):
        golden = Golden("craft", f"{case}.{made}")
        writer = CodecConfig("craft", golden.schemas, golden.options()).encoder()
        assert isinstance(writer, CraftEncoder)
        run: list[RowChange] = []
        wanted: list[bytes | None] = []
        found: list[bytes | None] = []
        for message in [*golden.messages(), Message(None, craft.write_resolved(1))]:
            events = golden.side().decoder().decode(message)
            rows = [e for e in events if isinstance(e, RowChange)]
            if rows:
                run += rows
                wanted.append(message.value)
            else:
                found += [m.value for m in writer.encode_rows(run, message)] if run else []
                run = []
        assert found == wanted


def test_dumps_of_the_documents() -> None:
    [row] = decode((CRAFT / "seed_hexdump_301.bin").read_bytes())
    assert (row.db, row.table_name, row.op, row.commit_ts) == ("a", "b", "u", 424316552636792833)
    assert row.after == {
        "varchar": "varchar1", "string": "string1", "date": "2021/01/02", "timestamp": "2021/01/02 00:00:00",
        "datetime": "2021/01/02 00:00:00", "float": "2", "long": "2000", "null": None,
    }  # fmt: skip
    assert row.before["float"] == "1"
    [ddl] = decode((CRAFT / "seed_hexdump_41.bin").read_bytes())
    assert ddl == DdlEvent("craft", "a", "b", 424316583965360129, 1, "create table a")
    [resolved] = decode((CRAFT / "seed_hexdump_20.bin").read_bytes())
    assert resolved == Watermark("craft", 424316594097225729)


@each("name", ["seed_hexdump_301.bin", "seed_hexdump_41.bin", "seed_hexdump_20.bin"])
def test_dumps_are_written_again(name: str) -> None:
    message = Message(None, (CRAFT / name).read_bytes())
    assert transcode_message(decoder(), encoder(), message).out == [message]


def test_the_documents_benchmark_rows() -> None:
    """301 and 997 bytes with FLOAT in eight bytes; and all four messages are written again."""
    from ticdc_bridge.spark_jobs.io.message_files import read_messages

    messages = [m for m in read_messages(CRAFT / "legacy_seed.jsonl") if isinstance(m, Message)]
    assert [len(m.value or b"") for m in messages[:2]] == [301, 997]
    for message in messages:
        assert transcode_message(decoder(), encoder(), message).out == [message]


@each(
    ("kind", "value", "more", "code"),
    [
        ("enum", "x", {}, "TYPE_UNKNOWN"), ("set", "x", {}, "TYPE_UNKNOWN"),
        ("enum", "x", {"elements": ("a",)}, "INVALID_VALUE"), ("set", "a,x", {"elements": ("a",)}, "INVALID_VALUE"),
        ("tinyint", "128", {}, "INVALID_VALUE"), ("int", "-1", {"unsigned": True}, "INVALID_VALUE"),
        ("int", "1.0", {}, "INVALID_VALUE"), ("float", "1e39", {}, "INVALID_VALUE"),
        ("double", "NaN", {}, "INVALID_VALUE"), ("bit", b"\x04", {"length": 2}, "INVALID_VALUE"),
        ("bit", "1", {"length": 2}, "INVALID_VALUE"), ("year", "1900", {}, "INVALID_VALUE"),
        ("decimal", "1e5", {}, "INVALID_VALUE"), ("decimal", "1.234", {"length": 5, "scale": 2}, "INVALID_VALUE"),
        ("date", "2021/01/01", {}, "INVALID_VALUE"), ("time", "1:00", {}, "INVALID_VALUE"),
        ("blob", "text", {}, "INVALID_VALUE"), ("json", b"{}", {}, "INVALID_VALUE"),
    ],
)  # fmt: skip
def test_values_that_are_refused(kind: str, value: Any, more: dict[str, Any], code: str) -> None:
    error = Pair("craft").refusal(change(table(column("v", kind, **more)), {"v": value}))
    assert (error.code, error.fields["column"]) == (code, "v")


def test_timestamps_are_written_in_the_zone_asked_for() -> None:
    of = table(column("v", "timestamp", scale=3))
    again = Pair("craft", time_zone="Asia/Shanghai").through(change(of, {"v": "2026-01-01 20:00:00.125"}))
    assert again.after is not None
    assert (again.after["v"], again.zone) == ("2026-01-02 04:00:00.125", "Asia/Shanghai")
    folded = change(of, {"v": "2025-11-02 01:30:00.000"}, zone="America/New_York")
    Pair("craft").write(folded)
    assert folded.flags == ["timestamp_fold:v"]


def test_zero_of_an_enum_that_has_an_empty_element_is_kept() -> None:
    """The plain form writes '' for both; the bytes tell them apart."""
    of = table(column("v", "enum", elements=("a", "")))
    reader, writer = decoder(Tables(of)), encoder()
    for number in (0, 2):
        cells = craft.RowCells(["id", "v"], [3, 247], [11, 64], [b"\x02", bytes([number])])
        message = Message(None, craft.write_rows([craft.RowOut("shop", "t", COMMIT_TS, -1, cells, None)]))
        [row] = reader.decode(message)
        assert isinstance(row, RowChange)
        assert row.after is not None
        assert row.after["v"] == ""
        assert writer.encode_rows([row], message) == [message]


def test_damaged_floats_keep_their_bytes_and_say_so() -> None:
    for bits in (0x7FF0000000000000, 0xFFF8000000000001, 0x40001FA000000000, 0x7FEFFFFFFFFFFFFF):
        cells = craft.RowCells(["f"], [4], [64], [struct.pack("<Q", bits)])
        message = Message(None, craft.write_rows([craft.RowOut("a", "b", COMMIT_TS, -1, cells, None)]))
        [row] = decode(message.value or b"")
        assert ("float_damaged:f" in row.flags) == (bits != 0x40001FA000000000)
        assert encoder().encode_rows([row], message) == [message]


# ---- options
def test_options_of_old_values() -> None:
    of = table(column("v", "int"))
    update = change(of, {"v": "2"}, {"v": "1"})
    delete = change(of, None, {"v": "1"})
    assert Pair("craft", no_old_value=True).through(update).op == "c"
    assert Pair("craft").through(update).op == "u"
    assert Pair("craft", no_old_value=True).through(delete).before == {"id": "1", "v": "1"}
    again = Pair("craft", delete_only_output_handle_key_columns=True).through(delete)
    assert (again.before, again.key_only) == ({"id": "1"}, True)
    keyless = replace(of, columns=tuple(replace(c, handle_key=False) for c in of.columns))
    error = Pair("craft", delete_only_output_handle_key_columns=True).refusal(change(keyless, None, {"v": "1"}))
    assert error.code == "INVALID_VALUE"
    for sent in ({"v": "1"}, {}):  # a column that a message leaves out of an old row has not changed
        partial = replace(change(of, {"v": "2"}, op="u"), before=sent)
        assert Pair("craft").through(partial).before == {"id": "1", "v": "2", **sent}
    blind = change(of, {"v": "2"}, op="u")
    assert Pair("craft").through(blind).op == "c"
    assert blind.flags == ["no_before"]


def test_batches_are_cut_by_rows_and_by_the_estimate() -> None:
    of = table(column("v", "int"))
    rows = [change(of, {"v": str(n)}) for n in range(40)]
    assert [len(decode(m.value or b"")) for m in encoder().encode_rows(rows, ORIGIN)] == [16, 16, 8]
    # A row is estimated at 32 + 4 + 1 + (2 + 1 + 16) + (1 + 1 + 16) = 74 bytes (two for v from 64 on).
    for limit, size in ((73, 1), (74, 2), (147, 2), (148, 3)):
        written = encoder(max_message_bytes=limit).encode_rows(rows[:12], ORIGIN)
        assert len(decode(written[0].value or b"")) == size


def test_ddl_and_resolved_events() -> None:
    for event in (
        DdlEvent("craft", "d", "", COMMIT_TS, 1, "CREATE DATABASE d"),
        DdlEvent("craft", "same", "same", COMMIT_TS, 3, "CREATE TABLE same.same (é INT)"),
        Watermark("craft", COMMIT_TS),
    ):
        [message] = encoder().encode(event, ORIGIN)
        assert message.key is None
        assert decode(message.value or b"") == [event]
    [message] = encoder().encode(DdlEvent("debezium", "d", "t", 1, None, "DROP TABLE t"), ORIGIN)
    assert decode(message.value or b"") == [DdlEvent("craft", "d", "t", 1, 4, "DROP TABLE t")]
    assert encoder().encode(DdlEvent("debezium", "d", "t", 1, None, "ALTER TABLE t REMOVE TTL"), ORIGIN) == []


# ---- numbers
@given(st.integers(0, (1 << 64) - 1), st.binary(max_size=3))
def test_uvarints(number: int, rest: bytes) -> None:
    data = p.uvarint(number)
    assert p.read_uvarint(data + rest, 0, len(data)) == (number, len(data))
    for cut in range(len(data)):
        with pytest.raises(WireError):
            p.read_uvarint(data, 0, cut)
    if number < 1 << 35:
        assert p.read_footer(b"\x00" + data[::-1], 1) == (number, 1)


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=1, max_size=20))
def test_chunks(numbers: list[int]) -> None:
    data = p.delta_varints(numbers)
    assert p.read_delta_varints(data, 0, len(data), len(numbers)) == (numbers, len(data))
    data = p.varints(numbers)
    assert p.read_varints(data, 0, len(data), len(numbers)) == (numbers, len(data))
    wide = [n & p.MASK for n in numbers]
    data = p.delta_uvarints(wide)
    assert p.read_delta_uvarints(data, 0, len(data), len(wide)) == (wide, len(data))


# ---- FLOATs that TiCDC's Craft encoder wrote the next number over: which are flagged.

INT, BIGINT, FLOAT, DOUBLE = 3, 8, 4, 5
TYPES = {"f": FLOAT, "g": FLOAT, "n": INT, "m": BIGINT, "d": DOUBLE}


def _number(value: int) -> bytes:
    return p.varints([value])


def _real(value: float) -> bytes:
    return struct.pack("<d", struct.unpack("<f", struct.pack("<f", value))[0])


class _Encoder:
    """As TiCDC allocates: numbers in blocks of 64 bytes, four for a FLOAT's eight; sound: eight."""

    def __init__(self, start: int = 0, sound: bool = False) -> None:
        self._buffer, self._at, self._float = bytearray(64), start, 4 + 4 * sound

    def message(self, *rows: dict[str, float], topic: str = "a") -> Message:
        """A message of inserts. A cell's name begins with its type's letter."""
        slots = [[self._write(TYPES[name[0]], value) for name, value in row.items()] for row in rows]
        return Message(None, write_rows([
            RowOut("shop", "t", COMMIT_TS, -1, RowCells(
                list(row), [TYPES[name[0]] for name in row], [1] * len(row),
                [bytes(buffer[at : at + size]) for buffer, at, size in cells],
            ), None)
            for row, cells in zip(rows, slots, strict=True)
        ]), topic, 0, 0)  # fmt: skip

    def _write(self, kind: int, value: float) -> tuple[bytearray, int, int]:
        content = _number(int(value)) if kind in (INT, BIGINT) else _real(value)
        size = {FLOAT: self._float, DOUBLE: 8}.get(kind, 10)
        if self._at + size > 64:
            self._buffer, self._at = bytearray(64), 0
        buffer, at = self._buffer, self._at
        self._at += size
        if at + len(content) > 64:  # Go's append makes another slice
            return bytearray(content), 0, len(content)
        buffer[at : at + len(content)] = content
        return buffer, at, len(content)


def _decoder(**options: Any) -> Any:
    return format_named("craft").decoder(Context(Registry(), None, Options.of(options)))


def _flagged(decoder: Any, message: Message) -> list[set[str]]:
    events = decoder.decode(message)
    assert all(isinstance(event, RowChange) for event in events)
    return [{f.partition(":")[2] for f in e.flags if f.startswith("float_damaged")} for e in events]


ZERO = _Encoder().message({"f": 0.757, "n": 0})  # the next number is a zero byte: 0.757 comes as 0.75695807
SOUND = _Encoder(sound=True).message({"f": 0.757, "n": 5})
BLOCK = {"n1": 1, "n2": 2, "n3": 3, "n4": 4, "n5": 5, "n6": 6}  # 60 bytes

# name → (a message, options, the flagged FLOATs of each row)
RUNS: dict[str, tuple[Message, dict[str, str], list[set[str]]]] = {
    "a zero": (ZERO, {}, [{"f"}]),
    "a byte": (_Encoder().message({"f": 0.757, "n": 5}), {}, [{"f"}]),
    "no float32": (_Encoder().message({"f": 0.757, "m": 1 << 40}), {}, [{"f"}]),
    "a number of the next row": (_Encoder().message({"f": 1.5}, {"f": 0.1}), {}, [{"f"}, set()]),
    "other bytes": (SOUND, {}, [set()]),
    "the last number": (_Encoder().message({"n": 0, "f": 0.757}), {}, [set()]),
    "the last of a block": (_Encoder().message({**BLOCK, "f": 0.757, "n": 0, "g": 1.5, "n7": 0}), {}, [{"g"}]),
    "chance, of an encoder that may be any": (_Encoder(sound=True).message({"f": 1.5, "n": 0}), {}, [{"f"}]),
    "chance, of one that is sound": (
        _Encoder(sound=True).message({"f": 1.5, "n": 0, "g": 0.757, "n1": 0, "g2": 0.757, "n2": 0}), {}, [set()]
    ),
    "chance among sound ones": (
        _Encoder(sound=True).message(*[{"f": 0.1 * k, "n": k % 100} for k in range(1, 200)]), {}, [set()] * 199,
    ),
    "by hand: damaged": (SOUND, {"craft_float": "damaged"}, [{"f"}]),
    "by hand: sound": (ZERO, {"craft_float": "sound"}, [set()]),
    "a FLOAT alone": (_Encoder().message({"f": 0.5}), {}, [set()]),
}  # fmt: skip


@each(("message", "options", "flagged"), RUNS.values(), ids=RUNS)
def test_which_floats_are_flagged(message: Message, options: dict[str, str], flagged: list[set[str]]) -> None:
    assert _flagged(_decoder(**options), message) == flagged


_CELLS = st.dictionaries(
    st.sampled_from(["f", "f1", "f2", "g", "n", "n1", "m", "m1", "d", "d1"]),
    st.one_of(st.sampled_from([0, 0.757, 1.5, 1, 5000]), st.integers(-(1 << 31), (1 << 31) - 1), st.floats(-1e9, 1e9)),
    min_size=1, max_size=10,
)  # fmt: skip


@given(st.lists(_CELLS, min_size=1, max_size=8), st.integers(0, 32), st.booleans())
def test_every_damaged_float_is_flagged(rows: list[dict[str, float]], start: int, sound: bool) -> None:
    [*events] = _decoder().decode(message := _Encoder(2 * start, sound).message(*rows))
    for row, event in zip(rows, events, strict=True):
        for name, value in row.items():
            text = event.after[name]
            if TYPES[name[0]] == FLOAT and f"float_damaged:{name}" not in event.flags:
                assert _real(float(text)) == _real(value)
    encoder = format_named("craft").encoder(Context(Registry(), None, Options.of({})))
    assert encoder.encode_rows(events, message)[0].value == message.value  # type: ignore[attr-defined]


def test_every_damaged_float_of_ticdcs_messages_is_flagged() -> None:
    seen = 0
    for golden in cases("craft")[::3]:
        decoder = _decoder()
        rows = iter([row for step in golden.meta["steps"] for row in step.get("rows") or ()])
        for event in (e for m in golden.messages() for e in decoder.decode(m) if isinstance(e, RowChange)):
            row = next(rows)
            for image, cells in ((event.after, row.get("new")), (event.before, row.get("old"))):
                for name, value in [(c["name"], c["value"]) for c in cells or () if c["type"] == FLOAT and c["value"]]:
                    if image and name in image and f"float_damaged:{name}" not in event.flags:
                        assert _real(float(str(image[name]))) == _real(float(value))
                        seen += 1
    assert seen > 10
