"""Canal-JSON as others than TiCDC write it: small variations that are read, and records that are named."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from tests.support.table import check_rows
from ticdc_bridge.schemas.codec import compression
from ticdc_bridge.schemas.ddl.executor.versions import DdlText, versions
from ticdc_bridge.schemas.ddl.parser.lexer import WIRE
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.formats.canal_json import CanalJsonDecoder
from ticdc_bridge.schemas.formats.simple.decoder import SimpleDecoder
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas
from ticdc_bridge.schemas.inputs.table_definitions import TableDefinitions
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import DdlEvent, Event, Message, RowChange
from ticdc_bridge.schemas.model.ports import TableSource

_GOOD: dict[str, Any] = {
    "id": 0, "database": "shop", "table": "orders", "pkNames": ["id"], "isDdl": False, "type": "INSERT",
    "es": 1764000000000, "ts": 1764000000123, "sql": "", "sqlType": {"id": 4, "x": 12},
    "mysqlType": {"id": "int", "x": "varchar"}, "data": [{"id": "1", "x": "a"}], "old": None,
    "_tidb": {"commitTs": 462413824000000001},
}  # fmt: skip
_LEFT_OUT = object()


def _decode(change: dict[str, Any], tables: TableSource | None = None) -> list[Event]:
    whole = {name: value for name, value in {**_GOOD, **change}.items() if value is not _LEFT_OUT}
    decoder = CanalJsonDecoder(Context(FileSchemas([]), tables))
    text = json.dumps(whole, ensure_ascii=False)
    return decoder.decode(Message(None, text.encode("utf-8", "surrogateescape")))


def _typed(type_: str, value: Any) -> dict[str, Any]:
    return {"mysqlType": {"id": "INT", "x": type_}, "data": [{"id": 1, "x": value}]}


class _Row(NamedTuple):
    what: str
    change: dict[str, Any]
    value: str | bytes | None = "a"
    flags: tuple[str, ...] = ()


_ROWS = (
    _Row("no old", {"old": _LEFT_OUT}),
    _Row("no id, ts, sql and isDdl", dict.fromkeys(("id", "ts", "sql", "isDdl"), _LEFT_OUT)),
    _Row("no pkNames", {"pkNames": _LEFT_OUT}),
    _Row("pkNames null", {"pkNames": None}),
    _Row("no sqlType", {"sqlType": _LEFT_OUT}),
    _Row("no es", {"es": _LEFT_OUT}),
    _Row("no extension", {"_tidb": _LEFT_OUT}),
    _Row("no extension, no es", {"_tidb": _LEFT_OUT, "es": None}),
    _Row("other fields", {"gtid": "", "xid": 5, "sqlTypes": [1], "_source": {"a": None}}),
    _Row("type in small letters", {"type": "insert"}),
    _Row("capitals", _typed("VARCHAR(20)", "a")),
    _Row("character set", _typed("varchar(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "a")),
    _Row("text with a charset", _typed("TEXT charset latin1", "a")),
    _Row("numeric", _typed("numeric(5,1)", "2.5"), "2.5"),
    _Row("numeric with a blank", _typed("NUMERIC(5, 1)", "2.5"), "2.5"),
    _Row("dec", _typed("dec(10)", "7"), "7"),
    _Row("decimal unsigned zerofill", _typed("decimal(6,2) unsigned zerofill", "12.50"), "12.50"),
    _Row("integer", _typed("INTEGER(11)", "-3"), "-3"),
    _Row("zerofill", _typed("int(10) unsigned zerofill", "4294967295"), "4294967295"),
    _Row("zerofill alone is unsigned", _typed("int(10) zerofill", "4294967295"), "4294967295"),
    _Row("bigint unsigned", _typed("BIGINT(20) UNSIGNED", "18446744073709551615"), "18446744073709551615"),
    _Row("bool", _typed("bool", "1"), "1"),
    _Row("boolean of JSON", _typed("tinyint(1)", True), "1"),
    _Row("double precision", _typed("DOUBLE PRECISION", "1.5"), "1.5"),
    _Row("real", _typed("real", "1.5"), "1.5"),
    _Row("number of JSON", _typed("bigint", 9007199254740993), "9007199254740993"),
    _Row("decimal as a number of JSON", _typed("decimal(20,2)", 1.25), "1.25"),
    _Row("decimal without its zeros", _typed("decimal(10,2)", "1.5"), "1.50"),
    _Row("decimal with an exponent", _typed("decimal(38,2)", 1e22), "10000000000000000000000.00"),
    _Row("bit as a boolean", _typed("bit(1)", True), b"\x01"),
    _Row("JSON's own number", _typed("json", 5), "5"),
    _Row("JSON's own boolean", _typed("json", False), "false"),
    _Row("datetime with T", _typed("datetime(3)", "2025-11-24T16:00:00.123"), "2025-11-24 16:00:00.123"),
    _Row("date with 0 h", _typed("date", "2025-11-24 00:00:00.0"), "2025-11-24"),
    _Row("zero date", _typed("date", "0000-00-00"), "0000-00-00"),
    _Row("negative time", _typed("time(1)", "-838:59:59.0"), "-838:59:59.0"),
    _Row("null", _typed("varchar(20)", None), None),
    _Row("enum by number", _typed("ENUM('a','B')", "2"), "B"),
    _Row("enum by name", _typed("enum('a','B')", "B"), "B"),
    _Row("set by names", _typed("SET('a','b')", "a,b"), "a,b"),
    _Row("enum by name, no list", _typed("enum", "B"), "B"),
    *(_Row(f"{t} that is not UTF-8", _typed(t, "a\udcffb"), b"a\xffb") for t in ("enum", "set", "text", "varchar(9)")),
    _Row("datetime", _typed("DATETIME(3)", "2025-11-24 16:00:00.123"), "2025-11-24 16:00:00.123"),
    _Row("datetime without its zeros", _typed("datetime(3)", "2025-11-24 16:00:00.1"), "2025-11-24 16:00:00.100"),
    _Row("timestamp without a fraction", _typed("timestamp(6)", "2025-11-24 16:00:00"), "2025-11-24 16:00:00.000000"),
    _Row("datetime with a zero too many", _typed("datetime", "2025-11-24 16:00:00.0"), "2025-11-24 16:00:00.0"),
    _Row("time without its zeros", _typed("time(2)", "-1:02:03.5"), "-01:02:03.50"),
    _Row("time of three digits", _typed("time(1)", "123:02:03"), "123:02:03.0"),
    _Row("partial date", _typed("datetime(1)", "2025-00-00 00:00:00"), "2025-00-00 00:00:00.0"),
    _Row("year 0000", _typed("year(4)", "0000"), "0"),
    _Row("binary without its zeros", _typed("BINARY(4)", "a"), b"a\0\0\0"),
    _Row("varbinary", _typed("varbinary(4)", "a"), b"a"),
    _Row("no type for a column", _typed("", "2"), "2", ("untyped:x",)),
    _Row("enum by a name of digits", _typed("enum('10','20')", "20"), "20"),
    _Row("enum by a name with a zero in front", _typed("enum('01','02')", "02"), "02"),
    _Row("enum by number, before any name", _typed("enum('2','1')", "1"), "2"),
    _Row("set by a name of digits", _typed("set('8','9')", "9"), "9"),
    _Row("enum by a name of a digit that is not ASCII", _typed("enum('\u00b2')", "\u00b2"), "\u00b2"),
    _Row("blob", _typed("BLOB", "\u00ff"), b"\xff"),
    _Row("no types", {"mysqlType": None, "sqlType": None}, "a", ("untyped:id", "untyped:x")),
    _Row("no types, numbers", {"mysqlType": None, "sqlType": None, "data": [{"id": 1, "x": 2.50}]}, "2.5",
         ("untyped:id", "untyped:x")),
)  # fmt: skip


def test_variants_are_rows() -> None:
    def check(row: _Row) -> None:
        [event] = _decode(row.change)
        assert isinstance(event, RowChange)
        assert (event.op, event.db, event.table_name) == ("c", "shop", "orders")
        assert event.after == {"id": "1", "x": row.value}
        assert tuple(event.flags) == row.flags

    check_rows(_ROWS, check, lambda row: row.what)


def test_values_have_the_digits_and_bytes_of_the_definition() -> None:
    ddl = "CREATE TABLE orders (id INT PRIMARY KEY, d DATETIME(3), t TIME(1), b BINARY(3))"
    tables = TableDefinitions(versions([DdlText(1, "shop", ddl, WIRE)]))
    row = {"id": "1", "d": "2025-11-24 16:00:00", "t": "9:00:00", "b": "\u00ff"}
    types = {"id": "int", "d": "datetime", "t": "time", "b": "binary"}
    [event] = _decode({"mysqlType": types, "sqlType": None, "data": [row]}, tables)
    assert isinstance(event, RowChange)
    assert event.after == {"id": "1", "d": "2025-11-24 16:00:00.000", "t": "09:00:00.0", "b": b"\xff\0\0"}


def test_types_come_from_the_definition_where_the_message_has_none() -> None:
    ddl = "CREATE TABLE orders (id INT PRIMARY KEY, x DECIMAL(5,1))"
    tables = TableDefinitions(versions([DdlText(1, "shop", ddl, WIRE)]))
    [event] = _decode({"mysqlType": None, "sqlType": None, "data": [{"id": 1, "x": 2.5}]}, tables)
    assert isinstance(event, RowChange)
    assert (event.table.by_name["x"].type.name, event.after, event.flags) == ("decimal", {"id": "1", "x": "2.5"}, [])


_DDL_ROWS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("CREATE", {"isDdl": True}), ("alter", {"isDdl": True}), ("ERASE", {}), ("RENAME", {"isDdl": True}),
    ("TRUNCATE", {}), ("CINDEX", {"isDdl": True}), ("DINDEX", {"isDdl": True}), ("QUERY", {"isDdl": True}),
)  # fmt: skip


def test_ddl_records() -> None:
    def check(row: tuple[str, dict[str, Any]]) -> None:
        kind, change = row
        none = dict.fromkeys(("data", "mysqlType", "sqlType", "pkNames", "_tidb"))
        [event] = _decode({**none, "type": kind, "sql": "DROP TABLE x", **change})
        assert isinstance(event, DdlEvent)
        assert (event.query, event.extra) == ("DROP TABLE x", {"type": kind.upper(), "es": 1764000000000})

    check_rows(_DDL_ROWS, check, lambda row: row[0])


def test_records_of_transactions_are_no_event() -> None:
    def check(row: tuple[str, str]) -> None:
        assert _decode({"type": row[0], "sql": row[1], "data": None}) == []

    rows = (("QUERY", "BEGIN"), ("QUERY", " commit"), ("QUERY", "XA START X'01'"), ("QUERY", "SAVEPOINT a"),
            ("TRANSACTIONBEGIN", ""), ("TRANSACTIONEND", ""), ("XACOMMIT", ""), ("GTID", ""),
            ("MHEARTBEAT", ""))  # fmt: skip
    check_rows(rows, check)


_REFUSED: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("a statement without rows", {"type": "QUERY", "sql": "UPDATE t SET a = 1", "data": None}, "binlog_format"),
    ("DDL without a statement", {"type": "CREATE", "isDdl": True, "sql": ""}, "CREATE"),
    ("an unknown record", {"type": "UPSERT"}, "UPSERT"),
    ("data null", {"data": None}, "INSERT"),
    ("an unknown type", _typed("geometry", "a"), "column 'x': type 'geometry'"),
    ("an object as a value", _typed("varchar(3)", {"a": 1}), "column 'x'"),
    ("a number as a text", _typed("varchar(3)", 7), "column 'x'"),
    ("an object as JSON", _typed("json", {"a": 1}), "column 'x'"),
    ("a date with a time", _typed("date", "2025-11-24 10:00:00"), "is no DATE"),
    ("a datetime with a zone", _typed("datetime", "2025-11-24T10:00:00Z"), "is no DATETIME"),
    ("a datetime as a number", _typed("datetime", 1764000000000), "column 'x'"),
    ("no time", _typed("time", "noon"), "is no TIME"),
    ("no date", _typed("datetime", "2025-13-45 16:00:00"), "is no DATETIME"),
    ("more digits than the type has", _typed("datetime(3)", "2025-11-24 16:00:00.1234"), "more than 3 fraction digits"),
    ("nanoseconds", _typed("datetime", "2025-11-24 16:00:00.123456789"), "more than 6 fraction digits"),
    ("no table", {"table": ""}, "the name of its table"),
    ("no columns", {"data": [{}]}, "a row without columns"),
    ("no element", _typed("enum('a')", "b"), "column 'x'"),
    ("no ISO-8859-1", _typed("blob", "\u20ac"), "ISO-8859-1"),
    ("_tidb is a text", {"_tidb": "x"}, "a text stands"),
    ("types are a list", {"mysqlType": ["int"], "sqlType": None}, "mysqlType"),
    ("a row is a list", {"data": [["1"]]}, "a row is no object"),
)


def test_what_is_refused_is_named() -> None:
    def check(row: tuple[str, dict[str, Any], str]) -> None:
        with pytest.raises(WireError) as caught:
            _decode(row[1])
        assert caught.value.code == "MALFORMED"
        assert row[2] in caught.value.detail

    check_rows(_REFUSED, check, lambda row: row[0])


class _File:
    def __init__(self, content: bytes) -> None:
        self._content = content

    def fetch(self, name: str) -> bytes:
        return self._content


def test_claim_checks_of_the_raw_value() -> None:
    """The file is the value, bare or compressed, or {"key","value"}; for Simple as for Canal-JSON."""
    canal = json.dumps(_GOOD).encode()
    pointer = json.dumps({**_GOOD, "_tidb": {"commitTs": 1, "claimCheckLocation": "s3://b/c/1.json"}}).encode()
    simple_row = {
        "version": 1, "database": "shop", "table": "orders", "tableID": 1, "type": "INSERT", "commitTs": 5,
        "buildTs": 6, "schemaVersion": 7, "data": {"id": "1"},
    }  # fmt: skip
    simple = json.dumps(simple_row).encode()
    to_file = json.dumps({**simple_row, "claimCheckLocation": "file:///c/1.json"}).encode()

    def check(row: tuple[type[CanalJsonDecoder | SimpleDecoder], bytes, bytes, bool]) -> None:
        decoder, message, file, is_row = row
        reading = decoder(Context(FileSchemas([]), claims=_File(file)))
        if is_row:
            [event] = reading.decode(Message(None, message))
            assert isinstance(event, RowChange)
            assert event.after is not None
            assert event.after["id"] == "1"
            return
        with pytest.raises(WireError) as caught:
            reading.decode(Message(None, message))
        assert caught.value.code == "CLAIM_CHECK"

    rows = [
        row
        for decoder, message, value in ((CanalJsonDecoder, pointer, canal), (SimpleDecoder, to_file, simple))
        for row in (
            (decoder, message, value, True), (decoder, message, compression.snap(value), True),
            (decoder, message, compression.lz4(value), True), (decoder, message, b"{}", False),
            (decoder, message, b"", False), (decoder, message, b"\x1f\x8b\x08", False),
            (decoder, message, message, False), (decoder, message, b'{"key":null}', False),
            (decoder, message, b'{"value":1}', False), (decoder, message, value[:-3], False),
        )
    ]  # fmt: skip
    check_rows(rows, check, lambda row: (row[0].__name__, row[2][:12]))
