"""Objects in a store under the interface of pathlib. One appears whole or not at all: it is sent when complete."""

from __future__ import annotations

import io
import re
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from errno import ENOENT
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from os import PathLike
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.spark_jobs.io.stores import StoreUrl, store_error

_READ, _WRITTEN = 4 << 20, 8 << 20  # bytes asked for and sent at a time
_Path: Any = type(Path())  # what Path() makes on this system, which alone can be derived from before Python 3.12


def path_of(location: str | PathLike[str]) -> Path:
    """A path of this machine, or an object's for a store's URL (also one that Path() changed). SetupError USAGE."""
    if isinstance(location, ObjectPath):
        return location
    url = StoreUrl.of(str(location))
    if url is not None and not url.authority:
        raise SetupError("USAGE", details=f"{location}: name the server: {url.scheme}://HOST:PORT/PATH")
    return Path(location) if url is None else ObjectPath(str(location))


class ObjectPath(_Path):  # type: ignore[misc]  # Path, see above
    """SCHEME://BUCKET/KEY; a folder is there while objects below it are. Asking raises SetupError STORE_UNREACHABLE."""

    _listed: Any = None  # pyarrow's FileInfo, of a path that came from a listing

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

    def resolve(self, strict: bool = False) -> ObjectPath:
        return self

    absolute = resolve

    def _ask(self, operation: Callable[[Any, str], Any]) -> Any:
        """The result of a call of pyarrow's file system, which gets the object's path there."""
        with _errors_of(self):
            return operation(self.url.files, self.url.path)

    def _info(self) -> Any:
        return self._listed or self._ask(lambda files, path: files.get_file_info(path))

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
        root = self.url.store.root(self.url.authority) or "/"
        if self._ask(lambda files, _: files.get_file_info(root)).type.name == "NotFound":
            raise SetupError("STORE_UNREACHABLE", place=str(self), details="there is no such bucket")

    def iterdir(self) -> Iterator[ObjectPath]:
        return self.glob("*")

    def rglob(self, pattern: str, **_: Any) -> Iterator[ObjectPath]:
        return self.glob(pattern, recursive=True)

    def glob(self, pattern: str, recursive: bool = False, **_: Any) -> Iterator[ObjectPath]:
        """pattern: of a name, without /."""
        from pyarrow.fs import FileSelector

        below = FileSelector(self.url.path or "/", allow_not_found=True, recursive=recursive)
        entries = self._ask(lambda files, _: files.get_file_info(below))
        for entry in sorted(entries, key=lambda entry: str(entry.path)):
            if key := entry.path[len(self.url.path) + 1 :]:
                path: ObjectPath = self / key
                path._listed = entry
                if fnmatchcase(path.name, pattern):
                    yield path

    def open(self, mode: str = "r", buffering: int = -1, encoding: str | None = None, errors: str | None = None,
             newline: str | None = None) -> IO[Any]:  # fmt: skip
        """For reading alone. FileNotFoundError; what fails later is SetupError STORE_UNREACHABLE."""
        if mode.strip("bt") != "r":
            raise SetupError("USAGE", details=f"{self}: it can't be written in parts: choose a file of this machine")
        binary = io.BufferedReader(_Object(self, self.arrow()), _READ)
        return binary if "b" in mode else io.TextIOWrapper(binary, encoding or "utf-8", errors, newline)

    def arrow(self) -> Any:
        """The object as pyarrow's file. FileNotFoundError."""
        try:
            if not self.url.key:
                raise FileNotFoundError(ENOENT, "No such file or directory", str(self))
            return self._ask(lambda files, path: files.open_input_file(path))
        except FileNotFoundError:
            self.check_bucket()
            raise

    def write_bytes(self, data: Any) -> int:
        written = partial_path_for(self)
        written.write_bytes(data)
        self.put(written)
        return len(data)

    def put(self, written: Path) -> None:
        """A file of this machine becomes the object. SetupError STORE_UNREACHABLE: the file stays, and is named."""

        def send(files: Any, path: str) -> None:
            with written.open("rb") as file, files.open_output_stream(path) as out:
                shutil.copyfileobj(file, out, _WRITTEN)

        try:
            # In a thread: an interrupt here would leave a part of it, which pyarrow completes to an object.
            with ThreadPoolExecutor(1) as pool:
                pool.submit(self._ask, send).result()
        except SetupError as error:
            kept = written.replace(Path(tempfile.mkdtemp(prefix="ticdc-bridge-unsent-")) / self.name)
            details = f"{error.fields['details']}. What was to be written is in {kept}"
            raise SetupError("STORE_UNREACHABLE", place=str(self), details=details) from error
        written.unlink()

    def mkdir(self, *_: Any, **__: Any) -> None:
        """Folders come with their objects."""

    def unlink(self, missing_ok: bool = False) -> None:
        try:
            self._ask(lambda files, path: files.delete_file(path))
        except FileNotFoundError:
            if not missing_ok:
                raise


def remove_folder(folder: Path) -> None:
    """A folder and everything below it; one that is not there is none."""
    if isinstance(folder, ObjectPath):
        with suppress(FileNotFoundError):
            folder._ask(lambda files, path: files.delete_dir(path))
    else:
        shutil.rmtree(folder, ignore_errors=True)


def copy_file(source: Path, target: Path) -> bool:
    """The same bytes under another name: as a link, or in the store; False where they are not of the same kind."""
    if isinstance(source, ObjectPath) and isinstance(target, ObjectPath) and source.url.files == target.url.files:
        source._ask(lambda files, path: files.copy_file(path, target.url.path))
        return True
    if isinstance(source, ObjectPath) or isinstance(target, ObjectPath):
        return False
    target.unlink(missing_ok=True)
    try:
        target.hardlink_to(source)
    except OSError:  # another disk, or one without links
        shutil.copyfile(source, target)
    return True


_scratch = lru_cache(maxsize=1)(partial(tempfile.TemporaryDirectory[str], prefix="ticdc-bridge-"))


def partial_path_for(path: Path) -> Path:
    """The name of a new file of this machine for what becomes an object."""
    return Path(_scratch().name) / f"{uuid.uuid4().hex}{path.suffix}"


def arrow_source(path: Path) -> Any:
    """What pyarrow reads a file from: a path's text, or an object as a file. FileNotFoundError."""
    return path.arrow() if isinstance(path, ObjectPath) else str(path)


class _Object(io.RawIOBase):
    """pyarrow's file as Python's own kind, with our errors."""

    def __init__(self, path: ObjectPath, file: Any) -> None:
        self._path, self._file, self.name = path, file, str(path)
        self.seek, self.tell = file.seek, file.tell  # type: ignore[method-assign]

    def readable(self) -> bool:
        return True

    seekable = readable

    def readinto(self, buffer: Any) -> int:
        with _errors_of(self._path):
            return int(self._file.readinto(buffer))


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
