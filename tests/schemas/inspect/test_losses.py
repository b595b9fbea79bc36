"""Where a transcode loses information, the flag or the error that tells it, by the groups of docs/reference.md.

The losses as data are in `schemas/inspect/losses.py` (`row` is the group), with an example each in a case below.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.matrix.round_trip import Passage, Tally
from tests.support.each import each
from tests.support.golden import CONNECTORS, Registry
from tests.support.rows import ORIGIN, Pair, Tables, change, column, payload, table
from tests.support.rows import field as field_of
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.formats.format_table import WRITTEN
from ticdc_bridge.schemas.inspect.format_lookup import format_named
from ticdc_bridge.schemas.inspect.losses import LOSSES, Loss
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Column, TableId, Value

DEC = column("d", "decimal", length=30, scale=10)


def test_row_1_decimal_beyond_a_double_is_refused_or_flagged() -> None:
    event = change(table(DEC), {"d": "12345678901234567890.1234567891"})
    assert Pair("debezium").refusal(event).code == "LOSSY_VALUE"
    pair = Pair("debezium", Tables(event.table), on_lossy="flag")
    seen = pair.through(event)
    assert seen.flags == ["lossy_decimal:d"]
    assert seen.after == {"id": "1", "d": "12345678901234567000"}


ZERO = table(column("d", "date"), column("t", "datetime", scale=0), column("nd", "date", nullable=False))


def test_rows_3_and_4_lossy_dates_become_null_or_a_flagged_zero() -> None:
    event = change(ZERO, {"d": "0000-00-00", "t": "2024-02-00 00:00:00", "nd": "0000-00-00"})
    seen = Pair("debezium", Tables(ZERO), on_lossy="flag").through(event)
    assert seen.after == {"id": "1", "d": None, "t": None, "nd": "1970-01-01"}
    assert seen.flags == ["temporal_zero_ambiguous:nd"]


def test_row_18_delete_of_which_only_the_key_is_known() -> None:
    columns = table(column("n", "int", nullable=False), column("v", "varchar"))
    pair = Pair("avro")
    pair.write(change(columns, {"n": "2", "v": "x"}))
    deleted = pair.through(change(columns, None, {"n": "2", "v": "x"}))
    assert deleted.before == {"id": "1"}
    message = Pair("debezium").write(deleted)
    assert "key_only_delete" in deleted.flags
    assert payload(message)["before"] == {"id": 1, "n": None, "v": None}
    assert field_of(message, "n")["optional"] is True  # NOT NULL can't be promised of a value that is not known
    assert field_of(message, "id")["optional"] is False


def test_row_19_commit_ts_made_from_the_message_is_flagged() -> None:
    columns = table(column("n", "int"))
    event = change(columns, {"n": "2"}, commit_ts=None)
    seen = Pair("avro", enable_tidb_extension=True).through(event)
    assert event.flags == ["synthetic_commit_ts"]
    assert ORIGIN.timestamp is not None
    assert seen.commit_ts == ORIGIN.timestamp << 18


def test_row_22_names_come_back_by_definition() -> None:
    columns = table(column("订单-no", "int"), db="名", name="1 t")
    event = change(columns, {"订单-no": "1"})
    seen = Pair("avro", Tables(columns)).through(event)
    assert (seen.table.id, seen.after) == (TableId("名", "1 t"), event.after)
    bare = Pair("avro").through(event)
    assert (bare.table.id, bare.after) == (TableId("_", "_1_t"), {"id": "1", "___no": "1"})


def test_row_6_year_0000_of_the_connector() -> None:
    """The connector writes 1900, which is no YEAR; the bridge's own writer keeps 0."""
    columns = table(column("y", "year"))
    pair = Pair("debezium-mysql", Tables(columns))
    message = pair.write(change(columns, {"y": "0"}))
    assert payload(message)["after"]["y"] == 0
    assert message.value is not None
    for value in (message.value, message.value.replace(b'"y":0', b'"y":1900')):
        [seen] = pair.decoder.decode(replace(message, value=value))
        assert isinstance(seen, RowChange)
        assert (seen.after, seen.flags) == ({"id": "1", "y": "0"}, [])


@each("mode", ["base64", "base64-url-safe", "hex"])
def test_row_12_binary_text_needs_its_mode(mode: str) -> None:
    columns = table(column("b", "varbinary"))
    event = change(columns, {"b": bytes.fromhex("69b71d79f7d1")})
    pair = Pair("debezium-mysql", Tables(columns), binary_handling_mode=mode)
    message = pair.write(event)
    reported = Pair("debezium-mysql", Tables(columns), binary_handling_mode=mode)
    reported.decoder = _reader(columns, binary_handling_mode=mode)
    [seen] = reported.decoder.decode(message)
    assert isinstance(seen, RowChange)
    assert seen.after == event.after
    # hex of these bytes is base64 of others, and the base64 text is the same in both alphabets: not guessed.
    if mode == "hex":
        with pytest.raises(WireError, match="base64 and hexadecimal: set binary_handling_mode"):
            pair.decoder.decode(message)
    else:
        assert pair.through(event).after == event.after
    # No definition: text, flagged as what may be binary.
    assert Pair("debezium-mysql", binary_handling_mode=mode).through(event).flags == ["binary_or_text:b"]


def _reader(columns: Any, **options: Any) -> Any:
    """The connector's decoder, told how its messages were written."""
    return format_named("debezium-mysql").decoder(Context(Registry(), Tables(columns), Options.of(options)))


@pytest.mark.parametrize("name", [name for name in WRITTEN if name != "avro"])
def test_row_20_no_commit_ts(name: str) -> None:
    """From the binlog's time and position; else null in JSON, and elsewhere made of Kafka's timestamp; flagged.

    Of a delete Kafka's timestamp is refused: it can lie after the commit_ts of an insert that follows.
    """
    columns = table(column("n", "int"))
    binlog = {"source": {"ts_ms": 1_700_000_000_000, "pos": 5, "row": 1}}
    nullable = name in ("debezium", *CONNECTORS)
    for op in ("c", "d"):
        rows = ({"n": "2"}, None) if op == "c" else (None, {"n": "2"})
        event = replace(change(columns, *rows, commit_ts=None), extra=binlog)
        seen = Pair(name, Tables(columns), tombstones_on_delete=False).through(event)
        assert seen.commit_ts == 1_700_000_000_000 << 18 | 6
        assert event.flags == ["synthetic_commit_ts"]
        event = change(columns, *rows, commit_ts=None)
        if op == "d" and not nullable:
            refused = Pair(name).refusal(event)
            assert (refused.code, refused.fields["column"]) == ("LOSSY_VALUE", "commit_ts")
        seen = Pair(name, Tables(columns), on_lossy="flag", tombstones_on_delete=False).through(event)
        assert seen.commit_ts == (None if nullable else 1_767_348_246_678 << 18)
        assert event.flags == ["commit_ts_unknown" if nullable else "synthetic_commit_ts"]


def test_row_24_not_null_and_defaults_come_from_definitions() -> None:
    columns = table(column("n", "int", nullable=False, has_default=True, default="7"))
    event = change(columns, {"n": "7"})
    bare, known = Pair("debezium-avro").through(event), Pair("debezium-avro", Tables(columns)).through(event)
    assert bare.after == known.after == event.after
    assert [c.nullable for c in bare.table.columns] == [True, True]
    assert [c.nullable for c in known.table.columns] == [False, False]
    assert known.table.by_name["n"].default == "7"


@pytest.mark.parametrize("name", ["debezium", "debezium-mysql"])
def test_row_26_numbers_beyond_javascripts(name: str) -> None:
    """JSON numbers are written in full, as Debezium does; a reader that takes them for doubles loses digits."""
    columns = table(column("t", "datetime", scale=6), column("n", "bigint"))
    event = change(columns, {"t": "9999-12-31 23:59:59.999999", "n": "9007199254740993"})
    message = Pair(name).write(event)
    assert message.value is not None
    assert b'"t":253402300799999999' in message.value
    assert b'"n":9007199254740993' in message.value
    assert Pair(name, Tables(columns)).through(event).after == event.after


# ---- Each row of the table of losses (`schemas/inspect/losses.py`), shown by an example.


@dataclass(frozen=True)
class Example:
    """An event that has a loss in one form: a value of a column, or (`event`) something else."""

    form: str
    column: Column | None = None
    value: Value = None
    defined: bool = True
    zone: str = "UTC"
    event: dict[str, Any] = field(default_factory=dict)
    flags: tuple[str, ...] = ()


DEC65 = column("v", "decimal", length=65, scale=30)
FLOAT = column("v", "float")
DATE = column("v", "date")
BARE_ENUM = column("v", "enum", vague="this ENUM or another")
EXAMPLES: dict[str, Example] = {
    "DECIMAL that a double can't hold exactly": Example("debezium", DEC65, "1." + "1" * 30),
    "DECIMAL of more than 15 digits, or of a scale that the reader does not know": Example(
        "debezium", DEC65, "1.5" + "0" * 29
    ),
    "DECIMAL that the reader can't distinguish from DOUBLE": Example(
        "debezium", DEC65, "1.5" + "0" * 29, defined=False
    ),
    "DECIMAL that the source has rounded to a double": Example("open", DEC65, "1", flags=("lossy_decimal:v",)),
    "DECIMAL that the source has rounded beyond its precision": Example(
        "avro", DEC65, "1" * 40, flags=("lossy_decimal:v",)
    ),
    "BIGINT UNSIGNED above 2^63−1 as int64": Example(
        "debezium", column("v", "bigint", unsigned=True), str(1 << 63), defined=False
    ),
    "BIGINT that may be UNSIGNED": Example(
        "open", column("v", "bigint", vague="BIGINT or BIGINT UNSIGNED"), "-1", defined=False, flags=("sign_unknown:v",)
    ),
    "BIGINT UNSIGNED above 2^63−1 in mode long": Example(
        "debezium-avro/long", column("v", "bigint", unsigned=True), str(1 << 63)
    ),
    "FLOAT that TiCDC damaged in Craft": Example("open", FLOAT, "1.5", flags=("float_damaged:v",)),
    "FLOAT that TiCDC damaged in Craft, no longer a float32": Example("open", FLOAT, "NaN", flags=("float_damaged:v",)),
    "FLOAT(M,D) that the reader can't distinguish from DOUBLE: the same number with more digits": Example(
        "debezium-avro", column("v", "float", length=10, scale=3), "1234.568", defined=False
    ),
    "FLOAT in a Craft message that looks damaged": Example(
        "craft", FLOAT, "0.724", event={"second": "n", "number": "1"}
    ),
    "zero and partial dates": Example("debezium", DATE, "2000-00-00"),
    "zero and partial dates in NOT NULL columns": Example(
        "debezium-mysql", column("v", "date", nullable=False), "0000-00-00"
    ),
    "years below 100": Example("debezium-avro", DATE, "0069-01-01"),
    "TIME below 0, or of 24 hours and more": Example(
        "debezium-mysql/connect", column("v", "time", scale=0), "-01:00:00"
    ),
    "fraction digits below the millisecond": Example(
        "debezium-mysql/connect", column("v", "datetime", scale=6), "2024-01-01 00:00:00.000001"
    ),
    "DATETIME outside 1677-09-21 to 2262-04-11": Example(
        "debezium-mysql/nanoseconds", column("v", "datetime", scale=0), "2300-01-01 00:00:00"
    ),
    "TIMESTAMP in the hour that a time zone has twice": Example(
        "debezium", column("v", "timestamp", scale=0), "2024-11-03 01:30:00", zone="America/New_York"
    ),
    "TIMESTAMP in the hour that a time zone skips": Example(
        "debezium", column("v", "timestamp", scale=0), "2024-03-10 02:30:00", zone="America/New_York"
    ),
    "number of fraction digits of DATETIME, TIME and the zero TIMESTAMP: 3, 6 and 0 without definitions": Example(
        "debezium", column("v", "datetime", scale=0), "2024-01-01 00:00:00", defined=False
    ),
    "text that is not UTF-8": Example("open-tiflow", column("v", "char"), b"\xe9"),
    "binary strings: base64 text where the reader does not know the type": Example(
        "debezium", column("v", "blob"), b"abc", defined=False
    ),
    "ENUM and SET as numbers": Example("craft", column("v", "enum", elements=("a",)), "a", defined=False),
    "BIT as a number: without leading zero bytes": Example(
        "open", column("v", "bit", length=16), b"\0\1", defined=False
    ),
    "ENUM and SET of which only the number is known": Example("avro", BARE_ENUM, "1", flags=("enum_number:v",)),
    "an element that the column's list does not have": Example("open", column("v", "enum", elements=("a",)), "b"),
    "an element whose escaped text is that of another element": Example(
        "debezium-mysql", column("v", "enum", elements=("a,b",)), "a\\,b"
    ),
    "every value whose type neither a schema nor a definition gives": Example(
        "debezium/noschema", DATE, "2024-01-01", defined=False
    ),
    "columns whose type the source does not give": Example("open", column("v", "int", vague="INT or other"), "1"),
    "names: every character but letters, digits and `_` becomes `_`": Example(
        "avro", column("v-w", "int"), "1", defined=False
    ),
    "two columns that get the same name": Example(
        "avro", column("i_d", "int"), "1", event={"second": "i-d", "number": "2"}
    ),
    "the old row of an update": Example("avro", DATE, "2024-01-01", event={"op": "u"}),
    "a delete's columns beyond the primary key": Example("avro", DATE, "2024-01-01", event={"op": "d"}),
    "a delete's commit_ts": Example("avro", DATE, "2024-01-01", event={"op": "d"}),
    "a unique key in place of a primary key": Example("avro", DATE, "2024-01-01", False, event={"unique": True}),
    "a delete in a table without primary key": Example("avro", DATE, "2024-01-01", event={"op": "d", "unique": True}),
    "an update without its old row reads as an insert": Example(
        "open", DATE, "2024-01-01", event={"op": "u", "old": False}
    ),
    "an old row of which only the changed columns were sent: written whole": Example(
        "debezium", DATE, "2024-01-01", event={"op": "u", "partial": True}
    ),
    "a delete without columns beyond its key: NULL in the others": Example(
        "debezium", DATE, None, event={"op": "d", "key_only": True}
    ),
    "a delete from Avro whose columns are not those of its time: a reader with definitions refuses it": Example(
        "debezium", DATE, None, event={"op": "d", "key_only": True, "known": column("w", "date")}
    ),
    "a delete without columns beyond its key, where the old row is asked for": Example(
        "avro/before", DATE, None, event={"op": "d", "key_only": True}
    ),
    "commit_ts where the source has none": Example("craft", DATE, "2024-01-01", event={"commit_ts": None}),
    "a delete's commit_ts where the source has none (TiCDC's Avro)": Example(
        "open", DATE, "2024-01-01", event={"op": "d", "commit_ts": None}
    ),
    "a snapshot's row reads as an insert": Example("craft", DATE, "2024-01-01", event={"op": "r"}),
    "a row without some of its columns": Example("debezium", DATE, None, event={"absent": True}),
    "an insert or update of which only the key was sent": Example(
        "debezium", DATE, None, event={"op": "c", "key_only": True}
    ),
    "a value equal to its column's default: it may have been NULL": Example(
        "debezium", column("v", "int", has_default=True, default="7"), "7"
    ),
    "virtual generated columns: left out, in Avro always NULL": Example(
        "avro", column("v", "int", virtual=True), None, defined=False, event={"absent": True}
    ),
}  # fmt: skip


def _event_of(example: Example) -> RowChange:
    """The event of an example: a change of `id` and its column."""
    reported, columns = example.event, [c for c in (example.column,) if c]
    second = [column(reported["second"], "int")] if "second" in reported else []
    made = table(*columns, *second)
    if "unique" in reported:
        made = replace(made, columns=(replace(made.columns[0], primary_key=False), *made.columns[1:]))
    row: dict[str, Value] = {c.name: example.value for c in columns} | {c.name: reported["number"] for c in second}
    if reported.get("absent") or reported.get("key_only"):
        row = {}
    op = reported.get("op", "c")
    before: dict[str, Value] | None = row if op == "d" or (op == "u" and reported.get("old", True)) else None
    before = {} if reported.get("partial") else before
    event = change(made, None if op == "d" else row, before, op, zone=example.zone, table_version=1)
    commit_ts = None if "commit_ts" in reported else event.commit_ts
    return replace(event, flags=list(example.flags), key_only=bool(reported.get("key_only")), commit_ts=commit_ts)


@each("loss", LOSSES, ids=lambda loss: f"{loss.row}-{loss.what}")
def test_each_loss_is_reported(loss: Loss) -> None:
    """The example is refused with the row's code, or what is written (or read again) has the row's flag."""
    example = EXAMPLES[loss.what]
    event = _event_of(example)
    known = table(example.event["known"]) if "known" in example.event else event.table
    way = Passage(example.form, example.zone, Tables(known) if example.defined else None)
    codes, flags = set[str](), {f.partition(":")[0] for f in event.flags}
    for lossy in (False, True):
        try:
            sent, seen = way.send(event, ORIGIN, lossy)
        except WireError as error:
            codes.add(error.code)
            continue
        flags |= {f.partition(":")[0] for f in (*sent.flags, *(seen.flags if isinstance(seen, RowChange) else ()))}
    assert not loss.error or loss.error in codes
    assert not loss.flag or loss.flag in flags
    tally = Tally()
    way.check(event, ORIGIN, tally)
    assert not tally.unexplained
    assert loss.error or loss.flag or (loss.row, loss.what) in tally.used


def test_every_loss_has_its_example() -> None:
    assert set(EXAMPLES) == {loss.what for loss in LOSSES}
    assert len(EXAMPLES) == len(LOSSES)
