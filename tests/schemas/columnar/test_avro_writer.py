"""The compiled Avro writer gives the bytes, ids and flags of `AvroEncoder`, or leaves the row."""

import zoneinfo
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.columnar_rows import Cells
from tests.support.each import each
from tests.support.golden import Registry
from tests.support.rows import COMMIT_TS, ID, column
from ticdc_bridge.schemas.columnar.avro_writer import AvroWriter, warm
from ticdc_bridge.schemas.columnar.kernels.jit import COMPILED
from ticdc_bridge.schemas.columnar.rows import Binaries, Topics
from ticdc_bridge.schemas.columnar.time_zones import FIRST, LAST, zone_changes
from ticdc_bridge.schemas.formats.avro.encoder import AvroEncoder
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import Message, Op, RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Column, Table, TableId, Value
from ticdc_bridge.schemas.model.types import BY_NAME
from ticdc_bridge.spark_jobs.pipeline.message_codec import encode_event

pytestmark = pytest.mark.skipif(not COMPILED, reason="without numba all rows are left")

_TIME = 1_767_348_246_678
_MODES: tuple[dict[str, Any], ...] = (
    {},
    {"enable_tidb_extension": True},
    {"avro_decimal_handling_mode": "string", "avro_bigint_unsigned_handling_mode": "string"},
    {"avro_include_before_value": True, "enable_tidb_extension": True, "on_lossy": "flag"},
    {"avro_include_before_value": True},
    {"enable_tidb_extension": True, "avro_enable_watermark": True},
    {"enable_tidb_extension": True, "enable_row_checksum": True, "avro_decimal_handling_mode": "string",
     "avro_bigint_unsigned_handling_mode": "string"},
)  # fmt: skip


class Both:
    """The encoder and the compiled writer, each with a registry of its own."""

    def __init__(self, **options: Any) -> None:
        given = Options.of(options)
        self._registries = Registry(), Registry()
        self._encoder = AvroEncoder(Context(self._registries[0], options=given))
        self._writer = AvroWriter(Context(self._registries[1], options=given))
        self._cells = Cells()

    def check(self, events: Sequence[RowChange], topics: Sequence[str | None], times: Sequence[int]) -> list[bool]:
        """Which events were left; what was not left is the encoder's, byte for byte."""
        rows, taken = self._cells.of(events)
        names = list(dict.fromkeys(topics))
        of = np.array([names.index(topics[n]) for n in taken], np.int64)
        stamps = np.array([times[n] for n in taken], np.int64)
        written = self._writer.write(rows, Topics(names, of), stamps)
        for index, number in enumerate(taken):
            event = replace(events[number], flags=list(events[number].flags), extra={}, format="made")
            origin = Message(None, None, topics[number], timestamp=None if times[number] < 0 else times[number])
            try:
                expected = encode_event(self._encoder, event, origin).out
            except WireError:
                assert written.left[index], event
                continue
            if not written.left[index]:
                found = (_element(written.keys, index), _element(written.values, index))
                assert [(m.key, m.value) for m in expected] == [found], event
                flags = {name for name, mask in written.flags.items() if mask[index]}
                assert flags == set(event.flags) - set(events[number].flags), event
        assert self._registries[0].subjects == self._registries[1].subjects
        return [True if n not in taken else bool(written.left[taken.index(n)]) for n in range(len(events))]


def _element(binaries: Binaries, n: int) -> bytes | None:
    return binaries.data[binaries.offsets[n] : binaries.offsets[n + 1]].tobytes() if binaries.valid[n] else None


def left(events: Sequence[RowChange], **options: Any) -> list[bool]:
    """Which events are left, all on one topic and with a timestamp."""
    return Both(**options).check(events, ["tidb.shop"] * len(events), [_TIME] * len(events))


def test_warm_writes_a_row() -> None:
    assert warm()


# ---------------------------------------------------------------------------------- values
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
_BYTES = st.binary(max_size=300)
_CLOCKS = st.datetimes(datetime(1969, 12, 30), datetime(2038, 1, 19)).map(lambda d: d.isoformat(" ", "seconds"))


def _integers(bits: int, unsigned: bool) -> st.SearchStrategy[str]:
    low, high = (0, 1 << bits) if unsigned else (-(1 << bits - 1), 1 << bits - 1)
    sizes = st.integers(0, bits).flatmap(lambda size: st.integers(max(low - 1, -(1 << size)), min(high, 1 << size)))
    return (
        (sizes | st.sampled_from([low, high - 1, low - 1, high])).filter(lambda n: -(1 << 63) <= n < 1 << 64).map(str)
    )


def _decimals(precision: int, scale: int) -> st.SearchStrategy[str]:
    digits = st.integers(0, precision + 1).flatmap(lambda size: st.integers(-(10**size), 10**size))
    odd = st.sampled_from(["-0", "0.0", "00012.5", "1.", ".5", "1e3", "", "-", "9" * 66, "1." + "0" * 65, "+1", "1.5x"])
    return st.builds(values.decimal_text, digits, st.integers(0, scale + 1)) | odd


def _big_endian(size: int, number: int) -> bytes:
    return number.to_bytes(size, "big")


_KINDS: list[tuple[Column, st.SearchStrategy[Value]]] = []
for _name in ("tinyint", "smallint", "mediumint", "int", "bigint"):
    for _unsigned in (False, True):
        _bits = BY_NAME[_name].bits
        _KINDS.append((column(_name + "_u" * _unsigned, _name, unsigned=_unsigned), _integers(_bits, _unsigned)))
for _p, _s in ((1, 0), (5, 2), (18, 0), (19, 4), (30, 6), (38, 10), (65, 30), (65, 0), (65, 65)):
    _KINDS.append((column(f"d_{_p}_{_s}", "decimal", length=_p, scale=_s), _decimals(_p, _s)))
for _length in (1, 7, 8, 9, 63, 64):
    _size = values.bit_size(_length)
    _made = st.integers(0, min((1 << _length) + 1, (1 << 8 * _size) - 1)).map(partial(_big_endian, _size))
    _KINDS.append((column(f"b{_length}", "bit", length=_length), _made))
_KINDS += [
    (column("double", "double"), st.floats(allow_nan=False, allow_infinity=False).map(values.double_text)),
    (column("float", "float"), st.floats(width=32, allow_nan=False, allow_infinity=False).map(values.float_text)),
    (column("year", "year"), st.integers(-1, 2200).map(str)),
    (column("date", "date"), st.sampled_from(["2024-02-29", "0000-00-00"])),
    (column("datetime", "datetime", scale=3), _CLOCKS.map(lambda t: t + ".123")),
    (column("time", "time"), st.sampled_from(["-838:59:59", "00:00:00"])),
    (column("stamp", "timestamp", default="0000-00-00 00:00:00", has_default=True), _CLOCKS),
    *((column(n, n), _TEXTS) for n in ("varchar", "text", "json", "vector")),
    *((column(n, n, elements=("a", "b,c")), st.sampled_from(["a", "", "b,c"])) for n in ("enum", "set")),
    *((column(n, n), _BYTES) for n in ("varbinary", "blob")),
    (column("preset", "varchar", has_default=True, default="x"), _TEXTS),
    (column("firm", "int", nullable=False), _integers(32, False)),
    (column("price", "decimal", length=9, scale=2, has_default=True, default="1.00"), _decimals(9, 2)),
    (column("ghost", "int", virtual=True, generated="1"), st.none()),
]  # fmt: skip
_OPS: tuple[Op, ...] = ("c", "u", "d")


@st.composite
def _changes(draw: st.DrawFn) -> RowChange:
    picked = draw(st.lists(st.sampled_from(_KINDS), min_size=1, max_size=6, unique_by=lambda k: k[0].name))
    columns = tuple(c for c, _ in picked)
    keys = draw(st.integers(0, 2))
    first = replace(ID, handle_key=keys > 0, primary_key=keys > 0)
    if keys == 2:
        columns = (replace(columns[0], primary_key=True, handle_key=True), *columns[1:])
    table = Table(TableId("shop", "t"), (first, *columns))
    op = draw(st.sampled_from(_OPS))

    def row() -> dict[str, Value]:
        found: dict[str, Value] = {"id": "7"}
        for c, made in picked:
            if not c.virtual and draw(st.integers(0, 15)):
                found[c.name] = None if draw(st.integers(0, 5)) == 0 else draw(made)
        return found

    before = None if op == "c" else row() if op == "d" or draw(st.booleans()) else None
    commit_ts = draw(st.sampled_from([COMMIT_TS, None, 0, (1 << 63) - 1]))
    zone = draw(st.sampled_from(["UTC", "Asia/Shanghai", "Europe/Berlin"]))
    after = None if op == "d" else row()
    return RowChange("made", table, op, commit_ts, before, after, ("id",), zone, key_only=draw(st.booleans()))


@settings(max_examples=80, deadline=None)
@given(st.lists(_changes(), min_size=1, max_size=8), st.sampled_from(_MODES), st.data())
def test_made_rows_are_written_as_the_encoder_writes_them(
    events: list[RowChange], mode: dict[str, Any], data: st.DataObject
) -> None:
    topics = data.draw(st.lists(st.sampled_from(["a.b", "c", None]), min_size=len(events), max_size=len(events)))
    times = data.draw(st.lists(st.sampled_from([-1, 0, 5, _TIME, 1 << 50]), min_size=len(events), max_size=len(events)))
    zone = data.draw(st.sampled_from(["UTC", "Europe/Berlin", "Asia/Shanghai"]))
    Both(**mode, time_zone=zone).check(events, topics, times)


# ---------------------------------------------------------------------------------- what is taken, and what is left
def _change(columns: tuple[Column, ...], row: dict[str, Value], **more: Any) -> RowChange:
    table = Table(TableId("shop", "t"), (ID, *columns))
    return RowChange("made", table, "c", COMMIT_TS, None, {"id": "1", **row}, ("id",), "UTC", **more)


@each(("kind", "good"), [
    (column("c", "decimal", length=65, scale=30), "-" + "9" * 35 + "." + "9" * 30),
    (column("c", "decimal", length=20, scale=0), "-9223372036854775809"),
    (column("c", "decimal", length=38, scale=2), "0.00"),
    (column("c", "bigint", unsigned=True), "18446744073709551615"), (column("c", "bigint"), "-9223372036854775808"),
    (column("c", "float"), "1e-45"), (column("c", "float"), "3.4028235e+38"),
    (column("c", "bit", length=64), b"\xff" * 8), (column("c", "timestamp"), "0000-00-00 00:00:00"),
    (column("c", "text"), "é" * 70_000),
])  # fmt: skip
def test_extreme_values_are_taken(kind: Column, good: Value) -> None:
    assert left([_change((kind,), {"c": good})]) == [False]


@each(("kind", "bad"), [
    (column("c", "decimal", length=5, scale=2), "1000.00"), (column("c", "decimal", length=5, scale=2), "1.005"),
    (column("c", "tinyint"), "128"), (column("c", "tinyint", unsigned=True), "256"), (column("c", "year"), "1900"),
    (column("c", "bit", length=3), b"\x08"), (column("c", "int", nullable=False), None), (column("c", "decimal"), "1"),
    (column("c", "int", vague="or else"), "1"),
])  # fmt: skip
def test_values_that_do_not_fit_are_left(kind: Column, bad: Value) -> None:
    good = _change((column("c", "int"),), {"c": "5"})
    assert left([good, _change((kind,), {"c": bad}), good]) == [False, True, False]


@each(("text", "fits"), [
    ("999.99", True), ("-0.10", True), ("1.5", True), ("1.5000", True), ("1000.00", False), ("1.005", False),
    ("1e2", False),
])  # fmt: skip
def test_decimals_as_text_fit_their_column(text: str, fits: bool) -> None:
    """As a double may have rounded it beyond the column's precision."""
    row = _change((column("c", "decimal", length=5, scale=2),), {"c": text}, flags=["lossy_decimal:c"])
    assert left([row], avro_decimal_handling_mode="string", on_lossy="flag") == [not fits]
    unknown = _change((column("c", "decimal"),), {"c": text})
    assert left([unknown], avro_decimal_handling_mode="string") == [text == "1e2"]


def test_what_the_encoder_refuses_is_left() -> None:
    plain = _change((), {})
    no_key = replace(plain, table=Table(TableId("shop", "t"), (replace(ID, primary_key=False),)))
    delete = replace(no_key, op="d", before=no_key.after, after=None)
    long = _change((column("c", "text"),), {"c": "x" * 200})
    damaged = _change((column("c", "double"),), {"c": "1"}, flags=["lossy_decimal:c"])
    events = [plain, no_key, delete, long, damaged, replace(plain, op="u", key_only=True), replace(plain, after=None)]
    assert left(events, max_message_bytes=200) == [False, False, True, True, True, True, True]
    assert left([delete, damaged], on_lossy="flag") == [False, False]
    assert left([delete], avro_enable_watermark=True, enable_tidb_extension=True) == [False]


def test_a_schema_that_is_not_there_is_asked_for_again() -> None:
    class Late(Registry):
        there = False

        def id_of(self, subject: str, schema: str) -> Any:
            if not self.there:
                raise WireError("SCHEMA_NOT_FOUND", subject=subject)
            return super().id_of(subject, schema)

    registry = Late()
    writer, [rows, _] = AvroWriter(Context(registry)), Cells().of([_change((), {})])
    topics, times = Topics(["t"], np.zeros(1, np.int64)), np.full(1, -1, np.int64)
    assert writer.write(rows, topics, times).left.all()
    registry.there = True
    assert not writer.write(rows, topics, times).left.any()


# ---------------------------------------------------------------------------------- zones
@pytest.mark.parametrize("step", [240, pytest.param(60, marks=pytest.mark.slow)])
def test_changes_of_all_zones_are_those_of_zoneinfo(step: int) -> None:
    """Shifts at each change of a sample of zones, and a second and half an hour around it."""
    stamp = column("c", "timestamp", scale=0)
    table = Table(TableId("shop", "t"), (ID, stamp))
    names = [
        *sorted(zoneinfo.available_timezones())[::step], "Pacific/Apia", "Australia/Lord_Howe", "+05:45", "Nowhere",
    ]  # fmt: skip
    events = []
    for name in names:
        try:
            changes = zone_changes(name)
        except ValueError:
            changes = ((FIRST, 0),)
        for at, offset in changes[1:][::3] or changes:
            for by in (-7200, -1800, -1, 0, 1, 1799, 3600):
                local = datetime(1970, 1, 1) + timedelta(seconds=min(max(at + offset + by, FIRST), LAST))
                row = {"id": "1", "c": local.isoformat(" ")}
                events.append(RowChange("made", table, "c", COMMIT_TS, None, row, ("id",), name))
    found = left(events, time_zone="America/New_York")
    assert found.count(False) > len(events) // 2
    refused = sum(_refused(str((e.after or {})["c"]), e.zone) for e in events)
    assert found.count(True) == refused


def _refused(text: str, zone: str) -> bool:
    try:
        values.shift_zone(text, zone, "America/New_York")
    except ValueError:
        return True
    return False
