"""Carrying out a plan against a registry over REST, in IMPORT mode as Confluent's tools do."""

import signal
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final

from ticdc_bridge.clients.http import CONNECTIONS, HttpClient, HttpResponse, escape_name
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.service.migration.plan import NOT_BY_REST, Conflict, MigrationPlan
from ticdc_bridge.service.migration.progress import ReportProgress, ignore_progress
from ticdc_bridge.service.migration.rest_reader import is_nameable, schema_body
from ticdc_bridge.service.migration.snapshot import Key, Snapshot, order_by_references, targets
from ticdc_bridge.service.registry.config import FIELDS, IMPORT, READWRITE
from ticdc_bridge.service.registry.model import StoredVersion
from ticdc_bridge.service.registry.names import BELOW_ALL, DEFAULT_CONTEXT, SERVER, context_of, prefix_of

MARK_SUBJECT: Final = "ticdc-bridge-id-mark"
"""Registered with the highest id, then deleted for good, so that the target hands out no id again. Never seen after."""

_AS_REQUESTED: Final = {stored: name for name, (stored, _) in FIELDS.items()}


def obstacles(plan: MigrationPlan, source: Snapshot, target: Snapshot) -> list[Conflict]:
    """Changes of the plan that no request can make."""
    conflicts = []
    deleted_keys = {(stored.subject, stored.version) for stored in plan.add if stored.deleted} | set(plan.delete)
    everything = {**target.versions, **source.versions}
    for stored in everything.values():
        key = (stored.subject, stored.version)
        if stored.deleted or key in deleted_keys:
            continue
        for entry in targets(stored):
            if entry in deleted_keys:
                what = f"{entry[0]} version {entry[1]} is soft-deleted, but {key[0]} version {key[1]} refers to it"
                conflicts.append(Conflict(NOT_BY_REST, what))
    for stored in plan.add:
        if not is_nameable(stored.subject):
            conflicts.append(Conflict(NOT_BY_REST, f"subject {stored.subject!r}: no path can name it"))
        if any((item[0], item[1]) not in everything for item in targets(stored)):
            what = f"{stored.subject} version {stored.version} refers to a version that is not there"
            conflicts.append(Conflict(NOT_BY_REST, what))
    return conflicts


class RestTarget:
    """Writes to a registry; `left_out` says what it could not be told, by reason."""

    def __init__(self, asker: HttpClient, report: ReportProgress = ignore_progress) -> None:
        self._asker = asker
        self._report = report
        self.left_out: list[str] = []

    def carry_out(self, plan: MigrationPlan, source: Snapshot, target: Snapshot) -> None:
        """Write a plan without conflicts. Raises SetupError; modes are put back then too."""
        if not plan.changes:
            return
        unseen = sorted(set(plan.contexts) - {context_of(stored.subject) for stored in plan.add})
        if unseen:
            self.left_out.append(f"{len(unseen)} contexts without subjects ({', '.join(unseen)}): REST can't make them")
        with self._import_mode(scopes_of(plan, target), before=target.modes, after={**target.modes, **plan.modes}):
            # Each version after those it refers to, several at a time.
            done, total = 0, len(plan.add)
            with ThreadPoolExecutor(CONNECTIONS) as pool:
                for level in levels(plan.add):
                    for _ in pool.map(self._register_schema, level):
                        done += 1
                        self._report("written", done, total)
            deletions = [stored for stored in plan.add if stored.deleted]
            deletions += [source.versions[key] for key in plan.delete]
            # Softly, whoever refers before what it refers to.
            for done, stored in enumerate(reversed(order_by_references(deletions)), 1):
                path = f"/subjects/{escape_name(stored.subject)}/versions/{stored.version}"
                self._ask_ok("DELETE", path, None, missing=True)
                self._report("deleted", done, len(deletions))
            for context, number in plan.marks.items():
                self._mark(context, number, plan, target)
            for scope, config in plan.configs.items():
                # A PUT adds to what is there, so what is to go is sent as null.
                gone = [name for name in target.configs.get(scope, {}) if name not in config]
                body = {_AS_REQUESTED[name]: value for name, value in {**dict.fromkeys(gone), **config}.items()}
                self._ask_ok("PUT", _path("/config", scope), body)

    @contextmanager
    def _import_mode(self, scopes: list[str], before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[None]:
        """Everything in IMPORT mode; then the modes that are to be, or, if it did not come to that, those of before."""
        changed: list[str] = []
        final = before
        try:
            for scope in scopes:
                changed.append(scope)
                self._put_mode(scope, IMPORT)
            yield
            final = after
        finally:
            with block_signals():
                self._put_back([*reversed(changed), *(entry for entry in sorted(final) if entry not in changed)], final)

    def _put_back(self, scopes: list[str], final: Mapping[str, str]) -> None:
        """Try every scope, whatever becomes of the others. Raises SetupError that names those left as they are."""
        failed: dict[str, str] = {}
        for scope in scopes:
            try:
                if scope in final:
                    self._put_mode(scope, final[scope])
                elif self._asker.ask("DELETE", _path("/mode", scope)).status == 405:
                    self._put_mode(scope, READWRITE)  # 7.x can't remove the server's mode
            except SetupError as error:
                failed["the server" if scope == SERVER else scope] = error.detail
        if failed:
            reason = next(iter(failed.values()))
            details = f"modes not put back, perhaps still IMPORT: {', '.join(failed)}: {reason}"
            raise self._asker.refused("the end of an import", details)

    def _put_mode(self, scope: str, mode: str) -> None:
        self._ask_ok("PUT", f"{_path('/mode', scope)}?force=true", {"mode": mode})

    def _register_schema(self, stored: StoredVersion) -> None:
        body = {**schema_body(stored.content), "id": stored.id, "version": stored.version}
        answer = self._ask_ok("POST", f"/subjects/{escape_name(stored.subject)}/versions", body).json
        if not isinstance(answer, dict) or answer.get("id") != stored.id:
            what = f"{stored.subject} version {stored.version} with id {stored.id}"
            raise self._asker.refusal_error(what, 200, f"it took another id: {answer}")

    def _mark(self, context: str, number: int, plan: MigrationPlan, target: Snapshot) -> None:
        """Make an id used that has no schema any more."""
        used = {context_of(stored.subject) for stored in plan.add}
        ids = [stored.id for stored in plan.add if context_of(stored.subject) == context]
        if max([*ids, target.marks.get(context, 0)]) >= number:
            return
        path = f"/subjects/{escape_name(prefix_of(context) + MARK_SUBJECT)}"
        self._ask_ok("POST", f"{path}/versions", {"schema": '"null"', "id": number, "version": 1})
        self._ask_ok("DELETE", path, None)
        self._ask_ok("DELETE", f"{path}?permanent=true", None)
        if context != DEFAULT_CONTEXT and context not in target.contexts and context not in used:
            self._ask_ok("DELETE", f"/contexts/{escape_name(context)}", None, missing=True)

    def _ask_ok(self, method: str, target: str, body: Any, *, missing: bool = False) -> HttpResponse:
        answer = self._asker.ask(method, target, body)
        if answer.status >= 300 and not (missing and answer.status == 404):
            raise self._asker.refusal_error(f"{method} {target}", answer.status, answer.json)
        return answer


def scopes_of(plan: MigrationPlan, target: Snapshot) -> list[str]:
    """The scopes to put into IMPORT mode: the server, contexts that are written to, whatever has a mode of its own."""
    subjects = [*(stored.subject for stored in plan.add), *(subject for subject, _ in plan.delete), *plan.configs]
    contexts = {*map(context_of, subjects), *plan.marks} - {DEFAULT_CONTEXT}
    return [SERVER, *sorted({*map(prefix_of, contexts), *target.modes} - {SERVER, BELOW_ALL})]


def levels(versions: list[StoredVersion]) -> list[list[StoredVersion]]:
    """The versions in rounds; one refers only to versions of earlier rounds."""
    depth: dict[Key, int] = {}
    rounds: dict[int, list[StoredVersion]] = {}
    for stored in order_by_references(versions):
        level = 1 + max((depth.get(target, 0) for target in targets(stored)), default=0)
        depth[stored.subject, stored.version] = level
        rounds.setdefault(level, []).append(stored)
    return [rounds[level] for level in sorted(rounds)]


def _path(resource: str, scope: str) -> str:
    return resource if scope == SERVER else f"{resource}/{escape_name(scope)}"


@contextmanager
def block_signals() -> Iterator[None]:
    """A block that neither Ctrl-C nor SIGTERM ends half-way."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
