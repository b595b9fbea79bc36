"""Craft messages that lie about their sizes, and those that are none."""

import tracemalloc
from typing import Any

import pytest

from tests.schemas.formats.craft.test_craft import decode, decoder, encoder, refused
from tests.support.each import each
from tests.support.rows import COMMIT_TS, ORIGIN
from ticdc_bridge.schemas.formats.craft import layout as craft
from ticdc_bridge.schemas.formats.craft import layout as p
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import Message

HUGE = (1 << 31) - 1, 1 << 31, 1 << 62, (1 << 63) - 1, (1 << 64) - 1


def _message(
    headers: bytes, bodies: bytes, terms: bytes, tables: list[bytes], footer: bytes | None = None, version: int = 1
) -> bytes:
    sizes = b"".join(tables)
    end = p.uvarint(len(sizes))[::-1] if footer is None else footer
    return p.uvarint(version) + headers + bodies + terms + sizes + end


def _table(*sizes: int) -> bytes:
    return p.uvarint(len(sizes)) + p.delta_varints(sizes)


HEAD = p.uvarint(COMMIT_TS) + b"\x01\x01\x00\x02"  # a row of schema 0, table 1, no partition
TERMS = b"\x03\x01\x01\x02abid"
GROUP = b"\x01\x01\x04\x03\x00\x02\x0e"  # new, one column: id, int, one byte: 7
GOOD: tuple[bytes, bytes, bytes, list[bytes]] = (
    HEAD, GROUP, TERMS, [_table(len(HEAD), len(TERMS)), _table(len(GROUP)), _table(len(GROUP))],
)  # fmt: skip


def test_the_message_that_is_damaged_below_is_good() -> None:
    [row] = decode(_message(*GOOD))
    assert row.after == {"id": "7"}


def _with(part: int, data: bytes) -> bytes:
    """GOOD with one part replaced; the sizes follow, so that only the part itself is wrong."""
    pieces = [HEAD, GROUP, TERMS]
    pieces[part] = data
    sizes = [_table(len(pieces[0]), len(pieces[2])), _table(len(pieces[1])), _table(len(pieces[1]))]
    return _message(pieces[0], pieces[1], pieces[2], sizes)


@each("number", HUGE)
@each(
    "make",
    [
        lambda n: _with(2, n + b"\x01\x01\x02abid"),  # terms
        lambda n: _with(2, b"\x03\x01" + n + b"\x02abid"),  # length of a term
        lambda n: _with(1, b"\x01" + n + b"\x04\x03\x00\x02\x0e"),  # columns
        lambda n: _with(1, b"\x01\x01" + n + b"\x03\x00\x02\x0e"),  # id of a name
        lambda n: _with(1, b"\x01\x01\x04" + n + b"\x00\x02\x0e"),  # type code
        lambda n: _with(1, b"\x01\x01\x04\x03\x00" + n + b"\x0e"),  # length of a value
        lambda n: _with(0, p.uvarint(COMMIT_TS) + n + b"\x01\x00\x02"),  # type of an event
        lambda n: _with(0, p.uvarint(COMMIT_TS) + b"\x01\x01" + n + b"\x02"),  # id of a schema
        lambda n: _message(*GOOD[:3], [n + p.delta_varints([len(HEAD), len(TERMS)]), *GOOD[3][1:]]),  # entries
        lambda n: _message(*GOOD[:3], [GOOD[3][0], n + p.varint(len(GROUP)), GOOD[3][2]]),
        lambda n: _message(*GOOD[:3], [*GOOD[3][:2], n + p.varint(len(GROUP))]),
        lambda n: _message(*GOOD[:3], [*GOOD[3][:2], b"\x01" + n]),  # sizes
        lambda n: _message(*GOOD[:3], [GOOD[3][0], b"\x01" + n, GOOD[3][2]]),
        lambda n: _message(*GOOD[:3], [b"\x02" + n + b"\x00", *GOOD[3][1:]]),
        lambda n: _message(*GOOD[:3], [b"\x02" + p.varint(len(HEAD)) + n, *GOOD[3][1:]]),
        lambda n: _message(*GOOD, footer=n[::-1]),
    ],
)  # fmt: skip
def test_counts_and_sizes_that_lie(make: Any, number: int) -> None:
    """Counts and sizes up to 2^64-1, none of which is there, cost neither time nor memory."""
    value = make(p.uvarint(number))
    tracemalloc.start()
    try:
        refused(value)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@each(
    ("value", "says"),
    [
        (b"", "empty"), (b"\x01", "cut off"), (b"\x80", "cut off"), (b"\x02\x00", "version 2"),
        (_message(*GOOD, version=0), "version 0"), (b"\x80" * 10 + b"\x01", "ten bytes"),
        (b"\xff" * 9 + b"\x02", "64 bits"), (_message(*GOOD, footer=b"\x01" + b"\x80" * 5), "five bytes"),
        (_message(*GOOD, footer=b"\x80" * 3), "size tables"),
        (_message(HEAD, GROUP, TERMS, GOOD[3][:1]), "not all there"),
        (_message(HEAD, GROUP, TERMS, []), "not all there"), (_message(HEAD, GROUP, TERMS, GOOD[3][:2]), "0 tables"),
        (_message(HEAD, GROUP, TERMS, [*GOOD[3], GOOD[3][2]]), "2 tables"),
        (_message(HEAD + b"\x00", GROUP, TERMS, GOOD[3]), "do not add up"),
        (_message(HEAD, GROUP, TERMS, [_table(len(HEAD), -1), *GOOD[3][1:]]), "negative"),
        (_with(0, HEAD + b"\x00"), "headers end 1 bytes before"), (_with(0, HEAD[:-1]), "cut off"),
        (_with(0, p.uvarint((1 << 64) - 1) + HEAD[9:]), "no TSO"),
        (_with(0, p.uvarint(COMMIT_TS) + b"\x01\x01\x00\x01"), "without the name"),
        (_with(0, p.uvarint(COMMIT_TS) + b"\x01\x01\x03\x04"), "not among the 3 terms"),
        (_with(2, b"\x03\x01\x01\x02a\xffid"), "UTF-8"), (_with(2, b"\x03\x01\x01\x03abid"), "terms of 5 bytes"),
        (_with(1, b"\x03" + GROUP[1:]), "column group 3"), (_with(1, b"\x01\x01\x01\x03\x00\x02\x0e"), "name's id"),
        (_with(1, b"\x01\x02\x04\x00\x03\x03\x00\x00\x02\x02\x0e\x0e"), "twice"),
        (_with(1, b"\x01\x01\x04\x07\x00\x04\xff\xfe"), "'id'"),
        (_with(1, b"\x01\x01\x04\x05\x00\x0e1234567"), "float64"),
        (_with(1, b"\x01\x01\x04\x05\x00\x10" + b"\x00" * 6 + b"\xf8\x7f"), "'id'"),
        (_with(1, b"\x01\x01\x04\x03\x00\x04\x0e\x0e"), "no number"),
        (_with(1, b"\x01\x01\x04\x03\x00\x00"), "no number"), (_with(1, b"\x01\x01\x04\x01\x00\x04\x80\x02"), "8-bit"),
        (_with(1, b"\x01\x01\x04\x11\x00\x02\x0e"), "type code 17"),
        (_with(1, b"\x01\x01\x04\x06\x00\x02\x0e"), "type 6 (NULL) with a value"),
        (_with(1, b"\x01\x01\x04\x03\x00\x03\x0e"), "negative length"),
        (_with(1, b"\x01\x01\x04\x03\x00\x04\x0e"), "values of 2 bytes, 1 are there"),
        (_with(1, GROUP + b"\x00"), "values of 1 bytes, 2 are there"),
        (_with(1, b"\x01\x01\x04\x80\x82\x00\x00\x02\x0e"), "type code 256"),
    ],
)  # fmt: skip
def test_messages_that_are_none(value: bytes, says: str) -> None:
    detail = refused(value)
    assert says in detail, detail
    assert "byte" in detail


def test_groups_that_do_not_make_a_row() -> None:
    for body, sizes in (
        (GROUP + GROUP, (7, 7)), (GROUP, (6, 1)), (GROUP, (7, 0)), (GROUP, (3, 2, 2)), (GROUP, (6,)),
        (b"\x01\x01\x04\x03\x00\x02\x0e" + b"\x02\x01\x04\x08\x00\x02\x0e", (7, 7)),
    ):  # fmt: skip
        images = [_table(len(HEAD), len(TERMS)), _table(len(body)), _table(*sizes)]
        assert refused(_message(HEAD, body, TERMS, images))


def test_ddl_and_resolved_bodies() -> None:
    ddl = craft.write_ddl("a", "b", COMMIT_TS, 3, "x")
    assert "query" in refused(ddl.replace(b"\x03\x01x", b"\x03\x02x"))
    assert "UTF-8" in refused(ddl.replace(b"\x03\x01x", b"\x03\x01\xff"))
    headers = p.uvarint(COMMIT_TS) + b"\x03\x01\x01\x01"
    assert "with a body" in refused(_message(headers, b"x", b"", [_table(len(headers), 0), _table(1)]))


@each("kind", [craft.RESOLVED, craft.ROW])
def test_a_message_of_very_many_events_is_refused_unread(kind: int) -> None:
    count = 1 << 20
    headers = p.uvarint(1) + b"\x00" * (count - 1) + bytes([kind]) * count + b"\x01" + b"\x00" * (3 * count - 1)
    value = _message(headers, b"", b"", [_table(len(headers), 0), p.uvarint(count) + b"\x00" * count])
    assert "events, at most" in refused(value)


@pytest.mark.slow
def test_what_is_kept_between_messages_is_bounded() -> None:
    """Every message with another dictionary and other columns."""
    reader, values = decoder(), list[bytes]()
    for n in range(80):
        names = [f"{n:x}.{k:x}" for k in range(1100)]
        cells = craft.RowCells(names, [1] * 1100, [1] * 1100, [None] * 1100)
        values.append(craft.write_rows([craft.RowOut("a", "b", 1, -1, cells, None)]))
    tracemalloc.start()
    try:
        for value in values:
            assert len(reader.decode(Message(None, value))) == 1
        assert tracemalloc.get_traced_memory()[0] < 8 << 20
    finally:
        tracemalloc.stop()


def test_extra_that_was_tampered_with_is_refused() -> None:
    [row] = decode(_message(*GOOD))
    for extra in (
        {"partition": "x"}, {"partition": 1 << 63}, {"types": {"id": [1]}}, {"types": {"id": ["a", 1]}},
        {"types": {"id": [99, 1]}}, {"raw": {"after": {"id": "zz"}}},
    ):  # fmt: skip
        row.extra = extra
        with pytest.raises(WireError):
            encoder().encode(row, ORIGIN)
    row.extra = {"partition": "x", "types": {"id": [1]}}  # the columns are looked at first
    with pytest.raises(WireError, match="column id:"):
        encoder().encode(row, ORIGIN)
