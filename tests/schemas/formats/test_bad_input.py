"""Damage to golden messages of every format: WireError or an event, never anything else, and the next message is read.

The connector's messages (debezium-mysql) are damaged in debezium/test_bad_debezium.py, what stands around the
decoders (auto, detection, explain, claim-checks, checksums, DDL) in tests/schemas/inspect/test_bad_messages.py. How
much runs: tests/support/fuzz.py.
"""

import json
import random
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import fuzz
from tests.support.each import each
from tests.support.fuzz import SEED, SMALL, counted, damaged, is_error, lines, material, mutate, mutated
from tests.support.golden import READ, ROOT, Golden, Registry, cases, sample
from ticdc_bridge.schemas.codec import compression
from ticdc_bridge.schemas.codec.bounded_cache import BoundedCache
from ticdc_bridge.schemas.formats.format_table import FORMATS, WRITTEN
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas
from ticdc_bridge.schemas.inspect.auto_decoder import AUTO
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import Message, RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.plain.writer import json_line, plain_event
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message, transcode_message

DDL = pytest.mark.parametrize("ddl", [False, True], ids=["", "ddl"])
ALL = [g for name in READ for g in cases(name)]
# Of the sample each byte is cut off, of the other cases every 29th by default and each in the slow test.
SAMPLE = sample(ALL)
OTHERS = [g for g in ALL if g not in SAMPLE]
CUTS = [*((g, 1) for g in SAMPLE), *((g, 29) for g in OTHERS)]


def _one(golden: Golden) -> Message | None:
    """A row message of at most 4 KiB, with a key and a value where there is one."""
    small = [m for m in golden.messages() if len(m.key or b"") + len(m.value or b"") <= SMALL]
    return max(small, key=lambda m: (m.key is not None, m.value is not None, len(m.value or b"")), default=None)


@each(("golden", "step"), CUTS, slow=[(g, 1) for g in OTHERS])
def test_truncation_at_every_byte(golden: Golden, step: int) -> None:
    """A row that was cut is an error, whatever the byte; never a row, and never another row."""
    message = _one(golden)
    if message is None or message.value is None:
        return  # no message with a value of at most 4 KiB
    decoder = golden.side().decoder()
    whole = lines(decoder, message)
    with counted(f"cuts, {golden.format}") as ran:
        for cut in range(0, len(message.value), step):
            result = decode_message(decoder, replace(message, value=message.value[:cut]))
            ran["cut"] += 1
            # The schema beside a watermark or a DDL statement says nothing of them; a row needs its own.
            if result.error is None:
                assert not any(isinstance(e, RowChange) for e in result.events), f"read as a row, cut at {cut}"
                assert [json_line(plain_event(e, message)) for e in result.events] == whole
        # A key may be cut in its schema, which says nothing that the value's does not.
        for cut in range(0, len(message.key or b""), step):
            cut_key = replace(message, key=(message.key or b"")[:cut])
            result = decode_message(decoder, cut_key)
            ran["cut"] += 1
            if result.error is None:
                assert golden.format == "debezium"
                assert [json_line(plain_event(e, cut_key)) for e in result.events] == whole
    assert lines(decoder, message) == whole


@each("golden", SAMPLE, slow=OTHERS)
def test_bytes_after_the_end(golden: Golden) -> None:
    decoder = golden.side().decoder()
    for message in golden.messages():
        rows = [e for e in decode_message(decoder, message).events if isinstance(e, RowChange)]
        if rows and message.value is not None:
            result = decode_message(decoder, replace(message, value=message.value + b"\x01"))
            assert result.error is not None
            assert result.error.code in ("TRAILING_BYTES", "MALFORMED", "NOT_FRAMED"), result.error


@DDL
@mutated
@pytest.mark.parametrize("format_", READ)
def test_random_mutations(format_: str, ddl: bool, mutations: int) -> None:
    rng = random.Random(f"{format_} {ddl} {SEED}")
    found = material(format_)
    with counted(f"mutations, {format_}") as ran:
        for golden, messages in found:
            decoder = golden.side(ddl).decoder()
            if FORMATS[format_].in_order:  # its rows need the schemas that came before
                for message in golden.messages():
                    decode_message(decoder, message)
            good = rng.choice(messages)
            whole = lines(decoder, good)
            values = [m.value for m in messages if m.value]
            keys = [m.key for m in messages if m.key] or [b""]
            for number in range(mutations // 2 // len(found) + 1):
                printed = lines(decoder, damaged(rng, rng.choice(messages), values, keys))
                ran["error" if is_error(printed) else "event"] += 1
                if number % 50 == 0:
                    assert lines(decoder, good) == whole
            assert lines(decoder, good) == whole
    # Both happen: the mutations are neither too wild nor too tame.
    assert min(ran["error"], ran["event"]) > ran.total() // 200


@mutated
@pytest.mark.parametrize("format_", READ)
@each("to", WRITTEN)
def test_random_mutations_through_an_encoder(format_: str, to: str, mutations: int) -> None:
    """What was decoded of a damaged message is written, or refused by WireError; what is written can be read."""
    rng = random.Random(f"{format_} {to} {SEED}")
    found = [m for m in material(format_) if m[0].name.startswith(("wide", "pk_", "names", "evolution", "partition"))]
    with counted(f"mutations, {format_} to another format") as ran:
        for golden, messages in found:
            decoder = golden.side(ddl=True).decoder()
            registry: Any = Registry()
            options = golden.options() if to == format_ else Options.of({"time_zone": golden.zone})
            encoder = CodecConfig(to, registry, options).encoder()
            back = CodecConfig(to, registry, Options.of({"time_zone": golden.zone})).decoder()
            values = [m.value for m in messages if m.value]
            for _ in range(mutations // 32 // len(found) + 1):
                message = rng.choice(messages)
                bad = replace(message, value=mutate(rng, message.value or b"", values), timestamp=1_800_000_000_000)
                result = transcode_message(decoder, encoder, bad)
                ran["error" if result.error else "message"] += 1
                assert result.error is None or not result.out
                for written in result.out:
                    assert back.decode(written) or written.value is None


_SOME = st.none() | st.binary(max_size=64) | st.sampled_from(
    [bytes((0, 0, 0, 0, 1)), b"\x01", b"\x16\x06\x06", b"\x02" + bytes(8), b"\x03\x00" + bytes(16), bytes(7) + b"\x01"]
).flatmap(lambda head: st.binary(max_size=64).map(lambda rest: head + rest))  # fmt: skip
_NAMES = st.sampled_from(
    "payload schema source op before after ddl fields field type name version data old commitTs isDdl mysqlType sqlType"
    " es tableSchema columns indexes u p d t v q f ts scm tbl db table database _tidb __op claimCheckLocation".split()
)
_DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4)
    | st.sampled_from(["c", "u", "d", "m", "UPDATE", "INSERT", "struct", "int32", "int", "1", "WATERMARK"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=5),
    max_leaves=16,
)  # fmt: skip


@mutated
@pytest.mark.parametrize("format_", [*FORMATS, AUTO.name])
def test_anything_at_all(format_: str, mutations: int) -> None:
    """Bytes and documents that hypothesis makes up, each part as it is and as JSON."""

    @settings(max_examples=max(40, mutations // 250), deadline=None)
    @given(key=_SOME, value=_SOME, document=_DOCUMENTS)
    def check(key: bytes | None, value: bytes | None, document: Any) -> None:
        decoder = CodecConfig(format_, FileSchemas([]), Options()).decoder()
        text = json.dumps(document).encode()
        for entry in (
            Message(key, value), Message(key, text), Message(text, text), Message(text, value), Message(None, text),
        ):  # fmt: skip
            lines(decoder, entry)

    check()


# ---- Hostile messages of 1 MiB: each in bounded memory, refused as it should be, and the decoder goes on.
#
# Each format's run in a process of their own, which the kernel lets take no more than a message's (inflated) size × 32
# + 64 MiB, and which is killed after 10 s of CPU for one message. How fast they are: `python -m benchmarks hostile`.


@pytest.mark.parametrize("of", [1] if fuzz.GIVEN else [24, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("format_", [f for f in FORMATS if f != "open-tiflow"])  # open-tiflow's decoder is open's
def test_hostile_messages(format_: str, of: int) -> None:
    """One of 24 by default, of three in the slow test; all with BRIDGE_FUZZ."""
    command = [sys.executable, "-m", "tests.support.hostile", format_, str(1 << 20), str(of)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    found = [json.loads(line) for line in ended.stdout.splitlines()]
    fuzz.RAN[f"hostile messages of 1 MiB, {format_}"] += len(found)
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert len(found) > 280 // of
    assert [(name, outcome) for name, outcome, _, expected in found if outcome not in expected] == []


@pytest.mark.parametrize("pack", [compression.snap, compression.lz4])
@each(
    ("format_", "name"),
    [("simple", "wide.json"), ("simple", "wide.avro"), ("canal-json", "wide.compat"), ("debezium", "wide.ext.schema")],
)
def test_compressed_messages_are_read(format_: str, name: str, pack: Any) -> None:
    """large-message-handle-compression packs the whole value, of Debezium the key too; auto tells the format."""
    golden = Golden(format_, name)
    plain, packed = (golden.side().decoder() for _ in range(2))
    auto = replace(golden.side(), format="auto").decoder()
    for message in golden.messages():
        key = pack(message.key) if message.key and format_ == "debezium" else message.key
        small = replace(message, key=key, value=pack(message.value or b""))
        want = fuzz.lines(plain, message)
        assert fuzz.lines(packed, small) == want
        assert fuzz.lines(auto, small) == want
        cut = replace(small, value=(small.value or b"")[:-1])
        assert decode_message(packed, cut).error is not None


@pytest.mark.parametrize("format_", ["debezium", "simple", "canal-json"])
def test_bombs_are_refused(format_: str) -> None:
    name = {"debezium": "wide.ext.schema", "simple": "wide.json", "canal-json": "wide.compat"}[format_]
    decoder, message = Golden(format_, name).side().decoder(), Golden(format_, name).messages()[0]
    for pack in (compression.snap, compression.lz4):
        bomb = replace(message, value=pack(bytes(65 << 20)))
        assert fuzz.refused(decoder, bomb) == "MALFORMED"
        assert fuzz.peak(decoder, bomb) < (64 << 20) + 32 * len(bomb.value or b"")


def test_caches_hold_so_much_and_no_more() -> None:
    cache: BoundedCache[str, str] = BoundedCache(3, 10, lambda key, _: len(key))
    for key in ("aaaa", "bbbb", "bbbb", "cc"):
        cache[key] = key
    assert list(cache) == ["aaaa", "bbbb", "cc"]
    cache["d"] = "d"  # a fourth
    assert list(cache) == ["d"]
    cache["e" * 20] = "e"  # too heavy, but the newest is always there
    assert list(cache) == ["e" * 20]
    cache["f"] = "f"
    assert list(cache) == ["f"]


def test_errors_are_text_that_every_output_takes() -> None:
    error = WireError("MALFORMED", where="value", details="column '\udcff\ud800é'")
    assert error.detail == "value: column '\\udcff\\ud800é'"
