"""A store as somebody may see it: subjects without a right to read are absent, and nobody else's are changed.

A transaction that writes still sees what keeps the store whole: ids in use, and who refers to what is to be deleted.
"""

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from ticdc_bridge.service.auth.acl import CONFIG, DELETE, READ, WRITE, Access, denied_error
from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.registry import model
from ticdc_bridge.service.registry.model import LAST_COUNTED, Content, StoredVersion, VersionRow
from ticdc_bridge.service.registry.names import BELOW_ALL, SERVER, context_of, normalize_subject, prefix_of, qualify
from ticdc_bridge.service.registry.ports import Collect, Listener, ReadAhead, ReadKey, Store, StoreReader, StoreWriter

T = TypeVar("T")

_OF_ALL = (SERVER, BELOW_ALL)
_ALIAS: Final = "alias"
_NAMING: Final = (_ALIAS, "aliasForDeks")
"""The settings of a config that name a subject."""


class FilteredReader:
    """Keeps the promises of `registry.ports.StoreReader` for the subjects that may be read."""

    def __init__(self, tx: StoreReader, access: Access) -> None:
        self._tx, self._access = tx, access

    def _sees(self, subject: str) -> bool:
        return self._access.may(READ, subject)

    def _visible_versions(self, versions: list[StoredVersion]) -> list[StoredVersion]:
        return [stored for stored in versions if self._sees(stored.subject)]

    def version(self, subject: str, version: int) -> StoredVersion | None:
        return self._tx.version(subject, version) if self._sees(subject) else None

    def latest(self, subject: str, *, deleted: bool = False) -> StoredVersion | None:
        return self._tx.latest(subject, deleted=deleted) if self._sees(subject) else None

    def by_content(
        self, subject: str, content: Content, *, deleted: bool = False, schema_id: int | None = None
    ) -> StoredVersion | None:
        sees = self._sees(subject)
        return self._tx.by_content(subject, content, deleted=deleted, schema_id=schema_id) if sees else None

    def lookalikes(self, subject: str, likeness: bytes, *, deleted: bool = False) -> list[StoredVersion]:
        return self._tx.lookalikes(subject, likeness, deleted=deleted) if self._sees(subject) else []

    def versions(self, subject: str) -> list[VersionRow]:
        return self._tx.versions(subject) if self._sees(subject) else []

    def live_versions(self, subject: str) -> list[StoredVersion]:
        return self._tx.live_versions(subject) if self._sees(subject) else []

    def holders(self, context: str, schema_id: int) -> list[StoredVersion]:
        return self._visible_versions(self._tx.holders(context, schema_id))

    def holders_of(self, context: str | None, ids: Collection[int], *, deleted: bool = False) -> list[VersionRow]:
        return [row for row in self._tx.holders_of(context, ids, deleted=deleted) if self._sees(row.subject)]

    def holding(self, identities: Collection[bytes]) -> list[tuple[bytes, VersionRow]]:
        return [entry for entry in self._tx.holding(identities) if self._sees(entry[1].subject)]

    def repeats(self, contents: Collection[tuple[str, bytes]]) -> set[tuple[str, bytes]]:
        return self._tx.repeats([content for content in contents if self._sees(content[0])])

    def newest(self, search: str, text: str, *, deleted: bool = False) -> list[StoredVersion]:
        return self._visible_versions(self._tx.newest(search, text, deleted=deleted))

    def versions_of(self, subjects: Collection[str]) -> list[model.ListedVersion]:
        return self._tx.versions_of([subject for subject in subjects if self._sees(subject)])

    def search(self, prefix: str, *, deleted: bool = False) -> list[StoredVersion]:
        return self._visible_versions(self._tx.search(prefix, deleted=deleted))

    def subjects(self) -> list[tuple[str, bool]]:
        return [(subject, live) for subject, live in self._tx.subjects() if self._sees(subject)]

    def schema(self, context: str, schema_id: int) -> Content | None:
        return self._tx.schema(context, schema_id) if self.holders(context, schema_id) else None

    def id_of(self, context: str, content: Content) -> int | None:
        number = self._tx.id_of(context, content)
        return number if number is not None and self.holders(context, number) else None

    def ids_of(self, identity: bytes) -> list[tuple[str, int]]:
        return [(context, number) for context, number in self._tx.ids_of(identity) if self.holders(context, number)]

    def max_id(self, context: str) -> int:
        """The highest id of all: ids are shared by all subjects of a context, seen or not."""
        return self._tx.max_id(context)

    def referrers(self, subject: str, version: int) -> list[VersionRow]:
        rows = self._tx.referrers(subject, version) if self._sees(subject) else []
        return [row for row in rows if self._sees(row.subject)]

    def _effective_scopes(self, scopes: Sequence[str]) -> list[str]:
        """The scopes of a subject that count, nearest first: all if it is seen, else what is not hidden itself."""
        if scopes and self._sees(scopes[0]):
            return list(scopes)
        return [scope for scope in scopes if scope in _OF_ALL or self._sees(scope)]

    def _hidden_config(self, scope: str, config: dict[str, Any]) -> dict[str, Any]:
        """The part of a config that names hidden subjects."""
        targets = {name: config[name] for name in _NAMING if config.get(name)}
        return {n: to for n, to in targets.items() if not self._sees(normalize_subject(qualify(to, context_of(scope))))}

    def _without_hidden(self, configs: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """Configs without the names of hidden subjects; one that says nothing else is not there."""
        result = {}
        for scope, config in configs.items():
            hiding = self._hidden_config(scope, config)
            left = {name: value for name, value in config.items() if name not in hiding}
            if left or not hiding:
                result[scope] = left
        return result

    def configs(self, scopes: Sequence[str]) -> dict[str, dict[str, Any]]:
        counting = self._effective_scopes(scopes)
        return self._without_hidden(self._tx.configs(counting)) if counting else {}

    def all_configs(self) -> dict[str, dict[str, Any]]:
        configs = self._tx.all_configs().items()
        return self._without_hidden({scope: entry for scope, entry in configs if scope in _OF_ALL or self._sees(scope)})

    def modes(self, scopes: Sequence[str]) -> dict[str, str]:
        counting = self._effective_scopes(scopes)
        return self._tx.modes(counting) if counting else {}

    def all_modes(self) -> dict[str, str]:
        modes = self._tx.all_modes().items()
        return {scope: mode for scope, mode in modes if scope in _OF_ALL or self._sees(scope)}

    def marks(self) -> dict[str, int]:
        raise denied_error(READ, None)

    def lineage(self) -> list[model.Lineage]:
        """As table histories: for all who have the right `history`. Subjects are looked up and hidden as elsewhere."""
        return self._tx.lineage()

    def contexts(self) -> list[str]:
        """Those with a subject that is seen, and those that are named by a rule."""
        names = self._tx.contexts()
        if all(self._sees(prefix_of(context)) for context in names):
            return names
        with_subjects = {context_of(subject) for subject, _ in self.subjects()}
        return [context for context in names if context in with_subjects or self._sees(prefix_of(context))]

    def counts(self) -> model.Counts:
        versions = self.search("", deleted=True)
        live = Counter(stored.content.kind for stored in versions if not stored.deleted)
        deleted = Counter(stored.content.kind for stored in versions if stored.deleted)
        schemas = {(context_of(stored.subject), stored.id) for stored in versions}
        subjects = {stored.subject for stored in versions if not stored.deleted}
        return model.Counts(len(schemas), len(subjects), live, deleted)

    def warnings(self) -> list[model.StoredWarning]:
        return [warned for warned in self._tx.warnings() if self._sees(warned.subject)]


class FilteredWriter(FilteredReader):
    """Keeps the promises of `registry.ports.StoreWriter`; raises FORBIDDEN for a change that is not allowed.

    Who may write a subject may also replace versions of it in the same transaction, and who may delete it may remove
    the config and mode that go with it. An alias of a hidden subject takes no schema: under its own name nobody who
    sees the alias would find it.
    """

    def __init__(self, tx: StoreWriter, access: Access) -> None:
        super().__init__(tx, access)
        self._writer = tx
        self._changed: set[str] = set()
        self.new_id, self.put_schema = tx.new_id, tx.put_schema
        self.put_warning, self.add_lineage = tx.put_warning, tx.add_lineage

    def _check(self, operation: str, scope: str) -> None:
        """Raises FORBIDDEN."""
        if scope in _OF_ALL or not self._access.may(operation, scope):
            raise denied_error(operation, None if scope in _OF_ALL else scope)

    def _stored_config(self, scope: str) -> dict[str, Any]:
        return self._writer.configs([scope]).get(scope, {})

    # ---- what keeps the store whole is seen

    def subjects(self) -> list[tuple[str, bool]]:
        return self._writer.subjects()

    def schema(self, context: str, schema_id: int) -> Content | None:
        return self._writer.schema(context, schema_id)

    def id_of(self, context: str, content: Content) -> int | None:
        return self._writer.id_of(context, content)

    def referrers(self, subject: str, version: int) -> list[VersionRow]:
        return self._writer.referrers(subject, version)

    # ---- changes

    def use_id(self, context: str, number: int) -> None:
        """An id above LAST_COUNTED that is not there yet is the admins' to give."""
        if number > max(LAST_COUNTED, self._writer.max_id(context)) and self._writer.schema(context, number) is None:
            details = f"Only an admin may import a schema with an id above {LAST_COUNTED}; this one is {number}"
            raise RegistryError("UNPROCESSABLE", details=details)
        self._writer.use_id(context, number)

    def put_version(self, context: str, subject: str, version: int, schema_id: int, content: Content, ts: int) -> None:
        self._check(WRITE, subject)
        if _ALIAS in self._hidden_config(subject, self._stored_config(subject)):
            raise denied_error(WRITE, subject)
        self._changed.add(subject)
        self._writer.put_version(context, subject, version, schema_id, content, ts)

    def soft_delete(self, subject: str, versions: Iterable[int]) -> None:
        self._check(DELETE, subject)
        self._writer.soft_delete(subject, versions)

    def remove(self, subject: str, versions: Iterable[int]) -> None:
        if subject not in self._changed:
            self._check(DELETE, subject)
            self._changed.add(subject)
        self._writer.remove(subject, versions)

    def put_config(self, scope: str, config: dict[str, Any]) -> None:
        """What it does not show it keeps, unless the new config says something else in its place."""
        self._check(CONFIG, scope)
        self._writer.put_config(scope, {**self._hidden_config(scope, self._stored_config(scope)), **config})

    def drop_config(self, scope: str) -> None:
        if scope not in self._changed:
            self._check(CONFIG, scope)
        self._writer.drop_config(scope)

    def put_mode(self, scope: str, mode: str | None) -> None:
        if mode is not None or scope not in self._changed:
            self._check(CONFIG, scope)
        self._writer.put_mode(scope, mode)

    def put_context(self, context: str) -> None:
        raise denied_error(WRITE, None)

    def drop_context(self, context: str) -> None:
        self._check(DELETE, prefix_of(context) or SERVER)
        self._writer.drop_context(context)


class ListenerGroup:
    """One listener of the store for many. One that comes during a change forgets everything at the change's end."""

    def __init__(self) -> None:
        self._all: tuple[Listener, ...] = ()
        self._late: set[int] = set()
        self._open = 0
        self._lock = threading.Lock()

    def add(self, listener: Listener) -> None:
        with self._lock:
            self._all = (*self._all, listener)
            if self._open:
                self._late.add(id(listener))

    def drop_all(self) -> None:
        with self._lock:
            self._all = ()

    def before_change(self, keys: Collection[ReadKey]) -> None:
        with self._lock:
            self._open += 1
            listeners = [listener for listener in self._all if id(listener) not in self._late]
        for listener in listeners:
            listener.before_change(keys)

    def after_change(self, keys: Collection[ReadKey]) -> None:
        with self._lock:
            listeners, late = self._all, frozenset(self._late)
        for listener in listeners:
            if id(listener) in late:
                listener.forget()
            else:
                listener.after_change(keys)
        with self._lock:
            self._open -= 1
            if not self._open:
                self._late.clear()

    def forget(self) -> None:
        for listener in self._all:
            listener.forget()


class FilteredStore:
    """Keeps the promises of `registry.ports.Store` for somebody's access; the store stays open when this is closed."""

    def __init__(self, store: Store, access: Access, listeners: ListenerGroup) -> None:
        """`listeners` listens to the store already."""
        self._store, self._access = store, access
        self.url, self.wait_seconds = store.url, store.wait_seconds
        self.listen, self.refresh, self.check = listeners.add, store.refresh, store.check

    @contextmanager
    def read(self, *, once: bool = False) -> Iterator[FilteredReader]:
        with self._store.read(once=once) as tx:
            yield FilteredReader(tx, self._access)

    @contextmanager
    def write(self) -> Iterator[FilteredWriter]:
        with self._store.write() as tx:
            yield FilteredWriter(tx, self._access)

    def write_each(self, collect: Collect[StoreWriter, T], wait_seconds: float) -> list[T | Exception]:
        def with_filter(function: Callable[[StoreWriter], T]) -> Callable[[StoreWriter], T]:
            return lambda tx: function(FilteredWriter(tx, self._access))

        def collect_filtered() -> tuple[Sequence[Callable[[StoreWriter], T]], ReadAhead]:
            works, ahead = collect()
            return [with_filter(function) for function in works], ahead

        return self._store.write_each(collect_filtered, wait_seconds)

    def close(self) -> None:
        """The store is not ours to close."""
