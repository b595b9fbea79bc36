"""The dry run: each statement of a text against the tables and the registry as the former ones leave them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from schemas.ddl.executor.apply import affected_tables
from schemas.ddl.parser.lexer import WIRE
from schemas.ddl.parser.statements import CreateTable, DropTables, NoRowEffect, Statement
from schemas.model.errors import DdlError, SetupError
from schemas.model.table import Table, TableId
from service.ddl_check.advice import advise
from service.ddl_check.check_input import CheckInput
from service.ddl_check.descriptions import describe_effect
from service.ddl_check.refusals.columns import Refusal, SqlModes
from service.ddl_check.refusals.statements import refusals
from service.ddl_check.report import (
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
from service.ddl_check.risks import risks
from service.ddl_check.statements import ParsedStatement, Session, split, understand
from service.ddl_check.table_changes import TableChange, changes
from service.ddl_check.target_schemas import (
    SubjectTarget,
    TargetSchema,
    every_mode,
    publish,
    subjects_elsewhere,
    targets,
    usual_target,
)
from service.ddl_check.verdicts import RegistryState, SubjectVerdict, judge
from service.registry_view import RegistryView

MAX_COLUMNS = 60_000
"""Columns of all touched tables, before and after, over all statements: a report shows each of them."""
_PART = re.compile(r"`((?:[^`]|``)+)`|([\w$]+)")
_NAMED = re.compile(
    r"\b(?:TABLE|ON)\s+((?:`(?:[^`]|``)+`|[\w$]+)(?:\s*\.\s*(?:`(?:[^`]|``)+`|[\w$]+))?)", re.IGNORECASE
)


def check(question: CheckInput, view: RegistryView) -> CheckReport:
    """Reports on all statements. SetupError USAGE for a text without any statement, or with too much in it."""
    try:
        pieces = split(question.sql, question.mode)
    except DdlError as error:
        raise SetupError("USAGE", details=error.detail) from None
    if not pieces:
        raise SetupError("USAGE", details="there is no statement in the text")
    run = _Run(question, view)
    return CheckReport(tuple(run.statement(understand(piece, run.session), piece.sql) for piece in pieces), run.notes())


class _Run:
    """The state between statements."""

    def __init__(self, question: CheckInput, view: RegistryView) -> None:
        self.question, self.view = question, view
        self.changefeed = question.changefeed
        self.catalog = question.catalog
        self.session = Session(question.db, question.mode, question.sql_mode)
        self.pending: dict[str, list[str]] = {}
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

    def statement(self, one: ParsedStatement, sql: str) -> StatementReport:
        self.session = self.session.after_statement(sql)
        if one.error:
            self._lose(one)
            return StatementReport(one, UNKNOWN, f"The statement is not understood: {one.error}")
        if one.statement is None:
            return StatementReport(one, SAFE, one.note + ".")
        if isinstance(one.statement, NoRowEffect) and one.kind == "FLASHBACK TO TIMESTAMP":
            return StatementReport(
                one, UNKNOWN, "FLASHBACK to a time brings back tables and rows that no event tells of."
            )
        return self._apply_statement(one, one.statement)

    def _apply_statement(self, one: ParsedStatement, statement: Statement) -> StatementReport:
        ids: tuple[TableId, ...] = ()
        try:
            ids = affected_tables(self.catalog, statement, one.db)
            unsure = [(i, why) for i in ids if (why := self._find_doubt(i, statement))]
            refused = [] if unsure else self._refusals(one, statement)
            if refused:
                reason = f"TiDB refuses it: {refused[0].text} (error {refused[0].number})."
                tables = tuple(map(str, dict.fromkeys(ids)))
                return StatementReport(one, REFUSED, reason, tables=tables, refusals=tuple(refused))
            after, table_changes = changes(self.catalog, statement, one.db)
        except DdlError as error:
            self.lost.update(dict.fromkeys(map(_lower, ids), error.detail))
            return StatementReport(one, UNKNOWN, _not_applicable(error), tables=tuple(map(str, ids)))
        tables = tuple(map(str, dict.fromkeys(ids)))
        if unsure:
            self.catalog = after
            return StatementReport(
                one, UNKNOWN, f"Table {unsure[0][0]} is not fully known: {unsure[0][1]}.", tables=tables
            )
        report = self._judge_changes(one, table_changes)
        self.catalog = after
        return replace(report, tables=tables)

    def _refusals(self, one: ParsedStatement, statement: Statement) -> list[Refusal]:
        """What TiCDC sends, TiDB has taken."""
        if self.session.mode is WIRE:
            return []
        return refusals(self.catalog, statement, one.db, SqlModes.of(self.session.sql_mode))

    def _find_doubt(self, id_: TableId, statement: Statement) -> str:
        if isinstance(statement, (CreateTable, DropTables)):
            return ""
        return self.lost.get(_lower(id_)) or self.lost_all or self.question.unsure(id_)

    def _lose(self, one: ParsedStatement) -> None:
        """After a statement that was not read, nobody knows what it made of its table; or of any, if none is named."""
        why = f"the statement in line {one.line} was not understood"
        match = _NAMED.search(one.sql)
        if match is None:
            self.lost_all = why
            return
        parts = [(quoted or plain).replace("``", "`") for quoted, plain in _PART.findall(match[1])]
        self.lost[_lower(TableId(parts[0] if len(parts) > 1 else one.db, parts[-1]))] = why

    def _judge_changes(self, one: ParsedStatement, table_changes: list[TableChange]) -> StatementReport:
        self.columns += sum(len(t.columns) for c in table_changes for t in (c.before, c.after) if t is not None)
        if self.columns > MAX_COLUMNS:
            details = f"the statements touch tables with more than {MAX_COLUMNS} columns in all; check them in parts"
            raise SetupError("USAGE", details=details)
        parts = [_TableCheck(self, change).judge() for change in table_changes]
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
            if verdict.compatible and verdict.rehearsal.same is None:
                waiting = self.pending.setdefault(verdict.subject, [])
                if verdict.schema not in waiting:
                    waiting.append(verdict.schema)


@dataclass(slots=True)
class _TableFinding:
    """What was found out about one table."""

    verdict: Verdict = SAFE
    reason: str = ""
    schemas: list[ReportedSchemas] = field(default_factory=list)
    subjects: list[SubjectVerdict] = field(default_factory=list)
    spark: list[str] = field(default_factory=list)
    risks: list[Any] = field(default_factory=list)
    advice: list[Any] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class _TableCheck:
    """One table of a statement."""

    def __init__(self, run: _Run, change: TableChange) -> None:
        self.run, self.change = run, change
        self.out = _TableFinding()

    def judge(self) -> _TableFinding:
        change, out, feed = self.change, self.out, self.run.changefeed
        if not any(feed.replicates(t.id) for t in (change.before, change.after) if t is not None):
            out.reason = f"The changefeed's filter leaves {change.id} out."
            return out
        out.spark = describe_effect(change)
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

    def _judge_dropped(self) -> _TableFinding:
        change, out = self.change, self.out
        if change.before is None:
            out.reason = f"{change.id} is not known, and nothing has to be known to drop it."
            return out
        outputs = targets(self.run.changefeed, None, change.before, self.run.view)
        out.risks = _risks(change, outputs)
        out.advice = [a for t in outputs[:1] for a in advise(change, t, [], out.risks, "", _is_untried)]
        word = "is gone" if change.after is None else "leaves what the changefeed replicates"
        out.reason = f"{change.before.id} {word}: no schema is registered for it."
        return out

    def _judge_written(self, after: Table) -> _TableFinding:
        run, change, out = self.run, self.change, self.out
        sent = run.changefeed.sent_table(after)
        outputs = targets(run.changefeed, change.before, after, run.view)
        if not outputs and run.question.assume:
            outputs = [usual_target(after.id, run.changefeed)]
        out.risks = _risks(change, outputs)
        if not after.handle_key and not run.changefeed.get("force-replicate"):
            out.notes.append(f"{after.id} has no handle key: TiCDC does not replicate it unless force-replicate is on")
        if not outputs:
            return self._judge_unregistered(sent)
        for target in outputs:
            self._target(target, sent)
        if not run.changefeed.protocol:
            out.schemas += self._other_modes(sent, outputs)
        if not out.reason:
            out.reason = _safe_reason(change, outputs, out.subjects)
        return out

    def _target(self, target: SubjectTarget, sent: Table) -> None:
        run, change, out = self.run, self.change, self.out
        schemas = publish(sent, target, run.question.zone)
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
        verdicts = judge(change, target, before, schemas, standing) if not schemas.error else []
        out.subjects += verdicts
        for verdict in verdicts:
            if not verdict.compatible:
                self._say(
                    STOP,
                    f"The changefeed would stop at the first row after the DDL. {verdict.subject}: {verdict.reason}",
                )

        def is_accepted(table: Table) -> bool:
            other = publish(run.changefeed.sent_table(table), target, run.question.zone)
            if other.error or other.unsure:
                return False
            again = judge(change, target, None, other, standing)
            return all(v.compatible for v in again)

        others = subjects_elsewhere((change.before or sent).id, target, run.view)
        if others and not change.is_renamed:
            names = ", ".join(others[:3])
            out.notes.append(
                f"{names} holds rows of {sent.id}: are these the settings of the changefeed that writes it?"
            )
        advice = advise(change, target, verdicts, out.risks, run.view.url, is_accepted)
        out.advice += [a for a in advice if a not in out.advice]

    def _publish_before(self, target: SubjectTarget) -> TargetSchema | None:
        before = self.change.before
        return publish(self.run.changefeed.sent_table(before), target, self.run.question.zone) if before else None

    def _registry_state(self, target: SubjectTarget, before: TargetSchema | None) -> RegistryState:
        """The registry; its unknown subjects hold what the tables were first, where that is to be assumed."""
        assumed = self.run.assumed
        if self.run.question.assume and before is not None and target.subjects is not None:
            for subject, schema in zip(target.subjects, (before.key, before.value), strict=True):
                if schema is not None:
                    assumed.setdefault(subject, schema)
        return RegistryState(self.run.view, self.run.pending, assumed)

    def _judge_unregistered(self, sent: Table) -> _TableFinding:
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
        first = self.out.schemas[0].target
        self.out.advice = advise(self.change, first, [], self.out.risks, "", _is_untried)
        return self.out

    def _other_modes(self, sent: Table, outputs: Sequence[SubjectTarget]) -> list[ReportedSchemas]:
        """Each mode of Avro whose schema is not shown yet."""
        texts = {s.made.value for s in self.out.schemas}
        reports = []
        for target in every_mode(sent, self.run.changefeed.keyspace):
            schemas = publish(sent, target, self.run.question.zone)
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


def _is_untried(_: Table) -> bool:
    return False


def _risks(change: TableChange, outputs: Sequence[SubjectTarget]) -> list[Any]:
    every = [r for t in outputs for r in risks(change, t)] if outputs else risks(change, None)
    return list(dict.fromkeys(every))


def _safe_reason(change: TableChange, outputs: Sequence[SubjectTarget], verdicts: Sequence[SubjectVerdict]) -> str:
    if all(t.subjects is None for t in outputs):
        return f"Protocol {outputs[0].protocol} registers no schema: the registry can't stop it."
    if not verdicts:
        return f"{change.id} has no schema to register."
    reasons = list(dict.fromkeys(v.reason for v in verdicts))
    return " ".join(f"{v.subject}: {v.reason}" for v in verdicts) if len(reasons) > 1 else reasons[0]


def _not_applicable(error: DdlError) -> str:
    if error.code == "DDL_UNKNOWN_TABLE":
        return f"{error.detail[0].upper()}{error.detail[1:]}."
    return (
        f"The statement does not fit the tables as known; TiDB would refuse it, or they have changed: {error.detail}."
    )


def _lower(id_: TableId) -> TableId:
    return TableId(id_.db.lower(), id_.table.lower())
