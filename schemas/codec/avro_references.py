"""Schema references: Avro schemas that use types which other subjects define → texts that define all they use.

A registry keeps the references beside the schema (Confluent docs, "Schema references"); a serialiser parses the
schemas referred to first, each with its own, and then knows every named type in them (upstream schema-registry
`AvroSchema`). Here each such type is put where it is used first, as Avro wants a named type defined.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_PRIMITIVES = {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
_NAMED = {"record", "error", "enum", "fixed"}
_MOST = 1000  # schemas that one refers to, directly or through others


@dataclass(frozen=True, slots=True)
class Reference:
    """A version of a subject that a schema refers to; `name` is the type it is referred to for."""

    name: str
    subject: str
    version: int

    def __str__(self) -> str:
        return f"{self.subject} version {self.version}"


@dataclass(frozen=True, slots=True)
class ReferringSchema:
    """A schema's text as it is registered, and what it refers to."""

    text: str
    references: tuple[Reference, ...] = ()


def read_references(rows: Any) -> tuple[Reference, ...]:
    """The member `references` of a registry's answer or of a line of a schemas file. ValueError for another form."""
    if rows is None:
        return ()
    try:
        references = tuple(Reference(row["name"], row["subject"], row["version"]) for row in rows)
    except (LookupError, TypeError):
        references = (Reference("", "", 0),)
    if not all(
        isinstance(r.name, str) and r.subject and isinstance(r.subject, str) and type(r.version) is int
        for r in references
    ):
        raise ValueError('"references" must be a list of {"name","subject","version"}')
    return references


def resolve(schema: ReferringSchema, find: Callable[[Reference], ReferringSchema]) -> str:
    """The schema's text with all types defined in it.

    find: gives a version that is referred to; what it raises is passed on. ValueError, which names the subjects, where
    schemas refer to one another in a circle, and for a text that is no JSON.
    """
    if not schema.references:
        return schema.text
    types: dict[str, tuple[Any, str]] = {}
    seen: set[tuple[str, int]] = set()

    def collect(referring: ReferringSchema, path: tuple[Reference, ...]) -> None:
        for reference in referring.references:
            key = (reference.subject, reference.version)
            if key in ((p.subject, p.version) for p in path):
                circle = ", which refers to ".join(map(str, (*path, reference)))
                raise ValueError(f"its references go in a circle: {circle}")
            if key in seen:
                continue
            if len(seen) >= _MOST:
                raise ValueError(f"it refers to more than {_MOST} schemas")
            seen.add(key)
            other = find(reference)
            collect(other, (*path, reference))
            for name, definition in _definitions(_parse(other.text, str(reference)), ""):
                types.setdefault(name, definition)

    collect(schema, ())
    return json.dumps(_Expansion(types).expand(_parse(schema.text, "it"), ""), ensure_ascii=False)


def record_of(text: str) -> dict[str, Any]:
    """A schema's record; an empty one for what is no JSON object."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


def _parse(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f"{what} is no JSON") from None


def _full_name(node: Mapping[str, Any], namespace: str) -> tuple[str, str]:
    """(full name, namespace within it) of a named type."""
    name = node.get("name")
    if not isinstance(name, str):
        raise ValueError("a named type has no name")
    if "." in name:
        return name, name.rpartition(".")[0]
    inner = node.get("namespace", namespace)
    inner = inner if isinstance(inner, str) else ""
    return (f"{inner}.{name}" if inner else name), inner


def _definitions(node: Any, namespace: str) -> Iterator[tuple[str, tuple[Any, str]]]:
    """The named types that a schema defines: full name, (definition, namespace around it)."""
    if isinstance(node, list):
        for branch in node:
            yield from _definitions(branch, namespace)
    if not isinstance(node, dict):
        return
    inner = namespace
    if node.get("type") in _NAMED:
        full, inner = _full_name(node, namespace)
        yield full, (node, namespace)
        fields = node.get("fields")
        for field in fields if isinstance(fields, list) else ():
            yield from _definitions(field.get("type") if isinstance(field, dict) else None, inner)
    for piece in ("items", "values", "type"):
        yield from _definitions(node.get(piece), inner)


class _Expansion:
    """A schema with the types of others put in, each where it is used first.

    types: those of the schemas referred to, by full name, with the namespace around them.
    """

    def __init__(self, types: Mapping[str, tuple[Any, str]]) -> None:
        self._types = types
        self._defined: set[str] = set()

    def expand(self, node: Any, namespace: str) -> Any:
        if isinstance(node, str):
            return self._named(node, namespace)
        if isinstance(node, list):
            return [self.expand(branch, namespace) for branch in node]
        if not isinstance(node, dict):
            return node
        kind = node.get("type")
        if kind in _NAMED:
            return self._definition(node, namespace)
        if isinstance(kind, str) and kind not in _PRIMITIVES and kind not in ("array", "map"):
            return self._named(kind, namespace)  # {"type": "a.name"} is the name (Avro's Java library takes it so)
        pieces = {piece: self.expand(node[piece], namespace) for piece in ("items", "values") if piece in node}
        if isinstance(kind, dict | list):
            pieces["type"] = self.expand(kind, namespace)
        return {**node, **pieces}

    def _named(self, name: str, namespace: str) -> Any:
        if name in _PRIMITIVES:
            return name
        qualified = name if "." in name or not namespace else f"{namespace}.{name}"
        for full in (qualified, name):  # a name without a namespace is looked for in that around it, then as it is
            if full in self._defined:
                return full
            if full in self._types:
                node, around = self._types[full]
                return self._definition(node, around, moved=True)
        return name

    def _definition(self, node: Mapping[str, Any], namespace: str, moved: bool = False) -> Any:
        full, inner = _full_name(node, namespace)
        if full in self._defined and full in self._types:
            return full
        self._defined.add(full)
        out = dict(node)
        if moved and "." not in out["name"]:
            out["namespace"] = inner
        if isinstance(out.get("fields"), list):
            out["fields"] = [
                {**field, "type": self.expand(field["type"], inner)}
                if isinstance(field, dict) and "type" in field
                else field
                for field in out["fields"]
            ]
        return out
