"""Schemas are written byte for byte as TiCDC writes them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from schemas.errors import WireError
from schemas.names import avro_subject
from schemas.options import Options
from schemas.publish import avro
from schemas.publish import debezium as dbz
from schemas.table import TableId
from spark_jobs.definitions import Definitions
from tests.schemas.rows import column, table
from tests.support.golden import Golden, cases

AVRO = cases("avro")


@pytest.mark.parametrize("golden", AVRO, ids=str)
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
            value, key = avro.value_schema(version.table, options), avro.key_schema(version.table, options)
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


@pytest.mark.parametrize(
    "golden", [g for g in cases("debezium") if g.name.endswith("schema") and "noschema" not in g.name], ids=str
)
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


def test_a_type_that_is_not_certain_is_not_published() -> None:
    with pytest.raises(WireError, match="--ddl") as caught:
        avro.value_schema(table(column("n", "int", vague="SMALLINT or INT")), Options())
    assert (caught.value.code, caught.value.fields["column"]) == ("TYPE_UNKNOWN", "n")
    with pytest.raises(WireError, match="precision"):
        avro.value_schema(table(column("d", "decimal")), Options())
    assert '"type":"string"' in avro.value_schema(
        table(column("d", "decimal")), Options(avro_decimal_handling_mode="string")
    )


def test_go_escapes_html() -> None:
    assert avro.go_json({"a": "<&>\u2028é"}) == '{"a":"\\u003c\\u0026\\u003e\\u2028é"}'


def test_definitions_of_the_same_table_version_are_equal() -> None:
    """Golden metas of one scenario define the same tables, whatever the options of the run."""
    first, second = Golden("avro", "wide.ext1"), Golden("debezium", "wide.schema")
    step = next(s for s in first.meta["steps"] if s.get("rows"))
    id_ = TableId(step["schema"], step["table"])
    tables = [Definitions.read(g.meta_file).at(id_, None) for g in (first, second)]
    assert tables[0] is not None
    assert tables[1] is not None
    assert tables[0].table == tables[1].table
