"""Defects that were found, each with the smallest case that showed it: exceptions other than WireError."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from tests.schemas.test_regressions import G, compact, decode, extra_field, good
from tests.support.each import each
from tests.support.golden import Golden
from tests.support.rows import Pair, Tables, change, column, field, table
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas, RegisteredSchema
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Column, Table, TableId, TableVersion
from ticdc_bridge.schemas.model.types import BY_NAME
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_one, transcode_one


def test_b1_datetime_default_current_timestamp_from_avro_without_ddl() -> None:
    """ValueError escapes and ends the whole job; the commonest default there is. TIMESTAMP: "CURRENT_TIMESTAMPZ"."""
    for name in ("defaults.ext1", "defaults_ok.ext1"):
        golden = Golden("avro", name)
        encoder = CodecConfig("debezium", golden.schemas, Options.of({"on_lossy": "flag"})).encoder()
        decoder = golden.side().decoder()
        for message in golden.messages():
            for written in transcode_one(decoder, encoder, message).out:
                assert b"CURRENT_TIMESTAMP" not in (written.value or b"")


@each(
    ("kind", "default"),
    [("date", "0000-00-00"), ("datetime", "0000-00-00 00:00:00"), ("datetime", "CURRENT_TIMESTAMP(3)")],
)
def test_b2_default_that_has_no_number_in_debezium(kind: str, default: str) -> None:
    columns = table(column("d", kind, scale=0, has_default=True, default=default))
    written = Pair("debezium").write(change(columns, {"d": None}))
    assert field(written, "d").get("default") == (0 if "CURRENT" in default else None)


@each("default", ["0000-00-00"])
def test_b2_such_a_default_in_a_definition_does_not_stop_reading(default: str) -> None:
    columns = table(column("d", "date", has_default=True, default=default))
    written = Pair("debezium", debezium_disable_schema=True).write(
        change(table(column("d", "date")), {"d": "2024-01-01"})
    )
    [event] = Pair("debezium", Tables(columns)).decoder.decode(written)
    assert event.after["d"] == "2024-01-01"  # type: ignore[union-attr,index]


def test_b3_schema_without_before_and_after() -> None:
    """StopIteration escapes."""
    message, whole = good()
    whole["schema"]["fields"] = [f for f in whole["schema"]["fields"] if f["field"] not in ("before", "after")]
    assert decode(replace(message, value=compact(whole))).error is not None


@each("depth", [300, 600, 900])
def test_b4_deep_schema_before_the_payload(depth: int) -> None:
    """RecursionError from json_exact.dump escapes."""
    message, whole = good()
    value = b'{"schema":' + b"[" * depth + b"]" * depth + b',"payload":' + compact(whole["payload"]) + b"}"
    assert decode(replace(message, value=value)).error is not None


@each("text", ["1e99999999999999999999", "1e-99999999999999999999"])
def test_b5_number_with_a_huge_exponent(text: str) -> None:
    """decimal.InvalidOperation (an ArithmeticError) escapes values.plain_decimal."""
    assert decode(extra_field(text, tidb_type="decimal")).error is not None


@each(("schema", "default"), [({"type": "float"}, 1e39), ({"tidb_type": "decimal"}, "@D")])
def test_b6_schema_default_that_is_no_value(schema: dict[str, Any], default: Any) -> None:
    """OverflowError / InvalidOperation from column_of_field's default."""
    message = extra_field("1", default=default, **schema)
    result = decode(replace(message, value=(message.value or b"").replace(b'"@D"', b"1e99999999999999999999")))
    assert result.error is None
    assert result.events[0].after["f"] == "1"


def test_b7_name_with_a_lone_surrogate() -> None:
    """UnicodeEncodeError escapes the Debezium encoder."""
    message, whole = good()
    whole["payload"]["source"]["db"] = "@@"
    bad = replace(message, value=compact(whole).replace(b'"@@"', b'"\\ud800"'))
    result = transcode_one(G.side().decoder(), Pair("debezium", on_lossy="flag").encoder, bad)
    assert result.error is not None
    assert "surrogate" in result.error.detail


def test_b8_key_of_another_table_with_definitions() -> None:
    """KeyError escapes AvroDecoder._event (found by the fuzz test too)."""
    golden = Golden("avro", "pk_composite.ext1")
    [value, *_] = (m for m in golden.messages() if m.value)
    other = TableVersion(1, Table(TableId("test", "pk_composite"), (Column("x", BY_NAME["int"]),)))
    rows = [*golden.schemas.all()]
    text = json.dumps(
        {
            "type": "record",
            "name": "k",
            "namespace": "default.d",
            "fields": [{"name": "nope", "type": {"type": "int", "connect.parameters": {"tidb_type": "INT"}}}],
        }
    )
    side = CodecConfig(
        "avro", FileSchemas([*rows, RegisteredSchema("k", 1, 9999, text)]), golden.options(), golden.definitions
    )
    assert other
    decode_one(side.decoder(), replace(value, key=b"\x00" + (9999).to_bytes(4, "big") + b"\x02"))


def _avro_field(kind: Any, **more: Any) -> str:
    return json.dumps(
        {"type": "record", "name": "t", "namespace": "default.d", "fields": [{"name": "a", "type": kind, **more}]}
    )


def _typed(primitive: str, tidb_type: str, **more: Any) -> dict[str, Any]:
    return {"type": primitive, "connect.parameters": {"tidb_type": tidb_type}, **more}


@each(
    "text",
    [
        _avro_field(["null"]),
        _avro_field(_typed("int", "DECIMAL")),
        _avro_field(_typed("int", "BIT")),
        _avro_field("test.Referenced"),
        _avro_field(_typed("float", "FLOAT"), default="x"),
        _avro_field(_typed("float", "FLOAT"), default=1e39),
        _avro_field(_typed("bytes", "DECIMAL", logicalType="decimal", precision="x")),
    ],
)
def test_b9_schemas_that_ticdc_would_not_register(text: str) -> None:
    """StopIteration, AttributeError, TypeError, struct.error, OverflowError escape; UNSUPPORTED_SCHEMA is promised."""
    side = CodecConfig("avro", FileSchemas([RegisteredSchema("t-value", 1, 1, text)]), Options())
    result = decode_one(side.decoder(), Message(None, b"\0\0\0\0\1\2\2\2", "t"))
    assert result.error is not None
    assert "test.Referenced" not in text or "has the type 'test.Referenced'" in result.error.detail


def test_b10_schema_text_nested_too_deep_in_a_file() -> None:
    """RecursionError from lookup._same."""
    schemas = FileSchemas([RegisteredSchema("s", 1, 1, "[" * 100_000)])
    result = decode_one(CodecConfig("avro", schemas, Options()).decoder(), Message(None, b"\0\0\0\0\1\2", "s"))
    assert result.error is not None
    assert result.error.code == "UNSUPPORTED_SCHEMA"
