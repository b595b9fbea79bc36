"""Placement policies: those that earlier statements of the same check have made or dropped, and those that known tables
have.

No changefeed has an event of them, so nothing else tells which there are. Source: upstream tidb
`pkg/ddl/placement_policy.go`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ticdc_bridge.schemas.ddl.executor.catalog import Catalog
from ticdc_bridge.schemas.ddl.parser.statements import (
    AlterDatabase,
    AlterTable,
    CreateDatabase,
    CreateTable,
    NoColumnEffect,
    NoRowEffect,
    SetOptions,
    Statement,
)
from ticdc_bridge.service.ddl_check.refusals.columns import Refusal


def of_policy(catalog: Catalog, statement: Statement, policies: Mapping[str, bool]) -> Iterator[Refusal]:
    """policies: by name in small letters, whether it is there."""
    for name in _named(statement):
        if policies.get(name.lower()) is False:
            yield Refusal(8239, f"Unknown placement policy '{name}'")
    match statement:
        case NoRowEffect(what="DROP PLACEMENT POLICY", about=about) if about and _is_used(catalog, about.name.table):
            yield Refusal(8241, f"Placement policy '{about.name.table}' is still in use")
        case NoRowEffect(what="CREATE PLACEMENT POLICY", about=about, replaces=False) if about and not about.lenient:
            if policies.get(about.name.table.lower()) is True or _is_used(catalog, about.name.table):
                yield Refusal(8238, f"Placement policy '{about.name.table}' already exists")
        case NoRowEffect(what="ALTER PLACEMENT POLICY" | "DROP PLACEMENT POLICY", about=about):
            if about and not about.lenient and policies.get(about.name.table.lower()) is False:
                yield Refusal(8239, f"Unknown placement policy '{about.name.table}'")


def _is_used(catalog: Catalog, policy: str) -> bool:
    return any(
        policy.lower() == one.lower() for t in catalog.described_tables() if t.details for one in t.details.policies
    )


def _named(statement: Statement) -> Iterator[str]:
    """The policies that tables, partitions and databases get; "" for none."""
    match statement:
        case CreateDatabase() | AlterDatabase():
            yield statement.policy
        case CreateTable():
            yield statement.options.policy or ""
            yield from (one.policy for one in (statement.partition.partitions if statement.partition else ()))
        case AlterTable():
            for clause in statement.clauses:
                if isinstance(clause, SetOptions):
                    yield clause.options.policy or ""
                elif isinstance(clause, NoColumnEffect):
                    yield from (one.policy for one in clause.added)


def policies_after(statement: Statement, policies: Mapping[str, bool]) -> dict[str, bool]:
    match statement:
        case NoRowEffect(what="CREATE PLACEMENT POLICY" | "DROP PLACEMENT POLICY", about=about) if about:
            return {**policies, about.name.table.lower(): statement.what.startswith("CREATE")}
    return dict(policies)
