"""What a `$ref` leads to: a place in the same text, a schema with an id or anchor, or a schema registered by name.

Names of references are URIs relative to the `$id` of the schema that was sent. Nothing is ever fetched. Of JSON
Schema's own meta-schemas only the types of most keywords are known; another part stands for "anything".
"""

import re
from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import unquote, unquote_plus, urldefrag, urljoin

from ticdc_bridge.service.schema_types.java_text import Json
from ticdc_bridge.service.schema_types.json_schema.model import Document, InvalidSchema, SchemaLocation

DRAFT_4: Final = 4
MAX_URI: Final = 1024
"""Characters of a resolved URI; keeps a text with many ids below a long one from becoming much longer in memory."""

_TYPES_OF_KEYWORDS: Final[dict[str, str]] = {
    "string": "$schema title description pattern", "number": "multipleOf maximum minimum",
    "integer": "maxLength minLength maxItems minItems maxProperties minProperties", "boolean": "uniqueItems",
    "array": "required enum", "object": "definitions properties patternProperties dependencies",
}  # fmt: skip
"""What JSON Schema's keywords hold in every draft (draft-07, 6 and 9; draft-04, validation, 5)."""
_OF_DRAFT: Final[dict[str, dict[str, str]]] = {
    "draft-04": {"string": "id", "boolean": "exclusiveMaximum exclusiveMinimum"},
    "draft-06": {"string": "$id $ref", "number": "exclusiveMaximum exclusiveMinimum"},
    "draft-07": {
        "string": "$id $ref $comment contentMediaType", "number": "exclusiveMaximum exclusiveMinimum",
        "boolean": "readOnly",
    },
}  # fmt: skip


def _meta_schema(address: str) -> Json:
    """A meta-schema as far as types of keywords tell it from other schemas."""
    draft = next((name for name in _OF_DRAFT if f"/{name}/" in address), "draft-07")
    both = [*_TYPES_OF_KEYWORDS.items(), *_OF_DRAFT[draft].items()]
    keywords: dict[str, Json] = {word: {"type": kind} for kind, words in both for word in words.split()}
    positive: Json = {"type": "integer", "minimum": 0}
    definitions: dict[str, Json] = {"positiveInteger" if draft == "draft-04" else "nonNegativeInteger": positive}
    kinds: Json = "object" if draft == "draft-04" else ["object", "boolean"]
    return {"type": kinds, "properties": keywords, "definitions": definitions}


Found = tuple[Document, Json, str]
"""A document, a value in it, and the base URI there."""

_META_SCHEMA: Final = re.compile(r"https?://json-schema\.org/(?:schema|draft-0[467]/)")
_MODERN_META_SCHEMA: Final = re.compile(r"https?://json-schema\.org/(?:schema|draft[-/][\w-]+/)")
_FILE: Final = re.compile(r"[\w-][\w.-]*")
_PATH: Final = re.compile(r"https?://[\w.:-]+/[\w./-]*\Z")
_INDEX: Final = re.compile(r"\d{1,9}")


def join_uri(base: str, reference: str) -> str:
    """A URI relative to a base, without an empty fragment. Raises InvalidSchema."""
    try:
        if _FILE.fullmatch(reference) and _PATH.match(base):  # as urljoin has it, and quicker
            uri = base[: base.rfind("/") + 1] + reference
        else:
            uri = urljoin(base, reference) if base else reference
    except ValueError:
        raise InvalidSchema(f"'{reference[:200]}' is no URI reference") from None
    if len(uri) > MAX_URI:
        raise InvalidSchema(f"a URI has {len(uri)} characters, more than {MAX_URI}")
    return uri.removesuffix("#")


def rebase(base: str, raw: Json, document: Document) -> str:
    """The base inside a schema: its `$id` (draft 4: `id`) changes it, unless that is a mere fragment."""
    declared = raw.get(id_keyword(document)) if isinstance(raw, dict) else None
    if not isinstance(declared, str) or not declared or declared.startswith("#"):
        return base
    return join_uri(base, declared)


def id_keyword(document: Document) -> str:
    return "id" if document.draft == DRAFT_4 else "$id"


class Library:
    """The schema that was sent and those it may refer to; a text is looked at when a reference leads there."""

    def __init__(
        self, root: Document, referenced: Sequence[tuple[str, Json]], draft_of: Callable[[Json, int], int]
    ) -> None:
        base = rebase("", root.root, root)
        self.documents: dict[str, Document] = {base: root, "": root}
        self.named: dict[str, Document] = {}
        self._meta_schema = _MODERN_META_SCHEMA if root.modern else _META_SCHEMA
        for name, value in referenced:
            uri = join_uri(base, name)
            document = Document(uri, value, root.modern, draft_of(value, root.draft))
            for spelling in (name, uri, name.removeprefix("./")):
                self.named.setdefault(spelling.removesuffix("#"), document)

    def find(self, location: SchemaLocation, reference: str) -> Found | None:
        """The target of a reference at `location`. Raises InvalidSchema for a URI that can't be one."""
        uri = join_uri(location.base, reference)
        address, fragment = urldefrag(uri)
        if reference.startswith("#"):
            # A pointer counts from the whole text or from the embedded schema with an id around it: in older drafts
            # from the whole text first, as Confluent's parsers have it.
            starts = [self.find_embedded(location.document, location.base), document_of(location.document)]
            inside = (self.find_inside(start, fragment) for start in starts[:: 1 if location.document.modern else -1])
            return (
                self.find_embedded(location.document, uri)
                or self.find_embedded(location.document, reference)
                or next((found for found in inside if found), None)
            )
        return self.find_embedded(location.document, uri) or self.find_inside(
            self.find_embedded(location.document, address) or self.document(address, urldefrag(reference).url), fragment
        )

    def document(self, address: str, spelled: str) -> Found | None:
        for key in (address, spelled, spelled.removeprefix("./")):
            target = self.named.get(key) or (self.documents.get(key) if key else None)
            if target is not None:
                return document_of(target)
        if self._meta_schema.match(address):
            form = _meta_schema(address)
            return Document(address, form, False, 7), form, address
        return None

    def find_embedded(self, document: Document, uri: str) -> Found | None:
        if document.ids is None:
            document.ids = ids_of(document)
        entry = document.ids.get(uri)
        return None if entry is None else (document, entry[0], entry[1])

    def find_inside(self, location: Found | None, fragment: str) -> Found | None:
        """The target of a fragment inside something found: a JSON pointer or the name of an anchor."""
        if location is None or not fragment:
            return location
        document, value, base = location
        if not fragment.startswith("/"):
            anchor = f"#{fragment}"
            embedded = self.find_embedded(document, join_uri(base, anchor)) or self.find_embedded(document, anchor)
            if embedded or document.modern:
                return embedded
        if not document.modern:
            # Confluent's parser of the older drafts ignores what stands before the first slash, and slashes at the end.
            fragment = fragment.rstrip("/")
        for step in fragment.split("/")[1:]:
            inner = child_values(value, step)
            if not inner:
                return (document, True, base) if self._meta_schema.match(document.uri) else None
            value = inner[0]
            base = rebase(base, value, document)
        return document, value, base


def document_of(document: Document) -> Found:
    return document, document.root, rebase(document.uri, document.root, document)


def child_values(value: Json, step: str) -> list[Json]:
    """The target of a step of a JSON pointer (a plus may be a space), alone in a list; [] if none."""
    if isinstance(value, list):
        return value[int(step) :][:1] if _INDEX.fullmatch(step) else []
    if not isinstance(value, dict):
        return []
    names = (decode(step).replace("~1", "/").replace("~0", "~") for decode in (unquote, unquote_plus))
    return [value[name] for name in names if name in value][:1]


def ids_of(document: Document) -> dict[str, tuple[dict[str, Json], str]]:
    """Every schema object of a document that has an id or an anchor, by its URI."""
    by_uri: dict[str, tuple[dict[str, Json], str]] = {}
    waiting: list[tuple[Json, str]] = [(document.root, document.uri)]
    while waiting:
        value, base = waiting.pop()
        if isinstance(value, list):
            waiting += [(item, base) for item in value]
        elif isinstance(value, dict):
            declared = value.get(id_keyword(document))
            base = rebase(base, value, document)
            if isinstance(declared, str) and declared.startswith("#"):
                by_uri.setdefault(declared, (value, base))
                by_uri.setdefault(join_uri(base, declared), (value, base))
            elif isinstance(declared, str) and declared:
                by_uri.setdefault(base, (value, base))
            for keyword in ("$anchor", "$dynamicAnchor") if document.modern else ():
                anchor = value.get(keyword)
                if isinstance(anchor, str):
                    by_uri.setdefault(join_uri(base, f"#{anchor}"), (value, base))
            waiting += [(item, base) for item in value.values()]
    return by_uri
