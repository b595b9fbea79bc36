"""One server for all processes of a test run: it outlives who started it, and never the run."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tests.support.golden import ROOT
from tests.support.postgres import DatabaseServer
from tests.support.processes import until
from tests.support.sharing import Run

_CONTROLLER = """
from tests.support.sharing import Run
run = Run()
print(run.folder, flush=True)
input()
"""
_WORKER = """
import json, sys
from pathlib import Path
from tests.support.sharing import Run
server = Run(Path(sys.argv[1])).postgres()
print(json.dumps([server.port, str(server.folder), server.database()]))
"""


def _worker(folder: str) -> tuple[DatabaseServer, str]:
    """A worker that asks for the server and ends; the server, and the database that it made."""
    command = [sys.executable, "-c", _WORKER, folder]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    port, at, url = json.loads(done.stdout)
    return DatabaseServer(port, Path(at)), url


def test_the_server_is_one_and_ends_when_the_run_is_killed(postgres: DatabaseServer) -> None:
    command = [sys.executable, "-c", _CONTROLLER]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as controller:
        assert controller.stdout is not None
        folder = controller.stdout.readline().strip()
        (first, left), (second, other) = _worker(folder), _worker(folder)
        assert (first.port, first.folder) == (second.port, second.folder)
        assert first.port != postgres.port
        assert left != other
        with psycopg.connect(left), psycopg.connect(other):  # two sessions hold nothing up
            controller.send_signal(signal.SIGKILL)
            until(lambda: not first.folder.exists() and not Path(folder).exists(), "the server has ended", 60)
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(left, connect_timeout=5)


def test_the_end_of_a_run() -> None:
    run = Run()
    assert Run(run.folder).folder == run.folder
    Run(run.folder).pytest_unconfigure()
    assert run.folder.exists()
    run.pytest_unconfigure()
    assert not run.folder.exists()
