"""What routes get: the registry (behind its ports) and the settings that shape answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from fastapi import Request

from ticdc_bridge.service.auth.acl import Access
from ticdc_bridge.service.history.table_schemas import TableSchemaCache
from ticdc_bridge.service.kafka_topics import KafkaTopics
from ticdc_bridge.service.registry.registry import Registry
from ticdc_bridge.service.registry_view import RegistryView
from ticdc_bridge.service.store.history_reader import HistoryStore

if TYPE_CHECKING:
    from ticdc_bridge.service.changefeed.settings import ChangefeedSettings

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
    """What this service follows with --track, as JSON (`tracker.metrics.tracker_forms`)."""
    changefeeds: Mapping[str, ChangefeedSettings] = field(default_factory=dict)
    """The settings in TiCDC of those that it follows, where it was told."""

    @property
    def view(self) -> RegistryView:
        """What dry runs and histories ask: made of `registry`, so that it shows nobody more than that does."""
        return RegistryView(self.registry)


def services(request: Request) -> Services:
    """The services of the app that serves this request, over the registry that the user may see."""
    app_services = request.app.state.services
    assert isinstance(app_services, Services)
    user = request.scope.get(USER_ACCESS)
    return app_services if user is None else replace(app_services, registry=user.registry)
