"""/openapi.json and the pages say what the routes are and which parameters they read."""

import ast
import inspect
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Final

import pytest
from fastapi import FastAPI

from tests.support.golden import ROOT
from tests.support.routes import routes
from tests.support.table import check_rows
from ticdc_bridge.service.api.routing import PARAMETERS, SCHEMA_FORM
from ticdc_bridge.service.server.app import create_app
from ticdc_bridge.service.server.settings import Settings

Route = tuple[str, str, Any]
_READERS: Final = {"text": (), "texts": (), "flag": (), "integer": (), "page": ("offset", "limit"),
    "page_limits": ("offset", "limit")}  # fmt: skip
_OF_ANY_SCHEMA: Final = {*SCHEMA_FORM}  # read for each answer with a schema, where the route declares them
_VERBS: Final = re.compile(r"\b(GET|POST|PUT|DELETE)\b")
_PAGING: Final = {"offset", "limit"}


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FastAPI]:
    made = create_app(Settings(store=f"sqlite:///{tmp_path_factory.mktemp('app') / 'r.db'}"))
    yield made
    made.state.services.registry.store.close()


@pytest.fixture(scope="module")
def described(app: FastAPI) -> list[Route]:
    """The routes of /openapi.json."""
    paths = app.openapi()["paths"]
    return [route for route in routes(app.routes) if route[0].lower() in paths.get(route[1], ())]


def test_every_query_parameter_is_described(app: FastAPI, described: list[Route]) -> None:
    """What a route reads, by its code, is in /openapi.json, with a text; and the reverse."""
    paths = app.openapi()["paths"]

    def check(route: Route) -> None:
        method, path, _ = route
        said = {
            parameter["name"]: parameter
            for parameter in paths[path][method.lower()]["parameters"]
            if parameter["in"] == "query"
        }
        read = parameters(route[2].endpoint)
        assert read - _OF_ANY_SCHEMA <= set(said), "in the query of its declaration?"
        assert set(said) <= read, "no route reads it"
        assert [name for name, value in said.items() if len(value["description"]) < 10] == []

    check_rows(described, check, name=lambda route: f"{route[0]} {route[1]}")
    uses = Counter(entry.name for _, _, route in described for entry in route.query if entry in PARAMETERS.values())
    assert [name for name in PARAMETERS if uses[name] < 2] == [], "what one route reads is said in its declaration"


def parameters(function: Callable[..., Any]) -> set[str]:
    """Query parameters that it and the functions it hands `call` to read."""
    return set(chain.from_iterable(_read(function, set())))


def _read(function: Callable[..., Any], seen: set[Callable[..., Any]]) -> Iterator[set[str]]:
    seen.add(function)
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    for node in ast.walk(tree):
        if isinstance(node, ast.DictComp | ast.ListComp) and any(map(_reader, ast.walk(node))):
            yield {text for generator in node.generators for text in _texts(ast.walk(generator.iter))}
        if not isinstance(node, ast.Call):
            continue
        if _reader(node):
            assert isinstance(node.func, ast.Attribute)
            yield {*_READERS[node.func.attr], *_texts(node.args[:1] if node.func.attr != "page" else ())}
        elif isinstance(node.func, ast.Name) and node.args and ast.unparse(node.args[0]) == "call":
            yield set(_texts(node.args))
            callee = inspect.unwrap(function).__globals__[node.func.id]
            if callee not in seen:
                yield from _read(callee, seen)


def _reader(node: ast.AST) -> bool:
    """It is `call.text(…)` or the like."""
    return isinstance(node, ast.Call) and ast.unparse(node.func) in {f"call.{name}" for name in _READERS}


def _texts(nodes: Any) -> Iterator[str]:
    return (node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))


def test_the_pages_name_every_route(described: list[Route]) -> None:
    """docs/registry.md lists what there is; of /history and /lineage other pages do."""
    known: dict[str, set[str]] = {}
    for method, path, _ in described:
        known.setdefault(_unnamed(path), set()).add(method)
    listed = {"/openapi.json"}

    def check(row: tuple[str, str]) -> None:
        paths = [path for text in re.findall(r"`([^`]+)`", row[0]) for path in _meant(text, row[0], known)]
        listed.update(paths)
        methods = set().union(*(known[path] for path in paths))
        assert methods <= set(_VERBS.findall(row[1])) <= {*methods, "GET"}
        asked = {entry.name for _, path, route in described if _unnamed(path) in paths for entry in route.query}
        said = set(re.findall(r"`(\w+)`", row[1])) | (_PAGING if "paging" in row[1] else set())
        assert asked <= said

    check_rows(_rows(), check, name=lambda row: row[0])
    pages = "".join(_unnamed(page.read_text(encoding="utf-8")) for page in sorted((ROOT / "docs").glob("*.md")))
    elsewhere = {path for path in known if path.startswith(("/history/", "/lineage"))}
    assert sorted(set(known) - listed - elsewhere) == [], "docs/registry.md, What it answers"
    assert [f"{method} {path}" for path in sorted(elsewhere) for method in known[path]
            if not re.search(rf"{method} {re.escape(path)}[^/\w]", pages)] == []  # fmt: skip


def _rows() -> Iterator[tuple[str, str]]:
    """(paths, methods) of the table; without the line of what other pages describe, and of the context's paths."""
    text = (Path(ROOT) / "docs" / "registry.md").read_text(encoding="utf-8")
    table = text.partition("| path | methods |\n|---|---|\n")[2].partition("\n\n")[0]
    for line in table.splitlines():
        paths, methods = (cell.strip() for cell in line.strip("|").split(" | ", 1))
        if not paths.startswith(("`/history/…`", "`/contexts/{c}/…`")):
            yield paths, methods


def _meant(text: str, cell: str, existing: dict[str, set[str]]) -> list[str]:
    """The routes that a path of the first column stands for: after, beside or without the first one of its cell."""
    first, path = _unnamed(re.findall(r"`([^`]+)`", cell)[0]), _unnamed(text)
    if path == "/openapi.json":
        return []
    if path.endswith("/…"):
        return [entry for entry in existing if entry.startswith(path[:-1])]
    integer = (first,) if path == first else (first + path, first.rpartition("/")[0] + path, path)
    return [next(entry for entry in integer if entry in existing)]


def _unnamed(text: str) -> str:
    return re.sub(r"{[^}/\"]+}", "{}", text)
