"""What TiCDC and Spark make of a table: every schema that follows from a version, or why one does not.

Which registered schemas are of a version, `links` and `registry_drift` say. Tables that Avro names alike (`a-b` and
`a_b`) are distinguished by the subject's name, where TiCDC's topic has theirs in it.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Final

from ticdc_bridge.schemas.codec.bounded_cache import LruCache
from ticdc_bridge.schemas.ddl.executor.show_create import show_create
from ticdc_bridge.schemas.formats.avro import schema
from ticdc_bridge.schemas.formats.avro.values import RecordReader, compile_record
from ticdc_bridge.schemas.formats.debezium import json_schema
from ticdc_bridge.schemas.model import spark_types
from ticdc_bridge.schemas.model.errors import DdlError, Hint, WireError, hints_as
from ticdc_bridge.schemas.model.names import sanitise_name, topic_label
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Column, Index, Table, TableId
from ticdc_bridge.schemas.model.types import FRACTIONAL, Kind
from ticdc_bridge.service.history.model import HistoryReader, TableVersionRow
from ticdc_bridge.service.history.table_json import table_form
from ticdc_bridge.service.registry.view import RegistryView

# What an Avro type of TiCDC's can be besides the column's own type; Avro writes all of them alike.
AVRO_FOLDS: dict[str, str] = {
    "int": "TINYINT, SMALLINT, MEDIUMINT or INT", "mediumint": "TINYINT, SMALLINT or MEDIUMINT, UNSIGNED",
    "text": "a character type of any length", "blob": "a binary type of any length",
}  # fmt: skip


def table_of_schemas(value: str, key: str | None, db: str, table: str, subject: str) -> tuple[Table, str]:
    """(table, what is not known of it) from the schemas that TiCDC registered. DdlError for a schema not of TiCDC's.

    db, table: "" takes the names in the schema, in which every character that Avro does not take is a `_`.
    """
    record, keys = _record(value, subject), _record(key, subject) if key else None
    primary = tuple(c.name for c in keys.columns) if keys else ()
    id_ = TableId(db or record.id.db, table or record.id.table)
    columns = tuple(_column(c, primary) for c in record.columns)
    indexes = (Index("PRIMARY", primary, unique=True),) if primary else ()
    # Whoever sees the table may not see the subject: it is not named.
    reason = "its registered schema has no lengths, character sets, or keys other than the primary key"
    return Table(id_, columns, indexes), reason


def _record(text: str, subject: str) -> RecordReader:
    try:
        return compile_record(text, f"subject {subject}")
    except WireError as error:
        raise DdlError("DDL_NOT_APPLICABLE", details=f"no schema of TiCDC's: {error.detail}") from error


def _column(column: Column, primary: tuple[str, ...]) -> Column:
    vague = AVRO_FOLDS.get(column.type.name, "")
    if column.type.kind in FRACTIONAL:
        vague = f"{column.type.name} with 0 to 6 fraction digits"
    is_key = column.name in primary
    return replace(column, vague=vague, primary_key=is_key, handle_key=is_key, nullable=column.nullable and not is_key)


def fold_for_avro(table: Table) -> Table:
    """The table where only Avro's types matter: what Avro writes alike is no longer vague."""

    def fold(column: Column) -> Column:
        folded = column.vague in AVRO_FOLDS.values() or (column.vague and column.type.kind in FRACTIONAL)
        return replace(column, vague="") if folded and "default" not in column.vague else column

    return replace(table, columns=tuple(map(fold, table.columns)))


Json = dict[str, Any]
_DECIMAL: Final = ("precise", "string")
_SPARK_TEXTS: Final = ("text", "blob", "datetime", "timestamp", "time")  # the same in Spark, whatever their lengths
_BIGINT: Final = ("long", "string")


@dataclass(frozen=True, slots=True)
class AvroModes:
    """How a changefeed writes Avro: avro-decimal-handling-mode, avro-bigint-unsigned-handling-mode, tidb-extension."""

    decimal: str
    bigint: str
    extension: bool

    def options(self, keyspace: str = "default", **more: Any) -> Options:
        return Options(
            avro_decimal_handling_mode=self.decimal,
            avro_bigint_unsigned_handling_mode=self.bigint,
            enable_tidb_extension=self.extension,
            keyspace=keyspace,
            **more,
        )

    def to_json(self) -> Json:
        return {"decimal": self.decimal, "bigint_unsigned": self.bigint, "extension": self.extension}


MODES: Final = tuple(AvroModes(*of) for of in product(_DECIMAL, _BIGINT, (False, True)))


def different_modes(table: Table) -> list[AvroModes]:
    """Those that make a difference for the table: most have neither DECIMAL nor BIGINT UNSIGNED."""
    decimal = any(c.type.kind is Kind.DECIMAL for c in table.columns)
    unsigned = any(c.is_unsigned64 for c in table.columns)
    return [m for m in MODES if (decimal or m.decimal == _DECIMAL[0]) and (unsigned or m.bigint == _BIGINT[0])]


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema that TiCDC registers: text is None where it can't be said what it is, and `problem` says why."""

    part: str
    mode: AvroModes
    text: str | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class TableSchemas:
    """Everything of one table. `body` is the JSON that `/history/…/at/…` shows of it."""

    schemas: tuple[Schema, ...]
    body: Json


def derive(table: Table, keyspace: str = "default") -> TableSchemas:
    """Nothing is raised: what can't be derived says why. keyspace: the changefeed's, the first part of namespaces."""
    schemas: list[Schema] = []
    lines: list[Json] = []
    view = fold_for_avro(table)
    cache: dict[tuple[object, ...], Schema] = {}
    for mode in MODES:
        line = mode.to_json()
        for field, columns in (("value", view.columns), ("key", tuple(c for c in view.columns if c.primary_key))):
            # Most tables have neither DECIMAL nor BIGINT UNSIGNED, and then their modes do not matter.
            alike = (
                field, mode.decimal if any(c.type.kind is Kind.DECIMAL for c in columns) else "",
                mode.bigint if any(c.is_unsigned64 for c in columns) else "", mode.extension and field == "value",
            )  # fmt: skip
            if alike not in cache:
                cache[alike] = _schema(field, mode, view, mode.options(keyspace))
            entry = replace(cache[alike], mode=mode)
            schemas.append(entry)
            line[field] = entry.text
            if entry.problem:
                line[f"{field}_problem"] = entry.problem
        lines.append(line)
    vague = next((c for c in table.columns if c.vague and c.type.name not in _SPARK_TEXTS), None)
    if vague is not None:
        spark: Json = {"ddl": None, "struct": None, "problem": f"column {vague.name} may be {vague.vague}"}
    else:
        spark = {"ddl": spark_types.ddl(table), "struct": spark_types.struct(table)}
    body = {
        "table": table_form(table), "show_create": show_create(table), "avro": lines, "debezium": _debezium(table),
        "spark": spark,
    }  # fmt: skip
    return TableSchemas(tuple(schemas), body)


def rarer_schemas(table: Table, keyspace: str) -> Iterator[str]:
    """The value schemas of avro-include-before-value, and of row checksums, where they can be derived."""
    view = fold_for_avro(table)
    for mode, before, checksum in product(MODES, (False, True), (False, True)):
        if before or checksum:
            options = mode.options(keyspace, avro_include_before_value=before, enable_row_checksum=checksum)
            text = _schema("value", mode, view, options).text
            if text is not None:
                yield text


@hints_as({Hint.DDL_TIME_ZONE: "ddl_time_zone"})
def _schema(field: str, mode: AvroModes, table: Table, options: Options) -> Schema:
    try:
        if field == "value":
            return Schema(field, mode, schema.value_schema(table, options))
        text = schema.key_schema(table, options)
        return Schema(field, mode, text, "" if text else "the table has no primary key, so TiCDC registers no key")
    except (WireError, ValueError, ArithmeticError) as error:
        return Schema(field, mode, None, error.detail if isinstance(error, WireError) else str(error))


def _debezium(table: Table) -> Json:
    """The Connect schemas that TiCDC's Debezium messages carry."""
    options = Options()
    problems = [f"column {c.name} may be {c.vague}" for c in table.columns if c.vague] or [
        f"column {c.name}: the zone of its TIMESTAMP default is not known; say it with ddl_time_zone"
        for c in table.columns
        if c.default_unzoned
    ]
    if not problems:
        try:
            key = json.loads(json_schema.key_schema(table, options, options.cluster_id))
            return {"key": key, "value": json.loads(json_schema.value_schema(table, options, options.cluster_id, None))}
        except (WireError, ValueError, ArithmeticError) as error:
            problems = [error.detail if isinstance(error, WireError) else str(error)]
    return {"key": None, "value": None, "problem": problems[0]}


class TableSchemaCache:
    def __init__(self, most: int = 400) -> None:
        self._kept: LruCache[tuple[object, ...], TableSchemas] = LruCache(most)

    def of(self, table: Table, form: bytes | None, keyspace: str = "default") -> TableSchemas:
        """form: `NameRow.form`."""
        zoned = tuple(c.default for c in table.columns if c.default_is_expr or c.type.kind is Kind.TIMESTAMP)
        key = (form, table.id, keyspace, zoned)
        schemas = self._kept.get(key)
        if schemas is None:
            schemas = derive(table, keyspace)
            self._kept.put(key, schemas)
        return schemas


_ALL = (1 << 31) - 1
_AT_ONCE = 200
_MOST = 1000


def registry_drift(
    history: HistoryReader, changefeed: str, view: RegistryView, derivations: TableSchemaCache
) -> list[Json]:
    """Subjects whose newest version no known version of the table gives, at most 1,000.

    The schema of an older version is no drift: TiCDC registers at the first row after a DDL.
    """
    subjects = [(subject, _record_names(subject.content.text)) for subject in view.ticdc_subjects()]
    names = tables_by_avro_name(history, changefeed) if subjects else {}
    judged = [(item, record, owners(item.subject, ids)) for item, record in subjects if (ids := names.get(record[1:]))]
    drifts = list[Json]()

    def gives(versions: list[TableVersionRow], keyspace: str, schema: str) -> bool:
        """True if a version gives this schema, newest first; one whose schema is not known may."""
        for row in reversed(versions):
            if row.table is None:
                if row.is_live:
                    return True
                continue
            derived = derivations.of(row.table, row.form, keyspace).schemas
            if any(entry.text is None and entry.part == "value" for entry in derived):
                return True
            texts = (entry.text for entry in derived if entry.text is not None)
            if any(view.canonical(text) == schema for text in (*texts, *rarer_schemas(row.table, keyspace))):
                return True
        return False

    for start in range(0, len(judged), _AT_ONCE):
        left = judged[start : start + _AT_ONCE]  # in the end: what no version gives
        for newest in (True, False):  # most are the newest versions': the others are read for the rest only
            every = {id_ for _, _, tables in left for id_ in tables}
            versions = history.versions_of(changefeed, every, newest=newest) if every else {}
            left = [
                (item, record, tables)
                for item, record, tables in left
                if not any(gives(versions[id_], record[0], item.content.text) for id_ in tables)
            ]
        for entry, _, tables in left:
            detail = "the newest schema is that of no known version of the table"
            if len(tables) > 1:
                detail += f", nor of {', '.join(map(str, tables[1:]))}, which Avro names alike"
            head = {"subject": entry.subject, "version": entry.version, "id": entry.id}
            drifts.append({"kind": "registry", "db": tables[0].db, "table": tables[0].table, **head, "detail": detail})
        if len(drifts) >= _MOST:
            break
    return drifts[:_MOST]


def _record_names(schema: str) -> tuple[str, str, str]:
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
    """Among tables that Avro names alike, those that the subject's name fits best: all where it tells nothing."""
    if len(tables) < 2:
        return tables
    text = subject.lower()
    fits = [sum(topic_label(name).lower() in text for name in id_) for id_ in tables]
    return [id_ for id_, fit in zip(tables, fits, strict=True) if fit == max(fits)]


def is_of(history: HistoryReader, changefeed: str, table: TableId, subject: str) -> bool:
    """True if a subject with a schema of the table is not that of another one, which Avro names alike."""
    names = ({name, *_named_alike(subject, name)} for name in table)
    others = [id_ for id_ in map(TableId._make, product(*names)) if id_.folded != table.folded]
    known = [id_ for id_ in others if history.version_at(changefeed, *id_) is not None]
    return table in owners(subject, [table, *known])


def _named_alike(subject: str, name: str) -> Iterator[str]:
    """The parts of a subject's name that Avro would name as it names this."""
    form, size = sanitise_name(name).lower(), len(name)
    pieces = (subject[start : start + size] for start in range(len(subject) - size + 1))
    return (text for text in pieces if sanitise_name(text).lower() == form)


def links(
    history: HistoryReader, changefeed: str, table: TableId, of_versions: list[TableSchemas], view: RegistryView
) -> list[list[Json]]:
    """For each version of a table the subject versions with one of its schemas, each with the modes in which TiCDC
    writes it so.
    """
    holders = view.holding({s.text for derived in of_versions for s in derived.schemas if s.text is not None})
    subjects = {row.subject for rows in holders.values() for row in rows}
    subjects = {subject for subject in subjects if is_of(history, changefeed, table, subject)}
    holders = {text: [row for row in rows if row.subject in subjects] for text, rows in holders.items()}
    result = list[list[Json]]()
    for derived in of_versions:
        modes, found = dict[tuple[str, str], list[Json]](), list[Json]()
        for entry in derived.schemas:
            if entry.text is not None:
                modes.setdefault((entry.text, entry.part), []).append(entry.mode.to_json())
        for (text, field), of in modes.items():
            for row in holders[text]:
                head = {"subject": row.subject, "version": row.version, "id": row.id, "part": field}
                found.append({**head, "modes": of})
        result.append(sorted(found, key=lambda link: (link["subject"], link["version"])))
    return result
