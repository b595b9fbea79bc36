"""`/`, the server's own data and its health, and `/contexts`.

Nothing of the first two asks the store: they answer while others wait. Health is ours; Confluent's registry has none.
"""

import asyncio
from typing import Final

from fastapi import Request, Response

from ticdc_bridge.service.api.request import compact, services
from ticdc_bridge.service.api.routing import KNOWN, OPEN, PAGE, STRING, Called, Parameter, Router, run_in_time
from ticdc_bridge.service.auth.acl import DELETE
from ticdc_bridge.service.registry import subjects
from ticdc_bridge.service.registry.deadline import Deadline

contexts_router = Router("/contexts")
_PREFIX = Parameter("contextPrefix", "Contexts that begin so", STRING)


@contexts_router.declare("GET", needs=KNOWN, query=(_PREFIX, *PAGE))
def list_contexts(call: Called) -> Response:
    return call.answer(call.page(subjects.list_contexts(call.registry, call.text("contextPrefix"))))


@contexts_router.declare("GET", "/{context}", needs=KNOWN)
async def show_root_of_context(call: Called) -> Response:
    """As `show_root`, so that TiCDC takes `http://HOST/contexts/.ctx` as a registry of its own."""
    return await show_root(call)


@contexts_router.declare("DELETE", "/{context}", needs=DELETE, answers={204: "Done"})
def delete_context(call: Called) -> Response:
    subjects.delete_context(call.registry, call.segment("context"))
    return Response(status_code=204)


health_router = Router("/health", needs=OPEN, retry_on_outage=False)

_SECONDS: Final = 2.0


@health_router.declare("GET", "/live")
async def show_liveness() -> Response:
    """200 as long as the process answers at all."""
    return Response(compact({"status": "live"}), media_type="application/json")


@health_router.declare("GET", "/ready")
async def check_readiness(request: Request) -> Response:
    """200 if the store can be read and written, else its error (500); within seconds, also if it does not answer.

    A file for access that got broken is no outage, but said.
    """
    patience = Deadline(_SECONDS)
    patience.start()
    await run_in_time(asyncio.to_thread(services(request).registry.store.check), patience)
    stale = {"access": "a changed file can't be used, see the log"} if request.app.state.files.problem else {}
    return Response(compact({"status": "ready", **stale}), media_type="application/json")


router = Router(needs=KNOWN, retry_on_outage=False)

_CLUSTERS: Final = {"kafka-cluster": "", "schema-registry-cluster": "schema-registry"}


@router.declare("GET", "/")
@router.declare("POST", "/")
async def show_root(call: Called) -> Response:
    """Exactly `{}`: TiCDC compares the two bytes before it starts. STORE_FAILED where a file can't be written.

    TiCDC then refuses to create the changefeed, in place of stopping it at the first schema.
    """
    call.registry.store.check(ask=False)
    return call.answer({})


@router.declare("GET", "/v1/metadata/id")
async def show_cluster_id(call: Called) -> Response:
    return call.answer({"scope": {"path": [], "clusters": _CLUSTERS}})


@router.declare("GET", "/v1/metadata/version")
async def show_version(call: Called) -> Response:
    return call.answer({"version": f"{call.services.profile}.0.0-ticdc-bridge", "commitId": ""})


@router.declare("GET", "/v1/metadata/deployment")
async def show_deployment(call: Called) -> Response:
    return call.answer({"attributes": []})


@router.declare("GET", "/associations/subjects/{name}")
async def list_associations(call: Called) -> Response:
    """Nothing is ever associated here. The other paths of associations are not there."""
    return call.answer([])
