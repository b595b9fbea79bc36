"""Folders of Dumpling's: whose each file is, the TSO, the dialect that the files prove."""

import gzip
import json
import shlex
import shutil
import tracemalloc
from collections.abc import Callable
from contextlib import nullcontext
from io import BytesIO
from pathlib import Path

import pytest

from tests.support.dumps import BY_TIME, DUMPS, FOLDERS, WITHOUT_ROWS, ZONE, rows_of, write_dump
from tests.support.table import check_rows
from ticdc_bridge.schemas.columnar.dump_reader import TextForm
from ticdc_bridge.schemas.ddl.executor.versions import DdlText, versions
from ticdc_bridge.schemas.ddl.parser.lexer import SHOW
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.schemas.model.types import Kind
from ticdc_bridge.spark_jobs.io.object_paths import path_of
from ticdc_bridge.spark_jobs.lake.load import SourceError
from ticdc_bridge.spark_jobs.pipeline.table_choice import TableChoice
from ticdc_bridge.spark_jobs.snapshots.dump_dialect import FileHead, arrow_rows, dump_options, refuse_alike, text_form
from ticdc_bridge.spark_jobs.snapshots.dump_folder import Dump, read_dump
from ticdc_bridge.spark_jobs.snapshots.frames import DumpTable, opened
from ticdc_bridge.spark_jobs.snapshots.source import read_source
from ticdc_bridge.spark_jobs.snapshots.stage import Stages

NO_STAGES = Stages("", lambda _: Path())
UNPROVEN = ("csv-where", "snapshot", "snapshot-time")
"""Small dumps with backslashes in bytes alone, which may stand for themselves."""
OPTIONS = json.loads((DUMPS / "dumps.json").read_text())


def form_of(dump: Dump, options: str | None) -> TextForm:
    is_csv = any(table.kind == "csv" for table in dump.tables)
    return text_form(is_csv, (head for table in dump.tables for head in table.heads()), dump_options(options))


def test_texts_of_every_folder() -> None:
    """Every SQL and CSV dump: its rows are TiDB's, by the dialect that its files prove."""

    def check(name: str) -> None:
        dump = read_dump(str(DUMPS / name), BY_TIME if name == "snapshot-time" else None)
        form = form_of(dump, "" if name in UNPROVEN else None)
        for table in dump.tables:
            columns, found = table.columns, list[dict[str, object]]()
            for file in table.files:
                with opened(path_of(file)) as content:
                    for part in arrow_rows(content.read, columns, form):
                        values = (column.to_pylist() for column in part)
                        found += [
                            dict(zip([c.name for c in columns], row, strict=True)) for row in zip(*values, strict=True)
                        ]
            zone = "UTC" if name == "csv-utc" else ZONE
            expected = [{c.name: row[c.name] for c in columns} for row in rows_of(table.id.table, zone)]
            if name == "csv-where":
                expected = [row for row in expected if row["region"] == "eu"]
            assert sorted(found, key=repr) == sorted(expected, key=repr), table.id

    texts = [name for name in FOLDERS if name not in WITHOUT_ROWS and not name.startswith("parquet")]
    check_rows(texts, check)


def test_the_options_are_those_that_dumpling_was_given() -> None:
    def check(name: str) -> None:
        dump = read_dump(str(DUMPS / name))
        options = shlex.join(OPTIONS["options"][name])
        assert form_of(dump, None) == form_of(dump, options)

    check_rows(["csv-bigquery", "csv-snowflake", "csv-noescape", "csv-tabs-quote", "sql-noescape", "sql"], check)


def test_names_in_a_header_are_escaped() -> None:
    """As Dumpling does it with and without backslashes, or without quotes."""
    create = 'CREATE TABLE `t` (`a"b` int, `c\\d` int, `e,f` int, PRIMARY KEY (`a"b`))'
    columns = versions([DdlText(1, "d", create, SHOW)])[-1].table.columns
    heads = {
        (b'"a\\"b","c\\\\d","e,f"\r\n', b'"', True), (b'"a""b","c\\d","e,f"\r\n', b'"', False),
        (b'a"b,c\\\\d,e\\,f\r\n', b"", True),
    }  # fmt: skip
    for header, quote, escapes in heads:
        form = text_form(True, [FileHead("x", header + b"1,2,3\r\n", columns, True)], {"quote": quote})
        assert (form.quote, form.escapes, form.has_header) == (quote, escapes, True)
        (rows,) = arrow_rows(BytesIO(header + b"1,2,3\r\n").read, columns, form)
        assert [column.to_pylist() for column in rows] == [["1"], ["2"], ["3"]]


def test_heads_that_end_anywhere() -> None:
    """The first bytes of a longer file may end within anything."""

    def check(row: tuple[str, str]) -> None:
        folder, name = row
        dump = read_dump(str(DUMPS / folder))
        (head,) = (head for table in dump.tables for head in table.heads() if head.name == name)
        options = {name: value for name, value in dump_options("").items() if name in ("binary", "escapes", "null")}
        for end in range(90, len(head.data)):
            form = text_form(name.endswith("csv"), [head._replace(data=head.data[:end], is_complete=False)], options)
            assert form.quote == b'"'

    check_rows([("csv", "dmp.keyed.000000000.csv"), ("sql", "dmp.keyed.000000000.sql")], check)


def test_what_does_not_matter_is_not_asked_for() -> None:
    """Texts without a backslash, and no bytes: neither their escapes nor how bytes are written has to be known."""
    columns = [column for column in read_dump(str(DUMPS / "csv")).tables[0].columns if column.name != "k"]
    names = ",".join(f'"{column.name}"' for column in columns)
    line = ",".join("1" if column.type.kind is Kind.DECIMAL else '"2024-01-01"' for column in columns)
    head = FileHead("x", f"{names}\r\n{line}\r\n".encode(), columns, False)
    assert text_form(True, [head], {}) == TextForm(True, escapes=None)


def test_null_and_the_text_null() -> None:
    with pytest.raises(SetupError, match="look alike in note"):
        read_source(f"dumpling:{DUMPS / 'csv-pipes'}", TableChoice(), None, "UTC", {}, NO_STAGES)


ALIKE = [
    ("int", "--csv-null-value 0", "NULL and the value '0' look alike in c: dump again"),
    ("decimal(9,2)", "--csv-null-value -1.50 --csv-delimiter ''", "look alike"),
    ("date", "--csv-null-value 0000-00-00 --csv-delimiter ''", "look alike"),
    ("json", "--csv-null-value null --csv-delimiter ''", "look alike"),
    ("bit(16)", "--csv-delimiter '' --escape-backslash=false", "look alike"),
    ("enum('a','-')", "--csv-null-value - --csv-delimiter ''", "look alike"),
    ("set('a','b')", "--csv-null-value a,b --csv-delimiter ''", "look alike"),
    ("text", "--csv-null-value '\"\"'", "look alike"),
    ("int", "--csv-null-value ''", ""), ("json", "--csv-null-value NULL --csv-delimiter ''", ""),
    ("text", "--csv-null-value NULL", ""), ("text", "--csv-delimiter ''", ""), ("date", "--csv-delimiter ''", ""),
    ("int NOT NULL", "--csv-null-value 0", ""), ("enum('a')", "--csv-null-value - --csv-delimiter ''", ""),
    ("text NOT NULL", "--csv-delimiter '' --escape-backslash=false", "may hold what ends a row: c: dump again"),
    ("text NOT NULL", "--csv-delimiter '' --csv-line-terminator ';'", "may hold what ends a row"),
    ("int NOT NULL", "--csv-delimiter '' --escape-backslash=f", ""),
    ("text NOT NULL", "--csv-delimiter n", "a backslash and n stand for two signs"),
    ("text NOT NULL", "--csv-delimiter n --escape-backslash=0", ""),
]  # fmt: skip


def test_values_that_are_written_alike() -> None:
    def check(row: tuple[str, str, str]) -> None:
        kind, options, text = row
        columns = versions([DdlText(1, "d", f"CREATE TABLE `t` (`c` {kind})", SHOW)])[-1].table.columns
        form = TextForm(True, **dump_options(options))
        with pytest.raises(SetupError, match=text) if text else nullcontext():
            refuse_alike(form, columns, "d.t")

    check_rows(ALIKE, check)
    columns = versions([DdlText(1, "d", "CREATE TABLE `t` (`c` text)", SHOW)])[-1].table.columns
    with pytest.raises(SetupError, match="give the options that Dumpling ran with"):
        refuse_alike(TextForm(True, quote=b"", escapes=None), columns, "d.t")


def test_a_number_that_is_never_null() -> None:
    """It may look like NULL."""
    columns = versions([DdlText(1, "d", "CREATE TABLE `t` (`c` int NOT NULL)", SHOW)])[-1].table.columns
    ((values,),) = arrow_rows(BytesIO(b'"c"\r\n0\r\n').read, columns, TextForm(True, null=b"0"))
    assert values.to_pylist() == ["0"]


def test_elements_of_the_charset_binary() -> None:
    """Dumpling takes them for bytes, and writes these as its dialect says."""
    create = "CREATE TABLE `t` (`e` enum('a','b') CHARACTER SET binary, `s` set('x','y') CHARACTER SET binary)"
    columns = versions([DdlText(1, "d", create, SHOW)])[-1].table.columns
    for binary, lines in (("hex", b'"62","782c79"'), ("base64", b'"Yg==","eCx5"'), ("raw", b'"b","x,y"')):
        data = b'"e","s"\r\n' + lines + b'\r\n\\N,""\r\n'
        form = text_form(True, [FileHead("x", data, columns, False)], dump_options("") | {"binary": binary})
        assert text_form(True, [FileHead("x", data, columns, False)], {"escapes": True}).binary == binary
        (rows,) = arrow_rows(BytesIO(data).read, columns, form)
        assert [column.to_pylist() for column in rows] == [["b", None], ["x,y", ""]]


def test_signs_that_a_shell_left_as_they_are() -> None:
    """`--csv-separator '\\t'` is two signs for Dumpling, and a tab for who gives it to a load."""
    columns = versions([DdlText(1, "d", "CREATE TABLE `t` (`a` int, `b` int)", SHOW)])[-1].table.columns
    for separator in (b"\t", rb"\t"):
        head = FileHead("x", b'"a"' + separator + b'"b"\r\n1' + separator + b"2\r\n", columns, True)
        assert text_form(True, [head], dump_options("--csv-separator '\\t'")).separator == separator


def test_options_that_dumpling_does_not_know() -> None:
    """A mistake would stand for the default; others of its command line say nothing of texts."""
    for words, text in (
        ("--csv-nul-value ''", "--csv-nul-value is not"),
        ("--csv-delimiter '", "--dump-options: No closing"),
    ):
        with pytest.raises(SetupError, match=text):
            dump_options(words)
    assert dump_options("dumpling -h x --filetype csv --csv-null-value=") == dump_options("") | {"null": b""}


@pytest.mark.parametrize("kind", ["sql", "csv"])
def test_a_table_of_generated_columns_alone(tmp_path: Path, kind: str) -> None:
    """Dumpling writes rows without values: `()`, or empty lines. Other tables are read."""
    source = write_dump(tmp_path / "dump", 1 << 60, "CREATE TABLE `t` (`a` int AS (1) STORED)")
    write_dump(tmp_path / "dump", 1 << 60, "CREATE TABLE `u` (`id` int PRIMARY KEY)", table="u")
    texts = {"sql": ("()", "(1)"), "csv": ("", "1")}[kind]
    for name, text in zip("tu", texts, strict=True):
        head = {"sql": f"INSERT INTO `{name}` VALUES\n", "csv": '"id"\r\n' if name == "u" else ""}[kind]
        (tmp_path / "dump" / f"d.{name}.000000000.{kind}").write_text(head + text + {"sql": ";", "csv": "\r\n"}[kind])
    _, (t, u) = read_source(source, TableChoice(), None, "UTC", {}, NO_STAGES)
    assert [column.to_pylist() for part in u.read(u.chunks()[0]) for column in part] == [["1"]]
    with pytest.raises(SetupError, match="all its columns are generated"):
        t.losses()


@pytest.mark.parametrize("name", ["csv", "csv-gzip", "csv-zstd", "csv-snappy", "sql-gzip"])
def test_an_estimate(name: str) -> None:
    """A stream that inflates closes what it reads as soon as it goes."""
    (table,) = (table for table in read_dump(str(DUMPS / name)).tables if table.id.table == "keyed")
    table.form = TextForm(table.kind == "csv")
    assert (table.estimate().rows, table.estimate().size) == (4, sum(table.sizes))


def refused(folder: Path, at: int | None = None) -> str:
    with pytest.raises(SetupError) as caught:
        read_dump(str(folder), at)
    return caught.value.detail


def test_what_is_no_whole_dump(tmp_path: Path) -> None:
    assert "no file called metadata" in refused(tmp_path)
    assert "no such folder" in refused(tmp_path / "x")
    assert "UNIX_TIMESTAMP('2026-11-28 13:04:04.432')" in refused(DUMPS / "snapshot-time")
    assert "--at says 5" in refused(DUMPS / "csv", 5)
    assert "definition (DB.TABLE-schema.sql) is missing" in refused(DUMPS / "filter")


def test_what_is_not_one_dump(tmp_path: Path) -> None:
    """Rows of another dump, of a lake table, or of one file twice, would be the table's."""
    for name in ("sql", "parquet", "csv-gzip"):
        shutil.copytree(DUMPS / name, tmp_path / name)
    shutil.copytree(DUMPS / "sql", tmp_path / "sql" / "old")
    assert "old/metadata: another dump" in refused(tmp_path / "sql")
    (tmp_path / "sql" / "old" / "metadata").unlink()  # it was stopped
    assert "dmp.empty_one is there twice" in refused(tmp_path / "sql")
    packed = tmp_path / "csv-gzip" / "dmp.keyed.000000000.csv.gz"
    packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
    assert "dmp.keyed.000000000 is there twice" in refused(tmp_path / "csv-gzip")
    parquet = tmp_path / "parquet" / "dmp.keyed.000000000.snappy.parquet"
    shutil.copy(parquet, plain := tmp_path / "parquet" / "dmp.keyed.000000000.parquet")
    assert "dmp.keyed.000000000 is there twice" in refused(tmp_path / "parquet")
    plain.rename(plain.with_name("dmp.keyed.000000001.parquet"))
    parquet.rename(plain)
    (keyed,) = (table for table in read_dump(str(tmp_path / "parquet")).tables if table.id.table == "keyed")
    assert len(keyed.files) == 2, "what is not compressed has a number, and no suffix"
    lake = tmp_path / "parquet" / "dmp" / "keyed"
    (lake / "_delta_log").mkdir(parents=True)
    (lake / "_delta_log" / "0.json").touch()
    shutil.copy(plain, lake / "part-0.snappy.parquet")
    assert "_delta_log/0.json: another dump, or a table" in refused(tmp_path / "parquet")


def test_rows_in_a_file_of_an_unknown_kind(tmp_path: Path) -> None:
    """A table without them would be loaded; a file beside one that is read is none of the dump's."""
    shutil.copytree(DUMPS / "csv", tmp_path / "csv")
    file = tmp_path / "csv" / "dmp.keyed.000000000.csv"
    (beside := file.with_name(f"{file.name}.sha256")).touch()
    (tmp_path / "csv" / ".dmp.loose.000000001.csv.crc").touch()
    assert dict(read_dump(str(tmp_path / "csv")).skipped) == {"other files": 2}
    beside.unlink()
    for ending in (".csv.lz4", ".CSV", ".txt.gz"):
        file = file.rename(file.with_name(f"dmp.keyed.000000000{ending}"))
        assert f"dmp.keyed.000000000{ending}: rows by its name" in refused(tmp_path / "csv")


def test_names_of_a_template_that_fit_two_tables(tmp_path: Path) -> None:
    """The one whose names are most of the file's; where both are alike long, nothing proves whose it is."""
    for db, table in (("shop", "orders_items"), ("orders", "items"), ("shop_orders", "items")):
        write_dump(tmp_path / "dump", 1 << 60, f"CREATE TABLE `{table}` (`id` int)", db=db, table=table)
    (tmp_path / "dump" / "shop").mkdir()
    file = tmp_path / "dump" / "shop" / "orders_items-0.csv"
    file.write_text("1\r\n")
    dump = read_dump(str(tmp_path / "dump"))
    assert [str(table.id) for table in dump.tables if table.files] == ["shop.orders_items"]
    file.rename(tmp_path / "dump" / "shop_orders_items-0.csv")
    assert "shop_orders_items-0: whose rows these are is not known" in refused(tmp_path / "dump")


def test_views_and_sequences_are_skipped(tmp_path: Path) -> None:
    dump = read_dump(str(DUMPS / "no-data"))
    assert dict(dump.skipped) == {"views": 1, "sequences": 1}
    assert TableId("dmp", "v_keyed") not in {table.id for table in dump.tables}
    shutil.copytree(DUMPS / "csv", tmp_path / "csv")
    (tmp_path / "csv" / "README.txt").write_text("mine")
    (tmp_path / "csv" / "p-placement-policy-create.sql.gz").write_bytes(b"")
    assert dict(read_dump(str(tmp_path / "csv")).skipped) == {"other files": 1}


Damage = tuple[str, Callable[[bytes], bytes], str]
DAMAGES: list[Damage] = [
    ("csv-gzip/dmp.keyed.000000000.csv.gz", lambda data: data[:-5], "Truncated"),
    ("csv-zstd/dmp.keyed.000000000.csv.zst", lambda data: data[:9] + bytes(9) + data[18:], "decompress failed"),
    ("csv-snappy/dmp.keyed.000000000.csv.snappy", lambda data: data[:-5], "cut"),
    ("csv-gzip/dmp.keyed.000000000.csv.gz", lambda _: gzip.compress(bytes(_BOMB)), "ends within a row"),
    ("sql/dmp.keyed.000000000.sql", lambda data: data[:-9], "ends within a row"),
    ("sql/dmp.keyed.000000000.sql", lambda _: b"x" * (4 << 20), "byte 0 can't stand there"),
    ("csv/dmp.keyed.000000000.csv", lambda data: data[:-4], "ends within a row"),
    ("csv/dmp.keyed.000000000.csv", lambda _: b"", "no row"),
    ("csv/dmp.keyed.000000000.csv", lambda data: data[: data.index(b"\n") + 1], "no row"),
    ("parquet/dmp.keyed.000000000.snappy.parquet", lambda data: data.replace("ü".encode(), b"\xfc\xfc"), "UTF8"),
    ("sql-gzip/dmp.keyed-schema.sql.gz", lambda _: gzip.compress(bytes(_BOMB)), "is no definition"),
    ("sql/dmp.keyed-schema.sql", lambda _: b"CREATE TABLE `keyed` (", "keyed-schema.sql: "),
    ("sql/metadata", lambda _: b"\xff" * (20 << 20), "no TSO"),
    ("sql/metadata", lambda _: b"SHOW MASTER STATUS:\n\tLog: tidb-binlog\n\tPos: 0\n", "no TSO"),
    ("sql/metadata", lambda _: b"SHOW MASTER STATUS:\n\tLog: mysql-bin.01\n\tPos: 77\n", "mysql-bin.01, no TSO"),
    ("sql/metadata", lambda data: data[: data.index(b"Pos: ") + 12], "no TSO, or is cut"),
    ("sql/metadata", lambda data: data.replace(b"Pos: ", "Pos: ²".encode()), "no TSO"),
    ("sql/dmp.keyed.000000000.sql", lambda data: data.replace(b"`keyed`", b"`loose`"), "rows of table loose"),
    ("sql/metadata", lambda data: data + data.replace(b"Pos: 4", b"Pos: 5"), "several positions"),
]
_BOMB = 40 << 20


def read_all(folder: Path) -> None:
    _, tables = read_source(f"dumpling:{folder}", TableChoice.of(["dmp.keyed"]), None, "UTC", {}, NO_STAGES)
    assert isinstance(tables[0], DumpTable)
    for file in tables[0].files:
        for _ in tables[0].read(file):
            pass


def test_damaged_dumps(tmp_path: Path) -> None:
    """What is cut, damaged, endless or of another kind is refused, and takes no more memory than a block."""

    def check(row: Damage) -> None:
        name, damage, text = row
        folder = tmp_path / str(DAMAGES.index(row))
        shutil.copytree((DUMPS / name).parent, folder)
        path = folder / Path(name).name
        path.write_bytes(damage(path.read_bytes()))
        with pytest.raises((SetupError, SourceError)) as caught:
            read_all(folder)
        error = caught.value
        assert text in (error.detail if isinstance(error, SetupError) else str(error))

    tracemalloc.start()
    check_rows(DAMAGES, check, lambda row: f"{row[0]} {row[2]}")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < _BOMB * 4, "the test's own bomb is the largest"


def test_a_definition_with_backslashes(tmp_path: Path) -> None:
    """SHOW CREATE TABLE prints those of an ENUM's elements as they are."""
    create = "CREATE TABLE `t` (\n  `e` enum('x\\y','\\') NOT NULL COMMENT 'a\\\\b',\n  PRIMARY KEY (`e`)\n)"
    write_dump(tmp_path / "dump", 1 << 60, create, [["x"]])
    (table,) = read_dump(str(tmp_path / "dump")).tables
    assert table.table.by_name["e"].elements == ("x\\y", "\\")
