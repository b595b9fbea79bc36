"""The compiled Craft writer writes what `CraftEncoder` writes: goldens, made-up rows of all types, batches, edges."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.schemas.columnar.test_debezium_writer import TIME, changes
from tests.support.columnar_events import events_of
from tests.support.columnar_rows import Cells
from tests.support.golden import Registry, cases
from tests.support.rows import change, column, table
from tests.support.table import check_rows
from ticdc_bridge.schemas.columnar.craft_writer import CraftWriter
from ticdc_bridge.schemas.columnar.kernels.jit import COMPILED
from ticdc_bridge.schemas.columnar.rows import Topics
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.formats.craft.encoder import CraftEncoder
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import Message, RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Column
from ticdc_bridge.schemas.model.types import Kind

np = pytest.importorskip("numpy")
pytestmark = pytest.mark.skipif(not COMPILED, reason="numba is not installed")

OPTIONS: tuple[dict[str, Any], ...] = (
    {"max_batch_size": 3},
    {"on_lossy": "flag", "delete_only_output_handle_key_columns": True},
    {"no_old_value": True, "on_lossy": "flag", "time_zone": "Asia/Shanghai"},
    {"max_message_bytes": 400},
)


def check(events: Sequence[RowChange], options: dict[str, Any], together: int = 1) -> int:
    """Writer and encoder agree on what cells can say, `together` rows a source message; how many rows it took."""
    rows, _ = Cells().of(events)
    made, count = events_of(rows, "avro"), len(rows.message)
    if not count:
        return 0
    context = Context(Registry(), None, Options.of(options))
    message = np.arange(count) // together
    rows = type(rows)(rows.shapes, message, *(getattr(rows, name) for name in list(rows.__slots__)[2:]))
    times = np.full(count, TIME, np.int64)
    out = CraftWriter(context).write(rows, Topics(("t",), np.zeros(count, np.int64)), times)
    ends, data, took = out.values.offsets.tolist(), bytes(out.values.data), 0
    encoder = CraftEncoder(context)
    for number, indices in groupby(range(count), lambda n: int(message[n])):
        those = list(indices)
        own = [set(made[n].flags) for n in those]
        written = [data[ends[n] : ends[n + 1]] for n in those if out.values.valid[n]]
        if out.left[those].any():
            assert not encodes(encoder, [made[n] for n in those]) or is_unusual([made[n] for n in those], options)
            continue
        messages = encoder.encode_rows([made[n] for n in those], Message(None, None, timestamp=TIME))
        assert written == [m.value for m in messages], number
        for n, before in zip(those, own, strict=True):
            assert {name for name, mask in out.flags.items() if mask[n]} | before == set(made[n].flags)
        took += len(those)
    return took


def encodes(encoder: CraftEncoder, events: list[RowChange]) -> bool:
    try:
        return bool(encoder.encode_rows(events, Message(None, None, timestamp=TIME)))
    except WireError:
        return False


def is_unusual(events: list[RowChange], options: dict[str, Any]) -> bool:
    """True if the kernel may leave rows that the encoder writes: of several tables, TIMESTAMP in another zone, ENUM and
    SET by their numbers.
    """
    if any(flag.startswith("enum_number") for event in events for flag in event.flags):
        return True
    zones = {e.zone for e in events if any(c.type.kind is Kind.TIMESTAMP for c in e.table.columns)}
    several = len({id(e.table) for e in events} | {(e.key, e.key_only, e.schema_id, e.table_version) for e in events})
    return several > 2 or bool(zones - {options.get("time_zone", "UTC")}) or any(e.key_only for e in events)


def test_nearly_all_rows_of_goldens_are_taken() -> None:
    for format_ in ("avro", "open", "debezium"):
        events = [e for c in cases(format_) for e in c.events(True) if isinstance(e, RowChange) and not e.flags]
        events = [e for e in events if e.commit_ts is not None]
        for zone in {e.zone for e in events}:
            of = [e for e in events if e.zone == zone]
            assert check(of, {"time_zone": zone, "on_lossy": "flag"}) > 0.85 * len(of), format_


@given(st.lists(changes(), min_size=1, max_size=8), st.sampled_from(OPTIONS), st.integers(1, 4))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example])
def test_made_up_rows(made: list[tuple[RowChange, int]], options: dict[str, Any], together: int) -> None:
    check([event for event, _ in made], options, together)


_EDGES: tuple[tuple[Column, list[Any]], ...] = (
    (column("v", "tinyint"), ["127", "-128", "128", "-129"]),
    (column("v", "mediumint", unsigned=True), ["0", "16777215", "16777216"]),
    (column("v", "bigint", unsigned=True), ["0", str(2**64 - 1), str(2**63)]),
    (column("v", "year"), ["0", "1901", "2155", "1900", "2156"]), (column("v", "bit", length=3), [b"\x07", b"\x08"]),
    (column("v", "enum", elements=("a", "é", "a,b")), ["a", "é", "a,b", "", "b", "a,"]),
    (column("v", "enum", elements=("", "a")), ["", "a"]), (column("v", "enum"), [None]),
    (column("v", "set", elements=("a", "b", "ü")), ["", "a", "ü,a", "a,a", "a,", ",a", "c", "a,,b"]),
    (column("v", "set", elements=tuple(f"e{n}" for n in range(64))), [",".join(f"e{n}" for n in range(64)), "e63"]),
    (column("v", "date"), ["2026-01-02", "0000-00-00", "2026/01/01", "2026-01-011", "2026-1-01"]),
    (column("v", "datetime"), ["2026-01-01 00:00:00", "2026-01-01 00:00", "2026-01-01 00:00:00.", "0-0-0 0:0:0.0"]),
    (column("v", "datetime"), ["2026-01-01 00:00:00.123456", "2026-01-01 00:00:00.1234567", "2026-01-01T00:00:00"]),
    (column("v", "time"), ["12:00:00", "-838:59:59.9", "1:00:00", "1000:00:00", ""]),
    (column("v", "decimal"), ["1.5", "1e5", "-0", "01"]),
    (column("v", "decimal", length=5, scale=2), ["999.99", "1.234", "1.230", "1000", "-0.1"]),
    (column("v", "decimal", length=65, scale=30), ["9" * 35 + "." + "9" * 30, "9" * 36]),
    (column("v", "text"), ["", "é" * 40, "x" * 70]), (column("v", "blob"), [b"", b"\xff" * 70]),
)  # fmt: skip


def test_values_at_the_edges() -> None:
    def check_column(edge: tuple[Column, list[Any]]) -> None:
        of = table(edge[0])
        for value in edge[1]:
            check([change(of, {"v": value}), change(of, {"v": None}, {"v": value}, "u")], {})

    check_rows(_EDGES, check_column, lambda edge: f"{edge[0].type.name} {edge[1]!r}")


def test_old_rows_are_completed_as_the_encoder_completes_them() -> None:
    of = table(column("v", "int"))
    for before in ({"v": "1"}, {"id": "2"}, {}):
        assert check([replace(change(of, {"v": "2"}, op="u"), before=before)], {}) == 1


def test_rows_of_one_message_are_cut_where_the_encoder_cuts() -> None:
    of, other = table(column("v", "text")), table(column("v", "int"), name="other")
    events = [change(of, {"id": str(n), "v": "x" * (n % 50)}) for n in range(100)]
    for options in OPTIONS:
        assert check(events, options, 25) == 100
    mixed = [event for event in events[:20] for event in (event, change(other, {"v": "1"}))]
    assert check(mixed, {}, 1) == 40
    assert check(mixed, {}, 4) == 0


def test_without_numba_all_rows_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ticdc_bridge.schemas.columnar.craft_writer.COMPILED", False)
    rows, _ = Cells().of([change(table(), {})])
    none = np.zeros(1, np.int64)
    assert CraftWriter(Context(Registry())).write(rows, Topics(("t",), none), none).left.all()
