"""Each row of the type table has what a type needs: the parser's word, conversions, a Spark type, a cell per format."""

from collections.abc import Callable
from typing import Any

import pyarrow
import pytest

from tests.matrix.page import _CARRIERS, _VALUES, _cell, _columns
from tests.matrix.round_trip import FORMS, Passage, Tally
from tests.support.rows import ORIGIN, Tables, change, table
from tests.support.table import check_rows
from ticdc_bridge.schemas.ddl.executor.default_values import _CONVERSIONS
from ticdc_bridge.schemas.ddl.executor.versions import DdlText, versions
from ticdc_bridge.schemas.ddl.parser.lexer import LexicalMode
from ticdc_bridge.schemas.formats.format_table import WRITTEN
from ticdc_bridge.schemas.model.spark_types import EXACT, SparkTypes, python_value, spark_type
from ticdc_bridge.schemas.model.table import Column, Value
from ticdc_bridge.schemas.model.type_text import type_text
from ticdc_bridge.schemas.model.types import TYPES, Kind
from ticdc_bridge.spark_jobs.arrow.table_columns import arrow_type

pa: Any = pyarrow  # the stubs know less than the library
COLUMNS = _columns()  # of each row; of some also as UNSIGNED, with digits, or short


def test_every_row_is_looked_at() -> None:
    assert {column.type.name for _, column in COLUMNS} == {row.name for row in TYPES}
    assert set(WRITTEN) == set(_CARRIERS) == {form.partition("/")[0] for form in FORMS}


def value_of(column: Column) -> Value:
    """A value that the column can have."""
    if column.length == 1:
        return b"\1"
    assert column.type.kind in _VALUES, "tests/matrix/page.py has no value of this kind"
    value = _VALUES[column.type.kind]
    return str(value)[:-3] if column.type.kind is Kind.DATETIME and column.scale == 3 else value


def check_parser_word(column: Column) -> None:
    length = "" if column.length or column.type.name not in ("varchar", "varbinary") else "(9)"
    text = f"CREATE TABLE t (v {type_text(column)}{length})"
    [version] = versions([DdlText(1, "d", text, LexicalMode.of_sql_mode(""))])
    assert version.table.columns[0].type is column.type


def check_conversions(column: Column) -> None:
    assert column.type.kind in _CONVERSIONS, "ddl/executor/default_values.py does not read its DEFAULT"
    found = pa.array(
        [python_value(column, value_of(column))], arrow_type(column)
    )  # the Arrow type is by the Spark type
    assert found.null_count == 0


def check_spark_type(column: Column) -> None:
    for types in (EXACT, SparkTypes("typed", "interval")):
        assert spark_type(column, types)
    assert arrow_type(column)  # KeyError: spark_jobs/arrow/arrow_types.py does not know it


def check_formats(column: Column) -> None:
    """In the matrix, and by a value that comes back or whose loss has a row of inspect/losses.py."""
    tables, value, tally = Tables(table(column)), value_of(column), Tally()
    for form in WRITTEN:
        assert _cell(form, column), form
    for form in FORMS:
        Passage(form, "UTC", tables).check(change(table(column), {"v": value}), ORIGIN, tally)
    assert tally.unexplained == []
    assert tally.same


@pytest.mark.parametrize("check", [check_parser_word, check_conversions, check_spark_type, check_formats])
def test_a_type_is_complete(check: Callable[[Column], None]) -> None:
    """A new row fails here by its name until everything that DESIGN.md's recipe lists is there."""
    check_rows(COLUMNS, lambda row: check(row[1]), name=lambda row: row[0])
