"""Avro and its framing: hostile numbers, lengths, branches and schemas."""

import gzip
import json
import re
import zlib
from dataclasses import replace
from uuid import UUID

import pytest

from tests.support.each import each
from tests.support.fuzz import peak, refused
from tests.support.golden import Golden
from tests.support.table import check_rows
from ticdc_bridge.schemas.codec.avro import write_long
from ticdc_bridge.schemas.formats.base import Decoder
from ticdc_bridge.schemas.formats.framing import MAX_MESSAGE, frame, unframe
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas, RegisteredSchema
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message

AVRO = Golden("avro", "pk_int.ext1")


def _avro() -> tuple[Decoder, Message]:
    return AVRO.side().decoder(), next(m for m in AVRO.messages() if m.value)


@each(
    ("value", "code"),
    [
        (b"", "NOT_FRAMED"), (b"\x00", "TRUNCATED"), (b"\x00\x00\x00\x00", "TRUNCATED"), (b"{}", "NOT_FRAMED"),
        (b"\x04abcdefgh", "NOT_FRAMED"), (b"\x00\x7f\xff\xff\xff", "UNKNOWN_SCHEMA_ID"),
        (b"\x00\xff\xff\xff\xff", "UNKNOWN_SCHEMA_ID"), (b"\x03\x01" + bytes(16), "NOT_FRAMED"),
        (b"\x03\x00" + bytes(16), "UNKNOWN_SCHEMA_ID"), (b"\x02", "MALFORMED"), (b"\x02notframe", "NOT_FRAMED"),
        (b"\x02" + bytes(9), "MALFORMED"), (b"\x01", "MALFORMED"), (b"\x01[]", "MALFORMED"), (b"\x01{}", "MALFORMED"),
        (b"\x01" + b"[" * 100_000, "MALFORMED"), (b"\x01\xff", "MALFORMED"),
        (gzip.compress(b"\x00\x00\x00\x00\x01", mtime=0), "NOT_FRAMED"),
    ],
)  # fmt: skip
def test_avro_values_that_are_none(value: bytes, code: str) -> None:
    decoder, good = _avro()
    alone = value[:1] in (b"\x01", b"\x02")  # DDL and watermarks have no key; with one they are not framed
    assert refused(decoder, replace(good, key=None if alone else good.key, value=value)) == code
    if alone:
        assert refused(decoder, replace(good, value=value)) == "NOT_FRAMED"
    assert decoder.decode(good)


@pytest.mark.parametrize("side", ["key", "value"])
def test_avro_numbers_lengths_and_branches(side: str) -> None:
    decoder, good = _avro()
    data = getattr(good, side)
    head = data[:5]
    for body, code in [
        (b"\x80" * 11, "MALFORMED"), (b"\xff" * 9 + b"\x7f", "MALFORMED"), (b"\x82\x00", "MALFORMED"),
        (b"\xff\xff\xff\xff\x7f", "MALFORMED"), (b"\x80", "TRUNCATED"), (b"", "TRUNCATED"),
    ]:  # fmt: skip
        assert refused(decoder, replace(good, **{side: head + body})) == code, body
    if side == "value":
        for branch in (2, -1, 1 << 40):
            assert refused(decoder, replace(good, value=head + b"\x02" + write_long(branch))) == "MALFORMED"
        for size, code in [
            ((1 << 63) - 1, "TRUNCATED"),
            (1 << 31, "TRUNCATED"),
            (-1, "MALFORMED"),
            (-(1 << 63), "MALFORMED"),
        ]:
            assert refused(decoder, replace(good, value=head + b"\x02\x02" + write_long(size))) == code


def test_avro_op_must_be_an_op() -> None:
    decoder, good = _avro()
    assert good.value is not None
    assert good.value.count(b"\x02c") == 1
    for op in (b"\x02x", b"\x00", b"\x02\xff"):
        assert refused(decoder, replace(good, value=good.value.replace(b"\x02c", op))) == "MALFORMED"


def _field(kind: object, **more: object) -> str:
    return json.dumps({"type": "record", "name": "a", "fields": [{"name": "x", "type": kind, **more}]})


def _typed(primitive: str, tidb_type: str, **more: object) -> dict[str, object]:
    return {"type": primitive, "connect.parameters": {"tidb_type": tidb_type}, **more}


@each(
    ("primitive", "tidb_type", "sound", "wrong"),
    [
        ("int", "INT UNSIGNED", (0, (1 << 24) - 1), (-1, 1 << 24)),
        ("long", "INT UNSIGNED", (0, (1 << 32) - 1), (-1, 1 << 32)),
        ("long", "INT", (-(1 << 31), (1 << 31) - 1), (1 << 31, -(1 << 31) - 1)),
        ("int", "YEAR", (0, 1901, 2155), (-1, 1, 1900, 2156)),
        ("long", "BIGINT UNSIGNED", (0, -1, -(1 << 63)), ()),
    ],
)
def test_numbers_that_their_type_does_not_hold(
    primitive: str, tidb_type: str, sound: tuple[int, ...], wrong: tuple[int, ...]
) -> None:
    entry = RegisteredSchema("t-value", 1, 1, _field(_typed(primitive, tidb_type)))
    decoder = CodecConfig("avro", FileSchemas([entry]), Options()).decoder()
    found = [decode_message(decoder, Message(None, frame(1, write_long(n)), "t")).error for n in (*sound, *wrong)]
    assert [error and error.code for error in found] == [None] * len(sound) + ["MALFORMED"] * len(wrong)


@each(
    "schema",
    [
        "", "x", "[]", "1", "null", '"string"', "{}", '{"type":"enum","name":"a","symbols":[]}',
        '{"type":"record","name":"a"}', "[" * 900, "[" * 100_000,
        '{"type":"record","name":"a","fields":[{"name":"x","type":"long"}]}',
        '{"type":"record","name":"a","fields":[{"name":"x","type":["null","null"]}]}',
        '{"type":"record","name":"a","fields":[{"name":"x","type":{"type":"int"}}]}',
        '{"type":"record","name":"a","fields":[{"name":"x","type":{"type":"map","values":"int","connect.parameters":{"tidb_type":"INT"}}}]}',
        '{"type":"record","name":"a","fields":[{"name":"x","type":{"type":"int","connect.parameters":{"tidb_type":"NOPE"}}}]}',
        _field(["null"]), _field("test.Referenced"), _field(_typed("int", "DECIMAL")), _field(_typed("int", "BIT")),
        _field(_typed("float", "FLOAT"), default="x"), _field(_typed("float", "FLOAT"), default=1e39),
        _field(_typed("bytes", "DECIMAL", logicalType="decimal", precision="x")),
    ],
)  # fmt: skip
def test_schema_that_ticdc_would_not_register(schema: str) -> None:
    _, good = _avro()
    assert good.value is not None
    id_ = unframe(good.value, "value")[0]
    config = CodecConfig("avro", FileSchemas([RegisteredSchema("s", 1, id_, schema)]), Options())
    assert refused(config.decoder(), good) == "UNSUPPORTED_SCHEMA"


def test_a_schema_that_is_not_ticdcs_says_what_it_lacks() -> None:
    def record(kind: object, **more: object) -> str:
        return json.dumps({"type": "record", "name": "t", "fields": [{"name": "paid", "type": kind}], **more})

    def typed(name: str, **more: object) -> dict[str, object]:
        return {"type": "int", "connect.parameters": {"tidb_type": name, **more}}

    rows = {
        record("long"): "field 'paid' has no tidb_type in connect.parameters",
        record(["null", {"type": "long", "logicalType": "timestamp-millis"}]): "field 'paid' has no tidb_type",
        record({"type": "int", "connect.parameters": {"length": "1"}}): "field 'paid' has no tidb_type",
        record(typed("XINT")): "field 'paid': its tidb_type is 'XINT', which TiCDC does not write",
        record(typed("BIT")): "field 'paid': no 'length'",
        record("a.B"): "field 'paid' has the type 'a.B', which the schema does not define",
        record("long", **{"connect.name": "srv.shop.t.Envelope"}): "Kafka Connect's schema srv.shop.t.Envelope; read",
        '"string"': "a record is needed, this is of type string", '["null","int"]': "this is a union", "{}": "is none",
    }  # fmt: skip

    def check(text: str) -> None:
        decoder = CodecConfig("avro", FileSchemas([RegisteredSchema("t-value", 1, 1, text)]), Options()).decoder()
        error = decode_message(decoder, Message(None, b"\0\0\0\0\1\2\2", "t")).error
        assert error is not None
        assert (error.code, rows[text] in error.detail) == ("UNSUPPORTED_SCHEMA", True), error.detail
        assert not re.search("[A-Z][a-z]+Error", error.detail)

    check_rows(rows, check)


def test_frames() -> None:
    uuid = "6f2c1a9e-0f3b-4a57-9a3c-3a5a3cf0d6e1"
    assert unframe(frame(7, b"x"), "value") == (7, 5)
    assert unframe(frame((1 << 31) - 1, b""), "value") == ((1 << 31) - 1, 5)
    assert unframe(frame(uuid, b"x"), "value") == (uuid, 18)


def test_glue_frames_with_zlib() -> None:
    """The body of Glue's compressed form is inflated, whole and up to a limit."""
    uuid = "6f2c1a9e-0f3b-4a57-9a3c-3a5a3cf0d6e1"
    image, good = AVRO.side(), next(m for m in AVRO.messages() if m.value)
    assert good.value is not None
    text = image.schemas.by_id(unframe(good.value, "value")[0], "value")
    known = [*image.schemas.all(), RegisteredSchema("glue", 1, uuid, text)]
    decoder = replace(image, schemas=FileSchemas(known)).decoder()
    head, body = b"\x03\x05" + UUID(uuid).bytes, good.value[5:]
    packed = zlib.compress(body)
    events = [
        decoder.decode(m) for m in (good, replace(good, value=frame(uuid, body)), replace(good, value=head + packed))
    ]
    assert [e[0].after for e in events] == [events[0][0].after] * 3  # type: ignore[union-attr]
    for value, code in [
        (head, "TRUNCATED"), (head + packed[:-1], "TRUNCATED"), (head + packed + b"x", "TRAILING_BYTES"),
        (head + b"xx", "MALFORMED"), (head + zlib.compress(bytes(MAX_MESSAGE + 1)), "TOO_LARGE"),
    ]:  # fmt: skip
        bad = replace(good, value=value)
        assert refused(decoder, bad) == code
        assert peak(decoder, bad) < 2 * MAX_MESSAGE + (1 << 20)


def test_messages_over_the_limit_are_refused_unread() -> None:
    huge = bytes(MAX_MESSAGE + 1)
    for golden in (AVRO, Golden("debezium", "pk_int.schema")):
        good = next(m for m in golden.messages() if m.value and b'"ddl"' not in m.value)
        for bad in (replace(good, value=huge), replace(good, key=huge)):
            assert refused(golden.side().decoder(), bad) == "TOO_LARGE"
