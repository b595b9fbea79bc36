"""Which layout of the tables a store has, and bringing an older one up to the current, in one transaction, at opening.

Tables that a newer layout adds are there already when a step runs (`metadata.create_all`); a step fills them. A step
gets rows of its layout, in a database of any kind, and says nothing that only one kind understands: a backup of an
older layout is restored into tables of the current one, and then goes through the same steps.
"""

import json
from collections.abc import Callable
from typing import Final

from sqlalchemy import Connection, and_, bindparam, insert, inspect, select, text, update

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.service.registry.model import LAST_COUNTED
from ticdc_bridge.service.registry.names import DEFAULT_CONTEXT, MAX_VERSION
from ticdc_bridge.service.registry.references import likeness_of
from ticdc_bridge.service.store.rows import row_digest
from ticdc_bridge.service.store.statements import PreparedStatement
from ticdc_bridge.service.store.tables import LAYOUT, contexts, counters, facts, metadata, schemas, versions
from ticdc_bridge.service.store.transaction import imported_id


def from_1(connection: Connection) -> None:
    """Layout 1 had no list of contexts, and a reference without a context meant the default one, wherever it stood."""
    used = select(versions.c.context).where(versions.c.context != DEFAULT_CONTEXT).distinct()
    connection.execute(insert(contexts).from_select(["context"], used))
    elsewhere = select(schemas.c.context, schemas.c.id, schemas.c.refs)
    for row in connection.execute(elsewhere.where(schemas.c.context != DEFAULT_CONTEXT, schemas.c.refs != "[]")).all():
        refs = [[name, f":.:{to}" if to[:2] != ":." else to, version] for name, to, version in json.loads(row.refs)]
        this = and_(schemas.c.context == row.context, schemas.c.id == row.id)
        connection.execute(update(schemas).where(this).values(refs=json.dumps(refs, ensure_ascii=False)))


def begin_empty(_connection: Connection) -> None:
    """Layouts 3 and 4 added the tables of histories and of lineage, which begin empty."""


def from_4(connection: Connection) -> None:
    """Layout 5 added the likeness and the digest of a schema, and counts only ids up to `LAST_COUNTED`."""
    known = {column["name"] for column in inspect(connection).get_columns(schemas.name)}
    for column in (schemas.c.likeness, schemas.c.digest):
        if column.name not in known:
            kind = column.type.compile(connection.dialect)
            connection.execute(text(f"ALTER TABLE {schemas.name} ADD COLUMN {column.name} {kind}"))
    what = select(*(schemas.c[name] for name in ("context", "id", "identity", "kind", "text", "refs", "metadata")))
    fill = update(schemas).where(schemas.c.context == bindparam("of"), schemas.c.id == bindparam("numbered"))
    for row in connection.execute(what).all():
        context, schema_id, identity, kind, schema_text, refs, body = row
        alike = likeness_of(kind, schema_text) if refs == "[]" else None
        digest = row_digest(schema_id, bytes(identity), kind, schema_text, refs, body)
        connection.execute(fill, {"of": context, "numbered": schema_id, "likeness": alike, "digest": digest})
    make_room_for_ids(connection)


_ROOM: Final = 2**20


def make_room_for_ids(connection: Connection) -> None:
    """After an import used up the last ids: the count goes on above LAST_COUNTED, far above the highest before."""
    full = MAX_VERSION - _ROOM
    for context, last in connection.execute(select(counters.c.context, counters.c.last)).all():
        if last <= full:
            continue
        existing = [id_ for (id_,) in connection.execute(select(schemas.c.id).where(schemas.c.context == context))]
        highest = max((id_ for id_ in existing if id_ <= full), default=0)
        connection.execute(
            update(counters).where(counters.c.context == context).values(last=max(LAST_COUNTED, highest + _ROOM // 2))
        )
        names = [imported_id(context, id_) for id_ in sorted({last, *existing}) if id_ > full]
        connection.execute(insert(facts), [{"name": name, "value": ""} for name in names])


# From which layout a step starts. Layout 2 added modes, contexts and warnings, layout 5 likeness and digests.
STEPS: Final[dict[int, Callable[[Connection], None]]] = {1: from_1, 2: begin_empty, 3: begin_empty, 4: from_4}

LAYOUT_FACT: Final = "layout"
_LAYOUT_OF = PreparedStatement(select(facts.c.value).where(facts.c.name == bindparam("name")))


def lay_out(connection: Connection, url: str) -> bool:
    """Makes or updates the tables; whether there was anything to do. SetupError for no or a newer layout of ours."""
    table_names = inspect(connection).get_table_names()
    if table_names and facts.name not in table_names:
        details = f"store {url!r} holds another program's tables; give the registry a database of its own"
        raise SetupError("USAGE", details=details)
    layout = read_layout(connection) if table_names else None
    if layout is not None:
        refuse(layout, f"store {url!r}")
    metadata.create_all(connection)
    if layout is None:
        connection.execute(insert(facts).values(name=LAYOUT_FACT, value=str(LAYOUT)))
    elif layout != LAYOUT:
        bring_up(connection, layout)
    return layout != LAYOUT


def bring_up(connection: Connection, layout: int) -> None:
    for step in range(layout, LAYOUT):
        STEPS[step](connection)
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


def read_layout(connection: Connection) -> int | None:
    """The layout of a store that has the table of facts. None: nothing says it, so the tables are not there yet."""
    row = _LAYOUT_OF(connection, name=LAYOUT_FACT).fetchone()
    return None if row is None else int(row[0])
