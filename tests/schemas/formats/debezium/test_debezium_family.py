"""What TiCDC's Debezium, its Avro form and the connector's form share: names, defaults, DDL, commit_ts, others."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.schemas.formats.debezium import connect_messages as connect
from tests.support import connector
from tests.support.connector import ByName
from tests.support.each import each
from tests.support.golden import Registry
from tests.support.rows import COMMIT_TS, ORIGIN, Pair, Tables, change, column, table
from tests.support.table import check_rows
from ticdc_bridge.schemas.formats.base import Context, commit_ts_of
from ticdc_bridge.schemas.formats.debezium.ticdc import DebeziumAvroDecoder, DebeziumAvroEncoder, DebeziumEncoder
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas
from ticdc_bridge.schemas.inspect.format_detection import detect_format
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import DdlEvent, RowChange, tso_physical_ms
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Column, Table, Value
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message

AVRO: dict[str, Any] = {
    "enable_tidb_extension": True,
    "avro_enable_watermark": True,
    "avro_bigint_unsigned_handling_mode": "string",
}


def test_long_mode_refuses_what_is_no_int64() -> None:
    """TiCDC's changefeed stops there (upstream `codec/debezium/avro.go`); the error says what to set."""
    made = table(column("n", "bigint", unsigned=True))
    for on_lossy in ("error", "flag"):
        error = Pair("debezium-avro", on_lossy=on_lossy).refusal(change(made, {"n": "9223372036854775808"}))
        assert (error.code, error.fields["column"]) == ("INVALID_VALUE", "n")
        assert "avro_bigint_unsigned_handling_mode" in error.detail
    pair = Pair("debezium-avro", Tables(made), avro_bigint_unsigned_handling_mode="string")
    assert pair.through(change(made, {"n": "18446744073709551615"})).after == {"id": "1", "n": "18446744073709551615"}
    assert Pair("debezium-avro").write(change(made, {"n": "9223372036854775807"}))


@each(("format_", "nullable", "defined", "flagged"), [
    ("debezium", False, False, True), ("debezium", True, False, False),
    ("debezium-avro", False, False, True), ("debezium-avro", False, True, True), ("debezium-avro", True, True, False),
])  # fmt: skip
def test_1970_may_be_a_zero_date(format_: str, nullable: bool, defined: bool, flagged: bool) -> None:
    """Of a NOT NULL column it may; Avro's schemas alone don't tell which columns are."""
    made = table(column("d", "date", nullable=nullable), column("t", "datetime", nullable=nullable, scale=0))
    row = {"d": "0000-00-00", "t": "0000-00-00 00:00:00"} if not nullable else {"d": "1970-01-01", "t": None}
    again = Pair(format_, Tables(made) if defined else None, on_lossy="flag").through(change(made, row))
    assert again.after is not None
    assert again.after["d"] == "1970-01-01"
    assert (again.flags[:1] == ["temporal_zero_ambiguous:d"]) == flagged


def test_names_survive_in_connect_field() -> None:
    made = table(column("a-b", "varchar"), column("名", "int"))
    again = Pair("debezium-avro").through(change(made, {"a-b": "x", "名": "2"}))
    assert again.after == {"id": "1", "a-b": "x", "名": "2"}
    error = Pair("debezium-avro").refusal(change(table(column("a-b", "int"), column("a_b", "int")), {}))
    assert "two columns become 'a_b'" in error.detail


@each(
    ("kind", "default", "value"),
    [
        (column("v", "decimal", length=10, scale=6), "17.2333", "17.233300"),
        (column("v", "decimal", length=38, scale=0), "12345678901234567890", "12345678901234567890"),
        (column("v", "decimal", length=5, scale=2), "-0.5", "-0.50"), (column("v", "float"), "3.14", "3.14"),
        (column("v", "float"), "16777217", "1.6777216e+07"),
        (column("v", "float", length=7, scale=4), "123.4567", "123.4567"), (column("v", "double"), "2", "2"),
        (column("v", "double"), "0.1", "0.1"), (column("v", "int"), "-7", "-7"),
        (column("v", "bigint", unsigned=True), "5", "5"), (column("v", "year"), "2024", "2024"),
        (column("v", "bit", length=1), b"\x01", b"\x01"), (column("v", "bit", length=10), b"\x02\xaa", b"\x02\xaa"),
        (column("v", "varchar", length=9), "é", "é"), (column("v", "varbinary", length=9), b"\0\xff", b"\0\xff"),
        (column("v", "enum", elements=("a", "b")), "b", "b"), (column("v", "set", elements=("a", "b")), "a,b", "a,b"),
        (column("v", "date"), "2024-02-29", "2024-02-29"),
        (column("v", "datetime", scale=0), "2024-02-29 01:02:03", "2024-02-29 01:02:03"),
        (column("v", "datetime", scale=6), "2024-02-29 01:02:03.000004", "2024-02-29 01:02:03.000004"),
        (column("v", "timestamp", scale=0), "2024-02-29 01:02:03", "2024-02-29 01:02:03"),
        (column("v", "time", scale=0), "-01:02:03", "-01:02:03"),
    ],
    ids=lambda v: f"{v.type.name}" if isinstance(v, Column) else None,
)  # fmt: skip
@pytest.mark.parametrize("decimal", ["precise", "string"])
def test_null_may_stand_behind_a_default_of_any_type(decimal: str, kind: Column, default: Value, value: Value) -> None:
    """The value is compared with what the payload has for the default: bytes, text, or a float32 widened."""
    made = table(replace(kind, has_default=True, default=default))
    options = {"avro_decimal_handling_mode": decimal, "avro_bigint_unsigned_handling_mode": "string"}
    avro, json_ = Pair("debezium-avro", Tables(made), **options), Pair("debezium", Tables(made), on_lossy="flag")
    assert avro.through(change(made, {"v": value})).flags == ["null_or_default:v"]
    assert "null_or_default:v" in json_.through(change(made, {"v": value})).flags
    assert avro.through(change(made, {"v": None})).flags == []
    strict = table(replace(kind, nullable=False, has_default=True, default=default))
    assert Pair("debezium-avro", Tables(strict), **options).through(change(strict, {"v": value})).flags == []
    other = table(kind)
    assert Pair("debezium-avro", Tables(other), **options).through(change(other, {"v": value})).flags == []


def test_another_value_than_the_default_is_no_null() -> None:
    for kind, default, value in (
        ("decimal", "1.50", "1.51"),
        ("float", "3.14", "3.15"),
        ("float", "3.14", "3.1400003"),
    ):
        sizes = {"length": 5, "scale": 2} if kind == "decimal" else {}
        made = table(column("v", kind, has_default=True, default=default, **sizes))
        for mode in ("precise", "string"):
            pair = Pair("debezium-avro", Tables(made), avro_decimal_handling_mode=mode)
            assert pair.through(change(made, {"v": value})).flags == []


# ---------------------------------------------------------------------------------- DDL
BEFORE = table(column("v", "varchar", length=20, charset="utf8mb4"))
AFTER = Table(BEFORE.id, (*BEFORE.columns, column("d", "decimal", length=10, scale=2)))
DDL = DdlEvent("open", "shop", "t", COMMIT_TS, 5, "ALTER TABLE t ADD COLUMN d decimal(10,2)")


def test_ddl_of_another_format_gets_its_table() -> None:
    """tableChanges has the table as it is after the statement, in JSON and in Avro; both read back the same."""
    tables = Tables(AFTER)
    [message] = DebeziumEncoder(Context(FileSchemas([]), tables)).encode(DDL, ORIGIN)
    assert message.value is not None
    payload = json.loads(message.value)["payload"]
    assert list(payload) == ["source", "ts_ms", "databaseName", "schemaName", "ddl", "tableChanges"]
    assert payload["ts_ms"] == payload["source"]["ts_ms"] == tso_physical_ms(COMMIT_TS)
    [alter] = payload["tableChanges"]
    assert (alter["type"], alter["id"], alter["table"]["primaryKeyColumnNames"]) == ("ALTER", '"shop"."t"', ["id"])
    assert [(c["name"], c["typeName"], c["length"], c["scale"]) for c in alter["table"]["columns"]] == [
        ("id", "INT", None, None), ("v", "VARCHAR", 20, None), ("d", "DECIMAL", 10, 2),
    ]  # fmt: skip
    registry = Registry()
    [record] = DebeziumAvroEncoder(Context(registry, tables, Options.of(AVRO))).encode(DDL, ORIGIN)
    [again] = DebeziumAvroDecoder(Context(registry)).decode(record)
    assert isinstance(again, DdlEvent)
    assert (again.query, again.db, again.table, again.commit_ts) == (DDL.query, "shop", "t", COMMIT_TS)
    assert again.extra["tableChanges"] == payload["tableChanges"]


def test_ddl_of_an_unknown_table_says_what_is_known() -> None:
    [message] = DebeziumEncoder(Context(FileSchemas([]))).encode(DDL, ORIGIN)
    assert message.value is not None
    assert json.loads(message.value)["payload"]["tableChanges"] == [
        {"type": "ALTER", "id": '"shop"."t"', "table": None}
    ]


def test_ddl_needs_the_watermark_option_in_avro() -> None:
    encoder = DebeziumAvroEncoder(Context(Registry(), None, Options(enable_tidb_extension=True)))
    assert encoder.encode(DDL, ORIGIN) == []


def test_ddl_that_avro_can_not_hold_is_refused() -> None:
    """tableChanges as a damaged message may have carried them."""
    encoder = DebeziumAvroEncoder(Context(Registry(), None, Options.of(AVRO)))
    damaged: list[Any] = [1, {}, {"type": 1, "id": "x"}, {"type": "ALTER", "id": "x", "table": {"columns": 5}}]
    for changes in damaged:
        event = replace(DDL, format="debezium", extra={"tableChanges": [changes]})
        with pytest.raises(WireError) as caught:
            encoder.encode(event, ORIGIN)
        assert caught.value.code == "INVALID_VALUE"


# ---------------------------------------------------------------------------------- MySQL has no commit_ts
def test_commit_ts_is_made_of_the_binlogs_time_and_place() -> None:
    """Flagged, in the order of the binlog, and different for two rows of one millisecond."""
    decoder = connector.side().decoder()
    messages = [m for m in connector.json_messages("default") if str(m.topic).endswith(("nopk", "ukonly"))]
    rows = [e for m in messages for e in decoder.decode(m) if isinstance(e, RowChange) and e.op != "r"]
    found = []
    for event in rows:
        commit_ts = commit_ts_of(event)
        assert commit_ts is not None
        assert tso_physical_ms(commit_ts) == event.extra["source"]["ts_ms"]
        assert "synthetic_commit_ts" in event.flags
        found.append(commit_ts)
    assert found == sorted(found)
    told_apart = {(t, e.table.id, str(e.after or e.before)) for t, e in zip(found, rows, strict=True)}
    assert len(told_apart) == len(rows)


def test_a_definition_that_is_not_the_messages_is_left_aside() -> None:
    """Without a commit_ts nobody knows which version is meant: one with other types would change values in silence."""
    message = next(m for m in connector.json_messages("default") if str(m.topic).endswith("cpk"))
    [plain] = connector.side().decoder().decode(message)
    assert isinstance(plain, RowChange)
    assert plain.after is not None
    assert plain.after["k_bin"] == b"\x00\xff"
    other = Table(plain.table.id, tuple(replace(c, type=column("x", "text").type) for c in plain.table.columns))
    decoder = connector.side(tables=ByName({other.id: Tables(other).version})).decoder()
    [again] = decoder.decode(message)
    assert isinstance(again, RowChange)
    assert again.after == plain.after
    assert again.table_version is None


_SOURCE = {"connector": "TiCDC", "db": "shop", "table": "orders", "commit_ts": COMMIT_TS, "cluster_id": "default"}
_PAYLOAD = {"source": _SOURCE, "ts_ms": 5, "transaction": None, "op": "c", "before": None, "after": {"id": 1}}


@each(("key", "value"), [
    ({"id": 1}, _PAYLOAD), ({"payload": {"id": 1}}, _PAYLOAD), ({"id": 1}, {"payload": _PAYLOAD}),
    ({"payload": {"id": 1}}, {"payload": _PAYLOAD}),
])  # fmt: skip
def test_ticdcs_messages_without_their_wrapper(key: Any, value: Any) -> None:
    """Kafka Connect's JSON converter takes it away (schemas.enable=false)."""
    for format_ in ("debezium", "auto"):
        decoder = CodecConfig(format_, FileSchemas([]), Options()).decoder()
        result = decode_message(
            decoder, replace(ORIGIN, key=json.dumps(key).encode(), value=json.dumps(value).encode())
        )
        [event] = result.events
        assert isinstance(event, RowChange)
        assert (event.op, event.key, event.after, event.commit_ts) == ("c", ("id",), {"id": "1"}, COMMIT_TS)


# ---- Messages that are of no table, or of another connector: each is named, in every format that meets it.

READ = ("debezium-mysql", "debezium", "auto")
# What the message is called, and its body.
BESIDE: tuple[tuple[str, dict[str, Any]], ...] = (
    ("heartbeat", {"ts_ms": 1}),
    ("heartbeat", {"ts_ms": 1, "ts_us": 1000, "ts_ns": 1000000}),
    ("transaction marker", {"status": "BEGIN", "id": "1", "event_count": None, "data_collections": None, "ts_ms": 5}),
    ("transaction marker", {"status": "END", "id": "1", "event_count": 2, "data_collections": [{"event_count": 2}]}),
    ("notification", {"id": "n", "aggregate_type": "Initial Snapshot", "type": "STARTED", "additional_data": {}}),
    ("notification", {"id": "n", "aggregate_type": "Incremental Snapshot", "type": "COMPLETED", "timestamp": 1}),
    ("signal", {"type": "execute-snapshot", "data": {"data-collections": ["shop.orders"]}}),
    ("signal", {"id": "x", "type": "pause-snapshot", "data": "{}"}),
    ("signal", {"id": "x", "type": "log", "data": {"message": "at {}"}}),
    ("signal", {"id": "x", "type": "of-our-own", "data": {"table": "shop.orders"}}),
    ("CloudEvents", {"id": "1", "source": "/debezium/mysql/srv", "specversion": "1.0", "type": "x", "data": {}}),
    ("schema history", {"source": {"server": "srv"}, "position": {"file": "b.1", "pos": 4}, "databaseName": "shop",
                        "ddl": "DROP TABLE t", "tableChanges": []}),
    ("offset.storage.topic", {"ts_sec": 1, "file": "b.1", "pos": 4, "server_id": 1, "row": 1}),
    ("offset.storage.topic", {"file": "b.1", "pos": 4, "gtids": "a:1-5", "transaction_id": None}),
    ("config.storage.topic", {"properties": {"connector.class": "io.debezium.connector.mysql.MySqlConnector"}}),
    ("status.storage.topic", {"state": "RUNNING", "trace": None, "worker_id": "w:8083", "generation": 3}),
)  # fmt: skip


def test_messages_beside_the_rows_are_named() -> None:
    """With the payload alone, and with its schema around it."""
    forms = [(word, form, format_) for word, body in BESIDE for format_ in READ
             for form in (body, {"schema": {"type": "struct", "fields": []}, "payload": body})]  # fmt: skip

    def check(row: tuple[str, Any, str]) -> None:
        word, form, format_ = row
        [result] = connect.read([connect.message(form)], format_=format_)
        assert word in connect.shown(result)
        assert result.error is not None

    check_rows(forms, check)


CONNECTORS = ("postgresql", "oracle", "sqlserver", "mongodb", "db2", "vitess", "spanner")


def test_messages_of_other_connectors_are_refused_by_name() -> None:
    row: dict[str, Any] = {"id": 1, "name": "a"}
    bodies = [
        (connector, body, format_)
        for connector in CONNECTORS
        for format_ in READ
        for body in (
            connect.envelope(row, connector=connector),
            connect.with_schema(connect.envelope(row, connector=connector), connect.field("name", "string")),
            connect.envelope(None, row, "d", connector=connector),
            connect.envelope(None, op="t", connector=connector),
            {"source": {**connect.SOURCE, "connector": connector}, "ddl": "DROP TABLE t", "databaseName": "shop"},
        )
    ]

    def check(case: tuple[str, Any, str]) -> None:
        [result] = connect.read([connect.message(case[1])], format_=case[2])
        assert result.error is not None
        assert case[0] in result.error.detail

    check_rows(bodies, check)


def test_flattened_rows_of_other_connectors_are_refused() -> None:
    """Fields that other databases alone have, or the connector's name."""
    rows: list[tuple[dict[str, Any], str]] = [
        ({"__lsn": 5}, "PostgreSQL"), ({"__source_lsn": 5}, "PostgreSQL"), ({"__scn": "7"}, "Oracle"),
        ({"__connector": "postgresql"}, "'postgresql'"), ({"__source_connector": "oracle"}, "'oracle'"),
        ({"__change_lsn": "00:1"}, "SQL Server"), ({"__collection": "c"}, "MongoDB"),
    ]  # fmt: skip

    def check(row: tuple[dict[str, Any], str]) -> None:
        body = {"id": 1, "__op": "c", "__db": "shop", "__table": "orders", **row[0]}
        [result] = connect.read([connect.message(body)])
        assert row[1] in connect.shown(result)

    check_rows(rows, check)


def test_the_other_debezium_is_named() -> None:
    row = {"id": 1, "price": "AJY="}
    price = connect.field("price", "bytes", connect.DECIMAL, scale="2")
    for name, format_, word in (
        ("mysql", "debezium", "--format debezium-mysql"),
        ("mariadb", "debezium", "--format debezium-mysql"),
        ("TiCDC", "debezium-mysql", "--format debezium"),
    ):
        for body in (connect.envelope(row, connector=name), connect.envelope(row, op="t", connector=name)):
            [result] = connect.read([connect.message(connect.with_schema(body, price))], format_=format_)
            assert word in connect.shown(result)


def test_mariadb_is_read_as_mysql() -> None:
    """Its GTID has another form; UUID and INET6 are text there."""
    body = connect.envelope({"id": 1, "u": "123e4567-e89b-12d3-a456-426655440000"}, connector="mariadb", gtid="0-1-5",
                            file="mariadb-bin.000002", pos=340)  # fmt: skip
    propagated = {"__debezium.source.column.type": "UUID"}
    for format_ in ("debezium-mysql", "auto"):
        for form in (body, connect.with_schema(body, connect.field("u", "string", **propagated))):
            [result] = connect.read([connect.message(form, {"id": 1})], format_=format_)
            assert connect.shown(result)[:2] == ("c", "shop.orders")
            assert connect.shown(result)[4]["u"] == "123e4567-e89b-12d3-a456-426655440000"
    assert detect_format(None, json.dumps(body).encode()).format == "debezium-mysql"


TEXTS = (
    b"Struct{after=Struct{id=1,name=a},op=c}", b"Struct{id=1}", b"{id=1, name=a}", b"{before=null, op=c}",
    b"SourceRecord{sourcePartition={server=srv}}",
)  # fmt: skip


def test_text_of_a_string_converter_is_named() -> None:
    for text in TEXTS:
        [result] = connect.read([connect.message(text)])
        assert "StringConverter" in connect.shown(result), text


def test_an_envelope_without_source_says_so() -> None:
    for body in ({"before": None, "after": {"id": 1}, "op": "c"}, connect.envelope({"id": 1}) | {"source": None}):
        for format_ in READ:
            [result] = connect.read([connect.message(body)], format_=format_)
            assert "source" in connect.shown(result)
            assert "__op" not in connect.shown(result)
        [named] = connect.read([connect.message(body, {"id": 1})], table="shop.orders")
        assert connect.shown(named) == ("c", "shop.orders", ["id"], None, {"id": "1"})


def test_fields_of_any_type_are_looked_at() -> None:
    """A body of the same names, and values of another kind, is nothing of these: not named, and no defect."""
    for _, body in BESIDE:
        values: tuple[Any, ...] = ([], {}, None, 1, "x")
        for value in values:
            odd = dict.fromkeys(body, value)
            for format_ in READ:
                [result] = connect.read([connect.message(odd)], format_=format_)
                assert result.error is not None
