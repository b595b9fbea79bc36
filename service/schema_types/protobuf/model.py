"""A `.proto` file as the registry keeps it: declarations in their order, types as written, nothing resolved."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Union

PROTO2: Final = "proto2"
PROTO3: Final = "proto3"

SCALARS: Final = frozenset(
    "bool bytes double float fixed32 fixed64 int32 int64 sfixed32 sfixed64 sint32 sint64 string uint32 uint64".split()
)
MAX_TAG: Final = 536870911
"""The highest field number; a range that ends here is written `to max`."""

# What an option's value is, which decides how it is written.
STRING: Final = "string"
BOOLEAN: Final = "boolean"
NUMBER: Final = "number"
ENUM: Final = "enum"
MAP: Final = "map"
LIST: Final = "list"
OPTION: Final = "option"


@dataclass(frozen=True, slots=True)
class Word:
    """A number, boolean or enum value inside a map or list, where a plain `str` is a quoted string."""

    kind: str
    text: str


Value = Union[str, Word, dict[str, "Value"], list["Value"], "Option"]


@dataclass(frozen=True, slots=True)
class Option:
    """`name = value`; of kind OPTION when the name has further parts: `(a).b = 1` is a with the value Option b."""

    name: str
    kind: str
    value: Value
    parenthesized: bool = False


@dataclass(frozen=True, slots=True)
class Span:
    """A range of numbers, both ends included."""

    first: int
    last: int


Reserved = tuple[int | str | Span, ...]
"""The values of one `reserved` statement."""

Extensions = tuple[int | Span, ...]
"""The values of one `extensions` statement."""


@dataclass(frozen=True, slots=True)
class Field:
    """`label` is "optional", "required", "repeated" or None; `type` is as written, a map as `map<k, v>`."""

    label: str | None
    type: str
    name: str
    tag: int
    default: str | None = None
    json_name: str | None = None
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    label: str | None
    name: str
    tag: int
    fields: list[Field] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class OneOf:
    name: str
    fields: list[Field] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Extend:
    name: str
    fields: list[Field] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Constant:
    name: str
    tag: int
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class Enum:
    name: str
    options: list[Option] = field(default_factory=list)
    constants: list[Constant] = field(default_factory=list)
    reserved: list[Reserved] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Message:
    name: str
    types: list[Message | Enum] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)
    reserved: list[Reserved] = field(default_factory=list)
    fields: list[Field] = field(default_factory=list)
    oneofs: list[OneOf] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    extensions: list[Extensions] = field(default_factory=list)
    extends: list[Extend] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Rpc:
    name: str
    request: str
    response: str
    request_stream: bool = False
    response_stream: bool = False
    options: list[Option] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Service:
    name: str
    rpcs: list[Rpc] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True)
class File:
    """`syntax` is None when the text names none."""

    syntax: str | None = None
    package: str | None = None
    imports: list[str] = field(default_factory=list)
    public_imports: list[str] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)
    types: list[Message | Enum] = field(default_factory=list)
    services: list[Service] = field(default_factory=list)
    extends: list[Extend] = field(default_factory=list)


def map_types(type_: str) -> tuple[str, str] | None:
    """The key and value type of `map<k, v>`; None for any other type. Raises ValueError for a key that can't be."""
    if not (type_.startswith("map<") and type_.endswith(">")):
        return None
    key, comma, value = type_[4:-1].partition(",")
    if not comma:
        raise ValueError(f"expected ',' in map type: {type_}")
    key = key.strip()
    if key not in SCALARS or key in ("bytes", "double", "float"):
        raise ValueError(f"non-scalar key: {key}")
    return key, value.strip()


def is_map_entry(type_: Message | Enum) -> bool:
    """True if a message stands for the entries of a map, as descriptors write them."""
    if isinstance(type_, Enum):
        return False
    values = [option.value for option in type_.options if option.name == "map_entry"]
    return bool(values) and str(values[-1]).lower() == "true"
