"""Pages about subjects: list and search, one subject, its versions and their differences. Changes: changes.py."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

import anyio
import anyio.to_thread
from fastapi import Request, Response

from service.registry.mode import FORWARD, MODES
from service.registry.model import context_of, name_of, prefix_of
from service.schema_types.base import LEVELS
from service.ui.api_client import ApiClient
from service.ui.diff import fold_rows, side_by_side
from service.ui.pages import FormError, number_of, page, page_router, part, pretty_json, with_error_pages

router = page_router("/ui/subjects")

_PAGE: Final = 50
_SCANNED: Final = 20_000
_SCAN_PAGE: Final = 1000
_ALL: Final = ":*:"
_COMPARING: Final = anyio.CapacityLimiter(2)
NOTHING_PASTED: Final = {"schema": "", "kind": "AVRO", "against": "", "references": ""}
_BY: Final = {"name": "name", "id": "schema id", "column": "column"}


@dataclass(frozen=True, slots=True)
class SubjectRow:
    """A row of the list."""

    subject: str
    context: str
    name: str
    kind: str
    versions: str
    latest_id: int | None
    level: str
    own_level: bool
    mode: str
    deleted: bool


@router.get("")
@with_error_pages
async def list_subjects(request: Request) -> Response:
    api, query = ApiClient(request), request.query_params
    text, by, deleted = query.get("q", "").strip(), query.get("by", "name"), query.get("deleted") == "1"
    start = number_of(query.get("from", "")) or 0
    names, note = await _find_subjects(api, text, by if by in _BY else "name", deleted)
    live = set(await api.need("subjects", subjectPrefix=_ALL)) if deleted else set(names)
    rows = [await _subject_row(api, name, name not in live) for name in names[start : start + _PAGE]]
    values = {"q": text, "by": by, **({"deleted": "1"} if deleted else {})}
    return page(
        "subjects.html",
        rows=rows,
        total=len(names),
        start=start,
        size=_PAGE,
        q=text,
        by=by,
        choices=_BY,
        deleted=deleted,
        note=note,
        earlier=urlencode({**values, "from": start - _PAGE}) if start >= _PAGE else "",
        later=urlencode({**values, "from": start + _PAGE}) if start + _PAGE < len(names) else "",
        level=(await api.get("config")).value.get("compatibilityLevel", "not to be seen"),
        mode=(await api.get("mode")).value.get("mode", "not to be seen"),
        levels=list(LEVELS),
        modes=[one for one in MODES if one != FORWARD],
    )


async def _find_subjects(api: ApiClient, text: str, by: str, deleted: bool) -> tuple[list[str], str]:
    """(subjects, what was not looked through)."""
    if text and by == "id":
        return await _with_id(api, text, deleted), ""
    if text and by == "column":
        return await _with_column(api, text, deleted)
    names = await api.need("subjects", subjectPrefix=_ALL, deleted=deleted)
    return [name for name in names if text.casefold() in name.casefold()], ""


async def _with_id(api: ApiClient, text: str, deleted: bool) -> list[str]:
    """Subjects of any context where a version has this id; an id of another context is another schema's."""
    if number_of(text) is None:
        raise FormError(f"A schema id is a number, not {text[:100]!r}.")
    subjects: list[str] = []
    for context in dict.fromkeys([".", *(await api.need("contexts"))]):
        within = ("contexts", context) if context != "." else ()
        answer = await api.get(*within, "schemas", "ids", text, "versions", deleted=deleted)
        subjects += [one["subject"] for one in answer.value] if answer.is_ok else []
    return sorted(set(subjects))


async def _with_column(api: ApiClient, text: str, deleted: bool) -> tuple[list[str], str]:
    """Subjects whose latest version has a field of this name (parts of a name count too)."""
    pattern = re.compile(r'"name"\s*:\s*"[^"]*' + re.escape(json.dumps(text, ensure_ascii=False)[1:-1]), re.IGNORECASE)
    subjects: list[str] = []
    for start in range(0, _SCANNED, _SCAN_PAGE):
        schemas = await api.need(
            "schemas", subjectPrefix=_ALL, latestOnly=True, deleted=deleted, offset=start, limit=_SCAN_PAGE
        )
        subjects += [one["subject"] for one in schemas if _has_column(one, pattern, text)]
        if len(schemas) < _SCAN_PAGE:
            return subjects, ""
    return subjects, f"Only the first {_SCANNED} subjects were looked through."


def _has_column(schema: dict[str, Any], pattern: re.Pattern[str], text: str) -> bool:
    kind = schema.get("schemaType", "AVRO")
    return bool(pattern.search(schema["schema"]) if kind == "AVRO" else text.casefold() in schema["schema"].casefold())


async def _subject_row(api: ApiClient, subject: str, deleted: bool) -> SubjectRow:
    numbers = await api.get("subjects", subject, "versions", deleted=deleted)
    versions = numbers.value if numbers.is_ok else []
    latest: dict[str, Any] = {}
    if versions:
        answer = await api.get("subjects", subject, "versions", str(versions[-1]), deleted=deleted)
        latest = answer.value if answer.is_ok else {}
    own = await api.get("config", subject)
    level = (
        own
        if own.is_ok and own.value.get("compatibilityLevel")
        else await api.get("config", subject, defaultToGlobal=True)
    )
    mode = await api.get("mode", subject, defaultToGlobal=True)
    return SubjectRow(
        subject,
        context_of(subject),
        name_of(subject),
        latest.get("schemaType", "AVRO") if latest else "",
        _ranges(versions),
        latest.get("id"),
        level.value.get("compatibilityLevel", "") if level.is_ok else "",
        level is own,
        mode.value.get("mode", "") if mode.is_ok else "",
        deleted,
    )


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
@with_error_pages
async def show(request: Request) -> Response:
    return await subject_page(request, part(request, "subject"))


async def subject_page(request: Request, subject: str, **more: Any) -> Response:
    """The page of a subject, its newest versions first. more: what else its template shows, and the status."""
    api = ApiClient(request)
    numbers = list(reversed(await api.need("subjects", subject, "versions", deleted=True)))
    live = await api.get("subjects", subject, "versions")
    start = min(number_of(request.query_params.get("from", "")) or 0, len(numbers) - 1)
    rows = []
    for place, number in enumerate(numbers[start : start + _PAGE], start):
        one = await api.need("subjects", subject, "versions", str(number), deleted=True)
        before = numbers[place + 1] if place + 1 < len(numbers) else None
        rows.append({**one, "deleted": not (live.is_ok and number in live.value), "before": before})
    own = await api.get("config", subject)
    level = await api.get("config", subject, defaultToGlobal=True)
    own_mode, mode = await api.get("mode", subject), await api.get("mode", subject, defaultToGlobal=True)
    return page(
        "subject.html",
        more.pop("status", 200),
        **{
            "subject": subject,
            "context": context_of(subject),
            "rows": rows,
            "total": len(numbers),
            "start": start,
            "older": start + _PAGE if start + _PAGE < len(numbers) else None,
            "live": live.value if live.is_ok else [],
            "level": level.value.get("compatibilityLevel", "") if level.is_ok else "",
            "own_level": own.is_ok and "compatibilityLevel" in own.value,
            "settings": own.value if own.is_ok else {},
            "mode": mode.value.get("mode", "") if mode.is_ok else "",
            "own_mode": own_mode.is_ok,
            "levels": list(LEVELS),
            "modes": [one for one in MODES if one != FORWARD],
            "pasted": NOTHING_PASTED,
            "checked": None,
            **more,
        },
    )


@router.get("/{subject}/versions/{version}")
@with_error_pages
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
@with_error_pages
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
