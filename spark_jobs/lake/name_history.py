"""Which table a name means, and what that table was called when: RENAME TABLE over a history.

TiDB's names of databases and tables are the same in any case of their letters (lower_case_table_names=2): they are
compared folded, and shown as they are written. A table that gets the name of one that was renamed away or dropped is
another table, but for CREATE after DROP: that goes on with the name, emptied.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from ticdc_bridge.schemas.ddl.executor.versions import DdlText
from ticdc_bridge.schemas.ddl.parser.statement_parser import parse
from ticdc_bridge.schemas.ddl.parser.statements import AlterTable, CreateTable, RenameTables, RenameTo, TableName
from ticdc_bridge.schemas.model.errors import DdlError
from ticdc_bridge.schemas.model.table import TableId

NEVER_ENDS = (1 << 63) - 1


class NamePeriod(NamedTuple):
    """A name up to the statement of this number (in order) at commit_ts. None: the table was not there yet."""

    number: int
    commit_ts: int
    name: TableId | None


class NameOwner(NamedTuple):
    """A table, by a number, whose name one was in rows with after < commit_ts ≤ until."""

    table: int
    after: int
    until: int


@dataclass(eq=False)
class RenameChain:
    """One table through its renames."""

    name: TableId
    past: list[NamePeriod] = field(default_factory=list)

    def name_before(self, number: int) -> TableId | None:
        return next((p.name for p in self.past if p.number >= number), self.name)

    def name_after(self, number: int) -> TableId | None:
        return next((p.name for p in self.past if p.number > number), self.name)

    def names(self) -> list[tuple[int, TableId | None]]:
        """[(until, name)…]: what the table was called in rows with commit_ts ≤ until; the last one has no end."""
        return [*((p.commit_ts, p.name) for p in self.past), (NEVER_ENDS, self.name)]

    def has_name(self, id_: TableId) -> bool:
        return any(p.name is not None and p.name.folded == id_.folded for p in self.past)


def rename_chain(ordered: Iterable[DdlText], id_: TableId) -> RenameChain:
    """The table that has the name at the end; else the last one that had it. ordered: by commit_ts, each once."""
    now, lines = rename_chains(ordered)
    by_name = next((line for line in reversed(lines) if line.has_name(id_)), None)
    return now.get(id_.folded) or by_name or RenameChain(id_)


def rename_chains(ordered: Iterable[DdlText]) -> tuple[dict[TableId, RenameChain], list[RenameChain]]:
    """The tables that got another name, or the name of one that did: by their folded names at the end, and all."""
    now, lines = dict[TableId, RenameChain](), list[RenameChain]()
    for number, commit_ts, old, new in _moves(ordered):
        if old is None:
            # CREATE TABLE: another table than the one that had the name and was renamed away.
            if new.folded in now or not any(line.has_name(new) for line in lines):
                continue
            line = RenameChain(new, [NamePeriod(number, commit_ts, None)])
            lines.append(line)
        else:
            line = now.pop(old.folded) if old.folded in now else RenameChain(old)
            if line not in lines:
                lines.append(line)
            line.past.append(NamePeriod(number, commit_ts, line.name))
            line.name = new
        now[new.folded] = line
    return now, lines


def shared_names(ordered: Iterable[DdlText]) -> dict[TableId, list[NameOwner]]:
    """The folded names that several tables had, and when. One that is dropped and made again is the same table."""
    owners, now = defaultdict[TableId, list[NameOwner]](list), dict[TableId, int]()
    for number, (_, commit_ts, old, new) in enumerate(_moves(ordered)):
        table = now.get(new.folded, number)
        if old is not None:
            table = now.pop(old.folded, number)
            last = owners[old.folded].pop() if owners[old.folded] else NameOwner(table, -1, NEVER_ENDS)
            owners[old.folded].append(last._replace(until=commit_ts))
        if now.get(new.folded) != table:
            if new.folded in now:  # it was dropped before: when, no row tells
                owners[new.folded].append(owners[new.folded].pop()._replace(until=commit_ts))
            owners[new.folded].append(NameOwner(table, commit_ts, NEVER_ENDS))
        now[new.folded] = table
    lasting = {name: [owner for owner in had if owner.after < owner.until] for name, had in owners.items()}
    return {name: had for name, had in lasting.items() if len({owner.table for owner in had}) > 1}


def _moves(ordered: Iterable[DdlText]) -> Iterator[tuple[int, int, TableId | None, TableId]]:
    """(number, commit_ts, old name, new name); None for old: CREATE TABLE."""
    statements = list(ordered)
    renaming = any("rename" in ddl.query.lower() for ddl in statements)
    for number, ddl in enumerate(statements if renaming else ()):
        words = ddl.query.lower()
        if "rename" in words or "create" in words:
            try:
                statement = parse(ddl.query, ddl.mode, ddl.db)
            except DdlError:
                continue  # told where it matters
            pairs = list[tuple[TableName, TableName]]()
            if isinstance(statement, CreateTable) and statement.temporary != "local":
                yield number, ddl.commit_ts, None, statement.table.in_db(ddl.db)
            elif isinstance(statement, RenameTables):
                pairs += statement.pairs
            elif isinstance(statement, AlterTable):
                pairs += [(statement.table, c.new) for c in statement.clauses if isinstance(c, RenameTo)]
            for old, new in pairs:
                yield number, ddl.commit_ts, old.in_db(ddl.db), new.in_db(ddl.db)
