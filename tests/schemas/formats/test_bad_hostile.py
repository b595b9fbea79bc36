"""Hostile messages of 1 MiB: each in bounded memory, refused as it should be, and the decoder goes on.

Each format's run in a process of their own, which the kernel lets take no more than a message's (inflated) size × 32 +
64 MiB, and which is killed after 10 s of CPU for one message. How fast they are: `python -m benchmarks hostile`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from tests.support import fuzz
from tests.support.each import each
from tests.support.golden import ROOT, Golden
from ticdc_bridge.schemas.codec import compression
from ticdc_bridge.schemas.codec.bounded_cache import BoundedCache
from ticdc_bridge.schemas.formats.format_table import FORMATS
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_one


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
        assert decode_one(packed, cut).error is not None


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
