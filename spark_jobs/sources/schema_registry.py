"""Schemas by id: from a registry over HTTP, or from a file that stands in for one. Both pickle into Spark workers."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from schemas.codec.bounded_cache import BoundedCache
from schemas.inputs import definition_files
from schemas.model.errors import SetupError, WireError
from schemas.model.ports import SchemaId
from schemas.model.reasons import reason_of
from spark_jobs.sources.http_client import JsonClient, message_of

_MISSING_FOR, _KNOWN_FOR = 5.0, 60.0  # seconds


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """One version of a subject."""

    subject: str
    version: int
    id: SchemaId
    schema: str


Name = tuple[str, str]
"""What a record is called: the last part of its namespace, and its name. TiCDC: the sanitised db and table."""


def name_of(schema: str) -> Name | None:
    """The name of a schema's record in lower case, as TiDB compares names; None for what is no record."""
    try:
        record = json.loads(schema)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or not isinstance(record.get("name"), str):
        return None
    return str(record.get("namespace", "")).rpartition(".")[2].lower(), record["name"].lower()


class FileSchemas:
    """`--schemas FILE`: JSON lines {"subject","version","id","schema"}, or a golden's meta.json.

    Nothing can be registered: a schema that is not in the file has no id.
    """

    def __init__(self, entries: list[RegisteredSchema], name: str = "the schemas given") -> None:
        self.name = name
        self._entries = entries
        self._by_id = {e.id: e.schema for e in entries}
        self._ids = {(e.subject, _normal_form(e.schema)): e.id for e in entries}
        self._any = {_normal_form(e.schema): e.id for e in entries}

    @classmethod
    def read(cls, path: Path) -> FileSchemas:
        """SetupError USAGE when the file has another form."""
        try:
            rows = definition_files.schemas(path.read_text(encoding="utf-8"))
            return cls([RegisteredSchema(*row) for row in rows], path.name)
        except OSError as error:
            raise SetupError("USAGE", details=f"--schemas {path}: {error.strerror or error}") from error
        except (ValueError, KeyError, TypeError) as error:
            details = f'--schemas {path}: lines {{"subject","version","id","schema"}} or a golden meta.json are needed'
            raise SetupError("USAGE", details=f"{details} ({reason_of(error)})") from error

    def add_known(self, entries: Iterable[RegisteredSchema]) -> None:
        """Schemas that are found by their id alone."""
        self._by_id.update({entry.id: entry.schema for entry in entries})

    def by_id(self, schema_id: SchemaId, where: str) -> str:
        if schema_id not in self._by_id:
            raise WireError("UNKNOWN_SCHEMA_ID", where=where, id=schema_id, source=self.name)
        return self._by_id[schema_id]

    def newest(self, subject: str) -> str | None:
        entries = [e for e in self._entries if e.subject == subject]
        return max(entries, key=lambda e: e.version).schema if entries else None

    def id_of(self, subject: str, schema: str) -> SchemaId:
        same = _normal_form(schema)
        schema_id = self._ids.get((subject, same), self._any.get(same))
        if schema_id is None:
            details = f"{self.name} has no such schema for {subject}: {schema[:200]}"
            raise WireError("UNSUPPORTED_SCHEMA", where="schema", details=details)
        return schema_id

    def versions_of_id(self, schema_id: SchemaId) -> list[tuple[str, int]]:
        """The subjects and versions of an id."""
        return [(e.subject, e.version) for e in self._entries if e.id == schema_id]

    def all(self, record_name: Name | None = None) -> Iterator[RegisteredSchema]:
        """Every version of every subject. record_name: as `HttpSchemas.all`."""
        yield from self._entries


def _normal_form(schema: str) -> str:
    """Schemas are the same when their JSON is, spaces and the order of keys aside."""
    try:
        return json.dumps(json.loads(schema), sort_keys=True)
    except (ValueError, RecursionError):
        return schema


class _Answers:
    """What a registry told this process. What an id stands for does not change."""

    def __init__(self) -> None:
        self.by_id: dict[SchemaId, str] = {}
        self.missing: BoundedCache[SchemaId, float] = BoundedCache(10_000)
        self.ids: dict[tuple[str, str], SchemaId | WireError] = {}
        self.versions: dict[tuple[str, int], tuple[float, RegisteredSchema | None]] = {}
        self.names: dict[str, tuple[float, Name | None]] = {}  # of subjects all of whose versions have one

    def __getstate__(self) -> dict[str, Any]:
        """Not which subjects have what: that changes, and is all that the registry has."""
        return {**_Answers().__dict__, "by_id": self.by_id, "ids": self.ids}


# By registry and credentials: what is unpickled into a Spark worker goes on with what earlier tasks there asked.
_ANSWERS: dict[tuple[str, str], _Answers] = {}


class HttpSchemas(JsonClient):
    """A Confluent-compatible schema registry. Each id is asked for once; one that is not there, again after 5 s.

    wait: seconds to go on trying while the registry can't be reached or answers with a passing error. Of objects that
    were unpickled, those of one registry share their answers within a process.
    """

    def __init__(self, url: str, wait: float = 5.0, timeout: float = 10.0) -> None:
        super().__init__(url, "--registry", wait, timeout)
        self._told_by = _Answers()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """What it knew when it was pickled goes to what this process knows of the registry."""
        self.__dict__.update(state)
        answers = self._told_by
        self._told_by = _ANSWERS.setdefault((self.name, self._headers.get("Authorization", "")), answers)
        self._told_by.by_id.update(answers.by_id)
        self._told_by.ids.update(answers.ids)

    def check(self) -> HttpSchemas:
        """SetupError REGISTRY_UNREACHABLE or REGISTRY_REFUSED unless the registry answers."""
        status, answer = self.call("GET", "/")
        if status >= 400:
            raise self.refusal_error("GET /", status, answer)
        return self

    def by_id(self, schema_id: SchemaId, where: str) -> str:
        text = self._told_by.by_id.get(schema_id)
        if text is None:
            if time.monotonic() < self._told_by.missing.get(schema_id, 0.0):
                raise WireError("UNKNOWN_SCHEMA_ID", where=where, id=schema_id, source=self.name)
            status, answer = self.call("GET", f"/schemas/ids/{schema_id}")
            if status != 200:
                if isinstance(answer, dict) and answer.get("error_code") == 40403:
                    self._told_by.missing[schema_id] = time.monotonic() + _MISSING_FOR
                    raise WireError("UNKNOWN_SCHEMA_ID", where=where, id=schema_id, source=self.name)
                raise self.refusal_error(f"schema id {schema_id}", status, answer)
            text = self.read_field(answer, "schema", str)
            if answer.get("schemaType", "AVRO") != "AVRO":
                details = f"schema id {schema_id} is {answer['schemaType']}, not Avro"
                raise WireError("UNSUPPORTED_SCHEMA", where=where, details=details)
            self._told_by.by_id[schema_id] = text
        return text

    def add_known(self, entries: Iterable[RegisteredSchema]) -> None:
        """What `all` told: those that this is sent to need not ask for these ids."""
        self._told_by.by_id.update({entry.id: entry.schema for entry in entries})

    def newest(self, subject: str) -> str | None:
        status, answer = self.call("GET", f"/subjects/{quote(subject, safe='')}/versions/latest")
        if status == 404:
            return None
        if status != 200:
            raise self.refusal_error(f"subject {subject}", status, answer)
        return self.read_field(answer, "schema", str)

    def id_of(self, subject: str, schema: str) -> SchemaId:
        result = self._told_by.ids.get((subject, schema))
        if result is None:
            body = {"schema": schema}
            status, answer = self.call("POST", f"/subjects/{quote(subject, safe='')}/versions", body)
            if status == 200:
                result = self.read_field(answer, "id", int)
            elif status in (409, 422):
                # The table's rows can't be written; other tables' can. Remember it: asking again changes nothing.
                details = f"{subject}: HTTP {status}: {message_of(answer)}"
                result = WireError("UNSUPPORTED_SCHEMA", where="registering", details=details)
            else:
                raise self.refusal_error(f"registering {subject}", status, answer)
            self._told_by.ids[subject, schema] = result
        if isinstance(result, WireError):
            raise result
        return result

    def versions_of_id(self, schema_id: SchemaId) -> list[tuple[str, int]]:
        """The subjects and versions of an id, none for an id that is not there."""
        status, answer = self.call("GET", f"/schemas/ids/{schema_id}/versions")
        if status == 404:
            return []
        if status != 200 or not isinstance(answer, list):
            raise self.refusal_error(f"versions of schema id {schema_id}", status, answer)
        return [(self.read_field(a, "subject", str), self.read_field(a, "version", int)) for a in answer]

    def all(self, record_name: Name | None = None) -> Iterator[RegisteredSchema]:
        """Every version of every Avro subject. Costs a request per subject, and one per version not seen before.

        record_name: only records of this name are wanted. Then a subject whose versions all have another name is not
        asked again for a minute: its next version would have to be incompatible.
        """
        names = self._told_by.names
        for subject in self._list("/subjects"):
            until, name = names.get(subject, (0.0, None))
            if record_name is not None and name not in (None, record_name) and time.monotonic() < until:
                continue
            versions = list(self._versions(subject))
            different = {name_of(entry.schema) for entry in versions}
            names[subject] = time.monotonic() + _KNOWN_FOR, different.pop() if len(different) == 1 else None
            yield from versions

    def _versions(self, subject: str) -> Iterator[RegisteredSchema]:
        name, versions = quote(str(subject), safe=""), self._told_by.versions
        for version in self._list(f"/subjects/{name}/versions"):
            until, entry = versions.get((subject, version), (0.0, None))
            if time.monotonic() > until:  # a subject that was deleted may begin with version 1 again
                status, answer = self.call("GET", f"/subjects/{name}/versions/{version}")
                if status == 404:
                    continue  # deleted since it was listed
                if status != 200:
                    raise self.refusal_error(f"{subject} version {version}", status, answer)
                is_avro = answer.get("schemaType", "AVRO") == "AVRO"
                id_, text = self.read_field(answer, "id", int), self.read_field(answer, "schema", str)
                entry = RegisteredSchema(subject, version, id_, text) if is_avro else None
                versions[subject, version] = time.monotonic() + _KNOWN_FOR, entry
            if entry is not None:
                yield entry

    def _list(self, path: str) -> list[Any]:
        status, answer = self.call("GET", path)
        if status != 200 or not isinstance(answer, list):
            raise self.refusal_error(path, status, answer)
        return answer


Schemas = FileSchemas | HttpSchemas
