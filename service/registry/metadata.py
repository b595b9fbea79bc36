"""Metadata of schemas: what a config adds to it, and the version number that some carry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ticdc_bridge.service.registry.model import Metadata

VERSION: Final = "confluent:version"
RESERVED: Final = "confluent:reserved"


def merge_metadata(below: Metadata | None, above: Metadata | None) -> Metadata | None:
    """Both together; where they differ, `above` counts."""
    if below is None or above is None:
        return above if below is None else below
    parts = {
        "tags": {**below.get("tags", {}), **above.get("tags", {})},
        "properties": {**below.get("properties", {}), **above.get("properties", {})},
    }
    both: dict[str, Any] = {name: dict(sorted(part.items())) for name, part in parts.items() if part}
    sensitive = sorted({*below.get("sensitive", ()), *above.get("sensitive", ())})
    return both | ({"sensitive": sensitive} if sensitive else {})


def error_text(metadata: Metadata | None) -> str:
    """As Confluent prints it inside error texts."""
    if metadata is None:
        return "null"
    tags = ", ".join(f"{path}=[{', '.join(names)}]" for path, names in metadata.get("tags", {}).items())
    values = ", ".join(f"{name}={value}" for name, value in properties(metadata).items())
    return (
        f"Metadata{{tags={{{tags}}}, properties={{{values}}}, sensitive=[{', '.join(metadata.get('sensitive', ()))}]}}"
    )


def properties(metadata: Metadata | None) -> Mapping[str, str]:
    values: Mapping[str, str] = (metadata or {}).get("properties", {})
    return values


def with_version(metadata: Metadata | None, version: int) -> Metadata:
    """Metadata that records a version number."""
    return merge_metadata(metadata, {"properties": {VERSION: str(version)}}) or {}


def without_version(metadata: Metadata | None) -> Metadata | None:
    """Metadata without the version number recorded in it; None if nothing else is."""
    if VERSION not in properties(metadata):
        return metadata
    others = {name: value for name, value in properties(metadata).items() if name != VERSION}
    rest = {**(metadata or {}), "properties": others}
    return {name: part for name, part in rest.items() if part} or None


def reserved_names(metadata: Metadata | None) -> set[str]:
    """The field names that the metadata keeps free."""
    return {name.strip() for name in (properties(metadata).get(RESERVED) or "").split(",")} - {""}
