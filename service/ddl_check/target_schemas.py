"""The schemas that a changefeed would write for a table: its protocol and modes, and what TiCDC could not write.

Without settings the newest registered versions tell the mode; where nothing is registered, every mode is shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from ticdc_bridge.schemas.codec.avro_references import record_of
from ticdc_bridge.schemas.ddl.executor.versions import in_utc
from ticdc_bridge.schemas.formats.avro import schema
from ticdc_bridge.schemas.formats.debezium import avro_schema, json_schema
from ticdc_bridge.schemas.model.errors import BridgeError
from ticdc_bridge.schemas.model.names import sanitise_name
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Table, TableId
from ticdc_bridge.service.changefeed.setting_keys import WITH_REGISTRY
from ticdc_bridge.service.changefeed.settings import ChangefeedSettings
from ticdc_bridge.service.changefeed.topics import subject_names, topic_name
from ticdc_bridge.service.ddl_check.listed_schemas import RegisteredSchemas
from ticdc_bridge.service.history.table_schemas import different_modes
from ticdc_bridge.service.registry.model import StoredVersion

_SHOWN_OPTIONS = (
    "avro_decimal_handling_mode", "avro_bigint_unsigned_handling_mode", "enable_tidb_extension",
    "avro_include_before_value", "enable_row_checksum",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SubjectTarget:
    """Where a table's rows go and how they are written. subjects: of key and value; None: nothing is registered.

    why: how the mode is known.
    """

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
            cluster = options.cluster_id
            return json_schema.key_schema(table, options, cluster), json_schema.value_schema(
                table, options, cluster, None
            )
    return None, None


def targets(
    changefeed: ChangefeedSettings, before: Table | None, after: Table, view: RegisteredSchemas
) -> list[SubjectTarget]:
    """Where the rows of the table after the statement go. Several, where several topics have the table's rows.

    [] where neither settings nor registered versions tell: then `every_mode` has what could be.
    """
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
    return [one for one in view.ticdc_subjects(sanitise_name(table.table)) if _holds(one.content.text, table)]


def _holds(schema: str, table: TableId) -> bool:
    """Whether a schema is of this table: `<keyspace>.<db>` and `<table>`, or Debezium's `<cluster>.<db>` with
    Envelope."""
    record = record_of(schema)
    namespace, name = str(record.get("namespace", "")), str(record.get("name", ""))
    db, own = table.sanitised
    return namespace.rpartition(".")[2] == db and name in (own, own + "Envelope")


def _detect_target(newest: StoredVersion, changefeed: ChangefeedSettings) -> SubjectTarget:
    """Protocol and mode in which a registered version was written."""
    record = record_of(newest.content.text)
    own = newest.subject.removesuffix("-value")
    protocol = "debezium-avro" if str(record.get("name", "")).endswith("Envelope") else "avro"
    first = str(record.get("namespace", "")).partition(".")[0]
    text = newest.content.text
    options = replace(
        changefeed.options(),
        enable_tidb_extension='"_tidb_commit_ts"' in text or ('"tidb_type":"' in text and protocol == "debezium-avro"),
        avro_include_before_value=f'"{schema.BEFORE}"' in text,
        enable_row_checksum='"_tidb_row_level_checksum"' in text,
        **_modes(record),
    )
    if protocol == "debezium-avro":
        options = replace(options, cluster_id=first)
    else:
        options = replace(options, keyspace=first or "default")
    return SubjectTarget(
        protocol,
        options,
        own,
        (own + "-key", newest.subject),
        f"read from version {newest.version} of {newest.subject}",
    )


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
