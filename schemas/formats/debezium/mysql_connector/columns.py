"""Columns of Debezium's MySQL connector: a field of the Connect schema → column.

Source: Debezium's documentation of the MySQL connector, "Data type mappings". What the schema leaves open is the
column's `vague`, unless the connector propagates the source's types.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import Any

from ticdc_bridge.schemas.codec import json_exact
from ticdc_bridge.schemas.formats.debezium.connect.document import DECIMAL
from ticdc_bridge.schemas.model.table import Column
from ticdc_bridge.schemas.model.types import BY_CONNECT, BY_NAME, Kind
from ticdc_bridge.schemas.model.values import split_allowed

TIME, DATA, CONNECT = "io.debezium.time.", "io.debezium.data.", "org.apache.kafka.connect.data."
_SOURCE = "__debezium.source.column."
GEOMETRY = "GEOMETRY, which TiDB does not have"

# Semantic name → (type, fraction digits where the name says how many at most).
SEMANTIC: dict[str, tuple[str, int | None]] = {
    DECIMAL: ("decimal", None),
    DATA + "Bits": ("bit", None),
    DATA + "Enum": ("enum", None),
    DATA + "EnumSet": ("set", None),
    DATA + "Json": ("json", None),
    DATA + "FloatVector": ("vector", None),
    DATA + "TiDBVectorFloat32": ("vector", None),
    **dict.fromkeys((TIME + "Date", TIME + "IsoDate", CONNECT + "Date"), ("date", None)),
    TIME + "Timestamp": ("datetime", 3),
    CONNECT + "Timestamp": ("datetime", None),
    **dict.fromkeys((TIME + "MicroTimestamp", TIME + "NanoTimestamp"), ("datetime", 6)),
    TIME + "IsoTimestamp": ("datetime", None),
    TIME + "ZonedTimestamp": ("timestamp", None),
    **dict.fromkeys(
        (CONNECT + "Time", *(TIME + t for t in ("Time", "MicroTime", "NanoTime", "IsoTime"))), ("time", None)
    ),
    TIME + "Year": ("year", None),
}
_ALIASES = {"integer": "int", "numeric": "decimal", "fixed": "decimal", "dec": "decimal", "real": "double",
            "bool": "tinyint", "boolean": "tinyint"}  # fmt: skip
_TEMPORAL = (Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME)


def column_of(field: Mapping[str, Any]) -> Column:
    """A field of a row's schema → column. KeyError or ValueError for what the connector does not write."""
    name, connect, semantic = field["field"], field["type"], field.get("name", "")
    parameters = field.get("parameters") or {}
    column = Column(name, BY_NAME["text"], nullable=bool(field["optional"]))
    if semantic.startswith(DATA + "geometry."):
        return replace(column, vague=GEOMETRY)
    return _read_propagated(column, connect, parameters) or _guess_column(column, connect, semantic, parameters)


# What a field without a semantic name can be; by custom converters a boolean is an integer, and text a date or time.
_KINDS = {
    **dict.fromkeys(("int16", "int32", "int64"), (Kind.INTEGER,)),
    "float": (Kind.FLOAT,),
    "double": (Kind.DOUBLE, Kind.FLOAT, Kind.DECIMAL),
    "boolean": (Kind.BIT, Kind.INTEGER),
    "bytes": (Kind.BINARY,),
    "string": (
        Kind.TEXT, Kind.BINARY, Kind.DECIMAL, Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME, Kind.YEAR,
        Kind.ENUM, Kind.SET, Kind.JSON,
    ),
}  # fmt: skip


def fits(column: Column, field: Mapping[str, Any]) -> bool:
    """Whether a definition's column can be what the schema declares. No commit_ts says which version is meant."""
    semantic, kind = field.get("name", ""), column.type.kind
    if semantic == DECIMAL:
        return kind is Kind.DECIMAL or column.is_unsigned64
    if semantic:
        return semantic in SEMANTIC and BY_NAME[SEMANTIC[semantic][0]].kind is kind
    return kind in _KINDS.get(field["type"], ())


def _guess_column(column: Column, connect: str, semantic: str, parameters: Mapping[str, str]) -> Column:
    """From Connect's type and the semantic name: what they leave open is `vague`."""
    if semantic:
        if semantic not in SEMANTIC:
            raise ValueError(f"column {column.name!r} has the unknown type {semantic[:80]!r}")
        type_, scale = SEMANTIC[semantic]
        column = replace(column, type=BY_NAME[type_], scale=scale)
    elif connect == "bytes":
        column = replace(column, type=BY_NAME["blob"])
    elif connect in BY_CONNECT:
        guess, vague = BY_CONNECT[connect]
        column = replace(column, type=guess, vague=vague)
    else:
        raise ValueError(f"column {column.name!r} has the unknown type {json_exact.dump(connect)[:60]}")
    if semantic == DECIMAL:
        precision, scale = int(parameters.get("connect.decimal.precision", "65")), int(parameters["scale"])
        if scale < 0:
            raise ValueError(f"column {column.name!r} has the scale {scale}, which no DECIMAL of MySQL has")
        vague = "DECIMAL(20,0) or BIGINT UNSIGNED" if (precision, scale) == (20, 0) else ""
        return replace(column, length=precision, scale=scale, vague=vague)
    if connect == "boolean":
        return replace(column, length=1, vague="BIT(1), or TINYINT(1) by a custom converter")
    if column.type.kind is Kind.BIT:
        return replace(column, length=int(parameters["length"]))
    if "allowed" in parameters:
        return replace(column, elements=_split_allowed(parameters["allowed"], column.type.kind))
    return column


def _read_propagated(column: Column, connect: str, parameters: Mapping[str, str]) -> Column | None:
    """From `column.propagate.source.type`: the exact type. None where it is not told, or not one of TiDB's."""
    words = parameters.get(_SOURCE + "type", "").lower().split()
    name = _ALIASES.get(words[0], words[0]) if words else ""
    length, scale = (
        int(parameters[_SOURCE + key]) if _SOURCE + key in parameters else None for key in ("length", "scale")
    )
    if name == "float" and connect == "double" and scale is None:
        name = "double"  # FLOAT(25..53)
    if name not in BY_NAME:
        return None
    column = replace(column, type=BY_NAME[name], length=length, scale=scale, unsigned="unsigned" in words)
    kind = column.type.kind
    if kind in _TEMPORAL:
        return replace(column, length=None, scale=length or 0)
    if kind is Kind.DECIMAL:
        return replace(column, scale=scale or 0)
    if kind is Kind.BIT:
        return replace(column, length=length or 1)
    if "allowed" in parameters:
        column = replace(column, elements=_split_allowed(parameters["allowed"], kind))
    return replace(column, zerofill="zerofill" in words)


def _split_allowed(allowed: str, kind: Kind) -> tuple[str, ...]:
    """Debezium's `allowed` list → elements. An ENUM's escapes `,` and `\\` by a backslash, a SET's nothing."""
    return split_allowed(allowed, escapes_all=True) if kind is Kind.ENUM else tuple(allowed.split(","))


_NOT_AVRO = re.compile(r"[^A-Za-z0-9_]")
_NOT_UNICODE = re.compile(r"[^A-Za-z0-9]")


@lru_cache(maxsize=16_384)
def adjusted_names(name: str) -> frozenset[str]:
    """The names that field.name.adjustment.mode makes of a column's: of avro, and of avro_unicode in all its versions.

    Source: Debezium's `SchemaNameAdjuster`. avro: `_` for each character that Avro's names lack. avro_unicode: `_` and
    its UTF-16 code, of `_` too in later versions. A digit in front is kept behind a `_`, or is written by its code.
    """
    if not name:
        return frozenset()
    heads = ["_" + name[0], _code(name[0])] if name[0].isdigit() else [name[0]]
    rest = name[1:]
    forms = {_NOT_AVRO.sub(lambda m: "_" * _code(m[0]).count("_"), head + rest) for head in heads}
    for pattern, head in product((_NOT_AVRO, _NOT_UNICODE), heads):
        first = head if name[0].isdigit() else pattern.sub(lambda m: _code(m[0]), head)
        forms.add(first + pattern.sub(lambda m: _code(m[0]), rest))
    return frozenset(forms - {name})


def _code(char: str) -> str:
    data = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"_u{data[at : at + 2].hex()}" for at in range(0, len(data), 2))
