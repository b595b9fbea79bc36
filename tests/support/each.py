"""Tests over a table: parametrised as pytest's are, but one test, which names the rows that fail."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any

import pytest

from tests.support.table import check_rows

Test = Callable[..., None]
_LONGEST = 80  # characters of a value in a row's name


def each(
    names: str | Sequence[str],
    rows: Iterable[Any],
    ids: Callable[[Any], object] | Iterable[object] | None = None,
    slow: Iterable[Any] = (),
) -> Callable[[Test], Test]:
    """As pytest.mark.parametrize, but all rows are one test (tests.support.table.check_rows).

    In: the argument's name, or several; its values, or a tuple for each row; what shows a value, or a name for each
    row; rows that only the slow tests check, as a second test. All rows share the test's fixtures.
    """
    keys = (names,) if isinstance(names, str) else tuple(names)
    listed, more = list(rows), list(slow)
    shown = None if ids is None or callable(ids) else [str(id_) for id_ in ids]
    given = ids if callable(ids) else None

    def name(row: tuple[int, tuple[Any, ...]]) -> str:
        number, values = row
        return f"#{number} {shown[number] if shown else ', '.join(_text(value, given) for value in values)}"

    def decorated(test: Test) -> Test:
        def run(part: list[Any], arguments: dict[str, Any]) -> None:
            numbered = enumerate([(row,) if len(keys) == 1 else tuple(row) for row in part])
            check_rows(numbered, lambda row: test(**arguments, **dict(zip(keys, row[1], strict=True))), name)

        kept = [p for p in inspect.signature(test).parameters.values() if p.name not in keys]
        if not more:

            @wraps(test)
            def over_table(**arguments: Any) -> None:
                run(listed, arguments)

            over_table.__signature__ = inspect.Signature(kept)  # type: ignore[attr-defined]
            return over_table

        @wraps(test)
        def over_part(**arguments: Any) -> None:
            run(arguments.pop("part"), arguments)

        part = inspect.Parameter("part", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        over_part.__signature__ = inspect.Signature([*kept, part])  # type: ignore[attr-defined]
        pieces = [pytest.param(listed, id="some"), pytest.param(more, id="rest", marks=pytest.mark.slow)]
        marked: Test = pytest.mark.parametrize("part", pieces)(over_part)
        return marked

    return decorated


def _text(value: Any, given: Callable[[Any], object] | None) -> str:
    found = given(value) if given else None
    text = str(found) if found is not None else getattr(value, "__name__", None) or repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
