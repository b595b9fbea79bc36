"""Which topics a job reads: `kafka:TOPIC`, `kafka:A,B`, or by a regular expression, `kafka:/REGEX/` (`--topics`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from ticdc_bridge.schemas.model.errors import SetupError

_MOST_SOURCES = 1 << 15  # partitions of all topics: positions have 15 bits for them


@dataclass(frozen=True)
class TopicChoice:
    """text: what follows `kafka:`."""

    text: str

    def __post_init__(self) -> None:
        """SetupError USAGE for a regular expression that is none."""
        try:
            _ = self.pattern
        except re.error as error:
            details = f"--topics {self.text[1:-1]}: not a regular expression (at character {(error.pos or 0)})"
            raise SetupError("USAGE", details=details) from error

    @cached_property
    def pattern(self) -> re.Pattern[str] | None:
        """What the whole of a topic's name has to match; None for topics by name."""
        is_pattern = len(self.text) > 1 and self.text.startswith("/") and self.text.endswith("/")
        return re.compile(self.text[1:-1]) if is_pattern else None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The topics that are named, sorted."""
        return () if self.pattern else tuple(sorted({one.strip() for one in self.text.split(",") if one.strip()}))

    @property
    def only(self) -> str | None:
        """The topic, where it is one."""
        return self.names[0] if len(self.names) == 1 else None

    def takes(self, topic: str | None) -> bool:
        if self.pattern is not None:
            return topic is not None and not topic.startswith("__") and bool(self.pattern.fullmatch(topic))
        return topic in self.names

    def find(self, settings: Mapping[str, str]) -> dict[str, int]:
        """The topics that are there, by name, with the number of their partitions.

        SetupError KAFKA_UNREACHABLE where one that is named is not, or none fits the pattern.
        """
        from ticdc_bridge.spark_jobs.io.kafka import partition_counts

        counts = {topic: n for topic, n in sorted(partition_counts(settings, None).items()) if self.takes(topic)}
        if missing := sorted({*self.names} - counts.keys()):
            details = f"topic {missing[0]!r}: Broker: Unknown topic or partition"
            raise SetupError("KAFKA_UNREACHABLE", servers=settings["bootstrap.servers"], details=details)
        if not counts:
            details = f"topic pattern {self.text[1:-1]!r}: no topic's name fits"
            raise SetupError("KAFKA_UNREACHABLE", servers=settings["bootstrap.servers"], details=details)
        return counts

    def spark_options(self) -> dict[str, str]:
        """Of Spark's Kafka source."""
        if self.pattern is not None:
            return {"subscribePattern": f"(?!__)(?:{self.pattern.pattern})"}
        return {"subscribe": ",".join(self.names)}

    def __str__(self) -> str:
        return self.text


def number_sources(counts: Mapping[str, int], known: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """(topic, partition) of each source by its number: those that are known, then the new ones, sorted.

    SetupError USAGE for more than a position has numbers for.
    """
    there = set(known)
    numbered = [*known, *((t, p) for t in sorted(counts) for p in range(counts[t]) if (t, p) not in there)]
    if len(numbered) > _MOST_SOURCES:
        details = f"the topics have {len(numbered)} partitions; one job reads {_MOST_SOURCES} at most"
        raise SetupError("USAGE", details=details)
    return numbered
