"""The composition root: settings → store → registry → routes."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.service.api import (
    compatibility,
    config_and_mode,
    ddl_check,
    errors,
    history,
    kafka,
    lineage,
    metrics,
    openapi,
    schemas,
    server_info,
    subjects,
)
from ticdc_bridge.service.api.authentication import Authentication
from ticdc_bridge.service.api.fast_path.answer_cache import CachedAnswers
from ticdc_bridge.service.api.fast_path.registration_batches import RegistrationBatcher
from ticdc_bridge.service.api.kafka_topics import make_topics
from ticdc_bridge.service.api.middleware import CompressedAnswers, RawPaths
from ticdc_bridge.service.api.request import Services
from ticdc_bridge.service.api.routing import Permissions
from ticdc_bridge.service.auth.file_watcher import FileWatcher
from ticdc_bridge.service.registry.registry import Registry
from ticdc_bridge.service.server.settings import STRICT, Settings
from ticdc_bridge.service.store import SqlStore, open_store
from ticdc_bridge.service.store.history_store import HistoryStore
from ticdc_bridge.service.tracker.metrics import Reports, TrackerMetrics, tracker_forms
from ticdc_bridge.service.ui import router as ui_router

if TYPE_CHECKING:
    from ticdc_bridge.service.tracker.config import TrackedChangefeed

_KEPT_BYTES = 48 * 1024 * 1024  # of answers that are kept for those who may do everything
_VIEW_BYTES = 8 * 1024 * 1024  # for another set of rights

ROUTERS = (
    subjects.router, subjects.overview_router, schemas.router, server_info.router, compatibility.router,
    config_and_mode.config_router, config_and_mode.mode_router, server_info.contexts_router, server_info.health_router,
    metrics.router, history.router, ddl_check.router, lineage.router, kafka.router, openapi.router,
)  # fmt: skip


def create_app(settings: Settings, store: SqlStore | None = None) -> FastAPI:
    """The service, its store open; one given as `store` is not closed here. Raises SetupError if it can't be used."""
    try:
        settings.check_access()
    except ValueError as error:
        raise SetupError("USAGE", details=str(error)) from None
    files = FileWatcher(settings.auth_file, settings.acl_file)
    waiting, connections = settings.store_wait_seconds, settings.store_connections
    opened = store or open_store(settings.store, wait_seconds=waiting, connections=connections)
    registry = Registry(opened, settings.compatibility, settings.logical_types == STRICT, settings.mode_mutability)

    histories = HistoryStore(opened)
    tracked: list[TrackedChangefeed] = []
    trackers = None
    if settings.track:  # with all formats, which a registry alone does not need
        from ticdc_bridge.service.tracker.config import parse_tracked
        from ticdc_bridge.service.tracker.tracker import Trackers

        tracked = parse_tracked(settings.track, settings.bootstrap_servers, settings.kafka_config)
        trackers = Trackers(tracked, histories, opened) if tracked else None

    def reports() -> Reports:
        return [] if trackers is None else trackers.progress()

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        files.start()
        if trackers is not None:
            trackers.start()
        yield
        if trackers is not None:
            trackers.stop()
        files.close()
        if store is None:
            opened.close()

    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False, lifespan=lifespan)
    app.state.services = Services(
        registry,
        settings.profile,
        settings.max_body_bytes,
        histories,
        max_schema_bytes=settings.max_schema_bytes,
        max_references=settings.max_references,
        kafka=make_topics(settings.bootstrap_servers, settings.kafka_config),
        trackers=lambda: tracker_forms(tracked, reports()),
        changefeeds={entry.name: entry.settings for entry in tracked if entry.settings is not None},
    )
    app.state.files = files
    for router in (*ROUTERS, *ui_router.ROUTERS):
        app.include_router(router)
    errors.install(app)
    if settings.controls_access:
        app.add_middleware(Permissions, routes=app, open_metrics=settings.open_metrics)
    openapi.install(app)
    metrics.install(app, registry, access_log=settings.access_log)
    app.state.metrics.collectors.register(TrackerMetrics(histories, reports))
    app.add_middleware(RawPaths)
    return app


def create_served(settings: Settings) -> ASGIApp:
    """The app with the hot path around it, not as FastAPI's middleware, which costs a tenth of an answer."""
    return allow_pages(CompressedAnswers(wrap_served(create_app(settings), settings)), settings)


def allow_pages(app: ASGIApp, settings: Settings) -> ASGIApp:
    """The app with CORS around it; a star in an origin stands for any characters, credentials need a name."""
    lists = (settings.cors_origins, settings.cors_methods, settings.cors_headers)
    origins, methods, headers = (text.replace(",", " ").split() for text in lists)
    if not origins or "*" in origins:
        return CORSMiddleware(app, ["*"], methods, headers) if origins else app
    pattern = "|".join(re.escape(origin).replace(r"\*", ".*") for origin in origins)
    return CORSMiddleware(app, (), methods, headers, allow_credentials=True, allow_origin_regex=pattern)


def wrap_served(app: FastAPI, settings: Settings) -> ASGIApp:
    """An app of `create_app` as it is served: with the hot path, and with access control where there is some."""
    services: Services = app.state.services
    registry = services.registry

    def make_answers(view: Registry, most_bytes: int) -> CachedAnswers:
        lane = RegistrationBatcher(replace(services, registry=view))
        return CachedAnswers(app, lane, log=settings.access_log, most_bytes=most_bytes)

    served: ASGIApp = make_answers(registry, _KEPT_BYTES)
    if settings.controls_access:
        make_view = partial(make_answers, most_bytes=_VIEW_BYTES)
        served = Authentication(app, served, registry, app.state.files, make_view, passwords=bool(settings.auth_file))
    app.state.served = served  # whatever asks the API from inside has to come in here, as any client does
    return served
