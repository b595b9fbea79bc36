"""A Delta table's log on a disk of this machine: the snapshot that it tells of, and commits (protocol: "Delta Log
Entries", "Checkpoints", "Actions").
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pyarrow.parquet

Action = dict[str, Any]
"""An action without its name: what an add, a metaData … has."""
_CHECKPOINT, _COMMIT = re.compile(r"(\d{20})\.checkpoint\.parquet"), re.compile(r"(\d{20})\.json")
_FEATURES = frozenset((
    "allowColumnDefaults", "appendOnly", "changeDataFeed", "checkConstraints", "clustering", "columnMapping",
    "deletionVectors", "domainMetadata", "generatedColumns", "identityColumns", "invariants", "timestampNtz",
    "typeWidening", "typeWidening-preview", "vacuumProtocolCheck",
))  # fmt: skip
"""Features of tables whose rows can be written as here, unless `_ACTIVE` or a column (`_COLUMN_RULES`) says that one
asks for more.
"""
_ACTIVE = re.compile(
    r"(?is)delta\.((appendOnly|enableChangeData(Feed|Capture)|enableRowTracking)=true|columnMapping\.mode=id"
    r"|(constraints|universalFormat)\..*)"
)
_VERSIONS = {"minReaderVersion": 3, "minWriterVersion": 7}
"""The newest versions of the protocol: those after which features are named one by one."""
_COLUMN_RULES = (
    "delta.invariants",
    "delta.generationExpression",
    "delta.identity",
    "__CHAR_VARCHAR",
    '"nullable":false',
)


NO_TABLE = "it is not there"


class UnsupportedTable(Exception):
    """A table that is not written without Spark; the text says why."""


class Field(NamedTuple):
    """A column of a table. kind: as a schema's JSON has it. physical: its name in data files; id: there, None: none."""

    name: str
    kind: Any
    comment: str
    physical: str
    id: int | None

    @staticmethod
    def of(field: Mapping[str, Any]) -> Field:
        name, more = field["name"], field["metadata"]
        physical, number = (more.get(f"delta.columnMapping.{key}") for key in ("physicalName", "id"))
        return Field(name, field["type"], more.get("comment", ""), physical or name, number)


@dataclass(frozen=True)
class Snapshot:
    """A table at a version. files: the add actions of its data files, by path."""

    version: int
    protocol: Action
    metadata: Action
    files: Mapping[str, Action]

    @property
    def configuration(self) -> Mapping[str, str]:
        return self.metadata.get("configuration") or {}

    @cached_property
    def fields(self) -> dict[str, Field]:
        """The columns, by name."""
        return {f["name"]: Field.of(f) for f in json.loads(self.metadata["schemaString"])["fields"]}

    def refuse_others(self) -> None:
        """UnsupportedTable for a table of which a writer has to do more than to write files, vectors and actions."""
        features = {*(self.protocol.get("readerFeatures") or ()), *(self.protocol.get("writerFeatures") or ())}
        schema = json.dumps(json.loads(self.metadata["schemaString"]), separators=(",", ":"))
        others = [f"{name} {self.protocol[name]}" for name, newest in _VERSIONS.items() if self.protocol[name] > newest]
        others += [f"Delta's {name}" for name in sorted(features - _FEATURES)]
        others += [
            f"{name} {value}" for name, value in self.configuration.items() if _ACTIVE.fullmatch(f"{name}={value}")
        ]
        others += [f"a column with {rule}" for rule in _COLUMN_RULES if rule in schema]
        others += ["partitions"] if self.metadata.get("partitionColumns") else []
        if others:
            raise UnsupportedTable(f"it has {others[0]}")

    def after(self, version: int, actions: Sequence[Action]) -> Snapshot:
        """The table after a commit."""
        files, newest = dict(self.files), {"protocol": self.protocol, "metaData": self.metadata}
        for action in actions:  # in a commit, a file's remove and add may come in any order
            if (remove := action.get("remove")) is not None:
                files.pop(remove["path"], None)
        for action in actions:
            if (add := action.get("add")) is not None:
                files[add["path"]] = add
            newest |= {name: action[name] for name in newest if action.get(name) is not None}
        return Snapshot(version, newest["protocol"], newest["metaData"], files)


class TransactionLog:
    """The log of a table; of what it has read it reads no commit again."""

    def __init__(self, table: Path) -> None:
        self.table, self._folder = table, table / "_delta_log"
        self._last: tuple[Snapshot, Any] | None = None

    def exists(self) -> bool:
        return self._folder.is_dir()

    def snapshot(self) -> Snapshot:
        """The newest. UnsupportedTable where there is none, or where the log has what this reader does not know."""
        snapshot, stamp = self._last or (None, None)
        if snapshot is None or stamp is None or self._stamp(snapshot.version) != stamp:
            snapshot = self._load()
        while (actions := self._read_commit(snapshot.version + 1)) is not None:
            snapshot = snapshot.after(snapshot.version + 1, actions)
        self._last = snapshot, (stamp := self._stamp(snapshot.version))
        if stamp is None:  # it may have been removed while newer ones were looked for
            raise UnsupportedTable("its newest commit is not there any more")
        return snapshot

    def commit(self, version: int, actions: Iterable[Action], files: Sequence[Path]) -> bool:
        """A version with these actions, whole or not at all; False: somebody else made it. OSError where the file
        system can't do that. files: what was written for it, and is removed where it is not made.
        """
        temporary, is_made = self._folder / f".{uuid4()}.tmp", False
        try:
            for path in files:  # not after the commit: a machine may stop between the two
                with path.open("rb") as written:
                    os.fsync(written.fileno())
            with temporary.open("x") as file:
                file.writelines(json.dumps(action, separators=(",", ":")) + "\n" for action in actions)
                file.flush()
                os.fsync(file.fileno())
            os.link(temporary, self._file(version))
            is_made = True
        except FileExistsError:
            return False
        finally:
            for path in (temporary, *(() if is_made else files)):
                path.unlink(missing_ok=True)
        return True

    def _file(self, version: int) -> Path:
        return self._folder / f"{version:020}.json"

    def _stamp(self, version: int) -> Any:
        """What tells a commit from another one of its version: the table may be made anew."""
        try:
            stat = self._file(version).stat()
        except FileNotFoundError:
            return None
        return stat.st_ino, stat.st_mtime_ns, stat.st_size

    def _read_commit(self, version: int) -> list[Action] | None:
        try:
            lines = self._file(version).read_text("utf-8").split("\n")
        except FileNotFoundError:
            return None
        return [json.loads(line) for line in lines if line]

    def _load(self) -> Snapshot:
        try:
            names = os.listdir(self._folder)
        except OSError as error:
            raise UnsupportedTable(NO_TABLE) from error
        checkpoints = [int(match[1]) for name in names if (match := _CHECKPOINT.fullmatch(name))]
        newest = max((int(match[1]) for name in names if (match := _COMMIT.fullmatch(name))), default=-1)
        snapshot = Snapshot(-1, {}, {}, {})
        if checkpoints:
            snapshot = snapshot.after(max(checkpoints), self._read_checkpoint(max(checkpoints)))
        while snapshot.version < newest:
            actions = self._read_commit(snapshot.version + 1)
            if actions is None:
                raise UnsupportedTable("its log has no checkpoint in one file before the first commit that is left")
            snapshot = snapshot.after(snapshot.version + 1, actions)
        if not snapshot.protocol or not snapshot.metadata:
            raise UnsupportedTable(NO_TABLE)
        return snapshot

    def _read_checkpoint(self, version: int) -> list[Action]:
        file = pyarrow.parquet.ParquetFile(self._folder / f"{version:020}.checkpoint.parquet")
        names = {"add", "metaData", "protocol", "sidecar"} & {*file.schema_arrow.names}
        actions = list[Action]()
        for batch in file.iter_batches(columns=sorted(names)):
            for row in batch.to_pylist():
                actions += [{name: _as_json(value)} for name, value in row.items() if value is not None]
        if any("sidecar" in action for action in actions):
            raise UnsupportedTable("the checkpoint of its log is in several files")
        return actions


def _as_json(action: Any) -> Any:
    """An action of a checkpoint as a commit has it: without what is NULL or there twice, and maps as objects."""
    if isinstance(action, dict):
        stays = {name: value for name, value in action.items() if value is not None and not name.endswith("_parsed")}
        return {name: _as_json(value) for name, value in stays.items()}
    if isinstance(action, list) and all(isinstance(pair, tuple) for pair in action):
        return dict(action)
    return action


@lru_cache(1024)
def log_of(path: str) -> TransactionLog:
    """The log of the table in a folder of this machine."""
    return TransactionLog(Path(path))
