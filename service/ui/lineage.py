"""The page about lineage: which jobs read which topics, by which table versions and subjects."""

from itertools import groupby
from typing import Any, Final

from fastapi import Request, Response

from ticdc_bridge.service.ui.pages import ApiClient, FormError, ListView, PageRouter, page

router = PageRouter("/ui/lineage")

_BY: Final = ("job", "topic", "table", "subject")
_MOST: Final = 500


@router.get("")
async def show(request: Request) -> Response:
    api, filters = ApiClient(request), {name: request.query_params.get(name, "").strip() for name in _BY}
    query = {name: text for name, text in filters.items() if text}
    feed = request.query_params.get("changefeed", "")
    rows = await api.need("lineage", limit=_MOST + 1, **query)
    feeds = await api.need("history", "changefeeds")
    if feed and feed not in (names := [entry["changefeed"] for entry in feeds]):
        raise FormError(f"Changefeed {feed[:100]!r} not found; there are: {', '.join(names) or 'none'}")
    followed: dict[str, set[str]] = {}  # topic → the changefeeds whose histories come from it
    for entry in feeds:
        for partition in entry["partitions"]:
            followed.setdefault(partition["topic"], set()).add(entry["changefeed"])
    named = [row for row in rows if row["table"] or row["rows"] or not row["topic"]]
    chosen = [row for row in named if not feed or feed in followed.get(row["topic"], (feed,))]
    # By topic and table, the newest version first.
    shown_rows = sorted(
        chosen[:_MOST],
        key=lambda row: (_topic(row), row["db"], row["table"], -(row["table_version"] or 0), row["job"], row["to"]),
    )
    fields = {**query, **({"changefeed": feed} if feed else {})}
    by_topic = {topic: list(edges) for topic, edges in groupby(shown_rows, key=_topic)}
    topics = [(name, ListView(request, **fields).fill(rows, len(rows), _MOST)) for name, rows in by_topic.items()]
    # The changefeed that links of a topic's rows keep: the one that is asked for, or the only one; else none.
    of_topic = {
        topic: feed if feed in names else next(iter(names)) if len(names) == 1 else ""
        for topic, names in followed.items()
    }
    values: dict[str, Any] = {
        "topics": topics, "shown": len(shown_rows), "more": len(rows) > _MOST, "wanted": filters, "changefeed": feed,
        "feeds": [entry["changefeed"] for entry in feeds], "of_topic": of_topic,
    }  # fmt: skip
    return page("lineage.html", **values)


def _topic(row: dict[str, Any]) -> str:
    return str(row["topic"] or row["source"])
