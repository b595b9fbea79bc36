"""Everything that a registry says about itself over REST, in any of the dialects of Confluent's API."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from typing import Any, Final, TypeVar

from ticdc_bridge.clients.http import CONNECTIONS, HttpClient, escape_name
from ticdc_bridge.service.migration.progress import ReportProgress, ignore_progress
from ticdc_bridge.service.migration.snapshot import Key, Snapshot
from ticdc_bridge.service.migration.topic_records import BrokenRecord, read_config, read_mode, read_schema
from ticdc_bridge.service.registry.config import LEVEL, READWRITE
from ticdc_bridge.service.registry.model import Content, Metadata, StoredVersion
from ticdc_bridge.service.registry.names import (
    BELOW_ALL,
    DEFAULT_CONTEXT,
    SERVER,
    context_of,
    guid,
    is_valid_scope,
    normalize_subject,
    prefix_of,
)
from ticdc_bridge.service.registry.references import identity

T = TypeVar("T")
U = TypeVar("U")

DEFAULT_LEVEL: Final = "BACKWARD"
UNKNOWN_MARK: Final = "the highest id ever used: not known; the highest existing id was taken"
PROBE: Final = "ticdc-bridge-asks-for-a-subject-that-is-not-there"


class RestSource:
    """Reads a registry. `left_out` counts what its REST API can't tell, by reason; `broken`: answers without sense.

    `unread`: the versions of both, and for "/config" or "/mode" those of all scopes but the server.
    """

    def __init__(self, asker: HttpClient, report: ReportProgress = ignore_progress) -> None:
        self._asker = asker
        self._report = report
        self._now = 0
        self.left_out: Counter[str] = Counter()
        self.broken: list[str] = []
        self.unread: set[Key | str] = set()

    def read(self, also: Iterable[str] = ()) -> Snapshot:
        """The whole registry. `also`: scopes to ask for config and mode besides those in lists. Raises SetupError."""
        snapshot = Snapshot()
        self._now = time.time_ns() // 1_000_000
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            subjects = self.subjects()
            numbers = self._map_items(pool, "subjects", sorted(subjects), lambda s: self.versions(s, live=subjects[s]))
            versions = [(subject, version, is_deleted) for subject, some in numbers for version, is_deleted in some]
            for _, stored in self._map_items(pool, "versions", versions, lambda entry: self.version(*entry)):
                if stored is not None:
                    snapshot.add(stored)
            self._in_order_of_registration(pool, snapshot)
            snapshot.contexts.update(self.contexts())
            self._settings(pool, snapshot, {*subjects, *also} - {SERVER, BELOW_ALL})
        self._marks(snapshot)
        return snapshot

    # ---- schemas

    def subjects(self) -> dict[str, bool]:
        """All subjects, each with whether it has an undeleted version."""
        every = self._asker.need(list, "/subjects?deleted=true&subjectPrefix=%3A*%3A")
        live = set(self._asker.need(list, "/subjects?subjectPrefix=%3A*%3A"))
        result = {str(subject): subject in live for subject in {*every, *live}}
        for subject in [name for name in result if not is_nameable(name)]:
            self.left_out[f"subject {subject!r}, which no path can name"] += 1
            del result[subject]
        return result

    def versions(self, subject: str, *, live: bool = True) -> list[tuple[int, bool]]:
        """The numbers of a subject's versions, each with whether it is soft-deleted."""
        path = f"/subjects/{escape_name(subject)}/versions"
        every = self._numbers(f"{path}?deleted=true")
        undeleted = set(self._numbers(path)) if live else set()
        return [(number, number not in undeleted) for number in sorted({*every, *undeleted})]

    def _numbers(self, target: str) -> list[int]:
        return [int(number) for number in self._asker.find(list, target) or ()]

    def version(self, subject: str, version: int, deleted: bool) -> StoredVersion | None:
        """A version; None if it is gone, or hidden behind an alias."""
        body = self._asker.find(dict, f"/subjects/{escape_name(subject)}/versions/{version}?deleted=true")
        if body is None:
            return None
        if normalize_subject(str(body.get("subject", subject))) != normalize_subject(subject):
            self.left_out["versions that REST hides because their subject's config has an alias"] += 1
            self.unread.add((normalize_subject(subject), version))
            return None
        try:
            value = {**body, "subject": subject, "version": version, "deleted": deleted}
            stored = read_schema((normalize_subject(subject), version), value, self._now)
        except BrokenRecord as error:
            self.broken.append(f"{subject} version {version}: {error}")
            self.unread.add((normalize_subject(subject), version))
            return None
        return _with_unseen_metadata(stored, body.get("guid"))

    def _in_order_of_registration(self, pool: ThreadPoolExecutor, snapshot: Snapshot) -> None:
        """Put versions in order that share an id and a time: answers by id name the first and the last of them."""
        holders = Counter(
            (context_of(version.subject), version.id, version.ts) for version in snapshot.versions.values()
        )
        tied = {(context, number) for (context, number, _), count in holders.items() if count > 1}
        rank: dict[Key, int] = {}
        for _, (first, last) in self._map_items(pool, "ids", sorted(tied), self._ends):
            several = Counter(subject for subject, _ in last)
            rank |= {key: 1 for key in last if several[key[0]] == 1 and key not in first}
            rank |= dict.fromkeys(first, -1)
        snapshot.versions = dict(sorted(snapshot.versions.items(), key=lambda entry: rank.get(entry[0], 0)))

    def _ends(self, key: tuple[str, int]) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
        """The version that an id shows, and the last one of each subject that has it, as far as the server tells."""
        context, number = key
        query = "" if context == DEFAULT_CONTEXT else f"?subject={escape_name(prefix_of(context))}"
        first = self._asker.ask("GET", f"/schemas/ids/{number}{query}").json
        more = f"{query}&deleted=true" if query else "?deleted=true"
        last = self._asker.ask("GET", f"/schemas/ids/{number}/versions{more}").json
        return _keys([first]), _keys(last if isinstance(last, list) else [])

    def contexts(self) -> list[str]:
        """The contexts besides the default one; none where the server knows no contexts."""
        answer = self._asker.ask("GET", "/contexts")
        if answer.status != 200 or not isinstance(answer.json, list):
            return []
        return [str(entry) for entry in answer.json if entry != DEFAULT_CONTEXT]

    # ---- what belongs to a scope

    def _settings(self, pool: ThreadPoolExecutor, snapshot: Snapshot, subjects: Iterable[str]) -> None:
        below = [prefix_of(context) for context in sorted(snapshot.contexts)]
        scopes = [*below, BELOW_ALL, *sorted({*subjects, *self.aliases()} - set(below))]
        scopes = [scope for scope in scopes if scope and is_valid_scope(scope)]  # the path of "" is the server's own
        config, mode = self._server_setting("/config"), self._server_setting("/mode")
        if config is not None:
            snapshot.configs[SERVER] = self._config(config)
        if mode is not None and mode.get("mode") != READWRITE:  # which counts without any
            snapshot.modes[SERVER] = read_mode(mode)
        for scope, config in self._map_items(pool, "configs", self._configured_scopes("/config", scopes), self.config):
            if config is not None:
                snapshot.configs[normalize_subject(scope)] = config
        for scope, found in self._map_items(pool, "modes", self._configured_scopes("/mode", scopes), self.mode):
            if found is not None:
                snapshot.modes[normalize_subject(scope)] = found
        # Answered with the defaults where nothing is set.
        if snapshot.configs.get(BELOW_ALL) == {LEVEL: DEFAULT_LEVEL}:
            del snapshot.configs[BELOW_ALL]
        if snapshot.modes.get(BELOW_ALL) == READWRITE:
            del snapshot.modes[BELOW_ALL]

    def _configured_scopes(self, path: str, scopes: list[str]) -> list[str]:
        """The scopes to ask, if the server can tell a scope's own setting from the one above (Karapace can't)."""
        if self._asker.ask("GET", f"{path}/{PROBE}").status == 200:
            self.left_out[f"{path} of subjects: this registry answers for any name"] += 1
            self.unread.add(path)
            return []
        return scopes

    def _server_setting(self, path: str) -> dict[str, Any] | None:
        """The server's setting; None where another one, further up, counts instead."""
        setting, with_default = self._setting(path), self._setting(f"{path}?defaultToGlobal=true")
        return setting if with_default is None or setting == with_default else None

    def config(self, scope: str) -> dict[str, Any] | None:
        body = self._setting(f"/config/{escape_name(scope)}")
        return None if body is None else self._config(body)

    def _config(self, answer: dict[str, Any]) -> dict[str, Any]:
        config, unknown = read_config({**answer, "compatibilityLevel": answer.get("compatibilityLevel")})
        for name in unknown:
            self.left_out[f"config field {name}"] += 1
        return config

    def mode(self, scope: str) -> str | None:
        body = self._setting(f"/mode/{escape_name(scope)}")
        return None if body is None else read_mode(body)

    def _setting(self, target: str) -> dict[str, Any] | None:
        answer = self._asker.ask("GET", target)
        body = answer.json
        if answer.status in (404, 405) or (answer.status == 422 and isinstance(body, dict)):
            return None
        if answer.status != 200 or not isinstance(body, dict):
            raise self._asker.refusal_error(f"GET {target}", answer.status, answer.json)
        return dict(body)

    def aliases(self) -> set[str]:
        """Subjects that stand for others. They need no versions, so no other list names them."""
        names: set[str] = set()
        for offset in range(0, 10**9, 1000):
            query = f"?subjectPrefix=%3A*%3A&aliases=true&latestOnly=true&offset={offset}&limit=1000"
            answer = self._asker.ask("GET", f"/schemas{query}")
            if answer.status != 200 or not isinstance(answer.json, list):
                return names
            for entry in answer.json:
                names |= set(entry.get("aliases") or ()) if isinstance(entry, dict) else set()
            if len(answer.json) < 1000:
                return names
        return names

    def _marks(self, snapshot: Snapshot) -> None:
        """The highest id ever used, where the server tells it."""
        some = {context_of(stored.subject): stored for stored in snapshot.versions.values()}
        for context, stored in some.items():
            subject = f"&subject={escape_name(prefix_of(context))}" if context != DEFAULT_CONTEXT else ""
            answer = self._asker.ask("GET", f"/schemas/ids/{stored.id}?fetchMaxId=true{subject}")
            highest = answer.json.get("maxId") if answer.status == 200 and isinstance(answer.json, dict) else None
            if isinstance(highest, int):
                snapshot.mark(context, highest)
            else:
                self.left_out[UNKNOWN_MARK] += 1

    def _map_items(
        self, pool: ThreadPoolExecutor, what: str, items: list[T], function: Callable[[T], U]
    ) -> Iterator[tuple[T, U]]:
        """Work on items with a bounded number of requests at a time; results in the items' order."""
        self._report(what, 0, len(items))
        for done, (item, result) in enumerate(zip(items, pool.map(function, items), strict=True), 1):
            self._report(what, done, len(items))
            yield item, result


def is_nameable(subject: str) -> bool:
    """True if a path can name a subject: servers refuse `..` and control characters, and take "" for a missing part."""
    return subject not in ("", "..") and not any(character < " " or character == "\x7f" for character in subject)


def _with_unseen_metadata(stored: StoredVersion, digest: Any) -> StoredVersion:
    """Answers leave out metadata without anything in it, but the guid counts it."""
    content = stored.content
    empty: Metadata = {}
    if content.metadata is None and digest:
        seen = identity(content.text, content.references, None, content.rule_set)
        other = identity(content.text, content.references, empty, content.rule_set)
        if digest == guid(other) != guid(seen):
            return replace(stored, content=replace(content, metadata=empty))
    return stored


def schema_body(content: Content) -> dict[str, Any]:
    body: dict[str, Any] = {"schema": content.text}
    if content.kind != "AVRO":
        body["schemaType"] = content.kind
    if content.references:
        body["references"] = list(map(asdict, content.references))
    extra = {"metadata": content.metadata, "ruleSet": content.rule_set}
    return body | {name: value for name, value in extra.items() if value is not None}


def _keys(answers: list[Any]) -> list[tuple[str, int]]:
    versions = [answer for answer in answers if isinstance(answer, dict) and {"subject", "version"} <= answer.keys()]
    return [(normalize_subject(str(version["subject"])), version["version"]) for version in versions]
