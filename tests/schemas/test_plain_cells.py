"""The compiled texts of cells are those of the plain form: goldens, made-up rows of all types, odd cells."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas import values
from schemas.codec import plain_cells
from schemas.codec.cell_events import events_of
from schemas.codec.cells import ABSENT, CellRows
from schemas.codec.plain_cells import plain_texts
from schemas.event import RowChange
from schemas.table import Value
from tests.schemas.rows import change
from tests.schemas.test_debezium_cells import NUMBERS, changes, odd_cells
from tests.support.cells import Cells
from tests.support.golden import FORMATS, cases

np = pytest.importorskip("numpy")
pytestmark = pytest.mark.skipif(not plain_cells.COMPILED, reason="numba is not installed")


def text(value: Value) -> str | None:
    return f'{{"hex":"{value.hex()}"}}' if isinstance(value, bytes) else value


def rows_of(rows: CellRows) -> list[list[dict[str, str | None] | None]]:
    """(before, after) of each row, by the compiled texts."""
    found = plain_texts(rows)
    assert len(found.offsets) == len(found.valid) + 1 == len(rows.place) + 1
    data, ends = bytes(found.data), found.offsets.tolist()
    made: list[list[dict[str, str | None] | None]] = []
    for shape, *firsts in zip(rows.shape.tolist(), rows.before.tolist(), rows.after.tolist(), strict=True):
        made.append([])
        for first in firsts:
            names = enumerate((c.name for c in rows.shapes[shape].columns), first)
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
        sides = (event.before, event.after)
        assert found == [None if row is None else {n: text(v) for n, v in row.items()} for row in sides]
    return len(taken)


def test_goldens() -> None:
    events = [e for f in FORMATS for c in cases(f) for e in c.events() if isinstance(e, RowChange)]
    assert check(events) > 1000


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
