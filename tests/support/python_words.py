"""Words of Python that no text for a user may have."""

import re

_WORDS = re.compile(
    r"\b(?:\w+Error|\w+Exception|Traceback|NoneType|dict|codec|iterable|subscriptable|isoformat|decimal\.\w+|"
    r"Expecting (?:value|property|',|':)|Extra data|line \d+ column \d+ \(char|unpack|object has no|"
    r"indices must be|base 10|unhashable|fromhex|ConversionSyntax|surrogates|__\w+__|can't be? decode byte|errno|Errno"
    r"|keyword argument|positional argument|byte-like|bytes-like|None|True|False)\b|\bb'|<class |<[\w.]+ object at"
)


def assert_no_python_words(text: str) -> None:
    """AssertionError names the word."""
    match = _WORDS.search(text)
    assert match is None, f"{match[0]!r} in {text!r}"
