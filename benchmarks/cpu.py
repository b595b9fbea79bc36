"""CPU time of this process and all that it started: the JVM, and Spark's Python workers, those that ended included.

Linux only: read from /proc. The clock's tick (10 ms on most systems) is the finest step.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
# Fields of /proc/PID/stat after the name in parentheses, which is field 2 (man 5 proc).
_PARENT, _UTIME, _CUTIME_END = 1, 11, 15


@dataclass(frozen=True, slots=True)
class Spent:
    """What a piece of work took."""

    wall: float
    cpu: float


class Stopwatch:
    """`with Stopwatch() as watch: …`, then `watch.spent`: wall clock and CPU seconds of the process tree."""

    def __enter__(self) -> Stopwatch:
        self._cpu = tree_seconds()
        self._wall = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        wall = time.perf_counter() - self._wall
        self.spent = Spent(wall, tree_seconds() - self._cpu)


def tree_seconds(root: int | None = None) -> float:
    """User and system seconds used so far by process `root` (default: this one) and its descendants.

    A descendant that has ended counts by its parent's cutime and cstime once the parent has waited for it, before that
    by itself: it is still in /proc. Errors: OSError without /proc.
    """
    parents: dict[int, list[int]] = defaultdict(list)
    ticks: dict[int, int] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and (fields := _fields(entry)):
            pid = int(entry.name)
            parents[int(fields[_PARENT])].append(pid)
            ticks[pid] = sum(map(int, fields[_UTIME:_CUTIME_END]))  # utime, stime, cutime, cstime
    total, todo = 0, [os.getpid() if root is None else root]
    while todo:
        pid = todo.pop()
        total += ticks.get(pid, 0)
        todo += parents[pid]
    return total / os.sysconf("SC_CLK_TCK")


def _fields(process: Path) -> list[str]:
    """The fields after the process's name, which may hold spaces and parentheses; empty where it has just gone."""
    try:
        return (process / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []
