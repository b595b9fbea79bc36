"""Where a table's definition meets what a message says of its columns.

A definition that does not describe a message is not used for it: its types would be another table's. What does not fit
goes with the row (`RowChange.note_mismatch`), so that users see it; with the option `definition_mismatch` "error"
the message is refused instead.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

from ticdc_bridge.schemas.model.errors import Hint, WireError
from ticdc_bridge.schemas.model.event import RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.reasons import reason_of
from ticdc_bridge.schemas.model.table import Column, ColumnMismatch, DefinitionMismatch, Table, TableId, TableVersion
from ticdc_bridge.schemas.model.type_text import type_text
from ticdc_bridge.schemas.model.types import CHARACTER, FRACTIONAL, Kind

Fits = Callable[[Column, Column], bool]
"""Whether a definition's column can be the one that a message describes."""
ANY_TYPE = "any type"
"""How `Column.vague` begins of a column whose type the message does not tell at all."""


def join_definition(
    id_: TableId, version: TableVersion | None, sent: Iterable[Column], fits: Fits, options: Options,
    describe: Callable[[Column], str] = type_text,
) -> tuple[TableVersion | None, DefinitionMismatch | None]:  # fmt: skip
    """A table's version and the columns that a message has → the version in the message's letters (TiDB compares
    names without case), or why it does not describe them.

    id_: the table as the message calls it. sent: with `handle_key` where the message names its key. describe: how the
    message calls a column's type. WireError DEFINITION_MISMATCH where the options ask for it.
    """
    if version is None:
        return None, None
    columns = tuple(sent)
    joined = in_letters(version, id_, (c.name for c in columns))
    by_name, wrong = joined.table.by_name, list[ColumnMismatch]()
    for column in columns:
        known = by_name.get(column.name)
        if known is None or not (says_no_type(column) or fits(known, column)):
            wrong.append(ColumnMismatch(column.name, describe(column), type_text(known) if known else ""))
    key, own_key = ({c.name for c in some if c.handle_key} for some in (columns, joined.table.columns))
    if {n.lower() for n in key} in ({n.lower() for n in i.columns} for i in joined.table.indexes if i.unique):
        key = own_key  # which of several unique keys a server takes is not in the DDL
    others = sorted(key ^ own_key) if key and own_key else []
    words = ("no key column", "a key column")
    wrong += [ColumnMismatch(n, words[n in key], words[n in own_key]) for n in others]
    if not wrong and key and not own_key:  # its statements name none
        columns = Table.keyed(id_, joined.table.columns, key).columns
        return replace(joined, table=replace(joined.table, columns=columns)), None
    if not wrong:
        return joined, None
    mismatch = DefinitionMismatch(id_, version.commit_ts, tuple(wrong), bool(others))
    if options.definition_mismatch == "error":
        details = f"{mismatch}. Give the definition as it was for this message ({Hint.DDL}, {Hint.HISTORY})"
        raise WireError("DEFINITION_MISMATCH", details=details)
    return None, mismatch


def says_no_type(sent: Column) -> bool:
    """True if a message says nothing of a column's type (it is always NULL there, or its value is all there is)."""
    return sent.vague.startswith(ANY_TYPE)


def unknown_type_error(column: Column, could_be: str = "") -> WireError:
    """The error of a column that can't be written, as its type is not certain. could_be: what it may be, if that is
    not the column's `vague`.
    """
    kinds = could_be or column.vague
    details = f"the message does not tell whether it is {kinds}; give a table definition ({Hint.DDL})"
    return WireError("TYPE_UNKNOWN", column=column.name, details=details)


def unknown_sizes_error(column: Column) -> WireError:
    """The error of a DECIMAL whose precision and scale are needed and not known."""
    details = f"DECIMAL's precision and scale are not known; give a table definition ({Hint.DDL})"
    return WireError("TYPE_UNKNOWN", column=column.name, details=details)


def name_definition(error: WireError, row: RowChange | None) -> WireError:
    """The error of a row that can't be written, with its table where it is the definition that does not fit: one that
    was not used, as its type is not certain then, or one whose column the row does not have, or not so.
    """
    column = None if row is None else row.table.by_name.get(error.fields.get("column", ""))
    if row is None or column is None:
        return error
    is_carried = any(column.name in image for image in (row.before, row.after) if image)
    if error.code == "TYPE_UNKNOWN" and row.mismatch is not None:
        reason = f"its type is not certain, as the definition was not used: {row.mismatch}"
        details = f"{reason}. Give the one in force ({Hint.DDL})"
    elif error.code == "INVALID_VALUE" and row.table_version is not None and (column.elements or not is_carried):
        details = f"{error.fields['details']}, by the definition of table {row.table.id}"
    else:
        return error
    return WireError(error.code, column=column.name, details=details)


def by_definition(error: ValueError, id_: TableId | None) -> str:
    """Why a row can't be read, with its table. id_: None where it is read without a definition."""
    return reason_of(error) if id_ is None else f"{reason_of(error)}, by the definition of table {id_}"


def in_letters(version: TableVersion, id_: TableId, names: Iterable[str]) -> TableVersion:
    """The version with the table's and its columns' names in these letters, where they differ in nothing else."""
    table = version.table
    other_letters = {name.lower(): name for name in names if name not in table.by_name}
    new_names = {c.name: other_letters.get(c.name.lower(), c.name) for c in table.columns} if other_letters else {}
    is_renamed = table.id != id_ and table.id.folded == id_.folded
    if not is_renamed and all(old == new for old, new in new_names.items()):
        return version
    columns = tuple(replace(c, name=new_names.get(c.name, c.name)) for c in table.columns)
    indexes = tuple(replace(i, columns=tuple(new_names.get(n, n) for n in i.columns)) for i in table.indexes)
    table_id = id_ if is_renamed else table.id
    return replace(version, table=replace(table, id=table_id, columns=columns, indexes=indexes))


# ---- What the Open Protocol and Craft say of a column in flags (upstream tiflow `cdc/model/sink.go`).

BINARY, HANDLE_KEY, GENERATED, PRIMARY_KEY, UNIQUE_KEY, MULTIPLE_KEY, NULLABLE, UNSIGNED = (1 << n for n in range(8))
ALWAYS_UNSIGNED = (Kind.BIT, Kind.YEAR)
"""Kinds that TiDB takes for unsigned by nature: they carry the flag always, and it says nothing."""


def flags_of(column: Column) -> int:
    """A column's flags as TiCDC sends them (upstream `schema_storage.go`, setColumnFlags)."""
    flags = (
        (BINARY, column.charset == "binary" or column.type.kind not in CHARACTER),
        (HANDLE_KEY, column.handle_key),
        (GENERATED, column.generated is not None),
        (PRIMARY_KEY, column.primary_key),
        (UNIQUE_KEY, column.unique_key),
        (MULTIPLE_KEY, column.multiple_key),
        (NULLABLE, column.nullable),
        (UNSIGNED, column.unsigned or column.type.kind in ALWAYS_UNSIGNED),
    )
    return sum(flag for flag, is_set in flags if is_set)


def same_type(column: Column, sent: Column) -> bool:
    """For messages that name each type as SQL does: the same type, and what the message says of its size the same."""
    kind = column.type.kind
    if column.type is not sent.type or column.unsigned != sent.unsigned:
        return False
    if kind in FRACTIONAL or kind is Kind.DECIMAL:
        return sent.scale is None or sent.scale == (column.scale or 0)
    return not sent.elements or sent.elements == column.elements
