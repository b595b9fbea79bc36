"""Every TiDB type is one row of `TYPES`; a new type is a new row.

A row says how the type is called in SQL, in MySQL's protocol (type code), in TiCDC's Avro (`tidb_type` and the Avro
primitive), in Debezium (Kafka Connect type and semantic name) and in Spark. What a value looks like is decided by the
row's `kind`: the plain forms of all kinds are in `schemas.model.values` (docs/reference.md, "JSON rows").

Sources: pingcap/ticdc `pkg/sink/codec/avro/arvo.go` (columnToAvroSchema), `pkg/sink/codec/debezium/codec.go`
(writeDebeziumFieldSchema).
"""

from dataclasses import dataclass, fields
from enum import Enum
from typing import Any


class Kind(Enum):
    """Families of values: one plain form and one set of conversions each."""

    INTEGER = "integer"
    FLOAT = "float"
    DOUBLE = "double"
    DECIMAL = "decimal"
    BIT = "bit"
    TEXT = "text"
    BINARY = "binary"
    ENUM = "enum"
    SET = "set"
    DATE = "date"
    DATETIME = "datetime"
    TIMESTAMP = "timestamp"
    TIME = "time"
    YEAR = "year"
    JSON = "json"
    VECTOR = "vector"


BYTES = (Kind.BIT, Kind.BINARY)
"""Kinds whose values are bytes."""
NUMBERS = (Kind.INTEGER, Kind.YEAR, Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL)
"""Kinds whose plain form is a number."""
ELEMENTS = (Kind.ENUM, Kind.SET)
CHARACTER = (Kind.TEXT, *ELEMENTS)
"""Kinds that have a character set; TiDB gives others the set `binary`."""
FRACTIONAL = (Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME)
"""Kinds with fraction digits (fsp)."""
MAX_COLUMNS = 4096
"""Of a table: TiDB's own limit (table-column-count-limit)."""


@dataclass(frozen=True, slots=True)
class TidbType:
    """One TiDB type.

    name: as SHOW CREATE TABLE writes it, lower case, without UNSIGNED. code: MySQL protocol type code.
    avro / avro_unsigned: Avro primitive on the wire (BIGINT UNSIGNED and DECIMAL also depend on the handling mode).
    avro_name: `tidb_type` in TiCDC's Avro schema. connect / connect_unsigned: Kafka Connect type in TiCDC's Debezium.
    semantic: Debezium's semantic type name, where it is always the same. bits: width of integers; digits: their
    display width where none is given, signed and unsigned (upstream `pkg/parser/mysql/util.go`).
    spark: Spark SQL type of the exact value (DECIMAL, unsigned and temporal types: `spark_jobs.arrow.change_schema`).
    """

    name: str
    code: int
    kind: Kind
    avro: str
    avro_name: str
    connect: str
    spark: str
    avro_unsigned: str = ""
    connect_unsigned: str = ""
    semantic: str = ""
    bits: int = 0
    spark_unsigned: str = ""
    digits: tuple[int, int] = (0, 0)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        """Types are compared by identity: what was pickled into a worker is the row of its own table again."""
        return _row, tuple(getattr(self, f.name) for f in fields(self))


def _row(*pieces: Any) -> TidbType:
    type_ = TidbType(*pieces)
    named_type = BY_NAME.get(type_.name)
    return named_type if named_type == type_ else type_


_S = "io.debezium."
TYPES: tuple[TidbType, ...] = (
    TidbType("tinyint", 1, Kind.INTEGER, "int", "INT", "int16", "smallint", "int", "int16", bits=8, digits=(4, 3)),
    TidbType("smallint", 2, Kind.INTEGER, "int", "INT", "int16", "smallint", "int", "int32", "", 16, "int", (6, 5)),
    TidbType("mediumint", 9, Kind.INTEGER, "int", "INT", "int32", "int", "int", "int32", bits=24, digits=(9, 8)),
    TidbType("int", 3, Kind.INTEGER, "int", "INT", "int32", "int", "long", "int64", "", 32, "bigint", (11, 10)),
    TidbType(
        "bigint", 8, Kind.INTEGER, "long", "BIGINT", "int64", "bigint", "long", "int64", "", 64, "decimal(20,0)",
        (20, 20),
    ),
    TidbType("float", 4, Kind.FLOAT, "float", "FLOAT", "float", "float"),
    TidbType("double", 5, Kind.DOUBLE, "double", "DOUBLE", "double", "double"),
    TidbType("decimal", 246, Kind.DECIMAL, "bytes", "DECIMAL", "double", "string"),
    TidbType("bit", 16, Kind.BIT, "bytes", "BIT", "bytes", "binary", semantic=_S + "data.Bits"),
    TidbType("char", 254, Kind.TEXT, "string", "TEXT", "string", "string"),
    TidbType("varchar", 15, Kind.TEXT, "string", "TEXT", "string", "string"),
    TidbType("tinytext", 249, Kind.TEXT, "string", "TEXT", "string", "string"),
    TidbType("text", 252, Kind.TEXT, "string", "TEXT", "string", "string"),
    TidbType("mediumtext", 250, Kind.TEXT, "string", "TEXT", "string", "string"),
    TidbType("longtext", 251, Kind.TEXT, "string", "TEXT", "string", "string"),
    TidbType("binary", 254, Kind.BINARY, "bytes", "BLOB", "string", "binary"),
    TidbType("varbinary", 15, Kind.BINARY, "bytes", "BLOB", "string", "binary"),
    TidbType("tinyblob", 249, Kind.BINARY, "bytes", "BLOB", "string", "binary"),
    TidbType("blob", 252, Kind.BINARY, "bytes", "BLOB", "string", "binary"),
    TidbType("mediumblob", 250, Kind.BINARY, "bytes", "BLOB", "string", "binary"),
    TidbType("longblob", 251, Kind.BINARY, "bytes", "BLOB", "string", "binary"),
    TidbType("enum", 247, Kind.ENUM, "string", "ENUM", "string", "string", semantic=_S + "data.Enum"),
    TidbType("set", 248, Kind.SET, "string", "SET", "string", "string", semantic=_S + "data.EnumSet"),
    TidbType("date", 10, Kind.DATE, "string", "DATE", "int32", "string", semantic=_S + "time.Date"),
    TidbType("datetime", 12, Kind.DATETIME, "string", "DATETIME", "int64", "string"),  # semantic depends on fsp
    TidbType(
        "timestamp", 7, Kind.TIMESTAMP, "string", "TIMESTAMP", "string", "string",
        semantic=_S + "time.ZonedTimestamp",
    ),
    TidbType("time", 11, Kind.TIME, "string", "TIME", "int64", "string", semantic=_S + "time.MicroTime"),
    TidbType("year", 13, Kind.YEAR, "int", "YEAR", "int32", "smallint", semantic=_S + "time.Year"),
    TidbType("json", 245, Kind.JSON, "string", "JSON", "string", "string", semantic=_S + "data.Json"),
    TidbType(
        "vector", 225, Kind.VECTOR, "string", "TiDBVECTORFloat32", "string", "string",
        semantic=_S + "data.TiDBVectorFloat32",
    ),
)  # fmt: skip

BY_NAME: dict[str, TidbType] = {t.name: t for t in TYPES}

# Code and "is binary" (character set `binary`) together name a type: CHAR and BINARY share 254, TEXT and BLOB 252.
# A code of one type only is that type, binary or not.
BY_CODE: dict[tuple[int, bool], TidbType] = {}
for _type in TYPES:
    BY_CODE[_type.code, _type.kind is Kind.BINARY] = _type
    BY_CODE.setdefault((_type.code, _type.kind is not Kind.BINARY), _type)

ALWAYS_NULL = {0: "UNSPECIFIED", 6: "NULL", 255: "GEOMETRY"}
"""Type codes of MySQL's that TiCDC sends, if at all, without a value."""

# TiCDC's Avro folds types together: the one of its name stands for each fold (the widest, so that every value fits).
BY_AVRO_NAME: dict[str, TidbType] = {}
for _type in TYPES:
    if _type.avro_name not in BY_AVRO_NAME or _type.name == _type.avro_name.lower():
        BY_AVRO_NAME[_type.avro_name] = _type

# Debezium's semantic type names → the type they stand for.
BY_SEMANTIC: dict[str, TidbType] = {
    **{t.semantic: t for t in TYPES if t.semantic},
    _S + "time.Timestamp": BY_NAME["datetime"],
    _S + "time.MicroTimestamp": BY_NAME["datetime"],
}

# A Connect type without semantic name → the widest type that it can stand for, and what else it could be.
BY_CONNECT: dict[str, tuple[TidbType, str]] = {
    "int16": (BY_NAME["smallint"], "TINYINT [UNSIGNED] or SMALLINT"),
    "int32": (BY_NAME["int"], "SMALLINT UNSIGNED, MEDIUMINT [UNSIGNED] or INT"),
    "int64": (BY_NAME["bigint"], "INT UNSIGNED, BIGINT or BIGINT UNSIGNED"),
    "float": (BY_NAME["float"], ""),
    "double": (BY_NAME["double"], "DOUBLE, FLOAT(M,D) or DECIMAL"),
    "boolean": (BY_NAME["bit"], ""),
    "string": (BY_NAME["text"], "a character or a binary type"),
}
