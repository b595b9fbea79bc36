"""Which registered schemas are those of a table's versions, and which are of none: from the schemas' identities.

Where the newest schema of a subject is of no version of its table, the registry and the history drift apart.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from schemas.model.names import sanitise_name
from schemas.model.table import TableId
from service.history.ports import HistoryReader
from service.history.table_schemas import AvroModes, TableSchemaCache, TableSchemas, rarer_schemas
from service.registry_view import RegistryView

Json = dict[str, Any]
_PAGE = 5000
_MOST = 1000


def registry_drift(
    history: HistoryReader, changefeed: str, view: RegistryView, derivations: TableSchemaCache
) -> list[Json]:
    """Subjects whose newest version no known version of the table gives, at most 1,000.

    TiCDC registers at the first row after a DDL, so the schema of an older version is no drift; a subject of a table
    that the history does not know is none either.
    """
    names: dict[tuple[str, str], list[TableId]] | None = None
    drifts: list[Json] = []
    for one in view.ticdc_subjects():
        schema = json.loads(one.content.text)
        if not isinstance(schema, dict) or not isinstance(schema.get("namespace"), str):
            continue
        if names is None:
            names = _names(history, changefeed)
        keyspace, _, db = schema["namespace"].rpartition(".")
        tables = names.get((db.lower(), str(schema.get("name")).lower()), [])
        judge = _Judge(history, changefeed, keyspace, derivations, view)
        if tables and not any(judge.gives(id_, one.content.text) for id_ in tables):
            detail = "the newest schema is that of no known version of the table"
            head = {"subject": one.subject, "version": one.version, "id": one.id}
            drifts.append({"kind": "registry", "db": tables[0].db, "table": tables[0].table, **head, "detail": detail})
            if len(drifts) == _MOST:
                break
    return drifts


def _names(history: HistoryReader, changefeed: str) -> dict[tuple[str, str], list[TableId]]:
    """Tables by their names as Avro writes them."""
    tables: dict[tuple[str, str], list[TableId]] = {}
    offset = 0
    while rows := history.tables(changefeed, None, offset, _PAGE):
        for row in rows:
            key = (sanitise_name(row.id.db).lower(), sanitise_name(row.id.table).lower())
            tables.setdefault(key, []).append(row.id)
        offset += _PAGE
    return tables


@dataclass(frozen=True, slots=True)
class _Judge:
    history: HistoryReader
    changefeed: str
    keyspace: str
    derivations: TableSchemaCache
    view: RegistryView

    def gives(self, id_: TableId, schema: str) -> bool:
        """Whether a version gives this schema, newest first; one whose schema can't be told may."""
        for row in reversed(self.history.versions(self.changefeed, *id_)):
            if row.table is None:
                if row.is_live:
                    return True
                continue
            derived = self.derivations.of(row.table, row.form, self.keyspace).schemas
            if any(one.text is None and one.part == "value" for one in derived):
                return True
            texts = (one.text for one in derived if one.text is not None)
            if any(self.view.canonical(text) == schema for text in (*texts, *rarer_schemas(row.table, self.keyspace))):
                return True
        return False


def links(derived: TableSchemas, view: RegistryView) -> list[Json]:
    """The subject versions with one of the table's schemas, each with the modes in which TiCDC writes it so."""
    modes: dict[tuple[str, str], list[AvroModes]] = {}
    for one in derived.schemas:
        if one.text is not None:
            modes.setdefault((one.text, one.part), []).append(one.mode)
    holders = view.holding(text for text, _ in modes)
    result = []
    for (text, part), of in modes.items():
        for holder in holders.get(text, ()):
            head = {"subject": holder.subject, "version": holder.version, "id": holder.id, "part": part}
            result.append({**head, "modes": [mode.to_json() for mode in of]})
    return sorted(result, key=lambda link: (link["subject"], link["version"]))
