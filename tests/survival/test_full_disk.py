"""A disk of its own that is full, or read-only, for a while: nothing acknowledged is lost, then all goes on."""

import os
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.postgres import Postgres, PostgresDidNotStart, PostgresMissing
from tests.support.service import Client, column, record
from tests.survival.acknowledged_writes import Told, schema
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.service.store import open_store
from ticdc_bridge.service.testing import running_service

SIZE = 160 << 20
TIMED_OUT = (500, 50002)


@pytest.fixture
def disk() -> Iterator[Path]:
    """A small file system of its own, in memory."""
    position = Path(tempfile.mkdtemp(prefix="bridge-disk-"))
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("a file system can be mounted by root only")
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(position)], capture_output=True)
    if done.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {done.stderr.decode(errors='replace').strip()}")
    try:
        yield position
    finally:
        subprocess.run(["umount", "-l", str(position)], check=True)
        position.rmdir()


def fill(path: Path) -> Path:
    """A file that takes all room that is left."""
    filler = path / "filler"
    with filler.open("wb", buffering=0) as out:
        for piece in (1 << 20, 1 << 12, 1):
            try:
                while True:
                    out.write(b"\1" * piece)
            except OSError:
                continue
    return filler


def large(number: int) -> str:
    """A schema of about a megabyte that does not compress: it needs new pages."""
    text = random.Random(number).randbytes(1 << 19).hex()
    return record(f"large_{number}", column("a", doc=text), namespace="survival")


@pytest.mark.slow
def test_the_disk_under_postgresql_is_full_for_a_while(disk: Path) -> None:
    try:
        server = Postgres(data=disk / "data")
    except PostgresMissing as missing:
        pytest.skip(str(missing))
    with server:
        url, reported = server.database(), Told()
        with running_service(url, compatibility="NONE", store_wait_seconds=2.0, log_level="error") as at:
            client = Client(at)
            for number in range(5):
                answer = client.register("before", schema(0, number))
                reported.add("before", schema(0, number), answer.status, answer.body)
            filler = fill(disk)
            refused = 0
            for number in range(40):
                answer = client.register("during", large(number))
                reported.add("during", large(number), answer.status, answer.body)
                if answer.status != 200:
                    assert (answer.status, answer.json["error_code"]) == TIMED_OUT, answer.body
                    refused += 1
                if refused == 3:
                    break
            assert refused == 3, "the disk was never full"
            filler.unlink()
            revive(server)  # without room for its WAL it ends itself
            until = time.monotonic() + 60
            while client.register("after", schema(1, 0)).status != 200:
                assert time.monotonic() < until, "there is room again, and still no schema is taken"
            answer = client.register("after", schema(1, 1))
            reported.add("after", schema(1, 1), answer.status, answer.body)
            assert answer.status == 200
            reported.check(client)
            assert client.get("/health/ready").status == 200
        with running_service(url, compatibility="NONE") as at:
            reported.check(Client(at))


def revive(server: Postgres) -> None:
    """Starts the server where it has ended."""
    if not server.running:
        try:
            server.restart()
        except PostgresDidNotStart as failed:
            pytest.fail(str(failed))


def test_a_file_that_cannot_be_written(disk: Path) -> None:
    """On a full disk a service is not ready; on a read-only one none starts, and none waits before it says so."""
    store = f"sqlite:///{disk / 'registry.db'}"
    with running_service(store, store_wait_seconds=1.0, log_level="error") as at:
        client = Client(at)
        assert client.register("s", '"int"').status == 200
        assert client.get("/health/ready").status == 200
        filler = fill(disk)
        _check_not_ready(client, "is full")
        filler.unlink()
        assert client.get("/").body == b"{}"
        assert client.get("/health/ready").status == 200
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    with pytest.raises(SetupError, match=r"may not write the folder .*read-only file system"):
        open_store(store, wait_seconds=30.0)
    subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
    with running_service(store) as at:
        assert Client(at).get("/subjects/s/versions").json == [1]


def _check_not_ready(client: Client, reason: str) -> None:
    for path in ("/health/ready", "/"):
        answer = client.get(path)
        assert (answer.error, reason in answer.json["message"]) == ((500, 50001), True), answer.body
