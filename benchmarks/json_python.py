"""The rival of typed decoding from JSON: `json.loads` and a conversion per value, with every trick that helped there.

Out come the same typed values with the same checks: names and order of the columns, ranges, UTF-8, dates, base64,
DECIMAL of 15 digits at most where it went through a double. Keys that stand twice are not looked for, in its favour.
What follows a Debezium payload is compared with what followed the last one, instead of being parsed; conversions are
chosen once per column; values go straight into one list a column.
"""

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from decimal import Decimal
from struct import Struct
from typing import Any

from ticdc_bridge.schemas.model import values
from ticdc_bridge.schemas.model.table import Column, Table
from ticdc_bridge.schemas.model.types import Kind

Read = Callable[[Any], Any]
_SINGLE = Struct("<f")
_EPOCH = date(1970, 1, 1).toordinal()
_DAY_MS = 86_400_000
_decode = json.JSONDecoder(parse_float=str).raw_decode  # a number's text: no digit of a DECIMAL is lost


def _integer(low: int, high: int, wraps: bool) -> Read:
    def read(number: Any) -> int:
        if type(number) is not int:
            raise ValueError("no integer")
        if number < 0 and wraps:
            number += 1 << 64
        if not low <= number <= high:
            raise ValueError("out of range")
        return int(number)

    return read


def _double(text: Any) -> float:
    number = float(text)
    if number - number != 0:
        raise ValueError("not finite")
    return number


def _float(text: Any) -> float:
    number: float = _SINGLE.unpack(_SINGLE.pack(float(text)))[0]
    if number - number != 0:
        raise ValueError("not finite")
    return number


def _decimal(column: Column, digits: int) -> Read:
    """digits: how many there may be; plain notation only where it is all of them."""
    scale = column.scale or 0
    step, limit = Decimal(1).scaleb(-scale), Decimal(10) ** (min(column.length or 0, digits) - scale)
    plain = re.compile(rf"-?\d{{1,65}}(?:\.\d{{1,{scale}}})?\Z", re.ASCII).match

    def read(text: Any) -> Decimal:
        number = Decimal(text)
        if not -limit < number < limit or -number.as_tuple().exponent > scale:  # type: ignore[operator]
            raise ValueError("no DECIMAL of the column")
        return number.quantize(step)

    def read_text(text: Any) -> Decimal:
        number = Decimal(text)
        if not plain(text) or not -limit < number < limit:
            raise ValueError("no DECIMAL of the column")
        return number

    return read if digits < 38 else read_text


def _text(text: Any) -> str:
    if type(text) is not str:
        raise ValueError("no text")
    return text


def _base64(text: Any) -> bytes:
    data = b64decode(text, validate=True)
    if b64encode(data).decode() != text:
        raise ValueError("not canonical base64")
    return data


def _formed(form: str) -> Read:
    matches = re.compile(form, re.ASCII).match

    def read(text: Any) -> str:
        if not matches(text):
            raise ValueError("not of the column's form")
        return str(text)

    return read


_DATE = _formed(r"\d{4}-\d\d-\d\d\Z")
_DATETIME = _formed(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})?\Z")


# ---------------------------------------------------------------------------------------------- Debezium
def _days(number: Any) -> str:
    return date.fromordinal(number + _EPOCH).isoformat()


def _moment(number: Any) -> str:
    """DATETIME in ms with three digits of fraction at most."""
    days, ms = divmod(number, _DAY_MS)
    seconds, ms = divmod(ms, 1000)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{ms:03d}"
    return f"{date.fromordinal(days + _EPOCH).isoformat()} {clock}"


_INSTANT = re.compile(r"(\d{4})-(\d\d)-(\d\d)T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,6})?Z\Z", re.ASCII).match


def _instant(text: Any) -> str:
    found = _INSTANT(text)
    if not found or text == "1970-01-01T00:00:00Z":
        raise ValueError("no moment")
    date(int(found[1]), int(found[2]), int(found[3]))
    return str(text[:10] + " " + text[11:-1])


def _debezium_reader(column: Column) -> Read:
    kind = column.type.kind
    if kind is Kind.DECIMAL:
        return _decimal(column, 15)
    if kind is Kind.BIT:
        size = values.bit_size(column.length or 0)

        def bits(text: Any) -> bytes:
            data = _base64(text)[::-1]
            if len(data) != size:
                raise ValueError("another length")
            return data

        return bits
    return _DEBEZIUM.get(kind) or _number_reader(column, True) or _text


def _number_reader(column: Column, wraps: bool) -> Read | None:
    if column.type.kind is not Kind.INTEGER:
        return None
    top = 1 << column.type.bits - 1
    if column.unsigned:
        return _integer(0, 2 * top - 1, wraps and column.type.bits == 64)
    return _integer(-top, top - 1, False)


_DEBEZIUM: dict[Kind, Read] = {
    Kind.FLOAT: _float,
    Kind.DOUBLE: _double,
    Kind.BINARY: _base64,
    Kind.DATE: _days,
    Kind.DATETIME: _moment,
    Kind.TIMESTAMP: _instant,
}
_PAYLOAD = '{"payload":'


class _Rows:
    """Lists of values, one a column for each side."""

    def __init__(self, readers: dict[str, Read]) -> None:
        self.names = tuple(readers)
        self.before: dict[str, list[Any]] = {name: [] for name in readers}
        self.after: dict[str, list[Any]] = {name: [] for name in readers}
        self.ops: list[str] = []
        self.stamps: list[int] = []
        self.sides = tuple(
            tuple((image[name].append, read) for name, read in readers.items()) for image in (self.before, self.after)
        )

    def result(self) -> dict[str, Any]:
        return {"op": self.ops, "commit_ts": self.stamps, "before": self.before, "after": self.after}


class PythonDebezium:
    """Messages → for each side one list of typed values a column, and op and commit_ts of the rows."""

    def __init__(self, table: Table) -> None:
        self._table, self._readers = table, {c.name: _debezium_reader(c) for c in table.columns}

    def decode(self, keys: Sequence[bytes], messages: Sequence[bytes]) -> dict[str, Any]:
        rows = _Rows(self._readers)
        names, id_, handle = rows.names, self._table.id, self._table.handle_key
        tails: set[str] = set()
        for key, data in zip(keys, messages, strict=True):
            for piece in (key, data):
                text = piece.decode()
                if not text.startswith(_PAYLOAD):
                    raise ValueError("no payload")
                payload, end = _decode(text, len(_PAYLOAD))
                tail = text[end:]
                if tail not in tails:
                    json.loads(_PAYLOAD + "{}" + tail)
                    tails.add(tail)
                if piece is key and tuple(payload) != handle:
                    raise ValueError("another key")
            source = payload["source"]
            if source["db"] != id_.db or source["table"] != id_.table or not 0 < source["commit_ts"] < 1 << 63:
                raise ValueError("another table")
            rows.stamps.append(source["commit_ts"])
            rows.ops.append(payload["op"])
            for image, plan in ((payload["before"], rows.sides[0]), (payload["after"], rows.sides[1])):
                if image is None:
                    for append, _ in plan:
                        append(None)
                    continue
                if tuple(image) != names:
                    raise ValueError("other columns")
                for (append, read), value in zip(plan, image.values(), strict=True):
                    append(None if value is None else read(value))
        return rows.result()


# ---------------------------------------------------------------------------------------------- Open Protocol
def _open_reader(column: Column) -> Read:
    kind = column.type.kind
    if kind is Kind.DECIMAL:
        return _decimal(column, 38)
    if kind is Kind.ENUM:
        names = ("", *column.elements)

        def index(number: Any) -> str:
            if number < 0:
                raise ValueError("no element")
            return str(names[number])

        return index
    if kind is Kind.SET:
        elements = column.elements
        sets = {n: ",".join(e for i, e in enumerate(elements) if n >> i & 1) for n in range(1 << len(elements))}
        return sets.__getitem__
    if kind is Kind.BIT:
        size, read = values.bit_size(column.length or 64), _integer(0, (1 << (column.length or 64)) - 1, False)
        return lambda number: read(number).to_bytes(size, "big")
    return _OPEN.get(kind) or _number_reader(column, False) or _text


_OPEN: dict[Kind, Read] = {
    Kind.FLOAT: _float,
    Kind.DOUBLE: _double,
    Kind.BINARY: _base64,
    Kind.DATE: _DATE,
    Kind.DATETIME: _DATETIME,
    Kind.TIMESTAMP: _DATETIME,
}


def _pieces(data: bytes, at: int) -> Iterator[bytes]:
    while at < len(data):
        end = at + 8 + int.from_bytes(data[at : at + 8], "big")
        if end > len(data):
            raise ValueError("cut")
        yield data[at + 8 : end]
        at = end


class PythonOpen:
    """As `PythonDebezium`. Type code and flags of each value are compared with those of the first row."""

    def __init__(self, table: Table) -> None:
        self._table, self._readers = table, {c.name: _open_reader(c) for c in table.columns}

    def decode(self, keys: Sequence[bytes], messages: Sequence[bytes]) -> dict[str, Any]:
        rows = _Rows(self._readers)
        names, id_ = rows.names, self._table.id
        plans: dict[Any, tuple[Any, Any]] = {}
        for key, data in zip(keys, messages, strict=True):
            if key[:8] != b"\0\0\0\0\0\0\0\1":
                raise ValueError("another version")
            for inner, value in zip(_pieces(key, 8), _pieces(data, 0), strict=True):
                head, end = _decode(inner.decode(), 0)
                if head["scm"] != id_.db or head["tbl"] != id_.table or head["t"] != 1 or not 0 < head["ts"] < 1 << 63:
                    raise ValueError("another table")
                text = value.decode()
                row, end = _decode(text, 0)
                if end != len(text):
                    raise ValueError("more text")
                rows.stamps.append(head["ts"])
                rows.ops.append("d" if "d" in row else "u" if "p" in row else "c")
                for k, image in ((0, row.get("p") or row.get("d")), (1, row.get("u"))):
                    if image is None:
                        for append, _ in rows.sides[k]:
                            append(None)
                        continue
                    shape = tuple(image)
                    if shape not in plans:
                        plans[shape] = self._plan(rows, names, image)
                    for (append, read, code, flags), cell in zip(plans[shape][k], image.values(), strict=True):
                        if cell["t"] != code or cell["f"] != flags:
                            raise ValueError("another type")
                        shown = cell["v"]
                        append(None if shown is None else read(shown))
        return rows.result()

    def _plan(self, rows: _Rows, names: tuple[str, ...], row: dict[str, Any]) -> tuple[Any, Any]:
        """For both sides: list, reader, type code and flags of each column, in the order of a row."""
        if sorted(row) != sorted(names):
            raise ValueError("other columns")
        known = [dict(zip(names, image, strict=True)) for image in rows.sides]
        first, second = (tuple((*image[n], cell["t"], cell["f"]) for n, cell in row.items()) for image in known)
        return first, second
