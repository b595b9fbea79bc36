"""`import` and `export` between stores, dumps and registries over REST, as people run them."""

import io
import json
import logging
import os
import pty
import signal
import threading
from collections.abc import Iterator
from contextlib import closing, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_process import Command
from tests.support.each import each
from tests.support.registries import Answer, serving
from tests.support.service import GOLDEN, Client, column, environment, record
from ticdc_bridge.cli import main
from ticdc_bridge.service.migration.plan import fingerprint
from ticdc_bridge.service.migration.snapshot import Snapshot, snapshot_of
from ticdc_bridge.service.store import open_store
from ticdc_bridge.service.testing import running_service

CONFLUENT, KARAPACE = str(GOLDEN / "schemas-topic-confluent.tsv"), str(GOLDEN / "schemas-topic-karapace.tsv")


def command(*arguments: str, cwd: Path, **variables: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr. In this process, for a new one takes longer than most commands."""
    root = logging.getLogger()
    handlers, out, err = root.handlers, io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(cwd)
        for name, value in variables.items():
            patch.setenv(name, value)
        try:
            code = main(arguments)
        finally:
            root.handlers = handlers
    return code, out.getvalue(), err.getvalue().replace("ticdc-bridge: ", "")


def held(store: str) -> Snapshot:
    with closing(open_store(store)) as opened, opened.read() as tx:
        return snapshot_of(tx)


def filled(client: Client) -> None:
    """A registry with some of everything."""
    assert client.register("base", record("Addr", namespace="x")).json["id"] == 1
    refer: Any = {"references": [{"name": "x.Addr", "subject": "base", "version": 1}]}
    assert client.register("parent", record("P", column("a", "x.Addr")), "", **refer).status == 200
    assert client.register("s", '"int"', metadata={"properties": {"owner": "me"}}).status == 200
    client.level("NONE", "s")
    assert client.register("s", '"string"', metadata={}).status == 200
    assert client.register("s", '"long"').status == 200
    assert client.send("DELETE", "/subjects/s/versions/2").status == 200
    assert client.register("j", '{"type":"object"}', schemaType="JSON").status == 200
    assert client.register("p", 'syntax = "proto3"; message M {}', schemaType="PROTOBUF").status == 200
    assert client.register("a/b .", '"bytes"').status == 200
    assert client.register(":.ctx:s", '"float"').status == 200
    for number, text in enumerate(['"double"', '"boolean"'], 1):
        assert client.register(f"gone{number}", text).status == 200
        assert client.send("DELETE", f"/subjects/gone{number}").status == 200
    assert client.send("DELETE", "/subjects/gone2?permanent=true").status == 200
    assert client.send("PUT", "/config/alias", {"alias": "s"}).status == 200
    assert client.send("PUT", "/config/%3A.ctx%3A", {"compatibility": "FULL", "normalize": True}).status == 200
    assert client.send("PUT", "/config", {"compatibility": "FORWARD"}).status == 200
    assert client.send("PUT", "/mode/j", {"mode": "READONLY"}).status == 200
    assert client.send("PUT", "/mode/%3A.ctx%3A", {"mode": "READONLY_OVERRIDE"}).status == 200


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """URL and store of a filled registry."""
    store = f"sqlite:///{tmp_path_factory.mktemp('source') / 'registry.db'}"
    with running_service(store=store) as url:
        filled(Client(url))
        yield url, store


def test_through_a_dump(source: tuple[str, str], tmp_path: Path) -> None:
    target = f"sqlite:///{tmp_path / 'target.db'}"
    code, _, reported = command("export", "dump.jsonl", "--store", source[1], cwd=tmp_path)
    assert (code, reported.splitlines()[-1]) == (
        0,
        "export: written: 8 versions, 2 soft-deleted versions, 4 configs, 2 modes, 1 contexts, 2 id marks; "
        "0 versions and 0 configs and modes were there already",
    )
    for expected in ("written: 8 versions", "nothing to do; 10 versions and 6 configs and modes were there already"):
        code, _, reported = command("import", "dump.jsonl", "--store", target, cwd=tmp_path)
        assert code == 0
        assert f"import: {expected}" in reported
    assert fingerprint(held(target)) == fingerprint(held(source[1]))
    code, _, reported = command("import", "dump.jsonl", "--store", target, "--verify", cwd=tmp_path)
    assert (code, reported.splitlines()[-1]) == (0, "verify: equal")
    with running_service(store=target) as url:
        assert Client(url).register("new", '"boolean"', "?force=true").json["id"] == 11  # 10 was gone2's
    code, _, reported = command("import", "dump.jsonl", "--store", target, "--verify", cwd=tmp_path)
    assert (code, reported.splitlines()[-1]) == (1, "verify: 2 differences")
    assert "versions: 10 equal, 1 different:\n  new version 1: only in the target\n" in reported
    absent = f"sqlite:///{tmp_path / 'absent.db'}"
    assert command("import", "dump.jsonl", "--store", absent, "--verify", cwd=tmp_path)[0] == 2


def test_a_dump_on_stdout(source: tuple[str, str], tmp_path: Path) -> None:
    code, out, _ = command("export", "-", "--store", source[1], cwd=tmp_path)
    assert code == 0
    assert json.loads(out.splitlines()[0]) == {
        "key": {"keytype": "NOOP", "magic": 0},
        "value": {"highIds": {".": 10, ".ctx": 1}},
    }
    assert len(out.splitlines()) == 1 + 1 + 4 + 10 + 2


def test_a_dump_that_is_there_is_not_replaced(source: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "dump.jsonl").write_text("something\n")
    code, _, reported = command("export", "dump.jsonl", "--store", source[1], cwd=tmp_path)
    assert (code, "dump.jsonl is there and holds something else" in reported) == (2, True)
    assert command("export", "dump.jsonl", "--store", source[1], "--overwrite", cwd=tmp_path)[0] == 0
    code, _, reported = command("export", "dump.jsonl", "--store", source[1], cwd=tmp_path)
    assert (code, "export: nothing to do" in reported) == (0, True)


def test_over_rest_and_back(source: tuple[str, str], tmp_path: Path) -> None:
    """REST to REST, then REST to a store: ids, versions, deletes, configs, modes and the highest id are the same."""
    target = f"sqlite:///{tmp_path / 'target.db'}"
    with running_service() as url:
        code, _, reported = command("import", source[0], "--to", url, cwd=tmp_path)
        assert code == 0, reported
        code, _, reported = command("import", source[0], "--to", url, cwd=tmp_path)
        assert (code, "import: nothing to do; 10 versions and 6 configs" in reported) == (0, True)
        for entry, other in (
            (source[0], ("--to", url)),
            (source[0], ("--store", source[1])),
            (url, ("--to", source[0])),
        ):
            code, _, reported = command("import", entry, *other, "--verify", cwd=tmp_path)
            assert (code, reported.splitlines()[-1]) == (0, "verify: equal"), reported
        client = Client(url)
        assert client.get("/mode").json == {"mode": "READWRITE"}  # it was IMPORT meanwhile
        assert client.get("/mode/j").json == {"mode": "READONLY"}
        assert client.get("/subjects?deleted=true").json == Client(source[0]).get("/subjects?deleted=true").json
        code, _, reported = command("import", url, "--store", target, cwd=tmp_path)
        assert code == 0, reported
        assert client.register("new", '"boolean"', "?force=true").json["id"] == 11
    found, existing = held(target), held(source[1])
    # An answer names the level that counts where a config has none, and so it is one that is set.
    assert found.configs.pop("alias") == {"alias": "s", "compatibilityLevel": "BACKWARD"}
    assert existing.configs.pop("alias") == {"alias": "s"}
    assert fingerprint(found) == fingerprint(existing)


def test_conflicts_over_rest_write_nothing(source: tuple[str, str], tmp_path: Path) -> None:
    with running_service() as url:
        client = Client(url)
        assert client.register("s", '"bytes"').status == 200
        assert client.register("t", '"int"').status == 200
        code, _, reported = command("import", source[0], "--to", url, cwd=tmp_path)
        assert code == 1
        assert "1 × the version has another schema:" in reported
        assert "2 × the id stands for another schema:" in reported
        assert reported.endswith("conflicts; nothing was written\n")
        assert client.get("/subjects?deleted=true").json == ["s", "t"]


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    code, _, reported = command("import", CONFLUENT, "--dry-run", cwd=tmp_path)
    assert (code, "import: would be written: 114 versions, 11 configs" in reported) == (0, True)
    assert list(tmp_path.iterdir()) == []


def test_a_conflict_leaves_a_store_as_it_was(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'registry.db'}"
    assert command("import", CONFLUENT, cwd=tmp_path)[0] == 0
    before = fingerprint(held(store))
    code, _, reported = command("import", KARAPACE, cwd=tmp_path)
    assert code == 1
    assert "× the version has another id:" in reported
    assert "left out: 1 × CONFIG of '__GLOBAL', which is no valid name" in reported
    assert fingerprint(held(store)) == before


def test_broken_records(tmp_path: Path) -> None:
    lines = (GOLDEN / "schemas-topic-karapace.tsv").read_text().splitlines()
    lines[3] = lines[3][:-5]
    (tmp_path / "dump").write_text("\n".join(lines))
    code, _, reported = command("import", "dump", cwd=tmp_path)
    assert code == 1
    assert (
        "1 broken records, nothing was written (--skip-broken leaves them out):\n  dump line 4 offset 3: " in reported
    )
    code, _, reported = command("import", "dump", "--skip-broken", cwd=tmp_path)
    assert code == 1
    assert "1 broken records left out:" in reported
    assert len(held(f"sqlite:///{tmp_path / 'registry.db'}").versions) == 165


def test_rule_sets(tmp_path: Path) -> None:
    """They come with an import, are answered, stay with later versions, and can be left behind."""
    rules = {
        "domainRules": [{"name": "r", "type": "CEL", "tags": ["b", "a"], "params": {"y": "1", "x": "2"}, "expr": "z"}]
    }
    value = {"id": 7, "schema": '"int"', "metadata": {"properties": {"k": "v"}}, "ruleSet": rules}
    line = {"key": {"keytype": "SCHEMA", "subject": "s", "version": 1, "magic": 1}, "value": value}
    (tmp_path / "dump").write_text(json.dumps(line))
    store = f"sqlite:///{tmp_path / 'registry.db'}"
    assert command("import", "dump", cwd=tmp_path)[0] == 0
    with running_service(store=store) as url, running_service() as other:
        client = Client(url)
        shown = client.get("/subjects/s/versions/1")
        assert (
            b'"metadata":{"properties":{"k":"v"}},"ruleSet":{"domainRules":[{"name":"r","kind":"TRANSFORM",'
            in shown.body
        )
        assert shown.json["ruleSet"]["domainRules"][0]["params"] == {"x": "2", "y": "1"}
        assert client.get("/schemas/ids/7").json["ruleSet"] == shown.json["ruleSet"]
        for query, subjects in (("", ["s"]), ("ruleType=CEL&aliases=true", ["s"]), ("ruleType=ENCRYPT", [])):
            assert [entry["subject"] for entry in client.get(f"/schemas?{query}").json] == subjects
        again = client.register("s", '"int"')
        assert (again.json["id"], again.json["version"]) == (7, 1)
        assert client.send("POST", "/subjects/s", {"schema": '"int"'}).json["id"] == 7
        assert client.register("s", '"long"').json["ruleSet"] == shown.json["ruleSet"]
        assert "ruleSet" not in client.register("t", '"int"', ruleSet=rules).json  # as Confluent's community server
        code, _, reported = command("import", url, "--to", other, cwd=tmp_path)
        assert code == 0, reported
        assert Client(other).get("/subjects/s/versions/1").json["ruleSet"] == shown.json["ruleSet"]
        assert Client(other).get("/subjects/s/versions/1").json["guid"] == shown.json["guid"]
    assert command("export", "out", "--store", store, cwd=tmp_path)[0] == 0
    assert (
        '"ruleSet":{"domainRules":[{"name":"r","kind":"TRANSFORM","mode":"WRITEREAD"' in (tmp_path / "out").read_text()
    )
    bare = f"sqlite:///{tmp_path / 'bare.db'}"
    assert command("import", "dump", "--store", bare, "--drop-rule-sets", cwd=tmp_path)[0] == 0
    assert held(bare).versions["s", 1].content.rule_set is None


@each(("arguments", "reason"), [
    (("import", "nowhere.jsonl"), "nowhere.jsonl: No such file or directory"),
    (("import", "kafka:_schemas"), "a topic needs --bootstrap-servers"),
    (("import", "http://u:p/w@host"), "http://host:port or https"),
    (("import", "http://127.0.0.1:9", "--dry-run"), "can't be reached"),
    (("export", "a", "--store", "sqlite:///absent.db"), "there is no store sqlite:///absent.db"),
    (("export", "a", "b", "c"), "export takes a TARGET, or a SOURCE and a TARGET"),
])  # fmt: skip
def test_what_cannot_be_done(tmp_path: Path, arguments: tuple[str, ...], reason: str) -> None:
    code, _, reported = command(*arguments, "--wait", "1", cwd=tmp_path)
    assert code == 2
    assert reason in reported


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_puts_the_modes_back(how: signal.Signals, source: tuple[str, str], tmp_path: Path) -> None:
    """The target stops answering registrations half-way; the import is interrupted while it waits."""
    reached, go_on = threading.Event(), threading.Event()
    with running_service() as url:
        target = Client(url)

        def between(method: str, path: str, body: bytes) -> Answer:
            if path.endswith("/versions") and method == "POST":
                reached.set()
                go_on.wait(30)
            answer = target.send(method, path, body or None, {"Content-Type": "application/json"})
            return answer.status, answer.body, {}

        with serving(between) as server:
            running = Command(("import", source[0], "--to", server.url), tmp_path, environment())
            try:
                assert reached.wait(60)
                running.send_signal(how)
                threading.Timer(0.5, go_on.set).start()
                _, reported = running.communicate(timeout=60)
            finally:
                running.kill()
                running.wait()
        assert running.returncode == 128 + how
        assert "import stopped; run it again to go on" in reported
        changes = [path for path in server.paths if not path.startswith("GET")]
        assert (changes[0], changes[-1]) == ("PUT /mode?force=true", "DELETE /mode")
        assert target.get("/mode").json == {"mode": "READWRITE"}
        assert target.get("/mode/%3A.ctx%3A").status == 404
        assert command("import", source[0], "--to", url, cwd=tmp_path)[0] == 0  # goes on


def test_a_bar_on_a_terminal(tmp_path: Path) -> None:
    main, terminal = pty.openpty()
    shown = b""
    with Command(("import", CONFLUENT), tmp_path, environment(TERM="xterm", COLUMNS="100"), terminal) as done:
        try:
            while part := os.read(main, 4096):
                shown += part
        except OSError:
            pass  # the other side is closed
        os.close(main)
        assert done.wait(60) == 0
    assert b"schemas read" in shown
    assert b"114/114" in shown


def test_what_cannot_be_read_is_kept_and_stops_nothing_else(tmp_path: Path) -> None:
    """Texts that another registry took for schemas: answered as they are; checks against them say what is wrong."""
    unread: dict[str, dict[str, Any]] = {
        "avro": {"schema": "no schema"},
        "xml": {"schema": "<x/>", "schemaType": "XML"},
        "torn": {"schema": '"F"', "references": [{"name": "F", "subject": "gone", "version": 1}]},
        "deep": {"schema": "[" * 3000 + "]" * 3000},
        "proto": {"schema": "message {{", "schemaType": "PROTOBUF"},
    }
    lines = [
        {"key": {"keytype": "SCHEMA", "subject": name, "version": 1, "magic": 1}, "value": {"id": number, **value}}
        for number, (name, value) in enumerate(unread.items(), 1)
    ]
    (tmp_path / "dump").write_text("\n".join(map(json.dumps, lines)))
    code, _, reported = command("import", "dump", cwd=tmp_path)
    assert code == 0
    assert "5 versions have a schema that this registry can't read" in reported
    with running_service(store=f"sqlite:///{tmp_path / 'registry.db'}") as url:
        client = Client(url)
        for number, (name, value) in enumerate(unread.items(), 1):
            assert client.get(f"/schemas/ids/{number}").json["schema"] == value["schema"]
            assert client.get(f"/subjects/{name}/versions/1").json["id"] == number
            assert client.register(name, '"int"').error == (422, 42201)
            reported = client.register(name, '"int"').json["message"]
            assert "can't be read" in reported or name in ("xml", "deep")
            check = client.send("POST", f"/compatibility/subjects/{name}/versions/1", {"schema": '"int"'})
            assert check.error == (422, 42201)
            assert client.send("POST", f"/subjects/{name}", {"schema": '"int"'}).error == (404, 40403)
            client.level("NONE", name)
            assert client.register(name, '"int"').json["id"] == 6
