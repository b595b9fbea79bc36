"""Pages of table histories: tables, a table and its changes, a table at a time, tables at two times."""

from typing import Any, Final
from urllib.parse import urlencode

from fastapi import Request, Response

from ticdc_bridge.schemas.model.event import MAX_TSO
from ticdc_bridge.service.ui.pages import ApiClient, ListView, PageRouter, go, number_in, page, path_parameter, segment

router = PageRouter("/ui/tables")

_PAGE: Final = 50
_MOST: Final = 10_000


@router.get("")
async def list_tables(request: Request) -> Response:
    api, query = ApiClient(request), request.query_params
    feeds = await api.need("history", "changefeeds")
    chosen = query.get("changefeed") or (feeds[0]["changefeed"] if feeds else "")
    text, rows = query.get("q", "").strip(), list[dict[str, Any]]()
    drift: dict[str, Any] = {"drift": []}
    if chosen:
        answer = await api.need("history", "tables", changefeed=chosen, name=text or None, limit=_MOST)
        rows = [{**row, "name": f"{row['db']}.{row['table']}"} for row in answer["tables"]]
        drift = await api.need("history", "drift", changefeed=chosen, limit=_PAGE)
    view = ListView(request, changefeed=chosen, q=text).fill(rows, len(rows))
    return page("tables.html", feeds=feeds, chosen=chosen, q=text, view=view, drift=drift)


@router.get("/diff")
async def differences(request: Request) -> Response:
    """The changes between two times: of all tables, a database's or one."""
    api, start = ApiClient(request), number_in(request.query_params, "offset") or 0
    fields = {name: request.query_params.get(name, "").strip() for name in ("changefeed", "from", "to", "db", "table")}
    feeds = await api.need("history", "changefeeds")
    fields["changefeed"] = fields["changefeed"] or (feeds[0]["changefeed"] if feeds else "")
    inclusive, answer = request.query_params.get("inclusive") == "1", None
    versions: list[dict[str, Any]] = []
    if fields["changefeed"] and fields["db"] and fields["table"]:
        feed, of = fields["changefeed"], (fields["db"], fields["table"])
        known = await api.get("history", *of, "versions", changefeed=feed, newest=True, limit=_PAGE)
        versions = known.value["versions"] if known.is_ok else []
    if len(versions) > 1 and not fields["from"] and not fields["to"]:
        # What the newest statement changed is what is asked most often.
        fields |= {"from": str(versions[1]["commit_ts"]), "to": str(versions[0]["commit_ts"])}
        inclusive = True
    elif fields["from"] and fields["to"]:
        query = {name: text or None for name, text in fields.items()}
        answer = await api.get("history", "diff", **query, inclusive=inclusive, offset=start, limit=_PAGE)
    refused = answer is not None and not answer.is_ok
    values = {**{name: text for name, text in fields.items() if text}, **({"inclusive": "1"} if inclusive else {})}
    report = answer.value if answer is not None and answer.is_ok else None
    following = report["next_offset"] if report else None
    shown = {
        "filled": fields, "inclusive": inclusive, "feeds": [entry["changefeed"] for entry in feeds],
        "versions": versions, "report": report, "said": answer.problem if answer is not None and refused else "",
        "earlier": urlencode({**values, "offset": max(start - _PAGE, 0)}) if start else "",
        "later": urlencode({**values, "offset": following}) if following else "",
    }  # fmt: skip
    return page("tables_diff.html", answer.status if answer is not None else 200, **shown)


@router.get("/{db}/{table}")
async def show(request: Request) -> Response:
    """The table as it is, or as it was for a row with a commit_ts (or time), and its newest versions."""
    api, db, table = ApiClient(request), path_parameter(request, "db"), path_parameter(request, "table")
    query = request.query_params
    when, inclusive = query.get("when", "").strip(), query.get("inclusive") == "1"
    feed = query.get("changefeed") or None
    if feed is None and (response := await _choose_changefeed(api, db, table, when, inclusive)) is not None:
        return response
    view = ListView(request, **({"changefeed": feed} if feed else {}))
    answer = await api.need("history", db, table, "versions", changefeed=feed, newest=True, **view.asked)
    drift = await api.need("history", "drift", changefeed=answer["changefeed"], db=db, table=table, registry=False)
    at = await api.get("history", db, table, "at", when or str(MAX_TSO), inclusive=inclusive, changefeed=feed)
    values = {
        "db": db, "table": table, "feed": answer["changefeed"], "view": view.fill(answer["versions"], answer["total"]),
        "drift": drift["drift"], "when": when, "inclusive": inclusive, "found": at.value if at.is_ok else None,
        "said": at.problem if when and not at.is_ok else "",
    }  # fmt: skip
    return page("table.html", at.status if values["said"] else 200, **values)


async def _choose_changefeed(api: ApiClient, db: str, table: str, when: str, inclusive: bool) -> Response | None:
    """Goes to the changefeed that has the table, or offers a choice, where the query names none of several."""
    if len(await api.need("history", "changefeeds")) < 2:
        return None
    feeds = [changefeed["changefeed"] for changefeed in await api.need("history", "changefeeds", db=db, table=table)]
    more = {**({"when": when} if when else {}), **({"inclusive": "1"} if inclusive else {})}
    path = f"/ui/tables/{segment(db)}/{segment(table)}"
    links = [(feed, f"{path}?{urlencode({'changefeed': feed, **more})}") for feed in feeds]
    if len(links) == 1:
        return go(links[0][1])
    return page("choose_changefeed.html", db=db, table=table, links=links) if links else None
