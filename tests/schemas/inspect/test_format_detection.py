"""Every golden message is named by its bytes and schema, and what can't be told has its reason."""

import gzip
import json
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.each import each
from tests.support.golden import GOLDEN, READ, Golden, cases
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas
from ticdc_bridge.schemas.inspect.auto_decoder import AutoDecoder
from ticdc_bridge.schemas.inspect.format_detection import detect_format
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message, plain_lines

NAMED = {"open-tiflow": "open"}
EMPTY = "key and value are null: nothing is there to tell"


@pytest.mark.parametrize("name", READ)
def test_every_message_of_ticdc(name: str) -> None:
    reasons: Counter[str] = Counter()
    seen = 0
    for golden in cases(name):
        schemas = golden.schemas if "avro" in name else FileSchemas([])
        for message in golden.messages():
            found = detect_format(message.key, message.value, lambda i, known=schemas: known.by_id(i, ""))  # type: ignore[misc]
            seen += 1
            if found.format is None:
                reasons[found.reason] += 1
            else:
                assert found.format == NAMED.get(name, name), (str(golden), found)
    assert seen > 100, f"tests/golden/{name} has {seen} messages: too few to say"
    assert set(reasons) <= ({EMPTY} if name == "avro" else set())


def _mysql(path: Path) -> list[tuple[Message, dict[int, str]]]:
    schemas: dict[int, str] = {}
    if "avro_confluent" in path.name:
        listed = path.with_name(path.name.replace("avro_confluent", "avro_schemas"))
        schemas = {row["id"]: row["schema"] for row in _rows(listed)}
    found = []
    for row in _rows(path):
        if any(k.endswith("_error") for k in row):
            continue
        images: list[bytes | None] = []
        for image in ("key", "value"):
            text, data = row.get(f"{image}_json"), row.get(f"{image}_hex")
            images.append(bytes.fromhex(data) if data else None if text is None else text.encode())
        found.append((Message(images[0], images[1]), schemas))
    return found


def _rows(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


MYSQL = [p for p in sorted((GOLDEN / "debezium-mysql").glob("*.jsonl.gz")) if "avro_schemas" not in p.name]


@each("path", MYSQL, ids=lambda p: p.name)
def test_every_message_of_debeziums_connector(path: Path) -> None:
    for message, schemas in _mysql(path):
        found = detect_format(message.key, message.value, schemas.__getitem__)  # type: ignore[arg-type]
        assert found.format == "debezium-mysql" or found.reason == EMPTY, found


@each(
    ("key", "value", "format_", "reason"),
    [
        (None, None, None, "null"), (None, b"", None, "empty"), (b"x", None, None, "neither framed Avro nor JSON"),
        (b'{"id":1}', None, "debezium-mysql", "tombstone"), (None, b"\x00\x00", None, "cut"),
        (None, b"\x00\x00\x00\x00\x07x", None, "schema id 7: avro, debezium-avro, debezium-mysql or debezium-tidb"),
        (None, b"\x03\x00" + bytes(16), None, "the schema tells"),
        (None, b"\x03\x09" + bytes(16), None, "no known form"), (None, b"\x02" + bytes(8), None, "no watermark"),
        (None, b"\x01", None, "no size tables"), (b"", b"\x01", None, "no key"), (None, b"\x01{}", None, "no DDL"),
        (None, b"\x01" + b"\xff" * 40, None, "no size tables"), (None, b"\x16\x00\x02\x02\x02", None, "0x16"),
        ((1).to_bytes(8, "big"), b"x", None, "lengths"),
        ((1).to_bytes(8, "big") + b"\xff" * 8, bytes(8), None, "lengths"), (None, b"{", None, "like JSON"),
        (None, b"[]", None, "JSON array"), (None, b"{}", None, "no format that is known"),
        (None, b'{"payload":[]}', None, "no object"),
        (None, b'{"source":{"connector":"postgresql"}}', None, "postgresql"),
        (None, b'{"payload":{"source":{"connector":"mysql"}}}', "debezium-mysql", "mysql"),
        (None, b"\x1f\x8b\x08", None, "gzip"),
    ],
)  # fmt: skip
def test_what_is_reported(key: bytes | None, value: bytes | None, format_: str | None, reason: str) -> None:
    found = detect_format(key, value)
    assert (found.format, reason in found.reason) == (format_, True), found


@each("schema", ["", "[]", "1", '{"type":"record","name":"a","fields":[]}', "[" * 5000, '"string"'])
def test_schemas_of_others(schema: str) -> None:
    assert detect_format(None, b"\x00\x00\x00\x00\x07x", lambda _: schema).format is None


def test_damaged_messages_raise_nothing() -> None:
    """Nor does the decoder that goes by what was sniffed raise anything but WireError."""
    decoder = AutoDecoder(Context(Golden("avro", "wide.ext1").schemas))
    rng = random.Random(20261121)
    pool = [m for name in READ for g in cases(name)[:8] for m in g.messages()[:4] if m.value]
    for _ in range(5000):
        message = rng.choice(pool)
        value = bytearray(message.value or b"")
        for _ in range(rng.choice((1, 2, 4))):
            value[rng.randrange(len(value))] = rng.randrange(256)
        cut = bytes(value[: rng.choice((len(value), rng.randrange(len(value) + 1)))])
        assert detect_format(message.key, cut, lambda _: "").reason
        decode_message(decoder, replace(message, value=cut))


def test_auto_reads_each_message_as_what_it_is() -> None:
    """Messages of all formats that are built, mixed: the same lines as from each format's own decoder."""
    from ticdc_bridge.schemas.inputs.table_definitions import TableDefinitions
    from ticdc_bridge.schemas.model.options import Options
    from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig

    golden = {n: next(g for g in cases(n) if g.name.startswith("pk_int.")) for n in READ}
    avro = golden["avro"]
    config = CodecConfig(
        "auto", FileSchemas.read(avro.meta_file), Options.of({}, time_zone=avro.zone), TableDefinitions([])
    )
    decoder = config.decoder()
    mixed = [(name, m) for name, g in golden.items() if name != "debezium-avro" for m in g.messages()]
    own = {name: g.side().decoder() for name, g in golden.items()}
    for name, message in mixed:
        got = plain_lines(decode_message(decoder, message), message)
        want = plain_lines(decode_message(own[name], message), message)
        assert _as(got, NAMED.get(name, name)) == _as(want, NAMED.get(name, name))
    result = decode_message(decoder, Message(None, b"what?"))
    assert isinstance(result.error, WireError)
    assert result.error.code == "UNKNOWN_FORMAT"


def _as(lines: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [{**line, "format": name} for line in lines]
