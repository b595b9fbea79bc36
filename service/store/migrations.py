"""Bringing an older store up to the current layout, in one transaction, when it is opened.

Tables that a newer layout adds are there already when a step runs (`metadata.create_all`); a step fills them. A step
gets rows of its layout, in a database of any kind, and says nothing that only one kind understands: a backup of an
older layout is restored into tables of the current one, and then goes through the same steps.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

from sqlalchemy import Connection, and_, insert, select, update

from service.registry.model import DEFAULT_CONTEXT
from service.store.tables import LAYOUT, contexts, schemas, versions


def migrate(connection: Connection, layout: int) -> None:
    """From `layout` to LAYOUT, step by step."""
    for step in range(layout, LAYOUT):
        STEPS[step](connection)


def from_1(connection: Connection) -> None:
    """Layout 1 had no list of contexts, and a reference without a context meant the default one, wherever it stood."""
    used = select(versions.c.context).where(versions.c.context != DEFAULT_CONTEXT).distinct()
    connection.execute(insert(contexts).from_select(["context"], used))
    elsewhere = select(schemas.c.context, schemas.c.id, schemas.c.refs)
    for row in connection.execute(elsewhere.where(schemas.c.context != DEFAULT_CONTEXT, schemas.c.refs != "[]")).all():
        refs = [[name, f":.:{to}" if to[:2] != ":." else to, version] for name, to, version in json.loads(row.refs)]
        this = and_(schemas.c.context == row.context, schemas.c.id == row.id)
        connection.execute(update(schemas).where(this).values(refs=json.dumps(refs, ensure_ascii=False)))


def from_2(_connection: Connection) -> None:
    """Layout 3 added the tables of `history_tables`, which begin empty."""


def from_3(_connection: Connection) -> None:
    """Layout 4 added lineage, which begins empty."""


# From which layout a step starts. Layout 2 added modes, contexts and warnings, layout 3 histories, layout 4 lineage.
STEPS: Final[dict[int, Callable[[Connection], None]]] = {1: from_1, 2: from_2, 3: from_3}
