"""What pages change: a pasted schema is checked, compatibility and mode are set, versions deleted, after a question."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from fastapi import Request, Response

from ticdc_bridge.service.ui.api_client import ApiAnswer, ApiClient, ApiError
from ticdc_bridge.service.ui.pages import FormError, PageRouter, form, go, number_of, page, part, segment
from ticdc_bridge.service.ui.subjects import NOTHING_PASTED, subject_page

router = PageRouter("/ui/subjects")
server = PageRouter("/ui/server")

_NO_SCHEMA: Final = "Invalid schema"
_LIST: Final = 'Write them as [{"name": …, "subject": …, "version": …}].'
_COMPARED: Final = ("{oldSchema", "{validateFields")
# As Confluent writes a difference.
_DIFFERENCE: Final = re.compile(
    r"""\{errorType:['"](?P<kind>\w+)['"], description:['"](?P<text>.*?)['"](?:, additionalInfo:'(?P<more>.*)')?\}""",
    re.DOTALL,
)


@router.post("/{subject}/check")
async def check(request: Request) -> Response:
    api, subject, fields = ApiClient(request), part(request, "subject"), await form(request)
    pasted = {name: fields.get(name, text) for name, text in NOTHING_PASTED.items()}
    body: dict[str, Any] = {"schema": pasted["schema"], "schemaType": pasted["kind"]}
    if pasted["references"].strip():
        body["references"] = _references(pasted["references"])
    against = pasted["against"]
    where = ("latest",) if against == "latest" else (against,) if number_of(against) is not None else ()
    answer = await api.send(
        "POST", "compatibility", "subjects", subject, "versions", *where, query={"verbose": True}, body=body
    )
    checked: dict[str, Any] = answer.value if answer.is_ok else {"is_compatible": None, "messages": [answer.problem]}
    if any(str(message).startswith(_NO_SCHEMA) for message in checked.get("messages") or ()):
        checked = {**checked, "is_compatible": None}
    return await subject_page(request, subject, pasted=pasted, checked={**checked, **_check_messages(checked)})


def _check_messages(checked: dict[str, Any]) -> dict[str, Any]:
    """The messages of a check: what is wrong, and the schemas that were compared."""
    messages = [str(message) for message in checked.get("messages") or ()]
    compared = [message for message in messages if message.startswith(_COMPARED)]
    problems = [_difference(message) for message in messages if message not in compared]
    return {"problems": problems, "compared": compared}


def _difference(message: str) -> dict[str, str]:
    match = _DIFFERENCE.fullmatch(message)
    return match.groupdict() if match else {"kind": "", "text": message, "more": ""}


def _references(text: str) -> list[Any]:
    try:
        references = json.loads(text)
    except json.JSONDecodeError as error:
        raise FormError(f"The references are not JSON (line {error.lineno}, column {error.colno}). {_LIST}") from None
    except RecursionError:
        raise FormError(f"The references are nested too deeply. {_LIST}") from None
    if not isinstance(references, list):
        raise FormError(f"The references are not a list. {_LIST}")
    return references


@router.post("/{subject}/compatibility")
async def change_level(request: Request) -> Response:
    return await _of_subject(request, "config", "compatibility", "level")


@router.post("/{subject}/mode")
async def change_mode(request: Request) -> Response:
    return await _of_subject(request, "mode", "mode", "mode")


async def _of_subject(request: Request, what: str, name: str, field: str) -> Response:
    """Sets what the form's field says; nothing there takes the subject's own setting away."""
    subject, fields = part(request, "subject"), await form(request)
    answer = await _set(request, (what, subject), name, fields.get(field, ""), fields.get("force") == "1")
    if not answer.is_ok:
        return await subject_page(request, subject, status=answer.status, said=answer.problem)
    return go(f"/ui/subjects/{segment(subject)}")


@server.post("/{what}")
async def change_server(request: Request) -> Response:
    what, fields = part(request, "what"), await form(request)
    if what not in ("compatibility", "mode"):
        raise FormError(f"The server has no setting {what[:100]!r}.")
    path = "config" if what == "compatibility" else what
    answer = await _set(request, (path,), what, fields.get("to", ""), fields.get("force") == "1")
    if not answer.is_ok:
        raise ApiError(answer)
    return go("/ui/subjects")


async def _set(request: Request, path: tuple[str, ...], name: str, value: str, force: bool) -> ApiAnswer:
    api = ApiClient(request)
    if not value:
        return await api.send("DELETE", *path)
    return await api.send("PUT", *path, query={"force": True if force else None}, body={name: value})


@router.get("/{subject}/delete")
async def ask_to_delete(request: Request) -> Response:
    return await _confirm(request, part(request, "subject"), request.query_params.get("version", ""))


async def _confirm(request: Request, subject: str, version: str, problem: str = "", status: int = 200) -> Response:
    api = ApiClient(request)
    numbers = await api.need("subjects", subject, "versions", deleted=True)
    live = await api.get("subjects", subject, "versions")
    there = live.value if live.is_ok else []
    number = number_of(version)
    permanent = number not in there if number is not None else not there
    return page(
        "delete.html",
        status,
        subject=subject,
        version="" if number is None else version,
        numbers=numbers if number is None else [number],
        permanent=permanent,
        said=problem,
    )


@router.post("/{subject}/delete")
async def delete(request: Request) -> Response:
    api, subject, fields = ApiClient(request), part(request, "subject"), await form(request)
    version, permanent = fields.get("version", ""), fields.get("permanent") == "1"
    if fields.get("name") != subject:
        return await _confirm(
            request, subject, version, "The name was not typed as it stands. Nothing is deleted.", 400
        )
    path = ("subjects", subject, *(("versions", version) if version else ()))
    answer = await api.send("DELETE", *path, query={"permanent": permanent})
    if not answer.is_ok:
        return await _confirm(request, subject, version, answer.problem, answer.status)
    left = await api.get("subjects", subject, "versions", deleted=True)
    return go(f"/ui/subjects/{segment(subject)}" if left.is_ok else "/ui/subjects")
