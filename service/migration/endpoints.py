"""Where a registry can be read from and written to, by the words of the command line."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from ticdc_bridge.clients.http import HttpClient, HttpLogin
from ticdc_bridge.schemas.inputs.kafka_settings import TOPIC, client_settings
from ticdc_bridge.schemas.model.credentials import mask_url
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.service.migration.dump_file import read_records, write_records
from ticdc_bridge.service.migration.plan import MigrationPlan, carry_out, fingerprint, plan_merge
from ticdc_bridge.service.migration.progress import ReportProgress, ignore_progress
from ticdc_bridge.service.migration.rest_reader import DEFAULT_LEVEL, RestSource
from ticdc_bridge.service.migration.rest_writer import RestTarget, obstacles
from ticdc_bridge.service.migration.schemas_topic import SchemasTopic
from ticdc_bridge.service.migration.snapshot import (
    Key,
    ReadResult,
    Snapshot,
    parse_versions,
    schema_comparison,
    snapshot_of,
)
from ticdc_bridge.service.migration.topic_records import TopicRecord, records_of
from ticdc_bridge.service.migration.topic_replay import Replay
from ticdc_bridge.service.registry.config import LEVEL, READWRITE
from ticdc_bridge.service.registry.deadline import retry_until
from ticdc_bridge.service.registry.model import StoredVersion
from ticdc_bridge.service.registry.names import BELOW_ALL, SERVER
from ticdc_bridge.service.registry.ports import Store
from ticdc_bridge.service.registry.registry import Registry
from ticdc_bridge.service.store import open_store, store_exists


@dataclass(slots=True)
class WriteResult:
    """The result of a plan: `unread` versions are there, but this registry can't read their schema."""

    plan: MigrationPlan
    done: bool = False
    unread: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


Planner = Callable[[Snapshot], MigrationPlan]
"""From what a target holds to what is to be changed."""


class Endpoint(Protocol):
    name: str

    def read(self, like: Snapshot | None = None) -> ReadResult:
        """Everything that is there. `like`: over REST its scopes are asked for too, and its settings tell defaults."""

    def write(self, source: Snapshot, planner: Planner, *, dry_run: bool = False) -> WriteResult:
        """Bring what `planner` wants; nothing where the plan has conflicts. Raises SetupError."""


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """How places are reached. `overwrite`: a file that is there may be replaced."""

    access: HttpLogin = field(default_factory=HttpLogin)
    servers: str | None = None
    kafka_config: Path | None = None
    overwrite: bool = False
    report: ReportProgress = ignore_progress


@contextmanager
def endpoint_of(text: str, options: ConnectionOptions, *, create: bool = True) -> Iterator[Endpoint]:
    """The place that a word of the command line names; `create`: a missing store is made. Raises SetupError."""
    if text.startswith(TOPIC):
        name = text[len(TOPIC) :]
        if not name:
            raise SetupError("USAGE", details="kafka: needs the name of a topic: kafka:_schemas")
        settings = client_settings(options.servers, options.kafka_config, "a topic")
        yield TopicEndpoint(SchemasTopic(name, settings, options.report))
    elif text.startswith(("http://", "https://")):
        yield RestEndpoint(HttpClient(text, login=options.access), options.report)
    elif text.startswith(("sqlite:", "postgresql:", "postgresql+", "postgres:")):
        if not create and not store_exists(text):
            raise SetupError("USAGE", details=f"there is no store {mask_url(text)}")
        with closing(open_store(text)) as store:
            yield StoreEndpoint(store, mask_url(text), options.report)
    elif "://" in text:
        known = "a FILE, kafka:TOPIC, http://HOST:PORT, sqlite:///PATH or postgresql://HOST/DATABASE is needed"
        raise SetupError("USAGE", details=f"{mask_url(text)}: {known}")
    else:
        yield FileEndpoint(text, options)


class EmptyEndpoint:
    """Stands for a store that is not there, when nothing is to be written to it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def read(self, like: Snapshot | None = None) -> ReadResult:
        return ReadResult()

    def write(self, source: Snapshot, planner: Planner, *, dry_run: bool = False) -> WriteResult:
        return WriteResult(planner(Snapshot()))


class StoreEndpoint:
    """A store of ours. All of a plan is one transaction."""

    def __init__(self, store: Store, name: str, report: ReportProgress = ignore_progress) -> None:
        self.name = name
        self._store = store
        self._report = report
        self._registry = Registry(store)

    def read(self, like: Snapshot | None = None) -> ReadResult:
        with self._store.read() as tx:
            return ReadResult(snapshot_of(tx))

    def write(self, source: Snapshot, planner: Planner, *, dry_run: bool = False) -> WriteResult:
        """Held through an outage of the store, as a request is: then all of it is done again."""
        return retry_until(lambda: self._write(source, planner, dry_run), self._store.wait_seconds)

    def _write(self, source: Snapshot, planner: Planner, dry_run: bool) -> WriteResult:
        with self._store.read() as reader:
            plan = planner(snapshot_of(reader))
        # Schemas are read before anybody is kept waiting; then what is there is looked at again, alone.
        ready, unread = self._parse_schemas(plan.add, source)
        if plan.conflicts or dry_run or not plan.changes:
            return WriteResult(plan, unread=unread)
        with self._store.write() as tx:
            plan = planner(snapshot_of(tx))
            if plan.conflicts:
                return WriteResult(plan, unread=unread)
            missing = [stored for stored in plan.add if (stored.subject, stored.version) not in ready]
            ready |= self._parse_schemas(missing, source)[0]
            self._report("writing", 0, None)
            carry_out(tx, replace(plan, add=[ready[stored.subject, stored.version] for stored in plan.add]))
        return WriteResult(plan, done=True, unread=unread)

    def _parse_schemas(
        self, versions: list[StoredVersion], source: Snapshot
    ) -> tuple[dict[Key, StoredVersion], list[str]]:
        """The versions with their identity, and the names of those that this registry can't read."""

        def counted() -> Iterator[StoredVersion]:
            for done, stored in enumerate(versions, 1):
                yield stored
                self._report("schemas read", done, len(versions))

        ready, unread = parse_versions(self._registry, counted(), source)
        names = [f"{subject} version {version}" for subject, version in unread]
        return {(stored.subject, stored.version): stored for stored in ready}, names


class TopicEndpoint:
    def __init__(self, topic: SchemasTopic) -> None:
        self.name = f"{TOPIC}{topic.name}"
        self._topic = topic

    def read(self, like: Snapshot | None = None) -> ReadResult:
        return replay_records(self._topic.records())

    def write(self, source: Snapshot, planner: Planner, *, dry_run: bool = False) -> WriteResult:
        present = self._topic.exists()
        result = self.read() if present else ReadResult()
        if result.broken:
            details = f"{self.name} holds {result.broken_count} broken records, the first: {result.broken[0]}"
            raise SetupError("USAGE", details=details)
        plan = planner(result.snapshot)
        if plan.conflicts or dry_run or not plan.changes:
            return WriteResult(plan)
        if not present:
            self._topic.create()
        records = list(topic_records(plan, source, result.snapshot))
        self._topic.write(records, len(records))
        return WriteResult(plan, done=True)


class FileEndpoint:
    def __init__(self, path: str, options: ConnectionOptions) -> None:
        self.name = path
        self._overwrite = options.overwrite

    def read(self, like: Snapshot | None = None) -> ReadResult:
        return replay_records(read_records(self.name))

    def write(self, source: Snapshot, planner: Planner, *, dry_run: bool = False) -> WriteResult:
        plan = planner(Snapshot())
        present = self.name != "-" and Path(self.name).exists()
        if plan.conflicts:
            return WriteResult(plan)
        if present:
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
    def __init__(self, http: HttpClient, report: ReportProgress = ignore_progress) -> None:
        self.name = http.name
        self._http = http
        self._report = report

    def read(self, like: Snapshot | None = None) -> ReadResult:
        reading = RestSource(self._http, self._report)
        snapshot = reading.read(() if like is None else {*like.configs, *like.modes})
        if like is not None:
            _settle_defaults(snapshot, like)
        left_out, broken, unread = reading.left_out, reading.broken, reading.unread
        return ReadResult(snapshot, left_out=left_out, broken=broken[:1000], broken_count=len(broken), unread=unread)

    def write(self, source: Snapshot, planner: Planner, *, dry_run: bool = False) -> WriteResult:
        target = self.read(source).snapshot
        plan = planner(target)
        plan.conflicts += obstacles(plan, source, target)
        if plan.conflicts or dry_run or not plan.changes:
            return WriteResult(plan)
        writing = RestTarget(self._http, self._report)
        writing.carry_out(plan, source, target)
        left = planner(self.read(source).snapshot)
        missing = {what: n for what, n in left.changes.items() if what not in ("contexts", "id marks")}
        if missing or left.conflicts:
            text = "; ".join([*(f"{n} {what}" for what, n in missing.items()), *(c.what for c in left.conflicts[:5])])
            raise self._http.refused("part of the import", f"missing: {text}")
        return WriteResult(plan, done=True, notes=writing.left_out)


def _settle_defaults(answered: Snapshot, other: Snapshot) -> None:
    """Read answers that a default and a setting share as `other` has them."""
    for scope, config in answered.configs.items():
        # An answer names the default level where a config has none.
        if config.get(LEVEL) == DEFAULT_LEVEL and LEVEL not in other.configs.get(scope, {LEVEL: ""}):
            del config[LEVEL]
    # Nor can the server's default be told from a config that says the same; it gives way.
    default = {LEVEL: DEFAULT_LEVEL}
    if answered.configs.get(SERVER) == default != other.configs.get(SERVER, default):
        del answered.configs[SERVER]
    # What `:.__GLOBAL:` has by default is as good as set.
    if other.configs.get(BELOW_ALL) == default:
        answered.configs.setdefault(BELOW_ALL, default)
    if other.modes.get(BELOW_ALL) == READWRITE:
        answered.modes.setdefault(BELOW_ALL, READWRITE)


def replay_records(records: Iterable[TopicRecord]) -> ReadResult:
    return Replay(now=time.time_ns() // 1_000_000).apply_all(records)


def topic_records(plan: MigrationPlan, source: Snapshot, target: Snapshot) -> Iterator[TopicRecord]:
    """The records that carry a plan out in a topic."""
    marks = {context: max(n, target.marks.get(context, 0)) for context, n in {**target.marks, **source.marks}.items()}
    versions = [*plan.add, *(source.versions[key] for key in plan.delete)]
    by_key = {(stored.subject, stored.version): stored for stored in versions}
    return records_of(Snapshot(by_key, plan.configs, plan.modes, set(plan.contexts), marks))


def planner_of(source: Snapshot, *, overwrite_settings: bool = False) -> Planner:
    """The plan of an import, for whatever a target holds."""
    return lambda target: plan_merge(
        source, target, alike=schema_comparison(source, target), overwrite_settings=overwrite_settings
    )
