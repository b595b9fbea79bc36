"""Tree of nodes → text: Java's `Schema.toString()`, and the normalised form of `normalize=true`.

Rules: Apache Avro 1.12; of the normalised form Confluent's, measured with 8.5.0.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from service.schema_types.avro import model
from service.schema_types.avro.defaults import is_valid_default
from service.schema_types.java_text import dump_json, java_double, java_float, quote

_FIRST_PROPS: Final = ("logicalType", "precision", "scale")


def canonical_text(node: model.Node, type_names: Iterable[str] = ()) -> str:
    """The text Confluent stores and hashes. Types whose full name is in `type_names` (references) print as names."""
    return _Writer(set(type_names)).text(node, "")


def canonical_field(field: model.Field) -> str:
    """A field with no more than name, shared type and default, as it stands in the canonical text of any record."""
    default = "" if field.default is model.MISSING else f',"default":{dump_json(field.default)}'
    return f'{{"name":{quote(field.name)},"type":{field.type.shared}{default}}}'


def normalized_text(node: model.Node, type_names: Iterable[str] = ()) -> str:
    """The canonical text with what does not change the meaning put in order."""
    return _NormalWriter(set(type_names)).text(node, "")


class _Writer:
    def __init__(self, type_names: set[str]) -> None:
        self.known = type_names

    def text(self, node: model.Node, space: str) -> str:
        if node.shared and type(self) is _Writer:
            return node.shared
        match node:
            case model.Union():
                return "[" + ",".join(self.text(branch, space) for branch in node.branches) + "]"
            case model.Array():
                return self.object(
                    ['"type":"array"', f'"items":{self.text(node.items, space)}', *self.props(node.props)]
                )
            case model.Map():
                return self.object(
                    ['"type":"map"', f'"values":{self.text(node.values, space)}', *self.props(node.props)]
                )
            case model.NamedType():
                return self.named_type(node, space)
            case model.PendingName():
                return quote(node.fullname)
        props = self.props(node.props)
        return self.object([f'"type":{quote(node.kind)}', *props]) if props else quote(node.kind)

    def named_type(self, node: model.NamedType, space: str) -> str:
        if node.fullname in self.known:
            return quote(printed_name(node.fullname, space))
        self.known.add(node.fullname)
        parts = [f'"type":{quote(self.kind(node))}', f'"name":{quote(node.name)}']
        if node.namespace != space:
            parts.append(f'"namespace":{quote(node.namespace)}')
        parts += self.doc(node.doc)
        match node:
            case model.Record():
                parts.append('"fields":[' + ",".join(self.fields(node)) + "]")
            case model.Enum():
                parts.append('"symbols":' + dump_json(node.symbols))
                if node.default is not None:
                    parts.append(f'"default":{quote(node.default)}')
            case model.Fixed():
                parts.append(f'"size":{node.size}')
        parts += self.props(node.props)
        if node.aliases:
            parts.append(
                '"aliases":' + dump_json(self.aliases([printed_name(a, node.namespace) for a in node.aliases]))
            )
        return self.object(parts)

    def fields(self, record: model.Record) -> list[str]:
        return [field.shared or self.field(field, record.namespace) for field in record.fields]

    def field(self, field: model.Field, space: str) -> str:
        parts = [f'"name":{quote(field.name)}', f'"type":{self.text(field.type, space)}']
        if field.doc is not None:
            parts += self.doc(field.doc)
        if field.default is not model.MISSING:
            parts += self.default(field.type, field.default)
        if field.order != "ascending":
            parts.append(f'"order":{quote(field.order)}')
        if field.aliases:
            parts.append('"aliases":' + dump_json(self.aliases(field.aliases)))
        if field.props:
            parts += self.props(field.props)
        return self.object(parts)

    @staticmethod
    def object(parts: list[str]) -> str:
        return "{" + ",".join(parts) + "}"

    def kind(self, node: model.NamedType) -> str:
        return "error" if isinstance(node, model.Record) and node.is_error else node.kind

    def doc(self, doc: str | None) -> list[str]:
        return [] if doc is None else [f'"doc":{quote(doc)}']

    def default(self, node: model.Node, value: Any) -> list[str]:
        return [f'"default":{dump_json(value)}']

    def aliases(self, aliases: list[str]) -> list[str]:
        return aliases

    def props(self, props: dict[str, Any]) -> list[str]:
        return [f"{quote(key)}:{dump_json(value)}" for key, value in props.items()]


class _NormalWriter(_Writer):
    def fields(self, record: model.Record) -> list[str]:
        return [self.field(field, record.namespace) for field in record.fields]

    def kind(self, node: model.NamedType) -> str:
        return node.kind

    def doc(self, doc: str | None) -> list[str]:
        return super().doc(doc or None)

    def default(self, node: model.Node, value: Any) -> list[str]:
        first = node if not isinstance(node, model.Union) else node.branches[0] if node.branches else None
        if first is None or not is_valid_default(first, value):
            return []  # of a union the first branch counts; what is read leniently may be valid for none
        return [f'"default":{convert_default(node, value)}']

    def aliases(self, aliases: list[str]) -> list[str]:
        return sorted(aliases)

    def props(self, props: dict[str, Any]) -> list[str]:
        first = [key for key in _FIRST_PROPS if key in props]
        rest = sorted(key for key in props if key not in _FIRST_PROPS)
        return super().props({key: sort_deep(props[key]) for key in (*first, *rest)})


def printed_name(fullname: str, space: str) -> str:
    """A full name as printed inside `space`; one that reads like a primitive keeps its namespace."""
    namespace, _, name = fullname.rpartition(".")
    return name if namespace == space and name not in model.PRIMITIVES else fullname


def convert_default(node: model.Node, value: Any) -> str:
    """A default as the type's own value would print: 1 of a double is 1.0."""
    match node:
        case model.Union():
            return convert_default(node.branches[0], value)
        case model.Array():
            return "[" + ",".join(convert_default(node.items, item) for item in value) + "]"
        case model.Map():
            return (
                "{"
                + ",".join(f"{quote(key)}:{convert_default(node.values, item)}" for key, item in value.items())
                + "}"
            )
    if node.kind == "double":
        return java_double(float(value))
    return java_float(float(value)) if node.kind == "float" else dump_json(value)


def sort_deep(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: sort_deep(value[key]) for key in sorted(value)}
    return [sort_deep(item) for item in value] if isinstance(value, list) else value
