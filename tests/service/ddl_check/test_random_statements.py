"""Random statements in any order: what the check calls safe can be run, and what it advises is safe."""

import random

from tests.support.dry_runs import feed, nothing_registered, shop
from tests.support.table import check_rows
from ticdc_bridge.schemas.ddl.executor.apply import apply
from ticdc_bridge.schemas.ddl.parser.statement_parser import parse
from ticdc_bridge.service.ddl_check.check import CheckInput, check, with_snapshots
from ticdc_bridge.service.ddl_check.report import REFUSED, SAFE

_TABLES = ("orders", "items", "spread")
_SPREAD = (
    "CREATE TABLE `spread` (`id` int NOT NULL, `v` int DEFAULT NULL, PRIMARY KEY (`id`) /*T![clustered_index] "
    "CLUSTERED */) PARTITION BY RANGE (`id`) (PARTITION `p0` VALUES LESS THAN (1), PARTITION `p1` VALUES LESS THAN (9))"
)
_COLUMNS = ("id", "v", "note", "total", "x", "y")
_TYPES = (
    "INT", "BIGINT NOT NULL", "VARCHAR(20) DEFAULT 'a'", "DECIMAL(12,3) NOT NULL DEFAULT 0", "JSON", "TEXT NOT NULL",
    "DATETIME(3) NOT NULL", "ENUM('a','b') NOT NULL", "INT AS (id + 1)", "TIMESTAMP NULL DEFAULT CURRENT_TIMESTAMP",
)  # fmt: skip
_CLAUSES = (
    "ADD COLUMN {c} {t}", "ADD COLUMN {c} {t} FIRST", "DROP COLUMN {c}", "MODIFY {c} {t}", "CHANGE {c} {d} {t}",
    "RENAME COLUMN {c} TO {d}", "ADD INDEX {c} ({d})", "DROP INDEX {c}", "ADD UNIQUE {c} ({c}, {d})", "RENAME TO {u}",
    "ALTER {c} DROP DEFAULT", "ALTER {c} SET DEFAULT 1", "DROP PRIMARY KEY", "ADD PRIMARY KEY ({c})", "COMMENT = 'x'",
    "DROP PARTITION p0", "TRUNCATE PARTITION p1", "REMOVE PARTITIONING", "ADD FOREIGN KEY ({c}) REFERENCES {u} (id)",
    "ADD COLUMN {c} {t}, DROP COLUMN {d}", "CONVERT TO CHARACTER SET utf8mb4", "EXCHANGE PARTITION p0 WITH TABLE {u}",
)  # fmt: skip
_OTHERS = (
    "DROP TABLE {n}", "TRUNCATE TABLE {n}", "RENAME TABLE {n} TO {u}", "CREATE TABLE {n} (id INT PRIMARY KEY, {c} {t})",
    "CREATE TABLE {n} LIKE {u}", "CREATE VIEW {n} AS SELECT 1", "RECOVER TABLE {n}", "DROP VIEW {n}",
)  # fmt: skip


def _statement(chance: random.Random) -> str:
    form = chance.choice((*(f"ALTER TABLE {{n}} {clause}" for clause in _CLAUSES), *_OTHERS))
    column, other = chance.choice(_COLUMNS), chance.choice(_COLUMNS)
    table, second = chance.choice(_TABLES), chance.choice((*_TABLES, "fresh"))
    return form.format(n=table, u=second, c=column, d=other, t=chance.choice(_TYPES))


def test_what_is_safe_can_be_run_and_advice_is_safe() -> None:
    check_rows(range(60), _check_sequence)


def _check_sequence(seed: int) -> None:
    chance = random.Random(seed)
    each = [_statement(chance) for _ in range(4)]
    each.append(each[-1])  # once more
    before = with_snapshots(shop(), (_SPREAD,), "shop")
    form = check(CheckInput("; ".join(each), "shop", before, feed(), assume=True), nothing_registered()).form()
    for sql, statement in zip(each, form["statements"], strict=True):
        if statement["verdict"] == SAFE:
            before = apply(before, parse(sql, db="shop"), "shop")  # raises where it can't be run
            continue
        for advice in statement["advice"] if statement["verdict"] != REFUSED else ():
            for command in advice["commands"] if advice["checked"] else ():
                asked = CheckInput(command, "shop", before, feed(), assume=True)
                assert check(asked, nothing_registered()).form()["verdict"] == SAFE, (sql, command)
        break  # what the following are judged against is not known here
