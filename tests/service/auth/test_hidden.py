"""Every route, asked by users without rights on a subject: they get what a registry without the subject answers."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

import pytest

from tests.support.access import ADMIN, InProcess, Reply, bearer, files, rule
from tests.support.routes import routes
from tests.support.service import column, record
from ticdc_bridge.service.server.app import create_app, create_served
from ticdc_bridge.service.server.settings import Settings

MARK: Final = b"zq7"
"""In the name of everything that is hidden, and in no other."""

HIDDEN, WARNED, SHARED = "zq7_shop_orders-value", "zq7.warned", "zq7.shared"
IN_CONTEXT, CONTEXT = ":.zq7:s", ".zq7"
ALIAS, FULL_ALIAS = "kept_shop_orders-value", "kept.full"
BASE, SEEN = "seen.base", "seen.shared"
TS: Final = 100 << 18
CREATE = "CREATE TABLE orders (id BIGINT PRIMARY KEY, total DECIMAL(10,2), note TEXT)"
ADD = "ALTER TABLE orders ADD COLUMN qty INT NOT NULL"
SINK = "kafka://k/t?protocol=avro&schema-registry=http://r"
TOPIC = "[[sink.dispatchers]]\nmatcher=['*.*']\ntopic='{}_{{schema}}_{{table}}'\n"

USERS = (None, "nobody", "metrics", "history", "others", "keeper")
"""Who has no right on what is hidden. `keeper` may do all but write the aliases that lead there, `others` has every
right on other subjects."""
BRIEFLY = (None, "nobody", "metrics", "history")
"""They see no more than `keeper` or `others`, `/metrics` aside, and ask one request of each route."""

RULES = (
    ADMIN
    + rule(["metrics"], ["metrics"])
    + rule(["history", "keeper"], ["history"])
    + rule(["others"], ["read", "write", "delete", "config"], prefixes=["seen.", ":.seen:"])
    + rule(["keeper"], ["read", "delete", "config"], prefixes=["kept"])
)

Asked = tuple[str, str, Any]


@dataclass
class Place:
    """A service, and what its answers call the ids and guids of what is hidden there."""

    app: InProcess
    ids: list[int] = field(default_factory=list)
    guids: list[str] = field(default_factory=list)

    def ask(self, user: str | None, asked: Asked) -> Reply:
        return self.app.send(*asked, None if user is None else bearer(user))

    def need(self, method: str, path: str, body: Any = None) -> Any:
        """What the admin is answered. It has to be a 200."""
        reply = self.ask("root", (method, path, body))
        assert reply.status == 200, (method, path, reply)
        return reply.json

    def register(self, subject: str, schema: str, **more: Any) -> Any:
        return self.need("POST", f"/subjects/{part(subject)}/versions", {"schema": schema, **more})


def part(text: str) -> str:
    return quote(text, safe="")


def fill(position: Place, *, hidden: bool) -> None:
    """The same tables, jobs and visible subjects; what is hidden comes last, so that visible ids are the same."""
    position.need("POST", "/history/ddl", {"commit_ts": TS, "db": "shop", "query": CREATE})
    position.register(BASE, record("B", column("a")))
    position.register(SEEN, record("S", column("a")))
    position.register(":.seen:s", record("S", column("a")))
    position.register(FULL_ALIAS, record("F", column("a")))
    position.need("PUT", f"/config/{FULL_ALIAS}", {"compatibility": "FULL"})
    if hidden:
        hide(position)
    for number in (2, 5):
        head = {"job": "j", "command": "merge", "from": "avro", "to": "delta", "source": "kafka", "target": "lake"}
        edge = {"topic": "t", "db": "shop", "table": "orders", "table_version": TS, "schema_id": number, "rows": 1}
        position.need("POST", "/lineage", {**head, "tables": [edge]})


def hide(position: Place) -> None:
    """A subject of the table, with a column that the table never had; aliases of it; what refers to what is seen."""
    first = position.need("GET", f"/history/shop/orders/at/{TS}?inclusive=true")["avro"][0]["value"]
    schema = json.loads(first)
    text = {"type": "string", "connect.parameters": {"tidb_type": "TEXT"}}
    schema["fields"].append({"name": "zq7_column", "type": ["null", text], "default": None})
    metadata = {"properties": {"zq7_key": "zq7_value"}}
    made = [
        position.register(HIDDEN, first),
        position.register(HIDDEN, json.dumps(schema), metadata=metadata),
        position.register(WARNED, record("W", column("zq7", decimal(10)))),
        position.register(WARNED, record("W", column("zq7", decimal(12)))),
        position.register(IN_CONTEXT, record("C", column("zq7"))),
    ]
    refers = record("R", column("zq7", "B"))
    made.append(position.register("zq7.refers", refers, references=[{"name": "B", "subject": BASE, "version": 1}]))
    position.register(SHARED, record("S", column("a")))
    position.ids, position.guids = [entry["id"] for entry in made], [entry["guid"] for entry in made]
    position.need("PUT", f"/config/{WARNED}", {"compatibility": "NONE"})
    position.need("PUT", f"/mode/{WARNED}", {"mode": "READWRITE"})
    position.need("PUT", f"/config/{ALIAS}", {"alias": HIDDEN})
    position.need("PUT", f"/config/{FULL_ALIAS}", {"alias": WARNED, "aliasForDeks": WARNED})
    position.need("PUT", "/config", {"alias": WARNED})


def decimal(precision: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": 2}


# ---- what is asked: every route, filled with what is hidden

SCHEMAS = ({"schema": record("W", column("zq7", decimal(10)))}, {"schema": record("Q", column("zq7_new", "int"))})
REFERRING = {
    "schema": record("R", column("f", "W")),
    "references": [{"name": "W", "subject": WARNED, "version": 1}],
}
REGISTERED = (*SCHEMAS, REFERRING)
CONFIGS = ({"compatibility": "NONE"}, {"alias": HIDDEN}, {"alias": None})
MODES = ({"mode": "IMPORT"}, {"mode": "READWRITE"})
TAGS = ({"tagsToAdd": [{"schemaEntity": {"entityPath": "W", "entityType": "sr_record"}, "tags": ["zq7"]}]},)
NO_BODY = (None,)


def dry_runs(send: Any) -> tuple[Any, ...]:
    """The statement for the subject's topic, and for that of its alias."""
    return tuple(send({"db": "shop", "sql": ADD}, {"sink_uri": SINK, "config": TOPIC.format(to)})
                 for to in ("zq7", "kept"))  # fmt: skip


def form(fields: dict[str, str]) -> bytes:
    return urlencode(fields).encode()


# (method, path) → the bodies that it is asked with.
BODIES: Final[dict[tuple[str, str], tuple[Any, ...]]] = {
    ("POST", "/"): NO_BODY,
    ("POST", "/subjects/{subject}"): REGISTERED,
    ("POST", "/subjects/{subject}/versions"): REGISTERED,
    ("POST", "/subjects/{subject}/versions/{version}/tags"): TAGS,
    ("POST", "/compatibility/subjects/{subject}/versions"): REGISTERED,
    ("POST", "/compatibility/subjects/{subject}/versions/{version}"): REGISTERED,
    ("PUT", "/config"): CONFIGS,
    ("PUT", "/config/{subject}"): CONFIGS,
    ("PUT", "/mode"): MODES,
    ("PUT", "/mode/{subject}"): MODES,
    ("POST", "/history/ddl"): ({"commit_ts": 2 * TS, "db": "shop", "query": "CREATE TABLE zq7 (a INT PRIMARY KEY)"},),
    ("POST", "/history/snapshot"): (
        {"commit_ts": 3 * TS, "subject": HIDDEN, "version": 2, "db": "shop", "table": "zq7"},
    ),
    ("POST", "/history/dry-run"): dry_runs(lambda asked, feed: {**asked, "changefeed": feed}),
    ("POST", "/lineage"): (
        {"job": "k", "command": "decode", "from": "avro", "to": "plain", "source": "s", "target": "t",
         "tables": [{"db": "shop", "table": "orders", "schema_id": 5, "rows": 1}]},
    ),
    ("POST", "/kafka/topics/{topic}/replay"): ({"reasons": ["MALFORMED"]},),
    ("POST", "/ui/dead-letters/{topic}/replay"): (form({"reason": "MALFORMED"}),),
    ("POST", "/ui/dry-run"): dry_runs(lambda asked, feed: form({**asked, **feed})),
    ("POST", "/ui/explain"): tuple(
        form({"value": f"00{number:08x}02", "writing": "hex", "format": "avro", "topic": "t"}) for number in (4, 5, 6)
    ),
    ("POST", "/ui/server/{what}"): (form({"to": "NONE"}),),
    ("POST", "/ui/server/register"): tuple(
        form({"subject": name, "schema": schema["schema"]}) for name in (HIDDEN, ALIAS) for schema in SCHEMAS
    ),
    ("POST", "/ui/subjects/{subject}/check"): tuple(
        form({"schema": schema["schema"], "kind": "AVRO", "against": "latest"}) for schema in SCHEMAS
    ),
    ("POST", "/ui/subjects/{subject}/compatibility"): (form({"level": "NONE"}),),
    ("POST", "/ui/subjects/{subject}/mode"): (form({"mode": "READWRITE"}),),
    ("POST", "/ui/subjects/{subject}/delete"): tuple(
        form({"name": name, "permanent": "0", "version": "1"}) for name in (HIDDEN, ALIAS)
    ),
    ("POST", "/ui/{rest:path}"): (form({"a": "b"}),),
}  # fmt: skip

# A parameter in the path → its values. Those of {id} and {guid} are known when the place is filled.
IN_PATH: Final[dict[str, tuple[str, ...]]] = {
    "subject": (HIDDEN, ALIAS, WARNED, FULL_ALIAS), "version": ("1", "latest"), "context": (CONTEXT, ".zq7_empty"),
    "name": (HIDDEN,), "namespace": (CONTEXT,), "db": ("shop",), "table": ("orders",), "when": (str(TS + 1),),
    "what": ("compatibility", "mode"), "topic": ("t",), "partition": ("0",), "offset": ("0",), "rest:path": ("zq7",),
}  # fmt: skip

# A parameter in the query that is no flag → its values.
IN_QUERY: Final[dict[str, tuple[str, ...]]] = {
    "subject": (HIDDEN, ALIAS), "subjectPrefix": ("", "zq7", ":*:"), "contextPrefix": (".zq7",),
    "format": ("resolved",), "referenceFormat": ("qualified",), "findTags": ("*",), "key": ("zq7_key",),
    "value": ("zq7_value",), "ruleType": ("",), "resourceType": ("",), "associationType": ("",), "lifecycle": ("NONE",),
    "offset": ("0",), "limit": ("1000",), "changefeed": ("default",),
    "keyspace": ("default",), "ddl_time_zone": ("UTC",), "db": ("shop",), "table": ("orders",), "from": ("1",),
    "to": (str(TS + 1),), "at": (str(TS + 1),),
    "last": ("1",), "partition": ("0",), "messageFormat": ("auto",), "before": ("0:1",), "beforeTime": ("1",),
    "name": ("zq7",), "id": ("5",), "column": ("zq7_column",), "job": ("j",), "topic": ("t",),
}  # fmt: skip

# Where another query than what IN_QUERY gives for a route's parameters is wanted as well, and those of pages.
QUERIES: Final[dict[str, tuple[str, ...]]] = {
    "/lineage": ("topic=t", f"subject={HIDDEN}"),
    "/ui/lineage": (f"subject={HIDDEN}",),
    "/ui/subjects": ("q=zq7", "q=zq7&deleted=1", "q=5&by=id", "q=zq7_column&by=column"),
    "/ui/subjects/{subject}/diff": ("from=1&to=2&whole=1",),
    "/ui/subjects/{subject}/delete": ("version=1",),
    "/ui/tables/{db}/{table}": (f"when={TS + 1}",),
    "/ui/subjects/{subject}": ("version=1",),
}

LEFT_OUT: Final = frozenset({"fetchMaxId", "deletedOnly"})
"""The highest id counts what is hidden, as docs/operate.md says; with `deletedOnly` lists here are empty."""

UNEQUAL: Final = frozenset({"/metrics"})
"""What counts over all subjects; it names none."""

UNANSWERED: Final = frozenset({
    ("GET", "/ui/{rest:path}"), ("POST", "/ui/{rest:path}"),
    ("GET", "/kafka/topics"), ("POST", "/kafka/topics/{topic}/replay"), ("POST", "/ui/dead-letters/{topic}/replay"),
    *(("GET", f"/kafka/topics/{{topic}}/{path}")
      for path in ("messages", "messages/{partition}/{offset}", "dead-letters")),
})  # fmt: skip
"""What is there for nobody; and Kafka, which is not there."""

TELLING: Final = frozenset({
    ("GET", "/subjects"), ("GET", "/schemas"), ("GET", "/contexts"), ("GET", "/config/{subject}"),
    ("GET", "/subjects/{subject}/versions/{version}"), ("GET", "/subjects/{subject}/metadata"),
    ("GET", "/schemas/ids/{id}"), ("GET", "/schemas/ids/{id}/subjects"), ("GET", "/schemas/guids/{guid}"),
    ("GET", "/history/drift"), ("GET", "/history/{db}/{table}/versions"), ("GET", "/history/{db}/{table}/at/{when}"),
    ("GET", "/lineage"), ("GET", "/overview"), ("POST", "/history/dry-run"), ("GET", "/ui/subjects"),
    ("GET", "/ui/tables"), ("GET", "/ui/lineage"), ("POST", "/ui/dry-run"), ("POST", "/subjects/{subject}"),
    ("POST", "/ui/explain"),
})  # fmt: skip
"""Some routes that tell an admin of what is hidden: the requests here reach it."""


def asking(method: str, path: str, position: Place, described: dict[str, Any]) -> list[Asked]:
    """The requests for a route. Fails for what a new route takes and the tables above do not have."""
    fillings = {**IN_PATH, "id": tuple(map(str, (2, *position.ids[:3]))), "guid": tuple(position.guids)}
    names = re.findall(r"{([\w:]+)}", path)
    for name in names:
        if name not in fillings:
            pytest.fail(f"{method} {path}: what hidden thing can {{{name}}} name? IN_PATH has no row for it")
    values = dict(fillings)
    if method == "GET" and path.startswith("/subjects/"):  # what refers to a subject that is seen
        values["subject"] = (*fillings["subject"], BASE)
    if method in ("POST", "PUT") and (method, path) not in BODIES:
        pytest.fail(f"{method} {path}: which body asks it for what is hidden? BODIES has no row for it")
    bodies = BODIES.get((method, path), NO_BODY)
    paths = []
    for chosen in product(*(values[name] for name in names)):
        filled = path
        for name, value in zip(names, chosen, strict=True):
            filled = filled.replace(f"{{{name}}}", part(value))
        paths.append(filled)
    return [
        (method, f"{entry}?{query}" if query else entry, body)
        for entry, query, body in product(paths, queries(method, path, described), bodies)
    ]


def queries(method: str, path: str, described: dict[str, Any]) -> Iterator[str]:
    """None; all flags with each value that IN_QUERY has for a text; and what QUERIES has."""
    yield ""
    yield from QUERIES.get(path, ())
    operation = described.get(path, {}).get(method.lower(), {})
    parameters = [parameter for parameter in operation.get("parameters", ()) if parameter["in"] == "query"]
    given: dict[str, tuple[str, ...]] = {}
    for name, kind in ((parameter["name"], parameter["schema"]["type"]) for parameter in parameters):
        if kind != "boolean" and name not in IN_QUERY:
            pytest.fail(f"{method} {path}: what asks for something hidden in ?{name}=? IN_QUERY has no row for it")
        if name not in LEFT_OUT:
            given[name] = ("true",) if kind == "boolean" else IN_QUERY[name]
    flags = {name: values[0] for name, values in given.items() if values == ("true",)}
    for index in range(max(map(len, given.values()), default=0)):
        texts = {name: values[min(index, len(values) - 1)] for name, values in given.items() if name not in flags}
        yield urlencode({**texts, **flags})


# ---- and what is answered

_NOT_COMPARED: Final = ("x-request-id", "content-length")
_TIMES: Final = re.compile(
    rb'("(?:first|last|ts|last_seen)":)\d+|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC(?: \([^)]* ago\))?'
)


def plain(reply: Reply) -> tuple[int, bytes, dict[str, str]]:
    """An answer without what is of its moment."""
    headers = {name: value for name, value in reply.headers.items() if name not in _NOT_COMPARED}
    return reply.status, _TIMES.sub(rb"\1", reply.body), headers


def difference(reported: Reply, expected: Reply) -> str:
    """Where two answers part."""
    if reported.status != expected.status or reported.body == expected.body:
        return f"{reported}, not {expected}"
    positions = enumerate(zip(reported.body, expected.body, strict=False))
    first = next((position for position, (entry, other) in positions if entry != other), len(expected.body))
    begin = max(first - 60, 0)
    return f"…{reported.body[begin : begin + 300]!r}, not …{expected.body[begin : begin + 300]!r}"


@pytest.fixture
def places(tmp_path: Path) -> Iterator[tuple[Place, Place]]:
    """A service with hidden subjects, and one without them."""
    both = []
    for name in ("with", "without"):
        (tmp_path / name).mkdir()
        settings = Settings(store=f"sqlite:///{tmp_path / name / 'r.db'}", **files(tmp_path / name, RULES))
        both.append(Place(InProcess(create_served(settings))))
        fill(both[-1], hidden=name == "with")
    yield both[0], both[1]
    for position in both:
        position.app.close()


def every(tmp_path: Path) -> tuple[list[tuple[str, str]], dict[str, Any]]:
    """All routes, those that change something last; and what the description says of them."""
    app = create_app(Settings(store=f"sqlite:///{tmp_path / 'routes.db'}"))
    app.state.services.registry.store.close()
    order = ("GET", "POST", "PUT", "DELETE")
    found = {(method, path) for method, path, _ in routes(app.routes)}
    return sorted(sorted(found, reverse=True), key=lambda entry: order.index(entry[0])), app.openapi()["paths"]


def test_nobody_learns_of_a_hidden_subject(places: tuple[Place, Place], tmp_path: Path) -> None:
    existing, absent = places
    table, described = every(tmp_path)
    wrong: list[str] = []
    asked = {(method, path): asking(method, path, existing, described) for method, path in table}
    for (method, path), requests in asked.items():
        for number, request in enumerate(requests):
            if method == "GET":
                existing.ask("root", request)  # answers that were kept for others must not show through
            for user in USERS if number == 0 else USERS[len(BRIEFLY) :]:
                reported, expected = existing.ask(user, request), absent.ask(user, request)
                if path in UNEQUAL:
                    if any(secret in reported.body for secret in (MARK, *map(str.encode, existing.guids))):
                        wrong.append(f"{user}: {request}: {reported.body!r:.500}")
                elif plain(reported) != plain(expected):
                    wrong.append(f"{user}: {request}: {difference(reported, expected)}")
    assert not wrong, f"{len(wrong)} answers tell of what is hidden:\n" + "\n".join(wrong[:20])
    check_reached(existing, absent, asked)


def check_reached(existing: Place, absent: Place, asked: dict[tuple[str, str], list[Asked]]) -> None:
    """An admin gets from each route what is hidden: so the requests were the right ones."""
    silent = {route for route in TELLING if not any(differs(existing, absent, request) for request in asked[route])}
    assert not silent, "an admin's answers from these routes do not tell of what is hidden"
    unanswered = {
        route
        for route, requests in asked.items()
        if all(existing.ask("root", request).status >= 400 for request in requests)
    }
    assert unanswered == UNANSWERED, "no request reaches what these routes do: the tables above need other values"


def differs(existing: Place, absent: Place, request: Asked) -> bool:
    return plain(existing.ask("root", request)) != plain(absent.ask("root", request))
