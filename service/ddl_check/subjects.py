"""The schemas that a changefeed would write for a table: its protocol and modes, and what TiCDC could not write.

Without settings the newest registered versions tell the mode; where nothing is registered, every mode is shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from ticdc_bridge.schemas.codec.avro_references import record_of
from ticdc_bridge.schemas.ddl.executor.versions import in_utc
from ticdc_bridge.schemas.formats.avro import schema
from ticdc_bridge.schemas.formats.debezium import avro_schema, json_schema
from ticdc_bridge.schemas.inputs.schema_files import RegisteredSchema
from ticdc_bridge.schemas.model.errors import BridgeError
from ticdc_bridge.schemas.model.names import sanitise_name
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Table, TableId
from ticdc_bridge.service.changefeed.settings import WITH_REGISTRY, ChangefeedSettings, subject_names, topic_name
from ticdc_bridge.service.ddl_check.table_changes import TableChange
from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.history.table_schemas import different_modes
from ticdc_bridge.service.registry.model import Content, NewSchema, Reference, StoredVersion
from ticdc_bridge.service.registry.names import check_subject, context_of
from ticdc_bridge.service.registry.references import identity, invalid_schema_error, referenced_texts
from ticdc_bridge.service.registry.view import Rehearsal
from ticdc_bridge.service.schema_types import base
from ticdc_bridge.service.schema_types.base import HasLogicalTypes, Level
from ticdc_bridge.service.schema_types.parse import KINDS, ParsedSchema

_CANDIDATES: Final = 200


class RegisteredSchemas(Protocol):
    """What a dry run asks of a registry: `service.registry.view.RegistryView`, or a list."""

    @property
    def url(self) -> str: ...
    def rehearse(self, subject: str, schema: str, pending: Sequence[Content] = ()) -> Rehearsal:
        """What registering `schema` after `pending` would get; nothing is written."""

    def newest(self, subject: str) -> StoredVersion | None: ...
    def ticdc_subjects(self, table: str = "") -> list[StoredVersion]:
        """The newest version of each value subject that may hold rows of a table of this name, as Avro writes it."""


@dataclass(frozen=True, slots=True)
class ListedSchemas:
    """The versions of each subject, oldest first; level: the compatibility level of all subjects."""

    level: Level
    versions: dict[str, list[StoredVersion]] = field(default_factory=dict)
    url: str = ""

    @classmethod
    def of_entries(cls, entries: Iterable[RegisteredSchema], level: Level) -> ListedSchemas:
        """The schemas that the lines of a file list. RegistryError for what no registry could have."""
        listed = cls(level)
        for entry in sorted(entries, key=lambda item: (item.subject, item.version)):
            check_subject(entry.subject)
            references = tuple(Reference(r.name, r.subject, r.version) for r in entry.references)
            id_ = entry.id if isinstance(entry.id, int) else 0  # a UUID of Glue's
            known = listed.version(entry.subject, entry.version)
            stored = Content(b"", entry.schema, entry.kind, references)
            if entry.kind not in KINDS or entry.version <= 0 or id_ < 0:
                details = f"version {entry.version}, id {entry.id}, type {entry.kind} of {entry.subject}"
                raise RegistryError("INVALID_SCHEMA", details=details)
            if known is not None and known.content != stored:
                raise RegistryError("VERSION_TAKEN", subject=entry.subject, version=entry.version)
            if known is None:
                version = StoredVersion(entry.subject, entry.version, id_, stored, 0)
                listed.versions.setdefault(entry.subject, []).append(version)
        for versions in listed.versions.values():
            versions[:] = [
                replace(v, content=listed._understand(v.subject, v.content, strict=False)[1]) for v in versions
            ]
        return listed

    def version(self, subject: str, version: int) -> StoredVersion | None:
        return next((entry for entry in self.versions.get(subject, ()) if entry.version == version), None)

    def newest(self, subject: str) -> StoredVersion | None:
        return next(reversed(self.versions.get(subject, ())), None)

    def ticdc_subjects(self, table: str = "") -> list[StoredVersion]:
        found = []
        for subject, versions in sorted(self.versions.items()):
            named = table.lower() in subject.lower() and f'"name":"{table}'.lower() in versions[-1].content.text.lower()
            if named and subject.endswith("-value"):
                found.append(versions[-1])
        return found[:_CANDIDATES]

    def rehearse(self, subject: str, schema: str, pending: Sequence[Content] = ()) -> Rehearsal:
        versions = self.versions.get(subject, [])
        rehearsal = Rehearsal(self.level.name, self.newest(subject))
        try:
            check_subject(subject)
            parsed, content = self._understand(subject, Content(b"", schema))
        except RegistryError as error:
            return replace(rehearsal, refusal=error.code, messages=(error.detail,))
        same = next((entry for entry in versions if entry.content.identity == content.identity), None)
        if same is not None:
            return replace(rehearsal, same=same)
        rehearsal = replace(rehearsal, content=content)
        if any(entry.identity == content.identity for entry in pending):
            return rehearsal
        first = versions[-1].version if versions else 0
        olds = [*versions, *(StoredVersion(subject, first + n, 0, entry, 0) for n, entry in enumerate(pending, 1))]
        earlier = [
            base.EarlierVersion(entry.version, self._understand(subject, entry.content, strict=False)[0])
            for entry in (olds if self.level.transitive else olds[-1:])
        ]
        if problems := base.check(parsed, earlier, self.level):
            return replace(rehearsal, refusal="INCOMPATIBLE_SCHEMA", messages=tuple(problems))
        changes = parsed.logical_changes(earlier[-1].schema) if earlier and isinstance(parsed, HasLogicalTypes) else ()
        return replace(rehearsal, warnings=tuple(change.message() for change in changes))

    def _understand(self, subject: str, content: Content, *, strict: bool = True) -> tuple[ParsedSchema, Content]:
        """A schema, and its content as a registry keeps it. RegistryError INVALID_SCHEMA."""
        try:
            texts = referenced_texts(self.version, context_of(subject), content.references)
            parsed = KINDS[content.kind](content.text, texts, strict)
        except ValueError as error:
            new = NewSchema(content.text, content.kind, content.references)
            raise invalid_schema_error(subject, new, error) from None
        return parsed, replace(content, text=parsed.text, identity=identity(parsed.text, content.references))


_SHOWN_OPTIONS = (
    "avro_decimal_handling_mode", "avro_bigint_unsigned_handling_mode", "enable_tidb_extension",
    "avro_include_before_value", "enable_row_checksum",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SubjectTarget:
    """Where rows go and how they are written. subjects: of key and value, or None. why: how the mode is known."""

    protocol: str
    options: Options
    topic: str
    subjects: tuple[str, str] | None
    why: str

    def mode(self) -> dict[str, Any]:
        names = _SHOWN_OPTIONS if self.protocol in WITH_REGISTRY else ("enable_tidb_extension",)
        settings: dict[str, Any] = {n.replace("_", "-"): getattr(self.options, n) for n in names}
        if self.protocol == "debezium":
            settings["debezium-disable-schema"] = self.options.debezium_disable_schema
        return settings


@dataclass(frozen=True, slots=True)
class TargetSchema:
    """Schema texts; None: the protocol has none, or the table gives none. error: why TiCDC can't write the table.

    unsure: why the schema is not known here; unzoned: defaults of TIMESTAMP columns are taken as UTC.
    """

    key: str | None = None
    value: str | None = None
    error: str = ""
    unsure: str = ""
    unzoned: bool = False


def publish(table: Table, target: SubjectTarget, zone: str | None) -> TargetSchema:
    """The schemas of a table's rows. zone: of literal TIMESTAMP defaults; None: not known."""
    unzoned = any(c.default_unzoned for c in table.columns)
    try:
        table = in_utc(table, zone or "UTC") if unzoned else table
        key, value = _texts(table, target)
    except BridgeError as error:
        if error.code == "TYPE_UNKNOWN":
            return TargetSchema(unsure=error.detail)
        return TargetSchema(error=error.detail)
    return TargetSchema(key, value, unzoned=unzoned and zone is None)


def _texts(table: Table, target: SubjectTarget) -> tuple[str | None, str | None]:
    options = target.options
    match target.protocol:
        case "avro":
            return schema.key_schema(table, options), schema.value_schema(table, options)
        case "debezium-avro":
            schemas = avro_schema.row_schemas(table, options, options.cluster_id)
            return schemas.key, schemas.value
        case "debezium" if not options.debezium_disable_schema:
            value = json_schema.value_schema(table, options, options.cluster_id, None)
            return json_schema.key_schema(table, options, options.cluster_id), value
    return None, None


def targets(
    changefeed: ChangefeedSettings, before: Table | None, after: Table, view: RegisteredSchemas
) -> list[SubjectTarget]:
    """Where the table's rows go after the statement; [] where neither settings nor registered versions tell."""
    if changefeed.protocol:
        pair, topic = changefeed.subjects_of(after.id), changefeed.topic_of(after.id)
        return [SubjectTarget(changefeed.protocol, changefeed.options(), topic, pair, "the changefeed's settings")]
    result = [_detect_target(r, changefeed) for r in _of_table(after.id, view)]
    if not result and before is not None and before.id != after.id:
        # A renamed table: topics that are named after the table get another name with it.
        result = [
            _rename_target(_detect_target(r, changefeed), before.id, after.id) for r in _of_table(before.id, view)
        ]
    return result


def subjects_elsewhere(table: TableId, target: SubjectTarget, view: RegisteredSchemas) -> list[str]:
    """Value subjects that hold the table's rows, though the target's own has nothing registered."""
    if target.subjects is None or view.newest(target.subjects[1]) is not None:
        return []
    return [r.subject for r in _of_table(table, view)]


def usual_target(table: TableId, changefeed: ChangefeedSettings) -> SubjectTarget:
    """TiCDC's Avro with its default settings, and the topic that the documentation has as its example."""
    topic = topic_name("tidb_{schema}_{table}", table.db, table.table)
    why = "TiCDC's defaults: no changefeed settings are given"
    return SubjectTarget("avro", changefeed.options(), topic, subject_names("avro", topic), why)


def every_mode(table: Table, keyspace: str) -> Iterator[SubjectTarget]:
    """All ways in which TiCDC's Avro can be set that make a difference for the table, where nothing tells which."""
    for mode in different_modes(table):
        yield SubjectTarget("avro", mode.options(keyspace), "", None, "a mode that TiCDC's Avro can be in")


def _of_table(table: TableId, view: RegisteredSchemas) -> list[StoredVersion]:
    """Newest versions of the value subjects that hold this table's rows."""
    (db, name), found = table.sanitised, list[StoredVersion]()
    for version in view.ticdc_subjects(name):
        # `<keyspace>.<db>` and `<table>`, or Debezium's `<cluster>.<db>` with Envelope.
        record = record_of(version.content.text)
        is_of_db = str(record.get("namespace", "")).rpartition(".")[2] == db
        if is_of_db and str(record.get("name", "")) in (name, name + "Envelope"):
            found.append(version)
    return found


def _detect_target(newest: StoredVersion, changefeed: ChangefeedSettings) -> SubjectTarget:
    """Protocol and mode in which a registered version was written."""
    record = record_of(newest.content.text)
    text, topic = newest.content.text, newest.subject.removesuffix("-value")
    protocol = "debezium-avro" if str(record.get("name", "")).endswith("Envelope") else "avro"
    first = str(record.get("namespace", "")).partition(".")[0]
    first_name = {"cluster_id": first} if protocol == "debezium-avro" else {"keyspace": first or "default"}
    options = replace(
        changefeed.options(),
        enable_tidb_extension='"_tidb_commit_ts"' in text or ('"tidb_type":"' in text and protocol == "debezium-avro"),
        avro_include_before_value=f'"{schema.BEFORE}"' in text,
        enable_row_checksum='"_tidb_row_level_checksum"' in text,
        **(_modes(record) | first_name),
    )
    source = f"read from version {newest.version} of {newest.subject}"
    return SubjectTarget(protocol, options, topic, (topic + "-key", newest.subject), source)


def _modes(record: dict[str, Any]) -> dict[str, Any]:
    """Handling modes that a schema shows: by the Avro type of its DECIMAL and BIGINT UNSIGNED columns."""
    modes: dict[str, Any] = {}
    waiting: list[Any] = [record]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += node
        elif isinstance(node, dict):
            waiting += node.values()
            parameters = node.get("connect.parameters")
            kind = parameters.get("tidb_type") if isinstance(parameters, dict) else None
            if kind == "DECIMAL":
                modes["avro_decimal_handling_mode"] = "string" if node.get("type") == "string" else "precise"
            elif kind == "BIGINT UNSIGNED":
                modes["avro_bigint_unsigned_handling_mode"] = "string" if node.get("type") == "string" else "long"
    return modes


def _rename_target(target: SubjectTarget, old: TableId, new: TableId) -> SubjectTarget:
    """The same way of writing under the topic that the new name gives, where the old name is part of the topic."""
    topic = target.topic
    if sanitise_name(old.table) not in topic:
        return target
    head, _, tail = topic.rpartition(sanitise_name(old.table))
    if old.db != new.db and sanitise_name(old.db) in head:
        before, _, between = head.rpartition(sanitise_name(old.db))
        head = before + sanitise_name(new.db) + between
    topic = head + sanitise_name(new.table) + tail
    why = f"{target.why}; its topic seems to be named after the table"
    return replace(target, topic=topic, subjects=subject_names(target.protocol, topic), why=why)


# ---- would the registry take them
@dataclass(frozen=True, slots=True)
class SubjectVerdict:
    """What registering one schema under one subject would give. part: key or value."""

    table: str
    subject: str
    part: str
    schema: str
    rehearsal: Rehearsal
    reason: str

    @property
    def compatible(self) -> bool:
        return not self.rehearsal.refusal

    def form(self) -> dict[str, Any]:
        entry = self.rehearsal
        against = None
        if entry.newest is not None:
            assumed = not entry.newest.version
            against = {"version": entry.newest.version or None, "id": entry.newest.id or None, "assumed": assumed}
        return {
            "subject": self.subject, "table": self.table, "part": self.part, "level": entry.level, "against": against,
            "already_registered": entry.same.version if entry.same else None, "compatible": self.compatible,
            "code": entry.refusal or None, "messages": list(entry.messages), "warnings": list(entry.warnings),
            "reason": self.reason,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class RegistryState:
    """What is in a registry, or will be. pending: by subject, schemas that earlier statements may bring in before this
    one. assumed: by subject, taken as registered where nothing is.
    """

    view: RegisteredSchemas
    pending: Mapping[str, Sequence[Content]]
    assumed: Mapping[str, str]

    def rehearse(self, subject: str, schema: str) -> tuple[Rehearsal, bool]:
        """What a registration would get, and whether it is refused only after what is pending."""
        assumed_schema = self.assumed.get(subject)
        now = self.view.rehearse(subject, schema)
        base: list[Content] = []
        if assumed_schema is not None and now.newest is None:
            assumed = self.view.rehearse(subject, assumed_schema).content
            base = [assumed] if assumed else []
            version = StoredVersion(subject, 0, 0, Content(b"", assumed_schema), 0)
            now = replace(self.view.rehearse(subject, schema, base), newest=version)
            now = replace(now, same=version if schema == assumed_schema else None)
        waiting = [entry for entry in self.pending.get(subject, ()) if entry.text != schema]
        if now.refusal or not waiting:
            return now, False
        later = self.view.rehearse(subject, schema, [*base, *waiting])
        return (replace(later, newest=now.newest), True) if later.refusal else (now, False)


def judge(
    change: TableChange, target: SubjectTarget, before: TargetSchema | None, after: TargetSchema, state: RegistryState
) -> list[SubjectVerdict]:
    """Verdicts of key and value subject. before: the table's schemas before the statement, None where its rows went to
    other subjects.
    """
    if target.subjects is None:
        return []
    verdicts = []
    for part, subject, text in zip(("key", "value"), target.subjects, (after.key, after.value), strict=True):
        if text is None:
            continue
        now, between = state.rehearse(subject, text)
        reason = _reason(change, now, text, part)
        old = getattr(before, part) if before else None
        if now.refusal and old is not None and state.rehearse(subject, old)[0].refusal:
            reason = f"The registry refuses this table's schema even before the statement. {reason}"
        elif between:
            reason = f"If a row of the table comes between the earlier statement and this one: {reason}"
        verdicts.append(SubjectVerdict(str(change.id), subject, part, text, now, reason))
    return verdicts


def _reason(change: TableChange, entry: Rehearsal, schema: str, part: str) -> str:
    if entry.refusal:
        return explain_refusal(change, entry, schema, part)
    if entry.newest is None:
        return "Nothing is registered under the subject, so there is nothing to break."
    before = "the schema of the table before the statement"
    if entry.same is not None and not entry.same.version:
        return f"The schema is {before}: nothing new is registered."
    if entry.same is not None:
        if entry.same.version == entry.newest.version:
            return f"The schema is the newest registered one (version {entry.same.version}): nothing new is registered."
        return (
            f"The schema is registered already, as version {entry.same.version}: the registry gives that version again."
        )
    if entry.level == "NONE":
        return f"The level is NONE: the registry takes any schema, as version {entry.newest.version + 1} or later."
    if not entry.newest.version:
        return f"Compatible under {entry.level} with {before}."
    return f"Compatible under {entry.level} with version {entry.newest.version}, the newest registered one."


_CAUSE = re.compile(r"errorType:'(?P<type>[A-Z_]+)', description:'(?P<words>.*?)', additionalInfo:'(?P<info>[^']*)'")
_PATH = re.compile(r"path:? '(?P<path>/[^']*)'")
_FIELD = re.compile(r"^/fields/(\d+)(?:/|$)")
_KINDS = re.compile(r"reader type: (\w+) not compatible with writer type: (\w+)")

_OTHER = {
    "READ_ONLY": "The subject is READONLY: the registry refuses every new schema.",
    "NOT_IN_READ_WRITE_MODE": "The subject is in IMPORT or FORWARD mode: the registry takes schemas with a given id "
    "only.",
    "INVALID_SCHEMA": "The registry can't read the schema that TiCDC would register.",
    "INVALID_SUBJECT": "The registry does not take the subject's name.",
}


def explain_refusal(change: TableChange, entry: Rehearsal, schema: str, part: str) -> str:
    """Why the registry says no, in plain words."""
    if entry.refusal in _OTHER:
        return f"{_OTHER[entry.refusal]} {'; '.join(entry.messages)}".strip()
    newest = entry.newest.content.text if entry.newest else "{}"
    texts = [_message(change, m, entry.level, schema, newest) for m in entry.messages if "errorType" in m]
    words = list(dict.fromkeys(s for s in texts if s))
    if not words:
        words = [m for m in entry.messages if not m.startswith("{oldSchema")] or ["the registry refuses it"]
    version = f"the {part} schema of the table before the statement"
    if entry.newest and entry.newest.version:
        version = f"version {entry.newest.version} of the {part} schema"
    summary = "; ".join(words[:8]) + (f"; and {len(words) - 8} more" if len(words) > 8 else "")
    return f"Not {entry.level} compatible with {version}: {summary}."


def _message(change: TableChange, message: str, level: str, schema: str, newest: str) -> str:
    match = _CAUSE.search(message)
    if match is None:
        return ""
    words, info = match["words"], match["info"]
    forward = " in the old schema " in words or "The old schema" in words
    path = _PATH.search(words)
    field = _column(path["path"] if path else "", newest if forward else schema)
    match match["type"]:
        case "READER_FIELD_MISSING_DEFAULT_VALUE":
            if not forward:
                return _explain_missing(change, info, level)
            return (
                f"field `{info}` of the old schema is gone and had no default; under {level} a consumer that still "
                "reads with the old schema could not read the new rows"
            )
        case "NAME_MISMATCH":
            return _name(change, info, schema, newest)
        case "TYPE_MISMATCH" | "MISSING_UNION_BRANCH":
            kinds = _KINDS.search(info)
            who = "consumers with the old schema" if forward else "a reader with the new schema"
            pair = next(((b, a) for b, a in change.pairs if a.name == field), None)
            if pair is not None and pair[0].nullable and not pair[1].nullable and "NULL" in info.upper():
                return f"column `{field}` no longer allows NULL: {who} could not read the rows that hold NULL"
            if pair is not None and not pair[0].nullable and pair[1].nullable and "NULL" in info.upper():
                return f"column `{field}` allows NULL now: {who} could not read a NULL"
            if kinds:
                return f"column `{field}`: {who} expects {kinds[1].lower()} and would find {kinds[2].lower()}"
            return f"column `{field}`: {who} could not read it ({info})"
    return words


def _column(path: str, schema: str) -> str:
    """The field that a path into a record leads to."""
    match = _FIELD.match(path)
    try:
        fields = json.loads(schema)["fields"]
        return str(fields[int(match[1])]["name"]) if match else ""
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""


def _explain_missing(change: TableChange, name: str, level: str) -> str:
    column = next((c for c in (change.after.columns if change.after else ()) if c.name == name), None)
    if column is None:
        return f"field {name} has no default, and the rows written so far do not have it"
    before = (
        f"a reader with the new schema could not read the rows that are in the topic already: they have no `{name}`"
    )
    if column.has_default_value:
        return (
            f"column `{name}` is NOT NULL with a default, but TiCDC writes no Avro default for a DECIMAL in mode "
            f"`precise`; {before}"
        )
    return f"column `{name}` is NOT NULL and has no default; under {level} {before}"


def _name(change: TableChange, info: str, schema: str, newest: str) -> str:
    try:
        old, new = (json.loads(text) for text in (newest, schema))
        names = [f"{r['namespace']}.{r['name']}" for r in (old, new)]
    except (ValueError, LookupError, TypeError, RecursionError):
        return f"the record's name changes ({info})"
    if change.is_renamed:
        return f"the table's new name is the record's new name: {names[0]} becomes {names[1]}, in the same subject"
    return (
        f"the subject holds {names[0]} and the table is {names[1]}: two tables share one topic, and so one subject; "
        "give each table a topic of its own ({schema}_{table} in a dispatcher)"
    )
