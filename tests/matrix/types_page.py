"""A table of docs/reference.md: every TiDB type, its name in each format and in Spark, by `schemas/model/types.py`."""

from __future__ import annotations

from schemas.model.types import TYPES, TidbType
from tests.matrix.generated_part import GeneratedPart

PART = GeneratedPart("reference.md", "types")
_HEAD = """\
Made by `make docs` from `schemas/model/types.py`; a type is one row there. How a value of each type is written in each format, and which values can't be kept, is the matrix above.

- Code: the type code of MySQL's protocol, which Open Protocol and Craft carry. CHAR and BINARY share one, and so do VARCHAR and VARBINARY, TEXT and BLOB; the flag `binary` tells them apart.
- Avro: `tidb_type` of TiCDC's schema, and the type on the wire. DECIMAL is text with `avro-decimal-handling-mode=string`, BIGINT UNSIGNED with `avro-bigint-unsigned-handling-mode=string`. Several SQL types share one `tidb_type`; without a table definition the widest of them is meant.
- Debezium: the Kafka Connect type and, where there is one, the semantic name of TiCDC's Debezium.
- Spark: the type with `--types exact`. DECIMAL(p,s) up to 38 digits is decimal(p,s), longer ones are text. Temporal values are text, as SQL writes them; with `--types typed` DATE is date, DATETIME timestamp_ntz and TIMESTAMP timestamp, with `--time interval` TIME is a day-time interval.
- Plain: how `decode` writes the value as JSON: as SQL's text, or `{"hex":"…"}` for bytes.

| TiDB type | code | Avro | Debezium | Spark | plain |
|---|---|---|---|---|---|
"""  # noqa: E501
_HEX = ("bit", "binary")


def section() -> str:
    """The text of the part."""
    rows = [row for one in TYPES for row in _rows(one)]
    return _HEAD + "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def _rows(one: TidbType) -> list[tuple[str, ...]]:
    found = [_row(one, one.name.upper(), one.avro, one.connect, one.spark)]
    if one.avro_unsigned:
        name = f"{one.name.upper()} UNSIGNED"
        spark = one.spark_unsigned or one.spark
        found.append(_row(one, name, one.avro_unsigned, one.connect_unsigned or one.connect, spark, " UNSIGNED"))
    return found


def _row(one: TidbType, name: str, avro: str, connect: str, spark: str, unsigned: str = "") -> tuple[str, ...]:
    spark = "decimal(p,s), text over 38 digits" if one.name == "decimal" else spark
    semantic = f", `{one.semantic}`" if one.semantic else ""
    if one.name == "datetime":
        semantic = ", `io.debezium.time.Timestamp` up to 3 fraction digits, `MicroTimestamp` above"
    plain = '`{"hex":…}`' if one.kind.value in _HEX else "text"
    return name, str(one.code), f"`{one.avro_name}{unsigned}`, {avro}", connect + semantic, spark, plain
