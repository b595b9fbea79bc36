"""Pages of Kafka's topics: which there are, and the last messages of one, decoded."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

from fastapi import Request, Response

from ticdc_bridge.service.ui.pages import ApiAnswer, ApiClient, ApiError, PageRouter, number_of, page, part

router = PageRouter("/ui/topics")

_PAGE: Final = 50
_COUNTS: Final = (10, 20, 50, 100, 200)
_NOT_ALLOWED: Final = (401, 403)
_NO_KAFKA: Final = 42270


@router.get("")
async def list_topics(request: Request) -> Response:
    query = request.query_params
    text, start = query.get("q", "").strip(), number_of(query.get("from", "")) or 0
    answer = await ask_kafka(ApiClient(request), "topics", name=text or None, offset=start, limit=_PAGE)
    listed = answer.value if answer.is_ok else {"topics": [], "total": 0, "next_offset": None}
    values = {"q": text} if text else {}
    return page(
        "topics.html",
        status_of(answer),
        rows=listed["topics"],
        total=listed["total"],
        start=start,
        q=text,
        asked=answer.is_ok,
        earlier=urlencode({**values, "from": max(start - _PAGE, 0)}) if start else "",
        later=urlencode({**values, "from": listed["next_offset"]}) if listed["next_offset"] else "",
        said=problem_of(answer),
    )


@router.get("/{topic}")
async def show(request: Request) -> Response:
    """The last messages of a topic, the newest first."""
    api, topic, query = ApiClient(request), part(request, "topic"), request.query_params
    count = number_of(query.get("last", ""))
    wanted = {
        "last": _COUNTS[1] if count is None else max(count, 1),
        "partition": number_of(query.get("partition", "")),
        "messageFormat": query.get("format", "").strip() or None,
        "changefeed": query.get("changefeed", "").strip() or None,
    }
    answer = await ask_kafka(api, "topics", topic, "messages", **wanted)
    feeds = await api.get("history", "changefeeds")
    return page(
        "topic.html",
        status_of(answer),
        topic=topic,
        found=answer.value if answer.is_ok else None,
        wanted=wanted,
        counts=sorted({*_COUNTS, int(wanted["last"] or 1)}),
        formats=_formats(),
        feeds=[one["changefeed"] for one in feeds.value] if feeds.is_ok else [],
        said=problem_of(answer),
    )


def _formats() -> tuple[str, ...]:
    from ticdc_bridge.schemas.formats.format_table import FORMATS
    from ticdc_bridge.schemas.inspect.auto_decoder import AUTO

    return (AUTO.name, *FORMATS)


async def ask_kafka(api: ApiClient, *path: str, **query: str | int | bool | None) -> ApiAnswer:
    """GET below `/kafka`. Raises ApiError for whom it is not; other refusals are for the page to show."""
    return check_allowed(await api.get("kafka", *path, **query))


def check_allowed(answer: ApiAnswer) -> ApiAnswer:
    """The answer. ApiError for whom it is not."""
    if answer.status in _NOT_ALLOWED:
        raise ApiError(answer)
    return answer


def status_of(answer: ApiAnswer) -> int:
    """A page that says how Kafka is configured is no error."""
    code = answer.value.get("error_code") if isinstance(answer.value, dict) else None
    return 200 if code == _NO_KAFKA else answer.status


def problem_of(answer: ApiAnswer) -> str:
    """Why Kafka gave no answer, in words; "" where it did."""
    return "" if answer.is_ok else str(answer.value["message"] if isinstance(answer.value, dict) else answer.problem)
