"""A table as SHOW CREATE TABLE writes it (upstream `pkg/executor/show.go`), as far as a table version knows it.

Not kept, and so not written: partitions, expression indexes, CLUSTERED, TTL, placement, AUTO_RANDOM, foreign keys and
checks. Reading the text in mode SHOW gives the same columns and keys.
"""

from ticdc_bridge.schemas.ddl.executor.charsets import is_default
from ticdc_bridge.schemas.ddl.executor.indexes import PRIMARY
from ticdc_bridge.schemas.ddl.parser.statements import UNREAD
from ticdc_bridge.schemas.model.names import quote_name, quote_text
from ticdc_bridge.schemas.model.table import Column, Index, Table
from ticdc_bridge.schemas.model.type_text import default_text, type_text
from ticdc_bridge.schemas.model.types import CHARACTER, Kind

_CLOCK = "CURRENT_TIMESTAMP"
_TIMES = (Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP)
_NO_LITERAL = ("tinytext", "text", "mediumtext", "longtext", "tinyblob", "blob", "mediumblob", "longblob", "json")
_NOT_SHOWN = ("text", "longtext", "blob", "longblob")


def show_create(table: Table, *, unknown: str = "") -> str:
    """CREATE TABLE text. A table known in part has the types that stand for it; see `Column.vague`.

    unknown: what stands for the expression of an index; "": such an index is left out.
    """
    return _statement(table, [_column(c, table) for c in table.columns], _key_texts(table, unknown))


def _statement(table: Table, lines: list[str], keys: dict[str, str]) -> str:
    lines += [f"{name} {columns}" for name, columns in keys.items()]
    options = "ENGINE=InnoDB"
    if table.charset:
        options += f" DEFAULT CHARSET={table.charset}"
        options += f" COLLATE={table.collate}" if table.collate and table.collate != "binary" else ""
    options += f" COMMENT='{_escape(table.comment)}'" if table.comment else ""
    return f"CREATE TABLE {quote_name(table.id.table)} (\n  " + ",\n  ".join(lines) + f"\n) {options}"


def create_statement(table: Table) -> str:
    """CREATE TABLE as a person types it, so that TiDB and both lexical modes read the same table from it.

    An element of ENUM or SET with a backslash is written in hex, as SHOW CREATE TABLE has it raw. Keys that TiDB would
    refuse (`unwritable_keys`) are left out.
    """
    left_out = unwritable_keys(table)
    keys = {name: columns for name, columns in _key_texts(table).items() if name not in left_out}
    return _statement(table, [_column(c, table, typed=True) for c in table.columns], keys)


def unwritable_keys(table: Table) -> dict[str, str]:
    """Keys that can't be written from what a version keeps → why: over an expression, or a prefix of a long column."""
    reasons = {}
    for index in table.indexes:
        columns = [(table.by_name.get(name), length) for name, length in index.parts]
        if any(column is None for column, _ in columns):
            reasons[key_name(index)] = "its expression is not kept"
        elif index.condition == UNREAD:
            reasons[key_name(index)] = "its condition is not kept"
        elif any(column and column.type.name in _NO_LITERAL and not length for column, length in columns):
            reasons[key_name(index)] = "the length of its prefix is not kept"
    return reasons


def _key_texts(table: Table, unknown: str = "") -> dict[str, str]:
    """Each key's words and name → its columns in brackets. unknown: as in `show_create`."""
    texts = {}
    for index in table.indexes:
        if index.columns and (unknown or table.by_name.keys() >= set(index.columns)):
            named = [(c, quote_name(c) + (f"({length})" if length else "")) for c, length in index.parts]
            parts = ",".join(text if c in table.by_name else unknown for c, text in named)
            condition = index.condition.replace(UNREAD, unknown or "(NULL)")
            texts[key_name(index)] = f"({parts})" + (f" WHERE {condition}" if condition else "")
    return texts


def key_name(index: Index) -> str:
    """A key's kind and name, as they stand before its columns."""
    if index.name == PRIMARY:
        return "PRIMARY KEY"
    return f"{'UNIQUE KEY' if index.unique else 'KEY'} {quote_name(index.name)}"


def _typed_type(column: Column) -> str:
    if not any("\\" in element for element in column.elements):
        return type_text(column)
    charset = column.charset if column.charset in ("gbk", "gb18030") else "utf-8"  # others are UTF-8 here, or ASCII
    quoted = (quote_text(e) if "\\" not in e else f"x'{e.encode(charset).hex()}'" for e in column.elements)
    return f"{column.type.name}({','.join(quoted)})"


def _column(column: Column, table: Table, *, typed: bool = False) -> str:
    text = f"{quote_name(column.name)} {_typed_type(column) if typed else type_text(column)}"
    if column.type.kind in CHARACTER and column.charset:
        if column.charset != table.charset:
            text += f" CHARACTER SET {column.charset}"
        # Also where it is the table's own, unless it is the character set's default (upstream `pkg/executor/show.go`).
        other = column.collate != table.collate or column.charset != table.charset
        if column.collate and (other or not is_default(column.charset, column.collate)):
            text += f" COLLATE {column.collate}"
    if column.generated is not None:
        text += f" GENERATED ALWAYS AS ({column.generated}) {'VIRTUAL' if column.virtual else 'STORED'}"
    if not column.nullable:
        text += " NOT NULL"
    if column.auto_increment:
        text += " AUTO_INCREMENT"
    elif column.generated is None:
        text += _default(column, typed)
    if column.on_update:
        text += f" ON UPDATE {column.on_update}" + (f"({column.scale})" if column.scale else "")
    return text + (f" COMMENT '{_escape(column.comment)}'" if column.comment else "")


def _default(column: Column, typed: bool) -> str:
    default = default_text(column)
    if default is None or column.default_dropped:
        if not column.nullable or column.default_dropped:
            return ""
        return " NULL DEFAULT NULL" if column.type.kind is Kind.TIMESTAMP else " DEFAULT NULL"
    hidden = _NO_LITERAL if typed else () if column.nullable else _NOT_SHOWN
    if column.type.name in hidden and not column.default_is_expr:
        return ""  # '', which TiDB takes without strict mode alone
    if isinstance(default, bytes):
        return f" DEFAULT x'{default.hex()}'"
    if column.type.kind in _TIMES and default.upper().startswith(_CLOCK):
        digits = f"({column.scale})" if column.scale and "(" not in default else ""
        return f" DEFAULT {default}{digits}"
    if column.default_is_expr or (column.type.kind in _TIMES and default.upper() == "CURRENT_DATE"):
        return f" DEFAULT ({default})"
    return f" DEFAULT {default}" if column.type.kind is Kind.BIT else f" DEFAULT '{_escape(default)}'"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "''").replace("\n", "\\n").replace("\r", "\\r").replace("\0", "\\0")
