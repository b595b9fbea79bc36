"""A row's JSON → op, and the cells and values of its sides (ticdc-wire.md §3.3)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from schemas.codec.json_exact import Number
from schemas.event import Op
from schemas.wire.open_protocol.columns import Cell

_CELL_KEYS = {"t", "h", "f", "v"}

Cells = tuple[Cell, ...]
Side = tuple[Cells, list[Any]]
_NOTHING: Side = ((), [])


def sides(document: Any) -> tuple[Op, Side, Side, list[str]]:
    """A row's value → op, new row, old row, columns whose old value stands nowhere by name."""
    if not isinstance(document, tuple):
        raise ValueError("a row is a JSON object")
    found = dict(document)
    if len(found) != len(document) or not found or found.keys() not in ({"u"}, {"u", "p"}, {"d"}):
        raise ValueError(f"a row has u, u and p, or d, not {', '.join(map(repr, list(found)[:4])) or 'nothing'}")
    if "d" in found:
        before, _ = _side(found["d"])
        return "d", _NOTHING, _whole(before), []
    after, _ = _side(found["u"])
    if "p" not in found:
        return "c", _whole(after), _NOTHING, []
    before, bare = _side(found["p"])
    unnamed: list[str] = []
    if bare:
        before, unnamed = _name_bare(after, before, bare)
    return "u", _whole(after), _whole(before), unnamed


def _whole(side: Side) -> Side:
    if not side[0]:
        raise ValueError("a row without columns")
    return side


_Bare = list[tuple[int, tuple[tuple[str, Any], ...]]]


def _side(pairs: Any) -> tuple[Side, _Bare]:
    """The columns of one side; and (position, fields) of those that TiCDC wrote without their name."""
    if not isinstance(pairs, tuple):
        raise ValueError("u, p and d are JSON objects")
    cells: list[Cell] = []
    found: list[Any] = []
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
        found.append(value)
    if bare:
        bare = list(_groups(bare))
    return (tuple(cells), found), bare


def _cell(name: str, fields: tuple[tuple[str, Any], ...]) -> tuple[Cell, Any]:
    told = dict(fields)
    if len(told) != len(fields) or not told.keys() <= _CELL_KEYS or "t" not in told or "v" not in told:
        raise ValueError(f"column {name!r}: t, f and v are needed, and h may be")
    handle = told.get("h", False)
    if not isinstance(handle, bool):
        raise ValueError(f"column {name!r}: h is no boolean")
    flags = _small(told["f"], name, "f") if "f" in told else None
    return Cell(name, _small(told["t"], name, "t"), handle, flags), told["v"]


def _small(value: Any, name: str, what: str) -> int:
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
    of this type and these flags that is NULL now and lies between its neighbours. Where several could be meant, none
    is taken: their names are returned.
    """
    order = {cell.name: index for index, cell in enumerate(after[0])}
    nulls = [cell for cell, value in zip(*after, strict=True) if value is None]
    named = [order.get(cell.name) for cell in before[0]]
    if None in named:
        raise ValueError("the old row has a column that the new row does not have")
    positions = [index for index in named if index is not None]
    taken = set(positions)
    options: list[tuple[int, ...]] = []
    for at, fields in bare:
        cell, _ = _cell("", fields)
        low = positions[at - 1] if at else -1
        high = positions[at] if at < len(positions) else len(order)
        alike = [order[null.name] for null in nulls if replace(null, name="") == cell]
        options.append(tuple(i for i in alike if low < i < high and i not in taken))
    return _assign(after[0], before, bare, options)


def _assign(cells: Cells, before: Side, bare: _Bare, options: list[tuple[int, ...]]) -> tuple[Side, list[str]]:
    """Groups with the same candidates take them in table order, one each, where there are as many."""
    named = dict(zip((c.name for c in before[0]), before[1], strict=True))
    unnamed: list[str] = []
    for candidates in dict.fromkeys(options):
        groups = [fields for (_, fields), own in zip(bare, options, strict=True) if own == candidates]
        if len(candidates) < len(groups):
            raise ValueError("the old row has a value without its column's name, and no column it could be of")
        if len(candidates) > len(groups):
            unnamed += [cells[i].name for i in candidates]
            continue
        for fields, index in zip(groups, candidates, strict=True):
            named[cells[index].name] = _cell("", fields)[1]
    ordered = tuple(c for c in cells if c.name in named)
    return (ordered, [named[c.name] for c in ordered]), unnamed
