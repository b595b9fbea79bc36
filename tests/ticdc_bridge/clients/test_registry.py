"""Schemas from a file or over HTTP, against a real server that is well, ill or hostile."""

import base64
import json
import pickle
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.support.golden import Golden, cases
from tests.support.registries import Answer, answer, golden_registry, serving
from tests.support.table import check_rows
from ticdc_bridge.clients.http import message_of
from ticdc_bridge.clients.registry import HttpSchemas
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas, RegisteredSchema
from ticdc_bridge.schemas.model.errors import SetupError, WireError
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.spark_jobs.pipeline.avro_versions import registered_versions
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message
from ticdc_bridge.spark_jobs.pipeline.newest_columns import newest_table

GOLDEN = Golden("avro", "evolution.ext1")
RECORD = '{"type":"record","name":"t","namespace":"default.d","fields":[]}'


# ---- files
def test_meta_and_its_lines_say_the_same(tmp_path: Path) -> None:
    lines = tmp_path / "schemas.jsonl"
    check_rows([g for g in cases("avro") if g.meta["registered_schemas"]], lambda g: _same_schemas(g, lines))


def _same_schemas(golden: Golden, lines: Path) -> None:
    whole = golden.schemas
    lines.write_text("\n".join(json.dumps(row) for row in golden.meta["registered_schemas"]) + "\n\n")
    pieces = FileSchemas.read(lines)
    assert list(whole.all()) == list(pieces.all()) != []
    for entry in whole.all():
        for found in (whole, pieces):
            assert found.by_id(entry.id, "value") == entry.schema
            assert (
                found.by_id(found.id_of(entry.subject, json.dumps(json.loads(entry.schema), indent=1)), "value")
                == entry.schema
            )


def test_newest_is_by_version_not_by_place() -> None:
    found = FileSchemas(
        [RegisteredSchema("s", 2, 7, "two"), RegisteredSchema("s", 1, 9, "one"), RegisteredSchema("x", 3, 3, "x")]
    )
    assert (found.newest("s"), found.newest("x"), found.newest("no")) == ("two", "x", None)


def test_a_schema_that_is_not_in_the_file() -> None:
    found = FileSchemas([RegisteredSchema("s", 1, 1, RECORD)], "my.jsonl")
    with pytest.raises(WireError) as caught:
        found.by_id(2, "key")
    assert (caught.value.code, caught.value.detail) == (
        "UNKNOWN_SCHEMA_ID",
        "key: schema id 2 is not known to my.jsonl",
    )
    with pytest.raises(WireError, match="has no such schema for s2"):
        found.id_of("s2", '{"type":"string"}')
    assert found.id_of("other", " " + RECORD) == 1


_OTHER_FILES = (
    "x", "[]", "1", '{"subject":"s"}', '{"registered_schemas":5}', '{"subject":"s","version":1,"id":1,"schema":{}}',
    "\xff",
)  # fmt: skip


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"

    def check(content: str) -> None:
        path.write_bytes(content.encode("latin-1"))
        with pytest.raises(SetupError, match=r"--schemas .*s\.jsonl") as caught:
            FileSchemas.read(path)
        assert caught.value.code == "USAGE"

    check_rows(_OTHER_FILES, check)


def test_an_empty_file_is_no_schemas(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text("\n")
    assert list(FileSchemas.read(path).all()) == []
    with pytest.raises(SetupError, match="No such file"):
        FileSchemas.read(tmp_path / "no.jsonl")


# ---- HTTP
def test_decodes_as_from_the_file_and_asks_for_each_id_once() -> None:
    with serving(golden_registry(GOLDEN)) as server:
        config = CodecConfig("avro", HttpSchemas(server.url).check(), Options.of({}, time_zone=GOLDEN.zone))
        decoder, reference = config.decoder(), GOLDEN.side().decoder()
        for message in GOLDEN.messages():
            assert decode_message(decoder, message).events == decode_message(reference, message).events
        assert len(server.paths) == len(set(server.paths))
        assert {h["accept"] for _, _, h, _ in server.seen} == {
            "application/vnd.schemaregistry.v1+json, application/json"
        }


def test_registering_sends_what_ticdc_sends_and_only_once() -> None:
    with serving(golden_registry(GOLDEN)) as server:
        registry = HttpSchemas(server.url)
        for _ in range(3):
            for entry in GOLDEN.schemas.all():
                assert registry.id_of(entry.subject, entry.schema) == entry.id
        texts = {(e.subject, e.schema) for e in GOLDEN.schemas.all()}
        assert len(server.seen) == len(texts)
        method, path, headers, body = server.seen[0]
        first = next(iter(GOLDEN.schemas.all()))
        assert (method, path) == ("POST", f"/subjects/{first.subject}/versions")
        assert json.loads(body) == {"schema": first.schema}
        assert headers["content-type"] == "application/vnd.schemaregistry.v1+json"


def test_refused_schema_is_an_error_of_the_row_and_not_asked_again() -> None:
    with serving(golden_registry(GOLDEN)) as server:
        registry = HttpSchemas(server.url)
        subject = next(iter(GOLDEN.schemas.all())).subject
        for _ in range(2):
            with pytest.raises(WireError, match="409") as caught:
                registry.id_of(subject, RECORD)
            assert caught.value.code == "UNSUPPORTED_SCHEMA"
        assert len(server.seen) == 1


def test_a_long_refusal_keeps_its_reason() -> None:
    """A registry repeats the schema that it was given before it says what is wrong with it."""
    reported = message_of({"message": "Invalid schema " + "x" * 5000 + ": the field a stands twice"})
    assert len(reported) == 500
    assert reported.startswith("Invalid schema x")
    assert reported.endswith("x: the field a stands twice")
    assert message_of("y" * 500) == "y" * 500


def test_where_an_id_is_registered() -> None:
    def respond(method: str, path: str, body: bytes) -> Answer:
        if path == "/schemas/ids/4/versions":
            return answer(200, [{"subject": "a-value", "version": 2}])
        return answer(404, {"error_code": 40403, "message": "Schema not found"})

    with serving(respond) as server:
        schemas = HttpSchemas(server.url)
        assert schemas.versions_of_id(4) == [("a-value", 2)]
        assert schemas.versions_of_id(5) == []
    entry = next(iter(GOLDEN.schemas.all()))
    assert GOLDEN.schemas.versions_of_id(entry.id) == [(entry.subject, entry.version)]


def test_names_in_paths_are_quoted() -> None:
    with serving(lambda *_: answer(404, {})) as server:
        assert HttpSchemas(server.url).newest("a/b ä?") is None
        assert server.paths == ["GET /subjects/a%2Fb%20%C3%A4%3F/versions/latest"]


def test_refusals_are_raised_at_once() -> None:
    check_rows([400, 401, 403, 405, 409], _told_at_once)


def _told_at_once(status: int) -> None:
    with serving(lambda *_: answer(status, {"error_code": status, "message": "because"})) as server:
        registry = HttpSchemas(server.url, wait=60)
        with pytest.raises(SetupError, match=f"HTTP {status}: because") as caught:
            registry.by_id(1, "value")
        assert caught.value.code == "REGISTRY_REFUSED"
        assert len(server.seen) == 1


def test_passing_trouble_is_tried_again() -> None:
    check_rows([408, 429, 500, 502, 503, 504], _tried_again)


def _tried_again(status: int) -> None:
    answers = [answer(status, b"later"), answer(status, b"later"), answer(200, {"schema": RECORD})]
    with serving(lambda *_: answers.pop(0)) as server:
        assert HttpSchemas(server.url, wait=60).by_id(1, "value") == RECORD
        assert len(server.seen) == 3


def test_trouble_that_stays_is_reported_after_the_wait() -> None:
    with serving(lambda *_: answer(500, b"boom")) as server:
        with pytest.raises(SetupError, match="HTTP 500: boom") as caught:
            HttpSchemas(server.url, wait=0.3).check()
        assert caught.value.code == "REGISTRY_UNREACHABLE"
        assert len(server.seen) > 1


def test_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(SetupError, match="can't be reached") as caught:
            HttpSchemas(url, wait=0.2).check()
    assert caught.value.code == "REGISTRY_UNREACHABLE"


def test_what_is_no_registry() -> None:
    def check(url: str) -> None:
        with pytest.raises(SetupError) as caught:
            HttpSchemas(url)
        assert caught.value.code == "USAGE"

    urls = ["", "localhost:8081", "ftp://h", "http://", "http:///x", "file:///etc/passwd", "kafka:T"]
    check_rows(urls, check, repr)


def test_credentials_come_from_the_url_and_stay_out_of_messages() -> None:
    with serving(lambda *_: answer(401, {"message": "who?"})) as server:
        url = f"http://%C3%BCser:p%40ss%2Fw:rd@127.0.0.1:{server.port}/base/?token=secret#x"
        registry = HttpSchemas(url, wait=0.1)
        with pytest.raises(SetupError) as caught:
            registry.by_id(1, "value")
        assert base64.b64decode(server.seen[0][2]["authorization"].removeprefix("Basic ")).decode() == "üser:p@ss/w:rd"
        assert server.paths == ["GET /base/schemas/ids/1"]
        for text in (str(caught.value), registry.name, repr(caught.value)):
            assert "ss" not in text.replace("schema", "").replace("class", "")
            assert "secret" not in text


def test_it_travels_into_workers_with_its_answers() -> None:
    with serving(golden_registry(GOLDEN)) as server:
        entry = next(iter(GOLDEN.schemas.all()))
        registry = HttpSchemas(server.url, wait=0.2)
        assert registry.by_id(entry.id, "value") == entry.schema
    again = pickle.loads(pickle.dumps(registry))
    assert again.by_id(entry.id, "value") == entry.schema  # the server is gone


def test_all_versions_of_all_subjects() -> None:
    listed = {"/subjects": ["a", "b"], "/subjects/a/versions": [1, 2], "/subjects/b/versions": [1]}

    def respond(_method: str, path: str, _body: bytes) -> Any:
        if path in listed:
            return answer(200, listed[path])
        version = int(path.rpartition("/")[2])
        return answer(200, {"id": version * 10, "schema": f"{path}"})

    with serving(respond) as server:
        found = list(HttpSchemas(server.url).all())
    assert [(r.subject, r.version, r.id) for r in found] == [("a", 1, 10), ("a", 2, 20), ("b", 1, 10)]


def _record(name: str, *fields: str, kind: str = "INT") -> str:
    described = [{"name": f, "type": {"type": "int", "connect.parameters": {"tidb_type": kind}}} for f in fields]
    return json.dumps({"type": "record", "name": name, "namespace": "default.d", "fields": described})


def test_versions_of_a_table_under_any_subject() -> None:
    """By topic and by record; the newest is that of the newest id; what can't be read is told."""
    entries = [
        RegisteredSchema("a-key", 1, 1, _record("t", "id")), RegisteredSchema("z-value", 1, 2, _record("t", "id")),
        RegisteredSchema("default.d.t", 1, 4, _record("t", "id", "v")),
        RegisteredSchema("a-value", 1, 3, _record("t", "id", "w")),
        RegisteredSchema("z-value", 2, 5, _record("t", "id", kind="STRANGE")),
        RegisteredSchema("u-value", 1, 6, _record("u", "id")), RegisteredSchema("text", 1, 7, '"string"'),
    ]  # fmt: skip
    found = registered_versions(FileSchemas(entries), TableId("d", "t"))
    assert [w.entry.id for w in found.values] == [2, 3, 4]
    assert [w.entry.id for w in found.keys] == [1]
    assert [(e.id, error.code) for e, error in found.unreadable] == [(5, "UNSUPPORTED_SCHEMA")]
    assert [e.id for e in found.others] == [6]  # an id that is neither is left to the decoder, which says why
    config = CodecConfig("avro", FileSchemas(entries[4:5]), Options.of({}))
    with pytest.raises(SetupError, match=r"z-value version 2: .*not a schema that TiCDC registers"):
        newest_table(config, TableId("d", "t"))


def test_the_newest_version_costs_no_listing_of_other_tables() -> None:
    versions = {f"t{n}-value": [_record(f"t{n}", "id")] for n in range(5)}

    def respond(_method: str, path: str, _body: bytes) -> Answer:
        segments = path.split("/")
        if len(segments) == 2:
            return answer(200, list(versions))
        texts = versions[segments[2]]
        if len(segments) == 4:
            return answer(200, list(range(1, len(texts) + 1)))
        return answer(200, {"id": int(segments[2][1]) * 10 + int(segments[4]), "schema": texts[int(segments[4]) - 1]})

    with serving(respond) as server:
        config = CodecConfig("avro", HttpSchemas(server.url), Options.of({}))
        assert len(newest_table(config, TableId("d", "t3")).columns) == 1
        versions["t3-value"].append(_record("t3", "id", "v"))
        server.seen.clear()
        assert len(newest_table(config, TableId("d", "t3")).columns) == 2
        assert server.paths == ["GET /subjects", "GET /subjects/t3-value/versions", "GET /subjects/t3-value/versions/2"]
