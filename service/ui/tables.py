"""Pages of table histories: tables, a table and its changes, a table at a time, the check of a DDL statement."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlencode

from fastapi import Request, Response

from service.ui.api_client import ApiAnswer, ApiClient
from service.ui.pages import PageRouter, form, go, number_of, page, part, segment

router = PageRouter("/ui/tables")
dry_run = PageRouter("/ui/dry-run")


_PAGE: Final = 50


@router.get("")
async def list_tables(request: Request) -> Response:
    api, query = ApiClient(request), request.query_params
    feeds = await api.need("history", "changefeeds")
    chosen = query.get("changefeed") or (feeds[0]["changefeed"] if feeds else "")
    start, text = number_of(query.get("from", "")) or 0, query.get("q", "").strip()
    answer: dict[str, Any] = {"tables": [], "next_offset": None}
    drift: dict[str, Any] = {"drift": []}
    if chosen:
        answer = await api.need("history", "tables", changefeed=chosen, name=text or None, offset=start, limit=_PAGE)
        drift = await api.need("history", "drift", changefeed=chosen, limit=_PAGE)
    values = {"changefeed": chosen, "q": text}
    return page(
        "tables.html",
        feeds=feeds,
        chosen=chosen,
        q=text,
        rows=answer["tables"],
        drift=drift,
        earlier=urlencode({**values, "from": max(start - _PAGE, 0)}) if start else "",
        later=urlencode({**values, "from": answer["next_offset"]}) if answer["next_offset"] else "",
    )


_PERIOD: Final = ("changefeed", "from", "to", "db", "table")


@router.get("/diff")
async def differences(request: Request) -> Response:
    """What changed between two times: of all tables, a database's or one."""
    api, start = ApiClient(request), number_of(request.query_params.get("offset", "")) or 0
    fields = {name: request.query_params.get(name, "").strip() for name in _PERIOD}
    feeds = await api.need("history", "changefeeds")
    fields["changefeed"] = fields["changefeed"] or (feeds[0]["changefeed"] if feeds else "")
    inclusive = request.query_params.get("inclusive") == "1"
    answer = None
    if fields["from"] and fields["to"]:
        query = {name: text or None for name, text in fields.items()}
        answer = await api.get("history", "diff", **query, inclusive=inclusive, offset=start, limit=_PAGE)
    refused = answer is not None and not answer.is_ok
    values = {**{name: text for name, text in fields.items() if text}, **({"inclusive": "1"} if inclusive else {})}
    following = answer.value["next_offset"] if answer is not None and answer.is_ok else None
    return page(
        "tables_diff.html",
        answer.status if answer is not None else 200,
        given=fields,
        inclusive=inclusive,
        feeds=[one["changefeed"] for one in feeds],
        report=answer.value if answer is not None and answer.is_ok else None,
        earlier=urlencode({**values, "offset": max(start - _PAGE, 0)}) if start else "",
        later=urlencode({**values, "offset": following}) if following else "",
        said=answer.problem if answer is not None and refused else "",
    )


@router.get("/{db}/{table}")
async def show(request: Request) -> Response:
    """The newest versions, each with what it changed."""
    api, db, table = ApiClient(request), part(request, "db"), part(request, "table")
    feed, start = request.query_params.get("changefeed") or None, number_of(request.query_params.get("from", "")) or 0
    if feed is None and (response := await _choose_changefeed(api, db, table)) is not None:
        return response
    answer = await api.need("history", db, table, "versions", changefeed=feed, newest=True, offset=start, limit=_PAGE)
    drift = await api.need("history", "drift", changefeed=answer["changefeed"], db=db, table=table, registry=False)
    return page(
        "table.html",
        db=db,
        table=table,
        feed=answer["changefeed"],
        sealed_ts=answer["sealed_ts"],
        rows=answer["versions"],
        total=answer["total"],
        start=start,
        later=answer["next_offset"],
        drift=drift["drift"],
    )


async def _choose_changefeed(api: ApiClient, db: str, table: str) -> Response | None:
    """Where to go if nobody said which of several changefeeds is meant: to the one that has the table, or a choice."""
    if len(await api.need("history", "changefeeds")) < 2:
        return None
    feeds = [one["changefeed"] for one in await api.need("history", "changefeeds", db=db, table=table)]
    if len(feeds) == 1:
        return go(f"/ui/tables/{segment(db)}/{segment(table)}?changefeed={segment(feeds[0])}")
    return page("choose_changefeed.html", db=db, table=table, feeds=feeds) if feeds else None


@router.get("/{db}/{table}/at")
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


# Fields of the form: those of the changefeed's settings by the names that the API has for them.
_SETTINGS: Final = ("sink_uri", "config", "schema_registry", "ticdc_version")
_ASKED: Final = dict.fromkeys(("db", "sql", "changefeed", "tables", *_SETTINGS), "")


@dry_run.get("")
async def ask(request: Request) -> Response:
    fields = {name: request.query_params.get(name, "") for name in _ASKED}
    return await _dry_run(request, fields, None)


@dry_run.post("")
async def judge(request: Request) -> Response:
    fields = {**_ASKED, **await form(request)}
    settings = {"name": fields["changefeed"], **{name: fields[name] for name in _SETTINGS}}
    body: dict[str, Any] = {"db": fields["db"].strip(), "sql": fields["sql"]}
    body["changefeed"] = {name: text.strip() for name, text in settings.items() if text.strip()}
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
