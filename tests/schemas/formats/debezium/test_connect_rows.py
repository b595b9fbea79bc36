"""Rows that Kafka Connect's transforms and other converters changed: flattened rows, keys, null values."""

import base64
import json
import struct
from typing import Any

import pytest

from tests.schemas.formats.debezium import connect_messages as connect
from tests.schemas.formats.debezium.connect_messages import envelope, field, keyed, message, with_schema
from tests.support.table import check_rows
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.formats.debezium.mysql_connector.schema import adjusted_names
from ticdc_bridge.schemas.formats.format_table import FORMATS
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas, RegisteredSchema
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.event import DdlEvent, Message, RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.spark_jobs.jobs.verify import binlog_position
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message, transcode_message

# ---- Values as other settings and custom converters of the connector write them: exact, flagged, or refused by column.

LONG = "1234567890123456789012345678901234.5678"
Field = dict[str, Any]


def _read(sql_type: str, text: str, of: Field | None, **options: Any) -> Any:
    """(value, flags) of a column `v`, or the error's text. sql_type: "" without definition; text: the value's JSON."""
    body: Any = envelope({"id": 1, "v": "@"})
    body = with_schema(body, of) if of is not None else body
    ddl = f"CREATE TABLE orders (id INT PRIMARY KEY, v {sql_type})" if sql_type else ()
    [result] = connect.read([message(json.dumps(body).replace('"@"', text), {"id": 1})], ddl, **options)
    if result.error is not None:
        return connect.shown(result)
    flags = [flag.partition(":")[0] for flag in connect.flags(result) if flag.endswith(":v")]
    return connect.shown(result)[4]["v"], flags


def _decimal(scale: int, precision: int | None = None) -> Field:
    more = {} if precision is None else {"connect.decimal.precision": str(precision)}
    return field("v", "bytes", connect.DECIMAL, scale=str(scale), **more)


SOURCE_COLUMN = "__debezium.source.column."
DOUBLE, BOOLEAN, STRING = field("v", "double"), field("v", "boolean"), field("v", "string")
NUMBERS: list[tuple[str, str, Field | None, dict[str, Any], Any]] = [
    # SQL type, JSON, Connect field, options, what comes out: decimal.format=NUMERIC
    ("", "19.9", _decimal(2, 10), {}, ("19.90", [])),
    ("", LONG, _decimal(4, 38), {}, (LONG, [])),
    ("", LONG, _decimal(4), {}, (LONG, [])),
    ("", "1E+3", _decimal(2, 10), {}, ("1000.00", [])),
    ("", "1E-4", _decimal(4, 10), {}, ("0.0001", [])),
    ("", "0E-10", _decimal(10, 20), {}, ("0.0000000000", [])),
    ("", "-0.0001", _decimal(4, 38), {}, ("-0.0001", [])),
    ("", "7", _decimal(0, 30), {}, ("7", [])),
    ("DECIMAL(38,4)", LONG, _decimal(4, 38), {}, (LONG, [])),
    ("DECIMAL(38,4)", "1.5", _decimal(4, 38), {}, ("1.5000", [])),
    ("BIGINT UNSIGNED", "18446744073709551615", _decimal(0, 20), {}, ("18446744073709551615", [])),
    ("BIGINT UNSIGNED", '"18446744073709551615"', None, {}, ("18446744073709551615", [])),
    ("BIGINT UNSIGNED", '"AP//////////"', None, {}, ("18446744073709551615", [])),
    ("DECIMAL(38,4)", LONG, None, {}, (LONG, [])),
    ("DECIMAL(38,4)", LONG, None, {"decimal_handling_mode": "precise"}, (LONG, [])),
    ("DECIMAL(38,4)", "19.9", None, {}, ("19.9000", [])),
    ("DECIMAL(17,2)", "123456789012345.67", None, {}, ("123456789012345.67", [])),
    ("DECIMAL(18,0)", "123456789012345678", None, {}, ("123456789012345678", [])),
    ("DECIMAL(17,2)", "1.2345678901234567E14", None, {}, ("123456789012345.67", ["lossy_decimal"])),
    ("DECIMAL(38,20)", "1.2345678901234567", None, {}, ("1.2345678901234567", ["lossy_decimal"])),
    ("DECIMAL(38,20)", "1.2345678901234567", None, {"decimal_handling_mode": "precise"},
     ("1.23456789012345670000", [])),
    ("DECIMAL(38,4)", LONG, None, {"decimal_handling_mode": "double"}, (LONG, ["lossy_decimal"])),
    ("DECIMAL(38,4)", "1234567890123456.7", DOUBLE, {}, ("1234567890123456.7", ["lossy_decimal"])),
    # decimal.handling.mode=string, as Java's BigDecimal.toString writes small numbers
    *(
        ("DECIMAL(20,10)", f'"{text}"', of, options, (wanted, []))
        for text, wanted in (
            ("0E-10", "0.0000000000"), ("1.5E-9", "0.0000000015"), ("-1E-10", "-0.0000000001"), ("2.5", "2.5000000000"),
        )
        for of, options in ((STRING, {}), (None, {}), (None, {"decimal_handling_mode": "string"}))
    ),
    ("", '"1.5E-9"', field("v", "string", **{SOURCE_COLUMN + "type": "DECIMAL", SOURCE_COLUMN + "scale": "10"}), {},
     ("0.0000000015", [])),
    ("DECIMAL(20,10)", '"1E-11"', STRING, {}, "column 'v': 1E-11 has more than 10 fraction digits"),
    ("DECIMAL(20,10)", '"1E+3"', STRING, {}, "column 'v': '1E+3' is not a decimal number"),
    ("", '"MDk="', _decimal(-2, 10), {}, "column 'v' has the scale -2"),
    ("", "12345.678", _decimal(2, 10), {}, "column 'v': 12345.678 has more than 2 fraction digits"),
    ("", "123456789012", _decimal(2, 10), {}, "column 'v': 123456789012.00 does not fit DECIMAL(10,2)"),
    # TINYINT(1) and BIT(1) as boolean
    ("TINYINT(1)", "true", BOOLEAN, {}, ("1", ["boolean_number"])),
    ("TINYINT(1)", "false", BOOLEAN, {}, ("0", ["boolean_number"])),
    ("TINYINT(1) UNSIGNED", "true", None, {}, ("1", ["boolean_number"])),
    ("BOOLEAN", "true", BOOLEAN, {}, ("1", ["boolean_number"])),
    ("SMALLINT", "true", BOOLEAN, {}, ("1", ["boolean_number"])),
    ("BIT(1)", "true", BOOLEAN, {}, (b"\1", [])),
    ("BIT(1)", "false", None, {}, (b"\0", [])),
    *(("BIT(12)", "true", of, {}, "column 'v': true is no BIT(12)") for of in (BOOLEAN, None)),
    ("", "true", field("v", "bytes", "io.debezium.data.Bits", length="12"), {}, "column 'v': true is no BIT(12)"),
    ("", "true", BOOLEAN, {}, (b"\1", ["bit_or_tinyint"])),
    ("", "true", None, {}, ("true", ["untyped"])),
    ("", "false", field("v", "boolean", **{"__debezium.source.column.type": "TINYINT"}), {}, ("0", ["boolean_number"])),
    ("", "true", field("v", "boolean", **{"__debezium.source.column.type": "BIT"}), {}, (b"\1", [])),
]  # fmt: skip


def test_numbers_and_booleans() -> None:
    def check(row: tuple[str, str, Field | None, dict[str, Any], Any]) -> None:
        sql_type, text, of, options, wanted = row
        out = _read(sql_type, text, of, **options)
        assert wanted in out if isinstance(wanted, str) else out == wanted

    check_rows(NUMBERS, check)


def test_decimals_as_numbers_in_every_place() -> None:
    """The old row, the key, a flattened row and the key of a null value."""
    price = _decimal(2, 20) | {"field": "price"}
    ddl = "CREATE TABLE orders (price DECIMAL(20,2) PRIMARY KEY)"
    old, new = "123456789012345678.9", "876543210987654321.1"
    key_schema = {"schema": {"type": "struct", "fields": [price], "name": "srv.shop.orders.Key"}}
    images = [{"type": "struct", "fields": [price], "field": image} for image in ("before", "after")]
    update = json.dumps({"schema": {"fields": images}, "payload": envelope({"price": "@n"}, {"price": "@o"}, "u")})
    flat_fields = [price, *({"type": "string", "field": f"__{n}"} for n in ("op", "db", "table"))]
    flat = json.dumps({"schema": {"fields": flat_fields},
                       "payload": {"price": "@n", "__op": "c", "__db": "shop", "__table": "orders"}})  # fmt: skip
    null_key = json.dumps({**key_schema, "payload": {"price": "@o"}})
    bodies = [(text.replace('"@n"', new).replace('"@o"', old)) for text in (update, flat, null_key)]
    for definition in ((), ddl):
        both, flattened, deleted = connect.read(
            [message(bodies[0], bodies[2]), message(bodies[1]), message(None, bodies[2].replace(old, "5.5"))],
            definition,
        )
        assert connect.shown(both)[3:] == ({"price": "123456789012345678.90"}, {"price": "876543210987654321.10"})
        assert connect.shown(flattened)[4] == {"price": "876543210987654321.10"}
        assert connect.shown(deleted)[3] == {"price": "5.50"}
        assert not any("lossy" in flag for result in (both, flattened, deleted) for flag in connect.flags(result))


TEXTS: list[tuple[str, str, Any]] = [
    # SQL type, the converter's text, the value
    ("DATETIME", "2024-01-02 03:04:05", "2024-01-02 03:04:05"),
    ("DATETIME", "2024-01-02T03:04:05", "2024-01-02 03:04:05"),
    ("DATETIME", "2024-01-02T03:04", "2024-01-02 03:04:00"),
    ("DATETIME", "2024-01-02", "2024-01-02 00:00:00"),
    ("DATETIME", "2024-01-02T03:04:05Z", "2024-01-02 03:04:05"),
    ("DATETIME", "2024-01-02T03:04:05+00:00", "2024-01-02 03:04:05"),
    ("DATETIME(3)", "2024-01-02 03:04:05.1", "2024-01-02 03:04:05.100"),
    ("DATETIME(6)", "2024-01-02T03:04:05.123456000", "2024-01-02 03:04:05.123456"),
    ("DATETIME", "2024-01-02 03:04:05.000", "2024-01-02 03:04:05"),
    ("DATETIME", "0000-00-00 00:00:00", "0000-00-00 00:00:00"),
    ("TIMESTAMP NULL", "2024-01-02T03:04:05+08:00", "2024-01-01 19:04:05"),
    ("TIMESTAMP NULL", "2024-01-02T03:04:05+0800", "2024-01-01 19:04:05"),
    ("TIMESTAMP NULL", "2024-01-02 03:04:05 +08", "2024-01-01 19:04:05"),
    ("TIMESTAMP NULL", "2024-01-02 03:04:05 UTC", "2024-01-02 03:04:05"),
    ("TIMESTAMP NULL", "2024-01-02T03:04:05Z", "2024-01-02 03:04:05"),
    ("TIMESTAMP NULL", "2024-01-02T03:04:05+08:00[Asia/Shanghai]", "2024-01-01 19:04:05"),
    ("TIMESTAMP(3) NULL", "2024-01-02T03:04:05.12-05:30", "2024-01-02 08:34:05.120"),
    ("DATE", "2024-01-02", "2024-01-02"),
    ("DATE", "2024-01-02T00:00:00", "2024-01-02"),
    ("DATE", "2024-01-02Z", "2024-01-02"),
    ("DATE", "2024-00-00", "2024-00-00"),
    ("TIME", "03:04:05", "03:04:05"),
    ("TIME", "-838:59:59", "-838:59:59"),
    ("TIME(3)", "03:04:05.1", "03:04:05.100"),
    ("TIME", "03:04", "03:04:00"),
    ("YEAR", "2024", "2024"),
    ("YEAR", "0000", "0"),
    ("ENUM('a','b')", "b", "b"),
    ("JSON", '{"a": 1}', '{"a": 1}'),
]
BAD_TEXTS: list[tuple[str, str]] = [
    ("DATETIME", "2024-01-02T03:04:05+08:00"), ("DATETIME", "02/01/2024"), ("DATETIME", "2024-13-02 03:04:05"),
    ("DATETIME", "2024-01-02 25:04:05"), ("DATETIME", "2024-01-02 03:04:05.5"), ("DATETIME", "1704164645000"),
    ("DATETIME", ""), ("TIMESTAMP NULL", "yesterday"), ("TIMESTAMP NULL", "2024-01-02 03:04:05 CST"),
    ("DATE", "2024-01-02T03:04:05"), ("DATE", "2024-02-30"), ("TIME", "3pm"), ("TIME", "03:64:05"), ("YEAR", "24th"),
    ("TIME", "03:04:05+08:00"),
]  # fmt: skip


def test_dates_and_times_as_text() -> None:
    """With its schema and without, the definition says what the text is."""

    def check(row: tuple[str, str, Any]) -> None:
        for of in (STRING, None):
            value, flags = _read(row[0], json.dumps(row[1]), of, decimal_handling_mode="precise")
            assert value == row[2]
            assert flags == []

    check_rows(TEXTS, check)


def test_text_that_is_no_date_is_refused_by_its_column() -> None:
    def check(row: tuple[str, str]) -> None:
        for of in (STRING, None):
            assert "column 'v'" in _read(row[0], json.dumps(row[1]), of)

    check_rows(BAD_TEXTS, check)


def test_a_timestamp_without_zone_is_in_the_zone_that_was_given() -> None:
    text = '"2024-01-02 03:04:05"'
    for of in (STRING, None):
        assert _read("TIMESTAMP NULL", text, of, time_zone="+08:00") == ("2024-01-01 19:04:05", ["zone_assumed"])
        assert _read("TIMESTAMP NULL", text, of) == ("2024-01-02 03:04:05", ["zone_assumed"])
    zoned = field("v", "string", "io.debezium.time.ZonedTimestamp")
    assert "has no zone" in _read("TIMESTAMP NULL", text, zoned)
    assert _read("TIMESTAMP NULL", '"2024-01-02T03:04:05+01:00"', zoned) == ("2024-01-02 02:04:05", [])


def test_text_without_definition_stays_text() -> None:
    assert _read("", '"2024-01-02T03:04:05+08:00"', STRING) == ("2024-01-02T03:04:05+08:00", [])


def test_numbers_of_times_still_need_their_unit() -> None:
    assert "time_precision_mode" in _read("DATETIME", "1704164645000", None)
    options = {"time_precision_mode": "adaptive"}
    assert _read("DATETIME", "1704164645000", None, **options) == ("2024-01-02 03:04:05", [])
    assert _read("DATETIME", '"2024-01-02 03:04:05"', None, **options) == ("2024-01-02 03:04:05", [])


INT = field("v", "int32")
REASONS: list[tuple[str, str, Field | None, str]] = [
    # SQL type, JSON, Connect field, the reason: what is needed, and the value as the message has it
    ("", "true", INT, "column 'v': a number is needed, not true"),
    ("", '"5"', INT, "a number is needed, not \"5\""),
    ("", "1.5", INT, "'1.5' is not an integer"),
    ("", '{"a": 1}', INT, 'a number is needed, not {"a":1}'),
    ("", '{"a": 1}', field("v", "string", "io.debezium.data.Json"), 'a string is needed, not {"a":1}'),
    ("", "[1, 2]", STRING, "a string is needed, not [1,2]"),
    ("", "12345678901234567890.5", STRING, "a string is needed, not 12345678901234567890.5"),
    ("", "5", field("v", "string", "io.debezium.time.ZonedTimestamp"), "a string is needed, not 5"),
    ("", '"x"', field("v", "int32", "io.debezium.time.Date"), "a number is needed, not \"x\""),
    ("", "true", field("v", "int64", "io.debezium.time.MicroTimestamp"), "a number is needed, not true"),
    ("", '"a"', field("v", "double"), "a number is needed, not \"a\""),
    ("", "7", field("v", "bytes"), "a string is needed, not 7"),
    ("", '"*"', field("v", "bytes"), "'*' is not base64"),
    ("", '"abcde"', field("v", "bytes"), "'abcde' is not base64"),
    ("INT", '"x"', None, "a number is needed, not \"x\""),
    ("", '{"a": 1}', None, "an object or a list"),
    ("", "1", BOOLEAN, "true or false is needed, not 1"),
    ("TINYINT(1)", '"true"', BOOLEAN, "true or false is needed, not \"true\""),
    ("BIT(1)", "1", BOOLEAN, "true or false is needed, not 1"),
    *((sql_type, "1e400", None, "1e400 is beyond a double") for sql_type in ("FLOAT", "DOUBLE")),
    ("FLOAT", "1e39", None, "1e+39 is beyond a float32"),
]  # fmt: skip


def test_reasons_say_what_is_needed_and_what_is_there() -> None:
    def check(row: tuple[str, str, Field | None, str]) -> None:
        out = _read(row[0], row[1], row[2])
        assert isinstance(out, str), out
        assert row[3] in out
        assert "column 'v'" in out

    check_rows(REASONS, check)


# ---------------------------------------------------------------------------------- names
ODD = ("net-price", "1st", "价格", "order_id", "a.b")


def test_names_that_the_connector_adjusted() -> None:
    """field.name.adjustment.mode avro and avro_unicode; the definition's own names come out, in the key too."""
    ddl = "CREATE TABLE orders (`id-no` INT PRIMARY KEY, " + ", ".join(f"`{n}` VARCHAR(9)" for n in ODD) + ")"
    avro = ("id_no", "net_price", "_1st", "__", "order_id", "a_b")
    unicode = ("id_u002dno", "net_u002dprice", "_u0031st", "_u4ef7_u683c", "order_u005fid", "a_u002eb")
    mixed = ("id_u002dno", "net_u002dprice", "_1st", "_u4ef7_u683c", "order_id", "a_u002eb")
    for names in (avro, unicode, mixed, ("id-no", *ODD)):
        row = {name: 7 if name == names[0] else f"v{n}" for n, name in enumerate(names)}
        fields = [{**field(n, "int32" if n == names[0] else "string"), "optional": n != names[0]} for n in names]
        images = [{"type": "struct", "fields": fields, "field": image} for image in ("before", "after")]
        whole = {"schema": {"fields": images}, "payload": envelope(row)}
        flat = {**row, "__op": "c", "__db": "shop", "__table": "orders"}
        for body in (envelope(row), whole, flat):
            [result, deleted] = connect.read([message(body, keyed({names[0]: 7})), message(None, keyed({names[0]: 8}))],
                                             ddl)  # fmt: skip
            wanted = {"id-no": "7", **{name: f"v{n}" for n, name in enumerate(ODD, 1)}}
            assert connect.shown(result) == ("c", "shop.orders", ["id-no"], None, wanted)
            assert connect.shown(deleted) == ("d", "shop.orders", ["id-no"], {"id-no": "8"}, None)


def test_a_name_of_two_columns_is_not_guessed() -> None:
    ddl = "CREATE TABLE orders (id INT PRIMARY KEY, `a-b` VARCHAR(9), `a+b` VARCHAR(9))"
    body = with_schema(envelope({"id": 1, "a_b": "x"}), field("a_b", "string"))
    [result] = connect.read([message(body, {"id": 1})], ddl)
    assert connect.shown(result)[4] == {"id": "1", "a_b": "x"}


def test_adjusted_names_of_characters_beyond_16_bits() -> None:
    assert {"__x", "_ud83d_ude00x"} <= adjusted_names("😀x")
    assert adjusted_names("id") == frozenset()
    assert adjusted_names("") == frozenset()


def test_reasons_for_an_envelope_that_is_none() -> None:
    row = {"id": 1}
    rows = [
        ({"op": "c", "after": row, "source": {}}, "source has no db or no table"),
        ({"op": "c", "after": row, "source": {"db": "shop"}}, "source has no db or no table"),
        ({"op": "c", "after": row, "source": {"db": "shop", "table": None}}, "source has no db or no table"),
        (envelope(row, op="x"), 'op "x" is not c, u, d or r'),
        (envelope(row) | {"op": None}, "op null is not c, u, d or r"),
        (envelope([1]), "without its row"),
        (envelope({}), "without its row"),
        (envelope(None, {}, "d"), "without its row"),
        (envelope(row, row, "d"), "op 'd' with two rows"),
        (envelope(row, row, "c"), "op 'c' with two rows"),
        (envelope(row, row, "r"), "op 'r' with two rows"),
        (envelope(row, table=""), "source has no db or no table"),
    ]

    def check(case: tuple[Any, str]) -> None:
        [result] = connect.read([message(case[0])])
        assert case[1] in connect.shown(result)

    check_rows(rows, check)


def test_envelopes_of_stream_processors() -> None:
    """Flink CDC's and RisingWave's (no connector), of a table without database, Materialize's (sides alone)."""
    row, old = {"id": 1, "name": "a"}, {"id": 1, "name": "b"}
    source: dict[str, Any] = {"db": "shop", "table": "orders"}
    new, both, gone = (None, row), (old, row), (old, None)
    images = [("c", new), ("u", both), ("d", gone), ("c", ({}, row)), ("d", (old, {}))]

    def check(case: tuple[str, Any]) -> None:
        op, (before, after) = case
        bodies: list[tuple[dict[str, Any], dict[str, Any]]] = [
            ({"before": before, "after": after, "op": op, "source": source}, {}),
            ({"before": before, "after": after, "op": op, "source": {**source, "db": None}}, SHOP),
            ({"before": before, "after": after, "op": op, "source": {**source, "db": None}}, {"table": "shop.x"}),
            ({"before": before, "after": after, "op": op}, SHOP), ({"before": before, "after": after}, SHOP),
            ({"before": before, "after": after}, BY_TOPIC),
        ]  # fmt: skip
        for body, options in bodies:
            for format_ in ("debezium-mysql", "auto"):
                record = message(body, {"id": 1}, "srv.shop.orders")
                result = decode_message(connect.decoder(ORDERS, format_, **options), record)
                want = [None if not image else {k: str(v) for k, v in image.items()} for image in (before, after)]
                assert connect.shown(result) == (op, "shop.orders", ["id"], *want)
            if options:
                said = connect.shown(decode_message(connect.decoder(ORDERS, "auto"), record))
                assert "option table" in said
                assert "no format that is known" not in said

    check_rows(images, check)


def test_the_option_table_is_refused_where_it_has_no_effect() -> None:
    for format_ in ("avro", "open", "open-tiflow", "craft", "simple", "debezium", "debezium-avro"):
        for options in (SHOP, BY_TOPIC):
            with pytest.raises(SetupError, match="say of which table they are"):
                CodecConfig(format_, FileSchemas([]), Options.of(options))


def test_a_uuid_is_text_and_virtual_columns_are_flagged() -> None:
    text = "f47ac10b-58cc-4372-a567-0e02b2c3d479"
    body = with_schema(envelope({"id": 1, "v": text}), field("v", "string", "io.debezium.data.Uuid"))
    for kind in ("", "CHAR(36)", "VARCHAR(36)", "TEXT"):
        ddl = f"CREATE TABLE orders (id INT PRIMARY KEY, v {kind})" if kind else ()
        [result] = connect.read([message(body, {"id": 1})], ddl)
        assert connect.shown(result)[4] == {"id": "1", "v": text}
        assert connect.flags(result) == []
    unknown = with_schema(envelope({"id": 1, "v": text}), field("v", "string", "io.debezium.data.Ltree"))
    assert "leave the column out" in connect.shown(connect.read([message(unknown, {"id": 1})])[0])
    virtual = "CREATE TABLE orders (id INT PRIMARY KEY, v INT AS (id * 2))"
    [result] = connect.read([message(envelope({"id": 1, "v": 2}, {"id": 1, "v": 2}, "u"), {"id": 1})], virtual)
    assert (connect.shown(result)[4], connect.flags(result)) == ({"id": "1"}, ["virtual_left_out:v"])


PLACEHOLDER = "__debezium_unavailable_value"


def test_what_stands_for_values_that_were_not_sent() -> None:
    """Such a column is absent, and flagged: of text and bytes, in each handling mode, with schema or definition."""
    plain = base64.b64encode(PLACEHOLDER.encode()).decode()
    rows = [
        ("TEXT", PLACEHOLDER, None, {}), ("TEXT", PLACEHOLDER, STRING, {}), ("", PLACEHOLDER, STRING, {}),
        ("", PLACEHOLDER, None, {}), ("JSON", PLACEHOLDER, None, {}), ("JSON", PLACEHOLDER, STRING, {}),
        ("BLOB", plain, field("v", "bytes"), {}), ("BLOB", plain, None, {}), ("", plain, field("v", "bytes"), {}),
        ("BLOB", PLACEHOLDER.encode().hex(), None, {"binary_handling_mode": "hex"}),
        ("BLOB", base64.urlsafe_b64encode(PLACEHOLDER.encode()).decode(), STRING,
         {"binary_handling_mode": "base64-url-safe"}),
        ("TEXT", "-", None, {"unavailable_value_placeholder": "-"}),
        ("BLOB", "AP8=", field("v", "bytes"), {"unavailable_value_placeholder": "hex:00ff"}),
    ]  # fmt: skip

    def check(case: tuple[str, str, Field | None, dict[str, Any]]) -> None:
        sql_type, value, of, options = case
        ddl = f"CREATE TABLE orders (id INT PRIMARY KEY, v {sql_type})" if sql_type else ()
        for op in ("c", "u", "d", "flattened"):
            row, old = {"id": 1, "v": value}, op in ("u", "d")
            body: Any = envelope(row if op != "d" else None, row if old else None, op)
            body = {**row, **NAMES, "__op": "u"} if op == "flattened" else body
            body = with_schema(body, of) if of is not None and op != "flattened" else body
            [result] = connect.read([message(body, {"id": 1})], ddl, **options)
            images = connect.shown(result)[3:]
            assert [i for i in images if i is not None] == [{"id": "1"}] * (2 if op == "u" else 1)
            assert [f for f in connect.flags(result) if f.endswith(":v")] == ["value_not_sent:v"]
        other = {"unavailable_value_placeholder": "?"}
        if "unavailable_value_placeholder" not in options and sql_type != "JSON":
            [result] = connect.read(
                [message(with_schema(envelope(row), of) if of else envelope(row))], ddl, **options | other
            )
            assert "v" in connect.shown(result)[4]

    check_rows(rows, check)
    with pytest.raises(SetupError, match="hexadecimal digits"):
        connect.decoder(unavailable_value_placeholder="hex:0")


ORDERS = "CREATE TABLE orders (id INT PRIMARY KEY, name VARCHAR(20))"
PAIRS = "CREATE TABLE orders (a INT, b VARCHAR(9), n INT, PRIMARY KEY (a, b))"
NAMES = {"__db": "shop", "__table": "orders"}
SHOP = {"table": "shop.orders"}
BY_TOPIC = {"table_from_topic": True}
WITH_SHOP = {"__op": "c", **NAMES}
INSERT = ("c", "shop.orders", ["id"], None, {"id": "1", "name": "a"})
DELETE = ("d", "shop.orders", ["id"], {"id": "1"}, None)
ROW = {"id": 1, "name": "a"}
Case = tuple[str, list[Message], Any, dict[str, Any], list[Any]]

FLATTENED: list[Case] = [
    # name, messages, definitions, options, what comes of each message
    ("op in the row", [message({**ROW, **WITH_SHOP}, {"id": 1})], (), {}, [INSERT]),
    ("op in headers", [message(ROW, {"id": 1}, **WITH_SHOP)], (), {}, [INSERT]),
    ("headers in JSON",
     [message(ROW, {"id": 1}, __op='"c"', __db='{"schema":{},"payload":"shop"}', __table='"orders"')],
     (), {}, [INSERT]),
    ("headers of source", [message(ROW, {"id": 1}, __op="c", __source_db="shop", __source_table="orders")],
     (), {}, [INSERT]),
    ("fields of source", [message({**ROW, "__op": "c", "__source_db": "shop", "__source_table": "orders"}, {"id": 1})],
     (), {}, [INSERT]),
    ("table by option", [message(ROW, {"id": 1})], (), SHOP, [INSERT]),
    ("table by topic", [message(ROW, {"id": 1}, "srv.shop.orders")], (), BY_TOPIC, [INSERT]),
    ("db by option", [message({**ROW, "__op": "c", "__table": "orders"}, {"id": 1})],
     (), {"table": "shop.x"}, [INSERT]),
    ("another prefix", [message({**ROW, "_op": "c", "_db": "shop", "_table": "orders", "_ts_ms": 5}, {"id": 1})],
     (), {"add_fields_prefix": "_"}, [INSERT]),
    ("no prefix", [message({**ROW, "op": "c", "db": "shop", "table": "orders"}, {"id": 1})],
     (), {"add_fields_prefix": ""}, [INSERT]),
    ("another prefix of headers", [message(ROW, {"id": 1}, src_op="c", src_db="shop", src_table="orders")],
     (), {"add_headers_prefix": "src_"}, [INSERT]),
    ("the prefix of fields is not that of headers", [message(ROW, {"id": 1}, **WITH_SHOP)],
     (), {"add_fields_prefix": "_"}, [INSERT]),
    ("deleted, rewritten", [message({**ROW, "__deleted": "true", **NAMES}, {"id": 1})], (), {},
     [("d", "shop.orders", ["id"], {"id": "1", "name": "a"}, None)]),
    ("deleted is a boolean", [message({**ROW, "__deleted": True, **NAMES}, {"id": 1})], (), {},
     [("d", "shop.orders", ["id"], {"id": "1", "name": "a"}, None)]),
    ("not deleted", [message({**ROW, "__deleted": "false", **NAMES}, {"id": 1})], (), {}, [INSERT]),
    ("own columns without definition", [message({**ROW, "__v": 7, "__origin": "x", **WITH_SHOP}, {"id": 1})], (), {},
     [("c", "shop.orders", ["id"], None, {**INSERT[4], "__v": "7", "__origin": "x"})]),
    ("own column called as the transform's",
     [message({"id": 1, "__source_ts_ms": 5, "__v": 7, **WITH_SHOP}, {"id": 1})],
     "CREATE TABLE orders (id INT PRIMARY KEY, __source_ts_ms BIGINT, __v INT)", {},
     [("c", "shop.orders", ["id"], None, {"id": "1", "__source_ts_ms": "5", "__v": "7"})]),
    ("own __deleted", [message({"id": 1, "__deleted": 1}, {"id": 1}, **WITH_SHOP)],
     "CREATE TABLE orders (id INT PRIMARY KEY, __deleted TINYINT)", {},
     [("c", "shop.orders", ["id"], None, {"id": "1", "__deleted": "1"})]),
    ("own __op", [message({"id": 1, "__op": "+"}, {"id": 1})],
     "CREATE TABLE orders (id INT PRIMARY KEY, __op VARCHAR(3))", SHOP,
     [("c", "shop.orders", ["id"], None, {"id": "1", "__op": "+"})]),
    ("own key", [message({"__id": 3, "name": "a", **WITH_SHOP}, {"__id": 3})],
     "CREATE TABLE orders (__id INT PRIMARY KEY, name VARCHAR(9))", {},
     [("c", "shop.orders", ["__id"], None, {"__id": "3", "name": "a"})]),
    ("columns of an envelope", [message({"id": 1, "op": "x", "source": "web", **WITH_SHOP}, {"id": 1})], (), {},
     [("c", "shop.orders", ["id"], None, {"id": "1", "op": "x", "source": "web"})]),
    ("an outbox is no notification",
     [message({"id": 1, "aggregate_type": "a", "type": "b", **WITH_SHOP}, {"id": 1})], (), {},
     [("c", "shop.orders", ["id"], None, {"id": "1", "aggregate_type": "a", "type": "b"})]),
]  # fmt: skip


def _check(case: Case) -> None:
    _, messages, ddl, options, wanted = case
    results = connect.read(messages, ddl, **options)
    for result, want in zip(results, wanted, strict=True):
        if isinstance(want, str):
            assert want in connect.shown(result)
        else:
            assert connect.shown(result) == want


def test_flattened_rows() -> None:
    check_rows(FLATTENED, _check, lambda case: case[0])


def test_a_flattened_row_without_operation_is_flagged() -> None:
    [result] = connect.read([message(ROW, {"id": 1})], ORDERS, **SHOP)
    assert connect.flags(result) == ["op_unknown"]
    [said] = connect.read([message({**ROW, **WITH_SHOP}, {"id": 1})], ORDERS)
    assert connect.flags(said) == []


def test_what_the_transform_added_is_kept_beside_the_row() -> None:
    [result] = connect.read([message({**ROW, **WITH_SHOP, "__source_ts_ms": 5}, {"id": 1})])
    [event] = result.events
    source = {"db": "shop", "table": "orders", "ts_ms": 5}
    assert event.extra == {"flattened": {**WITH_SHOP, "__source_ts_ms": 5}, "source": source}


def test_a_flattened_rows_time_and_binlog_position_order_it() -> None:
    body = {**ROW, **WITH_SHOP, "__source_ts_ms": 1764000000000, "__file": "b.000007", "__source_pos": 40, "__ts_ms": 9}
    [result] = connect.read([message(body, {"id": 1})], ORDERS)
    [event] = result.events
    assert isinstance(event, RowChange)
    position = binlog_position(event)
    assert position is not None
    assert position[:3] == (7, 40, 0)
    for to in ("open", "debezium-mysql"):
        encoder = FORMATS[to].encoder(Context(FileSchemas([])))
        [written] = transcode_message(connect.decoder(ORDERS), encoder, message(body, {"id": 1})).out
        [again] = connect.decoder(ORDERS, to).decode(written)
        assert again.commit_ts == (1764000000000 << 18) + 40


REFUSED: list[Case] = [
    ("no table", [message({**ROW, "__op": "c"}, {"id": 1})], (), {}, ["nothing says of which table"]),
    ("no db", [message({**ROW, "__op": "c", "__table": "orders"}, {"id": 1})], (), {}, ["nothing says of which table"]),
    ("nothing", [message(ROW, {"id": 1})], (), {}, ["set table or table_from_topic"]),
    ("a topic of another form", [message(ROW, {"id": 1}, "orders")], (), BY_TOPIC, ["set table or table_from_topic"]),
    ("no columns", [message({"__op": "c", **NAMES}, {"id": 1})], (), {}, ["without its row"]),
    ("no operation of a row", [message({**ROW, **NAMES, "__op": "x"}, {"id": 1})], (), {}, ['"x" of a flattened row']),
]  # fmt: skip


def test_flattened_rows_of_nobody_are_refused() -> None:
    check_rows(REFUSED, _check, lambda case: case[0])


# ---------------------------------------------------------------------------------- null values
NULL = message(None, {"id": 1})
NULL_AGAIN = message(None, {"id": 1})
FLAT = message({**ROW, **WITH_SHOP}, {"id": 1})
FLAT_2 = message({"id": 2, "name": "b", **WITH_SHOP}, {"id": 2})
FULL = message(envelope(ROW), {"id": 1})
FULL_DELETE = message(envelope(None, ROW, "d"), {"id": 1})
WHOLE_DELETE = ("d", "shop.orders", ["id"], {"id": "1", "name": "a"}, None)
ITEM = {"id": 1, "__op": "c", "__db": "shop", "__table": "items"}
KEYLESS = message(envelope(None, ROW, "d"))
SKIPPED = ["tombstone"]
NULLS: list[Case] = [
    ("after a flattened row", [FLAT, NULL], (), {}, [INSERT, DELETE]),
    ("of another key", [FLAT_2, NULL], (), {}, [("c", "shop.orders", ["id"], None, {"id": "2", "name": "b"}), DELETE]),
    ("twice", [FLAT, NULL, NULL_AGAIN], (), {}, [INSERT, DELETE, SKIPPED]),
    ("deleted, inserted, deleted", [FLAT, NULL, FLAT, NULL], (), {}, [INSERT, DELETE, INSERT, DELETE]),
    ("after a whole delete", [FULL, FULL_DELETE, NULL], (), {}, [INSERT, WHOLE_DELETE, SKIPPED]),
    ("after a rewritten delete",
     [message({**ROW, "__deleted": "true", **NAMES}, {"id": 1}), message(None, {"id": 1}, __op="d")], (), {},
     [WHOLE_DELETE, SKIPPED]),
    ("of a topic whose delete was compacted", [FULL, NULL], (), {}, [INSERT, DELETE]),
    ("a whole delete of another key", [FULL_DELETE, message(None, {"id": 2})], (), {},
     [WHOLE_DELETE, ("d", "shop.orders", ["id"], {"id": "2"}, None)]),
    ("of another topic", [FULL_DELETE, message(None, {"id": 1}, "items")], (), {}, [WHOLE_DELETE, "of which table"]),
    ("by headers", [message(None, {"id": 1}, __op="d", **NAMES)], (), {}, [DELETE]),
    ("by the key's schema", [message(None, keyed({"id": 1}))], (), {}, [DELETE]),
    ("by the router's name in the key",
     [message(None, keyed({"id": 1, "__dbz__physicalTableIdentifier": "srv.shop.orders"}, "srv.shop.all.Key"))],
     (), {}, [DELETE]),
    ("by option", [NULL], (), SHOP, [DELETE]),
    ("by topic", [message(None, {"id": 1}, "srv.shop.orders")], (), BY_TOPIC, [DELETE]),
    ("typed by the definition", [message(None, {"b": "x", "a": 1})], PAIRS, SHOP,
     [("d", "shop.orders", ["b", "a"], {"b": "x", "a": "1"}, None)]),
    ("more in the key", [message(None, {"id": 1, "shard": "a"})], ORDERS, SHOP, [DELETE]),
    ("a bare number as key", [message(None, "1")], ORDERS, SHOP, [DELETE]),
    ("a JSON text as key", [message(None, '"1"')], "CREATE TABLE orders (id VARCHAR(9) PRIMARY KEY)", SHOP, [DELETE]),
    ("plain text as key", [message(None, "order-4")], "CREATE TABLE orders (id VARCHAR(9) PRIMARY KEY)", SHOP,
     [("d", "shop.orders", ["id"], {"id": "order-4"}, None)]),
    ("a bare number in a schema", [message(None, {"schema": {"type": "int32"}, "payload": 1})], ORDERS, SHOP, [DELETE]),
    ("a document of null", [message('{"schema":null,"payload":null}', {"id": 1})], (), SHOP, [DELETE]),
    ("null in JSON", [message("null", {"id": 1})], (), SHOP, [DELETE]),
    ("a bare number, no definition", [message(None, "1")], (), SHOP, ["EMPTY_RECORD"]),
    ("a bare number, two key columns", [message(None, "1")], PAIRS, SHOP, ["EMPTY_RECORD"]),
    ("a list as key", [message(None, "[1]")], ORDERS, SHOP, ["EMPTY_RECORD"]),
    ("of no known table", [NULL], (), {}, ["EMPTY_RECORD"]),
    ("of two tables", [FLAT, message(ITEM, {"id": 1}), NULL], (), {},
     [INSERT, ("c", "shop.items", ["id"], None, {"id": "1"}), "EMPTY_RECORD"]),
    ("without key, after a delete", [KEYLESS, message(None)], (), {},
     [("d", "shop.orders", [], {"id": "1", "name": "a"}, None), SKIPPED]),
    ("without key, flattened", [message({**ROW, **WITH_SHOP}), message(None)], (), {},
     [("c", "shop.orders", [], None, {"id": "1", "name": "a"}), "EMPTY_RECORD"]),
    ("a key that is no row's", [message(None, {"id": "x"})], ORDERS, SHOP, ["MALFORMED"]),
]  # fmt: skip


def test_null_values() -> None:
    check_rows(NULLS, _check, lambda case: case[0])


def test_a_null_value_is_a_delete_of_the_key_alone() -> None:
    """Its flags say where the table is from; without a schema, that the value has no type."""
    _, result = connect.read([FLAT, NULL])
    [event] = result.events
    assert isinstance(event, RowChange)
    assert event.key_only
    assert event.extra == {"tombstone": True}
    assert event.flags == ["untyped:id", "table_by_topic"]
    [typed] = connect.read([message(None, keyed({"id": 1}))], ORDERS)
    assert connect.flags(typed) == []


def test_names_in_a_keys_schema_are_those_of_the_definition() -> None:
    """The connector sanitises them for Avro."""
    [result] = connect.read([message(None, keyed({"id": 1}, "srv.shop.net_orders.Key"))],
                            "CREATE TABLE `net-orders` (id INT PRIMARY KEY, n INT)")  # fmt: skip
    assert connect.shown(result) == ("d", "shop.net-orders", ["id"], {"id": "1"}, None)


def test_a_null_value_reaches_every_target_as_a_delete() -> None:
    for to in ("open", "craft", "debezium", "debezium-mysql"):
        options = Options.of({"on_lossy": "flag"})
        encoder = FORMATS[to].encoder(Context(FileSchemas([]), None, options))
        reader = connect.decoder(ORDERS)
        results = [transcode_message(reader, encoder, entry) for entry in (FLAT, NULL)]
        assert [r.error for r in results] == [None, None], to
        back = connect.decoder(ORDERS, to)
        [event] = back.decode(results[1].out[0])
        assert isinstance(event, RowChange)
        assert event.op == "d"
        assert (event.before or {})["id"] == "1"


def test_auto_reads_null_values_as_the_topics_format() -> None:
    results = connect.read([KEYLESS, message(None)], format_="auto")
    assert [connect.shown(r)[0] for r in results] == ["d", "tombstone"]
    flat = connect.read([FLAT, NULL, message(ROW, {"id": 1}, "others", **WITH_SHOP)], format_="auto")
    assert [connect.shown(r) for r in flat] == [INSERT, DELETE, INSERT]
    ticdc = envelope(ROW, connector="TiCDC", commit_ts=5)
    [_, refused] = connect.read([message({"payload": ticdc}, {"payload": {"id": 1}}), NULL], format_="auto")
    assert "EMPTY_RECORD" in connect.shown(refused)
    assert "TiCDC" in connect.shown(refused)


def test_auto_reads_flattened_rows_by_headers_and_options() -> None:
    bare = message(ROW, {"id": 1}, "srv.shop.orders")
    for options in (SHOP, BY_TOPIC):
        results = connect.read([bare, message(None, {"id": 1}, "srv.shop.orders")], format_="auto", **options)
        assert [connect.shown(r) for r in results] == [INSERT, DELETE]
    prefixed = message(ROW, {"id": 1}, src_op="c", src_db="shop", src_table="orders")
    [result] = connect.read([prefixed], format_="auto", add_headers_prefix="src_")
    assert connect.shown(result) == INSERT
    [unknown] = connect.read([bare], format_="auto")
    assert "UNKNOWN_FORMAT" in connect.shown(unknown)
    # columns of the table that are called as fields of other messages
    for own in ({"payload": "{}"}, {"type": "INSERT", "data": "x"}, {"op": "x", "after": "y"}, {"before": None}):
        for format_ in ("auto", "debezium-mysql"):
            [row] = connect.read([message({"id": 1, **own, **WITH_SHOP}, {"id": 1})], format_=format_)
            assert connect.shown(row)[4] == {"id": "1", **own}


def _avro_field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def test_flattened_rows_in_avro() -> None:
    """The row, its marks and a null value by the key's schema; also with names that Avro does not take."""
    texts = ["null", "string"]
    marks = [_avro_field(f"__{name}", texts) for name in ("op", "db", "table", "v")]
    row = {"type": "record", "name": "Value", "namespace": "srv.shop.orders",
           "fields": [_avro_field("id", "int"), _avro_field("net_price", texts), *marks]}  # fmt: skip
    key = {"type": "record", "name": "Key", "namespace": "srv.shop.orders", "fields": [_avro_field("id", "int")],
           "connect.name": "srv.shop.orders.Key"}  # fmt: skip
    schemas = FileSchemas([RegisteredSchema("k", 1, 1, json.dumps(key)), RegisteredSchema("v", 1, 2, json.dumps(row))])
    tables = connect.definitions("CREATE TABLE orders (id INT PRIMARY KEY, `net-price` VARCHAR(9), __v VARCHAR(9))")
    body = b"\0\0\0\0\x02\x02" + b"".join(b"\x02" + bytes([2 * len(t)]) + t for t in
                                           (b"5.5", b"c", b"shop", b"orders", b"x"))  # fmt: skip
    for known in (tables, None):
        reader = FORMATS["debezium-mysql"].decoder(Context(schemas, known))
        [inserted] = reader.decode(message(body, b"\0\0\0\0\x01\x02"))
        [deleted] = reader.decode(message(None, b"\0\0\0\0\x01\x02"))
        assert isinstance(inserted, RowChange)
        assert isinstance(deleted, RowChange)
        price = "net-price" if known else "net_price"
        assert (inserted.op, inserted.schema_id) == ("c", 2)
        assert inserted.after == {"id": "1", price: "5.5", "__v": "x"}
        assert (deleted.op, str(deleted.table.id), deleted.before) == ("d", "shop.orders", {"id": "1"})


# ---------------------------------------------------------------------------------- keys
KEYS: list[tuple[str, Any]] = [
    ("number", "1"), ("text", "order-1"), ("JSON text", '"1"'), ("list", "[1]"), ("Struct", "Struct{id=1}"),
    ("Java map", "{id=1}"), ("number in a schema", {"schema": {"type": "int32", "optional": False}, "payload": 1}),
    ("text in a schema", {"schema": {"type": "string", "optional": False}, "payload": "1"}), ("true", "true"),
    ("UUID", "123e4567-e89b-12d3-a456-426655440000"), ("empty", b""), ("bytes", b"\xff\xfe\x01"),
    ("an integer of Connect's converter", struct.pack(">i", 1)), ("a long", struct.pack(">q", 7)),
    ("a short", struct.pack(">h", 7)), ("framed Avro of an unknown id", b"\0\0\0\0\x2a\x02\x03abc"),
    ("an object of other names", {"uuid": "x"}), ("an empty object", {}), ("null in JSON", "null"),
    ("text in brackets", "[order 1]"), ("a broken text", '"1'),
]  # fmt: skip


def test_a_key_of_another_converter_is_no_error() -> None:
    """The definition names the key's columns; without it they are not known, which a flag says."""

    def check(row: tuple[str, Any]) -> None:
        for body in (envelope(ROW), with_schema(envelope(ROW), connect.field("name", "string"))):
            [known] = connect.read([message(body, row[1])], ORDERS)
            assert connect.shown(known) == INSERT
            assert "key_unknown" not in connect.flags(known)
            [unknown] = connect.read([message(body, row[1])])
            assert connect.shown(unknown) == ("c", "shop.orders", [], None, INSERT[4])
            assert "key_unknown" in connect.flags(unknown)

    check_rows(KEYS, check, lambda row: row[0])


def test_no_key_at_all() -> None:
    [known] = connect.read([message(envelope(ROW))], ORDERS)
    assert connect.shown(known) == INSERT
    [keyless] = connect.read([message(envelope(ROW))])
    assert connect.shown(keyless)[2] == []
    assert "key_unknown" not in connect.flags(keyless)


def test_a_routers_field_in_the_key_is_left_out() -> None:
    key = {"id": 1, "__dbz__physicalTableIdentifier": "srv.shop.orders"}
    for form in (key, keyed(key)):
        [result] = connect.read([message(envelope(ROW), form)])
        assert connect.shown(result) == INSERT
        assert "key_unknown" not in connect.flags(result)
    [other] = connect.read([message(envelope(ROW), {"id": 1, "shard": "a"})])
    assert connect.shown(other) == INSERT
    assert "key_unknown" in connect.flags(other)
    [defined] = connect.read([message(envelope(ROW), {"shard": "a"})], ORDERS)
    assert connect.shown(defined) == INSERT


def test_a_damaged_key_is_an_error() -> None:
    for key in (b'{"id":', b"{", b'{"schema":{},"payload":{"id":1}', b'{"id":1}x'):
        [result] = connect.read([message(envelope(ROW), key)], ORDERS)
        assert result.error is not None


def test_a_key_in_avro_with_a_row_in_json() -> None:
    text = '{"type":"record","name":"Key","namespace":"srv.shop.orders","fields":[{"name":"id","type":"int"}],' \
           '"connect.name":"srv.shop.orders.Key"}'  # fmt: skip
    single = '"int"'
    schemas = FileSchemas([RegisteredSchema("k", 1, 1, text), RegisteredSchema("s", 1, 2, single)])
    reader = FORMATS["debezium-mysql"].decoder(Context(schemas))
    [event] = reader.decode(message(envelope(ROW), b"\0\0\0\0\x01\x02"))
    assert isinstance(event, RowChange)
    assert event.key == ("id",)
    [bare] = reader.decode(message(envelope(ROW), b"\0\0\0\0\x02\x02"))
    assert isinstance(bare, RowChange)
    assert bare.key == ()
    [deleted] = reader.decode(message(None, b"\0\0\0\0\x01\x04"))
    assert isinstance(deleted, RowChange)
    assert (deleted.op, str(deleted.table.id), deleted.before) == ("d", "shop.orders", {"id": "2"})


# ---------------------------------------------------------------------------------- statements without commit_ts
def test_a_statement_gets_the_time_that_rows_get() -> None:
    """TRUNCATE and schema changes of the connector have no commit_ts; formats with DDL carry them all the same."""
    truncate = message(envelope(None, op="t", pos=200))
    change = {"source": {**connect.SOURCE, "pos": 7}, "databaseName": "shop", "tableChanges": [],
              "ddl": "ALTER TABLE orders ADD c INT"}  # fmt: skip
    for to in ("open", "open-tiflow", "craft", "debezium"):
        for entry, pos in ((truncate, 200), (message(change), 7)):
            encoder = FORMATS[to].encoder(Context(FileSchemas([])))
            result = transcode_message(connect.decoder(), encoder, entry)
            assert result.error is None
            assert result.skipped == [], to
            [event] = connect.decoder((), to).decode(result.out[0])
            assert isinstance(event, DdlEvent)
            assert (event.db, event.table if pos == 200 else "orders") == ("shop", "orders")
            assert event.commit_ts == (1764000000000 << 18) + pos


def test_what_a_target_has_no_place_for_is_counted_by_its_kind() -> None:
    encoder = FORMATS["debezium-mysql"].encoder(Context(FileSchemas([])))
    result = transcode_message(connect.decoder(), encoder, message(envelope(None, op="t")))
    assert result.skipped == ["truncate"]
    timeless = Message(None, json.dumps(envelope(None, op="t", ts_ms=None)).encode())
    result = transcode_message(connect.decoder(), FORMATS["open"].encoder(Context(FileSchemas([]))), timeless)
    assert result.skipped == ["truncate"]
    assert decode_message(connect.decoder(), timeless).error is None
