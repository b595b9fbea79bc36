"""All pages, and what is not a page of its own."""

from importlib.resources import files
from typing import Final

from fastapi import Request, Response

from ticdc_bridge.service.ui import ddl_check, explain, home, lake, lineage, subjects, tables, topics
from ticdc_bridge.service.ui.pages import HEADERS, PageRouter, page

router = PageRouter()


_STATIC: Final = {"style.css": "text/css; charset=utf-8", "icon.svg": "image/svg+xml"}


@router.get("/ui/style.css")
@router.get("/ui/icon.svg")
async def static(request: Request) -> Response:
    """A file that comes with the pages."""
    name = request.url.path.rpartition("/")[2]
    content = files("ticdc_bridge.service.ui").joinpath("static", name).read_bytes()
    return Response(content, headers={**HEADERS, "Cache-Control": "max-age=300"}, media_type=_STATIC[name])


nowhere = PageRouter()


@nowhere.api_route("/ui/{rest:path}", methods=["GET", "POST"])
async def nothing_here(request: Request) -> Response:
    return page("error.html", 404, title="Not found", problem="There is no such page.")


ROUTERS: Final = (
    router, home.router, subjects.router, subjects.server, tables.router, ddl_check.router, explain.router, lake.router,
    lineage.router, topics.router, topics.dead_letter_router,
    nowhere,  # the last one: whatever the others are not
)  # fmt: skip
