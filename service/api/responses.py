"""Answers in the shape of Confluent 8.x or 7.x, in their key order, empty parts left out."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from ticdc_bridge.service.registry.config import FIELDS, LEVEL
from ticdc_bridge.service.registry.model import Content, LookupResult, StoredVersion
from ticdc_bridge.service.registry.names import context_of, guid, qualify
from ticdc_bridge.service.registry.subjects import SubjectOverview
from ticdc_bridge.service.schema_types.base import TaggedEntity

EIGHT: Final = 8
_IN_REQUESTS: Final = {LEVEL: "compatibility"}

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SchemaView:
    """How a schema is shown: its text in the format asked for, tags found in it, subjects of references qualified."""

    profile: int
    text: str
    tags: Sequence[TaggedEntity] = ()
    qualified: bool = False


def schema(stored: StoredVersion, view: SchemaView, *, times: bool = True) -> Json:
    """A version with its schema. `times` False: found by its hash, where 8.x leaves out `ts` and `deleted`."""
    content = stored.content
    shape = {"subject": stored.subject, "version": stored.version, "id": stored.id}
    text = {"schema": view.text, "schemaTags": tags(view)}
    if view.profile == EIGHT:
        shape |= {"guid": guid(content.identity), "schemaType": content.kind, **details(stored, view), **text}
        return _drop_empty(shape | (_times(stored) if times else {}))
    return _drop_empty(shape | kind_of_7(content) | details(stored, view) | text)


def by_id(stored: StoredVersion, view: SchemaView, *, max_id: int | None = None) -> Json:
    """A schema found by id. Here references come after the schema."""
    tail = {"schema": view.text, **details(stored, view), "schemaTags": tags(view), "maxId": max_id}
    if view.profile == EIGHT:
        head = {"subject": stored.subject, "version": stored.version}
        return _drop_empty(head | by_guid_head(stored.content) | tail | _times(stored))
    return _drop_empty(kind_of_7(stored.content) | tail)


def by_guid(stored: StoredVersion, view: SchemaView) -> Json:
    head = by_guid_head(stored.content)
    return _drop_empty(head | {"schema": view.text, **details(stored, view), "schemaTags": tags(view)} | _times(stored))


def by_guid_head(content: Content) -> Json:
    return {"guid": guid(content.identity), "schemaType": content.kind}


def kind_of_7(content: Content) -> Json:
    """7.x does not say that a schema is Avro."""
    return {} if content.kind == "AVRO" else {"schemaType": content.kind}


def registration(result: LookupResult, view: SchemaView) -> Json:
    """The answer to a registration. 7.x says no more than the id, unless the registry completed the schema."""
    stored, content = result.stored, result.stored.content
    text = {**details(stored, view), "schema": view.text}
    if view.profile == EIGHT:
        head = {"id": stored.id, "version": stored.version, **by_guid_head(content)}
        return _drop_empty(head | text | (_times(stored) if result.alike else {}))
    more = {"version": stored.version, **kind_of_7(content), **text} if result.completed else {}
    return _drop_empty({"id": stored.id} | more)


def details(stored: StoredVersion, view: SchemaView) -> Json:
    context = context_of(stored.subject)
    references = [asdict(reference) for reference in stored.content.references]
    for reference in references if view.qualified else ():
        reference["subject"] = qualify(reference["subject"] or "", context)
    return {"references": references, "metadata": stored.content.metadata, "ruleSet": stored.content.rule_set}


def tags(view: SchemaView) -> list[Json]:
    return [
        {"schemaEntity": {"entityPath": tag.path, "entityType": tag.kind}, "tags": list(tag.tags)} for tag in view.tags
    ]


def config(stored: Json, *, as_request: bool = False) -> Json:
    """A config; the answer to an update calls the level as the request does, and repeats what is empty."""
    if not as_request:
        stored = _drop_empty(stored)
    names = [name for name, _ in FIELDS.values() if name in stored]
    return {(_IN_REQUESTS.get(name, name) if as_request else name): stored[name] for name in names}


def _times(stored: StoredVersion) -> Json:
    return {"ts": stored.ts, "deleted": stored.deleted}


_OBJECTS: Final = frozenset({"metadata", "defaultMetadata", "overrideMetadata", "ruleSet"})
"""Members that Confluent's answers have as `{}` where they are empty."""


def _drop_empty(shape: Json) -> Json:
    return {
        key: value
        for key, value in shape.items()
        if value or isinstance(value, int) or (value == {} and key in _OBJECTS)
    }


def overview(entry: SubjectOverview) -> Json:
    """A subject as `/overview` shows it; no schema is in it."""
    return {
        "subject": entry.subject,
        "versions": [
            {"version": row.version, "id": row.id, "schemaType": row.kind, "ts": row.ts, "deleted": row.deleted}
            for row in entry.versions
        ],
        "compatibilityLevel": entry.level,
        "ownCompatibilityLevel": entry.has_level,
        "mode": entry.mode,
        "ownMode": entry.has_mode,
    }
