"""What a FastAPI registry gets wrong first, and input that nobody should send."""

import gzip
import json
from typing import Any

import pytest

from tests.support.each import each
from tests.support.service import V1, Client, column, record
from tests.support.table import check_rows
from ticdc_bridge.service.api.middleware import LONG
from ticdc_bridge.service.testing import running_service


@each("path", ["/subjects/", "/config/", "/schemas/types/", "/subjects/none/versions/"])
def test_trailing_slash_is_no_redirect(shared_client: Client, path: str) -> None:
    with_slash, without = shared_client.get(path), shared_client.get(path.rstrip("/"))
    assert with_slash.status in (200, 404)
    assert (with_slash.status, with_slash.body) == (without.status, without.body)


@each(("sent", "subject"), [
    ("a%2Fb", "a/b"), ("a+b", "a+b"), ("a%2Bb", "a+b"), ("a%20b", "a b"), ("a%2525b", "a%25b"), ("%E4%B8%AD", "中"),
    ("a;x=1", "a"), ("a%3Bx", "a;x"), (".", "."),
])  # fmt: skip
def test_subjects_are_decoded_once(client: Client, sent: str, subject: str) -> None:
    assert client.send("POST", f"/subjects/{sent}/versions", {"schema": '"int"'}).status == 200
    assert client.get("/subjects").json == [subject]
    assert client.get(f"/subjects/{sent}/versions").json == [1]
    for query in ("", "?permanent=true"):
        assert client.send("DELETE", f"/subjects/{sent}{query}").json == [1]


@each("path", [
    "/subjects/a%0Ab/versions",
    "/subjects/%2e%2e/versions",
    "/subjects//versions",
    *(f"/subjects/{name}/versions" for name in ("a%", "a%2", "a%zz", "%FF", "%E2%82", "%ED%A0%80", "a%C3")),
])  # fmt: skip
def test_paths_that_the_web_server_refuses(shared_client: Client, path: str) -> None:
    answer = shared_client.get(path)
    assert answer.status == 400
    assert answer.headers["content-type"].startswith("text/html")


def test_booleans(client: Client) -> None:
    client.register("s", '"int"')
    client.send("DELETE", "/subjects/s")

    def check(row: tuple[str, bool]) -> None:
        value, means = row
        assert client.get(f"/subjects?deleted={value}").json == (["s"] if means else [])

    check_rows([("true", True), ("TRUE", True), ("1", False), ("abc", False), ("", False)], check)


@each("path", [
    "/subjects?limit=abc", "/subjects?limit=1e3", "/schemas/ids/abc", "/schemas/ids/99999999999",
])  # fmt: skip
def test_numbers_that_are_none(shared_client: Client, path: str) -> None:
    answer = shared_client.get(path)
    assert answer.error == (404, 404)
    assert answer.json["message"] == "HTTP 404 Not Found"


@each("version", ["0", "-2", "abc", "2147483648", "1_0", "%C2%B2"])
def test_versions_that_are_none(shared_client: Client, version: str) -> None:
    shared_client.register("versions", '"int"')
    assert shared_client.get(f"/subjects/versions/versions/{version}").error == (422, 42202)


@each(("accept", "answered"), [
    ("*/*", V1), ("application/*", V1), ("application/json", "application/json"),
    (f"application/json;q=0.9, {V1};q=0.1", "application/json"),
    (f"{V1}, application/vnd.schemaregistry+json, application/json", V1), ("text/html, */*;q=0.1", V1),
])  # fmt: skip
def test_accept(shared_client: Client, accept: str, answered: str) -> None:
    assert shared_client.get("/subjects", Accept=accept).headers["content-type"] == answered


def test_what_cannot_be_answered_or_read(shared_client: Client) -> None:
    assert shared_client.get("/subjects", Accept="text/xml").error == (406, 406)
    headers = {"Content-Type": "text/plain"}
    assert shared_client.send("POST", "/subjects/s/versions", {"schema": '"int"'}, headers).error == (415, 415)
    assert shared_client.get("/nope").error == (404, 404)
    wrong_method = shared_client.send("DELETE", "/")
    assert wrong_method.error == (405, 405)
    assert "content-type" not in wrong_method.headers


ENCODINGS = (
    ("gzip", True), ("gzip, deflate, br", True), ("br;q=1.0, GZIP ; q=0.5", True), ("gzip;q=0", False),
    ("gzip;q=0.000", False), ("identity", False), ("xgzip", False), ("", False),
)  # fmt: skip


def test_long_answers_are_compressed_where_that_is_asked(
    shared_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first time from the app, then from the answers that are kept; the next client gets what it can read."""
    compress, compressed_bodies = gzip.compress, []

    def note(body: bytes, *more: Any, **named: Any) -> bytes:
        compressed_bodies.append(body)
        return compress(body, *more, **named)

    monkeypatch.setattr(gzip, "compress", note)
    long = record("Long", column("c", doc="é" * LONG))
    wanted = shared_client.register("long", long).json["schema"]
    short = shared_client.register("short", '"int"').json["id"]

    def check(row: tuple[str, bool]) -> None:
        asked, compressed = row
        headers = {"Accept-Encoding": asked}
        for method, path, body in (
            ("GET", "/subjects/long/versions/1/schema", None),
            ("GET", "/subjects/long/versions/1", None),
            ("POST", "/subjects/long", {"schema": long}),
        ):
            for _ in range(2):
                answer = shared_client.send(method, path, body, headers)
                assert (answer.headers.get("content-encoding") == "gzip") == compressed
                assert (answer.headers["vary"], len(answer.headers["x-request-id"])) == ("Accept-Encoding", 36)
                assert int(answer.headers["content-length"]) == len(answer.body)
                text = (gzip.decompress(answer.body) if compressed else answer.body).decode()
                assert (text if path.endswith("schema") else json.loads(text)["schema"]) == wanted
        for path in (f"/schemas/ids/{short}", "/subjects/none/versions"):
            assert "content-encoding" not in shared_client.get(path, **headers).headers

    check_rows(ENCODINGS, check)
    assert len(compressed_bodies) == 3, "once each"
    head = shared_client.send("HEAD", "/subjects/long/versions/1", None, {"Accept-Encoding": "gzip"})
    assert (head.status, head.body, "content-encoding" in head.headers) == (200, b"", False)


def test_head_and_options(shared_client: Client) -> None:
    head = shared_client.send("HEAD", "/subjects/none/versions")
    assert (head.status, head.body) == (404, b"")
    options = shared_client.send("OPTIONS", "/subjects/s/versions/1")
    assert options.headers["allow"] == "HEAD, GET, DELETE, OPTIONS"


def test_request_id(shared_client: Client) -> None:
    assert shared_client.get("/", **{"X-Request-ID": "mine"}).headers["x-request-id"] == "mine"
    assert len(shared_client.get("/").headers["x-request-id"]) == 36


def test_names_that_are_none(shared_client: Client) -> None:
    for name in ("a%C2%85b", "__GLOBAL"):
        for method, path, body in (
            ("POST", f"/subjects/{name}/versions", b'{"schema":"\\"int\\""}'),
            ("PUT", f"/config/{name}", b'{"compatibility":"NONE"}'),
            ("PUT", f"/mode/{name}", b'{"mode":"READONLY"}'),
        ):
            assert shared_client.send(method, path, body).error == (422, 42208)
        for kind in ("config", "mode"):
            assert shared_client.send("DELETE", f"/{kind}/{name}").error == (404, 40401)


@each(("body", "error"), [
    (None, (422, 422)), (b"null", (422, 422)), (b"{", (400, 400)), (b"[]", (400, 400)), (b'"text"', (400, 400)),
    (b"\xff\xfe\xff", (400, 400)), (b"[" * 5000, (400, 400)),
    (b'{"schema":' + b"[" * 5000 + b"]" * 5000 + b"}", (400, 400)), (b'{"schema":{"type":"int"}}', (400, 400)),
    (b'{"schema":"\\"int\\"","version":"x"}', (400, 400)),
    (b'{"schema":"\\"int\\"","version":99999999999}', (400, 400)),
    (b'{"schema":"\\"int\\"","references":[3]}', (400, 400)),
    *(
        (b'{"schema":"\\"int\\"","ruleSet":%s}' % rule_set, (400, 400))
        for rule_set in (
            *(b'"x"', b'{"domainRules":{}}', b'{"enableAt":"2020-01-01"}', b'{"enableAt":""}'),
            *(b'{"domainRules":[{"name":"r","kind":%s}]}' % kind for kind in (b'"X"', b'"condition"', b'""', b"7")),
            *(b'{"domainRules":[{"name":"r",%s}]}' % piece for piece in (b'"mode":"X"', b'"tags":"a"', b'"params":[]')),
            *(b'{"encodingRules":[{%s}]}' % piece for piece in (b'"disabled":"maybe"', b'"doc":{}')),
        )
    ),
    (b'{"schema":"\\"int\\"","metadata":{"tags":{"a":null}}}', (400, 400)),
    (b'{"schema":"\\"int\\"","metadata":{"tags":{"a":[null]}}}', (400, 400)),
    (b'{"schema":"\\"int\\"","metadata":{"sensitive":[null,"a"]}}', (400, 400)),
    (b'{"schema":"\\"int\\"","propagateSchemaTags":"yes"}', (400, 400)),
    (b'{"schema":"\\"int\\"","schemaTagsToAdd":[{"schemaEntity":{"entityType":"zz"},"tags":[]}]}', (400, 400)),
    (b'{"schema":"\\"int\\"","id":7}', (422, 42205)), (b'{"schema":"{}","schemaType":"XML"}', (422, 42201)),
    (b'{"schema":"{}","schemaType":"avro"}', (422, 42201)), (b'{"schema":"\\"\\ud800\\""}', (422, 42201)),
    (b"{}", (422, 42201)), (b'{"schema":5}', (422, 42201)),
])  # fmt: skip
def test_bad_bodies(shared_client: Client, body: bytes | None, error: tuple[int, int]) -> None:
    assert shared_client.send("POST", "/subjects/bad/versions", body).error == error


def test_a_lone_surrogate_is_answered(shared_client: Client) -> None:
    schema = '{"type":"record","name":"S","doc":"\\ud800","fields":[]}'
    answer = shared_client.register("surrogate", schema)
    assert answer.status == 200
    assert shared_client.register("surrogate", schema).json["version"] == 1


def test_body_limit() -> None:
    with running_service(max_body_bytes=2048) as url:
        small = Client(url)
        assert small.register("s", record("R", column("a"), doc="x" * 1500)).status == 200
        assert small.register("s", record("R", column("a"), doc="x" * 2048)).error == (413, 413)
        assert small.send("POST", "/subjects/s/versions", b" " * 1_000_000).error[0] in (413, 0)


@each(("method", "path", "body", "status", "expected"), [
    ("POST", "/subjects/small/versions", {"schema": '"int"', "schemaType": ""}, 422, 42201),
    ("POST", "/subjects/small", {"schema": '"int"', "schemaType": ""}, 422, 42201),
    ("DELETE", "/mode/small", None, 404, 40401),
    ("DELETE", "/mode/small?recursive=true", None, 200, {}),
    ("DELETE", "/mode/:.none:?recursive=true", None, 200, {}),
    ("GET", "/subjects/small/versions?deletedAsNegative=true", None, 404, 40401),
    ("POST", "/subjects/small/versions", {"schema": '"int"'}, 200, None),
    ("DELETE", "/subjects/small", None, 200, [1]),
    ("GET", "/subjects/small/versions?deletedAsNegative=true", None, 404, 40401),
    ("GET", "/subjects/small/versions?deletedAsNegative=true&deleted=true", None, 200, [-1]),
    ("GET", "/subjects/small/versions?deletedAsNegative=true&deletedOnly=true", None, 200, [-1]),
    ("GET", "/subjects/small/versions/latest", None, 404, 40401),
    ("GET", "/subjects/small/versions/latest?deleted=true", None, 404, 40402),
    ("GET", "/subjects/small/versions/latest/schema?deleted=true", None, 404, 40402),
    ("GET", "/subjects/small/versions/-1?deleted=true", None, 404, 40402),
    ("GET", "/subjects/small/versions/latest/referencedby", None, 404, 40402),
    ("GET", "/subjects/small/versions/1/referencedby", None, 200, []),
    ("GET", "/subjects/small/versions/1?deleted=true", None, 200, None),
    ("PUT", "/config/small", {"alias": "", "compatibilityGroup": ""}, 200, {"alias": "", "compatibilityGroup": ""}),
    ("GET", "/config/small", None, 200, {"compatibilityLevel": "BACKWARD"}),
    ("POST", "/subjects/small/versions", {"schema": '"long"'}, 200, None),
    ("GET", "/subjects/small/versions?deletedAsNegative=true", None, 200, [-1, 2]),
    ("DELETE", "/config/small", None, 200, {"compatibilityLevel": "BACKWARD"}),
    ("PUT", "/config/small", {"normalize": "x"}, 400, 400),
    ("PUT", "/config/__GLOBAL", {"compatibility": "x"}, 422, 42203),
    ("PUT", "/config/__GLOBAL", {"compatibility": "full"}, 422, 42208),
    ("PUT", "/config/small", {"normalize": 1.0}, 400, 400),
    ("PUT", "/config/small", {"normalize": " True "}, 200, {"normalize": True}),
    ("PUT", "/config/small", {"normalize": ""}, 200, {}),
    ("PUT", "/config/small", {"defaultRuleSet": {"domainRules": [{"kind": "Q"}]}}, 400, 400),
    ("PUT", "/config/small", {"defaultRuleSet": {"domainRules": [None, {"kind": 1, "disabled": 1}]}}, 200, {}),
    ("PUT", "/config/small", {"defaultMetadata": {"properties": {}}}, 200, {"defaultMetadata": {}}),
    ("GET", "/config/small", None, 200, {"compatibilityLevel": "BACKWARD", "defaultMetadata": {}}),
    ("GET", "/config/small?defaultToGlobal=true", None, 200, {"compatibilityLevel": "BACKWARD", "defaultMetadata": {}}),
    ("DELETE", "/config/small", None, 200, {"compatibilityLevel": "BACKWARD", "defaultMetadata": {}}),
    ("POST", "/subjects/empty/versions", {"schema": '"int"', "metadata": {"x": 1}}, 200, None),
    *(
        ("GET", f"/schemas?subjectPrefix=empty&{query}", None, status, answer)
        for query, status, answer in (
            ("resourceType=topic", 200, []),
            ("resourceType=", 200, []),
            ("associationType=value", 200, []),
            ("lifecycle=STRONG", 200, []),
            ("lifecycle=weak", 404, 404),
            ("lifecycle=weak&ruleType=x", 404, 404),
            ("lifecycle=NONE&lifecycle=WEAK", 200, None),
        )
    ),
])  # fmt: skip
def test_small_requests(
    client: Client, method: str, path: str, body: dict[str, Any] | None, status: int, expected: Any
) -> None:
    """What shell scripts and clients send, one after the other; an error is its code."""
    answer = client.send(method, path, body)
    assert answer.status == status, answer.body
    assert expected in (None, answer.json["error_code"] if status >= 400 else answer.json)
