"""Schemas that are deep, long or hostile over HTTP: an answer for each, in bounded time."""

import json
from itertools import product
from typing import Any

from tests.support.each import each
from tests.support.service import Client, column, record
from ticdc_bridge.service.schema_types.java_text import MAX_DEPTH


def nested(depth: int) -> str:
    """An array in an array in an array …"""
    return '{"type":"array","items":' * depth + '"int"' + "}" * depth


def nested_records(depth: int) -> str:
    head = "".join(f'{{"type":"record","name":"R{n}","fields":[{{"name":"f","type":' for n in range(depth))
    return head + '"int"' + "}]}" * depth


# Each level of the default fits both records until the last, so a naive check asks 2^60 times.
DEFAULT_WITH_MANY_READINGS = record(
    "O",
    column("a", json.loads(record("A", column("f", ["A", "B", "null"])))),
    column("b", json.loads(record("B", column("f", ["A", "B", "null"])))),
    column("c", ["A", "B"], default=json.loads('{"f":' * 60 + "5" + "}" * 60)),
)


MONSTROUS = [
    nested(MAX_DEPTH + 1), nested(1500), nested(100_000), nested_records(1200),
    json.dumps({"type": "int", "p": json.loads("[" * 300 + "]" * 300)}), "[" * 3000 + "]" * 3000,
    '{"type":"int","p":' + "9" * 10_000 + "}", '{"type":"int","p":NaN}', '{"type":"fixed","name":"F","size":1e400}',
    "/*" * 1_000_000, '"' + '\\"' * 1_000_000 + "/",
]  # fmt: skip
READING = ("/subjects/deep/versions", "/subjects/deep", "/compatibility/subjects/deep/versions")


@each(("path", "schema"), product(READING, MONSTROUS))
def test_monstrous_schemas_are_invalid(shared_client: Client, path: str, schema: str) -> None:
    assert shared_client.send("POST", path, {"schema": schema}).error == (422, 42201)


@each("schema", [
    DEFAULT_WITH_MANY_READINGS,
    '{"type":"record","name":"R","fields":[{"name":"r","type":"R","default":{}}]}',
    '{"type":"record","name":"R","fields":[{"name":"r","type":{"type":"array","items":"int"},"default":5}]}',
])  # fmt: skip
def test_defaults_that_are_not_valid(shared_client: Client, schema: str) -> None:
    """They are refused for new schemas; looking one up reads it as leniently as what is stored."""
    for path in ("/subjects/deep/versions", "/compatibility/subjects/deep/versions"):
        assert shared_client.send("POST", path, {"schema": schema}).error == (422, 42201)
    is_refused = schema == DEFAULT_WITH_MANY_READINGS  # a part of it is of no type of its first branch
    for query, expected in (("", (404, 40401)), ("?normalize=true", (422, 42201) if is_refused else (404, 40401))):
        assert shared_client.send("POST", f"/subjects/deep{query}", {"schema": schema}).error == expected


def test_a_chain_of_references_that_is_too_deep(client: Client) -> None:
    """Each schema is well within the bound; written out, they are not."""
    for step in range(8):
        below = f"n{step - 1}.R0" if step else "int"
        schema = (
            nested_records(50)
            .replace('"int"', f'"{below}"')
            .replace('"name":"R0"', f'"name":"R0","namespace":"n{step}"')
        )
        more: dict[str, Any] = (
            {"references": [{"name": below, "subject": f"s{step - 1}", "version": 1}]} if step else {}
        )
        assert client.register(f"s{step}", schema, **more).status == 200
    assert client.get("/subjects/s0/versions/1?format=resolved").status == 200
    assert client.get("/subjects/s7/versions/1?format=resolved").error == (422, 42201)
    assert client.get("/subjects/s7/versions/1").status == 200


def test_deep_schemas_work(shared_client: Client) -> None:
    shared_client.level("FULL_TRANSITIVE", "deep-ok")
    for schema in (nested(MAX_DEPTH - 1), nested_records(60)):
        subject = f"deep-{len(schema)}"
        assert shared_client.register(subject, schema).status == 200
        path = f"/compatibility/subjects/{subject}/versions"
        assert shared_client.send("POST", path, {"schema": schema}).json == {"is_compatible": True}
