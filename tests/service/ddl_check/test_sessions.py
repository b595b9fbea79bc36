"""Scripts whose USE, SET and PREPARE decide what the statements after them mean."""

import pytest

from tests.support.dry_runs import feed, nothing_registered
from tests.support.each import each
from ticdc_bridge.schemas.ddl.executor.catalog import new_catalog
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.service.ddl_check.check import CheckInput, check, with_snapshots

TABLES = (
    "CREATE TABLE `t` (`id` bigint NOT NULL AUTO_INCREMENT, `a` int, PRIMARY KEY (`id`))",
    "CREATE TABLE `boss` (`id` int NOT NULL, PRIMARY KEY (`id`))",
    "CREATE TABLE `child` (`id` int NOT NULL, `b` int, PRIMARY KEY (`id`), KEY `k` (`b`), "
    "CONSTRAINT `f` FOREIGN KEY (`b`) REFERENCES `boss` (`id`))",
)
LONG = "ALTER TABLE t ADD x VARCHAR(2) DEFAULT 'abc'"  # 1067 in strict mode
REMOVED = "ALTER TABLE t MODIFY id BIGINT NOT NULL"


# A script, and of its last statement TiDB's error, 0 where TiDB takes it, -1 where that is not known.
@each(("sql", "number"), (
    ("/*!40101 SET NAMES utf8 */; /*!40014 SET @o=@@UNIQUE_CHECKS, UNIQUE_CHECKS=0 */; ALTER TABLE t ADD c INT", 0),
    ("/*!40014 SET @OLD=@@FOREIGN_KEY_CHECKS, FOREIGN_KEY_CHECKS=0 */; DROP TABLE boss", 0),
    ("SET @OLD=@@FOREIGN_KEY_CHECKS, FOREIGN_KEY_CHECKS=0; SET FOREIGN_KEY_CHECKS=@OLD; DROP TABLE boss", 3730),
    ("SET NAMES utf8mb4, FOREIGN_KEY_CHECKS = 'OFF'; DROP TABLE boss", 0),
    ("SET FOREIGN_KEY_CHECKS=0; SET FOREIGN_KEY_CHECKS=DEFAULT; DROP TABLE boss", 3730),
    *((f"SET {words}; {LONG}", 0) for words in (
        "@OLD=@@SQL_MODE, SQL_MODE=''", "@@SESSION.sql_mode=''", "session `sql_mode` := ''", "LOCAL sql_mode = ANSI",
    )),
    (f"SET @OLD=@@SQL_MODE, SQL_MODE=''; SET SQL_MODE=@OLD; {LONG}", 1067),
    (f"SET GLOBAL sql_mode=''; {LONG}", 1067), (f"SET @sql_mode=''; {LONG}", 1067),
    (f"SET sql_mode=(SELECT REPLACE(@@sql_mode, 'ANSI', '')); {LONG}", 1067),
    ("SET NAMES utf8, sql_mode='ANSI,NOTHING'", 1231),
    (REMOVED, 8200), (f"SET @@tidb_allow_remove_auto_inc = 1; {REMOVED}", 0),
    ("SET tidb_enable_auto_increment_in_generated = ON; ALTER TABLE t ADD g INT AS (id + 1)", 0),
    ("USE shop -- where they are\n; ALTER TABLE t ADD y INT", 0), ("USE `other` ; ALTER TABLE t ADD y INT", -1),
    ("PREPARE s FROM 'ALTER TABLE t ADD z INT'; EXECUTE S; ALTER TABLE t DROP COLUMN z", 0),
    ("PREPARE s FROM 'ALTER TABLE t ADD z INT'; DEALLOCATE PREPARE s; EXECUTE s", -1),
    ('SET @q = "ALTER TABLE t ADD a INT"; PREPARE s FROM @q; EXECUTE s', 1060),
    ("SET @q = IF(1, 'x', 'ALTER TABLE t ADD a INT'); PREPARE s FROM @q; EXECUTE s; ALTER TABLE t ADD c INT", -1),
    (r"SET sql_mode='NO_BACKSLASH_ESCAPES'; ALTER TABLE t COMMENT 'a\'; ALTER TABLE t ADD b VARCHAR(9) DEFAULT 'x\'",
     0),
    ("SELECT 'open; ALTER TABLE t DROP COLUMN a", -1), ("ALTER TABLE t ADD c INT; DROP TABLE 'open", -1),
    *((f"{sql}; ALTER TABLE t ADD c INT", 0) for sql in ("REPAIR TABLE t", "XA START 'x'", "CHECK TABLE t")),
    ("REPAIR TABLE t", 1064), ("HANDLER t OPEN", 1064), ("CHANGE MASTER TO x = 1", 1064), ("CALL p()", -1),
    ("--liquibase formatted sql\n--changeset a:1\nALTER TABLE t ADD c INT;\n--rollback ALTER TABLE t DROP c;", 0),
    ("--changeset a:1\nALTER TABLE t ADD c INT", -1),
    ("DELIMITER ;;\nALTER TABLE t ADD c INT COMMENT ';;';;\n-- it;;\nDELIMITER ;\nALTER TABLE t DROP COLUMN c;\n", 0),
    (r"ALTER TABLE t ADD c VARCHAR(9) COMMENT '\G'\G ALTER TABLE t DROP COLUMN c\g", 0),
    ("delimiter //\nCREATE TRIGGER r BEFORE INSERT ON t FOR EACH ROW BEGIN SET @a = 1; SET @b = ';'; END//", 1064),
    ("delimiter $$\nCREATE TABLE n (\n  delimiter INT,\n  b INT)$$\ndelimiter ;\nDROP TABLE n; DROP TABLE t", 0),
    ("OPTIMIZE TABLE t", 8200), ("CREATE TRIGGER r AFTER DELETE ON t FOR EACH ROW SET @a = 1; DROP TABLE t", 0),
))  # fmt: skip
def test_scripts(sql: str, number: int) -> None:
    form = check(CheckInput(sql, "shop", with_snapshots(new_catalog(), TABLES, "shop"), feed()), nothing_registered())
    last = form.form().get("statements", [form.form()])[-1]
    verdict = "refused" if number > 0 else "cannot judge" if number else "safe"
    assert last["verdict"] == verdict, last["reason"]
    assert number <= 0 or number in [refusal["number"] for refusal in last["refusals"]]


def test_a_mode_that_is_not_known_is_reported() -> None:
    sql = "SET sql_mode = CONCAT(@@sql_mode, ',ANSI'); ALTER TABLE t ADD c INT"
    form = check(CheckInput(sql, "shop", with_snapshots(new_catalog(), TABLES, "shop"), feed()), nothing_registered())
    assert "sql_mode is not known here" in form.form()["statements"][0]["reason"]


def test_backslashes_that_change_too_often_are_refused() -> None:
    sql = "SET sql_mode='NO_BACKSLASH_ESCAPES'; SET sql_mode='';" * 30
    with pytest.raises(SetupError, match="check in parts"):
        check(CheckInput(sql, "shop", new_catalog(), feed()), nothing_registered())
