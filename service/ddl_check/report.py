"""A dry run's result, and its JSON form."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, Literal

from ticdc_bridge.schemas.model.table import Table, TableId
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


def worst_verdict(verdicts: Sequence[Verdict]) -> Verdict:
    """`would stop` over `refused` over `cannot judge` over `safe`."""
    return max(verdicts, key=(SAFE, UNKNOWN, REFUSED, STOP).index, default=SAFE)


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
            "table": self.table, "protocol": self.target.protocol, "mode": self.target.mode(), "judged": self.judged,
            "known_from": self.target.why, "topic": self.target.topic or None, "key_subject": key,
            "value_subject": value, "key": self.made.key, "value": self.made.value,
            "error": self.made.error or self.made.unsure or None,
        }  # fmt: skip


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
        entry = self.understood
        return {
            "verdict": self.verdict,
            "reason": self.reason,
            "statement": {
                "sql": entry.sql, "line": entry.line, "db": entry.db, "kind": entry.kind, "ddl_type": entry.ddl_type,
                "tables": list(self.tables), "clauses": list(entry.clauses), "reaches_changefeed": entry.reaches,
                "error": entry.error or None,
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
        }  # fmt: skip


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
        summed = {name: [entry for f in forms for entry in f[name]] for name in _SUMMED}
        return {
            "verdict": self.verdict,
            "reason": f"statement {number}: {decisive['reason']}" if decisive else "there is no statement",
            "statement": {"count": len(forms), "decided_by": number, **(decisive or {}).get("statement", {})},
            "before": _merge_tables([r.before for r in self.each], first=True),
            "after": _merge_tables([r.after for r in self.each], first=False), **summed, "notes": list(self.notes),
            "statements": forms,
        }  # fmt: skip


def _merge_tables(each: list[tuple[Table, ...]], first: bool) -> list[dict[str, Any]]:
    """Each table once: as it was first, or as it is at last."""
    tables: dict[TableId, Table] = {}
    for table in chain.from_iterable(each):
        tables[table.id] = tables.get(table.id, table) if first else table
    return [table_form(t) for t in tables.values()]


Form = Mapping[str, Any]
_SHOWN_COMMAND: Final = 400
_LEVELS: Final = {"safe": "notice", "would stop": "error", "cannot judge": "warning", "refused": "error"}
_SIGNS: Final = {"safe": "✅", "would stop": "❌", "cannot judge": "❔", "refused": "🚫"}


def statements(form: Form) -> list[Form]:
    """The reports of a form, one for each statement."""
    reports = form.get("statements")
    return list(reports) if isinstance(reports, list) else [form]


def text(form: Form) -> Iterator[str]:
    """Lines for a terminal."""
    each = statements(form)
    for number, entry in enumerate(each, 1):
        if len(each) > 1:
            yield f"--- statement {number} of {len(each)} (line {entry['statement']['line']})"
        yield from _statement_lines(entry)
    if len(each) > 1:
        yield f"all {len(each)} statements: {form['verdict']}"
    for note in form["notes"] if len(each) > 1 else ():
        yield f"note: {note}"


def _statement_lines(form: Form) -> Iterator[str]:
    statement = form["statement"]
    yield f"{form['verdict'].upper()}: {form['reason']}"
    yield f"statement: {statement['kind']}{' ' + ', '.join(statement['tables']) if statement['tables'] else ''}"
    yield from (f"  - {clause}" for clause in statement["clauses"])
    yield from (f"refused ({refusal['number']}): {refusal['text']}" for refusal in form["refusals"][1:])
    yield from _columns(form)
    for subject in form["subjects"]:
        newest, against = subject["against"], "nothing"
        if newest is not None:
            against = "the table before" if newest["assumed"] else f"version {newest['version']} (id {newest['id']})"
        answer = "compatible" if subject["compatible"] else "REFUSED"
        yield f"subject {subject['subject']}: {answer} under {subject['level']}, against {against}"
        yield from (f"  warning: {message}" for message in subject["warnings"])
    for view in form["schemas"]:
        if view["judged"] or not any(v["judged"] for v in form["schemas"]):
            mode = ", ".join(f"{k}={str(v).lower()}" for k, v in view["mode"].items())
            yield f"schema of {view['table']} ({view['protocol']}; {mode}; {view['known_from']}):"
            yield f"  {view['value'] or view['error'] or 'the protocol registers none'}"
    yield from (f"spark: {line}" for line in form["spark"])
    yield from (f"risk ({risk['severity']}): {risk['text']}" for risk in form["risks"])
    for entry in form["advice"]:
        yield f"advice{' (verified)' if entry['checked'] else ''}: {entry['text']}"
        yield from (f"    {command}" for command in entry["commands"])
    yield from (f"note: {note}" for note in form["notes"])


def _columns(form: Form) -> Iterator[str]:
    before = {(t["db"], t["table"]): t for t in form["before"]}
    after = {(t["db"], t["table"]): t for t in form["after"]}
    for key in dict.fromkeys([*before, *after]):
        old, new = _lines(before.get(key)), _lines(after.get(key))
        if old == new:
            continue
        yield f"table {key[0]}.{key[1]}:"
        yield from (f"  - {line}" for line in old if line not in new)
        yield from (f"  + {line}" for line in new if line not in old)


def _lines(table: Form | None) -> list[str]:
    if table is None:
        return []
    columns = []
    for c in table["columns"]:
        default = "" if c["default"] is None else f" DEFAULT {c['default']}"
        columns.append(f"`{c['name']}` {c['type']}{'' if c['nullable'] else ' NOT NULL'}{default}")
    keys = [f"PRIMARY KEY ({', '.join(table['primary_key'])})"] if table["primary_key"] else []
    return [*columns, *keys, *(f"UNIQUE {n} ({', '.join(k)})" for n, k in table["unique_keys"].items())]


# ---- GitHub Actions
def github(form: Form, file: str) -> Iterator[str]:
    """Workflow commands: an annotation for each statement, and one for each risk of a loss."""
    for entry in statements(form):
        line = entry["statement"]["line"]
        title, reason = f"check-ddl: {entry['verdict']}", entry["reason"]
        if entry["verdict"] == "would stop" and entry["advice"]:
            reason += f" Advice: {entry['advice'][0]['text']}."
        yield annotation(_LEVELS[entry["verdict"]], file, line, title, reason)
        for risk in entry["risks"]:
            if risk["severity"] != "change":
                yield annotation("warning", file, line, f"check-ddl: {risk['id']}", risk["text"])
    for note in form["notes"]:
        yield annotation("notice", "", None, "check-ddl", note)


def annotation(level: str, file: str, line: int | None, title: str, message: str) -> str:
    """One workflow command. https://docs.github.com/actions → workflow commands."""
    where = [f"file={_property(file)}"] if file else []
    where += [f"line={line}"] if file and line else []
    where.append(f"title={_property(title)}")
    return f"::{level} {','.join(where)}::{_data(message)}"


def _data(value: str) -> str:
    return value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: str) -> str:
    return _data(value).replace(":", "%3A").replace(",", "%2C")


def summary(form: Form, file: str) -> str:
    """Markdown for the job's summary."""
    lines = [f"### check-ddl{' ' + file if file else ''}: {_SIGNS[form['verdict']]} {form['verdict']}", ""]
    lines += ["| line | statement | tables | verdict | why |", "|---|---|---|---|---|"]
    for entry in statements(form):
        head, verdict = entry["statement"], f"{_SIGNS[entry['verdict']]} {entry['verdict']}"
        cells = (str(head["line"]), head["kind"], ", ".join(head["tables"]), verdict, entry["reason"])
        lines.append("| " + " | ".join(_cell(c) for c in cells) + " |")
    risks = [r for r in form["risks"] if r["severity"] != "change"]
    if risks:
        lines += ["", "**Risks**", "", *(f"- {_cell(r['text'])}" for r in risks)]
    if form["advice"]:
        lines += ["", "**Advice**", ""]
        for entry in form["advice"]:
            lines.append(f"- {_cell(entry['text'])}")
            lines += [f"  - `{_cell(c[:_SHOWN_COMMAND])}`" for c in entry["commands"]]
    return "\n".join(lines) + "\n"


def _cell(value: str) -> str:
    """Text that Markdown and HTML leave alone."""
    escaped = value.replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|").replace("@", "@\u200b")
    return " ".join(escaped.split())
