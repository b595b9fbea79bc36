"""What a dry run is asked: statements, the tables before them, and the changefeed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from ticdc_bridge.schemas.ddl.executor.apply import apply
from ticdc_bridge.schemas.ddl.executor.catalog import Catalog
from ticdc_bridge.schemas.ddl.parser.lexer import SHOW, LexicalMode
from ticdc_bridge.schemas.ddl.parser.statement_parser import parse
from ticdc_bridge.schemas.ddl.parser.statements import CreateTable, DropTables
from ticdc_bridge.schemas.model.errors import DdlError, SetupError
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.service.changefeed.settings import ChangefeedSettings
from ticdc_bridge.service.ddl_check.trial import Trial


def _no_doubt(_: TableId) -> str:
    return ""


def _no_database(_: str) -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True)
class CheckInput:
    """What is asked: SQL text of one or more statements, typed (or in wire form) in a database.

    catalog: the tables as they are before. unsure: why a table is not fully known, "" when it is. zone: of the
    sessions, for literal TIMESTAMP defaults. mode: how the text is written. assume: where nothing is registered for a
    table, its schemas before the statement are taken as registered. sql_mode: the session's, None for TiDB's default.
    databases_of: the databases that are known to have a table of this name. trial: a TiDB that runs the statements.
    """

    sql: str
    db: str
    catalog: Catalog
    changefeed: ChangefeedSettings = field(default_factory=ChangefeedSettings)
    unsure: Callable[[TableId], str] = _no_doubt
    zone: str | None = None
    mode: LexicalMode = field(default_factory=LexicalMode.of_sql_mode)
    assume: bool = False
    sql_mode: str | None = None
    databases_of: Callable[[str], Sequence[str]] = _no_database
    trial: Trial | None = None


def with_snapshots(catalog: Catalog, texts: Iterable[str], db: str) -> Catalog:
    """The catalog with tables as SHOW CREATE TABLE prints them. SetupError USAGE for any other text."""
    for number, text in enumerate(texts, 1):
        try:
            statement = parse(text, SHOW, db)
            if not isinstance(statement, CreateTable):
                raise DdlError("DDL_NOT_APPLICABLE", details="it is no CREATE TABLE")
            catalog = apply(catalog, DropTables("table", (statement.table,), if_exists=True), db)
            catalog = apply(catalog, statement, db)
        except DdlError as error:
            raise SetupError("USAGE", details=f"table definition {number}: {error.detail}") from None
    return catalog
