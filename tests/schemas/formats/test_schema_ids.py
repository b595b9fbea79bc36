"""Schema ids that are not Confluent's five bytes: in record headers, of eight bytes, before JSON; and references."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.support import connector
from tests.support.each import each
from tests.support.golden import WIDE, Golden, cases
from tests.support.rows import column, table
from tests.support.schema_ids import WAYS, with_guids
from tests.support.table import check_rows
from ticdc_bridge.schemas.codec.avro_references import Reference
from ticdc_bridge.schemas.ddl.executor.versions import DdlText, versions
from ticdc_bridge.schemas.formats.avro import schema
from ticdc_bridge.schemas.formats.base import Context, Decoder
from ticdc_bridge.schemas.formats.debezium import avro_schema as dbz_avro
from ticdc_bridge.schemas.formats.debezium import schema_changes
from ticdc_bridge.schemas.formats.framing import json_body, names_schema, unframe_field
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas, RegisteredSchema
from ticdc_bridge.schemas.inspect.explain import ExplainRequest, explain
from ticdc_bridge.schemas.inspect.format_lookup import format_named
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import DdlEvent, Event, Message, RowChange
from ticdc_bridge.schemas.model.names import avro_subject
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Table, TableId
from ticdc_bridge.schemas.model.types import Kind
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message, transcode_message

AVROS = ("avro", "debezium-avro", "debezium-mysql")
_ID = 0x77000000  # of schemas that are taken out of a golden's


@dataclass(frozen=True)
class _Source:
    """Messages in framed Avro, and the schemas that they were written with."""

    format: str
    messages: list[Message]
    schemas: FileSchemas
    zone: str = "UTC"

    def __str__(self) -> str:
        return self.format

    def decoder(self, schemas: FileSchemas | None = None, read_as: str | None = None) -> Decoder:
        options = Options.of({}, time_zone=self.zone, on_lossy="flag")
        return CodecConfig(read_as or self.format, schemas or self.schemas, options).decoder()

    def with_guids(self) -> FileSchemas:
        return with_guids(self.schemas)


def _of(format_: str, case: str = "") -> _Source:
    if format_ == "debezium-mysql":
        messages = [m for m in connector.avro_messages("default") if m.value is not None][:100]
        return _Source(format_, messages, connector.avro_schemas("default"))
    golden = Golden(format_, case or WIDE[format_])
    return _Source(format_, golden.messages(), golden.schemas, golden.zone)


def _plain(events: list[Event]) -> list[Any]:
    """What events say beside the format's id of the schema, which only Confluent's own ids are."""
    return [replace(e, schema_id=None, flags=list(e.flags)) if isinstance(e, RowChange) else e for e in events]


def test_ids_elsewhere_give_the_same_rows() -> None:
    def check(row: tuple[str, bool, str]) -> None:
        format_, by_auto, way = row
        source = _of(format_)
        decoder, plain = source.decoder(source.with_guids(), "auto" if by_auto else None), source.decoder()
        rows = 0
        for message in source.messages:
            want = decode_message(plain, message)
            got = decode_message(decoder, WAYS[way](message))
            if want.error is None:
                assert got.error is None, got.error
                assert _plain(got.events) == _plain(want.events)
                if way == "id":
                    assert got.events == want.events
                rows += len(got.events)
        assert rows

    check_rows([(f, by_auto, way) for f in AVROS for by_auto in (False, True) for way in WAYS], check)


def test_an_id_that_is_not_known_is_called_what_it_is() -> None:
    golden = Golden("avro", WIDE["avro"])
    message = next(m for m in golden.messages() if m.key and m.value)
    words = {
        "id": "value (header __value_schema_id): schema id ",
        "guid": "value (header __value_schema_id): schema id 01020304-0506-0708-090a-",
        "globalId": "value (header apicurio.value.globalId): schema id ",
        "contentId": "value (header apicurio.value.contentId): schema id ",
        "eight bytes": "value (8-byte schema id): schema id ",
    }

    def check(way: str) -> None:
        decoder = CodecConfig("avro", FileSchemas([], "my.jsonl"), Options.of({})).decoder()
        error = decode_message(decoder, WAYS[way](message)).error
        assert error is not None
        assert (error.code, error.detail.startswith(words[way])) == ("UNKNOWN_SCHEMA_ID", True), error.detail

    check_rows(WAYS, check)


def test_headers_that_can_not_be_read_are_named() -> None:
    rows: list[tuple[str, bytes, str, list[str]]] = [
        ("__value_schema_id", b"", "MALFORMED", ["__value_schema_id", "4 bytes", "16"]),
        ("__value_schema_id", b"\0\0\0", "MALFORMED", ["__value_schema_id"]),
        ("__value_schema_id", b"\2\0\0\0\1", "MALFORMED", ["__value_schema_id"]),
        ("__value_schema_id", b"\0\0\0\0\1\0", "MALFORMED", ["__value_schema_id", "Protobuf"]),
        ("apicurio.value.globalId", b"27", "MALFORMED", ["apicurio.value.globalId", "2 bytes", "8"]),
        ("apicurio.value.encoding", b"JSON", "UNSUPPORTED_SCHEMA", ["apicurio.value.encoding", "JSON", "BINARY"]),
        ("apicurio.value.artifactId", b"orders", "NOT_FRAMED", ["apicurio.value.artifactId", "globalId"]),
        ("apicurio.value.contentHash", b"ab", "NOT_FRAMED", ["apicurio.value.contentHash", "contentId"]),
    ]

    def check(row: tuple[str, bytes, str, list[str]]) -> None:
        name, value, code, words = row
        for format_ in ("avro", "debezium-avro", "debezium-mysql"):
            decoder = CodecConfig(format_, FileSchemas([]), Options.of({})).decoder()
            error = decode_message(decoder, Message(None, b"\2\2", "t", headers=((name, value),))).error
            assert error is not None
            assert error.code == code
            assert all(word in error.detail for word in words), error.detail

    check_rows(rows, check)


def test_the_last_header_of_a_name_counts_and_null_is_none() -> None:
    first, last = ("__value_schema_id", b"\0\0\0\0\1"), ("__value_schema_id", b"\0\0\0\0\2")
    assert unframe_field(b"xy", "value", (first, last))[0] == 2
    assert unframe_field(b"\0\0\0\0\5y", "value", (first, ("__value_schema_id", None)))[0] == 5
    assert unframe_field(b"\0\0\0\0\5y", "key", (first,)) == (5, b"\0\0\0\0\5y", 5, "key")
    assert names_schema((first,), "value")
    assert not names_schema((first,), "key")
    assert not names_schema((("__value_schema_id", None), ("trace", b"1")))


_JSON = ("debezium", "canal-json", "simple")


def test_json_behind_a_schema_id_is_json() -> None:
    """As Confluent's JSON Schema converter frames it, and Apicurio's; whatever its schema is called, or without one."""
    kinds = [
        RegisteredSchema("t-value", 1, 7, '{"type":"object"}', "JSON"),
        RegisteredSchema("t-key", 1, 7, "{}", "JSON"),
    ]

    def check(row: tuple[str, str, bytes, bool]) -> None:
        format_, read_as, head, known = row
        golden = Golden(format_, WIDE[format_])
        config = CodecConfig(read_as, FileSchemas(kinds if known else []), Options.of({}, time_zone=golden.zone))
        decoder, plain = config.decoder(), golden.side().decoder()
        rows = 0
        for message in golden.messages():
            key, value = (None if field is None else head + field for field in (message.key, message.value))
            want, got = decode_message(plain, message), decode_message(decoder, replace(message, key=key, value=value))
            assert got.events == want.events
            assert str(got.error) == str(want.error)
            rows += len(got.events)
        assert rows

    heads = (b"\0\0\0\0\7", b"\0" + b"\0" * 7 + b"\7")
    check_rows([(f, r, head, known) for f in _JSON for r in (f, "auto") for head in heads for known in (True, False)],
               check)  # fmt: skip


def test_only_json_is_taken_for_json() -> None:
    rows = {
        b'\0\0\0\0\5{"a":1}': b'{"a":1}', b'\0\0\0\0\5{} \n': b"{} \n", b'\0\0\0\0\0\0\0\0\5{"a":1}': b'{"a":1}',
        b"\0\0\0\0\5{": None, b'\0\0\0\0\5["a"]': None, b"\0\0\0\0\5": None, b"": None, b'{"a":1}': None,
    }  # fmt: skip
    check_rows(rows, lambda data: _same(json_body(data), data if rows[data] is None else rows[data]))


def _same(left: object, right: object) -> None:
    assert left == right


def test_schemas_of_other_kinds_are_named_in_every_avro_format() -> None:
    entries = [RegisteredSchema("t-value", 1, 7, "{}", "JSON"), RegisteredSchema("p-value", 1, 8, "syntax", "PROTOBUF")]

    def check(row: tuple[str, int, str]) -> None:
        format_, id_, word = row
        decoder = CodecConfig(format_, FileSchemas(entries), Options.of({})).decoder()
        error = decode_message(decoder, Message(None, b"\0" + id_.to_bytes(4, "big") + b"\2\2", "t")).error
        assert error is not None
        assert f"schema id {id_} is {word}, not Avro" in error.detail

    kinds = ((7, "a JSON Schema"), (8, "a Protobuf schema"))
    check_rows([(f, *k) for f in ("avro", "debezium-avro", "debezium-mysql", "auto") for k in kinds], check)


# ---- references
def _split(entry: RegisteredSchema, name: str) -> list[RegisteredSchema]:
    """A schema whose record `name` is another subject's, and that."""
    taken: dict[str, Any] = {}

    def walk(node: Any, namespace: str) -> Any:
        if isinstance(node, list):
            return [walk(item, namespace) for item in node]
        if not isinstance(node, dict):
            return node
        inner = node.get("namespace", namespace)
        if node.get("type") == "record" and node["name"] == name:
            taken.setdefault("schema", {**node, "namespace": inner})
            return f"{inner}.{name}" if inner else name
        pieces = {piece: walk(node[piece], inner) for piece in ("type", "fields", "items") if piece in node}
        return {**node, **pieces}

    whole = json.loads(entry.schema)
    rest = walk(whole, "")
    reference = Reference(name, f"{entry.subject}.{name}", 1)
    return [
        RegisteredSchema(reference.subject, 1, _ID + int(entry.id), json.dumps(taken["schema"])),
        replace(entry, schema=json.dumps(rest), references=(reference,)),
    ]


def test_references_give_the_same_rows() -> None:
    """The old row of TiCDC's Avro, the source block and the row of its Debezium Avro are other subjects' records."""

    def check(row: tuple[str, str, Callable[[RegisteredSchema], str | None]]) -> None:
        format_, case, part = row
        source = _of(format_, case)
        entries: list[RegisteredSchema] = []
        for entry in source.schemas.all():
            name = part(entry)
            entries += [entry] if name is None else _split(entry, name)
        assert any(e.references for e in entries)
        plain = source.decoder()
        for read_as in (format_, "auto"):
            decoder = source.decoder(FileSchemas(entries), read_as)
            for message in source.messages:
                assert decode_message(decoder, message).events == decode_message(plain, message).events

    def old_row(entry: RegisteredSchema) -> str | None:
        return _name_with(entry.schema, "_before") or None

    def source(entry: RegisteredSchema) -> str | None:
        return "Source" if '"name":"Source"' in entry.schema.replace(" ", "") else None

    check_rows(
        [("avro", "wide.before.ext1", old_row), ("debezium-avro", "", source), ("debezium-mysql", "", source)], check
    )


def _name_with(text: str, ending: str) -> str:
    match = re.search(rf'"name":\s*"(\w+{ending})"', text.replace('"_ticdc_before"', '""'))
    return match[1] if match else ""


def test_a_file_names_what_a_reference_lacks() -> None:
    record = '{"type":"record","name":"t","namespace":"a.b","fields":[{"name":"x","type":"n.X"}]}'
    missing = RegisteredSchema("t-value", 1, 3, record, references=(Reference("n.X", "x", 4),))
    circle = RegisteredSchema("c-value", 1, 5, record, references=(Reference("n.X", "c-value", 1),))
    rows = {3: "refers to n.X of subject x version 4, which my.jsonl does not have",
            5: "in a circle: c-value version 1, which refers to c-value version 1"}  # fmt: skip

    def check(id_: int) -> None:
        for format_ in ("avro", "debezium-avro", "debezium-mysql", "auto"):
            decoder = CodecConfig(format_, FileSchemas([missing, circle], "my.jsonl"), Options.of({})).decoder()
            error = decode_message(decoder, Message(None, b"\0" + id_.to_bytes(4, "big") + b"\2", "t")).error
            assert error is not None
            assert (error.code, rows[id_] in error.detail) == ("UNSUPPORTED_SCHEMA", True), error.detail

    check_rows(rows, check)


# ---- contexts in a file
def test_an_id_of_two_contexts_is_that_of_the_topics_subject() -> None:
    def entry(subject: str, table: str, id_: int = 2) -> RegisteredSchema:
        kind = '{"type":"int","connect.parameters":{"tidb_type":"INT"}}'
        text = (
            f'{{"type":"record","name":"{table}","namespace":"default.shop","fields":[{{"name":"id","type":{kind}}}]}}'
        )
        return RegisteredSchema(subject, 1, id_, text)

    both = [entry("items-value", "items"), entry(":.dev:a_orders-value", "orders")]
    rows: list[tuple[list[RegisteredSchema], str | None, str]] = [
        (both, "items", "items"), (both, "a_orders", "orders"), (both, "a.orders", "orders"),
        ([*both, entry("a_orders-value", "news")], "a.orders", "news"), ([both[1]], "else", "orders"),
    ]  # fmt: skip

    def check(row: tuple[list[RegisteredSchema], str | None, str]) -> None:
        entries, topic, table = row
        decoder = CodecConfig("avro", FileSchemas(entries), Options.of({})).decoder()
        (event,) = decode_message(decoder, Message(None, b"\0\0\0\0\2\2", topic)).events
        assert isinstance(event, RowChange)
        assert event.table_name == table

    check_rows(rows, check)
    for topic, word in (("else", "else-value is neither"), (None, "no topic")):
        decoder = CodecConfig("avro", FileSchemas(both), Options.of({})).decoder()
        error = decode_message(decoder, Message(None, b"\0\0\0\0\2\2", topic)).error
        assert isinstance(error, WireError)
        assert "items-value and of :.dev:a_orders-value" in error.detail
        assert word in error.detail


# ---- explain
def test_explain_says_where_the_id_stands() -> None:
    golden = Golden("avro", WIDE["avro"])
    message = next(m for m in golden.messages() if m.key and m.value)
    words = {"id": "none: schema ", "guid": "by header __value_schema_id", "globalId": "apicurio.value.globalId",
             "contentId": "by header apicurio.value.contentId", "eight bytes": "(8 bytes)"}  # fmt: skip

    def check(way: str) -> None:
        config = CodecConfig("auto", _of("avro").with_guids(), Options.of({}, time_zone=golden.zone))
        answer = explain(ExplainRequest(WAYS[way](message), "auto", config.context(), config.options))
        assert answer["format"] == "avro"
        assert words[way] in answer["framing"][1]["says"]
        assert [f["column"] for f in answer["events"][0]["fields"] if f["hex"] is None] == []

    check_rows(WAYS, check)


def test_what_is_written_has_no_headers_of_the_schemas_read() -> None:
    """A consumer would read the new body by the old schema."""

    def check(way: str) -> None:
        source = _of("avro")
        encoder = format_named("debezium").encoder(Context(FileSchemas([]), options=Options.of({"on_lossy": "flag"})))
        decoder = source.decoder(source.with_guids())
        for message in source.messages:
            for written in transcode_message(decoder, encoder, WAYS[way](message)).out:
                assert written.headers == (() if way == "eight bytes" else (("trace", b"1"), ("__key", None)))

    check_rows(WAYS, check)


# ---- Schemas are written byte for byte as TiCDC writes them.

AVRO = cases("avro")


@each("golden", AVRO, ids=str)
def test_avro_text_is_what_ticdc_registered(golden: Golden) -> None:
    """From the definitions of the meta, in its mode: all that TiCDC registered, and nothing else."""
    tables = golden.definitions
    options = Options.of({**vars_of(golden.options()), "keyspace": golden.meta.get("keyspace") or "default"})
    texts: dict[str, set[str]] = {}
    refused = False
    for step in golden.meta["steps"]:
        if not step.get("rows"):
            continue
        version = tables.at(TableId(step["schema"], step["table"]), step["commit_ts"])
        assert version is not None
        topics = {m.topic for m in golden.messages() if m.topic}
        try:
            value, key = schema.value_schema(version.table, options), schema.key_schema(version.table, options)
        except WireError:
            refused = True
            continue
        for topic in topics:
            texts.setdefault(avro_subject(str(topic), "value"), set()).add(value)
            if key is not None:
                texts.setdefault(avro_subject(str(topic), "key"), set()).add(key)
    assert refused == golden.name.startswith("names_collision")
    ours = {text for found in texts.values() for text in found}
    registered = {r["schema"] for r in golden.meta["registered_schemas"] or []}
    if golden.name.startswith("names_collision"):
        assert ours <= registered | ours
        return
    assert registered - ours == set()


def vars_of(options: Options) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(options)


@each("golden", cases("debezium-avro"), ids=str)
def test_debezium_avro_text_is_what_ticdc_registered(golden: Golden) -> None:
    """Key and value of rows, DDL and watermarks, in the case's mode: byte for byte, and nothing else."""
    tables, options = golden.definitions, golden.options()
    ours: dict[str, str] = {}
    for step in golden.meta["steps"]:
        made = None
        if step.get("rows"):
            version = tables.at(TableId(step["schema"], step["table"]), step["commit_ts"])
            assert version is not None
            if golden.name.startswith("names_collision"):
                with pytest.raises(WireError, match="two columns become 'a_b'"):
                    dbz_avro.row_schemas(version.table, options, "default")
                continue
            made = dbz_avro.row_schemas(version.table, options, "default")
        elif step["kind"] == "ddl" and options.avro_enable_watermark:
            made = dbz_avro.ddl_schemas(step["schema"], "default")
        if made is not None:
            ours |= {made.key: made.key_name, made.value: made.value_name}
    if options.avro_enable_watermark:
        made = dbz_avro.watermark_schemas("default")
        ours |= {made.key: made.key_name, made.value: made.value_name}
    registered = {r["schema"]: r["subject"] for r in golden.meta["registered_schemas"] or []}
    if golden.name.startswith("names_collision"):
        return
    assert set(registered) - set(ours) == set()
    # TiCDC has no value schema for a virtual column, and none for rows it could not encode.
    if golden.name.startswith("generated"):
        return
    assert golden.meta["encode_errors"] or set(ours) == set(registered)
    topics = {m.topic for m in golden.messages()}
    for text, subject in registered.items():
        assert subject == ours[text] or subject.rpartition("-")[0] in topics


def _described(table_: Table, columns: list[dict[str, Any]]) -> Table:
    """The table with all that a meta's columns tell of lengths, which `--ddl` with a meta does not read."""
    by_name = {c["name"]: c for c in columns}
    made = []
    for column_ in table_.columns:
        listed = by_name[column_.name]
        scale = listed["decimal"] if column_.type.kind in (Kind.FLOAT, Kind.DOUBLE) else column_.scale
        auto = bool(listed["mysql_flag"] & 512)
        length = listed["flen"] if listed["flen"] != -1 else None
        made.append(
            replace(
                column_,
                length=length,
                scale=None if scale == -1 else scale,
                auto_increment=auto,
                on_update="CURRENT_TIMESTAMP" if listed["mysql_flag"] & 8192 else "",
            )
        )
    return Table(table_.id, tuple(made), table_.indexes)


# What TiCDC writes by chance: a comment in ALTER only, YEAR's width and fsp 0 after some ALTER, no length of a
# generated VARCHAR.
_CHANCE = ("comment",)


@each("golden", [g for g in cases("debezium") if g.name.endswith(".schema")], ids=str)
def test_table_changes_are_ticdcs(golden: Golden) -> None:
    """The changes of each DDL message, made anew from the definitions, as far as a meta tells them."""
    steps = {s["commit_ts"]: s for s in golden.meta["steps"]}
    for message in golden.messages():
        [event] = golden.side().decoder().decode(message)
        if not isinstance(event, DdlEvent):
            continue
        assert event.commit_ts is not None
        step = steps[event.commit_ts]
        made = schema_changes.of_event(
            replace(event, extra={}, ddl_type=step["ddl_type"]), golden.definitions, golden.zone
        )
        by_words = schema_changes.of_event(replace(event, extra={}), golden.definitions, golden.zone)
        want = event.extra["tableChanges"]
        drops_index = "DROP INDEX" in event.query
        assert [c["type"] for c in made] == [c["type"] for c in want]
        assert drops_index or made == by_words
        for ours, theirs in zip(made, want, strict=True):
            assert ours["id"] == theirs["id"] or theirs["id"].endswith("," + ours["id"])
            if not step.get("columns") or "VIEW" in event.query:
                continue
            assert (ours["table"] is None) == event.query.startswith("DROP ")
            if ours["table"] is None:
                continue
            version = golden.definitions.at(TableId(event.db, event.table), event.commit_ts + 1)
            assert version is not None
            block = schema_changes.table_block(_described(version.table, step["columns"]), golden.zone)
            assert list(block) == list(theirs["table"])
            if version.table.primary_key:  # a meta does not list the unique keys
                assert sorted(block["primaryKeyColumnNames"]) == sorted(theirs["table"]["primaryKeyColumnNames"])
            for got, wanted in zip(block["columns"], theirs["table"]["columns"], strict=True):
                assert list(got) == list(wanted)
                if golden.name.startswith("generated") and wanted["name"] == "z":
                    continue
                assert _without_chance(got, wanted) == _without_chance(wanted, wanted)


def _without_chance(column_: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    left = {k: v for k, v in column_.items() if k not in _CHANCE}
    if wanted["typeName"] in ("YEAR", "TIMESTAMP", "DATETIME", "TIME") and left["length"] in (0, 4):
        left["length"] = None
    if wanted["typeName"] == "BIT":
        del left["defaultValueExpression"]  # bits read as text that is not UTF-8
    return left


def test_a_type_that_is_not_certain_is_not_published() -> None:
    with pytest.raises(WireError, match="--ddl") as caught:
        schema.value_schema(table(column("n", "int", vague="SMALLINT or INT")), Options())
    assert (caught.value.code, caught.value.fields["column"]) == ("TYPE_UNKNOWN", "n")
    with pytest.raises(WireError, match="precision"):
        schema.value_schema(table(column("d", "decimal")), Options())
    assert '"type":"string"' in schema.value_schema(
        table(column("d", "decimal")), Options(avro_decimal_handling_mode="string")
    )


@each(("name", "options"), [
    ("_tidb_op", {"enable_tidb_extension": True}), ("_tidb_op", {"avro_include_before_value": True}),
    ("_TIDB_OP", {}), ("_tidb_commit_ts", {"enable_tidb_extension": True}),
    ("_ticdc_before", {"avro_include_before_value": True}), ("_tidb_op", {}),
])  # fmt: skip
def test_no_column_has_the_name_of_a_field_that_ticdc_adds(name: str, options: dict[str, Any]) -> None:
    text = f"CREATE TABLE t (id INT PRIMARY KEY, `{name}` INT)"
    [version] = versions([DdlText(1, "shop", text)])
    if not options:
        assert f'"name":"{name}"' in schema.value_schema(version.table, Options())
        return
    with pytest.raises(WireError, match=rf"a column and a field of TiCDC's extension are called '{name}'"):
        schema.value_schema(version.table, Options.of(options))
