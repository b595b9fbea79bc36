"""The differences between JSON schemas that matter: which are distinguished, and Confluent's texts for them.

Differences that never matter (a longer maxLength, a new description …) have no row: they are not reported.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, InvalidOperation
from typing import Any, Final

from ticdc_bridge.service.schema_types.json_schema import model


def count_matches(edges: Sequence[Sequence[int]], right: int) -> int:
    """How many of the left (indices of `edges`) can be paired each with another of its `edges` (0 … right - 1)."""
    owner: list[int] = [-1] * right
    return sum(_find_partner(left, edges, owner) for left in range(len(edges)))


def _find_partner(start: int, edges: Sequence[Sequence[int]], owner: list[int]) -> bool:
    """Give `start` a partner, moving others to another partner where that helps."""
    came_from: dict[int, int] = {}  # partner → the left it was reached from
    waiting = deque([start])
    while waiting:
        left = waiting.popleft()
        for partner in edges[left]:
            if partner in came_from:
                continue
            came_from[partner] = left
            if owner[partner] >= 0:
                waiting.append(owner[partner])
                continue
            # Everyone on the way from `start` to the free partner takes the next one.
            partner_of = {holder: index for index, holder in enumerate(owner) if holder >= 0}
            while left != start:
                owner[partner], partner = left, partner_of[left]
                left = came_from[partner]
            owner[partner] = start
            return True
    return False


_KEYWORD: Final = "The keyword at path '{path}' in the {reader} schema is not present in the {writer} schema"
_MORE: Final = "The value at path '{path}' in the {reader} schema is more than its value in the {writer} schema"
_LESS: Final = "The value at path '{path}' in the {reader} schema is less than its value in the {writer} schema"
_VALUE: Final = "The value at path '{path}' is different between the {reader} and {writer} schema"
_FEWER: Final = (
    "An array or combined type at path '{path}' has fewer elements in the {reader} schema than the {writer} schema"
)
_LONGER: Final = (
    "An array or combined type at path '{path}' has more elements in the {reader} schema than the {writer} schema"
)
_TYPE: Final = "A type at path '{path}' is different between the {reader} schema and the {writer} schema"
_OPEN: Final = (
    "The {reader} schema has an open content model and has a property or item at path '{path}' which is missing in "
    "the {writer} schema"
)
_CLOSED: Final = (
    "The {reader} has a closed content model and is missing a property or item present at path '{path}' in the "
    "{writer} schema"
)
_REMOVED_UNCOVERED: Final = (
    "A property or item is missing in the {reader} schema but present at path '{path}' in the {writer} schema and is "
    "not covered by its partially open content model"
)
_ADDED_UNCOVERED: Final = (
    "The {reader} schema has a property or item at path '{path}' which is missing in the {writer} schema and is not "
    "covered by its partially open content model"
)
_REQUIRED_UNOPEN: Final = (
    "The {reader} schema has an unopen content model and has a required property at path '{path}' which is missing "
    "in the {writer} schema"
)


def limit(keyword: str) -> str:
    """`maxLength` as in the names of differences: MAX_LENGTH."""
    return "".join(f"_{letter}" if letter.isupper() else letter.upper() for letter in keyword)


_UPPER: Final = ("maxLength", "maximum", "exclusiveMaximum", "maxProperties", "maxItems", "maxContains")
_LOWER: Final = ("minLength", "minimum", "exclusiveMinimum", "minProperties", "minItems", "minContains")

TEXTS: Final[dict[str, str]] = {
    "SCHEMA_ADDED": "", "TYPE_NARROWED": _TYPE, "TYPE_CHANGED": _TYPE,
    **{f"{limit(keyword)}_ADDED": _KEYWORD for keyword in (*_UPPER, *_LOWER, "multipleOf", "pattern")},
    **{f"{limit(keyword)}_DECREASED": _LESS for keyword in _UPPER},
    **{f"{limit(keyword)}_INCREASED": _MORE for keyword in _LOWER}, "MULTIPLE_OF_EXPANDED": _MORE,
    "MULTIPLE_OF_CHANGED": _VALUE, "PATTERN_CHANGED": _VALUE, "REQUIRED_ATTRIBUTE_ADDED": _KEYWORD,
    "DEPENDENCY_ARRAY_ADDED": _KEYWORD, "DEPENDENCY_ARRAY_EXTENDED": _LONGER, "DEPENDENCY_ARRAY_CHANGED": _VALUE,
    "DEPENDENCY_SCHEMA_ADDED": _KEYWORD, "ADDITIONAL_PROPERTIES_REMOVED": _KEYWORD,
    "ADDITIONAL_PROPERTIES_NARROWED": _FEWER, "UNEVALUATED_PROPERTIES_REMOVED": _KEYWORD,
    "UNEVALUATED_PROPERTIES_NARROWED": _FEWER, "UNEVALUATED_ITEMS_REMOVED": _KEYWORD,
    "UNEVALUATED_ITEMS_NARROWED": _FEWER, "REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL": _OPEN,
    "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL": _OPEN,
    "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL": _OPEN,
    "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL": _REQUIRED_UNOPEN,
    "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL": _CLOSED,
    "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": _REMOVED_UNCOVERED,
    "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": _ADDED_UNCOVERED, "UNIQUE_ITEMS_ADDED": _KEYWORD,
    "ADDITIONAL_ITEMS_REMOVED": _KEYWORD, "ADDITIONAL_ITEMS_NARROWED": _FEWER,
    "ITEM_ADDED_TO_OPEN_CONTENT_MODEL": _OPEN, "ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL": _CLOSED,
    "ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": _REMOVED_UNCOVERED,
    "ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": _ADDED_UNCOVERED, "ENUM_ARRAY_NARROWED": _FEWER,
    "ENUM_ARRAY_CHANGED": _TYPE, "COMBINED_TYPE_CHANGED": _TYPE, "COMBINED_TYPE_SUBSCHEMAS_CHANGED": _TYPE,
    "PRODUCT_TYPE_EXTENDED": _LONGER, "SUM_TYPE_NARROWED": _FEWER, "NOT_TYPE_EXTENDED": _LONGER,
}  # fmt: skip

LENIENT: Final = frozenset(
    {
        "ADDITIONAL_PROPERTIES_NARROWED", "ADDITIONAL_PROPERTIES_REMOVED",
        "UNEVALUATED_PROPERTIES_NARROWED", "UNEVALUATED_PROPERTIES_REMOVED",
        "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL", "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL",
        "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
    }
)  # fmt: skip
"""Differences that compatibilityPolicy LENIENT accepts besides (upstream schema-registry, `json/diff`)."""


# A path is a chain from the last step to the first: (step, rest), so that differences can share its end.
_Path = tuple[str, Any] | None


@dataclass(frozen=True, slots=True)
class SchemaDifference:
    """`path` leads from the compared schemas to the place."""

    type: str
    path: _Path = None

    def below(self, *steps: str) -> SchemaDifference:
        """The same difference as seen from further up."""
        path = self.path
        for step in reversed(steps):
            path = (step, path)
        return SchemaDifference(self.type, path)

    def steps(self) -> Iterator[str]:
        path = self.path
        while path is not None:
            yield path[0]
            path = path[1]

    def message(self, reader: str, writer: str) -> str:
        """Confluent's text, with its unpaired apostrophe; `reader` and `writer` are the words "new" and "old" in the
        order of the direction.
        """
        what = TEXTS[self.type].format(path="#/" + "/".join(self.steps()), reader=reader, writer=writer)
        return f'{{errorType:"{self.type}", description:"{what}\'}}'


ORDER: Final = {
    "Text": ("maxLength", "minLength"), "Numeric": ("maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum"),
    "Object": ("maxProperties", "minProperties"), "Array": ("maxItems", "minItems"),
    "contains": ("maxContains", "minContains"),
}  # fmt: skip
"""The bounds of each type in the order Confluent reports them."""

_EXACT: Final = Context(prec=4000)


def bounds(
    keywords: tuple[str, ...], original: Mapping[str, model.Number], update: Mapping[str, model.Number]
) -> Iterator[tuple[str, str]]:
    """(difference, keyword) of every bound that the update has and the original has not, or has wider."""
    for keyword in keywords:
        before, after = original.get(keyword), update.get(keyword)
        if after is None:
            continue
        if before is None:
            yield f"{limit(keyword)}_ADDED", keyword
        elif keyword in _UPPER and after < before:
            yield f"{limit(keyword)}_DECREASED", keyword
        elif keyword not in _UPPER and after > before:
            yield f"{limit(keyword)}_INCREASED", keyword


def pattern_change(before: model.Text, after: model.Text) -> str | None:
    if after.pattern is None or after.pattern == before.pattern:
        return None
    return "PATTERN_ADDED" if before.pattern is None else "PATTERN_CHANGED"


def values_change(before: model.Values, after: model.Values) -> str | None:
    if before.values <= after.values:
        return None
    narrowed = before.keyword == "enum" and before.values > after.values
    return "ENUM_ARRAY_NARROWED" if narrowed else "ENUM_ARRAY_CHANGED"


def multiple_of(before: model.Number | None, after: model.Number | None) -> str | None:
    if after is None or before == after:
        return None
    if before is None:
        return "MULTIPLE_OF_ADDED"
    if _divides(before, after):
        return "MULTIPLE_OF_EXPANDED"
    return None if _divides(after, before) else "MULTIPLE_OF_CHANGED"


def _divides(small: model.Number, big: model.Number) -> bool:
    """True if `big` is a multiple of `small`. Numbers too far apart to divide exactly count as no multiples."""
    try:
        return not _EXACT.remainder(Decimal(big), Decimal(small))
    except InvalidOperation:
        return False


def node_of(location: model.SchemaLocation) -> model.Node:
    """The loader reads every place; a reference that only leads to itself says nothing."""
    return model.Empty() if location.node is None or isinstance(location.node, model.Ref) else location.node


def name_of(node: model.Node) -> str:
    """The kind of a node; different kinds are different types."""
    name = node.name if isinstance(node, model.Simple) else node.keyword if isinstance(node, model.Values) else ""
    return f"{type(node).__name__} {name}"


def is_open(node: model.Object | model.Array) -> bool:
    """True if properties or items that it doesn't name may be anything."""
    free = node.unevaluated is None or isinstance(node.unevaluated.node, model.Empty)
    named = isinstance(node, model.Object) and node.patterns
    return node.additional and node.additional_schema is None and free and not named


def rest_schema(node: model.Object | model.Array) -> model.SchemaLocation | None:
    """The schema of the properties or items that a node doesn't name, if it has one."""
    if node.additional_schema is not None or not node.additional or node.unevaluated is None:
        return node.additional_schema
    return None if isinstance(node.unevaluated.node, model.Never | model.Empty) else node.unevaluated


def alternatives(
    original: model.SchemaLocation, update: model.SchemaLocation
) -> Iterator[tuple[model.SchemaLocation, model.SchemaLocation]]:
    """The pairs of which one has to fit where only one side is a combination.

    A combination of one schema is that schema. The update's anyOf or oneOf may fit with any of its schemas; data of the
    original's allOf fits each of its schemas.
    """
    before, after = original.node, update.node
    if isinstance(after, model.Combined):
        subschemas = after.compared_subschemas()
        if len(subschemas) == 1 or after.criterion in {model.ANY, model.ONE}:
            yield from ((original, subschema) for subschema in subschemas)
    if isinstance(before, model.Combined):
        subschemas = before.compared_subschemas()
        if len(subschemas) == 1 or before.criterion == model.ALL:
            yield from ((subschema, update) for subschema in subschemas)


def widens(before: model.Combined, after: model.Combined) -> bool:
    """True if another way of combining allows at least as much."""
    if after.criterion == model.ANY:
        return True
    single_before, single_after = len(before.compared_subschemas()) == 1, len(after.compared_subschemas()) == 1
    if single_after and before.criterion == model.ALL:
        return True
    return single_before and (after.criterion == model.ONE or single_after)


def are_bytes(original: model.SchemaLocation, update: model.SchemaLocation) -> bool:
    """True if both are bytes of Kafka Connect, which may change from one type to another."""
    return all(
        isinstance(entry.raw, dict) and entry.raw.get("connect.type") == "bytes" and not entry.is_subschema()
        for entry in (original, update)
    )


def distinct(subschemas: list[model.SchemaLocation]) -> list[model.SchemaLocation]:
    """The parts without those that say the same as another."""
    return list({subschema.identity(): subschema for subschema in subschemas}.values())
