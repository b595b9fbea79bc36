"""Rows of dumps in SQL and CSV: what was written comes back, however the file is cut into blocks."""

import io
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.table import check_rows
from ticdc_bridge.schemas.columnar import dump_reader
from ticdc_bridge.schemas.columnar.dump_reader import DumpTextError, TextColumn, TextForm, dump_rows
from ticdc_bridge.schemas.ddl.executor.versions import versions
from ticdc_bridge.schemas.inputs.sql_files import sql_statements
from ticdc_bridge.schemas.model.table import Column

COLUMNS = versions(sql_statements("CREATE TABLE d.t (n BIGINT, s VARCHAR(99), b VARBINARY(99), e TEXT)"))[
    -1
].table.columns
CSV = [
    TextForm(True), TextForm(True, b"\t", b"'", b"\n", b""), TextForm(True, b"|+|", b'"', b"\n", b"NULL", False),
    TextForm(True, b",", b"~~", b"\r\n"), TextForm(True, b";", b"", b"\n", b"\\N"),
]  # fmt: skip
Row = tuple[int | None, str | None, bytes | None, str | None]
texts = st.text(st.characters(codec="utf-8"), max_size=12) | st.text("\\'\"\r\n\0,;|+~NULL\x1a\t", max_size=8)
rows = st.lists(
    st.tuples(
        st.none() | st.integers(-(1 << 63), (1 << 63) - 1), st.none() | texts, st.none() | st.binary(max_size=8),
        st.none() | texts,
    ), max_size=5,
)  # fmt: skip


def sql_text(rows: Sequence[Row], escapes: bool) -> bytes:
    """As Dumpling writes it (upstream `dumpling/export/sql_type.go`)."""

    def quoted(text: str) -> str:
        if not escapes:
            return "'" + text.replace("'", "''") + "'"
        for sign, word in (
            ("\\", "\\\\"),
            ("\0", "\\0"),
            ("\n", "\\n"),
            ("\r", "\\r"),
            ("'", "\\'"),
            ('"', '\\"'),
            ("\x1a", "\\Z"),
        ):
            text = text.replace(sign, word)
        return f"'{text}'"

    def cell(value: Any) -> str:
        if value is None:
            return "NULL"
        return (
            f"x'{value.hex()}'" if isinstance(value, bytes) else quoted(value) if isinstance(value, str) else str(value)
        )

    lines = ["(" + ",".join(map(cell, row)) + ")" for row in rows]
    statements = "".join(f"INSERT INTO `t` VALUES\n{line};\n" for line in (",\n".join(lines[:2]), *lines[2:]) if line)
    return b"/*!40101 SET NAMES binary*/;\n" + statements.encode()


def csv_text(rows: Sequence[Row], dialect: TextForm, escapes: bool) -> bytes:
    quote, sign = dialect.quote, (dialect.quote or dialect.separator)[:1]

    def quoted(data: bytes) -> bytes:
        if escapes:
            for byte, word in (
                (b"\\", b"\\\\"),
                (b"\0", b"\\0"),
                (b"\n", b"\\n"),
                (b"\r", b"\\r"),
                (sign, b"\\" + sign),
            ):
                data = data.replace(byte, word)
        else:
            data = data.replace(quote, quote * 2)
        return quote + data + quote

    def cell(value: Any) -> bytes:
        if value is None or isinstance(value, int):
            return dialect.null if value is None else str(value).encode()
        return quoted(value.encode() if isinstance(value, str) else value)

    head = [dialect.separator.join(quote + c.name.encode() + quote for c in COLUMNS)] if dialect.has_header else []
    return b"".join(
        line + dialect.terminator for line in (*head, *(dialect.separator.join(map(cell, r)) for r in rows))
    )


def read(lines: Any) -> list[Row]:
    return [row for part in lines for row in zip(*map(values, part, COLUMNS), strict=True)]


def values(column: TextColumn, of: Column) -> list[Any]:
    ends = zip(column.offsets[:-1], column.offsets[1:], column.valid, strict=True)
    found = [column.data[start:end].tobytes() if valid else None for start, end, valid in ends]
    return found if of.name == "b" else [None if data is None else data.decode() for data in found]


def expected(rows: Sequence[Row]) -> list[Any]:
    return [(None if n is None else str(n), s, b, e) for n, s, b, e in rows]


@settings(deadline=None)  # kernels are compiled at the first one
@given(rows, st.booleans(), st.integers(1, 40))
def test_sql_comes_back(rows: list[Row], escapes: bool, block: int) -> None:
    file = io.BytesIO(sql_text(rows, escapes))
    assert read(dump_rows(lambda _: file.read(block), COLUMNS, TextForm(escapes=escapes))) == expected(rows)


@settings(deadline=None)
@given(rows, st.sampled_from(CSV), st.booleans(), st.integers(1, 40))
def test_csv_comes_back(rows: list[Row], dialect: TextForm, escapes: bool, block: int) -> None:
    escapes = escapes or len(dialect.quote) != 1  # what else is written can't be read back
    file = io.BytesIO(csv_text(rows, dialect, escapes))
    assert read(dump_rows(lambda _: file.read(block), COLUMNS, replace(dialect, escapes=escapes))) == expected(rows)


SAMPLE: list[Row] = [(1, "a'b\"\\", b"\x00\xff", None), (None, "", b"", "é\n"), (-5, None, None, "x")]


@pytest.mark.parametrize("kind", ["sql", "csv"])
def test_a_cut_file(kind: str) -> None:
    """Cut anywhere: the rows before, and that it is cut, or (at the end of a row) the rows alone."""
    data = sql_text(SAMPLE, True) if kind == "sql" else csv_text(SAMPLE, TextForm(True), True)
    for end in range(len(data)):
        file, found = io.BytesIO(data[:end]), list[Row]()
        try:
            for part in dump_rows(file.read, COLUMNS, TextForm(kind == "csv")):
                found += read([part])
        except DumpTextError:
            pass
        assert expected(SAMPLE)[: len(found)] == found
        assert kind == "sql" or len(found) < 3


def test_a_cut_number() -> None:
    """What is left of a number that nothing ends is a number, too."""
    *_, number = versions(sql_statements("CREATE TABLE d.t (n BIGINT)"))[-1].table.columns
    for data in (b'"n"\r\n1\r\n234', b'"n"\r\n1\r\n234\r'):
        with pytest.raises(DumpTextError, match="cut"):
            [*dump_rows(io.BytesIO(data).read, [number], TextForm(True))]


@pytest.mark.parametrize("null", [b"\\\\N", b"\\0", b"nil"])
def test_a_null_of_other_options(null: bytes) -> None:
    """Where texts have quotes, it is none: `--csv-null-value '\\\\N'` has two backslashes for Dumpling."""
    data = csv_text([(1, "a", b"b", None)], TextForm(True, null=null), True)
    with pytest.raises(DumpTextError, match="column e: the value"):
        read(dump_rows(io.BytesIO(data).read, COLUMNS, TextForm(True)))


REFUSED: list[tuple[bytes, str]] = [
    (b"INSERT INTO `t` VALUES\n(1,'')\n;", "byte 28"),
    (b"INSERT INTO `t` VALUES (1,'\\q',NULL,NULL);", "column s"),
    (b"INSERT INTO `t` VALUES (1,'',x'0g',NULL);", "column b"),
    (b"INSERT INTO `t` VALUES (1,abc,NULL,NULL);", "column s"),
    (b"INSERT INTO `t` (`n`,`x`) VALUES (1,2);", "not those"),
    (b"UPDATE t SET n = 1;", "cut"),
]


def test_what_is_refused() -> None:
    def refused(row: tuple[bytes, str]) -> None:
        with pytest.raises(DumpTextError, match=row[1]):
            read(dump_rows(io.BytesIO(row[0]).read, COLUMNS, TextForm()))

    check_rows(REFUSED, refused)


def test_a_row_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dump_reader, "_MOST", 100)
    with pytest.raises(DumpTextError, match="more than 100 bytes"):
        read(dump_rows(lambda _: b"x" * 50, COLUMNS, TextForm()))
