"""All pages, and what is not a page of its own."""

from typing import Final

from fastapi import Request, Response

from ticdc_bridge.service.ui import ddl_check, explain, home, lake, lineage, subjects, tables, topics
from ticdc_bridge.service.ui.pages import PageRouter, page, static

router = PageRouter()


@router.get("/ui/style.css")
async def style(request: Request) -> Response:
    return static("style.css", "text/css; charset=utf-8")


@router.get("/ui/icon.svg")
async def icon(request: Request) -> Response:
    return static("icon.svg", "image/svg+xml")


nowhere = PageRouter()


@nowhere.api_route("/ui/{rest:path}", methods=["GET", "POST"])
async def nothing_here(request: Request) -> Response:
    return page("error.html", 404, title="Not found", problem="There is no such page.")


ROUTERS: Final = (
    router,
    home.router,
    subjects.router,
    subjects.server,
    tables.router,
    ddl_check.router,
    explain.router,
    lake.router,
    lineage.router,
    topics.router,
    topics.dead_letter_router,
    nowhere,  # the last one: whatever the others are not
)
