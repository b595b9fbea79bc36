"""A Protobuf schema with what it refers to: the schema type PROTOBUF."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from ticdc_bridge.service.schema_types import base
from ticdc_bridge.service.schema_types.protobuf import descriptor, tags
from ticdc_bridge.service.schema_types.protobuf.canonical import text_of
from ticdc_bridge.service.schema_types.protobuf.compatibility import incompatibilities
from ticdc_bridge.service.schema_types.protobuf.model import File, Message
from ticdc_bridge.service.schema_types.protobuf.parse import parse
from ticdc_bridge.service.schema_types.protobuf.scopes import THIS_SCHEMA, DeclaredNames, Origin
from ticdc_bridge.service.schema_types.protobuf.serialize import serialize_file


@dataclass(frozen=True, slots=True)
class ProtobufSchema:
    """`dependencies` are the referenced files by the path they are imported with."""

    file: File
    dependencies: Mapping[str, tuple[File, Origin | None]]
    text: str
    kind: str = "PROTOBUF"
    _kept: dict[str, str] = field(default_factory=dict, repr=False, compare=False)

    def types(self) -> DeclaredNames:
        """The names this schema may use; built-in files need no import, as with Confluent."""
        types = DeclaredNames(descriptor.known_types())
        for file, origin in self.dependencies.values():
            types.add(file, origin)
        types.add(self.file, THIS_SCHEMA)
        return types

    def normalized_text(self) -> str:
        """Raises ValueError for a type that can't be resolved."""
        if "normalized" not in self._kept:
            self._kept["normalized"] = text_of(self.file, scope=self.types().scope(self.file.package))
        return self._kept["normalized"]

    def unordered_text(self, *, normalized: bool = False, resolved: bool = False) -> str:
        """The canonical text: to Confluent, the order of fields and options makes another schema."""
        return self.normalized_text() if normalized else self.text

    def tags(self) -> list[base.TaggedEntity]:
        return tags.find(self.file)

    def change_tags(self, add: base.Tags, remove: base.Tags) -> str:
        return text_of(tags.change(self.file, add, remove))

    def format_text(self, format_: str) -> str:
        """`serialize_file`: a base64 FileDescriptorProto; `ignore_extensions`: no custom options. Raises ValueError."""
        if format_ == "ignore_extensions":
            return text_of(self.file, ignore_extensions=True)
        if format_ == "serialized":
            existing = self.dependencies.keys() | descriptor.known_files().keys()
            return serialize_file(self.file, existing, self.types().scope(self.file.package))
        return self.text

    def check_validity(self) -> None:
        """Raises SchemaValidityError for a type that can't be resolved, and for what its text can't say again."""
        try:
            if "checked" not in self._kept and text_of(parse(self.text)) != self.text:
                raise ValueError("a name or import path holds characters that the text of a schema cannot")
            self.normalized_text()
        except ValueError as error:
            raise base.SchemaValidityError(str(error)) from None
        self._kept["checked"] = ""

    def check_fields(self) -> None:
        """Raises SchemaValidityError where no descriptor can be made of the schema."""
        descriptor.check_descriptor(self.file, {path: file for path, (file, _) in self.dependencies.items()})

    def field_names(self) -> list[str]:
        """Those of the outermost messages; not those of a oneof, which Confluent leaves out."""
        return [entry.name for type_ in self.file.types if isinstance(type_, Message) for entry in type_.fields]

    def differences(self, writer: base.Comparable, reader_word: str, writer_word: str) -> list[str]:
        old = cast(ProtobufSchema, writer)
        try:
            problems = incompatibilities(old.file, old.types(), self.file, self.types())
        except ValueError as error:
            return [f"Unexpected exception during compatibility check: {error}"]
        return [problem.message(reader_word, writer_word) for problem in problems]


def parse_protobuf(text: str, referenced: Sequence[base.ReferencedText], strict: bool) -> ProtobufSchema:
    """Read a schema; one that is not `strict` need not be valid. Raises SchemaParseError, SchemaValidityError."""
    try:
        file = read(text)
        dependencies: dict[str, tuple[File, Origin | None]] = {}
        for entry in referenced:
            if entry.name not in dependencies or entry.direct:
                origin = Origin(entry.subject, entry.version) if entry.direct else None
                dependencies[entry.name] = read(entry.text), origin
        schema = ProtobufSchema(file, dependencies, text_of(file))
    except ValueError as error:
        raise base.SchemaParseError(f"Could not parse Protobuf - {error}") from None
    if strict:
        schema.check_validity()
    return schema


_BASE64_BYTES: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=")


def read(text: str) -> File:
    """A `.proto` text or the base64 of a descriptor. Raises ValueError with the reason why it is no text."""
    try:
        return parse(text)
    except ValueError as error:
        if text.isascii() and _BASE64_BYTES.issuperset(text.encode()):
            try:
                return descriptor.from_base64(text)
            except ValueError:
                pass
        raise error from None
