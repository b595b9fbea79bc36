"""The differences of a period as lines of text, from their JSON form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

_SIGNS: Final = {"created": "+", "added": "+", "described": "+", "dropped": "-", "unknown": "?"}
_WORDS: Final = {
    "described": "is known now",
    "unknown": "can't be compared",
    "recreated": "was dropped and created again",
}
_LONGEST: Final = 200


def text(form: dict[str, Any]) -> Iterator[str]:
    """One difference a line, those of a table below it; what it rests on first, how many there are last."""
    moments = " to ".join(f"{form[side]['time']} (commit_ts {form[side]['at']})" for side in ("from", "to"))
    yield f"changefeed {form['changefeed']}: {moments}"
    if not form["resolved"]:
        waiting = f", and {form['pending']} DDL wait" if form["pending"] else ""
        yield f"not resolved: complete up to commit_ts {form['sealed_ts']}{waiting}; more DDL may still arrive"
    for one in form["databases"]:
        yield f"{_sign(one['kind'])} database {one['db']} {one['kind']}{_charsets(one)}"
    for one in form["tables"]:
        yield from _table(one)
    if form["other_statements"]:
        yield "Statements that left no difference:"
        for one in form["other_statements"]:
            yield from (f"  {one['db']}.{one['table']}: {_statement(each)}" for each in one["statements"])
    counts = ", ".join(f"{number} {kind}" for kind, number in form["counts"].items())
    number = sum(form["counts"].values())
    yield f"{number or 'no'} table{'' if number == 1 else 's'} differ{'s' if number == 1 else ''}" + (
        f": {counts}" if counts else ""
    )


def _sign(kind: str) -> str:
    return _SIGNS.get(kind, "~")


def _charsets(one: dict[str, Any]) -> str:
    sides = [
        f"{side['charset']} {side['collate']}".strip() or "unknown" for side in (one["before"], one["after"]) if side
    ]
    return f": {' → '.join(sides)}" if sides else ""


def _table(one: dict[str, Any]) -> Iterator[str]:
    side = one["after"] or one["before"]
    what = side.get("relation", "table")
    name = f"{one['db']}.{one['table']}"
    if one["kind"] == "renamed":
        yield f"~ {what} {one['before']['db']}.{one['before']['table']} is renamed to {name}"
    else:
        yield f"{_sign(one['kind'])} {what} {name} {_WORDS.get(one['kind'], one['kind'])}"
    for change in one["changes"]:
        part = "column " if change["part"] == "column" else ""
        yield f"    {_sign(change['kind'])} {part}{change['text']}"
    yield from (f"    note: {note}" for note in one["notes"])
    yield from (f"    by {_statement(each)}" for each in one["statements"])


def _statement(one: dict[str, Any]) -> str:
    query = " ".join(one["query"].split()) or "a snapshot"
    cut = query if len(query) <= _LONGEST else query[:_LONGEST] + "…"
    return f"commit_ts {one['commit_ts']}: {cut}"
