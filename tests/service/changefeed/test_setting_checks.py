"""Settings that TiCDC refuses when the changefeed is created, each with the line to change; and TiDB Cloud's form."""

import json
import re
from pathlib import Path
from typing import Any

from tests.support.each import each
from tests.support.service import command
from tests.support.table import check_rows
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.service.changefeed.doctor import DoctorInput, examine
from ticdc_bridge.service.changefeed.reader import read
from ticdc_bridge.service.changefeed.setting_checks import seconds

OPEN = "kafka://127.0.0.1:9092/t?protocol=open-protocol"
AVRO = "kafka://127.0.0.1:9092/t?protocol=avro"
FILTER = "[[filter.event-filters]]\nmatcher = ['a.*']\n"
KAFKA = "[sink.kafka-config]\n"
GLUE = "[sink.kafka-config.glue-schema-registry-config]\n"
ROUTE = "[sink]\ndispatchers = [{matcher = ['a.*'], %s}]\n"
REDO = "[consistent]\nlevel = 'eventual'\nstorage = 's3://b/x'\n"
SELECT = "[[sink.column-selectors]]\nmatcher = ['a.*']\ncolumns = %s\n"
CLAIM = (
    "[sink.kafka-config.large-message-handle]\nlarge-message-handle-option = 'claim-check'\n"
    "claim-check-storage-uri = '%s'"
)
SPLIT = "[scheduler]\nenable-table-across-nodes = true\n"

# (what is added to the URI, the file, what the error names)
REFUSED = (
    ("&partition-num=0", "", "partition-num"), ("&partition-num=-3", "", "partition-num"),
    ("", KAFKA + "partition-num = 0", "partition-num"), ("&replication-factor=0", "", "replication-factor"),
    ("&max-message-bytes=0", "", "max-message-bytes"), ("&max-batch-size=0", "", "max-batch-size"),
    ("", KAFKA + "codec-config = {max-batch-size = 0}", "max-batch-size"),
    ("", KAFKA + "max-batch-message-bytes = 5", "max-batch-message-bytes"), ("", KAFKA + "max-retry = 3", "max-retry"),
    ("&max-retry=x", "", "max-retry"), ("&partition-num=3000000000", "", "partition-num"),
    ("", KAFKA + "replication-factor = 40000", "replication-factor"), ("&kafka-version=", "", "kafka-version"),
    ("", "[sink]\nsend-bootstrap-in-msg-count = 3000000000", "send-bootstrap-in-msg-count"),
    ("", "enable-old-value = true", "old values are always there"),
    ("", "[integrity]\nintegrity-check-level = ''", "integrity-check-level"),
    ("&debezium-decimal-handling-mode=string", "", "with protocol debezium only"),
    ("", "[sink.debezium]\ninclude-start-ts = true", "with protocol debezium only"),
    ("&simple-include-start-ts=true", "", "with protocol simple only"),
    ("&required-acks=5", "", "required-acks"), ("&required-acks=-2", "", "required-acks"),
    ("&dial-timeout=10", "", "dial-timeout"), ("&write-timeout=0s", "", "write-timeout"),
    ("&read-timeout=-1s", "", "read-timeout"), ("&read-timeout=1day", "", "read-timeout"),
    ("", KAFKA + "read-timeout = 10", "read-timeout"), ("&kafka-version=abc", "", "kafka-version"),
    ("&kafka-version=2.4", "", "kafka-version"), ("", KAFKA + "kafka-version = 2.4", "kafka-version"),
    ("&kafka-client-id=a%20b", "", "kafka-client-id"), ("&sasl-mechanism=nope", "", "sasl-mechanism"),
    ("&sasl-mechanism=plain", "", "sasl-user"), ("&sasl-mechanism=SCRAM-SHA-256&sasl-user=u", "", "sasl-password"),
    ("&sasl-mechanism=gssapi&sasl-gssapi-auth-type=x", "", "sasl-gssapi-auth-type"),
    ("&sasl-mechanism=oauthbearer", "", "sasl-oauth-client-id"),
    ("", KAFKA + "sasl-oauth-client-id = 'x'", "oauthbearer"),
    ("&sasl-mechanism=oauthbearer", KAFKA + "sasl-oauth-client-secret = '%'", "base64"),
    ("&ca=/ca.pem", "", "ca, cert and key"), ("&ca=a&cert=b&key=c", KAFKA + "enable-tls = false", "enable-tls"),
    ("", "enable-sync-point = true", "sync-point"), ("", "sync-point-interval = '10'", "sync-point-interval"),
    ("", "sync-point-retention = true", "sync-point-retention"), ("", "enable-active-active = true", "active-active"),
    ("", "changefeed-error-stuck-duration = '5m'", "changefeed-error-stuck-duration"),
    ("", "performance-mode = 'fast'", "performance-mode"), ("", "event-collector-batch-count = 9000", "batch-count"),
    ("", "event-collector-batch-bytes = -1", "batch-bytes"), ("", "active-active-progress-interval = '0s'", "progress"),
    ("", "[sink]\nencoder-concurrency = -1", "encoder-concurrency"),
    ("", "[sink]\ntransaction-atomicity = 'table'", "transaction-atomicity"),
    ("&transaction-atomicity=global", "", "transaction-atomicity"), ("", "case-sensitive = 1", "true or false"),
    ("", FILTER + "ignore-event = ['nonsense']", "nonsense"), ("", FILTER + "ignore-event = ['Insert']", "Insert"),
    ("", FILTER + "ignore-sql = ['(']", "ignore-sql"), ("", FILTER + "ignore-insert-value-expr = 'a >'", "insert"),
    ("", FILTER + "ignore-update-old-value-expr = \"a = 'x\"", "ignore-update-old-value-expr"),
    ("", FILTER + "ignore-delete-value-expr = '(a = 1'", "ignore-delete-value-expr"),
    ("", FILTER + "ignore-update-new-value-expr = 'a = 1)'", "ignore-update-new-value-expr"),
    ("", "[filter]\nignore-txn-start-ts = ['5']", "ignore-txn-start-ts"), ("", "[filter]\nrules = [5]", "filter.rules"),
    ("", FILTER + "ignore-nothing = 1", "ignore-nothing"), ("", "[scheduler]\nfoo = 1", "scheduler.foo"),
    ("", "[consistent]\nfoo = 1", "consistent.foo"), ("", "[mounter]\nworkers = 1", "mounter.workers"),
    ("", "[synced-status]\nx = 1", "synced-status.x"), ("", "[sink.csv]\nx = 1", "sink.csv.x"),
    ("", FILTER.replace("a.*", "a") + "ignore-event = ['insert']", "filter.event-filters: pattern 'a'"),
    ("", "[sink]\nadvance-timeout-in-sec = -1", "advance-timeout-in-sec"),
    ("", "[mounter]\nworker-num = 'x'", "worker-num"), ("", REDO + "flush-interval = 10", "flush-interval"),
    ("", REDO + "meta-flush-interval = 49", "meta-flush-interval"),
    ("", REDO + "compression = 'zip'", "consistent.compression"),
    ("", "[consistent]\nlevel = 'eventual'", "consistent.storage"),
    ("", REDO.replace("s3://b/x", "b/x"), "consistent.storage"),
    ("", SPLIT + "region-threshold = -1", "region-threshold"),
    ("", SPLIT + "write-key-threshold = -1", "write-key-threshold"),
    ("", SPLIT + "region-count-per-span = 0", "region-count-per-span"),
    ("", SPLIT + "balance-score-threshold = 0", "balance-score-threshold"),
    ("", SPLIT + "min-traffic-percentage = 1.5", "min-traffic"),
    ("", SPLIT + "max-traffic-percentage = 1", "max-traffic"),
    ("", SPLIT + "region-count-refresh-interval = '0s'", "region-count-refresh-interval"),
    ("", REDO + "event-collector-batch-count = 9000", "event-collector-batch-count"),
    ("", "[consistent]\nmax-log-size = '64MB'", "consistent.max-log-size"),
    ("", "[sink.csv]\nquote = 1", "sink.csv.quote"),
    ("", "[scheduler]\nforce-split = 1", "scheduler.force-split"),
    *(("", ROUTE % f"{name} = 5", f"has {name} of another form") for name in (
        "index", "columns", "topic", "partition", "dispatcher", "target-schema", "target-table",
    )),
    ("", ROUTE.replace("['a.*']", "'a.*'") % "topic = 'x'", "has matcher of another form"),
    ("", ROUTE % "columns = [1]", "has columns of another form"),
    ("", "[[sink.column-selectors]]\nmatcher = ['a.*']\ncolumns = '*'", "has columns of another form"),
    *(("", FILTER + f"{name} = 'x'", f"has {name} of another form") for name in (
        "ignore-event", "ignore-sql", "ignore-update-only-columns",
    )),
    ("", FILTER + "ignore-insert-value-expr = 1", "has ignore-insert-value-expr of another form"),
    *(("", ROUTE % f"topic = '{topic}'", "topic") for topic in (
        "{table}_{schema}", "{schema}_{schema}", "x_{column:id}",
    )),
    *(("", SELECT % columns, "keeps no column") for columns in ("[]", "['!id']")),
    ("", CLAIM % "webdav://b/x", "claim-check-storage-uri"), ("", CLAIM % "s3:///x", "claim-check-storage-uri"),
    ("", ROUTE % "target-table = '{foo}'", "target-table"), ("", ROUTE % "target-schema = 'a{'", "target-schema"),
)  # fmt: skip
REFUSED_AVRO = (
    ("", GLUE + "region = 'x'", "registry-name"), ("", GLUE + "registry-name = 'x'", "region"),
    ("", GLUE + "registry-name = 'x'\nregion = 'y'\naccess-key = 'z'", "secret-access-key"),
)  # fmt: skip
SIMPLE = "kafka://127.0.0.1:9092/t?protocol=simple"
REFUSED_SIMPLE = (
    ("&simple-include-start-ts=true&encoding-format=avro", "", "simple-include-start-ts"),
    ("&encoding-format=avro", "[sink.simple]\ninclude-start-ts = true", "encoding-format"),
    ("&encoding-format=protobuf", "", "encoding-format"), ("&encoding-format=Avro", "", "encoding-format"),
)  # fmt: skip
TAKEN = (
    ("&encoding-format=protobuf&avro-decimal-handling-mode=double", ""), ("&max-retry=-1&compression=zip", ""),
    ("&debezium-decimal-handling-mode=double&debezium-binary-handling-mode=base64", ""),
    ("&simple-include-start-ts=false&debezium-include-start-ts=false", "sync-point-interval = '10s'"),
    ("", "sync-point-retention = '1m'\n[sink]\ndispatchers = [{matcher = ['a.*'], columns = ['b']}]"),
    ("&partition-num=3&max-batch-size=1&dial-timeout=1m30s&read-timeout=500ms&required-acks=-1", ""),
    ("&kafka-version=3.6.1&kafka-client-id=a.b_c-1&compression=GZIP", KAFKA + "kafka-version = '2.4.0'"),
    ("&sasl-mechanism=SCRAM-SHA-512&sasl-user=u&sasl-password=p", ""),
    ("&sasl-mechanism=gssapi&sasl-gssapi-auth-type=USER", ""), ("&ca=a&cert=b&key=c", ""),
    ("", "performance-mode = 'low-latency'\nsync-point-interval = '10m'\nmemory-quota = 1"),
    ("", FILTER + "ignore-event = ['all dml', 'alter table', 'create database']\nignore-sql = ['^DROP']"),
    ("", FILTER + "ignore-insert-value-expr = \"id >= 100 and name like '%x'\""),
    ("", FILTER + "ignore-delete-value-expr = 'exists (select 1)'"),
    ("", "[scheduler]\nenable-table-across-nodes = true\nregion-threshold = 1\n[mounter]\nworker-num = 8"),
    ("", REDO + "flush-interval = 50\ncompression = 'lz4'"), ("", REDO.replace("s3://b/x", "blackhole-x://")),
    ("", "[consistent]\nlevel = 'none'\nflush-interval = 1\nstorage = 'x'"), ("", REDO + "flush-interval = 0"),
    ("", "[scheduler]\nregion-threshold = -1"), ("", SPLIT + "region-count-per-span = 10"),
    ("", "[consistent]\nlevel = 'none'\nmemory-usage = {memory-quota-percentage = 50}"),
    ("", ROUTE % "target-schema = 'x_{schema}', target-table = '{table}'"),
    *(("", ROUTE % f"topic = '{topic}'") for topic in ("x_{table}", "{schema}{table}", "a.{schema}-{table}_b", "t")),
    ("", SELECT % "['*', '!id']"), ("", CLAIM % "gcs://b/x?endpoint=y"), ("", CLAIM % "file:///x"),
)  # fmt: skip


def test_settings_that_ticdc_refuses() -> None:
    def check(row: tuple[str, str, str, str]) -> None:
        uri, query, file, word = row
        errors = [p for p in read(uri + query, file).problems if p.severity == "error"]
        assert any(word in p.text for p in errors), errors

    check_rows([*((OPEN, *r) for r in REFUSED), *((AVRO, *r) for r in REFUSED_AVRO),
                *((SIMPLE, *r) for r in REFUSED_SIMPLE)], check)  # fmt: skip


@each(("query", "file"), TAKEN)
def test_settings_that_ticdc_takes(query: str, file: str) -> None:
    assert [p.text for p in read(OPEN + query, file).problems if p.severity == "error"] == []


def test_a_finding_names_the_line_to_change() -> None:
    def check(row: tuple[str, str, str]) -> None:
        query, file, line = row
        fixes = [f.fix for f in examine(DoctorInput(read(OPEN + query, file))) if f.id == "settings-refused"]
        assert any(line in fix for fix in fixes), fixes

    check_rows(
        [("&partition-num=0", "", "partition-num=… of the sink URI"),
         ("", KAFKA + "partition-num = 0", "partition-num = … under [sink.kafka-config] of the file"),
         ("", "sync-point-interval = '1'", "sync-point-interval = … at the top of the file"),
         ("", ROUTE % "topic = '{'", "topic = … in [[sink.dispatchers]] number 1 of the file"),
         ("", FILTER + FILTER.replace("'a.*'", "'a'"), "matcher = … in [[filter.event-filters]] number 2 of the file"),
         ("", "[sink]\nfoo = 1", "Take out foo = … under [sink] of the file"),
         ("&ca=x", KAFKA + "cert = 'y'",
          "Change ca=… of the sink URI and cert = … under [sink.kafka-config] of the file, or add key = … under "
          "[sink.kafka-config] of the file")],
        check,
    )  # fmt: skip


@each(("query", "file"), [row[:2] for row in REFUSED])
def test_every_refusal_has_a_line_to_change(query: str, file: str) -> None:
    found = [p for p in read(OPEN + query, file).problems if p.severity == "error"]
    assert [p.text for p in found if not p.fix] == []


def test_what_ticdc_passes_over_in_a_dispatcher() -> None:
    def check(row: tuple[str, str]) -> None:
        file, words = row
        odd = [p for p in read(OPEN, ROUTE % file).problems if p.severity == "warning"]
        assert [words in p.text and "number 1" in p.fix for p in odd] == ([True] if words else [])

    check_rows(
        [("partition = 'columns'", "names no columns"),
         ("partition = 'ts', columns = ['b']", "columns is for partition"),
         ("partition = 'columns', columns = ['b'], index = 'u'", "index is for partition"),
         ("dispatcher = 'table', index = 'u'", "index is for partition"),
         ("partition = 'random'", "TiCDC uses `table`"),
         ("partition = 'index-value', index = 'u'", ""), ("partition = 'rowid', index = 'u'", ""),
         ("partition = 'Columns', columns = ['b']", ""), ("topic = 'x'", "")],
        check,
    )  # fmt: skip


def test_what_can_fit_no_table_is_named() -> None:
    all_tables, entry = "[[sink.dispatchers]]\nmatcher=['*.*']\n", "[[sink.dispatchers]]\nmatcher=['a.*']\n"
    cases = (
        (all_tables + entry, "stands behind"), (entry + all_tables, ""), (entry.replace("a.", "!a."), "fits no table"),
        (FILTER.replace("a.*", "!a.*") + "ignore-sql=['x']", "fits no table"), (FILTER + FILTER, ""),
    )  # fmt: skip
    for file, words in cases:
        odd = [p.text for p in read(OPEN, file).problems if p.severity == "warning"]
        assert [words in text for text in odd] == ([True] if words else []), file


def test_parameters_that_go_drops_are_named_and_not_taken() -> None:
    for query in ("&sasl-password=a%zz", "&sasl-password=a;b", "&sasl-password=50%"):
        feed = read(OPEN + query)
        assert [p.severity for p in feed.problems] == ["warning"]
        assert not feed.is_set("sasl-password")
    assert "bare #" in read(OPEN + "&sasl-password=a#b").problems[0].text
    assert read(OPEN + "&sasl-password=a%3Bb%25%23").get("sasl-password") == "a;b%#"


def test_no_rules_are_all_tables() -> None:
    assert read(OPEN, "[filter]\nrules = []").replicates(TableId("a", "b"))


def test_findings_of_rules_say_where_their_settings_stand() -> None:
    file = "force-replicate = true\n[sink]\ndelete-only-output-handle-key-columns = true"
    (found,) = (f for f in examine(DoctorInput(read(OPEN, file))) if f.id == "force-replicate-deletes")
    assert "force-replicate = … at the top of the file" in found.fix
    assert "delete-only-output-handle-key-columns = … under [sink] of the file" in found.fix


@each(("text", "number"), [
    ("10s", 10), ("1h30m", 5400), ("1.5h", 5400), ("100ms", 0.1), ("-1s", -1), ("0", 0), ("10", None), ("", None),
    ("1 s", None), ("1d", None), ("s", None),
])  # fmt: skip
def test_durations(text: str, number: float | None) -> None:
    assert seconds(text) == number


# ---- the registry is an option of its own
def test_the_registry_may_be_given_as_to_cdc_cli(tmp_path: Path) -> None:
    without = {f.id: f for f in examine(DoctorInput(read(AVRO)))}
    assert without["registry-missing"].severity == "warning"
    assert "--schema-registry" in without["registry-missing"].fix
    given = read(AVRO, "[sink]\nprotocol = 'avro'\n", schema_registry="http://r:8081")
    assert "registry-missing" not in {f.id for f in examine(DoctorInput(given))}
    assert given.get("schema-registry") == "http://r:8081"
    run = command("doctor", "--sink-uri", AVRO, "--schema-registry", "http://r:8081", "--format", "json", cwd=tmp_path)
    assert "registry-missing" not in {f["id"] for f in json.loads(run.stdout)["findings"]}


# ---- TiDB Cloud
CLOUD = {
    "network": {"networkType": "PUBLIC", "publicEndpoints": "b1:9092,b2:9092"},
    "broker": {"kafkaVersion": "VERSION_3XX", "compression": "LZ4"},
    "authentication": {"authType": "SASL_PLAIN", "userName": "u", "password": "p", "enableTls": True},
    "dataFormat": {
        "protocol": "AVRO", "enableTidbExtension": True,
        "avroConfig": {"decimalHandlingMode": "STRING", "bigintUnsignedHandlingMode": "LONG",
                       "confluentSchemaRegistry": {"endpoint": "https://r", "enableHttpAuth": False}},
    },
    "topicPartitionConfig": {
        "dispatchType": "BY_TABLE", "defaultTopic": "rest", "topicPrefix": "cdc_", "separator": "-",
        "topicSuffix": "_x",
        "replicationFactor": 3, "partitionNum": 6,
        "partitionDispatchers": [{"partitionType": "COLUMN", "matcher": ["shop.*"], "columns": ["id"]}],
    },
    "columnSelectors": [{"matcher": ["shop.users"], "columns": ["*", "!secret"]}],
}  # fmt: skip
FILTERS = {
    "filterRule": ["shop.*"],
    "mode": "FORCE_SYNC",
    "eventFilterRule": [{"matcher": ["shop.*"], "ignoreEvent": ["all ddl"]}],
}


def with_underscores(value: Any) -> Any:
    if isinstance(value, dict):
        return {re.sub("[A-Z]", r"_\g<0>", name).lower(): with_underscores(entry) for name, entry in value.items()}
    return [with_underscores(entry) for entry in value] if isinstance(value, list) else value


def test_names_of_tidb_cloud_with_underscores() -> None:
    """As `ticloud serverless changefeed template` writes them."""
    for document in (CLOUD, {"kafka": CLOUD, "filter": FILTERS}):
        feed = read("", json.dumps(document))
        same = read("", json.dumps(with_underscores(document)))
        assert (same.values, same.hosts, same.problems) == (feed.values, feed.hosts, feed.problems)
        assert [(d.topic, d.columns) for d in same.dispatchers] == [(d.topic, d.columns) for d in feed.dispatchers]
    wrong = with_underscores(CLOUD)
    wrong["topic_partition_config"]["partition_num"] = 0
    (found,) = (p for p in read("", json.dumps(wrong)).problems if p.severity == "error")
    assert found.fix == "Change topic_partition_config.partition_num (TiDB Cloud)"


def test_findings_name_the_places_of_tidb_cloud_and_of_options() -> None:
    wrong = json.loads(json.dumps(CLOUD))
    wrong["topicPartitionConfig"]["partitionNum"] = 0
    (found,) = (p for p in read("", json.dumps(wrong)).problems if p.severity == "error")
    assert found.fix == "Change topicPartitionConfig.partitionNum (TiDB Cloud)"
    feed = read("", json.dumps({"type": "KAFKA", "kafka": CLOUD, "filter": FILTERS}))
    (fix,) = (f.fix for f in examine(DoctorInput(feed)) if f.id == "force-replicate-refused")
    assert fix.endswith("Set now: mode of the filter (TiDB Cloud)")
    feed = read(AVRO, GLUE + "registry-name = 'r'\nregion = 'x'", schema_registry="http://r")
    (fix,) = (f.fix for f in examine(DoctorInput(feed)) if f.id == "registry-twice")
    assert "Set now: --schema-registry" in fix


def test_settings_of_tidb_cloud_are_read() -> None:
    changefeed = {"displayName": "x", "type": "KAFKA", "kafka": CLOUD, "filter": FILTERS}
    for document in (CLOUD, changefeed, {"sink": {"type": "KAFKA", "kafka": CLOUD}, "filter": FILTERS}):
        feed = read("", json.dumps(document))
        assert [p.text for p in feed.problems] == []
        assert (feed.protocol, feed.hosts, feed.extension) == ("avro", ("b1:9092", "b2:9092"), True)
        assert feed.topic_of(TableId("shop", "orders")) == "cdc_shop-orders_x"
        assert feed.topic_of(TableId("a", "b")) == "cdc_a-b_x"
        assert [(d.partition, d.columns) for d in feed.dispatchers] == [("columns", ("id",)), ("", ())]
        assert feed.get("avro-decimal-handling-mode") == "string"
        assert feed.get("schema-registry") == "https://r"
        assert (feed.get("sasl-mechanism"), feed.get("partition-num")) == ("plain", 6)
        assert not feed.selectors[0].keeps("secret")
    with_filter = read("", json.dumps(changefeed))
    assert with_filter.replicates(TableId("shop", "t"))
    assert not with_filter.replicates(TableId("other", "t"))
    assert with_filter.get("force-replicate") is True
    assert {f.id for f in examine(DoctorInput(with_filter))} >= {"event-filters", "force-replicate-refused"}
