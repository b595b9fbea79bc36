"""What the doctor looks at: a changefeed's settings, and what a registry says about its subjects."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import SplitResult, urlsplit

from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.service.changefeed.settings import ChangefeedSettings, Dispatcher, Severity, subject_names, topic_name

_WILD = re.compile(r"[*?\[/]")


@dataclass(frozen=True, slots=True)
class DoctorRule:
    """One thing that the doctor looks for.

    when: gives True, or what the rule fits (filled in for {what}); False or [] where it does not fit.
    """

    id: str
    severity: Severity
    when: Callable[[DoctorInput], bool | list[str]]
    text: str
    fix: str
    source: str


@dataclass(frozen=True, slots=True)
class SubjectFacts:
    """A subject as the registry has it. level and mode are those in force."""

    name: str
    level: str
    mode: str = "READWRITE"


@dataclass(frozen=True)
class DoctorInput:
    """feed: the settings. subjects: those that the changefeed's rows may be under; None: no registry was asked.

    tables: names of known tables, for what several of them do to one another.
    """

    feed: ChangefeedSettings
    subjects: tuple[SubjectFacts, ...] | None = None
    tables: tuple[TableId, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def protocol(self) -> str:
        return self.feed.protocol

    def uses(self, *protocols: str) -> bool:
        return self.feed.protocol in protocols

    @cached_property
    def registry(self) -> SplitResult | None:
        url: str | None = self.feed.get("schema-registry")
        if not url:
            return None
        try:
            return urlsplit(url)
        except ValueError:
            return urlsplit("")

    @property
    def levels(self) -> set[str]:
        return {s.level for s in self.subjects or ()}

    # ---- topics
    def rules(self) -> Iterator[Dispatcher | None]:
        """The dispatchers; None at the end stands for the sink URI's topic, unless a rule takes every table before."""
        for rule in self.feed.dispatchers:
            yield rule
            if "*.*" in rule.matcher and len(rule.matcher) == 1:
                return
        yield None

    def shared_topics(self) -> list[str]:
        """Topics that take the rows of several tables."""
        topics = []
        for rule in self.rules():
            topic = rule.topic if rule is not None and rule.topic else self.feed.topic
            patterns = rule.matcher if rule is not None else self.feed.get("filter.rules")
            if "{table}" not in topic and is_many(patterns) and is_many(self.feed.get("filter.rules")):
                topics.append(topic or "of the sink URI")
        return list(dict.fromkeys(topics))

    def placeholders(self) -> bool:
        return any("{" in rule.topic for rule in self.feed.dispatchers)

    def joined_rules(self) -> list[str]:
        """Rules in which `_` stands between the names, which may hold `_` themselves."""
        return [r.topic for r in self.feed.dispatchers if re.search(r"\{schema\}_+\{table\}", r.topic)]

    def collisions(self) -> list[str]:
        """Known tables that share a subject though their rule names the table."""
        by_subject: dict[str, list[TableId]] = {}
        for table in self.tables:
            rule = self.feed.dispatcher(table)
            if self.feed.replicates(table) and rule is not None and "{table}" in rule.topic:
                subject = subject_names(self.protocol, topic_name(rule.topic, table.db, table.table))[1]
                by_subject.setdefault(subject, []).append(table)
        return [f"{', '.join(map(str, t[:3]))} in {s}" for s, t in by_subject.items() if len(t) > 1]

    def partitions(self, *rules: str) -> list[str]:
        """What the dispatchers with these partition rules are for."""
        return [", ".join(d.matcher) or "no table" for d in self.feed.dispatchers if d.partition in rules]


def is_many(patterns: Iterable[str]) -> bool:
    """Whether patterns can fit more than one table."""
    positive = [p for p in patterns if not p.startswith("!")]
    return len(positive) > 1 or any(_WILD.search(p) for p in positive)


def topic_patterns(feed: ChangefeedSettings) -> re.Pattern[str]:
    """What subjects of the changefeed's topics look like."""
    rules = [feed.topic, *(d.topic for d in feed.dispatchers)]
    parts = [
        "".join(".*" if piece.startswith("{") else re.escape(piece) for piece in re.split(r"(\{[^}]*\})", rule))
        for rule in rules
        if rule
    ]
    either = "|".join(parts).replace("\\.", "[._]") or ".*"
    return re.compile(f"(?:{either})-(?:key|value)")
