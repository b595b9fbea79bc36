"""Odd and damaged JSON messages: what typed batches take is what the formats' own decoders give.

BRIDGE_FUZZ=N: damaged messages (2,000; the slow form 20,000). BRIDGE_BOUNDS=1: once more with numba's bounds checks.
"""

import json
import os
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from benchmarks.json_formats import encoded
from tests.support.fuzz import WITH_BOUNDS, mutate, run_with_bounds_checks
from tests.support.json_batches import SETTINGS, SPAN, check, wide
from tests.support.rows import change, column, table
from tests.support.table import check_rows
from tests.support.table_decoders import FORMATS, ArrowJsonDecoder
from ticdc_bridge.schemas.codec import json_exact
from ticdc_bridge.schemas.columnar.kernels.jit import COMPILED
from ticdc_bridge.schemas.formats.base import Context, SingleTable
from ticdc_bridge.schemas.formats.open_protocol import frame
from ticdc_bridge.schemas.inspect.format_lookup import format_named
from ticdc_bridge.schemas.model.event import DdlEvent, Message, Watermark
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Table, TableVersion

pa: Any = pyarrow
MUTATIONS = int(os.environ.get("BRIDGE_FUZZ", "2000"))
MANY = max(MUTATIONS, 20_000)
pytestmark = pytest.mark.skipif(not COMPILED, reason="numba is not installed")


# ---- odd messages
_TOKENS = [
    "null", "true", "false", "0", "-0", "1", "-1", "01", "+1", "1.", ".5", "1.0", "1e2", "1E+2", "1e-2", "-0.0",
    "1e400", "1e-400", "3.5e38", "16777217", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
    "-9223372036854775809", "18446744073709551615", "18446744073709551616", "99999999999999999999999", "0.000001",
    "0.0000010", "0.0000001", "999999999.999999", "1000000000.000000", "9999999999.99", "10000000000", "1e-7",
    "12e-7", "120e-8", "-5e-6", "NaN", "Infinity", "[]", "{}", "2932896", "2932897", "-719162", "-719163",
    "253402300799999", "253402300800000", "-62135596800000", "-62135596800001", "86399999999", '""', '"a"',
    '"\\u00e9"', '"\\ud83d\\ude00"', '"\\ud83d"', '"\\ude00"', '"\\ud83d\\u0041"', '"\\ufffd"', '"\\uFFFD"',
    '"\\\\ufffd"', '"\\/\\b\\f\\n\\r\\t\\"\\\\"', '"\\x41"', '"\\u12"', '"\\', '"\t"', '"\x7f"', '"é�"', '"QQ=="',
    '"QR=="', '"QQ="', '"QQ"', '"QUI="', '"QUJD"', '"QUJDRA=="', '"Q\\u0051=="', '"w6k="', '"//79"', '"===="',
    '"Q==="', '"2026-01-02"', '"2026-13-45"', '"2026-1-2"', '"0000-00-00"', '"2026-01-02 03:04:05"',
    '"2026-01-02 03:04:05.123456"', '"2026-01-02 03:04:05."', '"2026-01-02 03:04:05.1234567"',
    '"2026-01-02T03:04:05Z"', '"2026-01-02T03:04:05.5Z"', '"2026-01-02T03:04:05"', '"2026-01-02T24:00:00Z"',
    '"2026-02-29T00:00:00Z"', '"2024-02-29T00:00:00Z"', '"2026-04-31T00:00:00Z"', '"0000-01-01T00:00:00Z"',
    '"1970-01-01T00:00:00Z"', '"1970-01-01T00:00:00.5Z"', '"2026-01-02 03:04:05Z"', '"2026\\u002d01-02"', '"1.5"',
    '"-1.50"', '"1e2"', '"1."', '"123456789012345678901234567890.123456"', '"123456789012345678901234.1234567"',
    '"12:34:56"', '"112:34:56.5"', '"-838:59:59"', '"1234:00:00"', '"1:00:00"', '"\\\\x00\\\\xff"', '"\\\\n"',
    '"\\\\/"', '"\\\\u0041"', '"\\n"', '"new,paid"', " 1", "1 ", '"a" ',
]  # fmt: skip


def _spots(format_: str, text: str) -> Iterator[tuple[int, int]]:
    """Where the values of a row stand in a message."""
    if format_ == "debezium":
        payload = next(start for name, start, _ in json_exact.members(text, 0) if name == "payload")
        for name, start, _ in json_exact.members(text, payload):
            if name in ("before", "after"):
                yield from ((a, b) for _, a, b in json_exact.members(text, start))
            elif name == "ts_ms":
                yield start, _
            elif name == "source":
                yield from ((a, b) for n, a, b in json_exact.members(text, start) if n in ("commit_ts", "ts_ms", "db"))
        return
    for _, start, _ in json_exact.members(text, 0):
        for _, first, _ in json_exact.members(text, start):
            yield from ((a, b) for n, a, b in json_exact.members(text, first) if n != "h")


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("of", [pytest.param("wide", marks=pytest.mark.slow), "span"])
def test_odd_values_in_every_place(format_: str, of: str) -> None:
    """Each token in each value's place of a message: taken as the decoder reads it, or left."""
    if of == "wide":
        shape, rows = wide(40)
        event = next(r for r in rows if r.op == "u")
    else:
        shape = SPAN
        row = {c.name: None for c in SPAN.columns if c.name != "id"} | {"must": "2026-01-02"}
        event = change(SPAN, row, row, "u")
    options = {**SETTINGS[format_][0], "debezium_disable_schema": True, "max_batch_size": 1}
    if format_ == "debezium":
        del options["max_batch_size"]
    [message] = encoded(format_, options, [event], shape)
    assert message.value is not None
    framed = format_ != "debezium"
    text = message.value[8 if framed else 0 :].decode()
    odd = [text[:start] + token + text[end:] for start, end in _spots(format_, text) for token in _TOKENS]
    made = [o.encode() for o in odd]
    made += [m.replace("é".encode(), b"\xff") for m in made[:: len(_TOKENS)]]
    made += [text.replace(":", ": ", 1).encode(), text.replace(',"', ' ,"', 3).encode(), f" {text}".encode()]
    made += [text.replace('"id":', '"id":7,"id":', 1).encode(), text.replace('"id"', '"\\u0069d"', 1).encode()]
    messages = [message, *(replace(message, value=frame.join_value([m]) if framed else m) for m in made)]
    assert check(format_, shape, messages) > len(messages) // 40


def test_what_is_no_row_of_the_table_is_left() -> None:
    of = table(column("v", "int"))
    stamp = 463299738777157634
    for format_ in FORMATS:

        def written(event: Any, name: str = format_, **more: Any) -> Message:
            options = Options.of({"enable_tidb_extension": True, **more})
            return (
                format_named(name)
                .encoder(Context(SingleTable(TableVersion(0, of)), None, options))
                .encode(event, Message(None, None))[0]
            )

        good = written(change(of, {"v": "1"}))
        others = [
            written(change(table(column("v", "int"), name="u"), {"v": "1"})),
            written(change(table(column("v", "int"), db="u"), {"v": "1"})),
            written(change(table(column("v", "varchar")), {"v": "x"})),
            written(change(table(column("w", "int")), {"w": "1"})), written(change(table(), {})),
            written(change(table(column("v", "int"), column("w", "int")), {"v": "1", "w": "1"})),
            written(Watermark(format_, stamp)), written(DdlEvent(format_, "shop", "t", stamp, 3, "DROP TABLE t")),
            replace(good, value=None), replace(good, value=b""), replace(good, key=b""),
        ]  # fmt: skip
        assert check(format_, of, [good, *others, good]) == 2
        assert check(format_, of, [*others, good], decoder=ArrowJsonDecoder(format_, of)) == 1
        assert check(format_, of, [good], stamp + 1) == check(format_, of, [good], 0, stamp - 1) == 0
        assert check(format_, of, []) == 0
        vague = Table(of.id, (of.columns[0], column("v", "int", vague="INT or BIGINT")))
        assert check(format_, vague, [good]) == 0


def test_a_key_belongs_to_its_row() -> None:
    of = table(column("v", "int"))
    [good] = encoded("debezium", {}, [change(of, {"v": "1"})], of)
    strange = [b'{"payload":{"x":1}}', b'{"payload":{}}', b'{"payload":{"id":[1]}}', b"{}", b"\xff", b"null"]
    schema = json.loads(good.key or b"")["schema"]
    odd = [json.dumps({"payload": {"id": v}, "schema": schema}, separators=(",", ":")).encode() for v in (2, None, "a")]
    messages = [good, replace(good, key=None), *(replace(good, key=key) for key in [*strange, *odd]), good]
    assert check("debezium", of, messages) == 5  # a key of no or another column is for the codec
    assert ArrowJsonDecoder("debezium", of).decode(pa.array([good.value], pa.binary()))[1] == [0]
    with pytest.raises(ValueError, match="2 keys for 1 values"):
        ArrowJsonDecoder("debezium", of).decode(pa.array([b""]), pa.array([b"", b""]))


# ---- damage
@pytest.mark.parametrize("mutations", [MUTATIONS, pytest.param(MANY, marks=pytest.mark.slow, id="many")])
def test_damaged_messages(mutations: int) -> None:
    fuzz(mutations)


def fuzz(mutations: int) -> None:
    """Damaged keys and values beside sound ones, to decoders that know their templates."""
    rng = random.Random("json kernels 20261121")
    of, rows = wide(64)
    ran = 0
    for format_ in FORMATS:
        options = {**SETTINGS[format_][-1], "debezium_disable_schema": True}
        sound = encoded(format_, {k: v for k, v in options.items() if k != "cluster_id"}, rows, of)
        values_, keys = ([getattr(m, field) or b"" for m in sound] for field in ("value", "key"))
        decoder = ArrowJsonDecoder(format_, of)
        check(format_, of, sound, decoder=decoder)
        for _ in range(max(1, mutations // 3 // 400)):
            batch = [sound[0]]
            for _ in range(400):
                message = rng.choice(sound)
                if rng.random() < 0.8:
                    message = replace(message, value=mutate(rng, message.value or b"", values_))
                else:
                    message = replace(message, key=mutate(rng, message.key or b"", keys))
                batch.append(message)
            check(format_, of, [*batch, sound[-1]], decoder=decoder)
            ran += 400
    assert ran >= min(mutations, 1200) - 1200


def test_lengths_that_lie_cost_no_memory() -> None:
    check_rows([0, (1 << 31) - 1, 1 << 62, (1 << 63) - 1, (1 << 64) - 1], _lengths_that_lie)


def _lengths_that_lie(number: int) -> None:
    of = table(column("v", "int"))
    [good] = encoded("open", {"max_batch_size": 4}, [change(of, {"v": "1"})], of)
    lie = number.to_bytes(8, "big")
    key, value = good.key or b"", good.value or b""
    lies = [replace(good, key=key[:8] + lie + key[16:]), replace(good, key=lie + key[8:]), replace(good, key=key + lie)]
    lies += [replace(good, value=lie + value[8:]), replace(good, value=value + lie)]
    assert check("open", of, [good, *lies]) == 1


def test_long_and_deep_documents() -> None:
    of = table(column("v", "text"))
    [good] = encoded("debezium", {"debezium_disable_schema": True}, [change(of, {"v": "x" * (1 << 20)})], of)
    deep = replace(good, value=b'{"payload":' + b"[" * 1_000_000)
    assert check("debezium", of, [good, deep, replace(good, value=(good.value or b"")[:-1])]) == 1


@WITH_BOUNDS
def test_damaged_messages_with_bounds_checks(tmp_path: Path) -> None:
    code = "from tests.spark_jobs.arrow.test_bad_json import *; fuzz(MANY)\n"
    code += "for f in FORMATS: test_odd_values_in_every_place(f, 'wide'); test_odd_values_in_every_place(f, 'span')"
    run_with_bounds_checks(code, tmp_path)
