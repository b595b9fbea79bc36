"""Schemas by id from a registry over HTTP. They pickle into Spark workers, as those of a file do."""

import json
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, Self
from urllib.parse import quote

from ticdc_bridge.clients.http import HttpClient, HttpLogin, message_of
from ticdc_bridge.schemas.codec.avro_references import Reference, ReferringSchema, read_references, record_of, resolve
from ticdc_bridge.schemas.codec.bounded_cache import BoundedCache
from ticdc_bridge.schemas.inputs.schema_files import AVRO, FileSchemas, Name, RegisteredSchema, name_of, not_avro_error
from ticdc_bridge.schemas.inputs.subject_names import is_of_topic, record_name, without_context
from ticdc_bridge.schemas.model.errors import Hint, SetupError, WireError
from ticdc_bridge.schemas.model.ports import EITHER, ApicurioId, SchemaId, apicurio_id

_MISSING_FOR, _KNOWN_FOR = 5.0, 60.0  # seconds
_NOT_FOUND = 40403
_LARGEST_ID = (1 << 31) - 1
_CCOMPAT = "/apis/ccompat/"
_SPACES = {"globalId": ("globalIds",), "contentId": ("contentIds",), EITHER: ("globalIds", "contentIds")}
"""Apicurio's spaces of ids → where its own API has them."""

_IdKey = tuple[SchemaId, str | None]
"""A schema id, and the subject that it is asked for with, `_` for each dot: TiCDC's Avro knows no other form."""


class _RegistryCache:
    """What a registry told this process, which does not change. failed: until when an id's error stands."""

    def __init__(self) -> None:
        self.by_id: dict[_IdKey, str] = {}
        self.failed: BoundedCache[_IdKey, tuple[float, WireError]] = BoundedCache(10_000)
        self.ids: dict[tuple[str, str], SchemaId | WireError] = {}
        self.versions: dict[tuple[str, int], tuple[float, RegisteredSchema | None]] = {}
        self.referred: dict[tuple[str, int], ReferringSchema] = {}
        self.names: dict[str, tuple[float, Name | None]] = {}  # of subjects all of whose versions have one
        self.warned: set[str] = set()

    def __getstate__(self) -> dict[str, Any]:
        """Not which subjects have what: that changes, and is all that the registry has."""
        return {**_RegistryCache().__dict__, "by_id": self.by_id, "ids": self.ids}


# By registry and credentials: what is unpickled into a Spark worker goes on with what earlier tasks there asked.
_SHARED_CACHES: dict[tuple[str, str], _RegistryCache] = {}


class HttpSchemas(HttpClient):
    """A Confluent-compatible schema registry. Each id is asked for once; one that is not there, again after 5 s.

    wait, timeout: as of HttpLogin. Of unpickled objects those of one registry share their answers within a process.
    """

    def __init__(self, url: str, wait: float = 5.0, timeout: float = 10.0) -> None:
        super().__init__(url, Hint.REGISTRY, HttpLogin(wait=wait, timeout=timeout))
        self._cache = _RegistryCache()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """What it knew when it was pickled goes to what this process knows of the registry."""
        self.__dict__.update(state)
        answers = self._cache
        self._cache = _SHARED_CACHES.setdefault((self.name, self._headers.get("Authorization", "")), answers)
        self._cache.by_id.update(answers.by_id)
        self._cache.ids.update(answers.ids)

    def check(self) -> Self:
        """SetupError REGISTRY_UNREACHABLE or REGISTRY_REFUSED unless the registry answers."""
        status, answer = self.call("GET", "/")
        if status == 404 and self.call("GET", "/schemas/types")[0] == 200:
            return self  # Apicurio has nothing at the root of its Confluent API
        if status >= 400:
            raise self.refusal_error("GET /", status, answer)
        return self

    # ---- one schema
    def by_id(self, schema_id: SchemaId, where: str, subject: str | None = None) -> str:
        """As `SchemaSource.by_id`; a request for each id and subject, and one for each schema it refers to.

        An id that the registry has under other subjects than the topic's is an error where the topic's has schemas of
        another record, else a warning, once a topic.
        """
        key, cached = (schema_id, subject and subject.replace(".", "_")), self._cache
        text = cached.by_id.get(key)
        if text is None:
            until, last = cached.failed.get(key, (0.0, None))
            if last is not None and time.monotonic() < until:
                raise WireError(last.code, **{**last.fields, "where": where})
            try:
                text = cached.by_id[key] = self._request_id(schema_id, where, subject)
            except WireError as error:
                cached.failed[key] = time.monotonic() + _MISSING_FOR, error
                raise
        return text

    def _request_id(self, schema_id: SchemaId, where: str, subject: str | None) -> str:
        status, answer = self._answer_of_id(schema_id, subject)
        if status != 200:
            code = answer.get("error_code") if isinstance(answer, dict) else None
            if code == _NOT_FOUND or (status == 404 and isinstance(schema_id, str)):  # of GUIDs, not all know
                source = self.name if subject is None else f"{self.name} (asked for subject {subject})"
                raise WireError("UNKNOWN_SCHEMA_ID", where=where, id=schema_id, source=source)
            raise self.refusal_error(f"schema id {schema_id}", status, answer)
        text, kind = self.read_field(answer, "schema", str), str(answer.get("schemaType") or AVRO)
        if kind != AVRO:
            raise not_avro_error(schema_id, where, kind)
        owner = answer.get("subject")
        try:
            text = self._resolved(answer, owner if isinstance(owner, str) else "", text)
        except ValueError as error:
            raise WireError("UNSUPPORTED_SCHEMA", where=where, details=f"schema id {schema_id}: {error}") from error
        of_apicurio = apicurio_id(schema_id)
        number = schema_id if of_apicurio is None else of_apicurio.number
        if subject is not None and isinstance(number, int) and (of_apicurio is None or _CCOMPAT not in self.name):
            self._check_subject(number, where, subject, text, owner)
        return text

    def _answer_of_id(self, schema_id: SchemaId, subject: str | None) -> tuple[int, Any]:
        """What the registry says of an id. A subject that it does not know or tell of must not hide the id."""
        of_apicurio = apicurio_id(schema_id)
        if of_apicurio is not None:
            if _CCOMPAT in self.name:
                return self._answer_of_apicurio(of_apicurio)
            schema_id = of_apicurio.number  # another registry has the ids as they were moved to it
            if schema_id > _LARGEST_ID:
                return 404, {"error_code": _NOT_FOUND}
        elif isinstance(schema_id, str):
            return self.call("GET", f"/schemas/guids/{schema_id}")
        path, first = f"/schemas/ids/{schema_id}", None
        for name in dict.fromkeys((subject, subject.replace(".", "_"))) if subject else ():
            status, answer = self.call("GET", f"{path}?subject={quote(name, safe='')}")
            if status in (403, 404, 422):
                continue
            owner = answer.get("subject", name) if isinstance(answer, dict) else name
            if status != 200 or is_of_topic(str(owner), str(subject), ""):
                return status, answer
            first = first or (status, answer)
        return first or self.call("GET", path)

    def _answer_of_apicurio(self, of: ApicurioId) -> tuple[int, Any]:
        """The schema that Apicurio's own API has for an id, with what it refers to put in, in an answer's form."""
        native, found = self.at_root(self.name.partition(_CCOMPAT)[0]), {}
        for space in _SPACES[of.space]:
            for api in ("/apis/registry/v3", "/apis/registry/v2"):
                path = f"{api}/ids/{space}/{of.number}?references=DEREFERENCE&dereference=true"
                status, schema = native.call("GET", path)
                if status == 200:
                    found[space] = json.dumps(schema)
                    break
                if status != 404:
                    return status, schema
        if len(set(found.values())) > 1:
            details = f"8-byte id {of.number} is both a globalId and a contentId there, of different schemas"
            raise WireError("UNSUPPORTED_SCHEMA", where="value", details=details)
        if not found:
            return 404, {"error_code": _NOT_FOUND}
        return 200, {"schema": next(iter(found.values()))}

    # ---- whose schema it is
    def _check_subject(self, schema_id: int, where: str, subject: str, text: str, owner: Any) -> None:
        """WireError UNSUPPORTED_SCHEMA for the schema of another topic; a warning where that can't be known."""
        name = record_name(record_of(text))
        if isinstance(owner, str) and is_of_topic(owner, subject, name):
            return
        subjects = self._subjects_of_id(schema_id)
        if not subjects or any(is_of_topic(holder, subject, name) for holder in subjects):
            return
        holders = " and ".join(subjects[:3])
        newest = self._newest_if_allowed(subject)
        advice = "give the URL of the context or registry that has them"
        if newest is not None and record_name(record_of(newest)) != name:
            details = (
                f"schema id {schema_id} is that of {holders} ({name}) in {self.name}, and {subject} has no such id: "
                f"the topic's schemas are elsewhere; {advice}"
            )
            raise WireError("UNSUPPORTED_SCHEMA", where=where, details=details)
        if subject not in self._cache.warned:
            self._cache.warned.add(subject)
            text = (
                f"warning: schema id {schema_id} of a topic whose subject would be {subject} is that of {holders} in "
                f"{self.name}; it is used. If the topic's schemas are elsewhere, {advice}"
            )
            print(text, file=sys.stderr)

    def _newest_if_allowed(self, subject: str) -> str | None:
        """As `newest`; None, too, where the registry refuses to say."""
        try:
            return self.newest(subject)
        except SetupError as error:
            if error.code != "REGISTRY_REFUSED":
                raise
            return None

    def _subjects_of_id(self, schema_id: int) -> list[str]:
        """The subjects that have an id, none where the registry does not say."""
        status, answer = self.call("GET", f"/schemas/ids/{schema_id}/versions?deleted=true")
        rows = answer if status == 200 and isinstance(answer, list) else ()
        return sorted({row["subject"] for row in rows if isinstance(row, dict) and isinstance(row.get("subject"), str)})

    # ---- references
    def _resolved(self, answer: Any, owner: str, text: str) -> str:
        """A schema's text with the types that it refers to. ValueError. owner: its subject, "" if not known."""
        context = owner[: len(owner) - len(without_context(owner))]
        return resolve(
            ReferringSchema(text, read_references(answer.get("references"))),
            lambda reference: self._referred(reference, context),
        )

    def _resolved_if_known(self, answer: Any, owner: str, text: str) -> str:
        """As `_resolved`; the text as it is where a type can't be had: whoever compiles it says which."""
        try:
            return self._resolved(answer, owner, text)
        except ValueError:
            return text

    def _referred(self, reference: Reference, context: str) -> ReferringSchema:
        """The version referred to; a subject that names no context is in that of the schema that refers to it."""
        subject = reference.subject if reference.subject.startswith(":.") else context + reference.subject
        version_key = (subject, reference.version)
        if version_key not in self._cache.referred:
            version = "latest" if reference.version == -1 else reference.version
            answer = self.find(dict, f"/subjects/{quote(subject, safe='')}/versions/{version}?deleted=true")
            if answer is None:
                what = f"{reference.name} of subject {subject} version {reference.version}"
                raise ValueError(f"it refers to {what}, which {self.name} does not have")
            text = self.read_field(answer, "schema", str)
            self._cache.referred[version_key] = ReferringSchema(text, read_references(answer.get("references")))
        return self._cache.referred[version_key]

    # ---- subjects
    def add_known(self, entries: Iterable[RegisteredSchema]) -> None:
        """What `all` told: those that this is sent to need not ask for these ids."""
        for entry in entries:
            for subject in (None, without_context(entry.subject)):
                self._cache.by_id.setdefault((entry.id, subject and subject.replace(".", "_")), entry.schema)

    def newest(self, subject: str) -> str | None:
        answer = self.find(dict, f"/subjects/{quote(subject, safe='')}/versions/latest")
        if answer is None:
            return None
        text = self.read_field(answer, "schema", str)
        return self._resolved_if_known(answer, str(answer.get("subject") or subject), text)

    def id_of(self, subject: str, schema: str) -> SchemaId:
        result = self._cache.ids.get((subject, schema))
        if result is None:
            status, answer = self.call("POST", f"/subjects/{quote(subject, safe='')}/versions", {"schema": schema})
            if status == 200:
                result = self.read_field(answer, "id", int)
            elif status in (409, 422):
                # The table's rows can't be written; other tables' can. Remember it: asking again changes nothing.
                details = f"{subject}: HTTP {status}: {message_of(answer)}"
                result = WireError("UNSUPPORTED_SCHEMA", where="registering", details=details)
            else:
                raise self.refusal_error(f"registering {subject}", status, answer)
            self._cache.ids[subject, schema] = result
        if isinstance(result, WireError):
            raise result
        return result

    def versions_of_id(self, schema_id: SchemaId, subject: str | None = None) -> list[tuple[str, int]]:
        """The subjects and versions of an id, none for an id that is not there. subject: as `by_id` has it."""
        if not isinstance(schema_id, int):
            return []  # of GUIDs and Apicurio's ids this is not told
        query = f"?subject={quote(subject, safe='')}" if subject else ""
        rows = self.find(list, f"/schemas/ids/{schema_id}/versions{query}") or ()
        return [(self.read_field(row, "subject", str), self.read_field(row, "version", int)) for row in rows]

    def all(self, record_name: Name | None = None) -> Iterator[RegisteredSchema]:
        """Every version of every Avro subject. Costs a request per subject, and one per version not seen before.

        record_name: only records of this name are wanted. Then a subject whose versions all have another name is not
        asked again for a minute: its next version would have to be incompatible.
        """
        names = self._cache.names
        for subject in self.need(list, "/subjects"):
            until, name = names.get(subject, (0.0, None))
            if record_name is not None and name not in (None, record_name) and time.monotonic() < until:
                continue
            versions = list(self._versions(subject))
            different = {name_of(entry.schema) for entry in versions}
            names[subject] = time.monotonic() + _KNOWN_FOR, different.pop() if len(different) == 1 else None
            yield from versions

    def _versions(self, subject: str) -> Iterator[RegisteredSchema]:
        name, versions = quote(str(subject), safe=""), self._cache.versions
        for version in self.need(list, f"/subjects/{name}/versions"):
            until, entry = versions.get((subject, version), (0.0, None))
            if time.monotonic() > until:  # a subject that was deleted may begin with version 1 again
                answer = self.find(dict, f"/subjects/{name}/versions/{version}")
                if answer is None:
                    continue  # deleted since it was listed
                is_avro = (answer.get("schemaType") or AVRO) == AVRO
                id_, text = self.read_field(answer, "id", int), self.read_field(answer, "schema", str)
                text = self._resolved_if_known(answer, subject, text) if is_avro else text
                entry = RegisteredSchema(subject, version, id_, text) if is_avro else None
                versions[subject, version] = time.monotonic() + _KNOWN_FOR, entry
            if entry is not None:
                yield entry


Schemas = FileSchemas | HttpSchemas
