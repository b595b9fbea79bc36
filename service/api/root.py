"""`/` and the server's own data. None of it needs the store, so no thread: it answers while others wait."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Response

from service.api.call import Called

router = APIRouter()

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


@router.get("/associations/subjects/{subject}")
@router.get("/associations/resources/{id}")
@router.get("/associations/resources/{namespace}/{name}")
async def associations(call: Called) -> Response:
    """Nothing is ever associated here."""
    return call.answer([])
