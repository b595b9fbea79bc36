"""Rows of MySQL's protocol: what was sent comes back, in whatever pieces it comes."""

import io
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ticdc_bridge.schemas.columnar import row_packets
from ticdc_bridge.schemas.columnar.row_packets import packet_rows

END = b"\xfe\x00\x00\x02\x00"


def lengthened(value: bytes | None) -> bytes:
    if value is None:
        return b"\xfb"
    size = len(value)
    if size < 251:
        return bytes([size]) + value
    width = 2 if size < 1 << 16 else 3
    return bytes([0xFA + width]) + size.to_bytes(width, "little") + value


def packets(payload: bytes, most: int = 0xFFFFFF) -> bytes:
    parts = [payload[n : n + most] for n in range(0, len(payload) + 1, most)]
    return b"".join(len(part).to_bytes(3, "little") + b"\x07" + part for part in parts)


def read(data: bytes, columns: int, piece: int) -> tuple[list[Any], bytes]:
    file, rows = io.BytesIO(data), list[Any]()
    for part in packet_rows(lambda buffer: file.readinto(memoryview(buffer)[:piece]), columns):
        if isinstance(part, bytes):
            return rows, part
        cells = [
            [text.data[a:b].tobytes() if valid else None for a, b, valid in zip(
                text.offsets[:-1], text.offsets[1:], text.valid, strict=True)]
            for text in part
        ]  # fmt: skip
        rows += zip(*cells, strict=True)
    raise AssertionError("no end")


@settings(deadline=None)
@given(
    st.lists(st.tuples(*[st.none() | st.binary(max_size=300)] * 3), max_size=9), st.integers(1, 400),
    st.sampled_from([1000, 1500, 1 << 20]),
)  # fmt: skip
def test_rows_come_back(rows: list[tuple[bytes | None, ...]], piece: int, block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_packets, "BLOCK", block)
        data = b"".join(packets(b"".join(map(lengthened, row))) for row in rows) + packets(END)
        assert read(data, 3, piece) == (rows, END)


def test_a_row_of_several_packets() -> None:
    """A row of almost 16 MiB comes back, a longer row is refused."""
    rows = [(b"a", None), (b"x" * 0xFFFFF0, b"y" * 9), (b"", b"b")]
    data = b"".join(packets(b"".join(map(lengthened, row))) for row in rows) + packets(b"\xff\x28\x04#HY000gone")
    assert read(data, 2, 1 << 20) == (rows, b"\xff\x28\x04#HY000gone")
    with pytest.raises(ValueError, match="a row of 16 MiB or more"):
        read(packets(lengthened(b"x" * 0xFFFFFF)), 1, 1 << 30)


def test_what_are_no_rows() -> None:
    for data in (
        b"\x02\x00\x00\x01\x05a",
        b"\x02\x00\x00\x01\x01a",
        b"\x03\x00\x00\x01\x01ab",
        b"\x01\x00\x00\x01\xfd",
    ):
        with pytest.raises(ValueError, match="no rows of the query"):
            read(data, 2 if data[0] == 2 else 1, 99)
    with pytest.raises(ValueError, match="ended within the rows"):
        read(packets(b"\x01a")[:-1], 1, 99)
