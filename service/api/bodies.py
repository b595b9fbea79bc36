"""Request bodies as Jackson reads them: unknown properties ignored, scalars converted.

A list of fields gives both the reader of a body and its JSON Schema.
"""

import asyncio
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from ticdc_bridge.schemas.model.reasons import reason_of
from ticdc_bridge.service.api.request import ApiCall, Services
from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.registry.deadline import current_deadline
from ticdc_bridge.service.registry.model import NewSchema, Reference, read_rule_set
from ticdc_bridge.service.schema_types.base import TaggedEntity

_DRAINED = 8
_SHORT: Final = 64 * 1024
"""Bytes of a body that is read in less time than a hop to another thread and back holds up others."""
T = TypeVar("T")
_SURROGATES = re.compile("[\ud800-\udfff]")
_INT: Final = 2**31
_FLAGS: Final = {
    "": None, **dict.fromkeys(("true", "True", "TRUE"), True), **dict.fromkeys(("false", "False", "FALSE"), False),
}  # fmt: skip

Json = dict[str, Any]
Reader = Callable[[Any], Any]


class Kind(NamedTuple):
    """The type of a field: how it is read, and its JSON Schema."""

    read: Reader
    schema: Json


Fields = Mapping[str, Kind]


def read_fields(fields: Fields, value: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the `fields` that are there, each as its kind reads it. Raises BAD_REQUEST."""
    return {name: kind.read(value[name]) for name, kind in fields.items() if name in value}


def object_schema(fields: Fields) -> Json:
    return {"type": "object", "properties": {name: kind.schema for name, kind in fields.items()}}


@dataclass(frozen=True, slots=True)
class Body:
    """A JSON object; only the `fields` are kept. `operation` and `entity` are Confluent's names in its errors."""

    operation: str
    entity: str
    fields: Fields

    async def read(self, call: ApiCall) -> dict[str, Any]:
        """Raises REQUEST_TOO_LARGE, SCHEMA_TOO_LARGE, TOO_MANY_REFERENCES, BAD_REQUEST, and UNPROCESSABLE for a body
        that is missing or null.
        """
        return await beside_others(self._fields, await read_body(call), call.services)

    def _fields(self, body: bytes, services: Services) -> dict[str, Any]:
        value = parse(body)
        if value is None:
            raise RegistryError("UNPROCESSABLE", details=f"{self.operation}.request must not be null (was null)")
        if not isinstance(value, dict):
            raise mismatch_error(self.entity, value)
        check_size(value, services)
        return read_fields(self.fields, value)


@dataclass(frozen=True, slots=True)
class CompleteBody:
    """A JSON object as it is, for a rule that checks the `fields` itself. `error` is the code for what is no object."""

    error: str
    fields: Fields

    async def read(self, call: ApiCall) -> dict[str, Any]:
        """Raises REQUEST_TOO_LARGE, BAD_REQUEST, `error`."""
        value = await beside_others(parse, await read_body(call))
        if not isinstance(value, dict):
            raise RegistryError(self.error, details="a JSON object is needed")
        return value


async def beside_others(read: Callable[..., T], body: bytes, *more: Any) -> T:
    """What `read` makes of a body: of a long one in a thread, as what else is asked must not wait for it."""
    return read(body, *more) if len(body) <= _SHORT else await asyncio.to_thread(read, body, *more)


def check_size(body: Mapping[str, Any], services: Services) -> None:
    """Before a body is read. Raises SCHEMA_TOO_LARGE, TOO_MANY_REFERENCES."""
    schema, references, longest = body.get("schema"), body.get("references"), services.max_schema_bytes
    if isinstance(schema, str) and len(schema) * 4 > longest and len(schema.encode("utf-8", "replace")) > longest:
        raise RegistryError("SCHEMA_TOO_LARGE")
    if isinstance(references, list) and len(references) > services.max_references:
        raise RegistryError("TOO_MANY_REFERENCES", count=len(references), limit=services.max_references)


async def read_body(call: ApiCall) -> bytes:
    """The body, if it is not too large. One that is gets read on for a while, so that the client sees the answer."""
    body = getattr(call.request.state, "body", None)
    if body is None:
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
        body = call.request.state.body = b"".join(chunks)
        patience = current_deadline.get()
        if patience is not None:
            patience.start()
    assert isinstance(body, bytes)
    return body


def parse(body: bytes) -> Any:
    """JSON, or None for an empty body. Raises BAD_REQUEST."""
    if not body.strip():
        return None
    try:
        return json.loads(body)
    except RecursionError:
        raise RegistryError("BAD_REQUEST", details="Document nesting depth exceeds the maximum allowed") from None
    except ValueError as error:
        raise RegistryError("BAD_REQUEST", details=reason_of(error)) from None


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
    """A number, or a text of digits; an empty text is null, as for Jackson."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, dict | list | bool):
        raise mismatch_error("Integer", value)
    try:
        number = int(value.replace("_", " ") if isinstance(value, str) else value)
    except (ValueError, OverflowError):
        details = (
            f'Cannot deserialize value of type `Integer` from String "{value}": not a valid `java.lang.Integer` value'
        )
        raise RegistryError("BAD_REQUEST", details=details) from None
    if not -_INT <= number < _INT:
        raise RegistryError("BAD_REQUEST", details=f"Numeric value ({number}) out of range of `int`")
    return number


def flag(value: Any) -> bool | None:
    """true or false; a whole number or a word as Jackson takes them for one. Raises BAD_REQUEST for any other."""
    if value is None or isinstance(value, bool | int):
        return None if value is None else bool(value)
    if not isinstance(value, str):
        raise mismatch_error("Boolean", value)
    if (word := value.strip()) not in _FLAGS:
        details = f'Cannot deserialize value of type `Boolean` from String "{value}": only "true" or "false" recognized'
        raise RegistryError("BAD_REQUEST", details=details)
    return _FLAGS[word]


def name_of_enum(entity: str, *names: str) -> Kind:
    """One of the names, or its number in their order; null stays null."""

    def read(value: Any) -> str | None:
        if value is None or value in names:
            return value  # type: ignore[no-any-return]
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(names):
            return names[value]
        details = f"Cannot deserialize value of type `{entity}` from {json.dumps(value)}: not one of {', '.join(names)}"
        raise RegistryError("BAD_REQUEST", details=details)

    return Kind(read, {"enum": [*names, None]})


TEXT: Final = Kind(text, {"type": ["string", "null"]})
STRING: Final = Kind(text, {"type": "string"})
"""The same, as an element of a list or a map, where nulls are left out."""
INTEGER: Final = Kind(integer, {"type": ["integer", "null"], "format": "int32"})
FLAG: Final = Kind(flag, {"type": ["boolean", "null"]})


def list_of(entity: str, kind: Kind) -> Kind:
    """A list; nulls are left out."""

    def read(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise mismatch_error(entity, value)
        return [kind.read(item) for item in value if item is not None]

    return or_null(Kind(read, {"type": "array", "items": kind.schema}))


def set_of(kind: Kind) -> Kind:
    """A list, sorted and each element once; null is refused, also as an element."""
    elements = list_of("TreeSet", kind)

    def read(value: Any) -> list[Any]:
        if value is None or (isinstance(value, list) and None in value):
            raise mismatch_error("TreeSet", value)
        return sorted(set(elements.read(value)))

    return Kind(read, elements.schema)


def map_of(kind: Kind) -> Kind:
    """An object of any names, sorted by name."""

    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise mismatch_error("TreeMap", value)
        return {text(key) or "": kind.read(value[key]) for key in sorted(value)}

    return or_null(Kind(read, {"type": "object", "additionalProperties": kind.schema}))


def object_of(entity: str, fields: Fields, make: Callable[[dict[str, Any]], Any]) -> Kind:
    """An object; `make` gets those of the `fields` that are there."""

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise mismatch_error(entity, value)
        return make(read_fields(fields, value))

    return Kind(read, object_schema(fields))


def as_is(schema: Json) -> Kind:
    """Anything; the rule that gets it says what is wrong with it."""
    return Kind(lambda value: value, schema)


def or_null(kind: Kind) -> Kind:
    return Kind(lambda value: None if value is None else kind.read(value), kind.schema)


def _tagged_entity(read: Mapping[str, Any]) -> TaggedEntity:
    path, kind = read.get("schemaEntity", ("", ""))
    return TaggedEntity(path, kind, tuple(read.get("tags") or ()))


REFERENCE: Final = object_of(
    "SchemaReference",
    {"name": TEXT, "subject": TEXT, "version": INTEGER},
    lambda read: Reference(read.get("name") or "", read.get("subject"), read.get("version")),
)
METADATA: Final = or_null(
    object_of(
        "Metadata",
        {"tags": map_of(set_of(STRING)), "properties": map_of(STRING), "sensitive": or_null(set_of(STRING))},
        lambda read: {name: value for name, value in read.items() if value},
    )
)
_ENTITY: Final = object_of(
    "SchemaEntity",
    {"entityPath": TEXT, "entityType": name_of_enum("EntityType", "sr_record", "sr_field")},
    lambda read: (read.get("entityPath") or "", read.get("entityType") or "sr_field"),
)
TAGGED_ENTITY: Final = object_of(
    "SchemaTags",
    {
        "schemaEntity": Kind(lambda value: _ENTITY.read(value or {}), _ENTITY.schema),
        "tags": list_of("ArrayList", STRING),
    },
    _tagged_entity,
)
_TAGGED_ENTITIES: Final = list_of("ArrayList", TAGGED_ENTITY)
_RULE: Final = object_of(
    "Rule",
    {
        **dict.fromkeys(("name", "doc", "type", "expr", "onSuccess", "onFailure"), TEXT),
        "kind": name_of_enum("RuleKind", "TRANSFORM", "CONDITION"),
        "mode": name_of_enum("RuleMode", "UPGRADE", "DOWNGRADE", "UPDOWN", "WRITE", "READ", "WRITEREAD"),
        "tags": or_null(set_of(STRING)), "params": map_of(STRING), "disabled": FLAG,
    },
    dict,
)  # fmt: skip
RULE_SET: Final = or_null(
    object_of(
        "RuleSet",
        {
            **dict.fromkeys(("migrationRules", "domainRules", "encodingRules"), list_of("ArrayList", _RULE)),
            "enableAt": name_of_enum("ExecutionEnvironment", "ALL", "CLIENT", "GATEWAY", "SERVER", "NONE"),
        },
        read_rule_set,
    )
)

SCHEMA: Final[Fields] = {
    "version": INTEGER, "id": INTEGER, "schemaType": Kind(text, {"enum": ["AVRO", "JSON", "PROTOBUF"]}),
    "references": list_of("ArrayList", REFERENCE), "metadata": METADATA, "ruleSet": RULE_SET, "schema": TEXT,
    "schemaTagsToAdd": _TAGGED_ENTITIES, "schemaTagsToRemove": _TAGGED_ENTITIES, "propagateSchemaTags": FLAG,
}  # fmt: skip

TAGS: Final[Fields] = {
    "newVersion": INTEGER, "tagsToAdd": _TAGGED_ENTITIES, "tagsToRemove": _TAGGED_ENTITIES, "metadata": METADATA,
}  # fmt: skip

MODE: Final[Fields] = {"mode": TEXT}

CONFIG: Final[Fields] = {
    **dict.fromkeys(("alias", "aliasForDeks"), TEXT),
    **dict.fromkeys(("normalize", "validateFields", "validateNewSchemas", "validateRules"), FLAG),
    **dict.fromkeys(("compatibility", "compatibilityPolicy", "compatibilityGroup"), TEXT),
    **dict.fromkeys(("defaultMetadata", "overrideMetadata"), METADATA),
    **dict.fromkeys(("defaultRuleSet", "overrideRuleSet"), RULE_SET),
}


def new_schema(body: Mapping[str, Any]) -> NewSchema:
    """The schema of a request body read with the fields of SCHEMA."""
    number = body.get("id")
    number = None if number is None or number < 0 else number  # a negative id means none, as in Java
    return NewSchema(
        text=body.get("schema") or "",
        kind="AVRO" if body.get("schemaType") is None else body["schemaType"],
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


def tag_request(body: Mapping[str, Any]) -> NewSchema:
    """The changes to a version that a body asks for, read with the fields of TAGS."""
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
