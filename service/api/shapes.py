"""Answers in the shape of Confluent 8.x or 7.x, in their key order, empty parts left out (registry-api.md §3.1)."""

from __future__ import annotations

from typing import Any, Final

from service.registry.config import FIELDS, LEVEL
from service.registry.identity import guid
from service.registry.model import Content, Found, Stored

EIGHT: Final = 8
_IN_REQUESTS: Final = {LEVEL: "compatibility"}
_BOOLEANS_AND_NUMBERS = (bool, int)

Json = dict[str, Any]


def schema(stored: Stored, profile: int, *, text: str | None = None, times: bool = True) -> Json:
    """A version with its schema. `times` False: found by its hash, where 8.x leaves out `ts` and `deleted`."""
    content = stored.content
    shape = {"subject": stored.subject, "version": stored.version, "id": stored.id}
    if profile == EIGHT:
        shape |= {"guid": guid(content.identity), "schemaType": content.kind, **details(content)}
        shape["schema"] = content.text if text is None else text
        return _filled(shape | (_times(stored) if times else {}))
    kind = {} if content.kind == "AVRO" else {"schemaType": content.kind}
    return _filled(shape | kind | details(content) | {"schema": content.text if text is None else text})


def by_id(stored: Stored, profile: int, *, text: str | None = None, max_id: int | None = None) -> Json:
    """A schema found by id. Here references come after the schema."""
    content = stored.content
    tail = {"schema": content.text if text is None else text, **details(content), "maxId": max_id}
    if profile == EIGHT:
        head = {"subject": stored.subject, "version": stored.version}
        return _filled(head | by_guid_head(content) | tail | _times(stored))
    return _filled(({} if content.kind == "AVRO" else {"schemaType": content.kind}) | tail)


def by_guid(stored: Stored, *, text: str) -> Json:
    """A schema found by guid: no subject and no version."""
    content = stored.content
    return _filled(by_guid_head(content) | {"schema": text, **details(content)} | _times(stored))


def by_guid_head(content: Content) -> Json:
    return {"guid": guid(content.identity), "schemaType": content.kind}


def registered(found: Found, profile: int) -> Json:
    """The answer to a registration."""
    stored, content = found.stored, found.stored.content
    if profile == EIGHT:
        head = {"id": stored.id, "version": stored.version, **by_guid_head(content)}
        times = _times(stored) if found.inlined else {}
        return _filled(head | details(content) | {"schema": content.text} | times)
    return {"id": stored.id}


def details(content: Content) -> Json:
    """References and metadata."""
    references = [{"name": one.name, "subject": one.subject, "version": one.version} for one in content.references]
    return {"references": references, "metadata": content.metadata}


def config(stored: Json, *, as_request: bool = False) -> Json:
    """A config; the answer to an update calls the level as the request does."""
    names = [name for name, _ in FIELDS.values() if name in stored]
    return {(_IN_REQUESTS.get(name, name) if as_request else name): stored[name] for name in names}


def _times(stored: Stored) -> Json:
    return {"ts": stored.ts, "deleted": stored.deleted}


def _filled(shape: Json) -> Json:
    return {key: value for key, value in shape.items() if value or isinstance(value, _BOOLEANS_AND_NUMBERS)}
