"""Which columns of a row's table are which of the newest columns."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ticdc_bridge.schemas.model.errors import Hint
from ticdc_bridge.schemas.model.table import Column, Table


class SameColumns(NamedTuple):
    """pairs: (of the row's table, the newest). lacking: newest columns that the row's table does not have. unclear:
    (column, why) where nothing says what became of a column, else None.
    """

    pairs: list[tuple[Column, Column]]
    lacking: tuple[Column, ...]
    unclear: tuple[str, str] | None = None


def same_columns(table: Table, newest: Table) -> SameColumns:
    """By their ids, where one history made both; else by their names, in any letters. Virtual columns are in no row."""
    visible = [c for c in newest.columns if not c.virtual]
    if table.created_ts and table.created_ts == newest.created_ts:
        return _by_ids({c.id: c for c in table.columns}, visible)
    if newest.registered:
        return _by_registered(table, newest, visible)
    # Two CREATE TABLE: the rows are of a table that was dropped, whose columns nobody renamed.
    return _by_names(table, visible, is_same_table=not (table.created_ts and newest.created_ts))


def _by_ids(by_id: Mapping[int, Column], visible: Sequence[Column]) -> SameColumns:
    pairs = [(by_id[c.id], c) for c in visible if c.id in by_id]
    lacking = tuple(c for c in visible if c.id not in by_id)
    unclear = next(((by_id[id_], c) for c in lacking for id_ in c.may_be if id_ in by_id), None)
    return SameColumns(pairs, lacking, unclear and _renamed_or_dropped(*unclear))


def _by_names(table: Table, visible: Sequence[Column], is_same_table: bool = True) -> SameColumns:
    by_name = {c.name.lower(): c for c in table.columns}
    names = {c.name.lower() for c in visible}
    pairs = [(by_name[c.name.lower()], c) for c in visible if c.name.lower() in by_name]
    lacking = tuple(c for c in visible if c.name.lower() not in by_name)
    gone = next((c for c in table.columns if c.name.lower() not in names and not c.virtual), None)
    unclear = _renamed_or_dropped(gone, lacking[0]) if is_same_table and gone and lacking else None
    return SameColumns(pairs, lacking, unclear)


def _by_registered(table: Table, newest: Table, visible: list[Column]) -> SameColumns:
    """A row's schema is one of the registered versions, or (a key alone) has some of its columns."""
    version = _registered_version(table, newest)
    if version is None:
        return _by_names(table, visible)
    ids = {c.name: c for c in newest.registered[-1].columns}
    visible_by_id = [replace(c, id=ids[c.name].id, may_be=ids[c.name].may_be) for c in visible]
    same = _by_ids({version[c.name].id: c for c in table.columns}, visible_by_id)
    columns = {c.name: c for c in visible}
    unclear = same.unclear
    names = {c.name.lower() for c in table.columns}
    again = next((c for c in same.lacking if c.name.lower() in names), None)
    if again is not None:
        text = "it was dropped and added again, and the registered schemas do not say whether this row is from before"
        unclear = again.name, _with_advice(text)
    return SameColumns(
        [(entry, columns[c.name]) for entry, c in same.pairs], tuple(columns[c.name] for c in same.lacking), unclear
    )


def _registered_version(table: Table, newest: Table) -> dict[str, Column] | None:
    """The columns, by name, of the version that describes the row; None where there is none."""
    exact = {_without_key(c) for c in table.columns}
    names = {c.name for c in table.columns}
    by_columns = [v for v in newest.registered if exact <= {_without_key(c) for c in v.columns}]
    by_names = [v for v in newest.registered if names <= v.by_name.keys()]
    for some in (by_columns, by_names):
        complete = [v for v in some if len(v.columns) == len(table.columns)]
        if complete or some:
            return (complete or some)[-1].by_name
    return None


def _without_key(column: Column) -> Column:
    """Its key says which columns are of it, not each schema."""
    return replace(column, handle_key=False, primary_key=False)


def _renamed_or_dropped(old: Column, new: Column) -> tuple[str, str]:
    text = f"it was renamed to {new.name}, or it was dropped and {new.name} was added: nothing says which"
    return old.name, _with_advice(text)


def _with_advice(text: str) -> str:
    return f"{text}. Give the DDL: {Hint.HISTORY}, or {Hint.DDL} with the ALTER statements"
