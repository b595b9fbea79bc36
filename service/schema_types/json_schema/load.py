"""From a JSON text to the model: every schema object that can be reached is read and checked.

Works off a list instead of calling itself, so that no nesting or chain of references exhausts the stack.
"""

from collections.abc import Sequence
from typing import Any, Final

from ticdc_bridge.service.schema_types.java_text import Json, kind_of
from ticdc_bridge.service.schema_types.json_schema import drafts_4_to_7, drafts_2019_2020, model
from ticdc_bridge.service.schema_types.json_schema.fields import Fields
from ticdc_bridge.service.schema_types.json_schema.model import Document, InvalidSchema, SchemaLocation
from ticdc_bridge.service.schema_types.json_schema.references import Library, rebase

DEFAULT_DRAFT: Final = 7
_LAST_CLASSIC: Final = 7

# The part of `$schema` that tells the draft; anything else is read as draft 7.
_DRAFTS: Final = {
    "json-schema.org/draft-04/schema": 4, "json-schema.org/draft-06/schema": 6, "json-schema.org/draft-07/schema": 7,
    "json-schema.org/draft/2019-09/schema": 2019, "json-schema.org/draft/2020-12/schema": 2020,
}  # fmt: skip


def load(root: Json, referenced: Sequence[tuple[str, Json]] = ()) -> SchemaLocation:
    """The root's place with all below it read; `referenced`: (name, schema). Raises InvalidSchema."""
    if not isinstance(root, dict | bool):
        raise InvalidSchema(f"expected an object or boolean at the root, found {kind_of(root)}")
    return _Loader(with_definitions(root), [(name, with_definitions(value)) for name, value in referenced]).run()


def with_definitions(root: Any) -> Any:
    """A document whose outermost `definitions` are also `$defs` in every draft, as Confluent has them; `$defs` win."""
    definitions = root.get("definitions") if isinstance(root, dict) else None
    if not definitions or not isinstance(definitions, dict) or not isinstance(root.get("$defs", {}), dict):
        return root
    return {**root, "$defs": {**definitions, **root.get("$defs", {})}}


def draft_of(root: Json, inherited: int) -> int:
    """The draft that `$schema` names. Raises InvalidSchema if that isn't a text."""
    uri = root.get("$schema") if isinstance(root, dict) else None
    if uri is None:
        return inherited
    if not isinstance(uri, str):
        raise InvalidSchema("#/$schema: expected type: String")
    key = uri.removeprefix("http://").removeprefix("https://").rstrip("#")
    return _DRAFTS.get(key, inherited)


class _Loader:
    def __init__(self, root: dict[str, Json] | bool, referenced: Sequence[tuple[str, Json]]) -> None:
        draft = draft_of(root, DEFAULT_DRAFT)
        document = Document("", root, draft > _LAST_CLASSIC, draft)
        for name, value in () if document.modern else referenced:
            if not isinstance(value, dict):  # Confluent reads every one, wanted or not
                raise InvalidSchema(f"'{name}' is no object but {kind_of(value)}")
        self.waiting: list[SchemaLocation] = []
        self.library = Library(document, referenced, draft_of)
        self.root = self.locate_schema(root, document, "", None, "")

    def run(self) -> SchemaLocation:
        while self.waiting:
            location = self.waiting.pop()
            location.node = self.read(location)
        return self.root

    def read(self, location: SchemaLocation) -> model.Node:
        if isinstance(location.raw, bool):
            return model.Empty() if location.raw else model.Never()
        assert isinstance(location.raw, dict)
        fields = Fields(location, location.raw, self.child, self.resolve)
        return drafts_2019_2020.build(fields) if location.document.modern else drafts_4_to_7.build(fields)

    def child(self, raw: Json, parent: SchemaLocation, step: str) -> SchemaLocation:
        if not isinstance(raw, dict | bool):
            kinds = "boolean or object" if parent.document.modern else "Boolean or JsonObject"
            raise InvalidSchema(f"{parent.where(step)}: expected {kinds}, found {kind_of(raw).lower()}")
        return self.locate_schema(raw, parent.document, parent.base, parent, step)

    def locate_schema(
        self, raw: dict[str, Json] | bool, document: Document, base: str, parent: SchemaLocation | None, step: str
    ) -> SchemaLocation:
        """The place of a schema, made when it is met first."""
        known_location = document.locations.get(id(raw)) if isinstance(raw, dict) else None
        if known_location is not None:
            return known_location
        location = SchemaLocation(raw, document, rebase(base, raw, document), parent, step)
        if isinstance(raw, dict):
            document.locations[id(raw)] = location
        self.waiting.append(location)
        return location

    def resolve(self, location: SchemaLocation, reference: str) -> SchemaLocation:
        """The target of a reference in the schema at `location`. Raises InvalidSchema."""
        target = self.library.find(location, reference)
        if target is None:
            raise InvalidSchema(f"{location.where('$ref')}: can't resolve reference '{reference[:400]}'")
        document, raw, base = target
        if not isinstance(raw, dict | bool):
            raise InvalidSchema(
                f"{location.where('$ref')}: '{reference[:400]}' leads to no schema but to {kind_of(raw)}"
            )
        return self.locate_schema(raw, document, base, None, reference)
