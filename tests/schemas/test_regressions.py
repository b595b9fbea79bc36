"""Defects that were found, each with the smallest case that showed it."""

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from tests.support.each import each
from tests.support.golden import Golden, Registry
from tests.support.rows import ORIGIN, Pair, Tables, change, column, field, payload, table
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.formats.debezium.ticdc import DebeziumEncoder
from ticdc_bridge.schemas.inputs.table_definitions import TableDefinitions
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import Message, RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Column, Table, TableId, TableVersion
from ticdc_bridge.schemas.model.types import BY_NAME
from ticdc_bridge.schemas.plain.reader import PlainDecoder, plain_message
from ticdc_bridge.schemas.plain.writer import json_line, plain_event
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message, transcode_message

G = Golden("debezium", "pk_int.ext.schema")


def good() -> tuple[Message, dict[str, Any]]:
    message = next(m for m in G.messages() if m.value and b'"op":"c"' in m.value)
    return message, json.loads(message.value or b"")


def compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def extra_field(text: str, **schema: Any) -> Message:
    """The good message with a column `f` of this schema and this JSON value."""
    message, whole = good()
    for image in whole["schema"]["fields"][:2]:
        image["fields"].append({"type": "double", "optional": True, "field": "f", **schema})
    whole["payload"]["after"]["f"] = "@@"
    return replace(message, value=compact(whole).replace(b'"@@"', text.encode()))


def decode(message: Message) -> Any:
    return decode_message(G.side().decoder(), message)


@each("commit_ts", [1 << 63, 1 << 64, 99_999_999_999_999_999_999])
def test_a3_commit_ts_of_more_than_63_bits_is_not_written_as_broken_avro(commit_ts: int) -> None:
    message, _ = good()
    big = replace(
        message, value=re.sub(rb'"commit_ts":\d+', b'"commit_ts":%d' % commit_ts, message.value or b"", count=1)
    )
    pair = Pair("avro", enable_tidb_extension=True)
    result = transcode_message(G.side().decoder(), pair.encoder, big)
    assert result.error is not None
    assert "is no TSO" in result.error.detail or "no integer" in result.error.detail


def test_a3_timestamp_in_microseconds_is_not_written_as_broken_avro() -> None:
    pair = Pair("avro", enable_tidb_extension=True)
    event = change(table(), {}, commit_ts=None)
    with pytest.raises(WireError, match="is no TSO"):
        pair.encoder.encode(event, replace(ORIGIN, timestamp=1_700_000_000_000_000))


@each(
    ("kind", "text"),
    [
        ("tinyint unsigned", "-1"), ("tinyint", "300"), ("int", "99999999999999999999"),
        ("bigint unsigned", "-9223372036854775809"), ("bigint unsigned", "99999999999999999999"),
        ("bigint", "18446744073709551616"), ("year", "-1"),
    ],
)  # fmt: skip
def test_a5_integers_outside_their_type_are_refused(kind: str, text: str) -> None:
    """tinyint unsigned -1 is read as 18446744073709551615 today."""
    result = decode(extra_field(text, tidb_type=kind, type="int64"))
    assert result.error is not None, result.events[0].after["f"]


def test_a6_an_escaped_surrogate_is_not_a_byte() -> None:
    """ "\\udcff" in JSON becomes {"hex":"ff"}: bytes nobody sent (\\ud800 is refused)."""
    result = decode(extra_field('"\\udcff"', type="string"))
    assert result.error is not None, result.events[0].after["f"]


def test_a7_tables_with_one_sanitised_name() -> None:
    """订单1 and 数据1 are one Avro name: their versions are mixed (and not in order of time): never a guess."""
    entry, two = TableId("d", "订1"), TableId("d", "数1")

    def version(ts: int, id_: TableId, name: str) -> TableVersion:
        return TableVersion(ts, Table(id_, (Column("a", BY_NAME["int"]), Column(name, BY_NAME["int"]))))

    found = TableDefinitions([version(10, entry, "x"), version(30, entry, "y"), version(20, two, "z")])
    assert found.sanitised(TableId("d", "_1"), ("a",), 40) is None


def test_a7_columns_with_one_sanitised_name() -> None:
    """`a.b` and `a-b` are both a_b in Avro: which one a field is can't be known, of a message and of a line."""
    made, known = table(column("a_b", "int")), Tables(table(column("a.b", "int"), column("a-b", "int")))
    event = change(made, {"a_b": "7"})
    pair = Pair("avro", known, enable_tidb_extension=True)
    with pytest.raises(WireError, match="'a_b'"):
        pair.through(event)
    line = plain_message(json_line(plain_event(replace(event, format="avro"), ORIGIN)).encode())
    with pytest.raises(WireError, match="column a_b: two columns of shop"):
        PlainDecoder(Context(Registry(), known)).decode(line)


def test_a9_delete_of_which_only_the_key_is_known_is_flagged_also_without_the_value_schema() -> None:
    """A tombstone whose topic has no value schema: Debezium's row schema shrinks to the key, no flag."""
    pair = Pair("avro")
    [written] = pair.encoder.encode(change(table(column("n", "int")), None, {"n": "2"}), ORIGIN)
    [event] = pair.decoder.decode(replace(written, topic="renamed"))
    Pair("debezium").write(event)
    assert "key_only_delete" in event.flags  # type: ignore[union-attr]


def test_a10_a_null_datetime_does_not_change_the_schema() -> None:
    """Schemas are stable across messages. DATETIME(0) from Avro: Timestamp, for NULL MicroTimestamp."""
    pair, columns = Pair("debezium"), table(column("t", "datetime"))
    first = field(pair.write(change(columns, {"t": "2024-01-01 00:00:00"})), "t")
    assert field(pair.write(change(columns, {"t": None})), "t") == first


def test_a12_commit_ts_that_is_not_known_is_not_null_in_a_field_declared_not_null() -> None:
    """Avro refuses it (LOSSY_VALUE); Debezium writes null, and the schema of that message calls it optional."""
    event = change(table(), {}, commit_ts=None)
    for name in ("debezium", "debezium-tidb"):
        [written] = Pair(name, enable_tidb_extension=True).encoder.encode(event, replace(ORIGIN, timestamp=None))
        assert event.flags == ["commit_ts_unknown"]
        assert payload(written)["source"]["commit_ts"] is None
        schema = json.loads(written.value or b"")["schema"]
        source = next(f for f in schema["fields"] if f["field"] == "source")
        assert next(f for f in source["fields"] if f["field"] == "commit_ts")["optional"] is True


# ------------------------------------------------------------------ B. exceptions other than WireError
@each(
    ("kind", "default"),
    [("date", "0000-00-00"), ("datetime", "0000-00-00 00:00:00"), ("datetime", "CURRENT_TIMESTAMP(3)")],
)
def test_b2_default_that_has_no_number_in_debezium(kind: str, default: str) -> None:
    columns = table(column("d", kind, scale=0, has_default=True, default=default))
    written = Pair("debezium").write(change(columns, {"d": None}))
    assert field(written, "d").get("default") == (0 if "CURRENT" in default else None)


def test_b3_schema_without_before_and_after() -> None:
    """StopIteration escapes."""
    message, whole = good()
    whole["schema"]["fields"] = [f for f in whole["schema"]["fields"] if f["field"] not in ("before", "after")]
    assert decode(replace(message, value=compact(whole))).error is not None


@each("depth", [300, 600, 900])
def test_b4_deep_schema_before_the_payload(depth: int) -> None:
    """RecursionError from json_exact.dump escapes."""
    message, whole = good()
    value = b'{"schema":' + b"[" * depth + b"]" * depth + b',"payload":' + compact(whole["payload"]) + b"}"
    assert decode(replace(message, value=value)).error is not None


@each("text", ["1e99999999999999999999", "1e-99999999999999999999"])
def test_b5_number_with_a_huge_exponent(text: str) -> None:
    """decimal.InvalidOperation (an ArithmeticError) escapes values.plain_decimal."""
    assert decode(extra_field(text, tidb_type="decimal")).error is not None


@each(("schema", "default"), [({"type": "float"}, 1e39), ({"tidb_type": "decimal"}, "@D")])
def test_b6_schema_default_that_is_no_value(schema: dict[str, Any], default: Any) -> None:
    """OverflowError / InvalidOperation from column_of_field's default."""
    message = extra_field("1", default=default, **schema)
    result = decode(replace(message, value=(message.value or b"").replace(b'"@D"', b"1e99999999999999999999")))
    assert result.error is None
    assert result.events[0].after["f"] == "1"


def test_b7_name_with_a_lone_surrogate() -> None:
    """UnicodeEncodeError escapes the Debezium encoder."""
    message, whole = good()
    whole["payload"]["source"]["db"] = "@@"
    bad = replace(message, value=compact(whole).replace(b'"@@"', b'"\\ud800"'))
    result = transcode_message(G.side().decoder(), Pair("debezium", on_lossy="flag").encoder, bad)
    assert result.error is not None
    assert "surrogate" in result.error.detail


# ------------------------------------------------------------------ C. refused or accepted wrongly
def test_c1_our_own_output_can_be_read() -> None:
    """Avro → Debezium with debezium_include_start_ts writes start_ts null; our decoder: MALFORMED."""
    assert Pair("debezium", debezium_include_start_ts=True).through(change(table(), {})).after == {"id": "1"}


@each("separators", [(", ", ": "), (",", ": "), (", ", ":")])
def test_c2_spaces_in_json_change_nothing(separators: tuple[str, str]) -> None:
    message, whole = good()
    spaced = replace(message, value=json.dumps(whole, separators=separators).encode())
    assert decode(spaced).events == decode(message).events


@each(
    "body",
    [
        '{"query":1,"type":NaN,"schema":[],"table":null,"commitTs":"x"}',
        '{"query":"q","type":1,"schema":"s","table":"t","commitTs":NaN}',
    ],
)
def test_c5_avro_ddl_fields_are_of_their_types(body: str) -> None:
    """NaN even reaches the output, which then is no JSON."""
    image = Golden("avro", "pk_int.ext1").side()
    result = decode_message(image.decoder(), Message(None, b"\x01" + body.encode()))
    for event in result.events:
        json.loads(json_line(plain_event(event, Message(None, None))), parse_constant=lambda x: pytest.fail(x))
    assert result.error is not None


def test_c6_numbers_of_table_changes_stay_numbers() -> None:
    """`extra.tableChanges` prints {"length": "11"}: Number is a str, so a DDL can't be written again from its line."""
    golden = Golden("debezium", "pk_int.schema")
    ddl = next(m for m in golden.messages() if m.value and b'"ddl"' in m.value)
    [event] = golden.side().decoder().decode(ddl)
    shown = json.loads(json_line(plain_event(event, ddl)))["extra"]["tableChanges"]
    assert shown == json.loads(ddl.value or b"")["payload"]["tableChanges"]


def test_c7_extra_has_one_order() -> None:
    """The checksum fields had the order of a frozenset, which changes with PYTHONHASHSEED."""
    golden = Golden("avro", "checksum.checksum")
    [event, *_] = (e for e in golden.events() if isinstance(e, RowChange) and e.op != "d")
    assert list(event.extra) == ["checksum"]
    assert list(event.extra["checksum"]) == ["version", "corrupted", "current", "previous"]


def test_c8_encoding_twice_gives_the_flags_once() -> None:
    event = change(table(column("n", "int")), {"n": "1"}, op="u")
    for _ in range(2):
        DebeziumEncoder(Context(Registry(), None, Options())).encode(event, ORIGIN)
    assert event.flags == ["no_before"]


@pytest.mark.parametrize(
    "module",
    [
        "ticdc_bridge.schemas.formats.avro.schema",
        "ticdc_bridge.schemas.formats.debezium.json_schema",
        "ticdc_bridge.schemas.formats.avro.decoder",
        "ticdc_bridge.schemas.model.ports",
        "ticdc_bridge.schemas.plain.writer",
    ],
)
def test_g1_every_module_imports_on_its_own(module: str) -> None:
    """schemas.formats.avro.schema → schemas.model.options → schemas.formats.format_table → schemas.formats.avro.decoder
    → schemas.formats.avro.schema (partial).
    """
    import subprocess
    import sys

    from tests.support.golden import ROOT

    assert subprocess.run([sys.executable, "-c", f"import {module}"], cwd=ROOT, check=False).returncode == 0
