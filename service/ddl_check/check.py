"""The dry run: each statement of a text against the tables and the registry as the former ones leave them."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ticdc_bridge.schemas.ddl.executor.apply import affected_tables
from ticdc_bridge.schemas.ddl.executor.catalog import Catalog
from ticdc_bridge.schemas.ddl.parser.lexer import WIRE
from ticdc_bridge.schemas.ddl.parser.statements import (
    AddIndex,
    AlterTable,
    CreateTable,
    DropTables,
    NoRowEffect,
    Statement,
    TableName,
)
from ticdc_bridge.schemas.model.errors import DdlError, SetupError
from ticdc_bridge.schemas.model.table import Table, TableId
from ticdc_bridge.service.ddl_check.check_input import CheckInput
from ticdc_bridge.service.ddl_check.listed_schemas import RegisteredSchemas
from ticdc_bridge.service.ddl_check.refusals.definitions import Refusal, SqlModes, of_introducers
from ticdc_bridge.service.ddl_check.refusals.statements import refusals
from ticdc_bridge.service.ddl_check.renames import OTHER_WAY, brought_in
from ticdc_bridge.service.ddl_check.report import (
    REFUSED,
    SAFE,
    STOP,
    UNKNOWN,
    CheckReport,
    StatementReport,
    worst_verdict,
)
from ticdc_bridge.service.ddl_check.scripts import plain_script
from ticdc_bridge.service.ddl_check.session import Session, unknown_mode_set
from ticdc_bridge.service.ddl_check.statements import SYNTAX_ERROR, ParsedStatement, StatementText, split, understand
from ticdc_bridge.service.ddl_check.table_changes import TableChange, changes
from ticdc_bridge.service.ddl_check.table_check import TableCheck
from ticdc_bridge.service.ddl_check.trial import TrialResult, is_tried
from ticdc_bridge.service.ddl_check.verdicts import SubjectVerdict
from ticdc_bridge.service.registry.model import Content

MAX_COLUMNS = 60_000
"""Columns of all touched tables, before and after, over all statements: a report shows each of them."""
WRONG_VALUE = 1231
MAX_CHANGES = 20
_PART = re.compile(r"`((?:[^`]|``)+)`|([\w$]+)")
_NAMED = re.compile(
    r"\b(?:TABLE|ON)\s+((?:`(?:[^`]|``)+`|[\w$]+)(?:\s*\.\s*(?:`(?:[^`]|``)+`|[\w$]+))?)", re.IGNORECASE
)


def check(question: CheckInput, view: RegisteredSchemas) -> CheckReport:
    """Reports on all statements. SetupError USAGE for a text without any statement, or with too much in it."""
    try:
        question = replace(question, sql=plain_script(question.sql, question.mode.backslashes))
        pieces = split(question.sql, question.mode)
    except DdlError as error:
        raise SetupError("USAGE", details=error.detail) from None
    if not pieces:
        raise SetupError("USAGE", details="there is no statement in the text")
    run = _Run(question, view)
    return CheckReport(tuple(run.statements(pieces)), run.notes())


class _Run:
    """The state between statements."""

    def __init__(self, question: CheckInput, view: RegisteredSchemas) -> None:
        self.question, self.view = question, view
        self.changefeed = question.changefeed
        self.catalog = question.catalog
        self.session = Session(question.db, question.mode, question.sql_mode)
        self.pending: dict[str, list[Content]] = {}
        self.lost: dict[TableId, str] = {}
        self.lost_all = ""
        self.assumed: dict[str, str] = {}
        self.unzoned = False
        self.columns = 0

    def notes(self) -> tuple[str, ...]:
        texts = [p.text for p in self.changefeed.problems]
        if self.question.assume:
            texts.append(
                "no registered schemas are given (--schemas): each table's schemas before the statement are taken as "
                "registered"
            )
        if self.unzoned:
            texts.append(
                "literal TIMESTAMP defaults are taken as UTC in the schemas shown; --ddl-time-zone says the sessions' "
                "zone. The verdict does not depend on it"
            )
        return tuple(texts)

    def statements(self, pieces: Sequence[StatementText]) -> Iterator[StatementReport]:
        """Where sql_mode changes what a backslash is, the rest is split anew."""
        waiting, changed = deque(pieces), 0
        while waiting:
            piece, before = waiting.popleft(), self.session.mode.backslashes
            yield self.statement(understand(piece, self.session), piece.sql)
            if self.session.mode.backslashes is not before and waiting:
                changed += 1
                if changed > MAX_CHANGES:
                    details = f"sql_mode changes what a backslash is more than {MAX_CHANGES} times; check in parts"
                    raise SetupError("USAGE", details=details)
                waiting = deque(split(self.question.sql, self.session.mode, piece.end))

    def statement(self, one: ParsedStatement, sql: str) -> StatementReport:
        if mode := unknown_mode_set(self.session.assignments(sql)):
            refusal = Refusal(WRONG_VALUE, f"Variable 'sql_mode' can't be set to the value of '{mode}'")
            return _refused(one, (refusal,))
        self.session = self.session.after_statement(sql)
        if one.refused:
            return _refused(one, (Refusal(one.refused, one.error),))
        if one.error:
            self._lose(one)
            reason = (
                f"The statement is not understood: {one.error}. TiDB refuses what its grammar does not have (error "
                f"{SYNTAX_ERROR}); if yours takes it, it is newer than this check."
            )
            return StatementReport(one, UNKNOWN, reason)
        if one.statement is None:
            return StatementReport(one, SAFE, one.note + ".")
        if isinstance(one.statement, NoRowEffect) and one.kind == "FLASHBACK TO TIMESTAMP":
            return StatementReport(
                one, UNKNOWN, "FLASHBACK to a time restores tables and rows for which no event is sent."
            )
        return self._apply_statement(one, one.statement)

    def _apply_statement(self, one: ParsedStatement, statement: Statement) -> StatementReport:
        ids: tuple[TableId, ...] = ()
        try:
            ids = affected_tables(self.catalog, statement, one.db)
            unsure = [(i, why) for i in ids if (why := self._find_doubt(i, statement))]
            unsure += [
                (i, why) for i in self._sources(statement, one.db) if (why := self.lost.get(i.folded) or self.lost_all)
            ]
            tried = self._try(one, statement) if not unsure else TrialResult()
            refused = [] if unsure else self._refusals(one, statement) if tried is None else [*tried.refusals]
            certain = tuple(r for r in refused if r.certain)
            if certain:
                return replace(_refused(one, certain), tables=tuple(map(str, dict.fromkeys(ids))))
            after, table_changes = changes(self.catalog, statement, one.db)
            after, table_changes, notes = _as_tidb_has_them(after, table_changes, tried.tables if tried else {})
        except DdlError as error:
            self.lost.update(dict.fromkeys((one.folded for one in ids), error.detail))
            name = error.fields.get("without_database")
            reason = _no_database(name, self.question.databases_of(name)) if name else _not_applicable(error)
            return StatementReport(one, UNKNOWN, reason, tables=tuple(map(str, ids)))
        tables = tuple(map(str, dict.fromkeys(ids)))
        if unsure:
            self.catalog = after
            if isinstance(statement, CreateTable) and statement.like is not None:
                self.lost.update(dict.fromkeys((i.folded for i in ids), unsure[0][1]))
            return StatementReport(
                one, UNKNOWN, f"Table {unsure[0][0]} is not fully known: {unsure[0][1]}.", tables=tables
            )
        report = self._judge_changes(one, table_changes)
        self.catalog = after
        if stop := brought_in(statement, one.db, self.changefeed):
            reason = f"The changefeed would stop: {stop}."
            report = replace(report, verdict=STOP, reason=reason, advice=(*report.advice, OTHER_WAY))
        if refused and report.verdict == SAFE:
            reason = (
                f"What is known here does not tell whether TiDB runs it; if not: {refused[0].text} (error "
                f"{refused[0].number}). If it does: {report.reason}"
            )
            report = replace(report, verdict=UNKNOWN, reason=reason)
        if tried is not None and tried.untried and report.verdict == SAFE:
            reason = f"It was not tried in TiDB: {tried.untried}. If TiDB takes it: {report.reason}"
            report = replace(report, verdict=UNKNOWN, reason=reason)
        return replace(report, tables=tables, notes=(*report.notes, *notes))

    def _try(self, one: ParsedStatement, statement: Statement) -> TrialResult | None:
        """What a TiDB says of a statement; None where none is asked, or not about statements of this kind."""
        if self.question.trial is None or not is_tried(statement):
            return None
        return self.question.trial.run(one.sql, statement, one.db, self.catalog, self.session)

    def _refusals(self, one: ParsedStatement, statement: Statement) -> list[Refusal]:
        """What TiCDC sends, TiDB has taken."""
        if self.session.mode is WIRE:
            return []
        found = refusals(self.catalog, statement, one.db, SqlModes.of(self.session.sql_mode))
        found = [r for r in found if not self.session.permits(r.number, r.text)]
        return [*found, *of_introducers(one.sql, self.session.mode)]

    def _find_doubt(self, id_: TableId, statement: Statement) -> str:
        if isinstance(statement, (CreateTable, DropTables)):
            return ""
        return self.lost.get(id_.folded) or self.lost_all or self.question.unsure(id_)

    def _sources(self, statement: Statement, db: str) -> list[TableId]:
        """Tables that are there and that a statement asks without changing them."""
        names = list[TableName | None]()
        match statement:
            case CreateTable():
                names += [statement.like, *(index.references for index in statement.indexes)]
            case AlterTable():
                names += [one.index.references for one in statement.clauses if isinstance(one, AddIndex)]
        found = [name.in_db(db) for name in names if name is not None]
        return [id_ for id_ in found if self.catalog.table(id_) is not None]

    def _lose(self, one: ParsedStatement) -> None:
        """After a statement that was not read, nobody knows what it made of its table; or of any, if none is named."""
        why = f"the statement in line {one.line} was not understood"
        match = _NAMED.search(one.sql)
        if match is None:
            self.lost_all = why
            return
        parts = [(quoted or plain).replace("``", "`") for quoted, plain in _PART.findall(match[1])]
        self.lost[TableId(parts[0] if len(parts) > 1 else one.db, parts[-1]).folded] = why

    def _judge_changes(self, one: ParsedStatement, table_changes: list[TableChange]) -> StatementReport:
        self.columns += sum(len(t.columns) for c in table_changes for t in (c.before, c.after) if t is not None)
        if self.columns > MAX_COLUMNS:
            details = f"the statements touch tables with more than {MAX_COLUMNS} columns in all; check them in parts"
            raise SetupError("USAGE", details=details)
        parts = [TableCheck(self, change, one).judge() for change in table_changes]
        if not parts:
            note = one.note or "No table that a changefeed replicates changes"
            return StatementReport(one, SAFE, note + ".")
        for part in parts:
            self._expect(part.subjects)
            self.unzoned = self.unzoned or any(s.made.unzoned for s in part.schemas)
        verdict = worst_verdict([p.verdict for p in parts])
        reasons = [p.reason for p in parts if p.verdict == verdict]
        return StatementReport(
            one,
            verdict,
            (one.note + ". " if one.note else "") + " ".join(dict.fromkeys(reasons)),
            before=tuple(t for c in table_changes if (t := c.before) is not None),
            after=tuple(t for c in table_changes if (t := c.after) is not None),
            schemas=tuple(s for p in parts for s in p.schemas),
            subjects=tuple(s for p in parts for s in p.subjects),
            spark=tuple(w for p in parts for w in p.spark),
            risks=tuple(dict.fromkeys(r for p in parts for r in p.risks)),
            advice=tuple(dict.fromkeys(a for p in parts for a in p.advice)),
            notes=tuple(n for p in parts for n in p.notes),
        )

    def _expect(self, verdicts: Sequence[SubjectVerdict]) -> None:
        """What a row after this statement would bring in, for the statements after it."""
        for verdict in verdicts:
            content = verdict.rehearsal.content
            if verdict.compatible and content is not None:
                waiting = self.pending.setdefault(verdict.subject, [])
                if content not in waiting:
                    waiting.append(content)


def _as_tidb_has_them(
    after: Catalog, table_changes: Sequence[TableChange], tables: Mapping[TableId, Table | None]
) -> tuple[Catalog, list[TableChange], list[str]]:
    """The catalog and the changes with TiDB's own tables after the statement, and where ours are others."""
    made, notes = list[TableChange](), list[str]()
    for change in table_changes:
        ours, theirs = change.after, tables.get(change.id.folded)
        if ours is not None and theirs is not None:
            theirs, ours = replace(theirs, id=ours.id), _filled(ours, theirs)
            if theirs != ours:
                names = [c.name for c in ours.columns if theirs.by_name.get(c.name) != c]
                names += [c.name for c in theirs.columns if c.name not in ours.by_name]
                what = ", ".join(f"`{name}`" for name in names) or "keys, order of columns or options"
                notes.append(f"{ours.id}: TiDB's table after the statement, which counts, is not ours: {what}")
            after, change = after.with_table(theirs), replace(change, after=theirs)
        made.append(change)
    return after, made, notes


def _filled(ours: Table, theirs: Table) -> Table:
    """A table with TiDB's character sets where its definition told none."""
    columns = [(c, theirs.by_name.get(c.name, c)) for c in ours.columns]
    return replace(
        ours,
        charset=ours.charset or theirs.charset,
        collate=ours.collate or theirs.collate,
        columns=tuple(
            replace(c, charset=c.charset or there.charset, collate=c.collate or there.collate) for c, there in columns
        ),
    )


def _refused(one: ParsedStatement, found: tuple[Refusal, ...]) -> StatementReport:
    reason = f"TiDB refuses it: {found[0].text} (error {found[0].number})."
    return StatementReport(one, REFUSED, reason, refusals=found)


def _not_applicable(error: DdlError) -> str:
    if error.code == "DDL_UNKNOWN_TABLE":
        return (
            f"{error.detail[0].upper()}{error.detail[1:]}. Where there is no such table, TiDB refuses it (error 1146)."
        )
    return (
        f"The statement does not fit the tables as known; TiDB would refuse it, or they have changed: {error.detail}."
    )


def _no_database(table: str, databases: Sequence[str]) -> str:
    """What to do about a table that is named without its database. databases: those that have one of this name."""
    first = databases[0] if databases else "DATABASE"
    if len(databases) > 1:
        there = f"{', '.join(databases[:-1])} and {databases[-1]} have a table of that name"
    else:
        there = (
            f"{first} has a table of that name" if databases else "no database that is known has a table of that name"
        )
    return (
        f"Which database is {table} in? None is chosen; {there}. Write {first}.{table}, or choose the database "
        f"(--db {first}, `db` of a request, USE {first})."
    )
