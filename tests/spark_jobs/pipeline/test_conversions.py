"""What TiDB makes of values when a column gets another type: what is certain, and (None) what is not."""

import datetime as dt
from decimal import Decimal
from typing import Any

from tests.support.table import check_rows
from ticdc_bridge.schemas.model.table import Column
from ticdc_bridge.schemas.model.types import BY_NAME
from ticdc_bridge.spark_jobs.pipeline.conversions import converter, text_converter


def column(kind: str, **more: Any) -> Column:
    return Column("v", BY_NAME[kind], **more)


UTF8 = {"charset": "utf8mb4"}
DEC1, DEC3 = column("decimal", length=10, scale=1), column("decimal", length=10, scale=3)
MADE: list[tuple[Column, Column, dict[Any, str | None]]] = [
    (DEC3, column("int"), {"1.500": "2", "-1.500": "-2", "2.499": "2", Decimal("0.5"): "1", "99999999999.000": None}),
    (DEC3, DEC1, {"1.250": "1.3", "-0.049": "0.0", "9.950": "10.0", Decimal("-1.250"): "-1.3"}),
    (DEC1, column("decimal", length=3, scale=2), {"9.9": "9.90", "10.0": None}),
    (DEC1, column("decimal", length=10, scale=1, unsigned=True), {"-1.0": None, "1.0": "1.0"}),
    (column("double"), column("int"), {"2.4": "2", "2.6": "3", "1.5": None, "1e300": None, "NaN": None}),
    (column("double"), DEC1, {"1.0": None}),
    (column("float"), column("double"), {"0.1": "0.10000000149011612", 0.5: "0.5"}),
    (column("double"), column("float"), {"0.10000000149011612": "0.1"}),
    (column("float"), column("float", length=5, scale=2), {"0.1": None}),
    (column("int"), DEC1, {"7": "7.0", 7: "7.0"}),
    (column("int"), column("year"), {"2024": "2024", "0": "0", "24": None}),
    (column("int", zerofill=True), column("varchar"), {"7": None}),
    (column("bigint", unsigned=True), column("double"), {"18446744073709551615": "1.8446744073709552e+19"}),
    (column("varchar"), column("int"), {"12": "12", "-7": "-7", "x": None, " 1": None, "1.5": None}),
    (column("varchar"), DEC1, {"1.25": "1.3", "1e3": None, "": None}),
    (column("varchar"), column("char"), {"a  ": "a"}),
    (column("varchar"), column("date"), {"2024-02-29": "2024-02-29", "2023-02-29": None, "24-1-1": None}),
    (column("varchar"), column("datetime", scale=1), {"2024-01-01 00:00:00": "2024-01-01 00:00:00.0", "now": None}),
    (column("varchar", **UTF8), column("varbinary", length=9), {"é": '{"hex":"c3a9"}'}),
    (column("varchar", **UTF8), column("binary", length=4), {"é": '{"hex":"c3a90000"}'}),
    (column("varchar", charset="gbk"), column("blob"), {"é": None}),
    (column("blob"), column("text", **UTF8), {'{"hex":"c3a9"}': "é", '{"hex":"ff"}': None, bytearray: None}),
    (column("binary", length=2), column("binary", length=3), {'{"hex":"0102"}': '{"hex":"010200"}'}),
    (column("bit", length=3), column("bit", length=12), {'{"hex":"05"}': '{"hex":"0005"}'}),
    (column("bit", length=12), column("bit", length=3), {'{"hex":"0005"}': '{"hex":"05"}', '{"hex":"0008"}': None}),
    (column("int"), column("bit", length=9), {"257": '{"hex":"0101"}', "-1": None, "512": None}),
    (column("bit", length=9), column("int"), {'{"hex":"0101"}': "257"}),
    (column("enum", elements=("a", "b")), column("enum", elements=("b", "c")), {"b": "b", "a": None}),
    (column("set", elements=("a", "b")), column("set", elements=("b", "a")), {"a,b": "b,a", "": ""}),
    (column("date"), column("datetime", scale=1), {"2024-01-01": "2024-01-01 00:00:00.0",
                                                   dt.date(2024, 1, 1): "2024-01-01 00:00:00.0"}),
    (column("datetime", scale=6), column("date"), {"2024-01-01 23:59:59.000000": "2024-01-01",
                                                   "2024-01-01 23:59:59.900000": None}),
    (column("datetime", scale=6), column("datetime", scale=0),
     {"2024-12-31 23:59:59.500000": "2025-01-01 00:00:00", "2024-12-31 23:59:59.499999": "2024-12-31 23:59:59"}),
    (column("datetime", scale=0), column("datetime", scale=3),
     {"0000-00-00 00:00:00": "0000-00-00 00:00:00.000", dt.datetime(2024, 1, 1): "2024-01-01 00:00:00.000"}),
    (column("time", scale=2), column("time", scale=0), {"-00:00:00.50": "-00:00:01", "838:59:59.00": "838:59:59"}),
    (column("timestamp", scale=3), column("timestamp", scale=0), {"2024-01-01 00:00:00.000": "2024-01-01 00:00:00",
                                                                  "2024-01-01 00:00:00.500": None}),
    (column("datetime", scale=0), column("timestamp", scale=0), {"2024-01-01 00:00:00": None}),
    (column("json"), column("text"), {"{}": None}),
]  # fmt: skip


def test_values_become_what_tidb_makes_of_them() -> None:
    """What is made already stays, as far as its text can tell: a run that was cut off makes it again."""
    check_rows(MADE, lambda row: _check_made(*row), _names)


def _names(row: tuple[Column, Column, object]) -> str:
    return f"{row[0]} to {row[1]}"


def _check_made(old: Column, new: Column, made: dict[Any, str | None]) -> None:
    convert = text_converter(old, new)
    assert {value: convert(value) for value in made} == made
    assert convert(None) is None
    for text in made.values():
        if text is not None and old.type.kind is new.type.kind:
            assert convert(text) == text


SAME: list[tuple[Column, Column]] = [
    (column("int"), column("bigint", unsigned=True)), (DEC1, column("decimal", length=40, scale=1)),
    (column("varchar", length=9), column("text")), (column("enum", elements=("a",)),
                                                     column("enum", elements=("a", "b"))),
    (column("varbinary", length=3), column("blob")), (column("datetime", scale=3), column("datetime", scale=3)),
    (column("char", length=3), column("char", length=9)),
]  # fmt: skip


def test_what_stays_as_it_is() -> None:
    for old, new in SAME:
        assert converter(old, new) is None, f"{old} to {new}"
