"""A dry run as people ask for it, answered from a registry and a table history."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from ticdc_bridge.schemas.ddl.executor.catalog import Catalog, new_catalog
from ticdc_bridge.schemas.ddl.executor.versions import DdlText, apply_text
from ticdc_bridge.schemas.ddl.parser.lexer import SHOW, SQL_MODES, WIRE, LexicalMode, unknown_mode
from ticdc_bridge.schemas.ddl.parser.statement_parser import parse
from ticdc_bridge.schemas.ddl.parser.statements import CreateTable
from ticdc_bridge.schemas.model.errors import DdlError, SetupError
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.service.changefeed.settings import ChangefeedSettings
from ticdc_bridge.service.ddl_check.check import CheckInput, check, with_snapshots
from ticdc_bridge.service.ddl_check.report import CheckReport
from ticdc_bridge.service.ddl_check.subjects import RegisteredSchemas
from ticdc_bridge.service.ddl_check.trial import Trial
from ticdc_bridge.service.history.model import HistoryReader, State

_DOUBTFUL = {
    State.PARTIAL: "only a part of it is known",
    State.ERROR: "a DDL of it could not be read or applied",
    State.UNKNOWN: "it was never described",
}


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """A dry run as it is asked for. wire: the SQL is in TiCDC's form. at: a TSO, None for now.

    tables: SHOW CREATE TABLE texts, which replace what the history says. history: the name of the changefeed whose
    history is meant; None where there is only one. zone: of the sessions, for literal TIMESTAMP defaults.
    """

    sql: str
    db: str = ""
    sql_mode: str = ""
    wire: bool = False
    at: int | None = None
    changefeed: ChangefeedSettings = field(default_factory=ChangefeedSettings)
    tables: tuple[str, ...] = ()
    history: str | None = None
    zone: str | None = None

    @property
    def mode(self) -> LexicalMode:
        return WIRE if self.wire else LexicalMode.of_sql_mode(self.sql_mode)


def answer_request(
    request: CheckRequest, view: RegisteredSchemas, history: HistoryReader | None = None, trial: Trial | None = None
) -> CheckReport:
    """SetupError USAGE for a question that makes no sense; RegistryError for a changefeed that is not there."""
    if history is None or (request.history is None and not history.changefeeds()):
        return run_check(request, new_catalog(), view, lambda _: "", trial=trial)
    feed = history.changefeed(request.history)
    catalog, unsure = history.catalog_at(feed.name, request.at), partial(_doubt, history, feed.name, request.at)
    databases_of = partial(_databases_in_history, history, feed.name)
    return run_check(request, catalog, view, unsure, feed.zone, databases_of=databases_of, trial=trial)


def run_check(
    request: CheckRequest,
    catalog: Catalog,
    view: RegisteredSchemas,
    unsure: Callable[[TableId], str],
    zone: str = "",
    assume: bool = False,
    databases_of: Callable[[str], Sequence[str]] | None = None,
    trial: Trial | None = None,
) -> CheckReport:
    """As `answer_request`, from a catalog. assume, databases_of, trial: see CheckInput; by default the catalog's."""
    unknown = unknown_mode(request.sql_mode)
    if unknown:
        details = f"sql_mode {unknown[:40]!r} is not one of TiDB's: {', '.join(sorted(SQL_MODES))}"
        raise SetupError("USAGE", details=details)
    full_catalog = with_snapshots(catalog, request.tables, request.db)
    statements = [parse(text, SHOW, request.db) for text in request.tables]
    names = {statement.table.in_db(request.db).folded for statement in statements if isinstance(statement, CreateTable)}
    question = CheckInput(
        request.sql,
        request.db,
        full_catalog,
        request.changefeed.require_valid(),
        lambda id_: "" if id_.folded in names else unsure(id_),
        request.zone or zone or None,
        request.mode,
        assume,
        request.sql_mode or None,
        databases_of
        or (lambda name: sorted(database.name for database in catalog.databases if database.tables.get(name))),
        trial,
    )
    return check(question, view)


def _databases_in_history(history: HistoryReader, changefeed: str, table: str) -> Sequence[str]:
    rows = history.tables(changefeed, search=f".{table}")
    return sorted({row.id.db for row in rows if row.id.table.lower() == table.lower() and row.state is not State.GONE})


def _doubt(history: HistoryReader, changefeed: str, at: int | None, id_: TableId) -> str:
    """Why a table is not fully known; "" where it is, or where nothing is known of it."""
    row = history.version_at(changefeed, id_.db, id_.table, at, inclusive=True)
    if row is None:
        return ""
    if row.state not in _DOUBTFUL:
        [against] = history.contradictions(changefeed, [(row, row.to_ts)])
        return f"{against}. Give a snapshot of it, or its SHOW CREATE TABLE" if against else ""
    return f"{_DOUBTFUL[row.state]} (since commit_ts {row.since}{': ' + row.reason if row.reason else ''})"


# ---- without a service: files
def catalog_of(statements: Iterable[DdlText]) -> Catalog:
    """The tables after all statements. SetupError USAGE for one that can't be applied."""
    catalog = new_catalog()
    for statement in statements:
        try:
            catalog, _ = apply_text(catalog, statement)
        except DdlError as error:
            raise SetupError("USAGE", details=error.detail) from None
    return catalog
