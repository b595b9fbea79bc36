"""`/lineage`: topic → table version → subject → job, as the Spark jobs tell it. Ours; Confluent's registry has none."""

from fastapi import Response

from ticdc_bridge.service.api.bodies import TEXT, CompleteBody, as_is, object_schema
from ticdc_bridge.service.api.routing import PAGE, STRING, Called, Parameter, Router
from ticdc_bridge.service.auth.acl import HISTORY
from ticdc_bridge.service.registry import lineage

router = Router("/lineage")

_KINDS = {
    str: TEXT,
    int: as_is({"type": ["integer", "null"], "format": "int64"}),
    dict: as_is({"type": ["object", "null"], "additionalProperties": {"type": "integer", "format": "int64"}}),
}
_TABLE = object_schema({name: _KINDS[kind] for name, kind, _ in lineage.TABLE_FIELDS})
_BODY = CompleteBody(
    "BAD_REQUEST",
    {
        **dict.fromkeys(lineage.RUN_FIELDS, TEXT),
        **{name: _KINDS[kind] for name, kind, _ in lineage.NEWEST_RUN},
        "tables": as_is({"type": "array", "items": _TABLE}),
    },
)
_FILTERS = (
    Parameter("job", "Only rows of this job", STRING),
    Parameter("topic", "Only rows of this topic", STRING),
    Parameter("table", "Only rows of this table, as db.table", STRING),
    Parameter("subject", "Only rows whose schema id this subject has", STRING),
)


@router.declare("POST", needs=HISTORY, body=_BODY)
def record_edges(call: Called) -> Response:
    """Keep the edges of one run of a job; answers how many edges were kept."""
    return call.answer({"edges": lineage.record(call.registry, call.body)})


@router.declare("GET", needs=HISTORY, query=(*_FILTERS, *PAGE))
def list_edges(call: Called) -> Response:
    """The edges, by `job`, `topic`, `table` and `subject` where they are given."""
    filters = {name: call.text(name) for name in ("job", "topic", "table", "subject")}
    return call.answer(call.page(lineage.edges_of(call.registry, **filters)))
