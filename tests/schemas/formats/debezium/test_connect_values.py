"""Values as other settings and custom converters of the connector write them: exact, flagged, or refused by column."""

from __future__ import annotations

import json
from typing import Any

from tests.schemas.formats.debezium import connect_messages as connect
from tests.schemas.formats.debezium.connect_messages import envelope, field, keyed, message, with_schema
from tests.support.table import check_rows
from ticdc_bridge.schemas.formats.debezium.mysql_connector.schema import adjusted_names

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
    sides = [{"type": "struct", "fields": [price], "field": side} for side in ("before", "after")]
    update = json.dumps({"schema": {"fields": sides}, "payload": envelope({"price": "@n"}, {"price": "@o"}, "u")})
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


def test_a_timestamp_without_zone_is_in_the_zone_that_was_told() -> None:
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
        sides = [{"type": "struct", "fields": fields, "field": side} for side in ("before", "after")]
        whole = {"schema": {"fields": sides}, "payload": envelope(row)}
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
        ({"op": "c", "after": row, "source": {"db": "shop", "table": None}}, "table is no string"),
        (envelope(row, op="x"), 'op "x" is not c, u, d or r'),
        (envelope(row) | {"op": None}, "op null is not c, u, d or r"),
        (envelope([1]), "op 'c' without its row"),
        (envelope({}), "a row without columns"),
        (envelope(None, {}, "d"), "a row without columns"),
        (envelope(row, table=""), "an empty db or table"),
    ]

    def check(case: tuple[Any, str]) -> None:
        [result] = connect.read([message(case[0])])
        assert case[1] in connect.shown(result)

    check_rows(rows, check)
