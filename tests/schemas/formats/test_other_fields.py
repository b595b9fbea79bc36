"""Fields that a newer TiCDC writes are carried in `extra.other_fields`, and written again by the same format."""

import json
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from tests.support.golden import Golden
from tests.support.rows import Pair, Tables, change, column, table
from tests.support.table import check_rows
from tests.support.tidb_connector import tidb_messages
from ticdc_bridge.schemas.codec.avro_schema import parse_schema, reader, writer
from ticdc_bridge.schemas.formats.base import BatchEncoder
from ticdc_bridge.schemas.formats.open_protocol import frame
from ticdc_bridge.schemas.formats.other_fields import EXTRA
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas
from ticdc_bridge.schemas.model.event import DdlEvent, Message, RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.plain.writer import json_line, plain_event
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message

NEW = {"startTs": 463299738777157634, "newField": {"a": [1, None, "x"]}}


class _Grown(NamedTuple):
    """A golden case, and where its messages get new fields: paths of objects, and the parts of `extra`."""

    golden: Golden
    paths: tuple[tuple[str, ...], ...]
    parts: tuple[str, ...]
    format: str = ""


CASES = [
    _Grown(Golden("debezium", "pk_int.schema"), (("payload",), ("payload", "source")), ("payload", "source")),
    _Grown(Golden("debezium", "wide.ext.schema"), (("payload", "source"),), ("source",)),
    _Grown(Golden("debezium", "pk_int.noschema"), (("payload",),), ("payload",)),
    _Grown(Golden("debezium", "pk_int.schema"), (("payload",),), ("payload",), "debezium-tidb"),
    _Grown(Golden("simple", "pk_int.json"), ((),), ("message",)),
    _Grown(Golden("canal-json", "pk_int.ext"), ((), ("_tidb",)), ("message", "_tidb")),
]


def _messages(row: _Grown) -> list[Message]:
    return list(tidb_messages(row.golden)) if row.format else row.golden.messages()


def _grow(data: bytes, paths: tuple[tuple[str, ...], ...]) -> bytes:
    document = json.loads(data)
    for path in paths:
        inner = document
        for name in path:
            inner = inner.get(name, {})
        inner.update(NEW)
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def test_new_fields_are_carried() -> None:
    def check(row: _Grown) -> None:
        name = row.format or row.golden.format
        config = CodecConfig(name, FileSchemas([]), Options.of({}, time_zone=row.golden.zone), row.golden.definitions)
        before, after = config.decoder(), config.decoder()
        options = row.golden.options(on_lossy="flag") if name == row.golden.format else Options.of({})
        seen = 0
        for message in _messages(row):
            if message.value is None:
                continue
            grown = replace(message, value=_grow(message.value, row.paths))
            plain, reported = decode_message(before, message), decode_message(after, grown)
            assert reported.error is None, reported.error
            for event, other in zip(plain.events, reported.events, strict=True):
                if not isinstance(other, RowChange):
                    continue
                assert {piece: other.extra[EXTRA][piece] for piece in row.parts} == dict.fromkeys(row.parts, NEW)
                bare = {k: v for k, v in other.extra.items() if k not in (EXTRA, "source")}
                assert replace(other, extra=bare) == replace(
                    event, extra={k: v for k, v in event.extra.items() if k != "source"}
                )
                assert json.loads(json_line(plain_event(other, grown)))["extra"][EXTRA]
                seen += 1
                if name in ("debezium", "debezium-tidb"):
                    [again, *_] = replace(config, options=options).encoder().encode(other, grown)
                    payload, wanted = (json.loads(m.value or b"")["payload"] for m in (again, grown))
                    assert {k: payload[k] for k in NEW if "payload" in row.parts} == {
                        k: wanted[k] for k in NEW if "payload" in row.parts
                    }
                    assert {k: payload["source"].get(k) for k in NEW} == {k: wanted["source"].get(k) for k in NEW}
        assert seen

    check_rows(CASES, check, lambda row: f"{row.golden} {row.format} {row.parts}")


def test_a_name_that_is_no_text_is_an_error() -> None:
    for golden, path in ((c.golden, c.paths[0]) for c in CASES if not c.format):
        message = next(m for m in golden.messages() if b"pk_int" in (m.value or b"") or b"wide" in (m.value or b""))
        value = _grow(message.value or b"", (path,)).replace(b"newField", b"new\xffField")
        decoder = CodecConfig(golden.format, FileSchemas([]), Options(), golden.definitions).decoder()
        result = decode_message(decoder, replace(message, value=value))
        assert result.error or not isinstance(result.events[0], RowChange)


@pytest.mark.parametrize("where", ["key", "value"])
def test_new_fields_of_the_open_protocol(where: str) -> None:
    golden = Golden("open", "pk_int.default")
    image = golden.side(True)
    seen = 0
    for message in golden.messages():
        keys = frame.split_key(message.key or b"")
        values = frame.split_value(message.value or b"", len(keys))
        if len(keys) != 1 or not values[0]:
            continue
        grown = [
            _grow(field, ((),)) if where == name else field for name, field in (("key", keys[0]), ("value", values[0]))
        ]
        made = replace(message, key=frame.join_key([grown[0]]), value=frame.join_value([grown[1]]))
        [event] = image.decoder().decode(made)
        if isinstance(event, DdlEvent) and where == "value":
            continue
        assert not isinstance(event, RowChange | DdlEvent) or event.extra[EXTRA] == {where: NEW}
        encoder = replace(image, options=golden.options(on_lossy="flag")).encoder()
        if isinstance(event, RowChange):
            assert isinstance(encoder, BatchEncoder)
            [again] = encoder.encode_rows([event], made)
            pieces = [frame.split_key(again.key or b"")[0], frame.split_value(again.value or b"", 1)[0]]
            assert [json.loads(p) for p in pieces] == [json.loads(p) for p in grown]
            seen += 1
    assert seen > 1


def test_new_fields_of_avro_are_carried() -> None:
    """Of TiCDC's Avro, its Debezium's and the connectors': no columns, no error; bytes are base64."""
    of = table(column("name", "varchar", length=20))
    new = [{"name": "_tidb_start_ts", "type": "long"}, {"name": "_tidb_of", "type": ["null", "string"]}]
    blob = [{"name": "startTs", "type": "long"}, {"name": "blob", "type": "bytes"}]

    def check(row: tuple[str, tuple[str, ...], Any, Any, Any]) -> None:
        name, path, fields, values, wanted = row
        pair = Pair(name, Tables(of), enable_tidb_extension=True, encoding_format="avro")
        message = pair.write(change(of, {"name": "a"}))
        assert message.value is not None
        schema = json.loads(pair.registry.by_id(int.from_bytes(message.value[1:5], "big"), "value"))
        size = len(message.value)
        document = reader(parse_schema(json.dumps(schema)), int)
        inner = schema
        for piece in path:
            inner = next(f["type"] for f in inner["fields"] if f["name"] == piece)
        inner["fields"] += [{**field, "connect.field": field["name"]} for field in fields]
        body, pos = document(message.value, 5)
        assert pos == size
        position = body
        for piece in path:
            position = position[piece]
        position.update(values)
        number = pair.registry.id_of("shop.t-value", json.dumps(schema))
        grown = b"\0" + int(number).to_bytes(4, "big") + writer(parse_schema(json.dumps(schema)))(body)
        [event] = pair.decoder.decode(replace(message, value=grown))
        assert isinstance(event, RowChange)
        assert (event.after, event.flags) == ({"id": "1", "name": "a"}, [])
        assert event.extra[EXTRA] == wanted
        json_line(plain_event(event, message))

    rows: tuple[tuple[str, tuple[str, ...], Any, Any, Any], ...] = (
        ("avro", (), new, {"_tidb_start_ts": 5, "_tidb_of": "x"}, {"value": {"_tidb_start_ts": 5, "_tidb_of": "x"}}),
        ("debezium-avro", ("source",), blob, {"startTs": 5, "blob": b"\xff"},
         {"source": {"startTs": 5, "blob": "/w=="}}),
        ("debezium-mysql", (), blob, {"startTs": 5, "blob": b"\xff"}, {"payload": {"startTs": 5, "blob": "/w=="}}),
    )  # fmt: skip
    check_rows(rows, check, lambda row: row[0])
