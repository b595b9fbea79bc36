"""A burst of registrations: 30,000 tables register key and value over 64 connections, as at the start of a changefeed.

Other registries answer some of that with 500 (`Register operation timed out`), which ends the changefeed for good. Here
every answer has to be 200 within 10 s, ids have no hole, and memory does not grow with what is registered.
"""

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.cpu import tree_seconds
from benchmarks.figures import Figure, Run
from benchmarks.registry import process, schema
from tests.support import registration_burst
from tests.support.postgres import Postgres

TABLES, CONNECTIONS = 30_000, 64
LONGEST_SECONDS, GROWTH_MB = 10.0, 60.0
_NOTE = "the rival's value is what is allowed"


def run(asked: Run) -> Iterator[Figure]:
    """Figures of each store. RuntimeError for an answer that is not 200, or a missing id."""
    tables = asked.rows or (TABLES // 10 if asked.quick else TABLES)
    with tempfile.TemporaryDirectory() as name, Postgres(fsync=True) as server:
        yield from burst(asked, "registry.burst.sqlite", f"sqlite:///{Path(name) / 'registry.db'}", tables)
        yield from burst(asked, "registry.burst.postgresql", server.database(), tables)


def burst(asked: Run, name: str, url: str, tables: int) -> Iterator[Figure]:
    with process("service", "serve", "--port", "0", "--store", url) as served:
        pid = served.process.pid
        before = tree_seconds(pid)
        done = registration_burst.run(served.url, tables, CONNECTIONS, schema, sample=partial(private_mb, pid))
        cpu = (tree_seconds(pid) - before) / (2 * tables)
    asked.say(f"{name}: {dict(done.statuses)}, {done.seconds:.0f} s")
    if done.statuses != {200: 2 * tables} or done.holes:
        raise RuntimeError(f"{name}: answers {dict(done.statuses)}, {done.holes} holes, {done.failures[:3]}")
    yield Figure(name, 2 * tables / done.seconds, "schemas/s", "more")
    yield Figure(f"{name}.cpu", cpu * 1e6, "us/schema", "less", note="of the service alone")
    yield Figure(f"{name}.longest", done.longest, "s", "less", LONGEST_SECONDS, 1.0, _NOTE)
    settled = len(done.samples) // 4
    yield Figure(
        f"{name}.growth",
        done.samples[-1] - done.samples[settled],
        "MB",
        "less",
        GROWTH_MB,
        1.0,
        f"after a quarter; {_NOTE}",
    )


def private_mb(pid: int) -> float:
    """What a process has in memory for itself, in MB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Private_Clean", "Private_Dirty"))) / 1024
