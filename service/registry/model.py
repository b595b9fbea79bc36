"""Values the registry works with. Frozen: a value that was read is not changed in place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

DEFAULT_CONTEXT: Final = "."
MAX_VERSION: Final = 2**31 - 1

_QUALIFIED = re.compile(r":(\.[^:]*):")

Metadata = Mapping[str, Any]
"""`{"tags": {path: [..]}, "properties": {..}, "sensitive": [..]}`, empty parts left out."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A type that is defined in another subject. `subject` and `version` may be missing in a request."""

    name: str
    subject: str | None = None
    version: int | None = None

    def shown(self) -> str:
        """As Confluent prints it inside error texts."""
        subject = "null" if self.subject is None else self.subject
        version = "null" if self.version is None else self.version
        return f"{{name='{self.name}', subject='{subject}', version={version}}}"


@dataclass(frozen=True, slots=True)
class Referenced:
    """The text a reference leads to. `direct`: the schema itself names it, not only what it refers to."""

    name: str
    subject: str
    version: int
    text: str
    direct: bool


class NotParsed(ValueError):
    """A text is no schema of its type."""


class NotValid(ValueError):
    """A schema was understood but uses what is not there."""


@dataclass(frozen=True, slots=True)
class NewSchema:
    """A schema as a client sent it. `version`: None = the next one, -1 = the next one and record it, n = exactly n."""

    text: str = ""
    kind: str = "AVRO"
    references: tuple[Reference, ...] = ()
    metadata: Metadata | None = None
    version: int | None = None
    id: int | None = None


@dataclass(frozen=True, slots=True)
class Content:
    """What makes a schema the same schema: canonical text, references and metadata. `identity` is the MD5 over them."""

    identity: bytes
    text: str
    kind: str = "AVRO"
    references: tuple[Reference, ...] = ()
    metadata: Metadata | None = None


@dataclass(frozen=True, slots=True)
class Stored:
    """A registered version with its schema. `ts` is in ms."""

    subject: str
    version: int
    id: int
    content: Content
    ts: int
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class VersionRow:
    """A version without its schema."""

    subject: str
    version: int
    id: int
    deleted: bool


@dataclass(frozen=True, slots=True)
class Found:
    """A version that has the schema asked for; `inlined` if it has it with references instead of written out."""

    stored: Stored
    inlined: bool = False


def context_of(subject: str) -> str:
    """The context of a subject, qualified (`:.ctx:name`) or not. Ids count per context (registry-api.md §5)."""
    found = _QUALIFIED.match(subject)
    return found[1] if found else DEFAULT_CONTEXT
