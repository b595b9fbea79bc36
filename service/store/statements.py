"""The queries of a registry that are made once and run often, and those that others are built on.

They are compiled once and given to the driver as text: SQLAlchemy's way costs ten times what SQLite takes to answer.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, Final, TypeVar

import sqlalchemy as sa

from ticdc_bridge.service.registry.config import VERSION
from ticdc_bridge.service.store.tables import configs, counters, modes, schemas, versions

_CHUNK: Final = 5000
"""Values of one IN: SQLite takes 32,766 parameters, PostgreSQL 65,535."""

T = TypeVar("T")


class PreparedStatement:
    """`PreparedStatement(select(…).where(column == bindparam("name")))(connection, name=value)`: the driver's cursor.

    `columns`: those that an INSERT or UPDATE sets. Values go to the driver unconverted, so plain types only.
    """

    def __init__(self, statement: sa.Executable, *columns: str) -> None:
        self._statement = statement
        self._columns = list(columns) or None
        self._reads = isinstance(statement, sa.Select | sa.CompoundSelect)
        self._texts: dict[str, tuple[str, list[str], dict[str, Any]]] = {}

    def __call__(self, connection: sa.Connection, **values: Any) -> Any:
        text, names, fixed = self._text_for(connection)
        cursor: Any = connection.connection.cursor()
        parameters = [values[name] if name in values else fixed[name] for name in names]
        try:
            cursor.execute(text, parameters)
        except connection.dialect.loaded_dbapi.DataError:
            # No name holds U+0001, so nothing is found where PostgreSQL would refuse a NUL.
            findable = [value.replace("\0", "\1") if isinstance(value, str) else value for value in parameters]
            if findable == parameters or not self._reads:
                raise
            cursor.execute(text, findable)
        return cursor

    def text_and_values(self, connection: sa.Connection, rows: Sequence[Mapping[str, Any]]) -> tuple[str, list[Any]]:
        """An item for `WriteSession.write_together`: an INSERT of many rows, or another statement with a row."""
        text, names, _ = self._text_for(connection)
        head, values, row_text = text.partition(" VALUES ")
        return head + values + ", ".join([row_text] * len(rows)), [row[name] for row in rows for name in names]

    def _text_for(self, connection: sa.Connection) -> tuple[str, list[str], dict[str, Any]]:
        pieces = self._texts.get(connection.dialect.name)
        if pieces is None:
            compiled: Any = self._statement.compile(dialect=connection.dialect, column_keys=self._columns)  # type: ignore[attr-defined]
            pieces = (str(compiled), list(compiled.positiontup), dict(compiled.params))
            self._texts[connection.dialect.name] = pieces
        return pieces


ROW = sa.select(versions.c.subject, versions.c.version, versions.c.id, versions.c.deleted)
SCHEMA_OF = sa.and_(versions.c.context == schemas.c.context, versions.c.id == schemas.c.id)
CONTENT = sa.select(*(schemas.c[name] for name in ("identity", "kind", "text", "refs", "metadata", "digest")))
_OF_VERSION = (versions.c[name] for name in ("subject", "version", "id", "ts", "deleted"))
FULL = sa.select(*_OF_VERSION, *CONTENT.selected_columns).join_from(versions, schemas, SCHEMA_OF)
LISTED = sa.select(*ROW.selected_columns, schemas.c.kind, versions.c.ts).join_from(versions, schemas, SCHEMA_OF)
HOLDING = sa.select(schemas.c.identity, versions.c.subject, versions.c.version, versions.c.id)
HOLDING = HOLDING.join_from(versions, schemas, SCHEMA_OF)

_FULL_OF = FULL.where(versions.c.subject == sa.bindparam("subject"))
_LIVE = ~versions.c.deleted
_SAME = sa.and_(schemas.c.identity == sa.bindparam("identity"), schemas.c.kind == sa.bindparam("kind"))
_ALIKE = sa.or_(schemas.c.refs != "[]", schemas.c.metadata.contains(f'"{VERSION}"', autoescape=True))


def _any_of(column: sa.Column[Any], number: int, name: str = "one") -> sa.ColumnElement[bool]:
    """True if a column is one of `number` values, named as by `number_parameters`."""
    return column.in_([sa.bindparam(f"{name}{index}") for index in range(number)])


def number_parameters(values: Sequence[T], name: str = "one") -> dict[str, T]:
    """The parameters of the statements below that are made for a number of values."""
    return {f"{name}{index}": value for index, value in enumerate(values)}


def pad(values: Sequence[T]) -> list[T]:
    """The values, which are not none, with the last one repeated up to a power of 2: so few texts do for any number."""
    return [*values, *[values[-1]] * ((1 << (len(values) - 1).bit_length()) - len(values))]


@lru_cache(64)
def configs_of(number: int) -> PreparedStatement:
    return PreparedStatement(sa.select(configs.c.scope, configs.c.body).where(_any_of(configs.c.scope, number)))


@lru_cache(64)
def modes_of(number: int) -> PreparedStatement:
    return PreparedStatement(sa.select(modes.c.scope, modes.c.mode).where(_any_of(modes.c.scope, number)))


@lru_cache(64)
def holding_of(number: int) -> PreparedStatement:
    query = HOLDING.where(_any_of(schemas.c.identity, number), ~versions.c.deleted)
    return PreparedStatement(query.order_by(versions.c.context, versions.c.id, versions.c.seq))


@lru_cache(64)
def repeats_of(number: int) -> PreparedStatement:
    """Subject and identity of the undeleted versions of so many subjects with one of so many identities."""
    of_subjects = _any_of(versions.c.subject, number, "subject")
    same = _any_of(schemas.c.identity, number, "identity")
    query = sa.select(versions.c.subject, schemas.c.identity).join_from(versions, schemas, SCHEMA_OF)
    return PreparedStatement(query.where(of_subjects, same, ~versions.c.deleted))


_NO_TEXT, _NO_NUMBER, _NO_BYTES = (sa.cast(sa.null(), kind) for kind in (sa.Text, sa.BigInteger, sa.LargeBinary))


@lru_cache(64)
def ahead_of(subjects: int, scopes: int, contents: int) -> PreparedStatement:
    """The rows that a registration looks at first, each with the number of its kind: 0 a version (subject, version, id,
    whether it is deleted), 1 a config and 2 a mode (scope, text), 3 an id (context, id, identity, type of schema),
    4 the last id of the default context.

    Parameters: `subject`, `scope` and `identity` of `number_parameters`, and `context`.
    """
    is_deleted = sa.case((versions.c.deleted, 1), else_=0)
    none, empty, v, s = _NO_NUMBER, _NO_TEXT, versions.c, schemas.c
    pieces = (
        sa.select(sa.literal_column("0"), v.subject, empty, v.version, v.id, is_deleted, _NO_BYTES).where(
            _any_of(v.subject, subjects, "subject")
        ),
        sa.select(sa.literal_column("1"), configs.c.scope, configs.c.body, none, none, none, _NO_BYTES).where(
            _any_of(configs.c.scope, scopes, "scope")
        ),
        sa.select(sa.literal_column("2"), modes.c.scope, modes.c.mode, none, none, none, _NO_BYTES).where(
            _any_of(modes.c.scope, scopes, "scope")
        ),
        sa.select(sa.literal_column("3"), s.context, s.kind, none, s.id, none, s.identity).where(
            _any_of(s.identity, contents, "identity")
        ),
        sa.select(sa.literal_column("4"), counters.c.context, empty, counters.c.last, none, none, _NO_BYTES).where(
            counters.c.context == sa.bindparam("context")
        ),
    )
    return PreparedStatement(sa.union_all(*pieces))


@lru_cache(64)
def compared_of(subjects: int, contents: int) -> PreparedStatement:
    """Undeleted versions of so many subjects, as FULL has them, with likeness and a number: 0 the highest of each, 1
    those that may be one of so many contents.

    Parameters: `subject`, `identity` and `likeness` of `number_parameters`.
    """
    of_subjects = _any_of(versions.c.subject, subjects, "subject")
    highest = sa.select(versions.c.subject, sa.func.max(versions.c.version).label("version"))
    top = highest.where(of_subjects, _LIVE).group_by(versions.c.subject).subquery()
    is_highest = sa.and_(versions.c.subject == top.c.subject, versions.c.version == top.c.version)
    latest = FULL.add_columns(schemas.c.likeness, sa.literal_column("0")).join(top, is_highest)
    same = [_any_of(schemas.c[name], contents, name) for name in ("identity", "likeness")]
    alike = FULL.add_columns(schemas.c.likeness, sa.literal_column("1")).where(
        of_subjects, _LIVE, sa.or_(_ALIKE, *same)
    )
    return PreparedStatement(sa.union_all(latest, alike))


def chunks(values: Iterable[T]) -> Iterator[list[T]]:
    """The values in lists that a statement can look for; each value once."""
    unique = iter(dict.fromkeys(values))
    while some := list(islice(unique, _CHUNK)):
        yield some


_LOOKALIKES = _FULL_OF.where(sa.or_(_ALIKE, schemas.c.likeness == sa.bindparam("likeness"))).order_by(
    versions.c.version.desc()
)
_HIGHEST = _FULL_OF.order_by(versions.c.version.desc())

VERSION_OF = PreparedStatement(_FULL_OF.where(versions.c.version == sa.bindparam("version")))
# by whether soft-deleted versions count
LATEST = {True: PreparedStatement(_HIGHEST.limit(1)), False: PreparedStatement(_HIGHEST.where(_LIVE).limit(1))}
BY_CONTENT = {
    True: PreparedStatement(_HIGHEST.where(_SAME).limit(1)),
    False: PreparedStatement(_HIGHEST.where(_SAME, _LIVE).limit(1)),
}
LOOKALIKES = {True: PreparedStatement(_LOOKALIKES), False: PreparedStatement(_LOOKALIKES.where(_LIVE))}
VERSIONS = PreparedStatement(ROW.where(versions.c.subject == sa.bindparam("subject")).order_by(versions.c.version))
_IS_HELD = versions.c.context == sa.bindparam("context"), versions.c.id == sa.bindparam("id")
HOLDERS = PreparedStatement(FULL.where(*_IS_HELD).order_by(versions.c.seq))
# Not min(): SQLite would walk through the ids of the context instead of using the index on identity.
ID_OF = PreparedStatement(sa.select(schemas.c.id).where(schemas.c.context == sa.bindparam("context"), _SAME))
IDS_OF = PreparedStatement(
    sa.select(schemas.c.context, schemas.c.id)
    .where(schemas.c.identity == sa.bindparam("identity"))
    .order_by(schemas.c.context, schemas.c.id)
)
MAX_ID = PreparedStatement(sa.select(counters.c.last).where(counters.c.context == sa.bindparam("context")))
FIRST_ID = PreparedStatement(sa.insert(counters), "context", "last")
NEXT_ID = PreparedStatement(sa.update(counters).where(counters.c.context == sa.bindparam("this")), "last")
PUT_SCHEMA = PreparedStatement(sa.insert(schemas).inline(), *schemas.c.keys())
PUT_VERSION = PreparedStatement(sa.insert(versions).inline(), "context", "subject", "version", "id", "ts", "deleted")
