"""Tests over a table of rows: one test checks them all, and names the rows that fail."""

from collections.abc import Callable, Iterable
from typing import TypeVar

import pytest

T = TypeVar("T")
_SHOWN = 20  # failing rows whose message is shown


def check_rows(rows: Iterable[T], check: Callable[[T], object], name: Callable[[T], object] = str) -> None:
    """Calls check(row) for every row; goes on after a failure.

    In: the rows, at least one; what asserts one row; what names a row in the failure.
    Raises AssertionError that names every failing row with its message; its cause is the first failure.
    """
    failures: list[tuple[str, BaseException]] = []
    count = 0
    for row in rows:
        count += 1
        try:
            check(row)
        except (Exception, pytest.fail.Exception) as error:  # what pytest.raises raises is no Exception
            failures.append((str(name(row)), error))
    assert count, "the table has no rows"
    if failures:
        lines = [f"{row}: {type(error).__name__}: {error}" for row, error in failures[:_SHOWN]]
        more = [f"and {len(failures) - _SHOWN} more: " + ", ".join(row for row, _ in failures[_SHOWN:])]
        text = "\n".join(lines + (more if len(failures) > _SHOWN else []))
        raise AssertionError(f"{len(failures)} of {count} rows fail:\n{text}") from failures[0][1]
