"""What a config or a mode is set for: a subject, `:.ctx:`, `:.:` (the server) or `:.__GLOBAL:` (below all).

The nearest one counts (registry-api.md §5).
"""

from __future__ import annotations

from typing import Final

from service.registry.model import DEFAULT_CONTEXT, context_of, name_of
from service.registry.naming import check_name

SERVER: Final = ":.:"
BELOW_ALL: Final = ":.__GLOBAL:"


def scope_of(subject: str | None) -> str:
    """The scope of a subject or context; None and the default context mean the server. Raises INVALID_SUBJECT."""
    return check_name(subject) if subject else SERVER


def chain(scope: str) -> list[str]:
    """The scopes that count for `scope`, nearest first."""
    context = context_of(scope)
    above = SERVER if context == DEFAULT_CONTEXT else f":{context}:"
    return list(dict.fromkeys([scope, above, BELOW_ALL]))


def covers(scope: str, subject: str) -> bool:
    """Whether `subject` is, or is in, the scope. The server's covers all contexts, as Confluent's does."""
    if scope in (SERVER, subject):
        return True
    return not name_of(scope) and context_of(scope) == context_of(subject)


def shown_context(subject: str | None) -> str:
    """The context of a subject as error texts show it: nothing for the default one."""
    context = context_of(subject or "")
    return "" if context == DEFAULT_CONTEXT else f":{context}:"
