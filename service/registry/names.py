"""Which names of subjects and versions are valid, and which mean the same.

A config or a mode is set for a subject, `:.ctx:`, `:.:` (the server) or `:.__GLOBAL:` (below all); the nearest counts.
"""

import re
from typing import Final
from uuid import UUID

from ticdc_bridge.service.errors import RegistryError

DEFAULT_CONTEXT: Final = "."
MAX_VERSION: Final = 2**31 - 1
LATEST: Final = -1
_DEFAULT_PREFIX: Final = ":.:"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_QUALIFIED = re.compile(r":(\.[^:]*):")


def context_of(subject: str) -> str:
    """The context of a subject, qualified (`:.ctx:name`) or not. Ids count per context."""
    match = _QUALIFIED.match(subject)
    return match[1] if match else DEFAULT_CONTEXT


def name_of(subject: str) -> str:
    match = _QUALIFIED.match(subject)
    return subject[match.end() :] if match else subject


def prefix_of(context: str) -> str:
    """What stands before the names of a context: nothing in the default one, else `:.ctx:`."""
    return "" if context == DEFAULT_CONTEXT else f":{context}:"


def qualify(subject: str, context: str) -> str:
    """`subject` as it is meant by something in `context`: one that names no context is in the same one."""
    match = _QUALIFIED.match(subject)
    if match is None:
        return prefix_of(context) + subject
    return subject[match.end() :] if match[1] == DEFAULT_CONTEXT else subject


def normalize_subject(subject: str) -> str:
    """The default context is not written (`:.:name` is `name`), and a context ends with a colon."""
    if subject.startswith(":.") and ":" not in subject[1:]:
        subject += ":"
    return subject[len(_DEFAULT_PREFIX) :] if subject.startswith(_DEFAULT_PREFIX) else subject


def check_subject(subject: str) -> str:
    """The subject, if schemas may be registered under it. Raises INVALID_SUBJECT."""
    if context_of(subject) == ".__GLOBAL":
        raise RegistryError("INVALID_SUBJECT", subject=subject)
    return check_name(subject)


def check_name(subject: str) -> str:
    """The subject or context, if it may have a config or a mode. Raises INVALID_SUBJECT."""
    if not is_valid_scope(subject):
        raise RegistryError("INVALID_SUBJECT", subject=subject)
    return subject


def is_valid_scope(scope: str) -> bool:
    """True if a subject or context may have a config or a mode."""
    return not _CONTROL.search(scope) and name_of(scope) not in ("__GLOBAL", "__EMPTY")


def version_number(text: str) -> int:
    """`latest` (any case) and -1 are LATEST; else 1 to 2^31-1. Raises INVALID_VERSION."""
    trimmed = text.strip()
    if trimmed.lower() == "latest":
        return LATEST
    try:
        number = int(trimmed) if trimmed.isascii() and "_" not in trimmed else 0
    except ValueError:
        number = 0
    if number == LATEST or 1 <= number <= MAX_VERSION:
        return number
    raise RegistryError("INVALID_VERSION", version=text)


SERVER: Final = ":.:"
BELOW_ALL: Final = ":.__GLOBAL:"
DEFAULTED: Final = (SERVER, BELOW_ALL)
"""The scopes whose config and mode are there, as the defaults, when nothing is set."""


def scope_of(subject: str | None) -> str:
    """The scope of a subject or context; None and the default context mean the server. Raises INVALID_SUBJECT."""
    return check_name(subject) if subject else SERVER


def chain(scope: str) -> list[str]:
    """The scopes that count for `scope`, nearest first."""
    return list(dict.fromkeys([scope, prefix_of(context_of(scope)) or SERVER, BELOW_ALL]))


def covers(scope: str, subject: str) -> bool:
    """True if `subject` is, or is in, the scope. Those of the server cover all contexts, as Confluent's do."""
    return scope in (*DEFAULTED, subject) or (not name_of(scope) and context_of(scope) == context_of(subject))


def guid(identity: bytes) -> str:
    """The name of a schema that is the same in every registry. identity: of its content (`references.identity`)."""
    return str(UUID(bytes=identity))
