"""What changed between two times of a history: databases, tables, and what their columns and keys are.

A table is followed through renames by its logical table, a column by the statements in between; what could not be
followed says so. Statements that change nothing which a version keeps (TRUNCATE, partitions) are listed, not compared.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, get_args

from ticdc_bridge.schemas.ddl.executor.show_create import show_create
from ticdc_bridge.schemas.ddl.parser import statements as ddl
from ticdc_bridge.schemas.model.table import Table, TableId
from ticdc_bridge.service.history import model
from ticdc_bridge.service.history.changes import NamePaths, StructureChange, changes
from ticdc_bridge.service.history.model import DdlRecord, Key, NameRow, State, time_text
from ticdc_bridge.service.history.statements import statement_or_none

TableKind = Literal["created", "described", "dropped", "recreated", "renamed", "changed", "unknown"]
_CREATING: Final = (ddl.CreateTable, ddl.CreateRelation, ddl.RecoverTable, ddl.FlashbackDatabase)
_OF_DATABASES: Final = (ddl.CreateDatabase, ddl.AlterDatabase, ddl.DropDatabase, ddl.FlashbackDatabase)
_DESCRIBED: Final = "it was described in between, not created: what it was before is not known"
_NOT_FOLLOWED: Final = "a DDL in between was not understood: columns of the same name count as the same"


class Period(NamedTuple):
    """From which time to which, as commit_ts; inclusive: after DDL with exactly these commit_ts, not before it."""

    from_ts: int
    to_ts: int
    inclusive: bool = False


@dataclass(frozen=True, slots=True)
class HistorySpan:
    """What a store has of a period. names, databases: what each was before it (None: not known), and each row in it.

    events: by seq. tables: by form and name. contradicted: what rows and messages say against versions at its end.
    pending: how many events up to its end are not sealed.
    """

    feed: model.HistoryState
    period: Period
    names: Mapping[Key, tuple[NameRow | None, list[NameRow]]]
    databases: Mapping[str, tuple[model.DatabaseRow | None, list[model.DatabaseRow]]]
    events: Mapping[int, DdlRecord]
    tables: Mapping[tuple[bytes, TableId], Table]
    contradicted: Mapping[Key, model.Contradiction] = field(default_factory=dict)
    pending: int = 0

    def table(self, row: NameRow | None) -> Table | None:
        return self.tables[row.form, row.id] if row is not None and row.has_table and row.form else None

    def statements(self, rows: list[NameRow]) -> list[DdlRecord]:
        return [self.events[seq] for seq in dict.fromkeys(row.ddl for row in rows) if seq in self.events]


@dataclass(frozen=True, slots=True)
class TableDifference:
    """One table, view or sequence; before, after: its rows, None where there is none."""

    kind: TableKind
    before: NameRow | None
    after: NameRow | None
    shown: tuple[str | None, str | None]
    changes: list[StructureChange]
    notes: list[str]
    statements: list[DdlRecord]

    @property
    def id(self) -> TableId:
        row = self.after or self.before
        assert row is not None
        return row.id

    def form(self) -> dict[str, Any]:
        rows = zip((self.before, self.after), self.shown, strict=True)
        before, after = (None if row is None else _version(row, text) for row, text in rows)
        return {
            "kind": self.kind, "db": self.id.db, "table": self.id.table, "before": before, "after": after,
            "changes": [change.form() for change in self.changes], "notes": self.notes,
            "statements": [_statement_form(statement) for statement in self.statements],
        }  # fmt: skip


def _version(row: NameRow, text: str | None) -> dict[str, Any]:
    relation = {"relation": row.relation} if row.relation else {}
    named = {"db": row.id.db, "table": row.id.table, "state": str(row.state)}
    return {**named, "reason": row.reason or None, **relation, "commit_ts": row.from_ts, "show_create": text}


def _statement_form(entry: DdlRecord) -> dict[str, Any]:
    return {"commit_ts": entry.commit_ts, "time": time_text(entry.commit_ts), "kind": entry.kind, "query": entry.query}


@dataclass(slots=True)
class HistoryDiff:
    """The differences of a period, tables by name. others: tables without one, with their statements."""

    span: HistorySpan
    databases: list[dict[str, Any]] = field(default_factory=list)
    tables: list[TableDifference] = field(default_factory=list)
    others: list[dict[str, Any]] = field(default_factory=list)

    def form(self, offset: int = 0, limit: int | None = None) -> dict[str, Any]:
        """As JSON; offset, limit: of the tables. next_offset is None where there are no more."""
        feed, period, end = self.span.feed, self.span.period, None if limit is None else offset + limit
        counts = Counter(table.kind for table in self.tables)
        return {
            "changefeed": feed.name, "sealed_ts": feed.sealed_ts,
            "from": {"at": period.from_ts, "time": time_text(period.from_ts)},
            "to": {"at": period.to_ts, "time": time_text(period.to_ts)}, "inclusive": period.inclusive,
            "resolved": period.to_ts <= feed.sealed_ts, "pending": self.span.pending,
            "counts": {kind: counts[kind] for kind in get_args(TableKind) if counts[kind]},
            "databases": self.databases, "tables": [table.form() for table in self.tables[offset:end]],
            "other_statements": self.others,
            "next_offset": end if end is not None and end < len(self.tables) else None,
        }  # fmt: skip


def diff(span: HistorySpan) -> HistoryDiff:
    result = HistoryDiff(span)
    result.databases = list(_databases(span))
    identities: dict[str, _Identity] = {}
    for key, (before, rows) in span.names.items():
        if before is not None and before.is_live:
            _identity(identities, key, before).before = before
        for row in rows:
            _identity(identities, key, row).rows.append(row)
        last = rows[-1] if rows else before
        if last is not None and last.is_live:
            _identity(identities, key, last).after = last
    differences: dict[Key, list[TableDifference]] = {}
    for identity in identities.values():
        difference = _compare(span, identity)
        if isinstance(difference, TableDifference):
            id_ = difference.id.folded
            differences.setdefault((id_.db, id_.table), []).append(difference)
        elif difference is not None:
            result.others.append(difference)
    for _, some in sorted(differences.items()):
        result.tables += _join(span, some)
    result.others.sort(key=lambda entry: (entry["db"].lower(), entry["table"].lower()))
    return result


# ---- tables
@dataclass(slots=True)
class _Identity:
    """A logical table through the period: its row before it and at its end where it is there, and all its rows."""

    before: NameRow | None = None
    after: NameRow | None = None
    rows: list[NameRow] = field(default_factory=list)


def _identity(identities: dict[str, _Identity], key: Key, row: NameRow) -> _Identity:
    return identities.setdefault(row.table_id or f"{row.relation}\0{key[0]}\0{key[1]}", _Identity())


def _compare(span: HistorySpan, identity: _Identity) -> TableDifference | dict[str, Any] | None:
    before, after = identity.before, identity.after
    rows = sorted(identity.rows, key=lambda row: (row.position, row.is_live))
    statements = span.statements(rows)
    tables = span.table(before), span.table(after)
    kind: TableKind
    states = (State.PARTIAL, State.ERROR, State.UNKNOWN)
    ends = {"before": before, "afterwards": after}
    notes = [f"{when}, it is {row.state}: {row.reason}" for when, row in ends.items() if row and row.state in states]
    against = span.contradicted.get(model.key_of(after.id)) if after is not None else None
    notes += [f"afterwards, {against}"] if against is not None else []
    if before is not None and after is not None:
        differences: list[StructureChange] = []
        if tables[0] is not None and tables[1] is not None:
            paths, followed = NamePaths.of(tables[0]), True
            for row in rows:
                now = span.table(row)
                if now is not None:
                    paths = paths.after(statement_or_none(span.events.get(row.ddl)), now)
                elif row.is_live:
                    followed = False
            differences = changes(tables[0], tables[1], paths)
            notes += [] if followed else [_NOT_FOLLOWED]
        if before.id != after.id:
            kind = "renamed"
        elif (tables[0] is None) != (tables[1] is None) or State.ERROR in (before.state, after.state):
            kind = "unknown"
        elif differences or against is not None:
            kind = "changed" if differences else "unknown"
        else:
            return _others(after, statements)
        return TableDifference(kind, before, after, _texts(*tables), differences, notes, statements)
    if after is not None:
        created = any(isinstance(statement_or_none(event), _CREATING) for event in statements[:1])
        existed = any(not row.is_live for row in rows)  # dropped, and brought back: nobody saw it before
        kind = "created" if created or existed or after.relation else "described"
        notes += [_DESCRIBED] if kind == "described" else []
        return TableDifference(kind, None, after, _texts(*tables), changes(*tables), notes, statements)
    if before is not None:
        return TableDifference("dropped", before, None, _texts(*tables), changes(*tables), notes, statements)
    return _others(rows[-1], statements) if rows else None


def _texts(before: Table | None, after: Table | None) -> tuple[str | None, str | None]:
    return show_create(before) if before else None, show_create(after) if after else None


def _others(row: NameRow, statements: list[DdlRecord]) -> dict[str, Any] | None:
    if not statements:
        return None
    return {"db": row.id.db, "table": row.id.table, "statements": [_statement_form(entry) for entry in statements]}


def _join(span: HistorySpan, some: list[TableDifference]) -> Iterator[TableDifference]:
    """A table that was dropped, and another one that has its name now, are one entry."""
    dropped = next((entry for entry in some if entry.kind == "dropped" and entry.changes), None)
    created = next((entry for entry in some if entry.kind in ("created", "described") and entry.changes), None)
    if dropped is None or created is None:
        yield from some
        return
    yield from (entry for entry in some if entry not in (dropped, created))
    differences = changes(span.table(dropped.before), span.table(created.after))
    events = {statement.seq: statement for statement in (*dropped.statements, *created.statements)}
    statements = sorted(events.values(), key=lambda entry: entry.position)
    shown = dropped.shown[0], created.shown[1]
    notes = [*dropped.notes, *created.notes]
    yield TableDifference("recreated", dropped.before, created.after, shown, differences, notes, statements)


# ---- databases
def _databases(span: HistorySpan) -> Iterator[dict[str, Any]]:
    for _, (before, rows) in sorted(span.databases.items()):
        statements = [statement_or_none(span.events.get(row.ddl)) for row in rows]
        if not any(isinstance(statement, _OF_DATABASES) for statement in statements):
            continue  # it became known by its tables
        was, now = (row if row is not None and row.live else None for row in (before, rows[-1]))
        forms = [None if row is None else {"charset": row.charset, "collate": row.collate} for row in (was, now)]
        if forms[0] == forms[1]:
            continue
        created = was is None and isinstance(statements[0], (ddl.CreateDatabase, ddl.FlashbackDatabase))
        kind = "dropped" if now is None else "created" if created else "changed"
        yield {"kind": kind, "db": rows[-1].name, "before": forms[0], "after": forms[1]}


# ---- as text
_SIGNS: Final = {"created": "+", "added": "+", "described": "+", "dropped": "-", "unknown": "?"}
_WORDS: Final = {
    "described": "is known now",
    "unknown": "can't be compared",
    "recreated": "was dropped and created again",
}
_LONGEST: Final = 200


def text(form: dict[str, Any]) -> Iterator[str]:
    """One difference a line, those of a table below it; what it rests on first, how many there are last."""
    moments = " to ".join(f"{form[version]['time']} (commit_ts {form[version]['at']})" for version in ("from", "to"))
    yield f"changefeed {form['changefeed']}: {moments}"
    if not form["resolved"]:
        waiting = f", and {form['pending']} DDL wait" if form["pending"] else ""
        yield f"not resolved: complete up to commit_ts {form['sealed_ts']}{waiting}; more DDL may still arrive"
    for database in form["databases"]:
        known = filter(None, (database["before"], database["after"]))
        ends = [f"{end['charset']} {end['collate']}".strip() or "unknown" for end in known]
        charsets = f": {' → '.join(ends)}" if ends else ""
        yield f"{_SIGNS.get(database['kind'], '~')} database {database['db']} {database['kind']}{charsets}"
    for table in form["tables"]:
        yield from _table(table)
    if form["other_statements"]:
        yield "Statements that left no difference:"
        for statement in form["other_statements"]:
            yield from (
                f"  {statement['db']}.{statement['table']}: {_statement(each)}" for each in statement["statements"]
            )
    counts = ", ".join(f"{number} {kind}" for kind, number in form["counts"].items())
    number = sum(form["counts"].values())
    yield f"{number or 'no'} table{'' if number == 1 else 's'} differ{'s' if number == 1 else ''}" + (
        f": {counts}" if counts else ""
    )


def _table(entry: dict[str, Any]) -> Iterator[str]:
    what = (entry["after"] or entry["before"]).get("relation", "table")
    name = f"{entry['db']}.{entry['table']}"
    if entry["kind"] == "renamed":
        yield f"~ {what} {entry['before']['db']}.{entry['before']['table']} is renamed to {name}"
    else:
        yield f"{_SIGNS.get(entry['kind'], '~')} {what} {name} {_WORDS.get(entry['kind'], entry['kind'])}"
    for change in entry["changes"]:
        part = "column " if change["part"] == "column" else ""
        yield f"    {_SIGNS.get(change['kind'], '~')} {part}{change['text']}"
    yield from (f"    note: {note}" for note in entry["notes"])
    yield from (f"    by {_statement(each)}" for each in entry["statements"])


def _statement(entry: dict[str, Any]) -> str:
    query = " ".join(entry["query"].split()) or "a snapshot"
    cut = query if len(query) <= _LONGEST else query[:_LONGEST] + "…"
    return f"commit_ts {entry['commit_ts']}: {cut}"
