"""The compiled Debezium writer writes what `DebeziumEncoder` writes: goldens, made-up rows of all types, odd cells."""

import itertools
import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.support.columnar_events import events_of
from tests.support.columnar_rows import Cells
from tests.support.each import each
from tests.support.golden import Registry, cases
from tests.support.rows import COMMIT_TS, ID, change, column, table
from ticdc_bridge.schemas.columnar.debezium_writer import DebeziumWriter, _Batch
from ticdc_bridge.schemas.columnar.kernels.jit import COMPILED
from ticdc_bridge.schemas.columnar.rows import Rows, Topics, freeze
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.formats.debezium.ticdc import DebeziumEncoder
from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import Message, Op, RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Column, Table, TableId, Value
from ticdc_bridge.schemas.model.types import Kind

np = pytest.importorskip("numpy")
pytestmark = pytest.mark.skipif(not COMPILED, reason="numba is not installed")

OPTIONS: tuple[dict[str, Any], ...] = (
    {"debezium_disable_schema": True}, {"debezium_disable_schema": True, "on_lossy": "flag", "cluster_id": 'a"b\\ü'},
    {"enable_tidb_extension": True, "debezium_include_start_ts": True}, {"no_old_value": True, "on_lossy": "flag"},
    {"update_without_before": "upsert"}, {"update_without_before": "key-before"},
)  # fmt: skip
TIME = 1_767_348_246_678


def context(options: dict[str, Any]) -> Context:
    return Context(Registry(), None, Options.of(options))


def written(writer: DebeziumWriter, rows: Rows, timestamps: Any = None) -> list[tuple[bytes, bytes, set[str]]]:
    """(key, value, flags) of each row; of a row that is left, empty."""
    count = len(rows.shape)
    times = np.full(count, TIME, np.int64) if timestamps is None else np.array(timestamps, np.int64)
    out = writer.write(rows, Topics((None,), np.zeros(count, np.int64)), times)
    keys, texts = (
        [bytes(b.data[a:z]) for a, z in itertools.pairwise(b.offsets.tolist())] for b in (out.keys, out.values)
    )
    assert [not left for left in out.left] == out.keys.valid.tolist() == out.values.valid.tolist()
    flags = [{name for name, mask in out.flags.items() if mask[n]} for n in range(count)]
    return [
        (b"", b"", set()) if left else made
        for left, made in zip(out.left.tolist(), zip(keys, texts, flags, strict=True), strict=True)
    ]


def check(events: Sequence[RowChange], options: dict[str, Any], timestamps: Sequence[int] | None = None) -> int:
    """Asserts that writer and encoder agree on the events that cells can say; how many rows the writer took."""
    rows, taken = Cells().of(events)
    if not taken:
        return 0
    times = [TIME if timestamps is None else timestamps[n] for n in taken]
    encoder, took = DebeziumEncoder(context(options)), 0
    found = written(DebeziumWriter(context(options)), rows, times)
    for event, time, (key, value, flags) in zip(events_of(rows, "avro"), times, found, strict=True):
        own = set(event.flags)
        message = encoded(encoder, event, time)
        if message is None:
            assert not key, f"the encoder refuses {event}"
        elif key:
            assert (key, value) == (message.key, message.value), event
            assert flags | own == set(event.flags), event
            took += 1
        else:
            bare = options.get("update_without_before") == "key-before" and event.op == "u" and event.before is None
            assert bare or is_unusual(event), event
    return took


def encoded(encoder: DebeziumEncoder, event: RowChange, time: int) -> Message | None:
    try:
        [message] = encoder.encode(event, Message(None, None, timestamp=None if time < 0 else time))
    except WireError:
        return None
    return message


def is_unusual(event: RowChange) -> bool:
    """True if the kernel may leave a row that the encoder writes: dates before the year 100, zero days, odd times."""
    for row in (event.before, event.after):
        for name, value in (row or {}).items():
            kind = event.table.by_name[name].type.kind
            if kind in (Kind.DATE, Kind.DATETIME) and re.match(r"00|....-00|....-..-00", str(value)):
                return True
            if kind is Kind.TIMESTAMP and event.zone != "UTC" and not "1970-01-05" < str(value) < "2038-01-15":
                return True
            if kind is Kind.DECIMAL and str(value).rstrip("0").endswith(".5") and len(str(value)) > 15:
                return True  # in the middle between two doubles
    partial = event.op == "u" and event.before is not None and len(event.before) < len(event.after or ())
    return partial or (event.key_only and event.op != "d")


def test_nearly_all_rows_of_goldens_are_taken() -> None:
    events = [e for c in cases("avro") for e in c.events(True) if isinstance(e, RowChange)]
    assert check(events, OPTIONS[1]) > 0.9 * len(events) > 100


# ---------------------------------------------------------------------------------------------- made-up rows
def fractions(most: int) -> st.SearchStrategy[str]:
    digits = st.text("0123456789", min_size=most, max_size=most)
    return digits.map(lambda d: f".{d}") if most else st.just("")


def clock(t: datetime) -> str:
    return f"{t.year:04d}-{t.month:02d}-{t.day:02d} {t.hour:02d}:{t.minute:02d}:{t.second:02d}"


EDGES = st.sampled_from(["2024-11-03 01:30:00", "2024-03-10 02:30:00", "2011-12-30 12:00:00", "1987-10-25 01:45:00"])
TIMES = st.one_of(st.datetimes(datetime(1, 1, 1)).map(clock), EDGES, st.just(values.ZERO_TIMESTAMP))
INSTANTS = st.one_of(st.datetimes(datetime(1969, 12, 30), datetime(2038, 1, 21)).map(clock), TIMES)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
POWERS = st.integers(-149, 127).map(lambda e: 2.0**e)
FLOATS = st.one_of(st.floats(width=32, allow_nan=False, allow_infinity=False), POWERS)
CLOCKS = st.from_regex(r"-?[0-8]?[0-9][0-9]:[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?", fullmatch=True)
DECIMALS = st.from_regex(r"-?[0-9]{1,30}(\.[0-9]{1,20})?", fullmatch=True)


def sized(times: st.SearchStrategy[str], digits: int) -> st.SearchStrategy[str]:
    return st.builds(str.__add__, times, fractions(digits))


COLUMNS: tuple[tuple[Column, st.SearchStrategy[Value]], ...] = (
    *(
        (column(f"{kind}_{sign}", kind, unsigned=sign == "u"), st.integers(low, high).map(str))
        for kind, bits in (("tinyint", 8), ("smallint", 16), ("mediumint", 24), ("int", 32), ("bigint", 64))
        for sign, low, high in (("u", 0, (1 << bits) - 1), ("s", -(1 << bits - 1), (1 << bits - 1) - 1))
    ),
    (column("year", "year"), st.one_of(st.just("0"), st.integers(1900, 2156).map(str))),
    (column("double", "double"), st.floats(allow_nan=False, allow_infinity=False).map(values.double_text)),
    (column("short", "double"), st.integers(-(10**8), 10**8).map(lambda n: values.double_text(n / 1000))),
    (column("float", "float"), FLOATS.map(values.float_text)),
    (column("float_md", "float", length=10, scale=2), FLOATS.map(values.float_text)),
    (column("decimal", "decimal", length=50, scale=20), DECIMALS),
    (column("bit1", "bit", length=1), st.binary(min_size=1, max_size=1).map(lambda b: bytes([b[0] & 1]))),
    (column("bit", "bit", length=13), st.integers(0, 8191).map(lambda n: n.to_bytes(2, "big"))),
    (column("bit64", "bit", length=64), st.binary(min_size=8, max_size=8)),
    (column("blob", "blob"), st.binary(max_size=12)),
    (column('te"xt\\ü', "varchar"), TEXTS),
    (column("json", "json"), TEXTS),
    (column("enum", "enum", elements=("a", 'b"')), st.sampled_from(["a", 'b"'])),
    (column("set", "set", elements=("a", "b")), st.sampled_from(["", "a", "a,b"])),
    (column("vector", "vector"), st.just("[1,2.5]")),
    (column("date", "date"), st.dates(date(1, 1, 1)).map(date.isoformat)),
    (column("day", "date", nullable=False), st.sampled_from(["0000-00-00", "2024-02-29", "2023-02-29", "2024-00-10"])),
    (column("datetime0", "datetime", scale=0), TIMES),
    (column("datetime6", "datetime", scale=6, nullable=False), sized(TIMES, 6)),
    (column("unsized", "datetime"), st.one_of(TIMES, sized(TIMES, 3), sized(TIMES, 6))),
    (column("unsized2", "datetime"), st.one_of(sized(TIMES, 4), sized(TIMES, 2))),
    (column("timestamp", "timestamp", scale=0), INSTANTS),
    (column("timestamp3", "timestamp", scale=3), sized(INSTANTS, 3)),
    (column("time", "time", scale=0), CLOCKS),
)  # fmt: skip
ZONES = ("UTC", "utc", "Asia/Shanghai", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "+05:30", "-11:00")


@st.composite
def changes(draw: st.DrawFn) -> tuple[RowChange, int]:
    """A row change, and its message's timestamp."""
    chosen = draw(st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=6, unique_by=lambda c: c[0].name))
    keyed = {c.name: draw(st.booleans()) for c, _ in chosen}
    columns = [replace(c, handle_key=keyed[c.name]) for c, _ in chosen]
    names = draw(st.permutations([ID.name, *keyed]))
    of = {c.name: c for c in (ID, *columns)}
    made = Table(TableId(draw(st.sampled_from(["shop", "d-b.ü"])), "t"), tuple(of[n] for n in names))
    op: Op = draw(st.sampled_from(("c", "u", "d")))

    def row() -> dict[str, Value]:
        return {c.name: draw(st.one_of(st.none(), s) if c.nullable else s) for c, s in chosen}

    before = None if op == "c" or (op == "u" and draw(st.booleans())) else row()
    key_only = op == "d" and draw(st.booleans())
    if key_only and before is not None:
        before = {n: v for n, v in before.items() if keyed[n]}
    event = change(
        made, None if op == "d" else row(), before, op, zone=draw(st.sampled_from(ZONES)), key_only=key_only,
        commit_ts=draw(st.sampled_from([COMMIT_TS, 0, None])),
    )  # fmt: skip
    return event, draw(st.sampled_from([TIME, -1, 0]))


@pytest.mark.parametrize("examples", [25, pytest.param(150, marks=pytest.mark.slow)])
def test_made_up_rows(examples: int) -> None:
    slow = [HealthCheck.too_slow, HealthCheck.large_base_example]

    @settings(max_examples=examples, deadline=None, suppress_health_check=slow)
    @given(st.lists(changes(), min_size=1, max_size=8), st.sampled_from(OPTIONS))
    def agree(made: list[tuple[RowChange, int]], options: dict[str, Any]) -> None:
        check([event for event, _ in made], options, [time for _, time in made])

    agree()


NUMBERS = table(column("d", "double"), column("f", "float"), column("n", "decimal", length=65, scale=30))


def test_every_power_of_two_and_of_ten() -> None:
    doubles = [s * x for e in range(-1074, 1024) for x in (2.0**e, 1.5 * 2.0**e) for s in (1, -1)]
    doubles += [float(f"{m}e{e}") for e in range(-320, 308) for m in (1, 9.999999999999999)]
    singles = {values.as_float32(x) for x in doubles if abs(x) < 3e38}
    events = [change(NUMBERS, {"d": values.double_text(x), "f": None, "n": None}) for x in doubles]
    floats = [change(NUMBERS, {"d": None, "f": values.float_text(x), "n": None}) for x in singles]
    assert check(events, OPTIONS[0]) == len(events)
    assert check(floats, OPTIONS[0]) == len(floats)


def test_random_numbers() -> None:
    rng = random.Random("debezium cells 20261121")
    rows = []
    for _ in range(3000):
        d, f = rng.uniform(-1, 1) * 10 ** rng.randrange(-30, 30), values.as_float32(rng.uniform(-1e6, 1e6))
        n = str(rng.getrandbits(rng.randrange(1, 120)))
        at = rng.randrange(1, len(n) + 1)
        n = n[:at] + ("." + n[at:] if n[at:] else "")
        rows.append({"d": values.double_text(d), "f": values.float_text(f), "n": n})
    assert check([change(NUMBERS, row) for row in rows], OPTIONS[1]) > 2990


@each("zone", ZONES[2:6])
def test_zones_around_their_changes(zone: str) -> None:
    of, start = table(column("at", "timestamp")), datetime(2011, 1, 1)
    hours = [start + timedelta(minutes=30 * n, seconds=n % 3 - 1) for n in range(400 * 48)]
    offsets = [values.zone(zone).utcoffset(h) for h in hours]
    near = {
        m for n, (a, b) in enumerate(itertools.pairwise(offsets)) if a != b for m in range(n - 60, n + 60)
    } | set(range(0, len(hours), 997))  # fmt: skip
    events = [change(of, {"at": clock(hours[n])}, zone=zone) for n in sorted(near)]
    assert check(events, OPTIONS[0]) > len(events) - 60  # times that never were


# ---------------------------------------------------------------------------------------------- what is around rows
def test_a_row_that_its_decoder_flagged_as_damaged_is_left() -> None:
    event = change(table(column("f", "float")), {"f": "1.5"}, flags=["float_damaged:f"])
    assert check([event], {}) == 0
    assert check([event], {"on_lossy": "flag"}) == 1
    assert check([replace(event, flags=["lossy_decimal:f"])], {}) == 1


def test_commit_ts() -> None:
    of = table()
    events = [change(of, {}, commit_ts=ts) for ts in (COMMIT_TS, None, None, None, None, -5, (1 << 63) - 1)]
    for options in ({}, OPTIONS[2]):  # with the extension a row without one has a schema of its own
        assert check(events, options, [-1, TIME, 0, -1, 1 << 50, TIME, TIME]) == 6


def test_programs_are_made_once_and_forgotten_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    cells, writer = Cells(), DebeziumWriter(context({}))
    rows, _ = cells.of([change(table(column("a", "int")), {"a": "1"})])
    first = written(writer, rows)
    size = writer.compiler.size
    assert written(writer, rows) == first
    assert writer.compiler.size == size
    monkeypatch.setattr("ticdc_bridge.schemas.columnar.debezium_writer._MOST_TEXT", size - 1)
    more, _ = cells.of([change(table(column("b", "int")), {"b": "1"})])
    assert written(writer, more) == written(DebeziumWriter(context({})), more)
    assert writer.compiler.size < 2 * size
    assert written(writer, rows) == first


def test_output_grows_as_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    events = [change(table(column("a", "text")), {"a": "\x01" * 10 * n}) for n in range(200)]
    monkeypatch.setattr(_Batch, "_first_room", lambda *_: (np.empty(0, np.uint8), np.empty(0, np.uint8)))
    monkeypatch.setattr("ticdc_bridge.schemas.columnar.debezium_writer._ROOM", 0)
    assert check(events, OPTIONS[0]) == len(events)


def odd_cells(rng: random.Random) -> Iterable[Rows]:
    """Cells that point anywhere."""
    chosen = [c for c, _ in COLUMNS]
    rows, _ = Cells().of([change(Table(TableId("a", "b"), (ID, *chosen)), {c.name: None for c in chosen})] * 20)
    for _ in range(200):
        numbers = (-1, -2, -3, 0, 1, 3, 8, 19, 1 << 40, -(1 << 63), (1 << 63) - 1)
        start = np.array([rng.choice(numbers) for _ in rows.start], np.int64)
        length = np.array([rng.choice(numbers) if rng.random() < 0.2 else -1 for _ in rows.start], np.int64)
        after = np.array([rng.choice((0, 5, len(start) - 3, 1 << 40, -1)) for _ in rows.after], np.int64)
        data = freeze(np.frombuffer(rng.randbytes(rng.choice((0, 20, 100))), np.uint8))
        yield replace(rows, start=start, length=length, after=after, data=data)


def test_cells_that_point_anywhere_are_left() -> None:
    writer = DebeziumWriter(context(OPTIONS[1]))
    for rows in odd_cells(random.Random(1)):
        for key, value, _ in written(writer, rows):
            assert bool(key) == bool(value)


def test_a_column_that_the_row_lacks_is_left() -> None:
    of = table(column("a", "int"))
    assert check([replace(change(of, {"a": "1"}), after={"id": "1"})], {}) == 0
    assert check([change(of, None, {}, key_only=True)], {}) == 1
    rows, _ = Cells().of([change(of, None, {"a": None}, key_only=True)])
    assert written(DebeziumWriter(context({})), rows) == [(b"", b"", set())]


def test_texts_of_any_length_with_what_is_escaped_anywhere() -> None:
    of = table(column("a", "varchar"))
    texts = [
        "x" * start + middle + "y" * (size - start - 1)
        for size in range(1, 70)
        for start in sorted({0, size // 2, min(31, size - 1), size - 1})
        for middle in ("z", '"', "\\", "\x1f", "é")
    ]
    assert check([change(of, {"a": text}) for text in ["", *texts]], OPTIONS[0]) == len(texts) + 1
    for text in texts[::7]:  # the last of a batch's bytes
        assert check([change(of, {"a": text})], OPTIONS[0]) == 1


@example("2024-02-30 00:00:00")
@given(st.from_regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}( [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{0,7})?)?", fullmatch=True))
@settings(deadline=None)
def test_texts_that_look_like_times(text: str) -> None:
    columns = (column("a", "date"), column("b", "datetime", scale=6), column("c", "timestamp"), column("e", "time"))
    for of in columns:
        check([change(table(of), {of.name: text})], OPTIONS[1])


def test_without_numba_all_rows_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ticdc_bridge.schemas.columnar.debezium_writer.COMPILED", False)
    rows, _ = Cells().of([change(table(), {})])
    assert written(DebeziumWriter(context({})), rows) == [(b"", b"", set())]
