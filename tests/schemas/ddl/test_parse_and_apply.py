"""The parser and apply on statements of our own: what the histories do not have, and what must be refused."""

from itertools import product

import pytest

from tests.support.each import each
from ticdc_bridge.schemas.ddl.executor.apply import apply
from ticdc_bridge.schemas.ddl.executor.catalog import Catalog, new_catalog
from ticdc_bridge.schemas.ddl.executor.show_create import key_name, show_create
from ticdc_bridge.schemas.ddl.parser.lexer import MAX_LENGTH, SHOW, TYPED, WIRE, LexicalMode
from ticdc_bridge.schemas.ddl.parser.statement_parser import parse
from ticdc_bridge.schemas.formats.avro.schema import value_schema
from ticdc_bridge.schemas.model.errors import DdlError, WireError
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Column, Table, TableId
from ticdc_bridge.schemas.model.type_text import default_text, type_text


def after(*statements: str, mode: LexicalMode = TYPED) -> Catalog:
    catalog = new_catalog()
    for statement in statements:
        catalog = apply(catalog, parse(statement, mode, "test"), "test")
    return catalog


def table(*statements: str, name: str = "t", mode: LexicalMode = TYPED) -> Table:
    found = after(*statements, mode=mode).table(TableId("test", name))
    assert found is not None
    return found


def column(definition: str, mode: LexicalMode = TYPED) -> Column:
    return table(f"CREATE TABLE t (c {definition})", mode=mode).columns[0]


def names(found: Table) -> list[str]:
    return [c.name for c in found.columns]


# ---- lexical modes
def test_a_backslash_is_a_character_on_the_wire_and_an_escape_when_typed() -> None:
    text = r"VARCHAR(9) DEFAULT 'a\\b' COMMENT 'x\ny'"
    assert (column(text, WIRE).default, column(text, WIRE).comment) == (r"a\b", r"x\ny")
    assert (column(text, TYPED).default, column(text, TYPED).comment) == ("a\\b", "x\ny")
    assert column(text, LexicalMode.of_sql_mode("NO_BACKSLASH_ESCAPES")).default == r"a\\b"


@each(("statements", "keys"), [
    (["CREATE TABLE t (id SERIAL PRIMARY KEY)"], ["PRIMARY KEY", "UNIQUE KEY `id`"]),
    (["CREATE TABLE t (id BIGINT UNIQUE PRIMARY KEY)"], ["PRIMARY KEY", "UNIQUE KEY `id`"]),
    (["CREATE TABLE t (id BIGINT PRIMARY KEY UNIQUE)"], ["PRIMARY KEY", "UNIQUE KEY `id_2`"]),
    (["CREATE TABLE t (id INT, x INT, UNIQUE KEY u (x), PRIMARY KEY (id))"], ["PRIMARY KEY", "UNIQUE KEY `u`"]),
    (["CREATE TABLE t (id CHAR(9), x INT, UNIQUE KEY u (x), PRIMARY KEY (id))"], ["UNIQUE KEY `u`", "PRIMARY KEY"]),
    (["CREATE TABLE t (id INT, x INT, KEY k (x), PRIMARY KEY (id, x))"], ["KEY `k`", "PRIMARY KEY"]),
    (["CREATE TABLE t (id INT, x INT, KEY k (x), PRIMARY KEY (id) NONCLUSTERED)"], ["KEY `k`", "PRIMARY KEY"]),
    (["CREATE TABLE t (id INT NOT NULL, x INT, KEY k (x))", "ALTER TABLE t ADD PRIMARY KEY (id)"],
     ["KEY `k`", "PRIMARY KEY"]),
    (["CREATE TABLE t (id INT, KEY k (id))", "ALTER TABLE t ADD FOREIGN KEY (id) REFERENCES p (id)"], ["KEY `k`"]),
    (["CREATE TABLE t (id INT)", "ALTER TABLE t ADD KEY k (id), ADD FOREIGN KEY (id) REFERENCES p (id)"],
     ["KEY `k`", "KEY `fk_1`"]),
    (["CREATE TABLE t (a INT, b INT, CONSTRAINT x FOREIGN KEY (a) REFERENCES p(id), FOREIGN KEY (b) REFERENCES p(id))",
      "ALTER TABLE t DROP FOREIGN KEY x, ADD c INT", "ALTER TABLE t ADD FOREIGN KEY (c) REFERENCES p (id)",
      "ALTER TABLE t DROP FOREIGN KEY fk_3", "ALTER TABLE t DROP INDEX fk_3"],
     ["KEY `x`", "KEY `fk_2`"]),
    (["CREATE TABLE t (a INT, b INT, CONSTRAINT x FOREIGN KEY (a) REFERENCES p (id))",
      "ALTER TABLE t ADD FOREIGN KEY (b) REFERENCES p (id)"], ["KEY `x`", "KEY `fk_2`"]),
])  # fmt: skip
def test_keys_stand_and_are_called_as_in_tidb(statements: list[str], keys: list[str]) -> None:
    catalog = new_catalog()
    for sql in ("CREATE DATABASE d", "CREATE TABLE p (id INT PRIMARY KEY)", *statements):
        catalog = apply(catalog, parse(sql, TYPED, "d"), "d")
    table = catalog.table(TableId("d", "t"))
    assert table is not None
    assert [key_name(index) for index in table.indexes] == keys


def test_a_default_that_tidb_computes_once_is_not_known() -> None:
    catalog = apply(new_catalog(), parse("CREATE DATABASE d", TYPED, "d"), "d")
    catalog = apply(catalog, parse("CREATE TABLE t (a CHAR(40), b DATETIME DEFAULT CURDATE())", TYPED, "d"), "d")
    table = catalog.table(TableId("d", "t"))
    assert table is not None
    assert "`b` datetime DEFAULT (CURRENT_DATE)" in show_create(table)
    for brackets, mode in product((2, 3), (TYPED, WIRE)):
        sql = f"ALTER TABLE t ALTER COLUMN a SET DEFAULT {'(' * brackets}uuid(){')' * brackets}"
        with pytest.raises(DdlError, match="SHOW CREATE TABLE"):
            apply(catalog, parse(sql, mode, "d"), "d")
        apply(catalog, parse(sql.replace("uuid()", "1"), mode, "d"), "d")


def test_show_create_escapes_defaults_but_not_elements() -> None:
    found = column(r"enum('a\','b') DEFAULT 'a\\' COMMENT 'c:\\'", SHOW)
    assert (found.elements, found.default, found.comment) == (("a\\", "b"), "a\\", "c:\\")


@each(
    ("typed", "value"),
    [(r"'\0\b\n\r\t\Z'", "\0\b\n\r\t\x1a"), (r"'\%\_\q'", r"\%\_q"), ("'it''s'", "it's"), (r"'\'''\''", "'''"),
     ('"say ""x"""', 'say "x"'), ("'a' 'b'\n'c'", "abc"), ("_utf8mb4'x'", "x"), ("N'x'", "x"), ("x'4142'", "AB"),
     ("''", "")],
)  # fmt: skip
def test_texts(typed: str, value: str) -> None:
    assert column(f"VARCHAR(20) DEFAULT {typed}").default == value


def test_sql_mode_changes_quotes_and_real() -> None:
    ansi = LexicalMode.of_sql_mode("STRICT_TRANS_TABLES, ansi_quotes,REAL_AS_FLOAT")
    found = table('CREATE TABLE "t" ("a b" REAL)', mode=ansi)
    assert (names(found), type_text(found.columns[0])) == (["a b"], "float")
    assert type_text(column("REAL")) == "double"


def test_executable_comments_are_read_and_others_are_not() -> None:
    sql = """CREATE TABLE t ( -- a comment
        a BIGINT /*T![auto_rand] AUTO_RANDOM(5) */ PRIMARY KEY /*T![clustered_index] CLUSTERED */, # another
        /*!40101 b INT, */ /* c INT, */ d INT /*T! COMMENT 'x' */
    ) /*!90000 DEFAULT CHARSET=latin1 */"""
    found = table(sql)
    assert names(found) == ["a", "b", "d"]
    assert (found.by_name["d"].comment, found.charset) == ("x", "latin1")


# ---- what is refused, and where
@each(
    ("sql", "line", "column", "expected"),
    [
        ("CREATE TABLE t (a INT,\n b INT FROBNICATE)", 2, 8, ")"),
        ("CREATE TABLE t (a INT) FROB=1", 1, 24, "the end of the statement"),
        ("CREATE TABLE t (a)", 1, 18, "a column's type"), ("CREATE TABLE t (a ENUM)", 1, 23, "("),
        ("ALTER TABLE t FROB", 1, 15, "a clause of ALTER TABLE"),
        ("ALTER TABLE t ADD COLUMN a INT SIDEWAYS", 1, 32, "the end of the statement"),
        ("ALTER TABLE t ADD INDEX i (a) FASTER", 1, 31, "the end of the statement"),
        ("DROP TABLE", 1, 11, "a table's name"), ("RENAME TABLE a b", 1, 16, "TO"),
        ("SELECT 1", 1, 1, "a DDL statement"), ("", 1, 1, "a DDL statement"),
        ("CREATE TABLE t (a INT DEFAULT 'x)", 1, 31, "a text is not closed"),
        ("CREATE TABLE t (a INT) /* x", 1, 24, "a comment is not closed"),
        ("CREATE TABLE t (a INT) /*T! x", 1, 30, "not closed"),
        ("CREATE TABLE t (a INT) */", 1, 24, "closes no comment"),
        ("CREATE TABLE t (a INT); DROP TABLE t", 1, 25, "the end of the statement"),
        ("CREATE TABLE t (a INT) PARTITION BY MAGIC (a)", 1, 37, "HASH"), ("CREATE UNICORN x", 1, 8, "TABLE"),
        ("ALTER TABLE t ADD COLUMN `a INT", 1, 26, "'`' can't be here"),
        ("CREATE TABLE t (a FUTURISTIC)", 1, 19, "a column's type"),
    ],
)  # fmt: skip
def test_refusals_say_where_and_what(sql: str, line: int, column: int, expected: str) -> None:
    with pytest.raises(DdlError) as caught:
        parse(sql)
    assert caught.value.code == "DDL_SYNTAX"
    assert caught.value.detail.startswith(f"line {line}, column {column}: ")
    assert expected in caught.value.detail


def test_nesting_and_length_are_bounded() -> None:
    for deep in ("(" * 5000, "NOT " * 5000, "-" * 1 + "-1" * 5000, "CASE WHEN " * 5000):
        with pytest.raises(DdlError):
            parse(f"CREATE TABLE t (a INT AS ({deep}")
    with pytest.raises(DdlError) as caught:
        parse("x" * (MAX_LENGTH + 1))
    assert caught.value.code == "DDL_TOO_LONG"


# ---- columns
@each(
    ("written", "shown"),
    [
        ("INT(5)", "int"), ("INT(5) ZEROFILL", "int(5) unsigned zerofill"), ("TINYINT(1)", "tinyint(1)"),
        ("BOOLEAN", "tinyint(1)"), ("INT8 UNSIGNED", "bigint unsigned"), ("MIDDLEINT", "mediumint"),
        ("FLOAT(24)", "float"), ("FLOAT(25)", "double"), ("DOUBLE PRECISION", "double"), ("DEC", "decimal(10,0)"),
        ("FIXED(5,2) UNSIGNED", "decimal(5,2) unsigned"), ("BIT", "bit(1)"), ("YEAR", "year(4)"),
        ("NATIONAL CHARACTER VARYING(5)", "varchar(5)"), ("NCHAR(2)", "char(2)"), ("CHAR", "char(1)"),
        ("LONG VARBINARY", "mediumblob"), ("LONG", "mediumtext"), ("TEXT(63)", "tinytext"), ("TEXT(64)", "text"),
        ("BLOB(255)", "tinyblob"), ("BLOB(65536)", "mediumblob"), ("VARCHAR(10) CHARSET binary", "varbinary(10)"),
        ("TEXT CHARACTER SET binary", "blob"), ("ENUM('a ','b''c')", "enum('a','b''c')"), ("DATETIME(0)", "datetime"),
        ("TIME(3)", "time(3)"), ("VECTOR<FLOAT>(3)", "vector(3)"), ("SERIAL", "bigint unsigned"),
        ("TEXT CHARSET latin1", "text"), ("VARCHAR(20000)", "mediumtext"),
    ],
)  # fmt: skip
def test_types_as_show_create_writes_them(written: str, shown: str) -> None:
    assert type_text(column(written)) == shown


@each(
    ("definition", "default"),
    [
        ("INT DEFAULT '7'", "7"), ("INT DEFAULT 1.5", "2"), ("INT DEFAULT -0", "0"), ("INT DEFAULT TRUE", "1"),
        ("INT DEFAULT 0x10", "16"), ("INT DEFAULT b'11'", "3"), ("BIGINT UNSIGNED DEFAULT 18446744073709551615",
        "18446744073709551615"),
        ("FLOAT DEFAULT 2020.23333", "2020.2333"), ("FLOAT DEFAULT 600.0", "600"), ("DOUBLE DEFAULT 1e3", "1000"),
        ("DOUBLE DEFAULT 1e20", "1" + "0" * 20), ("DOUBLE(60,30) DEFAULT 1.5", "1.5000000000000002"),
        ("DOUBLE(5,1) DEFAULT 1.25", "1.2"), ("FLOAT(7,2) DEFAULT '1.005'", "1"), ("INT DEFAULT 2.5e0", "2"),
        ("INT DEFAULT 2.5", "3"), ("INT DEFAULT '2.5e0'", "3"),
        ("DECIMAL(5,2) DEFAULT 3", "3"), ("DECIMAL(5,2) DEFAULT .50", "0.50"),
        ("DECIMAL(5,2) DEFAULT '12.678'", "12.678"), ("BIT(8) DEFAULT b'101'", "b'101'"), ("BIT(4) DEFAULT 5",
        "b'101'"),
        ("VARCHAR(5) DEFAULT 5", "5"), ("VARCHAR(5) DEFAULT ''", ""), ("VARCHAR(5) DEFAULT (UPPER('x'))",
        "upper(_utf8mb4'x')"),
        ("BINARY(4) DEFAULT 'ab'", "ab\0\0"), ("ENUM('a','b') DEFAULT 2", "b"), ("SET('x','y','z') DEFAULT 'z,x'",
        "x,z"),
        ("SET('x','y','z') DEFAULT 5", "x,z"), ("DATE DEFAULT '2020-1-2'", "2020-01-02"), ("DATE DEFAULT 20200102",
        "2020-01-02"),
        ("DATETIME(1) DEFAULT '2020-01-02 03:04:05.67'", "2020-01-02 03:04:05.7"),
        ("DATETIME DEFAULT '2020-12-31 23:59:59.9'", "2021-01-01 00:00:00"), ("DATETIME DEFAULT '99-1-1'",
        "1999-01-01 00:00:00"),
        ("TIMESTAMP DEFAULT '0000-00-00 00:00:00'", "0000-00-00 00:00:00"), ("TIME DEFAULT '-838:59:59'", "-838:59:59"),
        ("DATE DEFAULT '00-00-00'", "0000-00-00"), ("DATE DEFAULT '00-1-1'", "2000-01-01"),
        ("DATETIME DEFAULT '2024-01-02 03-04-05'", "2024-01-02 03:04:05"),
        ("TIME DEFAULT 101112", "10:11:12"), ("TIME(1) DEFAULT '1 2:3:4.56'", "26:03:04.6"), ("YEAR DEFAULT 1", "1"),
        ("TIMESTAMP(6) DEFAULT NOW(6) ON UPDATE NOW(6)", "CURRENT_TIMESTAMP"), ("DATE DEFAULT (CURDATE())",
        "CURRENT_DATE"),
        ("BIGINT DEFAULT NEXT VALUE FOR s", "nextval(`test`.`s`)"), ("INT DEFAULT NULL", None), ("INT", None),
        ("JSON DEFAULT (JSON_ARRAY())", "json_array()"),
    ],
)  # fmt: skip
def test_defaults(definition: str, default: str | None) -> None:
    assert default_text(column(definition)) == default


@each(
    "definition",
    ["INT DEFAULT 'x'", "BIT(2) DEFAULT 4", "ENUM('a') DEFAULT 'b'", "DATE DEFAULT 'soon'", "DECIMAL(66)", "BIT(65)",
     "DATETIME(7)", "VARCHAR(5) CHARSET klingon", "VARCHAR(5) CHARSET latin1 COLLATE utf8mb4_bin",
     "TIME DEFAULT '999:00:00'"],
)  # fmt: skip
def test_impossible_columns_are_refused(definition: str) -> None:
    with pytest.raises(DdlError) as caught:
        column(definition)
    assert caught.value.code == "DDL_NOT_APPLICABLE"


@each("zone", ["+08:00", "-0530", "+08", "Z", ".25Z", ".5 +08:00"])
def test_a_default_in_a_zone_of_its_own(zone: str) -> None:
    """TiDB moves it to the session's zone, which the statement does not tell."""
    for definition in (f"{type_} DEFAULT '2024-01-02 03:04:05{zone}'" for type_ in ("DATETIME", "TIMESTAMP", "DATE")):
        with pytest.raises(DdlError, match=r"once and keeps the value.*SHOW CREATE TABLE"):
            column(definition)


@each(
    ("typed", "stored"),
    [
        ("a+1", "`a` + 1"), ("(a * 2)-b", "(`a` * 2) - `b`"), ("concat(a,'x')", "concat(`a`, _utf8mb4'x')"),
        ("t.a IS NOT NULL", "`a` is not null"), ("a<>1 AND b", "`a` != 1 and `b`"), ("NOT a", "not `a`"),
        ("a IN (1, 2)", "`a` in (1,2)"), ("a NOT BETWEEN 1 AND 2", "`a` not between 1 and 2"), ("a->'$.x'",
        "json_extract(`a`, _utf8mb4'$.x')"),
        ("a->>'$.x'", "json_unquote(json_extract(`a`, _utf8mb4'$.x'))"), ("CAST(a AS CHAR(3))", "cast(`a` as char(3))"),
        ("CASE a WHEN 1 THEN 'x' ELSE NULL END", "case `a` when 1 then _utf8mb4'x' else null end"), ("-a", "-`a`"),
        ("date_add(a, INTERVAL 1 DAY)", "date_add(`a`, interval 1 day)"), ("MOD(a,2)", "`a` % 2"), ("a DIV 2",
        "`a` div 2"),
        ("SUBSTRING(a FROM 2 FOR 3)", "substring(`a`, 2, 3)"), ("TRIM(BOTH 'x' FROM a)",
        "trim(both _utf8mb4'x' from `a`)"),
        ("EXTRACT(YEAR FROM a)", "extract(year from `a`)"), ("a LIKE 'x%'", "`a` like _utf8mb4'x%'"), ("IF(a,1,0)",
        "if(`a`, 1, 0)"),
    ],
)  # fmt: skip
def test_expressions_are_stored_as_tidb_stores_them(typed: str, stored: str) -> None:
    assert table(f"CREATE TABLE t (a INT, b INT, c INT AS ({typed}))").columns[2].generated == stored


# ---- ALTER TABLE
T = "CREATE TABLE t (a INT, b INT, c INT)"


@each(
    ("clauses", "expected"),
    [
        ("ADD COLUMN d INT FIRST, ADD COLUMN e INT AFTER a", ["d", "a", "e", "b", "c"]),
        ("ADD (d INT, e INT)", ["a", "b", "c", "d", "e"]),
        ("RENAME COLUMN a TO b, RENAME COLUMN b TO a", ["b", "a", "c"]),
        ("CHANGE a x BIGINT AFTER c", ["b", "c", "x"]),
        ("MODIFY C INT FIRST", ["C", "a", "b"]),
        ("DROP COLUMN a, ADD d INT", ["b", "c", "d"]),
        ("ADD COLUMN IF NOT EXISTS a INT, DROP COLUMN IF EXISTS z", ["a", "b", "c"]),
    ],
)  # fmt: skip
def test_columns_move(clauses: str, expected: list[str]) -> None:
    assert names(table(T, f"ALTER TABLE t {clauses}")) == expected


def test_names_in_a_statement_are_those_before_it() -> None:
    swapped = table("CREATE TABLE t (a INT, b TEXT)", "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a")
    assert [(c.name, c.type.name) for c in swapped.columns] == [("b", "int"), ("a", "text")]


def test_a_changed_column_keeps_its_keys_and_loses_its_default() -> None:
    found = table(
        "CREATE TABLE t (a INT DEFAULT 1 COMMENT 'x' PRIMARY KEY, b INT UNIQUE)", "ALTER TABLE t CHANGE a id BIGINT"
    ).columns[0]
    assert (found.primary_key, found.nullable, found.default, found.comment) == (True, False, None, "")


def test_a_dropped_column_leaves_its_indexes() -> None:
    found = table("CREATE TABLE t (a INT, b INT, KEY x (a), KEY y (a, b))", "ALTER TABLE t DROP COLUMN a")
    assert [(i.name, i.columns) for i in found.indexes] == [("y", ("b",))]


@each(
    ("definition", "handle"),
    [
        ("a INT, b INT, PRIMARY KEY (b, a), UNIQUE (a)", ("a", "b")),
        ("a INT NOT NULL, b INT NOT NULL, UNIQUE x (a, b), UNIQUE y (b)", ("b",)),
        ("a INT NOT NULL, b INT NOT NULL, UNIQUE x (b), UNIQUE y (a)", ("b",)),
        ("a INT, b INT NOT NULL, UNIQUE (a), KEY (b)", ()),
    ],
)  # fmt: skip
def test_handle_key(definition: str, handle: tuple[str, ...]) -> None:
    assert table(f"CREATE TABLE t ({definition})").handle_key == handle


def test_indexes_without_a_name_get_one() -> None:
    found = table(
        "CREATE TABLE t (a INT, b INT, UNIQUE (a), UNIQUE (a, b), KEY ((a + b)))",
        "ALTER TABLE t ADD UNIQUE (a), RENAME INDEX expression_index TO e",
    )
    assert [(i.name, i.columns) for i in found.indexes] == [
        ("a", ("a",)), ("a_2", ("a", "b")), ("e", ("_V$_e_0",)), ("a_3", ("a",)),
    ]  # fmt: skip


def test_character_sets_come_from_the_table_and_the_database() -> None:
    statements = (
        "CREATE DATABASE d CHARACTER SET gbk", "CREATE TABLE d.t (a CHAR(1), b CHAR(1) CHARSET ascii, c INT)",
        "ALTER DATABASE d COLLATE utf8mb4_general_ci", "CREATE TABLE d.u (a CHAR(1), b CHAR(1) BINARY)",
        "ALTER TABLE d.t CHARSET latin1", "ALTER TABLE d.t ADD e CHAR(1)",
        "ALTER TABLE d.u CONVERT TO CHARACTER SET utf8",
    )  # fmt: skip
    catalog = after(*statements)
    t, u = catalog.table(TableId("d", "t")), catalog.table(TableId("d", "u"))
    assert t is not None
    assert u is not None
    assert [c.collate for c in t.columns] == ["gbk_chinese_ci", "ascii_bin", "binary", "latin1_bin"]
    assert [(c.charset, c.collate) for c in u.columns] == [("utf8", "utf8_bin")] * 2


def test_tables_are_renamed_in_order() -> None:
    catalog = after(
        "CREATE DATABASE d", "CREATE TABLE x (a INT)", "CREATE TABLE y (b INT)",
        "RENAME TABLE x TO d.tmp, y TO x, d.tmp TO y", "ALTER TABLE Y RENAME AS d.z",
    )  # fmt: skip
    assert {str(i) for i in (TableId("test", "x"), TableId("d", "z"))} == {
        str(t.id) for db in catalog.databases for t in db.tables
    }


def test_recovered_tables_are_as_they_were() -> None:
    made = T, "ALTER TABLE t ADD d INT", "TRUNCATE TABLE t", "DROP TABLE t"
    assert names(table(*made, "FLASHBACK TABLE t TO u", name="u")) == ["a", "b", "c", "d"]
    assert names(table(*made, "RECOVER TABLE t")) == ["a", "b", "c", "d"]
    assert names(table(*made, "DROP DATABASE test", "FLASHBACK DATABASE test", "RECOVER TABLE t")) == [
        "a",
        "b",
        "c",
        "d",
    ]


@each(
    ("statements", "code"),
    [
        (["ALTER TABLE t ADD a INT"], "DDL_UNKNOWN_TABLE"), (["RENAME TABLE t TO u"], "DDL_UNKNOWN_TABLE"),
        (["CREATE TABLE u LIKE t"], "DDL_UNKNOWN_TABLE"), (["TRUNCATE TABLE t"], "DDL_UNKNOWN_TABLE"),
        (["CREATE TABLE x"], "DDL_NOT_APPLICABLE"), (["CREATE TABLE x (a INT) AS SELECT 1"], "DDL_NOT_APPLICABLE"),
        (["RECOVER TABLE t"], "DDL_UNKNOWN_TABLE"), (["RECOVER TABLE BY JOB 5"], "DDL_NOT_APPLICABLE"),
        ([T, T], "DDL_NOT_APPLICABLE"), ([T, "ALTER TABLE t DROP z"], "DDL_NOT_APPLICABLE"),
        ([T, "ALTER TABLE t ADD a INT"], "DDL_NOT_APPLICABLE"), ([T, "ALTER TABLE t DROP INDEX z"],
        "DDL_NOT_APPLICABLE"),
        ([T, "ALTER TABLE t ADD d INT AFTER z"], "DDL_NOT_APPLICABLE"), (["CREATE TABLE t (a INT, A INT)"],
        "DDL_NOT_APPLICABLE"),
        ([T, "CREATE TABLE u (a INT)", "RENAME TABLE t TO u"], "DDL_NOT_APPLICABLE"),
        ([T, "ALTER TABLE t ADD UNIQUE (z)"], "DDL_NOT_APPLICABLE"),
    ],
)  # fmt: skip
def test_a_statement_that_does_not_fit_is_an_error(statements: list[str], code: str) -> None:
    with pytest.raises(DdlError) as caught:
        after(*statements)
    assert caught.value.code == code


@each(
    "sql",
    ["CREATE PLACEMENT POLICY p FOLLOWERS=4", "ALTER RESOURCE GROUP r RU_PER_SEC=1", "LOCK TABLES t READ",
     "FLASHBACK CLUSTER TO TIMESTAMP '2024-01-01'", "ALTER TABLE t CACHE", "ALTER TABLE t SET TIFLASH REPLICA 1",
     "ALTER TABLE t PARTITION BY HASH (a) PARTITIONS 4", "ALTER TABLE t TRUNCATE PARTITION p0, p1", "ALTER TABLE t",
     "ALTER TABLE t TTL = `a` + INTERVAL 1 DAY", "CREATE TEMPORARY TABLE u (a INT)",
     "CREATE TABLE IF NOT EXISTS t (z INT)"],
)  # fmt: skip
def test_these_change_no_table(sql: str) -> None:
    assert table(T, sql) == table(T)
    assert after(T, sql).table(TableId("test", "u")) is None


def test_apply_leaves_what_it_was_given() -> None:
    before = after(T)
    old = before.table(TableId("test", "t"))
    for sql in ("ALTER TABLE t ADD z INT", "DROP TABLE t", "DROP DATABASE test", "RENAME TABLE t TO u", "TRUNCATE t"):
        apply(before, parse(sql), "test")
        assert before.table(TableId("test", "t")) is old


def test_a_timestamp_default_needs_its_zone_to_be_published() -> None:
    found = table("CREATE TABLE t (a INT PRIMARY KEY, b TIMESTAMP DEFAULT '2020-01-02 03:04:05')")
    with pytest.raises(WireError, match="--ddl-time-zone"):
        value_schema(found, Options())


# ---- keys
@each(
    ("keys", "handle"),
    [
        ("UNIQUE KEY (v), UNIQUE KEY (a, b)", ["a", "b"]),
        ("UNIQUE KEY (v)", []),
        ("UNIQUE KEY (s), UNIQUE KEY (v)", ["s"]),
        ("UNIQUE KEY (n), UNIQUE KEY (b)", ["b"]),
    ],
)
def test_a_handle_key_has_neither_virtual_nor_nullable_columns(keys: str, handle: list[str]) -> None:
    columns = "a INT NOT NULL, b INT NOT NULL, n INT, v INT AS (a) VIRTUAL NOT NULL, s INT AS (a) STORED NOT NULL"
    assert [c.name for c in table(f"CREATE TABLE t ({columns}, {keys})").columns if c.handle_key] == handle
