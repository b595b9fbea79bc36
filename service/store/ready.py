"""Statements of SQLAlchemy that are turned into text once and then given to the database's driver as they are.

Building and compiling a statement, and SQLAlchemy's way of running it, cost ten times what SQLite takes to answer.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Executable, Select


class Ready:
    """`Ready(select(…).where(column == bindparam("name")))(connection, name=value)` gives a cursor of the driver.

    `columns`: those that an INSERT or UPDATE sets. Values go to the driver unconverted, so plain types only.
    """

    def __init__(self, statement: Executable, *columns: str) -> None:
        self._statement = statement
        self._columns = list(columns) or None
        self._reads = isinstance(statement, Select)
        self._texts: dict[str, tuple[str, list[str], dict[str, Any]]] = {}

    def __call__(self, connection: Connection, **values: Any) -> Any:
        text, names, fixed = self._texts.get(connection.dialect.name) or self._compiled(connection)
        cursor: Any = connection.connection.cursor()
        given = [values[name] if name in values else fixed[name] for name in names]
        try:
            cursor.execute(text, given)
        except connection.dialect.loaded_dbapi.DataError:
            findable = [_findable(value) for value in given]
            if findable == given or not self._reads:
                raise
            cursor.execute(text, findable)
        return cursor

    def _compiled(self, connection: Connection) -> tuple[str, list[str], dict[str, Any]]:
        compiled: Any = self._statement.compile(dialect=connection.dialect, column_keys=self._columns)  # type: ignore[attr-defined]
        found = (str(compiled), list(compiled.positiontup), dict(compiled.params))
        self._texts[connection.dialect.name] = found
        return found


def _findable(value: Any) -> Any:
    """A text that is looked for, without the NULs that PostgreSQL refuses. No name holds U+0001, so it isn't found."""
    return value.replace("\0", "\1") if isinstance(value, str) else value
