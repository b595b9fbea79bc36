"""Objects in a store under the interface of pathlib, so that whatever reads a file or folder reads them too.

An object appears whole or not at all: it is written to a file of this machine first, and sent when it is complete.
"""

from __future__ import annotations

import atexit
import io
import re
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from errno import ENOENT
from fnmatch import fnmatchcase
from functools import lru_cache
from os import PathLike
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.spark_jobs.io.stores import StoreUrl, store_error

_READ = 4 << 20  # bytes asked for at a time
_WRITTEN = 8 << 20  # bytes sent at a time
_Path: Any = type(Path())  # what Path() makes on this system, which alone can be derived from before Python 3.12


def path_of(place: str | PathLike[str]) -> Path:
    """A path of this machine, or an object's for a store's URL (also one that Path() changed). SetupError USAGE."""
    if isinstance(place, ObjectPath):
        return place
    url = StoreUrl.of(str(place))
    if url is not None and not url.authority:
        raise SetupError("USAGE", details=f"{place}: name the server: {url.scheme}://HOST:PORT/PATH")
    return Path(place) if url is None else ObjectPath(str(place))


def is_object(path: Path) -> bool:
    return isinstance(path, ObjectPath)


class ObjectPath(_Path):  # type: ignore[misc]  # Path, see above
    """SCHEME://BUCKET/KEY. A folder is what objects have before a slash in their keys, and is there while they are.

    SetupError STORE_UNREACHABLE from every method that asks the store.
    """

    _kind: Any = None  # pyarrow's FileInfo, of a path that came from a listing

    def __str__(self) -> str:
        return re.sub(r"\A([^/]+:)/+", r"\1//", super().__str__())

    def __fspath__(self) -> str:
        details = "this is read and written on this machine alone: copy or mount it first (aws s3 cp, rclone …)"
        raise SetupError("USAGE", details=f"{self}: {details}")

    @property
    def url(self) -> StoreUrl:
        url = StoreUrl.of(str(self))
        assert url is not None
        return url

    # ---- where it is: nothing is relative to a folder of this machine
    def absolute(self) -> ObjectPath:
        return self

    def resolve(self, strict: bool = False) -> ObjectPath:
        return self

    def is_absolute(self) -> bool:
        return True

    # ---- what is there
    def _info(self) -> Any:
        if self._kind is not None:
            return self._kind
        url = self.url
        with _errors_of(self):
            return url.files.get_file_info(url.path)

    def exists(self, **_: Any) -> bool:
        return bool(self._info().type.name != "NotFound")

    def is_file(self, **_: Any) -> bool:
        return bool(self._info().is_file)

    def is_dir(self, **_: Any) -> bool:
        return bool(self._info().type.name == "Directory")

    def stat(self, **_: Any) -> SimpleNamespace:
        """st_size alone."""
        return SimpleNamespace(st_size=int(self._info().size or 0))

    def check_bucket(self) -> None:
        """SetupError STORE_UNREACHABLE where there is no such bucket, or it can't be reached."""
        url = self.url
        with _errors_of(self):
            there = url.files.get_file_info(url.store.root(url.authority) or "/")
        if there.type.name == "NotFound":
            raise SetupError("STORE_UNREACHABLE", place=str(self), details="there is no such bucket")

    def _list(self, recursive: bool) -> Iterator[ObjectPath]:
        from pyarrow import fs

        url = self.url
        with _errors_of(self):
            entries = url.files.get_file_info(
                fs.FileSelector(url.path or "/", allow_not_found=True, recursive=recursive)
            )
        below = len(url.path) + 1
        for entry in sorted(entries, key=lambda one: one.path):
            if key := entry.path[below:]:
                path: ObjectPath = self / key
                path._kind = entry
                yield path

    def iterdir(self) -> Iterator[ObjectPath]:
        return self._list(False)

    def glob(self, pattern: str, **_: Any) -> Iterator[ObjectPath]:
        """pattern: of a name, without /."""
        return (path for path in self._list(False) if fnmatchcase(path.name, pattern))

    def rglob(self, pattern: str, **_: Any) -> Iterator[ObjectPath]:
        return (path for path in self._list(True) if fnmatchcase(path.name, pattern))

    # ---- reading
    def open(self, mode: str = "r", buffering: int = -1, encoding: str | None = None, errors: str | None = None,
             newline: str | None = None) -> IO[Any]:  # fmt: skip
        """For reading alone. FileNotFoundError; what fails later is SetupError STORE_UNREACHABLE."""
        if mode.strip("bt") != "r":
            raise SetupError("USAGE", details=f"{self}: it can't be written in parts: choose a file of this machine")
        binary = io.BufferedReader(_Object(self, self.arrow()), _READ)
        return binary if "b" in mode else io.TextIOWrapper(binary, encoding or "utf-8", errors, newline)

    def arrow(self) -> Any:
        """The object as pyarrow's file. FileNotFoundError."""
        url = self.url
        try:
            if not url.key:
                raise FileNotFoundError(ENOENT, "No such file or directory", str(self))
            with _errors_of(self):
                return url.files.open_input_file(url.path)
        except FileNotFoundError:
            self.check_bucket()
            raise

    def read_bytes(self) -> bytes:
        with self.open("rb") as file:
            data: bytes = file.read()
            return data

    def read_text(self, encoding: str | None = None, errors: str | None = None, newline: str | None = None) -> str:
        with self.open("r", -1, encoding, errors, newline) as file:
            text: str = file.read()
            return text

    # ---- writing
    def write_bytes(self, data: Any) -> int:
        part = part_for(self)
        part.write_bytes(data)
        self.put(part)
        return len(data)

    def put(self, part: Path) -> None:
        """A file of this machine becomes the object. SetupError STORE_UNREACHABLE: the file stays, and is named."""
        url, size = self.url, part.stat().st_size

        def send() -> int:
            with part.open("rb") as file, url.files.open_output_stream(url.path) as out:
                shutil.copyfileobj(file, out, _WRITTEN)
            return int(url.files.get_file_info(url.path).size)

        try:
            # In a thread: an interrupt here would leave a part of it, which pyarrow completes to an object.
            with _errors_of(self), ThreadPoolExecutor(1) as pool:
                sent = pool.submit(send).result()
        except SetupError as error:
            kept = part.replace(Path(tempfile.mkdtemp(prefix="ticdc-bridge-unsent-")) / self.name)
            details = f"{error.fields['details']}. What was to be written is in {kept}"
            raise SetupError("STORE_UNREACHABLE", place=str(self), details=details) from error
        if sent != size:
            details = f"it has {sent} bytes after {size} were written: another program wrote it at the same time"
            raise SetupError("STORE_UNREACHABLE", place=str(self), details=details)
        part.unlink()

    def mkdir(self, *_: Any, **__: Any) -> None:
        """Folders come with their objects."""

    def unlink(self, missing_ok: bool = False) -> None:
        url = self.url
        try:
            with _errors_of(self):
                url.files.delete_file(url.path)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def remove_folder(self) -> None:
        """Everything below it."""
        url = self.url
        try:
            with _errors_of(self):
                url.files.delete_dir(url.path)
        except FileNotFoundError:
            return


def remove_folder(folder: Path) -> None:
    """A folder and everything below it; one that is not there is none."""
    if isinstance(folder, ObjectPath):
        folder.remove_folder()
    else:
        shutil.rmtree(folder, ignore_errors=True)


def part_for(path: Path) -> Path:
    """The name of a new file of this machine for what becomes an object."""
    return _scratch() / f"{uuid.uuid4().hex}{path.suffix}"


@lru_cache(maxsize=1)
def _scratch() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="ticdc-bridge-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def arrow_source(path: Path) -> Any:
    """What pyarrow reads a file from: a path's text, or an object as a file. FileNotFoundError."""
    return path.arrow() if isinstance(path, ObjectPath) else str(path)


class _Object(io.RawIOBase):
    """pyarrow's file as Python's own kind, with our errors."""

    def __init__(self, path: ObjectPath, file: Any) -> None:
        self._path, self._file, self.name = path, file, str(path)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with _errors_of(self._path):
            return int(self._file.readinto(buffer))

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._file.seek(offset, whence)
        return self.tell()

    def tell(self) -> int:
        return int(self._file.tell())

    def close(self) -> None:
        self._file.close()
        super().close()


@contextmanager
def _errors_of(path: ObjectPath) -> Iterator[None]:
    """What pyarrow raises, as SetupError STORE_UNREACHABLE; FileNotFoundError with words like those of a file."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(ENOENT, "No such file or directory", str(path)) from error
    except SetupError:
        raise
    except Exception as error:  # what a store's library raises has no class in common
        raise store_error(str(path), error) from error
