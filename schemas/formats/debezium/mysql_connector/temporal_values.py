"""Dates and times of Debezium's MySQL connector: payload → plain value, by semantic name, option or text.

Source: Debezium's documentation of the MySQL connector, "Temporal types"; measured with Debezium 3.6.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from ticdc_bridge.schemas.codec.json_exact import Number
from ticdc_bridge.schemas.codec.sql_text import pad_fraction
from ticdc_bridge.schemas.formats.debezium.mysql_connector.columns import CONNECT, SEMANTIC, TIME
from ticdc_bridge.schemas.formats.debezium.mysql_connector.schema import temporal_name
from ticdc_bridge.schemas.formats.debezium.mysql_connector.temporal_text import TEXT_READERS, ZONE_ASSUMED
from ticdc_bridge.schemas.formats.debezium.row_reader import Read
from ticdc_bridge.schemas.formats.debezium.values import json_number, json_string
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Column, Value
from ticdc_bridge.schemas.model.types import BY_NAME, Kind


def temporal_reader(options: Options, column: Column, field: Mapping[str, Any] | None) -> Read:
    """Compiled reader of a temporal column's values: by the field's semantic name. Text of a custom converter has none.

    field: None without schema; then the options say, and the value itself; so they do of a number that has lost its
    name. ValueError for a name of another type.
    """
    kind = column.type.kind
    read_text = partial(_temporal_text, column, options.time_zone)
    is_by_options = field is None or is_bare(options, field)
    semantic = _semantic_of(options, column) if is_by_options or field is None else field.get("name", "")
    if field is not None and not semantic and field["type"] == "string":
        return read_text
    if semantic == _UNKNOWN_UNIT:
        return partial(_text_only, column, read_text)
    read = _TEMPORALS[kind].get(semantic)
    if read is None:
        raise ValueError(f"column {column.name!r}: {column.type.name} as {semantic or 'a plain value'!r}")
    if kind is Kind.TIMESTAMP and field is not None:  # the schema's default counts: the connector shifts no zone
        default = field.get("default")
        plain = str(default).removesuffix("Z").replace("T", " ") if default is not None else None
        column = replace(column, has_default=plain is not None, default=plain)
    by_name = partial(read, column, semantic)
    if field is not None or ".Iso" in semantic:
        return by_name
    return partial(_text_or, read_text, by_name, "Z" if kind is Kind.TIMESTAMP else "")


def is_bare(options: Options, field: Mapping[str, Any]) -> bool:
    """Whether a field is a number without semantic name, and `time_precision_mode` says in which unit a time is."""
    has_unit = options.time_precision_mode not in ("auto", "isostring")
    return has_unit and not field.get("name") and field["type"] in ("int32", "int64")


def _semantic_of(options: Options, column: Column) -> str:
    """The semantic name of a temporal column without schema: what `time_precision_mode` makes of it."""
    kind, mode = column.type.kind, options.time_precision_mode
    if kind is Kind.TIMESTAMP:
        return TIME + "ZonedTimestamp"
    if kind is Kind.DATE:
        return TIME + ("IsoDate" if mode == "isostring" else "Date")
    return _UNKNOWN_UNIT if mode == "auto" else temporal_name(column, mode)


_UNKNOWN_UNIT = "unknown"


def _text_only(column: Column, read_text: Read, value: Any) -> tuple[Value, str]:
    if isinstance(value, Number):
        details = "without schema nothing says in which unit it is: set time_precision_mode (--from-options)"
        raise WireError("TYPE_UNKNOWN", column=column.name, details=details)
    return read_text(value)


def _text_or(read_text: Read, by_name: Read, end: str, value: Any) -> tuple[Value, str]:
    """Without schema: text is a custom converter's, but for that which ends as the connector's own does."""
    if type(value) is not str or (end and value.endswith(end)):
        return by_name(value)
    return read_text(value)


def _temporal_text(column: Column, zone: str, value: Any) -> tuple[Value, str]:
    return TEXT_READERS[column.type.kind](column, json_string(value), zone)


def _digits(column: Column, semantic: str) -> int | None:
    """Fraction digits of the text: the column's; else all that the form can have (None: as it is written)."""
    if column.scale is not None or ".Iso" in semantic:
        return column.scale
    return 3 if semantic.startswith(CONNECT) or semantic == TIME + "Time" else 6


def _utc_text(value: Any) -> str:
    text = json_string(value)
    if not text.endswith("Z"):
        raise ValueError(f"{text[:40]!r} is not in UTC")
    return text[:-1]


def _zero_flag(column: Column, zero: bool) -> str:
    return "temporal_zero_ambiguous" if zero and not column.nullable else ""


def _date(column: Column, semantic: str, value: Any) -> tuple[Value, str]:
    days = values.days_of_date(_utc_text(value)) if semantic.endswith("IsoDate") else values.integer(json_number(value))
    return values.date_of_days(days), _zero_flag(column, not days)


_PER_MICRO = {"Timestamp": 1000, "Time": 1000}  # milliseconds; the others are micro- or nanoseconds


def _micros(semantic: str, value: Any) -> int:
    number, name = values.integer(json_number(value)), semantic.rpartition(".")[2]
    if name.startswith("Nano"):
        micros, left = divmod(number, 1000)
        if left:
            raise ValueError(f"{number} has digits below a microsecond")
        return micros
    return number * _PER_MICRO.get(name, 1)


def _cut_flag(column: Column, semantic: str) -> str:
    """connect mode cuts at the millisecond: where the column has more digits, or nobody knows."""
    is_exact = column.scale is not None and column.scale <= 3
    return "" if is_exact or not semantic.startswith(CONNECT) else "fraction_cut"


def _datetime(column: Column, semantic: str, value: Any) -> tuple[Value, str]:
    if semantic.endswith("IsoTimestamp"):
        text = _utc_text(value).replace("T", " ")
        micros = values.micros_of_datetime(text)
    else:
        micros = _micros(semantic, value)
        text = values.datetime_of_micros(micros, 6)
    text = pad_fraction(text, _digits(column, semantic))
    return text, _zero_flag(column, not micros) or _cut_flag(column, semantic)


def _timestamp(column: Column, _semantic: str, value: Any) -> tuple[Value, str]:
    text = json_string(value)
    if not text.endswith("Z"):
        read, flag = TEXT_READERS[Kind.TIMESTAMP](column, text, "UTC")
        if flag == ZONE_ASSUMED:
            raise ValueError(f"{text[:40]!r} has no zone")
        return read, flag
    text = text[:-1].replace("T", " ")
    if values.micros_of_datetime(text) == 0:  # no TIMESTAMP is that early: the zero value
        return pad_fraction(values.ZERO_TIMESTAMP, column.scale), ""
    # In a NOT NULL column the connector writes the default for the zero value.
    return pad_fraction(text, column.scale), _zero_flag(column, column.has_default and text == column.default)


def _time(column: Column, semantic: str, value: Any) -> tuple[Value, str]:
    if semantic.endswith("IsoTime"):
        text = _utc_text(value)
        values.micros_of_time(text)
    else:
        text = values.time_of_micros(_micros(semantic, value), 6)
    return pad_fraction(text, _digits(column, semantic)), _cut_flag(column, semantic)


_Temporal = Callable[[Column, str, Any], tuple[Value, str]]
_FUNCTIONS: dict[str, _Temporal] = {"date": _date, "datetime": _datetime, "timestamp": _timestamp, "time": _time}
_TEMPORALS: dict[Kind, dict[str, _Temporal]] = {
    BY_NAME[name].kind: {s: function for s, (type_, _) in SEMANTIC.items() if type_ == name}
    for name, function in _FUNCTIONS.items()
}
TEMPORAL_KINDS = frozenset(_TEMPORALS)
