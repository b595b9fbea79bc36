"""A JSON schema as the registry keeps it: its canonical text, and what it allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, cast

from ticdc_bridge.service.schema_types import base
from ticdc_bridge.service.schema_types.java_text import Json, dump_json
from ticdc_bridge.service.schema_types.java_text import load_schema as load
from ticdc_bridge.service.schema_types.json_schema import tags
from ticdc_bridge.service.schema_types.json_schema.compatibility import incompatibilities
from ticdc_bridge.service.schema_types.json_schema.load import load as load_schema
from ticdc_bridge.service.schema_types.json_schema.model import Object, SchemaLocation

_SHOWN_CHARACTERS: Final = 1_000_000


@dataclass(frozen=True, slots=True, eq=False)
class JsonSchema:
    """`referenced`: what it may refer to, the first of a name counts; `lenient` widens what its comparison accepts."""

    text: str
    value: Json
    referenced: tuple[base.ReferencedText, ...] = ()
    lenient: bool = False
    kind: str = "JSON"
    _kept: list[SchemaLocation] = field(default_factory=list, repr=False)

    @property
    def root(self) -> SchemaLocation:
        """The schema with everything it refers to. Raises SchemaValidityError with Confluent's words first."""
        if not self._kept:
            is_schema = isinstance(self.value, dict | bool)
            try:
                referenced = [(entry.name, load(entry.text)) for entry in self.referenced] if is_schema else []
                self._kept.append(load_schema(self.value, referenced))
            except ValueError as error:
                raise base.SchemaValidityError(f"Invalid JSON{'' if is_schema else ' schema'}: {error}") from None
        return self._kept[0]

    def check_validity(self) -> None:
        """Raises SchemaValidityError for what is JSON and no JSON schema, or leads to what is not there."""
        _ = self.root

    def normalized_text(self) -> str:
        """The text with the keys of all objects sorted."""
        return dump_json(self.value, ordered=True)

    def unordered_text(self, *, normalized: bool = False, resolved: bool = False) -> str:
        """The canonical text: to Confluent, the order of keys makes another schema."""
        return self.normalized_text() if normalized else self.text

    def tags(self) -> list[base.TaggedEntity]:
        return tags.find(self.root)

    def change_tags(self, add: base.Tags, remove: base.Tags) -> str:
        self.check_validity()
        return tags.change(self.value, add, remove)

    def to_lenient(self) -> JsonSchema:
        """The same schema, compared with compatibilityPolicy LENIENT."""
        return replace(self, lenient=True)

    def field_names(self) -> list[str]:
        """The properties that stand outermost in the text, whatever else does."""
        properties = self.value.get("properties") if isinstance(self.value, dict) else None
        return list(properties) if isinstance(properties, dict) else []

    def check_fields(self) -> None:
        """Raises SchemaValidityError for a property of the outermost object that begins with `$$`."""
        node = self.root.node
        if isinstance(node, Object) and any(name.startswith("$$") for name in node.properties):
            raise base.SchemaValidityError("#: Field names cannot start with $$ prefix")

    def differences(self, writer: base.Comparable, reader_word: str, writer_word: str) -> list[str]:
        other = cast(JsonSchema, writer)
        if (self.text, self.referenced) == (other.text, other.referenced):
            return []
        try:
            problems = incompatibilities(other.root, self.root, lenient=self.lenient)
        except (base.ComparisonTooLarge, base.SchemaValidityError) as error:
            return [f"Unexpected exception during compatibility check: {error}"]
        messages: list[str] = []
        size = 0
        for problem in problems:
            messages.append(problem.message(reader_word, writer_word))
            size += len(messages[-1])
            if size > _SHOWN_CHARACTERS and len(messages) < len(problems):  # an answer has no room for all of them
                return [*messages, f"and {len(problems) - len(messages)} more differences"]
        return messages


def parse_json(text: str, referenced: Sequence[base.ReferencedText], strict: bool) -> JsonSchema:
    """Read the text of a JSON schema; one that is not `strict` need not be valid.

    Raises SchemaParseError if the text isn't JSON, with Confluent's words first, and SchemaValidityError.
    """
    try:
        value = load(text)
    except ValueError as error:
        raise base.SchemaParseError(f"Invalid JSON schema: {error}") from None
    schema = JsonSchema(dump_json(value), value, tuple(referenced))
    if strict:
        schema.check_validity()
    return schema
