"""Craft's compiled kernels give what the codec in Python gives: made-up rows."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks import rows as made
from tests.support.arrow_rows import check_rows
from tests.support.golden import Registry
from tests.support.rows import Tables, change, column, table
from tests.support.table_decoders import ArrowDecoder
from ticdc_bridge.schemas.columnar.kernels.jit import COMPILED
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.formats.craft.decoder import CraftDecoder
from ticdc_bridge.schemas.formats.craft.encoder import CraftEncoder
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import Message, RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Column, Table, TableId
from ticdc_bridge.schemas.model.types import BY_NAME

pa: Any = pyarrow
pytestmark = pytest.mark.skipif(not COMPILED, reason="numba is not installed")


def by_python(of: Table, message: bytes) -> list[RowChange] | None:
    """The rows, where the decoder in Python finds nothing but sound rows of this table; else None."""
    try:
        events = CraftDecoder(Context(Registry(), Tables(of))).decode(Message(None, message))
    except WireError:
        return None
    rows = [e for e in events if isinstance(e, RowChange) and e.table == of and not e.flags]
    return rows if len(rows) == len(events) else None


def check(of: Table, messages: Sequence[bytes]) -> int:
    """Decodes all at once: what is taken is what Python says, in order. Out: how many messages were taken."""
    decoder = ArrowDecoder(of)
    batches, left = decoder.decode(pa.array(messages, pa.binary()))
    taken = sorted(set(range(len(messages))) - set(left))
    wanted: list[tuple[int, RowChange]] = []
    for index in taken:
        rows = by_python(of, messages[index])
        assert rows is not None, f"message {index} was taken: {messages[index].hex()}"
        wanted += [(index, row) for row in rows]
    check_rows(batches, wanted, decoder.columns)
    return len(taken)


def wide_rows(count: int) -> tuple[Table, list[RowChange]]:
    """Rows of 20 columns with old and new values."""
    source = made.wide()
    rows = list(made.changes(source.only_newest(), range(count)))
    last = next(row.after for row in rows if row.after)
    for row in rows:
        if row.op == "d":
            row.before, row.key_only = last, False
        else:
            assert row.after is not None
            row.op, row.before, last = "u", last, row.after
    return source.versions[-1], rows


def test_wide_rows() -> None:
    of, rows = wide_rows(300)
    for options in (Options(), Options.of({"max_batch_size": 1}), Options.of({"max_message_bytes": 5000})):
        messages = [m.value or b"" for m in CraftEncoder(Context(Registry(), None, options)).encode_rows(rows, ORIGIN)]
        assert check(of, messages) == len(messages)


ORIGIN = Message(None, None)


def test_key_only_deletes_and_bad_neighbours() -> None:
    of, rows = wide_rows(40)
    options = Options.of({"max_batch_size": 4, "delete_only_output_handle_key_columns": True})
    deletes = [replace(row, op="d", before=row.after or row.before, after=None, key_only=True) for row in rows[:10]]
    mixed = [row for pair in zip(rows, deletes, strict=False) for row in pair]
    messages = [m.value or b"" for m in CraftEncoder(Context(Registry(), None, options)).encode_rows(mixed, ORIGIN)]
    assert check(of, messages) == len(messages)
    # One wrong value, or a message cut short, leaves its own message only.
    spoilt = [*messages[:2], messages[2].replace(b"-", b"\xff"), b"", messages[3][:-1], *messages[3:]]
    assert check(of, spoilt) == len(messages) - 1


def test_names_that_are_shared() -> None:
    """Database, table and a column of one name have one term."""
    of = Table(TableId("id", "id"), table(column("v", "int"), column(".a[0].b", "int")).columns)
    rows = [change(of, {"v": str(n), ".a[0].b": "1"}, {"v": None, ".a[0].b": "2"}) for n in range(5)]
    messages = [m.value or b"" for m in CraftEncoder(Context(Registry())).encode_rows(rows, ORIGIN)]
    assert check(of, messages) == 1


# ---- values
_TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
_CLOCK = st.sampled_from(["12:34:56", "00:00:00.1", "838:59:59", "-01:02:03.000004"])
COLUMNS: list[tuple[Column, Any]] = [
    *(
        (
            column(f"{name}{'_u' * unsigned}", name, unsigned=unsigned),
            st.integers(
                0 if unsigned else -(1 << BY_NAME[name].bits - 1), (1 << BY_NAME[name].bits - (not unsigned)) - 1
            ).map(str),
        )
        for name in ("tinyint", "smallint", "mediumint", "int", "bigint")
        for unsigned in (False, True)
    ),
    (column("double", "double"), st.floats(allow_nan=False, allow_infinity=False).map(values.double_text)),
    (column("dec1", "decimal", length=38, scale=10), st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: _dec(n, 10))),
    (column("dec2", "decimal", length=5, scale=5), st.integers(-99999, 99999).map(lambda n: _dec(n, 5))),
    (column("dec3", "decimal", length=20, scale=0), st.integers(-(10**20) + 1, 10**20 - 1).map(str)),
    (column("dec4", "decimal", length=65, scale=30), st.integers(-(10**65) + 1, 10**65 - 1).map(lambda n: _dec(n, 30))),
    (column("bit", "bit", length=13), st.integers(0, (1 << 13) - 1).map(lambda n: n.to_bytes(2, "big"))),
    (column("bit64", "bit", length=64), st.binary(min_size=8, max_size=8)),
    (column("enum", "enum", elements=("a", "b,c", "é")), st.sampled_from(["a", "b,c", "é", ""])),
    (
        column("set", "set", elements=tuple(f"e{n}" for n in range(64))),
        st.integers(0, (1 << 64) - 1).map(lambda n: ",".join(f"e{i}" for i in range(64) if n >> i & 1)),
    ),
    (column("year", "year"), st.sampled_from(["0", "1901", "2155", "2000"])),
    (column("text", "text"), _TEXT),
    (column("json", "json"), _TEXT),
    (column("blob", "blob"), st.binary(max_size=20)),
    (column("date", "date"), st.sampled_from(["0000-00-00", "2026-01-02"])),
    (column("time", "time"), _CLOCK),
    (column("datetime", "datetime"), st.sampled_from(["2026-01-02 03:04:05", "0000-00-00 00:00:00.000000"])),
    (column("stamp", "timestamp"), st.sampled_from(["2026-01-02 03:04:05.1", "2026-01-02 03:04:05"])),
]


def _dec(number: int, scale: int) -> str:
    return values.decimal_text(number, scale)


ROW = st.fixed_dictionaries({c.name: st.none() | strategy for c, strategy in COLUMNS})
SPAN = table(*(c for c, _ in COLUMNS))


_SOME: dict[str, Any] = {
    "deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]
}  # fmt: skip


@pytest.mark.parametrize("examples", [15, pytest.param(60, marks=pytest.mark.slow)])
def test_any_values(examples: int) -> None:
    @settings(max_examples=examples, **_SOME)
    @given(st.lists(st.tuples(st.sampled_from("cud"), ROW, ROW), min_size=1, max_size=6), st.integers(1, 4))
    def agree(rows: list[tuple[Any, Any, Any]], batch: int) -> None:
        events = [change(SPAN, None if op == "d" else b, None if op == "c" else a, op) for op, b, a in rows]
        options = Options.of({"max_batch_size": batch})
        written = CraftEncoder(Context(Registry(), None, options)).encode_rows(events, ORIGIN)
        assert check(SPAN, [m.value or b"" for m in written]) == len(written)

    agree()


@given(st.floats(width=32, allow_nan=False, allow_infinity=False), st.booleans())
@settings(deadline=None)
def test_floats(number: float, exact: bool) -> None:
    """Every float32, or a double that is none: then the slot was damaged and Python has to say so."""
    of = table(column("v", "float"))
    text = values.float_text(number)
    [message] = CraftEncoder(Context(Registry())).encode_rows([change(of, {"v": text})], ORIGIN)
    value = message.value or b""
    if not exact:
        bits = values.as_float32(number)
        import struct

        slot = struct.pack("<d", bits)
        damaged = bytes([slot[0] | 1]) + slot[1:]
        value = value.replace(slot, damaged) if value.count(slot) == 1 else value
    taken = check(of, [value])
    subnormal = number and abs(number) < 1.1754943508222875e-38
    assert taken == (value == message.value and not subnormal)
