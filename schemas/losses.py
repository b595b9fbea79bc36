"""What a transcode loses, as data: which format, which values, and the flag or the error that tells it.

A row of LOSSES (what a target can't hold, or a source did not tell) explains differences between an event and what
comes back of it (`where`, `flag`), and refusals (`error`). `row` is the row of types.md §4 that says so; OTHER where
the table has none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from schemas import values
from schemas.event import RowChange
from schemas.table import Column, Value
from schemas.types import Kind
from schemas.wire.connect_write import is_zero_date

OTHER = 0
FAMILY = ("debezium", "debezium-avro", "debezium-mysql")
MYSQL = ("debezium-mysql",)
JSON_DOUBLE = ("debezium", "debezium/noschema", "debezium/ext", "debezium-mysql/double")
BY_NUMBER = ("open", "open-tiflow", "craft")
EXACT = ("avro", *BY_NUMBER, "debezium-avro", "debezium-mysql")
BARE = ("debezium/noschema", "debezium-mysql/noschema")
ALL = ("avro", *BY_NUMBER, *FAMILY)


@dataclass(frozen=True)
class Cell:
    """A value about to be written: its column, the event it is of, and whether the reader has definitions."""

    column: Column
    value: Value
    event: RowChange
    defined: bool

    @property
    def text(self) -> str:
        return self.value if isinstance(self.value, str) else ""

    def told(self, flag: str) -> bool:
        """Whether the reader of the source said so of this column."""
        return f"{flag}:{self.column.name}" in self.event.flags


When = Callable[[Cell], bool]


@dataclass(frozen=True)
class Loss:
    """to: the formats written (`name` for all its forms, `name/form` for one). kinds: of the column; none: any.

    where: the difference ("cell", "op", "before", "commit_ts", "name", "key", "missing", "filled"), "" when it is
    always refused. error: the code with on_lossy=error, "" when it is written all the same. flag: on what was written
    or read again; "" when it can be known without one, as the page says.
    """

    row: int
    what: str
    to: tuple[str, ...]
    where: str = "cell"
    flag: str = ""
    error: str = ""
    kinds: tuple[Kind, ...] = ()
    when: When = field(default=lambda _: True)
    undefined: bool = False  # only where the reader has no table definition
    of: Callable[[Column], bool] = field(default=lambda _: True)  # which columns of its kinds


# ---------------------------------------------------------------------------------- conditions
def _unsigned64(column: Column) -> bool:
    return column.unsigned and column.type.bits == 64


def _with_scale(column: Column) -> bool:
    return column.scale is not None


def _over_a_byte(column: Column) -> bool:
    return (column.length or 64) > 8


def _digits(cell: Cell) -> int:
    """Digits of a DECIMAL as its column's scale writes it."""
    return len(cell.text.replace(".", "").lstrip("-0"))


def _rounded(cell: Cell) -> bool:
    return isinstance(cell.value, str) and not values.survives_double(cell.text)


def _long_or_unscaled(cell: Cell) -> bool:
    return not cell.defined or _digits(cell) > 15


def _over_int64(cell: Cell) -> bool:
    return cell.column.type.bits == 64 and cell.text.isdigit() and int(cell.text) >> 63 == 1


def _zero_date(cell: Cell) -> bool:
    return is_zero_date(cell.text)


def _year_below_100(cell: Cell) -> bool:
    return cell.text.startswith("00") and not is_zero_date(cell.text)


def _zero_timestamp(cell: Cell) -> bool:
    return cell.text.startswith(values.ZERO_TIMESTAMP)


def _raw(cell: Cell) -> bool:
    return isinstance(cell.value, bytes)


def _no_element(cell: Cell) -> bool:
    return not cell.column.elements


def _absent(cell: Cell) -> bool:
    row = cell.event.before if cell.event.op == "d" else cell.event.after
    rows = [r for r in (row, cell.event.before) if r is not None]
    return any(cell.column.name not in r for r in rows)


def _was(flag: str) -> When:
    return lambda cell: cell.told(flag)


def _short_time(cell: Cell) -> bool:
    return cell.column.scale is None or not cell.defined


_REALS = (Kind.FLOAT, Kind.DOUBLE)
_DATES = (Kind.DATE, Kind.DATETIME)
_TEXTS = (Kind.TEXT,)
_ELEMENTS = (Kind.ENUM, Kind.SET)

# ---------------------------------------------------------------------------------- the table
OF_TARGET: tuple[Loss, ...] = (
    # ---- numbers
    Loss(1, "DECIMAL that no double is", JSON_DOUBLE, "cell", "lossy_decimal", "LOSSY_VALUE", (Kind.DECIMAL,),
         _rounded),
    Loss(1, "DECIMAL over 15 digits at its scale, or of a scale that the reader does not know", JSON_DOUBLE, "cell",
         "lossy_decimal", "", (Kind.DECIMAL,), _long_or_unscaled),
    Loss(1, "DECIMAL where nothing tells it from DOUBLE", JSON_DOUBLE, "cell", "decimal_or_double", "",
         (Kind.DECIMAL,), undefined=True),
    Loss(9, "BIGINT UNSIGNED above 2^63−1 as int64", ("debezium", "debezium-mysql"), "cell", "unsigned_wrapped",
         "LOSSY_VALUE", (Kind.INTEGER,), _over_int64,
         of=_unsigned64),
    Loss(10, "BIGINT UNSIGNED above 2^63−1 in mode long", ("debezium-avro",), "", "", "INVALID_VALUE", (Kind.INTEGER,),
         _over_int64,
         of=_unsigned64),
    Loss(OTHER, "FLOAT(M,D) where nothing tells it from DOUBLE: the same number in more digits", FAMILY, "cell",
         "decimal_or_double", "", (Kind.FLOAT,), undefined=True,
         of=_with_scale),
    Loss(OTHER, "FLOAT alone in a Craft message that looks damaged", ("craft",), "cell", "float_damaged", "",
         (Kind.FLOAT,)),
    # ---- dates and times
    Loss(4, "zero and partial dates", FAMILY, "cell", "zero_date", "LOSSY_VALUE", _DATES, _zero_date),
    Loss(3, "zero and partial dates in NOT NULL columns", FAMILY, "cell", "temporal_zero_ambiguous", "LOSSY_VALUE",
         _DATES, _zero_date),
    Loss(4, "years below 100", FAMILY, "cell", "year_adjusted", "LOSSY_VALUE", _DATES, _year_below_100),
    Loss(7, "TIME below 0 or from 24 h on", ("debezium-mysql/connect", "debezium-mysql/isostring"), "", "",
         "LOSSY_VALUE", (Kind.TIME,)),
    Loss(7, "fraction digits below the millisecond", ("debezium-mysql/connect",), "cell", "fraction_cut", "LOSSY_VALUE",
         (Kind.DATETIME, Kind.TIME)),
    Loss(8, "DATETIME outside 1677-09-21 to 2262-04-11", ("debezium-mysql/nanoseconds",), "", "", "LOSSY_VALUE",
         (Kind.DATETIME,)),
    Loss(15, "TIMESTAMP in the hour that a zone has twice", ALL, "cell", "timestamp_fold", "", (Kind.TIMESTAMP,)),
    Loss(15, "TIMESTAMP in the hour that a zone leaves out", ALL, "", "", "INVALID_VALUE", (Kind.TIMESTAMP,)),
    Loss(16, "fraction digits of DATETIME, TIME and the zero TIMESTAMP: 3, 6 and 0 where nothing tells", FAMILY,
         "digits", "", "", (Kind.DATETIME, Kind.TIME, Kind.TIMESTAMP), undefined=True),
    # ---- text, bytes, elements
    Loss(OTHER, "text that is not UTF-8", ("debezium", "debezium-mysql", "open-tiflow"), "cell", "invalid_utf8",
         "LOSSY_VALUE", _TEXTS, _raw),
    Loss(11, "binary strings: base64 where no type is told", ("debezium",), "cell", "binary_or_text", "",
         (Kind.BINARY,), undefined=True),
    Loss(13, "ENUM and SET by number", BY_NUMBER, "cell", "enum_number", "", _ELEMENTS, undefined=True),
    Loss(13, "BIT by number: its fewest bytes", BY_NUMBER, "bits", "", "", (Kind.BIT,), undefined=True,
         of=_over_a_byte),
    Loss(14, "an element that reads as another one with its escapes", FAMILY[1:], "", "", "INVALID_VALUE",
         (Kind.ENUM,)),
    Loss(OTHER, "every value, where neither schema nor definition tells the type", BARE, "cell", "untyped",
         undefined=True),
    # ---- names, keys, whole rows
    Loss(22, "names: every character but letters, digits and `_` becomes `_`", ("avro",), "name", undefined=True),
    Loss(22, "two columns that get one name", ("avro", "debezium-avro", "debezium-mysql/avro"), "", "", "MALFORMED"),
    Loss(19, "the old row of an update", ("avro",), "before"),
    Loss(19, "a delete's columns beyond the primary key", ("avro",), "missing"),
    Loss(19, "a delete's commit_ts", ("avro",), "commit_ts"),
    Loss(19, "a unique key that stands in for a primary key", ("avro",), "key"),
    Loss(19, "a delete in a table without primary key", ("avro",), "unread", "empty_record", "LOSSY_VALUE"),
    Loss(17, "an update without its old row reads as an insert", BY_NUMBER, "op", "no_before"),
    Loss(18, "a delete of which only the key is known: NULL in the other columns", FAMILY, "filled", "key_only_delete"),
    Loss(18, "a delete from Avro whose columns are not those of its time: a reader with definitions refuses it", FAMILY,
         "unread", "key_only_delete"),
    Loss(18, "a delete of which only the key is known, where the old row is asked for", ("avro/before",), "", "",
         "INVALID_VALUE", when=_absent),
    Loss(OTHER, "a snapshot's row reads as an insert", ("avro", *BY_NUMBER), "op"),
    Loss(2, "a value that is its column's default", ("debezium", "debezium-avro"), "", "null_or_default"),
    Loss(23, "virtual generated columns: left out, in Avro always NULL", ("avro",), "virtual"),
)  # fmt: skip

# What a source had changed, or does not tell.
OF_SOURCE: tuple[Loss, ...] = (
    Loss(1, "DECIMAL that came rounded out of a double", EXACT, "cell",
         "lossy_decimal", "LOSSY_VALUE", (Kind.DECIMAL,), _was("lossy_decimal")),
    Loss(1, "DECIMAL that came rounded beyond its precision", ALL, "", "lossy_decimal", "INVALID_VALUE",
         (Kind.DECIMAL,), _was("lossy_decimal")),
    Loss(9, "BIGINT that may be UNSIGNED", ALL, "", "sign_unknown", "TYPE_UNKNOWN", (Kind.INTEGER,), undefined=True),
    Loss(OTHER, "FLOAT that TiCDC damaged in Craft", ALL, "cell", "float_damaged", "LOSSY_VALUE", (Kind.FLOAT,),
         _was("float_damaged")),
    Loss(OTHER, "FLOAT that TiCDC damaged in Craft, no float32 any more", ALL, "", "float_damaged", "INVALID_VALUE",
         (Kind.FLOAT,), _was("float_damaged")),
    Loss(13, "ENUM and SET of which only the number is known", ALL, "", "", "TYPE_UNKNOWN", _ELEMENTS, _no_element),
    Loss(13, "an element that the column's list does not have", BY_NUMBER, "", "", "INVALID_VALUE", _ELEMENTS),
    Loss(OTHER, "columns whose type the source does not tell", ALL, "", "", "TYPE_UNKNOWN",
         when=lambda cell: bool(cell.column.vague) or cell.event.table_version is None),
    Loss(20, "commit_ts where the source has none", ALL, "commit_ts", "synthetic_commit_ts"),
    Loss(OTHER, "a row without some of its columns", ALL, "", "", "INVALID_VALUE", when=_absent),
    Loss(OTHER, "an insert or update of which only the key was sent", ALL, "", "", "KEY_ONLY_ROW"),
)  # fmt: skip
LOSSES = (*OF_TARGET, *OF_SOURCE)


def applies(loss: Loss, to: str, defined: bool) -> bool:
    """Whether a loss can happen in a form of a format."""
    return (to in loss.to or to.partition("/")[0] in loss.to) and not (loss.undefined and defined)


def explains(loss: Loss, cell: Cell | None) -> bool:
    """Whether a value, or (None) an event, is one of those that a loss is about."""
    if cell is None:
        return not loss.kinds
    return (not loss.kinds or cell.column.type.kind in loss.kinds) and loss.of(cell.column) and loss.when(cell)
