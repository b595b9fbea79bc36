"""Where downloaded and generated files are kept between runs, and how they get there whole."""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_dir() -> Path:
    """`BRIDGE_CACHE`, else `XDG_CACHE_HOME/ticdc-bridge`, else `~/.cache/ticdc-bridge`. It may not exist yet."""
    if folder := os.environ.get("BRIDGE_CACHE"):
        return Path(folder).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache").absolute() / "ticdc-bridge"


def write_atomically(path: Path, content: str | bytes, mode: int = 0o644) -> None:
    """Write so that a reader sees the old file or the new one, never a part. OSError where that can't be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(content.encode() if isinstance(content, str) else content)
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@contextmanager
def lock_file(path: Path) -> Iterator[None]:
    """Hold an exclusive lock between processes on `path` (an empty file that stays); waits for its turn."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
