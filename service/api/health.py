"""Health of the process and of its store. These are ours; Confluent's registry has none."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from service.api.call import compact
from service.deps import services

router = APIRouter(prefix="/health")


@router.get("/live")
async def live() -> Response:
    """200 as long as the process answers at all."""
    return Response(compact({"status": "live"}), media_type="application/json")


@router.get("/ready")
def ready(request: Request) -> Response:
    """200 if the store can be used, else its error (500). A file for access that got broken is no outage, but said."""
    services(request).registry.store.check()
    stale = {"access": "a changed file can't be used, see the log"} if request.app.state.files.problem else {}
    return Response(compact({"status": "ready", **stale}), media_type="application/json")
