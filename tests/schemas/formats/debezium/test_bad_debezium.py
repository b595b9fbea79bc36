"""TiCDC's Debezium JSON: documents, payloads, numbers and names that it does not write."""

import gzip
import json
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.schemas.formats.debezium.test_mysql_connector_decoder import DEFAULTS, VERSIONS
from tests.support import connector, fuzz
from tests.support.connector import ByName
from tests.support.each import each
from tests.support.fuzz import refused
from tests.support.golden import Golden, Registry
from ticdc_bridge.schemas.codec import avro_schema
from ticdc_bridge.schemas.codec.avro import TruncatedValue, write_long
from ticdc_bridge.schemas.formats.base import Decoder
from ticdc_bridge.schemas.formats.debezium.connect import document
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas, RegisteredSchema
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import Event, Message, RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.plain.writer import json_line, plain_event
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message, transcode_message


def _debezium() -> tuple[Decoder, Message, dict[str, Any]]:
    golden = Golden("debezium", "pk_int.schema")
    good = next(m for m in golden.messages() if m.value and b'"op":"c"' in m.value)
    assert good.value is not None
    return golden.side().decoder(), good, json.loads(good.value)


def _compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


@each(
    "value",
    [
        b"", b" ", b"null", b"1", b"[]", b"{}", b'{"payload":', b'{"payload":null}', b'{"payload":[]}',
        b'{"payload":{}}', b'{"payload":{"source":1,"op":"c"}}', b'{"payload":{"source":{},"op":"c"}}',
        b'{"payload":{"source":{},"op":"m"}}', b'{"payload":{"source":{"commit_ts":-1},"op":"m"}}',
        b'{"payload":{"source":{"commit_ts":"1"},"op":"m"}}', b'{"payload":{"source":{"commit_ts":1.5},"op":"m"}}',
        b'{"payload":' + b"[" * 100_000, b'{"payload":' + b'{"a":' * 100_000, gzip.compress(b'{"payload":{}}', mtime=0),
        b"\xff\xfe{}", b"\xef\xbb\xbf{}", b'{"payload":{"source":{},"op":["c"]}}', b'{"payload":{"op":"c","op":"c"}}',
        b'{"payload":{"x":NaN}}', b'{"payload":{"x":Infinity}}', b'{"payload":{"ddl":"x","source":{}}}',
        b'{"payload":{"ddl":1,"databaseName":"d","source":{"table":"t"}}}',
    ],
)  # fmt: skip
def test_debezium_values_that_are_none(value: bytes) -> None:
    decoder, good, _ = _debezium()
    assert refused(decoder, replace(good, value=value)) == "MALFORMED"
    assert decoder.decode(good)


def _changed(change: Any) -> bytes:
    _, _, whole = _debezium()
    change(whole["payload"])
    return _compact(whole)


@each(
    "change",
    [
        lambda p: p.update(op="x"), lambda p: p.update(op=None), lambda p: p.update(after=None),
        lambda p: p.update(after=[]), lambda p: p.update(after="x"), lambda p: p.update(before=[]),
        lambda p: p.pop("source"), lambda p: p["source"].pop("db"), lambda p: p["source"].update(table=1),
        lambda p: p["after"].update(nope=1), lambda p: p["after"].update(id="1"), lambda p: p["after"].update(id=1.5),
        lambda p: p["after"].update(id=[1]), lambda p: p["after"].update(v=1), lambda p: p["after"].update(v={}),
        lambda p: p.update(op="d", before=None), lambda p: p["source"].update(cluster_id=1),
        lambda p: p.update(ts_ms="x"),
    ],
)  # fmt: skip
def test_debezium_payloads_that_ticdc_does_not_write(change: Any) -> None:
    decoder, good, _ = _debezium()
    assert refused(decoder, replace(good, value=_changed(change))) == "MALFORMED"


@each("text", [b"NaN", b"Infinity", b"-Infinity", b"1e999", b"--1", b"0x10", b"01", b"1_0", b'"\xff'])
def test_debezium_numbers_that_are_none(text: bytes) -> None:
    decoder, good, whole = _debezium()
    whole["payload"]["after"]["id"] = "@@"
    assert refused(decoder, replace(good, value=_compact(whole).replace(b'"@@"', text))) == "MALFORMED"


def test_debezium_text_that_is_not_utf8_keeps_its_bytes() -> None:
    decoder, good, whole = _debezium()
    whole["payload"]["after"]["v"] = "@@"
    [event] = decoder.decode(replace(good, value=_compact(whole).replace(b"@@", b"\xe9\xff")))
    assert event.after["v"] == b"\xe9\xff"  # type: ignore[union-attr, index]


def test_debezium_has_no_tombstones() -> None:
    decoder, good, _ = _debezium()
    assert refused(decoder, replace(good, value=None)) == "EMPTY_RECORD"


def test_debezium_keys_that_are_none() -> None:
    decoder, good, _ = _debezium()
    for key in (
        b"", b"null", b"[]", b'{"payload":1}', b"\x00\x00\x00\x00\x01", b'{"payload":{"id":1}',
        b'{"payload":{"id":1,"id":1}}', b'{"payload":{"nope":1}}',
    ):  # fmt: skip
        assert refused(decoder, replace(good, key=key)) == "MALFORMED"
    [event] = decoder.decode(replace(good, key=None))
    assert event.key == ()  # type: ignore[union-attr]


def test_events_of_one_message_are_not_changed_by_the_next() -> None:
    golden = Golden("debezium", "wide.schema")
    decoder = golden.side().decoder()
    kept: list[tuple[list[Event], list[str]]] = []
    for message in golden.messages():
        events = decoder.decode(message)
        kept.append((events, [json_line(plain_event(e, message)) for e in events]))
    for (events, before), message in zip(kept, golden.messages(), strict=True):
        assert [json_line(plain_event(e, message)) for e in events] == before


# ---- Damaged and hostile messages of Debezium's MySQL connector (as test_bad_input.py): WireError, or an event; no
# more.
#
# There are five forms of them; tests/support/fuzz.py says how much runs.

TABLES = ByName({v.table.id: v for v in VERSIONS})
# How the bridge writes without schema, where nothing is set.
READ: dict[str, Any] = {**DEFAULTS, "decimal_handling_mode": "string"}
FORMS: dict[str, tuple[Callable[[str], list[Message]], Callable[[str], CodecConfig]]] = {
    "json": (connector.json_messages, lambda _: connector.side()),
    "bare": (lambda n: connector.json_messages(f"{n}.noschema"), lambda _: connector.side()),
    "bare-ddl": (
        lambda n: connector.json_messages(f"{n}.noschema"),
        lambda _: connector.side(tables=TABLES, **DEFAULTS),
    ),
    "avro": (connector.avro_messages, lambda n: connector.side(connector.avro_schemas(n))),
    "avro-ddl": (connector.avro_messages, lambda n: connector.side(connector.avro_schemas(n), TABLES)),
}
SETTINGS = ("default", "time_connect", "decimal_string", "unwrap", "edge", "skipped_none", "source_type")


def _small(messages: list[Message], most: int = fuzz.SMALL) -> list[Message]:
    return [m for m in messages if m.value and len(m.value) <= most]


CUTS = [(SETTINGS[0], 1), *((name, 13) for name in SETTINGS[1:])]


@pytest.mark.parametrize("form", FORMS)
@each(("name", "step"), CUTS, slow=[(name, 1) for name in SETTINGS[1:]])
def test_truncation_at_every_byte(form: str, name: str, step: int) -> None:
    """Of the first setting each byte is cut off, of the others every 13th by default.

    A key that may be of another converter (an empty one, or a short integer before Avro's header ends) is no error.
    """
    read, image = FORMS[form]
    decoder = image(name).decoder()
    rows = [m for m in _small(read(name)) if any(isinstance(e, RowChange) for e in decode_message(decoder, m).events)]
    if not rows:
        return  # no row of at most 4 KiB
    message = max(rows, key=lambda m: len(m.value or b""))
    whole = fuzz.lines(decoder, message)
    fuzz.RAN["cuts, debezium-mysql"] += (len(message.value or b"") + len(message.key or b"")) // step
    for cut in range(0, len(message.value or b""), step):
        result = decode_message(decoder, replace(message, value=(message.value or b"")[:cut]))
        assert result.error is not None, cut
    for cut in range(0, len(message.key or b""), step):
        key = (message.key or b"")[:cut]
        result = decode_message(decoder, replace(message, key=key))
        is_of_others = key in (b"", b"\0\0") or (len(key) == 4 and key[:1] == b"\0")
        assert (result.error is not None) is not is_of_others, cut
    assert fuzz.lines(decoder, message) == whole


@fuzz.mutated
@pytest.mark.parametrize("form", FORMS)
def test_random_mutations(form: str, mutations: int) -> None:
    rng = random.Random(f"connector {form} {fuzz.SEED}")
    read, image = FORMS[form]
    with fuzz.counted("mutations, debezium-mysql") as ran:
        for name in SETTINGS:
            decoder, messages = image(name).decoder(), _small(read(name), 16384)
            good = next(m for m in messages if decode_message(decoder, m).events)
            whole = fuzz.lines(decoder, good)
            values, keys = [m.value for m in messages if m.value], [m.key for m in messages if m.key]
            for number in range(mutations // len(FORMS) // len(SETTINGS) + 1):
                printed = fuzz.lines(decoder, fuzz.damaged(rng, rng.choice(messages), values, keys))
                ran["error" if fuzz.is_error(printed) else "event"] += 1
                if number % 50 == 0:
                    assert fuzz.lines(decoder, good) == whole
    assert min(ran["error"], ran["event"]) > ran.total() // 200


@fuzz.mutated
@pytest.mark.parametrize("to", [{}, {"debezium_disable_schema": True}, {"encoding_format": "avro"}], ids=str)
def test_damaged_rows_through_the_writer(to: dict[str, Any], mutations: int) -> None:
    """What was decoded of a damaged message is written, or refused by WireError; what is written can be read."""
    rng = random.Random(f"connector {to} {fuzz.SEED}")
    for golden in (Golden("debezium", "wide.ext.schema"), Golden("debezium-avro", "wide.str.ext")):
        registry, decoder = Registry(), golden.side(ddl=True).decoder()
        encoder = CodecConfig("debezium-mysql", registry, Options.of(to)).encoder()  # type: ignore[arg-type]
        reading = CodecConfig("debezium-mysql", registry, Options.of(READ), golden.definitions)  # type: ignore[arg-type]
        back, messages = reading.decoder(), _small(golden.messages())
        values = [m.value for m in messages if m.value]
        with fuzz.counted("mutations, through the writer of debezium-mysql") as ran:
            for _ in range(mutations // 24):
                message = rng.choice(messages)
                value = fuzz.mutate(rng, message.value or b"", values)
                result = transcode_message(decoder, encoder, replace(message, value=value, timestamp=1_800_000_000_000))
                ran["error" if result.error else "message"] += 1
                assert result.error is None or not result.out
                for written in result.out:
                    assert back.decode(written) or written.value is None


def _good() -> tuple[Decoder, Message, dict[str, Any]]:
    decoder = connector.side().decoder()
    found = [m for m in connector.json_messages("default") if str(m.topic).endswith("nopk")]
    assert found[0].value is not None
    return decoder, found[0], json.loads(found[0].value)


@each(
    "value",
    [
        b"",
        b" ",
        b"1",
        b"[]",
        b"{}",
        b'{"schema":{},"payload":',
        b'{"schema":{},"payload":[]}',
        b'{"schema":{},"payload":{}}',
        b'{"schema":{"fields":1},"payload":{"op":"c","source":{"db":"d","table":"t"},"after":{"a":1}}}',
        b'{"schema":{"fields":[{"field":"after","fields":[{"field":"a","type":"x","optional":true}]}]},'
        b'"payload":{"op":"c","source":{"db":"d","table":"t"},"after":{"a":1}}}',
        b'{"op":"c","source":1}',
        b'{"op":"c","source":{}}',
        b'{"op":"m","source":{"db":"d","table":"t"}}',
        b'{"op":"c","source":{"db":"d","table":"t"},"after":null}',
        b'{"op":"d","source":{"db":"d","table":"t"},"before":null}',
        b'{"op":"c","source":{"db":"d","table":"t"},"after":{"a":{}}}',
        b'{"op":"c","source":{"db":"d","table":"t"},"after":{"a":1,"a":2}}',
        b'{"op":"c","source":{"db":"d","table":"t","commit_ts":-1},"after":{"a":1}}',
        b'{"op":"t","source":{"db":"d"}}',
        b'{"ts_ms":1}',
        b'{"status":"BEGIN","id":"1","event_count":null}',
        b'{"__deleted":"false","a":1}',
        b'{"__op":"c","a":1}',
        b'{"ddl":"x","source":{}}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        gzip.compress(b"{}", mtime=0),
        b"\xff\xfe{}",
        b'{"x":NaN}',
    ],
)
def test_values_that_are_none(value: bytes) -> None:
    decoder, good, _ = _good()
    result = decode_message(decoder, replace(good, value=value))
    if value == b'{"ddl":"x","source":{}}':  # a statement on no table is one
        assert [type(e).__name__ for e in result.events] == ["DdlEvent"]
    else:
        assert result.error is not None
        assert result.error.code == "MALFORMED"
    assert decoder.decode(good)


def test_null_documents_are_tombstones() -> None:
    """schemas.enable writes a null value as an object around null."""
    decoder, good, _ = _good()
    for value in (None, b'{"schema":null,"payload":null}'):
        assert decode_message(decoder, replace(good, value=value)).skipped


def test_a_known_schema_is_not_trusted_further_than_it_goes() -> None:
    """The text up to the payload is compared; what follows the payload is an error, known schema or not."""
    decoder, good, _ = _good()
    assert good.value is not None
    assert decoder.decode(good)
    for tail in (b"x", b"}", b" {}"):
        assert decode_message(decoder, replace(good, value=good.value + tail)).error is not None
    assert decode_message(decoder, replace(good, value=good.value + b" \n")).error is None


# ---------------------------------------------------------------------------------- Avro schemas of any kind
def _record(fields: str, more: str = "") -> str:
    return f'{{"type":"record","name":"R","fields":[{fields}]{more}}}'


@each(
    "text",
    [
        "", "1", "null", "[]", '"long"', '"nope"', '{"type":"map","values":"long"}', "[" * 5000,
        _record('{"name":"a","type":"R"}'),
        _record('{"name":"a","type":"nope"}'),
        _record('{"name":"a","type":["null","long","string"]}'),
        _record('{"name":"a","type":["long","string"]}'),
        _record('{"name":"a","type":"long"},{"name":"a","type":"long"}'),
        _record('{"name":"a","type":"long","connect.field":1}'),
        _record('{"name":"a","type":{"type":"record","name":"R","fields":[]}}'),
        _record('{"name":"a","type":{"type":"long","connect.name":1}}'),
        _record('{"name":"a","type":{"type":"long","connect.parameters":{"x":1}}}'),
        _record('{"name":"a","type":{"type":"fixed","name":"F","size":4}}'),
    ],
)  # fmt: skip
def test_schemas_that_are_none(text: str) -> None:
    with pytest.raises(WireError) as caught:
        document(text, "value")
    assert caught.value.code == "UNSUPPORTED_SCHEMA"


def test_a_schema_that_doubles_with_every_record_is_refused() -> None:
    """Forty records of two fields each would be read as a million million values."""
    inner = '{"type":"record","name":"R0","fields":[{"name":"a","type":"null"}]}'
    for level in range(1, 41):
        pair = f'{{"name":"a","type":{inner}}},{{"name":"b","type":"R{level - 1}"}}'
        inner = f'{{"type":"record","name":"R{level}","fields":[{pair}]}}'
    with pytest.raises(WireError, match="larger than any table's"):
        document(inner, "value")


def test_arrays_are_bounded_by_what_is_there() -> None:
    empty = '{"type":"record","name":"E","fields":[]}'
    read = avro_schema.reader(avro_schema.parse_schema(f'{{"type":"array","items":{empty}}}'), lambda n: n)
    for count in (1 << 62, 1 << 31, 100):
        with pytest.raises(TruncatedValue):
            read(write_long(count) + b"\x00", 0)
    with pytest.raises(ValueError, match="65536 items"):
        read(write_long(70_000) + bytes(80_000), 0)
    with pytest.raises(TruncatedValue):
        read(write_long(-1) + write_long(1 << 40) + b"\x00", 0)
    assert read(write_long(1) + b"\x00", 0) == ([{}], 2)


def test_messages_of_another_framing_are_refused() -> None:
    schemas = FileSchemas([RegisteredSchema("s", 1, 7, _record('{"name":"a","type":"long"}'))])
    decoder, good = connector.side(schemas).decoder(), _good()[1]
    for value, code in [
        (b"\x00", "TRUNCATED"), (b"\x00\x00\x00\x00\x08", "UNKNOWN_SCHEMA_ID"), (b"\x00\x00\x00\x00\x07", "TRUNCATED"),
        (b"\x00\x00\x00\x00\x07\x02\x02", "TRAILING_BYTES"), (b"\x00\x00\x00\x00\x07\x02", "MALFORMED"),
    ]:  # fmt: skip
        result = decode_message(decoder, replace(good, value=value))
        assert result.error is not None
        assert result.error.code == code
