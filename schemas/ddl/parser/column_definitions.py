"""Column definitions: types as written, and the options after them (upstream `pkg/parser/parser.y`, ColumnDef)."""

import re
from dataclasses import replace

from ticdc_bridge.schemas.ddl.parser.cursor import Cursor
from ticdc_bridge.schemas.ddl.parser.default_values import NOW, default_value, read_now
from ticdc_bridge.schemas.ddl.parser.expressions import expression
from ticdc_bridge.schemas.ddl.parser.lexer import BITS, syntax_error
from ticdc_bridge.schemas.ddl.parser.statements import ColumnDef, ColumnPosition, DataType, TableName
from ticdc_bridge.schemas.model.table import require_bytes
from ticdc_bridge.schemas.model.types import CHARACTER, TYPES, Kind

# Words that name a type: its own name, and others → the type of schemas.model.types that they stand for.
_OTHER_WORDS = (
    ("DOUBLE PRECISION", "double"), ("FLOAT4", "float"), ("FLOAT8", "double"), ("REAL", "real"), ("INT1", "tinyint"),
    ("INT2", "smallint"), ("MIDDLEINT", "mediumint"), ("INT3", "mediumint"), ("INT4", "int"), ("INTEGER", "int"),
    ("INT8", "bigint"), ("BOOL", "bool"), ("BOOLEAN", "bool"), ("SERIAL", "serial"), ("DEC", "decimal"),
    ("NUMERIC", "decimal"), ("FIXED", "decimal"),
    ("NATIONAL CHARACTER VARYING", "varchar"), ("NATIONAL CHAR VARYING", "varchar"),
    ("NATIONAL VARCHARACTER", "varchar"), ("NATIONAL VARCHAR", "varchar"), ("NATIONAL CHARACTER", "char"),
    ("NATIONAL CHAR", "char"), ("NCHAR VARCHARACTER", "varchar"), ("NCHAR VARCHAR", "varchar"),
    ("NCHAR VARYING", "varchar"), ("NVARCHAR", "varchar"), ("NCHAR", "char"),
    ("CHARACTER VARYING", "varchar"), ("CHAR VARYING", "varchar"), ("VARCHARACTER", "varchar"),
    ("CHARACTER", "char"), ("LONG CHARACTER VARYING", "mediumtext"), ("LONG CHAR VARYING", "mediumtext"),
    ("LONG VARCHARACTER", "mediumtext"), ("LONG VARCHAR", "mediumtext"), ("LONG VARBINARY", "mediumblob"),
    ("LONG", "mediumtext"), ("SQL_TSI_YEAR", "year"),
)  # fmt: skip
_TYPE_WORDS = tuple(
    (tuple(words.split()), name) for words, name in (*((row.name.upper(), row.name) for row in TYPES), *_OTHER_WORDS)
)
TYPE_NAMES: dict[str, str] = {" ".join(words): name for words, name in _TYPE_WORDS}
"""Names of a type, in capitals → its name in schemas.model.types, or real, bool or serial."""
_BY_WORD: dict[str, list[tuple[tuple[str, ...], str]]] = {}
for _words, _name in sorted(_TYPE_WORDS, key=lambda row: -len(row[0])):
    _BY_WORD.setdefault(_words[0], []).append((_words, _name))

_CHARACTER = frozenset(row.name for row in TYPES if row.kind in CHARACTER)
_NUMBERS = (Kind.INTEGER, Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL)
_NUMERIC = frozenset((*(row.name for row in TYPES if row.kind in _NUMBERS), "real", "bool"))
_NEEDS_LENGTH = frozenset(("varchar", "varbinary"))
_TWO_NUMBERS = frozenset(("float", "double", "real", "decimal"))
_SHOWN_CONTROL = re.compile(r"\\[nr0]")
_CHARSET_WORDS = {"ASCII": "latin1", "UNICODE": "ucs2"}


def charset_words(c: Cursor) -> bool:
    """CHARACTER SET or CHARSET."""
    return c.accept("CHARSET") or c.accept("CHARACTER", "SET") or c.accept("CHAR", "SET")


def placement_policy(c: Cursor) -> None:
    """After PLACEMENT POLICY: a policy's name."""
    if not c.accept("SET", "DEFAULT"):
        c.accept("=")
        c.word_or_text("a policy")


_SPATIAL = """GEOMETRY GEOMETRYCOLLECTION POINT MULTIPOINT POLYGON MULTIPOLYGON LINESTRING MULTILINESTRING""".split()


def data_type(c: Cursor) -> DataType:
    """A type with its attributes."""
    name = next((name for words, name in _BY_WORD.get(c.upper, ()) if c.accept(*words)), "")
    if not name and c.upper in _SPATIAL:
        c.refuse("TiDB has no spatial types")
    if not name:
        c.fail("a column's type")
    if name == "real":
        name = "float" if c.mode.real_as_float else "double"
    if name in ("enum", "set"):
        return _attributes(c, DataType(name, elements=tuple(c.list_in_parentheses(_element))))
    length: int | None = None
    scale: int | None = None
    if name == "vector" and c.accept("<"):
        c.expect("FLOAT", ">")
    if c.accept("("):
        length = c.integer("a length")
        if name in _TWO_NUMBERS and c.accept(","):
            scale = c.integer("a number of fraction digits")
        c.expect(")")
    if name in _NEEDS_LENGTH and length is None:
        c.refuse(f"{name.upper()} needs a length in parentheses")
    return _attributes(c, DataType(name, length, scale))


def _element(c: Cursor) -> str | bytes:
    if c.token.kind == BITS:
        return require_bytes(c.advance().value)
    at, text = c.token, c.string("an element in quotes")
    if c.mode.restored and "\ufffd" in text:
        # TiCDC writes bytes of another character set as if they were UTF-8, and what is none is lost (U+FFFD).
        details = f"the element {text!r} has bytes that are lost in this text; give the table's SHOW CREATE TABLE"
        raise syntax_error(c.text, at.start, details)
    if c.mode.shown and _SHOWN_CONTROL.search(text):
        # SHOW CREATE TABLE writes control characters so, and a backslash as it is (upstream `format.OutputFormat`).
        reason = "has a line break, or a backslash before a letter: SHOW CREATE TABLE does not tell"
        raise syntax_error(c.text, at.start, f"the element {text!r} {reason}")
    # Trailing blanks do not belong to an element (MySQL reference, ENUM type).
    return text.rstrip(" ")


def _attributes(c: Cursor, type_: DataType) -> DataType:
    numeric, character = type_.name in _NUMERIC, type_.name in _CHARACTER
    while True:
        if numeric and (sign := c.accept_any("UNSIGNED", "SIGNED")):
            type_ = replace(type_, unsigned=type_.unsigned or sign == "UNSIGNED")
        elif numeric and c.accept("ZEROFILL"):
            type_ = replace(type_, unsigned=True, zerofill=True)
        elif type_.name == "year" and c.accept_any("UNSIGNED", "SIGNED", "ZEROFILL"):
            pass  # they change nothing
        elif character and not type_.charset and charset_words(c):
            type_ = replace(type_, charset=c.word_or_text("a character set").lower())
        elif character and not type_.binary and c.accept("BINARY"):
            type_ = replace(type_, binary=True)
        elif character and not type_.charset and c.upper in _CHARSET_WORDS:
            type_ = replace(type_, charset=_CHARSET_WORDS[c.advance().upper])
        elif character and not type_.charset and c.accept("BYTE"):
            type_ = replace(type_, charset="binary")
        else:
            break
    return type_


def column_definition(c: Cursor) -> ColumnDef:
    """name type options"""
    name = c.column()
    type_ = data_type(c)
    column = ColumnDef(name, type_)
    if type_.name == "serial":
        type_ = replace(type_, name="bigint", unsigned=True)
        column = replace(column, type=type_, nullable=False, auto_increment=True, unique_key=True)
    while changed := _with_option(c, column):
        column = changed
    return column if column.default or not c.mode.shown else replace(column, default_dropped=True)


def position(c: Cursor) -> ColumnPosition | None:
    """FIRST, AFTER column, or nothing."""
    if c.accept("FIRST"):
        return ColumnPosition()
    return ColumnPosition(c.column()) if c.accept("AFTER") else None


def _with_option(c: Cursor, column: ColumnDef) -> ColumnDef | None:
    """The definition with the option that comes; None where none comes."""
    if c.accept("NOT"):
        c.expect("NULL")
        return replace(column, nullable=False)
    if c.accept("NULL"):
        return replace(column, nullable=True)
    if c.accept("AUTO_INCREMENT"):
        return replace(column, nullable=False, auto_increment=True)
    if c.accept("SERIAL"):
        c.expect("DEFAULT", "VALUE")
        return replace(column, nullable=False, auto_increment=True, unique_key=True)
    if c.accept("AUTO_RANDOM"):
        if c.upper == "(":
            c.list_in_parentheses(Cursor.integer)
        return replace(column, auto_random=True)
    if c.upper in ("PRIMARY", "KEY"):
        c.accept("PRIMARY")
        c.expect("KEY")
        word = c.accept_any("CLUSTERED", "NONCLUSTERED")
        c.accept_any("GLOBAL", "LOCAL")
        clustered = word == "CLUSTERED" if word else None
        return replace(column, primary_key=True, unique_first=column.unique_key, clustered=clustered)
    if c.accept("UNIQUE"):
        c.accept("KEY")
        c.accept_any("GLOBAL", "LOCAL")
        return replace(column, unique_key=True)
    if c.accept("DEFAULT"):
        return replace(column, default=default_value(c))
    if c.accept("ON"):
        c.expect("UPDATE")
        if c.upper not in NOW:
            c.fail("CURRENT_TIMESTAMP")
        return replace(column, on_update=True, update_digits=int(read_now(c) or 0))
    if c.accept("COMMENT"):
        return replace(column, comment=c.comment())
    if c.upper == "COLLATE" and column.collate:
        c.refuse("Multiple COLLATE clauses")
    if c.accept("COLLATE"):
        c.accept("=")
        return replace(column, collate=c.word_or_text("a collation").lower())
    if c.upper in ("GENERATED", "AS"):
        if c.accept("GENERATED"):
            c.expect("ALWAYS")
        c.expect("AS")
        text = c.in_parentheses(expression)
        return replace(column, generated=text, stored=c.accept_any("VIRTUAL", "STORED") == "STORED")
    return column if _skip_option(c) else None


_CHOICES = {"COLUMN_FORMAT": ("DEFAULT", "FIXED", "DYNAMIC"), "STORAGE": ("DEFAULT", "DISK", "MEMORY")}


def _skip_option(c: Cursor) -> bool:
    """Reads an option that changes nothing in the definition, if one comes."""
    match c.upper:
        case "CHECK" | "CONSTRAINT":
            if c.accept("CONSTRAINT") and c.upper != "CHECK":
                c.name("a constraint's name")
            check_constraint(c)
        case "REFERENCES":
            references(c)
        case "COLUMN_FORMAT" | "STORAGE":
            choices = _CHOICES[c.advance().upper]
            if not c.accept_any(*choices):
                c.fail(*choices)
        case "SECONDARY_ENGINE_ATTRIBUTE":
            c.advance()
            c.accept("=")
            c.string()
        case "SRID":
            c.refuse("TiDB has no spatial types")
        case _:
            return False
    return True


def check_constraint(c: Cursor) -> None:
    """CHECK (…) [[NOT] ENFORCED]. Any expression may be there: TiDB keeps nothing of it while CHECKs are off."""
    c.expect("CHECK")
    c.skip_parentheses()
    if not c.accept("NOT", "ENFORCED"):
        c.accept("ENFORCED")


def references(c: Cursor) -> tuple[TableName, tuple[str, ...]]:
    """REFERENCES table (columns) [MATCH …] [ON DELETE …] [ON UPDATE …]: the table and its columns."""
    c.expect("REFERENCES")
    table, columns = c.table(), list[str]()
    if c.accept("("):
        while True:
            columns.append(c.column())
            if c.upper == "(":
                c.skip_parentheses()
            if not c.accept(","):
                break
        c.expect(")")
    if c.accept("MATCH") and not c.accept_any("FULL", "PARTIAL", "SIMPLE"):
        c.fail("FULL", "PARTIAL", "SIMPLE")
    while c.upper == "ON" and c.peek().upper in ("DELETE", "UPDATE"):
        c.advance()
        c.advance()
        known = (("RESTRICT",), ("CASCADE",), ("SET", "NULL"), ("SET", "DEFAULT"), ("NO", "ACTION"))
        if not any(c.accept(*words) for words in known):
            c.fail("RESTRICT", "CASCADE", "SET NULL", "NO ACTION")
    return table, tuple(columns)
