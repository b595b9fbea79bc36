"""`format=serialized`: the base64 of the FileDescriptorProto that Confluent's server makes of a schema.

It is not what protoc would make: the file is called "default", the fields of oneofs come first, types keep the names
they were written with, and a map's entry is named after its field (capture 687 and 746 of json-protobuf.jsonl).
"""

import base64
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any, Final

from google.protobuf import descriptor_pb2

from ticdc_bridge.schemas.codec.varint import uvarint
from ticdc_bridge.service.schema_types.protobuf import model
from ticdc_bridge.service.schema_types.protobuf.descriptor import OPTIONS
from ticdc_bridge.service.schema_types.protobuf.options import as_map, merge_options
from ticdc_bridge.service.schema_types.protobuf.scopes import Scope

_TYPES: Final = descriptor_pb2.FieldDescriptorProto.Type
_LABELS: Final = descriptor_pb2.FieldDescriptorProto.Label
_META: Final = {
    "FileOptions": "confluent.file_meta", "MessageOptions": "confluent.message_meta",
    "FieldOptions": "confluent.field_meta", "EnumOptions": "confluent.enum_meta",
    "EnumValueOptions": "confluent.enum_value_meta",
}  # fmt: skip
_META_FIELDS: Final = (("doc", ()), ("params", ("key", "value")), ("tags", ()), ("rules", ("name", "doc", "expr")))
META_TAG: Final = 1088
"""The number of all of Confluent's extensions of options (confluent/meta.proto)."""


def serialize_file(file: model.File, dependencies: Container[str], scope: Scope) -> str:
    """`dependencies`: the import paths that lead somewhere. Raises ValueError for an option's unknown value."""
    proto = descriptor_pb2.FileDescriptorProto(name="default")
    if file.syntax is not None:
        proto.syntax = file.syntax
    if file.package is not None:
        proto.package = file.package
    for path in file.imports:
        if path in dependencies and path not in proto.dependency:
            proto.dependency.append(path)
    for path in file.public_imports:
        if path in dependencies:
            if path not in proto.dependency:
                proto.dependency.append(path)
            proto.public_dependency.append(list(proto.dependency).index(path))
    for type_ in file.types:
        if isinstance(type_, model.Message):
            add_message(proto.message_type.add(), type_, file.syntax == model.PROTO3, scope)
        else:
            add_enum(proto.enum_type.add(), type_)
    for service in file.services:
        proto_service = proto.service.add(name=service.name)
        for rpc in service.rpcs:
            method = proto_service.method.add(name=rpc.name, input_type=rpc.request, output_type=rpc.response)
            method.client_streaming, method.server_streaming = rpc.request_stream, rpc.response_stream
            set_options(method, rpc.options)
        set_options(proto_service, service.options)
    add_extends(proto.extension.add, file.extends, scope)
    set_options(proto, file.options)
    return base64.b64encode(proto.SerializeToString(deterministic=True)).decode()


def add_message(proto: Any, message: model.Message, proto3: bool, outer: Scope) -> None:
    scope = outer.enter(message.name)
    proto.name = message.name
    for type_ in message.types:
        if isinstance(type_, model.Message):
            add_message(proto.nested_type.add(), type_, proto3, scope)
        else:
            add_enum(proto.enum_type.add(), type_)
    for index, oneof in enumerate(message.oneofs):
        proto.oneof_decl.add(name=oneof.name).options.SetInParent()
        for field in oneof.fields:
            set_field(proto.field.add(oneof_index=index), field, "optional", scope)
    in_oneofs = {field.name for oneof in message.oneofs for field in oneof.fields}
    for field in message.fields:
        if field.name not in in_oneofs:
            add_field(proto, field, proto3, scope)
    add_reserved(proto, message.reserved, after=1)
    for numbers in message.extensions:
        for number in numbers:
            first, last = ends(number)
            proto.extension_range.add(start=first, end=min(last + 1, 2**31 - 1)).options.SetInParent()
    add_extends(proto.extension.add, message.extends, scope)
    set_options(proto, message.options)


def add_field(proto: Any, field: model.Field, proto3: bool, scope: Scope) -> None:
    pieces = model.map_types(field.type)
    if pieces is None:
        proto_field = proto.field.add()
        set_field(proto_field, field, field.label, scope)
        if field.label == "optional" and proto3:
            proto_field.proto3_optional = True
            proto_field.oneof_index = len(proto.oneof_decl)
            proto.oneof_decl.add(name=f"_{field.name}").options.SetInParent()
        return
    name = field.name
    if "_" in name:  # `my_stops` gives `MyStopsEntry` (Guava's LOWER_UNDERSCORE to UPPER_CAMEL), `stops` `stopsEntry`
        name = "".join(word[:1].upper() + word[1:].lower() for word in name.split("_"))
    entry = proto.nested_type.add(name=f"{name}Entry")
    entry.options.map_entry = True
    for tag, (name, type_) in enumerate(zip(("key", "value"), pieces, strict=True), start=1):
        set_type(entry.field.add(name=name, number=tag), type_, scope)
    proto_field = proto.field.add(type_name=entry.name)
    proto_field.label = _LABELS.Value("LABEL_REPEATED")
    set_named(proto_field, field)


def set_field(proto: Any, field: model.Field, label: str | None, scope: Scope) -> None:
    if label is not None:
        proto.label = _LABELS.Value(f"LABEL_{label.upper()}")
    set_type(proto, field.type, scope)
    set_named(proto, field)


def set_named(proto: Any, field: model.Field) -> None:
    proto.name = field.name
    proto.number = field.tag
    if field.default is not None:
        proto.default_value = field.default
    if field.json_name is not None:
        proto.json_name = field.json_name
    set_options(proto, field.options)


def set_type(proto: Any, type_: str, scope: Scope) -> None:
    if type_ in model.SCALARS:
        proto.type = _TYPES.Value(f"TYPE_{type_.upper()}")
        return
    proto.type_name = type_
    declaration = scope.type(type_)
    if declaration is not None:
        proto.type = _TYPES.Value("TYPE_ENUM" if isinstance(declaration.type, model.Enum) else "TYPE_MESSAGE")


def add_enum(proto: Any, enum: model.Enum) -> None:
    proto.name = enum.name
    for constant in enum.constants:
        set_options(proto.value.add(name=constant.name, number=constant.tag), constant.options)
    add_reserved(proto, enum.reserved, after=0)
    set_options(proto, enum.options)


def add_reserved(proto: Any, reserved: Iterable[model.Reserved], after: int) -> None:
    """after: how far behind the last number a range ends."""
    for value in (value for values in reserved for value in values):
        if isinstance(value, str):
            proto.reserved_name.append(value)
        else:
            first, last = ends(value)
            proto.reserved_range.add(start=first, end=min(last + after, 2**31 - 1))


def add_extends(add: Callable[..., Any], extends: Iterable[model.Extend], scope: Scope) -> None:
    for extend in extends:
        for field in extend.fields:
            set_field(add(extendee=extend.name), field, field.label, scope)


def ends(value: int | model.Span) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value.first, value.last)


def set_options(proto: Any, options: Iterable[model.Option]) -> None:
    """The options of OPTIONS (the last of equal ones) and Confluent's meta data. Raises ValueError for a bad value."""
    by_name: dict[str, list[model.Option]] = {}
    for option in options:
        by_name.setdefault(option.name.removeprefix("."), []).append(option)
    described = proto.options.DESCRIPTOR
    for name in OPTIONS[described.name]:
        if name in by_name:
            set_option(proto.options, described.fields_by_name[name], by_name[name][-1].value)
    meta = by_name.get(_META.get(described.name, ""))
    if meta:
        value = merge_options([as_map(entry) for entry in meta]).value
        proto.options.MergeFromString(delimit(META_TAG, message_bytes("Confluent's meta data", value, _META_FIELDS)))


def set_option(options: Any, described: Any, value: model.Value) -> None:
    if not isinstance(value, str):
        raise ValueError(f"{described.name} must be a single value")
    if described.enum_type is not None:
        number = described.enum_type.values_by_name.get(value)
        if number is None:
            raise ValueError(f"{described.name} = {value} is not known")
        setattr(options, described.name, number.number)
    elif described.cpp_type == described.CPPTYPE_BOOL:
        setattr(options, described.name, value.lower() == "true")
    else:
        setattr(options, described.name, value)


def message_bytes(name: str, value: model.Value, fields: Sequence[tuple[str, Sequence[str]]]) -> bytes:
    """A message of (field, the texts within it), which are numbered from 1; a field without these is a text."""
    if not isinstance(value, dict):
        raise ValueError(f"{name} must be a message")
    pieces = []
    for tag, (field, inner) in enumerate(fields, 1):
        of_texts = [(text, ()) for text in inner]
        values = (message_bytes(field, entry, of_texts) for entry in list_values(value.get(field)))
        pieces += [delimit(tag, data) for data in (values if inner else texts(value.get(field)))]
    return b"".join(pieces)


def list_values(value: model.Value | None) -> list[model.Value]:
    return [] if value is None else value if isinstance(value, list) else [value]


def texts(value: model.Value | None) -> list[bytes]:
    values = list_values(value)
    if not all(isinstance(entry, str) for entry in values):
        raise ValueError("Confluent's meta data must be texts")
    return [str(entry).encode() for entry in values]


def delimit(tag: int, data: bytes) -> bytes:
    return uvarint(tag << 3 | 2) + uvarint(len(data)) + data
