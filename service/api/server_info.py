"""`/`, the server's own data and its health, and `/contexts`.

Nothing of the first two needs the store, so no thread: they answer while others wait. Health is ours; Confluent's
registry has none. Paths below a context: `middleware`.
"""

from __future__ import annotations

import asyncio
from typing import Final

from fastapi import APIRouter, Request, Response

from schemas.model.errors import RegistryError
from service.api.request import Called, compact
from service.api.routing import RetriedRoute, run_in_time
from service.api.services import services
from service.registry import subjects
from service.registry.deadline import Deadline

contexts_router = APIRouter(prefix="/contexts", route_class=RetriedRoute)


@contexts_router.get("")
def list_contexts(call: Called) -> Response:
    return call.answer(call.page(subjects.list_contexts(call.registry, call.text("contextPrefix"))))


@contexts_router.get("/{context}")
async def root_of_context(call: Called) -> Response:
    """Exactly `{}`, so that TiCDC takes `http://HOST/contexts/.ctx` as a registry of its own."""
    return call.answer({})


@contexts_router.delete("/{context}")
def delete_context(call: Called) -> Response:
    subjects.delete_context(call.registry, call.segment("context"))
    return Response(status_code=204)


health_router = APIRouter(prefix="/health")


_SECONDS: Final = 2.0


@health_router.get("/live")
async def live() -> Response:
    """200 as long as the process answers at all."""
    return Response(compact({"status": "live"}), media_type="application/json")


@health_router.get("/ready")
async def ready(request: Request) -> Response:
    """200 if the store can be used, else its error (500); within seconds, also if the store does not answer.

    A file for access that got broken is no outage, but said.
    """
    patience = Deadline(_SECONDS)
    patience.start()
    await run_in_time(asyncio.to_thread(services(request).registry.store.check), patience)
    stale = {"access": "a changed file can't be used, see the log"} if request.app.state.files.problem else {}
    return Response(compact({"status": "ready", **stale}), media_type="application/json")


router = APIRouter()


_ASSOCIATIONS: Final = (
    "/associations/subjects/{name}",
    "/associations/resources/{name}",
    "/associations/resources/{namespace}/{name}",
)
_CLUSTERS: Final = {"kafka-cluster": "", "schema-registry-cluster": "schema-registry"}


@router.get("/")
@router.post("/")
async def root(call: Called) -> Response:
    """Exactly `{}`: TiCDC compares the two bytes before it starts."""
    return call.answer({})


@router.get("/v1/metadata/id")
async def metadata_id(call: Called) -> Response:
    return call.answer({"scope": {"path": [], "clusters": _CLUSTERS}})


@router.get("/v1/metadata/version")
async def metadata_version(call: Called) -> Response:
    return call.answer({"version": f"{call.services.profile}.0.0-ticdc-bridge", "commitId": ""})


@router.get("/v1/metadata/deployment")
async def deployment(call: Called) -> Response:
    return call.answer({"attributes": []})


async def associations(call: Called) -> Response:
    """Nothing is ever associated here."""
    return call.answer([])


async def no_association(call: Called) -> Response:
    """So there is none to change. Raises ASSOCIATION_NOT_FOUND."""
    raise RegistryError("ASSOCIATION_NOT_FOUND", name=call.segment("name"))


for _path in _ASSOCIATIONS:
    router.get(_path)(associations)
    for _write in (router.post, router.put, router.delete):
        _write(_path)(no_association)
