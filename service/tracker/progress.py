"""The progress of a tracker: every message is counted, and what could not be used has its reason."""

from collections import Counter
from dataclasses import dataclass, field

from ticdc_bridge.service.history.model import BatchOutcome, PartitionKey


@dataclass(slots=True)
class Progress:
    """Counts of one run of one changefeed. errors: messages that can't be read, by code. skipped: read before, or of
    no use to a history, by reason. lag: messages behind the end of each partition. sealed_ts: 0 before the first."""

    changefeed: str = ""
    messages: int = 0
    events: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    copies: int = 0
    new: int = 0
    sealed: int = 0
    failed: int = 0
    late: int = 0
    drift: int = 0
    pending: int = 0
    sealed_ts: int = 0
    lag: dict[PartitionKey, int] = field(default_factory=dict)
    stopped: str = ""
    """Why a tracker inside the service has ended; "" while it runs."""

    def lag_by_topic(self) -> Counter[str]:
        lag = Counter[str]()
        for (topic, _), count in list(self.lag.items()):
            lag[topic] += count
        return lag

    def count(self, outcome: BatchOutcome) -> None:
        self.new += outcome.new
        self.copies += outcome.copies
        self.sealed += outcome.sealed
        self.failed += len(outcome.failed)
        self.late += outcome.late
        self.drift += outcome.drift
        self.pending = outcome.pending
        self.sealed_ts = outcome.sealed_ts

    def summary(self) -> str:
        """One line for people."""
        pieces = [f"messages {self.messages}"]
        pieces += [f"{kind} {count}" for kind, count in sorted(self.events.items())]
        pieces.append(f"new DDL {self.new}, copies {self.copies}, sealed {self.sealed}, pending {self.pending}")
        unusual = {"late": self.late, "not understood": self.failed, "drift": self.drift}
        pieces += [f"{name} {count}" for name, count in unusual.items() if count]
        for name, counter in (("errors", self.errors), ("skipped", self.skipped)):
            if counter:
                listed = ", ".join(f"{code} {n}" for code, n in sorted(counter.items()))
                pieces.append(f"{name} {counter.total()} ({listed})")
        pieces.append(f"complete up to {self.sealed_ts}" if self.sealed_ts else "no watermark yet")
        return f"track {self.changefeed}: " + "; ".join(pieces)
