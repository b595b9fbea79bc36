"""All routes of an app, for tests that ask every one of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from starlette.routing import Mount


def routes(some: Iterable[Any]) -> Iterator[tuple[str, str, Any]]:
    """(method, path, route) of all routes, of included routers and mounted apps too."""
    for route in some:
        inner = getattr(route, "original_router", None)
        if inner is not None:
            yield from routes(inner.routes)
        elif isinstance(route, Mount):
            yield "GET", f"{route.path}/anything", route
        else:
            yield from ((method, route.path, route) for method in sorted(route.methods) if method != "HEAD")
