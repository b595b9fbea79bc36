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
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

try:
    numba: Any = import_module("numba")
    COMPILED = not numba.config.DISABLE_JIT
except ImportError:
    COMPILED = False

# An option that numba's own functions use; one that does not know it counts.
_UNCOUNTED = {"_nrt": False} if COMPILED and hasattr(numba.core.options.DefaultOptions, "_nrt") else {}


class Kernels:
    """Kernels that are cached together. sources: (package, file) of all code that they consist of."""

    def __init__(self, name: str, sources: Sequence[tuple[str, str]]) -> None:
        self._home = _cache_folder(name, sources) if COMPILED else None

    @property
    def is_cached(self) -> bool:
        """Whether the code is cached."""
        return self._home is not None

    def inline(self, function: F) -> F:
        """As `jit`, for a function that is part of its callers' code: a call passes seven numbers for each array."""
        return self.jit(function, forceinline=True)

    def jit_allocating(self, function: F) -> F:
        """As `jit`, for a function that makes arrays."""
        return self.jit(function, **dict.fromkeys(_UNCOUNTED, True))

    def jit(self, function: F, **more: Any) -> F:
        """The function compiled on its first call, or as it is without numba.

        It can neither make an array nor return one: whoever called has a hold of all that it uses, and to count
        references, in atomic steps at each call and each use of a tuple's array, took a third of a kernel's time.
        """
        if not COMPILED:
            return function
        if self._home is not None:
            # numba keeps the code beside the file that a function says it is from.
            place = str(self._home / Path(function.__code__.co_filename).name)
            function.__code__ = function.__code__.replace(co_filename=place)
        compiled: F = numba.njit(cache=self._home is not None, nogil=True, **{**_UNCOUNTED, **more})(function)
        return compiled


def _cache_folder(name: str, sources: Sequence[tuple[str, str]]) -> Path | None:
    """The folder of this version's sources and code; None where it can't be written: then nothing is cached."""
    own = os.environ.get("NUMBA_CACHE_DIR")
    base = os.environ.get("BRIDGE_CACHE") or os.environ.get("XDG_CACHE_HOME", "~/.cache") + "/ticdc-bridge"
    home = Path(own or base + "/numba").expanduser().absolute()
    texts = {
        file: pkgutil.get_data(package, file) or b""
        for package, file in (*sources, ("schemas.columnar.kernels", "jit.py"))
    }
    digest = hashlib.sha256()
    for text in texts.values():
        digest.update(text)
    home = home / f"{name}-{digest.hexdigest()[:24]}"
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        for file, text in texts.items():
            _write(home / file, text)
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
