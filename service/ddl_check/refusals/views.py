"""What TiDB refuses of CREATE VIEW, where its SELECT is a plain one over tables and views that are known.

Source: upstream tidb `pkg/planner/core/planbuilder.go` (buildDDL), `pkg/ddl/executor.go` (CreateView).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from ticdc_bridge.schemas.ddl.executor.catalog import Catalog
from ticdc_bridge.schemas.ddl.executor.views import Columns, selected, sources
from ticdc_bridge.schemas.ddl.parser.statements import CreateRelation, ViewSelect
from ticdc_bridge.service.ddl_check.refusals.columns import Refusal, SqlModes, of_name
from ticdc_bridge.service.ddl_check.refusals.definitions import of_twice
from ticdc_bridge.service.ddl_check.refusals.functions import no_function, of_calls

SYSTEM: Final = frozenset(("information_schema", "mysql", "performance_schema", "metrics_schema", "sys"))
_MAX_USER: Final = 32


def of_view(catalog: Catalog, view: CreateRelation, db: str, modes: SqlModes) -> Iterator[Refusal]:
    yield from of_user(view.definer)
    for column in view.columns:
        yield from of_name(column, 1166, "Incorrect column name '{name}'")
    if view.has_variables:
        yield Refusal(1351, "View's SELECT contains a variable or parameter")
    yield from of_calls(view.calls, lambda call: no_function(call, db), spaces=modes.ignore_space)
    made = list[list[str] | None]()
    for select in view.selects:
        for source in (name.in_db(db) for name, _ in select.tables):
            if source.db.lower() not in SYSTEM and not catalog.exists(source):
                yield Refusal(1146, f"Table '{source}' doesn't exist", certain=False)
        yield from _of_tables(select, db)
        found = sources(catalog, select, db)
        unknown = list(_of_unknown(select, found))
        yield from unknown
        made.append(None if unknown else selected(select, found))
    names = made[0] if made else None
    if len({len(one) for one in made if one is not None}) > 1:
        yield Refusal(1222, "The used SELECT statements have a different number of columns")
    if names is not None and view.columns and len(view.columns) != len(names):
        yield Refusal(1353, "View's SELECT and view's field list have different column counts")
    yield from of_twice(view.columns or [name for name in names or () if name])


def of_user(name: str) -> Iterator[Refusal]:
    """A user's name as it is written, without its host."""
    if len(name) > _MAX_USER:
        yield Refusal(1470, f"String '{name}' is too long for user name (should be no longer than {_MAX_USER})")


def _of_tables(select: ViewSelect, db: str) -> Iterator[Refusal]:
    """Names that two tables have, and table.* of none."""
    aliases = [(table.in_db(db).db.lower(), alias.lower()) for table, alias in select.tables]
    for _, alias in dict.fromkeys(one for one in aliases if aliases.count(one) > 1):
        yield Refusal(1066, f"Not unique table/alias: '{alias}'")
    for owner in (item.path[0] for item in select.items if item.name == "*" and len(item.path) == 1):
        if owner.lower() not in {alias for _, alias in aliases}:
            yield Refusal(1051, f"Unknown table '{owner}'")


def _of_unknown(select: ViewSelect, found: Mapping[str, Columns]) -> Iterator[Refusal]:
    """Columns that no table has; a table that is not known may have any."""
    for path in (*(item.path for item in select.items if item.name != "*"), *select.paths):
        if not 1 <= len(path) <= 2 or path[-1].lower() == "_tidb_rowid":
            continue
        *owner, column = path
        chosen = [columns for alias, columns in found.items() if not owner or alias == owner[0].lower()]
        known = [{name.lower() for name in columns} for columns in chosen if columns is not None]
        if len(known) == len(chosen) and not any(column.lower() in names for names in known):
            yield Refusal(1054, f"Unknown column '{'.'.join(path)}'")
        elif sum(column.lower() in names for names in known) > 1:
            yield Refusal(1052, f"Column '{'.'.join(path)}' is ambiguous")
