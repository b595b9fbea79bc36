"""Each row of the table of losses (`schemas/inspect/losses.py`), shown by an example."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from tests.matrix.round_trip import Passage, Tally
from tests.support.each import each
from tests.support.rows import ORIGIN, Tables, change, column, table
from ticdc_bridge.schemas.inspect.losses import LOSSES, Loss
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import RowChange
from ticdc_bridge.schemas.model.table import Column, Value


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
    "FLOAT alone in a Craft message that looks damaged": Example(
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
    told, columns = example.event, [c for c in (example.column,) if c]
    second = [column(told["second"], "int")] if "second" in told else []
    made = table(*columns, *second)
    if "unique" in told:
        made = replace(made, columns=(replace(made.columns[0], primary_key=False), *made.columns[1:]))
    row: dict[str, Value] = {c.name: example.value for c in columns} | {c.name: told["number"] for c in second}
    if told.get("absent") or told.get("key_only"):
        row = {}
    op = told.get("op", "c")
    before: dict[str, Value] | None = row if op == "d" or (op == "u" and told.get("old", True)) else None
    before = {} if told.get("partial") else before
    event = change(made, None if op == "d" else row, before, op, zone=example.zone, table_version=1)
    commit_ts = None if "commit_ts" in told else event.commit_ts
    return replace(event, flags=list(example.flags), key_only=bool(told.get("key_only")), commit_ts=commit_ts)


@each("loss", LOSSES, ids=lambda loss: f"{loss.row}-{loss.what}")
def test_each_loss_is_told(loss: Loss) -> None:
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
