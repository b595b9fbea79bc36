"""A registry over REST that tells less than Confluent's, and credentials."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.service.migration.test_import_export import command
from tests.service.migration.test_snapshot_and_plan import schema, snapshot
from tests.support.registries import Answer, answer, serving
from tests.support.service import Client
from ticdc_bridge.clients.http import HttpClient, HttpLogin, HttpResponse
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.service.migration.plan import plan_merge
from ticdc_bridge.service.migration.progress import line_progress
from ticdc_bridge.service.migration.rest_reader import RestSource
from ticdc_bridge.service.migration.rest_writer import RestTarget
from ticdc_bridge.service.migration.snapshot import Snapshot

ANSWERS: dict[str, Any] = {
    "/subjects": ["s"], "/subjects?deleted=true": ["s", "t"], "/subjects/s/versions": [1],
    "/subjects/s/versions?deleted=true": [1, 2], "/subjects/t/versions?deleted=true": [1],
    "/subjects/s/versions/1": {"subject": "s", "version": 1, "id": 3, "schema": '{"type": "int"}'},
    "/subjects/s/versions/2": {"subject": "s", "version": 2, "id": 4, "schema": '"long"'},
    "/subjects/t/versions/1": {"subject": "t", "version": 1, "id": 3, "schema": '{"type": "int"}'},
    "/config": {"compatibilityLevel": "FULL"}, "/config/s": {"compatibilityLevel": "NONE"},
}  # fmt: skip


@pytest.fixture
def seven() -> Iterator[str]:
    """A registry that tells less than Confluent's: no contexts, no maxId, no own settings of subjects (Karapace)."""

    def respond(_method: str, path: str, _body: bytes) -> Answer:
        if server.seen[-1][2].get("authorization") != "Basic dTpwOnc=":
            return answer(404, {"error_code": 40101, "message": "no"})
        if path.startswith("/mode"):
            return answer(200, {"mode": "READWRITE"})
        path = re.sub(r"[?&]subjectPrefix=%3A\*%3A|\?defaultToGlobal=true", "", path)
        bare = path.partition("?")[0]
        found = ANSWERS.get(path, ANSWERS.get(bare) if "/versions/" in bare else None)
        return answer(200 if found else 404, found)

    with serving(respond) as server:
        yield f"{server.url}/"


def test_a_registry_that_tells_less(seven: str) -> None:
    http = HttpClient(seven, login=HttpLogin(user="u:p:w"))
    source = RestSource(http)
    found = source.read()
    assert {key: (version.id, version.deleted) for key, version in found.versions.items()} == {
        ("s", 1): (3, False),
        ("s", 2): (4, True),
        ("t", 1): (3, True),
    }
    assert found.configs == {":.:": {"compatibilityLevel": "FULL"}, "s": {"compatibilityLevel": "NONE"}}
    assert (found.modes, found.marks) == ({}, {".": 4})
    assert source.left_out == {
        "/mode of subjects: this registry answers for any name": 1,
        "the highest id ever used: not known; the highest existing id was taken": 1,
    }


def test_a_name_without_a_character_has_no_config() -> None:
    """A path with nothing behind its last slash is answered as the server's own."""

    def respond(_method: str, path: str, _body: bytes) -> Answer:
        if path.startswith("/schemas?"):
            return answer(200, [{"aliases": ["", "other"]}])
        if path.startswith(("/config?", "/config/?")) or path in ("/config", "/config/", "/config/other"):
            return answer(200, {"compatibilityLevel": "FULL"})
        return answer(200, []) if path.startswith("/subjects?") else answer(404, {})

    with serving(respond) as server:
        found = RestSource(HttpClient(server.url)).read()
    assert found.configs == {":.:": {"compatibilityLevel": "FULL"}, "other": {"compatibilityLevel": "FULL"}}
    assert not {"GET /config/", "GET /mode/"} & set(server.paths)


def test_equal_as_far_as_a_registry_tells(seven: str, tmp_path: Path) -> None:
    arguments = ("import", seven, "--user", "u:p:w")
    assert command(*arguments, cwd=tmp_path)[0] == 0
    code, _, reported = command(*arguments, "--verify", cwd=tmp_path)
    assert (code, reported.splitlines()[-1]) == (2, "verify: can't tell; what could be compared is equal")
    assert "1 × /mode of subjects: this registry answers for any name" in reported
    (tmp_path / "more").write_text('{"subject":"u","version":1,"id":9,"schema":"\\"int\\""}\n')
    assert command("import", "more", cwd=tmp_path)[0] == 0
    code, _, reported = command(*arguments, "--verify", cwd=tmp_path)
    assert (code, reported.splitlines()[-1]) == (1, "verify: 1 differences")


def test_credentials_stay_out_of_sight(seven: str, tmp_path: Path) -> None:
    url = seven.replace("http://", "http://u:p%3Aw@")
    code, _, reported = command("import", url, "--dry-run", cwd=tmp_path)
    assert (code, "would be written: 1 versions, 2 soft-deleted versions" in reported) == (0, True)
    assert "p%3Aw" not in reported
    assert "p:w" not in reported
    assert command("import", seven, "--dry-run", cwd=tmp_path, BRIDGE_REGISTRY_USER="u:p:w")[0] == 0
    code, _, reported = command("import", seven, "--dry-run", "--token", "t", cwd=tmp_path)
    assert (code, "refused GET /subjects" in reported) == (2, True)


def test_versions_behind_an_alias_are_counted(client: Client) -> None:
    """While a subject's config has an alias, every path shows the other subject."""
    for subject in ("s", "hidden"):
        assert client.register(subject, '"int"').status == 200
    assert client.send("PUT", "/config/hidden", {"alias": "s"}).status == 200
    http = HttpClient(client.url)
    source = RestSource(http)
    assert list(source.read().versions) == [("s", 1)]
    assert source.left_out == {"versions that REST hides because their subject's config has an alias": 1}


def test_progress_without_a_terminal() -> None:
    said: list[str] = []
    reported = line_progress(said.append, every=0)
    reported("versions", 3, 10)
    reported("writing", 1, None)
    reported("configs", 0, 0)
    assert said == ["versions: 3 of 10", "writing: 1"]


class Refusing(HttpClient):
    """A target without DELETE /mode (Confluent 7.x), where one subject's mode can't be changed."""

    def __init__(self) -> None:
        super().__init__("http://old")
        self.modes: list[str] = []

    def ask(self, method: str, target: str, body: Any = None) -> HttpResponse:
        if method == "DELETE":
            return HttpResponse(405, b"{}")
        if "stuck" in target and body != {"mode": "IMPORT"}:
            return HttpResponse(422, b'{"message":"no"}')
        self.modes.append(f"{target} {body['mode']}" if "mode" in body else target)
        return HttpResponse(200, json.dumps({"id": body.get("id")}).encode())


def test_modes_are_put_back_as_far_as_it_goes() -> None:
    source = snapshot(schema("s", 1, 1))
    target = Snapshot(modes={"stuck": "READONLY", "t": "READONLY"})
    asker = Refusing()
    with pytest.raises(SetupError, match="modes not put back, perhaps still IMPORT: stuck"):
        RestTarget(asker).carry_out(plan_merge(source, target), source, target)
    assert asker.modes == [
        "/mode?force=true IMPORT", "/mode/stuck?force=true IMPORT", "/mode/t?force=true IMPORT",
        "/subjects/s/versions", "/mode/t?force=true READONLY", "/mode?force=true READWRITE",
    ]  # fmt: skip
