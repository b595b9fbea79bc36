"""A row's JSON → op, and the cells and values of its sides (upstream ticdc and tiflow `codec/open`)."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any

from ticdc_bridge.schemas.codec import json_exact
from ticdc_bridge.schemas.codec.json_exact import Number
from ticdc_bridge.schemas.formats.open_protocol.columns import ColumnHeader
from ticdc_bridge.schemas.formats.other_fields import other_fields
from ticdc_bridge.schemas.model.event import Op

_MOST_COLUMNS = 4096  # TiDB's own limit (table-column-count-limit)
_SIDES = frozenset(("u", "p", "d"))
_CELL_KEYS = {"t", "h", "f", "v"}

Cells = tuple[ColumnHeader, ...]
Side = tuple[Cells, list[Any]]
_NOTHING: Side = ((), [])


_ARRAY = re.compile(r'(?:[^"\[]++|"(?:[^"\\]++|\\.)*+")*+\[', re.DOTALL)
_LONG = 1 << 20


def parse(text: str) -> Any:
    """A row's or a DDL statement's text → JSON as pairs. ValueError.

    There are no arrays in it. A long text is searched for them first: parsed, they take too much memory.
    """
    if len(text) > _LONG and "[" in text and _ARRAY.match(text):
        raise ValueError("an array, which the Open Protocol does not have")
    return json_exact.decode_pairs(text)


def sides(document: Any) -> tuple[Op, Side, Side, list[str]]:
    """A row's value → op, new row, old row, columns whose old value stands nowhere by name."""
    if not isinstance(document, tuple):
        raise ValueError("a row is a JSON object")
    members = dict(document)
    if len(members) != len(document) or not members or members.keys() & _SIDES not in ({"u"}, {"u", "p"}, {"d"}):
        raise ValueError(f"a row has u, u and p, or d, not {', '.join(map(repr, list(members)[:4])) or 'nothing'}")
    if "d" in members:
        before, _ = _side(members["d"])
        return "d", _NOTHING, _require_columns(before), []
    after, _ = _side(members["u"])
    if "p" not in members:
        return "c", _require_columns(after), _NOTHING, []
    before, bare = _side(members["p"])
    unnamed: list[str] = []
    if bare:
        before, unnamed = _name_bare(after, before, bare)
    return "u", _require_columns(after), before, unnamed  # with only-output-updated-columns p may be empty


def beside_sides(document: Any) -> dict[str, Any]:
    """What a row's value has beside u, p and d: in `extra`, as it is written again. ValueError."""
    return others_of("value", dict(document), _SIDES)


def others_of(part: str, members: dict[str, Any], names: frozenset[str]) -> dict[str, Any]:
    """`other_fields` of an object whose inner objects are pairs. ValueError."""
    found = {name: _without_pairs(value) for name, value in members.items() if name not in names}
    return other_fields(**{part: (found, frozenset())})


def _without_pairs(value: Any) -> Any:
    if isinstance(value, tuple):
        return {name: _without_pairs(inner) for name, inner in value}
    return [_without_pairs(inner) for inner in value] if isinstance(value, list) else value


def _require_columns(side: Side) -> Side:
    if not side[0]:
        raise ValueError("a row without columns")
    return side


_Bare = list[tuple[int, tuple[tuple[str, Any], ...]]]


def _side(pairs: Any) -> tuple[Side, _Bare]:
    """The columns of one side; and (position, fields) of those that TiCDC wrote without their name."""
    if not isinstance(pairs, tuple):
        raise ValueError("u, p and d are JSON objects")
    if len(pairs) > _MOST_COLUMNS * len(_CELL_KEYS):  # nameless columns give four pairs at most
        raise ValueError(f"more columns than TiDB's {_MOST_COLUMNS}")
    cells: list[ColumnHeader] = []
    values: list[Any] = []
    bare: _Bare = []
    names: set[str] = set()
    for name, fields in pairs:
        if not isinstance(fields, tuple):
            bare.append((len(cells), ((name, fields),)))
            continue
        if name in names:
            raise ValueError(f"column {name!r} stands twice")
        names.add(name)
        name.encode()
        cell, value = _cell(name, fields)
        cells.append(cell)
        values.append(value)
    if len(cells) > _MOST_COLUMNS:
        raise ValueError(f"more columns than TiDB's {_MOST_COLUMNS}")
    if bare:
        bare = list(_groups(bare))
    return (tuple(cells), values), bare


def _cell(name: str, fields: tuple[tuple[str, Any], ...]) -> tuple[ColumnHeader, Any]:
    members = dict(fields)
    if len(members) != len(fields) or not members.keys() <= _CELL_KEYS or "t" not in members or "v" not in members:
        raise ValueError(f"column {name!r}: t, f and v are needed, and h may be")
    handle = members.get("h", False)
    if not isinstance(handle, bool):
        raise ValueError(f"column {name!r}: h is no boolean")
    flags = _small_number(members["f"], name, "f") if "f" in members else None
    return ColumnHeader(name, _small_number(members["t"], name, "t"), handle, flags), members["v"]


def _small_number(value: Any, name: str, what: str) -> int:
    if type(value) is not Number or len(value) > 5 or not value.isdigit():
        raise ValueError(f"column {name!r}: {what} is no such number")
    return int(value)


def _groups(bare: _Bare) -> Iterator[tuple[int, tuple[tuple[str, Any], ...]]]:
    """Fields without a column's name, put together: each group begins with its type code."""
    group: list[tuple[str, Any]] = []
    at = 0
    for position, (pair,) in bare:
        if pair[0] == "t" and group:
            yield at, tuple(group)
            group = []
        elif group and position != at:
            raise ValueError(f"{pair[0]!r} stands beside the columns of the old row")
        group.append(pair)
        at = position
    yield at, tuple(group)


def _name_bare(after: Side, before: Side, bare: _Bare) -> tuple[Side, list[str]]:
    """Gives old values their names back that TiCDC left out (only-output-updated-columns; upstream `codec.go:321`).

    It leaves the name out where a value became NULL. The columns come in table order, so the nameless one is a column
    of this type and these flags that is NULL now and lies between its neighbours. Where as many values as columns are
    left they belong together in order; where more columns could be meant none is taken: their names are returned.
    """
    order = {cell.name: index for index, cell in enumerate(after[0])}
    if any(cell.name not in order for cell in before[0]):
        raise ValueError("the old row has a column that the new row does not have")
    positions = [order[cell.name] for cell in before[0]]
    if positions != sorted(positions):
        raise ValueError("the old row's columns are in another order than the new row's")
    old_indexes, nulls = set(positions), dict[ColumnHeader, list[int]]()
    for index, (cell, value) in enumerate(zip(*after, strict=True)):
        if value is None and index not in old_indexes:
            nulls.setdefault(cell._replace(name=""), []).append(index)
    # Values of one kind between the same neighbours share their candidates.
    alike: dict[tuple[int, ColumnHeader], list[Any]] = {}
    for at, fields in bare:
        cell, value = _cell("", fields)
        alike.setdefault((at, cell), []).append(value)
    by_name = dict(zip((c.name for c in before[0]), before[1], strict=True))
    unnamed: list[str] = []
    for (at, cell), values in alike.items():
        those = nulls.get(cell, [])
        low = bisect_right(those, positions[at - 1]) if at else 0
        high = bisect_left(those, positions[at]) if at < len(positions) else len(those)
        names = [after[0][index].name for index in those[low:high]]
        if len(names) < len(values):
            raise ValueError("the old row has a value without its column's name, and no column it could be of")
        if len(names) > len(values):
            unnamed += names
        else:
            by_name.update(zip(names, values, strict=True))
    ordered = tuple(c for c in after[0] if c.name in by_name)
    return (ordered, [by_name[c.name] for c in ordered]), unnamed
