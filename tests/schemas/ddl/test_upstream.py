"""What TiDB's own parser and DDL code say about statements of ours.

The expected texts of expressions and the restored statements were printed by TiDB's parser (pingcap/tidb/pkg/parser,
April 2026, with the flags of TiCDC and of `columnDefToCol`); the expected tables follow `pkg/ddl`.
"""

import pytest

from tests.support.each import each
from ticdc_bridge.schemas.ddl.executor.apply import apply
from ticdc_bridge.schemas.ddl.executor.catalog import Catalog, new_catalog
from ticdc_bridge.schemas.ddl.parser.cursor import Cursor
from ticdc_bridge.schemas.ddl.parser.expressions import expression
from ticdc_bridge.schemas.ddl.parser.lexer import SHOW, TYPED, WIRE, LexicalMode
from ticdc_bridge.schemas.ddl.parser.statement_parser import parse
from ticdc_bridge.schemas.ddl.parser.statements import NoColumnEffect, SetOptions, TableOptions
from ticdc_bridge.schemas.model.errors import DdlError
from ticdc_bridge.schemas.model.table import Table, TableId
from ticdc_bridge.schemas.model.type_text import default_text, type_text

# ---- expressions: as typed → as TiDB stores them
EXPRESSIONS = (
    ("a is unknown", "`a` is null"), ("007 + .5", "7 + 0.5"), ("1e3 * 1.5e-7", "1e+03 * 1.5e-07"), ("1E300", "1e+300"),
    ("concat(N'x', n'y')", "concat(_utf8'x', _utf8'y')"), ("0x4 + X'4A'", "x'04' + x'4a'"), ("_binary 0x41", "x'41'"),
    ("_latin1 0x41 + _utf8mb4 b'01'", "x'41' + b'1'"), ("_utf8mb3'x'", "_utf8'x'"), ("b'' + b'00'", "b'' + b'0'"),
    ("concat('a' \"b\" 'c\\\\', _latin1'd')", "concat(_utf8mb4'abc\\\\', _latin1'd')"), ("0b0101", "b'101'"),
    ("(a, b) in ((1, 2), (3, 4))", "row(`a`,`b`) in (row(1,2),row(3,4))"),
    ("row(a, b) = row(1, 2)", "row(`a`,`b`) = row(1,2)"), ("cast(a as decimal)", "cast(`a` as decimal(10))"),
    ("cast(a as decimal(10,2))", "cast(`a` as decimal(10, 2))"),
    ("cast(a as decimal(10,0))", "cast(`a` as decimal(10))"), ("cast(a as datetime(0))", "cast(`a` as datetime)"),
    ("cast(a as datetime(6))", "cast(`a` as datetime(6))"), ("cast(a as signed integer)", "cast(`a` as signed)"),
    ("cast(a as real)", "cast(`a` as double)"), ("cast(a as float(30))", "cast(`a` as double)"),
    ("cast(a as char(10) character set utf8mb4)", "cast(`a` as char(10))"),
    ("cast(a as char charset latin1)", "cast(`a` as char charset latin1)"),
    ("cast(a as char(5) charset binary)", "cast(`a` as binary(5))"),
    ("cast(j as char(10) array)", "cast(`j` as char(10) array)"),
    ("convert(a using 'latin1')", "convert(`a` using 'latin1')"), ("char(65, a)", "char_func(65, `a`, null)"),
    ("char(a using latin1)", "char_func(`a`, 'latin1')"), ("insert(a, 1, 2, b)", "insert_func(`a`, 1, 2, `b`)"),
    ("adddate(a, b)", "adddate(`a`, interval `b` day)"),
    ("subdate(a, interval 1 month)", "subdate(`a`, interval 1 month)"),
    ("a & b + interval 1 day", "`a` & date_add(`b`, interval 1 day)"),
    ("a + b - interval 2 hour", "date_sub(`a` + `b`, interval 2 hour)"),
    ("interval 1 day + a", "date_add(`a`, interval 1 day)"), ("interval(a, 1, 2)", "interval(`a`, 1, 2)"),
    ("trim(leading from a)", "trim(leading _utf8mb4' ' from `a`)"),
    ("get_format(DATE, 'USA')", "get_format(date, _utf8mb4'USA')"), ("{d '2020-01-02'}", "DATE '2020-01-02'"),
    ("mod(a, 2) = a mod 2", "`a` % 2 = `a` % 2"), ("t.a <> d.t.b", "`a` != `b`"),
    ("j->>'$.a' > 1", "json_unquote(json_extract(`j`, _utf8mb4'$.a')) > 1"),
    ("a rlike 'x' and b not rlike 'y'", "`a` regexp _utf8mb4'x' and `b` not regexp _utf8mb4'y'"),
)  # fmt: skip
# sql_mode, as typed → as stored
BY_MODE = (
    ("PIPES_AS_CONCAT", "a || b || c", "concat(concat(`a`, `b`), `c`)"),
    ("PIPES_AS_CONCAT", "-a || b + c", "concat(-`a`, `b`) + `c`"),
    ("ORACLE", "\"a\" || 'x'", "concat(`a`, _utf8mb4'x')"),
    ("", "\"a\" || 'x'", "_utf8mb4'a' or _utf8mb4'x'"),
    ("HIGH_NOT_PRECEDENCE", "not a = b", "!`a` = `b`"),
    ("", "not a = b", "not `a` = `b`"),
)


@each(("typed", "stored"), EXPRESSIONS)
def test_expressions_are_stored_as_tidb_prints_them(typed: str, stored: str) -> None:
    assert _stored(typed, TYPED) == stored


@each(("sql_mode", "typed", "stored"), BY_MODE)
def test_the_sql_mode_decides_how_operators_bind(sql_mode: str, typed: str, stored: str) -> None:
    assert _stored(typed, LexicalMode.of_sql_mode(sql_mode)) == stored


def _stored(text: str, mode: LexicalMode) -> str:
    c = Cursor(text, mode)
    found = expression(c)
    c.end()
    return found


# ---- as typed and as TiCDC restores it: the same statement
SAME = (
    ("alter table t engine = '', add column a smallint", "ALTER TABLE `t` ENGINE = '', ADD COLUMN `a` SMALLINT"),
    (
        "alter table t comment 'x' charset utf8, drop b",
        "ALTER TABLE `t` COMMENT = 'x' CHARACTER SET = UTF8, DROP COLUMN `b`",
    ),
    ("alter table t attributes='x', add column b int", "ALTER TABLE `t` ADD COLUMN `b` INT"),
    ("alter table t add column a int remove partitioning", "ALTER TABLE `t` ADD COLUMN `a` INT REMOVE PARTITIONING"),
    ("alter table t add d int partition p1 placement policy p2", "ALTER TABLE `t` ADD COLUMN `d` INT"),
    ("alter table t union (u) remove partitioning", "ALTER TABLE `t` UNION = (`u`) REMOVE PARTITIONING"),
    ("alter table t force auto_increment 3, drop a", "ALTER TABLE `t` FORCE AUTO_INCREMENT = 3, DROP COLUMN `a`"),
    ("alter table t force, drop a", "ALTER TABLE `t` FORCE, DROP COLUMN `a`"),
    ("alter table t add unique type type btree (a)", "ALTER TABLE `t` ADD UNIQUE `type`(`a`) USING BTREE"),
    ("alter table t add constraint u unique key v (a)", "ALTER TABLE `t` ADD UNIQUE `u`(`a`)"),
    ("alter table t add constraint k key (a)", "ALTER TABLE `t` ADD INDEX `k`(`a`)"),
    ("create table t (a long char varying, b long)", "CREATE TABLE `t` (`a` MEDIUMTEXT,`b` MEDIUMTEXT)"),
    ("create table t (y year(4) unsigned zerofill)", "CREATE TABLE `t` (`y` YEAR(4))"),
    ("create table t (a int) stats_sample_rate=0.1", "CREATE TABLE `t` (`a` INT) STATS_SAMPLE_RATE = 0.1"),
    (
        "create table t (a varchar(36) default uuid() collate utf8mb4_bin)",
        "CREATE TABLE `t` (`a` VARCHAR(36) DEFAULT (UUID()) COLLATE utf8mb4_bin)",
    ),
    ("flashback table t to timestamp", "FLASHBACK TABLE `t` TO `timestamp`"),
)  # fmt: skip


@each(("typed", "wire"), SAME)
def test_typed_and_restored_statements_say_the_same(typed: str, wire: str) -> None:
    assert _effects(parse(typed, TYPED, "d")) == _effects(parse(wire, WIRE, "d"))


def _effects(statement: object) -> object:
    """A statement without the clauses that TiCDC leaves out."""
    clauses = getattr(statement, "clauses", None)
    if clauses is None:
        return _table(new_catalog(), statement) if hasattr(statement, "indexes") else statement
    return [c for c in clauses if not isinstance(c, NoColumnEffect) and c != SetOptions(TableOptions())]


def _table(catalog: Catalog, statement: object) -> Table | None:
    return apply(catalog, statement, "test").table(TableId("test", "t"))  # type: ignore[arg-type]


WITHOUT_EFFECT = """
alter table t add partition|alter table t add partition no_write_to_binlog|alter table t read only
alter table t stats_options = default|alter table t discard partition p0, p1 tablespace
alter table t import partition all tablespace|alter table t set tiflash replica 2 location labels 'a', 'b'
alter table t last partition less than (10) no_write_to_binlog|alter table t first partition less than (1) if exists
alter table t partition by range fields (a) (partition p values less than (1))
alter table t split primary key between (0) and (100) regions 4|alter table t split between (0) and (9) regions 3
alter table t split maxvalue partition less than (10)|alter table t placement policy set default
alter table t partition p comment = 'x'|alter database d set tiflash replica 2 location labels 'a', 'b'
flashback database d to timestamp '2021-05-26 16:45:26'|flashback schema d to tso 445494955052105724
"""


@each("text", [word for line in WITHOUT_EFFECT.split("\n") for word in line.split("|") if word])
def test_rarer_clauses_are_read_in_full(text: str) -> None:
    parse(text, TYPED, "d")
    with pytest.raises(DdlError):
        parse(text + " nonsense 'x'", TYPED, "d")


# ---- tables: statements → (column, type, character set, default) of table t at the end
U, B = "utf8mb4", "binary"
TABLES = (
    (
        "create table t (a enum('x','y','z') default '2', b set('p','q','r') default '5', c enum('2','1') default '2')",
        [("a", "enum('x','y','z')", U, "y"), ("b", "set('p','q','r')", U, "p,r"), ("c", "enum('2','1')", U, "2")],
    ),
    ("create table t (y year not null, z year)", [("y", "year(4)", B, "0000"), ("z", "year(4)", B, None)]),
    (
        "create table t (a int); alter table t charset latin1, add column b varchar(5)",
        [("a", "int", B, None), ("b", "varchar(5)", U, None)],
    ),
    (
        "create table t (a int); alter table t convert to charset latin1, add column b varchar(5)",
        [("a", "int", B, None), ("b", "varchar(5)", "latin1", None)],
    ),
    (
        "create table t (a varchar(5)) charset gbk; alter table t modify a varchar(9) binary",
        [("a", "varchar(9)", "gbk", None)],
    ),
    (
        "create table t (`a` int, b int); alter table t rename column a to A; alter table t change b B int",
        [("a", "int", B, None), ("B", "int", B, None)],
    ),
    ("create table t (a int default 007, b int default -0)", [("a", "int", B, "7"), ("b", "int", B, "0")]),
    ("create table t (a int default (uuid())); alter table t alter a set default 2.5", [("a", "int", B, "3")]),
)


@each(("script", "columns"), TABLES)
def test_tables_are_as_tidb_makes_them(script: str, columns: list[tuple[str, str, str, str | None]]) -> None:
    table = _made(script)
    assert [(c.name, type_text(c), c.charset, default_text(c)) for c in table.columns] == columns


def test_the_binary_attribute_chooses_the_default_collation() -> None:
    assert _made("create table t (a char(5) binary) charset gbk").columns[0].collate == "gbk_chinese_ci"


def test_null_after_auto_increment_is_kept() -> None:
    table = _made("create table t (a int auto_increment null unique, b int null auto_increment unique)")
    assert [c.nullable for c in table.columns] == [True, False]


def _made(script: str) -> Table:
    catalog = new_catalog()
    for word in script.split("; "):
        catalog = apply(catalog, parse(word, TYPED, "test"), "test")
    table = catalog.table(TableId("test", "t"))
    assert table is not None
    return table


# ---- hostile texts: a clear error, never a hang
N = 1 << 15
HOSTILE = {
    "parentheses": "(" * N, "comments": "/*" * N, "executable comments": "/*!" * N, "quotes": "'" * (N + 1),
    "backslashes": '"' + "\\" * N, "backquotes": "`" * (N + 1), "newlines": "\n" * N + "x",
    "digits": "create table t (a int default " + "9" * (1 << 20), "exponent": "create table t (a int as (1e999))",
    "paths": "create table t (a int as (b" + "->'$.a'" * N + "))",
    "intervals": "create table t (a int as (b" + " + interval 1 day" * (N // 8) + "))",
    "nots": "create table t (a int as (" + "not " * N + "1))", "functions": "create table t (a int as (" + "f(" * N,
    "clauses": "alter table t " + ",".join(["force"] * N) + ",",
}  # fmt: skip


@pytest.mark.parametrize(
    "mode",
    [WIRE, TYPED, *(pytest.param(mode, marks=pytest.mark.slow) for mode in (SHOW, LexicalMode.of_sql_mode("ANSI")))],
    ids=["wire", "typed", "show", "ansi"],
)
@each("name", HOSTILE)
def test_hostile_statements_are_refused(name: str, mode: LexicalMode) -> None:
    with pytest.raises(DdlError, match=r"line \d+, column \d+"):
        parse(HOSTILE[name], mode, "d")


def test_too_many_new_columns_are_refused() -> None:
    many = ", ".join(f"add column c{i} int" for i in range(5000))
    with pytest.raises(DdlError, match="4096"):
        _made(f"create table t (a int); alter table t {many}")
