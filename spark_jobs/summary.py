"""What a job did: every message that came in is counted, and nothing that did not go out lacks its reason."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from schemas.event import Event, RowChange, Watermark


@dataclass
class Summary:
    """Counts of one run. `out` are messages (or lines) written; errors are by code, flags by their name."""

    messages: int = 0
    rows: Counter[str] = field(default_factory=Counter)
    other: Counter[str] = field(default_factory=Counter)
    out: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    flags: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)

    def count_event(self, event: Event) -> None:
        if isinstance(event, RowChange):
            self.rows[event.op] += 1
        else:
            self.other[kind_of(event)] += 1

    def count_flags(self, flags: list[str]) -> None:
        self.flags.update(f.partition(":")[0] for f in flags)

    @property
    def exit_code(self) -> int:
        """0 when every message was decoded and written, 1 when some are in the dead letter."""
        return 1 if self.errors else 0

    def lines(self) -> list[str]:
        """The summary for people."""
        rows = ", ".join(f"{name} {self.rows[op]}" for op, name in _OPS.items() if self.rows[op])
        lines = [f"messages in {self.messages}", f"rows {self.rows.total()}" + (f" ({rows})" if rows else "")]
        lines += [f"{kind} {count}" for kind, count in sorted(self.other.items())]
        lines.append(f"out {self.out}")
        lines += [f"skipped {kind} {count}" for kind, count in sorted(self.skipped.items())]
        lines.append(f"errors {self.errors.total()}" + _listed(self.errors))
        if self.flags:
            lines.append(f"flags {self.flags.total()}" + _listed(self.flags))
        return lines


_OPS = {"c": "insert", "u": "update", "d": "delete", "r": "snapshot"}


def kind_of(event: Event) -> str:
    """ "row", "ddl" or "watermark"."""
    if isinstance(event, RowChange):
        return "row"
    return "watermark" if isinstance(event, Watermark) else "ddl"


def _listed(counts: Counter[str]) -> str:
    return f" ({', '.join(f'{name} {n}' for name, n in sorted(counts.items()))})" if counts else ""
