"""Tables from what people have at hand: a registered Avro schema, or a message that describes one."""

from __future__ import annotations

from dataclasses import replace

from schemas.errors import DdlError, WireError
from schemas.table import Column, Index, Table, TableId
from schemas.types import Kind
from schemas.wire.avro_record import Record, compile_record

# What an Avro type of TiCDC's can be besides the column's own type; Avro writes all of them alike.
AVRO_FOLDS: dict[str, str] = {
    "int": "TINYINT, SMALLINT, MEDIUMINT or INT",
    "mediumint": "TINYINT, SMALLINT or MEDIUMINT, UNSIGNED",
    "text": "a character type of any length",
    "blob": "a binary type of any length",
}
_FRACTIONS = (Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME)


def of_schemas(value: str, key: str | None, db: str, table: str, subject: str) -> tuple[Table, str]:
    """(table, what is not known of it) from the schemas that TiCDC registered. DdlError for a schema not of TiCDC's.

    db, table: "" takes the names in the schema, in which every character that Avro does not take is a `_`.
    """
    record, keys = _record(value, subject), _record(key, subject) if key else None
    primary = tuple(c.name for c in keys.columns) if keys else ()
    id_ = TableId(db or record.id.db, table or record.id.table)
    columns = tuple(_column(c, primary) for c in record.columns)
    indexes = (Index("PRIMARY", primary, unique=True),) if primary else ()
    reason = f"its schema in subject {subject} tells neither lengths, nor character sets, nor keys but the primary one"
    return Table(id_, columns, indexes), reason


def _record(text: str, subject: str) -> Record:
    try:
        return compile_record(text, f"subject {subject}")
    except WireError as error:
        raise DdlError("DDL_NOT_APPLICABLE", details=f"no schema of TiCDC's: {error.detail}") from error


def _column(column: Column, primary: tuple[str, ...]) -> Column:
    vague = AVRO_FOLDS.get(column.type.name, "")
    if column.type.kind in _FRACTIONS:
        vague = f"{column.type.name} with 0 to 6 fraction digits"
    is_key = column.name in primary
    return replace(column, vague=vague, primary_key=is_key, handle_key=is_key, nullable=column.nullable and not is_key)


def as_avro_sees(table: Table) -> Table:
    """The table where only Avro's types matter: what Avro writes alike is no longer vague."""
    return replace(table, columns=tuple(_told(c) for c in table.columns))


def _told(column: Column) -> Column:
    folded = column.vague in AVRO_FOLDS.values() or (column.vague and column.type.kind in _FRACTIONS)
    return replace(column, vague="") if folded and "default" not in column.vague else column
