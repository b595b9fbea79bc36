"""`POST /history/dry-run`: what would a DDL statement do to the changefeed?"""

from __future__ import annotations

import json
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Response

from schemas.model.errors import RegistryError, SetupError
from schemas.model.values import zone as known_zone
from service.api.bodies import Reader, body_of, flag, list_reader, mismatch_error, text
from service.api.request import Called
from service.api.routing import RetriedRoute
from service.changefeed.reader import read
from service.changefeed.settings import ChangefeedSettings
from service.ddl_check.request import CheckRequest, answer_request
from service.history.times import tso_of

router = APIRouter(route_class=RetriedRoute)


def _config(value: Any) -> str | None:
    """The text of the file, or the JSON that `cdc cli` and TiCDC's API give."""
    return json.dumps(value) if isinstance(value, dict) else text(value)


def _moment(value: Any) -> int | None:
    return None if value is None else tso_of(str(value))


SETTINGS: Final[dict[str, Reader]] = {
    "name": text, "sink_uri": text, "config": _config, "keyspace": text, "time_zone": text,
}  # fmt: skip


def _settings(value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    if isinstance(value, str):
        return {"name": value}
    if not isinstance(value, dict):
        raise mismatch_error("Changefeed", value)
    return {name: reader(value[name]) or "" for name, reader in SETTINGS.items() if name in value}


BODY: Final[dict[str, Reader]] = {
    "db": text, "sql": text, "sql_mode": text, "wire": flag, "at": _moment, "changefeed": _settings,
    "tables": list_reader("ArrayList", text), "ddl_time_zone": text,
}  # fmt: skip
Body = Annotated[dict[str, Any], Depends(body_of("dryRun", "DryRunRequest", BODY))]


@router.post("/history/dry-run")
def dry_run(call: Called, body: Body) -> Response:
    services = call.services
    try:
        return call.answer(answer_request(request_of(body), services.view, services.history).form())
    except SetupError as error:
        raise RegistryError("UNPROCESSABLE", details=error.detail) from None


def request_of(body: dict[str, Any]) -> CheckRequest:
    """The question of a body. SetupError USAGE."""
    settings = body.get("changefeed") or {}
    zone = body.get("ddl_time_zone") or None
    if zone:
        try:
            known_zone(zone)
        except ValueError as error:
            raise SetupError("USAGE", details=f"ddl_time_zone: {error}") from None
    if not (body.get("sql") or "").strip():
        raise SetupError("USAGE", details="sql is missing: the DDL statement to be checked")
    return CheckRequest(
        sql=body["sql"],
        db=body.get("db") or "",
        sql_mode=body.get("sql_mode") or "",
        wire=bool(body.get("wire")),
        at=body.get("at"),
        changefeed=_changefeed(settings),
        tables=tuple(body.get("tables") or ()),
        history=settings.get("name") or None,
        zone=zone,
    )


def _changefeed(settings: dict[str, Any]) -> ChangefeedSettings:
    return read(
        settings.get("sink_uri", ""),
        settings.get("config", ""),
        keyspace=settings.get("keyspace", ""),
        time_zone=settings.get("time_zone", ""),
    )
