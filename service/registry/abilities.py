"""What a parsed schema may be able to do beyond `kinds.Parsed`; a schema type has the methods or it does not."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from service.registry.compat.logical import Change
from service.registry.model import Tagged, Tags


@runtime_checkable
class HoldsTags(Protocol):
    """Tags can be written inside the schema."""

    def tags(self) -> list[Tagged]: ...
    def retagged(self, add: Tags, remove: Tags) -> str:
        """The text with tags added and removed. Raises ValueError for a part that is not there."""


@runtime_checkable
class HasFields(Protocol):
    """The outermost part has named fields."""

    def field_names(self) -> list[str]: ...


@runtime_checkable
class HasLogicalTypes(Protocol):
    """The meaning of a value can change while its physical type stays."""

    def logical_changes(self, old: object) -> list[Change]: ...


@runtime_checkable
class Formats(Protocol):
    """The schema can be printed in other forms than its canonical text."""

    def formatted(self, format_: str) -> str:
        """The text in a `format` of the API; the canonical text for one that this type does not know.

        Raises ValueError for a schema that the format can't hold.
        """
