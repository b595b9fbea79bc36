"""Shared by all pages: templates, headers, forms, and pages that say what went wrong."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, wraps
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from fastapi import Request, Response
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message

from ticdc_bridge.clients.http import HttpResponse
from ticdc_bridge.service.api.request import services
from ticdc_bridge.service.api.routing import KNOWN, Router

if TYPE_CHECKING:
    from jinja2 import Environment

# What says who the user is.
_CREDENTIALS: Final = ("authorization", "x-request-id")
_OF_CLIENT: Final = ("client", "server", "scheme", "extensions", "state")


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    """An answer of the API. value: the JSON of its body, or the text where it is none."""

    status: int
    value: Any

    @property
    def is_ok(self) -> bool:
        return self.status < 400

    @property
    def problem(self) -> str:
        """The API's message of an error, with its code."""
        if not isinstance(self.value, dict):
            return f"{self.status}"
        return f"{self.value.get('message', '')} (error code {self.value.get('error_code', self.status)})"


class ApiError(Exception):
    """The API refused what a page can't do without."""

    def __init__(self, answer: ApiAnswer) -> None:
        super().__init__(answer.problem)
        self.answer = answer


class ApiClient:
    """The API for one request of a page: the app, asked with that client's credentials, address and certificate."""

    def __init__(self, request: Request) -> None:
        self._app: ASGIApp = getattr(request.app.state, "served", request.app)
        self._headers = {name: request.headers[name] for name in _CREDENTIALS if name in request.headers}
        self._headers["host"] = request.url.netloc or "localhost"
        self._scope = {name: request.scope[name] for name in _OF_CLIENT if name in request.scope}

    async def get(self, *path: str, **query: str | int | bool | None) -> ApiAnswer:
        """GET of a path given by its parts, each encoded here."""
        return await self.send("GET", *path, query=query)

    async def send(
        self, method: str, *path: str, query: Mapping[str, Any] | None = None, body: Any = None
    ) -> ApiAnswer:
        params = {
            name: str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in (query or {}).items()
            if value is not None
        }
        target = "/" + "/".join(map(segment, path)) + (f"?{urlencode(params, quote_via=quote)}" if params else "")
        headers = self._headers if body is None else {**self._headers, "content-type": "application/json"}
        scope = {**self._scope, "state": dict(self._scope.get("state") or {})}  # a request keeps its body there
        content = b"" if body is None else json.dumps(body).encode()
        answer = await ask_app(self._app, method, target, content, headers, scope)
        return ApiAnswer(answer.status, answer.json)

    async def need(self, *path: str, **query: str | int | bool | None) -> Any:
        """The body of a GET. Raises ApiError."""
        answer = await self.get(*path, **query)
        if not answer.is_ok:
            raise ApiError(answer)
        return answer.value


async def ask_app(
    app: ASGIApp, method: str, target: str, body: bytes, headers: Mapping[str, str], scope: Mapping[str, Any] = {}
) -> HttpResponse:
    """Ask an ASGI app without a socket. target: path and query, escaped. scope: what else its scope has."""
    path, _, query = target.partition("?")
    incoming: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
    never: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
    sent: list[Message] = []

    async def receive() -> Message:
        return incoming.pop() if incoming else await never

    async def send(message: Message) -> None:
        sent.append(message)

    request = {
        "type": "http", "asgi": {"version": "3.0", "spec_version": "2.4"}, "http_version": "1.1", "method": method,
        "scheme": "http", "path": unquote(path), "raw_path": path.encode("ascii"),
        "query_string": query.encode("ascii"), "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()], "client": ("127.0.0.1", 0),
        "server": ("127.0.0.1", 0), "state": {},
    }  # fmt: skip
    try:
        await app({**request, **scope}, receive, send)
    except Exception:
        if not sent:
            raise  # else it has answered 500, and raised for the log of a server
    start = next(message for message in sent if message["type"] == "http.response.start")
    media = {name.lower(): value for name, value in start.get("headers", ())}.get(b"content-type", b"").decode()
    content = b"".join(message.get("body", b"") for message in sent if message["type"] == "http.response.body")
    return HttpResponse(start["status"], content, media.partition(";")[0].strip().lower())


# Nothing from elsewhere, no scripts at all, and nobody may frame a page that deletes things.
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_MOST_FIELDS: Final = 300
_LINE: Final = 90
_PAGE, _MOST_SORTED = 50, 1000
_TOKENS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')

Page = Callable[[Request], Awaitable[Response]]


class PageRouter(Router):
    """Routes of pages; their errors are pages too. They ask the API in their user's name, and wait when it waits."""

    def __init__(self, prefix: str = "") -> None:
        super().__init__(prefix, needs=KNOWN, retry_on_outage=False, include_in_schema=False)

    def add_api_route(self, path: str, endpoint: Page, **more: Any) -> None:
        super().add_api_route(path, with_error_pages(endpoint), **more)


class FormError(ValueError):
    """A form holds something that can't be used; the text says why."""

    status = 400


class FormTooLarge(FormError):
    status = 413


def segment(text: str) -> str:
    return quote(text, safe="")


def _time(moment: int | str | None) -> str:
    """`2026-11-28 04:56:18 UTC`, of milliseconds since 1970 or a time as the API writes it."""
    if isinstance(moment, int):
        moment = datetime.fromtimestamp(moment / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    return (moment or "").replace("T", " ").replace(".000Z", "Z").replace("Z", " UTC")


def _with_age(milliseconds: int) -> str:
    return f"{_time(milliseconds // 1000 * 1000)} ({duration(max(time.time() - milliseconds / 1000, 0))} ago)"


def duration(seconds: float) -> str:
    """`90 s`, `12 min`, `3 h`, `2 days`: whole units."""
    for unit, size, limit in (("s", 1, 120), ("min", 60, 7200), ("h", 3600, 172_800)):
        if seconds < limit:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds // 86_400)} days"


class ListView:
    """A page of a list, by its URL: `from` is its first row, `sort` a column, with `-` before it the largest first.

    fields: what else is in the URL. asked: the offset and limit of the rows that are needed.
    """

    def __init__(self, request: Request, **fields: Any) -> None:
        query = request.query_params
        self.start, self.sort, self._fields = number_in(query, "from") or 0, query.get("sort", ""), fields
        self.asked = {"limit": _MOST_SORTED} if self.sort else {"offset": self.start, "limit": _PAGE}

    def fill(self, rows: list[Any], total: int, on_page: int = _PAGE) -> Self:
        """Show these rows, all of the list or those that were asked. Raises FormError for more than are sorted."""
        self.total, column = total, self.sort.removeprefix("-")
        if self.sort and len(rows) < total:
            raise FormError(f"{total:,} rows are too many to sort (at most {_MOST_SORTED:,}): search for fewer.")
        if self.sort:
            unknown = [row for row in rows if not isinstance(row.get(column), int | str)]
            known = [row for row in rows if isinstance(row.get(column), int | str)]
            rows = sorted(known, key=itemgetter(column), reverse=column != self.sort) + unknown
        self.rows = rows if len(rows) < total else rows[self.start : self.start + on_page]
        return self

    def heading(self, column: str) -> tuple[str, str]:
        """The link that sorts by a column, or turns its order round, and the heading's `aria-sort`; "" for neither."""
        turned = column[1:] if column.startswith("-") else f"-{column}"
        order = "" if self.sort not in (column, turned) else "descending" if self.sort.startswith("-") else "ascending"
        link = f"?{urlencode({**self._fields, 'sort': turned if self.sort == column else column})}"
        return (link, order) if column and self.total <= _MOST_SORTED else ("", "")

    @property
    def links(self) -> list[tuple[int, str]]:
        """The first page, the last one and those around this one: "" in place of this one's link."""
        here, last = self.start // _PAGE + 1, max(-(-self.total // _PAGE), 1)
        fields = {**self._fields, **({"sort": self.sort} if self.sort else {})}
        numbers = sorted({1, here, last, *range(max(here - 2, 1), min(here + 2, last) + 1)})
        return [(n, "" if n == here else f"?{urlencode({**fields, 'from': (n - 1) * _PAGE})}") for n in numbers]


def pretty_json(text: str) -> str:
    """JSON on indented lines, what fits on one kept on it, its tokens as they are; any other text as it is."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return text
    tokens = _TOKENS.findall(text)
    # Where the objects and lists begin that fit on a line.
    short, opened, length = set[int](), list[tuple[int, int]](), 0
    for index, token in enumerate(tokens):
        if token in "{[":
            opened.append((index, length))
        length += len(token) + (token in ":,")
        if token in "}]":
            start, begin = opened.pop()
            if length - begin <= _LINE:
                short.add(start)
    lines, depth, flat, before = [""], 0, 0, ""
    for index, token in enumerate(tokens):
        if token in "}]" and not flat:
            depth -= 1
            if before not in "{[":
                lines.append("  " * depth)
        elif before and before in "{[," and not flat:
            lines.append("  " * depth)
        elif before == ",":
            lines[-1] += " "
        if flat or index in short:
            flat += (token in "{[") - (token in "}]")
        else:
            depth += token in "{["
        lines[-1] += ": " if token == ":" else token
        before = token
    return "\n".join(lines)


@cache
def _templates() -> Environment:
    """Made for the first page: a service that shows none starts without them."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader, undefined = PackageLoader("ticdc_bridge.service.ui"), StrictUndefined
    made = Environment(loader=loader, autoescape=True, undefined=undefined, trim_blocks=True, lstrip_blocks=True)
    made.filters |= {"segment": segment, "time": _time, "with_age": _with_age, "pretty": pretty_json}
    return made


def page(name: str, status: int = 200, **values: Any) -> Response:
    """A page from a template, its values escaped."""
    values = {"said": "", "shown_at": int(time.time()) * 1000, **values}
    text = _templates().get_template(name).render(values)
    return Response(text, status, headers=HEADERS, media_type="text/html; charset=utf-8")


def go(path: str) -> Response:
    """After a change: look at the result by GET, so that a reload does not do it again."""
    return RedirectResponse(path, 303, headers=HEADERS)


def path_parameter(request: Request, name: str) -> str:
    """A part of the path, decoded once."""
    return unquote(request.path_params[name], errors="replace")


def number_of(text: str, digits: int = 10) -> int | None:
    """A number that somebody wrote, if it has no more than so many digits."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= digits else None


def number_in(fields: Mapping[str, str], name: str, digits: int = 10) -> int | None:
    """A field of a form or a URL; None: it is empty. Raises FormError for what is no number."""
    text = fields.get(name, "").strip()
    if (number := number_of(text, digits)) is None and text:
        raise FormError(f"{name}: {text[:100]!r} is not a number, or too large.")
    return number


async def form(request: Request) -> dict[str, str]:
    """The fields of a form, the last one of those with one name. Raises FormError as `form_fields`."""
    return dict(await form_fields(request))


async def form_fields(request: Request) -> list[tuple[str, str]]:
    """The fields of a form in their order. Raises FormError for what another site sent, and for what is too large."""
    if not _is_same_site(request):
        raise FormError("This form was sent by another site. Nothing was changed.")
    limit, size, chunks = services(request).max_body_bytes, 0, []
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            raise FormTooLarge(f"More than {limit} bytes were sent.")
        chunks.append(chunk)
    try:
        body = b"".join(chunks).decode("ascii")
        return parse_qsl(body, keep_blank_values=True, errors="replace", max_num_fields=_MOST_FIELDS)
    except UnicodeDecodeError:
        raise FormError("The form could not be read: it is not URL-encoded text.") from None
    except ValueError:
        raise FormError(f"The form could not be read: it has more than {_MOST_FIELDS} fields.") from None


def _is_same_site(request: Request) -> bool:
    """Browsers say where a form comes from; one who says nothing (curl) brings no user's password along unasked."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")


def with_error_pages(render: Page) -> Page:
    """A route whose errors are pages too."""

    @wraps(render)
    async def route(request: Request) -> Response:
        try:
            return await render(request)
        except ApiError as refused:
            answer = refused.answer
            title = "Not found" if answer.status == 404 else "Not done"
            response = page("error.html", answer.status, title=title, problem=answer.problem)
            if answer.status == 401:
                response.headers["WWW-Authenticate"] = 'Basic realm="ticdc-bridge"'
            return response
        except FormError as problem:
            return page("error.html", problem.status, title="Not done", problem=str(problem))

    return route
