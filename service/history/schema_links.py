"""Which registered schemas are those of a table's versions, and which are of none: from the schemas' identities.

Where the newest schema of a subject is of no version of its table, the registry and the history drift apart. Tables
that Avro names alike (`a-b` and `a_b`) are told apart by the subject's name, where TiCDC's topic has theirs in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from ticdc_bridge.schemas.model.names import sanitise_name, topic_part
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.service.history.model import TableVersionRow
from ticdc_bridge.service.history.ports import HistoryReader
from ticdc_bridge.service.history.table_schemas import AvroModes, TableSchemaCache, TableSchemas, rarer_schemas
from ticdc_bridge.service.registry.model import VersionRow
from ticdc_bridge.service.registry_view import RegistryView

Json = dict[str, Any]
_ALL = (1 << 31) - 1
_AT_ONCE = 200
_MOST = 1000


def registry_drift(
    history: HistoryReader, changefeed: str, view: RegistryView, derivations: TableSchemaCache
) -> list[Json]:
    """Subjects whose newest version no known version of the table gives, at most 1,000.

    TiCDC registers at the first row after a DDL, so the schema of an older version is no drift; a subject of a table
    that the history does not know is none either.
    """
    subjects = [(one, _record(one.content.text)) for one in view.ticdc_subjects()]
    names = tables_by_avro_name(history, changefeed) if subjects else {}
    judged = [(one, record, owners(one.subject, ids)) for one, record in subjects if (ids := names.get(record[1:]))]
    judge, drifts = _Judge(derivations, view), list[Json]()
    for start in range(0, len(judged), _AT_ONCE):
        left = judged[start : start + _AT_ONCE]  # in the end: what no version gives
        for newest in (True, False):  # most are the newest versions': the others are read for the rest only
            every = {id_ for _, _, tables in left for id_ in tables}
            versions = history.versions_of(changefeed, every, newest=newest) if every else {}
            left = [
                (one, record, tables)
                for one, record, tables in left
                if not any(judge.gives(versions[id_], record[0], one.content.text) for id_ in tables)
            ]
        for one, _, tables in left:
            detail = "the newest schema is that of no known version of the table"
            if len(tables) > 1:
                detail += f", nor of {', '.join(map(str, tables[1:]))}, which Avro names alike"
            head = {"subject": one.subject, "version": one.version, "id": one.id}
            drifts.append({"kind": "registry", "db": tables[0].db, "table": tables[0].table, **head, "detail": detail})
        if len(drifts) >= _MOST:
            break
    return drifts[:_MOST]


def _record(schema: str) -> tuple[str, str, str]:
    """(keyspace, database, table) of a schema's record, the names in lower case; "" where it is none."""
    record = json.loads(schema)
    if not isinstance(record, dict) or not isinstance(record.get("namespace"), str):
        return "", "", ""
    keyspace, _, db = record["namespace"].rpartition(".")
    return keyspace, db.lower(), str(record.get("name")).lower()


def tables_by_avro_name(history: HistoryReader, changefeed: str) -> dict[tuple[str, str], list[TableId]]:
    """A changefeed's tables by their names as Avro writes them, in small letters."""
    tables: dict[tuple[str, str], list[TableId]] = {}
    for row in history.tables(changefeed, limit=_ALL):
        tables.setdefault(row.id.sanitised.folded, []).append(row.id)
    return tables


def owners(subject: str, tables: list[TableId]) -> list[TableId]:
    """Of tables that Avro names alike, those that the subject's name fits best: all where it tells nothing."""
    if len(tables) < 2:
        return tables
    text = subject.lower()
    fits = [sum(topic_part(name).lower() in text for name in id_) for id_ in tables]
    return [id_ for id_, fit in zip(tables, fits, strict=True) if fit == max(fits)]


def is_of(history: HistoryReader, changefeed: str, table: TableId, subject: str) -> bool:
    """Whether a subject with a schema of the table is not that of another one, which Avro names alike."""
    names = ({own, *_named_alike(subject, own)} for own in table)
    others = [id_ for id_ in map(TableId._make, product(*names)) if id_.folded != table.folded]
    known = [id_ for id_ in others if history.version_at(changefeed, *id_) is not None]
    return table in owners(subject, [table, *known])


def _named_alike(subject: str, name: str) -> Iterator[str]:
    """The parts of a subject's name that Avro would name as it names this."""
    form, size = sanitise_name(name).lower(), len(name)
    parts = (subject[start : start + size] for start in range(len(subject) - size + 1))
    return (part for part in parts if sanitise_name(part).lower() == form)


@dataclass(frozen=True, slots=True)
class _Judge:
    derivations: TableSchemaCache
    view: RegistryView

    def gives(self, versions: list[TableVersionRow], keyspace: str, schema: str) -> bool:
        """Whether a version gives this schema, newest first; one whose schema can't be told may."""
        for row in reversed(versions):
            if row.table is None:
                if row.is_live:
                    return True
                continue
            derived = self.derivations.of(row.table, row.form, keyspace).schemas
            if any(one.text is None and one.part == "value" for one in derived):
                return True
            texts = (one.text for one in derived if one.text is not None)
            if any(self.view.canonical(text) == schema for text in (*texts, *rarer_schemas(row.table, keyspace))):
                return True
        return False


def links(
    history: HistoryReader, changefeed: str, table: TableId, of_versions: list[TableSchemas], view: RegistryView
) -> list[list[Json]]:
    """Of each version of a table the subject versions with one of its schemas, each with the modes in which TiCDC
    writes it so.
    """
    holders = view.holding({s.text for derived in of_versions for s in derived.schemas if s.text is not None})
    own = {
        subject: is_of(history, changefeed, table, subject)
        for subject in {row.subject for rows in holders.values() for row in rows}
    }
    holders = {text: [row for row in rows if own[row.subject]] for text, rows in holders.items()}
    return [_links(derived, holders) for derived in of_versions]


def _links(derived: TableSchemas, holders: dict[str, list[VersionRow]]) -> list[Json]:
    modes: dict[tuple[str, str], list[AvroModes]] = {}
    for one in derived.schemas:
        if one.text is not None:
            modes.setdefault((one.text, one.part), []).append(one.mode)
    result = []
    for (text, part), of in modes.items():
        for holder in holders[text]:
            head = {"subject": holder.subject, "version": holder.version, "id": holder.id, "part": part}
            result.append({**head, "modes": [mode.to_json() for mode in of]})
    return sorted(result, key=lambda link: (link["subject"], link["version"]))
