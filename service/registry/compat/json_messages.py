"""The differences between JSON schemas that matter, and Confluent's texts for them.

Differences that never matter (a longer maxLength, a new description …) have no row: they are not reported.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

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
    "SCHEMA_ADDED": "",
    "TYPE_NARROWED": _TYPE,
    "TYPE_CHANGED": _TYPE,
    **{f"{limit(keyword)}_ADDED": _KEYWORD for keyword in (*_UPPER, *_LOWER, "multipleOf", "pattern")},
    **{f"{limit(keyword)}_DECREASED": _LESS for keyword in _UPPER},
    **{f"{limit(keyword)}_INCREASED": _MORE for keyword in _LOWER},
    "MULTIPLE_OF_EXPANDED": _MORE,
    "MULTIPLE_OF_CHANGED": _VALUE,
    "PATTERN_CHANGED": _VALUE,
    "REQUIRED_ATTRIBUTE_ADDED": _KEYWORD,
    "DEPENDENCY_ARRAY_ADDED": _KEYWORD,
    "DEPENDENCY_ARRAY_EXTENDED": _LONGER,
    "DEPENDENCY_ARRAY_CHANGED": _VALUE,
    "DEPENDENCY_SCHEMA_ADDED": _KEYWORD,
    "ADDITIONAL_PROPERTIES_REMOVED": _KEYWORD,
    "ADDITIONAL_PROPERTIES_NARROWED": _FEWER,
    "REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL": _OPEN,
    "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL": _OPEN,
    "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL": _OPEN,
    "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL": _REQUIRED_UNOPEN,
    "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL": _CLOSED,
    "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": _REMOVED_UNCOVERED,
    "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": _ADDED_UNCOVERED,
    "UNIQUE_ITEMS_ADDED": _KEYWORD,
    "ADDITIONAL_ITEMS_REMOVED": _KEYWORD,
    "ADDITIONAL_ITEMS_NARROWED": _FEWER,
    "ITEM_ADDED_TO_OPEN_CONTENT_MODEL": _OPEN,
    "ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL": _CLOSED,
    "ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": _REMOVED_UNCOVERED,
    "ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": _ADDED_UNCOVERED,
    "ENUM_ARRAY_NARROWED": _FEWER,
    "ENUM_ARRAY_CHANGED": _TYPE,
    "COMBINED_TYPE_CHANGED": _TYPE,
    "COMBINED_TYPE_SUBSCHEMAS_CHANGED": _TYPE,
    "PRODUCT_TYPE_EXTENDED": _LONGER,
    "SUM_TYPE_NARROWED": _FEWER,
    "NOT_TYPE_EXTENDED": _LONGER,
}

LENIENT: Final = frozenset(
    {
        "ADDITIONAL_PROPERTIES_NARROWED",
        "ADDITIONAL_PROPERTIES_REMOVED",
        "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL",
        "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL",
        "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL",
        "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
    }
)
"""What compatibilityPolicy LENIENT accepts besides (registry-api.md §6 "JSON Schema")."""


def rendered(type_: str, path: Iterable[str], reader: str, writer: str) -> str:
    """Confluent's text of one difference, with its unpaired apostrophe."""
    what = TEXTS[type_].format(path="#/" + "/".join(path), reader=reader, writer=writer)
    return f'{{errorType:"{type_}", description:"{what}\'}}'
