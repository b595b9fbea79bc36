"""A changefeed's settings as TiCDC reads them: sink URI and file, table filters, topics."""

import json
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.service.changefeed.test_doctor import PER_TABLE, feed
from tests.support.each import each
from tests.support.service import short_and_long
from ticdc_bridge.schemas.ddl.executor.catalog import new_catalog
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.schemas.model.table_filter import PatternError, TableFilter
from ticdc_bridge.service.changefeed.doctor import DoctorInput, examine, topic_patterns
from ticdc_bridge.service.changefeed.reader import read
from ticdc_bridge.service.changefeed.settings import expression_error, topic_name
from ticdc_bridge.service.ddl_check.check import with_snapshots


# ---- reading
def problems(uri: str, config: str = "") -> list[tuple[str, str]]:
    return [(p.severity, p.text) for p in read(uri, config).problems]


CODEC = "[sink.kafka-config.codec-config]\n"


@each(("uri", "config", "name", "value"), [
    ("&max-message-bytes=5", "[sink.kafka-config]\nmax-message-bytes=7", "max-message-bytes", 5),
    ("&enable-tidb-extension=true", CODEC + "enable-tidb-extension=false", "enable-tidb-extension", True),
    # TiCDC's merge drops false of the URI …
    ("&enable-tidb-extension=false", CODEC + "enable-tidb-extension=true", "enable-tidb-extension", True),
    ("&enable-tidb-extension=false", "", "enable-tidb-extension", False),
    # … but not for Debezium's own settings.
    (
        "&debezium-include-start-ts=false", "[sink.debezium]\ninclude-start-ts=true",
        "debezium-include-start-ts", False,
    ),
    ("", CODEC + "avro-decimal-handling-mode='string'", "avro-decimal-handling-mode", "string"),
    ("", "", "avro-decimal-handling-mode", "precise"),
])  # fmt: skip
def test_the_uri_wins_over_the_file(uri: str, config: str, name: str, value: object) -> None:
    assert read(f"kafka://k/t?protocol=debezium{uri}", config).get(name) == value


def test_the_protocol_of_the_uri_wins_and_is_said() -> None:
    found = read("kafka://k/t?protocol=avro", "[sink]\nprotocol='debezium'")
    assert found.protocol == "avro"
    assert any("the URI's value holds" in p.text for p in found.problems)


@each(("uri", "config", "severity", "words"), [
    ("kafka://k/t?protocol=avro&enable-tidb-extention=true", "", "warning", "ignores without a warning"),
    ("kafka://k/t?protocol=avro&force-replicate=true", "", "warning", "a setting of the file: force-replicate"),
    ("kafka://k/t?protocol=avro&enable-tidb-extension=yes", "", "error", "true or false is needed"),
    ("kafka://k/t?protocol=avro&max-message-bytes=many", "", "error", "a number is needed"),
    ("kafka://k/t?protocol=thrift", "", "error", "is not known"),
    ("kafka://k/t", "", "error", "no protocol is given"),
    ("kafka://k/?protocol=avro", "", "error", "has no topic"),
    ("kafka://k/a,b?protocol=open-protocol", "", "error", "letters, digits"),
    ("mysql://k/t", "", "warning", "only Kafka's messages"),
    ("kafka://k/t?protocol=avro&protocol=open", "", "warning", "twice"),
    ("kafka://k/t?protocol=avro&avro-decimal-handling-mode=exact", "", "error", "precise or string"),
    ("kafka://k/t?protocol=avro", "force_replicat = true", "error", "does not know and refuses"),
    ("kafka://k/t?protocol=avro", "enable-tidb-extension = true", "error", "it belongs to sink.kafka-config"),
    ("kafka://k/t?protocol=avro", "force-replicate = 'yes'", "error", "true or false is needed"),
    ("kafka://k/t?protocol=avro", "[[sink.dispatchers]]\nmatchers=['*.*']", "error", "has matchers"),
    ("kafka://k/t?protocol=avro", "[[sink.dispatchers]]\nmatcher=['*']", "error", "a dot is missing"),
    ("kafka://k/t?protocol=avro", PER_TABLE.format("{table}", ""), "error", "{schema} and {table}"),
    ("kafka://k/t?protocol=avro", PER_TABLE.format("{schema}!{table}", ""), "error", "letters, digits"),
    ("kafka://k/t?protocol=avro", PER_TABLE.format("t", "random"), "warning", "TiCDC uses `table`"),
])  # fmt: skip
def test_what_is_odd_is_said(uri: str, config: str, severity: str, words: str) -> None:
    assert any(s == severity and words in text for s, text in problems(uri, config)), problems(uri, config)


@each(("uri", "config"), [
    ("kafka", ""), ("kafka://[k", ""), ("k" * 70_000, ""), ("", "a = "), ("", "{"), ("", "[" * 5000),
    ("", '{"a":' * 5000),
])  # fmt: skip
def test_what_can_not_be_read_at_all(uri: str, config: str) -> None:
    with pytest.raises(SetupError):
        read(uri, config)


def test_the_answer_of_cdc_cli_is_read() -> None:
    answer = {
        "id": "cf", "namespace": "default", "sink_uri": "kafka://k/t?protocol=avro",
        "config": {"force_replicate": True, "sink": {"kafka_config": {"codec_config": {"enable_tidb_extension": True}},
                                                     "csv": None, "dispatchers": [{"matcher": ["a.*"], "topic": "x"}]}},
    }  # fmt: skip
    found = read("", json.dumps(answer))
    assert (found.protocol, found.extension, found.get("force-replicate")) == ("avro", True, True)
    assert found.topic_of(TableId("a", "b")) == "x"
    assert found.problems == ()


def test_the_body_that_creates_a_changefeed_by_the_api_is_read() -> None:
    sink = {"dispatchers": [{"matcher": ["a.*"], "topic": "x"}], "file_index_width": 8,
            "mysql_config": {"max_multi_update_row_count": 3}}  # fmt: skip
    body = {"changefeed_id": "cf", "sink_uri": "kafka://k/t?protocol=avro", "replica_config": {
        "force_replicate": True, "sync_point_interval": "10m", "sink": sink}}  # fmt: skip
    found = read("", json.dumps(body))
    assert (found.protocol, found.get("force-replicate"), found.problems) == ("avro", True, ())
    assert found.topic_of(TableId("a", "b")) == "x"


def test_the_api_passes_over_what_it_does_not_know_but_minds_forms() -> None:
    body = {"sink_uri": "kafka://k/t?protocol=avro", "replica_config": {
        "force_replicat": 1, "sink": {"foo": 1, "dispatchers": [{"matchers": [], "matcher": "a.*"}]}}}  # fmt: skip
    found = [(p.severity, p.text) for p in read("", json.dumps(body)).problems]
    for name in ("force-replicat", "sink.foo", "matchers"):
        assert any(s == "warning" and f"has {name}, which TiCDC does not know: its API" in text for s, text in found)
    assert [text for s, text in found if s == "error"] == [
        "[[sink.dispatchers]] has matcher of another form: a list of texts is needed"
    ]


def test_credentials_are_never_shown() -> None:
    found = read(
        "kafka://k/t?protocol=avro&schema-registry=http://u:geheim@a&sasl-password=geheim",
        "[sink]\nschema-registry='http://u:geheim@b'\n[sink.kafka-config]\nsasl-password='other'",
    )
    assert "geheim" not in str(examine(DoctorInput(found)))


# ---- tables and topics
@each(("patterns", "table", "fits"), [
    (["*.*"], "a.b", True), (["a.*", "!a.b"], "a.b", False), (["!a.b", "a.*"], "a.b", True),
    (["a?.t[0-9]"], "ab.t1", True), (["a?.t[!0-9]"], "ab.t1", False), (["A.B"], "a.b", True),
    (["/^a.*/.b"], "abc.b", True), (["`a.b`.`c``d`"], "a.b.c`d", True), (["a.b"], "a.bc", False),
    (["# comment", "", "a.b"], "a.b", True), ([], "a.b", False),
])  # fmt: skip
def test_table_filters(patterns: list[str], table: str, fits: bool) -> None:
    db, _, name = table.rpartition(".") if table != "a.b.c`d" else ("a.b", "", "c`d")
    assert TableFilter(patterns).matches(db, name) is fits


def test_patterns_take_no_exponential_time() -> None:
    many = "*a" * 60
    assert not TableFilter([f"{many}b.*"]).matches("a" * 250, "t")
    assert TableFilter([f"{many}*.*"]).matches("a" * 250, "t")
    assert TableFilter(["*a*bc.*c"]).matches("xaxbxbc", "cc")
    assert not TableFilter(["a*.b"]).matches("ba", "b")


def test_column_selectors_leave_columns_out() -> None:
    table = with_snapshots(new_catalog(), ("CREATE TABLE t (`id` int, `a` int, `secret` int)",), "a").table(
        TableId("a", "t")
    )
    some = feed("open-protocol", "[[sink.column-selectors]]\nmatcher=['a.*']\ncolumns=['*','!sec*']")
    assert table is not None
    assert [c.name for c in some.sent_table(table).columns] == ["id", "a"]


@each("pattern", ["/a*b*c*d*/.e", "a", "a.b.c", "/(a+)+b/.c", "@file", "a.[", "." * 5000, ".b", "!"])
def test_bad_patterns(pattern: str) -> None:
    with pytest.raises(PatternError):
        TableFilter([pattern])


@each(("rule", "table", "topic"), [
    ("tidb_{schema}_{table}", ("shop", "orders"), "tidb_shop_orders"), ("{schema}.{table}", ("订单", "a b"), "__.a_b"),
    ("{schema}", (".", ""), "_"), ("{schema}", ("..", ""), "__"), ("{table}", ("", "x" * 300), "x" * 249),
])  # fmt: skip
def test_topic_names(rule: str, table: tuple[str, str], topic: str) -> None:
    assert topic_name(rule, *table) == topic


def test_subjects_of_a_changefeed_are_found_by_its_topics() -> None:
    fits = topic_patterns(feed("avro", PER_TABLE.format("x.{schema}-{table}", ""))).fullmatch
    assert fits("x_shop-orders-value")
    assert fits("t-key")
    assert not fits("y_shop-orders-value")
    assert expression_error("plain.topic", avro=True) == ""


@short_and_long(15, 60)
def test_hostile_settings_are_answers_or_usage_errors(examples: int) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(st.text(max_size=200), st.text(max_size=200))
    def holds(query: str, config: str) -> None:
        with suppress(SetupError):
            found = examine(DoctorInput(read(f"kafka://k/t?protocol=avro&{query}", config)))
            assert "no-ddl" in {f.id for f in found}

    holds()
