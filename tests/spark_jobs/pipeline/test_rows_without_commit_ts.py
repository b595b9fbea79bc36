"""Rows without a commit_ts: which version of their table names and types them."""

from tests.support.each import each
from tests.support.rows import change
from ticdc_bridge.schemas.ddl.executor.versions import DdlText, versions
from ticdc_bridge.schemas.ddl.parser.lexer import TYPED
from ticdc_bridge.schemas.formats.avro.decoder import DefinitionsOfRecords
from ticdc_bridge.schemas.formats.avro.schema import value_schema
from ticdc_bridge.schemas.formats.avro.values import compile_record
from ticdc_bridge.schemas.inputs.table_definitions import TableDefinitions
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import TableVersion
from ticdc_bridge.spark_jobs.pipeline.table_view import TableView

# Statements, and which version (from 1) a row without commit_ts of each version is taken for; 0: none; -1: for one that
# has only what the versions say alike.
_CREATE = "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9), c INT)"
WITHOUT_TIME: list[tuple[tuple[str, ...], list[int]]] = [
    ((_CREATE, "ALTER TABLE t MODIFY c BIGINT", "ALTER TABLE t RENAME COLUMN v TO vv"), [1, 2, 3]),
    ((_CREATE, "ALTER TABLE t MODIFY c BIGINT", "ALTER TABLE t MODIFY c INT"), [3, 2, 3]),
    ((_CREATE, "ALTER TABLE t COMMENT 'x'", "ALTER TABLE t RENAME COLUMN v TO vv"), [2, 2, 3]),
    ((_CREATE, "ALTER TABLE t MODIFY v VARCHAR(20)"), [-1, -1]),  # no schema has lengths
    ((_CREATE, "ALTER TABLE t ADD UNIQUE KEY (c)", "ALTER TABLE t MODIFY c SMALLINT"), [-1, -1, -1]),
    ((_CREATE, "ALTER TABLE t MODIFY v VARCHAR(20)", "ALTER TABLE t RENAME COLUMN v TO vv"), [-1, -1, 3]),
    ((_CREATE, "ALTER TABLE t MODIFY v VARCHAR(20)", "ALTER TABLE t DROP v", "ALTER TABLE t ADD v TEXT AFTER id"),
     [0, 0, 3, 0]),
    (("CREATE TABLE t (id INT PRIMARY KEY, b BINARY(4))", "ALTER TABLE t MODIFY b BINARY(8)"), [0, 0]),
    (("CREATE TABLE t (id INT PRIMARY KEY, d DATETIME)", "ALTER TABLE t MODIFY d DATETIME(3)"), [0, 0]),
    (("CREATE TABLE t (id INT, k INT, PRIMARY KEY (id) NONCLUSTERED)", "ALTER TABLE t DROP PRIMARY KEY"), [0, 0]),
    ((_CREATE, "ALTER TABLE t DROP COLUMN c", "ALTER TABLE t ADD COLUMN c BIGINT", "ALTER TABLE t MODIFY c INT"),
     [0, 2, 3, 0]),
]  # fmt: skip


@each(("statements", "expected"), WITHOUT_TIME)
def test_types_say_which_version_a_row_without_commit_ts_has(statements: tuple[str, ...], expected: list[int]) -> None:
    made = versions([DdlText(n, "shop", text, TYPED) for n, text in enumerate(statements, 1)])
    finder = DefinitionsOfRecords(TableDefinitions(made), Options.of({}))
    for version, wanted in zip(made, expected, strict=True):
        record = compile_record(value_schema(version.table, Options.of({})), "")
        for _ in range(2):  # the second time it is known
            assert (finder.find(record, None)[0] or TableVersion(0, version.table)).commit_ts == wanted


def test_what_versions_say_alike_names_the_columns_of_a_row_without_commit_ts() -> None:
    """A length and a name changed, a column was dropped: the row's columns are known, its exact types are not."""
    texts = (_CREATE, "ALTER TABLE t MODIFY v VARCHAR(20)", "ALTER TABLE t RENAME COLUMN v TO vv, DROP COLUMN c")
    made = versions([DdlText(n, "shop", text, TYPED) for n, text in enumerate(texts, 1)])
    tables = TableDefinitions(made)
    record = compile_record(value_schema(made[0].table, Options.of({})), "")
    found = DefinitionsOfRecords(tables, Options.of({})).find(record, None)[0]
    assert found is not None
    assert found.known_commit_ts is None
    event = change(found.table, {"id": "1", "v": "a", "c": "2"})
    event.table_version = None
    TableView(made[-1].table).apply(event, tables)
    assert event.after == {"id": "1", "vv": "a", "c": "2"}  # what was dropped has no place in the typed row
