"""An Iceberg REST catalog of this machine: the specification's routes that Spark uses, over pyiceberg's SQL catalog.

Upstream: apache/iceberg `open-api/rest-catalog-open-api.yaml`.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableRequest
from pyiceberg.table.sorting import SortOrder

_ERRORS: dict[type[Exception], tuple[int, str]] = {
    NoSuchTableError: (404, "NoSuchTableException"),
    NoSuchNamespaceError: (404, "NoSuchNamespaceException"),
    TableAlreadyExistsError: (409, "AlreadyExistsException"),
    NamespaceAlreadyExistsError: (409, "AlreadyExistsException"),
    CommitFailedException: (409, "CommitFailedException"),
}


class _Catalog:
    """The routes' work. Names of tables are (namespace…, table)."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        uri = f"sqlite:///{folder}/rest.db"
        self.tables = SqlCatalog("rest", uri=uri, warehouse=f"file://{folder}/warehouse")
        self._lock = threading.Lock()

    def answer(self, method: str, path: list[str], body: dict[str, Any]) -> Any:
        """The JSON of an answer; None for one without a body."""
        with self._lock:
            match [method, *path]:
                case ["GET", "config"]:
                    return {"defaults": {}, "overrides": {}}
                case ["GET", "namespaces"]:
                    return {"namespaces": [list(namespace) for namespace in self.tables.list_namespaces()]}
                case ["POST", "namespaces"]:
                    self.tables.create_namespace(tuple(body["namespace"]), body.get("properties") or {})
                    return {"namespace": body["namespace"], "properties": {}}
                case ["GET" | "HEAD", "namespaces", space]:
                    properties = self.tables.load_namespace_properties(_names(space))
                    return {"namespace": list(_names(space)), "properties": dict(properties)}
                case ["GET", "namespaces", space, "tables"]:
                    existing = self.tables.list_tables(_names(space))
                    return {"identifiers": [{"namespace": list(entry[:-1]), "name": entry[-1]} for entry in existing]}
                case ["POST", "namespaces", space, "tables"]:
                    return self._create((*_names(space), body["name"]), body)
                case ["GET" | "HEAD", "namespaces", space, "tables", table]:
                    return _loaded(self.tables.load_table((*_names(space), table)))
                case ["POST", "namespaces", space, "tables", table]:
                    return self._commit((*_names(space), table), body)
                case ["DELETE", "namespaces", space, "tables", table]:
                    self.tables.drop_table((*_names(space), table))
                    return None
                case ["POST", "namespaces", _, "tables", _, "metrics"]:
                    return None
        raise LookupError(f"{method} {path}")

    def _create(self, name: tuple[str, ...], body: dict[str, Any]) -> Any:
        spec, order = body.get("partition-spec"), body.get("write-order")
        made: dict[str, Any] = {
            "identifier": name, "schema": Schema.model_validate(body["schema"]), "location": body.get("location"),
            "partition_spec": PartitionSpec.model_validate(spec) if spec else PartitionSpec(),
            "sort_order": SortOrder.model_validate(order) if order and order["fields"] else SortOrder(),
            "properties": body.get("properties") or {},
        }  # fmt: skip
        if not body.get("stage-create"):
            return _loaded(self.tables.create_table(**made))
        return _loaded(self.tables._create_staged_table(**made))

    def _commit(self, name: tuple[str, ...], body: dict[str, Any]) -> Any:
        space, table = list(name[:-1]), name[-1]
        given = {**body, "identifier": {"namespace": space, "name": table}}
        request = CommitTableRequest.model_validate(given)
        entry: Any = SimpleNamespace(name=lambda: name)
        done = self.tables.commit_table(entry, request.requirements, request.updates)
        return {"metadata-location": done.metadata_location, "metadata": json.loads(done.metadata.model_dump_json())}


def _loaded(table: Any) -> dict[str, Any]:
    metadata = json.loads(table.metadata.model_dump_json())
    return {"metadata-location": table.metadata_location, "metadata": metadata, "config": {}}


def _names(space: str) -> tuple[str, ...]:
    return tuple(space.split("\x1f"))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    catalog: ClassVar[_Catalog]
    asked: ClassVar[list[str]]

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length) or b"{}") if length else {}
        path = [unquote(word) for word in urlsplit(self.path).path.split("/")[2:]]  # /v1/…
        self.asked.append(f"{self.command} {'/'.join(path)}")
        try:
            status, made = 200, self.catalog.answer(self.command, path, body)
        except Exception as error:
            status, name = _ERRORS.get(type(error), (400, "BadRequestException"))
            self.asked.append(f"{status} {error!r}")
            made = {"error": {"message": str(error), "type": name, "code": status}}
        data = b"" if made is None or self.command == "HEAD" else json.dumps(made).encode()
        self.send_response(204 if made is None else status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_DELETE = do_HEAD = _answer

    def log_message(self, *_: object) -> None:
        """Nothing: `asked` has the requests."""


@contextmanager
def rest_catalog(folder: Path) -> Iterator[tuple[str, SqlCatalog, list[str]]]:
    """(its URL, the catalog below it, the requests and errors so far)."""
    catalog, asked = _Catalog(folder), list[str]()
    handler = type("Handler", (_Handler,), {"catalog": catalog, "asked": asked})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", catalog.tables, asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
