"""Which schema an id stands for: references, contexts, GUIDs, ids of Apicurio; our own service, and others played."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.registries import Answer, answer, serving
from tests.support.service import Client
from tests.support.table import check_rows
from ticdc_bridge.clients.registry import HttpSchemas
from ticdc_bridge.schemas.model.errors import SetupError, WireError
from ticdc_bridge.schemas.model.event import Message, RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.service.testing import running_service
from ticdc_bridge.spark_jobs.pipeline.avro_versions import registered_versions
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message

INT = {"type": "int", "connect.parameters": {"tidb_type": "INT"}}
TEXT = {"type": "string", "connect.parameters": {"tidb_type": "TEXT"}}


def _table(name: str, *columns: str, kind: Any = INT, namespace: str = "default.shop") -> str:
    fields = [{"name": column, "type": kind} for column in columns]
    return json.dumps({"type": "record", "name": name, "namespace": namespace, "fields": fields})


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("registry")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        with running_service(f"sqlite:///{folder / 'registry.db'}") as address:
            _fill(Client(address))
            yield address


def _fill(client: Client) -> None:
    """Ids 1 to 3 in each of two contexts, and schemas that refer to others."""

    def register(subject: str, schema: str, *references: tuple[str, str, int], **more: Any) -> None:
        rows = [{"name": name, "subject": of, "version": version} for name, of, version in references]
        given = client.register(subject, schema, references=rows, **more)
        assert given.status == 200, given.body

    register("items-value", _table("items", "id", "code"))
    register("news-value", _table("news", "id"))
    register("default.shop.records", _table("records", "id"))
    register(":.dev:orders-value", _table("orders", "id", "note"))
    register(":.dev:other-value", _table("other", "id"))
    register(":.dev:t_a-value", _table("a", "id"))
    register(
        "point",
        json.dumps({"type": "record", "name": "P", "namespace": "geo", "fields": [{"name": "x", "type": "int"}]}),
    )
    line = {"type": "record", "name": "L", "namespace": "geo", "fields": [{"name": n, "type": "P"} for n in ("a", "b")]}
    register("line", json.dumps(line), ("geo.P", "point", 1))
    box = [{"name": "line", "type": "geo.L"}, {"name": "at", "type": "geo.P"}]
    diamond = {"type": "record", "name": "M", "fields": box}
    register("box-value", json.dumps(diamond), ("geo.L", "line", 1), ("geo.P", "point", 1))
    register(":.dev:source", json.dumps({"type": "record", "name": "S", "namespace": "n", "fields": []}))
    inner = {"type": "record", "name": "R", "namespace": "default.shop", "fields": [{"name": "s", "type": "n.S"}]}
    register(":.dev:ref-value", json.dumps(inner), ("n.S", "source", 1))
    register("json-value", '{"type":"object"}', schemaType="JSON")
    register("proto-value", 'syntax = "proto3"; message M { int32 a = 1; }', schemaType="PROTOBUF")


def _id(url: str, subject: str) -> int:
    return int(Client(url).get(f"/subjects/{subject}/versions/1").json["id"])


# ---- references
def test_references_of_our_registry_are_put_in(url: str) -> None:
    id_ = _id(url, "box-value")
    for text in (
        HttpSchemas(url).by_id(id_, "value"),
        HttpSchemas(url).by_id(id_, "value", "box-value"),
        HttpSchemas(url).newest("box-value"),
        next(e.schema for e in HttpSchemas(url).all() if e.subject == "box-value"),
    ):
        fields = {f["name"]: f["type"] for f in json.loads(text or "")["fields"]}
        assert fields["line"]["fields"][0]["type"]["name"] == "P"
        assert fields["line"]["fields"][1]["type"] == fields["at"] == "geo.P"


def test_references_are_those_of_the_schemas_context(url: str) -> None:
    """The subject `source` is in .dev only, by its name alone."""
    dev = _id(f"{url}/contexts/.dev", "ref-value")
    for registry, subject in ((f"{url}/contexts/.dev", None), (url, "ref-value"), (url, ":.dev:ref-value")):
        record = json.loads(HttpSchemas(registry).by_id(dev, "value", subject))
        assert record["fields"][0]["type"]["name"] == "S"


def _played(rows: dict[str, Any]) -> Callable[[str, str, bytes], Answer]:
    """A registry that answers these paths, without their queries, and 404 to others, as Karapace does."""

    def respond(_method: str, path: str, _body: bytes) -> Answer:
        row = rows.get(path.partition("?")[0])
        return answer(404, {"error_code": 40403, "message": "Schema not found"}) if row is None else answer(200, row)

    return respond


def _referring(name: str, subject: str) -> dict[str, Any]:
    schema = {"type": "record", "name": "M", "fields": [{"name": "f", "type": name}]}
    return {"schema": json.dumps(schema), "references": [{"name": name, "subject": subject, "version": 1}]}


def test_a_reference_that_lacks_or_goes_in_a_circle_is_an_error_of_the_message() -> None:
    rows = {"/schemas/ids/1": _referring("a.A", "gone"), "/schemas/ids/2": _referring("M", "m-value"),
            "/subjects/m-value/versions/1": _referring("M", "m-value"),
            "/schemas/ids/3": {**_referring("a.A", "x"), "references": "?"}}  # fmt: skip
    words = {1: "it refers to a.A of subject gone version 1, which http://", 2: "in a circle: m-value version 1",
             3: '"references" must be a list'}  # fmt: skip
    with serving(_played(rows)) as server:
        registry = HttpSchemas(server.url)

        def check(id_: int) -> None:
            for _ in range(3):
                with pytest.raises(WireError) as caught:
                    registry.by_id(id_, "value")
                assert caught.value.code == "UNSUPPORTED_SCHEMA"
                assert words[id_] in caught.value.detail

        check_rows(words, check)
        assert len(server.paths) == len(set(server.paths)) == 5  # each asked once


def test_a_version_that_many_refer_to_is_asked_for_once() -> None:
    shared = json.dumps({"type": "record", "name": "A", "namespace": "a", "fields": []})
    rows: dict[str, Any] = {f"/schemas/ids/{n}": _referring("a.A", "shared") for n in range(1, 6)}
    rows["/subjects/shared/versions/1"] = {"schema": shared}
    with serving(_played(rows)) as server:
        registry = HttpSchemas(server.url)
        for n in (1, 2, 3, 4, 5, 1, 2):
            assert '"name": "A"' in registry.by_id(n, "value")
        assert len(server.paths) == 6


# ---- contexts and subjects
def _table_of(url: str, topic: str | None, id_: int, body: bytes = b"\2\2") -> str:
    """The table that a value of this id is of, or the error's text."""
    config = CodecConfig("avro", HttpSchemas(url), Options.of({}))
    result = decode_message(config.decoder(), Message(None, b"\0" + id_.to_bytes(4, "big") + body, topic))
    if result.error is not None:
        return result.error.detail
    (event,) = result.events
    assert isinstance(event, RowChange)
    return event.table_name


def test_an_id_is_that_of_the_topics_context(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[tuple[str, str | None, int, str]] = [
        ("", "items", 1, "items"), ("", "orders", 1, "orders"), ("/contexts/.dev", "orders", 1, "orders"),
        ("/contexts/:.dev:", "orders", 1, "orders"), ("", None, 1, "items"), ("/contexts/.dev", None, 1, "orders"),
        ("", "any", 3, "records"), ("", "t.a", 3, "a"), ("", "mirror.items", 1, "items"),
        ("", "a.b.items", 1, "items"), ("/contexts/.dev", "mirror.orders", 1, "orders"),
    ]  # fmt: skip

    def check(row: tuple[str, str | None, int, str]) -> None:
        path, topic, id_, table = row
        body = b"\2\2" if table in ("items", "orders") else b"\2"
        assert _table_of(url + path, topic, id_, body) == table

    check_rows(rows, check)
    assert capsys.readouterr().err == ""


def test_the_id_of_another_topics_schema_is_refused_or_warned_of(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    # The topic has schemas of another table here: the id is not theirs.
    text = _table_of(url, "news", 1)
    assert "schema id 1 is that of items-value (default.shop.items) in http://" in text
    assert "news-value has no such id" in text
    assert capsys.readouterr().err == ""
    # The topic has no schemas here: it may be a copy of another.
    config = CodecConfig("avro", HttpSchemas(url), Options.of({}))
    decoder = config.decoder()
    for _ in range(3):
        assert decode_message(decoder, Message(None, b"\0\0\0\0\1\2\2", "copy-of-items")).error is None
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(
        "warning: schema id 1 of a topic whose subject would be copy-of-items-value is that of items-"
    )


def test_registries_that_answer_no_subject_are_asked_which_have_the_id(capsys: pytest.CaptureFixture[str]) -> None:
    """Karapace and Confluent 7 take no notice of the subject."""
    text, other = _table("items", "id"), _table("news", "id")
    held = [{"subject": "items-value", "version": 1}]
    rows = {"/schemas/ids/1": {"schema": text}, "/schemas/ids/1/versions": held,
            "/schemas/ids/2": {"schema": text}, "/schemas/ids/2/versions": [],
            "/subjects/news-value/versions/latest": {"schema": other}}  # fmt: skip
    with serving(_played(rows)) as server:
        assert _table_of(server.url, "items", 1, b"\2") == "items"
        assert server.paths == ["GET /schemas/ids/1?subject=items-value", "GET /schemas/ids/1/versions?deleted=true"]
        assert "news-value has no such id" in _table_of(server.url, "news", 1, b"\2")
        assert capsys.readouterr().err == ""
        assert _table_of(server.url, "else", 1, b"\2") == "items"
        assert "else-value" in capsys.readouterr().err
        assert _table_of(server.url, "else", 2, b"\2") == "items"  # who has it is not said
        assert capsys.readouterr().err == ""


def test_a_registry_that_hides_an_id_behind_a_subject_it_does_not_know(capsys: pytest.CaptureFixture[str]) -> None:
    """Or of which the user may not ask: then who has the id is not said either, and the schema is taken."""
    text = _table("items", "id")

    def check(status: int) -> None:
        def respond(_method: str, path: str, _body: bytes) -> Answer:
            if path == "/schemas/ids/1":
                return answer(200, {"schema": text, "subject": "other-value"})
            return answer(status, {"error_code": 40403, "message": "no"})

        with serving(respond) as server:
            assert _table_of(server.url, "items", 1, b"\2") == "items"
            assert capsys.readouterr().err == ""

    check_rows([403, 404, 422], check)


def test_requests_do_not_grow_with_messages(url: str) -> None:
    text = _table("items", "id")
    held = {"schema": text, "subject": "items-value", "version": 1}
    with serving(_played({"/schemas/ids/1": held})) as server:
        config = CodecConfig("avro", HttpSchemas(server.url), Options.of({}))
        for _ in range(2):
            decoder = config.decoder()
            for _ in range(50):
                assert decode_message(decoder, Message(None, b"\0\0\0\0\1\2", "items")).error is None
        assert server.paths == ["GET /schemas/ids/1?subject=items-value"]


def test_an_unknown_id_is_reported_with_registry_context_and_subject(url: str) -> None:
    address = f"{url}/contexts/.dev"
    detail = _table_of(address, "orders", 99)
    assert detail == f"value: schema id 99 is not known to {address} (asked for subject orders-value)"


def test_ids_that_contexts_share_are_left_to_the_topic(url: str) -> None:
    """Of a table that one context has, and of one that both have; the default context's schemas are the table's."""
    versions = registered_versions(HttpSchemas(url), TableId("shop", "orders"), complete=True)
    assert [w.entry.subject for w in versions.values] == [":.dev:orders-value"]
    assert versions.unclear >= {1, 2, 3}
    dev = registered_versions(HttpSchemas(f"{url}/contexts/.dev"), TableId("shop", "orders"), complete=True)
    assert (len(dev.values), dev.unclear) == (1, frozenset())


# ---- other ids
def test_a_guid_is_looked_up_where_the_registry_knows_them(url: str) -> None:
    shown = Client(url).get("/subjects/box-value/versions/1").json
    assert '"P"' in HttpSchemas(url).by_id(shown["guid"], "value (header __value_schema_id)")
    guid = "01020304-0506-0708-090a-0b0c0d0e0f10"
    with pytest.raises(WireError, match=rf"value \(header h\): schema id {guid} is not known to http://"):
        HttpSchemas(url).by_id(guid, "value (header h)")
    with serving(lambda *_: answer(404, {"error_code": 404, "message": "HTTP 404 Not Found"})) as server:  # Confluent 7
        with pytest.raises(WireError) as caught:
            HttpSchemas(server.url).by_id(guid, "value")
        assert caught.value.code == "UNKNOWN_SCHEMA_ID"


def test_ids_of_apicurio_are_looked_up_in_its_own_api() -> None:
    items, news = (json.loads(_table(name, "id")) for name in ("items", "news"))
    rows = {
        "/apis/registry/v3/ids/globalIds/12": items, "/apis/registry/v3/ids/contentIds/12": news,
        "/apis/registry/v2/ids/contentIds/13": news, "/apis/registry/v3/ids/globalIds/14": items,
        "/apis/registry/v3/ids/contentIds/14": items, "/apis/ccompat/v7/schemas/ids/12": {"schema": "no"},
    }  # fmt: skip
    with serving(_played(rows)) as server:
        registry = HttpSchemas(f"{server.url}/apis/ccompat/v7")
        wanted = {"12 (globalId)": "items", "12 (contentId)": "news", "13 (contentId)": "news", "13 (8 bytes)": "news",
                  "14 (8 bytes)": "items"}  # fmt: skip
        check_rows(wanted, lambda i: _same(json.loads(registry.by_id(i, "value", "t-value"))["name"], wanted[i]))
        with pytest.raises(WireError, match="both a globalId and a contentId"):
            registry.by_id("12 (8 bytes)", "value")
        with pytest.raises(WireError, match=r"schema id 99 \(globalId\) is not known"):
            registry.by_id("99 (globalId)", "value")
        assert all("references=DEREFERENCE" in path for path in server.paths)


def _same(left: object, right: object) -> None:
    assert left == right


def test_ids_of_apicurio_in_another_registry_are_its_own(url: str) -> None:
    assert json.loads(HttpSchemas(url).by_id("1 (globalId)", "value", "items-value"))["name"] == "items"
    with pytest.raises(WireError, match="news-value has no such id"):
        HttpSchemas(url).by_id("1 (8 bytes)", "value", "news-value")
    with pytest.raises(WireError) as caught:
        HttpSchemas(url).by_id(f"{1 << 40} (globalId)", "value")
    assert caught.value.code == "UNKNOWN_SCHEMA_ID"


def test_schemas_of_other_kinds_are_named(url: str) -> None:
    for subject, kind in (("json-value", "a JSON Schema"), ("proto-value", "a Protobuf schema")):
        id_ = _id(url, subject)
        with pytest.raises(WireError, match=f"schema id {id_} is {kind}, not Avro"):
            HttpSchemas(url).by_id(id_, "value", subject)


def test_json_behind_the_id_of_a_registered_json_schema_is_read(url: str) -> None:
    body = {"before": None, "after": {"id": 1}, "op": "c", "ts_ms": 1,
            "source": {"connector": "mysql", "db": "shop", "table": "t", "ts_ms": 1}}  # fmt: skip
    message = Message(None, b"\0" + _id(url, "json-value").to_bytes(4, "big") + json.dumps(body).encode(), "json")
    for format_ in ("debezium-mysql", "auto"):
        (event,) = decode_message(CodecConfig(format_, HttpSchemas(url), Options.of({})).decoder(), message).events
        assert isinstance(event, RowChange)
        assert event.after == {"id": "1"}


# ---- answers that are none
def test_answers_of_what_is_no_registry_are_called_so() -> None:
    page = b"<!doctype html><title>Sign in</title>"
    rows: list[tuple[int, bytes, list[str]]] = [
        (404, page, ["HTTP 404", "an HTML page", "the URL"]), (403, page, ["HTTP 403", "an HTML page"]),
        (401, b'{"error_code":401,"message":"Unauthorized"}', ["HTTP 401: Unauthorized", "BRIDGE_REGISTRY_USER"]),
        (200, page, ["without 'schema'", "is this a schema registry?"]),
        (200, b'{"error_code":1}', ["without 'schema'", "is this a schema registry?"]),
        (302, b"", ["HTTP 302"]),
    ]  # fmt: skip

    def check(row: tuple[int, bytes, list[str]]) -> None:
        status, body, words = row
        with serving(lambda *_: answer(status, body)) as server:
            with pytest.raises(SetupError) as caught:
                HttpSchemas(server.url).by_id(1, "value", "t-value")
            assert caught.value.code == "REGISTRY_REFUSED"
            assert all(word in caught.value.detail for word in (*words, server.url)), caught.value.detail

    check_rows(rows, check)
