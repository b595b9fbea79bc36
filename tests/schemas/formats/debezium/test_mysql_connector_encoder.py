"""What the bridge writes as Debezium's MySQL connector: the connector's own form, and the same rows when read again."""

import json
import struct
from dataclasses import replace
from typing import Any

import pytest

from tests.schemas.formats.debezium.test_mysql_connector_decoder import VERSIONS
from tests.support import connector
from tests.support.connector import ByName
from tests.support.each import each
from tests.support.golden import Registry
from tests.support.rows import COMMIT_TS, ORIGIN, Pair, Tables, change, column, table
from ticdc_bridge.schemas.formats.debezium.connect import document
from ticdc_bridge.schemas.formats.debezium.mysql_connector.schema import avro_text
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import DdlEvent, Message, RowChange, Watermark
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Table
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig


def _registry_side(registry: Registry, tables: Any = None, **options: Any) -> CodecConfig:
    return CodecConfig("debezium-mysql", registry, Options.of(options), tables)  # type: ignore[arg-type]


# ---------------------------------------------------------------------------------- the connector's own form
def test_connect_schemas_become_confluents_avro_text() -> None:
    """Byte for byte what io.confluent's AvroData registered, for every schema of every setting."""
    seen = 0
    for name in connector.settings(".avro_schemas"):
        registered = {s for s, by in connector.schema_texts(name) if by == "confluent"}
        ours = {avro_text(json.loads(s)["schema"]) for s in connector.documents(name)}
        assert registered - ours == set()
        seen += len(registered)
    assert seen > 250


def test_connector_messages_are_written_again() -> None:
    """The default setting, read with definitions: the same payloads and keys, in the same order of fields."""
    tables = ByName({})
    encoder = _registry_side(
        Registry(), None, bigint_unsigned_handling_mode="long", on_lossy="flag", topic_prefix="dbz1"
    ).encoder()
    decoder, seen, wanted = connector.side(tables=tables).decoder(), 0, connector.json_messages("default")
    for index, message in enumerate(wanted):
        if seen < len(VERSIONS):
            tables.versions = {VERSIONS[seen].table.id: VERSIONS[seen]}
        events = [e for e in decoder.decode(message) if isinstance(e, RowChange)]
        if not events:
            continue
        seen += 1
        written = encoder.encode(events[0], message)
        ours, theirs = _pairs(written[0].value), _pairs(message.value)
        assert [k for k, _ in ours] == [k for k, _ in theirs] == ["schema", "payload"]
        assert _equal(dict(ours)["payload"], dict(theirs)["payload"])
        if message.key is None:
            assert written[0].key is None
        else:
            assert written[0].key is not None
            assert dict(_pairs(written[0].key))["payload"] == dict(_pairs(message.key))["payload"]
            if len(written) == 2:
                assert (written[1].key, written[1].value) == (written[0].key, None)
                assert wanted[index + 1].value is None
    assert seen == len(VERSIONS)


@each("source", [{}, {"db": "shop"}, {"db": "shop", "table": "other"}, {"db": 1, "table": "t"}])
def test_a_source_of_another_table_is_refused(source: dict[str, Any]) -> None:
    """It goes out as it came, and a reader takes db and table from it."""
    pair = Pair("debezium-mysql", Tables(table()))
    event = replace(pair.through(change(table(), {})), extra={"source": source})
    assert (pair.refusal(event).code, "shop.t" in pair.refusal(event).detail) == ("INVALID_VALUE", True)


def _pairs(text: bytes | None) -> Any:
    assert text is not None
    return json.loads(text, object_pairs_hook=list)


def _equal(ours: Any, theirs: Any) -> bool:
    """Payloads alike in values and order of fields; the source block has our two fields at its end."""
    for (name, value), (other, want) in zip(ours, theirs, strict=True):
        assert name == other
        if name == "source":
            assert value[:-2] == want
            continue
        if name in ("before", "after") and want is not None:
            assert [k for k, _ in value] == [k for k, _ in want]
            for (column_, got), (_, cell) in zip(value, want, strict=True):
                # TIMESTAMP of a snapshot lacks its zeros, ENUM of the binlog is escaped, YEAR 0000 is 1900.
                alike = got == cell or (column_ == "y" and (got, cell) == (0, 1900))
                assert alike or column_ in ("ts1", "ts3", "ts6", "en"), (column_, got, cell)
            continue
        assert value == want, name
    return True


def test_schemas_are_the_connectors() -> None:
    """Apart from column defaults and our two fields of source, in both forms of `wide`."""
    for name, options in CONNECTOR_FORMS.items():
        first = next(m for m in connector.json_messages(name) if str(m.topic).endswith(".wide"))
        version = next(v for v in VERSIONS if v.table.id.table == "wide")
        binary = str(options.get("binary_handling_mode", "auto"))
        reading = connector.side(tables=ByName({version.table.id: version}), binary_handling_mode=binary)
        [event] = reading.decoder().decode(first)
        writing = _registry_side(Registry(), None, **options, on_lossy="flag", topic_prefix="dbz1")
        [written] = writing.encoder().encode(event, first)
        got, want = (dict(_pairs(m.value))["schema"] for m in (written, first))
        assert _unlike(dict(got), dict(want)) == []


CONNECTOR_FORMS: dict[str, dict[str, Any]] = {
    "default": {}, "time_connect": {"time_precision_mode": "connect"}, "binary_hex": {"binary_handling_mode": "hex"},
    "decimal_string": {"decimal_handling_mode": "string"}, "decimal_double": {"decimal_handling_mode": "double"},
    "bigint_precise": {"bigint_unsigned_handling_mode": "precise"},
    "source_type": {"column_propagate_source_type": True},
}  # fmt: skip


def _unlike(ours: Any, theirs: Any) -> list[Any]:
    """What differs between two schemas, order of attributes included."""
    fields = [(dict(a), dict(b)) for a, b in zip(ours.pop("fields"), theirs.pop("fields"), strict=True)]
    out: list[Any] = [] if list(ours.items()) == list(theirs.items()) else [(ours, theirs)]
    for mine, other in fields:
        if mine["field"] == "source":
            mine["fields"] = mine["fields"][:-2]
        if mine["field"] in ("before", "after"):
            inner = list(zip(mine.pop("fields"), other.pop("fields"), strict=True))
            out += [(a, b) for a, b in inner if a != [p for p in b if p[0] != "default"] and not _width(a, b)]
        if list(mine.items()) != list(other.items()):
            out.append((mine, other))
    return out


def _width(ours: Any, theirs: Any) -> bool:
    """The connector propagates display widths of types whose length the vocabulary does not keep (YEAR, CHAR …)."""
    kept = [dict(x) for x in (ours, theirs)]
    for entry in kept:
        entry["parameters"] = {
            k: v for k, v in entry.get("parameters", []) if not k.endswith(("length", "scale", "type"))
        }
    return any("source.column" in k for k in kept[0]["parameters"]) and kept[0] == kept[1]


# ---- Single rules of the connector's form as the bridge writes it: envelope, keys, tombstones, times, what is refused.


WIDE_TABLE = table(column("v", "varchar", nullable=False), column("n", "bigint", unsigned=True))


def _payload(message: Message) -> dict[str, Any]:
    assert message.value is not None
    return dict(json.loads(message.value)["payload"])


def test_only_not_null_columns_have_their_defaults() -> None:
    """A converter would put a nullable column's default in NULL's place; a NOT NULL one's lets readers evolve."""
    columns = [
        column("i", "int", default="7", has_default=True),
        column("dec", "decimal", length=12, scale=4, default="1.5", has_default=True),
        column("b", "bit", length=10, default=b"\x02\x01", has_default=True),
        column("vb", "varbinary", default=b"\x01\x02", has_default=True),
        column("d", "date", default="2020-01-02", has_default=True),
        column("z", "date", default="0000-00-00", has_default=True),
        column("now", "datetime", scale=0, default="CURRENT_TIMESTAMP", has_default=True, default_is_expr=True),
        column("ts", "timestamp", scale=0, default="2020-01-02 03:04:05", has_default=True),
        column("u", "bigint", unsigned=True, default="18446744073709551615", has_default=True),
    ]
    wanted = {"i": 7, "dec": "Opg=", "b": "AQI=", "vb": "AQI=", "d": 18263}
    for nullable in (True, False):
        made = table(*(replace(c, nullable=nullable) for c in columns))
        row = {c.name: c.default for c in columns} | {"now": "2020-01-02 03:04:05", "u": "1", "z": "2020-01-02"}
        schema = dict(json.loads(Pair("debezium-mysql").write(change(made, row)).value or b""))["schema"]
        found = {f["field"]: f["default"] for f in schema["fields"][1]["fields"] if "default" in f}
        assert found == ({} if nullable else wanted)
        again = Pair("debezium-mysql", Tables(made), encoding_format="avro").through(change(made, row))
        assert again.after == {"id": "1", **row, "dec": "1.5000"}
        assert again.flags == []


@each(("kind", "default"), [("float", 3.14), ("float", 16777217), ("float", 1e39), ("double", 3.14)])
def test_a_schemas_default_is_read_as_values_are(kind: str, default: float) -> None:
    """NULL that a converter filled with it is found by comparing them: a float32 is widened."""
    field = {"name": "v", "type": {"type": kind, "connect.default": default}, "default": default}
    made = document(json.dumps({"type": "record", "name": "r", "fields": [field]}), "value")
    [column_] = made.schema["fields"]
    if default < 1e38:
        written = struct.pack("<f" if kind == "float" else "<d", default)
        assert made.read(written, 0, "value") == {"v": column_["default"]}
    else:
        assert column_["default"] == "1e+39"  # no value is equal to it


def test_envelope_has_every_field_always() -> None:
    pair = Pair("debezium-mysql")
    message = pair.write(change(WIDE_TABLE, {"v": "a", "n": None}))
    assert list(_payload(message)) == [
        "before", "after", "source", "transaction", "op", "ts_ms", "ts_us", "ts_ns",
    ]  # fmt: skip
    assert _payload(message)["before"] is None
    source = _payload(message)["source"]
    assert source["file"] == f"tidb.{COMMIT_TS >> 18}"
    assert source["ts_ms"] == COMMIT_TS >> 18
    assert source["commit_ts"] == COMMIT_TS
    assert (source["connector"], source["db"], source["table"], source["snapshot"]) == ("mysql", "shop", "t", "false")


@each("tombstones", [True, False])
def test_tombstones(tombstones: bool) -> None:
    encoder = Pair("debezium-mysql", tombstones_on_delete=tombstones).encoder
    written = encoder.encode(change(WIDE_TABLE, None, {"v": "a", "n": "1"}), ORIGIN)
    assert [m.value is None for m in written] == [False, True][: 1 + tombstones]
    assert len({m.key for m in written}) == 1
    keyless = Table(WIDE_TABLE.id, tuple(replace(c, handle_key=False, primary_key=False) for c in WIDE_TABLE.columns))
    [alone] = encoder.encode(change(keyless, None, {"v": "a", "n": "1"}), ORIGIN)
    assert alone.key is None


def test_ddl_and_watermarks_do_not_go_among_rows() -> None:
    encoder = Pair("debezium-mysql").encoder
    truncate = DdlEvent("open", "shop", "t", COMMIT_TS, 11, "TRUNCATE TABLE t")
    assert encoder.encode(truncate, ORIGIN) == []
    assert encoder.encode(DdlEvent("open", "shop", "t", COMMIT_TS, 5, "ALTER TABLE t ADD c INT"), ORIGIN) == []
    assert encoder.encode(Watermark("open", COMMIT_TS), ORIGIN) == []
    asked = _registry_side(Registry(), Tables(WIDE_TABLE), skipped_operations="none").encoder()
    [message] = asked.encode(truncate, ORIGIN)
    assert {k: v for k, v in _payload(message).items() if k in ("op", "before", "after")} == {
        "before": None, "after": None, "op": "t",
    }  # fmt: skip
    [again] = connector.side().decoder().decode(message)
    assert isinstance(again, DdlEvent)
    assert (again.ddl_type, again.db, again.table, again.commit_ts) == (11, "shop", "t", COMMIT_TS)


@each(
    ("kind", "value", "mode"),
    [
        ("time", "-00:00:01", "connect"),
        ("time", "24:00:00", "isostring"),
        ("datetime", "1500-01-01 00:00:00", "nanoseconds"),
    ],
)
def test_times_without_any_form_are_always_refused(kind: str, value: str, mode: str) -> None:
    """The connector writes NULL, or stops (measured)."""
    made = table(column("c", kind, scale=0))
    for on_lossy in ("error", "flag"):
        error = Pair("debezium-mysql", time_precision_mode=mode, on_lossy=on_lossy).refusal(change(made, {"c": value}))
        assert (error.code, error.fields["column"]) == ("LOSSY_VALUE", "c")


MODES = ("adaptive_time_microseconds", "adaptive", "connect", "isostring", "microseconds", "nanoseconds")
TIMES = table(
    *(column(f"{kind}{fsp}", kind, scale=fsp) for kind in ("datetime", "timestamp", "time") for fsp in (0, 3, 6)),
    column("d", "date"),
)


@each("bare", [False, True], ids=["schema", "bare"])
@each("mode", MODES)
def test_times_in_every_mode(mode: str, bare: bool) -> None:
    """connect cuts at the millisecond, and says so; every other mode gives back what it was given."""
    fraction = "123456" if mode != "connect" else "123000"
    row: dict[str, Any] = {
        c.name: _cut(f"{'' if c.type.name == 'time' else '2023-11-30 '}12:34:56.{fraction}", c.scale or 0)
        for c in TIMES.columns[1:-1]
    }
    row["d"] = "2023-11-30"
    existing = Pair("debezium-mysql", time_precision_mode=mode, debezium_disable_schema=bare)
    back = connector.side(tables=ByName({TIMES.id: Tables(TIMES).version}), time_precision_mode=mode).decoder()
    [again] = back.decode(existing.write(change(TIMES, row)))
    assert isinstance(again, RowChange)
    assert again.after == {"id": "1", **row}
    wanted = [f"fraction_cut:{c}" for c in ("datetime6", "time6")] if mode == "connect" else []
    assert again.flags == wanted


def _cut(text: str, fsp: int) -> str:
    integer, _, fraction = text.partition(".")
    return f"{integer}.{fraction[:fsp]}" if fsp else integer


def test_null_in_a_not_null_column_is_refused() -> None:
    error = Pair("debezium-mysql").refusal(change(WIDE_TABLE, {"v": None, "n": None}))
    assert (error.code, error.fields["column"]) == ("INVALID_VALUE", "v")


def test_a_key_only_delete_declares_the_rest_optional() -> None:
    event = change(WIDE_TABLE, None, {}, key_only=True)
    written = Pair("debezium-mysql").encoder.encode(event, ORIGIN)
    assert event.flags == ["key_only_delete"]
    assert _payload(written[0])["before"] == {"id": 1, "v": None, "n": None}


def test_a_type_that_is_not_certain_is_refused() -> None:
    with pytest.raises(WireError, match="--ddl"):
        Pair("debezium-mysql").write(change(table(column("n", "int", vague="SMALLINT or INT")), {"n": "1"}))
