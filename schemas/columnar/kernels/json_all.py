"""All values of a chunk of rows → typed buffers, in one pass, for numba.

A block of rows after another, all slots of it: its messages stay in the processor's cache. A column after another, each
value would come from memory anew, which takes longer than reading it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from schemas.columnar.kernels import json_fill as numbers
from schemas.columnar.kernels import json_text as strings
from schemas.columnar.kernels.jit import jit
from schemas.columnar.kernels.text import Array, fill_decimals

# How a slot is read. First those with a number of 64 bits by row, then decimals, then texts.
(
    SIGNED, YEAR, UNSIGNED, BITS, BOOLEANS,
    SHORT_DECIMALS, TEXT_DECIMALS,
    REALS, NOTHING, TEXT, UNQUOTED, BASE64, SHAPED, DAYS, TIMES, INSTANTS, MOMENTS,
) = range(17)  # fmt: skip
FIRST_DECIMAL, FIRST_TEXT = SHORT_DECIMALS, REALS
_BLOCK = 256  # rows: of 1.3 KB each they fill a third of a cache of 1 MiB

fill_signed, fill_unsigned, fill_booleans = numbers.fill_signed, numbers.fill_unsigned, numbers.fill_booleans
fill_reals, fill_short_decimals, fill_days = numbers.fill_reals, numbers.fill_short_decimals, numbers.fill_days
fill_times, fill_instants, fill_moments = numbers.fill_times, numbers.fill_instants, numbers.fill_moments
fill_bits, fill_text, fill_unquoted = strings.fill_bits, strings.fill_text, strings.fill_unquoted
fill_base64, fill_shaped = strings.fill_base64, strings.fill_shaped


class SlotReaders(NamedTuple):
    """How each slot is read. a, b, c: what its filler has to know. place: its row in the buffers of its sort.

    room: bytes of a text at most, 0: as many as stand in the message. shapes: "0000-00-00 00:00:00", and with a T.
    """

    code: Array
    a: Array
    b: Array
    c: Array
    place: Array
    room: Array
    shapes: Array


class ValueBuffers(NamedTuple):
    """What is filled: words [place][row], of which unsigned is a view; decimals [place][row][low, high].

    offsets [place][row + 1] count from starts[place] on in texts; used [place], 0 at first: how far they are filled.
    """

    signed: Array
    unsigned: Array
    decimals: Array
    texts: Array
    starts: Array
    offsets: Array
    used: Array


@jit
def text_starts(lengths: Array, rows: int, slots: SlotReaders, starts: Array) -> None:
    """Where the texts of each slot begin: what is made of a content is never longer, but where `room` says so."""
    for slot in range(slots.code.shape[0]):
        if slots.code[slot] >= FIRST_TEXT:
            total = np.int64(slots.room[slot]) * rows
            if not total:
                for row in range(rows):
                    total += max(lengths[slot, row], 0)
            place = slots.place[slot]
            starts[place + 1] = starts[place] + total


@jit
def fill(
    data: Array, places: Array, lengths: Array, rows: int, slots: SlotReaders, out: ValueBuffers, bad: Array
) -> None:
    """places, lengths: [slot][row]. Rows with a value that is not what its column takes are marked in `bad`."""
    for first in range(0, rows, _BLOCK):
        last = min(first + _BLOCK, rows)
        wrong = bad[first:last]
        for slot in range(slots.code.shape[0]):
            code, place = slots.code[slot], slots.place[slot]
            at, sizes = places[slot, first:last], lengths[slot, first:last]
            a, b, c = slots.a[slot], slots.b[slot], slots.c[slot]
            if code < FIRST_DECIMAL:
                signed, unsigned = out.signed[place, first:last], out.unsigned[place, first:last]
                _words(code, data, at, sizes, a, b, signed, unsigned, wrong)
            elif code < FIRST_TEXT:
                pairs = out.decimals[place, first:last]
                if code == SHORT_DECIMALS:
                    fill_short_decimals(data, at, sizes, last - first, a, b, pairs, wrong)
                else:
                    fill_decimals(data, at, sizes, last - first, a, b, pairs, wrong)
            else:
                texts = out.texts[out.starts[place] + out.used[place] : out.starts[place + 1]]
                offsets = out.offsets[place, first : last + 1]
                more = _texts(code, data, at, sizes, a, b, c, slots.shapes, offsets, texts, wrong)
                for k in range(last - first + 1):
                    offsets[k] += out.used[place]
                out.used[place] += more


@jit
def _words(
    code: int, data: Array, at: Array, sizes: Array, a: int, b: int, signed: Array, unsigned: Array, bad: Array
) -> None:
    rows = at.shape[0]
    if code in (SIGNED, YEAR):
        fill_signed(data, at, sizes, rows, a, b, signed, bad)
        if code == YEAR:
            for row in range(rows):
                if 0 < signed[row] < 1901:
                    bad[row] = 1
    elif code == UNSIGNED:
        fill_unsigned(data, at, sizes, rows, np.uint64(a), b != 0, unsigned, bad)
    elif code == BITS:
        fill_bits(data, at, sizes, rows, a, unsigned, bad)
    else:
        fill_booleans(data, at, sizes, rows, unsigned)


@jit
def _texts(
    code: int,
    data: Array,
    at: Array,
    sizes: Array,
    a: int,
    b: int,
    c: int,
    shapes: Array,
    offsets: Array,
    out: Array,
    bad: Array,
) -> int:
    """Bytes written."""
    rows = at.shape[0]
    if code == TEXT:
        return fill_text(data, at, sizes, rows, offsets, out, bad)
    if code == REALS:
        return fill_reals(data, at, sizes, rows, a, offsets, out, bad)
    if code == UNQUOTED:
        return fill_unquoted(data, at, sizes, rows, offsets, out, bad)
    if code == BASE64:
        return fill_base64(data, at, sizes, rows, a != 0, offsets, out, bad)
    if code == SHAPED:
        return fill_shaped(data, at, sizes, rows, a, shapes[0], offsets, out, bad)
    if code == DAYS:
        return fill_days(data, at, sizes, rows, a != 0, offsets, out, bad)
    if code == TIMES:
        return fill_times(data, at, sizes, rows, a, offsets, out, bad)
    if code == INSTANTS:
        return fill_instants(data, at, sizes, rows, shapes[1], offsets, out, bad)
    if code == MOMENTS:
        return fill_moments(data, at, sizes, rows, a, b, c != 0, offsets, out, bad)
    # Only NULL is read: a DECIMAL that is too long for 128 bits, or not known, is left to Python.
    for row in range(rows):
        offsets[row] = 0
        if sizes[row] >= 0:
            bad[row] = 1
    offsets[rows] = 0
    return 0
