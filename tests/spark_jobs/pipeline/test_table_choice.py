"""Which tables a job takes, where each is put, and which statements are about it."""

from typing import Any

import pytest

from tests.support.command_line import parse_job
from tests.support.table import check_rows
from ticdc_bridge.cli.codec_arguments import choose_tables, default_database
from ticdc_bridge.schemas.ddl.executor.versions import DdlText
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.spark_jobs.lake.table_histories import TableHistories
from ticdc_bridge.spark_jobs.pipeline.table_choice import TableChoice, check_rule, is_rule, location_by_rule

OUT = "delta:lake/{schema}/{table}"
CHOICES: list[tuple[str, list[str], list[str]]] = [
    ("shop.*", ["shop.orders", "SHOP.Orders", "shop.a.b"], ["crm.orders", "shop2.orders"]),
    ("shop.*,!shop.tmp_*", ["shop.orders"], ["shop.tmp_1"]),
    ("shop.orders,crm.?", ["shop.orders", "crm.a"], ["crm.ab", "shop.items"]), ("*.*", ["a.b"], []),
    ("shop_[0-9].t", ["shop_1.t"], ["shop_a.t"]), ("/shop_\\d{1,2}/.t", ["shop_12.t"], ["shop_a.t"]),
    ("`a,b`.`c.d`", ["a,b.c.d"], ["a.b"]), ("*.*,!*.nokey", ["a.b"], ["shop.nokey"]),
]  # fmt: skip


def test_choices() -> None:
    def check(entry: tuple[str, list[str], list[str]]) -> None:
        choice = TableChoice.of([entry[0]])

        def takes(name: str) -> bool:
            db, _, table = (
                name.rpartition(".") if entry[0].startswith("`") and name == "a,b.c.d" else name.partition(".")
            )
            return choice.takes(TableId("a,b", "c.d") if name == "a,b.c.d" else TableId(db, table))

        assert [name for name in entry[1] + entry[2] if takes(name)] == entry[1]

    check_rows(CHOICES, check)
    for wrong in ("", "shop", "!a.b", "a.b.c", "@file"):
        with pytest.raises(SetupError):
            TableChoice.of([wrong])


# --tables, --table, --out of merge → (the one table, the patterns taken, definitions) or what the error says
ARGUMENTS: list[tuple[list[str], Any]] = [
    (["--tables", "shop.*", "--out", OUT], (None, "shop.*", None)),
    (["--tables", "shop.orders", "--out", "delta:x"], ("shop.orders", None, None)),
    (["--tables", "shop.orders", "--out", OUT], (None, "shop.orders", None)),
    (["--table", "shop.orders", "--out", OUT], (None, "`shop`.`orders`", None)),
    (["--out", OUT], (None, None, None)),
    (["--ddl", "some.jsonl", "--table", "a.b", "--out", "delta:x"], ("a.b", None, "some.jsonl")),
    (["--tables", "a.sql", "--tables", "a.*", "--out", OUT], (None, "a.sql,a.*", None)),
    (["--tables", "stream", "--out", OUT], "a dot is missing"),
    (["--tables", "a.*", "--out", "delta:x"], "{schema} and {table}"),
    (["--tables", "a.*", "--table", "a.b", "--out", "delta:x"], "give one"),
    (["--table", "a.*", "--out", "delta:x"], "--tables takes patterns"),
    (["--tables", "a.*", "--out", "delta:l/{schema}"], "{table} is missing"),
    (["--tables", "a.*", "--out", "delta:l/{table}/{day}"], "{day} is not known"),
    (["--out", "delta:x"], "which tables"),
]


def test_arguments() -> None:
    def check(entry: tuple[list[str], Any]) -> None:
        args = parse_job(["merge", "--format", "open", "--in", "x", *entry[0]])
        args.out = args.current
        if isinstance(entry[1], str):
            with pytest.raises(SetupError, match=entry[1].replace("{", r"\{")):
                choose_tables(args)
            return
        choice = choose_tables(args)
        definitions = None if args.ddl is None else str(args.ddl)
        assert (args.table, None if choice is None else str(choice), definitions) == entry[1]

    check_rows(ARGUMENTS, check)
    for words, db in (("--tables shop.*,shop.b", "shop"), ("--tables shop.*,!shop.b,a.c", ""), ("--table a.b", "a")):
        args = parse_job(["decode", "--format", "open", "--in", "x", "--out", OUT, *words.split()])
        choose_tables(args)
        assert default_database(args) == db


PLACES = [
    ("delta:/l/{schema}/{table}", "shop", "orders", "delta:/l/shop/orders"),
    ("delta:/l/{schema}_{table}", "a", "b", "delta:/l/a_b"),
    ("delta:/l/{table}", "..", "..", "delta:/l/%2E%2E"),
    ("delta:/l/{table}", "a", "x/y", "delta:/l/x%2Fy"),
    ("delta:/l/{table}", "a", "ä %", "delta:/l/ä %25"),
    ("delta:/l/{table}", "a", "{schema}", "delta:/l/%7Bschema%7D"),
    ("delta:/l/{c}*", "a b", "x", "delta:/l/{c}*"),
    ("iceberg:cat.shop.orders", "a b", "x", "iceberg:cat.shop.orders"),
    ("iceberg:cat.{schema}.{table}", "shop", "orders", "iceberg:cat.shop.orders"),
]


def test_places() -> None:
    check_rows(PLACES, lambda entry: _same(location_by_rule(entry[0], TableId(entry[1], entry[2])), entry[3]))
    assert not is_rule("delta:/l/{c}")
    assert not is_rule("kafka:{schema}_{table}")
    with pytest.raises(SetupError):
        check_rule("delta:/l/{schema}")
    with pytest.raises(SetupError, match="can't be a name"):
        location_by_rule("iceberg:cat.{schema}.{table}", TableId("a.b", "c"))


def _same(made: object, wanted: object) -> None:
    assert made == wanted


STATEMENTS = [
    DdlText(1, "d", "CREATE TABLE a (id INT PRIMARY KEY)"), DdlText(2, "d", "CREATE TABLE b LIKE a"),
    DdlText(3, "d", "CREATE TABLE `c-1` (id INT)"), DdlText(4, "d", "RENAME TABLE b TO b2"),
    DdlText(5, "d", 'ALTER TABLE "c-1" ADD COLUMN x INT'), DdlText(6, "e", "DROP DATABASE d"),
    DdlText(7, "d", "CREATE TABLE B (x INT)"), DdlText(8, "d", "ALTER TABLE a ADD COLUMN y INT"),
]  # fmt: skip


def test_histories_of_many_tables() -> None:
    histories = TableHistories(reversed(STATEMENTS))

    def reported(name: str) -> list[tuple[str, list[int]]]:
        chains = histories.tables_named(TableId("d", name))
        return [(str(c.name), [s.commit_ts for s in histories.statements_of(c)]) for c in chains]

    assert reported("a") == [("d.a", [1, 2, 6, 8])]
    assert reported("c-1") == [("d.c-1", [3, 5, 6])]
    assert reported("b") == [("d.b2", [1, 2, 4, 6, 7, 8]), ("d.B", [1, 2, 4, 6, 7, 8])]
    assert reported("new") == [("d.new", [6])]
    assert sorted(str(c.name) for c in histories.tables()) == ["d.B", "d.a", "d.b2", "d.c-1"]


def test_tables_that_swap_names() -> None:
    """A RENAME of several can be followed where all of them are known."""
    texts = [(1, "CREATE TABLE t (id INT)"), (2, "CREATE TABLE t_new (id INT)"), (3, "ALTER TABLE u ADD COLUMN v INT"),
             (4, "RENAME TABLE t TO t_old, t_new TO t")]  # fmt: skip
    histories = TableHistories(DdlText(ts, "d", query) for ts, query in texts)
    chains = histories.tables_named(TableId("d", "t"))
    assert [[s.commit_ts for s in histories.statements_of(c)] for c in chains] == [[1, 2, 4], [1, 2, 4]]
