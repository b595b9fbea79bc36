"""Whether a descriptor can be made of a schema: what `validateFields` asks of a new one, as Confluent's server does.

The rules are those of protobuf's Java library (`Descriptors.FileDescriptor.buildFrom`), which asks less than protoc.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from ticdc_bridge.service.schema_types.base import SchemaValidityError
from ticdc_bridge.service.schema_types.protobuf.built_in import known_files
from ticdc_bridge.service.schema_types.protobuf.model import SCALARS, Enum, Extend, Field, File, Message, map_parts
from ticdc_bridge.service.schema_types.protobuf.scopes import OWN, DeclaredNames, Scope

_BITS: Final = {"int32": 31, "sint32": 31, "sfixed32": 31, "int64": 63, "sint64": 63, "sfixed64": 63}
_UNSIGNED_BITS: Final = {"uint32": 32, "fixed32": 32, "uint64": 64, "fixed64": 64}
_NOT_PACKED: Final = ("string", "bytes")


def check_descriptor(file: File, dependencies: Mapping[str, File]) -> None:
    """dependencies: by the paths they are imported with. Raises SchemaValidityError."""
    names = DeclaredNames()
    for one in _visible(file, {**known_files(), **dependencies}):
        names.add(one, None)
    names.add(file, OWN)
    problem = next(_problems(file, names.scope(file.package)), "")
    if problem:
        raise SchemaValidityError(f"Invalid protobuf schema definition: {problem}")


def _visible(file: File, files: Mapping[str, File]) -> Iterator[File]:
    """The files whose types a file may name: those it imports, and what those import publicly."""
    waiting, done = [*file.imports, *file.public_imports], set[str]()
    for path in waiting:
        if path in files and path not in done:
            done.add(path)
            yield files[path]
            waiting += files[path].public_imports


def _problems(file: File, scope: Scope) -> Iterator[str]:
    yield from _twice((one.name for one in file.types), "the file")
    for one in file.types:
        yield from _of_message(one, scope) if isinstance(one, Message) else _of_enum(one)
    yield from _of_extends(file.extends, scope)
    for service in file.services:
        for rpc in service.rpcs:
            yield from (_undefined(service.name, n) for n in (rpc.request, rpc.response) if scope.type(n) is None)


def _of_message(message: Message, outer: Scope) -> Iterator[str]:
    scope = outer.enter(message.name)
    fields = [*message.fields, *(field for oneof in message.oneofs for field in oneof.fields)]
    yield from _twice((one.name for one in (*fields, *message.types)), message.name)
    numbers: dict[int, str] = {}
    for field in fields:
        if field.tag in numbers:
            first = numbers[field.tag]
            where = f"{message.name}.{field.name}"
            yield f'{where}: Field number {field.tag} has already been used in "{message.name}" by field "{first}".'
        numbers[field.tag] = field.name
        yield from _of_field(field, message.name, scope)
    for one in message.types:
        yield from _of_message(one, scope) if isinstance(one, Message) else _of_enum(one)
    yield from _of_extends(message.extends, scope)


def _of_enum(enum: Enum) -> Iterator[str]:
    if not enum.constants:
        yield f"{enum.name}: Enums must contain at least one value."
    yield from _twice((one.name for one in enum.constants), enum.name)


def _of_extends(extends: Iterable[Extend], scope: Scope) -> Iterator[str]:
    for extend in extends:
        meant = scope.type(extend.name)
        if meant is None or isinstance(meant.type, Enum):
            yield _undefined("extend", extend.name)
            continue
        ranges = [one for ranges in meant.type.extensions for one in ranges]
        spans = [(one, one) if isinstance(one, int) else (one.first, one.last) for one in ranges]
        for field in extend.fields:
            if not any(first <= field.tag <= last for first, last in spans):
                yield f'{field.name}: "{extend.name}" does not declare {field.tag} as an extension number.'
            yield from _of_field(field, extend.name, scope)


def _of_field(field: Field, owner: str, scope: Scope) -> Iterator[str]:
    where, parts = f"{owner}.{field.name}", map_parts(field.type)
    type_ = parts[1] if parts else field.type
    meant = None if type_ in SCALARS else scope.type(type_)
    if type_ not in SCALARS and meant is None:
        yield _undefined(where, type_)
    packed = any(one.name == "packed" and str(one.value).lower() == "true" for one in field.options)
    numeric = type_ in SCALARS and type_ not in _NOT_PACKED
    numeric = numeric or (meant is not None and isinstance(meant.type, Enum))
    if packed and not (field.label == "repeated" and numeric):
        yield f"{where}: [packed = true] can only be specified for repeated primitive fields."
    if field.default is None:
        return
    if meant is not None and isinstance(meant.type, Enum):
        if field.default not in {one.name for one in meant.type.constants}:
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
    there = set[str]()
    for name in names:
        if name in there:
            yield f'{owner}.{name}: "{name}" is already defined in "{owner}".'
        there.add(name)
