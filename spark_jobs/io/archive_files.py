"""Archives in Avro: which files of a folder hold messages' values, as Kafka Connect's S3 and HDFS sinks name them."""

import re
from pathlib import Path

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.spark_jobs.io.object_paths import path_of

_ARCHIVED = re.compile(r"(.+)\+(\d{1,9})\+(\d{1,19})(?:\+\d{1,19})?\Z", re.ASCII)
_BESIDE = re.compile(r"(.+\+\d+\+\d+)\.(keys|headers)\Z", re.ASCII)
"""What the S3 sink calls the files of keys and headers beside those of values (store.kafka.keys, .headers)."""
_COMPRESSED_AVRO = re.compile(r"\.avro\.(?:gz|zst|bz2|xz|lz4|snappy)\Z")
_HIDDEN = re.compile(r"[._]")  # as Hadoop's readers take it
_UNFINISHED = {"+tmp", "_temporary"}  # the HDFS sink's folder, and Hadoop's


def archive_files(location: str) -> list[Path]:
    """FILE.avro, or the files of values below a folder that end so, each partition's by offset; [] where there are
    none. SetupError USAGE for a file of keys or headers, and for one that is compressed as a whole.
    """
    path = path_of(location)
    if _COMPRESSED_AVRO.search(path.name) and path.is_file():
        details = f"{path}: an Avro file is read as it is, its blocks have codecs: inflate it to {path.stem}"
        raise SetupError("USAGE", details=details)
    if path.suffix == ".avro":
        if beside := _BESIDE.match(path.stem):
            details = f"{path}: Kafka Connect's sink wrote {beside[2]} there: the messages are in {beside[1]}.avro"
            raise SetupError("USAGE", details=details)
        return [path]
    files = (file for file in path.rglob("*.avro") if _has_values(file, path)) if path.is_dir() else ()
    # A sink's files stand by topic, partition and offset, however its folders are named; others by folder.
    placed = ((origin_of(file), str(file.parent), file) for file in files)
    return [
        file for *_, file in sorted(("" if of[1] >= 0 else folder, of, folder, file) for of, folder, file in placed)
    ]


def files_not_read(folder: Path) -> str:
    """What `archive_files` leaves out of a folder, as a warning; "" where that is nothing but hidden files."""
    others = (file for file in folder.rglob("*") if file.is_file() and not _has_values(file, folder))
    names = sorted(str(file.relative_to(folder)) for file in others if not _HIDDEN.match(file.name))
    count = f"{len(names)} file{'s' * (len(names) > 1)}"
    what = "that are not finished Avro files of values"
    return f"{folder}: not read: {count} {what}: {', '.join(names[:3])}" if names else ""


def _has_values(file: Path, root: Path) -> bool:
    """True if a file below the folder has messages' values: not keys or headers, and neither hidden nor unfinished."""
    if file.suffix != ".avro" or _BESIDE.match(file.stem):
        return False
    if _HIDDEN.match(file.name) and not (_ARCHIVED.match(file.stem) and file.name[0] == "_"):  # a topic called _…
        return False
    return _UNFINISHED.isdisjoint(file.relative_to(root).parts)


def origin_of(path: Path) -> tuple[str, int, int]:
    """(topic, partition, first offset) of Connect's `<topic>+<partition>+<offset>.avro`; partition -1 of others."""
    match = _ARCHIVED.match(path.stem)
    return (match[1], int(match[2]), int(match[3])) if match else (path.stem, -1, 0)
