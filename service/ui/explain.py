"""The page that explains a message: its bytes, framing, schema, fields and what other formats carry."""

import base64
import binascii
import re
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import anyio
import anyio.from_thread
import anyio.to_thread
from fastapi import Request, Response

from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.model.errors import BridgeError, WireError
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.ports import SchemaId
from ticdc_bridge.service.api.request import services
from ticdc_bridge.service.ui.pages import ApiAnswer, ApiClient, FormError, PageRouter, form, page
from ticdc_bridge.service.ui.topics import ask_kafka, format_names, problem_of

router = PageRouter("/ui/explain")

_WRITINGS: Final = {"auto": "detect (hex or base64)", "hex": "hex", "base64": "base64", "text": "text"}
_POSITION: Final = re.compile(r"([A-Za-z0-9._-]{1,249})@([0-9]{1,10}):([0-9]{1,19})")
_HEX: Final = re.compile(r"(?:0x)?[0-9a-f\s:]*\Z", re.IGNORECASE)
_FILLED_IN: Final[dict[str, str]] = {
    "key": "", "value": "", "writing": "auto", "format": "auto", "topic": "", "zone": "UTC", "context": "",
    "key_null": "", "value_null": "", "place": "",
}  # fmt: skip


class ApiSchemas:
    """Schemas by the service's own API (schemas.model.ports.SchemaSource), from a thread beside the event loop."""

    def __init__(self, api: ApiClient, context: str) -> None:
        self._api = api
        self._within = ("contexts", context) if context else ()

    def by_id(self, schema_id: SchemaId, where: str, subject: str | None = None) -> str:
        table = "ids" if isinstance(schema_id, int) else "guids"
        answer = self._get("schemas", table, str(schema_id), subject=subject or "", format="resolved")
        if not answer.is_ok:
            raise WireError("UNKNOWN_SCHEMA_ID", where=where, id=schema_id, source="this registry")
        kind = answer.value.get("schemaType", "AVRO")
        if kind != "AVRO":
            details = f"schema id {schema_id} is of type {kind}, not Avro"
            raise WireError("UNSUPPORTED_SCHEMA", where=where, details=details)
        return str(answer.value["schema"])

    def newest(self, subject: str) -> str | None:
        answer = self._get("subjects", subject, "versions", "latest")
        return str(answer.value["schema"]) if answer.is_ok else None

    def id_of(self, subject: str, schema: str) -> SchemaId:
        raise WireError("SCHEMA_NOT_FOUND", subject=subject, where="this page registers nothing")

    def versions_of_id(self, schema_id: SchemaId, subject: str | None) -> list[tuple[str, int]]:
        answer = self._get("schemas", "ids", str(schema_id), "versions", subject=subject or "")
        return [(entry["subject"], entry["version"]) for entry in answer.value] if answer.is_ok else []

    def _get(self, *path: str, **query: str) -> ApiAnswer:
        return anyio.from_thread.run(partial(self._api.get, *self._within, *path, **query))


@router.get("")
async def ask(request: Request) -> Response:
    asked = {name: request.query_params.get(name, _FILLED_IN[name]) for name in ("place", "format")}
    fields = {**_FILLED_IN, **asked}
    return await _explain(request, fields) if fields["place"] else _page(request, fields)


@router.post("")
async def answer(request: Request) -> Response:
    return await _explain(request, {**_FILLED_IN, **await form(request)})


async def _explain(request: Request, fields: Mapping[str, str]) -> Response:
    try:
        fetched = await _fetch_message(request, fields["place"].strip())
        if fields["format"] not in format_names():
            raise FormError(f"There is no format {fields['format']!r}.")
        message = fetched or Message(
            key=_bytes(fields, "key"), value=_bytes(fields, "value"), topic=fields["topic"].strip() or None
        )
        if fetched is None and message.key is None and message.value is None:
            raise FormError("Paste the key or the value of a message.")
    except ValueError as problem:
        return _page(request, fields, problem=str(problem))
    source = ApiSchemas(ApiClient(request), fields["context"].strip())

    def explain_message() -> dict[str, Any]:
        from ticdc_bridge.schemas.inspect.explain import ExplainRequest, explain

        options = Options.of({}, time_zone=fields["zone"].strip() or "UTC")
        context = Context(source, None, options)
        return explain(ExplainRequest(message, fields["format"], context, options, source.versions_of_id))

    try:
        explanation = await anyio.to_thread.run_sync(explain_message)
    except BridgeError as error:
        return _page(request, fields, problem=error.detail)
    return _page(request, fields, explanation)


async def _fetch_message(request: Request, position: str) -> Message | None:
    """The message that the field names. Raises FormError, and ApiError to whom it is not for."""
    from ticdc_bridge.schemas.plain.reader import read_bytes, read_headers

    if not position:
        return None
    if services(request).kafka is None:
        raise FormError("This service has no --bootstrap-servers to fetch messages from.")
    match = _POSITION.fullmatch(position)
    if match is None:
        raise FormError(
            f"{position[:300]!r} is not a message's place: write TOPIC@PARTITION:OFFSET, such as shop@0:17."
        )
    answer = await ask_kafka(ApiClient(request), "topics", match[1], "messages", match[2], match[3])
    if answer.is_ok:
        line = answer.value
        key, value = (read_bytes(line[name], name) for name in ("key_b64", "value_b64"))
        at = (line["topic"], line["partition"], line["offset"], line["timestamp"])
        return Message(key, value, *at, read_headers(line["headers"]))
    raise FormError(problem_of(answer))


def _bytes(fields: Mapping[str, str], name: str) -> bytes | None:
    """The bytes of a field; nothing filled in is no key, or a tombstone."""
    text, writing = fields[name].strip(), fields["writing"]
    if not text:
        return None
    if writing == "auto":
        writing = "text" if text[0] in "{[" else "hex" if _HEX.match(text) else "base64"
    if writing == "text":
        return fields[name].replace("\r\n", "\n").encode()  # a form sends every end of a line as CR LF
    try:
        if writing == "hex":
            return bytes.fromhex(re.sub(r"^0x|[\s:]", "", text, flags=re.IGNORECASE))
        return base64.b64decode(re.sub(r"\s", "", text), validate=True)
    except (ValueError, binascii.Error):
        what = "neither hex nor base64" if fields["writing"] == "auto" else f"not {writing}"
        raise FormError(f'The {name} is {what}. Choose "text" to explain it as plain text.') from None


def _page(
    request: Request, fields: Mapping[str, str], explanation: dict[str, Any] | None = None, problem: str | None = None
) -> Response:
    from ticdc_bridge.schemas.formats.format_table import WRITTEN

    values = {
        "fields": fields, "explanation": explanation, "said": problem, "fetches": services(request).kafka is not None,
        "writings": _WRITINGS, "formats": format_names(), "others": WRITTEN,
    }  # fmt: skip
    return page("explain.html", 200 if problem is None else 400, **values)
