"""Reading the keywords of one schema object, each checked for the type it must have.

Messages are worded as those of the parser Confluent uses ("expected type: Integer, found: String").
"""

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from ticdc_bridge.service.schema_types.java_text import Json, java_type
from ticdc_bridge.service.schema_types.json_schema.model import InvalidSchema, Number, SchemaLocation
from ticdc_bridge.service.schema_types.json_schema.pattern import problem

AddChild = Callable[[Json, SchemaLocation, str], SchemaLocation]
Resolve = Callable[[SchemaLocation, str], SchemaLocation]

_PYTHON: Final[dict[str, tuple[type, ...]]] = {
    "String": (str,), "Boolean": (bool,), "Number": (int, Decimal), "JsonArray": (list,), "JsonObject": (dict,),
}  # fmt: skip


class Fields:
    """The keywords of a schema object, None or nothing for a missing one. InvalidSchema for a wrong type."""

    def __init__(self, location: SchemaLocation, raw: dict[str, Json], child: AddChild, resolve: Resolve) -> None:
        self.location = location
        self.raw = raw
        self._child = child
        self._resolve = resolve

    def has_any(self, keywords: frozenset[str]) -> bool:
        return not keywords.isdisjoint(self.raw)

    def refuse(self, expected: str, value: Json, *steps: str) -> InvalidSchema:
        several = "is one of " if " or " in expected else ""
        type_ = f"type {several}{expected}" if several else f"type: {expected}"
        return InvalidSchema(f"{self.location.where(*steps)}: expected {type_}, found: {java_type(value)}")

    def _check_type(self, value: Json, expected: str, *steps: str) -> Json:
        if not isinstance(value, _PYTHON[expected]) or (isinstance(value, bool) and expected == "Number"):
            raise self.refuse(expected, value, *steps)
        return value

    def _get(self, keyword: str, expected: str) -> Any:
        return self._check_type(self.raw[keyword], expected, keyword) if keyword in self.raw else None

    def string(self, keyword: str) -> str | None:
        value: str | None = self._get(keyword, "String")
        return value

    def boolean(self, keyword: str) -> bool | None:
        value: bool | None = self._get(keyword, "Boolean")
        return value

    def number(self, keyword: str) -> Number | None:
        value: Number | None = self._get(keyword, "Number")
        return value

    def array(self, keyword: str) -> list[Json]:
        return self._get(keyword, "JsonArray") or []

    def strings(self, keyword: str) -> list[str]:
        return self.names(self.array(keyword), keyword)

    def names(self, values: list[Json], *steps: str) -> list[str]:
        return [str(self._check_type(item, "String", *steps, str(at))) for at, item in enumerate(values)]

    def object(self, keyword: str) -> dict[str, Json]:
        return self._get(keyword, "JsonObject") or {}

    def integer(self, keyword: str) -> int | None:
        """A whole number of 32 bits, written without a fraction."""
        value = self.raw.get(keyword)
        if keyword in self.raw and java_type(value) != "Integer":
            raise self.refuse("Integer", value, keyword)
        return value if isinstance(value, int) else None

    def pattern(self, keyword: str) -> str | None:
        text = self.string(keyword)
        if text is not None:
            self.check_pattern(text, keyword)
        return text

    def check_pattern(self, pattern: str, *steps: str) -> None:
        wrong = problem(pattern)
        if wrong:
            raise InvalidSchema(f"{self.location.where(*steps)}: {wrong}")

    def schema(self, keyword: str) -> SchemaLocation | None:
        return self._child(self.raw[keyword], self.location, keyword) if keyword in self.raw else None

    def at(self, value: Json, *steps: str) -> SchemaLocation:
        return self._child(value, self.location, "/".join(steps))

    def schemas(self, keyword: str) -> list[SchemaLocation]:
        return [self.at(item, keyword, str(at)) for at, item in enumerate(self.array(keyword))]

    def schema_map(self, keyword: str) -> dict[str, SchemaLocation]:
        return {name: self.at(value, keyword, name) for name, value in self.object(keyword).items()}

    def pattern_map(self, keyword: str) -> dict[str, SchemaLocation]:
        for pattern in self.object(keyword):
            self.check_pattern(pattern, keyword)
        return self.schema_map(keyword)

    def string_lists(self, keyword: str) -> dict[str, set[str]]:
        """An object of lists of names; empty lists say nothing and are left out."""
        lists = {}
        for name, value in self.object(keyword).items():
            if not isinstance(value, list):
                raise self.refuse("JsonArray", value, keyword, name)
            lists[name] = set(self.names(value, keyword, name))
        return {name: names for name, names in lists.items() if names}

    def target(self) -> SchemaLocation:
        return self.resolve_reference(self.string("$ref") or "")

    def resolve_reference(self, reference: str) -> SchemaLocation:
        return self._resolve(self.location, reference)
