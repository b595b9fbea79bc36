"""A real TiDB for tests: `tidb_server/run.sh`, whose programs are in a cache folder or are built there with Go.

It keeps its data in TiDB's in-process store: DDL, DML and SHOW are real, and there is no TiKV and no changefeed.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pymysql
import pytest

_FOLDER = Path(__file__).parent / "tidb_server"
_CACHE = Path(os.environ.get("TICDC_BRIDGE_TIDB_CACHE", Path.home() / ".cache" / "ticdc-bridge-tests" / "tidb"))
IS_BUILT = any(_CACHE.glob("v*/tidb-server"))

needs_tidb = [
    pytest.mark.skipif(not (IS_BUILT or shutil.which("go")), reason="no TiDB in the cache, and no go to build it"),
    *([] if IS_BUILT else [pytest.mark.slow, pytest.mark.timeout(3600)]),  # a build takes up to 20 minutes
]
"""Marks of tests that need a TiDB."""


@contextmanager
def running_tidb(folder: Path) -> Iterator[int]:
    """The port of a server with user root and no password, its data in a folder."""
    script = str(_FOLDER / "run.sh")
    done = subprocess.run([script, "start", str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    try:
        yield int(dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)["port"])
    finally:
        subprocess.run([script, "stop", str(folder)], check=False)


@contextmanager
def tidb_cursor(folder: Path) -> Iterator[tuple[int, Any]]:
    """The port of a server, and a cursor of its user root."""
    with running_tidb(folder) as port:
        connection = pymysql.connect(host="127.0.0.1", port=port, user="root", autocommit=True)
        with connection, connection.cursor() as cursor:
            yield port, cursor
