"""Texts as Go writes them: floats and strings of JSON, and strconv.Quote.

Sources: Go `strconv/quote.go`, `encoding/json/encode.go`; json-iterator `stream_str.go`, `stream_float.go`.
"""

import json
import math
import re
from decimal import Decimal
from typing import Any

from ticdc_bridge.schemas.model import values

# ---- numbers
# Bits → from where to where a number is written without an exponent; Go compares a float32 with these as float32.
_PLAIN_NUMBERS = {64: (1e-6, 1e21), 32: (values.as_float32(1e-6), values.as_float32(1e21))}


def json_float(text: str, bits: int, short_exponent: bool) -> str:
    """A real's text → the JSON number that Go writes for that float of 32 or 64 bits.

    Plain notation, or an exponent below 1e-6 and from 1e21 on. encoding/json shortens e-07 to e-7 (`short_exponent`).
    ValueError when the text is no finite number of that size.
    """
    value = float(text)
    if bits == 32:
        value = values.as_float32(value)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is beyond a float{bits}")
    shortest = Decimal(values.shortest_float32(value) if bits == 32 else repr(value))
    if not value:
        return "-0" if math.copysign(1, value) < 0 else "0"
    least, most = _PLAIN_NUMBERS[bits]
    if least <= abs(value) < most:
        plain = f"{shortest:f}"
        return plain.rstrip("0").rstrip(".") if "." in plain else plain
    sign, digits, exponent = shortest.normalize().as_tuple()
    power = len(digits) + int(exponent) - 1
    mantissa = "".join(map(str, digits))
    fraction = "." + mantissa[1:] if len(mantissa) > 1 else ""
    width = 1 if short_exponent and power < 0 else 2
    return f"{'-' if sign else ''}{mantissa[0]}{fraction}e{'-' if power < 0 else '+'}{abs(power):0{width}d}"


# ---- JSON strings
_JSON_SLOW = re.compile(r'[\x00-\x1f"\\]')
_HTML_SLOW = re.compile(r'[\x00-\x1f"\\<>&\u2028\u2029]')
_JSON = {chr(c): f"\\u{c:04x}" for c in range(32)}
_JSON.update({"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"})
_HTML = {**_JSON, "\b": "\\b", "\f": "\\f"} | {c: f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def jsoniter_string(text: str) -> str:
    """A JSON string as json-iterator writes it without HTML escaping: all but `"`, `\\` and controls as it is."""
    if _JSON_SLOW.search(text):
        text = _JSON_SLOW.sub(lambda m: _JSON[m[0]], text)
    return f'"{text}"'


def std_string(text: str) -> str:
    """A JSON string as encoding/json writes it (Go 1.22 on): `<`, `>`, `&`, U+2028 and U+2029 escaped."""
    if _HTML_SLOW.search(text):
        text = _HTML_SLOW.sub(lambda m: _HTML[m[0]], text)
    return f'"{text}"'


# ---- strconv.Quote
_UNQUOTE = re.compile(rb'\\(?:[abfnrtv\\"]|x[0-9a-fA-F]{2}|[0-7]{3}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|)|["\n]', re.ASCII)
_SIMPLE = re.compile(rb'(?:[^\\"\n\x80-\xff]++|\\(?:[abfnrtv\\"]|x[0-9a-fA-F]{2}))*+\Z')
_LETTERS = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, "\\": 92, '"': 34}
_UNQUOTED: dict[bytes, bytes] = {f"\\{letter}".encode(): bytes([code]) for letter, code in _LETTERS.items()}
_UNQUOTED |= {f"\\x{code:02x}".encode(): bytes([code]) for code in range(256)}
_QUOTED_BYTE = [f"\\x{code:02x}" for code in range(256)]
for _letter, _code in _LETTERS.items():
    _QUOTED_BYTE[_code] = f"\\{_letter}"
_PLAIN = re.compile(rb"[ !#-\[\]-~]*\Z")


def unquote(text: str) -> bytes:
    """strconv.Unquote of `"text"`, as bytes. ValueError for what Go refuses."""
    data = text.encode("utf-8")  # a lone surrogate is a ValueError: bytes here are always escaped
    if b"\\" not in data and b'"' not in data and b"\n" not in data:
        return data
    if _SIMPLE.match(data):  # Python's own escapes mean the same, and a character is a byte here
        return data.decode("unicode_escape").encode("latin-1")
    return _UNQUOTE.sub(_unescape_match, data)


def _unescape_match(match: re.Match[bytes]) -> bytes:
    escape = match[0]
    if (char := _UNQUOTED.get(escape)) is not None:
        return char
    kind = escape[1:2]
    if kind in (b"x", b"u", b"U"):
        code = int(escape[2:], 16)
        if kind == b"x":
            return bytes([code])
        if code < 0x110000 and not 0xD800 <= code < 0xE000:
            return chr(code).encode()
    elif len(escape) == 4:
        code = int(escape[1:], 8)
        if code < 256:
            return bytes([code])
    raise ValueError(f"{escape.decode()!r} is not what Go quotes")


def quote(data: bytes) -> str:
    """strconv.Quote without the quotes: printable UTF-8 stays, other characters are escaped, other bytes are \\xNN.

    "Printable" is Unicode's (letters, marks, numbers, punctuation, symbols and the space), in the version that this
    Python has; a character newer than it is escaped. Both spellings are the same bytes to a reader.
    """
    if _PLAIN.match(data):
        return data.decode("ascii")
    return "".join(map(_quote_char, data.decode("utf-8", "surrogateescape")))


def _quote_char(char: str) -> str:
    code = ord(char)
    if code < 128:
        return char if 32 <= code < 127 and char not in '"\\' else _QUOTED_BYTE[code]
    if 0xDC80 <= code <= 0xDCFF:
        return _QUOTED_BYTE[code - 0xDC00]
    if char.isprintable():
        return char
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_GO_JSON_HTML = str.maketrans({c: f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"})


def go_json(value: Any) -> str:
    """Compact JSON as Go's encoding/json writes it: UTF-8 as it is, `<`, `>` and `&` escaped."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).translate(_GO_JSON_HTML)
