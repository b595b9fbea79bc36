"""Tree of nodes → text: Java's `Schema.toString()`, the normalised form of `normalize=true`, and one for comparing.

Rules: Apache Avro 1.12; of the normalised form Confluent's, measured with 8.5.0.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final

from ticdc_bridge.service.schema_types.avro import model
from ticdc_bridge.service.schema_types.avro.logical_types import is_logical_type
from ticdc_bridge.service.schema_types.java_text import dump_json, java_double, java_float, quote, utf16

_LOGICAL_PROPS: Final = ("logicalType", "precision", "scale")
_LONG: Final = 2**63
_AS_WRITTEN: Final = {str: ("", "string", "enum"), int: ("", "int", "long"), float: ("",)}
_FLOATS: Final[dict[str, Callable[[float], str]]] = {"double": java_double, "float": java_float}


def canonical_text(node: model.Node, type_names: Iterable[str] = ()) -> str:
    """The text Confluent stores and hashes. Types whose full name is in `type_names` (references) print as names."""
    return _Writer(set(type_names)).text(node, "")


def print_plain_field(name: str, node: model.Node, default: Any) -> tuple[str, str]:
    """A field with no more than a plain name, a shared type and a default, as it stands in the canonical text of any
    record, and as it does in `unordered_text`.
    """
    end = "}" if default is model.MISSING else f',"default":{dump_json(default)}}}'
    shared = f'{{"name":"{name}","type":{node.shared}{end}'
    return shared, shared if node.unordered is node.shared else f'{{"name":"{name}","type":{node.unordered}{end}'


def normalized_text(node: model.Node, type_names: Iterable[str] = ()) -> str:
    """The canonical text with what does not change the meaning put in order."""
    return _NormalWriter(set(type_names)).text(node, "")


def unordered_text(node: model.Node, type_names: Iterable[str] = (), *, normalized: bool = False) -> str:
    """A text that is the same for schemas that Java's `Schema.equals` and Confluent's `AvroSchema` take for equal."""
    writer = _UnorderedNormalWriter if normalized else _UnorderedWriter
    return writer(set(type_names)).text(node, "")


def equality_text(node: model.Node, *, recursive: bool) -> str | None:
    """A text that is the same for definitions that Java's `Schema.equals` takes for equal: no docs, no aliases.

    None for what it can't be equal to while a text is parsed: what uses a name that is not defined yet, and, unless
    `recursive`, what contains itself.
    """
    try:
        return _EqualityWriter(recursive).text(node, "")
    except _Unequal:
        return None


class _Writer:
    def __init__(self, type_names: set[str]) -> None:
        self.known = type_names

    def text(self, node: model.Node, space: str) -> str:
        written = self.shared_text(node)
        if written:
            return written
        match node:
            case model.Union():
                return "[" + ",".join(self.text(branch, space) for branch in node.branches) + "]"
            case model.Array():
                pieces = ['"type":"array"', f'"items":{self.text(node.items, space)}']
            case model.Map():
                pieces = ['"type":"map"', f'"values":{self.text(node.values, space)}']
            case model.NamedType():
                return self.named_type(node, space)
            case model.PendingName():
                return quote(node.fullname)
            case _:
                pieces = [f'"type":{quote(node.kind)}'] if node.props else []
        return "{" + ",".join(pieces + self.type_props(node)) + "}" if pieces else quote(node.kind)

    def named_type(self, node: model.NamedType, space: str) -> str:
        if node.fullname in self.known:
            return quote(printed_name(node.fullname, space))
        self.known.add(node.fullname)
        pieces = [f'"type":{quote(self.kind(node))}', f'"name":{quote(node.name)}']
        if node.namespace != space:
            pieces.append(f'"namespace":{quote(node.namespace)}')
        pieces += self.type_doc(node.doc)
        match node:
            case model.Record():
                pieces.append('"fields":[' + ",".join(self.fields(node)) + "]")
            case model.Enum():
                pieces.append('"symbols":' + dump_json(node.symbols))
                pieces += self.enum_default(node)
            case model.Fixed():
                pieces.append(f'"size":{node.size}')
        pieces += self.type_props(node)
        pieces += self.aliases([printed_name(alias, node.namespace) for alias in self.in_order(node.aliases)])
        return "{" + ",".join(pieces) + "}"

    def fields(self, record: model.Record) -> list[str]:
        return [self.shared_text(field) or self.field(field, record.namespace) for field in record.fields]

    @staticmethod
    def shared_text(node: model.Node | model.Field) -> str:
        """The text of what stands in many places, as this writer writes it; "" for all else."""
        return node.shared

    def field(self, field: model.Field, space: str) -> str:
        pieces = [f'"name":{quote(field.name)}', f'"type":{self.text(field.type, space)}']
        if field.doc is not None:
            pieces += self.doc(field.doc)
        if field.default is not model.MISSING:
            pieces += self.default(field.type, field.default)
        if field.order != "ascending":
            pieces.append(f'"order":{quote(field.order)}')
        pieces += self.aliases(self.in_order(field.aliases))
        if field.props:
            pieces += self.props(field.props)
        return "{" + ",".join(pieces) + "}"

    def kind(self, node: model.NamedType) -> str:
        return "error" if isinstance(node, model.Record) and node.is_error else node.kind

    def type_doc(self, doc: str | None) -> list[str]:
        return self.doc(doc)

    def doc(self, doc: str | None) -> list[str]:
        return [] if doc is None else [f'"doc":{quote(doc)}']

    def default(self, node: model.Node, value: Any) -> list[str]:
        return [f'"default":{dump_json(value)}']

    def enum_default(self, enum: model.Enum) -> list[str]:
        return [] if enum.default is None else [f'"default":{quote(enum.default)}']

    def in_order(self, aliases: list[str]) -> list[str]:
        return aliases

    def aliases(self, aliases: list[str]) -> list[str]:
        return ['"aliases":' + dump_json(aliases)] if aliases else []

    def type_props(self, node: model.Node) -> list[str]:
        return self.props(node.props)

    def props(self, props: dict[str, Any]) -> list[str]:
        return [f"{quote(key)}:{dump_json(value)}" for key, value in props.items()]


class _UnorderedWriter(_Writer):
    @staticmethod
    def shared_text(node: model.Node | model.Field) -> str:
        return node.unordered

    def kind(self, node: model.NamedType) -> str:
        return node.kind

    def default(self, node: model.Node, value: Any) -> list[str]:
        return [f'"default":{dump_json(value, ordered=True)}']

    def in_order(self, aliases: list[str]) -> list[str]:
        return sorted(aliases)

    def props(self, props: dict[str, Any]) -> list[str]:
        return [f"{quote(key)}:{dump_json(props[key], ordered=True)}" for key in sorted(props, key=utf16)]


class _Unequal(Exception):
    """What is being written is equal to nothing."""


class _EqualityWriter(_UnorderedWriter):
    def __init__(self, recursive: bool) -> None:
        super().__init__(set())
        self.recursive = recursive
        self.open: set[str] = set()

    def text(self, node: model.Node, space: str) -> str:
        if isinstance(node, model.PendingName):
            raise _Unequal
        return super().text(node, space)

    def named_type(self, node: model.NamedType, space: str) -> str:
        if node.fullname in self.open and not self.recursive:
            raise _Unequal
        outermost = node.fullname not in self.open
        self.open.add(node.fullname)
        text = super().named_type(node, space)
        if outermost:
            self.open.remove(node.fullname)
        return text

    def doc(self, doc: str | None) -> list[str]:
        return []

    def enum_default(self, enum: model.Enum) -> list[str]:
        return []

    def aliases(self, aliases: list[str]) -> list[str]:
        return []


class _NormalWriter(_UnorderedWriter):
    @staticmethod
    def shared_text(node: model.Node | model.Field) -> str:
        return ""

    def named_type(self, node: model.NamedType, space: str) -> str:
        if not node.namespace and node.fullname not in self.known:  # it is named alone, which means the outer namespace
            node = replace(node, namespace=space)
        return super().named_type(node, space)

    def type_doc(self, doc: str | None) -> list[str]:
        return super().type_doc(doc or None)

    def default(self, node: model.Node, value: Any) -> list[str]:
        text = convert_default(node, value)
        return [] if text is None else [f'"default":{text}']

    def type_props(self, node: model.Node) -> list[str]:
        """A logical type comes first, with what belongs to it; a scale of 0 does not, nor does what Avro ignores."""
        keys: tuple[str, ...] = ()
        if is_logical_type(node):
            keys = _LOGICAL_PROPS if node.props.get("scale") else _LOGICAL_PROPS[:2]
            keys = keys if node.props["logicalType"] == "decimal" else keys[:1]
        rest = {key: value for key, value in node.props.items() if key not in keys}
        return [f"{quote(key)}:{dump_json(node.props[key])}" for key in keys] + self.props(rest)


class _UnorderedNormalWriter(_NormalWriter):
    def type_props(self, node: model.Node) -> list[str]:
        return self.props(node.props)


def printed_name(fullname: str, space: str) -> str:
    """A full name as printed inside `space`; one that reads like a primitive keeps its namespace."""
    namespace, _, name = fullname.rpartition(".")
    return name if namespace == space and name not in model.PRIMITIVES else fullname


def convert_default(node: model.Node | None, value: Any) -> str | None:
    """A default as its type prints it, names sorted, a union by its first branch (Java's `Field.defaultVal`).

    A node of None takes any value. None: nothing is made of it. Raises ValueError where Java fails.
    """
    node = next(iter(node.branches), None) if isinstance(node, model.Union) else node
    kind = node.kind if node else ""
    match value:
        case None | bool():
            return dump_json(value)
        case dict():
            types = dict.fromkeys(value, node.values) if isinstance(node, model.Map) else {}
            if isinstance(node, model.Record):
                types = {field.name: field.type for field in node.fields}
            pieces = (f"{quote(key)}:{convert_part(types.get(key), value[key])}" for key in sorted(value, key=utf16))
            return "{" + ",".join(pieces) + "}"
        case list() if not value or kind in ("", "array"):
            items = node.items if isinstance(node, model.Array) else None
            return "[" + ",".join(convert_part(items, item) for item in value) + "]"
        case list():
            raise ValueError(f"Not an array: {kind}")
        case str() if kind in ("bytes", "fixed"):
            return dump_json(value.encode("latin-1", "replace").decode("latin-1"))
        case int() if not -_LONG <= value < _LONG:
            return None
        case int() | float() if kind in _FLOATS:
            return _FLOATS[kind](float(value))
    return dump_json(value) if kind in _AS_WRITTEN[type(value)] else None


def convert_part(node: model.Node | None, value: Any) -> str:
    text = convert_default(node, value)
    if text is None:
        raise ValueError(f"Part of a default is of another type: {dump_json(value)}")
    return text
