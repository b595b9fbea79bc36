"""Placement policies that earlier statements of the same check have made or dropped.

No changefeed has an event of them, so nothing else tells which there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from schemas.ddl.parser.statements import NoRowEffect, Statement
from service.ddl_check.refusals.columns import Refusal


def of_policy(statement: Statement, policies: Mapping[str, bool]) -> Iterator[Refusal]:
    """policies: by name in small letters, whether it is there."""
    match statement:
        case NoRowEffect(what="CREATE PLACEMENT POLICY", about=about, replaces=False) if about and not about.lenient:
            if policies.get(about.name.table.lower()) is True:
                yield Refusal(8238, f"Placement policy '{about.name.table}' already exists")
        case NoRowEffect(what="ALTER PLACEMENT POLICY" | "DROP PLACEMENT POLICY", about=about):
            if about and not about.lenient and policies.get(about.name.table.lower()) is False:
                yield Refusal(8239, f"Unknown placement policy '{about.name.table}'")


def policies_after(statement: Statement, policies: Mapping[str, bool]) -> dict[str, bool]:
    match statement:
        case NoRowEffect(what="CREATE PLACEMENT POLICY" | "DROP PLACEMENT POLICY", about=about) if about:
            return {**policies, about.name.table.lower(): statement.what.startswith("CREATE")}
    return dict(policies)
