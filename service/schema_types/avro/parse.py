"""Schema text → tree of nodes, as strict as Confluent is about new schemas.

Rules: Confluent's validateNewSchemas (names ASCII, defaults valid, no duplicates, nothing undefined; measured) and
Apache Avro 1.12's `Schema.Parser`: a name may be used before its definition, `type` of a schema is text, an equal
definition may be there twice, but for records that contain themselves.
"""

import marshal
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from ticdc_bridge.schemas.codec.bounded_cache import BoundedCache
from ticdc_bridge.service.schema_types import java_text
from ticdc_bridge.service.schema_types.avro import canonical, model
from ticdc_bridge.service.schema_types.avro.canonical import canonical_text, equality_text, print_plain_field
from ticdc_bridge.service.schema_types.avro.model import Enum, NamedType, Record, is_valid_default

# Columns that come again: types and fields that name nothing are read and printed once and stand in many schemas.
# A database has few different column types, one more version of a table has the columns of the last one, and the shards
# of a table have the same. What is shared is never changed. The comparison of schemas treats such nodes as different in
# every place (`compatibility`), but knows that one and the same fits itself.
_MOST: Final = 8192
_LONGEST: Final = 512
_WITHOUT_REFERENCES: Final = 2  # a format of `marshal`: equal values are equal bytes, and 1, 1.0 and true are not
_FIELDS_BEGIN: Final = '"fields":['
_BETWEEN_FIELDS: Final = "},{"


def key_of(value: Any) -> bytes:
    """Equal for what is the same JSON, with its keys in the same order. Raises ValueError for what is too deep."""
    try:
        return marshal.dumps(value, _WITHOUT_REFERENCES)
    except ValueError:
        raise ValueError(java_text.TOO_DEEP) from None


class AvroSchemaError(ValueError):
    """The text is not a valid Avro schema; the message is the reason."""


_INITIAL = re.compile(r"[A-Za-z_]")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ORDERS: Final = ("ascending", "descending", "ignore")

_SCHEMA_RESERVED: Final = frozenset(
    {"doc", "fields", "items", "name", "namespace", "size", "symbols", "values", "type", "aliases"}
)
_ENUM_RESERVED: Final = _SCHEMA_RESERVED | {"default"}
_NUMBER: Final = re.compile(r"[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?)")
_PLAIN_FIELD: Final = frozenset({"name", "type", "default"})
_FIELD_RESERVED: Final = frozenset({"default", "doc", "name", "order", "type", "aliases"})


def parse(text: str, named_types: Mapping[str, model.NamedType] | None = None, *, strict: bool = True) -> model.Node:
    """`named_types`: of references, by full name; `strict` False: of the store, not checked. Raises AvroSchemaError."""
    types = named_types or {}
    try:
        return parse_by_fields(text, types, strict) or parse_document(text, types, strict)
    except AvroSchemaError:
        raise
    except ValueError as error:
        raise AvroSchemaError(str(error)) from None
    except RecursionError:  # the depth bound should make this impossible; a crash would be worse
        raise AvroSchemaError("Schema is nested too deeply") from None


def parse_document(text: str, named_types: Mapping[str, model.NamedType], strict: bool) -> model.Node:
    value = java_text.load_avro(text)
    java_text.check_depth(value)
    return _Parser(named_types, strict).parse(value)


def parse_by_fields(text: str, named_types: Mapping[str, model.NamedType], strict: bool) -> model.Node | None:
    """As `parse`, where a record's fields can be read one by one, so that only those not met before have to be.

    None for any other text, and for what is not valid: the complete text says why.

    The text is cut right if it is the JSON of an object with an empty list of `fields`, once those are taken out, and
    each of them within braces is the JSON of an object. Proof: the list is then the last member of the outermost
    object, since a string that ended or began within `"fields":[` would have made the rest no JSON; and JSON in which
    an empty list is filled with values is JSON with those values.
    """
    before, begin, after = text.partition(_FIELDS_BEGIN)
    if before[-1:] not in ("{", ",") or after[:1] != "{" or after[-3:] != "}]}":
        return None  # not a record, or not written without spaces
    try:
        value = java_text.load_compact(f"{before}{begin}]}}")
        if not isinstance(value, dict) or value.get("fields") != []:
            return None
        value["fields"] = [_FIELDS.get(field) or read_field(field) for field in after[1:-3].split(_BETWEEN_FIELDS)]
        java_text.check_depth(value)
        return _Parser(named_types, strict).parse(value)
    except ValueError:
        return None


def read_field(text: str) -> Any:
    """The field that has this text within its braces, as a `model.Field` if it is a plain one, else its JSON."""
    value = java_text.load_compact(f"{{{text}}}")
    field = plain_field(value)
    if field is None:
        return value
    if len(text) <= _LONGEST:
        _FIELDS[text] = field
    return field


def plain_field(value: dict[str, Any]) -> model.Field | None:
    """A field with no more than name, type and default, all valid, of a type that was met before and names nothing."""
    name, kind, default = value.get("name"), value.get("type"), value.get("default", model.MISSING)
    node = _PLAIN.get(kind) if isinstance(kind, str) else _TYPES.get(key_of(kind))
    if node is None or not isinstance(name, str) or not _NAME.fullmatch(name) or not value.keys() <= _PLAIN_FIELD:
        return None
    if not is_valid(default, node):
        return None
    return model.Field(name, node, None, default, _ORDERS[0], _NONE, _NOTHING, *print_plain_field(name, node, default))


# Nothing tells one primitive without attributes from another, so there is one of each.
_PLAIN: Final = {name: model.Primitive(name, shared=f'"{name}"', unordered=f'"{name}"') for name in model.PRIMITIVES}

_TYPES: Final = BoundedCache[bytes, model.Node](_MOST)
_FIELDS: Final = BoundedCache[str, model.Field](_MOST)  # plain ones, by their text
_NONE: Final[list[str]] = []
_NOTHING: Final[dict[str, Any]] = {}


class _Parser:
    def __init__(self, named_types: Mapping[str, model.NamedType], strict: bool) -> None:
        self.known = named_types
        self.strict = strict
        self.names: dict[str, model.NamedType] = {}
        self.open: set[str] = set()  # records whose fields are being read
        self.waiting = False
        self.fields: list[model.Field] = []

    def parse(self, value: Any) -> model.Node:
        root = self.node(value, "")
        if self.waiting:
            root = self.resolve_pending(root)
        if self.strict:
            for field in self.fields:
                if not is_valid(field.default, field.type):
                    what = f"{java_text.dump_json(field.default)} not a {canonical_text(field.type)}"
                    raise AvroSchemaError(f"Invalid default for field {field.name}: {what}")
        return root

    def node(self, value: Any, space: str) -> model.Node:
        if isinstance(value, str):
            return self.by_name(value, space)
        if isinstance(value, list):
            return self.shared_type(value, lambda: self.union(value, space))
        if not isinstance(value, dict):
            raise AvroSchemaError(f"Schema not yet supported: {java_text.dump_json(value)}")
        kind = value.get("type")
        if not isinstance(kind, str):
            raise AvroSchemaError(f"No type: {java_text.dump_json(value)}")
        if kind in model.PRIMITIVES:
            return self.shared_type(
                value, lambda: model.Primitive(kind, props=other_properties(value, _SCHEMA_RESERVED))
            )
        build = _BUILDERS.get(kind)
        return build(self, value, space) if build else self.by_name(kind, space)

    def shared_type(self, value: Any, read: Callable[[], model.Node]) -> model.Node:
        """The node of a primitive, or of a union of such, that was met before; else what `read` makes of it."""
        key = key_of(value)
        node = _TYPES.get(key)
        if node is None:
            node = read()
            if model.names_nothing(node):
                node.shared, node.unordered = canonical_text(node), canonical.unordered_text(node)
                if node.unordered == node.shared:
                    node.unordered = node.shared  # one object, so that comparing them is quick
                if len(key) <= _LONGEST:
                    _TYPES[key] = node
        return node

    def by_name(self, name: str, space: str) -> model.Node:
        if name in model.PRIMITIVES:
            return _PLAIN[name]
        fullname = f"{space}.{name}" if space and "." not in name else name
        for candidate in (fullname, name):
            definition = self.known.get(candidate) or self.names.get(candidate)
            out_of_sight = self.strict and candidate != fullname and candidate in self.open
            if definition is not None and not out_of_sight:
                return definition
        self.waiting = True
        return model.PendingName("pending", fullname=fullname)

    def union(self, values: list[Any], space: str) -> model.Node:
        branches: list[model.Node] = []
        names: set[str] = set()
        for value in values:
            branch = self.node(value, space)
            if isinstance(branch, model.Union):
                raise AvroSchemaError(f"Nested union: {java_text.dump_json(values)}")
            name = model.union_name(branch)
            if name in names:
                raise AvroSchemaError(f"Duplicate in union:{name}")
            names.add(name)
            branches.append(branch)
        return model.Union("union", branches=branches)

    def array(self, value: dict[str, Any], space: str) -> model.Node:
        items = self.member(value, "items", "Array has no items type", space)
        return model.Array("array", items=items, props=other_properties(value, _SCHEMA_RESERVED))

    def map(self, value: dict[str, Any], space: str) -> model.Node:
        values = self.member(value, "values", "Map has no values type", space)
        return model.Map("map", values=values, props=other_properties(value, _SCHEMA_RESERVED))

    def member(self, value: dict[str, Any], key: str, problem: str, space: str) -> model.Node:
        if value.get(key) is None:
            raise AvroSchemaError(f"{problem}: {java_text.dump_json(value)}")
        return self.node(value[key], space)

    def record(self, value: dict[str, Any], space: str) -> model.Node:
        record = model.Record("record", *self.head(value, space), is_error=value["type"] == "error")
        again = self.definition_of(record) is not None
        if record.fullname in self.open:
            raise AvroSchemaError(f"Can't redefine: {record.fullname}")
        if not again:
            self.define(record)
        self.open.add(record.fullname)
        fields = value.get("fields")
        if not isinstance(fields, list):
            raise AvroSchemaError(f"Record has no fields: {java_text.dump_json(value)}")
        space = record.namespace
        record.fields = [item if type(item) is model.Field else self.field(item, space) for item in fields]
        if len({field.name for field in record.fields}) < len(fields):
            indexes: dict[str, int] = {}
            for index, name in enumerate(field.name for field in record.fields):
                if indexes.setdefault(name, index) != index:
                    what = f"{name} pos:{index} and {name} pos:{indexes[name]}"
                    raise AvroSchemaError(f"Duplicate field {name} in record {record.fullname}: {what}.")
        record.props = other_properties(value, _SCHEMA_RESERVED)
        self.open.remove(record.fullname)
        return self.define(record) if again else record

    def field(self, item: Any, space: str) -> model.Field:
        if not isinstance(item, dict):
            raise AvroSchemaError(f"Field is not an object: {java_text.dump_json(item)}")
        plain = plain_field(item)
        if plain is not None:
            return plain
        name = self.check_name(required_text(item, "name", "No field name"))
        if item.get("type") is None:
            raise AvroSchemaError(f"No field type: {java_text.dump_json(item)}")
        order = str(item.get("order", _ORDERS[0])).lower()
        if order not in _ORDERS:
            raise AvroSchemaError(f"No such field order: {item['order']}")
        node, default = self.node(item["type"], space), item.get("default", model.MISSING)
        if node.kind in ("float", "double") and isinstance(default, str) and _NUMBER.fullmatch(default.strip()):
            default = float(default.strip().rstrip("fFdD"))  # as `Double.valueOf` reads it
        field = model.Field(
            name,
            node,
            doc=optional_text(item, "doc"),
            default=default,
            order=order,
            aliases=aliases_of(item),
            props=other_properties(item, _FIELD_RESERVED),
        )
        self.fields.append(field)
        return field

    def enum(self, value: dict[str, Any], space: str) -> model.Node:
        head = self.head(value, space)
        symbols = value.get("symbols")
        if not isinstance(symbols, list):
            raise AvroSchemaError(f"Enum has no symbols: {java_text.dump_json(value)}")
        seen_symbols: set[str] = set()
        for symbol in symbols:
            if not isinstance(symbol, str):
                raise AvroSchemaError(f"Enum symbol is not text: {java_text.dump_json(symbol)}")
            if self.check_name(symbol) in seen_symbols:
                raise AvroSchemaError(f"Duplicate enum symbol: {symbol}")
            seen_symbols.add(symbol)
        default = optional_text(value, "default")
        if default is not None and default not in seen_symbols:
            raise AvroSchemaError(f"The Enum Default: {default} is not in the enum symbol set: [{', '.join(symbols)}]")
        props = other_properties(value, _ENUM_RESERVED)
        return self.define(model.Enum("enum", *head, symbols=symbols, default=default, props=props))

    def fixed(self, value: dict[str, Any], space: str) -> model.Node:
        head = self.head(value, space)
        size = value.get("size")
        if not isinstance(size, int) or isinstance(size, bool):
            raise AvroSchemaError(f"Invalid or no size: {java_text.dump_json(value)}")
        if size < 0:
            raise AvroSchemaError(f"Malformed data. Length is negative: {size}")
        return self.define(model.Fixed("fixed", *head, size=size, props=other_properties(value, _SCHEMA_RESERVED)))

    def head(self, value: dict[str, Any], space: str) -> tuple[str, str, str | None, list[str]]:
        name = required_text(value, "name", "No name in schema")
        namespace = optional_text(value, "namespace")
        if "." in name:
            namespace, _, name = name.rpartition(".")
        elif namespace is None:
            namespace = space
        aliases = aliases_of(value, namespace)
        for word in namespace.split(".") if namespace else ():
            self.check_name(word, f'Namespace part "{word}" is invalid: ')
        for checked in (name, *aliases):  # the namespaces of aliases may be anything
            self.check_name(checked.rpartition(".")[2])
        return name, namespace, optional_text(value, "doc"), aliases

    def definition_of(self, node: model.NamedType) -> model.NamedType | None:
        return self.known.get(node.fullname) or self.names.get(node.fullname)

    def define(self, node: model.NamedType) -> model.NamedType:
        """The definition that counts: this one, or an equal one that was there before. Raises AvroSchemaError."""
        if node.fullname in model.PRIMITIVES:
            raise AvroSchemaError(f"Schemas may not be named after primitives: {node.fullname}")
        definition = self.definition_of(node)
        if definition is None:
            self.names[node.fullname] = node
            return node
        in_references = node.fullname in self.known  # there a record that contains itself is complete
        text = equality_text(node, recursive=in_references)
        if text is None or text != equality_text(definition, recursive=in_references):
            raise AvroSchemaError(f"Can't redefine: {node.fullname}")
        return definition

    def check_name(self, name: str, prefix: str = "") -> str:
        if not self.strict or _NAME.fullmatch(name):
            return name
        if not name:
            raise AvroSchemaError(f"{prefix}Empty name")
        problem = "Illegal character in" if _INITIAL.match(name) else "Illegal initial character"
        raise AvroSchemaError(f"{prefix}{problem}: {name}")

    def resolve_pending(self, node: model.Node, done: set[int] | None = None) -> model.Node:
        """Put the definitions in the places of names that came before them."""
        done = set() if done is None else done
        if isinstance(node, model.PendingName):
            definition = self.names.get(node.fullname)
            if definition is None:
                raise AvroSchemaError(f"Undefined schema: {node.fullname}")
            return definition
        if node.shared or id(node) in done:
            return node
        done.add(id(node))
        match node:
            case model.Array():
                node.items = self.resolve_pending(node.items, done)
            case model.Map():
                node.values = self.resolve_pending(node.values, done)
            case model.Union():
                node.branches = [self.resolve_pending(branch, done) for branch in node.branches]
            case model.Record():
                for field in node.fields:
                    if not field.shared:
                        field.type = self.resolve_pending(field.type, done)
        return node


_BUILDERS: Final[dict[str, Callable[[_Parser, dict[str, Any], str], model.Node]]] = {
    "record": _Parser.record, "error": _Parser.record, "enum": _Parser.enum, "fixed": _Parser.fixed,
    "array": _Parser.array, "map": _Parser.map,
}  # fmt: skip


def is_valid(default: Any, node: model.Node) -> bool:
    if default is None and isinstance(node, model.Union) and _PLAIN["null"] in node.branches[:1]:
        return True  # by far the most common
    return default is model.MISSING or is_valid_default(node, default)


def other_properties(value: dict[str, Any], reserved: frozenset[str]) -> dict[str, Any]:
    if value.keys() <= reserved:
        return {}
    return {key: item for key, item in value.items() if key not in reserved}


def required_text(value: dict[str, Any], key: str, problem: str) -> str:
    text = value.get(key)
    if not isinstance(text, str):
        raise AvroSchemaError(f"{problem}: {java_text.dump_json(value)}")
    return text


def optional_text(value: dict[str, Any], key: str) -> str | None:
    text = value.get(key)
    return text if isinstance(text, str) else None


def aliases_of(value: dict[str, Any], namespace: str | None = None) -> list[str]:
    aliases = value.get("aliases")
    if aliases is None:
        return []
    if not isinstance(aliases, list):
        raise AvroSchemaError(f"aliases not an array: {java_text.dump_json(value)}")
    for alias in aliases:
        if not isinstance(alias, str):
            raise AvroSchemaError(f"alias not a string: {java_text.dump_json(alias)}")
    return list(dict.fromkeys(f"{namespace}.{a}" if namespace and "." not in a else a for a in aliases))


# ---- names where nothing else of a new schema is checked: it is imported, looked up, or `validateNewSchemas` is off
# (Confluent's `AvroSchemaUtils.validateNames`, Avro's `NameValidator.UTF_VALIDATOR`)
_LAST_UNIT = "\uffff"  # Java looks at UTF-16 units, and half of a longer character is no letter


def check_names(types: Iterable[NamedType]) -> None:
    """Checks the names of types, their fields and symbols; namespaces may be anything. Raises AvroSchemaError."""
    for type_ in types:
        check_name(type_.name)
        for field in type_.fields if isinstance(type_, Record) else ():
            check_name(field.name)
        for symbol in type_.symbols if isinstance(type_, Enum) else ():
            check_name(symbol)


def check_name(name: str) -> None:
    """Raises AvroSchemaError for one that is not of letters, decimal digits and `_`, or begins with a digit."""
    if name.isascii() and name.isidentifier():
        return
    if not name:
        raise AvroSchemaError("Empty name")
    if not _is_letter(name[0]):
        raise AvroSchemaError(f"Illegal initial character: {name}")
    if not all(_is_letter(entry) or entry.isdecimal() for entry in name):
        raise AvroSchemaError(f"Illegal character in: {name}")


def _is_letter(letter: str) -> bool:
    return letter == "_" or (letter.isalpha() and letter <= _LAST_UNIT)
