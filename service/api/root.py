"""`/` and the server's own data. None of it needs the store, so no thread: it answers while others wait."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Response

from schemas.errors import RegistryError
from service.api.call import Called

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
