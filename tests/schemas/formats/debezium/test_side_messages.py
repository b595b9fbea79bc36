"""Messages that are of no table, or of another connector: each is named, in every format that meets it."""

from __future__ import annotations

import json
from typing import Any

from tests.schemas.formats.debezium import connect_messages as connect
from tests.support.table import check_rows
from ticdc_bridge.schemas.inspect.format_detection import sniff

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
    for connector, format_, word in (
        ("mysql", "debezium", "--format debezium-mysql"),
        ("mariadb", "debezium", "--format debezium-mysql"),
        ("TiCDC", "debezium-mysql", "--format debezium"),
    ):
        for body in (connect.envelope(row, connector=connector), connect.envelope(row, op="t", connector=connector)):
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
    assert sniff(None, json.dumps(body).encode()).format == "debezium-mysql"


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
