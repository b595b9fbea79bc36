"""Debezium's connector for TiDB (`debezium-tidb`): read as it makes messages of TiCDC's, and written exactly."""

import json
from dataclasses import replace
from typing import Any

from tests.support.each import each
from tests.support.golden import Golden, Registry
from tests.support.rows import COMMIT_TS, ORIGIN, Pair, Tables, change, column, table
from tests.support.tidb_connector import tidb_messages
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas
from ticdc_bridge.schemas.inspect.format_detection import detect_format
from ticdc_bridge.schemas.model.event import DdlEvent, Message, RowChange, Watermark
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message, transcode_message

FORMAT = "debezium-tidb"
MADE = table(column("v", "varchar", length=20), column("n", "decimal", length=30, scale=2), column("b", "varbinary"))
ROW: dict[str, str | bytes | None] = {"v": "a", "n": "1234567890123456789012345678.90", "b": b"\x00\xff"}


def _side(tables: Any = None, registry: Any = None, **options: Any) -> CodecConfig:
    return CodecConfig(FORMAT, registry or FileSchemas([]), Options.of(options), tables)


def _json(message: Message) -> dict[str, Any]:
    return dict(json.loads(message.value or b""))


# ---------------------------------------------------------------------------------- read
@each("name", ["wide.schema", "evolution.schema", "defaults.schema", "pk_types.schema", "no_key.schema"])
def test_its_messages_have_the_rows_of_ticdcs(name: str) -> None:
    """With a definition: what the connector's schema does not tell (signs, binary text) is then known."""
    golden = Golden("debezium", name)
    for schema in (True, False):
        decoder, wanted = _side(golden.definitions).decoder(), [e for e in golden.events(True) if _is_row(e)]
        found = [e for m in tidb_messages(golden, schema) for e in decode_message(decoder, m).events]
        assert [(e.op, e.commit_ts, e.before, e.after) for e in found] == [  # type: ignore[union-attr]
            (e.op, e.commit_ts, e.before, e.after)  # type: ignore[union-attr]
            for e in wanted
        ]
        assert {e.format for e in found} == {FORMAT}
        assert len({e.table_version for e in found if isinstance(e, RowChange)}) > (name == "evolution.schema")


def _is_row(event: Any) -> bool:
    return isinstance(event, RowChange) and event.op in "cud"


def test_it_is_detected() -> None:
    golden = Golden("debezium", "wide.schema")
    assert {detect_format(m.key, m.value).format for m in tidb_messages(golden) if m.value} == {FORMAT}
    auto = CodecConfig("auto", FileSchemas([]), Options(), golden.definitions).decoder()
    results = [decode_message(auto, m) for m in tidb_messages(golden)]
    assert not [r.error for r in results if r.error]
    assert {e.format for r in results for e in r.events} == {FORMAT}
    registry = Registry()
    encoder = _side(registry=registry, encoding_format="avro").encoder()
    [message] = encoder.encode(change(MADE, ROW), ORIGIN)
    assert detect_format(message.key, message.value, lambda i: registry.by_id(i, "")).format == FORMAT
    for other in ("debezium-mysql", "debezium"):
        error = decode_message(
            CodecConfig(other, FileSchemas([]), Options()).decoder(), next(iter(tidb_messages(golden)))
        ).error
        assert error
        assert FORMAT in error.detail


# ---------------------------------------------------------------------------------- written
def test_the_source_block() -> None:
    [message] = Pair(FORMAT, topic_prefix="up").encoder.encode(replace(change(MADE, ROW), number=2), ORIGIN)
    document = _json(message)
    schema = next(f for f in document["schema"]["fields"] if f["field"] == "source")
    source = document["payload"]["source"]
    assert schema["name"] == "io.debezium.connector.tidb.Source"
    assert [f["field"] for f in schema["fields"]] == list(source) == [
        "version", "connector", "name", "ts_ms", "snapshot", "db", "sequence", "ts_us", "ts_ns", "table", "commit_ts",
        "cluster_id",
    ]  # fmt: skip
    assert {f["field"]: (f["type"], f["optional"]) for f in schema["fields"][-3:]} == {
        "table": ("string", False), "commit_ts": ("int64", False), "cluster_id": ("string", True),
    }  # fmt: skip
    assert (source["connector"], source["name"], source["db"], source["table"]) == ("tidb", "up", "shop", "t")
    assert (source["ts_ms"], source["commit_ts"]) == (COMMIT_TS >> 18, COMMIT_TS)
    assert json.loads(source["sequence"])[::2] == [str(COMMIT_TS >> 18), "2"]
    assert document["schema"]["name"] == "up.shop.t.Envelope"
    assert document["schema"]["fields"][0]["name"] == "up.shop.t.Value"
    assert json.loads(message.key or b"")["schema"]["name"] == "up.shop.t.Key"


def test_fields_are_as_in_ticdcs_schema() -> None:
    """Key and row structs of the same table, but for DECIMAL, which is exact, and defaults, which replace NULLs."""
    written = _side(decimal_handling_mode="double", on_lossy="flag").encoder()
    theirs = next(m for m in Golden("debezium", "wide.schema").messages() if b'"op":"c"' in (m.value or b""))
    event = next(e for e in Golden("open", "wide.default").events(True) if isinstance(e, RowChange))
    ours = written.encode(event, ORIGIN)[0]
    assert _fields(_json(ours)) == _fields(_json(theirs))
    assert len(_fields(_json(ours))) > 30


def _fields(document: dict[str, Any]) -> dict[str, Any]:
    after = next(f for f in document["schema"]["fields"] if f["field"] == "after")
    made = {}
    for field in after["fields"]:
        made[field["field"]] = {k: v for k, v in field.items() if k != "default"}
    return made


def test_topics() -> None:
    """Rows by table, schema changes by themselves, unless a rule names the rows'."""
    ddl = DdlEvent("craft", "shop", "we ird", COMMIT_TS, 5, "ALTER TABLE `we ird` ADD c INT")
    event = change(replace(MADE, id=replace_name("we ird")), ROW)
    encoder = _side(topic_prefix="up").encoder()
    for rule, topics in ((None, ["up.shop.we_ird", "up"]), ("{schema}_x", ["shop_x", "up"])):
        found = [transcode_message(_Given(entry), encoder, ORIGIN, rule).out[0].topic for entry in (event, ddl)]
        assert found == topics


def replace_name(name: str) -> Any:
    return type(MADE.id)("shop", name)


class _Given:
    def __init__(self, event: Any) -> None:
        self.event = event

    def decode(self, message: Message) -> list[Any]:
        return [self.event]


@each("form", [{}, {"debezium_disable_schema": True}, {"encoding_format": "avro"}])
def test_statements_are_schema_changes(form: dict[str, Any]) -> None:
    registry = Registry()
    image = _side(Tables(MADE), registry, topic_prefix="up", **form)
    for type_, query in ((3, "CREATE TABLE t (id INT)"), (11, "TRUNCATE TABLE t"), (4, "DROP TABLE t")):
        ddl = DdlEvent("craft", "shop", "t", COMMIT_TS, type_, query)
        [message] = image.encoder().encode(ddl, ORIGIN)
        assert message.topic == "up"
        [again] = image.decoder().decode(message)
        assert isinstance(again, DdlEvent)
        assert (again.db, again.table, again.query, again.commit_ts) == ("shop", "t", query, COMMIT_TS)
        [same] = image.encoder().encode(again, message)
        assert (same.key, same.value) == (message.key, message.value)
        if not form:
            document = _json(message)
            assert document["schema"]["name"] == "io.debezium.connector.tidb.SchemaChangeValue"
            assert list(document["payload"]) == [
                "source", "ts_ms", "databaseName", "schemaName", "ddl", "tableChanges",
            ]  # fmt: skip
            assert json.loads(message.key or b"")["payload"] == {"databaseName": "shop"}
    assert image.encoder().encode(Watermark("open", COMMIT_TS), ORIGIN) == []
    asked = _side(Tables(MADE), registry, skipped_operations="none", **form).encoder()
    truncate = DdlEvent("craft", "shop", "t", COMMIT_TS, 11, "TRUNCATE TABLE t")
    assert [m.topic for m in asked.encode(truncate, ORIGIN)] == ["default", "shop.t"]


def test_it_is_written_again_as_it_was() -> None:
    """The source block and the times of its own messages are carried."""
    golden = Golden("debezium", "wide.schema")
    doubles = {"decimal_handling_mode": "double", "on_lossy": "flag"}
    decoder, encoder = _side(golden.definitions).decoder(), _side(topic_prefix="tidb1", **doubles).encoder()
    seen = 0
    for message in tidb_messages(golden):
        for event in decoder.decode(message):
            assert isinstance(event, RowChange)
            payload, again = _json(message)["payload"], _json(encoder.encode(event, message)[0])["payload"]
            assert {k: v for k, v in again.items() if k not in ("before", "after")} == {
                k: v for k, v in payload.items() if k not in ("before", "after")
            }
            seen += 1
    assert seen > 3
