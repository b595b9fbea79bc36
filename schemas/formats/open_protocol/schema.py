"""Type codes and flags of the Open Protocol ↔ columns (upstream ticdc `open/message.go`)."""

from dataclasses import dataclass, replace
from typing import NamedTuple

from ticdc_bridge.schemas.formats import definitions
from ticdc_bridge.schemas.formats.definitions import ANY_TYPE, join_definition, says_no_type, unknown_type_error
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Column, DefinitionMismatch, Table, TableId, TableVersion
from ticdc_bridge.schemas.model.types import ALWAYS_NULL, BY_CODE, BY_NAME, TYPES, Kind

# Codes that stand for another: VAR_STRING and NEWDATE.
_ALIASES = {253: 15, 14: 10}
# What type code and flags leave open; old releases wrote no flags, which leaves more open.
_OPEN = {Kind.ENUM: "ENUM with its names", Kind.SET: "SET with its names", Kind.BIT: "BIT(1) or longer"}
_OPEN_WITHOUT_FLAGS = {**_OPEN, Kind.INTEGER: "signed or unsigned", Kind.TEXT: "a character or a binary type"}


class ColumnHeader(NamedTuple):
    """What a message says of a column besides its value: type code, `h`, flags (None where an old release has none)."""

    name: str
    code: int
    handle: bool
    flags: int | None


@dataclass(frozen=True, slots=True)
class DescribedTable:
    """A table as the cells of a message describe it. odd: cells that `cell_of` of their column does not give.

    version: the definition that is used; mismatch: why it is not.
    """

    table: Table
    odd: dict[str, list[int | bool | None]]
    version: TableVersion | None
    mismatch: DefinitionMismatch | None


def describe(
    id_: TableId, cells: tuple[ColumnHeader, ...], version: TableVersion | None, options: Options
) -> DescribedTable:
    """The table of a row: of its version where one is known that describes the message, with the key flags of the
    message; else of the message.
    """
    by_name = {cell.name: _column(cell) for cell in cells}
    flags = {cell.name: cell.flags for cell in cells}
    version, mismatch = join_definition(
        id_, version, by_name.values(), lambda column, sent: _fits(column, sent, flags[sent.name] is not None), options
    )
    if version is None:
        table = Table(id_, tuple(by_name.values()))
    else:
        flagless = {cell.name for cell in cells if cell.flags is None}
        columns = tuple(_merge_column(c, by_name.get(c.name), c.name not in flagless) for c in version.table.columns)
        table = replace(version.table, columns=columns)
    derived = derived_keys(table)
    own = (cell for cell in cells if cell != cell_of(table.by_name[cell.name], derived.get(cell.name, 0)))
    return DescribedTable(table, {c.name: [c.code, c.handle, c.flags] for c in own}, version, mismatch)


def _column(cell: ColumnHeader) -> Column:
    code, flags = _ALIASES.get(cell.code, cell.code), cell.flags
    binary = bool((flags or 0) & definitions.BINARY)
    if code in ALWAYS_NULL:  # the message says only that its value is NULL
        vague = f"{ANY_TYPE}: type code {cell.code} ({ALWAYS_NULL[cell.code]}) is always NULL"
        primary = bool((cell.flags or 0) & definitions.PRIMARY_KEY)
        return Column(cell.name, BY_NAME["text"], handle_key=cell.handle, primary_key=primary, vague=vague)
    if (code, binary) not in BY_CODE:
        raise ValueError(f"column {cell.name!r}: type code {cell.code} is not known")
    type_ = BY_CODE[code, binary]
    if flags is None:
        return Column(cell.name, type_, handle_key=cell.handle, vague=_OPEN_WITHOUT_FLAGS.get(type_.kind, ""))
    return Column(
        cell.name, type_, bool(flags & definitions.UNSIGNED) and type_.kind not in definitions.ALWAYS_UNSIGNED,
        nullable=bool(flags & definitions.NULLABLE), handle_key=cell.handle,
        primary_key=bool(flags & definitions.PRIMARY_KEY), unique_key=bool(flags & definitions.UNIQUE_KEY),
        multiple_key=bool(flags & definitions.MULTIPLE_KEY), generated="" if flags & definitions.GENERATED else None,
        charset="binary" if binary else "", vague=_OPEN.get(type_.kind, ""),
    )  # fmt: skip


def _fits(column: Column, wire: Column, flagged: bool) -> bool:
    """True if a definition's column can be the message's. flagged: the message has its flags."""
    if column.type.code != wire.type.code or (flagged and column.type is not wire.type):
        return False
    return not (flagged and column.type.kind is Kind.INTEGER and column.unsigned != wire.unsigned)


def _merge_column(column: Column, wire: Column | None, flagged: bool) -> Column:
    if wire is None or says_no_type(wire):
        return column
    if not flagged:
        return replace(column, handle_key=wire.handle_key)
    return replace(
        column, unsigned=wire.unsigned, nullable=wire.nullable, handle_key=wire.handle_key,
        primary_key=wire.primary_key, unique_key=wire.unique_key, multiple_key=wire.multiple_key,
        generated=(column.generated or "") if wire.generated is not None else None,
    )  # fmt: skip


# ---------------------------------------------------------------------------------- column → cell
def derived_keys(table: Table) -> dict[str, int]:
    """UNIQUE and MULTIPLE flags that follow from the table's indexes and keys, by column."""
    out: dict[str, int] = {}
    indexes = [(index.columns, index.unique, index.name == "PRIMARY") for index in table.indexes]
    if not indexes:
        indexes.append((table.primary_key, True, True))
        if not table.primary_key:
            indexes.append((table.handle_key, True, False))
    for columns, unique, primary in indexes:
        flag = definitions.UNIQUE_KEY if unique and not primary else 0
        if len(columns) > 1 or not unique:
            flag |= definitions.MULTIPLE_KEY
        for name in columns:
            out[name] = out.get(name, 0) | flag
    return out


def cell_of(column: Column, derived: int) -> ColumnHeader:
    """What TiCDC's encoder says of a column; `derived`: flags of `derived_keys`."""
    flags = derived | definitions.flags_of(column) | definitions.GENERATED * column.virtual
    return ColumnHeader(column.name, column.type.code, column.handle_key, flags)


_FOLDS = {
    t.name: " or ".join(o.name.upper() for o in TYPES if o.avro_name == t.avro_name)
    for t in TYPES
    if sum(o.avro_name == t.avro_name for o in TYPES) > 1
}


# By number in the message: neither elements nor length are needed to write it.
_BY_NUMBER = (Kind.ENUM, Kind.SET, Kind.BIT)


def check_known(column: Column, folded: bool) -> None:
    """WireError TYPE_UNKNOWN unless the column's type code and flags are certain.

    folded: the type comes from a TiCDC Avro schema, which has one name for several types.
    """
    vague = "" if column.type.kind in _BY_NUMBER else column.vague
    if could_be := vague or (_FOLDS.get(column.type.name, "") if folded else ""):
        raise unknown_type_error(column, could_be)
