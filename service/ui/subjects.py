"""Pages about subjects: list and search, one subject, its versions and their differences."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby, zip_longest
from typing import Any, Final
from urllib.parse import unquote

import anyio
import anyio.to_thread
from fastapi import Request, Response

from ticdc_bridge.service.registry.config import FORWARD, MODES
from ticdc_bridge.service.registry.names import context_of, name_of, prefix_of
from ticdc_bridge.service.schema_types.base import LEVELS
from ticdc_bridge.service.ui import pages
from ticdc_bridge.service.ui.pages import ApiClient, FormError, PageRouter, form, go, page, path_parameter, segment

router = PageRouter("/ui/subjects")

_MOST_EDGES: Final = 1000
_OF_TOPIC: Final = re.compile(r"([A-Za-z0-9._-]{1,249})-(?:key|value)")
_COMPARING: Final = anyio.CapacityLimiter(2)
NOTHING_PASTED: Final = {"schema": "", "kind": "AVRO", "against": "", "references": ""}
_BY: Final = {"name": "name", "id": "schema id", "column": "column"}
_CHOICES: Final[dict[str, Any]] = {"levels": list(LEVELS), "modes": [mode for mode in MODES if mode != FORWARD]}


@router.get("")
async def list_subjects(request: Request) -> Response:
    api, query = ApiClient(request), request.query_params
    text, by, deleted = query.get("q", "").strip(), query.get("by", "name"), query.get("deleted") == "1"
    by = by if by in _BY else "name"
    if text and by == "id" and pages.number_of(text) is None:
        raise FormError(f"A schema id is a number, not {text[:100]!r}.")
    of = {by: text} if text else {}
    view, rows = pages.ListView(request, q=text, by=by, **({"deleted": "1"} if deleted else {})), []
    answer = await api.need("overview", **of, deleted=deleted, **view.asked)
    for entry in answer["subjects"]:
        live = [version for version in entry["versions"] if not version["deleted"]]
        versions = live or entry["versions"]  # of a deleted subject, its deleted versions
        rows.append({
            **entry, "context": context_of(entry["subject"]), "name": name_of(entry["subject"]),
            "latest": versions[-1] if versions else None, "ranges": _ranges(version["version"] for version in versions),
            "deleted": not live, "count": len(versions), "id": versions[-1]["id"] if versions else None,
        })  # fmt: skip
    values: dict[str, Any] = {
        "view": view.fill(rows, answer["total"]), "q": text, "by": by, "choices": _BY, "deleted": deleted,
        "level": (await api.get("config")).value.get("compatibilityLevel", "not to be seen"),
        "mode": (await api.get("mode")).value.get("mode", "not to be seen"), "pasted": NOTHING_PASTED, **_CHOICES,
    }  # fmt: skip
    return page("subjects.html", **values)


def _ranges(numbers: Iterable[int]) -> str:
    """`1–4, 6` of 1 2 3 4 6."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in ranges)


# ---- one subject


@router.get("/{subject}")
@router.get("/{subject}/versions/{version}")
async def show(request: Request) -> Response:
    return await subject_page(request, path_parameter(request, "subject"))


async def subject_page(request: Request, subject: str, **more: Any) -> Response:
    """The page of a subject and a version (or the newest). more: what else its template shows, and the status."""
    api = ApiClient(request)
    await api.need("subjects", subject, "versions", deleted=True)  # says what is wrong where there is nothing
    [entry] = (await api.need("overview", subject=subject))["subjects"]
    config, versions = await api.get("config", subject), list(reversed(entry["versions"]))
    for row, before in zip(versions, [*versions[1:], {"version": None}], strict=True):
        row["before"] = before["version"]
    live = [row["version"] for row in versions if not row["deleted"]]
    newest = str(live[0] if live else versions[0]["version"])
    asked = unquote(request.path_params.get("version", ""), errors="replace") or request.query_params.get("version")
    found = await api.need("subjects", subject, "versions", asked or newest, deleted=True)
    using = await api.get("subjects", subject, "versions", str(found["version"]), "referencedby")
    in_context = prefix_of(context_of(subject))
    shared = await api.get("schemas", "ids", str(found["id"]), "versions", subject=in_context, deleted=True)
    edges = await api.get("lineage", subject=subject, limit=_MOST_EDGES)
    kind = found.get("schemaType", "AVRO")
    values = {
        "overview": entry, "subject": subject, "context": context_of(subject), "kind": kind, "live": live,
        "view": pages.ListView(request).fill(versions, len(versions)), "found": found,
        "numbers": [row["version"] for row in versions], "text": pages.pretty_json(found["schema"]),
        "fields": _fields(found["schema"]) if kind == "AVRO" else [], "using": using.value if using.is_ok else [],
        "shared": [at for at in shared.value if at["subject"] != found["subject"]] if shared.is_ok else [],
        "links": _links(subject, edges.value if edges.is_ok else []), "pasted": NOTHING_PASTED, "checked": None,
        "settings": config.value if config.is_ok else {}, **_CHOICES,
    }  # fmt: skip
    return page("subject.html", more.pop("status", 200), **values | more)


def _links(subject: str, edges: Iterable[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """Topics, tables and jobs that a subject has to do with: what each is, its name, and its page."""
    topics = {edge["topic"] for edge in edges if edge["topic"]}
    if match := _OF_TOPIC.fullmatch(name_of(subject)):
        topics.add(match[1])
    tables = sorted({(edge["db"], edge["table"]) for edge in edges if edge["table"]})
    return [
        *(("topic", topic, f"/ui/topics/{segment(topic)}") for topic in sorted(topics)),
        *(("table", f"{db}.{table}", f"/ui/tables/{segment(db)}/{segment(table)}") for db, table in tables),
        *(("lake table", f"{db}.{table}", f"/ui/lake/{segment(db)}/{segment(table)}") for db, table in tables),
        *(("job", job, f"/ui/lineage?job={segment(job)}") for job in sorted({edge["job"] for edge in edges})),
    ]


def _fields(text: str) -> list[dict[str, Any]]:
    """Name, type, TiDB type and default of each field of an Avro record."""
    try:
        record = json.loads(text)
    except ValueError:
        return []
    fields, rows = record.get("fields") if isinstance(record, dict) else None, []
    for field in fields if isinstance(fields, list) else ():
        if isinstance(field, dict):
            kind = field.get("type")
            branches = kind if isinstance(kind, list) else [kind]
            found = (p for branch in branches if isinstance(branch, dict) and (p := branch.get("connect.parameters")))
            parameters: Any = next(found, {})
            rows.append({
                "name": str(field.get("name")),
                "type": ", ".join(map(_type, branches)),
                "tidb": parameters.get("tidb_type", "") if isinstance(parameters, dict) else "",
                "default": json.dumps(field["default"], ensure_ascii=False) if "default" in field else "none",
            })  # fmt: skip
    return rows


def _type(kind: Any) -> str:
    if not isinstance(kind, dict):
        return str(kind)
    logical, name = kind.get("logicalType"), kind.get("name", kind.get("type"))
    if logical == "decimal":
        return f"decimal({kind.get('precision')},{kind.get('scale', 0)})"
    return f"{name} ({logical})" if logical else str(name)


@router.get("/{subject}/diff")
async def diff(request: Request) -> Response:
    api, subject = ApiClient(request), path_parameter(request, "subject")
    numbers = await api.need("subjects", subject, "versions", deleted=True)
    right = request.query_params.get("to") or str(numbers[-1])
    left = request.query_params.get("from") or str(numbers[-2] if len(numbers) > 1 else numbers[-1])
    texts = [
        pages.pretty_json((await api.need("subjects", subject, "versions", number, deleted=True))["schema"])
        for number in (left, right)
    ]
    all_lines = request.query_params.get("whole") == "1"
    rows = await anyio.to_thread.run_sync(in_two_columns, texts[0], texts[1], limiter=_COMPARING)
    values: dict[str, Any] = {
        "subject": subject, "numbers": list(map(str, numbers)), "left": left, "right": right, "all_lines": all_lines,
        "rows": rows if all_lines else fold_rows(rows), "changed": sum(row.kind != "same" for row in rows),
    }  # fmt: skip
    return page("diff.html", **values)


server = PageRouter("/ui/server")

_LIST: Final = 'Write them as [{"name": …, "subject": …, "version": …}].'
# As Confluent writes a difference.
_DIFFERENCE: Final = re.compile(
    r"""\{errorType:['"](?P<kind>\w+)['"], description:['"](?P<text>.*?)['"](?:, additionalInfo:'(?P<more>.*)')?\}""",
    re.DOTALL,
)


def _pasted(fields: dict[str, str]) -> tuple[dict[str, str], dict[str, Any]]:
    """What the form of a schema holds, and as the API takes it. Raises FormError."""
    pasted = {name: fields.get(name, text) for name, text in NOTHING_PASTED.items()}
    body: dict[str, Any] = {"schema": pasted["schema"], "schemaType": pasted["kind"]}
    if pasted["references"].strip():
        body["references"] = _references(pasted["references"])
    return pasted, body


@server.post("/register")
async def register(request: Request) -> Response:
    """Registers a schema for the form's subject, which may be a new one."""
    api, fields = ApiClient(request), await form(request)
    subject, (pasted, body) = fields.get("subject", ""), _pasted(fields)
    if not subject.strip():
        raise FormError("Name the subject. Nothing was registered.")
    answer = await api.send("POST", "subjects", subject, "versions", body=body)
    if answer.is_ok:
        return go(f"/ui/subjects/{segment(subject)}?version={answer.value.get('version', '')}")
    if (await api.get("subjects", subject, "versions", deleted=True)).is_ok:
        return await subject_page(request, subject, pasted=pasted, status=answer.status, said=answer.problem)
    raise pages.ApiError(answer)


@router.post("/{subject}/check")
async def check(request: Request) -> Response:
    api, subject, fields = ApiClient(request), path_parameter(request, "subject"), await form(request)
    pasted, body = _pasted(fields)
    against = pasted["against"]
    where = ("latest",) if against == "latest" else (against,) if pages.number_of(against) is not None else ()
    answer = await api.send(
        "POST", "compatibility", "subjects", subject, "versions", *where, query={"verbose": True}, body=body
    )
    checked: dict[str, Any] = answer.value if answer.is_ok else {"is_compatible": None, "messages": [answer.problem]}
    messages = [str(message) for message in checked.get("messages") or ()]
    if any(message.startswith("Invalid schema") for message in messages):
        checked = {**checked, "is_compatible": None}
    compared = [message for message in messages if message.startswith(("{oldSchema", "{validateFields"))]
    problems = [
        match.groupdict() if (match := _DIFFERENCE.fullmatch(message)) else {"kind": "", "text": message, "more": ""}
        for message in messages
        if message not in compared
    ]
    checked = {**checked, "problems": problems, "compared": compared}
    return await subject_page(request, subject, pasted=pasted, checked=checked)


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
@router.post("/{subject}/mode")
async def change_setting(request: Request) -> Response:
    subject, name = path_parameter(request, "subject"), request.url.path.rpartition("/")[2]
    answer = await _set(request, name, subject)
    if not answer.is_ok:
        return await subject_page(request, subject, status=answer.status, said=answer.problem)
    return go(f"/ui/subjects/{segment(subject)}")


@server.post("/{what}")
async def change_server(request: Request) -> Response:
    what = path_parameter(request, "what")
    if what not in ("compatibility", "mode"):
        raise FormError(f"The server has no setting {what[:100]!r}.")
    answer = await _set(request, what)
    if not answer.is_ok:
        raise pages.ApiError(answer)
    return go("/ui/subjects")


async def _set(request: Request, name: str, *subject: str) -> pages.ApiAnswer:
    """Sets what the form says, of a subject or the server; nothing there takes the setting away."""
    api, fields = ApiClient(request), await form(request)
    path = "config" if name == "compatibility" else name, *subject
    if not fields.get("to"):
        return await api.send("DELETE", *path)
    force = True if fields.get("force") == "1" else None
    return await api.send("PUT", *path, query={"force": force}, body={name: fields["to"]})


@router.get("/{subject}/delete")
async def ask_to_delete(request: Request) -> Response:
    return await _confirm(request, path_parameter(request, "subject"), request.query_params.get("version", ""))


async def _confirm(request: Request, subject: str, version: str, problem: str = "", status: int = 200) -> Response:
    api = ApiClient(request)
    numbers = await api.need("subjects", subject, "versions", deleted=True)
    live = await api.get("subjects", subject, "versions")
    versions = live.value if live.is_ok else []
    number = pages.number_of(version)
    permanent = number not in versions if number is not None else not versions
    version, numbers = ("", numbers) if number is None else (version, [number])
    values = {"subject": subject, "version": version, "numbers": numbers, "permanent": permanent, "said": problem}
    return page("delete.html", status, **values)


@router.post("/{subject}/delete")
async def delete(request: Request) -> Response:
    api, subject, fields = ApiClient(request), path_parameter(request, "subject"), await form(request)
    version, permanent = fields.get("version", ""), fields.get("permanent") == "1"
    if fields.get("name") != subject:
        return await _confirm(request, subject, version, "The name is not the subject's. Nothing is deleted.", 400)
    path = ("subjects", subject, *(("versions", version) if version else ()))
    answer = await api.send("DELETE", *path, query={"permanent": permanent})
    if not answer.is_ok:
        return await _confirm(request, subject, version, answer.problem, answer.status)
    left = await api.get("subjects", subject, "versions", deleted=True)
    return go(f"/ui/subjects/{segment(subject)}" if left.is_ok else "/ui/subjects")


_MOST_LINES: Final = 10_000
_STEPS: Final = 20_000_000
"""Of a comparison, which takes up to lines × lines × how often one is repeated: seconds, not hours, at the worst."""

_AROUND: Final = 3
_LONGEST: Final = 2000
_ALIKE: Final = 0.4

Fragments = list[tuple[str, bool]]


@dataclass(frozen=True, slots=True)
class DiffRow:
    """A line on either side, with its number. kind: same, changed, gone or new. hidden: lines left out here."""

    kind: str
    left_number: int | None = None
    left: str = ""
    right_number: int | None = None
    right: str = ""
    hidden: int = 0

    @property
    def fragments(self) -> tuple[Fragments, Fragments]:
        """Pieces of both texts, and whether a piece is another one on the other side; a line made anew is whole."""
        unmarked: tuple[Fragments, Fragments] = ([(self.left, False)], [(self.right, False)])
        if self.kind != "changed" or max(len(self.left), len(self.right)) > _LONGEST:
            return unmarked
        matcher = SequenceMatcher(None, self.left, self.right, autojunk=False)
        if matcher.ratio() < _ALIKE:
            return unmarked
        left: Fragments = []
        right: Fragments = []
        for tag, i, j, k, m in matcher.get_opcodes():
            left += [(self.left[i:j], tag != "equal")] if i < j else []
            right += [(self.right[k:m], tag != "equal")] if k < m else []
        return left, right


def in_two_columns(left: str, right: str) -> list[DiffRow]:
    """The rows of a comparison; texts that are too long to be compared simply stand beside each other."""
    a, b = left.splitlines(), right.splitlines()
    blocks: Sequence[tuple[str, int, int, int, int]] = [("replace", 0, len(a), 0, len(b))]
    if max(len(a), len(b)) <= _MOST_LINES:
        # Lines that are repeated too often (`},`) are not what the others are found by.
        often, counts = max(_STEPS // max(len(a) * len(b), 1), 1), Counter(b)
        blocks = SequenceMatcher(lambda line: counts[line] > often, a, b, autojunk=False).get_opcodes()
    rows = []
    for _, i, j, k, m in blocks:
        for x, y in zip_longest(range(i, j), range(k, m)):
            kind = "new" if x is None else "gone" if y is None else "same" if a[x] == b[y] else "changed"
            left_cell = (None, "") if x is None else (x + 1, a[x])
            right_cell = (None, "") if y is None else (y + 1, b[y])
            rows.append(DiffRow(kind, *left_cell, *right_cell))
    return rows


def fold_rows(rows: list[DiffRow]) -> list[DiffRow]:
    """The rows with what is the same left out, but for a few lines around each difference."""
    visible = [False] * len(rows)
    for index, row in enumerate(rows):
        if row.kind != "same":
            near = range(max(index - _AROUND, 0), min(index + _AROUND + 1, len(rows)))
            visible[near.start : near.stop] = [True] * len(near)
    result: list[DiffRow] = []
    for is_shown, group in groupby(zip(visible, rows, strict=True), key=lambda entry: entry[0]):
        left_out = [row for _, row in group]
        result += left_out if is_shown or len(left_out) == 1 else [DiffRow("same", hidden=len(left_out))]
    return result
