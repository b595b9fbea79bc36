"""The read requests that a mirror must answer as its upstream does."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from ticdc_bridge.clients.http import HttpResponse, escape_name
from ticdc_bridge.service.migration.rest_reader import is_nameable, schema_body
from ticdc_bridge.service.migration.snapshot import Snapshot
from ticdc_bridge.service.registry.model import DEFAULT_CONTEXT, StoredVersion, context_of, prefix_of
from ticdc_bridge.service.registry.names import BELOW_ALL, SERVER

_SERVER: Final = (
    "/",
    "/subjects",
    "/subjects?deleted=true",
    "/subjects?subjectPrefix=%3A*%3A&deleted=true",
    "/contexts",
    "/schemas/types",
    "/config",
    "/config?defaultToGlobal=true",
    "/mode",
    "/mode?defaultToGlobal=true",
)
_SUBJECT: Final = (
    "/subjects/{}/versions",
    "/subjects/{}/versions?deleted=true",
    "/subjects/{}/versions/latest",
    "/config/{}",
    "/config/{}?defaultToGlobal=true",
    "/mode/{}",
    "/mode/{}?defaultToGlobal=true",
)
_VERSION: Final = (
    "/subjects/{}/versions/{}",
    "/subjects/{}/versions/{}?deleted=true",
    "/subjects/{}/versions/{}/schema",
    "/subjects/{}/versions/{}/referencedby",
)
_ID: Final = ("/schemas/ids/{}{}", "/schemas/ids/{}/subjects{}", "/schemas/ids/{}/versions{}")
_ABSENT: Final = "ticdc-bridge-asks-for-a-subject-that-is-not-there"
_UNORDERED: Final = "/schemas/types"


@dataclass(frozen=True, slots=True)
class MirrorRequest:
    """One request; `body` is the text of JSON, empty for none. `subject` is what it is about, if it is about one."""

    target: str
    method: str = "GET"
    body: str = ""
    subject: str = ""

    @property
    def json_body(self) -> Any:
        return json.loads(self.body) if self.body else None


def questions(snapshot: Snapshot) -> Iterator[MirrorRequest]:
    """Everything worth asking about a registry: the server, each subject, version and id, look-ups and checks."""
    for target in _SERVER:
        yield MirrorRequest(target)
    for target in _SUBJECT:
        yield MirrorRequest(target.format(_ABSENT))
    for context in sorted({*snapshot.contexts, DEFAULT_CONTEXT}):
        yield MirrorRequest(f"/subjects?subjectPrefix={escape_name(f':{context}:')}&deleted=true")
    scopes = {scope for scope in (*snapshot.configs, *snapshot.modes) if scope not in (SERVER, BELOW_ALL)}
    latest: dict[str, StoredVersion] = {}
    for (subject, _), stored in sorted(snapshot.versions.items()):
        if not stored.deleted or subject not in latest:
            latest[subject] = stored
    latest = {subject: stored for subject, stored in latest.items() if is_nameable(subject)}
    for subject in sorted({*latest, *scopes, BELOW_ALL}):
        for target in _SUBJECT:
            yield MirrorRequest(target.format(escape_name(subject)), subject=subject)
    for subject, version in sorted(key for key in snapshot.versions if key[0] in latest):
        for target in _VERSION:
            yield MirrorRequest(target.format(escape_name(subject), version), subject=subject)
    for context, number in sorted({(context_of(s.subject), s.id) for s in snapshot.versions.values()}):
        query = "" if context == DEFAULT_CONTEXT else f"?subject={escape_name(prefix_of(context))}"
        for target in _ID:
            yield MirrorRequest(target.format(number, query))
    for subject, stored in sorted(latest.items()):
        yield from _schema_requests(subject, stored)


def _schema_requests(subject: str, stored: StoredVersion) -> Iterator[MirrorRequest]:
    """The latest schema, looked up and checked as a client would."""
    content = stored.content
    content = replace(content, metadata=content.metadata or None, rule_set=content.rule_set or None)
    body = json.dumps(schema_body(content), ensure_ascii=False)
    name = escape_name(subject)
    yield MirrorRequest(f"/subjects/{name}", "POST", body, subject)
    yield MirrorRequest(f"/subjects/{name}?deleted=true", "POST", body, subject)
    yield MirrorRequest(f"/compatibility/subjects/{name}/versions/latest", "POST", body, subject)


def find_differences(
    question: MirrorRequest, theirs: HttpResponse, ours: HttpResponse, ignored: Collection[str] = ()
) -> list[str]:
    """What differs: `status`, `type` (the content type), `body`. `ignored` names fields that do not count."""
    differences = []
    if theirs.status != ours.status:
        differences.append("status")
    if theirs.media != ours.media:
        differences.append("type")
    if theirs.body != ours.body and _comparable_json(question, theirs, ignored) != _comparable_json(
        question, ours, ignored
    ):
        differences.append("body")
    return differences


def _comparable_json(question: MirrorRequest, answer: HttpResponse, ignored: Collection[str]) -> Any:
    value = answer.json
    if isinstance(value, dict):
        return {name: part for name, part in value.items() if name not in ignored}
    if isinstance(value, list) and question.target == _UNORDERED:
        return sorted(map(str, value))
    return value
