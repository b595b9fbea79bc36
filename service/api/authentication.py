"""Who asks: the middleware around the hot path, when access is controlled.

Each set of rights has its own view of the registry and its own kept answers. Full rights share the plain view.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final, Protocol

from starlette.types import ASGIApp, Receive, Scope, Send

from ticdc_bridge.schemas.model.errors import BridgeError
from ticdc_bridge.service.api.request import USER_ACCESS, UserAccess
from ticdc_bridge.service.api.routing import REFUSED
from ticdc_bridge.service.auth.acl import Access
from ticdc_bridge.service.auth.credentials import CERTIFICATE, Authenticator
from ticdc_bridge.service.auth.file_watcher import AccessRules, FileWatcher
from ticdc_bridge.service.auth.filtered_store import FilteredStore, ListenerGroup
from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.registry.registry import Registry

CERTIFICATE_STATE: Final = "client_certificate"
"""The key of the ASGI scope's `state` where the name in a client's certificate is (`service.server.http_server`)."""

_MOST_VIEWS: Final = 16
_MOST_NAMES: Final = 10_000


class CachedView(Protocol):
    """An app that keeps its answers, for one set of rights (`service.api.fast_path`)."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...

    def disable(self) -> None:
        """Forgets its answers, and keeps none of requests that are under way."""
        ...


def refuse_cross_site(scope: Scope) -> None:
    """Raises FORBIDDEN for a change that a page of another site asks a browser to make with its user's credentials."""
    if scope["method"] not in ("GET", "HEAD", "OPTIONS"):
        for name, value in scope["headers"]:
            if name == b"sec-fetch-site" and value not in (b"same-origin", b"none"):
                raise RegistryError("FORBIDDEN", operation="Write", what="behalf of another site")


class Authentication:
    """ASGI middleware: finds out who asks, and passes the request to their view."""

    def __init__(
        self,
        app: ASGIApp,
        hot: ASGIApp,
        registry: Registry,
        files: FileWatcher,
        make_hot: Callable[[Registry], CachedView],
        *,
        passwords: bool,
    ) -> None:
        """`hot`: with kept answers, as `make_hot` gives for another registry. `passwords`: there is an auth file."""
        self._app, self._hot, self._registry, self._files, self._make_hot = app, hot, registry, files, make_hot
        self._authenticator = Authenticator(lambda: files.rules.credentials) if passwords else None
        self._listeners = ListenerGroup()
        registry.store.listen(self._listeners)
        self._rules: AccessRules | None = None
        self._views: dict[Access, tuple[Registry, CachedView]] = {}
        self._seen: dict[str, tuple[UserAccess, ASGIApp]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            try:
                await self._hot(scope, receive, send)
            finally:
                if self._authenticator is not None:
                    self._authenticator.close()
            return
        try:
            refuse_cross_site(scope)
            name = await self._name(scope)
        except BridgeError as error:
            await self._app({**scope, REFUSED: error}, receive, send)
            return
        if name is None:
            await self._app(scope, receive, send)
            return
        if self._rules is not self._files.rules:
            # Whoever asks from now on gets a new view.
            self._listeners.drop_all()
            for _, hot in self._views.values():
                hot.disable()
            self._views, self._seen, self._rules = {}, {}, self._files.rules
        user, app = self._seen.get(name) or self._look_up(name)
        scope[USER_ACCESS] = user
        await app(scope, receive, send)

    async def _name(self, scope: Scope) -> str | None:
        """The name that was proved; None if nothing was tried. Raises UNAUTHORIZED, TOO_MANY_LOGINS."""
        if self._authenticator is not None:
            headers = [value for name, value in scope["headers"] if name == b"authorization"]
            if headers:
                name = await self._authenticator.name(headers[0]) if len(headers) == 1 else None
                if name is None:
                    raise RegistryError("UNAUTHORIZED")
                return name
        certified = scope.get("state", {}).get(CERTIFICATE_STATE)
        return None if certified is None else CERTIFICATE + certified

    def _look_up(self, name: str) -> tuple[UserAccess, ASGIApp]:
        access = (self._rules or AccessRules()).access(name)
        registry, app = self._views.get(access) or self._view(access)
        entry = UserAccess(name, access, registry), app
        if len(self._seen) >= _MOST_NAMES:
            self._seen.clear()
        self._seen[name] = entry
        return entry

    def _view(self, access: Access) -> tuple[Registry, ASGIApp]:
        """The registry as a set of rights sees it, and the app that answers of it."""
        if access.everything:
            return self._registry, self._hot
        registry = replace(self._registry, store=FilteredStore(self._registry.store, access, self._listeners))
        if len(self._views) >= _MOST_VIEWS:
            return registry, self._app
        view = self._views[access] = registry, self._make_hot(registry)
        return view
