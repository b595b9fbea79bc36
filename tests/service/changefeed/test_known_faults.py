"""Known faults of TiCDC's releases, told by doctor and check-ddl, for the version in use or for any."""

from __future__ import annotations

import pytest

from schemas.ddl.executor.catalog import new_catalog
from schemas.model.errors import SetupError
from service.changefeed.doctor import examine
from service.changefeed.doctor_input import DoctorInput
from service.changefeed.known_faults import FAULTS
from service.changefeed.reader import read
from service.ddl_check.check import check
from service.ddl_check.check_input import CheckInput, with_snapshots
from tests.support.dry_runs import nothing_registered
from tests.support.table import check_rows

TABLE = "CREATE TABLE `t` (`id` int NOT NULL, `e` enum('a','b') DEFAULT NULL, PRIMARY KEY (`id`))"
DEBEZIUM, CRAFT, AVRO = (f"kafka://k:9092/t?protocol={p}" for p in ("debezium", "craft", "avro"))

# (URI, TiCDC's version, ALTER TABLE t …, fault or "", verdict)
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
)  # fmt: skip


def test_statements_that_run_into_a_fault() -> None:
    ids = {fault.id for fault in FAULTS}

    def check_row(row: tuple[str, str, str, str, str]) -> None:
        uri, version, clause, fault, verdict = row
        catalog = with_snapshots(new_catalog(), (TABLE,), "d")
        feed = read(uri, ticdc_version=version)
        form = check(CheckInput(f"ALTER TABLE t {clause}", "d", catalog, feed), nothing_registered()).form()
        told = [r for r in form["risks"] if r["id"] in ids]
        assert ([r["id"] for r in told], form["verdict"]) == ([fault] if fault else [], verdict)
        assert all("TiCDC 8." in r["text"] for r in told)

    check_rows(STATEMENTS, check_row)


def test_the_doctor_names_the_releases() -> None:
    def found(uri: str, version: str) -> set[str]:
        findings = examine(DoctorInput(read(uri, ticdc_version=version)))
        return {f.id for f in findings} & {fault.id for fault in FAULTS}

    assert found(DEBEZIUM, "") == {"temporal-null-added", "enum-null-default"}
    assert found(DEBEZIUM, "8.5.6") == {"temporal-null-added"}
    assert found(DEBEZIUM, "9.1.0") == set()
    assert found(CRAFT, "8.5.0") == {"craft-float-damaged"}
    assert found(AVRO, "") == set()
    with pytest.raises(SetupError, match="give it as"):
        read(DEBEZIUM, ticdc_version="newest")
