"""numba, where it is installed: the one import of it.

Machine code is cached by the content of all files of this folder, in a folder that all workers of a machine share:
`NUMBA_CACHE_DIR`, else `numba` below `BRIDGE_CACHE`, else below `XDG_CACHE_HOME/ticdc-bridge` or
`~/.cache/ticdc-bridge`. So it survives restarts, and a zip that Spark unpacks to another path each time finds it again.
"""

import errno
import hashlib
import os
import stat
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module, resources
from pathlib import Path
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
_CODE = "__pycache__"  # where numba keeps the code of a file beside it

try:
    numba: Any = import_module("numba")
    COMPILED = not numba.config.DISABLE_JIT
except ImportError:
    COMPILED = False

# An option that numba's own functions use; one that does not know it counts.
_UNCOUNTED = {"_nrt": False} if COMPILED and hasattr(numba.core.options.DefaultOptions, "_nrt") else {}


def jit(function: F, **more: Any) -> F:
    """The function compiled on its first call, or as it is without numba.

    It can neither make an array nor return one: whoever called has a hold of all that it uses, and to count references,
    in atomic steps at each call and each use of a tuple's array, took a third of a kernel's time.
    """
    if not COMPILED:
        return function
    if _FOLDER is not None:
        # numba keeps the code beside the file that a function says it is from.
        folder = str(_FOLDER / Path(function.__code__.co_filename).name)
        function.__code__ = function.__code__.replace(co_filename=folder)
    compiled: F = numba.njit(cache=_FOLDER is not None, nogil=True, **{**_UNCOUNTED, **more})(function)
    return compiled


def inline(function: F) -> F:
    """As `jit`, for a function that is part of its callers' code: a call passes seven numbers for each array."""
    return jit(function, forceinline=True)


def jit_allocating(function: F) -> F:
    """As `jit`, for a function that makes arrays."""
    return jit(function, **dict.fromkeys(_UNCOUNTED, True))


def read_sources() -> dict[str, bytes]:
    """All code that the kernels consist of: this folder's files by name, in a zip too."""
    files = (f for f in resources.files(__package__).iterdir() if f.name.endswith(".py"))
    return {file.name: file.read_bytes() for file in sorted(files, key=lambda f: f.name)}


def digest_sources(sources: Mapping[str, bytes]) -> str:
    """The name of the folder in which the code of these sources is cached."""
    digest = hashlib.sha256()
    for name, text in sources.items():
        digest.update(f"{name} {len(text)}\n".encode() + text)
    return digest.hexdigest()[:24]


def _cache_folder() -> Path | None:
    """The folder of this version's sources and code; None where none can be written: then nothing is cached."""
    configured = os.environ.get("NUMBA_CACHE_DIR")
    base = os.environ.get("BRIDGE_CACHE") or os.environ.get("XDG_CACHE_HOME", "~/.cache") + "/ticdc-bridge"
    sources = read_sources()
    folder = Path(configured or base + "/numba").expanduser().absolute() / digest_sources(sources)
    for make in (_fill, _fill_temporary):
        try:
            return make(folder, sources)
        except OSError:
            continue
    return None


def _fill(folder: Path, sources: Mapping[str, bytes]) -> Path:
    """The folder with the sources in it. OSError where it, or numba's own below it, can't be written."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for name, text in sources.items():
        _write(folder / name, text)
    for entry in (folder, folder / _CODE):
        if entry.exists() and not os.access(entry, os.W_OK):
            raise PermissionError(errno.EACCES, "cannot be written", str(entry))
    return folder


def _fill_temporary(folder: Path, sources: Mapping[str, bytes]) -> Path:
    """A temporary folder of this user's in its place, with links to its code. OSError where that can't be had."""
    home = Path(tempfile.gettempdir(), f"ticdc-bridge-kernels-{os.getuid()}")
    home.mkdir(exist_ok=True, mode=0o700)
    status = home.lstat()  # numba runs what is in there: nobody else may have made it, or write to it
    if status.st_uid != os.getuid() or not stat.S_ISDIR(status.st_mode) or status.st_mode & 0o077:
        raise PermissionError(errno.EACCES, "is not this user's alone", str(home))
    made = _fill(home / folder.name, sources)
    (made / _CODE).mkdir(exist_ok=True)
    for file in (folder / _CODE).iterdir() if os.access(folder / _CODE, os.R_OK | os.X_OK) else ():
        with suppress(FileExistsError):
            (made / _CODE / file.name).symlink_to(file)
    return made


def _write(path: Path, data: bytes) -> None:
    if path.exists() and path.read_bytes() == data:
        return
    handle, temporary = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "wb") as out:
        out.write(data)
    os.replace(temporary, path)


_FOLDER = _cache_folder() if COMPILED else None
IS_CACHED = _FOLDER is not None
