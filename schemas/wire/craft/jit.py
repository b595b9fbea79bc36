"""numba, where it is installed: the one import of it.

Machine code is cached by the content of the kernels' sources, in a folder that all workers of a machine share:
`NUMBA_CACHE_DIR`, else `numba` below `BRIDGE_CACHE`, else below `XDG_CACHE_HOME/ticdc-bridge` or
`~/.cache/ticdc-bridge`. So it survives restarts, and a zip that Spark unpacks to another path each time finds it again.
"""

from __future__ import annotations

import hashlib
import os
import pkgutil
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_KERNELS = ("numbers", "read", "fill", "content", "write")
_SOURCES = (*(f"kernel_{name}.py" for name in _KERNELS), "jit.py")

try:
    numba: Any = import_module("numba")
    COMPILED = not numba.config.DISABLE_JIT
except ImportError:
    COMPILED = False


def _home() -> Path | None:
    """The folder of this version's sources and code; None where it can't be written: then nothing is cached."""
    own = os.environ.get("NUMBA_CACHE_DIR")
    base = os.environ.get("BRIDGE_CACHE") or os.environ.get("XDG_CACHE_HOME", "~/.cache") + "/ticdc-bridge"
    home = Path(own or base + "/numba").expanduser().absolute()
    digest = hashlib.sha256()
    for name in _SOURCES:
        digest.update(pkgutil.get_data(__package__, name) or b"")
    home = home / f"craft-{digest.hexdigest()[:24]}"
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        for name in _SOURCES:
            _write(home / name, pkgutil.get_data(__package__, name) or b"")
    except OSError:
        return None
    return home


def _write(path: Path, data: bytes) -> None:
    if path.exists() and path.read_bytes() == data:
        return
    handle, temporary = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "wb") as out:
        out.write(data)
    os.replace(temporary, path)


_HOME = _home() if COMPILED else None


def jit(function: F) -> F:
    """The function compiled on its first call, or as it is without numba."""
    if not COMPILED:
        return function
    if _HOME is not None:
        # numba keeps the code beside the file that a function says it is from.
        place = str(_HOME / Path(function.__code__.co_filename).name)
        function.__code__ = function.__code__.replace(co_filename=place)
    compiled: F = numba.njit(cache=_HOME is not None, nogil=True)(function)
    return compiled
