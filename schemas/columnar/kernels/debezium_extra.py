"""What TiCDC's Debezium messages say beside their row (`RowChange.extra`), for numba: as JSON of the plain form."""

from __future__ import annotations

import numpy as np

from ticdc_bridge.schemas.columnar.kernels.byte_buffers import copy
from ticdc_bridge.schemas.columnar.kernels.jit import jit, jit_allocating
from ticdc_bridge.schemas.columnar.kernels.text import Array

ROOM = 512
"""Bytes of one message's at most."""
_LONGEST = 256  # of a cluster's name
_DIGITS = 18

_START, _SOURCE, _TS, _START_TS, _CLUSTER, _DEFAULT, _SCHEMA, _NULL = (
    np.frombuffer(text, np.uint8)
    for text in (
        b'{"payload":{', b"source", b"ts_ms", b"start_ts", b"cluster_id", b'"default"', b',"schema":', b"null",
    )
)  # fmt: skip
_TOLD = tuple(np.frombuffer(text, np.uint8) for text in (b'"ts_ms": ', b'"start_ts": ', b'"cluster_id": '))


@jit_allocating
def extras(data: Array, first: Array, last: Array, out: Array, ends: Array, left: Array) -> None:
    """Of each message data[first:last], which is sound JSON; left: of those that it can't be told of."""
    to = 0
    spans = np.zeros((3, 2), np.int64)
    for row in range(first.shape[0]):
        spans[:] = 0
        left[row] = not _find(data, first[row], last[row], spans)
        if not left[row]:
            to = _put(data, spans, out, to)
        ends[row + 1] = to


@jit
def _find(data: Array, pos: int, end: int, spans: Array) -> bool:
    """Where the values are that are told (0, 0: nowhere). False where something is not as TiCDC writes it."""
    if not _starts(data, pos, end, _START):
        return False
    pos += _START.shape[0]
    depth, source, of_source = 1, False, False  # depth in the payload; whether this is the source, or becomes it
    while pos < end:
        byte = data[pos]
        pos += 1
        if byte == 123 or byte == 91:
            depth += 1
            source = source or (depth == 2 and of_source and byte == 123)
        elif byte == 125 or byte == 93:
            depth -= 1
            if depth == 0:
                return _ends(data, pos, end)
            source = source and depth >= 2
        elif byte == 34:
            start, plain = pos, True
            while pos < end and data[pos] != 34:
                if data[pos] == 92:
                    plain = False
                    pos += 1
                pos += 1
            pos += 1
            if pos < end and data[pos] == 58 and (depth == 1 or (depth == 2 and source)):
                if not plain:
                    return False
                if depth == 1:
                    of_source = _is(data, start, pos - 1, _SOURCE)
                if not _take_member(data, start, pos - 1, end, depth == 1, spans):
                    return False
            elif pos < end and data[pos] <= 32:
                return False  # a space where TiCDC writes none: it may come before a colon
    return False


@jit
def _take_member(data: Array, start: int, stop: int, end: int, of_payload: bool, spans: Array) -> bool:
    """Takes the value of the member data[start:stop] where it is one that is told. False where its form is another."""
    pos = stop + 2
    if of_payload:
        if not _is(data, start, stop, _TS):
            return True
        if _starts(data, pos, end, _NULL):
            return True
        return spans[0, 1] == 0 and _number(data, pos, end, spans, 0)
    if _is(data, start, stop, _START_TS):
        return spans[1, 1] == 0 and _number(data, pos, end, spans, 1)
    if not _is(data, start, stop, _CLUSTER):
        return True
    if spans[2, 1] or pos >= end or data[pos] != 34:
        return False
    after = pos + 1
    while after < end and data[after] != 34:
        if data[after] < 32 or data[after] >= 128 or data[after] == 92:
            return False
        after += 1
    if after - pos > _LONGEST:
        return False
    if not _is(data, pos, after + 1, _DEFAULT):
        spans[2, 0], spans[2, 1] = pos, after + 1
    return True


@jit
def _number(data: Array, pos: int, end: int, spans: Array, n: int) -> bool:
    after = pos
    while after < end and 48 <= data[after] <= 57:
        after += 1
    size = after - pos
    if not 0 < size <= _DIGITS or (size > 1 and data[pos] == 48) or after >= end:
        return False
    spans[n, 0], spans[n, 1] = pos, after
    return bool(data[after] == 44 or data[after] == 125)


@jit
def _put(data: Array, spans: Array, out: Array, to: int) -> int:
    """An object of what was found; nothing at all where nothing was."""
    some = False
    for n, label in enumerate(_TOLD):
        start, size = spans[n, 0], spans[n, 1] - spans[n, 0]
        if size == 0:
            continue
        out[to] = 44 if some else 123
        to += 1
        if some:
            out[to] = 32
            to += 1
        some = True
        copy(out, to, label, 0, label.shape[0])
        to += label.shape[0]
        copy(out, to, data, start, size)
        to += size
    if some:
        out[to] = 125
        to += 1
    return to


@jit
def _ends(data: Array, pos: int, end: int) -> bool:
    """Whether nothing follows the payload but a schema."""
    return bool((end - pos == 1 and data[pos] == 125) or _starts(data, pos, end, _SCHEMA))


@jit
def _starts(data: Array, pos: int, end: int, text: Array) -> bool:
    return bool(end - pos >= text.shape[0] and _is(data, pos, pos + text.shape[0], text))


@jit
def _is(data: Array, pos: int, end: int, text: Array) -> bool:
    if end - pos != text.shape[0]:
        return False
    for at in range(text.shape[0]):  # noqa: SIM110 - numba has no generators here
        if data[pos + at] != text[at]:
            return False
    return True
