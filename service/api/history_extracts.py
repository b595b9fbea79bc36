"""`/history/diff`: what changed of databases and tables between two times (docs/history.md)."""

from __future__ import annotations

from typing import Final

from fastapi import Response

from schemas.model.errors import RegistryError
from service.api.request import ApiCall
from service.api.routing import PAGE, STRING, Called, Parameter, Router
from service.auth.acl import HISTORY
from service.history.diff import Period, diff
from service.history.times import tso_of

router = Router("/history")

_FROM: Final = Parameter("from", "The earlier time: a commit_ts or an RFC 3339 time", STRING)
_TO: Final = Parameter("to", "The later time: a commit_ts or an RFC 3339 time", STRING)
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


def _needed_time(call: ApiCall, name: str) -> int:
    text = call.text(name)
    if not text:
        raise RegistryError("UNPROCESSABLE", details=f"{name} is needed: a commit_ts or an RFC 3339 time")
    return tso_of(text)
