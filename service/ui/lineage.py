"""The page about lineage: which jobs read which topics, by which table versions and subjects."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Request, Response

from service.ui.ask import Api
from service.ui.pages import page, shown

router = APIRouter(prefix="/ui/lineage", include_in_schema=False)

_BY: Final = ("job", "topic", "table", "subject")
_MOST: Final = 500


@router.get("")
@shown
async def show(request: Request) -> Response:
    wanted = {name: request.query_params.get(name, "").strip() for name in _BY}
    query = {name: text for name, text in wanted.items() if text}
    rows = await Api(request).need("lineage", limit=_MOST + 1, **query)
    return page("lineage.html", rows=rows[:_MOST], more=len(rows) > _MOST, wanted=wanted)
