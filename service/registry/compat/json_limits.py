"""Upper and lower bounds of JSON schemas (`maxLength`, `minimum`, …) and `multipleOf`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Context, Decimal, InvalidOperation
from typing import Final

from service.registry.compat.json_messages import limit
from service.registry.json_schema.model import Number

ORDER: Final = {
    "Text": ("maxLength", "minLength"),
    "Numeric": ("maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum"),
    "Object": ("maxProperties", "minProperties"),
    "Array": ("maxItems", "minItems"),
    "contains": ("maxContains", "minContains"),
}
"""The bounds of each type in the order Confluent reports them."""

_EXACT: Final = Context(prec=4000)


def bounds(
    keywords: tuple[str, ...], original: Mapping[str, Number], update: Mapping[str, Number]
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


_UPPER: Final = frozenset({"maxLength", "maximum", "exclusiveMaximum", "maxProperties", "maxItems", "maxContains"})


def multiple_of(before: Number | None, after: Number | None) -> str | None:
    """The difference of two `multipleOf`, if it breaks anything."""
    if after is None or before == after:
        return None
    if before is None:
        return "MULTIPLE_OF_ADDED"
    if _divides(before, after):
        return "MULTIPLE_OF_EXPANDED"
    return None if _divides(after, before) else "MULTIPLE_OF_CHANGED"


def _divides(small: Number, big: Number) -> bool:
    """Whether `big` is a multiple of `small`. Numbers too far apart to divide exactly count as no multiples."""
    try:
        return not _EXACT.remainder(Decimal(big), Decimal(small))
    except InvalidOperation:
        return False
