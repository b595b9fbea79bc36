"""The files that need no reference: Google's well-known and common types, and Confluent's own (as its server has)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Final

from google.protobuf import descriptor_pb2

from ticdc_bridge.service.schema_types.protobuf.descriptor import file_of
from ticdc_bridge.service.schema_types.protobuf.model import File
from ticdc_bridge.service.schema_types.protobuf.parse import parse
from ticdc_bridge.service.schema_types.protobuf.scopes import DeclaredNames

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
    """Every built-in file by its import path."""
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
