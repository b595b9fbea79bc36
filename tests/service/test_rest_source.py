"""A registry over REST that tells less than Confluent's, and credentials."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from service.moving.asking import Access, Http
from service.moving.rest import RestSource
from tests.service.test_import_export import command


class Seven(BaseHTTPRequestHandler):
    """A registry that tells less than Confluent's: no contexts, no maxId, no own settings of subjects (Karapace)."""

    ANSWERS: ClassVar[dict[str, Any]] = {
        "/subjects": ["s"],
        "/subjects?deleted=true": ["s", "t"],
        "/subjects/s/versions": [1],
        "/subjects/s/versions?deleted=true": [1, 2],
        "/subjects/t/versions?deleted=true": [1],
        "/subjects/s/versions/1": {"subject": "s", "version": 1, "id": 3, "schema": '{"type": "int"}'},
        "/subjects/s/versions/2": {"subject": "s", "version": 2, "id": 4, "schema": '"long"'},
        "/subjects/t/versions/1": {"subject": "t", "version": 1, "id": 3, "schema": '{"type": "int"}'},
        "/config": {"compatibilityLevel": "FULL"},
        "/config/s": {"compatibilityLevel": "NONE"},
    }

    def do_GET(self) -> None:
        path = self.path.replace("&subjectPrefix=%3A*%3A", "").replace("?subjectPrefix=%3A*%3A", "")
        path = path.replace("?defaultToGlobal=true", "")
        known = path in self.ANSWERS or (path.partition("?")[0] in self.ANSWERS and "/versions/" in path)
        body = json.dumps(self.ANSWERS.get(path, self.ANSWERS.get(path.partition("?")[0]) if known else None)).encode()
        if path.startswith("/mode"):
            known, body = True, b'{"mode":"READWRITE"}'
        if self.headers.get("Authorization") != "Basic dTpwOnc=":
            known, body = False, b'{"error_code":40101,"message":"no"}'
        self.send_response(200 if known else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def seven() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Seven)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def test_a_registry_that_tells_less(seven: str) -> None:
    with closing(Http(seven, Access(user="u:p:w"))) as http:
        source = RestSource(http)
        found = source.read()
    assert {key: (one.id, one.deleted) for key, one in found.versions.items()} == {
        ("s", 1): (3, False),
        ("s", 2): (4, True),
        ("t", 1): (3, True),
    }
    assert found.configs == {":.:": {"compatibilityLevel": "FULL"}, "s": {"compatibilityLevel": "NONE"}}
    assert (found.modes, found.marks) == ({}, {".": 4})
    assert source.left_out == {
        "/mode of subjects: this registry answers for any name": 1,
        "the highest id ever used: not told; the highest there is was taken": 1,
    }


def test_credentials_stay_out_of_sight(seven: str, tmp_path: Path) -> None:
    url = seven.replace("http://", "http://u:p%3Aw@")
    code, _, told = command("import", url, "--dry-run", cwd=tmp_path)
    assert (code, "would be written: 1 versions, 2 soft-deleted versions" in told) == (0, True)
    assert "p%3Aw" not in told
    assert "p:w" not in told
    assert command("import", seven, "--dry-run", cwd=tmp_path, BRIDGE_REGISTRY_USER="u:p:w")[0] == 0
    code, _, told = command("import", seven, "--dry-run", "--token", "t", cwd=tmp_path)
    assert (code, "refused GET /subjects" in told) == (2, True)
