"""Messages of a real Debezium MySQL connector: every setting gives the rows that the SQL wrote."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest

from tests.support import connector
from tests.support.connector import ByName
from tests.support.each import each
from tests.support.golden import Registry
from tests.support.rows import Tables
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas, RegisteredSchema
from ticdc_bridge.schemas.inspect.format_lookup import format_named
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import DdlEvent, Message, RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Column, Table, TableId, TableVersion, Value
from ticdc_bridge.schemas.model.types import BY_NAME, Kind
from ticdc_bridge.schemas.model.values import shift_zone
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message
from ticdc_bridge.spark_jobs.pipeline.result import Summary

WIDE = [n for n in connector.settings() if not n.startswith(("edge", "ticdc_foo"))]
MODES: dict[str, dict[str, Any]] = {
    "bigint_precise": {"bigint_unsigned_handling_mode": "precise"}, "binary_base64": {"binary_handling_mode": "base64"},
    "binary_hex": {"binary_handling_mode": "hex"}, "decimal_double": {"decimal_handling_mode": "double"},
    "decimal_string": {"decimal_handling_mode": "string"},
    "ticdc_like": {"decimal_handling_mode": "double", "binary_handling_mode": "base64"},
    "time_connect": {"time_precision_mode": "connect"}, "time_microseconds": {"time_precision_mode": "microseconds"},
}  # fmt: skip
DEFAULTS: dict[str, Any] = {
    "decimal_handling_mode": "precise",
    "time_precision_mode": "adaptive_time_microseconds",
    "binary_handling_mode": "bytes",
}
# What a setting loses, and the flag that says so.
LOSSES = {"decimal_double": "lossy_decimal", "ticdc_like": "lossy_decimal", "time_connect": "fraction_cut"}


def _versions() -> list[TableVersion]:
    """The table of each row message of every setting, from the column types that `source_type` propagates."""
    events = _rows(connector.json_messages("source_type"), ByName({}))
    found: list[TableVersion] = []
    for event in events:
        same = [v for v in found if v.table == event.table]
        found.append(same[0] if same else TableVersion(len(found) + 1, event.table))
    return found


def _rows(messages: list[Message], tables: ByName, name: str = "", versions: Any = None, **options: Any) -> Any:
    """The row events in order; the table source is told the version of each row before it is read."""
    decoder = connector.side(connector.avro_schemas(name) if name else None, tables, **options).decoder()
    out: list[RowChange] = []
    for message in messages:
        if versions is not None and len(out) < len(versions):
            tables.versions = {versions[len(out)].table.id: versions[len(out)]}
        out += [e for e in decoder.decode(message) if isinstance(e, RowChange)]
    return out


VERSIONS = _versions()


def _plain(event: RowChange) -> tuple[Any, ...]:
    return event.op, event.db, event.table_name, event.key, event.before, event.after


def _check(name: str, rows: list[RowChange], wanted: list[RowChange]) -> None:
    assert len(rows) == len(wanted)
    flag = LOSSES.get(name)
    for row, want in zip(rows, wanted, strict=True):
        assert _plain(replace(row, before=None, after=None)) == _plain(replace(want, before=None, after=None))
        for image, other in ((row.before, want.before), (row.after, want.after)):
            assert (image is None) == (other is None)
            for column, value in (other or {}).items():
                got = (image or {})[column]
                # Every run has its own CURRENT_TIMESTAMP.
                if column == "c_ts" or _same(row.table.by_name[column], got, value):
                    continue
                # TIME beyond a day becomes NULL in connect mode, and nothing tells.
                outside = name == "time_connect" and got is None and row.table.by_name[column].type.name == "time"
                assert outside or f"{flag}:{column}" in row.flags, (column, got, value, row.flags)


def _same(column: Column, got: Value, want: Value) -> bool:
    if column.type.kind is Kind.JSON and isinstance(got, str) and isinstance(want, str):
        return bool(json.loads(got, parse_float=Decimal) == json.loads(want, parse_float=Decimal))
    return got == want


def _wanted() -> list[RowChange]:
    return list(_rows(connector.json_messages("default"), ByName({}), versions=VERSIONS))


STRANGE = "we-ird"  # a table whose names Avro does not take


def _case(name: str, messages: list[Message], without_strange: bool) -> tuple[Any, ...]:
    """(messages, the version of each row, the rows wanted), with or without the table of strange names."""
    versions, wanted = VERSIONS, _wanted()
    if without_strange:
        messages = [m for m in messages if STRANGE not in str(m.topic)]
        versions = [v for v in versions if STRANGE not in v.table.id.table]
        wanted = [w for w in wanted if STRANGE not in w.table_name]
    if name == "unwrap":  # flattened: an update's old row is not there
        wanted = [replace(w, before=w.before if w.op == "d" else None) for w in wanted]
    return messages, versions, wanted


# schema_name_avro: the connector was told to adjust names, in JSON too.
@each("name", WIDE)
def test_json_with_schema_gives_the_same_rows(name: str) -> None:
    messages, versions, wanted = _case(name, connector.json_messages(name), name == "schema_name_avro")
    binary = {k: v for k, v in MODES.get(name, {}).items() if k == "binary_handling_mode"}
    _check(name, _rows(messages, ByName({}), versions=versions, **binary), wanted)


@each("name", WIDE)
def test_json_without_schema_gives_the_same_rows(name: str) -> None:
    """With table definitions, and options that say how the connector was set."""
    messages, versions, wanted = _case(name, connector.json_messages(f"{name}.noschema"), name == "schema_name_avro")
    options = {**DEFAULTS, **MODES.get(name, {})}
    _check(name, _rows(messages, ByName({}), versions=versions, **options), wanted)


@each("name", WIDE)
def test_avro_gives_the_same_rows(name: str) -> None:
    """The connector's own converter refused names that Avro does not take."""
    messages, versions, wanted = _case(name, connector.avro_messages(name), without_strange=True)
    binary = {k: v for k, v in MODES.get(name, {}).items() if k == "binary_handling_mode"}
    rows = _rows(messages, ByName({}), name=name, versions=versions, **binary)
    assert all(r.schema_id is not None for r in rows)
    _check(name, rows, wanted)


def test_binary_text_that_is_base64_and_hexadecimal_is_not_guessed() -> None:
    with pytest.raises(WireError, match="'00ff' can be base64 and hexadecimal: set binary_handling_mode"):
        _rows(connector.json_messages("binary_hex"), ByName({}), versions=VERSIONS)


# ---------------------------------------------------------------------------------- against the SQL
_LITERAL = re.compile(
    r"b'(?P<bits>[01]+)'|0x(?P<hex>[0-9A-Fa-f]+)|'(?P<text>(?:[^'\\]|\\.|'')*)'|(?P<word>TRUE|FALSE|NULL)"
    r"|(?P<number>-?[\d.]+(?:E[+-]?\d+)?)"
)


def _literals(values: str) -> Iterator[Any]:
    for found in _LITERAL.finditer(values):
        if found["bits"] or found["hex"]:
            yield int(found["bits"], 2) if found["bits"] else bytes.fromhex(found["hex"])
        elif found["text"] is not None:
            yield re.sub(r"\\(.)|'(')", lambda m: m[1] or m[2], found["text"])
        else:
            yield {"TRUE": "1", "FALSE": "0", "NULL": None}.get(found[0], found[0])


def _sql_rows() -> dict[str, dict[str, Any]]:
    """Rows 1 to 3 of `wide` as the INSERT statements write them."""
    rows: dict[str, dict[str, Any]] = {}
    for file in ("wide.setup.sql", "wide.stream.sql"):
        text = (connector.FOLDER / file).read_text(encoding="utf-8")
        for found in re.finditer(r"INSERT INTO wide \((id,ti,[^)]*)\) VALUES\s*(.*?);\n", text, re.DOTALL):
            names = found[1].split(",")
            literals = list(_literals(found[2]))
            assert len(literals) % len(names) == 0
            bounds = range(0, len(literals) + 1, len(names))
            for start, end in pairwise(bounds):
                row = dict(zip(names, literals[start:end], strict=True))
                rows[row["id"]] = row
    return rows


def _is(column: Column, got: Value, literal: Any) -> bool:
    """True if a plain value is what the SQL literal stores in the column."""
    kind = column.type.kind
    if got is None or literal is None:
        return got is literal
    if kind is Kind.BIT:
        number = literal if isinstance(literal, int) else int.from_bytes(literal, "big")
        return isinstance(got, bytes) and int.from_bytes(got, "big") == number
    if kind is Kind.BINARY:
        data = literal if isinstance(literal, bytes) else literal.encode()
        return got == (data.ljust(column.length or 0, b"\0") if column.type.name == "binary" else data)
    assert isinstance(got, str)
    if kind is Kind.DECIMAL:
        return Decimal(got) == Decimal(literal) and len(got.partition(".")[2]) == column.scale
    if kind in (Kind.FLOAT, Kind.DOUBLE):
        # MySQL's snapshot of a FLOAT has six digits.
        tolerance = 1e-5 if kind is Kind.FLOAT else 0.0
        return abs(float(got) - float(literal)) <= abs(float(literal)) * tolerance
    if kind is Kind.JSON:
        return bool(json.loads(got) == json.loads(literal))
    if kind in (Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME):
        text = shift_zone(literal, "+08:00", "UTC")[0] if kind is Kind.TIMESTAMP else literal
        integer, _, fraction = text.partition(".")
        return got == (f"{integer}.{fraction.ljust(column.scale, '0')}" if column.scale else integer)
    return bool(got == literal)


def test_rows_are_those_of_the_sql() -> None:
    rows = {r.after["id"]: r for r in _wanted() if r.table_name == "wide" and r.op in ("r", "c") and r.after}
    for id_, literals in _sql_rows().items():
        event = rows[id_]
        assert event.after is not None
        wrong = {
            name: (event.after[name], literal)
            for name, literal in literals.items()
            if not _is(event.table.by_name[name], event.after[name], literal)
        }
        assert wrong == {}
        assert event.after["g_v"] == str(int(id_) + 1)
    assert len(_sql_rows()) == 3


def test_zero_and_partial_dates_are_null_or_moved() -> None:
    """Row 5: zero dates are NULL; ENUM and SET have their empty values; YEAR 0000 comes back from 1900."""
    rows = {r.after["id"]: r.after for r in _wanted() if r.table_name == "wide" and r.op == "c" and r.after}
    five = rows["5"]
    assert {k: five[k] for k in ("da", "dt", "dt3", "dt6", "ts", "ts3", "ts6")} == dict.fromkeys(
        ("da", "dt", "dt3", "dt6", "ts", "ts3", "ts6")
    )
    assert (five["t"], five["t6"], five["y"], five["en"], five["st"], five["bit5"]) == (
        "-00:00:01", "-12:34:56.123456", "0", "", "", b"\x1f",
    )  # fmt: skip
    assert rows["7"]["da"] == "2069-06-15"
    assert rows["6"]["t6"] == "24:00:00.000001"


# ---------------------------------------------------------------------------------- edges
def _edge(table: str) -> dict[Any, RowChange]:
    decoder = connector.side().decoder()
    results = [decode_message(decoder, m) for m in connector.json_messages("edge")]
    events = [e for r in results for e in r.events if isinstance(e, RowChange) and e.table_name == table]
    return {e.after["id"]: e for e in events if e.after}


def test_not_null_zero_values_are_flagged() -> None:
    rows = _edge("nn")
    entry, two = rows["1"], rows["2"]
    assert entry.after == {
        "id": "1", "da": "1970-01-01", "dt": "1970-01-01 00:00:00.000", "dt6": "1970-01-01 00:00:00.000000",
        "ts": "2000-01-01 00:00:00.000", "t6": "-00:00:00.000001", "y": "0", "en": "", "st": "",
    }  # fmt: skip
    assert sorted(entry.flags) == [f"temporal_zero_ambiguous:{c}" for c in ("da", "dt", "dt6", "ts")]
    assert sorted(two.flags) == ["temporal_zero_ambiguous:da", "temporal_zero_ambiguous:dt"]
    assert two.after is not None
    assert (two.after["ts"], two.after["t6"], two.after["y"]) == ("2023-11-30 04:34:56.120", "838:59:58.999999", "1999")


def test_enum_values_of_the_binlog_lose_their_escapes() -> None:
    rows = _edge("fmt")
    assert {id_: r.after["en"] for id_, r in rows.items() if r.after} == {
        "1": "g,h", "3": 'c"d', "4": "e'f", "5": "g,h", "6": "", "7": " sp",
    }  # fmt: skip
    assert rows["1"].table.by_name["en"].elements == ("a\\b", 'c"d', "e'f", "g,h", "", " sp")


def test_geometry_is_refused_by_name() -> None:
    decoder = connector.side().decoder()
    errors = [r.error for r in (decode_message(decoder, m) for m in connector.json_messages("edge")) if r.error]
    assert [(e.code, e.fields["column"]) for e in errors] == [("TYPE_UNKNOWN", "geo")]


def test_without_schema_the_options_must_say() -> None:
    """DATETIME and TIME have a unit that nothing tells; DECIMAL and binary text can be told apart where they can."""
    messages = connector.json_messages("default.noschema")
    with pytest.raises(WireError, match="time_precision_mode") as caught:
        _rows(messages, ByName({}), versions=VERSIONS)
    assert caught.value.code == "TYPE_UNKNOWN"


def test_tombstones_truncations_and_schema_changes() -> None:
    decoder, summary = connector.side().decoder(), Summary()
    results = [(m, decode_message(decoder, m)) for m in connector.json_messages("skipped_none")]
    for message, result in results:
        assert result.skipped == (["tombstone"] if message.value is None else [])
        summary.count(result)
    assert "skipped tombstone 6" in summary.lines()
    ddl = [e for _, r in results for e in r.events if isinstance(e, DdlEvent)]
    [truncate] = [e for e in ddl if e.extra.get("op") == "t"]
    assert (truncate.ddl_type, truncate.query, truncate.table) == (11, "TRUNCATE TABLE `dbz`.`nopk`", "nopk")
    created = next(e for e in ddl if e.query.startswith("CREATE TABLE `cpk`"))
    assert (created.db, created.table) == ("dbz", "cpk")
    assert created.extra["tableChanges"][0]["table"]["primaryKeyColumnNames"] == [
        "k_biu", "k_dec", "k_dt", "k_bin", "k_en",
    ]  # fmt: skip


def test_key_is_in_index_order() -> None:
    keys = {e.key for e in _wanted() if e.table.id == TableId("dbz", "cpk")}
    assert keys == {("k_biu", "k_dec", "k_dt", "k_bin", "k_en")}


_BARE = [("paid_on", "int32", 19724), ("seen_at", "int64", 1704164645678), ("at", "int64", 11045000000)]


@each(("mode", "values"), [
    ("adaptive_time_microseconds", {"paid_on": "2024-01-02", "seen_at": "2024-01-02 03:04:05.678", "at": "03:04:05"}),
    ("auto", {"paid_on": "19724", "seen_at": "1704164645678", "at": "11045000000"}),
])  # fmt: skip
def test_numbers_that_lost_their_semantic_names(mode: str, values: dict[str, str]) -> None:
    """Only time_precision_mode makes dates and times of them; without it the definition is not used."""
    fields = [{"type": kind, "optional": True, "field": name} for name, kind, _ in _BARE]
    row = {"type": "struct", "fields": fields, "optional": True, "name": "s.shop.t.Value", "field": "after"}
    schema = {"type": "struct", "fields": [row], "optional": False, "name": "s.shop.t.Envelope"}
    source = {"connector": "mysql", "name": "s", "db": "shop", "table": "t", "file": "b.000001", "pos": 1, "row": 0}
    payload = {"before": None, "after": {n: v for n, _, v in _BARE}, "source": source, "op": "c", "ts_ms": 1}
    message = Message(None, json.dumps({"schema": schema, "payload": payload}).encode())
    definition = Table(
        TableId("shop", "t"),
        (Column("paid_on", BY_NAME["date"]), Column("seen_at", BY_NAME["datetime"], scale=3),
         Column("at", BY_NAME["time"], scale=0)),
    )  # fmt: skip
    context = Context(Registry(), Tables(definition), Options.of({"time_precision_mode": mode}))
    [event] = format_named("debezium-mysql").decoder(context).decode(message)
    assert isinstance(event, RowChange)
    assert event.after == values
    assert (event.mismatch is None) is (mode != "auto")


def _without_meta(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {name: _without_meta(value) for name, value in schema.items() if not name.startswith("connect.")}
    return [_without_meta(value) for value in schema] if isinstance(schema, list) else schema


def test_avro_without_connects_names() -> None:
    """connect.meta.data=false leaves Avro's logical types: DECIMAL, dates and times of connect mode are known."""
    rows = connector.schema_rows("time_connect")
    texts = [(row["subject"], row["id"], json.dumps(_without_meta(json.loads(row["schema"])))) for row in rows]
    bare = FileSchemas([RegisteredSchema(subject, 1, id_, text) for subject, id_, text in texts])
    readers = [
        CodecConfig(format_, schemas, Options()).decoder()
        for format_, schemas in (("debezium-mysql", connector.avro_schemas("time_connect")), ("auto", bare))
    ]
    kinds = {Kind.DECIMAL, Kind.DATE, Kind.DATETIME, Kind.TIME}
    seen = set[Kind]()
    for message in connector.avro_messages("time_connect"):
        named, unnamed = (decode_message(reader, message) for reader in readers)
        assert unnamed.error is None
        for event, other in zip(named.events, unnamed.events, strict=True):
            assert type(event) is type(other)
            if isinstance(event, RowChange) and isinstance(other, RowChange):
                of = {c.name: c.type.kind for c in event.table.columns if c.type.kind in kinds}
                for entry, two in ((event.before, other.before), (event.after, other.after)):
                    assert entry is None or {n: entry[n] for n in of} == {n: (two or {}).get(n) for n in of}
                seen |= set(of.values())
    assert seen == kinds
