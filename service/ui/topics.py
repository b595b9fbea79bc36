"""Pages of Kafka's topics: which there are, the last messages of one, decoded, and dead letters by reason."""

import json
from typing import Any, Final
from urllib.parse import urlencode

from fastapi import Request, Response

from ticdc_bridge.service.ui import pages
from ticdc_bridge.service.ui.pages import (
    ApiAnswer,
    ApiClient,
    ApiError,
    FormError,
    number_in,
    page,
    path_parameter,
    segment,
)

router = pages.PageRouter("/ui/topics")

_DEAD: Final = "/ui/dead-letters"
_COUNTS: Final = (10, 20, 50, 100, 200)
_MOST: Final = 500
_FILTERS: Final = ("last", "partition", "offset", "time", "key", "format", "changefeed")
_NO_KAFKA: Final = 42270


@router.get("")
async def list_topics(request: Request) -> Response:
    return await _list(request, False)


async def _list(request: Request, dead: bool) -> Response:
    """Topics by name; dead: only those of dead letters, which jobs reported, or whose names say so."""
    text = request.query_params.get("q", "").strip()
    view = pages.ListView(request, q=text)
    answer = await ask_kafka(ApiClient(request), "topics", name=text or None, deadLetters=dead, **view.asked)
    listed: dict[str, Any] = answer.value if answer.is_ok else {"topics": [], "total": 0}
    values = {
        "view": view.fill(listed["topics"], listed["total"]), "path": _DEAD if dead else "/ui/topics", "dead": dead,
        "q": text, "asked": answer.is_ok, "said": problem_of(answer),
    }  # fmt: skip
    return page("topics.html", status_of(answer), **values)


@router.get("/{topic}")
async def show(request: Request) -> Response:
    """Messages of a topic, the newest first: the last ones, or those before an offset or a time."""
    api, topic, query = ApiClient(request), path_parameter(request, "topic"), request.query_params
    filled = {name: text for name in _FILTERS if (text := query.get(name, "").strip())}
    count, offset = number_in(filled, "last") or _COUNTS[1], number_in(filled, "offset", 18)
    count, partition, before = min(count, _MOST), number_in(filled, "partition"), query.get("before")
    if offset is not None:  # the messages from an offset on are the last ones before a later one
        partition = partition or 0
        before = f"{partition}:{offset + count}"
    wanted = {
        "last": count, "partition": partition, "before": before, "beforeTime": filled.get("time"),
        "key": filled.get("key"), "messageFormat": filled.get("format"), "changefeed": filled.get("changefeed"),
    }  # fmt: skip
    answer = await ask_kafka(api, "topics", topic, "messages", **wanted)
    found, newer = answer.value if answer.is_ok else None, ""
    if found and offset is not None and not wanted["key"]:
        found["messages"] = [entry for entry in found["messages"] if entry["offset"] >= offset]
        found["older"] = f"{partition}:{offset}" if offset else ""
        newer = urlencode({**filled, "offset": offset + count})
    kept = {name: text for name, text in filled.items() if name not in ("offset", "time")}
    kept |= {} if partition is None else {"partition": str(partition)}
    feeds = await api.get("history", "changefeeds")
    values = {
        "topic": topic, "found": found, "wanted": wanted, "filled": filled, "counts": sorted({*_COUNTS, count}),
        "newer": newer, "older": found and found["older"] and urlencode({**kept, "before": found["older"]}),
        "formats": format_names(), "feeds": [entry["changefeed"] for entry in feeds.value] if feeds.is_ok else [],
        "said": problem_of(answer),
    }  # fmt: skip
    return page("topic.html", status_of(answer), **values)


def format_names() -> tuple[str, ...]:
    """The formats that a message may be read as. They are imported when a page first asks."""
    from ticdc_bridge.schemas.formats.format_table import FORMATS
    from ticdc_bridge.schemas.inspect.auto_decoder import AUTO

    return (AUTO.name, *FORMATS)


async def ask_kafka(api: ApiClient, *path: str, **query: str | int | bool | None) -> ApiAnswer:
    """GET below `/kafka`. Raises ApiError for whom it is not; other refusals are for the page to show."""
    return check_allowed(await api.get("kafka", *path, **query))


def check_allowed(answer: ApiAnswer) -> ApiAnswer:
    """The answer. ApiError for whom it is not."""
    if answer.status in (401, 403):
        raise ApiError(answer)
    return answer


def status_of(answer: ApiAnswer) -> int:
    """A page that says how Kafka is configured is no error."""
    code = answer.value.get("error_code") if isinstance(answer.value, dict) else None
    return 200 if code == _NO_KAFKA else answer.status


def problem_of(answer: ApiAnswer) -> str:
    """Why Kafka gave no answer, in words; "" where it did."""
    return "" if answer.is_ok else str(answer.value["message"] if isinstance(answer.value, dict) else answer.problem)


dead_letter_router = pages.PageRouter(_DEAD)


@dead_letter_router.get("")
async def list_dead_letter_topics(request: Request) -> Response:
    """Topics of dead letters, and a form for any other topic."""
    topic = request.query_params.get("topic", "").strip()
    return pages.go(f"{_DEAD}/{segment(topic)}") if topic else await _list(request, True)


@dead_letter_router.get("/{topic}")
async def show_letters(request: Request) -> Response:
    """The letters of a topic by reason."""
    topic, query = path_parameter(request, "topic"), request.query_params
    counts = {name: pages.number_of(query.get(name, "")) for name in ("sent", "left", "failed")}
    return await _topic_page(request, topic, done=counts if counts["sent"] is not None else None)


async def _topic_page(request: Request, topic: str, **more: Any) -> Response:
    answer = await ask_kafka(ApiClient(request), "topics", topic, "dead-letters")
    values = {
        "done": None, "said": problem_of(answer), "status": status_of(answer), "topic": topic,
        "found": answer.value if answer.is_ok else None,
        "ends": json.dumps(answer.value["ends"]) if answer.is_ok else "", **more,
    }  # fmt: skip
    return page("dead_letters.html", values.pop("status"), **values)


@dead_letter_router.post("/{topic}/replay")
async def replay(request: Request) -> Response:
    """First what would be sent, with a question; then, confirmed, sent."""
    api, topic, sent = ApiClient(request), path_parameter(request, "topic"), await pages.form_fields(request)
    fields = dict(sent)
    reasons = [text for name, text in sent if name == "reason"]
    is_confirmed = fields.get("confirmed") == "1"
    if not reasons:
        return await _topic_page(request, topic, said="Choose at least one reason.", status=400)
    body = {**_question(fields), "reasons": reasons, "dry_run": not is_confirmed}
    answer = check_allowed(await api.send("POST", "kafka", "topics", topic, "replay", body=body))
    if not answer.is_ok:
        return await _topic_page(request, topic, said=problem_of(answer), status=answer.status)
    if is_confirmed:  # the topic's page by GET, so that a reload sends nothing again
        left = sum(entry["count"] for entry in answer.value["left_out"])
        counts = {"sent": answer.value["sent"], "left": left, "failed": answer.value["too_many_attempts"]}
        return pages.go(f"/ui/dead-letters/{segment(topic)}?{urlencode(counts)}")
    filled = {name: fields.get(name, "") for name in ("since", "max_attempts")}
    ends = json.dumps(answer.value["ends"])
    return page("replay.html", topic=topic, plan=answer.value, reasons=reasons, filled=filled, ends=ends)


def _question(fields: dict[str, str]) -> dict[str, Any]:
    """The fields of the form beside the reasons, as the API takes them. Raises FormError."""
    text = fields.get("max_attempts", "").strip()
    most = pages.number_of(text)
    if text and not most:
        raise FormError(f"Attempts: a number from 1 on is needed, not {text[:60]!r}.")
    try:
        ends = json.loads(fields["ends"]) if fields.get("ends") else None
    except (ValueError, RecursionError):
        raise FormError("The form is damaged: load the page of the dead letters again.") from None
    return {"max_attempts": most, "since": fields.get("since", "").strip() or None, "ends": ends}
