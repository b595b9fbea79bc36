"""Kernels compiled and classes archived once for all workers of a test run.

Each worker takes what no other has begun, then waits for the rest. The cache is kept between runs: what is there for
these sources is not made again. `python -m tests.support.warm_up` does it outside of a run.
"""

import fcntl
import hashlib
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import IO

from tests.support import table_decoders
from tests.support.class_archive import ARCHIVE, make_archive
from tests.support.golden import ROOT
from ticdc_bridge.spark_jobs.arrow import warm_up
from ticdc_bridge.spark_jobs.runtime.cache import cache_dir, write_atomically

# The longest first; what one needs of another's code it finds in the cache, or compiles too.
_STEPS: tuple[Callable[[], object], ...] = (
    partial(warm_up.warm_transcode, "avro", "debezium"), make_archive, table_decoders.warm_json,
    table_decoders.warm_craft, partial(warm_up.warm_lines, "debezium"),
    partial(warm_up.warm_transcode, "debezium", "avro"), partial(warm_up.warm_table_rows, "avro"),
    warm_up.warm_dump_texts,
)  # fmt: skip


def warm(run: str) -> None:
    """Comes back when all is compiled. run: a name that the workers of a run have in common."""
    stamp, state = Path(os.environ.get("NUMBA_CACHE_DIR") or cache_dir() / "numba") / "warm", _state()
    if ARCHIVE.is_file() and stamp.is_file() and stamp.read_text() == state:
        return
    locks = [Path(tempfile.gettempdir()) / f"bridge-warming-{run}-{number}" for number in range(len(_STEPS))]
    waiting: list[IO[str]] = []
    with ExitStack() as files:
        for lock, step in zip(locks, _STEPS, strict=True):
            file: IO[str] = lock.open("w")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waiting.append(files.enter_context(file))
                continue
            with file:
                step()
        for other in waiting:
            fcntl.flock(other, fcntl.LOCK_EX)
    for lock in locks:  # who comes later finds all compiled
        lock.unlink(missing_ok=True)
    write_atomically(stamp, state)


def _state() -> str:
    """A digest of all that the kernels' code comes from."""
    digest = hashlib.sha256(f"{sys.version} {version('numba')} {version('pyspark')}".encode())
    for source in sorted((ROOT / "schemas").rglob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()


if __name__ == "__main__":
    warm(f"alone-{os.getpid()}")
