"""The MD5 that decides whether two schemas are one: Confluent's, measured; and a digest of likeness."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from ticdc_bridge.service.registry.model import Metadata, Reference
from ticdc_bridge.service.registry.rule_sets import RuleSet, update_hash

_PRESENT = b"\x01"


def identity(
    text: str,
    references: Sequence[Reference] = (),
    metadata: Metadata | None = None,
    rule_set: RuleSet | None = None,
) -> bytes:
    """MD5 over the canonical text, the references, the metadata and the rule set. The schema type is not part of it."""
    digest = hashlib.md5(text.encode("utf-8", "replace"), usedforsecurity=False)
    for reference in references:
        version = reference.version or 0
        digest.update(f"{reference.name}{reference.subject or ''}".encode("utf-8", "replace"))
        digest.update(version.to_bytes(4, "big", signed=True))
    if metadata is not None:
        digest.update(_PRESENT)
        for path, tags in sorted(metadata.get("tags", {}).items()):
            digest.update("".join([path, *sorted(tags)]).encode("utf-8", "replace"))
        for key, value in sorted(metadata.get("properties", {}).items()):
            digest.update(f"{key}{value}".encode("utf-8", "replace"))
        digest.update("".join(sorted(metadata.get("sensitive", ()))).encode("utf-8", "replace"))
    if rule_set is not None:
        digest.update(_PRESENT)
        update_hash(digest, rule_set)
    return digest.digest()


def likeness(unordered_text: str) -> bytes:
    """A digest of `ParsedSchema.unordered_text`: that of schemas which differ in order only is the same.

    Ours, and shown to nobody: Confluent compares the parsed schemas of a subject one by one.
    """
    return hashlib.sha256(unordered_text.encode("utf-8", "replace")).digest()[:16]
