"""Bodies that are no message of the format read: each is called what it is, by every format and by auto."""

import base64
import bz2
import gzip
import json
import lzma
import zlib
from typing import NamedTuple

import cramjam
import pytest

from tests.support.table import check_rows
from ticdc_bridge.schemas.codec import compression
from ticdc_bridge.schemas.codec.byte_signatures import name_body
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.formats.open_protocol.frame import join_key, join_value
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas
from ticdc_bridge.schemas.inspect.format_lookup import format_named
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import Message

_JSON = b'{"id":0,"database":"shop","text":"' + "zwölf Boxkämpfer ".encode() * 8 + b'"}'
_TEXT = _JSON.decode()


class _Body(NamedTuple):
    data: bytes
    name: str


BODIES = (
    _Body(gzip.compress(_JSON, mtime=0), "gzip"), _Body(bytes(cramjam.zstd.compress(_JSON)), "zstd"),
    _Body(bytes(cramjam.snappy.compress(_JSON)), "framed Snappy"),
    _Body(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01", "snappy-java"), _Body(b"LZ4Block\x16", "lz4-java"),
    _Body(zlib.compress(_JSON), "zlib"), _Body(zlib.compress(_JSON, 1), "zlib"),
    _Body(bz2.compress(_JSON), "bzip2"), _Body(lzma.compress(_JSON), "xz"), _Body(b"PK\x03\x04\x14\x00", "ZIP"),
    _Body(base64.b64encode(_JSON), "base64"), _Body(base64.urlsafe_b64encode(_JSON), "base64"),
    _Body(base64.encodebytes(_JSON), "base64"), _Body(base64.b64encode(b"\x00\x00\x00\x00\x05\x02"), "base64"),
    _Body(_JSON.hex().encode(), "hexadecimal"), _Body(json.dumps(_TEXT).encode(), "twice"),
    _Body(json.dumps(base64.b64encode(_JSON).decode()).encode(), "base64"), _Body(b'"a text"', "JSON string"),
    _Body(b"[" + _JSON + b"]", "array"), _Body(b" [1", "array"), _Body(b"12.5", "number"),
    _Body(b"true", "true or false"), _Body(b"null", "the text null"), _Body(_TEXT.encode("utf-16"), "UTF-16"),
    _Body(_TEXT.encode("utf-16-le"), "UTF-16"),
    _Body(b"\xef\xbb\xbf" + _JSON, "byte order mark"), _Body(b"<?xml version='1.0'?><row/>", "XML"),
    _Body(b"<row id='1'/>", "XML"), _Body(b"<!DOCTYPE html>\n<html>", "HTML"), _Body(b"<HTML><body>502", "HTML"),
    _Body(b"\xac\xed\x00\x05sr\x00", "Java"), _Body(b"Obj\x01\x04\x16avro", "container"),
    _Body(b"\xc3\x01" + bytes(range(8)) + b"\x02", "single object"), _Body(b"\x08\x96\x01\x12\x07testing", "Protobuf"),
    _Body(b'"I","orders","shop",433305438660591626,101\n', "CSV"), _Body(b"an ordinary sentence", "plain text"),
)  # fmt: skip


def test_bodies_have_names() -> None:
    def check(body: _Body) -> None:
        assert body.name.lower() in name_body(body.data).lower()

    check_rows(BODIES, check, lambda body: (body.name, body.data[:12]))


def test_what_has_no_name() -> None:
    check_rows((b"\x80", b"\xfb\x01\x02", b"x\x00\x01", b"\x78\x9d"), lambda data: _same(name_body(data), ""))


def _same(text: str, other: str) -> None:
    assert text == other


_KEY = b'{"ts":463212382400000001,"scm":"shop","tbl":"orders","t":1}'
_FORMATS = ("canal-json", "simple", "debezium", "debezium-mysql", "avro", "debezium-avro", "craft", "open", "auto")


def _reads_itself(format_: str, body: _Body) -> bool:
    """True if the bytes may be this format's after all, or it looks at them in its own way."""
    begins_so = format_ in ("simple", "auto") and body.data[:1] == b"\x16"
    return begins_so or (format_ == "debezium-mysql" and body.data == b"null")


@pytest.mark.parametrize("format_", _FORMATS)
def test_each_format_calls_a_value_what_it_is(format_: str) -> None:
    decoder = format_named(format_).decoder(Context(FileSchemas([])))
    key = join_key([_KEY]) if format_ == "open" else None

    def check(body: _Body) -> None:
        with pytest.raises(WireError) as caught:
            decoder.decode(Message(key, body.data))
        assert body.name.lower() in caught.value.detail.lower()

    check_rows((b for b in BODIES if not _reads_itself(format_, b)), check, lambda body: (body.name, body.data[:12]))


@pytest.mark.parametrize("format_", ["debezium", "open", "avro"])
def test_each_format_calls_a_key_what_it_is(format_: str) -> None:
    def check(body: _Body) -> None:
        decoder = format_named(format_).decoder(Context(FileSchemas([])))
        value = join_value([b'{"u":{}}']) if format_ == "open" else None
        if format_ == "debezium":
            value = (
                b'{"payload":{"source":{"db":"a","table":"b","commit_ts":1},"op":"c","before":null,"after":{"a":1}}}'
            )
        with pytest.raises(WireError) as caught:
            decoder.decode(Message(body.data, value))
        assert body.name.lower() in caught.value.detail.lower()

    check_rows(BODIES, check, lambda body: (body.name, body.data[:12]))


def test_what_is_in_a_compressed_value_is_named_too() -> None:
    decoder = format_named("canal-json").decoder(Context(FileSchemas([])))

    def check(body: _Body) -> None:
        with pytest.raises(WireError) as caught:
            decoder.decode(Message(None, compression.snap(body.data)))
        assert body.name.lower() in caught.value.detail.lower()

    check_rows((b for b in BODIES if b.name in ("gzip", "base64", "twice")), check, lambda body: body.name)
