"""What TiDB refuses of a column's definition, whatever the table: names, lengths, elements.

Source: upstream tidb `pkg/planner/core/preprocess.go` (checkColumn), `pkg/ddl/add_column.go`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from ticdc_bridge.schemas.ddl.executor.charsets import Charset, collation_weight, longest_character
from ticdc_bridge.schemas.ddl.parser.lexer import ANSI_MODES
from ticdc_bridge.schemas.ddl.parser.statements import ColumnDef, DataType
from ticdc_bridge.schemas.model.types import BY_NAME, Kind

MAX_NAME: Final = 64
_MAX_COMMENT = 1024
_MAX_ELEMENT = 255


class Refusal(NamedTuple):
    """An error of TiDB: its number, and its message in TiDB's words as far as we know them.

    certain: False where TiDB refuses the statement only if something holds that is not known here.
    """

    number: int
    text: str
    certain: bool = True


NULL_IN_PRIMARY_KEY: Final = Refusal(
    1171, "All parts of a PRIMARY KEY must be NOT NULL; if you need NULL in a key, use UNIQUE instead"
)


AUTO_WITHOUT_KEY: Final = Refusal(
    1075,
    "Incorrect table definition; there can be only one auto column and it must be defined as a key (TiDB of 2026 takes "
    "one without a key)",
    certain=False,
)


class SqlModes(NamedTuple):
    """What of the session's sql_mode decides whether TiDB refuses a definition."""

    strict: bool = True
    no_zero_date: bool = True
    no_zero_in_date: bool = True
    invalid_dates: bool = False
    ignore_space: bool = False

    @classmethod
    def of(cls, sql_mode: str | None) -> SqlModes:
        """Of a sql_mode; None is TiDB's default."""
        if sql_mode is None:
            return cls()
        words = {word.strip().upper() for word in sql_mode.split(",")}
        traditional = "TRADITIONAL" in words
        return cls(
            traditional or bool(words & {"STRICT_TRANS_TABLES", "STRICT_ALL_TABLES"}),
            traditional or "NO_ZERO_DATE" in words,
            traditional or "NO_ZERO_IN_DATE" in words,
            "ALLOW_INVALID_DATES" in words,
            bool(words & {"IGNORE_SPACE", *ANSI_MODES}),
        )


# Type → its largest length and scale, the error, and the message.
_LENGTHS: Final = (
    (("char", "binary"), 255, 1074, "Column length too big for column '{c}' (max = 255); use BLOB or TEXT instead"),
    (("decimal",), 65, 1426, "Too-big precision {n} specified for '{c}'. Maximum is 65."),
    (("datetime", "timestamp", "time"), 6, 1426, "Too-big precision {n} specified for '{c}'. Maximum is 6."),
    (("bit",), 64, 1439, "Display width out of range for column '{c}' (max = 64)"),
    (("vector",), 16383, 1105, "vectors cannot have more than 16383 dimensions"),
    (("tinyint", "smallint", "mediumint", "int", "bigint"), 255, 1439,
     "Display width out of range for column '{c}' (max = 255)"),
)  # fmt: skip
_SCALED: Final = ("decimal", "float", "double")
_INTEGERS: Final = (Kind.INTEGER, Kind.FLOAT, Kind.DOUBLE)


def of_column(defined: ColumnDef, charset: Charset, modes: SqlModes) -> Iterator[Refusal]:
    """charset: the column's own, resolved."""
    yield from of_column_name(defined.name)
    yield from _of_sizes(defined, charset, modes)
    if defined.type.name in ("enum", "set"):
        yield from _of_elements(defined, charset)
    if modes.strict and len(defined.comment) > _MAX_COMMENT:
        yield Refusal(1629, f"Comment for field '{defined.name}' is too long (max = {_MAX_COMMENT})")
    kind = _kind(defined.type)
    if defined.auto_increment and kind not in _INTEGERS:
        yield Refusal(1063, f"Incorrect column specifier for column '{defined.name}'")
    if defined.auto_random and defined.type.name != "bigint":
        text = f"auto_random option must be defined on `bigint` column, but not on `{defined.type.name}` column"
        yield Refusal(8216, f"Invalid auto random: {text}")
    fits = kind in (Kind.DATETIME, Kind.TIMESTAMP) and defined.update_digits == (defined.type.length or 0)
    if defined.on_update and not fits:
        yield Refusal(1294, f"Invalid ON UPDATE clause for '{defined.name}' column")


def of_column_name(name: str) -> Iterator[Refusal]:
    yield from of_name(name, 1166, "Incorrect column name '{name}'")
    if name.lower() == "_tidb_rowid":
        yield Refusal(1166, f"Incorrect column name '{name}'")


def of_name(name: str, wrong: int, text: str) -> Iterator[Refusal]:
    """A name that is too long (1059), empty or ends with a blank. wrong, text: the error for the latter two."""
    if len(name) > MAX_NAME:
        yield Refusal(1059, f"Identifier name '{name}' is too long")
    if not name or name.endswith(" "):
        yield Refusal(wrong, text.format(name=name))


def _kind(type_: DataType) -> Kind | None:
    named = BY_NAME.get("tinyint" if type_.name == "bool" else type_.name)
    return named.kind if named else None


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
    if type_.name == "year" and length not in (None, 0, 4):
        yield Refusal(1818, "Supports only YEAR or YEAR(4) column.")
    if type_.name in _SCALED and scale is not None:
        if scale > 30:
            yield Refusal(1425, f"Too big scale {scale} specified for column '{name}'. Maximum is 30.")
        if type_.name != "decimal" and not 0 < (length or 0) <= 255:
            yield Refusal(1439, f"Display width out of range for column '{name}' (max = 255)")
        elif scale > (length or 0):
            text = f"For float(M,D), double(M,D) or decimal(M,D), M must be >= D (column '{name}')."
            yield Refusal(1427, text)
    elif type_.name == "double" and length is not None and scale is None:
        yield Refusal(1149, f"DOUBLE of column '{name}' has one number in parentheses, and takes two or none")
    elif type_.name == "float" and (length or 0) > 53:
        yield Refusal(1063, f"Incorrect column specifier for column '{name}'")


def _of_elements(defined: ColumnDef, charset: Charset) -> Iterator[Refusal]:
    word, elements = defined.type.name.upper(), defined.type.elements
    texts = [e for e in elements if isinstance(e, str)]
    weights = set[str]()
    for text in texts:
        weight = collation_weight(text, charset.collate)
        if weight in weights:
            yield Refusal(1291, f"Column '{defined.name}' has duplicated value '{text}' in {word}")
        weights.add(weight)
        if word == "SET" and "," in text:
            yield Refusal(1367, f"Illegal set '{text}' value found during parsing")
        if len(text) > _MAX_ELEMENT:
            yield Refusal(3505, f"Too long enumeration/set value for column {defined.name}.")
    if word == "SET" and len(elements) > 64:
        yield Refusal(1097, f"Too many strings for column {defined.name} and SET")
