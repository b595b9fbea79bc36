"""Health of the process and of its store. These are ours; Confluent's registry has none."""

from __future__ import annotations

import asyncio
from typing import Final

from fastapi import APIRouter, Request, Response

from service.api.call import compact
from service.api.held import in_time
from service.deps import services
from service.registry.patience import Patience

router = APIRouter(prefix="/health")

_SECONDS: Final = 2.0


@router.get("/live")
async def live() -> Response:
    """200 as long as the process answers at all."""
    return Response(compact({"status": "live"}), media_type="application/json")


@router.get("/ready")
async def ready(request: Request) -> Response:
    """200 if the store can be used, else its error (500); within seconds, also if the store does not answer.

    A file for access that got broken is no outage, but said.
    """
    patience = Patience(_SECONDS)
    patience.start()
    await in_time(asyncio.to_thread(services(request).registry.store.check), patience)
    stale = {"access": "a changed file can't be used, see the log"} if request.app.state.files.problem else {}
    return Response(compact({"status": "ready", **stale}), media_type="application/json")
