"""What the rules need from a store; checked by tests/service/store/test_store.py.

A transaction sees one state of the store. A write transaction is alone: nobody else writes until it ends, so a rule may
look first and write after. Leaving the block normally makes the writes durable before it returns; an exception undoes
them. A store in trouble raises BridgeError STORE_FAILED or STORE_TIMEOUT; one of the latter, `deadline.Outage`, says
that nothing was written and that doing all of it again may help. A transaction notes what it reads in the read set of
its request, and tells the listeners what it changed.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

from ticdc_bridge.service.registry import model
from ticdc_bridge.service.registry.model import Content, StoredVersion, VersionRow

ReadKey = tuple[str, ...]
ANYTHING: Final[ReadKey] = ("anything",)
"""Changes with every write (the store adds it): lists, counts, and whatever has no key of its own."""
CONTEXTS: Final[ReadKey] = ("contexts",)


@dataclass(slots=True)
class ReadSet:
    """The keys of what a request read, whether it went on to write, and the path of the route that answered it."""

    keys: set[ReadKey] = field(default_factory=set)
    wrote: bool = False
    route: str = ""


current_reads: ContextVar[ReadSet | None] = ContextVar("reads", default=None)
"""Set for the time of a request whose answer may be kept; threads that work for it inherit it."""


class Listener(Protocol):
    """Told of each change. From `before_change` to `after_change` it must not trust what it reads about these keys."""

    def before_change(self, keys: Collection[ReadKey]) -> None:
        """What these keys stand for is about to change."""

    def after_change(self, keys: Collection[ReadKey]) -> None:
        """The change is there for every reader, or was given up."""

    def forget(self) -> None:
        """Anything may have changed, e.g. because another process wrote."""


T = TypeVar("T")
X = TypeVar("X")


class StoreReader(Protocol):
    def version(self, subject: str, version: int) -> StoredVersion | None:
        """A version, soft-deleted or not."""

    def latest(self, subject: str, *, deleted: bool = False) -> StoredVersion | None:
        """The highest version; soft-deleted ones count only with `deleted`."""

    def by_content(
        self, subject: str, content: Content, *, deleted: bool = False, schema_id: int | None = None
    ) -> StoredVersion | None:
        """The highest version of the subject with this identity and schema type (and, if given, this id)."""

    def lookalikes(self, subject: str, likeness: bytes, *, deleted: bool = False) -> list[StoredVersion]:
        """The versions of the subject with references, a recorded version number or this likeness, highest first."""

    def versions(self, subject: str) -> list[VersionRow]:
        """All versions, soft-deleted ones too, ascending."""

    def live_versions(self, subject: str) -> list[StoredVersion]:
        """All undeleted versions with their schemas, ascending."""

    def holders(self, context: str, schema_id: int) -> list[StoredVersion]:
        """All versions, of any subject, with this id, in the order they were registered."""

    def holders_of(self, context: str | None, ids: Collection[int], *, deleted: bool = False) -> list[VersionRow]:
        """All versions of a context (None: of any) with one of these ids, in the order they were registered."""

    def holding(self, identities: Collection[bytes]) -> list[tuple[bytes, VersionRow]]:
        """All undeleted versions with one of these identities, each with its own."""

    def repeats(self, contents: Collection[tuple[str, bytes]]) -> set[tuple[str, bytes]]:
        """Among subjects with identities those where the subject has an undeleted version with the identity."""

    def newest(self, search: str, text: str, *, deleted: bool = False) -> list[StoredVersion]:
        """The highest version of each subject that has `search` in its name and `text` in its schema, whatever the case
        of ASCII letters; ordered by subject."""

    def versions_of(self, subjects: Collection[str]) -> list[model.ListedVersion]:
        """All versions of these subjects, soft-deleted ones too, ascending."""

    def search(self, prefix: str, *, deleted: bool = False) -> list[StoredVersion]:
        """All versions of the subjects that start with `prefix`, ordered by subject and version."""

    def subjects(self) -> list[tuple[str, bool]]:
        """All subjects in order, each with whether it has an undeleted version."""

    def schema(self, context: str, schema_id: int) -> Content | None:
        """The schema of an id."""

    def id_of(self, context: str, content: Content) -> int | None:
        """The id that this identity and schema type have in the context; the lowest, if an import brought several."""

    def ids_of(self, identity: bytes) -> list[tuple[str, int]]:
        """Every (context, id) of this content."""

    def max_id(self, context: str) -> int:
        """The highest id ever handed out; 0 if none."""

    def referrers(self, subject: str, version: int) -> list[VersionRow]:
        """The versions that refer to this version, soft-deleted ones too."""

    def configs(self, scopes: Sequence[str]) -> dict[str, dict[str, Any]]:
        """The configs stored for those of `scopes` that have one."""

    def all_configs(self) -> dict[str, dict[str, Any]]:
        """Every scope's config."""

    def modes(self, scopes: Sequence[str]) -> dict[str, str]:
        """The modes stored for those of `scopes` that have one."""

    def all_modes(self) -> dict[str, str]:
        """Every scope's mode."""

    def marks(self) -> dict[str, int]:
        """The highest id ever handed out, by context."""

    def contexts(self) -> list[str]:
        """The contexts, sorted, without the default one."""

    def counts(self) -> model.Counts: ...

    def warnings(self) -> list[model.StoredWarning]:
        """All warnings, oldest first."""

    def lineage(self) -> list[model.Lineage]:
        """Edges that jobs reported, in the order of first times."""


class StoreWriter(StoreReader, Protocol):
    def new_id(self, context: str) -> int:
        """The next id; never one that was handed out or used before, even if its schema is gone."""

    def use_id(self, context: str, number: int) -> None:
        """Keep `new_id` from an id that was given from outside: above it, or past it if it is over LAST_COUNTED."""

    def put_schema(self, context: str, schema_id: int, content: Content) -> None:
        """Raises INVALID_SCHEMA for a text with a NUL character, which not every database can hold."""

    def put_version(self, context: str, subject: str, version: int, schema_id: int, content: Content, ts: int) -> None:
        """Add a version, and its context; `content.references` become findable by `referrers`."""

    def soft_delete(self, subject: str, versions: Iterable[int]) -> None: ...

    def remove(self, subject: str, versions: Iterable[int]) -> None:
        """Forget versions with their warnings, and every schema that no version holds any more."""

    def put_config(self, scope: str, config: dict[str, Any]) -> None: ...

    def drop_config(self, scope: str) -> None: ...

    def put_mode(self, scope: str, mode: str | None) -> None:
        """Set a mode, or remove it (None)."""

    def put_context(self, context: str) -> None:
        """Add a context that is not the default one, if it is not there."""

    def drop_context(self, context: str) -> None: ...

    def put_warning(self, warned: model.StoredWarning) -> None: ...

    def add_lineage(self, edges: Collection[model.Lineage]) -> None:
        """Add edges of different keys; to one that is there its rows are added, and `last` is changed."""


@dataclass(frozen=True, slots=True)
class ReadAhead:
    """What works that write will look at, as far as it is known: asking for all of it at once costs less."""

    subjects: Sequence[str] = ()
    scopes: Sequence[str] = ()
    """Whose configs and modes count."""
    contents: Sequence[Content] = ()
    """Contents that may be new in the default context, each with its likeness."""


Collect = Callable[[], tuple[Sequence[Callable[[X], T]], ReadAhead]]
"""Gives works, and what they will look at."""


class Store(Protocol):
    @property
    def url(self) -> str:
        """For messages: no password in it."""

    @property
    def wait_seconds(self) -> float:
        """How long a request may wait for a store that is busy or away."""

    def read(self, *, once: bool = False) -> AbstractContextManager[StoreReader]:
        """One state of the store; inside another `read` of this thread, that one's. `once`: for a single question."""

    def write(self) -> AbstractContextManager[StoreWriter]: ...

    def write_each(self, collect: Collect[StoreWriter, T], wait_seconds: float) -> list[T | Exception]:
        """Let every work write, one after the other, with one commit for all; wait so long at most for the turn to.

        collect: called once, when the turn has come, so that works that came meanwhile are among them. A work may be
        called a second time, if what it did the first time was undone. Out: what each returned, or the exception that
        it raised, which undid its own part only. All the rest is durable when this returns. What this raises itself
        undid everything.
        """

    def listen(self, listener: Listener) -> None:
        """Tell `listener` of every change from now on."""

    def refresh(self, max_age: float) -> Future[None] | None:
        """Tell the listeners to forget everything if another process may have written. Quick, and never waits.

        Out: None when that is done, or was done less than `max_age` seconds ago; else what ends when it is.
        """

    def check(self, *, ask: bool = True) -> None:
        """Raise BridgeError if the store can't be read and written now. ask: the database, too, which may take time."""

    def close(self) -> None: ...
