"""Damaged and hostile messages: nothing but WireError comes out, memory stays bounded, the next message is read.

BRIDGE_FUZZ=N: mutations per decoder (20,000).
"""

from __future__ import annotations

import gzip
import json
import os
import random
import tracemalloc
import zlib
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from schemas.codec.avro import write_long
from schemas.errors import WireError
from schemas.event import Event, Message, RowChange
from schemas.options import Options
from schemas.plain import json_line, plain_error, plain_event
from schemas.wire.base import Decoder
from schemas.wire.framing import MAX_MESSAGE, frame, unframe
from spark_jobs.codec import Side, decode_one, plain_lines, transcode_one
from spark_jobs.lookup import FileSchemas, Registered
from tests.support.golden import FORMATS, Golden, Registry, cases

MUTATIONS = int(os.environ.get("BRIDGE_FUZZ", "20000"))
SMALL = 4096
DDL = pytest.mark.parametrize("ddl", [False, True], ids=["", "ddl"])
READ = (*FORMATS, "simple", "canal-json")
ALL = pytest.mark.parametrize("golden", [g for name in READ for g in cases(name)], ids=str)


def _lines(decoder: Decoder, message: Message) -> list[str]:
    """What the bridge prints of a message. Any error but WireError is the test's failure."""
    return [json_line(line) for line in plain_lines(decode_one(decoder, message), message)]


def _one(golden: Golden) -> Message | None:
    """A row message of at most 4 KiB, with a key and a value where there is one."""
    small = [m for m in golden.messages() if len(m.key or b"") + len(m.value or b"") <= SMALL]
    return max(small, key=lambda m: (m.key is not None, m.value is not None, len(m.value or b"")), default=None)


@ALL
def test_truncation_at_every_byte(golden: Golden) -> None:
    """A row that was cut is an error, whatever the byte; never a row, and never another row."""
    message = _one(golden)
    if message is None or message.value is None:
        pytest.skip("no message with a value of at most 4 KiB")
    decoder = golden.side().decoder()
    whole = _lines(decoder, message)
    for cut in range(len(message.value)):
        result = decode_one(decoder, replace(message, value=message.value[:cut]))
        # The schema beside a watermark or a DDL statement says nothing of them; a row needs its own.
        if result.error is None:
            assert not any(isinstance(e, RowChange) for e in result.events)
            assert [json_line(plain_event(e, message)) for e in result.events] == whole
    # A key may be cut in its schema, which says nothing that the value's does not.
    for cut in range(len(message.key or b"")):
        damaged = replace(message, key=(message.key or b"")[:cut])
        result = decode_one(decoder, damaged)
        if result.error is None:
            assert golden.format == "debezium"
            assert [json_line(plain_event(e, damaged)) for e in result.events] == whole
    assert _lines(decoder, message) == whole


@ALL
def test_bytes_after_the_end(golden: Golden) -> None:
    decoder = golden.side().decoder()
    for message in golden.messages():
        rows = [e for e in decode_one(decoder, message).events if isinstance(e, RowChange)]
        if rows and message.value is not None:
            result = decode_one(decoder, replace(message, value=message.value + b"\x01"))
            assert result.error is not None
            assert result.error.code in ("TRAILING_BYTES", "MALFORMED", "NOT_FRAMED"), result.error


def _mutate(rng: random.Random, data: bytes, others: list[bytes]) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at, end = sorted((rng.randrange(len(out) + 1), rng.randrange(len(out) + 1)))
        match rng.randrange(8):
            case 0 if out:
                out[min(at, len(out) - 1)] ^= 1 << rng.randrange(8)
            case 1 if out:
                out[min(at, len(out) - 1)] = rng.choice(b'\x00\x01\x02\x7f\x80\xff"{}[],:-0eE.\\u')
            case 2:
                del out[at : min(end, at + 16)]
            case 3:
                out[at:at] = rng.randbytes(rng.randrange(1, 9))
            case 4:
                out[at:at] = out[at : min(end, at + 64)]
            case 5:
                other = rng.choice(others)
                out[at:end] = other[min(at, len(other)) : min(end, len(other))]
            case 6:
                out[at:at] = rng.choice(
                    (
                        b"null",
                        b"true",
                        b"[]",
                        b"{}",
                        b"-1",
                        b"1e400",
                        b"NaN",
                        b'"',
                        b"\xed\xa0\x80",
                        b"\\ud800",
                        b"9" * 30,
                    )
                )
            case _:
                del out[at:]
    return bytes(out)


def _material(format_: str) -> list[tuple[Golden, list[Message]]]:
    found = [(g, [m for m in g.messages() if m.value and len(m.value) <= SMALL]) for g in cases(format_)]
    return [(g, messages) for g, messages in found if messages]


@DDL
@pytest.mark.parametrize("format_", READ)
def test_random_mutations(format_: str, ddl: bool) -> None:
    rng = random.Random(f"{format_} {ddl} 20261121")
    material = _material(format_)
    share = max(1, MUTATIONS // len(material))
    outcomes = {"error": 0, "event": 0}
    for golden, messages in material:
        decoder = golden.side(ddl).decoder()
        if format_ == "simple":  # its rows need the schemas that came before
            for message in golden.messages():
                decode_one(decoder, message)
        good = rng.choice(messages)
        whole = _lines(decoder, good)
        values = [m.value for m in messages if m.value]
        keys = [m.key for m in messages if m.key] or [b""]
        for number in range(share):
            message = rng.choice(messages)
            if message.key and rng.random() < 0.2:
                bad = replace(message, key=_mutate(rng, message.key, keys))
            else:
                bad = replace(message, value=_mutate(rng, message.value or b"", values))
            outcomes["error" if _lines(decoder, bad)[:1][0].startswith('{"kind": "error"') else "event"] += 1
            if number % 50 == 0:
                assert _lines(decoder, good) == whole
        assert _lines(decoder, good) == whole
    assert min(outcomes.values()) > MUTATIONS // 100  # both happen: the mutations are neither too wild nor too tame


@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize("format_", READ)
def test_random_mutations_through_an_encoder(format_: str, to: str) -> None:
    """What was decoded of a damaged message is written, or refused by WireError; what is written can be read."""
    rng = random.Random(f"{format_} {to} 20261121")
    material = [
        m for m in _material(format_) if m[0].name.startswith(("wide", "pk_", "names", "evolution", "partition"))
    ]
    for golden, messages in material:
        decoder = golden.side(ddl=True).decoder()
        registry = Registry()
        options = golden.options() if to == format_ else Options.of({"time_zone": golden.zone})
        encoder = Side(to, registry, options).encoder()  # type: ignore[arg-type]
        back = Side(to, registry, Options.of({"time_zone": golden.zone})).decoder()  # type: ignore[arg-type]
        values = [m.value for m in messages if m.value]
        for _ in range(max(1, MUTATIONS // 8 // len(material))):
            message = rng.choice(messages)
            bad = replace(message, value=_mutate(rng, message.value or b"", values), timestamp=1_800_000_000_000)
            result = transcode_one(decoder, encoder, bad)
            assert result.error is None or not result.out
            for written in result.out:
                assert back.decode(written)


# ---- Avro
AVRO = Golden("avro", "pk_int.ext1")


def _avro() -> tuple[Decoder, Message]:
    return AVRO.side().decoder(), next(m for m in AVRO.messages() if m.value)


def _refused(decoder: Decoder, message: Message) -> str:
    with pytest.raises(WireError) as caught:
        decoder.decode(message)
    assert json.loads(json_line(plain_error(caught.value, message)))["code"] == caught.value.code
    return caught.value.code


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (b"", "NOT_FRAMED"),
        (b"\x00", "TRUNCATED"),
        (b"\x00\x00\x00\x00", "TRUNCATED"),
        (b"{}", "NOT_FRAMED"),
        (b"\x04abcdefgh", "NOT_FRAMED"),
        (b"\x00\x7f\xff\xff\xff", "UNKNOWN_SCHEMA_ID"),
        (b"\x00\xff\xff\xff\xff", "UNKNOWN_SCHEMA_ID"),
        (b"\x03\x01" + bytes(16), "NOT_FRAMED"),
        (b"\x03\x00" + bytes(16), "UNKNOWN_SCHEMA_ID"),
        (b"\x02", "MALFORMED"),
        (b"\x02notframe", "NOT_FRAMED"),
        (b"\x02" + bytes(9), "MALFORMED"),
        (b"\x01", "MALFORMED"),
        (b"\x01[]", "MALFORMED"),
        (b"\x01{}", "MALFORMED"),
        (b"\x01" + b"[" * 100_000, "MALFORMED"),
        (b"\x01\xff", "MALFORMED"),
        (gzip.compress(b"\x00\x00\x00\x00\x01"), "NOT_FRAMED"),
    ],
)
def test_avro_values_that_are_none(value: bytes, code: str) -> None:
    decoder, good = _avro()
    alone = value[:1] in (b"\x01", b"\x02")  # DDL and watermarks have no key; with one they are not framed
    assert _refused(decoder, replace(good, key=None if alone else good.key, value=value)) == code
    if alone:
        assert _refused(decoder, replace(good, value=value)) == "NOT_FRAMED"
    assert decoder.decode(good)


@pytest.mark.parametrize("side", ["key", "value"])
def test_avro_numbers_lengths_and_branches(side: str) -> None:
    decoder, good = _avro()
    data = getattr(good, side)
    head = data[:5]
    for body, code in [
        (b"\x80" * 11, "MALFORMED"),
        (b"\xff" * 9 + b"\x7f", "MALFORMED"),
        (b"\x82\x00", "MALFORMED"),
        (b"\xff\xff\xff\xff\x7f", "MALFORMED"),
        (b"\x80", "TRUNCATED"),
        (b"", "TRUNCATED"),
    ]:
        assert _refused(decoder, replace(good, **{side: head + body})) == code, body
    if side == "value":
        for branch in (2, -1, 1 << 40):
            assert _refused(decoder, replace(good, value=head + b"\x02" + write_long(branch))) == "MALFORMED"
        for size, code in [
            ((1 << 63) - 1, "TRUNCATED"),
            (1 << 31, "TRUNCATED"),
            (-1, "MALFORMED"),
            (-(1 << 63), "MALFORMED"),
        ]:
            assert _refused(decoder, replace(good, value=head + b"\x02\x02" + write_long(size))) == code


def test_avro_op_must_be_an_op() -> None:
    decoder, good = _avro()
    assert good.value is not None
    assert good.value.count(b"\x02c") == 1
    for op in (b"\x02x", b"\x00", b"\x02\xff"):
        assert _refused(decoder, replace(good, value=good.value.replace(b"\x02c", op))) == "MALFORMED"


@pytest.mark.parametrize(
    "schema",
    [
        "",
        "x",
        "[]",
        "1",
        "null",
        '"string"',
        "{}",
        '{"type":"enum","name":"a","symbols":[]}',
        '{"type":"record","name":"a"}',
        "[" * 900,
        '{"type":"record","name":"a","fields":[{"name":"x","type":"long"}]}',
        '{"type":"record","name":"a","fields":[{"name":"x","type":{"type":"int"}}]}',
        '{"type":"record","name":"a","fields":[{"name":"x","type":{"type":"map","values":"int","connect.parameters":{"tidb_type":"INT"}}}]}',
        '{"type":"record","name":"a","fields":[{"name":"x","type":{"type":"int","connect.parameters":{"tidb_type":"NOPE"}}}]}',
    ],
)
def test_schema_that_ticdc_would_not_register(schema: str) -> None:
    _, good = _avro()
    assert good.value is not None
    id_ = unframe(good.value, "value")[0]
    side = Side("avro", FileSchemas([Registered("s", 1, id_, schema)]), Options())
    assert _refused(side.decoder(), good) == "UNSUPPORTED_SCHEMA"


def test_frames() -> None:
    uuid = "6f2c1a9e-0f3b-4a57-9a3c-3a5a3cf0d6e1"
    assert unframe(frame(7, b"x"), "value") == (7, 5)
    assert unframe(frame((1 << 31) - 1, b""), "value") == ((1 << 31) - 1, 5)
    assert unframe(frame(uuid, b"x"), "value") == (uuid, 18)


def test_glue_frames_with_zlib() -> None:
    """The body of Glue's compressed form is inflated, whole and up to a limit."""
    uuid = "6f2c1a9e-0f3b-4a57-9a3c-3a5a3cf0d6e1"
    side, good = AVRO.side(), next(m for m in AVRO.messages() if m.value)
    assert good.value is not None
    text = side.schemas.by_id(unframe(good.value, "value")[0], "value")
    known = [*side.schemas.all(), Registered("glue", 1, uuid, text)]
    decoder = replace(side, schemas=FileSchemas(known)).decoder()
    head, body = b"\x03\x05" + UUID(uuid).bytes, good.value[5:]
    packed = zlib.compress(body)
    events = [
        decoder.decode(m) for m in (good, replace(good, value=frame(uuid, body)), replace(good, value=head + packed))
    ]
    assert [e[0].after for e in events] == [events[0][0].after] * 3  # type: ignore[union-attr]
    for value, code in [
        (head, "TRUNCATED"),
        (head + packed[:-1], "TRUNCATED"),
        (head + packed + b"x", "TRAILING_BYTES"),
        (head + b"xx", "MALFORMED"),
        (head + zlib.compress(bytes(MAX_MESSAGE + 1)), "TOO_LARGE"),
    ]:
        bad = replace(good, value=value)
        assert _refused(decoder, bad) == code
        assert _peak(decoder, bad) < 2 * MAX_MESSAGE + (1 << 20)


# ---- Debezium
def _debezium() -> tuple[Decoder, Message, dict[str, Any]]:
    golden = Golden("debezium", "pk_int.schema")
    good = next(m for m in golden.messages() if m.value and b'"op":"c"' in m.value)
    assert good.value is not None
    return golden.side().decoder(), good, json.loads(good.value)


def _compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b" ",
        b"null",
        b"1",
        b"[]",
        b"{}",
        b'{"payload":',
        b'{"payload":null}',
        b'{"payload":[]}',
        b'{"payload":{}}',
        b'{"payload":{"source":1,"op":"c"}}',
        b'{"payload":{"source":{},"op":"c"}}',
        b'{"payload":{"source":{},"op":"m"}}',
        b'{"payload":{"source":{"commit_ts":-1},"op":"m"}}',
        b'{"payload":{"source":{"commit_ts":"1"},"op":"m"}}',
        b'{"payload":{"source":{"commit_ts":1.5},"op":"m"}}',
        b'{"payload":' + b"[" * 100_000,
        b'{"payload":' + b'{"a":' * 100_000,
        gzip.compress(b'{"payload":{}}'),
        b"\xff\xfe{}",
        b"\xef\xbb\xbf{}",
        b'{"payload":{"source":{},"op":["c"]}}',
        b'{"payload":{"op":"c","op":"c"}}',
        b'{"payload":{"x":NaN}}',
        b'{"payload":{"x":Infinity}}',
        b'{"payload":{"ddl":"x","source":{}}}',
        b'{"payload":{"ddl":1,"databaseName":"d","source":{"table":"t"}}}',
    ],
)
def test_debezium_values_that_are_none(value: bytes) -> None:
    decoder, good, _ = _debezium()
    assert _refused(decoder, replace(good, value=value)) == "MALFORMED"
    assert decoder.decode(good)


def _changed(change: Any) -> bytes:
    _, _, whole = _debezium()
    change(whole["payload"])
    return _compact(whole)


@pytest.mark.parametrize(
    "change",
    [
        lambda p: p.update(op="x"),
        lambda p: p.update(op=None),
        lambda p: p.update(after=None),
        lambda p: p.update(after=[]),
        lambda p: p.update(after="x"),
        lambda p: p.update(before=[]),
        lambda p: p.pop("source"),
        lambda p: p["source"].pop("db"),
        lambda p: p["source"].update(table=1),
        lambda p: p["after"].update(nope=1),
        lambda p: p["after"].update(id="1"),
        lambda p: p["after"].update(id=1.5),
        lambda p: p["after"].update(id=[1]),
        lambda p: p["after"].update(v=1),
        lambda p: p["after"].update(v={}),
        lambda p: p.update(op="d", before=None),
        lambda p: p["source"].update(cluster_id=1),
        lambda p: p.update(ts_ms="x"),
    ],
)
def test_debezium_payloads_that_ticdc_does_not_write(change: Any) -> None:
    decoder, good, _ = _debezium()
    assert _refused(decoder, replace(good, value=_changed(change))) == "MALFORMED"


@pytest.mark.parametrize(
    "text", [b"NaN", b"Infinity", b"-Infinity", b"1e999", b"--1", b"0x10", b"01", b"1_0", b'"\xff']
)
def test_debezium_numbers_that_are_none(text: bytes) -> None:
    decoder, good, whole = _debezium()
    whole["payload"]["after"]["id"] = "@@"
    assert _refused(decoder, replace(good, value=_compact(whole).replace(b'"@@"', text))) == "MALFORMED"


def test_debezium_text_that_is_not_utf8_keeps_its_bytes() -> None:
    decoder, good, whole = _debezium()
    whole["payload"]["after"]["v"] = "@@"
    [event] = decoder.decode(replace(good, value=_compact(whole).replace(b"@@", b"\xe9\xff")))
    assert event.after["v"] == b"\xe9\xff"  # type: ignore[union-attr, index]


def test_debezium_has_no_tombstones() -> None:
    decoder, good, _ = _debezium()
    assert _refused(decoder, replace(good, value=None)) == "EMPTY_RECORD"


def test_debezium_keys_that_are_none() -> None:
    decoder, good, _ = _debezium()
    for key in (
        b"",
        b"null",
        b"[]",
        b'{"payload":1}',
        b"\x00\x00\x00\x00\x01",
        b'{"payload":{"id":1}',
        b'{"payload":{"id":1,"id":1}}',
    ):
        assert _refused(decoder, replace(good, key=key)) == "MALFORMED"
    [event] = decoder.decode(replace(good, key=None))
    assert event.key == ()  # type: ignore[union-attr]


# ---- Simple and Canal-JSON
def _json(format_: str, kind: str) -> tuple[Decoder, Message, dict[str, Any]]:
    golden = Golden(format_, "pk_int.json" if format_ == "simple" else "pk_int.ext")
    decoder = golden.side().decoder()
    for message in golden.messages():
        decode_one(decoder, message)
    good = next(m for m in golden.messages() if m.value and f'"type":"{kind}"'.encode() in m.value)
    return decoder, good, json.loads(good.value or b"")


@pytest.mark.parametrize("format_", ["simple", "canal-json"])
@pytest.mark.parametrize(
    "value",
    [b"", b" ", b"null", b"1", b"[]", b"{}", b"{", b'{"type":[]}', b'{"version":1,"type":{}}', b'{"a":1,"a":1}',
     b"[" * 100_000, b'{"a":' * 100_000, gzip.compress(b"{}"), b"\xff\xfe{}", b"\xef\xbb\xbf{}", b'{"type":NaN}'],
)  # fmt: skip
def test_json_values_that_are_none(format_: str, value: bytes) -> None:
    decoder, good, _ = _json(format_, "UPDATE")
    assert _refused(decoder, replace(good, value=value)) == "MALFORMED"
    assert decoder.decode(good)


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("UPDATE", {"version": 2}),
        ("UPDATE", {"version": None}),
        ("UPDATE", {"type": "NOPE"}),
        ("UPDATE", {"data": None}),
        ("UPDATE", {"data": []}),
        ("UPDATE", {"data": "id"}),
        ("UPDATE", {"data": {"id": 1}}),
        ("UPDATE", {"data": {"id": "x"}}),
        ("UPDATE", {"data": {"id": "2147483648"}}),
        ("UPDATE", {"data": {"nope": "1"}}),
        ("UPDATE", {"data": {"id": {"location": "UTC", "value": "1"}}}),
        ("UPDATE", {"old": 1}),
        ("INSERT", {"old": {}}),
        ("DELETE", {"old": None}),
        ("UPDATE", {"commitTs": "1"}),
        ("UPDATE", {"commitTs": 1.5}),
        ("UPDATE", {"schemaVersion": None}),
        ("UPDATE", {"database": 1}),
        ("UPDATE", {"handleKeyOnly": 1}),
        ("UPDATE", {"checksum": []}),
        ("BOOTSTRAP", {"tableSchema": None}),
        ("BOOTSTRAP", {"tableSchema": {}}),
        ("CREATE", {"sql": None}),
        ("CREATE", {"tableSchema": {"columns": [1]}}),
        ("WATERMARK", {"commitTs": None}),
    ],
)
def test_simple_messages_that_ticdc_does_not_write(kind: str, change: dict[str, Any]) -> None:
    decoder, good, whole = _json("simple", kind)
    assert _refused(decoder, replace(good, value=_compact({**whole, **change}))) == "MALFORMED"


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("UPDATE", {"type": "NOPE"}),
        ("UPDATE", {"data": None}),
        ("UPDATE", {"data": []}),
        ("UPDATE", {"data": [1]}),
        ("UPDATE", {"data": [{"id": 1}]}),
        ("UPDATE", {"data": [{"id": "x"}]}),
        ("UPDATE", {"data": [{"nope": "1"}]}),
        ("UPDATE", {"old": [{}, {}]}),
        ("UPDATE", {"mysqlType": {"id": "int"}}),
        ("UPDATE", {"mysqlType": {"id": "nope", "v": "varchar", "n": "int"}}),
        ("UPDATE", {"mysqlType": {"id": "decimal(x)", "v": "varchar", "n": "int"}}),
        ("UPDATE", {"mysqlType": {"id": "enum('a", "v": "varchar", "n": "int"}}),
        ("UPDATE", {"mysqlType": None}),
        ("UPDATE", {"pkNames": "id"}),
        ("UPDATE", {"es": "1"}),
        ("UPDATE", {"_tidb": {"commitTs": "x"}}),
        ("UPDATE", {"database": None}),
        ("CREATE", {"sql": None}),
        ("TIDB_WATERMARK", {"_tidb": {}}),
    ],
)
def test_canal_messages_that_ticdc_does_not_write(kind: str, change: dict[str, Any]) -> None:
    decoder, good, whole = _json("canal-json", kind)
    assert _refused(decoder, replace(good, value=_compact({**whole, **change}))) == "MALFORMED"


def _simple_avro() -> tuple[Decoder, Message]:
    golden = Golden("simple", "pk_int.avro")
    decoder = golden.side().decoder()
    good = [m for m in golden.messages() if decoder.decode(m)]
    return decoder, next(m for m in good if m.value and m.value[:3] == b"\x16\x06\x06")


def test_simple_avro_numbers_lengths_and_branches() -> None:
    decoder, good = _simple_avro()
    value = good.value or b""
    for body, code in [
        (b"\x16\x08\x08", "MALFORMED"),
        (b"\x16\x06\x04", "MALFORMED"),
        (b"\x16\x06\x06\x02" + write_long(1 << 40), "TRUNCATED"),
        (b"\x16\x06\x06\x02" + write_long(-1), "MALFORMED"),
        (b"\x16\x06\x06\x02" + b"\x80" * 11, "MALFORMED"),
        (b"\x16\x02\x02\x02\x00\x00\x00\x00\x00" + write_long(1 << 62), "MALFORMED"),
        (b"\x16\x02\x02\x02\x00\x00\x00\x00\x00" + write_long(-1), "MALFORMED"),
        (b"\x16\x02\x02\x02\x00\x00\x00\x00\x00" + write_long(60_000), "TRUNCATED"),
        (value + b"\x00", "TRAILING_BYTES"),
    ]:
        assert _refused(decoder, replace(good, value=body)) == code, body
        assert _peak(decoder, replace(good, value=body)) < 1 << 20


@pytest.mark.parametrize("format_", ["simple", "canal-json"])
@pytest.mark.parametrize("piece", [b"[],", b'{"a":1},', b'"",', b"1,"])
def test_json_memory_is_bounded(format_: str, piece: bytes) -> None:
    decoder, good, whole = _json(format_, "UPDATE")
    whole["old"] = "@@"
    value = _compact(whole).replace(b'"@@"', b"[" + piece * ((1 << 20) // len(piece)) + b"1]")
    assert _refused(decoder, replace(good, value=value)) == "MALFORMED"
    assert _peak(decoder, replace(good, value=value)) < (64 << 20) + 32 * len(value)


def test_simple_avro_memory_is_bounded() -> None:
    """The smallest columns, as many as one schema may claim."""
    decoder, good = _simple_avro()
    column = b"\x02a" + b"\x06int\x00\x00\x00" + b"\x00" * 4 + b"\x00\x00"
    body = b"\x16\x02\x02\x02\x00\x00\x00\x00\x00" + write_long(20_000) + column * 20_000 + b"\x00\x00"
    assert _refused(decoder, replace(good, value=body)) == "MALFORMED"
    assert _peak(decoder, replace(good, value=body)) < (64 << 20) + 32 * len(body)


# ---- memory
def _peak(decoder: Decoder, message: Message) -> int:
    tracemalloc.start()
    try:
        decode_one(decoder, message)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_avro_memory_is_bounded_by_what_is_there() -> None:
    decoder, good = _avro()
    assert good.value is not None
    decoder.decode(good)
    head = good.value[:5]
    for size in ((1 << 63) - 1, 1 << 40, 1 << 31, 100 << 20):
        assert _peak(decoder, replace(good, value=head + b"\x02\x02" + write_long(size) + b"x" * 100)) < 1 << 20


@pytest.mark.parametrize("piece", [b"[],", b"{},", b'{"a":1},', b'"",', b"1,", b'["\xff"],'])
def test_debezium_memory_is_bounded(piece: bytes) -> None:
    decoder, good, whole = _debezium()
    whole["payload"]["after"]["v"] = "@@"
    many = b"[" + piece * ((1 << 20) // len(piece)) + b"1]"
    value = _compact(whole).replace(b'"@@"', many)
    assert _refused(decoder, replace(good, value=value)) == "MALFORMED"
    assert _peak(decoder, replace(good, value=value)) < (64 << 20) + 32 * len(value)


def test_messages_over_the_limit_are_refused_unread() -> None:
    huge = bytes(MAX_MESSAGE + 1)
    for golden in (AVRO, Golden("debezium", "pk_int.schema")):
        good = next(m for m in golden.messages() if m.value and b'"ddl"' not in m.value)
        for bad in (replace(good, value=huge), replace(good, key=huge)):
            assert _refused(golden.side().decoder(), bad) == "TOO_LARGE"


@pytest.mark.parametrize("format_", ["simple", "canal-json"])
def test_json_messages_over_the_limit_are_refused_unread(format_: str) -> None:
    decoder, good, _ = _json(format_, "UPDATE")
    with pytest.raises(WireError) as caught:
        decoder.decode(replace(good, value=bytes(MAX_MESSAGE + 1)))
    assert caught.value.code == "TOO_LARGE"


def test_events_of_one_message_are_not_changed_by_the_next() -> None:
    golden = Golden("debezium", "wide.schema")
    decoder = golden.side().decoder()
    kept: list[tuple[list[Event], list[str]]] = []
    for message in golden.messages():
        events = decoder.decode(message)
        kept.append((events, [json_line(plain_event(e, message)) for e in events]))
    for (events, before), message in zip(kept, golden.messages(), strict=True):
        assert [json_line(plain_event(e, message)) for e in events] == before
