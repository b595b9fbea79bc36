"""What a `_schemas` topic comes to, and what a move changes: rules without I/O."""

import argparse
import json
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.each import each
from tests.support.service import GOLDEN
from ticdc_bridge.service.migration.dump_file import read_records
from ticdc_bridge.service.migration.plan import (
    DELETED,
    ID_TAKEN,
    OTHER_CONFIG,
    OTHER_ID,
    OTHER_MODE,
    OTHER_SCHEMA,
    carry_out,
    compare,
    fingerprint,
    plan_merge,
)
from ticdc_bridge.service.migration.snapshot import (
    Snapshot,
    order_by_references,
    parse_versions,
    schema_comparison,
    snapshot_of,
)
from ticdc_bridge.service.migration.topic_records import TopicRecord
from ticdc_bridge.service.migration.topic_replay import Replay
from ticdc_bridge.service.registry.model import Content, Reference, StoredVersion
from ticdc_bridge.service.registry.registry import Registry
from ticdc_bridge.service.store import open_store
from ticdc_bridge.service.testing import running_service

tool: Any = import_module("tests.tools.registry_replay")

CONFLUENT, KARAPACE = GOLDEN / "schemas-topic-confluent.tsv", GOLDEN / "schemas-topic-karapace.tsv"


def record(keytype: str, value: Any, ts: int = 1, **key: Any) -> TopicRecord:
    data = None if value is None else json.dumps(value).encode()
    return TopicRecord(json.dumps({"keytype": keytype, **key, "magic": 1}).encode(), data, "topic t offset 7", ts)


def schema(subject: str, version: int, number: int, text: str = '"int"', **more: Any) -> TopicRecord:
    value = {"subject": subject, "version": version, "id": number, "schema": text, **more}
    return record("SCHEMA", value, subject=subject, version=version)


def gone(subject: str, version: int) -> TopicRecord:
    return record("SCHEMA", None, subject=subject, version=version)


def replayed(*records: TopicRecord) -> Replay:
    return Replay().apply_all(records)


def snapshot(*records: TopicRecord) -> Snapshot:
    done = replayed(*records)
    assert not done.broken
    return done.snapshot


def rows(found: Snapshot) -> dict[Any, Any]:
    return {
        key: (version.id, version.deleted, version.content.text, version.content.metadata)
        for key, version in found.versions.items()
    }


# ---- topics that real servers wrote


def test_confluents_topic_is_what_its_requests_come_to(tmp_path: Path) -> None:
    """The captured requests, sent to our service, and the topic that Confluent's server wrote for them."""
    store = f"sqlite:///{tmp_path / 'registry.db'}"
    header, exchanges = tool.read_capture(GOLDEN / "confluent-8.5.0.jsonl")
    options = argparse.Namespace(group=[], no_needs=False, reverse=False)
    with running_service(store=store) as url:
        server, names = tool.Server(url, [], 30.0), tool.Names()
        for exchange, _ in tool.plan(header, exchanges, options):
            context = tool.context_of_request(exchange["path"], tool.Answer(0, None, exchange["resp_body"]).json)
            actual = server.send(exchange, names.translate_path(exchange["path"], context))
            tool.judge(exchange, actual, names, tool.EIGHT)
    opened = open_store(store)
    with opened.read() as tx:
        ours = snapshot_of(tx)
    opened.close()
    theirs = replayed(*read_records(str(CONFLUENT)))
    assert not theirs.broken
    assert len(ours.versions) == 114
    assert fingerprint(ours) == fingerprint(theirs.snapshot)


def test_karapaces_topic() -> None:
    done = replayed(*read_records(str(KARAPACE)))
    assert not done.broken
    assert done.left_out == {"CONFIG of '__GLOBAL', which is no valid name": 1}
    found = done.snapshot
    assert len(found.versions) == 166
    assert [key for key, version in found.versions.items() if version.deleted] == [("m1", 1)]
    assert found.marks == {".": 84, ".ctx": 2}
    assert found.configs["m1"] == {"compatibilityLevel": "NONE"}
    assert ":.:" not in found.configs  # set and removed again, under Karapace's key with "subject": null
    assert found.versions["can1", 1].content.text == '{"type":"string"}'


def test_what_karapace_wrote_is_found_again(registry: Registry) -> None:
    """Its texts have sorted keys; a client that sends the schema in another order gets the same version and id."""
    from ticdc_bridge.service.registry import register
    from ticdc_bridge.service.registry.model import NewSchema

    source = replayed(*read_records(str(KARAPACE))).snapshot
    done, unread = parse_versions(registry, source.versions.values(), source)
    assert unread == [("jb3", 1)]  # the Karapace it came from took a number for a JSON schema
    with registry.store.write() as tx:
        ready, plan = {(stored.subject, stored.version): stored for stored in done}, plan_merge(source, snapshot_of(tx))
        carry_out(tx, replace(plan, add=[ready[stored.subject, stored.version] for stored in plan.add]))
    sent = '{"type":"record","namespace":"ns","name":"A","fields":[{"name":"id","type":"long"}]}'
    stored = source.versions["s1", 1]
    for found in (
        register.register(registry, "s1", NewSchema(sent)),
        register.lookup(registry, "s1", NewSchema(stored.content.text)),
    ):
        assert (found.stored.id, found.stored.version) == (stored.id, 1)
        assert found.stored.content.text == stored.content.text
    assert register.register(registry, "new", NewSchema(sent)).stored.id == stored.id
    assert register.register(registry, "new", NewSchema('"boolean"'), force=True).stored.id == 76  # Karapace's


# ---- records, one kind at a time


def test_soft_and_permanent_deletes() -> None:
    two = (schema("s", 1, 1), schema("s", 2, 2, '"long"'), schema("t", 1, 3, '"string"'))
    delete = record("DELETE_SUBJECT", {"subject": "s", "version": 2}, subject="s")
    found = snapshot(*two, delete, schema("s", 3, 1), gone("s", 2))
    assert rows(found) == {
        ("s", 1): (1, True, '"int"', None),
        ("s", 3): (1, False, '"int"', None),
        ("t", 1): (3, False, '"string"', None),
    }
    assert snapshot(schema("s", 9, 9), gone("s", 9)).marks == {".": 9}
    assert rows(snapshot(schema("s", 1, 1), schema("s", 1, 1, deleted=True)))["s", 1][1]


def test_an_empty_value_deletes_as_karapace_means_it() -> None:
    key = b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}'
    assert snapshot(schema("s", 1, 1), TopicRecord(key, b"")).versions == {}


def test_clearing_takes_what_is_soft_deleted() -> None:
    both = (schema("s", 1, 1, deleted=True), schema("s", 2, 1), schema(":.c:s", 1, 1, deleted=True))
    clear = record("CLEAR_SUBJECT", {"subject": ":.c:"}, subject=":.c:")
    assert list(snapshot(*both, clear).versions) == [("s", 1), ("s", 2)]
    clear = record("CLEAR_SUBJECT", {"subject": "s"}, subject="s")
    assert list(snapshot(*both, clear).versions) == [("s", 2), (":.c:s", 1)]


def test_old_forms() -> None:
    """No schemaType, no deleted, magic 0, other orders of keys, values that do not name their subject."""
    key = b'{"magic":0,"keytype":"SCHEMA","version":1,"subject":"s"}'
    old = TopicRecord(key, b'{"id":5,"schema":"\\"int\\"","version":1,"subject":"s"}')
    config = TopicRecord(b'{"magic":0,"subject":null,"keytype":"CONFIG"}', b'{"compatibilityLevel":"full","offset":3}')
    found = snapshot(old, config, record("MODE", {"mode": "readonly"}, subject="s"))
    assert rows(found) == {("s", 1): (5, False, '"int"', None)}
    assert (found.configs, found.modes) == ({":.:": {"compatibilityLevel": "FULL"}}, {"s": "READONLY"})


def test_references_metadata_contexts_and_aliases() -> None:
    metadata = {"tags": {"b": ["Y", "X"], "a": []}, "properties": {"k": "v"}, "sensitive": []}
    found = snapshot(
        schema(":.c:base", 1, 1, '{"type":"fixed","name":"F","size":2}'),
        schema(":.c:s", 1, 2, '"F"', references=[{"name": "F", "subject": "base", "version": -1}], metadata=metadata),
        record("CONFIG", {"subject": "old", "alias": "s"}, subject="old"),
        record("CONTEXT", {"tenant": "default", "context": ".d"}, tenant="default", context=".d"),
    )
    content = found.versions[":.c:s", 1].content
    assert content.references == (Reference("F", "base", 1),)
    assert content.metadata == {"tags": {"a": [], "b": ["X", "Y"]}, "properties": {"k": "v"}}
    assert found.configs == {"old": {"alias": "s"}}
    assert found.contexts == {".c", ".d"}
    assert found.marks == {".c": 2}


def test_what_is_not_known_is_counted() -> None:
    done = replayed(
        record("ASSOC", {"x": 1}, subject="s"),
        record("ASSOC", None, subject="s"),
        record("NOOP", None),
        record("CONFIG", {"compatibilityLevel": "NONE", "newThing": 1}, subject="s"),
    )
    assert (done.unknown, done.left_out, done.broken) == ({"ASSOC": 2}, {"config field newThing": 1}, [])


@each(("broken", "reason"), [
    (TopicRecord(None, b"{}", "offset 3"), "offset 3: there is no key"),
    (TopicRecord(b"{", None, "offset 3"), "offset 3: the key is no JSON"),
    (TopicRecord(b"[]", None, "offset 3"), "offset 3: the key has no keytype"),
    (TopicRecord(b'"\xff"', None, "offset 3"), "offset 3: the key is no JSON"),
    (record("SCHEMA", {}, subject="s"), "version is null, not a number from 1 to 2147483647"),
    (record("SCHEMA", {"id": 1}, subject="s", version=1), "there is no schema text"),
    (schema("s", 1, True), "id is true, not a number"),
    (schema("s", 1, 2**31), "id is 2147483648, not a number"),
    (
        record("SCHEMA", {"subject": "t", "id": 1, "schema": "x"}, subject="s", version=1),
        "key and value name different versions",
    ),
    (schema("s", 1, 1, references=[{"name": "x"}]), "a reference needs name, subject and version"),
    (schema("s", 1, 1, metadata={"tags": 1}), "metadata: "),
    (schema("s", 1, 1, metadata={"properties": {"__enc__": "x"}}), "its metadata is encrypted"),
    (record("SCHEMA", [1], subject="s", version=1), "the value is no JSON object"),
    (record("MODE", {"mode": "OFF"}), "mode is 'OFF'"),
    (record("CONFIG", {"compatibilityLevel": "SOME"}), "compatibilityLevel is 'SOME'"),
    (TopicRecord(b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":7}', b"{}"), "magic 7"),
])  # fmt: skip
def test_broken_records_are_named(broken: TopicRecord, reason: str) -> None:
    done = replayed(schema("t", 1, 1), broken)
    assert done.broken_count == len(done.broken) == 1
    assert reason in done.broken[0]
    assert list(done.snapshot.versions) == [("t", 1)]


def test_an_id_with_two_schemas_is_broken() -> None:
    done = replayed(schema("s", 1, 4), schema("t", 1, 4, '"long"'), schema(":.c:t", 1, 4, '"long"'))
    assert "id 4 stands for another schema already, that of s version 1" in done.broken[0]
    assert list(done.snapshot.versions) == [("s", 1), (":.c:t", 1)]
    # what was deleted for good leaves its id to whoever brings it
    assert not replayed(schema("s", 1, 4), gone("s", 1), schema("t", 1, 4, '"long"')).broken


@given(st.lists(st.tuples(st.binary(max_size=40) | st.none(), st.binary(max_size=40) | st.none()), max_size=5))
def test_any_bytes_are_taken_in(some: list[tuple[bytes | None, bytes | None]]) -> None:
    done = replayed(*(TopicRecord(key, value) for key, value in some))
    assert done.broken_count + sum(done.counted.values()) >= len(some)


# ---- plans


def test_conflicts_are_found_all_at_once(registry: Registry) -> None:
    target = snapshot(
        schema("text", 1, 1), schema("id", 1, 2, '"long"'), schema("deleted", 1, 3, '"float"', deleted=True),
        schema("other", 1, 9, '"double"'), schema("same", 1, 10, '{"type": "string"}'),
        record("CONFIG", {"compatibilityLevel": "FULL"}, subject="text"), record("MODE", {"mode": "READONLY"}),
    )  # fmt: skip
    source = snapshot(
        schema("text", 1, 4, '"boolean"'), schema("id", 1, 5, '"long"'), schema("deleted", 1, 3, '"float"'),
        schema("taken", 1, 9, '"bytes"'), schema("same", 1, 10, '"string"'),
        record("CONFIG", {"compatibilityLevel": "NONE"}, subject="text"), record("MODE", {"mode": "IMPORT"}),
    )  # fmt: skip
    plan = plan_merge(source, target, alike=schema_comparison(source, target))
    assert [conflict.kind for conflict in plan.conflicts] == [
        OTHER_SCHEMA,
        OTHER_ID,
        DELETED,
        ID_TAKEN,
        OTHER_CONFIG,
        OTHER_MODE,
    ]
    assert 'text version 1: source AVRO "boolean", target AVRO "int"' in plan.conflicts[0].what
    assert plan.conflicts[3].what == "id 9 of taken version 1: in the target it is the schema of other version 1"
    assert plan.same == 1
    forced = plan_merge(source, target, overwrite_settings=True)
    assert (forced.configs, forced.modes) == ({"text": {"compatibilityLevel": "NONE"}}, {":.:": "IMPORT"})


def test_a_second_import_brings_what_is_new_only() -> None:
    first = (schema("s", 1, 1), schema("s", 2, 2, '"long"'))
    target = snapshot(*first)
    assert plan_merge(target, target).changes == {}
    later = snapshot(
        *first, schema("s", 1, 1, deleted=True), schema("s", 3, 3, '"string"'), schema("x", 1, 8), gone("x", 1)
    )
    plan = plan_merge(later, target)
    assert plan.changes == {"versions": 1, "soft deletes": 1, "id marks": 1}
    assert plan.delete == [("s", 1)]
    assert plan.marks == {".": 8}


def test_differences_are_named() -> None:
    source = snapshot(
        schema("text", 1, 1), schema("id", 1, 2, '"long"'), schema("deleted", 1, 3, '"float"', deleted=True),
        schema("source", 1, 4, '"double"'), schema("same", 1, 5, '"string"'),
        record("CONFIG", {"compatibilityLevel": "NONE"}, subject="text"), record("MODE", {"mode": "IMPORT"}),
    )  # fmt: skip
    target = snapshot(
        schema("text", 1, 1, '"bytes"'), schema("id", 1, 6, '"long"'), schema("deleted", 1, 3, '"float"'),
        schema(":.c:target", 1, 1), schema("same", 1, 5, '"string"'),
        record("CONFIG", {"compatibilityLevel": "FULL"}, subject="text"),
    )  # fmt: skip
    found = {entry.kind: (entry.equal, entry.differences) for entry in compare(source, target)}
    assert found == {
        "versions": (
            1,
            [
                ":.c:target version 1: only in the target",
                "deleted version 1: soft-deleted in the source alone",
                "id version 1: id 2 in the source, 6 in the target",
                "source version 1: only in the source",
                'text version 1: source AVRO "int", target AVRO "bytes"',
            ],
        ),
        "configs": (
            0,
            ['text: {"compatibilityLevel": "NONE"} in the source, {"compatibilityLevel": "FULL"} in the target'],
        ),
        "modes": (0, ["the server: only in the source"]),
        "contexts": (0, [".c: only in the target"]),
        "highest ids": (0, ["context .: 5 in the source, 6 in the target", "context .c: only in the target"]),
    }
    assert not [entry.differences for entry in compare(source, source) if entry.differences]


def stored(subject: str, version: int, *to: tuple[str, int]) -> StoredVersion:
    references = tuple(Reference(f"{s}{v}", s, v) for s, v in to)
    return StoredVersion(subject, version, version, Content(b"", "x", references=references), 0)


def test_versions_come_after_those_they_refer_to() -> None:
    order = order_by_references(
        [stored("a", 1, ("b", 1)), stored("b", 1, ("c", 2), ("d", 1)), stored("c", 2), stored("d", 1)]
    )
    assert [entry.subject for entry in order] == ["d", "c", "b", "a"]
    circle = order_by_references([stored("a", 1, ("b", 1)), stored("b", 1, ("a", 1))])
    assert {entry.subject for entry in circle} == {"a", "b"}
    long = [stored("s", number, ("s", number - 1)) for number in range(5000, 1, -1)]
    assert [entry.version for entry in order_by_references(long)] == list(range(2, 5001))


def test_a_schema_that_cannot_be_read_is_kept(registry: Registry) -> None:
    texts = ["no schema", "x", '{"$ref":"#/nowhere"}']
    invalid = schema("u", 1, 3, texts[2], schemaType="JSON")
    source = snapshot(schema("s", 1, 1, texts[0]), schema("t", 1, 2, texts[1], schemaType="XML"), invalid)
    done, unread = parse_versions(registry, source.versions.values(), source)
    assert unread == [("s", 1), ("t", 1), ("u", 1)]
    assert [entry.content.text for entry in done] == texts
    assert all(replace(entry.content, identity=b"") == source.versions[entry.subject, 1].content for entry in done)
