"""The columns of views, as far as their SELECT and what is known of its tables tell."""

from __future__ import annotations

from ticdc_bridge.schemas.ddl.executor.catalog import Catalog
from ticdc_bridge.schemas.ddl.parser.statements import CreateRelation, ViewSelect
from ticdc_bridge.schemas.model.table import TableId

Columns = tuple[str, ...] | None
"""Names of columns; None where they are not known."""


def sources(catalog: Catalog, select: ViewSelect, db: str) -> dict[str, Columns]:
    """The columns of each table and view by its alias in small letters. db: the current database."""
    return {alias.lower(): _columns(catalog, name.in_db(db)) for name, alias in select.tables}


def _columns(catalog: Catalog, id_: TableId) -> Columns:
    table, relation = catalog.table(id_), catalog.relation(id_)
    if table is not None:
        return tuple(c.name for c in table.columns)
    return relation.columns if relation is not None else None


def selected(select: ViewSelect, found: dict[str, Columns]) -> list[str] | None:
    """The columns of a SELECT, "" for an expression; None where a * stands for columns that are not known."""
    names = list[str]()
    for item in select.items:
        if item.name != "*":
            names.append(item.name)
            continue
        owner = item.path[-1].lower() if item.path else ""
        for columns in [found.get(owner)] if owner else found.values():
            if columns is None:
                return None
            names += columns
    return names


def view_columns(catalog: Catalog, view: CreateRelation, db: str) -> Columns:
    if view.columns or not view.selects:
        return view.columns or None
    names = selected(view.selects[0], sources(catalog, view.selects[0], db))
    return tuple(names) if names and all(names) else None
