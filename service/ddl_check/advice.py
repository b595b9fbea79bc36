"""What to do instead, or before: each step checked against the registry where it can be."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from ticdc_bridge.schemas.model.names import sanitise_name
from ticdc_bridge.schemas.model.types import Kind
from ticdc_bridge.service.changefeed.known_faults import FAULTS
from ticdc_bridge.service.ddl_check.risks import Risk
from ticdc_bridge.service.ddl_check.subjects import SubjectTarget, SubjectVerdict
from ticdc_bridge.service.ddl_check.table_changes import TableChange

_JSON = "-H 'Content-Type: application/vnd.schemaregistry.v1+json'"


@dataclass(frozen=True, slots=True)
class Advice:
    """One way out. commands: to run in this order. checked: the registry would accept it: it was asked."""

    id: str
    text: str
    commands: tuple[str, ...] = ()
    checked: bool = False

    def form(self) -> dict[str, Any]:
        return {"id": self.id, "text": self.text, "commands": list(self.commands), "checked": self.checked}


OTHER_FILTER: Final = Advice(
    "other-filter",
    "Before the statement take the column out of the event filter's expression: pause the changefeed, update its "
    "configuration, resume it",
)
OTHER_DISPATCHER: Final = Advice(
    "other-dispatcher",
    "Before the statement let the dispatcher take the partition from what stays (`table`, or `index-value` without an "
    "index): pause the changefeed, update its configuration, resume it. Rows of one key may change their partition",
)


def advise(
    change: TableChange,
    target: SubjectTarget,
    verdicts: Sequence[SubjectVerdict],
    risks: Sequence[Risk],
    url: str,
    attempt: Callable[[Mapping[str, str]], str],
) -> list[Advice]:
    """For one table and one target. url: of the registry.

    attempt: the statement with other words for the NOT NULL of these columns, if it is taken so; else "".
    """
    refused = [v for v in verdicts if v.rehearsal.refusal == "INCOMPATIBLE_SCHEMA"]
    advice = list(_of_columns(change, target, attempt)) if refused else []
    advice += [_window(v, url) for v in refused]
    advice += list(_by_level(refused, change))
    for verdict in verdicts:
        if verdict.rehearsal.refusal in ("READ_ONLY", "NOT_IN_READ_WRITE_MODE"):
            where = f"{url or '$REGISTRY'}/mode/{quote(verdict.subject, safe='')}"
            command = f'curl -X PUT {_JSON} -d \'{{"mode":"READWRITE"}}\' {where}'
            advice.append(Advice("read-write", f"Let {verdict.subject} be written before the DDL", (command,)))
    for risk in risks:
        text = _BY_RISK.get(risk.id) or _BY_FAULT.get(risk.id)
        if text and (risk.id != "renamed-table" or sanitise_name(change.id.table) in target.topic):
            text = text.replace("{table}", str(change.id)).replace("{column}", risk.column)
            advice.append(Advice(risk.id, text))
    return advice


# ---- other definitions of the columns that the registry minds
def _of_columns(
    change: TableChange, target: SubjectTarget, attempt: Callable[[Mapping[str, str]], str]
) -> Iterator[Advice]:
    strict = [c for c in change.added_columns if not c.nullable and not c.primary_key]
    if not strict:
        return
    names = ", ".join(f"`{c.name}`" for c in strict)
    nullable = attempt({c.name.lower(): "NULL" for c in strict})
    if nullable:
        fill = "A" if all(c.virtual for c in strict) else "Fill it afterwards; a"
        text = f"Allow NULL in {names}. {fill} later NOT NULL would be refused again under BACKWARD"
        yield Advice("allow-null", text, (nullable,), True)
    without = [c for c in strict if not c.has_default_value and not c.virtual]
    if without and all(c.type.kind in _EXAMPLES and c.type.name not in _NO_DEFAULT for c in without):
        with_defaults = attempt({c.name.lower(): f"NOT NULL DEFAULT {_EXAMPLES[c.type.kind]}" for c in without})
        if with_defaults:
            names = ", ".join(f"`{c.name}`" for c in without)
            text = f"Give {names} a default: readers fill it into rows that are in the topic already"
            yield Advice("give-default", text, (with_defaults,), True)
    if any(c.type.kind is Kind.DECIMAL for c in strict) and target.options.avro_decimal_handling_mode == "precise":
        text = (
            "A default does not help a DECIMAL here: TiCDC writes no Avro default in mode `precise`. Allow NULL, or "
            "use a compatibility window"
        )
        yield Advice("decimal-no-default", text)


_EXAMPLES: dict[Kind, str] = {
    Kind.INTEGER: "0", Kind.FLOAT: "0", Kind.DOUBLE: "0", Kind.DECIMAL: "0", Kind.TEXT: "''", Kind.YEAR: "2000",
    Kind.DATE: "'2000-01-01'", Kind.DATETIME: "'2000-01-01 00:00:00'", Kind.TIME: "'00:00:00'",
    Kind.TIMESTAMP: "'2000-01-01 00:00:00'",
}  # fmt: skip
# TiDB gives TEXT, BLOB and JSON columns no literal default.
_NO_DEFAULT = ("tinytext", "text", "mediumtext", "longtext")


# ---- through the registry
def _window(verdict: SubjectVerdict, url: str) -> Advice:
    """A compatibility window around the registration of the new schema, so short that nothing else gets in."""
    base = url or "$REGISTRY"
    subject = quote(verdict.subject, safe="")
    body = _shell(json.dumps({"schema": verdict.schema}, ensure_ascii=False))
    level = _shell(json.dumps({"compatibility": verdict.rehearsal.level}))
    back = f"curl -X DELETE {base}/config/{subject}"
    if verdict.rehearsal.has_level:
        back = f"curl -X PUT {_JSON} -d {level} {base}/config/{subject}"
    text = (
        f"Open a compatibility window for {verdict.subject}: set the level NONE, register the new schema yourself, "
        f"set the level back ({verdict.rehearsal.level}), and only then run the DDL. TiCDC's own registration at the "
        "first row then finds the schema and gets its id. Consumers that look up the "
        "schema by its id can read both versions; check all others"
    )
    commands = (
        f'curl -X PUT {_JSON} -d \'{{"compatibility":"NONE"}}\' {base}/config/{subject}',
        f"curl -X POST {_JSON} -d {body} {base}/subjects/{subject}/versions",
        back,
    )
    return Advice("compatibility-window", text, commands)


def _shell(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _by_level(refused: Sequence[SubjectVerdict], change: TableChange) -> Iterator[Advice]:
    levels = {v.rehearsal.level for v in refused}
    if any(level.startswith(("FORWARD", "FULL")) for level in levels) and change.dropped_columns:
        yield Advice(
            "give-default-first",
            "Another order of steps: give the column a default first (or allow NULL), write a row so that the schema "
            "with the default is registered, and drop it afterwards; under a transitive level this does not help",
        )
    nulls = [new for old, new in change.pairs if old.nullable and not new.nullable]
    if nulls and any(not level.startswith("FORWARD") for level in levels):
        names = ", ".join(f"`{c.name}`" for c in nulls)
        yield Advice(
            "keep-null", f"Leave {names} nullable and refuse NULL in the application, or with a CHECK constraint"
        )


# ---- by what was found
_BY_RISK: dict[str, str] = {
    "not-null": "Look for NULLs first: SELECT COUNT(*) FROM {table} WHERE `{column}` IS NULL",
    "rounded": "Look for values that would be rounded first, and re-send the table afterwards if consumers keep copies",
    "narrowed": "Look for values out of the new range first",
    "shortened": "Look for longer values first: SELECT MAX(CHAR_LENGTH(`{column}`)) FROM {table}",
    "renumbered": "Add new elements at the end instead, or move to a new column; decode with --ddl or --history, so "
    "that each row is read with the elements of its time",
    "elements-lost": "Look for rows with these elements first",
    "dropped": "Take the column out of the consumers first, then drop it",
    "renamed": "Add the new column, fill both, move the consumers, drop the old one: four steps that are compatible "
    "each",
    "renamed-table": "Let the consumers subscribe to the table's new topic before the rename, and keep the old one "
    "until it is read",
    "no-handle-key": "Keep a primary key, or a unique key over NOT NULL columns",
    "handle-key": "Drain the consumers up to the DDL's commit_ts before rows with the new key come, or read into a "
    "new topic",
    "truncated": "Empty the target too, at the DDL's commit_ts; or DELETE in batches, which sends row events",
    "partitions-dropped": "Delete the same rows downstream; or DELETE before dropping the partition, which sends row "
    "events",
    "partitions-exchanged": "Reload both tables downstream; or move the rows with INSERT … SELECT and DELETE",
    "decimal-double": "Use protocol avro or debezium-avro, or debezium-decimal-handling-mode=string where TiCDC has it",
    "unsigned-long": "Set avro-bigint-unsigned-handling-mode=string (a change of it breaks compatibility once); with "
    "protocol debezium, debezium-bigint-unsigned-handling-mode=string where TiCDC has it",
    "zone": "Write down TiCDC's time zone and give it to readers (--time-zone)",
    "virtual-twice": "Leave the column out with a column selector. STORED is possible in CREATE TABLE only",
    "null-panic": "Leave the default out, or make the column NOT NULL",
    "clock-default": "Leave the default out and fill the column in the application, or read by schema id",
    "recovered": "Reload the table downstream, or write each row once (UPDATE … SET c = c sends nothing: change a "
    "column)",
    "dropped-table": "Delete the subjects once nothing reads them, before a table of this name is created again",
}

_BY_FAULT = {fault.id: fault.fix for fault in FAULTS}
