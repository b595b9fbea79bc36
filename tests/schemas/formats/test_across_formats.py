"""Single rules of writing one format from another's event; what is lost is in test_losses.py."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.each import each
from tests.support.rows import COMMIT_TS, ORIGIN, Pair, change, column, payload, table
from ticdc_bridge.schemas.model.errors import LossyError, WireError
from ticdc_bridge.schemas.model.event import Watermark
from ticdc_bridge.schemas.model.table import Column
from ticdc_bridge.schemas.model.types import BY_NAME


def test_bits_turn_round() -> None:
    columns = table(column("b", "bit", length=10), column("one", "bit", length=1))
    event = change(columns, {"b": b"\x02\x01", "one": b"\x01"})
    message = Pair("debezium").write(event)
    assert payload(message)["after"] == {"id": 1, "b": "AQI=", "one": True}
    for pair in (Pair("debezium"), Pair("avro")):
        assert pair.through(event).after == event.after


def test_what_avro_cannot_carry() -> None:
    pair = Pair("avro")
    assert pair.encoder.encode(Watermark("debezium", COMMIT_TS), ORIGIN) == []
    with pytest.raises(WireError, match="topic"):
        pair.encoder.encode(change(table(), {}), replace(ORIGIN, topic=None))
    keyless = replace(
        change(table(), None, {}), table=replace(table(), columns=(Column("n", BY_NAME["int"]),)), before={"n": "1"}
    )
    with pytest.raises(LossyError, match="neither key nor value"):
        pair.encoder.encode(keyless, ORIGIN)


@pytest.mark.parametrize("name", ["avro", "debezium"])
@each(
    ("kind", "value"),
    [
        ("int", "x"),
        ("int", "2147483648"),
        ("int", b"1"),
        ("varbinary", "text"),
        ("bit", "1"),
        ("double", "x"),
        ("date", 5),
    ],
)
def test_values_that_are_not_of_their_type_are_refused_by_column(name: str, kind: str, value: Any) -> None:
    """Values that plain-form input could hold; the encoder names the column."""
    if name == "debezium" and (kind, value) == ("int", "2147483648"):
        pytest.skip("Debezium's JSON numbers have no width; the schema's reader checks it")
    if name == "avro" and kind == "date":
        pytest.skip("Avro carries dates as text as received")
    columns = table(column("v", kind, length=8 if kind == "bit" else None))
    error = Pair(name).refusal(change(columns, {"v": value}))
    assert (error.code, error.fields["column"]) == ("INVALID_VALUE", "v")


@pytest.mark.parametrize("name", ["avro", "debezium"])
def test_missing_column_and_null_are_told_apart(name: str) -> None:
    columns = table(column("v", "int"))
    error = Pair(name).refusal(change(columns, {}))
    assert (error.code, error.fields) == ("INVALID_VALUE", {"column": "v", "details": "the event does not carry it"})
    assert Pair(name).through(change(columns, {"v": None})).after == {"id": "1", "v": None}
