"""`/contexts`: listing and forgetting contexts (registry-api.md §3.4). Paths below a context: `context_paths`."""

from __future__ import annotations

from fastapi import APIRouter, Response

from service.api.call import Called
from service.api.held import Held
from service.registry import contexts

router = APIRouter(prefix="/contexts", route_class=Held)


@router.get("")
def list_contexts(call: Called) -> Response:
    return call.answer(call.page(contexts.list_contexts(call.registry, call.text("contextPrefix"))))


@router.get("/{context}")
async def root_of_context(call: Called) -> Response:
    """Exactly `{}`, so that TiCDC takes `http://HOST/contexts/.ctx` as a registry of its own."""
    return call.answer({})


@router.delete("/{context}")
def delete_context(call: Called) -> Response:
    contexts.delete(call.registry, call.segment("context"))
    return Response(status_code=204)
