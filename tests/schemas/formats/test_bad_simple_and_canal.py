"""Simple and Canal-JSON: documents that TiCDC does not write, and Simple's Avro with hostile numbers."""

import gzip
import json
from dataclasses import replace
from typing import Any

import pytest

from tests.support.each import each
from tests.support.fuzz import peak, refused
from tests.support.golden import Golden
from ticdc_bridge.schemas.codec import compression
from ticdc_bridge.schemas.codec.avro import write_long
from ticdc_bridge.schemas.formats.base import Decoder
from ticdc_bridge.schemas.formats.framing import MAX_MESSAGE
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message


def _compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _json(format_: str, kind: str) -> tuple[Decoder, Message, dict[str, Any]]:
    golden = Golden(format_, "pk_int.json" if format_ == "simple" else "pk_int.ext")
    decoder = golden.side().decoder()
    for message in golden.messages():
        decode_message(decoder, message)
    good = next(m for m in golden.messages() if m.value and f'"type":"{kind}"'.encode() in m.value)
    return decoder, good, json.loads(good.value or b"")


@pytest.mark.parametrize("format_", ["simple", "canal-json"])
@each(
    "value",
    [b"", b" ", b"null", b"1", b"[]", b"{}", b"{", b'{"type":[]}', b'{"version":1,"type":{}}', b'{"a":1,"a":1}',
     b"[" * 100_000, b'{"a":' * 100_000, gzip.compress(b"{}", mtime=0), b"\xff\xfe{}", b"\xef\xbb\xbf{}",
     b'{"type":NaN}'],
)  # fmt: skip
def test_json_values_that_are_none(format_: str, value: bytes) -> None:
    decoder, good, _ = _json(format_, "UPDATE")
    assert refused(decoder, replace(good, value=value)) == "MALFORMED"
    assert decoder.decode(good)


@pytest.mark.parametrize("format_", ["simple", "canal-json"])
def test_what_is_compressed_is_the_document_itself(format_: str) -> None:
    """Neither another compressed block nor a framed document: TiCDC compresses once, and frames nothing."""
    decoder, good, _ = _json(format_, "UPDATE")
    assert good.value is not None
    block = compression.snap(good.value)
    assert decoder.decode(replace(good, value=block))
    for inner in (block, compression.lz4(good.value), b"\x00\x00\x00\x00\x01" + good.value):
        for compress in (compression.snap, compression.lz4):
            assert refused(decoder, replace(good, value=compress(inner))) == "MALFORMED"


@each(
    ("kind", "change"),
    [
        ("UPDATE", {"version": 2}), ("UPDATE", {"version": None}), ("UPDATE", {"type": "NOPE"}),
        ("UPDATE", {"data": None}), ("UPDATE", {"data": []}), ("UPDATE", {"data": {}}), ("UPDATE", {"data": "id"}),
        ("UPDATE", {"data": {"id": 1}}), ("UPDATE", {"data": {"id": "x"}}), ("UPDATE", {"data": {"id": "2147483648"}}),
        ("UPDATE", {"data": {"nope": "1"}}), ("UPDATE", {"data": {"id": {"location": "UTC", "value": "1"}}}),
        ("UPDATE", {"old": 1}), ("INSERT", {"old": {}}), ("DELETE", {"old": None}), ("UPDATE", {"commitTs": "1"}),
        ("UPDATE", {"commitTs": 1.5}), ("UPDATE", {"schemaVersion": None}), ("UPDATE", {"database": 1}),
        ("UPDATE", {"handleKeyOnly": 1}), ("UPDATE", {"checksum": []}), ("BOOTSTRAP", {"tableSchema": None}),
        ("BOOTSTRAP", {"tableSchema": {}}), ("CREATE", {"sql": None}), ("CREATE", {"tableSchema": {"columns": [1]}}),
        ("WATERMARK", {"commitTs": None}),
    ],
)  # fmt: skip
def test_simple_messages_that_ticdc_does_not_write(kind: str, change: dict[str, Any]) -> None:
    decoder, good, whole = _json("simple", kind)
    assert refused(decoder, replace(good, value=_compact({**whole, **change}))) == "MALFORMED"


@each(
    ("kind", "change"),
    [
        ("UPDATE", {"type": "NOPE"}), ("UPDATE", {"data": None}), ("UPDATE", {"data": []}), ("UPDATE", {"data": [1]}),
        ("UPDATE", {"data": [{"id": "x"}]}), ("UPDATE", {"data": [{"nope": "1"}]}), ("UPDATE", {"old": [{}, {}]}),
        ("UPDATE", {"mysqlType": {"id": "int"}}), ("UPDATE", {"mysqlType": {"id": "nope", "v": "varchar", "n": "int"}}),
        ("UPDATE", {"mysqlType": {"id": "decimal(x)", "v": "varchar", "n": "int"}}),
        ("UPDATE", {"mysqlType": {"id": "enum('a", "v": "varchar", "n": "int"}}), ("UPDATE", {"mysqlType": 1}),
        ("UPDATE", {"pkNames": "id"}), ("UPDATE", {"es": "1"}), ("UPDATE", {"_tidb": {"commitTs": "x"}}),
        ("UPDATE", {"database": None}), ("CREATE", {"sql": None}), ("TIDB_WATERMARK", {"_tidb": {}}),
    ],
)  # fmt: skip
def test_canal_messages_that_ticdc_does_not_write(kind: str, change: dict[str, Any]) -> None:
    decoder, good, whole = _json("canal-json", kind)
    assert refused(decoder, replace(good, value=_compact({**whole, **change}))) == "MALFORMED"


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
        assert refused(decoder, replace(good, value=body)) == code, body
        assert peak(decoder, replace(good, value=body)) < 1 << 20


def test_simple_avro_memory_is_bounded() -> None:
    """The smallest columns, as many as one schema may claim."""
    decoder, good = _simple_avro()
    column = b"\x02a" + b"\x06int\x00\x00\x00" + b"\x00" * 4 + b"\x00\x00"
    body = b"\x16\x02\x02\x02\x00\x00\x00\x00\x00" + write_long(20_000) + column * 20_000 + b"\x00\x00"
    assert refused(decoder, replace(good, value=body)) == "MALFORMED"
    assert peak(decoder, replace(good, value=body)) < (64 << 20) + 32 * len(body)


@pytest.mark.parametrize("format_", ["simple", "canal-json"])
def test_json_messages_over_the_limit_are_refused_unread(format_: str) -> None:
    decoder, good, _ = _json(format_, "UPDATE")
    assert refused(decoder, replace(good, value=bytes(MAX_MESSAGE + 1))) == "TOO_LARGE"
