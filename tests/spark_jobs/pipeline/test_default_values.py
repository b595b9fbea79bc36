"""Defaults of columns: in schemas, and in rows that are older than their column."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.ticdc_bridge.cli.test_encode import row
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.ddl.executor.versions import DdlText, versions
from ticdc_bridge.schemas.ddl.parser.lexer import TYPED
from ticdc_bridge.schemas.formats.avro import schema as avro_schema
from ticdc_bridge.schemas.formats.avro.values import compile_record
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas, RegisteredSchema
from ticdc_bridge.schemas.inputs.table_definitions import TableDefinitions
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Column, Table, TableId
from ticdc_bridge.spark_jobs.lake.column_history import schema_changes
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.newest_columns import newest_table
from ticdc_bridge.spark_jobs.pipeline.table_view import TableView, default_of, original_default


def _column(text: str) -> Column:
    statement = DdlText(1, "d", f"CREATE TABLE t (id int primary key, c {text})", TYPED)
    (step,) = schema_changes([statement], TableId("d", "t"))
    assert step.after is not None
    return step.after.by_name["c"]


_VALUES: list[tuple[str, str | bytes]] = [
    ("decimal(65,30) DEFAULT 1.5", "1." + "5".ljust(30, "0")), ("decimal(40,3) DEFAULT 0", "0.000"),
    ("decimal(10,2) DEFAULT -1", "-1.00"), ("bit(9) DEFAULT b'101'", b"\0\5"), ("bit(3) DEFAULT b'101'", b"\5"),
    ("year DEFAULT 70", "1970"), ("year DEFAULT '5'", "2005"), ("year DEFAULT 0", "2000"),
    ("year DEFAULT '00'", "2000"), ("char(9) DEFAULT ' a '", " a"), ("varchar(9) DEFAULT ' a '", " a "),
    ("double DEFAULT 1e20", "1e+20"), ("float DEFAULT 0.00000001", "1e-08"), ("float DEFAULT 1.10", "1.1"),
    ("decimal(5,2) DEFAULT 1.005", "1.01"), ("decimal DEFAULT '.5'", "1"), ("decimal(5,2) DEFAULT -0.001", "0.00"),
    ("decimal(5,2) DEFAULT ' +1e-2 '", "0.01"), ("year DEFAULT 69.5", "1970"), ("year DEFAULT '2024.4'", "2024"),
    ("varchar(1) DEFAULT 'a  '", "a"), ("varchar(2) DEFAULT '   '", "  "), ("char DEFAULT 'a\t'", "a"),
    ("binary(4) DEFAULT x'c4e3'", b"\xef\xbf\xbd\xef"), ("varbinary(9) DEFAULT x'61ff'", b"a\xef\xbf\xbd"),
    ("bit(64) DEFAULT 5.4", b"\0\0\0\0\x005.4"), ("bit(8) DEFAULT 5e0", b"5"), ("char(9) DEFAULT -0.0", "0.0"),
    ("bigint DEFAULT 9007199254740993e0", "9007199254740992"), ("int DEFAULT '-0'", "0"), ("double DEFAULT -0.0", "0"),
    ("year NOT NULL", "0"), ("year DEFAULT '0000'", "0"), ("year DEFAULT 2024", "2024"), ("int DEFAULT 7", "7"),
]  # fmt: skip


def test_a_default_is_what_a_row_has_that_says_the_same() -> None:
    """As SELECT gave rows from before ALTER TABLE … ADD COLUMN on a real tidb-server (2025-11)."""
    for text, value in _VALUES:
        column = _column(text)
        assert default_of(column, "UTC") == value, text
        assert original_default(column) == (True, value), text


def test_a_default_that_no_definition_tells() -> None:
    """The time of a statement, or an expression: NULL with `--missing default`, never its name."""
    for text in ("datetime DEFAULT now()", "timestamp(3) DEFAULT current_timestamp(3)", "date DEFAULT (current_date)",
                 "datetime NOT NULL DEFAULT localtime", "varchar(40) DEFAULT (uuid())"):  # fmt: skip
        column = _column(text)
        assert default_of(column, "UTC") is default_of(column, "Asia/Shanghai") is None, text
        assert original_default(column) == (False, None), text
    assert default_of(_column("varchar(40) DEFAULT 'CURRENT_TIMESTAMP'"), "UTC") == "CURRENT_TIMESTAMP"
    for text in ("int DEFAULT (rand())", "blob DEFAULT (uuid())"):
        with pytest.raises(WireError, match="what TiCDC writes for it is not known"):
            avro_schema.value_schema(Table(TableId("d", "t"), (_column(text),)), Options())


_ADDED = "ALTER TABLE t ADD v "
_FIRST: list[tuple[list[str], str | None]] = [
    ([_ADDED + "INT DEFAULT 5", "ALTER TABLE t ALTER v SET DEFAULT 7"], "5"),
    ([_ADDED + "INT NOT NULL DEFAULT 5", "ALTER TABLE t ALTER v DROP DEFAULT"], "5"),
    ([_ADDED + "INT", "ALTER TABLE t ALTER v SET DEFAULT 7"], None),
    ([_ADDED + "INT DEFAULT 5", "ALTER TABLE t DROP v", _ADDED + "INT DEFAULT 7"], "7"),
    ([_ADDED + "DATE DEFAULT '2024-01-02'", "ALTER TABLE t MODIFY v DATETIME"], "2024-01-02 00:00:00"),
    ([_ADDED + "VARCHAR(9) DEFAULT 'x'", "ALTER TABLE t MODIFY v INT DEFAULT 3"], None),
    ([_ADDED + "DATETIME DEFAULT now()", "ALTER TABLE t MODIFY v DATETIME DEFAULT '2024-01-02'"], None),
    ([_ADDED + "INT NOT NULL", "ALTER TABLE t MODIFY v INT"], None),
    ([_ADDED + "DECIMAL(9,2) NOT NULL"], None),
    ([_ADDED + "ENUM('a','b') NOT NULL"], None),
    ([_ADDED + "DATETIME(2) NOT NULL", "ALTER TABLE t ALTER v SET DEFAULT '2024-01-02'"], None),
    ([_ADDED + "INT AS (id + 1) VIRTUAL NOT NULL"], None),
    (["DROP TABLE t", "CREATE TABLE t (id INT PRIMARY KEY, v INT DEFAULT 9)"], "9"),
]


_ZEROS = {
    "INT NOT NULL": "0", "DECIMAL(9,2) NOT NULL": "0.00", "ENUM('a','b') NOT NULL": "a",
    "DATETIME(2) NOT NULL": "0000-00-00 00:00:00.00",
}  # fmt: skip
"""What DDL tells of columns without a default; registered schemas do not."""


def test_older_rows_have_the_default_that_a_column_came_with() -> None:
    """From the DDL, and from what TiCDC registers of each version."""
    id_ = TableId("s", "t")
    for queries, value in _FIRST:
        texts = [DdlText(n, "s", q, TYPED) for n, q in enumerate(["CREATE TABLE t (id INT PRIMARY KEY)", *queries], 1)]
        made = versions(texts)
        old, tables = made[0].table, TableDefinitions(made)
        schemas = [avro_schema.value_schema(v.table, Options()) for v in made]
        registry = FileSchemas([RegisteredSchema("t-value", n, n, text) for n, text in enumerate(schemas, 1)])
        for config in (
            CodecConfig("open", FileSchemas([]), Options(), tables),
            CodecConfig("avro", registry, Options()),
        ):
            event = RowChange("open", old, "c", 1, None, {"id": "1"}, ("id",), "UTC", None, 1)
            newest = newest_table(config, id_, "default")
            assert newest_table(config, id_).by_name["v"].default == made[-1].table.by_name["v"].default
            TableView(newest, missing="default").apply(event, config.tables)
            wanted = _ZEROS.get(queries[0].removeprefix(_ADDED), value) if config.tables else value
            assert (event.after or {}).get("v") == wanted, (queries, config.format)


def test_years_in_avro_schemas() -> None:
    for text, default, filled in (
        ("year NOT NULL", 0, "0"), ("year DEFAULT '00'", 0, "0"), ("year DEFAULT 1999", 1999, "1999"),
        ("year DEFAULT 70", 70, "1970"),
    ):  # fmt: skip
        schema = avro_schema.value_schema(Table(TableId("d", "t"), (_column(text),)), Options())
        assert json.loads(schema)["fields"][0]["default"] == default, text
        assert default_of(compile_record(schema, "value").columns[0], "UTC") == filled


@pytest.mark.parametrize("to", ["craft", "debezium", "debezium-mysql", "open", "open-tiflow"])
def test_half_a_surrogate_pair_is_one_dead_letter(
    to: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """JSON has escapes for what no column holds: neither the job's end, nor another byte."""
    monkeypatch.chdir(tmp_path)
    ddl = {"commit_ts": 1, "db": "d", "query": "CREATE TABLE t (id int primary key, c text, y year NOT NULL)"}
    Path("ddl").write_text(json.dumps({**ddl, "typed": True}) + "\n")
    lines: list[Any] = [
        row(commit_ts=5 << 18, offset=n, after={"id": str(n), "c": text, "y": "0"})
        for n, text in enumerate(["a", "\ud800", "\udc80", "é"])
    ]
    Path("lines").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert main(["encode", "--to", to, "--in", "lines", "--out", "out", "--ddl", "ddl", "--topic", "t"]) == 1
    err = capsys.readouterr().err
    assert "encode: errors 2 (INVALID_VALUE 2)" in err
    assert "encode: out 2" in err
