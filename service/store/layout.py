"""Which layout of the tables a store has, and bringing it to the current one."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, bindparam, insert, inspect, select, update

from schemas.errors import RegistryError, SetupError
from service.store.migrations import migrate
from service.store.ready import Ready
from service.store.tables import LAYOUT, facts, metadata

LAYOUT_FACT: Final = "layout"
_LAYOUT_OF = Ready(select(facts.c.value).where(facts.c.name == bindparam("name")))


def lay_out(connection: Connection, url: str) -> bool:
    """Make the tables or bring them up to date, in a transaction that is alone; out: whether there was anything to do.

    Raises SetupError for a store that is none of ours, or of a newer layout.
    """
    known = inspect(connection).get_table_names()
    if known and facts.name not in known:
        details = f"store {url!r} holds another program's tables; give the registry a database of its own"
        raise SetupError("USAGE", details=details)
    layout = found_layout(connection) if known else None
    if layout is not None:
        refuse(layout, f"store {url!r}")
    metadata.create_all(connection)
    if layout is None:
        connection.execute(insert(facts).values(name=LAYOUT_FACT, value=str(LAYOUT)))
    elif layout != LAYOUT:
        bring_up(connection, layout)
    return layout != LAYOUT


def bring_up(connection: Connection, layout: int) -> None:
    """From an older layout to the current one, step by step."""
    migrate(connection, layout)
    connection.execute(update(facts).where(facts.c.name == LAYOUT_FACT).values(value=str(LAYOUT)))


def refuse(layout: int, what: str) -> None:
    """Raises SetupError for a layout that this version does not know."""
    if layout > LAYOUT:
        details = (
            f"{what} has layout {layout}, and this version knows layouts 1 to {LAYOUT}: a newer version wrote it. "
            "Start that version again; a store is never taken back to an older layout"
        )
        raise SetupError("USAGE", details=details)
    if layout < 1:
        raise SetupError("USAGE", details=f"{what} has layout {layout}; layouts are 1 to {LAYOUT}")


def check_layout(connection: Connection) -> None:
    """Raises STORE_FAILED if a newer version has changed the layout while this process was running."""
    layout = found_layout(connection)
    if layout != LAYOUT:
        details = f"the store has layout {layout} now, this process knows {LAYOUT}: restart it with the newer version"
        raise RegistryError("STORE_FAILED", details=details)


def found_layout(connection: Connection) -> int | None:
    """Of a store that has the table of facts. None: nothing says it, so the tables are not there yet."""
    row = _LAYOUT_OF(connection, name=LAYOUT_FACT).fetchone()
    return None if row is None else int(row[0])
