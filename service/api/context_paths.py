"""`/contexts/{ctx}/…`: every path again, with its subjects in a context (registry-api.md §5).

The context goes into the path and the query, so that routes know qualified subjects only.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode

from service.registry.model import DEFAULT_CONTEXT, prefix_of

CONTEXTS: Final = "/contexts/"
_ANY: Final = (":.", ":*:")
_BEFORE_SUBJECT: Final = "subjects"
_SCOPED: Final = ("config", "mode")
_LISTED: Final = ("schemas", "subjects")


def within_context(path: str, query: bytes) -> tuple[str, bytes]:
    """The path and query that mean the same without `/contexts/{ctx}`. Raises ValueError for a name with a colon."""
    name, *parts = path[len(CONTEXTS) :].split("/")
    context = context_name(unquote(name))
    prefix = prefix_of(context)
    if not parts:
        return CONTEXTS + quote(context, safe=""), query
    if parts == ["contexts"]:
        return "/contexts", query
    route = [*parts, ""] if len(parts) == 1 and parts[0] in _SCOPED and prefix else parts
    for place, part in enumerate(parts):
        follows = place + 1 < len(route)
        if follows and (part == _BEFORE_SUBJECT or (place == 0 and part in _SCOPED)):
            route[place + 1] = quote(placed(unquote(route[place + 1]), prefix), safe="")
            break
    return "/" + "/".join(route), placed_query("/".join(parts), query, prefix)


def context_name(text: str) -> str:
    """`ctx`, `.ctx` and `:.ctx:` are the same. Raises ValueError if a colon is left in the name."""
    name = text[1:-1] if text.startswith(":") and text.endswith(":") and len(text) > 1 else text
    if ":" in name:
        raise ValueError(f"Context name can't contain a colon: {text}")
    return name if name.startswith(".") else DEFAULT_CONTEXT + name


def placed(subject: str, prefix: str) -> str:
    """A subject in the context, unless it names one itself."""
    return subject if subject.startswith(_ANY) else prefix + subject


def placed_query(route: str, query: bytes, prefix: str) -> bytes:
    """The query with the parameters that name or begin subjects put into the context."""
    name = "subject" if route.startswith("schemas/ids") else "subjectPrefix" if route in _LISTED else None
    if name is None:
        return query
    pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
    given = next((value for key, value in pairs if key == name), "")
    kept = [(key, value) for key, value in pairs if key != name]
    return urlencode([*kept, (name, placed(given, prefix))]).encode()
