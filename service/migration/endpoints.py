"""Where a registry can be read from and written to, by the words of the command line."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ticdc_bridge.clients.http import HttpClient, HttpLogin
from ticdc_bridge.schemas.inputs.kafka_settings import TOPIC, client_settings
from ticdc_bridge.schemas.model.credentials import mask_url
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.service.migration.dump_file import read_records, write_records
from ticdc_bridge.service.migration.plan import MigrationPlan, carry_out, fingerprint, plan_merge, with_contents
from ticdc_bridge.service.migration.progress import Told, ignore_progress
from ticdc_bridge.service.migration.rest_reader import DEFAULT_LEVEL, RestSource
from ticdc_bridge.service.migration.rest_writer import RestTarget, obstacles
from ticdc_bridge.service.migration.schemas_topic import SchemasTopic
from ticdc_bridge.service.migration.snapshot import SchemaComparison, Snapshot, parse_versions, snapshot_of
from ticdc_bridge.service.migration.topic_records import TopicRecord, records_of
from ticdc_bridge.service.migration.topic_replay import Replay
from ticdc_bridge.service.registry.config import LEVEL
from ticdc_bridge.service.registry.deadline import retry_until
from ticdc_bridge.service.registry.mode import READWRITE
from ticdc_bridge.service.registry.names import BELOW_ALL, SERVER
from ticdc_bridge.service.registry.ports import Store
from ticdc_bridge.service.registry.registry import Registry
from ticdc_bridge.service.store import open_store, store_exists

_STORES = ("sqlite:", "postgresql:", "postgresql+", "postgres:")


@dataclass(slots=True)
class ReadResult:
    """What was read: `counted` records or answers by sort, `broken` ones with their reasons, what was `left_out`."""

    snapshot: Snapshot
    counted: dict[str, int] = field(default_factory=dict)
    unknown: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)
    broken_count: int = 0


@dataclass(slots=True)
class WriteResult:
    """What came of a plan: `unread` versions are there, but this registry can't read their schema."""

    plan: MigrationPlan
    done: bool = False
    unread: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


Planner = Callable[[Snapshot], MigrationPlan]
"""From what a target holds to what is to be changed."""


class Endpoint(Protocol):
    name: str

    def read(self) -> ReadResult:
        """Everything that is there. Raises SetupError."""

    def write(self, source: Snapshot, planner: Planner, *, dry_run: bool = False) -> WriteResult:
        """Bring what `planner` wants; nothing where the plan has conflicts. Raises SetupError."""


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """How places are reached. `overwrite`: a file that is there may be replaced."""

    access: HttpLogin = field(default_factory=HttpLogin)
    servers: str | None = None
    kafka_config: Path | None = None
    wait_seconds: float = 25.0
    overwrite: bool = False
    told: Told = ignore_progress


@contextmanager
def endpoint_of(text: str, ways: ConnectionOptions, *, create: bool = True) -> Iterator[Endpoint]:
    """The place that a word of the command line names. Raises SetupError.

    `create`: a store that is not there is made when it is opened; otherwise it is an error.
    """
    if text.startswith(TOPIC):
        name = text[len(TOPIC) :]
        if not name:
            raise SetupError("USAGE", details="kafka: needs the name of a topic: kafka:_schemas")
        settings = client_settings(ways.servers, ways.kafka_config, "a topic")
        yield TopicEndpoint(SchemasTopic(name, settings, ways.told))
    elif text.startswith(("http://", "https://")):
        http = HttpClient(text, login=ways.access)
        yield RestEndpoint(http, ways.told)
    elif text.startswith(_STORES):
        if not create and not store_exists(text):
            raise SetupError("USAGE", details=f"there is no store {mask_url(text)}")
        with closing(open_store(text, wait_seconds=ways.wait_seconds)) as store:
            yield StoreEndpoint(store, mask_url(text), ways.told)
    elif "://" in text:
        known = "a FILE, kafka:TOPIC, http://HOST:PORT, sqlite:///PATH or postgresql://HOST/DATABASE is needed"
        raise SetupError("USAGE", details=f"{mask_url(text)}: {known}")
    else:
        yield FileEndpoint(text, ways)


class EmptyEndpoint:
    """Stands for a store that is not there, when nothing is to be written to it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def read(self) -> ReadResult:
        return ReadResult(Snapshot())

    def write(self, source: Snapshot, planner: Planner, *, dry_run: bool = False) -> WriteResult:
        return WriteResult(planner(Snapshot()))


class StoreEndpoint:
    """A store of ours. All of a plan is one transaction."""

    def __init__(self, store: Store, name: str, report: Told = ignore_progress) -> None:
        self.name = name
        self._store = store
        self._told = report
        self._registry = Registry(store)

    def read(self) -> ReadResult:
        with self._store.read() as tx:
            return ReadResult(snapshot_of(tx))

    def write(self, source: Snapshot, planner: Planner, *, dry_run: bool = False) -> WriteResult:
        """Held through an outage of the store, as a request is: then all of it is done again."""
        return retry_until(lambda: self._write(source, planner, dry_run), self._store.wait_seconds)

    def _write(self, source: Snapshot, planner: Planner, dry_run: bool) -> WriteResult:
        with self._store.read() as reader:
            plan = planner(snapshot_of(reader))
        # Schemas are read before anybody is kept waiting; then what is there is looked at again, alone.
        ready, unread = self._parse_schemas(plan, source)
        if plan.conflicts or dry_run or not plan.changes:
            return WriteResult(plan, unread=unread)
        with self._store.write() as tx:
            plan = planner(snapshot_of(tx))
            if plan.conflicts:
                return WriteResult(plan, unread=unread)
            missing = [stored for stored in plan.add if (stored.subject, stored.version) not in ready]
            more, _ = parse_versions(self._registry, missing, source)
            ready |= {(stored.subject, stored.version): stored for stored in more}
            self._told("writing", 0, None)
            carry_out(tx, with_contents(plan, ready.values()))
        return WriteResult(plan, done=True, unread=unread)

    def _parse_schemas(self, plan: MigrationPlan, source: Snapshot) -> tuple[dict[tuple[str, int], Any], list[str]]:
        ready, unread = parse_versions(self._registry, self._count_read(plan.add), source)
        names = [f"{subject} version {version}" for subject, version in unread]
        return {(stored.subject, stored.version): stored for stored in ready}, names

    def _count_read(self, versions: list[Any]) -> Iterator[Any]:
        for done, stored in enumerate(versions, 1):
            yield stored
            self._told("schemas read", done, len(versions))


class TopicEndpoint:
    """A `_schemas` topic."""

    def __init__(self, topic: SchemasTopic) -> None:
        self.name = f"{TOPIC}{topic.name}"
        self._topic = topic

    def read(self) -> ReadResult:
        return replay_records(self._topic.records())

    def write(self, source: Snapshot, planner: Planner, *, dry_run: bool = False) -> WriteResult:
        there = self._topic.exists()
        result = self.read() if there else ReadResult(Snapshot())
        if result.broken:
            details = f"{self.name} holds {result.broken_count} broken records, the first: {result.broken[0]}"
            raise SetupError("USAGE", details=details)
        plan = planner(result.snapshot)
        if plan.conflicts or dry_run or not plan.changes:
            return WriteResult(plan)
        if not there:
            self._topic.create()
        records = list(topic_records(plan, source, result.snapshot))
        self._topic.write(records, len(records))
        return WriteResult(plan, done=True)


class FileEndpoint:
    """A dump file."""

    def __init__(self, path: str, ways: ConnectionOptions) -> None:
        self.name = path
        self._overwrite = ways.overwrite

    def read(self) -> ReadResult:
        return replay_records(read_records(self.name))

    def write(self, source: Snapshot, planner: Planner, *, dry_run: bool = False) -> WriteResult:
        plan = planner(Snapshot())
        there = self.name != "-" and Path(self.name).exists()
        if plan.conflicts:
            return WriteResult(plan)
        if there:
            result = self.read()
            if not result.broken and fingerprint(result.snapshot) == fingerprint(source):
                return WriteResult(planner(result.snapshot))
            if not self._overwrite:
                details = f"{self.name} is there and holds something else; --overwrite replaces it"
                raise SetupError("USAGE", details=details)
        if not dry_run:
            write_records(self.name, records_of(source))
        return WriteResult(plan, done=not dry_run)


class RestEndpoint:
    """A registry over HTTP."""

    def __init__(self, http: HttpClient, report: Told = ignore_progress) -> None:
        self.name = http.name
        self._http = http
        self._told = report

    def read(self) -> ReadResult:
        reading = RestSource(self._http, self._told)
        snapshot = reading.read()
        return ReadResult(
            snapshot,
            left_out=dict(reading.left_out),
            broken=reading.broken[:1000],
            broken_count=len(reading.broken),
        )

    def write(self, source: Snapshot, planner: Planner, *, dry_run: bool = False) -> WriteResult:
        target = self._read_target(source)
        plan = planner(target)
        plan.add_conflicts(obstacles(plan, source, target))
        if plan.conflicts or dry_run or not plan.changes:
            return WriteResult(plan)
        writing = RestTarget(self._http, self._told)
        writing.carry_out(plan, source, target)
        left = planner(self._read_target(source))
        missing = {what: n for what, n in left.changes.items() if what not in ("contexts", "id marks")}
        if missing or left.conflicts:
            text = "; ".join([*(f"{n} {what}" for what, n in missing.items()), *(c.what for c in left.conflicts[:5])])
            raise SetupError("REGISTRY_REFUSED", url=self.name, what="part of the import", details=f"missing: {text}")
        return WriteResult(plan, done=True, notes=writing.left_out)

    def _read_target(self, source: Snapshot) -> Snapshot:
        """What is there, to be compared with a source."""
        target = RestSource(self._http, self._told).read({*source.configs, *source.modes})
        for scope, config in target.configs.items():
            # An answer names the default level where a config has none.
            if config.get(LEVEL) == DEFAULT_LEVEL and LEVEL not in source.configs.get(scope, {LEVEL: ""}):
                del config[LEVEL]
        # Nor can the server's default be told from a config that says the same; it gives way.
        default = {LEVEL: DEFAULT_LEVEL}
        if target.configs.get(SERVER) == default != source.configs.get(SERVER, default):
            del target.configs[SERVER]
        # What `:.__GLOBAL:` has by default is as good as set.
        if source.configs.get(BELOW_ALL) == default:
            target.configs.setdefault(BELOW_ALL, default)
        if source.modes.get(BELOW_ALL) == READWRITE:
            target.modes.setdefault(BELOW_ALL, READWRITE)
        return target


def replay_records(records: Iterable[TopicRecord]) -> ReadResult:
    """What the records of a topic come to."""
    replay = Replay(now=time.time_ns() // 1_000_000).apply_all(records)
    return ReadResult(
        replay.snapshot,
        dict(replay.kinds),
        dict(replay.unknown),
        dict(replay.left_out),
        replay.broken,
        replay.broken_count,
    )


def topic_records(plan: MigrationPlan, source: Snapshot, there: Snapshot) -> Iterator[TopicRecord]:
    """The records that carry a plan out in a topic."""
    marks = {context: max(n, there.marks.get(context, 0)) for context, n in {**there.marks, **source.marks}.items()}
    versions = [*plan.add, *(source.versions[key] for key in plan.delete)]
    by_key = {(stored.subject, stored.version): stored for stored in versions}
    return records_of(Snapshot(by_key, plan.configs, plan.modes, set(plan.contexts), marks))


def planner_of(source: Snapshot, *, overwrite_settings: bool = False) -> Planner:
    """The plan of an import, for whatever a target holds."""

    def make_plan(target: Snapshot) -> MigrationPlan:
        alike = SchemaComparison(_READER, source, target)
        return plan_merge(source, target, alike=alike, overwrite_settings=overwrite_settings)

    return make_plan


class _NoStore:
    """Schemas are read without a store here: what they refer to is in the snapshots."""


_READER = Registry(_NoStore())  # type: ignore[arg-type]
