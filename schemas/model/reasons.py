"""Why something failed, in words for the user: Python's own texts and class names never reach one."""

import binascii
import json
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ticdc_bridge.schemas.model.errors import BridgeError, SetupError

_JSON_MESSAGES = {
    "Expecting value": "a value is missing",
    "Expecting property name enclosed in double quotes": "a name in double quotes is missing",
    "Expecting ':' delimiter": "a colon is missing",
    "Expecting ',' delimiter": "a comma or a closing bracket is missing",
    "Illegal trailing comma before end of object": "a comma stands before the closing brace",
    "Illegal trailing comma before end of array": "a comma stands before the closing bracket",
    "Invalid control character at": "a control character stands unescaped in a string",
    "Invalid control character": "a control character stands unescaped in a string",
    "Unterminated string starting at": "a string begins that does not end",
    "Invalid \\escape": "a backslash is followed by what JSON does not escape",
    "Invalid \\uXXXX escape": "\\u is not followed by four hexadecimal digits",
    "Extra data": "more text follows the document",
    "Unexpected UTF-8 BOM (decode using utf-8-sig)": "a byte order mark stands before the document",
}
"""Messages of Python's json module → what is wrong."""
_KINDS = {
    "NoneType": "null", "str": "a text", "int": "a number", "float": "a number", "Number": "a number",
    "bool": "true or false", "list": "a list", "tuple": "a list", "dict": "an object", "bytes": "bytes",
    "string": "a text",
}  # fmt: skip
"""Python's types → what stands in the JSON."""
_STANDS = re.compile(r"'?(\w+)'? (?:object|indices|found)\b|argument of type '(\w+)'|non-iterable (\w+)|not (\w+)\Z")
_VALUE_ERRORS = (
    (
        re.compile(r"invalid literal for int|could not convert string to float|Invalid literal for Fraction"),
        "no number",
    ),
    (re.compile(r"integer string conversion"), "a number of more digits than can be read"),
    (re.compile(r"values to unpack|dictionary update sequence"), "a list of another length than is needed"),
    (re.compile(r"Invalid isoformat string"), "no date or time"),
    (re.compile(r"fromhex\(\)"), "no hexadecimal text"),
    (re.compile(r"badly formed hexadecimal UUID"), "no UUID"),
    (re.compile(r"Port (?:could not be cast|out of range)"), "the port is no number from 0 to 65535"),
    (re.compile(r"embedded null (?:byte|character)"), "a name with a zero byte"),
    (re.compile(r"surrogates not allowed|codec can't"), "not UTF-8"),
    (re.compile(r"string argument should contain only ASCII"), "no base64 text"),
)
"""Texts of Python's own ValueErrors → what is wrong."""
_ERROR_NUMBER = re.compile(r"\[Errno -?\d+\] ")


def reason_of(error: BaseException) -> str:
    """Says what was wrong, in words that may stand after "not a …: " or "column x: ".

    In: an error that the code around caught, ours or Python's. Out: our own texts as they are, Python's as ours.
    """
    for kind, words in _BY_CLASS:
        if isinstance(error, kind):
            return words(error)
    return str(error) if isinstance(error, ValueError) else _OTHER_FORM


@contextmanager
def usage_errors(what: object, *kinds: type[Exception]) -> Iterator[None]:
    """What a block raises of these kinds (none: OSError) becomes SetupError USAGE: `what`, and the reason."""
    caught = kinds or (OSError,)
    try:
        yield
    except caught as error:
        raise SetupError("USAGE", details=f"{what}: {reason_of(error)}") from error


def without_number(text: str) -> str:
    """The system's error in a text, without its number: `[Errno 111] Connection refused` → `Connection refused`."""
    return _ERROR_NUMBER.sub("", text)


def shown(value: Any, most: int = 40) -> str:
    """A value of JSON in an error's text: texts in quotes, all else as JSON has it; cut after `most` characters."""
    return repr(value)[:most] if isinstance(value, str) else json.dumps(value, default=str)[:most]


_OTHER_FORM = "a part of it has another form than is needed"


def _missing_name(error: KeyError) -> str:
    name = error.args[0] if error.args else None
    return f"no {name!r}"[:120] if isinstance(name, str) else _OTHER_FORM


def _other_kind(error: Exception) -> str:
    """The reason of a TypeError or AttributeError: Python names the type that it met."""
    match = _STANDS.search(str(error))
    kind = _KINDS.get(next(filter(None, match.groups())), "") if match else ""
    return f"{kind} stands where something else is needed" if kind else _OTHER_FORM


_BY_CLASS: tuple[tuple[type[BaseException], Callable[[Any], str]], ...] = (
    (BridgeError, lambda error: error.detail),
    (json.JSONDecodeError, lambda error: f"{_JSON_MESSAGES.get(error.msg, 'no JSON')} at character {error.pos}"),
    (UnicodeDecodeError, lambda error: f"byte {error.start} is not UTF-8"),
    (UnicodeEncodeError, lambda error: "not UTF-8"),
    (binascii.Error, lambda error: "no base64 text"),
    (struct.error, lambda error: "it ends too early"),
    (zlib.error, lambda error: "the compressed data is damaged"),
    (EOFError, lambda error: "it ends too early"),
    (RecursionError, lambda error: "nested too deep"),
    (ArithmeticError, lambda error: "no number that can be read"),
    (TimeoutError, lambda error: error.strerror or "no answer came in time"),
    (OSError, lambda error: error.strerror or "it can't be read, or is damaged"),
    (KeyError, _missing_name),
    (TypeError, _other_kind),
    (AttributeError, _other_kind),
    (ValueError, lambda error: next((why for text, why in _VALUE_ERRORS if text.search(str(error))), str(error))),
)
"""The first class that fits gives the words: subclasses of ValueError stand before it."""


def counted(count: int, what: str) -> str:
    """`1 message`, `2 messages`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"
