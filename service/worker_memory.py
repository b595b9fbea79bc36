"""What the workers of `serve --workers N` share: memory that they are forked with.

Each worker writes to a part of its own, which the others read, so there is nothing to lock; only `CommitNumbers` are
written by all, and there whoever writes is alone in the database. A worker that is started in place of one that died
gets its part, counts included. A service of one process has the same, with one part.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterable
from typing import Any, Final

_NUMBERS: Final = 4096
KEPT_CHANGES: Final = 128
_ENTRY: Final = 16 * 1024
_ROWS: Final = 1024
_NAME: Final = 192
BUCKETS: Final = 16
"""Numbers in a row of counts, beside its seconds."""
_ROW: Final = _NAME + 8 * (BUCKETS + 1)
_REPORT: Final = 1024 * 1024
_WORD: Final = 8
_TRIES: Final = 100
Change = tuple[tuple[str, ...], ...]


class CommitNumbers:
    """Which write transactions of the store, by the number that each raises, are the workers' own."""

    def __init__(self, words: memoryview) -> None:
        self._words = words

    def add(self, number: int) -> None:
        """Call before the commit, while nobody else can have this number."""
        self._words[number % _NUMBERS] = number

    def remove(self, number: int) -> None:
        """The transaction failed, or nobody knows."""
        self._words[number % _NUMBERS] = 0

    def cover(self, after: int, last: int) -> bool:
        """Whether the numbers above `after` up to `last` are all the workers' own; False if there are none."""
        return after < last <= after + _NUMBERS and all(
            self._words[number % _NUMBERS] == number for number in range(after + 1, last + 1)
        )


class ChangeLog:
    """One worker's changes of the store: written by it, read by the others. The last 128 are there."""

    def __init__(self, head: memoryview, entries: memoryview) -> None:
        self._head, self._entries = head, entries

    def begin(self, parts: Iterable[tuple[str, ...]]) -> None:
        """A change of these parts begins."""
        text = json.dumps(list(parts), separators=(",", ":")).encode()
        self._write(text if len(text) <= _ENTRY - 2 * _WORD else b"null")
        self._head[0] += 1

    def end(self) -> None:
        """It is there for every reader, or was given up."""
        self._head[1] = self._head[0]

    def progress(self) -> tuple[int, int]:
        """How many changes have begun, and how many of them have ended; at most the last has not."""
        begun, ended = self._head
        return begun, min(begun, ended)

    def note_restart(self) -> None:
        """Whatever the worker that died had begun: anything may have changed."""
        self._write(b"null")
        self._head[0] += 1
        self.end()

    def _write(self, text: bytes) -> None:
        number = self._head[0] + 1
        start = number % KEPT_CHANGES * _ENTRY
        head = number.to_bytes(_WORD, "little") + len(text).to_bytes(_WORD, "little")
        self._entries[start + len(head) : start + len(head) + len(text)] = text
        self._entries[start : start + len(head)] = head

    def read(self, number: int) -> Change | None:
        """The parts of a change; None if they are not known (any more): it may be anything."""
        start = number % KEPT_CHANGES * _ENTRY
        entry = bytes(self._entries[start : start + _ENTRY])
        length = int.from_bytes(entry[_WORD : 2 * _WORD], "little")
        text = entry[2 * _WORD : 2 * _WORD + length]
        if any(int.from_bytes(at[:_WORD], "little") != number for at in (entry, self._entries[start : start + _WORD])):
            return None
        parts = json.loads(text)
        return None if parts is None else tuple(map(tuple, parts))


class WorkerMemory:
    """Made before the workers are forked."""

    def __init__(self, workers: int = 1) -> None:
        self.workers = workers
        self._memory = mmap.mmap(-1, _offset_of_logs(workers) + workers * _PART)
        words = memoryview(self._memory)
        self._heads = 2 * _WORD * workers
        self.numbers = CommitNumbers(words[self._heads : self._heads + _WORD * _NUMBERS].cast("Q"))
        self.pids = words[self._heads + _WORD * _NUMBERS : _offset_of_logs(workers)].cast("Q")
        self.logs: list[ChangeLog] = []
        self.counts: list[CountTable] = []
        self.reports: list[Report] = []
        for worker in range(workers):
            start = _offset_of_logs(workers) + worker * _PART
            counts = start + KEPT_CHANGES * _ENTRY
            report = counts + _WORD + _ROWS * _ROW
            head = words[2 * _WORD * worker : 2 * _WORD * (worker + 1)].cast("Q")
            self.logs.append(ChangeLog(head, words[start:counts]))
            self.counts.append(CountTable(words[counts:report]))
            self.reports.append(Report(words[report : start + _PART]))

    def start(self, worker: int, pid: int) -> None:
        """A worker begins, perhaps where another died."""
        self.pids[worker] = pid
        self.counts[worker].in_flight[0] = 0
        self.logs[worker].note_restart()

    def heads(self) -> bytes:
        """(changes begun, changes done) of each worker, as 64-bit words."""
        return self._memory[: self._heads]


_PART: Final = KEPT_CHANGES * _ENTRY + _WORD + _ROWS * _ROW + _REPORT


def _offset_of_logs(workers: int) -> int:
    return 2 * _WORD * workers + _WORD * _NUMBERS + _WORD * workers


class CountRow:
    """The counts of one name."""

    __slots__ = ("buckets", "seconds")

    def __init__(self, memory: memoryview) -> None:
        self.buckets = memory[: _WORD * BUCKETS].cast("Q")
        self.seconds = memory[_WORD * BUCKETS :].cast("d")
        """One number."""


class CountTable:
    """Counts by name, and how many requests are under way. A name is there when its length is, which comes last."""

    def __init__(self, memory: memoryview) -> None:
        self.in_flight = memory[:_WORD].cast("q")
        """One number."""
        self._memory = memory[_WORD:]
        self._rows: dict[str, CountRow] = {}

    def row(self, name: str) -> CountRow:
        """The row of a name. Where there is no room for another, the last row counts them all."""
        rows = self.rows()
        if name not in rows and len(rows) < _ROWS:
            start, text = len(rows) * _ROW, name.encode()[: _NAME - 1]
            self._memory[start + 1 : start + 1 + len(text)] = text
            self._memory[start] = len(text)
            rows = self.rows()
        return rows.get(name) or next(reversed(rows.values()))

    def rows(self) -> dict[str, CountRow]:
        """All rows that there are now."""
        while len(self._rows) < _ROWS:
            start = len(self._rows) * _ROW
            length = self._memory[start]
            if not length:
                break
            name = bytes(self._memory[start + 1 : start + 1 + length]).decode()
            self._rows[name] = CountRow(self._memory[start + _NAME : start + _ROW])
        return self._rows


class Report:
    """A text that one worker writes now and then, and any reads."""

    def __init__(self, memory: memoryview) -> None:
        self._version = memory[:_WORD].cast("Q")
        self._memory = memory[_WORD:]

    def write(self, value: Any) -> None:
        """Something that JSON can hold; what is too long is left out."""
        text = json.dumps(value, separators=(",", ":")).encode()
        self._version[0] += 1  # odd: being written
        if len(text) <= len(self._memory) - _WORD:
            self._memory[:_WORD] = len(text).to_bytes(_WORD, "little")
            self._memory[_WORD : _WORD + len(text)] = text
        self._version[0] += 1

    def read(self) -> Any:
        """What was written last; None if nothing was."""
        for _ in range(_TRIES):
            version = self._version[0]
            length = int.from_bytes(self._memory[:_WORD], "little")
            text = bytes(self._memory[_WORD : _WORD + length])
            if version % 2 == 0 and version == self._version[0]:
                return json.loads(text) if text else None
        return None
