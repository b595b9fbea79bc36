"""The page about lineage: which jobs read which topics, by which table versions and subjects."""

from __future__ import annotations

from itertools import groupby
from typing import Any, Final

from fastapi import Request, Response

from service.ui.api_client import ApiClient
from service.ui.pages import PageRouter, page

router = PageRouter("/ui/lineage")

_BY: Final = ("job", "topic", "table", "subject")
_MOST: Final = 500


@router.get("")
async def show(request: Request) -> Response:
    filters = {name: request.query_params.get(name, "").strip() for name in _BY}
    query = {name: text for name, text in filters.items() if text}
    rows = await ApiClient(request).need("lineage", limit=_MOST + 1, **query)
    shown_rows = sorted(rows[:_MOST], key=_place)
    topics = [(topic, list(edges)) for topic, edges in groupby(shown_rows, key=_topic)]
    return page("lineage.html", topics=topics, shown=len(shown_rows), more=len(rows) > _MOST, wanted=filters)


def _topic(row: dict[str, Any]) -> str:
    return str(row["topic"] or row["source"])


def _place(row: dict[str, Any]) -> tuple[Any, ...]:
    """By topic and table, the newest version first."""
    return _topic(row), row["db"], row["table"], -(row["table_version"] or 0), row["job"], row["to"]
