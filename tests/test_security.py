"""What docs/operate.md claims and no other test holds: nothing is fetched, opened or run at a stranger's word."""

import ast
import json
import socket
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.each import each
from tests.support.registries import Server, serving
from tests.support.service import Client
from ticdc_bridge.clients.registry import HttpSchemas
from ticdc_bridge.schemas.model.errors import SetupError, WireError
from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.registry import register, schemas, subjects
from ticdc_bridge.service.registry.model import NewSchema, Reference
from ticdc_bridge.service.registry.registry import Registry
from ticdc_bridge.service.store import open_store
from ticdc_bridge.service.testing import running_service

ROOT = Path(__file__).resolve().parents[1]
SOURCES = [
    path for package in ("schemas", "service", "spark_jobs", "ticdc_bridge") for path in (ROOT / package).rglob("*.py")
]
WATCHED = ("open", "socket.connect", "socket.getaddrinfo", "subprocess.Popen", "os.system", "exec", "pickle.find_class")

_seen: list[tuple[str, Any]] | None = None


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _seen is not None and event in WATCHED:
        _seen.append((event, arguments[0] if arguments else None))


sys.addaudithook(_hook)  # can't be taken back, but does nothing outside `audited`


@contextmanager
def audited() -> Iterator[list[tuple[str, Any]]]:
    """What the interpreter's audit events say meanwhile."""
    global _seen
    found: list[tuple[str, Any]] = []
    _seen = found
    try:
        yield found
    finally:
        _seen = None


HOSTILE = [
    NewSchema(json.dumps({"$ref": "http://169.254.169.254/latest/meta-data/"}), "JSON"),
    NewSchema(json.dumps({"$ref": "file:///etc/passwd"}), "JSON"),
    NewSchema(json.dumps({"$schema": "http://127.0.0.1:1/s", "$id": "http://127.0.0.1:1/", "$ref": "x.json"}), "JSON"),
    NewSchema(json.dumps({"properties": {"a": {"$ref": "../../../../etc/passwd"}}}), "JSON"),
    NewSchema('syntax = "proto3"; import "/etc/passwd"; message A { int32 a = 1; }', "PROTOBUF"),
    NewSchema('syntax = "proto3"; import "../../setup.proto"; message A { B b = 1; }', "PROTOBUF"),
    NewSchema('syntax = "proto3"; import "http://127.0.0.1:1/x.proto"; message A { int32 a = 1; }', "PROTOBUF"),
    NewSchema("Cg0vZXRjL3Bhc3N3ZA==", "PROTOBUF"),
    NewSchema(json.dumps({"type": "record", "name": "A", "fields": [{"name": "f", "type": "file:///etc/passwd"}]})),
    NewSchema('"string"', references=(Reference("http://127.0.0.1:1/", "../../etc/passwd", 1),)),
]


@pytest.mark.parametrize("new", HOSTILE, ids=[f"{number} {entry.kind}" for number, entry in enumerate(HOSTILE)])
def test_no_schema_makes_the_registry_fetch_or_open_anything(tmp_path: Path, new: NewSchema) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'r.db'}")
    registry = Registry(store)
    register.register(registry, "warm", NewSchema('"int"'))
    for act in (register.register, register.lookup, register.register):
        with audited() as seen, suppress(RegistryError):
            act(registry, "a", new)
        ours = [(event, what) for event, what in seen if not (event == "exec" or imports(event, what))]
        assert ours == []
    store.close()


def imports(event: str, what: Any) -> bool:
    """Python reads its own modules when they are first needed."""
    return event == "open" and str(what).endswith((".py", ".pyc", ".so"))


DANGEROUS = {
    "pickle", "cPickle", "dill", "shelve", "cloudpickle", "joblib", "yaml", "xmlrpc", "telnetlib", "ftplib",
}  # fmt: skip
CALLS = {"eval", "exec", "os.system", "os.popen", "pickle.loads", "pickle.load", "marshal.loads", "marshal.load"}

# verify spills rows to files without a name, which no other process can open.
OWN = {"spark_jobs/jobs/verify.py": {"pickle", "pickle.load"}}


@each("path", SOURCES, ids=lambda path: path.relative_to(ROOT))
def test_nothing_unpickles_or_evaluates_what_comes_from_outside(path: Path) -> None:
    """Spark pickles our objects between its own processes; no byte of a message or a request is ever unpickled."""
    own = OWN.get(str(path.relative_to(ROOT)), set())
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            assert not (DANGEROUS - own) & {name.name.partition(".")[0] for name in node.names}, node.lineno
        if isinstance(node, ast.ImportFrom):
            assert (node.module or "").partition(".")[0] not in DANGEROUS, node.lineno
        if isinstance(node, ast.Call):
            assert _name(node.func) not in CALLS - own, node.lineno
            assert not any(word.arg == "shell" for word in node.keywords), node.lineno


def _name(called: ast.expr) -> str:
    """`f` or `a.f`; the calls that are looked for have no longer names."""
    if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
        return f"{called.value.id}.{called.attr}"
    return called.id if isinstance(called, ast.Name) else ""


@pytest.mark.parametrize("name", ["a'; DROP TABLE versions; --", 'a"b', "a%", "a_", "a\\", "é'"])
def test_names_are_no_sql(tmp_path: Path, name: str) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'r.db'}")
    registry = Registry(store)
    for subject in ("a1", "ab", name):
        register.register(registry, subject, NewSchema('"int"'))
    assert subjects.list_subjects(registry) == sorted(["a1", "ab", name])
    assert subjects.list_subjects(registry, prefix=name) == [name]
    assert {stored.subject for stored, _ in schemas.search(registry, prefix=name)} == {name}
    assert subjects.delete_subject(registry, name) == [1]
    assert subjects.list_subjects(registry) == ["a1", "ab"]
    store.close()


def raw(url: str, request: bytes) -> bytes:
    split_url = urlsplit(url)
    with socket.create_connection((split_url.hostname or "", split_url.port or 0), timeout=60) as opened:
        opened.sendall(request)
        opened.shutdown(socket.SHUT_WR)
        chunks = []
        while chunk := opened.recv(65536):
            chunks.append(chunk)
    return b"".join(chunks)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_service() as found:
        yield found


@each("value", [b"a\rX-Evil: 1", b"a\nX-Evil: 1", b"a\x00b", b"a\r\n X-Evil: 1", b"\x85X-Evil: 1"])
@each("path", [b"/", b"/subjects"])
def test_no_header_gets_into_an_answer(url: str, path: bytes, value: bytes) -> None:
    """`X-Request-ID` is the one thing of a request that an answer's head repeats."""
    answer = raw(url, b"GET %b HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Request-ID: %b\r\n\r\n" % (path, value))
    head = answer.partition(b"\r\n\r\n")[0]
    assert not any(line.lower().startswith(b"x-evil") for line in head.splitlines())


@each(
    "path",
    [
        "/subjects/a%0d%0aX-Evil:%201/versions",
        "/subjects/%3Cscript%3Ealert(1)%3C%2Fscript%3E/versions",
        "/<script>alert(1)</script>",
        "/subjects/..%2f..%2fetc%2fpasswd/versions/latest",
        "/subjects/%2e%2e/versions",
        "/../../etc/passwd",
        "/subjects/%00/versions",
    ],
)
def test_names_in_answers_are_no_markup_and_no_path(url: str, path: str) -> None:
    answer = Client(url).get(path)
    assert answer.status in (400, 404)
    assert "x-evil" not in answer.headers
    assert b"root:" not in answer.body
    if "json" in answer.headers.get("content-type", "json"):
        assert set(answer.json) == {"error_code", "message"}
    else:
        assert b"<script" not in answer.body


def test_a_redirect_leads_to_http_only_and_takes_no_credentials_along() -> None:
    """To another port or to plain HTTP is to somebody else (the same host: tests/ticdc_bridge/clients/test_http.py)."""
    with redirecting("file:///nowhere") as other, redirecting(f"{other.url}/x") as first:
        with suppress(SetupError, WireError):
            HttpSchemas(first.url.replace("//", "//user:secret@"), wait=0.1, timeout=5).by_id(1, "value")
        assert any("authorization" in headers for _, _, headers, _ in first.seen)
        assert other.seen
        assert not any("authorization" in headers for _, _, headers, _ in other.seen)
    for location in ("file:///etc/passwd", "ftp://127.0.0.1:1/x", "FTP://x/", "gopher://127.0.0.1:1/"):
        with redirecting(location) as server, pytest.raises((SetupError, WireError)) as raised:
            HttpSchemas(server.url, wait=0.1, timeout=5).by_id(1, "value")
        assert "root:" not in str(raised.value)


def redirecting(location: str) -> AbstractContextManager[Server]:
    """A server that answers every request with a redirect."""
    return serving(lambda *_: (302, b"", {"Location": location}))
