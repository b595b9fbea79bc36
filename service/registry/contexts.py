"""Contexts: name spaces with ids of their own (registry-api.md §3.4, §5)."""

from __future__ import annotations

from schemas.errors import RegistryError
from service.registry.core import Registry
from service.registry.model import DEFAULT_CONTEXT, context_of, prefix_of


def list_contexts(registry: Registry, prefix: str = "") -> list[str]:
    """The default context and all that had a schema since they were last deleted, sorted."""
    with registry.store.read() as tx:
        found = tx.contexts()
    return [context for context in (DEFAULT_CONTEXT, *found) if context.startswith(prefix)]


def delete(registry: Registry, context: str) -> None:
    """Forget a context; one that is not there is no error. Its ids stay used.

    Raises CONTEXT_NOT_EMPTY while it has subjects, soft-deleted ones too.
    """
    with registry.store.write() as tx:
        if any(context_of(subject) == context for subject, _ in tx.subjects()):
            raise RegistryError("CONTEXT_NOT_EMPTY", context=prefix_of(context) or f":{DEFAULT_CONTEXT}:")
        tx.drop_context(context)
