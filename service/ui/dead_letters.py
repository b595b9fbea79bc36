"""Pages of dead letters: by reason, and sent again after a dry run and a question."""

from __future__ import annotations

import json
from typing import Any, Final
from urllib.parse import urlencode

from fastapi import Request, Response

from ticdc_bridge.service.ui.pages import (
    ApiAnswer,
    ApiClient,
    FormError,
    PageRouter,
    form_fields,
    go,
    number_of,
    page,
    part,
    segment,
)
from ticdc_bridge.service.ui.topics import ask_kafka, check_allowed, problem_of, status_of

router = PageRouter("/ui/dead-letters")

_MOST: Final = 200
_COUNTS: Final = ("sent", "left", "failed")


@router.get("")
async def list_topics(request: Request) -> Response:
    """Topics of dead letters: those that jobs reported, or whose names say so; a form for any other."""
    topic = request.query_params.get("topic", "").strip()
    if topic:
        return go(f"/ui/dead-letters/{segment(topic)}")
    answer = await ask_kafka(ApiClient(request), "topics", deadLetters=True, limit=_MOST)
    listed = answer.value if answer.is_ok else {"topics": [], "total": 0}
    return page(
        "dead_letter_topics.html",
        status_of(answer),
        rows=listed["topics"],
        total=listed["total"],
        asked=answer.is_ok,
        said=problem_of(answer),
    )


@router.get("/{topic}")
async def show(request: Request) -> Response:
    """The letters of a topic by reason."""
    topic, query = part(request, "topic"), request.query_params
    counts = {name: number_of(query.get(name, "")) for name in _COUNTS}
    done = counts if counts["sent"] is not None else None
    return await _topic_page(request, topic, done=done)


async def _topic_page(request: Request, topic: str, **more: Any) -> Response:
    answer = await ask_kafka(ApiClient(request), "topics", topic, "dead-letters")
    values = {"done": None, "said": problem_of(answer), "status": status_of(answer), **more}
    return page(
        "dead_letters.html",
        values.pop("status"),
        topic=topic,
        found=answer.value if answer.is_ok else None,
        ends=json.dumps(answer.value["ends"]) if answer.is_ok else "",
        **values,
    )


@router.post("/{topic}/replay")
async def replay(request: Request) -> Response:
    """First what would be sent, with a question; then, confirmed, sent."""
    api, topic, sent = ApiClient(request), part(request, "topic"), await form_fields(request)
    fields = dict(sent)
    reasons = [text for name, text in sent if name == "reason"]
    is_confirmed = fields.get("confirmed") == "1"
    if not reasons:
        return await _topic_page(request, topic, said="Choose at least one reason.", status=400)
    body = {**_question(fields), "reasons": reasons, "dry_run": not is_confirmed}
    answer = check_allowed(await api.send("POST", "kafka", "topics", topic, "replay", body=body))
    if not answer.is_ok:
        return await _topic_page(request, topic, said=problem_of(answer), status=answer.status)
    return _sent(topic, answer) if is_confirmed else _confirm(topic, fields, reasons, answer)


def _question(fields: dict[str, str]) -> dict[str, Any]:
    """What the form says beside the reasons. Raises FormError."""
    text = fields.get("max_attempts", "").strip()
    most = number_of(text)
    if text and not most:
        raise FormError(f"At most how many attempts: a number from 1 on is needed, not {text[:60]!r}.")
    try:
        ends = json.loads(fields["ends"]) if fields.get("ends") else None
    except (ValueError, RecursionError):
        raise FormError("The form is damaged: load the page of the dead letters again.") from None
    return {"max_attempts": most, "since": fields.get("since", "").strip() or None, "ends": ends}


def _confirm(topic: str, fields: dict[str, str], reasons: list[str], answer: ApiAnswer) -> Response:
    return page(
        "replay.html",
        topic=topic,
        plan=answer.value,
        reasons=reasons,
        given={name: fields.get(name, "") for name in ("since", "max_attempts")},
        ends=json.dumps(answer.value["ends"]),
    )


def _sent(topic: str, answer: ApiAnswer) -> Response:
    """The topic's page by GET, so that a reload sends nothing again."""
    left = sum(one["count"] for one in answer.value["left_out"])
    counts = {"sent": answer.value["sent"], "left": left, "failed": answer.value["too_many_attempts"]}
    return go(f"/ui/dead-letters/{segment(topic)}?{urlencode(counts)}")
