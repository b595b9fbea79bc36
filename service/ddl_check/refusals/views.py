"""What TiDB refuses of CREATE VIEW, where its SELECT is a plain one over tables that are known.

Source: upstream tidb `pkg/planner/core/planbuilder.go` (buildDDL), `pkg/ddl/executor.go` (CreateView).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from schemas.ddl.executor.catalog import Catalog
from schemas.ddl.parser.statements import CreateRelation, ViewSelect
from schemas.model.table import Table
from service.ddl_check.refusals.columns import Refusal, SqlModes
from service.ddl_check.refusals.definitions import of_twice
from service.ddl_check.refusals.functions import no_function, of_calls

SYSTEM: Final = frozenset(("information_schema", "mysql", "performance_schema", "metrics_schema", "sys"))
_Sources = dict[str, Table | None]
"""Tables by alias in lower case; None: its columns are not known."""


def of_view(catalog: Catalog, view: CreateRelation, db: str, modes: SqlModes) -> Iterator[Refusal]:
    if view.has_variables:
        yield Refusal(1351, "View's SELECT contains a variable or parameter")
    yield from of_calls(view.calls, lambda call: no_function(call, db), spaces=modes.ignore_space)
    made = list[list[str] | None]()
    for select in view.selects:
        sources: _Sources = {}
        for name, alias in select.tables:
            source = name.in_db(db)
            if source.db.lower() not in SYSTEM and not catalog.exists(source):
                yield Refusal(1146, f"Table '{source}' doesn't exist", certain=False)
            sources[alias.lower()] = catalog.table(source)
        unknown = list(_of_unknown(select, sources))
        yield from unknown
        made.append(None if unknown else _names(select, sources))
    names = made[0] if made else None
    if len({len(one) for one in made if one is not None}) > 1:
        yield Refusal(1222, "The used SELECT statements have a different number of columns")
    if names is not None and view.columns and len(view.columns) != len(names):
        yield Refusal(1353, "View's SELECT and view's field list have different column counts")
    yield from of_twice(view.columns or [name for name in names or () if name])


def _of_unknown(select: ViewSelect, sources: _Sources) -> Iterator[Refusal]:
    """Columns that no table has; a table that is not known may have any."""
    for item in select.items:
        if not 1 <= len(item.path) <= 2 or item.name == "*" or item.path[-1].lower() == "_tidb_rowid":
            continue
        *owner, column = item.path
        chosen = [t for alias, t in sources.items() if not owner or alias == owner[0].lower()]
        known = [table for table in chosen if table is not None]
        if len(known) == len(chosen) and not any(column.lower() == c.name.lower() for t in known for c in t.columns):
            yield Refusal(1054, f"Unknown column '{'.'.join(item.path)}' in 'field list'")
        elif sum(any(column.lower() == c.name.lower() for c in table.columns) for table in known) > 1:
            yield Refusal(1052, f"Column '{'.'.join(item.path)}' in field list is ambiguous")


def _names(select: ViewSelect, sources: _Sources) -> list[str] | None:
    """The columns of the SELECT, "" for an expression; None where a * stands for columns that are not known."""
    names = list[str]()
    for item in select.items:
        if item.name != "*":
            names.append(item.name)
            continue
        owner = item.path[-1].lower() if item.path else ""
        for table in [sources.get(owner)] if owner else sources.values():
            if table is None:
                return None
            names += [c.name for c in table.columns]
    return names
