"""One table of a statement: would the changefeed stop at it, and what does the change mean to its readers?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from ticdc_bridge.schemas.ddl.executor.apply import apply
from ticdc_bridge.schemas.ddl.executor.catalog import Catalog
from ticdc_bridge.schemas.ddl.executor.indexes import find
from ticdc_bridge.schemas.ddl.parser.statement_parser import parse
from ticdc_bridge.schemas.model.errors import DdlError
from ticdc_bridge.schemas.model.table import Column, Table
from ticdc_bridge.schemas.model.types import Kind
from ticdc_bridge.service.changefeed.known_faults import STOPS
from ticdc_bridge.service.changefeed.settings import ChangefeedSettings
from ticdc_bridge.service.changefeed.topics import Dispatcher
from ticdc_bridge.service.ddl_check.advice import OTHER_DISPATCHER, advise
from ticdc_bridge.service.ddl_check.check_input import CheckInput
from ticdc_bridge.service.ddl_check.descriptions import describe_effect
from ticdc_bridge.service.ddl_check.filter_expressions import OTHER_FILTER, filter_failure
from ticdc_bridge.service.ddl_check.listed_schemas import RegisteredSchemas
from ticdc_bridge.service.ddl_check.refusals.definitions import SqlModes
from ticdc_bridge.service.ddl_check.refusals.statements import refusals
from ticdc_bridge.service.ddl_check.report import SAFE, STOP, UNKNOWN, ReportedSchemas, Verdict, worst_verdict
from ticdc_bridge.service.ddl_check.rewriting import rewrite_not_null
from ticdc_bridge.service.ddl_check.risks import risks
from ticdc_bridge.service.ddl_check.session import Session
from ticdc_bridge.service.ddl_check.statements import ParsedStatement
from ticdc_bridge.service.ddl_check.table_changes import TableChange
from ticdc_bridge.service.ddl_check.target_schemas import (
    SubjectTarget,
    TargetSchema,
    every_mode,
    publish,
    subjects_elsewhere,
    targets,
    usual_target,
)
from ticdc_bridge.service.ddl_check.verdicts import RegistryState, SubjectVerdict, judge
from ticdc_bridge.service.registry.model import Content


class CheckState(Protocol):
    """What one dry run holds between its statements."""

    question: CheckInput
    view: RegisteredSchemas
    changefeed: ChangefeedSettings
    catalog: Catalog
    session: Session
    pending: dict[str, list[Content]]
    assumed: dict[str, str]


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
    """One table of a statement."""

    def __init__(self, run: CheckState, change: TableChange, statement: ParsedStatement) -> None:
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
        out.spark = describe_effect(self.sent)
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
        outputs = targets(self.run.changefeed, None, change.before, self.run.view)
        out.risks = self._risks(outputs)
        out.advice = [a for t in outputs[:1] for a in advise(change, t, [], out.risks, "", _untried)]
        for target in outputs or [usual_target(change.before.id, self.run.changefeed)]:
            self._registry_state(target, self._publish_before(target))
        word = "is gone" if change.after is None else "leaves what the changefeed replicates"
        out.reason = f"{change.before.id} {word}: no schema is registered for it."
        return out

    def _judge_written(self, after: Table) -> TableFinding:
        run, change, out = self.run, self.change, self.out
        sent = run.changefeed.sent_table(after)
        outputs = targets(run.changefeed, change.before, after, run.view)
        if not outputs and run.question.assume:
            outputs = [usual_target(after.id, run.changefeed)]
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
        if not out.reason:
            out.reason = _safe_reason(change, outputs, out.subjects)
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
                self._say(STOP, f"The changefeed would stop at the first row after the DDL: {reason}.")
                self.out.advice.append(advice)

    def _judge_breaks(self) -> None:
        version = self.run.changefeed.ticdc_version
        for risk in self.out.risks:
            if risk.severity == "break" and (risk.id in _STOPS or (version and risk.id in STOPS)):
                self._say(STOP, f"The changefeed would stop at the first row after the DDL: {risk.text}.")
            elif risk.severity == "break":
                self._say(UNKNOWN, f"It depends on the rows or on the readers: {risk.text}.")

    def _attempt(self, words: Mapping[str, str], is_accepted: Callable[[Table], bool]) -> str:
        """The statement with other words for NOT NULL, if TiDB takes it and the changefeed goes on; else ""."""
        run, after = self.run, self.change.after
        sql, db, mode = self.statement.sql, self.statement.db, run.session.mode
        other = rewrite_not_null(sql, mode, words)
        if not other or after is None:
            return ""
        try:
            again = parse(other, mode, db)
            if refusals(run.catalog, again, db, SqlModes.of(run.session.sql_mode)):
                return ""
            table = apply(run.catalog, again, db).table(after.id)
        except DdlError:
            return ""
        if table is None or not _differs_in(after, table, words) or not is_accepted(table):
            return ""
        if dispatcher_failure(run.changefeed.dispatcher(table.id), table) or filter_failure(run.changefeed, table):
            return ""
        broken = [r for r in self._risks([], self._as_sent(replace(self.change, after=table))) if r.severity == "break"]
        before = {(r.id, r.column) for r in self.out.risks}
        return "" if any((r.id, r.column) in before for r in broken) else other

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

        def attempt(words: Mapping[str, str]) -> str:
            return self._attempt(words, is_accepted)

        others = subjects_elsewhere((change.before or sent).id, target, run.view)
        if others and not change.is_renamed:
            names = ", ".join(others[:3])
            out.notes.append(
                f"{names} holds rows of {sent.id}: are these the settings of the changefeed that writes it?"
            )
        advice = advise(self.sent, target, verdicts, out.risks, run.view.url, attempt)
        out.advice += [a for a in advice if a not in out.advice]

    def _publish_before(self, target: SubjectTarget) -> TargetSchema | None:
        before = self.change.before
        return publish(self.run.changefeed.sent_table(before), target, self.run.question.zone) if before else None

    def _registry_state(self, target: SubjectTarget, before: TargetSchema | None) -> RegistryState:
        """The registry; its unknown subjects hold what the tables were first, where that is to be assumed."""
        assumed = self.run.assumed
        if self.run.question.assume and before is not None and target.subjects is not None:
            for subject, schema in zip(self._subjects_before(target), (before.key, before.value), strict=False):
                if schema is not None:
                    assumed.setdefault(subject, schema)
        return RegistryState(self.run.view, self.run.pending, assumed)

    def _subjects_before(self, target: SubjectTarget) -> tuple[str, str] | tuple[()]:
        """Those of the table before the statement: its topic may be named after it."""
        before, after, feed = self.change.before, self.change.after, self.run.changefeed
        if before is None or target.subjects is None:
            return ()
        if after is None or before.id == after.id:
            return target.subjects
        return (feed.subjects_of(before.id) if feed.protocol else usual_target(before.id, feed).subjects) or ()

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
        first = self.out.schemas[0].target
        self.out.advice = advise(self.change, first, [], self.out.risks, "", _untried)
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


def _untried(_: Mapping[str, str]) -> str:
    return ""


_STOPS: Final = ("checksum-order",)
"""Risks of severity `break` at which TiCDC stops whatever the rows hold."""


def _safe_reason(change: TableChange, outputs: Sequence[SubjectTarget], verdicts: Sequence[SubjectVerdict]) -> str:
    if all(t.subjects is None for t in outputs):
        return f"Protocol {outputs[0].protocol} registers no schema: the registry can't stop it."
    if not verdicts:
        return f"{change.id} has no schema to register."
    reasons = list(dict.fromkeys(v.reason for v in verdicts))
    return " ".join(f"{v.subject}: {v.reason}" for v in verdicts) if len(reasons) > 1 else reasons[0]


def _differs_in(table: Table, other: Table, names: Mapping[str, str]) -> bool:
    """Whether nothing but NULL and the default of these columns differs."""

    def without(one: Table) -> list[Column]:
        return [
            replace(c, nullable=True, has_default=False, default=None, default_unzoned=False)
            if c.name.lower() in names
            else c
            for c in one.columns
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
    if named.upper() == "PRIMARY" and _is_row_id(table):
        return f"{who} index `PRIMARY`, and TiDB keeps no index for the clustered integer key of {table.id}"
    return ""


def _is_row_id(table: Table) -> bool:
    """Whether the primary key is TiDB's row id itself, so that no index of its name is among the table's."""
    keys = [c for c in table.columns if c.primary_key]
    clustered = table.details is not None and table.details.clustered is True
    return clustered and len(keys) == 1 and keys[0].type.kind is Kind.INTEGER
