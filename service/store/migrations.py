"""Bringing an older store up to the current layout, in one transaction, when it is opened.

Tables that a newer layout adds are there already when a step runs (`metadata.create_all`); a step fills them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sqlalchemy import Connection, insert, select, update

from service.registry.model import DEFAULT_CONTEXT
from service.store.tables import LAYOUT, contexts, facts, versions


def migrate(connection: Connection, layout: int) -> None:
    """From `layout` to LAYOUT, step by step."""
    for step in range(layout, LAYOUT):
        STEPS[step](connection)
    if layout != LAYOUT:
        connection.execute(update(facts).where(facts.c.name == "layout").values(value=str(LAYOUT)))


def list_contexts(connection: Connection) -> None:
    """Layout 1 knew a context by its versions only."""
    used = select(versions.c.context).where(versions.c.context != DEFAULT_CONTEXT).distinct()
    connection.execute(insert(contexts).from_select(["context"], used))


# From which layout a step starts. Layout 2 added modes, contexts and warnings.
STEPS: Final[dict[int, Callable[[Connection], None]]] = {1: list_contexts}
