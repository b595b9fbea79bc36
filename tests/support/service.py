"""A plain HTTP client that sends paths as they are, and the commands of the service as processes."""

import http.client
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import pytest
from typer.testing import CliRunner, Result

from tests.support.command_process import Command
from tests.support.postgres import DatabaseServer
from ticdc_bridge.cli.app import app
from ticdc_bridge.service.registry.model import StoredWarning
from ticdc_bridge.service.registry.registry import Registry

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "registry"
TIMEOUT = 60
T = TypeVar("T")
V1 = "application/vnd.schemaregistry.v1+json"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> tuple[int, int]:
        return self.status, self.json["error_code"]


class Client:
    """One connection per request, so that it can be used from many threads."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._netloc = urlsplit(url).netloc

    def send(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Answer:
        """`body`: bytes go as they are, anything else as JSON."""
        connection = http.client.HTTPConnection(self._netloc, timeout=TIMEOUT)
        try:
            connection.putrequest(method, path, skip_accept_encoding=True)
            data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            for name, value in (headers or {}).items():
                connection.putheader(name, value)
            if data is not None:
                connection.putheader("Content-Length", str(len(data)))
            connection.endheaders(data)
            response = connection.getresponse()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        return self.send("GET", path, headers=headers)

    def register(self, subject: str, schema: str, query: str = "", **more: Any) -> Answer:
        return self.send("POST", f"/subjects/{quote(subject, safe='')}/versions{query}", {"schema": schema, **more})

    def level(self, level: str, subject: str = "") -> None:
        answer = self.send("PUT", f"/config/{subject}" if subject else "/config", {"compatibility": level})
        assert answer.status == 200, answer.body


def record(name: str, *fields: dict[str, Any], **more: Any) -> str:
    return json.dumps({"type": "record", "name": name, "fields": list(fields), **more})


def column(name: str, type_: Any = "int", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, **more}


def warnings_of(registry: Registry) -> list[StoredWarning]:
    with registry.store.read() as tx:
        return tx.warnings()


def command(*arguments: str, cwd: Path, stdin: str = "", **variables: str) -> Result:
    """`python -m service …` run in this process, in `cwd`."""
    with chdir(cwd):
        return CliRunner().invoke(app, list(arguments), input=stdin, env=variables)


def environment(**variables: str) -> dict[str, str]:
    """The environment of a command, without settings that the machine may have."""
    foreign = ("BRIDGE_", "SCHEMA_REGISTRY_", "KARAPACE_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return {**kept, "PYTHONPATH": str(ROOT), **variables}


def serve(*arguments: str, cwd: Path, **variables: str) -> Command:
    """`python -m service serve …` as a process in `cwd`."""
    return Command(("serve", *arguments), cwd, environment(**variables))


def ended(*arguments: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """`python -m service …` as a process in `cwd` that has ended, and what it said."""
    running = Command(arguments, cwd, environment(**variables))
    stdout, stderr = running.communicate(timeout=120)
    return subprocess.CompletedProcess(arguments, running.wait(), stdout, stderr)


def listening_at(process: Command | subprocess.Popen[str]) -> str:
    """The base URL of the ready line."""
    assert process.stderr is not None
    seen = []
    for line in process.stderr:
        seen.append(line)
        found = re.search(r"listening on (http://\S+)", line)
        if found:
            return found[1]
    raise AssertionError(f"never ready: {seen}")


@contextmanager
def process_service(folder: Path, *arguments: str, **variables: str) -> Iterator[tuple[Command, Client]]:
    """The service as a process on a free port, its store in `folder`; killed at the end if it still runs."""
    store = f"sqlite:///{folder / 'registry.db'}"
    process = serve("--port", "0", "--store", store, *arguments, cwd=folder, **variables)
    with process:
        try:
            yield process, Client(listening_at(process))
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            for pipe in (process.stdout, process.stderr):
                if pipe is not None and not pipe.closed:
                    pipe.read()


def short_and_long(short: int, long: int) -> pytest.MarkDecorator:
    """A property of `examples` examples: a few in every run, and many in the slow one."""
    return pytest.mark.parametrize("examples", [short, pytest.param(long, marks=pytest.mark.slow)])


def until(condition: Callable[[], T]) -> T:
    """Wait for something that happens by itself, such as a file that is looked at every second. Out: what it gave."""
    deadline = time.monotonic() + TIMEOUT
    while not (found := condition()):
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.05)
    return found


# Of one subject: the second reads what the first wrote, the third does not.
ORDER = record("order", column("id", "long"), column("note", ["null", "string"], default=None), namespace="shop")
WIDER = record(
    "order", column("id", "long"), column("note", ["null", "string"], default=None),
    column("paid", "boolean", default=False), namespace="shop",
)  # fmt: skip
NARROWER = record("order", column("id", "long"), column("note", "string"), namespace="shop")


def empty_store(kind: str, request: pytest.FixtureRequest, path: Path) -> str:
    """The URL of an empty store. kind: sqlite (the file `path`) or postgresql."""
    if kind == "sqlite":
        return f"sqlite:///{path}"
    server = request.getfixturevalue("postgres")
    assert isinstance(server, DatabaseServer)
    return server.database()
