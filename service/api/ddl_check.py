"""`POST /history/dry-run`: what would a DDL statement do to the changefeed?

What answers it, which is a sixth of all that a start would import, is imported when it is first asked.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from fastapi import Response

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.reasons import usage_errors
from ticdc_bridge.schemas.model.values import zone as known_zone
from ticdc_bridge.service.api import bodies
from ticdc_bridge.service.api.bodies import FLAG, STRING, TEXT, Body, Fields, Kind, list_of, object_schema, text
from ticdc_bridge.service.api.routing import Called, Router
from ticdc_bridge.service.auth.acl import HISTORY
from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.history.model import tso_of

if TYPE_CHECKING:
    from ticdc_bridge.service.ddl_check.request import CheckRequest

router = Router("/history/dry-run")

SETTINGS: Final[Fields] = {
    **dict.fromkeys(("name", "sink_uri", "keyspace", "time_zone", "schema_registry", "ticdc_version"), TEXT),
    # The text of the file, or the JSON that `cdc cli` and TiCDC's API give.
    "config": Kind(lambda value: json.dumps(value) if isinstance(value, dict) else text(value), TEXT.schema),
}


def _settings(value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    if isinstance(value, str):
        return {"name": value}
    if not isinstance(value, dict):
        raise bodies.mismatch_error("Changefeed", value)
    return {name: setting or "" for name, setting in bodies.read_fields(SETTINGS, value).items()}


FIELDS: Final[Fields] = {
    "db": TEXT, "sql": TEXT, "sql_mode": TEXT, "wire": FLAG, "ddl_time_zone": TEXT,
    "at": Kind(lambda value: None if value is None else tso_of(str(value)), {"type": ["integer", "string", "null"]}),
    "changefeed": Kind(_settings, object_schema(SETTINGS)),
    "tables": list_of("ArrayList", STRING),
}  # fmt: skip


@router.declare("POST", needs=HISTORY, body=Body("dryRun", "DryRunRequest", FIELDS))
def check_ddl(call: Called) -> Response:
    from ticdc_bridge.service.ddl_check.request import answer_request

    services = call.services
    try:
        request = request_of(call.body)
        known, asked = services.changefeeds, call.body.get("changefeed") or {}
        if known and not any(text for name, text in asked.items() if name != "name"):
            # The settings that the service was given of the changefeed, as the question has none of its own.
            name = request.history
            if name is None and len(feeds := services.history.changefeeds()) == 1:
                name = feeds[0].name
            request = replace(request, changefeed=known.get(name or "", request.changefeed))
        with call.registry.store.read():
            report = answer_request(request, services.view, services.history)
        return call.answer(report.form())
    except SetupError as error:
        raise RegistryError("UNPROCESSABLE", details=error.detail) from None


def request_of(body: dict[str, Any]) -> CheckRequest:
    """The question of a body. SetupError USAGE."""
    from ticdc_bridge.service.changefeed.reader import read
    from ticdc_bridge.service.ddl_check.request import CheckRequest

    settings = {name: setting for name, setting in (body.get("changefeed") or {}).items() if name != "name"}
    zone = body.get("ddl_time_zone") or None
    if zone:
        with usage_errors("ddl_time_zone", ValueError):
            known_zone(zone)
    if not (body.get("sql") or "").strip():
        raise SetupError("USAGE", details="sql is missing: the DDL statement to be checked")
    return CheckRequest(
        sql=body["sql"],
        db=body.get("db") or "",
        sql_mode=body.get("sql_mode") or "",
        wire=bool(body.get("wire")),
        at=body.get("at"),
        changefeed=read(**settings),
        tables=tuple(body.get("tables") or ()),
        history=(body.get("changefeed") or {}).get("name") or None,
        zone=zone,
    )
