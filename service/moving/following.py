"""Where a mirror's schemas come from: another registry over REST, asked again and again, or its topic."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol

from service.moving.asking import Asker
from service.moving.rest import RestSource
from service.moving.topic import Topic
from service.registry.moving.replay import Replay
from service.registry.moving.snapshot import Snapshot


class Followed(Protocol):
    name: str

    def read(self, *, whole: bool = False, only: str | None = None) -> Snapshot:
        """What the upstream holds now. Raises SetupError.

        `whole`: nothing seen before is taken for granted. `only`: nothing but this subject may have changed.
        """

    def problems(self) -> list[str]:
        """What the last read could not take over."""


class RestFollowed:
    """Lists of subjects, versions, configs and modes each time; schemas once, unless `whole`."""

    def __init__(self, asker: Asker) -> None:
        self.name = asker.name
        self._asker = asker
        self._last = Snapshot()
        self._read_once = False
        self._problems: list[str] = []

    def read(self, *, whole: bool = False, only: str | None = None) -> Snapshot:
        source = RestSource(self._asker)
        if only is not None and self._read_once:
            self._last = source.read_again(only, self._last)
            return self._last
        also: Iterable[str] = {*self._last.configs, *self._last.modes}
        self._last = source.read(also, known=None if whole else self._last)
        self._problems = [*(f"{n} × {reason}" for reason, n in source.left_out.items()), *source.broken]
        self._read_once = True
        return self._last

    def problems(self) -> list[str]:
        return self._problems


class TopicFollowed:
    """A `_schemas` topic, read on from where it was left."""

    def __init__(self, topic: Topic) -> None:
        self.name = f"kafka:{topic.name}"
        self._topic = topic
        self._replay = Replay()

    def read(self, *, whole: bool = False, only: str | None = None) -> Snapshot:
        self._replay.now = time.time_ns() // 1_000_000
        self._replay.apply_all(self._topic.records())
        found = self._replay.snapshot
        return replace(found, versions=dict(found.versions), configs=dict(found.configs), modes=dict(found.modes))

    def problems(self) -> list[str]:
        left = (f"{n} × {reason}" for reason, n in {**self._replay.left_out, **self._replay.unknown}.items())
        return [*left, *self._replay.broken]
