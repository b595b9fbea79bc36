"""A table of docs/reference.md: each TiDB type, its code, name in Avro and Spark type, by `schemas/model/types.py`."""

from tests.matrix.generated_part import GeneratedPart
from ticdc_bridge.schemas.model.types import TYPES, TidbType

PART = GeneratedPart("reference.md", "types")
_HEAD = """\
Code: the type code of MySQL's protocol, which Open Protocol and Craft carry. Avro: `tidb_type` in TiCDC's schema; where types share one and no definition is given, the widest is meant. Spark: with `--types exact` ([typed columns](columns.md#typed-columns)).

| TiDB type | code | Avro | Spark |
|---|---|---|---|
"""  # noqa: E501


def section() -> str:
    """The text of the part: types with one name in Avro and one type in Spark share a row."""
    shared: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for row in (row for type_ in TYPES for row in _rows(type_)):
        shared.setdefault(row[2:], []).append(row[:2])
    lines = []
    for rest, rows in shared.items():
        names, codes = (", ".join(cells) for cells in zip(*rows, strict=True))
        lines.append(f"| {names} | {codes} | {' | '.join(rest)} |")
    return _HEAD + "\n".join(lines) + "\n"


def _rows(entry: TidbType) -> list[tuple[str, ...]]:
    spark = "decimal(p,s), text over 38 digits" if entry.name == "decimal" else entry.spark
    found: list[tuple[str, ...]] = [(entry.name.upper(), str(entry.code), f"`{entry.avro_name}`", spark)]
    if entry.avro_unsigned:
        unsigned = entry.spark_unsigned or spark
        found.append((f"{entry.name.upper()} UNSIGNED", str(entry.code), f"`{entry.avro_name} UNSIGNED`", unsigned))
    return found
