"""What the plans of all formats share: names of metrics, and which types hold which."""

from __future__ import annotations

from schemas.table import TableId


def metric(name: str, table: TableId) -> str:
    """Name of an observed metric: of one table, so that the plans of several can stand in one query."""
    return f"ticdc_bridge_{name}.{table}"


def widens(old: str, new: str) -> bool:
    """Every value of Spark type `old` is one of `new`, without a change."""
    return old == new or (old, new) in _WIDENING or _longer(old, new)


def _longer(old: str, new: str) -> bool:
    """decimal(p,s) has room for the digits on both sides of the point."""
    if not (old.startswith("decimal(") and new.startswith("decimal(")):
        return False
    (digits, scale), (more, finer) = (map(int, kind[8:-1].split(",")) for kind in (old, new))
    return scale <= finer and digits - scale <= more - finer


_WIDENING = {
    ("int", "bigint"), ("int", "decimal(20,0)"), ("bigint", "decimal(20,0)"), ("float", "double"),
    ("smallint", "int"), ("smallint", "bigint"),
}  # fmt: skip
