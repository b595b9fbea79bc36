"""Pages about subjects: list and search, one subject, its versions and their differences. Changes: changes.py."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import urlencode

import anyio
import anyio.to_thread
from fastapi import Request, Response

from ticdc_bridge.service.registry.mode import FORWARD, MODES
from ticdc_bridge.service.registry.names import context_of, name_of, prefix_of
from ticdc_bridge.service.schema_types.base import LEVELS
from ticdc_bridge.service.ui.api_client import ApiClient
from ticdc_bridge.service.ui.diff import fold_rows, side_by_side
from ticdc_bridge.service.ui.pages import FormError, PageRouter, number_of, page, part, pretty_json

router = PageRouter("/ui/subjects")

_PAGE: Final = 50
_COMPARING: Final = anyio.CapacityLimiter(2)
NOTHING_PASTED: Final = {"schema": "", "kind": "AVRO", "against": "", "references": ""}
_BY: Final = {"name": "name", "id": "schema id", "column": "column"}
_CHOICES: Final[dict[str, Any]] = {"levels": list(LEVELS), "modes": [one for one in MODES if one != FORWARD]}


@router.get("")
async def list_subjects(request: Request) -> Response:
    api, query = ApiClient(request), request.query_params
    text, by, deleted = query.get("q", "").strip(), query.get("by", "name"), query.get("deleted") == "1"
    start, by = number_of(query.get("from", "")) or 0, by if by in _BY else "name"
    if text and by == "id" and number_of(text) is None:
        raise FormError(f"A schema id is a number, not {text[:100]!r}.")
    of = {by: text} if text else {}
    answer = await api.need("overview", **of, deleted=deleted, offset=start, limit=_PAGE)
    values = {"q": text, "by": by, **({"deleted": "1"} if deleted else {})}
    return page(
        "subjects.html",
        rows=[_row(one) for one in answer["subjects"]],
        total=answer["total"],
        start=start,
        size=_PAGE,
        q=text,
        by=by,
        choices=_BY,
        deleted=deleted,
        earlier=urlencode({**values, "from": start - _PAGE}) if start >= _PAGE else "",
        later=urlencode({**values, "from": start + _PAGE}) if start + _PAGE < answer["total"] else "",
        level=(await api.get("config")).value.get("compatibilityLevel", "not to be seen"),
        mode=(await api.get("mode")).value.get("mode", "not to be seen"),
        **_CHOICES,
    )


def _row(one: dict[str, Any]) -> dict[str, Any]:
    """A row of the list: of a deleted subject, its deleted versions."""
    live = [version for version in one["versions"] if not version["deleted"]]
    versions = live or one["versions"]
    return {
        **one,
        "context": context_of(one["subject"]),
        "name": name_of(one["subject"]),
        "latest": versions[-1] if versions else None,
        "ranges": _ranges(version["version"] for version in versions),
        "deleted": not live,
    }


def _ranges(numbers: Iterable[int]) -> str:
    """`1–4, 6` of 1 2 3 4 6."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in ranges)


# ---- one subject


@router.get("/{subject}")
async def show(request: Request) -> Response:
    return await subject_page(request, part(request, "subject"))


async def subject_page(request: Request, subject: str, **more: Any) -> Response:
    """The page of a subject, its newest versions first. more: what else its template shows, and the status."""
    api = ApiClient(request)
    await api.need("subjects", subject, "versions", deleted=True)  # says what is wrong where there is nothing
    [one] = (await api.need("overview", subject=subject))["subjects"]
    own, versions = await api.get("config", subject), list(reversed(one["versions"]))
    for row, before in zip(versions, [*versions[1:], {"version": None}], strict=True):
        row["before"] = before["version"]
    start = min(number_of(request.query_params.get("from", "")) or 0, len(versions) - 1)
    return page(
        "subject.html",
        more.pop("status", 200),
        **{
            "one": one,
            "subject": subject,
            "context": context_of(subject),
            "rows": versions[start : start + _PAGE],
            "total": len(versions),
            "start": start,
            "older": start + _PAGE if start + _PAGE < len(versions) else None,
            "live": [row["version"] for row in one["versions"] if not row["deleted"]],
            "settings": own.value if own.is_ok else {},
            "pasted": NOTHING_PASTED,
            "checked": None,
            **_CHOICES,
            **more,
        },
    )


@router.get("/{subject}/versions/{version}")
async def show_version(request: Request) -> Response:
    api, subject, version = ApiClient(request), part(request, "subject"), part(request, "version")
    answer = await api.need("subjects", subject, "versions", version, deleted=True)
    using = await api.get("subjects", answer["subject"], "versions", str(answer["version"]), "referencedby")
    context = context_of(answer["subject"])
    shared = await api.get("schemas", "ids", str(answer["id"]), "versions", subject=prefix_of(context), deleted=True)
    numbers = await api.get("subjects", answer["subject"], "versions", deleted=True)
    before = [one for one in numbers.value if one < answer["version"]] if numbers.is_ok else []
    kind = answer.get("schemaType", "AVRO")
    return page(
        "version.html",
        found=answer,
        before=before[-1] if before else None,
        kind=kind,
        fields=_fields(answer["schema"]) if kind == "AVRO" else [],
        using=using.value if using.is_ok else [],
        shared=[one for one in shared.value if one["subject"] != answer["subject"]] if shared.is_ok else [],
        text=pretty_json(answer["schema"]),
    )


def _fields(text: str) -> list[dict[str, Any]]:
    """Name, type, TiDB type and default of each field of an Avro record."""
    try:
        record = json.loads(text)
    except ValueError:
        return []
    fields = record.get("fields") if isinstance(record, dict) else None
    return [_field(one) for one in fields if isinstance(one, dict)] if isinstance(fields, list) else []


def _field(field: dict[str, Any]) -> dict[str, Any]:
    kind = field.get("type")
    branches = kind if isinstance(kind, list) else [kind]
    parameters: Any = next((p for b in branches if isinstance(b, dict) and (p := b.get("connect.parameters"))), {})
    return {
        "name": str(field.get("name")),
        "type": ", ".join(_type(branch) for branch in branches),
        "tidb": parameters.get("tidb_type", "") if isinstance(parameters, dict) else "",
        "default": json.dumps(field["default"], ensure_ascii=False) if "default" in field else "none",
    }


def _type(kind: Any) -> str:
    if not isinstance(kind, dict):
        return str(kind)
    logical, name = kind.get("logicalType"), kind.get("name", kind.get("type"))
    if logical == "decimal":
        return f"decimal({kind.get('precision')},{kind.get('scale', 0)})"
    return f"{name} ({logical})" if logical else str(name)


@router.get("/{subject}/diff")
async def diff(request: Request) -> Response:
    api, subject = ApiClient(request), part(request, "subject")
    numbers = await api.need("subjects", subject, "versions", deleted=True)
    right = request.query_params.get("to") or str(numbers[-1])
    left = request.query_params.get("from") or str(numbers[-2] if len(numbers) > 1 else numbers[-1])
    texts = [
        pretty_json((await api.need("subjects", subject, "versions", number, deleted=True))["schema"])
        for number in (left, right)
    ]
    whole = request.query_params.get("whole") == "1"
    rows = await anyio.to_thread.run_sync(side_by_side, texts[0], texts[1], limiter=_COMPARING)
    return page(
        "diff.html",
        subject=subject,
        numbers=[str(number) for number in numbers],
        left=left,
        right=right,
        whole=whole,
        rows=rows if whole else fold_rows(rows),
        changed=sum(row.kind != "same" for row in rows),
    )
