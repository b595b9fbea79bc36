"""The composition root: settings → store → registry → routes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from fastapi import FastAPI
from starlette.types import ASGIApp

from schemas.errors import SetupError
from service.access.files import Files
from service.api import compatibility, config, contexts, errors, health, metrics, mode, openapi, root, schemas, subjects
from service.api.auth import Auth
from service.api.hot import Hot
from service.api.lane import Lane
from service.api.paths import RawPaths
from service.api.permissions import Permissions
from service.deps import Services
from service.registry.core import Registry
from service.settings import STRICT, Settings
from service.store import open_store

ROUTERS = tuple(
    part.router for part in (subjects, schemas, root, compatibility, config, mode, contexts, health, metrics)
)


def create_app(settings: Settings | None = None) -> FastAPI:
    """The service as an ASGI app, its store open. Raises SetupError if the store can't be used."""
    settings = settings or Settings()
    files = access_files(settings)
    store = open_store(settings.store, wait_seconds=settings.store_wait_seconds, connections=settings.store_connections)
    registry = Registry(store, settings.compatibility, settings.logical_types == STRICT)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        files.start()
        yield
        files.close()
        store.close()

    app = FastAPI(docs_url=None, redoc_url=None, redirect_slashes=False, lifespan=lifespan)
    app.state.services = Services(
        registry,
        settings.profile,
        settings.max_body_bytes,
        max_schema_bytes=settings.max_schema_bytes,
        max_references=settings.max_references,
    )
    app.state.files = files
    for router in ROUTERS:
        app.include_router(router)
    errors.install(app)
    if settings.controls_access:
        app.add_middleware(Permissions, routes=app, open_metrics=settings.open_metrics)
    openapi.install(app)
    metrics.install(app, registry, access_log=settings.access_log)
    app.add_middleware(RawPaths)
    return app


def create_served(settings: Settings | None = None) -> ASGIApp:
    """The same app with the hot path around it, as it is served. Raises what `create_app` raises."""
    settings = settings or Settings()
    app = create_app(settings)
    services: Services = app.state.services
    registry = services.registry

    def hot(seen: Registry) -> Hot:
        lane = Lane(replace(services, registry=seen))
        return Hot(app, seen.store, app.state.metrics, lane, log=settings.access_log)

    served: ASGIApp = hot(registry)
    if settings.controls_access:
        served = Auth(app, served, registry, app.state.files, hot, passwords=bool(settings.auth_file))
    app.state.served = served  # whatever asks the API from inside has to come in here, as any client does
    return served


def access_files(settings: Settings) -> Files:
    """What the files of the settings say. Raises SetupError."""
    try:
        settings.check_access()
    except ValueError as error:
        raise SetupError("USAGE", details=str(error)) from None
    return Files(settings.auth_file, settings.acl_file)
