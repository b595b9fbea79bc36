"""Workers: reads by id beside a bare app of one process, a burst of registrations with 1 and 2 of them, and reads with
some registrations with 2.

The burst: 30,000 tables register key and value over 64 connections, as at the start of a changefeed over all. Other
registries answer some of that with 500 (`Register operation timed out`), which ends the changefeed for good. Here
every answer has to be 200 within 10 s, ids have no hole, and memory does not grow with what is registered.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path

from benchmarks.cpu import tree_seconds
from benchmarks.figures import Figure, Run
from benchmarks.registry import Load, Served, ask, bare_app, in_turn, mixed_load, process, register, schema
from tests.support import registration_burst
from tests.support.postgres import Postgres

TABLES, CONNECTIONS = 30_000, 64
LONGEST_SECONDS, GROWTH_MB = 10.0, 60.0
READ_CONNECTIONS, READS = 16, 1.07
"""What a Go registry in memory, which uses both cores, had of a bare app in one run on two cores."""
_NOTE = "the rival's value is what is allowed"


def run(asked: Run) -> Iterator[Figure]:
    """Figures of each store with 1 and 2 workers. RuntimeError for an answer that is not 200, or a missing id."""
    yield from reads(asked)
    tables = asked.rows or (TABLES // 10 if asked.quick else TABLES)
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        server = stack.enter_context(Postgres(fsync=True))
        for kind in ("sqlite", "postgresql"):
            for workers in (1, 2):
                url = server.database() if kind == "postgresql" else f"sqlite:///{Path(name) / f'{workers}.db'}"
                yield from burst(asked, f"registry.burst.{kind}.{workers}-workers", url, workers, tables)
            url = server.database() if kind == "postgresql" else f"sqlite:///{Path(name) / 'mixed.db'}"
            with serve_with(2, url) as served:
                yield from mixed_load(asked, f"registry.mixed.{kind}.2-workers", served, Path(name), *timing(asked))


def reads(asked: Run) -> Iterator[Figure]:
    """By id with 2 workers, beside a bare app of one process; each with what both cores give."""
    seconds, rounds = timing(asked)
    load = Load("/schemas/ids/1", threads=1, connections=READ_CONNECTIONS)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with serve_with(2, f"sqlite:///{folder / 'registry.db'}") as served:
            register(served, "eight", schema(0, 8 * 1024))
            with bare_app(folder, ask(served.url, "GET", load.path, None)) as bare:
                ours, rival = in_turn(asked, "by-id, 2 workers", (served, bare), load, folder, seconds, rounds)
    yield Figure("registry.by-id.2-workers", ours.per_second, "requests/s", "more", rival.per_second, READS)
    yield Figure("registry.by-id.2-workers.cpu", ours.cpu, "us/request", "less", rival.cpu)


def timing(asked: Run) -> tuple[int, int]:
    """Seconds of a round, and rounds."""
    return (2, 3) if asked.quick else (3, 7)


def serve_with(workers: int, url: str) -> AbstractContextManager[Served]:
    return process("service", "serve", "--port", "0", "--store", url, "--workers", str(workers))


def burst(asked: Run, name: str, url: str, workers: int, tables: int) -> Iterator[Figure]:
    with serve_with(workers, url) as served:
        pid = served.process.pid
        before = tree_seconds(pid)
        done = registration_burst.run(served.url, tables, CONNECTIONS, schema, sample=partial(tree_mb, pid))
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


def tree_mb(pid: int) -> float:
    """What a process and its children have in memory for themselves, in MB."""
    pids = [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split())]
    total = 0
    for one in pids:
        for line in Path(f"/proc/{one}/smaps_rollup").read_text("ascii").splitlines():
            if line.startswith(("Private_Clean", "Private_Dirty")):
                total += int(line.split()[1])
    return total / 1024
