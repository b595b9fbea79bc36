"""A dry run's result, and its JSON form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ticdc_bridge.schemas.model.table import Table
from ticdc_bridge.service.ddl_check.advice import Advice
from ticdc_bridge.service.ddl_check.refusals.definitions import Refusal
from ticdc_bridge.service.ddl_check.risks import Risk
from ticdc_bridge.service.ddl_check.statements import ParsedStatement
from ticdc_bridge.service.ddl_check.subjects import SubjectTarget, SubjectVerdict, TargetSchema
from ticdc_bridge.service.history.table_json import table_form

Verdict = Literal["safe", "would stop", "cannot judge", "refused"]
SAFE: Final = "safe"
STOP: Final = "would stop"
UNKNOWN: Final = "cannot judge"
REFUSED: Final = "refused"
EXIT: Final[dict[str, int]] = {SAFE: 0, STOP: 1, UNKNOWN: 3, REFUSED: 3}
_SUMMED: Final = ("schemas", "subjects", "spark", "risks", "advice", "refusals")
_RANK: Final = (SAFE, UNKNOWN, REFUSED, STOP)


def worst_verdict(verdicts: Sequence[Verdict]) -> Verdict:
    """`would stop` over `refused` over `cannot judge` over `safe`."""
    return max(verdicts, key=_RANK.index, default=SAFE)


@dataclass(frozen=True, slots=True)
class ReportedSchemas:
    """The schemas that a changefeed writes for a table after the statement. judged: the verdict is about these."""

    table: str
    target: SubjectTarget
    made: TargetSchema
    judged: bool

    def form(self) -> dict[str, Any]:
        key, value = self.target.subjects or (None, None)
        return {
            "table": self.table,
            "protocol": self.target.protocol,
            "mode": self.target.mode(),
            "judged": self.judged,
            "known_from": self.target.why,
            "topic": self.target.topic or None,
            "key_subject": key,
            "value_subject": value,
            "key": self.made.key,
            "value": self.made.value,
            "error": self.made.error or self.made.unsure or None,
        }


@dataclass(frozen=True, slots=True)
class StatementReport:
    """About one statement. reason: of the verdict, in one or two sentences."""

    understood: ParsedStatement
    verdict: Verdict
    reason: str
    tables: tuple[str, ...] = ()
    before: tuple[Table, ...] = ()
    after: tuple[Table, ...] = ()
    schemas: tuple[ReportedSchemas, ...] = ()
    subjects: tuple[SubjectVerdict, ...] = ()
    spark: tuple[str, ...] = ()
    risks: tuple[Risk, ...] = ()
    advice: tuple[Advice, ...] = ()
    notes: tuple[str, ...] = field(default=())
    refusals: tuple[Refusal, ...] = ()

    def form(self) -> dict[str, Any]:
        one = self.understood
        return {
            "verdict": self.verdict,
            "reason": self.reason,
            "statement": {
                "sql": one.sql,
                "line": one.line,
                "db": one.db,
                "kind": one.kind,
                "ddl_type": one.ddl_type,
                "tables": list(self.tables),
                "clauses": list(one.clauses),
                "reaches_changefeed": one.reaches,
                "error": one.error or None,
            },
            "before": [table_form(t) for t in self.before],
            "after": [table_form(t) for t in self.after],
            "schemas": [s.form() for s in self.schemas],
            "subjects": [s.form() for s in self.subjects],
            "spark": list(self.spark),
            "risks": [r.form() for r in self.risks],
            "advice": [a.form() for a in self.advice],
            "notes": list(self.notes),
            "refusals": [{"number": r.number, "text": r.text} for r in self.refusals],
        }


@dataclass(frozen=True, slots=True)
class CheckReport:
    """About all statements of a text, in order."""

    each: tuple[StatementReport, ...]
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        return worst_verdict([r.verdict for r in self.each])

    def form(self) -> dict[str, Any]:
        """One statement: its report. Several: the same keys about all of them, and `statements` with each report."""
        if len(self.each) == 1:
            only = self.each[0].form()
            return {**only, "notes": [*only["notes"], *self.notes]}
        forms = [r.form() for r in self.each]
        decisive = next((f for f in forms if f["verdict"] == self.verdict), None)
        number = forms.index(decisive) + 1 if decisive else 0
        summed = {name: [one for f in forms for one in f[name]] for name in _SUMMED}
        return {
            "verdict": self.verdict,
            "reason": f"statement {number}: {decisive['reason']}" if decisive else "there is no statement",
            "statement": {"count": len(forms), "decided_by": number, **(decisive or {}).get("statement", {})},
            "before": _merge_tables([r.before for r in self.each], first=True),
            "after": _merge_tables([r.after for r in self.each], first=False),
            **summed,
            "notes": list(self.notes),
            "statements": forms,
        }


def _merge_tables(each: list[tuple[Table, ...]], first: bool) -> list[dict[str, Any]]:
    """Each table once: as it was first, or as it is at last."""
    by_name: dict[tuple[str, str], Table] = {}
    for tables in each:
        for table in tables:
            key = (table.id.db, table.id.table)
            if not (first and key in by_name):
                by_name[key] = table
    return [table_form(t) for t in by_name.values()]
