"""The DDL of many tables at once: which tables there are, under which names, and which statements are whose."""

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from ticdc_bridge.schemas.ddl.executor.versions import DdlText
from ticdc_bridge.schemas.ddl.parser.statement_parser import parse
from ticdc_bridge.schemas.ddl.parser.statements import CreateTable, RenameTables, Statement, TableName
from ticdc_bridge.schemas.model.errors import DdlError
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.spark_jobs.lake.column_history import sort_statements
from ticdc_bridge.spark_jobs.lake.name_history import RenameChain, rename_chains, shared_names

_WORD: Final = re.compile(r"`((?:[^`]|``)+)`|([\w$]+)")
_OF_ALL: Final = ("database", "schema", "flashback", "recover")
"""Words of statements that may be about tables which they do not name."""


class TableHistories:
    """Statements in any order, indexed by the tables they name. Each table's own are a part that tells its history as
    all of them do (spark_jobs.lake.column_history.schema_changes).
    """

    def __init__(self, statements: Iterable[DdlText]) -> None:
        self.ordered = sort_statements(statements)
        self._by_word = defaultdict[str, set[int]](set)
        for number, ddl in enumerate(self.ordered):
            for quoted, plain in _WORD.findall(ddl.query.lower()):
                self._by_word[quoted.replace("``", "`") or plain].add(number)
        self._now, self._chains = rename_chains(self.ordered)
        self.shared = shared_names(self.ordered)

    def tables_named(self, id_: TableId) -> list[RenameChain]:
        """The tables that have the name, or had it and have another one now; not one that was dropped."""
        current = self._now.get(id_.folded)
        others = [c for c in self._chains if c is not current and c.has_name(id_) and self._now[c.name.folded] is c]
        return [*others, current] if current is not None else others or [RenameChain(id_)]

    def tables(self) -> list[RenameChain]:
        """All tables that a CREATE TABLE or a RENAME names, as they are called at the end."""
        ids = dict[TableId, TableId]()
        for number in sorted(self._by_word.get("create", ())):
            statement = self._create_statement(number)
            if statement is not None and not statement.temporary:
                id_ = statement.table.in_db(self.ordered[number].db)
                ids.setdefault(id_.folded, id_)
        chains = {id_: RenameChain(id_) for id_ in ids.values() if not any(c.has_name(id_) for c in self._chains)}
        return [*self._now.values(), *(c for c in chains.values() if c.name.folded not in self._now)]

    def statements_of(self, chain: RenameChain) -> list[DdlText]:
        """The statements that the table's history is made of, in order; others may be among them."""
        names = {id_.table.lower() for _, id_ in chain.names() if id_ is not None}
        numbers = set[int]().union(*(self._by_word.get(word, ()) for word in _OF_ALL))
        done = set[str]()
        while names := names - done:
            done |= names
            numbers = numbers.union(*map(self._naming, names))
            some = numbers & (self._by_word.get("like", set()) | self._by_word.get("rename", set()))
            names = {name.table.lower() for statement in map(self._statement, some) for name in _sources_of(statement)}
        return [self.ordered[number] for number in sorted(numbers)]

    def _naming(self, name: str) -> set[int]:
        """The statements that have the word, in small letters."""
        if _WORD.fullmatch(name):
            return self._by_word.get(name, set())
        return {number for number, ddl in enumerate(self.ordered) if name in ddl.query.lower().replace("``", "`")}

    def _create_statement(self, number: int) -> CreateTable | None:
        """None for any other statement."""
        return statement if isinstance(statement := self._statement(number), CreateTable) else None

    def _statement(self, number: int) -> Statement | None:
        """None for one that can't be read: an error where its table is followed."""
        ddl = self.ordered[number]
        try:
            return parse(ddl.query, ddl.mode, ddl.db)
        except DdlError:
            return None


def _sources_of(statement: Statement | None) -> list[TableName]:
    """The tables that have to be known for a CREATE TABLE … LIKE, or for a RENAME of several."""
    if isinstance(statement, RenameTables):
        return [old for old, _ in statement.pairs]
    return [statement.like] if isinstance(statement, CreateTable) and statement.like is not None else []
