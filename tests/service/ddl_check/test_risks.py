"""Each risk is seen where it is and nowhere else, by protocol."""

from tests.support.dry_runs import PER_TABLE, feed, nothing_registered, shop
from tests.support.each import each
from tests.support.table import check_rows
from ticdc_bridge.schemas.ddl.parser.lexer import TYPED, WIRE, LexicalMode
from ticdc_bridge.service.changefeed.reader import read
from ticdc_bridge.service.changefeed.settings import ChangefeedSettings
from ticdc_bridge.service.ddl_check.check import CheckInput, check, with_snapshots
from ticdc_bridge.service.ddl_check.risks import ADDED_RULES, DROPPED_RULES, PAIR_RULES, TABLE_RULES

WIDE = (
    "CREATE TABLE `w` (`id` bigint NOT NULL, `i` bigint NULL, `u` int unsigned NULL, `s` varchar(20) CHARACTER SET "
    "utf8mb4"
    " COLLATE utf8mb4_bin NULL, `d` decimal(10,4) NULL, `e` enum('a','b') NULL, `t` datetime(6) NULL, `f` int NOT NULL,"
    " `g` int NULL DEFAULT 1, `l` varchar(20) CHARACTER SET latin1 NULL, PRIMARY KEY (`id`), UNIQUE KEY `k` (`f`)) "
)
RISKY: dict[str, str] = {
    "not-null": "MODIFY i BIGINT NOT NULL", "nullable": "MODIFY f INT NULL", "narrowed": "MODIFY i INT",
    "signedness": "MODIFY u INT", "unsigned-long": "MODIFY i BIGINT UNSIGNED", "shortened": "MODIFY s VARCHAR(10)",
    "fewer-digits": "MODIFY d DECIMAL(8,4)", "rounded": "MODIFY d DECIMAL(10,2)", "scale": "MODIFY d DECIMAL(12,6)",
    "renumbered": "MODIFY e ENUM('b','a')", "elements-lost": "MODIFY e ENUM('a')", "elements-order": "MODIFY e "
        "ENUM('b','a')",
    "elements-added": "MODIFY e ENUM('a','b','c')", "other-type": "MODIFY i VARCHAR(20)", "fraction": "MODIFY t "
        "DATETIME(3)",
    "zone": "MODIFY t TIMESTAMP(6)", "charset": "MODIFY l VARCHAR(20) CHARACTER SET utf8mb4",
    "collation": "MODIFY s VARCHAR(20) COLLATE utf8mb4_general_ci", "default-flip": "ALTER i SET DEFAULT 5",
    "default-text": "ALTER g SET DEFAULT 2", "null-as-default": "ALTER i SET DEFAULT 5", "renamed": "RENAME COLUMN i "
        "TO j",
    "decimal-default": "ADD x DECIMAL(5,2) DEFAULT 1",
    "decimal-double": "ADD x DECIMAL(5,2)", "spark-precision": "ADD x DECIMAL(50,2)",
    "clock-default": "ADD x DATETIME DEFAULT CURRENT_TIMESTAMP",
    "null-panic": "ADD x DATE DEFAULT '2020-01-01'", "bytes-default": "ADD x BIT(8) DEFAULT b'1'",
    "timestamp-zone": "ADD x TIMESTAMP NULL", "virtual-twice": "ADD x INT AS (f) VIRTUAL",
    "virtual-null": "ADD x INT AS (f) VIRTUAL", "dropped": "DROP COLUMN i", "no-handle-key": "DROP PRIMARY KEY, DROP "
        "INDEX k",
    "handle-key": "DROP PRIMARY KEY", "renamed-table": "RENAME TO w2", "column-order": "ADD x INT FIRST",
}  # fmt: skip
_SPREAD = "CREATE TABLE p (id INT) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (9))"
STATEMENTS = {
    "dropped-table": "DROP TABLE w", "truncated": "TRUNCATE TABLE w", "recovered": "DROP TABLE w; RECOVER TABLE w",
    "partitions-dropped": f"{_SPREAD}; ALTER TABLE p TRUNCATE PARTITION p0",
    "partitions-moved": f"{_SPREAD}; ALTER TABLE p REMOVE PARTITIONING",
    "partitions-exchanged": f"{_SPREAD}; CREATE TABLE v (id INT); ALTER TABLE p EXCHANGE PARTITION p0 WITH TABLE v",
    "generated": "CREATE TABLE g (id INT PRIMARY KEY, s INT AS (id + 1) STORED); ALTER TABLE g MODIFY s INT",
}  # fmt: skip
# TiDB takes these from nobody in one statement; they are seen in what TiCDC sends.
SENT = {
    "key-order": "ALTER TABLE w DROP PRIMARY KEY, ADD PRIMARY KEY (id, f); ALTER TABLE w DROP PRIMARY KEY, ADD "
                 "PRIMARY KEY (f, id)",
}  # fmt: skip


def found_risks(sql: str, settings_: ChangefeedSettings, mode: LexicalMode = TYPED) -> set[str]:
    catalog = with_snapshots(shop(), (WIDE,), "shop")
    question = CheckInput(sql, "shop", catalog, settings_, zone="UTC", mode=mode)
    form = check(question, nothing_registered()).form()
    return {r["id"] for r in form["risks"]}


def test_each_risk_is_seen_and_others_are_not() -> None:
    def check(risk: str) -> None:
        sql = STATEMENTS.get(risk) or SENT.get(risk) or f"ALTER TABLE w {RISKY[risk]}"
        assert risk in found_risks(sql, read(), WIRE if risk in SENT else TYPED)

    check_rows([*RISKY, *STATEMENTS, *SENT], check)
    assert found_risks("ALTER TABLE w ADD INDEX (i)", read()) == set()
    assert found_risks("ALTER TABLE w ADD x INT", feed()) == set()


def test_every_risk_rule_is_tried() -> None:
    rules = {r.id for r in (*PAIR_RULES, *ADDED_RULES, *DROPPED_RULES, *TABLE_RULES)}
    assert rules == RISKY.keys() | STATEMENTS.keys() | SENT.keys() | {"checksum-order"}
    checked = feed(
        "avro&enable-tidb-extension=true&avro-decimal-handling-mode=string&avro-bigint-unsigned-handling-mode=string",
        PER_TABLE + "[integrity]\nintegrity-check-level='correctness'",
    )
    assert "checksum-order" in found_risks("ALTER TABLE w ADD x INT FIRST", checked)


@each(("sql", "query", "risk", "there"), [
    ("MODIFY e ENUM('b','a')", "avro", "renumbered", False),
    ("MODIFY e ENUM('b','a')", "craft", "renumbered", True),
    ("ADD x DECIMAL(5,2)", "avro", "decimal-double", False),
    ("ADD x DECIMAL(5,2)", "debezium", "decimal-double", True),
    ("MODIFY d DECIMAL(12,6)", "avro&avro-decimal-handling-mode=string", "scale", False),
])  # fmt: skip
def test_risks_depend_on_the_protocol(sql: str, query: str, risk: str, there: bool) -> None:
    assert (risk in found_risks(f"ALTER TABLE w {sql}", feed(query))) is there
