"""Simple and Canal-JSON: every row of TiCDC's own messages is the row it was made from, cell by cell."""

import json
from collections import Counter
from dataclasses import replace
from importlib import import_module
from typing import Any, NamedTuple

import pytest

from tests.support.each import each
from tests.support.golden import Golden, case_check, cases
from tests.support.table import check_rows
from ticdc_bridge.schemas.codec import compression
from ticdc_bridge.schemas.ddl.executor.versions import DdlText, versions
from ticdc_bridge.schemas.ddl.parser.lexer import WIRE
from ticdc_bridge.schemas.formats.base import Context, Decoder
from ticdc_bridge.schemas.formats.canal_json.decoder import CanalJsonDecoder
from ticdc_bridge.schemas.formats.craft.encoder import CraftEncoder
from ticdc_bridge.schemas.formats.debezium.ticdc import DebeziumEncoder
from ticdc_bridge.schemas.formats.open_protocol.encoder import OpenEncoder
from ticdc_bridge.schemas.formats.simple.decoder import SimpleDecoder
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas
from ticdc_bridge.schemas.inputs.table_definitions import TableDefinitions
from ticdc_bridge.schemas.inspect import checksum
from ticdc_bridge.schemas.inspect.format_lookup import format_named
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import DdlEvent, Event, Message, RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.ports import TableSource
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message, plain_lines, transcode_message

ALL = [*cases("simple"), *cases("canal-json")]
BOTH = ("simple", "canal-json")
rules: Any = import_module("golden_rules")


def _named(name: str) -> Any:
    return replace(next(a for a in rules.ALLOWANCES if a.name == name), formats=BOTH)


# What these formats can't carry, each with its reason; anything else must be equal.
EXCUSES = (
    _named("enum_number"),  # Canal-JSON without content-compatible and without a definition
    rules.Allowance("no_commit_ts", ("canal-json",), "needs the extension", lambda c: (
        c.field == "commit_ts" and not c.options.get("enable_tidb_extension") and c.got is rules.ABSENT)),
    rules.Allowance("no_commit_ts_ddl", ("canal-json",), "needs the extension", lambda c: (
        c.field == "commit_ts" and not c.options.get("enable_tidb_extension") and c.got == "None")),
    rules.Allowance("no_ddl_type", BOTH, "a word such as ALTER, no ActionType", lambda c: (
        c.field == "ddl_type" and c.got == "None")),
    rules.Allowance("replaced_utf8", BOTH, "U+FFFD for bytes that are not UTF-8", lambda c: (
        isinstance(c.want, dict) and not c.column.binary and "\ufffd" in str(c.got))),
    rules.Allowance("large_message", BOTH, "cut to its handle key", lambda c: (
        c.options.get("large_message_handle_option") == "handle-key-only" and c.got is rules.ABSENT
        and not c.column.handle)),
    rules.Allowance("unchanged_column", ("canal-json",), "content-compatible: old has what changed", lambda c: (
        bool(c.options.get("content_compatible")) and c.field == "before" and c.got is rules.ABSENT)),
)  # fmt: skip


def _decoder(golden: Golden, ddl: bool, fetch: bool = False) -> Decoder:
    image = golden.side(ddl)
    context = Context(image.schemas, image.tables, image.options, golden.claims if fetch else None)
    return format_named(golden.format).decoder(context)


def _plain(golden: Golden, ddl: bool, fetch: bool = False) -> list[dict[str, Any]]:
    decoder = _decoder(golden, ddl, fetch)
    lines = [x for m in golden.messages() for x in plain_lines(decode_message(decoder, m), m)]
    return [dict(json.loads(json.dumps(line))) for line in lines]


@pytest.fixture
def excuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("golden_check"), "ALLOWANCES", EXCUSES)


def test_the_cases_are_there() -> None:
    assert len(cases("simple")) >= 50
    assert len(cases("canal-json")) >= 45
    kinds = Counter(json.loads(x)["kind"] for g in ALL for x in g.messages_file.read_text().splitlines())
    assert kinds["row"] > 500
    assert min(kinds["ddl"], kinds["bootstrap"], kinds["resolved"]) > 50


@pytest.mark.parametrize("ddl", [False, True], ids=["", "ddl"])
@each("golden", ALL, ids=str)
def test_rows_are_those_of_the_meta(golden: Golden, ddl: bool, excuses: None) -> None:
    check = case_check(golden)
    lines = _plain(golden, ddl, fetch=True)
    score = check.check([x for x in lines if x["kind"] != "bootstrap"])
    assert score.differences == []
    assert score.rows == len(check.events)
    bootstraps = sum(json.loads(x)["kind"] == "bootstrap" for x in golden.messages_file.read_text().splitlines())
    assert sum(x["kind"] == "bootstrap" for x in lines) == bootstraps
    allowed = {"invalid_utf8", "handle_key_only"} | ({"enum_number"} if golden.format == "canal-json" else set())
    assert {f.partition(":")[0] for x in lines for f in x.get("flags", ())} <= allowed


@each("golden", [g for g in ALL if "charset" in g.name and "avro" not in g.name], ids=str)
def test_replaced_bytes_are_flagged(golden: Golden) -> None:
    """Go escapes the U+FFFD it puts for bytes that are not UTF-8, and only that."""
    flags = [f for x in _plain(golden, ddl=False) for f in x.get("flags", ()) if f.startswith("invalid_utf8")]
    assert flags == ["invalid_utf8:l", "invalid_utf8:lt"]
    message = next(m for m in golden.messages() if m.value and b"\\ufffd" in m.value)
    assert message.value is not None
    event = _rows(golden, [replace(message, value=message.value.replace(b"\\ufffd", "\ufffd".encode()))])[0]
    assert not any(f.startswith("invalid_utf8") for f in event.flags)


def _rows(golden: Golden, messages: list[Message]) -> list[RowChange]:
    decoder = _decoder(golden, ddl=False)
    before = [m for m in golden.messages() if m.value and (b"BOOTSTRAP" in m.value or b"\x16\x02\x02" in m.value)]
    events = [e for m in [*before, *messages] for e in decoder.decode(m)]
    return [e for e in events if isinstance(e, RowChange)]


@each("golden", cases("simple"), ids=str)
def test_tables_of_the_stream_are_the_definitions(golden: Golden) -> None:
    """Types, sizes, elements, keys and NULLs as TiDB has them: what a target format needs."""
    tables = golden.definitions
    for event in golden.events():
        if not isinstance(event, RowChange) or golden.name.startswith("large.claimcheck"):
            continue
        version = tables.at(event.table.id, event.commit_ts)
        assert version is not None
        want = {c.name: c for c in version.table.columns}
        for column in event.table.columns:
            known = want[column.name]
            for name in ("type", "unsigned", "elements", "nullable", "primary_key", "handle_key", "virtual"):
                if (name == "virtual" and event.key_only) or "handle_key_only" in event.flags:
                    continue
                assert getattr(column, name) == getattr(known, name), (column.name, name)
            if column.type.name in ("decimal", "bit", "datetime", "timestamp", "time"):
                assert (column.length, column.scale) == (known.length, known.scale), column.name
            if not column.default_is_expr and column.type.name not in ("binary", "varbinary", "bit"):
                assert column.default == known.default, column.name
        assert [c.name for c in event.table.columns] == [c.name for c in version.table.columns]


@each("name", ["wide.json", "wide.avro"])
def test_simple_rows_whose_schema_was_not_seen(name: str) -> None:
    """With a definition they are typed by it; without, values come as they are, each flagged."""
    golden = Golden("simple", name)
    rows = [m for m, e in zip(golden.messages(), golden.events(), strict=True) if isinstance(e, RowChange)]
    whole = [e for e in golden.events() if isinstance(e, RowChange)]
    decoder = _decoder(golden, ddl=True)
    for message, want in zip(rows, whole, strict=True):
        [event] = decoder.decode(message)
        assert isinstance(event, RowChange)
        assert (event.before, event.after, event.flags) == (want.before, want.after, [])
    decoder = _decoder(golden, ddl=False)
    for message in rows:
        [event] = decoder.decode(message)
        assert isinstance(event, RowChange)
        shown = {**(event.before or {}), **(event.after or {})}
        assert {f"untyped:{n}" for n, v in shown.items() if v is not None} <= set(event.flags)
        assert all(c.vague for c in event.table.columns)


@each("name", ["checksum.json.checksum", "checksum.avro.checksum"])
def test_simple_checksums(name: str) -> None:
    """Both rows of an update; in table order after ADD COLUMN … FIRST; damage is seen."""
    golden = Golden("simple", name)
    for ddl in (False, True):
        rows = [e for e in golden.events(ddl) if isinstance(e, RowChange)]
        checks = [(n, c) for n, e in enumerate(rows) for c in checksum.verify(e)]
        assert [(n, c.image) for n, c in checks] == [
            (0, "after"), (1, "after"), (2, "after"), (3, "after"), (3, "before"), (4, "before"), (5, "after"),
            (6, "after"), (6, "before"),
        ]  # fmt: skip
        # Simple has no column ids: without a definition its own order, the table's, is all there is to try.
        # Row 5 has a value in the column that was added FIRST; in the others both orders are one sum.
        want = {n: ("id" if ddl and n != 5 else "table") for n in range(7)}
        assert [c.outcome for n, c in checks] == [want[n] for n, _ in checks]


def test_claim_checks_without_their_files_are_dead_letters() -> None:
    golden = Golden("simple", "large.claimcheck")
    errors = [x for x in _plain(golden, ddl=False) if x["kind"] == "error"]
    assert {x["code"] for x in errors} == {"CLAIM_CHECK"}
    assert len(errors) == 3
    assert all("--claim-check-dir" in x["detail"] and ".json" in x["detail"] for x in errors)


def test_handle_key_only_rows_are_flagged() -> None:
    for golden in (Golden("simple", "large.handlekeyonly"), Golden("canal-json", "large.handlekeyonly")):
        rows = [e for e in golden.events() if isinstance(e, RowChange)]
        assert [(e.op, e.flags, e.key_only) for e in rows] == [
            ("c", ["handle_key_only"], True),
            ("c", [], False),
            ("u", ["handle_key_only"], True),
            ("d", [], True),
        ]
        assert rows[0].after == {"id": "1"}


@each(
    ("told", "kind", "length", "scale", "elements", "unsigned"),
    [
        ("bigint(20) unsigned", "bigint", None, None, (), True), ("decimal(65,30)", "decimal", 65, 30, (), False),
        ("decimal(10,0) unsigned zerofill", "decimal", 10, 0, (), True), ("bit(10)", "bit", 10, None, (), False),
        ("timestamp(3)", "timestamp", None, 3, (), False), ("float(10,3)", "float", None, 3, (), False),
        (r"enum('a','b,c','d''e','f\\g',')')", "enum", None, None, ("a", "b,c", "d'e", "f\\g", ")"), False),
        ("ENUM('a', 'b ,c' )", "enum", None, None, ("a", "b ,c"), False),
        ("set('','x')", "set", None, None, ("", "x"), False),
    ],
)  # fmt: skip
def test_canal_types(
    told: str, kind: str, length: int | None, scale: int | None, elements: tuple[str, ...], unsigned: bool
) -> None:
    from ticdc_bridge.schemas.formats.canal_json.decoder import column_of_type

    column = column_of_type("c", told, False)
    assert (column.type.name, column.length, column.scale, column.elements, column.unsigned) == (
        kind, length, scale, elements, unsigned,
    )  # fmt: skip


SAME = {("simple", ".json"): "ext1", ("simple", ".avro"): "ext1", ("canal-json", ".ext"): "ext1"}
AS_AVRO = [
    (golden, Golden("avro", f"{golden.name.removesuffix(suffix)}.{options}"))
    for (format_, suffix), options in SAME.items()
    for golden in cases(format_)
    if golden.name.endswith(suffix)
    and Golden("avro", f"{golden.name.removesuffix(suffix)}.{options}").meta_file.exists()
]


@each(("golden", "avro"), AS_AVRO, ids=str)
def test_written_as_avro_they_are_ticdcs_avro(golden: Golden, avro: Golden) -> None:
    """TiCDC encoded the same changes in each format: from these messages come its Avro messages, byte for byte."""
    decoder = golden.side(ddl=golden.format == "canal-json").decoder()
    encoder = CodecConfig("avro", avro.schemas, avro.options(on_lossy="flag")).encoder()
    results = [transcode_message(decoder, encoder, m) for m in golden.messages()]
    refused = [r.error.code for r in results if r.error]
    assert set(refused) == ({"MALFORMED"} if "collision" in golden.name else set())  # as TiCDC refuses it
    written = [(m.key, m.value) for r in results for m in r.out]
    want = [(m.key, m.value) for m in avro.messages()]
    if "charset" in golden.name and not golden.name.endswith(".avro"):
        assert written[0] == want[0]  # the others held bytes that are not UTF-8, which JSON has lost
        return
    assert written == want


# ---- Canal-JSON as others than TiCDC write it: small variations that are read, and records that are named.

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


def test_a_virtual_column_of_mysql_is_left_out() -> None:
    ddl = "CREATE TABLE orders (id INT PRIMARY KEY, x VARCHAR(9) AS (id) VIRTUAL)"
    [event] = _decode({}, TableDefinitions(versions([DdlText(1, "shop", ddl, WIRE)])))
    assert isinstance(event, RowChange)
    assert (event.after, event.flags) == ({"id": "1"}, ["virtual_left_out:x"])


def test_a_delete_of_the_key_alone() -> None:
    """delete-only-output-handle-key-columns: types of all columns, or of the key's, and no word of it."""
    ddl = "CREATE TABLE orders (id INT PRIMARY KEY, x VARCHAR(9))"
    defined = TableDefinitions(versions([DdlText(1, "shop", ddl, WIRE)]))
    for more in ({}, {"mysqlType": {"id": "int"}, "sqlType": {"id": 4}}):
        [event] = _decode({"type": "DELETE", "data": [{"id": "1"}], **more}, defined)
        assert isinstance(event, RowChange)
        assert event.key_only
        for encoder in (OpenEncoder, CraftEncoder, DebeziumEncoder):
            assert encoder(Context(FileSchemas([]), defined)).encode(event, Message(None, None))
    [whole] = _decode({"type": "DELETE"}, defined)
    assert isinstance(whole, RowChange)
    assert not whole.key_only


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
    ("an unknown record", {"type": "UPSERT"}, "UPSERT"), ("data null", {"data": None}, "INSERT"),
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
    ("no table", {"table": ""}, "nothing says of which table"), ("no columns", {"data": [{}]}, "a row without columns"),
    ("beyond a FLOAT", _typed("float", "1e39"), "column 'x': 1e+39 is beyond a float32"),
    ("no element", _typed("enum('a')", "b"), "column 'x'"), ("no ISO-8859-1", _typed("blob", "\u20ac"), "ISO-8859-1"),
    ("_tidb is a text", {"_tidb": "x"}, "a text stands"),
    ("types are a list", {"mysqlType": ["int"], "sqlType": None}, "mysqlType"),
    ("a row is a list", {"data": [["1"]]}, "a row is no object"),
)  # fmt: skip


def test_what_is_refused_is_named() -> None:
    def check(row: tuple[str, dict[str, Any], str]) -> None:
        with pytest.raises(WireError) as caught:
            _decode(row[1])
        assert caught.value.code == "MALFORMED"
        assert row[2] in caught.value.detail

    check_rows(_REFUSED, check, lambda row: row[0])


def test_canal_json_of_stream_processors() -> None:
    """Flink CDC (a deleted row in old), Flink SQL (no names), SeaTunnel (no list): by the option table, or refused."""
    row = {"id": 8, "name": "z"}
    named = {"database": "shop", "table": "orders"}
    forms: list[tuple[dict[str, Any], str]] = [
        ({"old": None, "data": [row], "type": "INSERT", **named, "pkNames": ["id"], "ts": 0}, "c"),
        ({"old": [row], "data": None, "type": "DELETE", **named, "pkNames": ["id"], "ts": 0}, "d"),
        ({"data": [row], "type": "INSERT"}, "c"), ({"data": [row], "type": "DELETE"}, "d"),
        ({"data": row, "type": "INSERT"}, "c"), ({"data": row, "old": row, "type": "UPDATE"}, "u"),
        ({"data": [row], "type": "INSERT", "database": None, "table": "orders"}, "c"),
    ]  # fmt: skip

    def check(form: tuple[dict[str, Any], str]) -> None:
        body, op = form
        message = Message(None, json.dumps(body).encode(), "srv.shop.orders", 0, 0)
        for options in ({"table": "shop.orders"}, {"table_from_topic": True}):
            for format_ in ("canal-json", "auto"):
                decoder = format_named(format_).decoder(Context(FileSchemas([]), None, Options.of(options)))
                [event] = decoder.decode(message)
                assert isinstance(event, RowChange)
                assert (event.op, str(event.table.id)) == (op, "shop.orders")
                assert (event.before if op == "d" else event.after) == {"id": "8", "name": "z"}
        if not body.get("database"):
            with pytest.raises(WireError, match="set the option table or table_from_topic"):
                CanalJsonDecoder(Context(FileSchemas([]))).decode(message)

    check_rows(forms, check)


def test_values_of_stream_processors() -> None:
    """They name no types: an element of digits is a name, and bytes are in base64, as Jackson writes them."""
    ddl = """CREATE TABLE orders (id INT PRIMARY KEY, e ENUM('2','1'), s SET('2','1'), b VARBINARY(9), f BINARY(4))"""
    tables = TableDefinitions(versions([DdlText(1, "shop", ddl, WIRE)]))
    body = {"type": "INSERT", "database": "shop", "table": "orders"}
    row = {"id": 8, "e": "2", "s": "2,1", "b": "AP8=", "f": "AQ=="}
    wrong: list[tuple[dict[str, str], str]] = [
        ({}, ""), ({"b": "a"}, "base64"), ({"e": "3"}, "no element"), ({"s": "3"}, "no element"),
    ]  # fmt: skip
    for image, bad in wrong:
        message = Message(None, json.dumps({**body, "data": [{**row, **image}]}).encode())
        decoder = CanalJsonDecoder(Context(FileSchemas([]), tables))
        if bad:
            with pytest.raises(WireError, match=bad):
                decoder.decode(message)
            continue
        [event] = decoder.decode(message)
        assert isinstance(event, RowChange)
        assert event.after == {"id": "8", "e": "2", "s": "2,1", "b": b"\0\xff", "f": b"\1\0\0\0"}


def test_the_first_of_several_unique_keys() -> None:
    """MySQL's Canal names the first, TiCDC the shortest: either knows a row. What is no unique key does not."""
    ddl = "CREATE TABLE orders (A INT NOT NULL, b INT NOT NULL, c INT NOT NULL, UNIQUE (a, b), UNIQUE (c))"
    context = Context(FileSchemas([]), TableDefinitions(versions([DdlText(1, "shop", ddl, WIRE)])))
    rows = {"data": [dict.fromkeys("abc", "7")], "mysqlType": dict.fromkeys("abc", "int")}
    body: dict[str, Any] = {"type": "INSERT", "database": "shop", "table": "orders", **rows}
    for names, key, flags in (
        (["b", "a"], ("c",), []), (["c"], ("c",), []), (None, ("c",), []),
        (["b"], ("b",), ["definition_mismatch:b", "definition_mismatch:c"]),
    ):  # fmt: skip
        message = Message(None, json.dumps({**body, "pkNames": names}).encode())
        [event] = CanalJsonDecoder(context).decode(message)
        assert isinstance(event, RowChange)
        assert (event.key, event.flags) == (key, flags)


class _File:
    def __init__(self, content: bytes) -> None:
        self._content = content

    def fetch(self, name: str) -> bytes:
        return self._content


def test_claim_checks_of_the_raw_value() -> None:
    """The file is the value, bare or compressed, or {"key","value"}; for Simple as for Canal-JSON."""
    canal = json.dumps(_GOOD).encode()
    pointer = json.dumps({**_GOOD, "_tidb": {**_GOOD["_tidb"], "claimCheckLocation": "s3://b/c/1.json"}}).encode()
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
            (decoder, message, value.replace(b'"shop"', b'"other"'), False),
            (decoder, message, value.replace(b'"commitTs": ', b'"commitTs": 1'), False),
            (decoder, message, value.replace(b'"_tidb": {', b'"_tidb": {}, "_": {'), True),
        )
    ]  # fmt: skip
    check_rows(rows, check, lambda row: (row[0].__name__, row[2][:12]))
