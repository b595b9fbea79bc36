"""DDL statements in order of their commit_ts → the versions of the tables they touch."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from ticdc_bridge.schemas.ddl.executor.apply import affected_tables, apply
from ticdc_bridge.schemas.ddl.executor.catalog import Catalog, new_catalog
from ticdc_bridge.schemas.ddl.parser.lexer import SHOW, WIRE, LexicalMode
from ticdc_bridge.schemas.ddl.parser.statement_parser import parse
from ticdc_bridge.schemas.ddl.parser.statements import CreateTable, DropTables
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.errors import DdlError
from ticdc_bridge.schemas.model.table import Column, Table, TableVersion, with_ids_of
from ticdc_bridge.schemas.model.types import Kind


@dataclass(frozen=True, slots=True)
class DdlText:
    """A statement with its commit_ts (a TSO), the database it ran in and the lexical mode it is written in.

    zone: of the literal TIMESTAMP defaults of a CREATE TABLE, "" where it does not say. where: its
    place in a file, for errors; "": its commit_ts tells it.
    """

    commit_ts: int
    db: str
    query: str
    mode: LexicalMode = WIRE
    zone: str = ""
    where: str = field(default="", compare=False)


def versions(statements: Iterable[DdlText], zone: str | None = None) -> list[TableVersion]:
    """Every version that the statements make, in order. Dropping a table makes none: no row comes after it.

    zone: the sessions' time zone, in which literal TIMESTAMP defaults are written; they become UTC. Without it they
    stay as written and are marked so (`Column.default_unzoned`). DdlError says at which commit_ts.
    """
    catalog, history = new_catalog(), list[TableVersion]()
    for statement in statements:
        catalog, tables = apply_text(catalog, statement)
        history += [TableVersion(statement.commit_ts, in_utc(t, zone) if zone else t) for t in tables]
    return history


def apply_text(catalog: Catalog, ddl: DdlText) -> tuple[Catalog, list[Table]]:
    """The catalog after a statement, and the tables that it touches. DdlError says where.

    A CREATE TABLE in mode SHOW is a snapshot: it replaces what was known of the table, whose columns it has under their
    names.
    """
    try:
        statement, earlier = parse(ddl.query, ddl.mode, ddl.db), catalog
        if ddl.mode is SHOW and isinstance(statement, CreateTable):
            catalog = apply(catalog, DropTables("table", (statement.table,), if_exists=True), ddl.db)
        before = catalog
        ids = affected_tables(catalog, statement, ddl.db)
        catalog = apply(catalog, statement, ddl.db)
        tables = [table for id_ in dict.fromkeys(ids) if (table := catalog.table(id_))]
        if not isinstance(statement, CreateTable):
            return catalog, tables
        for n, table in enumerate(tables):
            if before.table(table.id) is not table:  # it was created, or described again
                same, created_ts = earlier.table(table.id), ddl.commit_ts or 1
                table = with_ids_of(same, table) if same and same.created_ts else replace(table, created_ts=created_ts)
            tables[n] = in_utc(table, ddl.zone) if ddl.zone else table
            catalog = catalog.with_table(tables[n])
        return catalog, tables
    except DdlError as error:
        details = f"{ddl.where or f'DDL at commit_ts {ddl.commit_ts}'}: {error.detail}"
        raise DdlError("DDL_NOT_APPLICABLE", details=details) from error


def literal_timestamps(table: Table) -> list[Column]:
    """Columns with a literal TIMESTAMP default, which is a time in some zone."""
    columns = (c for c in table.columns if c.type.kind is Kind.TIMESTAMP and c.default)
    return [column for column in columns if not column.default_is_expr]


def in_utc(table: Table, zone: str) -> Table:
    """The table with literal TIMESTAMP defaults in UTC. DDL_NOT_APPLICABLE for a time that the zone does not have."""
    columns: list[Column] = []
    for column in table.columns:
        if column.default_unzoned and isinstance(column.default, str):
            try:
                text, _ = values.shift_zone(column.default, zone, "UTC")
            except ValueError as error:
                details = f"default of {column.name} in zone {zone}: {error}"
                raise DdlError("DDL_NOT_APPLICABLE", details=details) from error
            column = replace(column, default=text, default_unzoned=False)
        columns.append(column)
    return replace(table, columns=tuple(columns))
