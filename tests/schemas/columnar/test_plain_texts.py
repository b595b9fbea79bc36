"""The compiled texts of cells are those of the plain form: made-up rows of all types, odd cells."""

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.schemas.columnar.test_debezium_writer import NUMBERS, changes, odd_cells
from tests.support.columnar_events import events_of
from tests.support.columnar_rows import Cells
from tests.support.rows import change
from ticdc_bridge.schemas.columnar.kernels import plain_lines as kernels_plain_lines
from ticdc_bridge.schemas.columnar.kernels.jit import COMPILED
from ticdc_bridge.schemas.columnar.plain_lines import EXTRA_FIELDS, plain_lines, plain_texts
from ticdc_bridge.schemas.columnar.rows import ABSENT, Binaries, Rows
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.event import Message, RowChange
from ticdc_bridge.schemas.model.table import Column, Table, TableId, Value
from ticdc_bridge.schemas.model.types import BY_NAME
from ticdc_bridge.schemas.plain.writer import json_line, plain_event

np = pytest.importorskip("numpy")
pytestmark = pytest.mark.skipif(not COMPILED, reason="numba is not installed")


def text(value: Value) -> str | None:
    return f'{{"hex":"{value.hex()}"}}' if isinstance(value, bytes) else value


def rows_of(rows: Rows) -> list[list[dict[str, str | None] | None]]:
    """(before, after) of each row, by the compiled texts."""
    found = plain_texts(rows)
    assert len(found.offsets) == len(found.valid) + 1 == len(rows.start) + 1
    data, ends = bytes(found.data), found.offsets.tolist()
    made: list[list[dict[str, str | None] | None]] = []
    pieces = (rows.shape, rows.step, rows.before, rows.after)
    for shape, step, *firsts in zip(*(piece.tolist() for piece in pieces), strict=True):
        made.append([])
        for first in firsts:
            names = ((first + step * n, c.name) for n, c in enumerate(rows.shapes[shape].columns))
            row = {
                name: data[ends[n] : ends[n + 1]].decode() if found.valid[n] else None
                for name, n in ((name, n) for n, name in names if first >= 0 and rows.length[n] != ABSENT)
            }
            made[-1].append(row if first >= 0 else None)
    return made


def check(events: Sequence[RowChange]) -> int:
    rows, taken = Cells().of(events)
    if not taken:
        return 0
    for found, event in zip(rows_of(rows), events_of(rows, "avro"), strict=True):
        images = (event.before, event.after)
        assert found == [None if row is None else {n: text(v) for n, v in row.items()} for row in images]
    return len(taken)


@given(st.lists(changes(), min_size=1, max_size=8))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example])
def test_made_up_rows(made: list[tuple[RowChange, int]]) -> None:
    check([event for event, _ in made])


def test_numbers() -> None:
    rng = random.Random("plain cells 20261121")
    doubles = [s * x for e in range(-1074, 1024) for x in (2.0**e, 1.5 * 2.0**e) for s in (1, -1)]
    doubles += [float(f"{m}e{e}") for e in range(-320, 308) for m in (1, 9.999999999999999)]
    doubles += [rng.uniform(-1, 1) * 10 ** rng.randrange(-30, 30) for _ in range(2000)]
    doubles += [round(x, 3) for x in doubles[-2000:]]
    rows: list[dict[str, Any]] = [{"d": values.double_text(x), "f": None, "n": None} for x in doubles]
    singles = {values.as_float32(x) for x in doubles if abs(x) < 3e38}
    rows += [{"d": None, "f": values.float_text(x), "n": None} for x in singles]
    assert check([change(NUMBERS, row) for row in rows]) == len(rows)


def test_cells_that_are_no_values_are_refused() -> None:
    refused = 0
    for rows in odd_cells(random.Random(2)):
        try:
            plain_texts(rows)
        except ValueError:
            refused += 1
    assert refused > 100


# ---------------------------------------------------------------------------------------------- whole lines
_ODD = st.text(
    st.characters(codec="utf-8") | st.sampled_from('"\\\x00\x1f\x7f\x85\n\r\t\b\f\u2027\u2028\u2029é'), max_size=40
)
_NUMBER = st.none() | st.integers(-(1 << 62), 1 << 62)


def as_lines(events: Sequence[RowChange], origin: Message) -> None:
    """The kernel's lines of events, all from one place, are those of the plain form."""
    rows, taken = Cells().of(events)
    if not taken:
        return
    count = len(taken)
    starts = [np.full(count, kernels_plain_lines.NONE if n is None else n) for n in (origin.partition, origin.offset)]
    made = plain_lines(rows, plain_texts(rows), "open", [origin.topic], (np.zeros(count, np.int64), *starts))
    data, ends = bytes(made.data), made.offsets.tolist()
    for n, event in enumerate(events_of(rows, "open")):
        if len(event.flags) < 2:
            assert data[ends[n] : ends[n + 1]].decode() == json_line(plain_event(event, origin))


@given(_ODD, _ODD, _ODD, _NUMBER, _NUMBER, st.binary(max_size=20))
@settings(max_examples=200, deadline=None)
def test_lines_of_odd_texts(
    topic: str, name: str, value: str, partition: int | None, offset: int | None, photo: bytes
) -> None:
    columns = (Column(name, BY_NAME["varchar"]), Column(f"{name}-", BY_NAME["blob"]), Column("b", BY_NAME["bit"]))
    table = Table(TableId(topic, name), columns if name != "b" else columns[:2])
    row: dict[str, Value] = {name: value, f"{name}-": photo}
    images = [(None, row), (row, {**row, name: None}), ({name: value}, None)]
    events = [
        RowChange("open", table, "u" if a and b else "d" if b else "c", None if a else 5, b, a, (name,), "UTC", 7, None)
        for b, a in images
    ]
    as_lines(events, Message(None, None, topic, partition, offset))


@given(st.lists(changes(), min_size=1, max_size=8))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example])
def test_lines_of_made_up_rows(made: list[tuple[RowChange, int]]) -> None:
    as_lines([event for event, _ in made], Message(None, None, "t", 0, 1))


def test_what_debezium_has_beside_its_row() -> None:
    """Told as the decoder tells it, or left; whatever else stands in the message."""
    reported = {
        '"source":{"ts_ms":1,"start_ts":2},"ts_ms":3': '{"ts_ms": 3, "start_ts": 2}',
        '"source":{"start_ts":0},"op":"c"': '{"start_ts": 0}',
        '"before":{"ts_ms":9,"source":{"start_ts":1}},"source":{"cluster_id":"a"},"ts_ms":null': '{"cluster_id": "a"}',
        '"after":{"a":"\\"ts_ms\\":5,{[","ts_ms":5},"source":{"cluster_id":"default"}': "",
        '"x":[{"start_ts":1},["ts_ms",{"y":{}}]],"source":{"z":{"start_ts":4}},"ts_ms":18': '{"ts_ms": 18}',
    }
    left = [
        '"ts_ms":1.5', '"ts_ms":-1', '"ts_ms":01', '"ts_ms" :1', '"ts_ms":1,"ts_ms":2', '"t\\u0073_ms":1',
        '"source":{"cluster_id":"é"}', '"source":{"cluster_id":null}', '"ts_ms":1234567890123456789',
    ]  # fmt: skip
    texts = [f'{{"payload":{{{inner}}}}}' for inner in (*reported, *left)]
    texts += [
        '{"schema":{},"payload":{"ts_ms":1}}', '{"payload":{"ts_ms":1},"payload":{}}', "", "{", '{"payload":{"ts_m',
    ]  # fmt: skip
    texts.append('{"payload":{"ts_ms":7},"schema":{"fields":[{"ts_ms":8}]}}')
    data = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, data)])
    values = Binaries(np.frombuffer(b"".join(data), np.uint8), ends, np.ones(len(data), bool))
    found, untold = EXTRA_FIELDS["debezium"](values, np.arange(len(data)))
    assert found is not None
    whole, at = bytes(found.data), found.offsets.tolist()
    said = [None if no else whole[at[n] : at[n + 1]].decode() for n, no in enumerate(untold.tolist())]
    assert said == [*reported.values(), *[None] * (len(left) + 5), '{"ts_ms": 7}']
