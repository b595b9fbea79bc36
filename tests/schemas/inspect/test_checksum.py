"""Row checksums: those of TiCDC's own messages are found again, and damage is."""

from dataclasses import replace
from typing import Any

import pytest

from tests.support.each import each
from tests.support.golden import Golden
from tests.support.rows import column, table
from ticdc_bridge.schemas.inspect import checksum
from ticdc_bridge.schemas.model.event import RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message

AVRO = Golden("avro", "checksum.checksum")


def _rows(golden: Golden, ddl: bool) -> list[RowChange]:
    return [e for e in golden.events(ddl) if isinstance(e, RowChange)]


@pytest.mark.parametrize("ddl", [False, True], ids=["", "ddl"])
def test_ticdcs_avro_checksums(ddl: bool) -> None:
    """Steps 1 to 4 sum in id order; step 7 (after ADD COLUMN … FIRST) sums in table order, which Avro does not tell."""
    events = _rows(AVRO, ddl)
    found = [[c.outcome for c in checksum.verify(e)] for e in events]
    assert found == [["id"], ["id"], ["id"], ["id"], [], ["mismatch"]]
    assert events[-1].flags == ["checksum_mismatch:after"]


def test_table_order_needs_the_tables_order() -> None:
    """The same message with a definition that has the table's order (the Avro meta lists columns by id)."""
    tables = Golden("simple", "checksum.json.checksum").definitions
    config = CodecConfig("avro", AVRO.schemas, Options.of({}, time_zone=AVRO.zone), tables)
    last = decode_message(config.decoder(), AVRO.messages()[-1]).events[0]
    assert isinstance(last, RowChange)
    [check] = checksum.verify(last)
    assert (check.outcome, check.expected) == ("table", 1774657757)
    assert dict(check.computed) == {"id": 3985745804, "table": 1774657757}
    assert last.flags == []


def test_no_checksum_is_no_check() -> None:
    for event in _rows(Golden("avro", "checksum_off.checksum_cfg_without_upstream"), ddl=True):
        assert checksum.verify(event) == []


def test_damage_is_a_mismatch() -> None:
    """One changed value anywhere in the row changes the sum."""
    first = _rows(AVRO, ddl=True)[0]
    for name, value in dict(first.after or {}).items():
        other: Any = b"\x01\x02" if isinstance(value, bytes) else None
        event = replace(first, after={**(first.after or {}), name: other}, flags=[])
        assert [c.outcome for c in checksum.verify(event)] == ["mismatch"], name
        assert event.flags == ["checksum_mismatch:after"]


def test_zone_matters() -> None:
    """TIMESTAMP is summed in UTC: text taken for another zone gives another sum."""
    first = _rows(AVRO, ddl=False)[0]
    assert [c.outcome for c in checksum.verify(replace(first, zone="UTC"))] == ["mismatch"]


def test_what_can_not_be_computed_is_reported() -> None:
    known = table(column("id", "int"), column("e", "enum", elements=("a",)))
    extra = {"checksum": {"version": 0, "corrupted": True, "current": 1, "previous": None}}
    event = RowChange("avro", known, "c", 1, None, {"id": "1", "e": "zz"}, ("id",), "UTC", extra=extra)
    [check] = checksum.verify(event)
    assert (check.outcome, event.flags) == ("unverified", ["checksum_corrupted"])
    assert "'e': 'zz' is not one of its elements" in str(check)
    event.after = {"id": "1"}
    assert "does not carry column 'e'" in str(checksum.verify(event)[0])
    event.after = {"id": "1", "e": "a"}
    event.extra = {"checksum": {"current": "x"}}
    assert checksum.verify(event)[0].outcome == "mismatch"


@each(
    ("kind", "value", "data"),
    [
        ("bigint", "-2", b"\xfe" + b"\xff" * 7), ("bigint", "18446744073709551615", b"\xff" * 8),
        ("bit", b"\x01\x02", b"\x02\x01" + bytes(6)), ("set", "x,z", b"\x05" + bytes(7)),
        ("enum", "z", b"\x03" + bytes(7)), ("enum", "", bytes(8)), ("float", "1.5", bytes(6) + b"\xf8\x3f"),
        ("float", "0.1", b"\x00\x00\x00\xa0\x99\x99\xb9\x3f"), ("double", "0.1", b"\x9a\x99\x99\x99\x99\x99\xb9\x3f"),
        ("decimal", "-12.30", b"\x06\x00\x00\x00-12.30"), ("blob", b"\xff", b"\x01\x00\x00\x00\xff"),
        ("timestamp", "2024-01-02 03:04:05", b"\x13\x00\x00\x002024-01-01 19:04:05"),
        ("vector", "[1,-2]", b"\x02\x00\x00\x00\x00\x00\x80\x3f\x00\x00\x00\xc0"), ("int", None, b""),
    ],
)  # fmt: skip
def test_what_is_summed(kind: str, value: Any, data: bytes) -> None:
    import zlib

    entry = column("c", kind, elements=("x", "y", "z"))
    assert checksum.row_checksum([entry], {"c": value}, "Asia/Shanghai") == zlib.crc32(data)
