"""Rows of schemas and versions as values of the registry, and back; each row of a schema is held to its digest."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any, Final

from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.registry.model import Content, Reference, StoredVersion

Row = dict[str, Any]

_RULE_SET: Final = "ruleSet"
_ALONE: Final = "noMetadata"


def version_of_row(row: Sequence[Any]) -> StoredVersion:
    """A row of statements.FULL."""
    subject, version, id_, ts, deleted, *content = row
    return StoredVersion(subject, version, id_, content_of(id_, *content), ts, bool(deleted))


def row_digest(schema_id: int, identity: bytes, kind: str, text: str, refs: str, metadata: str | None) -> bytes:
    """The digest that a stored schema carries: over its id and all that is stored of it."""
    head = json.dumps([schema_id, kind, refs, metadata]).encode()
    return hashlib.sha256(b"\0".join((head, identity, text.encode("utf-8", "surrogatepass")))).digest()[:16]


def schema_row(context: str, schema_id: int, content: Content) -> Row:
    """A row of `tables.schemas`. Raises INVALID_SCHEMA for a NUL character, which PostgreSQL's text can't hold."""
    if "\0" in content.text:
        raise RegistryError("INVALID_SCHEMA", details="the schema holds a NUL character (U+0000)")
    refs = json.dumps(
        [[reference.name, reference.subject, reference.version] for reference in content.references], ensure_ascii=False
    )
    metadata = metadata_text(content)
    return {
        "context": context, "id": schema_id, "identity": content.identity, "kind": content.kind, "text": content.text,
        "refs": refs, "metadata": metadata, "likeness": None if content.references else content.likeness,
        "digest": row_digest(schema_id, content.identity, content.kind, content.text, refs, metadata),
    }  # fmt: skip


def version_row(context: str, subject: str, version: int, schema_id: int, ts: int) -> Row:
    return {"context": context, "subject": subject, "version": version, "id": schema_id, "ts": ts, "deleted": False}


def content_of(
    schema_id: int, identity: bytes, kind: str, text: str, refs: str, metadata: str | None, digest: bytes | None
) -> Content:
    """The content of a row. Raises STORE_FAILED if that is not what was stored."""
    identity = bytes(identity)
    if digest is None or bytes(digest) != row_digest(schema_id, identity, kind, text, refs, metadata):
        details = (
            f"the schema with id {schema_id} is damaged in the store: it does not fit its digest. "
            "Check the disk and the connection of the store; restore it from a backup"
        )
        raise RegistryError("STORE_FAILED", details=details)
    references = () if refs == "[]" else tuple(Reference(*load) for load in json.loads(refs))
    body = None if metadata is None else json.loads(metadata)
    if body is None or _RULE_SET not in body:
        return Content(identity, text, kind, references, body)
    rule_set = body.pop(_RULE_SET)
    return Content(identity, text, kind, references, None if body.pop(_ALONE, False) else body, rule_set)


def metadata_text(content: Content) -> str | None:
    """Metadata, and with it the rule set of the few schemas that have one."""
    body = content.metadata
    if content.rule_set is not None:
        alone = {_ALONE: True} if body is None else {}
        body = {**(body or {}), _RULE_SET: content.rule_set, **alone}
    return None if body is None else json.dumps(body, ensure_ascii=False)
