"""Modes, importing with given ids, contexts and aliases, where the captures are silent."""

import json
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.each import each
from tests.support.service import Client, column, record
from tests.support.table import check_rows
from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.registry import config, schemas, subjects
from ticdc_bridge.service.registry.model import NewSchema, Reference
from ticdc_bridge.service.registry.names import MAX_VERSION
from ticdc_bridge.service.registry.register import lookup, register
from ticdc_bridge.service.registry.registry import Registry
from ticdc_bridge.service.testing import running_service


def refused(registry: Registry, subject: str, new: NewSchema) -> str:
    with pytest.raises(RegistryError) as error:
        register(registry, subject, new)
    return error.value.code


def test_what_each_mode_lets_through(registry: Registry) -> None:
    register(registry, "known", NewSchema('"int"'))
    for name, without, given in (
        ("READONLY", "READ_ONLY", "READ_ONLY"),
        ("READONLY_OVERRIDE", "READ_ONLY", "READ_ONLY"),
        ("IMPORT", "NOT_IN_READ_WRITE_MODE", None),
        ("READWRITE", None, "NOT_IN_IMPORT_MODE"),
    ):
        config.update_mode(registry, None, name, force=True)
        assert register(registry, "known", NewSchema('"int"')).stored.id == 1, "what is known needs no writing"
        for new, why in ((NewSchema('"long"'), without), (NewSchema('"bytes"', id=900), given)):
            if why:
                assert refused(registry, f"new-{name}", new) == why
            else:
                assert register(registry, f"new-{name}", new).stored.subject == f"new-{name}"
        if "READONLY" in name:
            for forbidden in (
                lambda: subjects.delete_subject(registry, "known"),
                lambda: subjects.delete_version(registry, "known", 1),
                lambda: config.update(registry, "known", {"compatibility": "NONE"}),
                lambda: config.update(registry, None, {"compatibility": "NONE"}),
            ):
                with pytest.raises(RegistryError, match="is in read-only mode"):
                    forbidden()


def test_modes_that_are_fixed() -> None:
    """MODE_MUTABILITY=false: what is wrong with a request is said first, and nothing is changed, as by Confluent."""
    with running_service(mode_mutability=False) as url:
        client = Client(url)
        for path in ("/mode", "/mode/s", "/mode/:.c:", "/mode/s?force=true"):
            answer = client.send("PUT", path, {"mode": "READONLY"})
            assert (answer.status, answer.json) == (
                422,
                {"error_code": 42205, "message": "Mode changes are not allowed"},
            )
        assert client.send("PUT", "/mode", {"mode": "SOME"}).json["error_code"] == 42204
        assert (client.send("DELETE", "/mode").status, client.send("DELETE", "/mode/s").status) == (422, 404)
        assert client.get("/mode").json == {"mode": "READWRITE"}
        assert client.register("s", '"int"').status == 200


def test_the_nearest_mode_counts(registry: Registry) -> None:
    config.update_mode(registry, ":.__GLOBAL:", "FORWARD")
    assert config.get_mode(registry, "s", default_to_global=True) == "FORWARD"
    assert config.get_mode(registry, None, default_to_global=False) == "READWRITE"
    config.update_mode(registry, None, "READONLY")
    config.update_mode(registry, ":.c:", "IMPORT")
    config.update_mode(registry, ":.c:s", "READWRITE")
    found = [
        config.get_mode(registry, name, default_to_global=True) for name in ("s", ":.c:", ":.c:t", ":.c:s", ":.d:s")
    ]
    assert found == ["READONLY", "IMPORT", "IMPORT", "READWRITE", "FORWARD"]
    register(registry, ":.c:s", NewSchema('"int"'))
    assert config.delete_mode(registry, ":.c:", recursive=True) == "IMPORT"
    assert config.get_mode(registry, ":.c:s", default_to_global=True) == "FORWARD"


def test_import_keeps_ids_versions_and_text(registry: Registry) -> None:
    config.update_mode(registry, "s", "IMPORT")
    config.update(registry, "s", {"normalize": True, "defaultMetadata": {"properties": {"a": "b"}}})
    odd = '{"type":"int","z":1,"a":2}'
    stored = register(registry, "s", NewSchema(odd, id=70, version=5)).stored
    assert (stored.id, stored.version, stored.content.text, stored.content.metadata) == (70, 5, odd, None)
    assert register(registry, "s", NewSchema(odd, id=70, version=5)).stored == stored, "again is the same"
    assert register(registry, "s", NewSchema('"string"', id=9)).stored.version == 6, "nothing is checked"
    assert register(registry, "s", NewSchema('"long"', id=8)).stored.id == 8
    assert refused(registry, "s", NewSchema('"bytes"', id=70)) == "ID_TAKEN"
    assert refused(registry, "s", NewSchema('"bytes"', id=71, version=5)) == "VERSION_TAKEN"
    assert subjects.list_versions(registry, "s") == [5, 6, 7]


def test_import_makes_room_for_itself(registry: Registry) -> None:
    register(registry, "inner", NewSchema(record("Inner")))
    outer = NewSchema(record("Outer", column("i", "Inner")), references=(Reference("Inner", "inner", 1),))
    register(registry, "outer", outer)
    with pytest.raises(RegistryError, match="found existing subjects"):
        config.update_mode(registry, "inner", "IMPORT")
    subjects.delete_subject(registry, "outer")
    subjects.delete_subject(registry, "inner")
    for scope in ("inner", None):  # also where the subject that refers to it is to go, too
        with pytest.raises(RegistryError, match="One or more references exist"):
            config.update_mode(registry, scope, "IMPORT")
    config.update_mode(registry, "outer", "IMPORT")
    config.update_mode(registry, None, "IMPORT")
    assert subjects.list_subjects(registry, deleted=True) == []
    assert register(registry, "t", NewSchema('"int"', id=1, version=1)).stored.id == 1


def test_numbers_run_out_with_a_clear_error(registry: Registry) -> None:
    config.update_mode(registry, None, "IMPORT")
    register(registry, "s", NewSchema('"int"', id=MAX_VERSION, version=MAX_VERSION))
    assert refused(registry, "s", NewSchema('"long"', id=4)) == "UNPROCESSABLE"
    config.update_mode(registry, None, None)
    assert register(registry, "t", NewSchema('"long"')).stored.id == 1  # ids do not run out
    assert register(registry, "u", NewSchema('"int"')).stored.id == MAX_VERSION


def test_a_soft_deleted_version_can_be_imported_again(registry: Registry) -> None:
    config.update_mode(registry, "s", "IMPORT")
    register(registry, "s", NewSchema('"int"', id=5, version=3))
    subjects.delete_version(registry, "s", 3)
    assert refused(registry, "s", NewSchema('"long"', id=5, version=3)) == "ID_TAKEN", (
        "5 would stand for another schema"
    )
    assert register(registry, "s", NewSchema('"long"', id=6, version=3)).stored.id == 6
    assert [schemas.get(registry, 6).version, subjects.list_versions(registry, "s")] == [3, [3]]
    with pytest.raises(RegistryError):
        schemas.get(registry, 5)


VALID = {"JSON": "{}", "PROTOBUF": 'syntax = "proto3"; message M { string n = 1; }', "AVRO": '"int"'}
INVALID = (
    ("JSON", '{"$ref":"#/nowhere"}'), ("JSON", '{"$ref":"http://example.com/schema.json"}'),
    ("JSON", '{"type":5,"title":"t"}'), ("JSON", "[1,2]"), ("JSON", "5"),
    ("PROTOBUF", 'syntax = "proto3";\n\nmessage M {\n  Nowhere n = 1;\n}\n'),
)  # fmt: skip
"""What Confluent's server takes in mode IMPORT alone."""


TAGS = {"tagsToAdd": [{"schemaEntity": {"entityPath": "M", "entityType": "sr_record"}, "tags": ["T"]}]}


@each(("number", "row"), enumerate(INVALID))
def test_what_is_imported_may_be_invalid(shared_client: Client, number: int, row: tuple[str, str]) -> None:
    client, (kind, text), name, id_ = shared_client, row, f"{row[0]}-{number}", 1000 + 10 * number
    assert client.register(name, text, schemaType=kind).error == (422, 42201)
    client.send("PUT", f"/mode/{name}", {"mode": "IMPORT"})
    for _ in range(2):
        answer = client.register(name, text, "?normalize=true", schemaType=kind, id=id_, version=2)
        assert (answer.json["id"], answer.json["version"], answer.json["schema"]) == (id_, 2, text)
    sent = {"schema": text, "schemaType": kind}
    assert client.send("POST", f"/subjects/{name}?normalize=true", sent).json["version"] == 2
    assert client.send("POST", f"/subjects/{name}/versions/2/tags", TAGS).status == 422
    client.send("PUT", f"/mode/{name}", {"mode": "READWRITE"})
    assert client.send("POST", f"/subjects/{name}", sent).error == (422, 42201)
    for path in (f"/schemas/ids/{id_}", f"/subjects/{name}/versions/2", f"/subjects/{name}/versions/latest"):
        assert client.get(path).json["schema"] == text
        assert client.get(f"{path}?findTags=*&format=serialized").status in (200, 422)
    for path in (f"/schemas/ids/{id_}/schema", f"/ui/subjects/{name}", f"/ui/subjects/{name}/versions/2"):
        assert client.get(path).status == 200, path
    for level in ("BACKWARD", "FORWARD", "FULL_TRANSITIVE"):
        client.level(level, name)
        assert client.register(name, VALID[kind], schemaType=kind).status in (409, 422)
        assert client.register(name, VALID[kind], schemaType=kind, propagateSchemaTags=True).status in (409, 422)
    client.level("NONE", name)
    assert client.register(name, VALID[kind], schemaType=kind).json["version"] == 3


NAMES = (("e-f", False), ("1e", False), ("", False), ("é_1", True), ("中", True), ("e\u2160", False), ("𝐞", False))
"""As far as Confluent's server checks the names of an imported schema: letters of any language (UTF_VALIDATOR)."""


def test_names_in_what_is_imported(registry: Registry) -> None:
    config.update_mode(registry, "s", "IMPORT")

    def check(row: tuple[str, bool]) -> None:
        name, taken = row
        texts = [
            record(name),
            record("R", column(name)),
            json.dumps({"type": "enum", "name": "E", "symbols": [name]}),
            json.dumps({"type": "map", "values": [{"type": "fixed", "name": name, "size": 1}]}),
        ]
        for number, text in enumerate(texts, 10 * NAMES.index(row)):
            if taken:
                assert register(registry, "s", NewSchema(text, id=number)).stored.id == number
            else:
                assert refused(registry, "s", NewSchema(text, id=number)) == "INVALID_SCHEMA"

    check_rows(NAMES, check)


def test_references_stay_in_their_context(registry: Registry) -> None:
    register(registry, "inner", NewSchema(record("Inner", column("elsewhere"))))
    register(registry, ":.c:inner", NewSchema(record("Inner", column("here"))))
    new = NewSchema(record("Outer", column("i", "Inner")), references=(Reference("Inner", "inner", -1),))
    stored = register(registry, ":.c:outer", new).stored
    assert '"here"' in schemas.format_schema(registry, stored, "resolved")
    other = replace(new, references=(Reference("Inner", ":.c:inner", 1),))
    register(registry, "first", NewSchema('"int"'))
    for context in (":.d:", ":.b:", ""):
        register(registry, f"{context}outer", other)
    assert subjects.referrers_of(registry, ":.c:inner", 1) == [3, 1, stored.id, 1], "by context, each with its ids"
    assert subjects.referrers_of(registry, "inner", 1) == []


def test_contexts_are_listed_until_they_are_deleted(registry: Registry) -> None:
    register(registry, ":.c:s", NewSchema('"int"'))
    assert subjects.list_contexts(registry) == [".", ".c"]
    with pytest.raises(RegistryError, match="'\\:\\.c\\:' is not empty"):
        subjects.delete_context(registry, ".c")
    subjects.delete_subject(registry, ":.c:s")
    subjects.delete_subject(registry, ":.c:s", permanent=True)
    assert subjects.list_contexts(registry) == [".", ".c"]
    subjects.delete_context(registry, ".c")
    assert subjects.list_contexts(registry) == ["."]
    assert register(registry, ":.c:s", NewSchema('"long"')).stored.id == 2, "its ids stay used"


def test_an_alias_stands_for_its_subject(registry: Registry) -> None:
    register(registry, "orders-value", NewSchema('"int"'))
    config.update(registry, "old-name", {"alias": "orders-value"})
    assert register(registry, "old-name", NewSchema('"long"')).stored.subject == "orders-value"
    assert lookup(registry, "old-name", NewSchema('"int"')).stored.version == 1
    assert subjects.list_versions(registry, "old-name") == [1, 2]
    found = schemas.search(registry, prefix="old", aliases=True)
    assert [(stored.subject, stored.version, aliases) for stored, aliases in found] == [
        ("orders-value", 1, ["old-name"]),
        ("orders-value", 2, ["old-name"]),
    ]
    assert subjects.delete_subject(registry, "old-name") == [1, 2]


@each("name", [".c", ":.c:", "c", "%3A.c%3A"])
def test_paths_below_a_context(name: str) -> None:
    """Of a fresh service: the name of a context in a path, as somebody may write it."""
    with running_service() as url:
        client = Client(url)
        assert client.get(f"/contexts/{name}").body == b"{}", "TiCDC may be pointed at a context"
        base = f"/contexts/{name}"
        assert client.send("POST", f"{base}/subjects/a%2Fb/versions", {"schema": '"int"'}).status == 200
        assert client.get("/subjects").json == [":.c:a/b"]
        assert client.get(f"{base}/subjects").json == client.get(f"{base}/subjects?subjectPrefix=a").json == [":.c:a/b"]
        assert client.get(f"{base}/schemas/ids/1").json["subject"] == ":.c:a/b"
        assert client.get(f"{base}/schemas").json[0]["subject"] == ":.c:a/b"
        assert client.get(f"{base}/subjects/{quote(':.d:x')}/versions").error == (404, 40401)
        answer = client.send("POST", f"{base}/compatibility/subjects/a%2Fb/versions", {"schema": '"string"'})
        assert answer.json == {"is_compatible": False}
        assert client.send("PUT", f"{base}/config", {"compatibility": "NONE"}).status == 200
        assert client.get("/config/:.c:").json == {"compatibilityLevel": "NONE"}
        assert client.get("/config").json == {"compatibilityLevel": "BACKWARD"}
        assert client.send("PUT", f"{base}/mode/x", {"mode": "READONLY"}).status == 200
        assert client.get("/mode/:.c:x").json == {"mode": "READONLY"}
        assert client.send("DELETE", base).error == (422, 42211)
        assert client.get("/contexts/a:b/subjects").error == (400, 400)


def test_the_default_context_has_three_names(client: Client) -> None:
    client.register(":.:s", '"int"')
    assert client.get("/subjects").json == client.get("/contexts/./subjects").json == ["s"]
    assert client.get("/contexts/:.:/subjects/s/versions").json == [1]
    assert client.send("PUT", "/config/:.:", {"compatibility": "NONE"}).status == 200
    assert client.get("/config").json == {"compatibilityLevel": "NONE"}
    inner = [{"name": "T", "subject": ":.:t", "version": 1}]
    client.register("t", '{"type":"fixed","name":"T","size":1}')
    assert client.register("u", '"T"', references=inner).status == 200
    assert client.get("/subjects/u/versions/1?referenceFormat=qualified").json["references"] == inner
    assert client.register(":.c:u", '"T"', references=inner).status == 200, "older stores have such references"


def test_only_reads_of_a_version_or_an_id_qualify_references_and_find_tags(client: Client) -> None:
    client.register(":.c:t", '{"type":"record","name":"T","fields":[],"confluent:tags":["PII"]}')
    sent = {
        "schema": '["null","T"]', "references": [{"name": "T", "subject": "t", "version": 1}],
        "metadata": {"properties": {"a": "b"}},
    }  # fmt: skip
    asked = "?findTags=*&referenceFormat=qualified"
    made = client.send("POST", f"/subjects/:.c:u/versions{asked}", sent).json
    reads = ("/subjects/:.c:u/versions/1", f"/contexts/.c/schemas/ids/{made['id']}")
    others = ("/subjects/:.c:u/metadata", f"/schemas/guids/{made['guid']}", "/contexts/.c/schemas")

    def shows(answer: Any) -> tuple[bool, str]:
        shape = answer[-1] if isinstance(answer, list) else answer
        return "schemaTags" in shape, shape["references"][0]["subject"]

    assert {shows(client.get(f"{path}{asked}").json) for path in reads} == {(True, ":.c:t")}
    answers = [made, client.send("POST", f"/subjects/:.c:u{asked}", sent).json]
    assert {shows(e) for e in (*answers, *(client.get(f"{path}{asked}").json for path in others))} == {(False, "t")}
