"""The OpenAPI description. FastAPI gives paths and texts; parameters, bodies and answers come from `routing.Route`."""

import re
from typing import Final

from fastapi import FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse

from ticdc_bridge.service.api.bodies import INTEGER, TEXT, Json, object_schema
from ticdc_bridge.service.api.request import V1
from ticdc_bridge.service.api.routing import INTEGER as INTEGER_PARAMETER
from ticdc_bridge.service.api.routing import KNOWN, STRING, Route, Router, all_routes, call

router = Router("/openapi.json", needs=KNOWN, retry_on_outage=False, include_in_schema=False)

_ERRORS: Final = {
    400: "The path or the body can't be read", 401: "Credentials are missing or wrong",
    403: "You have no right to do this", 404: "Not found, or not a number",
    406: "None of the media types offered is accepted", 429: "Too many passwords wait to be checked",
    500: "The store fails, or is busy for too long",
}  # fmt: skip
_ERRORS_WITH_BODY: Final = {
    409: "The schema is incompatible",
    413: "The body is too large",
    415: "The body is of a media type that is not read",
}
_REFUSED: Final = {422: "A name, a schema or a value is not valid, or the mode does not allow it"}


@router.declare("GET")
async def show(request: Request) -> Response:
    return JSONResponse(request.app.openapi())


def install(app: FastAPI) -> None:
    """Make `app.openapi()`, and so `/openapi.json`, the description built here."""

    def describe() -> Json:
        if not app.openapi_schema:
            app.openapi_schema = description(app)
        return app.openapi_schema

    app.openapi = describe  # type: ignore[method-assign]


def description(app: FastAPI) -> Json:
    spec = get_openapi(title="ticdc-bridge schema registry", version=app.version, routes=app.routes)
    described = (route for route in all_routes(app) if isinstance(route, Route) and route.include_in_schema)
    operations = [(route, method.lower()) for route in described for method in route.methods or ()]
    for route, method in operations:
        operation = spec["paths"][route.path][method]
        operation["operationId"] = f"{method}{re.sub('[^A-Za-z0-9]+', '_', route.path)}".strip("_")
        kinds = {name: INTEGER_PARAMETER if name == "id" else STRING for name in re.findall(r"{(\w+)}", route.path)}
        operation["parameters"] = [
            *({"name": name, "in": "path", "required": True, "schema": kind} for name, kind in kinds.items()),
            *(
                {"name": name, "in": "query", "required": False, "description": text, "schema": kind}
                for name, text, kind in route.query
            ),
        ]
        has_body = method in ("post", "put")
        if has_body:
            schema = object_schema(route.body.fields) if route.body else {}
            operation["requestBody"] = {"required": bool(schema), "content": {V1: {"schema": schema}}}
        operation["responses"] = responses(route, has_body)
    spec.setdefault("components", {})["schemas"] = {"Error": object_schema({"error_code": INTEGER, "message": TEXT})}
    return spec


def responses(route: Route, has_body: bool) -> Json:
    """Every status a route can answer with."""
    if call not in [dependency.call for dependency in route.dependant.dependencies]:  # not the registry's JSON
        return {"200": {"description": "As it says"}, "500": {"description": _ERRORS[500]}}
    errors = _ERRORS | (_ERRORS_WITH_BODY if has_body else {}) | _REFUSED | route.answers
    error = {V1: {"schema": {"$ref": "#/components/schemas/Error"}}}
    failed = {str(status): {"description": why, "content": error} for status, why in errors.items() if status >= 400}
    done: Json = {str(status): {"description": why} for status, why in route.answers.items() if status < 300}
    return (done or {"200": {"description": "Done", "content": {V1: {"schema": {}}}}}) | failed
