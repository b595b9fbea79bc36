"""Schemas are written byte for byte as TiCDC writes them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.support.each import each
from tests.support.golden import Golden, cases
from tests.support.rows import column, table
from ticdc_bridge.schemas.codec import go_text
from ticdc_bridge.schemas.ddl.executor.versions import DdlText, versions
from ticdc_bridge.schemas.formats.avro import schema
from ticdc_bridge.schemas.formats.debezium import avro_schema as dbz_avro
from ticdc_bridge.schemas.formats.debezium import json_schema as dbz
from ticdc_bridge.schemas.formats.debezium import schema_changes
from ticdc_bridge.schemas.inputs.table_definitions import TableDefinitions
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import DdlEvent
from ticdc_bridge.schemas.model.names import avro_subject
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Table, TableId
from ticdc_bridge.schemas.model.types import Kind

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


@each("golden", [g for g in cases("debezium") if g.name.endswith("schema") and "noschema" not in g.name], ids=str)
def test_debezium_schemas_are_ticdcs(golden: Golden) -> None:
    """Row schemas from definitions equal those in the messages, key order included."""
    options, seen = golden.options(), 0
    tables = golden.definitions
    for message in golden.messages():
        assert message.value is not None
        value = json.loads(message.value.decode("utf-8", "replace"), object_pairs_hook=list)
        payload, schema = dict(value)["payload"], dict(value)["schema"]
        if not {"op"} <= {k for k, _ in payload} or dict(payload)["op"] == "m":
            continue
        source = dict(dict(payload)["source"])
        version = tables.at(TableId(source["db"], source["table"]), source["commit_ts"])
        assert version is not None
        assert json.loads(dbz.value_schema(version.table, options, "default", None), object_pairs_hook=list) == schema
        assert message.key is not None
        key = dict(json.loads(message.key, object_pairs_hook=list))["schema"]
        assert json.loads(dbz.key_schema(version.table, options, "default"), object_pairs_hook=list) == key
        seen += 1
    assert seen > 0 or golden.name.startswith("ddl_kinds")  # has no rows


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


def test_go_escapes_html() -> None:
    assert go_text.go_json({"a": "<&>\u2028é"}) == '{"a":"\\u003c\\u0026\\u003e\\u2028é"}'


def test_definitions_of_the_same_table_version_are_equal() -> None:
    """Golden metas of one scenario define the same tables, whatever the options of the run."""
    first, second = Golden("avro", "wide.ext1"), Golden("debezium", "wide.schema")
    step = next(s for s in first.meta["steps"] if s.get("rows"))
    id_ = TableId(step["schema"], step["table"])
    tables = [TableDefinitions.read(g.meta_file).at(id_, None) for g in (first, second)]
    assert tables[0] is not None
    assert tables[1] is not None
    assert tables[0].table == tables[1].table


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
