"""From a FileDescriptorProto to a File, as Confluent's registry reads a schema that was sent in base64.

Clients that compile their `.proto` files send descriptors. The options kept are those Confluent lists, in its order;
custom options in a descriptor are unknown fields to it and are left out (its `toProtoFile`).

`check_descriptor` is what `validateFields` asks of a new schema, by the rules of protobuf's Java library
(`Descriptors.FileDescriptor.buildFrom`), which asks less than protoc.
"""

import base64
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any, Final

from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError

from ticdc_bridge.service.schema_types.base import SchemaValidityError
from ticdc_bridge.service.schema_types.protobuf import model
from ticdc_bridge.service.schema_types.protobuf.model import SCALARS, Enum, Extend, Field, File, Message, map_types
from ticdc_bridge.service.schema_types.protobuf.parse import parse
from ticdc_bridge.service.schema_types.protobuf.scopes import THIS_SCHEMA, DeclaredNames, Scope
from ticdc_bridge.service.schema_types.protobuf.tokens import MAX_DEPTH

_PROTO: Final = descriptor_pb2.FieldDescriptorProto
OPTIONS: Final[dict[str, list[str]]] = {
    name: words.split()
    for name, words in {
        "FileOptions": "java_package java_outer_classname java_multiple_files java_generate_equals_and_hash "
        "java_string_check_utf8 optimize_for go_package cc_generic_services java_generic_services py_generic_services "
        "deprecated cc_enable_arenas objc_class_prefix csharp_namespace swift_prefix php_class_prefix php_namespace "
        "php_metadata_namespace ruby_package",
        "MessageOptions": "no_standard_descriptor_accessor deprecated map_entry",
        "FieldOptions": "ctype packed jstype deprecated",
        "EnumOptions": "allow_alias deprecated",
        "EnumValueOptions": "deprecated",
        "ServiceOptions": "deprecated",
        "MethodOptions": "deprecated idempotency_level",
    }.items()
}
"""The options Confluent carries over between texts and descriptors, by the message that holds them, in its order."""


def from_base64(text: str) -> model.File:
    """Raises ValueError if `text` is not the base64 of a FileDescriptorProto."""
    data = base64.b64decode(text + "=" * (-len(text) % 4 if not text.endswith("=") else 0), validate=True)
    try:
        file = descriptor_pb2.FileDescriptorProto.FromString(data)
    except DecodeError as error:
        raise ValueError(str(error)) from None
    if not file.IsInitialized():
        raise ValueError("the descriptor lacks required fields")
    check_texts(file)
    return file_of(file)


def check_texts(message: Any) -> None:
    """Raises ValueError for a name or text that is not UTF-8, which the library gives as bytes."""
    for described, value in message.ListFields():
        values = value if described.is_repeated else [value]
        if described.type == described.TYPE_MESSAGE:
            for entry in values:
                check_texts(entry)
        elif described.type == described.TYPE_STRING and not all(isinstance(item, str) for item in values):
            raise ValueError(f"{described.full_name} is not UTF-8")


def file_of(file: Any) -> model.File:
    """The declarations of a FileDescriptorProto. Raises ValueError for one that contradicts itself."""
    public = set(file.public_dependency)
    proto3 = file.syntax == model.PROTO3
    return model.File(
        syntax=file.syntax if file.syntax in (model.PROTO2, model.PROTO3) else None,
        package=file.package or None,
        imports=[name for index, name in enumerate(file.dependency) if index not in public],
        public_imports=[name for index, name in enumerate(file.dependency) if index in public],
        options=options_of(file.options),
        types=types_of(file.message_type, file.enum_type, proto3, 1),
        services=[service_of(entry) for entry in file.service],
        extends=extends_of(file.extension, proto3),
    )


def types_of(
    messages: Iterable[Any], enums: Iterable[Any], proto3: bool, depth: int
) -> list[model.Message | model.Enum]:
    return [*(message_of(message, proto3, depth) for message in messages), *map(enum_of, enums)]


def message_of(message: Any, proto3: bool, depth: int) -> model.Message:
    if depth > MAX_DEPTH:
        raise ValueError(f"more than {MAX_DEPTH} levels of messages")
    oneofs = [model.OneOf(entry.name) for entry in message.oneof_decl]
    fields = []
    for field in message.field:
        if field.HasField("oneof_index") and not field.proto3_optional:
            if not 0 <= field.oneof_index < len(oneofs):
                raise ValueError(f"the field {field.name} is in a oneof that is not there")
            oneofs[field.oneof_index].fields.append(field_of(field, None, proto3))
        else:
            fields.append(field_of(field, label_of(field, proto3), proto3))
    spans = [span(entry.start, entry.end - 1) for entry in message.reserved_range]
    return model.Message(
        message.name,
        types=types_of(message.nested_type, message.enum_type, proto3, depth + 1),
        options=options_of(message.options),
        reserved=[(entry,) for entry in [*spans, *message.reserved_name]],
        fields=fields,
        oneofs=[oneof for oneof in oneofs if oneof.fields],
        extensions=[(span(entry.start, entry.end - 1),) for entry in message.extension_range],
        extends=extends_of(message.extension, proto3),
    )


def enum_of(enum: Any) -> model.Enum:
    spans = [span(entry.start, entry.end) for entry in enum.reserved_range]
    constants = [model.Constant(entry.name, entry.number, tuple(options_of(entry.options))) for entry in enum.value]
    reserved: list[model.Reserved] = [(entry,) for entry in [*spans, *enum.reserved_name]]
    return model.Enum(enum.name, options_of(enum.options), constants, reserved)


def service_of(service: Any) -> model.Service:
    rpcs = []
    for entry in service.method:
        streams = entry.client_streaming, entry.server_streaming
        rpcs.append(model.Rpc(entry.name, entry.input_type, entry.output_type, *streams, options_of(entry.options)))
    return model.Service(service.name, rpcs, options_of(service.options))


def extends_of(fields: Iterable[Any], proto3: bool) -> list[model.Extend]:
    by_extendee: dict[str, list[model.Field]] = {}
    for field in fields:
        by_extendee.setdefault(field.extendee, []).append(field_of(field, label_of(field, proto3), proto3))
    return [model.Extend(name, fields_) for name, fields_ in by_extendee.items()]


def field_of(field: Any, label: str | None, proto3: bool) -> model.Field:
    return model.Field(
        label,
        field.type_name or _PROTO.Type.Name(field.type).removeprefix("TYPE_").lower(),
        field.name,
        field.number,
        default=field.default_value if field.HasField("default_value") and not proto3 else None,
        json_name=field.json_name if field.HasField("json_name") else None,
        options=tuple(options_of(field.options)),
    )


def label_of(field: Any, proto3: bool) -> str | None:
    if field.proto3_optional:
        return "optional"
    name: str = _PROTO.Label.Name(field.label).removeprefix("LABEL_").lower()
    return None if proto3 and name != "repeated" else name


def options_of(options: Any) -> list[model.Option]:
    result = []
    for name in OPTIONS[options.DESCRIPTOR.name]:
        if options.HasField(name):
            value = getattr(options, name)
            described = options.DESCRIPTOR.fields_by_name[name]
            if isinstance(value, bool):
                result.append(model.Option(name, model.BOOLEAN, str(value).lower()))
            elif described.enum_type is not None:
                result.append(model.Option(name, model.ENUM, described.enum_type.values_by_number[value].name))
            else:
                result.append(model.Option(name, model.STRING, value))
    return result


def span(first: int, last: int) -> int | model.Span:
    return first if first == last else model.Span(first, last)


# ---- files that need no reference: Google's well-known and common types, and Confluent's own (as its server has)
_GOOGLE: Final = {
    "google.protobuf": "any api descriptor duration empty field_mask source_context struct timestamp type wrappers",
    "google.type": "calendar_period color date datetime dayofweek decimal expr fraction interval latlng money month "
    "phone_number postal_address quaternion timeofday",
}

_CONFLUENT: Final = {
    "confluent/meta.proto": """
        syntax = "proto3";
        package confluent;
        import "google/protobuf/descriptor.proto";
        message Meta {
          string doc = 1;
          map<string, string> params = 2;
          repeated string tags = 3;
          repeated Rule rules = 4;
        }
        message Rule { string name = 1; string doc = 2; string expr = 3; string sql = 4; }
        extend google.protobuf.FileOptions { optional Meta file_meta = 1088; }
        extend google.protobuf.MessageOptions { optional Meta message_meta = 1088; }
        extend google.protobuf.FieldOptions { optional Meta field_meta = 1088; }
        extend google.protobuf.EnumOptions { optional Meta enum_meta = 1088; }
        extend google.protobuf.EnumValueOptions { optional Meta enum_value_meta = 1088; }
    """,
    "confluent/type/decimal.proto": """
        syntax = "proto3";
        package confluent.type;
        message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
    """,
    "confluent/type/variant.proto": """
        syntax = "proto3";
        package confluent.type;
        message Variant { bytes metadata = 1; bytes value = 2; }
    """,
}


@cache
def known_files() -> Mapping[str, File]:
    files = {}
    for package, names in _GOOGLE.items():
        for name in names.split():
            proto = descriptor_pb2.FileDescriptorProto()
            import_module(f"{package}.{name}_pb2").DESCRIPTOR.CopyToProto(proto)
            files[proto.name] = file_of(proto)
    return files | {path: parse(text) for path, text in _CONFLUENT.items()}


@cache
def known_types() -> DeclaredNames:
    types = DeclaredNames()
    for file in known_files().values():
        types.add(file, None)
    return types


# ---- what a descriptor must not contradict
_BITS: Final = {"int32": 31, "sint32": 31, "sfixed32": 31, "int64": 63, "sint64": 63, "sfixed64": 63}
_UNSIGNED_BITS: Final = {"uint32": 32, "fixed32": 32, "uint64": 64, "fixed64": 64}


def check_descriptor(file: File, dependencies: Mapping[str, File]) -> None:
    """dependencies: by the paths they are imported with. Raises SchemaValidityError."""
    names = DeclaredNames()
    files = {**known_files(), **dependencies}
    paths, done = [*file.imports, *file.public_imports], set[str]()
    for path in paths:  # a file may name the types of those it imports, and of those that they import publicly
        if path in files and path not in done:
            done.add(path)
            names.add(files[path], None)
            paths += files[path].public_imports
    names.add(file, THIS_SCHEMA)
    problem = next(_problems(file, names.scope(file.package)), "")
    if problem:
        raise SchemaValidityError(f"Invalid protobuf schema definition: {problem}")


def _problems(file: File, scope: Scope) -> Iterator[str]:
    yield from _twice((entry.name for entry in file.types), "the file")
    for type_ in file.types:
        yield from _of_message(type_, scope) if isinstance(type_, Message) else _of_enum(type_)
    yield from _of_extends(file.extends, scope)
    for service in file.services:
        for rpc in service.rpcs:
            yield from (_undefined(service.name, n) for n in (rpc.request, rpc.response) if scope.type(n) is None)


def _of_message(message: Message, outer: Scope) -> Iterator[str]:
    scope = outer.enter(message.name)
    fields = [*message.fields, *(field for oneof in message.oneofs for field in oneof.fields)]
    yield from _twice((entry.name for entry in (*fields, *message.types)), message.name)
    numbers: dict[int, str] = {}
    for field in fields:
        if field.tag in numbers:
            first = numbers[field.tag]
            where = f"{message.name}.{field.name}"
            yield f'{where}: Field number {field.tag} has already been used in "{message.name}" by field "{first}".'
        numbers[field.tag] = field.name
        yield from _of_field(field, message.name, scope)
    for type_ in message.types:
        yield from _of_message(type_, scope) if isinstance(type_, Message) else _of_enum(type_)
    yield from _of_extends(message.extends, scope)


def _of_enum(enum: Enum) -> Iterator[str]:
    if not enum.constants:
        yield f"{enum.name}: Enums must contain at least one value."
    yield from _twice((constant.name for constant in enum.constants), enum.name)


def _of_extends(extends: Iterable[Extend], scope: Scope) -> Iterator[str]:
    for extend in extends:
        meant = scope.type(extend.name)
        if meant is None or isinstance(meant.type, Enum):
            yield _undefined("extend", extend.name)
            continue
        ranges = [range_ for ranges in meant.type.extensions for range_ in ranges]
        spans = [(range_, range_) if isinstance(range_, int) else (range_.first, range_.last) for range_ in ranges]
        for field in extend.fields:
            if not any(first <= field.tag <= last for first, last in spans):
                yield f'{field.name}: "{extend.name}" does not declare {field.tag} as an extension number.'
            yield from _of_field(field, extend.name, scope)


def _of_field(field: Field, owner: str, scope: Scope) -> Iterator[str]:
    where, pieces = f"{owner}.{field.name}", map_types(field.type)
    type_ = pieces[1] if pieces else field.type
    meant = None if type_ in SCALARS else scope.type(type_)
    if type_ not in SCALARS and meant is None:
        yield _undefined(where, type_)
    packed = any(option.name == "packed" and str(option.value).lower() == "true" for option in field.options)
    numeric = type_ in SCALARS and type_ not in ("string", "bytes")
    numeric = numeric or (meant is not None and isinstance(meant.type, Enum))
    if packed and not (field.label == "repeated" and numeric):
        yield f"{where}: [packed = true] can only be specified for repeated primitive fields."
    if field.default is None:
        return
    if meant is not None and isinstance(meant.type, Enum):
        if field.default not in {constant.name for constant in meant.type.constants}:
            yield f'{where}: Unknown enum default value: "{field.default}"'
    elif not _is_default(field.default, type_):
        yield f'{where}: Could not parse default value: "{field.default}"'


def _is_default(text: str, type_: str) -> bool:
    if type_ in _BITS:
        number = _integer(text)
        return number is not None and -(2 ** _BITS[type_]) <= number < 2 ** _BITS[type_]
    if type_ in _UNSIGNED_BITS:
        number = _integer(text)
        return number is not None and 0 <= number < 2 ** _UNSIGNED_BITS[type_]
    if type_ in ("float", "double"):
        try:
            float(text)
        except ValueError:
            return False
    return True


def _integer(text: str) -> int | None:
    """Decimal, 0x… or octal 0…."""
    digits = text.removeprefix("-")
    base = 16 if digits[:2].lower() == "0x" else 8 if digits[:1] == "0" else 10
    try:
        return int(text, base)
    except ValueError:
        return None


def _undefined(where: str, name: str) -> str:
    return f'{where}: "{name}" is not defined.'


def _twice(names: Iterable[str], owner: str) -> Iterator[str]:
    existing = set[str]()
    for name in names:
        if name in existing:
            yield f'{owner}.{name}: "{name}" is already defined in "{owner}".'
        existing.add(name)
