"""All routes of an app, for tests that ask every one of them."""

from collections.abc import Iterator, Sequence
from typing import Any

from fastapi.routing import iter_route_contexts


def routes(some: Sequence[Any]) -> Iterator[tuple[str, str, Any]]:
    """(method, path, route) of all routes, of included routers too."""
    for context in iter_route_contexts(some):
        route: Any = context.original_route
        yield from ((method, route.path, route) for method in sorted(route.methods) if method != "HEAD")
