"""`/`, the server's own data, and the mode. None of it needs the store, so no thread: it answers while others wait."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Response

from schemas.errors import RegistryError
from service.api.call import Called
from service.registry.naming import check_subject

router = APIRouter()

_CLUSTERS: Final = {"kafka-cluster": "", "schema-registry-cluster": "schema-registry"}


@router.get("/")
@router.post("/")
async def root(call: Called) -> Response:
    """Exactly `{}`: TiCDC compares the two bytes before it starts."""
    return call.answer({})


@router.get("/mode")
async def global_mode(call: Called) -> Response:
    """Always READWRITE; other modes are not there yet."""
    return call.answer({"mode": "READWRITE"})


@router.get("/mode/{subject}")
async def subject_mode(call: Called) -> Response:
    """No subject has a mode of its own yet."""
    subject = check_subject(call.segment("subject"))
    if not call.flag("defaultToGlobal"):
        raise RegistryError("MODE_NOT_CONFIGURED", subject=subject)
    return call.answer({"mode": "READWRITE"})


@router.get("/v1/metadata/id")
async def metadata_id(call: Called) -> Response:
    return call.answer({"scope": {"path": [], "clusters": _CLUSTERS}})


@router.get("/v1/metadata/version")
async def metadata_version(call: Called) -> Response:
    return call.answer({"version": f"{call.services.profile}.0.0-ticdc-bridge", "commitId": ""})
