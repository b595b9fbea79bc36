"""Typed batches from JSON are what the formats' own decoders give: made-up rows."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.json_formats import encoded
from tests.spark_jobs.arrow.test_table_rows_craft import COLUMNS, wide_rows
from tests.support.json_batches import SETTINGS, SPAN, check, wide
from tests.support.rows import change, column, table
from tests.support.table import check_rows
from tests.support.table_decoders import FORMATS, ArrowJsonDecoder, warm_json
from ticdc_bridge.schemas.columnar import READERS, json_templates
from ticdc_bridge.schemas.columnar.kernels.jit import COMPILED
from ticdc_bridge.schemas.formats.open_protocol import frame
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.spark_jobs.arrow import warm_up

pa: Any = pyarrow
pytestmark = pytest.mark.skipif(not COMPILED, reason="numba is not installed")


# ---- made-up rows
@pytest.mark.parametrize("format_", FORMATS)
def test_wide_rows(format_: str) -> None:
    of, rows = wide(300)
    for options in SETTINGS[format_]:
        messages = encoded(format_, options, rows, of)
        assert check(format_, of, messages) == len(messages)


@pytest.mark.parametrize("format_", FORMATS)
def test_digits_that_a_double_loses_are_left(format_: str) -> None:
    of, rows = wide_rows(60)
    rows = [replace(r, format="made") for r in rows if r.op != "d"]
    messages = encoded(format_, {**SETTINGS[format_][0], "on_lossy": "flag"}, rows, of)
    assert (check(format_, of, messages) < len(messages)) is (format_ == "debezium")


ROW = st.fixed_dictionaries({c.name: st.none() | strategy for c, strategy in COLUMNS})
MORE = st.fixed_dictionaries(
    {
        "float": st.floats(width=32, allow_nan=False, allow_infinity=False).map(values.float_text),
        "bit1": st.sampled_from([None, b"\0", b"\1"]),
        "varbinary": st.binary(max_size=12),
        "micros": st.sampled_from(["2026-01-02 03:04:05.678901", "0001-01-01 00:00:00.000000"]),
        "preset": st.sampled_from([None, "7", "8"]),
        "word": st.sampled_from([None, "a", "b", "\\a"]),
        "must": st.sampled_from(["1970-01-01", "9999-12-31", "1600-02-29", "0001-01-01"]),
    }
)


_SOME: dict[str, Any] = {
    "deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]
}  # fmt: skip


@pytest.mark.parametrize("examples", [10, pytest.param(40, marks=pytest.mark.slow)])
def test_any_values(examples: int) -> None:
    changes = st.lists(st.tuples(st.sampled_from("cud"), ROW, MORE, ROW, MORE), min_size=1, max_size=6)

    @settings(max_examples=examples, **_SOME)
    @given(changes, st.integers(0, 2))
    def agree(rows: list[tuple[Any, ...]], which: int) -> None:
        events = [change(SPAN, None if op == "d" else a | b, None if op == "c" else c | d, op)
                  for op, a, b, c, d in rows]  # fmt: skip
        for format_ in FORMATS:
            options = {"on_lossy": "flag", **SETTINGS[format_][which % len(SETTINGS[format_])]}
            messages = list[Message]()
            for event in events:
                with suppress(WireError):  # what the format can't carry is no message
                    messages += encoded(format_, options, [event], SPAN)
            check(format_, SPAN, messages)

    agree()


@settings(max_examples=150, deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20), st.booleans())
def test_reals(numbers: list[float], wide_: bool) -> None:
    of = table(column("v", "double" if wide_ else "float"))
    template = '{"u":{"id":{"t":3,"h":true,"f":11,"v":1},"v":{"t":%d,"f":65,"v":%s}}}'
    key = frame.join_key([b'{"ts":5,"scm":"shop","tbl":"t","t":1}'])
    texts = [f"{n!r}" for n in numbers] + [f"{n:.9g}" for n in numbers] + [f"{n:.25g}" for n in numbers]
    bodies = [template % (5 if wide_ else 4, text) for text in texts]
    check("open", of, [Message(key, frame.join_value([b.encode()])) for b in bodies])


def test_many_rows_come_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_templates, "_CELLS", 60_000)
    of = table(column("v", "int"))
    values_ = [None if n % 3 else str(n) for n in range(150)]
    rows = [change(of, {"id": str(n), "v": v}, None if n % 2 else {"v": "1"}) for n, v in enumerate(values_)]
    messages = encoded("debezium", {}, rows, of) * 500
    columns = [pa.array([getattr(m, field) for m in messages], pa.binary()) for field in ("value", "key")]
    batches, left = ArrowJsonDecoder("debezium", of).decode(*columns)
    assert left == []
    assert len(batches) > 1
    found = pa.Table.from_batches(batches)
    assert found["message"].to_pylist() == list(range(len(messages)))
    assert [a["id"] for a in found["after"].to_pylist()] == list(range(150)) * 500


def test_one_bad_row_leaves_its_message_only() -> None:
    of, rows = wide(64)
    messages = encoded("open", {"max_batch_size": 4}, rows, of)
    head = b'"state":{"t":247,"f":'
    spoilt = replace(messages[2], value=(messages[2].value or b"").replace(head, head.replace(b"247", b"249")))
    wrong = replace(messages[3], value=(messages[3].value or b"").replace(b"-", b"\xff", 1))
    both = [*messages[:2], spoilt, wrong, *messages[4:]]
    assert check("open", of, both) == len(messages) - 2


# ---- compiling
def test_warm_compiles_all_that_is_used() -> None:
    """Arrays of another kind would be compiled for anew, in every worker."""
    from ticdc_bridge.schemas.columnar.kernels import json_cells, json_scan

    assert warm_json()
    # What these call is compiled with them, and cached with them.
    outer: list[Any] = [json_scan.frames, json_cells.read]
    before = [list(f.signatures) for f in outer]
    assert [f.__name__ for f, known in zip(outer, before, strict=True) if not known] == []
    of, rows = wide(20)
    for format_ in FORMATS:
        check(format_, of, encoded(format_, SETTINGS[format_][0], rows, of))
    assert [list(f.signatures) for f in outer] == before


def test_what_warms_goes_through_the_kernels() -> None:
    """A sample whose messages are left to the codec compiles nothing: workers do then, each by itself."""

    def check(format_: str) -> None:
        for batch, fast, rest in warm_up.read_sample_rows(format_):
            assert batch.num_rows > 100
            assert len(fast.origin) >= batch.num_rows
            assert not len(rest)

    check_rows(READERS, check)
