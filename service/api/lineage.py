"""`/lineage`: topic → table version → subject → job, as the Spark jobs tell it. Ours; Confluent's registry has none."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response

from schemas.model.errors import RegistryError
from service.api.bodies import parse, read_body
from service.api.request import Called
from service.api.routing import RetriedRoute
from service.registry import lineage

router = APIRouter(prefix="/lineage", route_class=RetriedRoute)


async def _read_object(call: Called) -> dict[str, Any]:
    """The body: a JSON object. Raises REQUEST_TOO_LARGE, BAD_REQUEST."""
    body = parse(await read_body(call))
    if not isinstance(body, dict):
        raise RegistryError("BAD_REQUEST", details="a JSON object is needed")
    return body


@router.post("")
def post(call: Called, told: Annotated[dict[str, Any], Depends(_read_object)]) -> Response:
    """What one run of a job used; answers how many edges were kept."""
    return call.answer({"edges": lineage.record(call.registry, told)})


@router.get("")
def get(call: Called) -> Response:
    """The edges, by `job`, `topic`, `table` and `subject` where they are given."""
    filters = {name: call.text(name) for name in ("job", "topic", "table", "subject")}
    return call.answer(call.page(lineage.edges_of(call.registry, **filters)))
