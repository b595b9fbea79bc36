"""Regular expressions of schemas: is one well formed as Java reads it, and does it match a property name?

A pattern is never run by an engine that can be made to hang: `matches` has a deadline, and `problem` walks the pattern
once. `problem` finds broken structure only, so that nothing is refused that Java accepts.
"""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

try:
    import regex
except ImportError:  # the package is part of the service's requirements; without it patterns are not run at all
    regex = None  # type: ignore[assignment,unused-ignore]

MAX_RUN_LENGTH: Final = 4096
"""Longest pattern that is run; Confluent has no limit."""
MAX_REPEATED: Final = 8
"""Repeated groups within repeated groups of a pattern that is run: each level doubles the memory it takes."""

_LETTER_ESCAPES: Final = frozenset("tnrfaecxu0dDsSwWhHvVRXbBAGZzkpPNQ")
_GROUP: Final = re.compile(r"\?(?:[:=!>]|<[=!]|<[A-Za-z][A-Za-z0-9]*>|[idmsuxU]*(?:-[idmsuxU]*)?[:)])")
_REPEAT: Final = re.compile(r"\{(\d+)(?:(,)(\d*))?\}")
_RANGE: Final = re.compile(r"([^\\\[\]&^-])-([^\\\[\]&-])")


@dataclass(slots=True)
class TimeBudget:
    """The seconds that patterns may still run."""

    left: float


class UnusablePattern(Exception):
    """A pattern can't be run, or not in time."""


def matches(pattern: str, name: str, seconds: TimeBudget) -> bool:
    """True if the pattern is found in a property name; takes its time from `seconds`. Raises UnusablePattern."""
    if regex is None or len(pattern) > MAX_RUN_LENGTH:
        raise UnusablePattern(
            f"the pattern '{pattern[:80]}' is not run here: too long, or the package regex is missing"
        )
    if repeated_levels(pattern) > MAX_REPEATED:
        raise UnusablePattern(f"the pattern '{pattern[:80]}' is not run here: too many repeated groups in each other")
    if seconds.left <= 0:
        raise UnusablePattern("the patterns take too long to run")
    try:
        started = time.monotonic()
        match: Any = regex.search(pattern, name, regex.V1, timeout=seconds.left)
        seconds.left -= time.monotonic() - started
    except (regex.error, TimeoutError, ValueError, OverflowError, RecursionError, MemoryError) as error:
        raise UnusablePattern(f"the pattern '{pattern[:80]}' can't be run: {error or type(error).__name__}") from None
    return match is not None


@lru_cache(1024)
def repeated_levels(pattern: str) -> int:
    """How deep groups that come once or more (`+`, `{…}`) stand in each other, in a pattern that is well formed."""
    levels, position = [0], 0
    while position < len(pattern):
        character = pattern[position]
        step = _STEPS.get(character, _plain)(pattern, position, True)
        position = position + 1 if isinstance(step, str) else step[0]
        if character == "(" and not isinstance(step, str) and step[1]:
            levels.append(0)
        elif character == ")" and len(levels) > 1:
            inner = levels.pop() + (pattern[position : position + 1] in ("+", "{"))
            levels[-1] = max(levels[-1], inner)
    return max(levels)


def problem(pattern: str) -> str | None:
    """The fault of a pattern, in Java's words; None if its structure is sound."""
    groups, position, repeatable = 0, 0, False
    while position < len(pattern):
        step = _STEPS.get(pattern[position], _plain)(pattern, position, repeatable)
        if isinstance(step, str):
            return f"{step} near index {position}"
        position, groups, repeatable = step[0], groups + step[1], step[2]
        if groups < 0:
            return f"Unmatched closing ')' near index {position - 1}"
    return f"Unclosed group near index {len(pattern)}" if groups else None


# A step says what is wrong, or (the next place, groups opened, whether a quantifier may follow).
_Step = str | tuple[int, int, bool]


def _plain(_: str, pos: int, __: bool) -> _Step:
    return pos + 1, 0, True


def _opening(pattern: str, pos: int, _: bool) -> _Step:
    if not pattern.startswith("?", pos + 1):
        return pos + 1, 1, False
    match = _GROUP.match(pattern, pos + 1)
    if match is None:
        return "Unknown group type"
    return match.end(), 0 if match[0].endswith(")") else 1, False


def _quantifier(pattern: str, pos: int, repeatable: bool) -> _Step:
    if not repeatable:
        return f"Dangling meta character '{pattern[pos]}'"
    return _after_quantifier(pattern, pos + 1), 0, False


def _after_quantifier(pattern: str, pos: int) -> int:
    """`?` makes it reluctant, `+` possessive."""
    return pos + 1 if pattern[pos : pos + 1] in {"?", "+"} else pos


def _check_count(pattern: str, pos: int, _: bool) -> _Step:
    match = _REPEAT.match(pattern, pos)
    if match is None:
        return "Illegal repetition" if not pattern[pos + 1 : pos + 2].isdigit() else "Unclosed counted closure"
    low, high = match[1], match[3]
    if high and (len(low.lstrip("0")), low.lstrip("0")) > (len(high.lstrip("0")), high.lstrip("0")):
        return "Illegal repetition range"
    return _after_quantifier(pattern, match.end()), 0, False


def _escape(pattern: str, pos: int, _: bool) -> _Step:
    letter = pattern[pos + 1 : pos + 2]
    if not letter:
        return "Unexpected internal error"
    if letter == "Q":
        end = pattern.find("\\E", pos + 2)
        return (len(pattern) if end < 0 else end + 2), 0, True
    if letter.isascii() and letter.isalpha() and letter not in _LETTER_ESCAPES:
        return "Illegal/unsupported escape sequence"
    if letter in "pP" and pattern[pos + 2 : pos + 3] == "{":
        end = pattern.find("}", pos)
        return ("Unclosed character family") if end < 0 else (end + 1, 0, True)
    return pos + 2, 0, True


def _set(pattern: str, pos: int, _: bool) -> _Step:
    """A character class; classes nest, and a `]` that comes first stands for itself."""
    depth, at, first = 0, pos, False
    while at < len(pattern):
        character = pattern[at]
        if character == "\\":
            step = _escape(pattern, at, False)
            if isinstance(step, str):
                return step
            at, first = step[0], False
            continue
        if character == "[":
            depth += 1
            at += 2 if pattern.startswith("^", at + 1) else 1
            first = True
            continue
        if character == "]" and not first:
            depth -= 1
            if not depth:
                return at + 1, 0, True
        backwards = _RANGE.match(pattern, at)
        if backwards and backwards[1] > backwards[2]:
            return "Illegal character range"
        at, first = (backwards.end() if backwards else at + 1), False
    return "Unclosed character class"


_STEPS: Final[dict[str, Callable[[str, int, bool], _Step]]] = {
    "|": lambda _, position, __: (position + 1, 0, False), "(": _opening,
    ")": lambda _, position, __: (position + 1, -1, True), "*": _quantifier, "+": _quantifier, "?": _quantifier,
    "{": _check_count, "\\": _escape, "[": _set,
}  # fmt: skip
