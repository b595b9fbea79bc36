"""What a Python worker does before its first task, so that each task starts and ends for less.

Spark's daemon collects garbage after each task: 80 to 100 ms of CPU where compiled readers are loaded. Before each it
invalidates the importers, which read their directories again: 90 ms. And the C library gives a batch's large arrays
back to the system, which clears them page by page for the next: a seventh of the CPU of a worker that writes Debezium.
"""

import ctypes
import gc
import os
import sys
from functools import cache
from importlib.util import find_spec
from zipimport import zipimporter

_MANY = 20_000
"""Objects that the collector looks at; pyspark's worker has 30,000, with kernels 175,000."""
_TIMES = 4
"""A cycle that is frozen stays: modules come at a worker's start and with its first tasks, later there is no need."""
_done: list[int] = []


def tune_worker() -> None:
    """What a worker has loaded is loaded for good: the collector and the importer need not go through it again."""
    _keep_memory()
    # The objects that are there go out of the collector's sight. They are freed as before when nobody has them.
    if len(_done) < _TIMES and (count := len(gc.get_objects())) > _MANY:
        gc.collect()
        gc.freeze()
        _done.append(count)
    # The importers of Spark's own zips and jars are forgotten; an import that looks there makes new ones, for little.
    for path, importer in list(sys.path_importer_cache.items()):
        if _SPARK is not None and isinstance(importer, zipimporter) and importer.archive.startswith(_SPARK):
            del sys.path_importer_cache[path]


_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # glibc's malloc.h
_KEPT, _LARGEST = 64 << 20, 32 << 20  # bytes; no glibc takes a larger second number


@cache
def _keep_memory() -> None:
    """Freed memory, up to 64 MiB of it, stays for the next batch. Does nothing where malloc is not glibc's."""
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_M_MMAP_THRESHOLD, _LARGEST)
        set_option(_M_TRIM_THRESHOLD, _KEPT)


def _installation() -> str | None:
    """The folder of the Spark installation whose zip a worker has pyspark from."""
    spec = find_spec("pyspark")
    home, within, _ = str(getattr(spec and spec.loader, "archive", "")).rpartition(f"{os.sep}python{os.sep}lib{os.sep}")
    return f"{home}{os.sep}" if within else None


_SPARK = _installation()
