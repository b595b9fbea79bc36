"""`python -m service serve` as people start it, and how it says no."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

from tests.support.service import Client, ended, environment, listening_at, process_service, serve


def refused(cwd: Path, *arguments: str, **variables: str) -> tuple[int, str]:
    done = ended("serve", *arguments, cwd=cwd, **variables)
    return done.returncode, done.stderr


def test_the_ready_line_and_the_default_store(tmp_path: Path) -> None:
    """This one is started as people start it; others are forked (see command_process.py)."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-m", "service", "serve", "--port", "0"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment(), stdout=pipe, stderr=pipe, text=True) as process:
        client = Client(listening_at(process))
        assert client.get("/").body == b"{}"
        assert client.register("s", '"int"').status == 200
        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (0, "ticdc-bridge: stopped\n")
    assert (tmp_path / "registry.db").exists()


def test_ctrl_c_is_clean(tmp_path: Path) -> None:
    with process_service(tmp_path) as (process, client):
        assert client.get("/").body == b"{}"
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
        assert (process.returncode, stderr) == (0, "ticdc-bridge: stopped\n")


def test_a_restart_finds_everything(tmp_path: Path) -> None:
    with process_service(tmp_path) as (process, client):
        assert client.register("s", '"int"').json["id"] == 1
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    with process_service(tmp_path, "--profile", "7") as (_, client):
        assert client.register("s", '"int"').body == b'{"id":1}'
        assert client.register("t", '"long"').body == b'{"id":2}'


def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, stderr = refused(tmp_path, "--port", str(port))
    assert code == 2
    assert f"can't start: can't listen on 127.0.0.1:{port}: Address already in use: give another --port" in stderr
    assert not (tmp_path / "registry.db").exists()


def test_a_store_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "registry.db").write_text("no database " * 200)
    code, stderr = refused(tmp_path, "--port", "0")
    assert code == 2
    assert "file is not a database" in stderr


def test_names_of_other_registries_are_understood_and_said(tmp_path: Path) -> None:
    variables = {"SCHEMA_REGISTRY_LISTENERS": "http://127.0.0.1:0", "KARAPACE_COMPATIBILITY": "NONE"}
    with serve(cwd=tmp_path, **variables) as process:
        assert process.stderr is not None
        said = [process.stderr.readline() for _ in range(3)]
        client = Client(listening_at(process))
        assert client.get("/config").json == {"compatibilityLevel": "NONE"}
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert sorted(said) == [
        "ticdc-bridge: KARAPACE_COMPATIBILITY sets compatibility\n",
        "ticdc-bridge: SCHEMA_REGISTRY_LISTENERS sets host\n",
        "ticdc-bridge: SCHEMA_REGISTRY_LISTENERS sets port\n",
    ]
