"""The state of a stream beside Spark's own checkpoint: whose it is, DDL it has read, watermarks, rows held, ids seen.

A file has its micro-batch's number, so that a batch that Spark runs again finds the same state and writes the same.
"""

import json
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from ticdc_bridge.clients.kafka import number_sources
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.event import DdlEvent
from ticdc_bridge.schemas.model.reasons import reason_of
from ticdc_bridge.spark_jobs.io.object_paths import ObjectPath, arrow_source, path_of, remove_folder
from ticdc_bridge.spark_jobs.io.stores import spark_location
from ticdc_bridge.spark_jobs.lake.name_history import NEVER_ENDS
from ticdc_bridge.spark_jobs.runtime.cache import write_atomically

T = TypeVar("T")
_READ_UNTIL, _RULES = "read_until.json", "private.json"


class Checkpoint:
    """A folder. SetupError USAGE where it belongs to another job, as `job` tells it.

    What a checkpoint of an earlier release does not tell of its job is taken to be as it is now.
    """

    def __init__(self, folder: Path, job: dict[str, Any]) -> None:
        self.folder = folder.absolute()
        path = self.folder / "job.json"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if not path.exists():
                _write(path, json.dumps({"id": str(uuid.uuid4()), **job}))
            stored_job = json.loads(path.read_text(encoding="utf-8"))
            if job.keys() - stored_job.keys():
                stored_job = {**job, **stored_job}
                _write(path, json.dumps(stored_job))
            for what in ("out", "dead") if self.is_new else ():
                self.record_write(what, -1)
        except (OSError, ValueError) as error:
            raise SetupError("USAGE", details=f"--checkpoint {folder}: {reason_of(error)}") from error
        other = {name: stored_job.get(name) for name in job}
        if other != job:
            details = f"--checkpoint {folder} is another job's: {json.dumps(other)}; this one is {json.dumps(job)}"
            raise SetupError("USAGE", details=details)
        self.id: str = stored_job["id"]

    @property
    def spark(self) -> str:
        """Where Spark keeps offsets and commits."""
        return spark_location(str(self.folder / "spark"))

    @property
    def is_new(self) -> bool:
        """True if no micro-batch has begun."""
        return not any((self.folder / "spark" / "offsets").glob("[0-9]*"))

    def same_topic(self, topic: str, id_: str | None) -> None:
        """SetupError STOPPED where the topic is not the one whose offsets are here, by what the broker knows it by."""
        if id_ is None:
            return
        if not (record := self.read("topic.json", dict[str, str]())):
            self.keep("topic.json", record := {"topic": topic, "id": id_})
        if (old_id := record["id"]) != id_:
            details = (
                f"it is another topic than the one that checkpoint {self.folder} has offsets of: it was deleted and "
                f"created again (topic id {old_id}, now {id_}). To read it from its beginning take a new --checkpoint"
            )
            raise SetupError("STOPPED", where=f"topic {topic!r}", details=details)

    def same_topics(self, ids: Mapping[str, str]) -> None:
        """As same_topic, of several: by their names, the ids of those that are there."""
        known: dict[str, str] = self.read("topics.json", {})
        for topic, id_ in ids.items():
            if known.get(topic, id_) != id_:
                details = f"it was deleted and created again: checkpoint {self.folder} has other offsets of it"
                raise SetupError("STOPPED", where=f"topic {topic!r}", details=f"{details}: take a new --checkpoint")
        if ids.keys() - known.keys():
            self.keep("topics.json", {**known, **ids})

    def number_sources(self, counts: Mapping[str, int]) -> list[tuple[str, int]]:
        """(topic, partition) by number (ticdc_bridge.clients.kafka.number_sources): the same at every start."""
        known = [(topic, n) for topic, n in self.read("sources.json", list[tuple[str, int]]())]
        numbered = number_sources(counts, known)
        if numbered != known:
            self.keep("sources.json", numbered)
        return numbered

    # ---- files written
    def record_write(self, what: str, number: int) -> None:
        """Keeps that a try of this micro-batch wrote its file of `what` ("out", "dead")."""
        self.keep(f"files/{what}.json", number)

    def has_written(self, what: str, number: int) -> bool:
        """True if an earlier try of the newest micro-batch wrote its file. Early releases kept nothing: it may have."""
        return self.read(f"files/{what}.json", number) == number

    # ---- what failed in the newest micro-batch
    def has_other_failures(self, number: int, failures: str) -> bool:
        """True if an earlier try of this micro-batch had other failures; they are found by any digest of theirs."""
        record = self.read("failures.json", dict[str, Any]())
        if record.get("batch") == number:
            return bool(record["failures"] != failures)
        self.keep("failures.json", {"batch": number, "failures": failures})
        return False

    # ---- DDL in the order it was read
    def ddl_before(self, number: int) -> list[DdlEvent]:
        """The statements of the batches before this one."""
        paths = (path for path in sorted((self.folder / "ddl").glob("*.jsonl")) if int(path.stem) < number)
        lines = (line for path in paths for line in path.read_text(encoding="utf-8").splitlines())
        return [DdlEvent(*json.loads(line)) for line in lines]

    def keep_ddl(self, number: int, events: Iterable[DdlEvent]) -> None:
        rows = [[e.format, e.db, e.table, e.commit_ts, e.ddl_type, e.query] for e in events]
        if rows:
            _write(self.folder / "ddl" / f"{number:012d}.jsonl", "".join(json.dumps(r) + "\n" for r in rows))

    # ---- tables of the lake
    def table_choices(self, patterns: Iterable[str]) -> list[tuple[list[str], int]]:
        """The patterns of tables that runs before this one took, and the largest commit_ts of what they read by them
        (NEVER_ENDS: nobody knows it); this one's patterns are kept with them.
        """
        now, kept = list(patterns), self.read("choices.json", list[Any]())
        choices = [entry if isinstance(entry, dict) else {"tables": entry, "until": NEVER_ENDS} for entry in kept]
        if not choices and self.is_new:
            self.keep(_READ_UNTIL, -1)
        if choices and choices[-1]["tables"] != now:
            choices[-1].setdefault("until", self.read_until)
        if not choices or choices[-1]["tables"] != now:
            choices.append({"tables": now})
            self.keep("choices.json", choices)
        return [(entry["tables"], entry["until"]) for entry in choices if "until" in entry]

    def keep_read_until(self, commit_ts: int) -> None:
        """commit_ts: the largest of a micro-batch's rows."""
        if commit_ts > self.read_until:
            self.keep(_READ_UNTIL, commit_ts)

    @property
    def read_until(self) -> int:
        """The largest commit_ts of what was read; NEVER_ENDS: nobody knows it."""
        return self.read(_READ_UNTIL, NEVER_ENDS)

    def check_rules(self, rules: str, are_waiting: bool) -> None:
        """rules: of private columns, "": none. SetupError USAGE where changes wait that others have masked."""
        if self.read(_RULES, "") == rules:
            return
        if are_waiting:
            what = "changes that wait in it were masked by other rules (--exclude, --mask, or the key)"
            advice = "Give these until no table is set aside and no row is held, or begin with another --checkpoint"
            raise SetupError("USAGE", details=f"--checkpoint {self.folder}: {what}. {advice}")
        self.keep(_RULES, rules)

    # ---- watermarks by partition
    def watermarks_before(self, number: int) -> dict[int, int]:
        marks = self.read(f"watermarks/{number - 1:012d}.json", dict[str, int]())
        return {int(partition): mark for partition, mark in marks.items()}

    def keep_watermarks(self, number: int, watermarks: dict[int, int]) -> None:
        self.keep(f"watermarks/{number:012d}.json", watermarks)
        (self.folder / "watermarks" / f"{number - 2:012d}.json").unlink(missing_ok=True)

    # ---- the last row of each partition of a name
    def last_rows_before(self, number: int) -> dict[str, dict[str, int | None]]:
        """The rows that spark_jobs.streaming.row_owners kept last; not every batch has rows."""
        kept = self._last_rows_before(number)
        rows: dict[str, dict[str, int | None]] = json.loads(kept[-1].read_text(encoding="utf-8")) if kept else {}
        return rows

    def keep_last_rows(self, number: int, rows: dict[str, dict[str, int | None]]) -> None:
        self.keep(f"last_rows/{number:012d}.json", rows)
        for path in self._last_rows_before(number)[:-1]:
            path.unlink(missing_ok=True)

    def _last_rows_before(self, number: int) -> list[Path]:
        return sorted(p for p in (self.folder / "last_rows").glob("*.json") if int(p.stem) < number)

    # ---- rows, as Parquet
    def rows(self, kind: str, number: int) -> str | None:
        """The folder of `held` or `seen` rows of a batch; None where it has none."""
        path = self.folder / kind / f"batch={number}"
        return spark_location(str(path)) if (path / "_SUCCESS").exists() else None

    def count_held(self) -> int:
        """How many rows the newest micro-batch that ended held back."""
        from pyarrow import parquet

        ended = max((int(p.name) for p in (self.folder / "spark" / "commits").glob("[0-9]*")), default=-1)
        folder = self.rows("held", ended)
        files = path_of(folder).glob("*.parquet") if folder else ()
        return sum(parquet.read_metadata(arrow_source(path)).num_rows for path in files)

    def rows_at(self, kind: str, number: int) -> str:
        return spark_location(str(self.folder / kind / f"batch={number}"))

    def rows_before(self, kind: str, number: int) -> list[str]:
        """All folders of the batches before this one."""
        folders = (self.folder / kind).glob("batch=*")
        return [spark_location(str(p)) for p in folders if int(p.name[6:]) < number and (p / "_SUCCESS").exists()]

    def forget(self, kind: str, number: int | None = None) -> None:
        """number: None: all batches."""
        remove_folder(self.folder / kind if number is None else self.folder / kind / f"batch={number}")

    def read(self, name: str, default: T) -> T:
        """The content of a JSON file; default: it is not there."""
        path = self.folder / name
        content: T = json.loads(path.read_text(encoding="utf-8")) if path.exists() else default
        return content

    def keep(self, name: str, value: Any) -> None:
        _write(self.folder / name, json.dumps(value))


def _write(path: Path, text: str) -> None:
    """A reader sees the old file or the new one, never a part."""
    if isinstance(path, ObjectPath):
        path.write_bytes(text.encode())
    else:
        write_atomically(path, text)
