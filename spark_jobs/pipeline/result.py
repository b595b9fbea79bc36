"""What a job did: every message that came in is counted, and nothing that did not go out lacks its reason."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ticdc_bridge.schemas.model.errors import Hint, WireError
from ticdc_bridge.schemas.model.event import TRUNCATE_TABLE, Bootstrap, DdlEvent, Event, Message, RowChange, Watermark
from ticdc_bridge.schemas.model.reasons import counted
from ticdc_bridge.schemas.model.table import DefinitionMismatch, TableId
from ticdc_bridge.spark_jobs.pipeline.event_order import EventOrder

OTHER_TABLE = "other table"
"""What rows and DDL of tables that are not taken are counted as."""
REPEATED = "in the changelog already"
"""Changes left out since the changelog has them."""
Used = tuple[str | None, str, str, int | None, int | None]
"""Where rows came from: topic, db, table, table version, schema id."""


@dataclass(frozen=True, slots=True)
class TableMerge:
    """One merge into a table: how long it took, and the newest commit_ts of its changes, where they have one."""

    seconds: float
    newest_ts: int | None


@dataclass(frozen=True, slots=True)
class TableProgress:
    """A table of a run or micro-batch: rows read, keys or rows written, their newest commit_ts, if they have one."""

    name: str
    rows: int
    out: int
    newest_ts: int | None


@dataclass
class Summary:
    """Counts of one run. `out` are messages (or lines) written; errors are by code, flags by their name.

    mismatches: rows that were read without their table's definition, by what does not fit. merges: the last one into
    each table, by its name. tables: the progress of each, where each has a place of its own. ways: batches of tables
    with deletion vectors, by table and why Spark merged them; "": they were merged without its MERGE. set_aside: of
    tables those that can't go on while the others do: how many changes wait, and why.
    """

    messages: int = 0
    rows: Counter[str] = field(default_factory=Counter)
    other: Counter[str] = field(default_factory=Counter)
    out: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    flags: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    checksums: Counter[str] = field(default_factory=Counter)
    used: Counter[Used] = field(default_factory=Counter)
    mismatches: Counter[str] = field(default_factory=Counter)
    dropped: int = 0
    held: int = 0
    merges: dict[str, TableMerge] = field(default_factory=dict)
    tables: list[TableProgress] = field(default_factory=list)
    ways: Counter[tuple[str, str]] = field(default_factory=Counter)
    set_aside: dict[str, tuple[int, str]] = field(default_factory=dict)

    def count(self, result: MessageResult, topic: str | None = None) -> None:
        """Counts one message of a topic and what became of it; what is written is counted by who writes it."""
        self.messages += 1
        for event in result.events:
            if isinstance(event, RowChange):
                self.rows[event.op] += 1
                self.used[topic, event.db, event.table_name, event.table_version, event.schema_id] += 1
                self.flags.update(flag.partition(":")[0] for flag in event.flags)
            else:
                self.other[kind_of(event)] += 1
        for text in map(str, result.all_mismatches):
            is_listed = text in self.mismatches or len(self.mismatches) < _MOST_MISMATCHES
            self.mismatches[text if is_listed else _OTHERS] += 1
        self.skipped.update(result.skipped)
        self.checksums.update(result.checksums)
        if result.error is not None:
            self.errors[result.error.code] += 1

    def tally(self, used: bool = True) -> dict[str, int]:
        """The counters as one flat map, to be added up elsewhere by `add`. used: with where rows came from."""
        counts = {f"{name}.{key}": n for name in _COUNTERS for key, n in getattr(self, name).items()}
        return counts if not used else counts | {f"used.{json.dumps(key)}": n for key, n in self.used.items()}

    def add(self, tally: Mapping[str, int]) -> None:
        for name, n in tally.items():
            counter, _, key = name.partition(".")
            if counter == "used":
                self.used[tuple(json.loads(key))] += n
            else:
                getattr(self, counter)[key] += n

    def merge(self, other: Summary) -> None:
        """Adds the counts of a later part of the same run; what is held back is what the later part says."""
        self.messages += other.messages
        self.out += other.out
        self.dropped += other.dropped
        self.held, self.set_aside = other.held, other.set_aside
        self.merges |= other.merges
        for name in (*_COUNTERS, "used", "ways"):
            getattr(self, name).update(getattr(other, name))

    @property
    def exit_code(self) -> int:
        """0: all is written, or dropped as asked for; 1: dead letters, a checksum differs; 2: tables set aside."""
        if self.set_aside:
            return 2
        return 1 if self.errors.total() > self.dropped or self.checksums["mismatch"] else 0

    def lines(self) -> list[str]:
        """The summary for people."""
        rows = ", ".join(f"{name} {self.rows[op]}" for op, name in OP_NAMES.items() if self.rows[op])
        lines = [f"messages in {self.messages}", f"rows {self.rows.total()}" + (f" ({rows})" if rows else "")]
        lines += [f"{kind} {count}" for kind, count in sorted(self.other.items())]
        lines.append(f"out {self.out}")
        lines += [f"skipped {kind} {count}" for kind, count in sorted(self.skipped.items())]
        lines.append(f"errors {self.errors.total()}" + list_counts(self.errors))
        if self.dropped:
            lines.append(f"dropped {self.dropped} of the messages with errors (--on-error drop)")
        if self.held:
            lines.append(f"held back {self.held} above the watermark: they are not in the output")
        if self.checksums:
            lines.append(f"checksums {self.checksums.total()}" + list_counts(self.checksums))
        for (table, why), count in sorted(self.ways.items()):
            lines.append(f"{table} merged by Spark {count} ({why})" if why else f"{table} merged directly {count}")
        if self.flags:
            lines.append(f"flags {self.flags.total()}" + list_counts(self.flags))
        lines += [
            f"set aside {name}: {counted(rows, 'change')} waiting: {why}"
            for name, (rows, why) in self.set_aside.items()
        ]
        return lines

    def counts(self) -> dict[str, Any]:
        """The summary for programs."""
        kinds = "messages", "rows", "other", "out", "skipped", "errors", "dropped", "held", "checksums", "flags"
        return {kind: getattr(self, kind) for kind in kinds} | {"tables": [asdict(entry) for entry in self.tables]}

    def warnings(self, table: TableId | None = None) -> list[str]:
        """Definitions that were not used, and no rows at all. table: whose rows were asked for."""
        texts = [mismatch_warning(text, count) for text, count in sorted(self.mismatches.items())]
        if not self.messages or self.errors.total() >= self.messages:
            return texts
        if table is not None and not any(TableId(db, name).folded == table.folded for _, db, name, *_ in self.used):
            reasons = self._list_tables() or self._list_reasons()
            texts.append(f"table {table}: no rows in {counted(self.messages, 'message')}: {reasons}")
        elif not (self.set_aside or (self.rows and (self.out or self.skipped[REPEATED]))):
            texts.append(f"no rows in {counted(self.messages, 'message')}: {self._list_reasons()}")
        return texts

    def new_mismatches(self, earlier: Summary) -> list[str]:
        """Warnings of definitions that were not used, but for those that an earlier part of the run had."""
        return [mismatch_warning(t, n) for t, n in sorted(self.mismatches.items()) if t not in earlier.mismatches]

    def _list_tables(self) -> str:
        counts = Counter[str]()
        for (_, db, name, *_), count in self.used.items():
            counts[f"{db}.{name}"] += count
        more = f", and {len(counts) - _MOST_TABLES} more tables" if len(counts) > _MOST_TABLES else ""
        listed = ", ".join(f"{name} ({count})" for name, count in counts.most_common(_MOST_TABLES)) + more
        errors = self.errors.total()  # they may be the table's rows
        return f"{listed}, error {errors}" if listed and errors else listed

    def _list_reasons(self) -> str:
        """What came of the messages, where no rows did."""
        counts = self.other | self.skipped  # some are in both
        counts.update({kind: n for kind, n in (("error", self.errors.total()), ("row held back", self.held)) if n})
        return ", ".join(f"{kind} {count}" for kind, count in sorted(counts.items())) or "nothing that is known"


def mismatch_warning(text: str, count: int) -> str:
    """The warning about rows that were read without their definition. text: of a DefinitionMismatch."""
    rows = f"{counted(count, 'row')} {'was' if count == 1 else 'were'}"
    return f"{text}; {rows} read without the definition: give the one that was in force ({Hint.DDL}, {Hint.HISTORY})"


_MOST_TABLES = 10
_MOST_MISMATCHES, _OTHERS = 50, "more tables whose definitions do not describe their rows"
_COUNTERS = ("rows", "other", "errors", "flags", "skipped", "checksums", "mismatches")
OP_NAMES = {"c": "insert", "u": "update", "d": "delete", "r": "snapshot"}


def kind_of(event: Event) -> str:
    """ "row", "ddl", "bootstrap" or "watermark"."""
    if isinstance(event, RowChange):
        return "row"
    if isinstance(event, Bootstrap):
        return "bootstrap"
    return "watermark" if isinstance(event, Watermark) else "ddl"


def skipped_kind(event: Event) -> str:
    """What an event that the target does not carry is counted as: its kind, and a truncation by its name."""
    if isinstance(event, DdlEvent):
        truncates = event.ddl_type == TRUNCATE_TABLE or event.query.lstrip()[:9].upper().rstrip() == "TRUNCATE"
        return "truncate" if truncates else kind_of(event)
    return kind_of(event)


def list_counts(counts: Counter[str]) -> str:
    """ " (name 3, other 1)", "" for none."""
    return f" ({', '.join(f'{name} {n}' for name, n in sorted(counts.items()))})" if counts else ""


def warn_of_mismatches(result: MessageResult) -> None:
    """A Python warning of each definition that was not used, once in a process: where no summary is printed."""
    for mismatch in result.all_mismatches:
        text = f"{mismatch}: its rows are read without the definition, flagged definition_mismatch"
        warnings.warn(text, RuntimeWarning, stacklevel=2)


def mismatches_of(events: Iterable[Event]) -> list[DefinitionMismatch]:
    return [event.mismatch for event in events if isinstance(event, RowChange) and event.mismatch is not None]


@dataclass(slots=True)
class MessageResult:
    """What became of one message: its events, what was written for them, and the error if it failed.

    A message whose rows can't all be decoded and written counts as failed as a whole: `events` and `out` are empty.
    checksums: what came of each row's check, where that was asked for. notes: what people should read of it.
    marks: of the events written, in the order of `out` (decode: of `events`), where they were asked for. mismatches:
    of rows that were read, but not written.
    """

    events: list[Event] = field(default_factory=list)
    out: list[Message] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    checksums: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    error: WireError | None = None
    marks: list[EventOrder] = field(default_factory=list)
    mismatches: list[DefinitionMismatch] = field(default_factory=list)

    @property
    def all_mismatches(self) -> list[DefinitionMismatch]:
        """Why rows were read without their table's definition."""
        return [*self.mismatches, *mismatches_of(self.events)]

    @property
    def newest_watermark(self) -> int | None:
        """The newest watermark among the events."""
        return max((e.commit_ts for e in self.events if isinstance(e, Watermark)), default=None)
