"""Reports for people: plain text, and GitHub's annotations and summary. All take the JSON form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

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
    for number, one in enumerate(each, 1):
        if len(each) > 1:
            yield f"--- statement {number} of {len(each)} (line {one['statement']['line']})"
        yield from _statement_lines(one)
    if len(each) > 1:
        yield f"all {len(each)} statements: {form['verdict']}"
    for note in form["notes"] if len(each) > 1 else ():
        yield f"note: {note}"


def _statement_lines(form: Form) -> Iterator[str]:
    statement = form["statement"]
    yield f"{form['verdict'].upper()}: {form['reason']}"
    yield f"statement: {statement['kind']}{' ' + ', '.join(statement['tables']) if statement['tables'] else ''}"
    yield from (f"  - {clause}" for clause in statement["clauses"])
    yield from (f"refused ({one['number']}): {one['text']}" for one in form["refusals"][1:])
    yield from _columns(form)
    for one in form["subjects"]:
        against = _version_text(one["against"])
        answer = "compatible" if one["compatible"] else "REFUSED"
        yield f"subject {one['subject']}: {answer} under {one['level']}, against {against}"
        yield from (f"  warning: {message}" for message in one["warnings"])
    for view in form["schemas"]:
        if view["judged"] or not any(v["judged"] for v in form["schemas"]):
            mode = ", ".join(f"{k}={str(v).lower()}" for k, v in view["mode"].items())
            yield f"schema of {view['table']} ({view['protocol']}; {mode}; {view['known_from']}):"
            yield f"  {view['value'] or view['error'] or 'the protocol registers none'}"
    yield from (f"spark: {line}" for line in form["spark"])
    yield from (f"risk ({one['severity']}): {one['text']}" for one in form["risks"])
    for one in form["advice"]:
        yield f"advice{' (verified)' if one['checked'] else ''}: {one['text']}"
        yield from (f"    {command}" for command in one["commands"])
    yield from (f"note: {note}" for note in form["notes"])


def _version_text(form: Form | None) -> str:
    if form is None:
        return "nothing"
    return "the table before" if form["assumed"] else f"version {form['version']} (id {form['id']})"


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
    for one in statements(form):
        line = one["statement"]["line"]
        title = f"check-ddl: {one['verdict']}"
        yield annotation(_LEVELS[one["verdict"]], file, line, title, one["reason"] + _first(one))
        for risk in one["risks"]:
            if risk["severity"] != "change":
                yield annotation("warning", file, line, f"check-ddl: {risk['id']}", risk["text"])
    for note in form["notes"]:
        yield annotation("notice", "", None, "check-ddl", note)


def _first(form: Form) -> str:
    advice = next((a["text"] for a in form["advice"]), "") if form["verdict"] == "would stop" else ""
    return f" Advice: {advice}." if advice else ""


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
    for one in statements(form):
        head = one["statement"]
        cells = (
            str(head["line"]), head["kind"], ", ".join(head["tables"]), f"{_SIGNS[one['verdict']]} {one['verdict']}",
            one["reason"],
        )  # fmt: skip
        lines.append("| " + " | ".join(_cell(c) for c in cells) + " |")
    risks = [r for r in form["risks"] if r["severity"] != "change"]
    if risks:
        lines += ["", "**Risks**", "", *(f"- {_cell(r['text'])}" for r in risks)]
    if form["advice"]:
        lines += ["", "**Advice**", ""]
        for one in form["advice"]:
            lines.append(f"- {_cell(one['text'])}")
            lines += [f"  - `{_cell(c[:_SHOWN_COMMAND])}`" for c in one["commands"]]
    return "\n".join(lines) + "\n"


def _cell(value: str) -> str:
    """Text that Markdown and HTML leave alone."""
    escaped = value.replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|").replace("@", "@\u200b")
    return " ".join(escaped.split())
