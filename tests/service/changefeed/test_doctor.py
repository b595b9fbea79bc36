"""`doctor`: each rule fits one changefeed and leaves another alone."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import Result

from tests.support.each import each
from tests.support.service import Client, command
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.service.changefeed.doctor import RULES, DoctorInput, SubjectFacts, examine, exit_code
from ticdc_bridge.service.changefeed.reader import read
from ticdc_bridge.service.changefeed.settings import ChangefeedSettings

Case = tuple[str, str]
R = "&schema-registry=http://r:8081"
LARGE = "[sink.kafka-config.large-message-handle]\nlarge-message-handle-option='{}'\n"
PER_TABLE = "[[sink.dispatchers]]\nmatcher=['*.*']\ntopic='{}'\npartition='{}'\n"
CHECKED = "[integrity]\nintegrity-check-level='correctness'\n"
GLUE = "[sink.kafka-config.glue-schema-registry-config]\nregistry-name='r'\nregion='eu'\n"


def feed(query: str, config: str = "", time_zone: str = "") -> ChangefeedSettings:
    return read(f"kafka://k:9092/t?protocol={query}", config, time_zone=time_zone)


# rule → (settings that it fits, settings that it leaves alone)
CASES: dict[str, tuple[Case, Case]] = {
    "decimal-double": (("debezium", ""), ("debezium&debezium-decimal-handling-mode=string", "")),
    "bigint-unsigned-long": (("avro", ""), ("avro&avro-bigint-unsigned-handling-mode=string", "")),
    "bigint-unsigned-stops": (
        ("debezium-avro", ""),
        ("debezium-avro", "[sink.kafka-config.codec-config]\navro-bigint-unsigned-handling-mode='string'"),
    ),
    "bigint-unsigned-debezium": (("debezium", ""), ("open-protocol", "")),
    "decimal-string": (("avro&avro-decimal-handling-mode=string", ""), ("avro", "")),
    "null-as-default": (("debezium-avro", ""), ("avro", "")),
    "virtual-stops": (("debezium", ""), ("avro", "")),
    "zero-dates": (("debezium", ""), ("open-protocol", "")),
    "no-types": (("open-protocol", ""), ("simple", "")),
    "no-schema": (("debezium&debezium-disable-schema=true", ""), ("debezium", "")),
    "craft-float": (("craft", ""), ("default", "")),
    "canal-compatible": (("canal-json&content-compatible=true", ""), ("canal-json", "")),
    "force-replicate-refused": (("avro", "force-replicate=true"), ("open-protocol", "force-replicate=true")),
    "force-replicate-deletes": (
        ("open-protocol", "force-replicate=true\n[sink]\ndelete-only-output-handle-key-columns=true"),
        ("open-protocol", "[sink]\ndelete-only-output-handle-key-columns=true"),
    ),
    "force-replicate": (("open-protocol", "force-replicate=true"), ("avro", "force-replicate=true")),
    "no-primary-key": (("avro", ""), ("avro&avro-include-before-value=true", "")),
    "tombstones": (("avro", ""), ("avro&avro-include-before-value=true", "")),
    "no-extension": (("avro", ""), ("avro&enable-tidb-extension=true", "")),
    "no-watermark": (("debezium", ""), ("debezium&enable-tidb-extension=true", "")),
    "extension-ignored": (("open-protocol&enable-tidb-extension=true", ""), ("avro&enable-tidb-extension=true", "")),
    "no-ddl": (("avro", ""), ("open-protocol", "")),
    "avro-watermark": (("avro&avro-enable-watermark=true", ""), ("avro", "")),
    "before-missing": (("open-protocol", "[sink.open]\noutput-old-value=false"), ("open-protocol", "")),
    "only-updated": (("open-protocol&only-output-updated-columns=true", ""), ("open-protocol", "")),
    "delete-keys-only": (
        ("open-protocol", "[sink]\ndelete-only-output-handle-key-columns=true"),
        ("open-protocol", "[sink]\ndelete-only-output-handle-key-columns=false"),
    ),
    "raw-changes": (("open-protocol", "[sink.kafka-config]\noutput-raw-change-event=true"), ("open-protocol", "")),
    "column-selectors": (
        ("open-protocol", "[[sink.column-selectors]]\nmatcher=['a.*']\ncolumns=['*','!secret']"),
        ("open-protocol", ""),
    ),
    "event-filters": (
        ("open-protocol", "[[filter.event-filters]]\nmatcher=['a.*']\nignore-event=['drop table']"),
        ("open-protocol", "[[filter.event-filters]]\nmatcher=['a.*']\nignore-event=['delete']"),
    ),
    "bdr": (("open-protocol", "bdr-mode=true"), ("open-protocol", "bdr-mode=false")),
    "routing": (
        ("open-protocol", "[[sink.dispatchers]]\nmatcher=['a.*']\ntarget-schema='b'"),
        ("open-protocol", "[[sink.dispatchers]]\nmatcher=['a.*']\ntopic='b'"),
    ),
    "case-sensitive": (("open-protocol", "case-sensitive=true"), ("open-protocol", "")),
    "one-topic-many-tables": (("avro", ""), ("avro", PER_TABLE.format("{schema}-{table}", "table"))),
    "topic-ambiguous": (
        ("avro", PER_TABLE.format("{schema}_{table}", "")),
        ("avro", PER_TABLE.format("{schema}-{table}", "")),
    ),
    "partition-ts": (
        ("open-protocol", PER_TABLE.format("t", "ts")),
        ("open-protocol", PER_TABLE.format("t", "index-value")),
    ),
    "partition-columns": (
        ("open-protocol", PER_TABLE.format("t", "columns") + "columns=['a']"),
        ("open-protocol", PER_TABLE.format("t", "table")),
    ),
    "partition-index": (
        ("open-protocol", PER_TABLE.format("t", "index-value") + "index='u'"),
        ("open-protocol", PER_TABLE.format("t", "index-value")),
    ),
    "partition-rowid": (
        ("open-protocol", PER_TABLE.format("t", "rowid")),
        ("open-protocol", PER_TABLE.format("t", "table")),
    ),
    "topics-by-hand": (
        ("avro&auto-create-topic=false", PER_TABLE.format("{schema}-{table}", "")),
        ("avro", PER_TABLE.format("{schema}-{table}", "")),
    ),
    "handle-key-only": (("open-protocol", LARGE.format("handle-key-only")), ("open-protocol", LARGE.format("none"))),
    "claim-check": (("open-protocol", LARGE.format("claim-check")), ("open-protocol", "")),
    "claim-check-nowhere": (
        ("open-protocol", LARGE.format("claim-check")),
        ("open-protocol", LARGE.format("claim-check") + "claim-check-storage-uri='file:///c'"),
    ),
    "large-refused": (("avro", LARGE.format("claim-check")), ("simple", LARGE.format("claim-check"))),
    "large-canal": (
        ("canal-json", LARGE.format("handle-key-only")),
        ("canal-json&enable-tidb-extension=true", LARGE.format("handle-key-only")),
    ),
    "compression-unknown": (("open-protocol&compression=zip", ""), ("open-protocol&compression=GZIP", "")),
    "large-compression": (
        ("open-protocol", "[sink.kafka-config.large-message-handle]\nlarge-message-handle-compression='lz4'"),
        ("open-protocol", "[sink.kafka-config]\ncompression='lz4'"),
    ),
    "small-messages": (("open-protocol&max-message-bytes=1000", ""), ("open-protocol&max-message-bytes=9000000", "")),
    "acks": (("open-protocol&required-acks=1", ""), ("open-protocol&required-acks=-1", "")),
    "registry-missing": (("avro", ""), ("avro" + R, "")),
    "registry-twice": (("avro" + R, GLUE), ("avro", GLUE)),
    "registry-refused": (("debezium" + R, ""), ("debezium-avro" + R, "")),
    "registry-unused": (("open-protocol" + R, ""), ("avro" + R, "")),
    "registry-credentials": (("avro&schema-registry=https://u:p@r", ""), ("avro" + R, "")),
    "registry-plain": (("avro&schema-registry=http://u:p@r", ""), ("avro&schema-registry=https://u:p@r", "")),
    "registry-cloud": (
        ("avro&schema-registry=https://psrc-1.eu.aws.confluent.cloud", ""),
        ("avro&schema-registry=https://k:s@psrc-1.eu.aws.confluent.cloud", ""),
    ),
    "registry-glue": (("avro", GLUE), ("avro" + R, "")),
    "not-null-backward": (("avro", ""), ("debezium-avro", "")),
    "checksum-refused": (
        ("avro", CHECKED),
        (
            "avro&enable-tidb-extension=true&avro-decimal-handling-mode=string"
            "&avro-bigint-unsigned-handling-mode=string",
            CHECKED,
        ),
    ),
    "checksum-selectors": (
        ("avro", CHECKED + "[[sink.column-selectors]]\nmatcher=['a.*']\ncolumns=['*']"),
        ("avro", CHECKED),
    ),
    "checksum-elsewhere": (("open-protocol", CHECKED), ("simple", CHECKED)),
    "checksum-upstream": (("avro", CHECKED), ("avro", "")),
    "checksum-first": (("avro", CHECKED), ("simple", CHECKED)),
    "not-read-here": (("maxwell", ""), ("simple", "")),
    "simple-bootstrap": (("simple", "[sink]\nsend-bootstrap-in-msg-count=-1"), ("simple", "")),
    "avro-settings-ignored": (("debezium&avro-decimal-handling-mode=string", ""), ("avro", "")),
    "rows-filtered": (
        ("open-protocol", "[[filter.event-filters]]\nmatcher=['a.*']\nignore-event=['delete']"),
        ("open-protocol", "[[filter.event-filters]]\nmatcher=['a.*']\nignore-event=['drop table']"),
    ),
    "no-table": (
        ("open-protocol", "[filter]\nrules=['!a.*', 'mysql.*']"), ("open-protocol", "[filter]\nrules=['a.*', '!b.*']"),
    ),
    "row-key-ignored": (
        ("canal-json&enable-tidb-extension=true", "[sink.kafka-config.codec-config]\noutput-row-key=true"),
        ("canal-json&enable-tidb-extension=true&output-row-key=true", ""),
    ),
    "login-ignored": (
        ("open-protocol&sasl-user=u", ""), ("open-protocol&sasl-mechanism=plain&sasl-user=u&sasl-password=p", ""),
    ),
    "claim-check-ignored": (
        ("open-protocol", LARGE.format("none") + "claim-check-storage-uri='s3://b/c'"),
        ("open-protocol", LARGE.format("claim-check") + "claim-check-storage-uri='s3://b/c'"),
    ),
    "claim-check-local": (
        ("open-protocol", LARGE.format("claim-check") + "claim-check-storage-uri='b/c'"),
        ("open-protocol", LARGE.format("claim-check") + "claim-check-storage-uri='s3://b/c'"),
    ),
    "other-sinks": (
        ("open-protocol", "[sink.mysql-config]\nworker-count=5"),
        ("open-protocol", '{"sink": {"csv": {"quote": "x"}}}'),
    ),
    "redo-level-unknown": (
        ("open-protocol", "[consistent]\nlevel='strong'"), ("open-protocol", "[consistent]\nlevel='none'"),
    ),
    "insecure": (("open-protocol&insecure-skip-verify=true", ""), ("open-protocol", "")),
    "password-in-uri": (
        ("open-protocol&sasl-password=x", ""),
        ("open-protocol", "[sink.kafka-config]\nsasl-password='x'"),
    ),
}  # fmt: skip


def ids(entry: DoctorInput) -> set[str]:
    return {f.id for f in examine(entry)}


@each("rule", CASES)
def test_each_rule_fits_one_changefeed_and_not_another(rule: str) -> None:
    fits, leaves = (DoctorInput(feed(*case)) for case in CASES[rule])
    assert rule in ids(fits)
    assert rule not in ids(leaves)


def test_rules_about_tables_subjects_and_zones() -> None:
    avro = feed("avro", PER_TABLE.format("{schema}_{table}", ""))
    two = (TableId("a_b", "c"), TableId("a", "b_c"))
    assert "topic-collision" in ids(DoctorInput(avro, tables=two))
    assert "topic-collision" not in ids(DoctorInput(avro, tables=two[:1]))
    facts = {level: (SubjectFacts("s-value", level),) for level in ("NONE", "FULL", "BACKWARD", "FORWARD")}
    assert {"level-none"} == {"level-none", "drop-forward", "not-null-backward"} & ids(DoctorInput(avro, facts["NONE"]))
    assert "drop-forward" in ids(DoctorInput(avro, facts["FORWARD"]))
    assert "drop-forward" not in ids(DoctorInput(avro, facts["BACKWARD"]))
    assert {"drop-forward", "not-null-backward"} <= ids(DoctorInput(avro, facts["FULL"]))
    assert "subject-readonly" in ids(DoctorInput(avro, (SubjectFacts("s-value", "NONE", "READONLY"),)))
    assert "subject-readonly" not in ids(DoctorInput(avro, facts["NONE"]))
    assert "timestamp-zone" in ids(DoctorInput(avro))
    assert "timestamp-zone" not in ids(DoctorInput(feed("avro", "", "Asia/Shanghai")))


def test_large_messages_of_canal_json_need_the_extension_in_the_uri() -> None:
    file = "[sink.kafka-config.codec-config]\nenable-tidb-extension=true\n" + LARGE.format("handle-key-only")
    assert "large-canal" in ids(DoctorInput(feed("canal-json", file)))
    assert "large-canal" not in ids(DoctorInput(feed("canal-json&enable-tidb-extension=true", file)))


def test_kafka_over_tls_needs_more_than_its_scheme() -> None:
    for query, found in (("", True), ("&enable-tls=true", False), ("&ca=a&cert=b&key=c", False)):
        entry = DoctorInput(read(f"kafka+ssl://k:9092/t?protocol=simple{query}"))
        assert ("scheme-without-tls" in ids(entry)) is found


def test_each_broker_has_a_port() -> None:
    for brokers, found in (("k", True), ("k:9092,[::1]", True), ("u:1@k", True), ("k:9092,[::1]:9", False)):
        entry = DoctorInput(read(f"kafka://{brokers}/t?protocol=simple"))
        assert ("broker-without-port" in ids(entry)) is found
    assert "broker-without-port" not in ids(DoctorInput(read("mysql://root@tidb/")))


def test_bootstraps_need_the_protocol_in_small_letters() -> None:
    assert "simple-bootstrap" in ids(DoctorInput(feed("Simple")))


def test_every_rule_is_tried() -> None:
    elsewhere = {
        "broker-without-port", "scheme-without-tls", "topic-collision", "level-none", "drop-forward",
        "subject-readonly", "timestamp-zone",
    }  # fmt: skip
    assert {r.id for r in RULES} == CASES.keys() | elsewhere
    assert len({r.id for r in RULES}) == len(RULES)
    assert all(rule.text and rule.fix and rule.source for rule in RULES)


def test_an_event_filter_without_tables_keeps_nothing_back() -> None:
    for matcher in ("", "matcher = []\n", "matcher = ['!a.*']\n"):
        config = f"[[filter.event-filters]]\n{matcher}ignore-event = ['drop table', 'delete', 'rename table']"
        feed = read("kafka://k:9092/t?protocol=open-protocol", config, ticdc_version="8.1.0")
        found = {f.id: f.text for f in examine(DoctorInput(feed))}
        assert "fits no table" in found["settings-odd"]
        assert not {"event-filters", "rows-filtered", "rename-filtered"} & found.keys()


def test_a_changefeed_can_be_healthy() -> None:
    good = feed(
        f"avro&enable-tidb-extension=true&avro-bigint-unsigned-handling-mode=string{R}",
        PER_TABLE.format("{schema}-{table}", "index-value"),
        "UTC",
    )
    found = examine(DoctorInput(good, (SubjectFacts("a-b-value", "NONE"),)))
    assert {f.severity for f in found} == {"info"}
    assert exit_code(found) == 0
    assert exit_code(found, "info") == 1


def run(*arguments: str, cwd: Path) -> Result:
    return command("doctor", *arguments, cwd=cwd)


def test_the_command_in_every_format(tmp_path: Path) -> None:
    (tmp_path / "cf.toml").write_text("force-replicate = true")
    uri = "kafka://k/t?protocol=avro"
    done = run("--sink-uri", uri, "--config", "cf.toml", cwd=tmp_path)
    assert (done.exit_code, done.stderr) == (1, "")
    assert "ERROR force-replicate-refused" in done.stdout
    done = run("--sink-uri", uri, "--format", "json", cwd=tmp_path)
    found = json.loads(done.stdout)
    assert done.exit_code == 1
    assert not found["healthy"]
    assert all(f.keys() == {"id", "severity", "text", "fix", "source"} for f in found["findings"])
    done = run("--sink-uri", uri, "--config", "cf.toml", "--format", "github", cwd=tmp_path)
    assert re.search(r"^::error file=cf.toml,line=1,title=doctor%3A force-replicate-refused::", done.stdout, re.M)


@each("arguments", [
    (),
    ("--config", "none.toml"),
    ("--sink-uri", "nonsense"),
    ("--sink-uri", "kafka://k/t?protocol=avro", "--service", "http://127.0.0.1:1"),
])  # fmt: skip
def test_the_command_can_not_start(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = run(*arguments, cwd=tmp_path)
    assert done.exit_code == 2
    assert done.stderr.startswith("ticdc-bridge: ")
    assert "Traceback" not in done.stderr


@pytest.fixture
def registered(client: Client) -> Client:
    client.register("tidb_shop_orders-value", '"int"')
    client.level("FULL", "tidb_shop_orders-value")
    client.send("PUT", "/mode/tidb_shop_orders-value", {"mode": "READONLY"})
    return client


def test_levels_and_modes_come_from_the_registry(registered: Client, tmp_path: Path) -> None:
    (tmp_path / "cf.toml").write_text(PER_TABLE.format("tidb_{schema}_{table}", ""))
    uri = "kafka://k/t?protocol=avro"
    done = run("--sink-uri", uri, "--config", "cf.toml", "--service", registered.url, "--format", "json", cwd=tmp_path)
    found = {f["id"]: f["text"] for f in json.loads(done.stdout)["findings"]}
    assert "tidb_shop_orders-value (READONLY)" in found["subject-readonly"]
    assert "tidb_shop_orders-value" in found["drop-forward"]
