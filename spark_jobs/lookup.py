"""Schemas by id: from a registry over HTTP, or from a file that stands in for one. Both pickle into Spark workers."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from http.client import HTTPException, IncompleteRead
from pathlib import Path
from typing import Any, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from schemas import given
from schemas.codec.bounded import Bounded
from schemas.errors import SetupError, WireError
from schemas.ports import SchemaId

T = TypeVar("T")
_MISSING_FOR, _KNOWN_FOR = 5.0, 60.0  # seconds
_MEDIA = "application/vnd.schemaregistry.v1+json"
_RETRIED = (408, 429, 500, 502, 503, 504)


@dataclass(frozen=True, slots=True)
class Registered:
    """One version of a subject."""

    subject: str
    version: int
    id: SchemaId
    schema: str


class FileSchemas:
    """`--schemas FILE`: JSON lines {"subject","version","id","schema"}, or a golden's meta.json.

    Nothing can be registered: a schema that is not in the file has no id.
    """

    def __init__(self, entries: list[Registered], name: str = "the schemas given") -> None:
        self.name = name
        self._entries = entries
        self._by_id = {e.id: e.schema for e in entries}
        self._ids = {(e.subject, _same(e.schema)): e.id for e in entries}
        self._any = {_same(e.schema): e.id for e in entries}

    @classmethod
    def read(cls, path: Path) -> FileSchemas:
        """SetupError USAGE when the file has another form."""
        try:
            rows = given.schemas(path.read_text(encoding="utf-8"))
            return cls([Registered(*row) for row in rows], path.name)
        except OSError as error:
            raise SetupError("USAGE", details=f"--schemas {path}: {error.strerror or error}") from error
        except (ValueError, KeyError, TypeError) as error:
            details = f'--schemas {path}: lines {{"subject","version","id","schema"}} or a golden meta.json are needed'
            raise SetupError("USAGE", details=f"{details} ({type(error).__name__}: {error})") from error

    def by_id(self, schema_id: SchemaId, where: str) -> str:
        if schema_id not in self._by_id:
            raise WireError("UNKNOWN_SCHEMA_ID", where=where, id=schema_id, source=self.name)
        return self._by_id[schema_id]

    def newest(self, subject: str) -> str | None:
        found = [e for e in self._entries if e.subject == subject]
        return max(found, key=lambda e: e.version).schema if found else None

    def id_of(self, subject: str, schema: str) -> SchemaId:
        same = _same(schema)
        found = self._ids.get((subject, same), self._any.get(same))
        if found is None:
            details = f"{self.name} has no such schema for {subject}: {schema[:200]}"
            raise WireError("UNSUPPORTED_SCHEMA", where="schema", details=details)
        return found

    def registered(self, schema_id: SchemaId) -> list[tuple[str, int]]:
        """The subjects and versions of an id."""
        return [(e.subject, e.version) for e in self._entries if e.id == schema_id]

    def all(self) -> Iterator[Registered]:
        """Every version of every subject."""
        yield from self._entries


def _same(schema: str) -> str:
    """Schemas are the same when their JSON is, spaces and the order of keys aside."""
    try:
        return json.dumps(json.loads(schema), sort_keys=True)
    except (ValueError, RecursionError):
        return schema


def _masked(url: str) -> str:
    """A URL without what stands before its last @."""
    before, at, after = url.rpartition("@")
    return f"***@{after}" if before or at else url


class _Redirects(HTTPRedirectHandler):
    """Follows redirects, but takes no credentials to another host or from https to http."""

    def redirect_request(self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Request | None:
        if req.get_method() not in ("GET", "HEAD"):
            return None  # urllib would make a GET of a POST: the redirect is the answer
        if not newurl.lower().startswith(("http:", "https:")):
            return None  # urllib would follow to ftp, too
        followed = super().redirect_request(req, fp, code, msg, headers, newurl)
        if followed is not None and (followed.type, followed.host) != (req.type, req.host):
            followed.remove_header("Authorization")
        return followed


_OPENER = build_opener(_Redirects)


class _Answers:
    """What a registry told this process. What an id stands for does not change."""

    def __init__(self) -> None:
        self.by_id: dict[SchemaId, str] = {}
        self.missing: Bounded[SchemaId, float] = Bounded(10_000)
        self.ids: dict[tuple[str, str], SchemaId | WireError] = {}
        self.versions: dict[tuple[str, int], tuple[float, Registered | None]] = {}


# By registry and credentials: what is unpickled into a Spark worker goes on with what earlier tasks there asked.
_ANSWERS: dict[tuple[str, str], _Answers] = {}


class HttpSchemas:
    """A Confluent-compatible schema registry. Each id is asked for once; one that is not there, again after 5 s.

    wait: seconds to go on trying while the registry can't be reached or answers with a passing error. Of objects that
    were unpickled, those of one registry share their answers within a process.
    """

    def __init__(self, url: str, wait: float = 5.0, timeout: float = 10.0) -> None:
        try:
            parts = urlsplit(url)
            port = f":{parts.port}" if parts.port else ""
        except ValueError:
            parts, port = urlsplit(""), ""
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.path:
            details = (
                f"--registry {_masked(url)!r}: http://host:port or https://… is needed (escape / and @ in a password)"
            )
            raise SetupError("USAGE", details=details)
        host = parts.hostname if ":" not in parts.hostname else f"[{parts.hostname}]"
        self.name = urlunsplit((parts.scheme, host + port, parts.path.rstrip("/"), "", ""))
        self._headers = {"Accept": f"{_MEDIA}, application/json", "Content-Type": _MEDIA}
        if parts.username is not None:
            credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
            self._headers["Authorization"] = "Basic " + base64.b64encode(credentials).decode()
        self._wait, self._timeout = wait, timeout
        self._told_by = _Answers()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """What it knew when it was pickled goes to what this process knows of the registry."""
        self.__dict__.update(state)
        told = self._told_by
        self._told_by = _ANSWERS.setdefault((self.name, self._headers.get("Authorization", "")), told)
        self._told_by.by_id.update(told.by_id)
        self._told_by.ids.update(told.ids)

    def waiting(self, seconds: float) -> HttpSchemas:
        """The same registry, with more patience."""
        patient = copy(self)
        patient._wait = seconds
        return patient

    def check(self) -> HttpSchemas:
        """SetupError REGISTRY_UNREACHABLE or REGISTRY_REFUSED unless the registry answers."""
        status, answer = self._call("GET", "/")
        if status >= 400:
            raise self._refused("GET /", status, answer)
        return self

    def by_id(self, schema_id: SchemaId, where: str) -> str:
        text = self._told_by.by_id.get(schema_id)
        if text is None:
            if time.monotonic() < self._told_by.missing.get(schema_id, 0.0):
                raise WireError("UNKNOWN_SCHEMA_ID", where=where, id=schema_id, source=self.name)
            status, answer = self._call("GET", f"/schemas/ids/{schema_id}")
            if status != 200:
                if isinstance(answer, dict) and answer.get("error_code") == 40403:
                    self._told_by.missing[schema_id] = time.monotonic() + _MISSING_FOR
                    raise WireError("UNKNOWN_SCHEMA_ID", where=where, id=schema_id, source=self.name)
                raise self._refused(f"schema id {schema_id}", status, answer)
            text = self._told(answer, "schema", str)
            if answer.get("schemaType", "AVRO") != "AVRO":
                details = f"schema id {schema_id} is {answer['schemaType']}, not Avro"
                raise WireError("UNSUPPORTED_SCHEMA", where=where, details=details)
            self._told_by.by_id[schema_id] = text
        return text

    def newest(self, subject: str) -> str | None:
        status, answer = self._call("GET", f"/subjects/{quote(subject, safe='')}/versions/latest")
        if status == 404:
            return None
        if status != 200:
            raise self._refused(f"subject {subject}", status, answer)
        return self._told(answer, "schema", str)

    def id_of(self, subject: str, schema: str) -> SchemaId:
        found = self._told_by.ids.get((subject, schema))
        if found is None:
            body = {"schema": schema}
            status, answer = self._call("POST", f"/subjects/{quote(subject, safe='')}/versions", body)
            if status == 200:
                found = self._told(answer, "id", int)
            elif status in (409, 422):
                # The table's rows can't be written; other tables' can. Remember it: asking again changes nothing.
                details = f"{subject}: HTTP {status}: {_message(answer)}"
                found = WireError("UNSUPPORTED_SCHEMA", where="registering", details=details)
            else:
                raise self._refused(f"registering {subject}", status, answer)
            self._told_by.ids[subject, schema] = found
        if isinstance(found, WireError):
            raise found
        return found

    def registered(self, schema_id: SchemaId) -> list[tuple[str, int]]:
        """The subjects and versions of an id, none for an id that is not there."""
        status, answer = self._call("GET", f"/schemas/ids/{schema_id}/versions")
        if status == 404:
            return []
        if status != 200 or not isinstance(answer, list):
            raise self._refused(f"versions of schema id {schema_id}", status, answer)
        return [(self._told(a, "subject", str), self._told(a, "version", int)) for a in answer]

    def all(self) -> Iterator[Registered]:
        """Every version of every Avro subject. Costs a request per subject, and one per version not seen before."""
        for subject in self._list("/subjects"):
            name = quote(str(subject), safe="")
            for version in self._list(f"/subjects/{name}/versions"):
                known = self._told_by.versions
                until, found = known.get((subject, version), (0.0, None))
                if time.monotonic() > until:  # a subject that was deleted may begin with version 1 again
                    status, answer = self._call("GET", f"/subjects/{name}/versions/{version}")
                    if status == 404:
                        continue  # deleted since it was listed
                    if status != 200:
                        raise self._refused(f"{subject} version {version}", status, answer)
                    is_avro = answer.get("schemaType", "AVRO") == "AVRO"
                    id_, text = self._told(answer, "id", int), self._told(answer, "schema", str)
                    found = Registered(subject, version, id_, text) if is_avro else None
                    known[subject, version] = time.monotonic() + _KNOWN_FOR, found
                if found is not None:
                    yield found

    def _list(self, path: str) -> list[Any]:
        status, answer = self._call("GET", path)
        if status != 200 or not isinstance(answer, list):
            raise self._refused(path, status, answer)
        return answer

    def _refused(self, what: str, status: int, answer: Any) -> SetupError:
        return SetupError("REGISTRY_REFUSED", url=self.name, what=what, details=f"HTTP {status}: {_message(answer)}")

    def _told(self, answer: Any, name: str, kind: type[T]) -> T:
        """A field of a good answer. SetupError REGISTRY_REFUSED when it is not what a registry answers."""
        value = answer.get(name) if isinstance(answer, dict) else None
        if not isinstance(value, kind):
            details = f"an answer without {name!r}: {json.dumps(answer)[:200]}; is this a schema registry?"
            raise SetupError("REGISTRY_REFUSED", url=self.name, what="the question", details=details)
        return value

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
        """One exchange → (status, decoded body). Passing errors are tried again until `wait` is over."""
        data = None if body is None else json.dumps(body).encode()
        request = Request(self.name + path, data, self._headers, method=method)
        end, pause = time.monotonic() + self._wait, 0.1
        while True:
            try:
                status, text = self._once(
                    request, max(time.monotonic() + 0.5, min(time.monotonic() + self._timeout, end))
                )
                if status not in _RETRIED:
                    return status, _json(text)
                reason = f"HTTP {status}: {text[:200].decode(errors='replace')}"
            except (URLError, OSError, ValueError, HTTPException) as error:
                reason = str(getattr(error, "reason", error))
            if time.monotonic() + pause > end:
                raise SetupError(
                    "REGISTRY_UNREACHABLE", url=self.name, details=f"{reason} (tried for {self._wait:g} s)"
                )
            time.sleep(pause)
            pause = min(pause * 2, 10.0)

    @staticmethod
    def _once(request: Request, end: float) -> tuple[int, bytes]:
        """One exchange, whole until `end`: a server that trickles its answer is no better than one that is down."""
        try:
            with _OPENER.open(request, timeout=end - time.monotonic()) as response:
                return response.status, _read_until(response, end)
        except HTTPError as error:
            with error:
                return error.code, _read_until(error, end)


def _read_until(response: Any, end: float) -> bytes:
    parts = []
    while part := response.read1(65536):
        parts.append(part)
        if time.monotonic() > end:
            raise TimeoutError("the answer takes too long")
    if response.length:
        raise IncompleteRead(b"", response.length)
    return b"".join(parts)


def _message(answer: Any) -> str:
    return str(answer.get("message") if isinstance(answer, dict) else answer)[:500]


def _json(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return {"message": text[:200].decode(errors="replace")}


Schemas = FileSchemas | HttpSchemas
