"""The dry run: each statement of a text against the tables and the registry as the former ones leave them."""

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from ticdc_bridge.schemas.ddl.executor.apply import affected_tables, apply
from ticdc_bridge.schemas.ddl.executor.catalog import Catalog
from ticdc_bridge.schemas.ddl.executor.indexes import find
from ticdc_bridge.schemas.ddl.parser import statements as ddl
from ticdc_bridge.schemas.ddl.parser.lexer import SHOW, WIRE, LexicalMode
from ticdc_bridge.schemas.ddl.parser.statement_parser import parse
from ticdc_bridge.schemas.inputs.sql_files import table_called
from ticdc_bridge.schemas.model.errors import DdlError, SetupError
from ticdc_bridge.schemas.model.reasons import usage_errors
from ticdc_bridge.schemas.model.table import Column, Table, TableId
from ticdc_bridge.schemas.model.types import Kind
from ticdc_bridge.service.changefeed.known_faults import STOPS
from ticdc_bridge.service.changefeed.settings import ChangefeedSettings, Dispatcher
from ticdc_bridge.service.ddl_check import statements, subjects
from ticdc_bridge.service.ddl_check.advice import OTHER_DISPATCHER, OTHER_FILTER, Advice, advise
from ticdc_bridge.service.ddl_check.refusals.definitions import Refusal, SqlModes, of_introducers
from ticdc_bridge.service.ddl_check.refusals.statements import refusals
from ticdc_bridge.service.ddl_check.report import (
    REFUSED,
    SAFE,
    STOP,
    UNKNOWN,
    CheckReport,
    ReportedSchemas,
    StatementReport,
    Verdict,
    worst_verdict,
)
from ticdc_bridge.service.ddl_check.risks import filter_failure, risks
from ticdc_bridge.service.ddl_check.statements import ParsedStatement, StatementText
from ticdc_bridge.service.ddl_check.subjects import RegistryState, SubjectTarget, SubjectVerdict, TargetSchema
from ticdc_bridge.service.ddl_check.table_changes import TableChange, changes, describe_effect
from ticdc_bridge.service.ddl_check.trial import Trial, TrialResult, is_tried
from ticdc_bridge.service.history.statements import column_renames
from ticdc_bridge.service.registry.model import Content


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
    unsure: Callable[[TableId], str] = lambda _: ""
    zone: str | None = None
    mode: LexicalMode = field(default_factory=LexicalMode.of_sql_mode)
    assume: bool = False
    sql_mode: str | None = None
    databases_of: Callable[[str], Sequence[str]] = lambda _: ()
    trial: Trial | None = None


def with_snapshots(catalog: Catalog, texts: Iterable[str], db: str) -> Catalog:
    """The catalog with tables as SHOW CREATE TABLE prints them. SetupError USAGE for any other text."""
    for number, text in enumerate(texts, 1):
        with usage_errors(f"table definition {number}", DdlError):
            statement = parse(text, SHOW, db)
            if not isinstance(statement, ddl.CreateTable):
                raise DdlError("DDL_NOT_APPLICABLE", details="it is no CREATE TABLE")
            catalog = apply(catalog, ddl.DropTables("table", (statement.table,), if_exists=True), db)
            catalog = apply(catalog, statement, db)
    return catalog


MAX_COLUMNS = 60_000
"""Columns of all touched tables, before and after, over all statements: a report shows each of them."""
MAX_CHANGES = 20
_NAMED = re.compile(
    r"\b(?:TABLE|ON)\s+((?:`(?:[^`]|``)+`|[\w$]+)(?:\s*\.\s*(?:`(?:[^`]|``)+`|[\w$]+))?)", re.IGNORECASE
)
_OF_TABLES = re.compile(
    r"\s*(?:(?:CREATE|ALTER|DROP)\s+(?:DATABASE|SCHEMA)|RENAME|TRUNCATE|FLASHBACK|RECOVER|IMPORT|RESTORE"
    r"|EXECUTE|CALL)\b",
    re.IGNORECASE,
)


def check(question: CheckInput, view: subjects.RegisteredSchemas) -> CheckReport:
    """Reports on all statements. SetupError USAGE for a text without any statement, or with too much in it."""
    try:
        question = replace(question, sql=statements.plain_script(question.sql, question.mode.backslashes))
        pieces = statements.split(question.sql, question.mode)
    except DdlError as error:
        raise SetupError("USAGE", details=error.detail) from None
    if not pieces:
        raise SetupError("USAGE", details="there is no statement in the text")
    run = _Run(question, view)
    return CheckReport(tuple(run.statements(pieces)), run.notes())


class _Run:
    """The state between statements."""

    def __init__(self, question: CheckInput, view: subjects.RegisteredSchemas) -> None:
        self.question, self.view = question, view
        self.changefeed = question.changefeed
        self.catalog = question.catalog
        self.session = statements.Session(question.db, question.mode, question.sql_mode)
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
            yield self.statement(statements.understand(piece, self.session), piece.sql)
            if self.session.mode.backslashes is not before and waiting:
                changed += 1
                if changed > MAX_CHANGES:
                    details = f"sql_mode changes what a backslash is more than {MAX_CHANGES} times; check in parts"
                    raise SetupError("USAGE", details=details)
                waiting = deque(statements.split(self.question.sql, self.session.mode, piece.end))

    def statement(self, entry: ParsedStatement, sql: str) -> StatementReport:
        if mode := statements.unknown_mode_set(self.session.assignments(sql)):
            return _refused(entry, (Refusal(1231, f"Variable 'sql_mode' can't be set to the value of '{mode}'"),))
        self.session = self.session.after_statement(sql)
        if entry.refused:
            return _refused(entry, (Refusal(entry.refused, entry.error),))
        if entry.error:
            self._lose(entry)
            reason = (
                f"The statement is not understood: {entry.error}. TiDB refuses what its grammar does not have (error "
                f"{statements.SYNTAX_ERROR}); if yours takes it, it is newer than this check."
            )
            return StatementReport(entry, UNKNOWN, reason)
        if entry.statement is None:
            return StatementReport(entry, SAFE, entry.note + ".")
        if isinstance(entry.statement, ddl.NoRowEffect) and entry.kind == "FLASHBACK TO TIMESTAMP":
            reason = "FLASHBACK to a time restores tables and rows for which no event is sent."
            return StatementReport(entry, UNKNOWN, reason)
        return self._apply_statement(entry, entry.statement)

    def _apply_statement(self, entry: ParsedStatement, statement: ddl.Statement) -> StatementReport:
        ids: tuple[TableId, ...] = ()
        try:
            ids = affected_tables(self.catalog, statement, entry.db)
            unsure = self._doubts(statement, ids, entry.db)
            tried = TrialResult()
            if not unsure and self.question.trial is not None and is_tried(statement):
                tried = self.question.trial.run(entry.sql, statement, entry.db, self.catalog, self.session)
                refused = [*tried.refusals]
            elif unsure or self.session.mode is WIRE:  # what TiCDC sends, TiDB has taken
                refused = []
            else:
                found = refusals(self.catalog, statement, entry.db, SqlModes.of(self.session.sql_mode))
                refused = [r for r in found if not self.session.permits(r.number, r.text)]
                refused += of_introducers(entry.sql, self.session.mode)
            certain = tuple(r for r in refused if r.certain)
            if certain:
                return replace(_refused(entry, certain), tables=tuple(map(str, dict.fromkeys(ids))))
            try:
                after, table_changes = changes(self.catalog, statement, entry.db)
                after, table_changes, notes = _as_tidb_has_them(after, table_changes, tried.tables)
            except DdlError as error:
                actual = tried.tables.get(ids[0].folded) if len(ids) == 1 else None
                if actual is None:
                    raise
                actual = replace(actual, id=ids[0])
                change = TableChange(self.catalog.table(ids[0]), actual, column_renames(statement))
                after, table_changes = self.catalog.with_table(actual), [change]
                notes = [f"{ids[0]}: TiDB's table after the statement is taken, as ours is not known: {error.detail}"]
        except DdlError as error:
            self.lost.update(dict.fromkeys((id_.folded for id_ in ids), error.detail))
            reason = _not_applicable(error, self.question.databases_of)
            return StatementReport(entry, UNKNOWN, reason, tables=tuple(map(str, ids)))
        tables = tuple(map(str, dict.fromkeys(ids)))
        if unsure:
            self.catalog = after
            if isinstance(statement, ddl.CreateTable) and statement.like is not None:
                self.lost.update(dict.fromkeys((i.folded for i in ids), unsure[0][1]))
            reason = f"Table {unsure[0][0]} is not fully known: {unsure[0][1]}."
            return StatementReport(entry, UNKNOWN, reason, tables=tables)
        report = self._judge_changes(entry, table_changes)
        self.catalog = after
        if stop := brought_in(statement, entry.db, self.changefeed):
            reason = f"The changefeed would stop: {stop}."
            report = replace(report, verdict=STOP, reason=reason, advice=(*report.advice, OTHER_WAY))
        if refused and report.verdict == SAFE:
            reason = (
                f"What is known here does not tell whether TiDB runs it; if not: {refused[0].text} (error "
                f"{refused[0].number}). If it does: {report.reason}"
            )
            report = replace(report, verdict=UNKNOWN, reason=reason)
        if tried.untried and report.verdict == SAFE:
            reason = f"It was not tried in TiDB: {tried.untried}. If TiDB takes it: {report.reason}"
            report = replace(report, verdict=UNKNOWN, reason=reason)
        return replace(report, tables=tables, notes=(*report.notes, *notes))

    def _doubts(self, statement: ddl.Statement, ids: Sequence[TableId], db: str) -> list[tuple[TableId, str]]:
        """Tables that are not fully known, and why: those that it changes (ids), and those that it only asks."""
        names = list[ddl.TableName | None]()
        match statement:
            case ddl.CreateTable():
                names += [statement.like, *(index.references for index in statement.indexes)]
            case ddl.AlterTable():
                names += [clause.index.references for clause in statement.clauses if isinstance(clause, ddl.AddIndex)]
        asked = [id_ for name in names if name is not None and self.catalog.table(id_ := name.in_db(db)) is not None]
        doubts = [(id_, self.lost.get(id_.folded) or self.lost_all) for id_ in asked]
        if not isinstance(statement, (ddl.CreateTable, ddl.DropTables)):
            of_changed = [(i, self.lost.get(i.folded) or self.lost_all or self.question.unsure(i)) for i in ids]
            doubts = [*of_changed, *doubts]
        return [(id_, why) for id_, why in doubts if why]

    def _lose(self, entry: ParsedStatement) -> None:
        """After a statement that was not read, nobody knows what it made of its table; or of any, if it names none and
        begins as one that changes tables."""
        why = f"the statement in line {entry.line} was not understood"
        match = _NAMED.search(entry.sql)
        if match is None:
            self.lost_all = why if _OF_TABLES.match(entry.sql) else self.lost_all
            return
        self.lost[table_called(match[1], entry.db).folded] = why

    def _judge_changes(self, entry: ParsedStatement, table_changes: list[TableChange]) -> StatementReport:
        self.columns += sum(len(t.columns) for c in table_changes for t in (c.before, c.after) if t is not None)
        if self.columns > MAX_COLUMNS:
            details = f"the statements touch tables with more than {MAX_COLUMNS} columns in all; check them in parts"
            raise SetupError("USAGE", details=details)
        checks = [TableCheck(self, change, entry) for change in table_changes]
        for check in checks if len(checks) > 1 else ():
            check.assume_before()  # of a swap, too: a table's rows come under the name that another had
        pieces = [check.judge() for check in checks]
        if not pieces:
            note = entry.note or "No table that a changefeed replicates changes"
            return StatementReport(entry, SAFE, note + ".")
        for piece in pieces:
            for subject in piece.subjects:
                content = subject.rehearsal.content
                waiting = self.pending.setdefault(subject.subject, [])
                if subject.compatible and content is not None and content not in waiting:
                    waiting.append(content)
            self.unzoned = self.unzoned or any(s.made.unzoned for s in piece.schemas)
        verdict = worst_verdict([p.verdict for p in pieces])
        reasons = [p.reason for p in pieces if p.verdict == verdict]
        return StatementReport(
            entry,
            verdict,
            (entry.note + ". " if entry.note else "") + " ".join(dict.fromkeys(reasons)),
            before=tuple(t for c in table_changes if (t := c.before) is not None),
            after=tuple(t for c in table_changes if (t := c.after) is not None),
            schemas=tuple(s for p in pieces for s in p.schemas),
            subjects=tuple(s for p in pieces for s in p.subjects),
            spark=tuple(w for p in pieces for w in p.spark),
            risks=tuple(dict.fromkeys(r for p in pieces for r in p.risks)),
            advice=tuple(dict.fromkeys(a for p in pieces for a in p.advice)),
            notes=tuple(n for p in pieces for n in p.notes),
        )


def _as_tidb_has_them(
    after: Catalog, table_changes: Sequence[TableChange], tables: Mapping[TableId, Table | None]
) -> tuple[Catalog, list[TableChange], list[str]]:
    """The catalog and the changes with TiDB's own tables after the statement, and where ours are others."""
    made, notes = list[TableChange](), list[str]()
    for change in table_changes:
        computed, actual = change.after, tables.get(change.id.folded)
        if computed is not None and actual is not None:
            actual, computed = replace(actual, id=computed.id), _filled(computed, actual)
            if actual != computed:
                names = [c.name for c in computed.columns if actual.by_name.get(c.name) != c]
                names += [c.name for c in actual.columns if c.name not in computed.by_name]
                what = ", ".join(f"`{name}`" for name in names) or "keys, order of columns or options"
                notes.append(f"{computed.id}: TiDB's table after the statement, which counts, is not ours: {what}")
            after, change = after.with_table(actual), replace(change, after=actual)
        made.append(change)
    return after, made, notes


def _filled(table: Table, actual: Table) -> Table:
    """A table with TiDB's character sets where its definition told none, and without the lengths of DOUBLE(n,0)."""
    unshown = [c.scale == 0 and c.type.kind in (Kind.FLOAT, Kind.DOUBLE) for c in table.columns]
    shown = (replace(c, length=None, scale=None) if n else c for c, n in zip(table.columns, unshown, strict=True))
    columns = [(c, actual.by_name.get(c.name, c)) for c in shown]
    return replace(
        table,
        charset=table.charset or actual.charset,
        collate=table.collate or actual.collate,
        columns=tuple(
            replace(c, charset=c.charset or existing.charset, collate=c.collate or existing.collate)
            for c, existing in columns
        ),
    )


def _refused(entry: ParsedStatement, found: tuple[Refusal, ...]) -> StatementReport:
    reason = f"TiDB refuses it: {found[0].text} (error {found[0].number})."
    return StatementReport(entry, REFUSED, reason, refusals=found)


def _not_applicable(error: DdlError, databases_of: Callable[[str], Sequence[str]]) -> str:
    if table := error.fields.get("without_database"):
        databases = databases_of(table)
        first = databases[0] if databases else "DATABASE"
        if len(databases) > 1:
            lines = f"{', '.join(databases[:-1])} and {databases[-1]} have a table of that name"
        else:
            lines = f"{first if databases else 'no database that is known'} has a table of that name"
        return (
            f"Which database is {table} in? None is chosen; {lines}. Write {first}.{table}, or choose the database "
            f"(--db {first}, `db` of a request, USE {first})."
        )
    if error.code == "DDL_UNKNOWN_TABLE":
        return (
            f"{error.detail[0].upper()}{error.detail[1:]}. Where there is no such table, TiDB refuses it (error 1146)."
        )
    return (
        f"The statement does not fit the tables as known; TiDB would refuse it, or they have changed: {error.detail}."
    )


OTHER_WAY: Final = Advice(
    "rename-within-filter",
    "Let the filter take the old name as well before the statement; or make the table anew under the new name (CREATE "
    "TABLE … LIKE, INSERT … SELECT, DROP TABLE)",
)


def brought_in(statement: ddl.Statement, db: str, feed: ChangefeedSettings) -> str:
    """Why the changefeed stops at a rename, "" where it does not. TiCDC looks at each pair of names by itself."""
    pairs = list[tuple[ddl.TableName, ddl.TableName]]()
    if isinstance(statement, ddl.RenameTables):
        pairs = [*statement.pairs]
    elif isinstance(statement, ddl.AlterTable):
        pairs = [(statement.table, c.new) for c in statement.clauses if isinstance(c, ddl.RenameTo)]
    for old, new in pairs:
        before, after = old.in_db(db), new.in_db(db)
        if feed.replicates(after) and not feed.replicates(before):
            return f"its filter leaves {before} out and takes {after}, and TiCDC refuses such a rename"
    return ""


# ---- one table of a statement
_STOP_AT_ROW: Final = "The changefeed would stop at the first row after the DDL"


@dataclass(slots=True)
class TableFinding:
    """What was found out about one table."""

    verdict: Verdict = SAFE
    reason: str = ""
    schemas: list[ReportedSchemas] = field(default_factory=list)
    subjects: list[SubjectVerdict] = field(default_factory=list)
    spark: list[str] = field(default_factory=list)
    risks: list[Any] = field(default_factory=list)
    advice: list[Any] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class TableCheck:
    def __init__(self, run: _Run, change: TableChange, statement: ParsedStatement) -> None:
        self.run, self.change, self.statement = run, change, statement
        self.sent = self._as_sent(change)
        self.out = TableFinding()

    def _as_sent(self, change: TableChange) -> TableChange:
        """Without the columns that a column selector leaves out."""
        before, after = (self.run.changefeed.sent_table(t) if t else None for t in (change.before, change.after))
        return replace(change, before=before, after=after)

    def judge(self) -> TableFinding:
        change, out, feed = self.change, self.out, self.run.changefeed
        if not any(feed.replicates(t.id) for t in (change.before, change.after) if t is not None):
            out.reason = f"The changefeed's filter leaves {change.id} out."
            return out
        out.spark = list(describe_effect(self.sent))
        if change.after is None or not feed.replicates(change.after.id):
            return self._judge_dropped()
        rule = feed.dispatcher(change.after.id)
        if rule is not None and rule.routes and feed.uses_registry:
            out.verdict = UNKNOWN
            out.reason = (
                f"{change.id} is routed to another name (target-schema, target-table), which is not followed here."
            )
            return out
        return self._judge_written(change.after)

    def _judge_dropped(self) -> TableFinding:
        change, out = self.change, self.out
        if change.before is None:
            out.reason = f"{change.id} is not known, and nothing has to be known to drop it."
            return out
        outputs = subjects.targets(self.run.changefeed, None, change.before, self.run.view)
        out.risks = self._risks(outputs)
        out.advice = [a for t in outputs[:1] for a in advise(change, t, [], out.risks, "", lambda _: "")]
        self.assume_before()
        word = "is gone" if change.after is None else "leaves what the changefeed replicates"
        out.reason = f"{change.before.id} {word}: no schema is registered for it."
        return out

    def assume_before(self) -> None:
        """Take the schemas of the table before the statement as registered, where that is to be assumed."""
        before, run = self.change.before, self.run
        if before is None or not run.question.assume or not run.changefeed.replicates(before.id):
            return
        targets = subjects.targets(run.changefeed, None, before, run.view)
        for target in targets or [subjects.usual_target(before.id, run.changefeed)]:
            self._registry_state(target, self._publish_before(target))

    def _judge_written(self, after: Table) -> TableFinding:
        run, change, out = self.run, self.change, self.out
        sent = run.changefeed.sent_table(after)
        outputs = subjects.targets(run.changefeed, change.before, after, run.view)
        if not outputs and run.question.assume:
            outputs = [subjects.usual_target(after.id, run.changefeed)]
        out.risks = self._risks(outputs)
        self._judge_settings(after)
        if outputs:
            self._judge_breaks()
        if not after.handle_key and not run.changefeed.get("force-replicate"):
            out.notes.append(f"{after.id} has no handle key: TiCDC does not replicate it unless force-replicate is on")
        if not outputs:
            return self._judge_unregistered(sent)
        for target in outputs:
            self._target(target, sent)
        if not run.changefeed.protocol:
            out.schemas += self._other_modes(sent, outputs)
        reasons = list(dict.fromkeys(v.reason for v in out.subjects))
        if out.reason:
            pass
        elif all(t.subjects is None for t in outputs):
            out.reason = f"Protocol {outputs[0].protocol} registers no schema: the registry can't stop it."
        elif len(reasons) > 1:
            out.reason = " ".join(f"{v.subject}: {v.reason}" for v in out.subjects)
        else:
            out.reason = reasons[0] if reasons else f"{change.id} has no schema to register."
        return out

    def _risks(self, outputs: Sequence[SubjectTarget], change: TableChange | None = None) -> list[Any]:
        feed, sent = self.run.changefeed, change or self.sent
        every = [r for t in outputs for r in risks(sent, t, feed)] if outputs else risks(sent, None, feed)
        return list(dict.fromkeys(every))

    def _judge_settings(self, after: Table) -> None:
        """In every protocol TiCDC finds a row's partition by the columns or the index of the table's dispatcher, and
        asks the expressions of event filters."""
        feed = self.run.changefeed
        found = (
            (dispatcher_failure(feed.dispatcher(after.id), after), OTHER_DISPATCHER),
            (filter_failure(feed, after), OTHER_FILTER),
        )
        for reason, advice in found:
            if reason:
                self._say(STOP, f"{_STOP_AT_ROW}: {reason}.")
                self.out.advice.append(advice)

    def _judge_breaks(self) -> None:
        version = self.run.changefeed.ticdc_version
        for risk in self.out.risks:
            # At these TiCDC stops whatever the rows hold.
            if risk.severity == "break" and (risk.id == "checksum-order" or (version and risk.id in STOPS)):
                self._say(STOP, f"{_STOP_AT_ROW}: {risk.text}.")
            elif risk.severity == "break":
                self._say(UNKNOWN, f"It depends on the rows or on the readers: {risk.text}.")

    def _attempt(self, target: SubjectTarget, standing: RegistryState, words: Mapping[str, str]) -> str:
        """The statement with other words for NOT NULL, if TiDB and the registry take it and the changefeed goes on;
        else ""."""
        run, after = self.run, self.change.after
        sql, db, mode = self.statement.sql, self.statement.db, run.session.mode
        other = statements.rewrite_not_null(sql, mode, words)
        if not other or after is None:
            return ""
        try:
            again = parse(other, mode, db)
            if refusals(run.catalog, again, db, SqlModes.of(run.session.sql_mode)):
                return ""
            table = apply(run.catalog, again, db).table(after.id)
        except DdlError:
            return ""
        if table is None or not _differs_in(after, table, words):
            return ""
        made = subjects.publish(run.changefeed.sent_table(table), target, run.question.zone)
        verdicts = [] if made.error or made.unsure else subjects.judge(self.change, target, None, made, standing)
        if made.error or made.unsure or not all(v.compatible for v in verdicts):
            return ""
        if dispatcher_failure(run.changefeed.dispatcher(table.id), table) or filter_failure(run.changefeed, table):
            return ""
        broken = [r for r in self._risks([], self._as_sent(replace(self.change, after=table))) if r.severity == "break"]
        before = {(r.id, r.column) for r in self.out.risks}
        return "" if any((r.id, r.column) in before for r in broken) else other

    def _target(self, target: SubjectTarget, sent: Table) -> None:
        run, change, out = self.run, self.change, self.out
        schemas = subjects.publish(sent, target, run.question.zone)
        virtual = [c.name for c in sent.columns if c.virtual]
        if target.protocol == "debezium-avro" and virtual:
            schemas = replace(schemas, error=f"virtual column {virtual[0]} is listed twice, which is no Avro schema")
        out.schemas.append(ReportedSchemas(str(sent.id), target, schemas, True))
        if schemas.unsure:
            self._say(UNKNOWN, f"The schema of {sent.id} is not known: {schemas.unsure}.")
            return
        if schemas.error:
            self._say(STOP, f"TiCDC can't write {sent.id} any more: {schemas.error}.")
        before = self._publish_before(target)
        standing = self._registry_state(target, before)
        old = before if self._old_subjects(target) == target.subjects else None
        verdicts = subjects.judge(change, target, old, schemas, standing) if not schemas.error else []
        out.subjects += verdicts
        for verdict in verdicts:
            if not verdict.compatible:
                self._say(STOP, f"{_STOP_AT_ROW}. {verdict.subject}: {verdict.reason}")
        others = subjects.subjects_elsewhere((change.before or sent).id, target, run.view)
        if others and not change.is_renamed:
            names = ", ".join(others[:3])
            out.notes.append(
                f"{names} holds rows of {sent.id}: are these the settings of the changefeed that writes it?"
            )
        advice = advise(self.sent, target, verdicts, out.risks, run.view.url, partial(self._attempt, target, standing))
        out.advice += [a for a in advice if a not in out.advice]

    def _publish_before(self, target: SubjectTarget) -> TargetSchema | None:
        before = self.change.before
        sent = self.run.changefeed.sent_table(before) if before is not None else None
        return subjects.publish(sent, target, self.run.question.zone) if sent is not None else None

    def _registry_state(self, target: SubjectTarget, before: TargetSchema | None) -> RegistryState:
        """The registry; its unknown subjects hold what the tables were first, where that is to be assumed."""
        assumed = self.run.assumed
        if self.run.question.assume and before is not None and target.subjects is not None:
            for subject, schema in zip(self._old_subjects(target) or (), (before.key, before.value), strict=False):
                if schema is not None:
                    assumed.setdefault(subject, schema)
        return RegistryState(self.run.view, self.run.pending, assumed)

    def _old_subjects(self, target: SubjectTarget) -> Sequence[str] | None:
        """Where the table's rows went before the statement: the topic may be named after the table."""
        table, feed = self.change.before, self.run.changefeed
        if table is None or not self.change.is_renamed:
            return target.subjects
        return feed.subjects_of(table.id) if feed.protocol else subjects.usual_target(table.id, feed).subjects

    def _judge_unregistered(self, sent: Table) -> TableFinding:
        """No settings, and no subject that holds the table: what could be is shown."""
        self.out.schemas = self._other_modes(sent, [])
        self.out.reason = (
            f"No subject of the registry holds rows of {sent.id}, and no changefeed settings are given: nothing is "
            "there to break."
        )
        failed = next((s.made for s in self.out.schemas if s.made.error or s.made.unsure), None)
        if failed is not None:
            self.out.verdict = UNKNOWN if failed.unsure else STOP
            self.out.reason = failed.unsure or f"TiCDC can't write {sent.id} in Avro: {failed.error}."
        self.out.advice = advise(self.change, self.out.schemas[0].target, [], self.out.risks, "", lambda _: "")
        return self.out

    def _other_modes(self, sent: Table, outputs: Sequence[SubjectTarget]) -> list[ReportedSchemas]:
        """Each mode of Avro whose schema is not shown yet."""
        texts = {s.made.value for s in self.out.schemas}
        reports = []
        for target in subjects.every_mode(sent, self.run.changefeed.keyspace):
            schemas = subjects.publish(sent, target, self.run.question.zone)
            if schemas.value is None or schemas.value not in texts:
                texts.add(schemas.value)
                reports.append(ReportedSchemas(str(sent.id), target, schemas, False))
            if schemas.value is None:
                break
        return reports

    def _say(self, verdict: Verdict, reason: str) -> None:
        if worst_verdict([verdict, self.out.verdict]) != self.out.verdict:
            self.out.verdict, self.out.reason = verdict, reason
        elif verdict == self.out.verdict != SAFE:
            self.out.reason += " " + reason


def _differs_in(table: Table, other: Table, names: Mapping[str, str]) -> bool:
    """True if nothing but NULL and the default of these columns differs."""

    def without(entry: Table) -> list[Column]:
        return [
            replace(c, nullable=True, has_default=False, default=None, default_unzoned=False)
            if c.name.lower() in names
            else c
            for c in entry.columns
        ]

    return without(table) == without(other) and replace(table, columns=()) == replace(other, columns=())


def dispatcher_failure(rule: Dispatcher | None, table: Table) -> str:
    """Why TiCDC can't find the partition of a table's rows, "" where it can (upstream ticdc eventrouter/partition)."""
    if rule is None:
        return ""
    who = f"the dispatcher for {', '.join(rule.matcher)} takes the partition from"
    missing = [name for name in rule.columns if not find(table.columns, name)] if rule.partition == "columns" else []
    if missing:
        return f"{who} column `{missing[0]}`, which {table.id} does not have"
    virtual = [c.name for name in rule.columns if (c := find(table.columns, name)) and c.virtual]
    if rule.partition == "columns" and virtual:
        return f"{who} column `{virtual[0]}`, which is a virtual column of {table.id}: rows do not carry it"
    named = rule.index if rule.partition in ("index-value", "rowid") else ""
    if named and not find(table.indexes, named):
        return f"{who} index `{named}`, which {table.id} does not have"
    keys = [c for c in table.columns if c.primary_key]
    clustered = table.details is not None and table.details.clustered is True
    if named.upper() == "PRIMARY" and clustered and len(keys) == 1 and keys[0].type.kind is Kind.INTEGER:
        return f"{who} index `PRIMARY`, and TiDB keeps no index for the clustered integer key of {table.id}"
    return ""
