"""Pages of table histories: tables, a table and its changes, a table at a time, the check of a DDL statement."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from fastapi import Request, Response

from service.ui.api_client import ApiAnswer, ApiClient
from service.ui.pages import form, go, number_of, page, page_router, part, segment, with_error_pages

_LINE: Final = re.compile(r"  (?!`)(.+?),?")
_KEY: Final = re.compile(r"(PRIMARY KEY|(?:UNIQUE |FULLTEXT |SPATIAL )?KEY `(?:[^`]|``)+`)(.*)")
_END: Final = ") "


@dataclass(frozen=True, slots=True)
class TableLines:
    """A table version for comparison: columns and keys by name, each as a line of text; options after the brackets."""

    columns: Mapping[str, str]
    keys: Mapping[str, str]
    options: str


def table_lines(answer: Mapping[str, Any]) -> TableLines | None:
    """Of an answer of /history/{db}/{table}/at/…; None where the columns are not known."""
    table, text = answer.get("table"), answer.get("show_create")
    if not table:
        return None
    lines = text.split("\n") if isinstance(text, str) else []
    matches = (_KEY.fullmatch(match[1]) for line in lines if (match := _LINE.fullmatch(line)))
    options = lines[-1].removeprefix(_END) if lines and lines[-1].startswith(_END) else ""
    return TableLines(
        {one["name"]: _column(one) for one in table["columns"]},
        {match[1]: match[2].strip() for match in matches if match},
        options,
    )


def _column(one: Mapping[str, Any]) -> str:
    words = [str(one["type"])]
    if one.get("generated"):
        words.append(f"AS ({one['generated']}) {'STORED' if one.get('stored') else 'VIRTUAL'}")
    words.append("NULL" if one["nullable"] else "NOT NULL")
    if one["default"] is not None:
        words.append(f"DEFAULT {one['default']}")
    if one.get("auto_increment"):
        words.append("AUTO_INCREMENT")
    if one.get("collate") not in (None, "", "binary"):
        words.append(f"COLLATE {one['collate']}")
    if one.get("comment"):
        words.append(f"COMMENT {one['comment']}")
    return " ".join(words)


def changes(before: TableLines | None, now: TableLines | None) -> list[tuple[str, str]]:
    """(kind, text) of each difference, kind one of gone, new, changed; nothing for the first version that is known."""
    if before is None or now is None:
        return []
    renamed = _find_renames(list(before.columns.items()), list(now.columns.items()))
    old = {renamed.get(name, name): text for name, text in before.columns.items()}
    differences = [("changed", f"{name} is now called {other}") for name, other in renamed.items()]
    differences += _compare_columns(old, now.columns)
    stayed = [name for name in old if name in now.columns]
    if stayed != [name for name in now.columns if name in old]:
        differences.append(("changed", f"the order of the columns: {', '.join(now.columns)}"))
    differences += _compare_columns(before.keys, now.keys)
    if before.options != now.options:
        differences.append(("changed", f"{before.options} → {now.options}"))
    return differences


def _find_renames(before: list[tuple[str, str]], now: list[tuple[str, str]]) -> dict[str, str]:
    """Columns that have another name and are the same otherwise, in the same place of as many columns."""
    if len(before) != len(now):
        return {}
    names, others = {name for name, _ in before}, {name for name, _ in now}
    return {
        name: other
        for (name, text), (other, as_now) in zip(before, now, strict=True)
        if text == as_now and name not in others and other not in names
    }


def _compare_columns(before: Mapping[str, str], now: Mapping[str, str]) -> list[tuple[str, str]]:
    gone = [("gone", f"{name} {text}") for name, text in before.items() if name not in now]
    new = [("new", f"{name} {text}") for name, text in now.items() if name not in before]
    changed = [
        ("changed", f"{name}: {before[name]} → {text}") for name, text in now.items() if before.get(name, text) != text
    ]
    return [*gone, *new, *changed]


router = page_router("/ui/tables")
dry_run = page_router("/ui/dry-run")


_PAGE: Final = 50
_PICKS: Final = 100
_EVERY: Final = 10_000


@router.get("")
@with_error_pages
async def list_tables(request: Request) -> Response:
    api, query = ApiClient(request), request.query_params
    feeds = await api.need("history", "changefeeds")
    chosen = query.get("changefeed") or (feeds[0]["changefeed"] if feeds else "")
    start, text = number_of(query.get("from", "")) or 0, query.get("q", "").strip()
    answer: dict[str, Any] = {"tables": [], "next_offset": None}
    drift: dict[str, Any] = {"drift": []}
    if chosen:
        limit = None if text else _PAGE
        answer = await api.need("history", "tables", changefeed=chosen, offset=start, limit=limit)
        drift = await api.need("history", "drift", changefeed=chosen, limit=_PAGE)
    names = [one for one in answer["tables"] if text.casefold() in f"{one['db']}.{one['table']}".casefold()]
    values = {"changefeed": chosen, "q": text}
    return page(
        "tables.html",
        feeds=feeds,
        chosen=chosen,
        q=text,
        rows=names,
        drift=drift,
        earlier=urlencode({**values, "from": max(start - _PAGE, 0)}) if start else "",
        later=urlencode({**values, "from": answer["next_offset"]}) if answer["next_offset"] else "",
    )


@router.get("/{db}/{table}")
@with_error_pages
async def show(request: Request) -> Response:
    """The newest versions, each with what it changed."""
    api, db, table = ApiClient(request), part(request, "db"), part(request, "table")
    feed, start = request.query_params.get("changefeed") or None, number_of(request.query_params.get("from", "")) or 0
    if feed is None and (response := await _choose_changefeed(api, db, table)) is not None:
        return response
    answer = await api.need("history", db, table, "versions", changefeed=feed, limit=_EVERY)
    newest_first = list(reversed(answer["versions"]))
    rows: list[dict[str, Any]] = []
    before: TableLines | None = None
    for one in reversed(newest_first[start : start + _PAGE + 1]):
        now = await _fetch_lines(api, db, table, one["commit_ts"], feed)
        rows.append({**one, "changes": changes(before, now)})
        before = now
    rows = rows[-_PAGE:] if len(rows) > _PAGE else rows
    drift = await api.need("history", "drift", changefeed=answer["changefeed"], registry=False, limit=1000)
    return page(
        "table.html",
        db=db,
        table=table,
        feed=answer["changefeed"],
        sealed_ts=answer["sealed_ts"],
        rows=list(reversed(rows)),
        total=len(newest_first),
        start=start,
        later=start + _PAGE if start + _PAGE < len(newest_first) else None,
        picks=newest_first[:_PICKS],
        drift=[one for one in drift["drift"] if (one["db"], one["table"]) == (db, table)],
    )


async def _choose_changefeed(api: ApiClient, db: str, table: str) -> Response | None:
    """Where to go if nobody said which of several changefeeds is meant: to the one that has the table, or a choice."""
    feeds = [one["changefeed"] for one in await api.need("history", "changefeeds")]
    if len(feeds) < 2:
        return None
    candidates = [
        feed for feed in feeds if (await api.get("history", db, table, "versions", changefeed=feed, limit=1)).is_ok
    ]
    if len(candidates) == 1:
        return go(f"/ui/tables/{segment(db)}/{segment(table)}?changefeed={segment(candidates[0])}")
    return page("choose_changefeed.html", db=db, table=table, feeds=candidates) if candidates else None


async def _fetch_lines(api: ApiClient, db: str, table: str, commit_ts: int, feed: str | None) -> TableLines | None:
    """The table just after a DDL; None where nothing is known."""
    answer = await api.get("history", db, table, "at", str(commit_ts), inclusive=True, changefeed=feed)
    return table_lines(answer.value) if answer.is_ok else None


@router.get("/{db}/{table}/at")
@with_error_pages
async def at(request: Request) -> Response:
    """What the table was for a row with this commit_ts (or time)."""
    api, db, table = ApiClient(request), part(request, "db"), part(request, "table")
    query = request.query_params
    when, feed = query.get("when", "").strip(), query.get("changefeed") or None
    if not when:
        return go(f"/ui/tables/{segment(db)}/{segment(table)}")
    inclusive = query.get("inclusive") == "1"
    answer = await api.get("history", db, table, "at", when, inclusive=inclusive, changefeed=feed)
    earlier = answer  # at its own commit_ts a version is not there yet, but the one before it
    if answer.is_ok:
        earlier = await api.get("history", db, table, "at", str(answer.value["commit_ts"]), changefeed=feed)
    return page(
        "table_at_time.html",
        answer.status if not answer.is_ok else 200,
        db=db,
        table=table,
        when=when,
        inclusive=inclusive,
        feed=feed or "",
        found=answer.value if answer.is_ok else None,
        earlier=earlier.is_ok,
        said="" if answer.is_ok else answer.problem,
    )


# ---- the dry run


_ASKED: Final = {"db": "", "sql": "", "changefeed": "", "sink_uri": "", "config": "", "tables": ""}


@dry_run.get("")
@with_error_pages
async def ask(request: Request) -> Response:
    fields = {name: request.query_params.get(name, "") for name in _ASKED}
    return await _dry_run(request, fields, None)


@dry_run.post("")
@with_error_pages
async def judge(request: Request) -> Response:
    fields = {**_ASKED, **await form(request)}
    settings = {"name": fields["changefeed"], "sink_uri": fields["sink_uri"], "config": fields["config"]}
    body: dict[str, Any] = {"db": fields["db"].strip(), "sql": fields["sql"]}
    if any(settings.values()):
        body["changefeed"] = {name: text for name, text in settings.items() if text.strip()}
    if fields["tables"].strip():
        body["tables"] = [fields["tables"]]
    answer = await ApiClient(request).send("POST", "history", "dry-run", body=body)
    return await _dry_run(request, fields, answer)


async def _dry_run(request: Request, fields: dict[str, str], answer: ApiAnswer | None) -> Response:
    feeds = await ApiClient(request).get("history", "changefeeds")
    refused = answer is not None and not answer.is_ok
    return page(
        "ddl_check.html",
        answer.status if answer is not None else 200,
        given=fields,
        feeds=[one["changefeed"] for one in feeds.value] if feeds.is_ok else [],
        report=answer.value if answer is not None and answer.is_ok else None,
        said=answer.problem if answer is not None and refused else "",
    )
