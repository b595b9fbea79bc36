"""Random damage to golden messages: what is damaged, how, and how much of it ran.

2,000 mutations for each decoder, 50,000 in the slow tests; BRIDGE_FUZZ=N: N in both's place. BRIDGE_FUZZ_SEED=text:
others than these. What ran is printed at the end of the test run.
"""

import gc
import json
import os
import random
import subprocess
import sys
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.golden import ROOT, Golden, cases
from ticdc_bridge.schemas.formats.base import Decoder
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.schemas.plain.writer import json_line, plain_error
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message, plain_lines
from ticdc_bridge.spark_jobs.pipeline.result import MessageResult

GIVEN = os.environ.get("BRIDGE_FUZZ")


def amounts(quick: int, full: int) -> list[Any]:
    """Values of a test's parameter: few by default and many as a slow test, or what BRIDGE_FUZZ says."""
    return [int(GIVEN)] if GIVEN else [quick, pytest.param(full, marks=pytest.mark.slow)]


mutated = pytest.mark.parametrize("mutations", amounts(2_000, 50_000))
"""Gives a test the argument `mutations`: how many for a decoder."""

SEED = os.environ.get("BRIDGE_FUZZ_SEED", "20261121")
SMALL = 4096

RAN: Counter[str] = Counter()
"""What ran, by its name: damaged messages, or cuts."""

_PIECES = (
    b"null", b"true", b"[]", b"{}", b"-1", b"1e400", b"NaN", b"-Infinity", b'"', b"\xed\xa0\x80", b"\\ud800", b"9" * 30,
    b"\xff\xff\xff\x7f", b"\x7f\xff\xff\xff", b"\xfe\xff\xff\xff\x0f",  # 2^31-1: little, big, zig-zag varint
    b"\x80" * 8 + b"\x40", b"\x40" + bytes(7), b"\x80" * 9 + b"\x01",  # 2^62; a varint that means 2^63
    b"\x80" * 11, b"\x81\x00", b"\xff" * 9 + b"\x01", b"\x01", b"\xff" * 8,  # over-long; -1 and lengths below 0
)  # fmt: skip
_BYTES = b'\x00\x01\x02\x7f\x80\xff"{}[],:-0eE.\\u'


WITH_BOUNDS = pytest.mark.skipif(
    not os.environ.get("BRIDGE_BOUNDS"), reason="BRIDGE_BOUNDS is not set: compiling takes a minute"
)


def run_with_bounds_checks(code: str, cache: Path) -> str:
    """Runs Python code in a process whose kernels check each index, compiled into `cache`; what it prints."""
    env = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "BRIDGE_CACHE": str(cache)}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def mutate(rng: random.Random, data: bytes, others: list[bytes]) -> bytes:
    """Bytes with one to four mutations: bit flips, cuts, insertions, repetitions, parts of other messages."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        size = len(out)
        at, end = int(rng.random() * (size + 1)), int(rng.random() * (size + 1))
        if end < at:
            at, end = end, at
        match int(rng.random() * 8):
            case 0 if out:
                out[min(at, size - 1)] ^= 1 << int(rng.random() * 8)
            case 1 if out:
                out[min(at, size - 1)] = rng.choice(_BYTES)
            case 2:
                del out[at : min(end, at + 16)]
            case 3:
                out[at:at] = rng.randbytes(1 + int(rng.random() * 8))
            case 4:
                out[at:at] = out[at : min(end, at + 64)]
            case 5:
                other = rng.choice(others)
                out[at:end] = other[min(at, len(other)) : min(end, len(other))]
            case 6:
                out[at:at] = rng.choice(_PIECES)
            case _:
                del out[at:]
    return bytes(out)


def damaged(rng: random.Random, message: Message, values: list[bytes], keys: list[bytes]) -> Message:
    """The message with its value damaged, or (one in five) its key."""
    if message.key and rng.random() < 0.2:
        return replace(message, key=mutate(rng, message.key, keys))
    return replace(message, value=mutate(rng, message.value or b"", values))


def material(format_: str, most: int = SMALL) -> list[tuple[Golden, list[Message]]]:
    """Golden cases with their messages of at most `most` bytes."""
    found = [(g, [m for m in g.messages() if m.value and len(m.value) <= most]) for g in cases(format_)]
    return [(g, messages) for g, messages in found if messages]


def no_constant(text: str) -> Any:
    raise AssertionError(f"{text} is not JSON")


def lines(decoder: Decoder, message: Message) -> list[str]:
    """What the bridge prints of a message: UTF-8, and JSON. Any error but WireError is the test's failure."""
    return checked(decode_message(decoder, message), message)


def checked(result: MessageResult, message: Message) -> list[str]:
    """The lines of a result, which must be what every output can hold."""
    out = [json_line(line) for line in plain_lines(result, message)]
    for line in out:
        line.encode()
        if "NaN" in line or "Infinity" in line:
            json.loads(line, parse_constant=no_constant)
        if result.error is None and "\\ud" in line:
            json.dumps(json.loads(line), ensure_ascii=False).encode()
    return out


def refused(decoder: Decoder, message: Message) -> str:
    """The code of the error that a message is refused with."""
    with pytest.raises(WireError) as caught:
        decoder.decode(message)
    assert json.loads(json_line(plain_error(caught.value, message)))["code"] == caught.value.code
    return caught.value.code


def peak(decoder: Decoder, message: Message) -> int:
    """Bytes that Python's allocator gave out at most while a message was decoded."""
    tracemalloc.start()
    try:
        decode_message(decoder, message)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def is_error(printed: list[str]) -> bool:
    return bool(printed) and printed[0].startswith('{"kind": "error"')


@contextmanager
def counted(name: str) -> Iterator[Counter[str]]:
    """Counts what a test runs, by outcome, under a name. The collector rests meanwhile: goldens are many objects."""
    found: Counter[str] = Counter()
    gc.freeze()
    try:
        yield found
    finally:
        gc.unfreeze()
        RAN[name] += found.total()
