"""Known faults of TiCDC's releases, told by doctor and check-ddl, for the version in use or for any."""

import pytest

from tests.support.dry_runs import nothing_registered
from tests.support.each import each
from ticdc_bridge.schemas.ddl.executor.catalog import new_catalog
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.service.changefeed.doctor import DoctorInput, examine
from ticdc_bridge.service.changefeed.known_faults import FAULTS
from ticdc_bridge.service.changefeed.reader import read
from ticdc_bridge.service.ddl_check.check import CheckInput, check, with_snapshots

IDS = {fault.id for fault in FAULTS}
TABLES = (
    "CREATE TABLE `t` (`id` int NOT NULL, `e` enum('a','b') DEFAULT NULL, `j` json NOT NULL, PRIMARY KEY (`id`))",
    "CREATE TABLE `p` (`id` int NOT NULL, PRIMARY KEY (`id`)) PARTITION BY HASH (`id`) PARTITIONS 2",
    "CREATE TABLE `k` (`a` int NOT NULL, `b` int DEFAULT NULL)",
)
DEBEZIUM, CRAFT, AVRO, OPEN, CANAL, SIMPLE = (
    f"kafka://k:9092/t?protocol={p}" for p in ("debezium", "craft", "avro", "open-protocol", "canal-json", "simple")
)
SELECTORS = "[[sink.column-selectors]]\nmatcher = ['d.*']\ncolumns = ['*', '!x']\n"
RENAMES = "[[filter.event-filters]]\nmatcher = ['d.*']\nignore-event = ['rename table']\n"
BY_COLUMN = "[[sink.dispatchers]]\nmatcher = ['d.*']\npartition = 'columns'\ncolumns = ['ID']\n"

# (URI, TiCDC's version, ALTER TABLE t … or a statement, faults, verdict)
STATEMENTS = (
    (DEBEZIUM, "", "ADD COLUMN x DATETIME DEFAULT NULL", "temporal-null-added", "cannot judge"),
    (DEBEZIUM, "8.5.4", "ADD COLUMN x TIMESTAMP NULL", "temporal-null-added", "cannot judge"),
    (DEBEZIUM, "v8.5.7-release.1", "ADD COLUMN x DATE", "temporal-null-added", "cannot judge"),
    (DEBEZIUM, "8.5.8", "ADD COLUMN x DATETIME DEFAULT NULL", "", "safe"),
    (DEBEZIUM, "", "ADD COLUMN x DATETIME NOT NULL", "", "safe"),
    (DEBEZIUM, "8.5.4", "ADD COLUMN x SET('a') DEFAULT 'a'", "enum-null-default", "cannot judge"),
    (DEBEZIUM, "8.5.4", "MODIFY e ENUM('a','b') DEFAULT 'a'", "enum-null-default", "cannot judge"),
    (DEBEZIUM, "8.5.5", "MODIFY e ENUM('a','b') DEFAULT 'a'", "", "safe"),
    (DEBEZIUM, "8.5.4", "ADD COLUMN x ENUM('a') NOT NULL DEFAULT 'a'", "", "safe"),
    (CRAFT, "8.2.0", "ADD COLUMN x FLOAT", "craft-float-damaged", "safe"),
    (CRAFT, "8.1.2", "ADD COLUMN x FLOAT", "", "safe"), (CRAFT, "", "ADD COLUMN x DOUBLE", "", "safe"),
    (AVRO, "", "ADD COLUMN x VARCHAR(9) DEFAULT 'null'", "null-text-default", "cannot judge"),
    (AVRO, "8.1.2", "ADD COLUMN x ENUM('a','null') DEFAULT 'null'", "null-text-default", "would stop"),
    (AVRO, "7.5.5", "ADD COLUMN x VARCHAR(9) DEFAULT 'null'", "null-text-default", "would stop"),
    (AVRO, "7.5.6", "ADD COLUMN x VARCHAR(9) DEFAULT 'null'", "", "safe"),
    (AVRO, "8.5.2", "ADD COLUMN x VARCHAR(9) DEFAULT 'null'", "", "safe"),
    (AVRO, "8.1.2", "ADD COLUMN x VARCHAR(9) NOT NULL DEFAULT 'null'", "", "safe"),
    (AVRO, "8.1.2", "ADD COLUMN x VARCHAR(9) DEFAULT 'NULL', ADD COLUMN y VARCHAR(9) DEFAULT NULL", "", "safe"),
    (SIMPLE, "8.1.2", "MODIFY j JSON NULL", "default-of-not-null", "safe"),
    (DEBEZIUM, "8.5.1", "MODIFY j JSON NULL", "default-of-not-null", "safe"),
    (DEBEZIUM, "8.1.2", "MODIFY j JSON NULL", "", "safe"), (SIMPLE, "8.5.2", "MODIFY j JSON NULL", "", "safe"),
    (SIMPLE, "8.1.2", "ADD COLUMN x JSON NULL", "", "safe"), (OPEN, "8.1.2", "MODIFY j JSON NULL", "", "safe"),
    (DEBEZIUM, "8.5.0", "ADD x TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP", "timestamp-default-zero", "cannot judge"),
    (DEBEZIUM, "8.5.1", "ADD x TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP", "", "safe"),
    (DEBEZIUM + "&debezium-disable-schema=true", "8.5.0", "ADD x TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP", "",
     "safe"),
    (CANAL, "8.5.4", "ADD COLUMN x TEXT", "null-text-nulled", "safe"), (CANAL, "8.5.5", "ADD x TEXT", "", "safe"),
    (OPEN, "8.5.5", "ADD COLUMN x TIME(3)", "time-fraction-lost", "safe"),
    (OPEN, "8.5.5", "ADD COLUMN x TIME", "", "safe"), (OPEN, "8.5.6", "ADD COLUMN x TIME(3)", "", "safe"),
    (OPEN, "", "TRUNCATE TABLE p", "truncated-partitions truncated-partitions-stall", "cannot judge"),
    (OPEN, "8.1.2", "RENAME TABLE t TO t2, p TO t, t2 TO p", "rename-order rename-order", "safe"),
    (OPEN, "8.5.5", "RENAME TABLE t TO t2, p TO t, t2 TO p", "", "safe"),
    (OPEN, "8.1.2", "RENAME TABLE t TO t2", "", "safe"),
    (AVRO, "8.1.2", "RENAME TABLE t TO t2, p TO p2", "", "safe"),
    (CANAL, "8.5.7", "CREATE TABLE n LIKE t", "", "safe"),
    (CANAL, "8.5.7", "CREATE TABLE n LIKE hidden.t", "like-filtered", "cannot judge"),
    (CANAL, "8.5.8", "CREATE TABLE n LIKE hidden.t", "", "safe"),
    (OPEN, "8.5.6", "RENAME TABLE t TO e.t2", "rename-bare", "safe"),
    (OPEN, "8.5.6", "RENAME TO e.t2", "rename-bare", "safe"),
    (OPEN, "8.5.6", "RENAME TABLE d.t TO e.t2", "", "safe"), (OPEN, "8.5.6", "RENAME TABLE t TO d.t2", "", "safe"),
    (OPEN, "8.5.7", "RENAME TABLE t TO e.t2", "", "safe"),
    (CANAL, "8.5.6", "CREATE TABLE e.n LIKE t", "like-bare", "safe"),
    (CANAL, "8.5.6", "CREATE TABLE e.n LIKE d.t", "", "safe"),
    *((uri, version, f"CREATE UNIQUE INDEX u ON k ({column})", fault, verdict) for uri, version, column, fault,
     verdict in (
        (AVRO, "8.5.8", "a", "first-key-late", "cannot judge"), (OPEN, "26.3.4", "a", "first-key-late", "cannot judge"),
        (AVRO, "8.5.8", "b", "", "safe"), (AVRO, "8.5.3", "a", "", "safe"),
    )),
    (OPEN, "26.3.4", "CREATE TABLE e.n LIKE t", "like-bare", "safe"), (OPEN, "27.1.0", "CREATE TABLE e.n LIKE t",
     "", "safe"),
    (AVRO, "8.5.5", "TRUNCATE TABLE p", "truncated-partitions-stall", "cannot judge"),
    (AVRO, "8.5.8", "TRUNCATE TABLE p", "", "safe"), (OPEN, "8.1.0", "TRUNCATE TABLE t", "", "safe"),
)  # fmt: skip


@each(("uri", "version", "clause", "fault", "verdict"), STATEMENTS)
def test_statements_that_run_into_a_fault(uri: str, version: str, clause: str, fault: str, verdict: str) -> None:
    catalog = with_snapshots(new_catalog(), TABLES, "d")
    for other in ("hidden", "e"):
        catalog = with_snapshots(catalog, ("CREATE TABLE `t` (`id` int NOT NULL, PRIMARY KEY (`id`))",), other)
    sql = clause if clause.startswith(("TRUNCATE", "RENAME TABLE", "CREATE")) else f"ALTER TABLE t {clause}"
    feed = read(uri, "[filter]\nrules = ['d.*', 'e.*']", ticdc_version=version)
    form = check(CheckInput(sql, "d", catalog, feed), nothing_registered()).form()
    reported = [r for r in form["risks"] if r["id"] in IDS]
    assert ([r["id"] for r in reported], form["verdict"]) == (fault.split(), verdict)
    assert all("TiCDC " in r["text"] for r in reported)


# (URI, configuration, TiCDC's version, faults)
SETTINGS = (
    (DEBEZIUM, "", "", "temporal-null-added enum-null-default default-of-not-null timestamp-default-zero "
     "rename-order rename-bare like-bare truncated-partitions truncated-partitions-stall first-key-late "
     "ddl-after-create"),
    (DEBEZIUM, "", "8.5.6", "temporal-null-added rename-bare like-bare truncated-partitions-stall first-key-late "
     "ddl-after-create"),
    (DEBEZIUM, "", "27.1.0", "first-key-late"), (DEBEZIUM, "", "26.3.4", "like-bare first-key-late ddl-after-create"),
    (DEBEZIUM, "", "26.3.2", "temporal-null-added like-bare first-key-late ddl-after-create"),
    (
        DEBEZIUM, "force-replicate = true\n[filter]\nrules = ['d.*']", "26.3.4",
        "like-filtered like-bare ddl-after-create",
    ),
    (AVRO, "", "26.3.1", "registry-errors-hidden first-key-late ddl-after-create"),
    (DEBEZIUM, SELECTORS, "8.5.2", "temporal-null-added enum-null-default selector-panic rename-order "
     "truncated-partitions"),
    (DEBEZIUM, SELECTORS, "8.5.5", "temporal-null-added rename-bare like-bare truncated-partitions-stall "
     "first-key-late ddl-after-create"),
    (CRAFT, "", "8.5.0", "craft-float-damaged rename-order truncated-partitions"),
    (AVRO, "", "8.1.2", "null-text-default default-of-not-null truncated-partitions"),
    (AVRO, "", "7.5.6", "truncated-partitions"), (AVRO, "", "8.5.8", "first-key-late"),
    (AVRO, "", "8.5.5", "truncated-partitions-stall registry-errors-hidden first-key-late ddl-after-create"),
    (OPEN + "&only-output-updated-columns=true", "", "8.5.5", "time-fraction-lost open-old-values "
     "rename-bare like-bare truncated-partitions-stall first-key-late ddl-after-create"),
    (OPEN, "", "8.5.5", "time-fraction-lost rename-bare like-bare truncated-partitions-stall first-key-late "
     "ddl-after-create"),
    (OPEN, "[filter]\nrules = ['d.*']", "8.5.7", "truncated-partitions-stall like-filtered first-key-late "
     "ddl-after-create"),
    (SIMPLE, RENAMES, "7.5.5", "default-of-not-null rename-order rename-filtered truncated-partitions"),
    (SIMPLE, RENAMES.replace("d.*", "*.*"), "7.5.5", "default-of-not-null rename-order truncated-partitions"),
    (SIMPLE, RENAMES.replace("rename table", "insert"), "7.5.5",
     "default-of-not-null rename-order truncated-partitions"),
    (SIMPLE, RENAMES, "7.5.6", "rename-order truncated-partitions"),
    (AVRO, BY_COLUMN, "7.5.6", "dispatcher-case truncated-partitions"),
    (AVRO, BY_COLUMN, "7.5.7", "truncated-partitions"),
    (CANAL, "", "8.5.4", "null-text-nulled rename-order rename-bare like-bare truncated-partitions "
     "truncated-partitions-stall first-key-late ddl-after-create"),
)  # fmt: skip


@each(("uri", "config", "version", "expected"), SETTINGS)
def test_the_doctor_names_the_releases(uri: str, config: str, version: str, expected: str) -> None:
    found = examine(DoctorInput(read(uri, config, ticdc_version=version)))
    assert {f.id for f in found} & IDS == set(expected.split())
    fixed = {f.severity for f in found if f.id in IDS - {"craft-float-damaged"}}
    assert fixed <= {"warning" if version else "info"}


def test_a_version_is_a_number() -> None:
    with pytest.raises(SetupError, match="give it as"):
        read(DEBEZIUM, ticdc_version="newest")
