r"""What a real TiDB made of statements, typed and as TiCDC sends them; its SHOW CREATE TABLE gives the same table.

Answers of tidb-server (2026-08, new collation on, default settings). Backslashes: TiDB's printer writes them twice in
literals that are expressions and once in everything else.
"""

from dataclasses import replace

import pytest

from tests.support.table import check_rows
from ticdc_bridge.schemas.ddl.executor.apply import apply
from ticdc_bridge.schemas.ddl.executor.catalog import new_catalog
from ticdc_bridge.schemas.ddl.executor.show_create import show_create
from ticdc_bridge.schemas.ddl.parser.lexer import SHOW, TYPED, WIRE, LexicalMode
from ticdc_bridge.schemas.ddl.parser.statement_parser import parse
from ticdc_bridge.schemas.model.errors import DdlError
from ticdc_bridge.schemas.model.table import Table, TableId

# definitions as typed, as TiCDC sends them ("" where it is the same text, None where it does not tell), as TiDB shows
COLUMNS = (
    ("DECIMAL(0,0)", "", "decimal(10,0) DEFAULT NULL"),
    ("NUMERIC(0) NOT NULL", "DECIMAL(0) NOT NULL", "decimal(10,0) NOT NULL"),
    ("DATE DEFAULT '2020-03-27 20:20:20 123456'", "DATE DEFAULT _UTF8MB4'2020-03-27 20:20:20 123456'",
     "date DEFAULT '2020-03-27'"),
    ("DATE DEFAULT '2020-10-10 20:20:20'", "", "date DEFAULT '2020-10-10'"),
    ("DATETIME DEFAULT '2020-05-28 23:59:59 00:00:00'", "", "datetime DEFAULT '2020-05-28 23:59:59'"),
    ("DATE DEFAULT 101", "", "date DEFAULT '2000-01-01'"),
    ("DATETIME(2) DEFAULT 6471228", "", "datetime(2) DEFAULT '0647-12-28 00:00:00.00'"),
    ("DATETIME(3) DEFAULT 691231235959", "", "datetime(3) DEFAULT '2069-12-31 23:59:59.000'"),
    ("DATETIME(2) DEFAULT '68021'", "", "datetime(2) DEFAULT '2068-02-01 00:00:00.00'"),
    ("DATE DEFAULT '2020--01-01'", "", "date DEFAULT '2020-01-01'"),
    ("DATE DEFAULT '20^12.1:00:1:23.'", "", "date DEFAULT '2020-12-01'"),
    ("DATETIME DEFAULT '1999-1-1-07'", "", "datetime DEFAULT '1999-01-01 07:00:00'"),
    ("DATETIME DEFAULT '2020:1-01:23:7'", "", "datetime DEFAULT '2020-01-01 23:07:00'"),
    ("DATETIME DEFAULT '70-12-10.1'", "", "datetime DEFAULT '1970-12-10 01:00:00'"),
    ("DATETIME DEFAULT '2020.01.1 1'", "", "datetime DEFAULT '2020-01-01 00:00:00'"),
    ("DATETIME DEFAULT '20170118.1234'", "", "datetime DEFAULT '2017-01-18 12:34:00'"),
    ("TIME DEFAULT '-1 10.5'", "", "time DEFAULT '-34:00:01'"),
    ("TIME(2) DEFAULT '34 7'", "", "time(2) DEFAULT '823:00:00.00'"),
    ("TIME(2) DEFAULT 1e5", "", "time(2) DEFAULT '10:00:00.00'"),
    ("TIME DEFAULT '2020-01-01 23:59:59.9'", "", "time DEFAULT '24:00:00'"),
    ("TIME(2) DEFAULT '2020-01.01  23'", "", "time(2) DEFAULT '00:00:00.00'"),
    ("CHAR(10) CHARSET gbk DEFAULT 0xC4E3BAC3", "CHAR(10) CHARACTER SET GBK DEFAULT x'c4e3bac3'",
     "char(10) CHARACTER SET gbk COLLATE gbk_chinese_ci DEFAULT '你好'"),
    ("VARCHAR(10) CHARSET gb18030 DEFAULT x'82308130C4E3'", "",
     "varchar(10) CHARACTER SET gb18030 COLLATE gb18030_chinese_ci DEFAULT '\u34a3你'"),
    ("VARCHAR(10) DEFAULT 0xE4BDA0", "VARCHAR(10) DEFAULT x'e4bda0'", "varchar(10) DEFAULT '你'"),
    ("ENUM('a', 0x91) CHARSET gbk", None, "enum('a','?') CHARACTER SET gbk COLLATE gbk_chinese_ci DEFAULT NULL"),
    ("ENUM('a', 0xE4BDA0E5A5BD) CHARSET gbk", None,
     "enum('a','浣犲ソ') CHARACTER SET gbk COLLATE gbk_chinese_ci DEFAULT NULL"),
    ("ENUM('a', 0xE4BDA0, b'01100010')", "ENUM('a','你','b')", "enum('a','你','b') DEFAULT NULL"),
    ("SET('a','b','c') CHARSET utf8mb4 COLLATE utf8mb4_bin DEFAULT 'a,b '",
     "SET('a','b','c') COLLATE utf8mb4_bin DEFAULT _UTF8MB4'a,b '", "set('a','b','c') DEFAULT 'a,b'"),
    ("SET('a','b') COLLATE utf8mb4_general_ci DEFAULT 'B ,A'", "",
     "set('a','b') COLLATE utf8mb4_general_ci DEFAULT 'a,b'"),
    ("ENUM('a','É') COLLATE utf8mb4_general_ci DEFAULT 'e '", "",
     "enum('a','É') COLLATE utf8mb4_general_ci DEFAULT 'É'"),
    ("VARCHAR(10) BINARY COLLATE utf8_general_ci", "",
     "varchar(10) CHARACTER SET utf8 COLLATE utf8_bin DEFAULT NULL"),
    ("VARCHAR(10) BINARY CHARSET utf8mb4 COLLATE utf8mb4_unicode_ci", "",
     "varchar(10) COLLATE utf8mb4_unicode_ci DEFAULT NULL"),
    (r"VARCHAR(20) DEFAULT 'it\'s \\n' COMMENT 'c:\\dir\\'",
     r"VARCHAR(20) DEFAULT _UTF8MB4'it''s \\n' COMMENT 'c:\\dir\\'",
     r"varchar(20) DEFAULT 'it''s \\n' COMMENT 'c:\\dir\\'"),
    (r"VARCHAR(20) DEFAULT '\\'", r"VARCHAR(20) DEFAULT _UTF8MB4'\\'", r"varchar(20) DEFAULT '\\'"),
    (r"VARCHAR(20) DEFAULT ('a\%' 'b\\')", r"VARCHAR(20) DEFAULT _UTF8MB4'a\\%b\\'", r"varchar(20) DEFAULT 'a\\%b\\'"),
    (r"VARCHAR(20) DEFAULT N'\_' COMMENT '\n\0'", "VARCHAR(20) DEFAULT _UTF8'\\\\_' COMMENT '\n\0'",
     r"varchar(20) DEFAULT '\\_' COMMENT '\n\0'"),
    (r"VARCHAR(20) DEFAULT '\\\\'", r"VARCHAR(20) DEFAULT _UTF8MB4'\\\\'", r"varchar(20) DEFAULT '\\\\'"),
    (r"ENUM('a\\','\\\\b') DEFAULT 'a\\'", r"ENUM('a\','\\b') DEFAULT _UTF8MB4'a\\'",
     r"enum('a\','\\b') DEFAULT 'a\\'"),
    (r"SET('x\\y','z') DEFAULT 'x\\y'", r"SET('x\y','z') DEFAULT _UTF8MB4'x\\y'", r"set('x\y','z') DEFAULT 'x\\y'"),
    (r"VARCHAR(20) AS (CONCAT(`k`, '\\c')) VIRTUAL",
     r"VARCHAR(20) GENERATED ALWAYS AS(CONCAT(`k`, _UTF8MB4'\\c')) VIRTUAL",
     r"varchar(20) GENERATED ALWAYS AS (concat(`k`, _utf8mb4'\\c')) VIRTUAL"),
    (r"VARCHAR(20) AS (REPLACE(`k`, '\\\\', 'it''s')) STORED",
     r"VARCHAR(20) GENERATED ALWAYS AS(REPLACE(`k`, _UTF8MB4'\\\\', _UTF8MB4'it''s')) STORED",
     r"varchar(20) GENERATED ALWAYS AS (replace(`k`, _utf8mb4'\\\\', _utf8mb4'it''s')) STORED"),
    (r"""JSON AS (`j`->'$."a\\b"')""", r"""JSON GENERATED ALWAYS AS(JSON_EXTRACT(`j`, _UTF8MB4'$."a\\b"')) VIRTUAL""",
     r"""json GENERATED ALWAYS AS (json_extract(`j`, _utf8mb4'$."a\\b"')) VIRTUAL"""),
)  # fmt: skip


def _table(text: str, mode: LexicalMode) -> Table:
    table = apply(new_catalog(), parse(text, mode, "test"), "test").table(TableId("test", "t"))
    assert table is not None
    return table


def test_columns_are_tidbs() -> None:
    def check(row: tuple[str, str | None, str]) -> None:
        typed, wire, shown = row
        create = "CREATE TABLE `t` (`k` VARCHAR(9),`j` JSON,`c` {})"
        made = _table(create.format(typed), TYPED)
        assert f"\n  `c` {shown}\n" in show_create(made)
        again = _table(show_create(made), SHOW)
        assert again == made
        if wire is not None:
            assert _table(create.format(wire or typed), WIRE) == made

    check_rows(COLUMNS, check)


# Texts that are no expressions have single backslashes on the wire; CHECK and partitions are read whatever they say.
TABLES = (
    (r"CREATE TABLE t (a INT, KEY i (a) COMMENT 'i\\') COMMENT 'end\\'",
     r"CREATE TABLE `t` (`a` INT,INDEX `i`(`a`) COMMENT 'i\') COMMENT = 'end\'", "end\\"),
    (r"CREATE TABLE t (a VARCHAR(9)) COMMENT 'x\\y' PARTITION BY LIST COLUMNS (a) "
     r"(PARTITION p VALUES IN ('\\') COMMENT 'p\\')",
     r"CREATE TABLE `t` (`a` VARCHAR(9)) COMMENT = 'x\y' PARTITION BY LIST COLUMNS (`a`) "
     r"(PARTITION `p` VALUES IN (_UTF8MB4'\\') COMMENT = 'p\')", "x\\y"),
    (r"CREATE TABLE t (a VARCHAR(9), CHECK (a <> '\\')) COMMENT '\\\\'",
     r"CREATE TABLE `t` (`a` VARCHAR(9),CHECK(`a`!=_UTF8MB4'\\') ENFORCED) COMMENT = '\\'", "\\\\"),
)  # fmt: skip


def test_comments_of_tables_have_single_backslashes_on_the_wire() -> None:
    def check(row: tuple[str, str, str]) -> None:
        typed, wire, comment = row
        assert _table(typed, TYPED) == _table(wire, WIRE)
        assert _table(wire, WIRE).comment == comment

    check_rows(TABLES, check)


# TiDB's SHOW CREATE TABLE of tables whose options show in their columns.
SHOWN = (
    ("CREATE TABLE t (a INT, b VARCHAR(10)) CHARSET=utf8 COLLATE=utf8_general_ci",
     "`b` varchar(10) COLLATE utf8_general_ci DEFAULT NULL"),
    ("CREATE TABLE t (b VARCHAR(10)) COLLATE=utf8mb4_bin", "`b` varchar(10) DEFAULT NULL"),
    ("CREATE TABLE t (b VARCHAR(10)) CHARSET=gbk", "`b` varchar(10) DEFAULT NULL"),
    ("CREATE TABLE t (b ENUM('a','É') BINARY DEFAULT 'e') COLLATE=utf8mb4_general_ci",
     "`b` enum('a','É') COLLATE utf8mb4_general_ci DEFAULT 'É'"),
    ("CREATE TABLE t (b TEXT NOT NULL DEFAULT '')", "`b` text NOT NULL"),
    ("CREATE TABLE t (b BLOB DEFAULT '')", "`b` blob DEFAULT ''"),
    ("CREATE TABLE t (b TINYTEXT NOT NULL DEFAULT '')", "`b` tinytext NOT NULL DEFAULT ''"),
    ("CREATE TABLE t (b JSON NOT NULL DEFAULT '')", "`b` json NOT NULL DEFAULT 'null'"),
    ("CREATE TABLE t (b TEXT DEFAULT (UUID()))", "`b` text DEFAULT (uuid())"),
    ("CREATE TABLE t (b DOUBLE(10,0) DEFAULT 1.5, c INT)", "`b` double DEFAULT '2',"),
    ("CREATE TABLE t (b FLOAT(7,2) DEFAULT '-0')", "`b` float(7,2) DEFAULT '-0'"),
    ("CREATE TABLE t (b YEAR NOT NULL)", "`b` year(4) NOT NULL"),
    ("CREATE TABLE t (b YEAR NOT NULL DEFAULT '0000')", "`b` year(4) NOT NULL DEFAULT '0000'"),
    ("CREATE TABLE t (b BIT(8) NOT NULL DEFAULT '')", "`b` bit(8) NOT NULL DEFAULT b''"),
    ("CREATE TABLE t (b BIT DEFAULT x'')", "`b` bit(1) DEFAULT b''"),
    ("CREATE TABLE t (b BINARY(2) DEFAULT x'ff')", "`b` binary(2) DEFAULT '\N{REPLACEMENT CHARACTER}\\0'"),
)  # fmt: skip


def test_show_create_table_is_tidbs() -> None:
    def check(row: tuple[str, str]) -> None:
        assert f"  {row[1]}\n" in show_create(_table(row[0], TYPED))

    check_rows(SHOWN, check)


_TO = "CONVERT TO CHARSET utf8mb4 COLLATE utf8mb4_general_ci"
_OTHER = "`b` varchar(9) COLLATE utf8mb4_general_ci DEFAULT NULL"
_OTHER_TEXT = "`c` text COLLATE utf8mb4_general_ci DEFAULT NULL"

# A table, what one ALTER TABLE does to it, and lines that TiDB shows then.
ALTERED = (
    ("a INT, b VARCHAR(9)", f"{_TO}, RENAME COLUMN b TO c", "`c` varchar(9) COLLATE utf8mb4_bin DEFAULT NULL"),
    ("a INT, b VARCHAR(9)", f"RENAME COLUMN b TO c, {_TO}", _OTHER.replace("b", "c", 1)),
    ("a INT, b VARCHAR(9)", f"{_TO}, MODIFY b VARCHAR(8)", "`b` varchar(8) COLLATE utf8mb4_bin DEFAULT NULL"),
    ("a INT, b VARCHAR(9)", f"MODIFY b VARCHAR(9), {_TO}, ADD c TEXT CHARSET utf8mb4", f"{_OTHER},\n  {_OTHER_TEXT}"),
    ("a INT", f"{_TO}, ADD c TEXT CHARSET utf8mb4", _OTHER_TEXT),
    ("a INT, b VARCHAR(9)", "CONVERT TO CHARSET utf8mb4, ADD c TEXT COLLATE utf8mb4_general_ci", _OTHER_TEXT),
    ("b VARCHAR(9)", "COLLATE utf8mb4_unicode_ci, COLLATE utf8mb4_bin",
     "`b` varchar(9) COLLATE utf8mb4_bin DEFAULT NULL"),  # the second says what the table had
    ("b VARCHAR(9)", f"{_TO}, COLLATE utf8mb4_bin, COLLATE utf8mb4_unicode_ci, ADD c TEXT",
     "`b` varchar(9) COLLATE utf8mb4_general_ci DEFAULT NULL,\n  " + _OTHER_TEXT),
    ("a BIT(3) DEFAULT 2", "ALTER a SET DEFAULT NULL", "`a` bit(3) DEFAULT b'10'"),
    ("a INT, b INT, KEY b (b)", "DROP b, DROP KEY b", "`a` int DEFAULT NULL"),
    ("a INT, b INT, KEY b (b)", "DROP b, RENAME KEY b TO c", "`a` int DEFAULT NULL"),
    ("a INT, b INT", "ADD CONSTRAINT x FOREIGN KEY (a) REFERENCES p (i), ADD FOREIGN KEY (b) REFERENCES p (i)",
     "KEY `x` (`a`),\n  KEY `fk_1` (`b`)"),
    ("a INT, b INT", "ADD (c INT, FOREIGN KEY (a) REFERENCES p (i)), ADD FOREIGN KEY (b) REFERENCES p (i)",
     "KEY `fk_1` (`a`),\n  KEY `fk_2` (`b`)"),
)  # fmt: skip


def test_clauses_of_one_statement_are_run_as_by_tidb() -> None:
    def check(row: tuple[str, str, str]) -> None:
        definitions, clauses, shown = row
        catalog = apply(new_catalog(), parse(f"CREATE TABLE t ({definitions})"), "test")
        table = apply(catalog, parse(f"ALTER TABLE t {clauses}"), "test").table(TableId("test", "t"))
        assert table is not None
        assert f"  {shown}\n" in show_create(table)
        assert table.details is not None
        names = [index.name for index in table.indexes]
        assert [key.name for key in table.details.foreign_keys] == (names if "FOREIGN" in clauses else [])

    check_rows(ALTERED, check)


def test_a_comma_begins_another_clause_of_options() -> None:
    catalog = apply(new_catalog(), parse("CREATE TABLE t (b TEXT) COLLATE utf8mb4_general_ci"), "test")
    catalog = apply(catalog, parse("ALTER TABLE t CHARSET utf8mb4, COLLATE utf8mb4_general_ci"), "test")
    assert [t.collate for t in catalog.described_tables()] == ["utf8mb4_bin"]  # the table had the second one's


def test_a_ttl_stands_behind_the_partitions() -> None:
    text = "CREATE TABLE `t` (`d` date) PARTITION BY KEY (`d`) PARTITIONS 2 /*T![ttl] TTL=`d` + INTERVAL 3 MONTH */"
    assert _table(f"{text} /*T![ttl] TTL_ENABLE='ON' */", SHOW).details is not None


# What changes no column, of newer TiDB or with an expression that need not be understood.
WITHOUT_EFFECT = r"""
ALTER TABLE t STORAGE_CLASS='STANDARD'
ALTER TABLE t STORAGE_CLASS = 'IA', COMMENT = ''
ALTER TABLE t PARTITION p0 STORAGE_CLASS='IA'
ALTER TABLE t ADD CHECK (b > @x)
ALTER TABLE t ADD CONSTRAINT c CHECK (b > @@session.tidb_mem_quota_query) NOT ENFORCED
ALTER TABLE t ADD CHECK (b != (SELECT 1))
ALTER TABLE t ADD CHECK (b IN (SELECT COUNT(*) OVER (PARTITION BY a) FROM u WHERE c = ')'))
ALTER TABLE t ORDER BY b * (SELECT 1) DESC, b
ALTER TABLE t ADD MASKING POLICY p ON (b) AS CASE WHEN CURRENT_ROLE() IN ('a', 'b') THEN b ELSE '*' END
ALTER TABLE t ADD MASKING POLICY p ON (b) AS b RESTRICT ON (INSERT_INTO_SELECT, CTAS) DISABLE
ALTER TABLE t ADD MASKING POLICY p ON (b) AS b RESTRICT ON NONE ENABLE
ALTER TABLE t ENABLE MASKING POLICY p
ALTER TABLE t DISABLE MASKING POLICY p
ALTER TABLE t MODIFY MASKING POLICY p SET EXPRESSION = MASK_FULL(b)
ALTER TABLE t MODIFY MASKING POLICY p SET RESTRICT ON (CTAS)
ALTER TABLE t DROP MASKING POLICY p
CREATE HYBRID INDEX i ON t(a, b) PARAMETER '{"inverted": {}}'
ALTER TABLE t ADD HYBRID INDEX h (a) COMMENT 'x'
CREATE MASKING POLICY IF NOT EXISTS p ON t(b) AS b
CREATE DEFINER=``@`` VIEW v AS SELECT a FROM t
CREATE ALGORITHM = UNDEFINED DEFINER = `` SQL SECURITY DEFINER VIEW `v` AS SELECT `a` FROM `t`
CREATE OR REPLACE DEFINER=''@'%' VIEW v2 (`a`) AS SELECT 1
"""


def test_these_change_no_column() -> None:
    before = "CREATE TABLE t (a INT, b INT) PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (9))"
    catalog = apply(new_catalog(), parse(before, db="test"), "test")
    table = catalog.table(TableId("test", "t"))

    def check(text: str) -> None:
        after = apply(catalog, parse(text, db="test"), "test").table(TableId("test", "t"))
        assert table is not None
        assert after is not None
        assert [replace(c, multiple_key=False) for c in after.columns] == list(table.columns)

    check_rows(WITHOUT_EFFECT.strip().split("\n"), check)


def test_columns_may_be_called_as_new_clauses_are() -> None:
    text = "ALTER TABLE t ADD masking INT, ADD COLUMN storage_class INT, MODIFY masking BIGINT, DROP masking"
    catalog = apply(new_catalog(), parse("CREATE TABLE t (a INT)"), "test")
    table = apply(catalog, parse(text), "test").table(TableId("test", "t"))
    assert table is not None
    assert [c.name for c in table.columns] == ["a", "storage_class"]


# What TiCDC's text does not tell, or no text in Python can hold, is an error and never another text.
LOST = (
    ("CREATE TABLE t (a ENUM('a','\ufffd'))", WIRE, "bytes that are lost"),
    (r"CREATE TABLE `t` (`a` enum('x\ny'))", SHOW, "does not tell"), (r"CREATE TABLE t (a SET('\0'))", SHOW, "tell"),
    ("CREATE TABLE t (a CHAR(10) CHARSET gbk DEFAULT 0x91)", TYPED, "no text in gbk"),
    ("CREATE TABLE t (a CHAR(10) CHARSET latin1 DEFAULT 0xE9)", TYPED, "no text in latin1"),
    ("CREATE TABLE t (a CHAR(10) DEFAULT 0xE9)", WIRE, "no text in utf8mb4"),
    ("CREATE TABLE t (a ENUM(0xE9) CHARSET latin1)", TYPED, "no text in latin1"),
    ("CREATE TABLE t (a DATE DEFAULT 0xFF)", TYPED, "no text"),
    ("CREATE TABLE t (a BIGINT DEFAULT (CURDATE()))", TYPED, "computes DEFAULT (CURRENT_DATE) of a once"),
    ("CREATE TABLE t (a TIME DEFAULT CURRENT_DATE)", TYPED, "computes"),
    ("CREATE TABLE t (a DECIMAL(0,2))", TYPED, "more digits after the point"),
    ("CREATE TABLE t (a SET('a','b') COLLATE utf8mb4_bin DEFAULT 'A')", TYPED, "not one of"),
    ("CREATE TABLE t (a SET('a') COLLATE utf8mb4_0900_bin DEFAULT 'a ')", TYPED, "not one of"),
    ("CREATE DEFINER = `a`", TYPED, "VIEW is expected"),
)  # fmt: skip


def test_what_can_not_be_known_is_an_error() -> None:
    def check(row: tuple[str, LexicalMode, str]) -> None:
        text, mode, words = row
        with pytest.raises(DdlError) as caught:
            _table(text, mode)
        assert words in caught.value.detail
        assert "codec" not in caught.value.detail

    check_rows(LOST, check)
