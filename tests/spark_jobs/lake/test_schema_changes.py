"""What a table's statements say to a merge: which table a name means, which names were shared, what takes rows away."""

from tests.support.table import check_rows
from ticdc_bridge.schemas.ddl.executor.versions import DdlText
from ticdc_bridge.schemas.ddl.parser.lexer import TYPED
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.spark_jobs.lake.column_history import schema_changes
from ticdc_bridge.spark_jobs.lake.name_history import NEVER_ENDS, rename_chain, shared_names

_TAKING = (
    ("ALTER TABLE T DROP PARTITION p", "DROP PARTITION"), ("ALTER TABLE u DROP PARTITION p", ""),
    ("ALTER TABLE u EXCHANGE PARTITION p WITH TABLE t", "EXCHANGE PARTITION"),
    ("FLASHBACK CLUSTER TO TIMESTAMP '2024-01-01 00:00:00'", "FLASHBACK TO TIMESTAMP"),
)  # fmt: skip


def test_what_takes_rows_away() -> None:
    pieces = "PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (5), PARTITION q VALUES LESS THAN (9))"
    for query, unsure in _TAKING:
        texts = [
            f"CREATE TABLE t (id int primary key) {pieces}",
            f"CREATE TABLE u (id int primary key) {pieces}",
            query,
        ]
        steps = schema_changes([DdlText(n, "d", text, TYPED) for n, text in enumerate(texts)], TableId("d", "t"))
        assert [step.unsure or step.word for step in steps] == ["", *([unsure] if unsure else [])], query


_NAMES: list[tuple[list[str], str, list[tuple[int, str | None]]]] = [
    (["CREATE TABLE n", "RENAME TABLE t TO o, n TO t"], "t", [(2, "n"), (0, "t")]),
    (["CREATE TABLE n", "RENAME TABLE t TO o, n TO t"], "o", [(2, "t"), (0, "o")]),
    (["RENAME TABLE t TO o", "CREATE TABLE t"], "t", [(2, None), (0, "t")]),
    (["RENAME TABLE t TO o", "CREATE TABLE t"], "o", [(1, "t"), (0, "o")]),
    (["RENAME TABLE t TO o", "ALTER TABLE o RENAME TO t"], "t", [(1, "t"), (2, "o"), (0, "t")]),
    (["DROP TABLE t", "CREATE TABLE t", "RENAME TABLE t TO U"], "T", [(3, "t"), (0, "U")]),
]


def test_which_table_a_name_means() -> None:
    """A name that another table got is that table's; rows of the one that had it before are not taken for its."""
    check_rows(_NAMES, lambda row: _check_name(*row))


_SHARED: list[tuple[list[str], dict[str, list[tuple[int, int]]]]] = [
    (["CREATE TABLE n", "RENAME TABLE t TO o, n TO t"], {"t": [(0, 2), (2, 0)]}),
    (["RENAME TABLE t TO o", "CREATE TABLE t"], {"t": [(0, 1), (2, 0)]}),
    (["RENAME TABLE t TO o", "CREATE TABLE t", "RENAME TABLE t TO p"], {"t": [(0, 1), (2, 3)]}),
    (["RENAME TABLE t TO o", "ALTER TABLE o RENAME TO t"], {}),
    (["CREATE TABLE n", "RENAME TABLE t TO o, n TO t, o TO n"], {"t": [(0, 2), (2, 0)], "n": [(1, 2), (2, 0)]}),
    (["CREATE TABLE o", "DROP TABLE o", "RENAME TABLE t TO O"], {"o": [(1, 3), (3, 0)]}),
    (["RENAME TABLE a TO o, n TO a"], {"a": [(-1, 1), (1, 0)]}),
    (["DROP TABLE t", "CREATE TABLE t", "RENAME TABLE t TO U"], {}),
]
"""Names that several tables had, and from when to when each had it; 0: to the end."""


def test_names_that_several_tables_had() -> None:
    check_rows(_SHARED, lambda row: _check_shared(*row))


def _check_shared(queries: list[str], names: dict[str, list[tuple[int, int]]]) -> None:
    statements = [DdlText(n, "d", text, TYPED) for n, text in enumerate(_with_key("CREATE TABLE t", *queries))]
    found_names = {id_.table: [entry[1:] for entry in had] for id_, had in shared_names(statements).items()}
    assert found_names == {n: [(after, until or NEVER_ENDS) for after, until in had] for n, had in names.items()}


def _with_key(*queries: str) -> list[str]:
    return [text + " (id int primary key)" * text.startswith("CREATE") for text in queries]


def _check_name(queries: list[str], name: str, names: list[tuple[int, str | None]]) -> None:
    statements = [DdlText(n, "d", text, TYPED) for n, text in enumerate(_with_key("CREATE TABLE t", *queries))]
    found_names = rename_chain(statements, TableId("d", name)).names()
    assert [id_ and id_.table for _, id_ in found_names] == [id_ for _, id_ in names]
    assert [until for until, _ in found_names[:-1]] == [until for until, _ in names[:-1]]
    after = [step.after for step in schema_changes(statements, TableId("d", name))][-1]
    assert after is not None
    assert after.id.table == names[-1][1]
