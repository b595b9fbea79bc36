"""Schemas of a file that stands in for a registry (`--schemas FILE`). They pickle into Spark workers.

JSON lines {"subject", "version", "id", "schema"}, with "schemaType", "references" and "guid" as a registry answers
them, or a golden's meta.json.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ticdc_bridge.schemas.codec.avro_references import Reference, ReferringSchema, read_references, record_of, resolve
from ticdc_bridge.schemas.inputs.definition_files import meta_of, number_lines
from ticdc_bridge.schemas.inputs.subject_names import without_context
from ticdc_bridge.schemas.inputs.table_sources import definition_text
from ticdc_bridge.schemas.model.errors import Hint, SetupError, WireError
from ticdc_bridge.schemas.model.names import record_names
from ticdc_bridge.schemas.model.ports import SchemaId, apicurio_id
from ticdc_bridge.schemas.model.reasons import reason_of

AVRO = "AVRO"
KIND_NAMES = {"JSON": "a JSON Schema", "PROTOBUF": "a Protobuf schema"}


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """One version of a subject. references: to other versions, where `schema` does not define all that it uses.

    kind: the registry's schemaType. guid: what Confluent's registry calls it beside its id, where that is known.
    """

    subject: str
    version: int
    id: SchemaId
    schema: str
    kind: str = AVRO
    references: tuple[Reference, ...] = ()
    guid: str = ""


Name = tuple[str, str]
"""A record's name: the last part of its namespace, and its name. TiCDC: the sanitised db and table."""


def name_of(schema: str) -> Name | None:
    """The name of a schema's record in lower case, as TiDB compares names; None for what is no record."""
    record = record_of(schema)
    if not isinstance(record.get("name"), str):
        return None
    namespace, name = record_names(record)
    return namespace.rpartition(".")[2].lower(), name.lower()


def registered_schemas(text: str) -> list[RegisteredSchema]:
    """The versions in a file's text: JSON lines, or a golden's meta.json. ValueError."""
    meta = meta_of(text, "registered_schemas", "steps")
    try:
        rows = (meta.get("registered_schemas") or []) if meta else [json.loads(line) for _, line in number_lines(text)]
        return [_read_version(r) for r in rows]
    except (LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(reason_of(error)) from error


def _read_version(row: dict[str, Any]) -> RegisteredSchema:
    kind, guid, references = row.get("schemaType") or "AVRO", row.get("guid") or "", row.get("references")
    version = RegisteredSchema(
        row["subject"], row["version"], row["id"], row["schema"], kind, read_references(references), guid
    )
    if not all(isinstance(text, str) for text in (version.subject, version.schema, kind, guid)):
        raise ValueError("subject, schema, schemaType and guid must be texts")
    if type(version.version) is not int or version.version < 1:
        raise ValueError("version must be a whole number from 1 on")
    if type(version.id) not in (int, str) or (isinstance(version.id, int) and version.id < 1):
        raise ValueError("id must be a whole number from 1 on, or a UUID")
    return version


def not_avro_error(schema_id: SchemaId, where: str, kind: str) -> WireError:
    details = f"schema id {schema_id} is {KIND_NAMES.get(kind, kind)}, not Avro"
    return WireError("UNSUPPORTED_SCHEMA", where=where, details=details)


class FileSchemas:
    """The schemas of one file (`--schemas FILE`). Nothing can be registered: a schema that is not in it has no id."""

    def __init__(self, entries: list[RegisteredSchema], name: str = "the schemas given") -> None:
        self.name = name
        self._entries = entries
        self._archived: dict[SchemaId, str] = {}
        self._by_id: dict[SchemaId, list[RegisteredSchema]] = {}
        for entry in entries:
            for schema_id in {_in_lower_case(entry.id), entry.guid.lower()} - {""}:
                self._by_id.setdefault(schema_id, []).append(entry)
        self._texts: dict[RegisteredSchema, str] = {}
        self._ids = {(e.subject, _normal_form(e.schema)): e.id for e in entries}
        self._any = {_normal_form(e.schema): e.id for e in entries}

    @classmethod
    def read(cls, path: Path) -> FileSchemas:
        """SetupError USAGE when the file has another form."""
        try:
            return cls(registered_schemas(definition_text(path)), path.name)
        except OSError as error:
            raise SetupError("USAGE", details=f"{Hint.SCHEMAS} {path}: {error.strerror or error}") from error
        except (ValueError, KeyError, TypeError) as error:
            needed = 'lines {"subject","version","id","schema"} or a golden meta.json are needed'
            raise SetupError("USAGE", details=f"{Hint.SCHEMAS} {path}: {needed} ({reason_of(error)})") from error

    def add_known(self, entries: Iterable[RegisteredSchema]) -> None:
        """Schemas that are found by their id alone."""
        self._archived.update({entry.id: entry.schema for entry in entries})

    def by_id(self, schema_id: SchemaId, where: str, subject: str | None = None) -> str:
        """As `SchemaSource.by_id`. An id that stands for several schemas is that of `subject`, in whatever context."""
        if schema_id in self._archived:
            return self._archived[schema_id]
        of_apicurio = apicurio_id(schema_id)
        entries = self._by_id.get(_in_lower_case(schema_id) if of_apicurio is None else of_apicurio.number)
        if not entries:
            raise WireError("UNKNOWN_SCHEMA_ID", where=where, id=schema_id, source=self.name)
        entry = self._choose(entries, where, subject) if len(entries) > 1 else entries[0]
        if entry.kind != AVRO:
            raise not_avro_error(schema_id, where, entry.kind)
        try:
            return self._text(entry)
        except ValueError as error:
            raise WireError("UNSUPPORTED_SCHEMA", where=where, details=f"schema id {schema_id}: {error}") from error

    def _choose(self, entries: list[RegisteredSchema], where: str, subject: str | None) -> RegisteredSchema:
        """WireError UNSUPPORTED_SCHEMA where contexts use one id for several schemas, and none is the subject's."""
        names = {subject, subject and subject.replace(".", "_")}  # as it is, and as TiCDC's Avro has it
        exact = [e for e in entries if e.subject in names]
        for some in (exact, [e for e in entries if without_context(e.subject) in names], entries):
            if len({(e.kind, _normal_form(e.schema), e.references) for e in some}) == 1:
                return some[0]
        subjects = " and of ".join(dict.fromkeys(e.subject for e in entries))
        which = f"and {subject} is neither" if subject else "and the message has no topic that says which"
        details = f"schema id {entries[0].id} is that of {subjects} in {self.name}, {which}"
        raise WireError("UNSUPPORTED_SCHEMA", where=where, details=details)

    def _text(self, entry: RegisteredSchema) -> str:
        """The entry's schema with the types it refers to. ValueError."""
        if not entry.references:
            return entry.schema
        if entry not in self._texts:
            self._texts[entry] = resolve(
                ReferringSchema(entry.schema, entry.references), lambda item: self._referred(entry, item)
            )
        return self._texts[entry]

    def _referred(self, entry: RegisteredSchema, reference: Reference) -> ReferringSchema:
        """The version referred to, in the entry's own context if the reference names none. Version -1 is the newest."""
        context = entry.subject[: len(entry.subject) - len(without_context(entry.subject))]
        for subject in (context + reference.subject, reference.subject):
            versions = {e.version: e for e in self._entries if e.subject == subject}
            found = versions.get(max(versions, default=0) if reference.version == -1 else reference.version)
            if found is not None:
                return ReferringSchema(found.schema, found.references)
        raise ValueError(f"it refers to {reference.name} of subject {reference}, which {self.name} does not have")

    def newest(self, subject: str) -> str | None:
        entries = [e for e in self._entries if e.subject == subject and e.kind == AVRO]
        return self._shown(max(entries, key=lambda e: e.version)).schema if entries else None

    def id_of(self, subject: str, schema: str) -> SchemaId:
        same = _normal_form(schema)
        schema_id = self._ids.get((subject, same), self._any.get(same))
        if schema_id is None:
            details = f"{self.name} has no such schema for {subject}: {schema[:200]}"
            raise WireError("UNSUPPORTED_SCHEMA", where="schema", details=details)
        return schema_id

    def versions_of_id(self, schema_id: SchemaId, subject: str | None = None) -> list[tuple[str, int]]:
        """The subjects and versions of an id. subject: as `HttpSchemas.versions_of_id`, of no account here."""
        return [(e.subject, e.version) for e in self._by_id.get(_in_lower_case(schema_id), ())]

    def all(self, record_name: Name | None = None) -> Iterator[RegisteredSchema]:
        """Every version of every Avro subject. record_name: as `HttpSchemas.all`."""
        yield from (self._shown(e) for e in self._entries if e.kind == AVRO)

    def _shown(self, entry: RegisteredSchema) -> RegisteredSchema:
        """The entry with the types it refers to; as it is where they can't be had: its compilation says what lacks."""
        if not entry.references:
            return entry
        try:
            return replace(entry, schema=self._text(entry), references=())
        except ValueError:
            return entry


def _in_lower_case(schema_id: SchemaId) -> SchemaId:
    """A UUID as Python writes it."""
    return schema_id if isinstance(schema_id, int) else schema_id.lower()


def _normal_form(schema: str) -> str:
    """Schemas are the same when their JSON is, spaces and the order of keys aside."""
    try:
        return json.dumps(json.loads(schema), sort_keys=True)
    except (ValueError, RecursionError):
        return schema
