"""Kernels that read numbers, dates and JSON strings, against Python's own readers; whatever stands behind the text."""

import json
import re
import struct
from datetime import date
from decimal import Decimal, localcontext
from random import Random
from typing import Any

import numpy as np
import pytest

from ticdc_bridge.schemas.columnar.kernels import temporal
from ticdc_bridge.schemas.columnar.kernels.jit import COMPILED
from ticdc_bridge.schemas.columnar.kernels.json_cells import put_text
from ticdc_bridge.schemas.columnar.kernels.numbers import read_double
from ticdc_bridge.schemas.columnar.kernels.text import read_decimal

pytestmark = [pytest.mark.skipif(not COMPILED, reason="numba is not installed"), pytest.mark.slow]
_COUNT = 5000
_FIRST = date(1970, 1, 1).toordinal()


def _place(random: Random, text: bytes) -> tuple[Any, int, int]:
    """A text at the end of a buffer, or with as much behind it as whole words and blocks want."""
    return np.frombuffer(b"xx" + text + b"0" * random.choice((0, 0, 7, 40)), np.uint8), 2, 2 + len(text)


def _digits(random: Random, most: int) -> str:
    return "".join(random.choices("0123456789", k=random.randrange(most)))


def test_dates() -> None:
    random, out = Random(1), np.zeros(16, np.uint8)
    for number in (1, date.max.toordinal(), *(random.randrange(1, date.max.toordinal()) for _ in range(_COUNT))):
        day = date.fromordinal(number)
        assert temporal.put_date(number - _FIRST, out, 2) == 12
        assert out[2:12].tobytes().decode() == f"{day:%Y}".zfill(4) + f"{day:-%m-%d}"
        assert temporal.days(out, 2, 12) == number - _FIRST
    for text in (
        b"2023-02-29", b"1900-02-29", b"2024-04-31", b"2024-13-01", b"2024-00-01", b"0000-01-01", b"2024-1a-01",
    ):  # fmt: skip
        assert temporal.days(np.frombuffer(text, np.uint8), 0, 10) == temporal.NONE, text


def test_doubles() -> None:
    random, unknown = Random(2), 0
    for _ in range(_COUNT):
        text = random.choice((
            repr(random.uniform(-1e12, 1e12)), f"{random.getrandbits(random.randrange(1, 70))}.{_digits(random, 12)}0",
            f"-0.{_digits(random, 22)}5", f"{random.getrandbits(53)}e{random.randrange(-30, 30)}",
        ))  # fmt: skip
        bits, known = read_double(*_place(random, text.encode()))
        unknown += not known
        assert not known or bits == struct.unpack("<q", struct.pack("<d", float(text)))[0], text
    assert unknown < _COUNT // 100


def test_decimals() -> None:
    random = Random(3)
    for _ in range(_COUNT):
        precision = random.randrange(1, 39)
        scale = random.randrange(min(precision, 30) + 1)
        text = random.choice(("", "-")) + _digits(random, precision - scale + 3) + random.choice(("", ".", "x"))
        text += _digits(random, scale + 3) if "." in text else ""
        high, low, sound = read_decimal(*_place(random, text.encode()), precision, scale)
        wanted: Decimal | None = None
        if re.fullmatch(r"-?\d+(\.\d+)?", text):
            with localcontext(prec=200):
                wanted = Decimal(text) * Decimal(10) ** scale
                wanted = wanted if wanted == wanted.to_integral_value() and abs(wanted) < 10**precision else None
        assert bool(sound) == (wanted is not None), text
        if wanted is not None:
            assert (int(high) << 64 | int(low)) == int(wanted) % (1 << 128), text


def test_json_strings() -> None:
    random = Random(4)
    for _ in range(_COUNT):
        size = random.choice((0, 1, 7, 31, 32, 33, 64, 65, random.randrange(100)))
        value = "".join(random.choices(["a", "b", " ", '"', "\\", "é", "東", "😀", "\n", "\x01", "/"], k=size))
        text = json.dumps(value, ensure_ascii=random.random() < 0.5)[1:-1].encode()
        cut = text[: random.randrange(len(text) + 1)] if random.random() < 0.2 else text
        wanted: bytes | None
        try:
            wanted = json.loads(b'"' + cut + b'"').encode()
        except ValueError:  # cut within an escape, a character or a pair of surrogates
            wanted = None
        out = np.zeros(len(cut) + 40, np.uint8)
        end = put_text(*_place(random, cut), out, 1)
        assert (out[1:end].tobytes() if end >= 0 else None) == wanted, cut
