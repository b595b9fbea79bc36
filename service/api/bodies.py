"""Request bodies as Jackson reads them: unknown properties ignored, scalars converted."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from schemas.model.errors import RegistryError
from service.api.request import Called
from service.api.services import Services
from service.registry.deadline import current_deadline
from service.registry.model import NewSchema, Reference
from service.registry.rule_sets import RuleSet, read_rule_set
from service.schema_types.base import TaggedPart

_DRAINED = 8
_SURROGATES = re.compile("[\ud800-\udfff]")
_INT: Final = 2**31

Reader = Callable[[Any], Any]


def body_of(operation: str, entity: str, fields: Mapping[str, Reader]) -> Callable[[Called], Awaitable[dict[str, Any]]]:
    """A dependency that reads a JSON object; only the `fields` are kept, each through its reader.

    Raises REQUEST_TOO_LARGE, SCHEMA_TOO_LARGE, TOO_MANY_REFERENCES, BAD_REQUEST, and UNPROCESSABLE for a body that is
    missing or null.
    """

    async def read(call: Called) -> dict[str, Any]:
        value = parse(await read_body(call))
        if value is None:
            raise RegistryError("UNPROCESSABLE", details=f"{operation}.request must not be null (was null)")
        if not isinstance(value, dict):
            raise mismatch_error(entity, value)
        body = {name: reader(value[name]) for name, reader in fields.items() if name in value}
        check_size(body, call.services)
        return body

    return read


def check_size(body: Mapping[str, Any], services: Services) -> None:
    """Raises SCHEMA_TOO_LARGE, TOO_MANY_REFERENCES."""
    schema, references = body.get("schema") or "", body.get("references") or ()
    if (
        len(schema) * 4 > services.max_schema_bytes
        and len(schema.encode("utf-8", "replace")) > services.max_schema_bytes
    ):
        raise RegistryError("SCHEMA_TOO_LARGE")
    if len(references) > services.max_references:
        raise RegistryError("TOO_MANY_REFERENCES", count=len(references), limit=services.max_references)


async def read_body(call: Called) -> bytes:
    """The body, if it is not too large. One that is gets read on for a while, so that the client sees the answer.

    A request that is tried again (`api.routing`) has it already, and its patience begins to run when it has.
    """
    body = getattr(call.request.state, "body", None)
    if body is None:
        body = call.request.state.body = await receive_body(call)
        patience = current_deadline.get()
        if patience is not None:
            patience.start()
    assert isinstance(body, bytes)
    return body


async def receive_body(call: Called) -> bytes:
    limit, size, chunks = call.services.max_body_bytes, 0, []
    async for chunk in call.request.stream():
        size += len(chunk)
        if size <= limit:
            chunks.append(chunk)
        else:
            chunks.clear()
        if size > limit * _DRAINED:
            break
    if size > limit:
        raise RegistryError("REQUEST_TOO_LARGE", limit=limit)
    return b"".join(chunks)


def parse(body: bytes) -> Any:
    """JSON, or None for an empty body. Raises BAD_REQUEST."""
    if not body.strip():
        return None
    try:
        return json.loads(body)
    except RecursionError:
        raise RegistryError("BAD_REQUEST", details="Document nesting depth exceeds the maximum allowed") from None
    except ValueError as error:
        raise RegistryError("BAD_REQUEST", details=str(error)) from None


def text(value: Any) -> str | None:
    """Text; a number or a boolean as its text. Lone surrogates become `?`, as in Java's UTF-8."""
    if isinstance(value, dict | list):
        raise mismatch_error("String", value)
    if value is None:
        return None
    if not isinstance(value, str):
        return json.dumps(value)
    return value if value.isascii() else _SURROGATES.sub("?", value)


def integer(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, dict | list | bool):
        raise mismatch_error("Integer", value)
    try:
        number = int(value)
    except (ValueError, OverflowError):
        details = (
            f'Cannot deserialize value of type `Integer` from String "{value}": not a valid `java.lang.Integer` value'
        )
        raise RegistryError("BAD_REQUEST", details=details) from None
    if not -_INT <= number < _INT:
        raise RegistryError("BAD_REQUEST", details=f"Numeric value ({number}) out of range of `int`")
    return number


def flag(value: Any) -> bool | None:
    if isinstance(value, dict | list):
        raise mismatch_error("Boolean", value)
    return value.lower() == "true" if isinstance(value, str) else None if value is None else bool(value)


def list_reader(kind: str, reader: Reader) -> Reader:
    """A list whose elements go through `reader`; nulls are left out."""

    def read(value: Any) -> list[Any] | None:
        if value is None:
            return None
        if not isinstance(value, list):
            raise mismatch_error(kind, value)
        return [reader(item) for item in value if item is not None]

    return read


def map_reader(kind: str, reader: Reader) -> Reader:
    """An object whose values go through `reader`, sorted by key."""

    def read(value: Any) -> dict[str, Any] | None:
        if value is None:
            return None
        if not isinstance(value, dict):
            raise mismatch_error(kind, value)
        return {text(key) or "": reader(value[key]) for key in sorted(value)}

    return read


def reference(value: Any) -> Reference:
    if not isinstance(value, dict):
        raise mismatch_error("SchemaReference", value)
    return Reference(text(value.get("name")) or "", text(value.get("subject")), integer(value.get("version")))


_METADATA: Final[dict[str, Reader]] = {
    "tags": map_reader("TreeMap", lambda value: sorted(set(list_reader("TreeSet", text)(value) or ()))),
    "properties": map_reader("TreeMap", text),
    "sensitive": lambda value: sorted(set(list_reader("TreeSet", text)(value) or ())),
}


def metadata(value: Any) -> dict[str, Any] | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise mismatch_error("Metadata", value)
    read = {name: reader(value[name]) for name, reader in _METADATA.items() if name in value}
    return {name: part for name, part in read.items() if part}


def rule_set(value: Any) -> RuleSet | None:
    try:
        return read_rule_set(value)
    except ValueError:
        raise mismatch_error("RuleSet", value) from None


def read_tags(value: Any) -> TaggedPart:
    """Tags of one part: `{"schemaEntity":{"entityPath","entityType"},"tags":[…]}`."""
    if not isinstance(value, dict):
        raise mismatch_error("SchemaTags", value)
    entity = value.get("schemaEntity") or {}
    if not isinstance(entity, dict):
        raise mismatch_error("SchemaEntity", entity)
    tags = list_reader("ArrayList", text)(value.get("tags")) or []
    return TaggedPart(text(entity.get("entityPath")) or "", (text(entity.get("entityType")) or "").lower(), tuple(tags))


SCHEMA: Final[dict[str, Reader]] = {
    "version": integer,
    "id": integer,
    "schemaType": text,
    "references": list_reader("ArrayList", reference),
    "metadata": metadata,
    "ruleSet": rule_set,
    "schema": text,
    "schemaTagsToAdd": list_reader("ArrayList", read_tags),
    "schemaTagsToRemove": list_reader("ArrayList", read_tags),
    "propagateSchemaTags": flag,
}

TAGS: Final[dict[str, Reader]] = {
    "newVersion": integer,
    "tagsToAdd": list_reader("ArrayList", read_tags),
    "tagsToRemove": list_reader("ArrayList", read_tags),
    "metadata": metadata,
}

MODE: Final[dict[str, Reader]] = {"mode": text}

CONFIG: Final[dict[str, Reader]] = {
    "alias": text,
    "aliasForDeks": text,
    "normalize": flag,
    "validateFields": flag,
    "validateNewSchemas": flag,
    "validateRules": flag,
    "compatibility": text,
    "compatibilityPolicy": text,
    "compatibilityGroup": text,
    "defaultMetadata": metadata,
    "overrideMetadata": metadata,
    "defaultRuleSet": lambda value: value,
    "overrideRuleSet": lambda value: value,
}


def new_schema(body: Mapping[str, Any]) -> NewSchema:
    """The schema of a request body read with the fields of SCHEMA."""
    number = id_or_none(body.get("id"))
    return NewSchema(
        text=body.get("schema") or "",
        kind=body.get("schemaType") or "AVRO",
        references=tuple(body.get("references") or ()),
        metadata=body.get("metadata"),
        version=body.get("version"),
        id=number,
        # Dropped, as by Confluent's community server, unless the schema comes with its id from another registry.
        rule_set=None if number is None else body.get("ruleSet"),
        tags_to_add=tuple(body.get("schemaTagsToAdd") or ()),
        tags_to_remove=tuple(body.get("schemaTagsToRemove") or ()),
        keep_tags=bool(body.get("propagateSchemaTags")),
    )


def id_or_none(number: int | None) -> int | None:
    """A negative id means none, as in Java."""
    return None if number is None or number < 0 else number


def tag_request(body: Mapping[str, Any]) -> NewSchema:
    """What a body read with the fields of TAGS changes in a version."""
    return NewSchema(
        metadata=body.get("metadata"),
        version=body.get("newVersion"),
        tags_to_add=tuple(body.get("tagsToAdd") or ()),
        tags_to_remove=tuple(body.get("tagsToRemove") or ()),
    )


def mismatch_error(kind: str, value: Any) -> RegistryError:
    """400 in Jackson's words."""
    if isinstance(value, dict | list):
        word, token = ("Object", "START_OBJECT") if isinstance(value, dict) else ("Array", "START_ARRAY")
        details = f"Cannot deserialize value of type `{kind}` from {word} value (token `JsonToken.{token}`)"
    else:
        details = f"Cannot construct instance of `{kind}` from {json.dumps(value, ensure_ascii=False)}"
    return RegistryError("BAD_REQUEST", details=details)
