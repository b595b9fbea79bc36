"""Record headers: part of every change event, and carried on to what is written where they are true of that."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.support import shop
from tests.support.golden import ALL, WIDE, Golden, Registry
from tests.support.table import check_rows
from ticdc_bridge import Decoder, Encoder, plain_event
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.formats.framing import is_carried
from ticdc_bridge.schemas.inspect.format_lookup import format_named
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import Message, RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.plain.reader import error_of_line, plain_message
from ticdc_bridge.spark_jobs.io.message_files import message_line, read_messages
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message, plain_lines, transcode_message

OWN = (("trace", b"\x00\xff"), ("tenant", None), ("trace", b""), ("x-é\u2028", "ü".encode()))
OLD = (("content-type", b"avro/binary+7"), ("bridge.attempt", b"1"), ("ce_id", b"9"), ("__debezium.newkey", b"{}"))

NAMES = [
    ("trace", True), ("traceparent", True), ("tenant", True), ("", True), ("__op_id", True), ("my.content-type", True),
    ("ce", True), ("bridge", True), ("__value_schema", True), ("__debezium.context.taskId", True),
    ("spring_json_header_types", True), ("kafka_correlationId", True),
    ("__value_schema_id", False), ("__key_schema_id", False), ("apicurio.value.globalId", False),
    ("apicurio.key.encoding", False), ("Content-Type", False), ("contentType", False), ("content-encoding", False),
    ("ce_specversion", False), ("CE_ID", False), ("__TypeId__", False), ("__Key_ContentTypeId__", False),
    ("__debezium.oldkey", False), ("__table", False), ("__op", False), ("bridge.id", False), ("bridge.reason", False),
]  # fmt: skip


def test_names_that_are_carried_on() -> None:
    def check(row: tuple[str, bool]) -> None:
        assert is_carried(row[0]) is row[1]

    check_rows(NAMES, check)


def _side(golden: Golden, format_: str) -> CodecConfig:
    registry: Any = Registry()
    options = Options.of({"time_zone": golden.zone, "on_lossy": "flag"}, avro_bigint_unsigned_handling_mode="string")
    return CodecConfig(format_, registry, options, golden.definitions)


def test_from_any_format_to_any() -> None:
    def check(pair: tuple[str, str]) -> None:
        golden = Golden(pair[0], WIDE[pair[0]])
        decoder, encoder = golden.side(ddl=True).decoder(), _side(golden, pair[1]).encoder()
        written = 0
        for message in golden.messages():
            result = transcode_message(decoder, encoder, replace(message, headers=(*OLD[:2], *OWN, *OLD[2:])))
            assert [out.headers for out in result.out] == [OWN] * len(result.out)
            written += len(result.out)
        assert written

    check_rows([(f, to) for f in WIDE for to in ALL if format_named(to).writes], check)


def test_each_message_of_a_changed_key() -> None:
    """The connector's own headers are those of each message, not those that came."""
    golden = Golden("debezium", WIDE["debezium"])
    event = next(e for e in golden.events(ddl=True) if isinstance(e, RowChange) and e.op == "u" and e.before)
    (name, *_) = event.key
    assert event.before is not None
    event.before = {**event.before, name: str(int(str(event.before[name])) + 1)}
    encoder = Encoder("debezium-mysql", on_lossy="flag")
    out = encoder.encode(event, topic="t", timestamp=1, headers=(*OWN, ("__debezium.oldkey", b"stale")))
    assert [m.headers[:4] for m in out] == [OWN] * 3
    assert [[key for key, _ in m.headers[4:]] for m in out] == [
        ["__debezium.newkey"], ["__debezium.newkey"], ["__debezium.oldkey"],
    ]  # fmt: skip
    assert b"stale" not in dict(out[2].headers).values()


def _lines() -> Iterator[tuple[Message, list[dict[str, Any]]]]:
    decoder = shop.avro_side().decoder()
    for message in (*shop.messages()[:3], Message(b"k", b"\x07nope", "t", 0, 5)):
        message = replace(message, headers=OWN)
        yield message, plain_lines(decode_message(decoder, message), message)


def test_lines_have_them_and_are_read_again() -> None:
    for message, lines in _lines():
        for line in lines:
            assert list(line)[-1] == "headers"
            text = json.dumps(line).encode()
            failed = error_of_line(text)
            assert (failed[1] if failed else plain_message(text)).headers == message.headers == OWN


BAD = [{"a": 1}, [["a"]], [["a", "b", "c"]], [[1, "eA=="]], ["a"], [["a", "§"]], "x", 7, [["a", 1]]]


def test_wrong_headers_of_a_line() -> None:
    line = next(lines[0] for _, lines in _lines())

    def check(bad: Any) -> None:
        with pytest.raises(WireError, match="header") as raised:
            plain_message(json.dumps({**line, "headers": bad}).encode())
        assert raised.value.code == "BAD_LINE"

    check_rows(BAD, check, repr)


def test_one_message_at_a_time() -> None:
    golden = Golden("open", WIDE["open"])
    decoder, encoder = Decoder("open"), Encoder("open", on_lossy="flag", ddl=golden.definitions)
    message = next(m for m in golden.messages() if isinstance(decoder.decode(m.key, m.value)[0], RowChange))
    (event,) = decoder.decode(message.key, message.value, headers=dict(OWN))
    with_headers = plain_event(event, replace(message, headers=OWN))
    for given, headers in ((event, OWN), (with_headers, ()), (with_headers, (("other", b""),))):
        (out,) = encoder.encode(given, topic="t", headers=headers)
        assert out.headers == OWN


def test_commands_keep_them(tmp_path: Path) -> None:
    """Lines, Parquet files and what is encoded and transcoded, from a file and back to it."""
    source = tmp_path / "in.jsonl"
    messages = [replace(m, headers=OWN if n % 2 else ()) for n, m in enumerate(shop.messages()[:40])]
    source.write_text("".join(json.dumps(message_line(m)) + "\n" for m in messages))
    schemas = ("--schemas", str(shop.SCHEMAS_FILE))

    def run(command: str, to: str, *arguments: str, of: Path = source) -> Path:
        out = tmp_path / to
        assert main([command, *arguments, "--in", str(of), "--out", str(out), *schemas]) == 0
        return out

    lines = run("decode", "rows.jsonl", "--format", "avro")
    with_headers = [line for line in map(json.loads, lines.read_text().splitlines()) if "headers" in line]
    assert {json.dumps(line["headers"]) for line in with_headers} == {json.dumps(message_line(messages[1])["headers"])}
    count = len(with_headers)
    wanted = [{"key": key, "value": value} for key, value in OWN]
    for name, table in (("rows.parquet", ()), ("typed.parquet", ("--table", "shop.customers"))):
        rows = pq.read_table(run("decode", name, "--format", "avro", *table)).to_pylist()
        assert [row["headers"] for row in rows if row["headers"]] == [wanted] * count, name
    for name, arguments, of in (
        ("again.jsonl", ("encode", "--to", "debezium"), lines),
        ("other.jsonl", ("transcode", "--from", "avro", "--to", "debezium"), source),
    ):
        out = run(arguments[0], name, *arguments[1:], "--on-lossy", "flag", of=of)
        made = [m for m in read_messages(out) if isinstance(m, Message)]
        assert [m.headers for m in made if m.headers] == [OWN] * count, name
