"""Losses of a transcode, as data: which format, which values, and the flag or the error that tells it.

A row of LOSSES (what a target can't hold, or a source did not tell) explains differences between an event and what
comes back of it (`where`, `flag`), and refusals (`error`). Losses of one kind have one number (`row`), the group in
docs/reference.md; OTHER is for those that stand alone.
"""

import base64
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ticdc_bridge.schemas.formats.debezium.connect import adjusted_year, is_zero_date
from ticdc_bridge.schemas.formats.format_table import WRITTEN
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.event import Row, RowChange
from ticdc_bridge.schemas.model.names import sanitise_name
from ticdc_bridge.schemas.model.table import Column, Value
from ticdc_bridge.schemas.model.types import BY_NAME, ELEMENTS, FRACTIONAL, Kind

OTHER = 0
CONNECTORS = ("debezium-mysql", "debezium-tidb")
FAMILY = ("debezium", "debezium-avro", *CONNECTORS)
JSON_DOUBLE = ("debezium", "debezium/noschema", "debezium/ext", "debezium-mysql/double")
BY_NUMBER = ("open", "open-tiflow", "craft")
EXACT = ("avro", *BY_NUMBER, "debezium-avro", *CONNECTORS)
WITHOUT_SCHEMA = ("debezium/noschema", "debezium-mysql/noschema")


@dataclass(frozen=True)
class WrittenValue:
    """A value about to be written: its column, the event it is of, and whether the reader has definitions."""

    column: Column
    value: Value
    event: RowChange
    defined: bool

    @property
    def text(self) -> str:
        return self.value if isinstance(self.value, str) else ""

    def has_flag(self, flag: str) -> bool:
        """True if the reader of the source said so of this column."""
        return f"{flag}:{self.column.name}" in self.event.flags


@dataclass(frozen=True)
class ValuePair:
    """A value of a column (None: of the event) and what came back of it; the events that both are of."""

    column: Column | None
    original: Any
    other: Any
    event: RowChange
    back: RowChange

    def has_flag(self, flag: str) -> bool:
        """True if either event is flagged so for the column."""
        name = self.column.name if self.column else ""
        return f"{flag}:{name}" in {*self.event.flags, *self.back.flags}


When = Callable[[WrittenValue], bool]
Becomes = Callable[[ValuePair], bool]


@dataclass(frozen=True)
class Loss:
    """to: the formats written (`name` for all its forms, `name/form` for one). kinds: of the column; none: any.

    where: the difference ("cell", "op", "before", "commit_ts", "name", "key", "missing", "filled"), "" when it is
    always refused. error: the code with on_lossy=error, "" when it is written all the same. flag: on what was written
    or read again; "" when it can be known without one, as the page says. becomes: whether what came back is what the
    loss makes of the value; a ValueError says no.
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
    becomes: Becomes = field(default=lambda _: True)


# ---------------------------------------------------------------------------------- conditions


def _over_int64(cell: WrittenValue) -> bool:
    return cell.column.type.bits == 64 and cell.text.isdigit() and int(cell.text) >> 63 == 1


def _zero_date(cell: WrittenValue) -> bool:
    return is_zero_date(cell.text)


def _is_absent(cell: WrittenValue) -> bool:
    row = cell.event.before if cell.event.op == "d" else cell.event.after
    return any(r is not None and cell.column.name not in r for r in (row, cell.event.before))


# ---------------------------------------------------------------------------------- what becomes of a value
def _number(pair: ValuePair) -> bool:
    """The same number: a rounded one, or the same in more digits."""
    left, other = values.real(str(pair.original)), values.real(str(pair.other))
    if left == other:
        return True
    is_float = pair.column is not None and pair.column.type.kind is Kind.FLOAT
    return is_float and values.as_float32(left) == values.as_float32(other)


def _null_or_1970(pair: ValuePair) -> bool:
    return pair.other is None or _clock(pair.other) == "1970-01-01 00:00:00"


def _to_millis(pair: ValuePair) -> bool:
    (left, micros), (other, rest) = (_fraction(pair.original), _fraction(pair.other))
    return left == other and micros[:3] == rest[:3] and not rest[3:].strip("0")


def _clock(value: Value) -> str:
    """A date or a time without what its column's type adds to it: 0 h, fraction digits that are 0."""
    text = str(value)
    seconds, fraction = _fraction(text if len(text) > 10 else f"{text} 00:00:00")
    return f"{seconds}.{fraction}" if fraction.strip("0") else seconds


def _fraction(value: Value) -> tuple[str, str]:
    integer, _, fraction = str(value).partition(".")
    return integer, fraction.ljust(6, "0")


def _same_clock(pair: ValuePair) -> bool:
    """The same time of day in the zone that has it twice."""
    if pair.event.zone == pair.back.zone:
        return False
    here, target_zone = pair.event.zone, pair.back.zone
    forth = _clock(values.shift_zone(str(pair.original), here, target_zone)[0]) == _clock(pair.other)
    return forth or _clock(values.shift_zone(str(pair.other), target_zone, here)[0]) == _clock(pair.original)


def _as_text(value: Value) -> str:
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return re.sub("\ufffd+", "\ufffd", text)


def _as_base64(pair: ValuePair) -> bool:
    left, other = pair.original, pair.other
    if isinstance(left, str) and isinstance(other, bytes):
        left, other = other, left
    if not isinstance(left, bytes) or not isinstance(other, str):
        return False
    return other in (base64.b64encode(left).decode(), base64.urlsafe_b64encode(left).decode(), left.hex()) or (
        left == other.encode("utf-8", "surrogateescape")
    )


def _by_number(pair: ValuePair) -> bool:
    """The number of an ENUM's element, the bits of a SET's."""
    if pair.column is None or not pair.column.elements:
        return True
    number = next((v for v in (pair.other, pair.original) if isinstance(v, str) and v.isdecimal()), None)
    if number is None:
        return False
    name = pair.original if number is pair.other else pair.other
    elements = pair.column.elements
    if pair.column.type.kind is Kind.ENUM:
        return bool(name == dict(enumerate(("", *elements))).get(int(number)))
    return bool(name == values.set_names(int(number), elements))


def _is_untyped(pair: ValuePair) -> bool:
    existing = pair.back.table.by_name.get(pair.column.name) if pair.column else None
    return existing is None or bool(existing.vague)


def _is_damaged(pair: ValuePair) -> bool:
    return pair.has_flag("float_damaged")


def _is_unchanged(pair: ValuePair) -> bool:
    """A column that the old row of an update lacks has the new row's value."""
    if pair.column is None or pair.event.op != "u" or pair.event.before is None:
        return False
    name = pair.column.name
    return name not in pair.event.before and (pair.back.after or {}).get(name) == pair.other


_DATES = (Kind.DATE, Kind.DATETIME)

# ---------------------------------------------------------------------------------- the table
OF_TARGET: tuple[Loss, ...] = (
    # ---- numbers
    Loss(1, "DECIMAL that a double can't hold exactly", JSON_DOUBLE, "cell", "lossy_decimal", "LOSSY_VALUE",
         (Kind.DECIMAL,),
         lambda cell: isinstance(cell.value, str) and not values.survives_double(cell.text), becomes=_number),
    Loss(1, "DECIMAL of more than 15 digits, or of a scale that the reader does not know", JSON_DOUBLE, "cell",
         "lossy_decimal", "", (Kind.DECIMAL,),
         lambda cell: not cell.defined or len(cell.text.replace(".", "").lstrip("-0")) > 15, becomes=_number),
    Loss(1, "DECIMAL that the reader can't distinguish from DOUBLE", JSON_DOUBLE, "cell", "decimal_or_double", "",
         (Kind.DECIMAL,), undefined=True, becomes=_number),
    Loss(9, "BIGINT UNSIGNED above 2^63−1 as int64", ("debezium", *CONNECTORS), "cell", "unsigned_wrapped",
         "LOSSY_VALUE", (Kind.INTEGER,), _over_int64, of=lambda column: column.is_unsigned64,
         becomes=lambda pair: not (values.integer(str(pair.original)) - values.integer(str(pair.other))) % (1 << 64)),
    Loss(10, "BIGINT UNSIGNED above 2^63−1 in mode long", ("debezium-avro",), "", "", "INVALID_VALUE", (Kind.INTEGER,),
         _over_int64, of=lambda column: column.is_unsigned64),
    Loss(OTHER, "FLOAT(M,D) that the reader can't distinguish from DOUBLE: the same number with more digits", FAMILY,
         "cell", "decimal_or_double", "", (Kind.FLOAT,), undefined=True,
         of=lambda column: column.scale is not None, becomes=_number),
    Loss(OTHER, "FLOAT in a Craft message that looks damaged", ("craft",), "cell", "float_damaged", "",
         (Kind.FLOAT,), becomes=_is_damaged),
    # ---- dates and times
    Loss(4, "zero and partial dates", FAMILY, "cell", "zero_date", "LOSSY_VALUE", _DATES, _zero_date,
         becomes=_null_or_1970),
    Loss(3, "zero and partial dates in NOT NULL columns", FAMILY, "cell", "temporal_zero_ambiguous", "LOSSY_VALUE",
         _DATES, _zero_date, becomes=_null_or_1970),
    Loss(4, "years below 100", FAMILY, "cell", "year_adjusted", "LOSSY_VALUE", _DATES,
         lambda cell: cell.text.startswith("00") and not is_zero_date(cell.text),
         becomes=lambda pair: _clock(pair.other) == _clock(adjusted_year(str(pair.original)))),
    Loss(7, "TIME below 0, or of 24 hours and more", ("debezium-mysql/connect", "debezium-mysql/isostring"), "", "",
         "LOSSY_VALUE", (Kind.TIME,)),
    Loss(7, "fraction digits below the millisecond", ("debezium-mysql/connect",), "cell", "fraction_cut", "LOSSY_VALUE",
         (Kind.DATETIME, Kind.TIME), becomes=_to_millis),
    Loss(8, "DATETIME outside 1677-09-21 to 2262-04-11", ("debezium-mysql/nanoseconds",), "", "", "LOSSY_VALUE",
         (Kind.DATETIME,)),
    Loss(15, "TIMESTAMP in the hour that a time zone has twice", WRITTEN, "cell", "timestamp_fold", "",
         (Kind.TIMESTAMP,), becomes=_same_clock),
    Loss(15, "TIMESTAMP in the hour that a time zone skips", WRITTEN, "", "", "INVALID_VALUE", (Kind.TIMESTAMP,)),
    Loss(16, "number of fraction digits of DATETIME, TIME and the zero TIMESTAMP: 3, 6 and 0 without definitions",
         FAMILY, "digits", "", "", (Kind.DATETIME, Kind.TIME, Kind.TIMESTAMP), undefined=True),
    # ---- text, bytes, elements
    Loss(OTHER, "text that is not UTF-8", ("debezium", *CONNECTORS, "open", "open-tiflow"), "cell", "invalid_utf8",
         "LOSSY_VALUE", (Kind.TEXT,), lambda cell: isinstance(cell.value, bytes),  # readers differ in how many U+FFFD
         becomes=lambda pair: _as_text(pair.original) == _as_text(pair.other)),
    Loss(11, "binary strings: base64 text where the reader does not know the type", ("debezium", "debezium-tidb"),
         "cell", "binary_or_text", "", (Kind.BINARY,), undefined=True, becomes=_as_base64),
    Loss(13, "ENUM and SET as numbers", BY_NUMBER, "cell", "enum_number", "", ELEMENTS, undefined=True,
         becomes=_by_number),
    Loss(13, "BIT as a number: without leading zero bytes", BY_NUMBER, "bits", "", "", (Kind.BIT,), undefined=True,
         of=lambda column: (column.length or 64) > 8),
    Loss(14, "an element whose escaped text is that of another element", FAMILY[1:], "", "", "INVALID_VALUE",
         (Kind.ENUM,)),
    Loss(OTHER, "every value whose type neither a schema nor a definition gives", WITHOUT_SCHEMA, "cell", "untyped",
         undefined=True, becomes=_is_untyped),
    # ---- names, keys, whole rows
    Loss(22, "names: every character but letters, digits and `_` becomes `_`", ("avro",), "name", undefined=True),
    Loss(22, "two columns that get the same name", ("avro", "debezium-avro", "debezium-mysql/avro"), "", "",
         "MALFORMED"),
    Loss(19, "the old row of an update", ("avro",), "before",
         becomes=lambda pair: pair.event.op != "d" and pair.back.before is None),
    Loss(19, "a delete's columns beyond the primary key", ("avro",), "missing", becomes=lambda pair: (
        pair.event.op == pair.back.op == "d" and (pair.column is None or pair.column.name not in pair.event.key))),
    Loss(19, "a delete's commit_ts", ("avro",), "commit_ts"),
    Loss(19, "a unique key in place of a primary key", ("avro",), "key",
         becomes=lambda pair: not any(column.primary_key for column in pair.event.table.columns)),
    Loss(19, "a delete in a table without primary key", ("avro",), "unread", "empty_record", "LOSSY_VALUE"),
    Loss(17, "an update without its old row reads as an insert", (*BY_NUMBER, *CONNECTORS), "op", "no_before",
         becomes=lambda pair: pair.event.before is None and (pair.event.op, pair.back.op) == ("u", "c")),
    Loss(OTHER, "an old row of which only the changed columns were sent: written whole",
         (*FAMILY, "avro/before", *BY_NUMBER), "extra", becomes=_is_unchanged),
    Loss(18, "a delete without columns beyond its key: NULL in the others", FAMILY, "filled", "key_only_delete"),
    Loss(18, "a delete from Avro whose columns are not those of its time: a reader with definitions refuses it", FAMILY,
         "unread", "key_only_delete"),
    Loss(18, "a delete without columns beyond its key, where the old row is asked for", ("avro/before",), "", "",
         "INVALID_VALUE", when=_is_absent),
    Loss(OTHER, "a snapshot's row reads as an insert", ("avro", *BY_NUMBER), "op",
         becomes=lambda pair: (pair.event.op, pair.back.op) == ("r", "c")),
    Loss(2, "a value equal to its column's default: it may have been NULL", ("debezium", "debezium-avro"), "",
         "null_or_default"),
    Loss(23, "virtual generated columns: left out, in Avro always NULL", ("avro",), "virtual"),
)  # fmt: skip

# What a source had changed, or does not tell.
OF_SOURCE: tuple[Loss, ...] = (
    Loss(1, "DECIMAL that the source has rounded to a double", EXACT, "cell",
         "lossy_decimal", "LOSSY_VALUE", (Kind.DECIMAL,), lambda cell: cell.has_flag("lossy_decimal"), becomes=_number),
    Loss(1, "DECIMAL that the source has rounded beyond its precision", WRITTEN, "", "lossy_decimal", "INVALID_VALUE",
         (Kind.DECIMAL,), lambda cell: cell.has_flag("lossy_decimal")),
    Loss(9, "BIGINT that may be UNSIGNED", WRITTEN, "", "sign_unknown", "TYPE_UNKNOWN", (Kind.INTEGER,),
         undefined=True),
    Loss(OTHER, "FLOAT that TiCDC damaged in Craft", WRITTEN, "cell", "float_damaged", "LOSSY_VALUE", (Kind.FLOAT,),
         lambda cell: cell.has_flag("float_damaged"), becomes=_is_damaged),
    Loss(OTHER, "FLOAT that TiCDC damaged in Craft, no longer a float32", WRITTEN, "", "float_damaged", "INVALID_VALUE",
         (Kind.FLOAT,), lambda cell: cell.has_flag("float_damaged")),
    Loss(13, "ENUM and SET of which only the number is known", WRITTEN, "", "", "TYPE_UNKNOWN", ELEMENTS,
         lambda cell: not cell.column.elements),
    Loss(13, "an element that the column's list does not have", BY_NUMBER, "", "", "INVALID_VALUE", ELEMENTS),
    Loss(OTHER, "columns whose type the source does not give", WRITTEN, "", "", "TYPE_UNKNOWN",
         when=lambda cell: bool(cell.column.vague) or cell.event.table_version is None),
    Loss(20, "commit_ts where the source has none", WRITTEN, "commit_ts", "synthetic_commit_ts"),
    Loss(20, "a delete's commit_ts where the source has none (TiCDC's Avro)", (*BY_NUMBER, "debezium-avro"),
         "commit_ts", "synthetic_commit_ts", "LOSSY_VALUE"),
    Loss(OTHER, "a row without some of its columns", WRITTEN, "", "", "INVALID_VALUE", when=_is_absent),
    Loss(OTHER, "an insert or update of which only the key was sent", WRITTEN, "", "", "KEY_ONLY_ROW"),
)  # fmt: skip
LOSSES = (*OF_TARGET, *OF_SOURCE)


def explains(loss: Loss, cell: WrittenValue | None) -> bool:
    """True if a value, or (None) an event, is one of those that a loss is about."""
    if cell is None:
        return not loss.kinds
    return (not loss.kinds or cell.column.type.kind in loss.kinds) and loss.of(cell.column) and loss.when(cell)


def makes(loss: Loss, pair: ValuePair) -> bool:
    """True if what came back is what a loss makes of the value."""
    try:
        return loss.becomes(pair)
    except (ValueError, OverflowError):
        return False


# ---- Two change events that should say the same: what is different (for `verify`, and the tests of every format pair).


@dataclass(frozen=True)
class EventDifference:
    """where: as `Loss.where` ("digits", "bits": the same value in more digits or bytes). cell: None: of the event."""

    where: str
    cell: WrittenValue | None
    first: Any
    second: Any

    def __str__(self) -> str:
        name = self.cell.column.name + " " + self.cell.column.type.name if self.cell else "event"
        return f"{self.where} of {name}: {self.first!r} → {self.second!r}"[:300]


def differences(first: RowChange, second: RowChange, defined: bool, format_: str) -> Iterator[EventDifference]:
    """Yields what differs for a reader. Values are compared exactly, FLOAT as float32."""
    rename = sanitise_name if format_ == "avro" and not defined else str
    names = (first.db, first.table_name, *(c.name for c in first.table.columns if not c.virtual))
    if rename is sanitise_name and any(sanitise_name(n) != n for n in names):
        yield EventDifference("name", None, names, (second.db, second.table_name))
    for what, entry, other in (
        ("op", first.op, second.op),
        ("commit_ts", first.commit_ts, second.commit_ts),
        ("table", tuple(map(rename, (first.db, first.table_name))), (second.db, second.table_name)),
        ("key", {*map(rename, first.key)}, {*second.key}),
    ):
        if entry != other:
            yield EventDifference(what, None, entry, other)
    for image in ("before", "after"):
        row, back = _visible_values(first, image), _visible_values(second, image)
        if (row is None) != (back is None):
            yield EventDifference(image, None, row, back)
        elif row is not None and back is not None:
            yield from _rows(first, second, {rename(n): (n, v) for n, v in row.items()}, back, defined)


def _visible_values(event: RowChange, image: str) -> Row | None:
    row: Row | None = getattr(event, image)
    if row is None:
        return None
    hidden = {c.name for c in event.table.columns if c.virtual}
    return {name: value for name, value in row.items() if name not in hidden}


_NO_COLUMN = Column("", BY_NAME["text"])


def _rows(
    first: RowChange, second: RowChange, left: dict[str, tuple[str, Value]], other: Row, defined: bool
) -> Iterator[EventDifference]:
    for name, (column_name, value) in left.items():
        cell = WrittenValue(first.table.by_name.get(column_name, _NO_COLUMN), value, first, defined)
        if name not in other:
            yield EventDifference("missing", cell, value, "(absent)")
        elif (where := _differs(cell.column, value, _shift_value(cell.column, other[name], first, second))) != "":
            yield EventDifference(where, cell, value, other[name])
    for name, value in other.items():
        if name not in left:
            cell = WrittenValue(second.table.by_name.get(name, _NO_COLUMN), value, first, defined)
            hidden = name in first.table.by_name and first.table.by_name[name].virtual
            where = "extra" if value is not None else "virtual" if hidden else "filled" if first.key_only else "extra"
            yield EventDifference(where, cell, "(absent)", value)


def _shift_value(column: Column, value: Value, first: RowChange, second: RowChange) -> Value:
    if column.type.kind is not Kind.TIMESTAMP or not isinstance(value, str) or first.zone == second.zone:
        return value
    try:
        return values.shift_zone(value, second.zone, first.zone)[0]
    except ValueError:
        return value  # no TIMESTAMP's text: its type was not known


def _differs(column: Column, value: Value, other: Value) -> str:
    if value == other:
        return ""
    kind = column.type.kind
    if value is None or other is None:
        return "cell"
    if kind is Kind.FLOAT and _nearest_float32(value) == _nearest_float32(other) is not None:
        return ""
    if kind in FRACTIONAL and _fraction(value) == _fraction(other):
        return "digits"
    if isinstance(value, bytes) and isinstance(other, bytes) and kind is Kind.BIT:
        return "bits" if int.from_bytes(value, "big") == int.from_bytes(other, "big") else "cell"
    return "cell"


def _nearest_float32(value: Value) -> float | None:
    """The float32 of a FLOAT's text, as a double; both of a damaged one and of the float32 that it happens to be."""
    try:
        return values.as_float32(values.real(str(value)))
    except ValueError:
        return None
