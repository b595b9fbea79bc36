"""What the bridge writes as Debezium's MySQL connector: the connector's own form, and the same rows when read again."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from typing import Any

import pytest

from tests.schemas.formats.debezium.test_mysql_connector_decoder import VERSIONS
from tests.support import connector
from tests.support.connector import ByName
from tests.support.each import each
from tests.support.golden import Golden, Registry, cases, sampled
from tests.support.rows import Pair, Tables, change, table
from ticdc_bridge.schemas.formats.base import Encoder
from ticdc_bridge.schemas.formats.debezium.connect import avro_schema
from ticdc_bridge.schemas.formats.debezium.connect.values import is_zero_date
from ticdc_bridge.schemas.model.errors import LossyError
from ticdc_bridge.schemas.model.event import Message, RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_one

JSON_FORMS: list[dict[str, Any]] = [
    {"decimal_handling_mode": d, "bigint_unsigned_handling_mode": "precise", "time_precision_mode": t,
     "binary_handling_mode": b, "debezium_disable_schema": bare}
    for (d, t, b), bare in itertools.product(
        [
            ("precise", "adaptive_time_microseconds", "bytes"),
            ("string", "microseconds", "base64"),
            ("precise", "nanoseconds", "hex"),
            ("string", "adaptive", "base64-url-safe"),
        ],
        (False, True),
    )
]  # fmt: skip
AVRO_FORM = {"encoding_format": "avro", "bigint_unsigned_handling_mode": "precise"}
FORMS = [*JSON_FORMS, AVRO_FORM]
SOURCES = [
    g
    for g in [*cases("avro"), *cases("debezium"), *cases("debezium-avro")]
    if g.name.startswith(("wide.", "pk_", "uk_", "names.", "evolution.", "bulk.ext", "defaults", "no_key", "charset"))
    and not g.meta["options"].get("debezium_disable_schema")
]


# A column with one of these flags may come back otherwise.
LOST = ("zero_date", "year_adjusted", "invalid_utf8")


def _registry_side(registry: Registry, tables: Any = None, **options: Any) -> CodecConfig:
    return CodecConfig("debezium-mysql", registry, Options.of(options), tables)  # type: ignore[arg-type]


def _flag_names(event: RowChange) -> set[str]:
    return {f.partition(":")[0] for f in event.flags}


@pytest.mark.parametrize(
    "form", [FORMS[0], FORMS[3], FORMS[4], AVRO_FORM], ids=lambda f: "-".join(map(str, f.values()))
)
@each("golden", **sampled(SOURCES))
def test_every_format_comes_back(golden: Golden, form: dict[str, Any]) -> None:
    """event → connector's message → event: the same row, and a flag for what docs/reference.md says is lost."""
    registry, decoder = Registry(), golden.side(ddl=True).decoder()
    there = _registry_side(registry, None, **form, on_lossy="flag").encoder()
    back = _registry_side(registry, golden.definitions, **form).decoder()
    for message in golden.messages():
        for event in decode_one(decoder, message).events:
            if not isinstance(event, RowChange) or event.table_version is None:
                continue
            if any(f.startswith("lossy_decimal:") for f in event.flags):
                strict = _registry_side(Registry(), None, **form).encoder()
                with pytest.raises(LossyError, match="as a double, rounded"):
                    strict.encode(event, message)
                continue
            _round_trip(event, there, back, message, golden.zone, form)


def _has_new_key(event: RowChange) -> bool:
    before, after = event.before, event.after or {}
    return event.op == "u" and before is not None and any(before.get(n) != after.get(n) for n in event.key)


def _round_trip(event: RowChange, there: Encoder, back: Any, origin: Message, zone: str, form: dict[str, Any]) -> None:
    origin = replace(origin, timestamp=1_800_000_000_000)
    if form.get("time_precision_mode") == "nanoseconds" and not _all_in_nanoseconds(event):
        with pytest.raises(LossyError, match="no number of nanoseconds"):
            there.encode(event, origin)
        return
    written = there.encode(event, origin)
    if _has_new_key(event):  # the old key is deleted, and the new one inserted
        assert len(written) == 3
        events = [e for part in written for e in back.decode(part)]
        assert [(e.op, e.table.id) for e in events] == [("d", event.table.id), ("c", event.table.id)]
        return
    assert len(written) == (2 if event.op == "d" and event.key else 1)
    [again] = back.decode(written[0])
    assert isinstance(again, RowChange)
    op = "c" if event.op == "u" and event.before is None else event.op
    assert (again.op, again.table.id) == (op, event.table.id)
    assert again.commit_ts == event.commit_ts or "synthetic_commit_ts" in event.flags
    assert set(again.key) == set(event.key or event.table.handle_key)
    lost = {f.partition(":")[2] for f in event.flags if f.startswith(LOST)}
    for side, other in ((event.before, again.before), (event.after, again.after)):
        if side is None or other is None:
            assert side is None or event.key_only or event.op == "c"
            continue
        for name, value in side.items():
            got = other[name]
            if event.table.by_name[name].type.name == "timestamp" and value is not None and event.zone != "UTC":
                continue  # other tests shift zones; here only that the rest is not touched
            assert got == value or name in lost, (name, got, value, event.flags)


def _all_in_nanoseconds(event: RowChange) -> bool:
    """Whether every DATETIME lies between 1677 and 2262, as nanoseconds can, or has no number at all."""
    names = [c.name for c in event.table.columns if c.type.name == "datetime"]
    texts = [str(side[n]) for side in (event.before, event.after) if side for n in names if side.get(n) is not None]
    dates = [t for t in texts if not is_zero_date(t) and t[:2] != "00"]
    return all("1678" <= t[:4] <= "2261" for t in dates)


# ---------------------------------------------------------------------------------- the connector's own form
def test_connect_schemas_become_confluents_avro_text() -> None:
    """Byte for byte what io.confluent's AvroData registered, for every schema of every setting."""
    seen = 0
    for name in connector.settings(".avro_schemas"):
        registered = {s for s, by in connector.schema_texts(name) if by == "confluent"}
        ours = {avro_schema.text(json.loads(s)["schema"]) for s in connector.documents(name)}
        assert registered - ours == set()
        seen += len(registered)
    assert seen > 250


def _without_ours(source: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in source.items() if k not in ("commit_ts", "cluster_id")}


def test_connector_messages_are_written_again() -> None:
    """The default setting, read with definitions: the same payloads and keys, in the same order of fields."""
    tables = ByName({})
    encoder = _registry_side(
        Registry(), None, bigint_unsigned_handling_mode="long", on_lossy="flag", topic_prefix="dbz1"
    ).encoder()
    decoder, seen, wanted = connector.side(tables=tables).decoder(), 0, connector.json_messages("default")
    for place, message in enumerate(wanted):
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
                assert wanted[place + 1].value is None
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
    "default": {},
    "time_connect": {"time_precision_mode": "connect"},
    "binary_hex": {"binary_handling_mode": "hex"},
    "decimal_string": {"decimal_handling_mode": "string"},
    "decimal_double": {"decimal_handling_mode": "double"},
    "bigint_precise": {"bigint_unsigned_handling_mode": "precise"},
    "source_type": {"column_propagate_source_type": True},
}


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
    for one in kept:
        one["parameters"] = {k: v for k, v in one.get("parameters", []) if not k.endswith(("length", "scale", "type"))}
    return any("source.column" in k for k in kept[0]["parameters"]) and kept[0] == kept[1]
