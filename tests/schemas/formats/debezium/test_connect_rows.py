"""Rows that Kafka Connect's transforms and other converters changed: flattened rows, keys, null values."""

from __future__ import annotations

import json
import struct
from typing import Any

from tests.schemas.formats.debezium import connect_messages as connect
from tests.schemas.formats.debezium.connect_messages import envelope, keyed, message, with_schema
from tests.support.table import check_rows
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.formats.format_table import FORMATS
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas, RegisteredSchema
from ticdc_bridge.schemas.model.event import DdlEvent, Message, RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.spark_jobs.jobs.verify import binlog_position
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_one, transcode_one

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
        [written] = transcode_one(connect.decoder(ORDERS), encoder, message(body, {"id": 1})).out
        [again] = connect.decoder(ORDERS, to).decode(written)
        assert again.commit_ts == (1764000000000 << 18) + 40


REFUSED: list[Case] = [
    ("no table", [message({**ROW, "__op": "c"}, {"id": 1})], (), {}, ["nothing says of which table"]),
    ("no db", [message({**ROW, "__op": "c", "__table": "orders"}, {"id": 1})], (), {}, ["nothing says of which table"]),
    ("nothing", [message(ROW, {"id": 1})], (), {}, ["set table or table_from_topic"]),
    ("a topic of another form", [message(ROW, {"id": 1}, "orders")], (), BY_TOPIC, ["set table or table_from_topic"]),
    ("no columns", [message({"__op": "c", **NAMES}, {"id": 1})], (), {}, ["a row without columns"]),
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
        results = [transcode_one(reader, encoder, one) for one in (FLAT, NULL)]
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
        for one, pos in ((truncate, 200), (message(change), 7)):
            encoder = FORMATS[to].encoder(Context(FileSchemas([])))
            result = transcode_one(connect.decoder(), encoder, one)
            assert result.error is None
            assert result.skipped == [], to
            [event] = connect.decoder((), to).decode(result.out[0])
            assert isinstance(event, DdlEvent)
            assert (event.db, event.table if pos == 200 else "orders") == ("shop", "orders")
            assert event.commit_ts == (1764000000000 << 18) + pos


def test_what_a_target_has_no_place_for_is_counted_by_its_kind() -> None:
    encoder = FORMATS["debezium-mysql"].encoder(Context(FileSchemas([])))
    result = transcode_one(connect.decoder(), encoder, message(envelope(None, op="t")))
    assert result.skipped == ["truncate"]
    timeless = Message(None, json.dumps(envelope(None, op="t", ts_ms=None)).encode())
    result = transcode_one(connect.decoder(), FORMATS["open"].encoder(Context(FileSchemas([]))), timeless)
    assert result.skipped == ["truncate"]
    assert decode_one(connect.decoder(), timeless).error is None
