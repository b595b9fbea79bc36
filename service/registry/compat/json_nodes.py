"""What the rules for JSON schemas ask about single schemas."""

from __future__ import annotations

from collections.abc import Iterator

from service.registry.json_schema.model import (
    ALL,
    ANY,
    ONE,
    Combined,
    Empty,
    Node,
    Object,
    Place,
    Ref,
    Simple,
    Values,
)


def node_of(place: Place) -> Node:
    """The loader reads every place; a reference that only leads to itself says nothing."""
    return Empty() if place.node is None or isinstance(place.node, Ref) else place.node


def name_of(node: Node) -> str:
    """What kind of schema a node is; different kinds are different types."""
    own = node.name if isinstance(node, Simple) else node.keyword if isinstance(node, Values) else ""
    return f"{type(node).__name__} {own}"


def is_open(node: Object) -> bool:
    """Whether properties that it doesn't name may be anything."""
    return node.additional and node.additional_schema is None and not node.patterns


def alternatives(original: Place, update: Place) -> Iterator[tuple[Place, Place]]:
    """The pairs of which one has to fit where only one side is a combination.

    A combination of one schema is that schema. The update's anyOf or oneOf may fit with any of its schemas; data of the
    original's allOf fits each of its schemas.
    """
    before, after = original.node, update.node
    if isinstance(after, Combined) and (len(after.parts) == 1 or after.criterion in {ANY, ONE}):
        yield from ((original, part) for part in after.parts)
    if isinstance(before, Combined) and (len(before.parts) == 1 or before.criterion == ALL):
        yield from ((part, update) for part in before.parts)


def widens(before: Combined, after: Combined) -> bool:
    """Whether another way of combining allows at least as much."""
    if after.criterion == ANY:
        return True
    return len(before.parts) == 1 and (after.criterion == ONE or len(after.parts) == 1)


def distinct(parts: list[Place]) -> list[Place]:
    """The parts without those that say the same as another."""
    return list({part.identity(): part for part in parts}.values())
