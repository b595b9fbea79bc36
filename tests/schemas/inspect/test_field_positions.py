"""Where values stand in JSON documents and in Open Protocol's frames."""

from __future__ import annotations

import pytest

from tests.support.each import each
from ticdc_bridge.schemas.codec import json_exact
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.inspect.explain import traces
from ticdc_bridge.schemas.inspect.format_lookup import format_named
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.spark_jobs.sources.schema_registry import FileSchemas


class _NoTracer:
    def decode(self, message: Message) -> list[object]:
        raise NotImplementedError


def _open(*values: bytes) -> Message:
    key = (1).to_bytes(8, "big") + b"".join((2).to_bytes(8, "big") + b"{}" for _ in values)
    return Message(key, b"".join(len(v).to_bytes(8, "big") + v for v in values))


def test_open_protocol() -> None:
    """Each value of each row of a batch, with its type code; offsets are of the whole message."""
    first = '{"u":{"id":{"t":3,"h":true,"f":3,"v":1},"名":{"t":15,"f":0,"v":"é\\n"}},"p":{"id":{"t":3,"f":3,"v":null}}}'
    message = _open(first.encode(), b'{"d":{"b":{"t":16,"f":0,"v":5},"broken":{"t":3}}}', b"")
    found = traces("open", _NoTracer(), message, [])  # type: ignore[arg-type]
    assert [(f.row, f.side, f.name, f.raw.decode(), f.wire) for f in found] == [
        (0, "after", "id", "1", "JSON number, type code 3"),
        (0, "after", "名", '"é\\n"', "JSON string, type code 15"),
        (0, "before", "id", "null", "JSON null, type code 3"),
        (1, "before", "b", "5", "JSON number, type code 16"),
    ]
    assert message.value is not None
    assert all(message.value[f.offset : f.offset + len(f.raw)] == f.raw for f in found)


@each("value", [b"\x00", b"\xff" * 20, (4).to_bytes(8, "big") + b"\x28\xb5\x2f\xfd", b"x" * 9])
def test_open_protocol_that_is_not_plain_json_has_no_trace(value: bytes) -> None:
    assert traces("open", _NoTracer(), Message(b"", value), []) == []  # type: ignore[arg-type]
    assert traces("craft", _NoTracer(), Message(None, value), []) == []  # type: ignore[arg-type]


def test_members_and_paths() -> None:
    text = ' { "a" : [ 1 , {"b":"x"} ] , "c":{} , "d":-1.5e3 } '
    assert [(k, text[s:e]) for k, s, e in json_exact.members(text, 0)] == [
        ("a", '[ 1 , {"b":"x"} ]'),
        ("c", "{}"),
        ("d", "-1.5e3"),
    ]
    at = json_exact.find(text, ("a", 1, "b"))
    assert at is not None
    assert text[at : at + 3] == '"x"'
    assert json_exact.kind_of(text, at) == "string"
    assert json_exact.find(text, ("a", 2)) is None
    assert json_exact.find(text, ("c", "x")) is None
    assert list(json_exact.members("[]", 0)) == list(json_exact.members("1", 0)) == []


@each("text", ['{"a":1', "[1,", '{"a"', "{a:1}", '{"a":1}}'[:-2]])
def test_documents_that_are_cut(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        list(json_exact.members(text, 0))


def test_flattened_rows() -> None:
    """The columns are the document's own members, with a schema around them or without."""
    row = '{"id":1,"name":"a","__op":"c","__db":"shop","__table":"t"}'
    fields = ",".join(f'{{"type":"string","field":"{name}"}}' for name in ("name", "__op", "__db", "__table"))
    schema = f'{{"type":"struct","fields":[{{"type":"int32","optional":false,"field":"id"}},{fields}]}}'
    schema = schema.replace('"type":"string"', '"type":"string","optional":true')
    decoder = format_named("debezium-mysql").decoder(Context(FileSchemas([])))
    for value in (row, f'{{"schema":{schema},"payload":{row}}}'):
        message = Message(b'{"id":1}', value.encode())
        places = {(f.side, f.name): f.raw for f in traces("debezium-mysql", decoder, message, decoder.decode(message))}
        assert places["after", "id"] == b"1"
        assert places["after", "name"] == b'"a"'
        assert places["key", "id"] == b"1"
