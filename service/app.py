"""The composition root: settings → store → registry → routes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.types import ASGIApp

from service.api import (
    compatibility,
    config,
    contexts,
    errors,
    health,
    lineage,
    metrics,
    mode,
    openapi,
    root,
    schemas,
    subjects,
)
from service.api.hot import Hot
from service.api.paths import RawPaths
from service.deps import Services
from service.registry.core import Registry
from service.settings import STRICT, Settings
from service.store import open_store

ROUTERS = tuple(
    part.router for part in (subjects, schemas, root, compatibility, config, mode, contexts, health, metrics, lineage)
)


def create_app(settings: Settings | None = None) -> FastAPI:
    """The service as an ASGI app, its store open. Raises SetupError if the store can't be used."""
    settings = settings or Settings()
    store = open_store(settings.store, wait_seconds=settings.store_wait_seconds)
    registry = Registry(store, settings.compatibility, settings.logical_types == STRICT)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        yield
        store.close()

    app = FastAPI(docs_url=None, redoc_url=None, redirect_slashes=False, lifespan=lifespan)
    app.state.services = Services(registry, settings.profile, settings.max_body_bytes)
    for router in ROUTERS:
        app.include_router(router)
    errors.install(app)
    openapi.install(app)
    metrics.install(app, registry, access_log=settings.access_log)
    app.add_middleware(RawPaths)
    return app


def create_served(settings: Settings | None = None) -> ASGIApp:
    """The same app with the hot path around it, as it is served. Raises what `create_app` raises."""
    settings = settings or Settings()
    app = create_app(settings)
    return Hot(app, app.state.services.registry.store, app.state.metrics, log=settings.access_log)
