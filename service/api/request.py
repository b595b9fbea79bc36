"""One request, as routes see it: what they ask, parameters by JAX-RS's rules, media types, and the answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import unquote

from fastapi import Request, Response

from ticdc_bridge.service.api.kafka_topics import KafkaTopics
from ticdc_bridge.service.auth.acl import Access
from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.history.table_schemas import TableSchemaCache
from ticdc_bridge.service.registry.names import normalize_subject
from ticdc_bridge.service.registry.registry import Registry
from ticdc_bridge.service.registry.view import RegistryView
from ticdc_bridge.service.store.history_store import HistoryStore

if TYPE_CHECKING:
    from ticdc_bridge.service.changefeed.settings import ChangefeedSettings

V1: Final = "application/vnd.schemaregistry.v1+json"
OFFERED: Final = (V1, "application/vnd.schemaregistry+json", "application/json")
"""In the order of preference."""

ACCEPTED: Final = frozenset({*OFFERED, "application/octet-stream"})
_ANYTHING: Final = ("*/*", "*")  # Java's own HTTP client sends the second

USER_ACCESS: Final = "bridge.seen"
"""The key of the ASGI scope where a `UserAccess` is, when access is controlled."""


@dataclass(frozen=True, slots=True)
class UserAccess:
    """Who asks, what they may do, and the registry as they see it."""

    name: str
    access: Access
    registry: Registry


@dataclass(frozen=True, slots=True)
class Services:
    """Put together by `app.create_app`; one for the life of the process."""

    registry: Registry
    profile: int
    max_body_bytes: int
    history: HistoryStore
    derivations: TableSchemaCache = field(default_factory=TableSchemaCache)
    max_schema_bytes: int = 4 * 1024 * 1024
    max_references: int = 500
    kafka: KafkaTopics | None = None
    """None: the service was started without --bootstrap-servers."""
    trackers: Callable[[], list[dict[str, Any]]] = list
    """The changefeeds that this service follows with --track, as JSON (`tracker.metrics.tracker_forms`)."""
    changefeeds: Mapping[str, ChangefeedSettings] = field(default_factory=dict)
    """The settings in TiCDC of those that it follows, where they are known."""

    @property
    def view(self) -> RegistryView:
        """The registry for dry runs and histories: made of `registry`, so that it shows nobody more than that does."""
        return RegistryView(self.registry)


def services(request: Request) -> Services:
    """The services of the app that serves this request, over the registry that the user may see."""
    app_services = request.app.state.services
    assert isinstance(app_services, Services)
    user = request.scope.get(USER_ACCESS)
    return app_services if user is None else replace(app_services, registry=user.registry)


def check_content_type(header: str | None) -> None:
    """A request body may be of any accepted type, or of none said. Raises UNSUPPORTED_MEDIA_TYPE."""
    if header and _type_of(header) not in ACCEPTED:
        raise RegistryError("UNSUPPORTED_MEDIA_TYPE")


def negotiate(accept: str | None) -> str:
    """The answer's type: the client's q decides, then our order. Raises NOT_ACCEPTABLE."""
    if not accept or accept in _ANYTHING:
        return V1
    ranges = [(_type_of(choice), _quality(choice)) for choice in accept.split(",") if choice.strip()]
    best, best_quality = None, 0.0
    for offered in OFFERED:
        quality = _quality_for(offered, ranges)
        if quality > best_quality:
            best, best_quality = offered, quality
    if best is None:
        raise RegistryError("NOT_ACCEPTABLE")
    return best


def _quality_for(offered: str, ranges: list[tuple[str, float]]) -> float:
    """The q of the most specific range that covers the type; 0 if none does."""
    for media_ranges in ((offered,), (offered.partition("/")[0] + "/*",), _ANYTHING):
        qualities = [quality for name, quality in ranges if name in media_ranges]
        if qualities:
            return max(qualities)
    return 0.0


def _type_of(choice: str) -> str:
    return choice.partition(";")[0].strip().lower()


def _quality(choice: str) -> float:
    for parameter in choice.split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0


_INT: Final = 2**31
_LARGEST_PAGE: Final = 10_000
_PAGE: Final = 1000

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ApiCall:
    request: Request
    services: Services
    media_type: str
    body: dict[str, Any] = field(default_factory=dict)
    """As the `body` that the route declares reads it."""

    @property
    def registry(self) -> Registry:
        return self.services.registry

    def segment(self, name: str) -> str:
        """A part of the path, percent-decoded once; a plus is a plus."""
        return unquote(self.request.path_params[name], errors="replace")

    @property
    def subject(self) -> str:
        """The subject of the path, in the form the registry knows it by."""
        return normalize_subject(self.segment("subject"))

    @property
    def scope(self) -> str | None:
        """The subject or context that a config or a mode is for; None for the server."""
        return self.subject or None if "subject" in self.request.path_params else None

    def texts(self, name: str) -> list[str]:
        """All values of a parameter that may come several times; none of one that the route does not declare."""
        declared = any(entry.name == name for entry in self.request.scope["route"].query)
        return self.request.query_params.getlist(name) if declared else []

    def text(self, name: str, default: str = "") -> str:
        """The first value of a parameter, as JAX-RS takes it."""
        return next(iter(self.texts(name)), default)

    def flag(self, name: str) -> bool:
        """`true` in any case is true; everything else, nothing at all included, is false."""
        return self.text(name).lower() == "true"

    def integer(self, name: str, default: int) -> int:
        """Raises ROUTE_NOT_FOUND for what is no 32-bit number, as JAX-RS does. An empty text is the default."""
        text = self.text(name)
        return java_int(text) if text else default

    def page(self, items: Iterable[T], largest: int | None = None) -> list[T]:
        """The part of a list that `offset` and `limit` ask for; a limit below 1 or above the largest means that."""
        offset, limit = max(self.integer("offset", 0), 0), self.integer("limit", -1)
        size = largest if limit <= 0 or (largest is not None and limit > largest) else limit
        return list(islice(items, offset, None if size is None else offset + size))

    def page_limits(self) -> tuple[int, int]:
        """`offset` and `limit` of a list of a history; a limit below 1 or above the largest means that."""
        limit = self.integer("limit", _PAGE)
        return max(self.integer("offset", 0), 0), limit if 0 < limit <= _LARGEST_PAGE else _LARGEST_PAGE

    def answer(self, value: Any) -> Response:
        """200 with `value` as compact JSON."""
        return Response(compact(value), media_type=self.media_type)

    def raw(self, text: str) -> Response:
        """200 with a schema text as it is."""
        return Response(text.encode("utf-8", "replace"), media_type=self.media_type)


def compact(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def java_int(text: str) -> int:
    """`Integer.parseInt`. Raises ROUTE_NOT_FOUND."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if digits.isascii() and digits.isdecimal() and len(digits) <= len(str(_INT)) and -_INT <= int(text) < _INT:
        return int(text)
    raise RegistryError("ROUTE_NOT_FOUND")
