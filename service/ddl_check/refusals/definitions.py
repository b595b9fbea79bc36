"""What TiDB refuses of a column's definition, in CREATE TABLE and ALTER TABLE alike.

Source: upstream tidb `pkg/planner/core/preprocess.go` (checkColumn), `pkg/ddl/{add_column,column,generated_column}.go`.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Final, NamedTuple

from ticdc_bridge.schemas.ddl.executor.charsets import Charset, collation_weight, encodable, longest_character, resolve
from ticdc_bridge.schemas.ddl.executor.column_types import column
from ticdc_bridge.schemas.ddl.executor.default_values import with_default
from ticdc_bridge.schemas.ddl.parser.cursor import Cursor
from ticdc_bridge.schemas.ddl.parser.lexer import END, LexicalMode
from ticdc_bridge.schemas.ddl.parser.statements import ColumnDef, DefaultValue, TableOptions
from ticdc_bridge.schemas.model.errors import DdlError
from ticdc_bridge.schemas.model.table import Column
from ticdc_bridge.schemas.model.types import BY_NAME, Kind
from ticdc_bridge.schemas.model.values import integer_limits

_MAX_NAME: Final = 64
_COLLATIONS: Final = frozenset("""
    ascii_bin binary gb18030_bin gb18030_chinese_ci gbk_bin gbk_chinese_ci latin1_bin utf8_bin utf8_general_ci
    utf8_unicode_ci utf8mb4_0900_ai_ci utf8mb4_0900_bin utf8mb4_bin utf8mb4_general_ci utf8mb4_unicode_ci
    utf8mb4_zh_pinyin_tidb_as_cs
""".split())  # fmt: skip
_CHARSETS: Final = ("utf8mb4", "utf8", "utf8mb3", "latin1", "ascii", "binary", "gbk", "gb18030")
_INTRODUCERS: Final = _CHARSETS[:6]
_ENGINES: Final = (
    "archive", "blackhole", "csv", "example", "federated", "innodb", "memory", "merge", "mgr_myisam", "myisam", "ndb",
    "heap", "aria", "myrocks",
)  # fmt: skip
_LOBS: Final = ("tinytext", "text", "mediumtext", "longtext", "tinyblob", "blob", "mediumblob", "longblob", "json")
_NUMBERS: Final = (Kind.INTEGER, Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL)
_CAPACITY: Final = {"tiny": 255, "": 65_535, "medium": (1 << 24) - 1, "long": (1 << 32) - 1}
_MOST_DIGITS: Final = 65
_EXACT: Final = Context(prec=100)
# Types → their largest length, the error, and the message.
_LENGTHS: Final = (
    (("char", "binary"), 255, 1074, "Column length too big for column '{c}' (max = 255); use BLOB or TEXT instead"),
    (("decimal",), 65, 1426, "Too-big precision {n} specified for '{c}'. Maximum is 65."),
    (("datetime", "timestamp", "time"), 6, 1426, "Too-big precision {n} specified for '{c}'. Maximum is 6."),
    (("bit",), 64, 1439, "Display width out of range for column '{c}' (max = 64)"),
    (("tinyint", "smallint", "mediumint", "int", "bigint"), 255, 1439,
     "Display width out of range for column '{c}' (max = 255)"),
)  # fmt: skip
# Functions that neither a generated column nor an expression index may call (upstream IllegalFunctions4GeneratedColumns
# in `pkg/expression/function_traits.go`).
_DISALLOWED: Final = frozenset("""
    benchmark connection_id curdate current_date current_role current_time current_timestamp current_user curtime
    database found_rows get_lock is_free_lock is_used_lock last_insert_id load_file localtime localtimestamp now rand
    random_bytes release_all_locks release_lock row_count schema session_user sleep sysdate system_user unix_timestamp
    user utc_date utc_time utc_timestamp uuid uuid_short values version
""".split())  # fmt: skip
# Functions that the DEFAULT of a new column may call, and others that a DEFAULT may call in some version.
_STABLE: Final = ("date_format", "str_to_date", "nextval")
_UNSTABLE: Final = tuple("json_array json_object json_quote rand replace upper uuid uuid_to_bin vec_from_text".split())
_SPATIAL: Final = re.compile(r"st_\w+|mbr\w+|(?:multi)?(?:point|linestring|polygon)|geometrycollection")
_CALL: Final = re.compile(r"\b([a-z_][a-z0-9_]*)\(")
_CAST: Final = re.compile(r" as \w+")
_NAME_OR_TEXT: Final = re.compile(r"`((?:[^`]|``)+)`|'(?:[^']|'')*'")


class Refusal(NamedTuple):
    """certain: False where TiDB refuses the statement only if something holds that is not known here."""

    number: int
    text: str
    certain: bool = True


class SqlModes(NamedTuple):
    """What of the session's sql_mode decides whether TiDB refuses a definition."""

    strict: bool = True
    no_zero_date: bool = True
    no_zero_in_date: bool = True
    invalid_dates: bool = False

    @classmethod
    def of(cls, sql_mode: str | None) -> SqlModes:
        """The rules of a sql_mode; None is TiDB's default."""
        if sql_mode is None:
            return cls()
        words = {word.strip().upper() for word in sql_mode.split(",")}
        traditional = "TRADITIONAL" in words
        return cls(
            traditional or bool(words & {"STRICT_TRANS_TABLES", "STRICT_ALL_TABLES"}),
            traditional or "NO_ZERO_DATE" in words,
            traditional or "NO_ZERO_IN_DATE" in words,
            "ALLOW_INVALID_DATES" in words,
        )


# ---- names and character sets
def of_name(name: str, wrong: int, what: str) -> Iterator[Refusal]:
    """A name that is too long (1059), empty or ends with a blank. wrong: the error for the latter two."""
    if len(name) > _MAX_NAME:
        yield Refusal(1059, f"Identifier name '{name}' is too long")
    if not name or name.endswith(" "):
        yield Refusal(wrong, f"Incorrect {what} name '{name}'")


def of_charset_names(charset: str | None, collate: str | None) -> Iterator[Refusal]:
    if charset and charset not in (*_CHARSETS, "default"):
        yield Refusal(1115, f"Unknown character set: '{charset}'")
    elif collate:
        known = collate.replace("utf8mb3_", "utf8_")
        owner = "binary" if known == "binary" else known.partition("_")[0]
        if known not in _COLLATIONS:
            yield Refusal(1273, f"Unknown collation: '{collate}'")
        elif charset and charset != "default" and owner != charset.replace("utf8mb3", "utf8"):
            yield Refusal(1253, f"COLLATION '{collate}' is not valid for CHARACTER SET '{charset}'")


def of_introducers(sql: str, mode: LexicalMode) -> Iterator[Refusal]:
    """Character sets before texts and bits, as in _gbk'…': TiDB takes some of those that it has."""
    c = Cursor(sql, mode)
    while c.token.kind != END:
        if c.is_introducer() and c.upper[1:].lower() not in _INTRODUCERS:
            yield Refusal(1115, f"Unsupported character introducer: '{c.upper[1:].lower()}'", certain=False)
        c.advance()


def of_options(options: TableOptions) -> Iterator[Refusal]:
    yield from of_charset_names(options.charset, options.collate)
    if options.engine is not None and options.engine.lower() not in _ENGINES:
        yield Refusal(1286, f"Unknown storage engine '{options.engine}'")


def charset_of(charset: str | None, collate: str | None, fallback: Charset) -> Charset:
    try:
        return resolve(charset, collate, fallback)
    except DdlError:
        return fallback


# ---- a column
def of_definition(defined: ColumnDef, table: Charset, modes: SqlModes, *, added: bool) -> Iterator[Refusal]:
    """A column in a table of this character set. added: by ALTER TABLE, where each row gets the default at once."""
    charset = charset_of(defined.type.charset, defined.collate, table)
    found = [
        *of_charset_names(defined.type.charset, defined.collate), *of_column_name(defined.name),
        *_of_sizes(defined, charset, modes), *_of_elements(defined, charset), *_of_options(defined),
        *_of_generated(defined),
    ]  # fmt: skip
    yield from found
    if not found and defined.default is not None and defined.generated is None:
        try:
            without_default = column(replace(defined, default=None), table)
        except DdlError:
            return
        yield from _of_default(defined, defined.default, without_default, modes, added)


def of_column_name(name: str) -> Iterator[Refusal]:
    yield from of_name(name, 1166, "column")
    if name.lower() == "_tidb_rowid":
        yield Refusal(1166, f"Incorrect column name '{name}'")


def is_shorter(old: Column, new: Column) -> bool:
    """True if a string column gets less room, in characters or bytes."""
    sizes = []
    for c in (old, new):
        end = c.type.name[-4:]
        sizes.append(_CAPACITY[c.type.name.removesuffix(end)] if end in ("text", "blob") else c.length or 0)
    return sizes[1] < sizes[0]


def _of_sizes(defined: ColumnDef, charset: Charset, modes: SqlModes) -> Iterator[Refusal]:
    type_, name = defined.type, defined.name
    length, scale = type_.length, type_.scale
    for names, limit, number, text in _LENGTHS:
        if type_.name in names and (length or 0) > limit:
            yield Refusal(number, text.format(c=name, n=length))
    if type_.name in ("varchar", "varbinary"):
        limit = 65535 // (longest_character(charset.name) if type_.name == "varchar" else 1)
        if (length or 0) > limit and (modes.strict or type_.charset):
            yield Refusal(1074, f"Column length too big for column '{name}' (max = {limit}); use BLOB or TEXT instead")
    if type_.name == "bit" and length == 0:
        yield Refusal(3013, f"Invalid size for column '{name}'.")
    if type_.name in ("decimal", "float", "double") and scale is not None:
        if scale > 30:
            yield Refusal(1425, f"Too big scale {scale} specified for column '{name}'. Maximum is 30.")
        elif scale > (length or 0):
            text = f"For float(M,D), double(M,D) or decimal(M,D), M must be >= D (column '{name}')."
            yield Refusal(1427, text)


def _of_elements(defined: ColumnDef, charset: Charset) -> Iterator[Refusal]:
    word, weights = defined.type.name.upper(), set[str]()
    for text in (e for e in defined.type.elements if isinstance(e, str)):
        weight = collation_weight(text, charset.collate)
        if weight in weights:
            yield Refusal(1291, f"Column '{defined.name}' has duplicated value '{text}' in {word}")
        weights.add(weight)
        if word == "SET" and "," in text:
            yield Refusal(1367, f"Illegal set '{text}' value found during parsing")


def _of_options(defined: ColumnDef) -> Iterator[Refusal]:
    named = BY_NAME.get("tinyint" if defined.type.name == "bool" else defined.type.name)
    kind = named.kind if named else None
    if defined.auto_increment and kind not in _NUMBERS[:3]:
        yield Refusal(1063, f"Incorrect column specifier for column '{defined.name}'")
    fits = kind in (Kind.DATETIME, Kind.TIMESTAMP) and defined.update_digits == (defined.type.length or 0)
    if defined.on_update and not fits:
        yield Refusal(1294, f"Invalid ON UPDATE clause for '{defined.name}' column")


# ---- generated columns
def generated_names(expression: str) -> list[str]:
    """The columns that an expression names, in TiDB's own text of it."""
    return [name.replace("``", "`") for name in _NAME_OR_TEXT.findall(expression) if name]


def _of_generated(defined: ColumnDef) -> Iterator[Refusal]:
    if defined.generated is None:
        return
    words = {
        "DEFAULT": defined.default is not None, "AUTO_INCREMENT": defined.auto_increment,
        "ON UPDATE": defined.on_update,
    }  # fmt: skip
    yield from (Refusal(1221, f"Incorrect usage of {w} and generated column") for w, found in words.items() if found)
    if defined.primary_key and not defined.stored:
        yield VIRTUAL_KEY
    text = f"Expression of generated column '{defined.name}' contains a disallowed function."
    yield from of_functions(defined.generated, Refusal(3102, text))


VIRTUAL_KEY: Final = Refusal(
    3106, "'Defining a virtual generated column as primary key' is not supported for generated columns."
)


def called_functions(expression: str) -> set[str]:
    """The functions that TiDB's own text of an expression calls, in small letters."""
    return set(_CALL.findall(_CAST.sub(" as ", _NAME_OR_TEXT.sub("``", expression))))


def of_functions(expression: str, disallowed: Refusal) -> Iterator[Refusal]:
    """The refusal of a generated column's or index's text. disallowed: the error for such a function."""
    names = called_functions(expression)
    if names & _DISALLOWED or any(map(_SPATIAL.fullmatch, names)):
        yield disallowed


def of_dependency(defined: ColumnDef, columns: Sequence[Column | ColumnDef]) -> Iterator[Refusal]:
    """columns: all that the table has, with the new one in its place."""
    known = {c.name.lower(): (n, c) for n, c in enumerate(columns)}
    at = known.get(defined.name.lower(), (len(columns), defined))[0]
    for name in generated_names(defined.generated or ""):
        index, named = known.get(name.lower(), (0, None))
        if named is None:
            yield Refusal(1054, f"Unknown column '{name}' in 'generated column function'")
        elif named.auto_increment:
            yield Refusal(3109, f"Generated column '{defined.name}' cannot refer to auto-increment column.")
        elif named.generated is not None and index >= at:
            yield Refusal(3107, "Generated column can refer only to generated columns defined prior to it.")


def of_twice(names: Sequence[str]) -> Iterator[Refusal]:
    lower = [name.lower() for name in names]
    yield from (
        Refusal(1060, f"Duplicate column name '{name}'") for n, name in enumerate(names) if name.lower() in lower[:n]
    )


# ---- defaults
def _of_default(
    defined: ColumnDef, default: DefaultValue, without_default: Column, modes: SqlModes, added: bool
) -> Iterator[Refusal]:
    """without_default: the column as it is then."""
    if default.kind == "null":
        if defined.nullable is False or defined.primary_key:
            yield _invalid(defined.name)
    elif default.kind in ("expr", "computed") and default.text.endswith("`") and "(" not in default.text:
        yield Refusal(1105, "column name is not yet supported as a default value")
    elif default.kind == "expr":
        yield from of_call(defined.name, default.text, added=added)
    else:
        if default.kind != "computed":
            yield from of_literal(without_default, default, modes)
        if defined.auto_increment:
            yield _invalid(defined.name)


def of_call(name: str, text: str, *, added: bool) -> Iterator[Refusal]:
    """A default that calls a function, in TiDB's own text (upstream `getFuncCallDefaultValue`)."""
    function, bracket, _ = text.partition("(")
    if bracket and function not in (*_STABLE, *_UNSTABLE):
        words = f"Default value expression of column '{name}' contains a disallowed function"
        yield Refusal(3770, f"{words}: `{function}`.")
    elif bracket and added and function not in _STABLE:
        words = "it uses a system function that may return a different value on the slave"
        yield Refusal(1674, f"Statement is unsafe because {words}")


def of_literal(column: Column, default: DefaultValue, modes: SqlModes) -> Iterator[Refusal]:
    """A default that is no expression and not NULL."""
    kind = column.type.kind
    if column.type.name in _LOBS:
        if modes.strict or default != DefaultValue("text"):
            yield Refusal(1101, f"BLOB/TEXT/JSON column '{column.name}' can't have a default value")
    elif default.kind == "now":
        if kind not in (Kind.DATETIME, Kind.TIMESTAMP) or int(default.text or 0) != (column.scale or 0):
            yield _invalid(column.name)
    elif default.kind == "date":
        if kind in (*_NUMBERS, Kind.BIT, Kind.TIME):
            yield _invalid(column.name)
    elif not _holds(column, default, modes):
        yield _invalid(column.name)


def _invalid(name: str) -> Refusal:
    return Refusal(1067, f"Invalid default value for '{name}'")


def _holds(column: Column, default: DefaultValue, modes: SqlModes) -> bool:
    """True if a type holds a value."""
    try:
        made = with_default(replace(column, default=None), default).default
    except DdlError:
        return False
    kind, text = column.type.kind, str(made)
    if isinstance(made, bytes):  # a byte that is no UTF-8 is kept as U+FFFD, and is one byte of the column
        made = made.replace("\N{REPLACEMENT CHARACTER}".encode(), b"?")
    too_long = modes.strict and column.length is not None and len(made or "") > column.length
    if isinstance(made, bytes):
        return kind is not Kind.BINARY or not too_long
    if kind in _NUMBERS:
        return _in_range(column, text)
    if kind in (Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP):
        return _is_date(kind, text, modes)
    return kind is not Kind.TEXT or not (too_long or (modes.strict and not encodable(text, column.charset)))


def _in_range(column: Column, text: str) -> bool:
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        return False
    if not number.is_finite() or (column.unsigned and number < 0):
        return False
    if column.type.kind in (Kind.INTEGER, Kind.DECIMAL):
        if number.adjusted() >= _MOST_DIGITS:
            return False
        number = number.quantize(Decimal(1).scaleb(-(column.scale or 0)), ROUND_HALF_UP, _EXACT)
    if column.type.kind is Kind.INTEGER:
        low, high = integer_limits(column.type.bits, column.unsigned)
        return low <= number <= high
    if column.length is not None and column.scale is not None:
        return number.copy_abs() < Decimal(10) ** (column.length - column.scale)
    return column.type.kind is not Kind.FLOAT or abs(number) < Decimal("3.4028235e38")


def _is_date(kind: Kind, text: str, modes: SqlModes) -> bool:
    year, month, day = int(text[:4]), int(text[5:7]), int(text[8:10])
    if not (year or month or day):
        return not (modes.strict and modes.no_zero_date)
    if not (month and day):
        return kind is not Kind.TIMESTAMP and not (modes.strict and modes.no_zero_in_date)
    if day > calendar.monthrange(year or 2000, month)[1] and not (modes.invalid_dates and day <= 31):
        return False
    # A day on either side: the session's time zone is not known here.
    return kind is not Kind.TIMESTAMP or "1969-12-31" <= text[:10] <= "2038-01-20"
