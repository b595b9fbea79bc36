"""`/history/diff`, what changed between two times, and `/history/export`, tables as files (docs/history.md)."""

from __future__ import annotations

from typing import Final

from fastapi import Response

from ticdc_bridge.service.api.request import ApiCall
from ticdc_bridge.service.api.routing import PAGE, STRING, Called, Parameter, Router
from ticdc_bridge.service.auth.acl import HISTORY
from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.history.diff import Period, diff
from ticdc_bridge.service.history.export import Form, HistoryExport
from ticdc_bridge.service.history.times import tso_of

router = Router("/history")

_FROM: Final = Parameter("from", "The earlier time: a commit_ts or an RFC 3339 time", STRING)
_TO: Final = Parameter("to", "The later time: a commit_ts or an RFC 3339 time", STRING)
_AT: Final = Parameter("at", "The tables that a row of this commit_ts or RFC 3339 time has", STRING)
_FORMAT: Final = Parameter(
    "format", "sql (CREATE TABLE statements), or jsonl (all versions, where `at` is not given)", STRING
)
_FORMS: Final[dict[str, Form]] = {"sql": "sql", "jsonl": "jsonl"}
_MEDIA_TYPES: Final[dict[Form, str]] = {"sql": "application/sql; charset=utf-8", "jsonl": "application/x-ndjson"}
_TABLE: Final = Parameter("table", "Only this table of `db`, by its name at any time", STRING)
_INCLUSIVE: Final = Parameter("inclusive", "With the DDL at each of these very commit_ts, as rows after it have it")


@router.declare("GET", "/diff", needs=HISTORY, query=("changefeed", _FROM, _TO, "db", _TABLE, _INCLUSIVE, *PAGE))
def differences(call: Called) -> Response:
    """Tables created, dropped, renamed and changed between the versions that rows have at two times."""
    db, table = call.text("db") or None, call.text("table") or None
    period = Period(_needed_time(call, "from"), _needed_time(call, "to"), call.flag("inclusive"))
    with call.registry.store.read():
        span = call.services.history.span(call.text("changefeed") or None, period, db, table)
    offset, limit = call.page_limits()
    return call.answer(diff(span).form(offset, limit))


@router.declare(
    "GET", "/export", needs=HISTORY, query=("changefeed", _FORMAT, _AT, "db", _TABLE, _INCLUSIVE, "ddl_time_zone")
)
def export(call: Called) -> Response:
    """Tables as SQL that TiDB runs, or as the JSON lines of all versions; what is left out, the text says."""
    form, at = _FORMS.get(call.text("format", "sql")), call.text("at")
    if form is None:
        raise RegistryError("UNPROCESSABLE", details=f"format {call.text('format')[:40]}: sql or jsonl is needed")
    db, table = call.text("db") or None, call.text("table") or None
    zone = call.text("ddl_time_zone") or None
    result = HistoryExport(form, tso_of(at) if at else None, call.flag("inclusive"), zone)
    with call.registry.store.read():
        histories = call.services.history
        feed = histories.changefeed(call.text("changefeed") or None)
        histories.check_known(feed.name, db, table)
        text = "".join(f"{line}\n" for line in result.lines(feed.name, histories.histories(feed.name, db, table)))
    file = {"Content-Disposition": f'attachment; filename="tables.{form}"'}
    return Response(text.encode("utf-8", "replace"), media_type=_MEDIA_TYPES[form], headers=file)


def _needed_time(call: ApiCall, name: str) -> int:
    text = call.text(name)
    if not text:
        raise RegistryError("UNPROCESSABLE", details=f"{name} is needed: a commit_ts or an RFC 3339 time")
    return tso_of(text)
