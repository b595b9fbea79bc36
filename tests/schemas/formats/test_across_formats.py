"""Single rules of writing one format from another's event; what is lost is in test_losses.py."""

from dataclasses import replace
from typing import Any

import pytest

from tests.matrix.page import _CARRIERS
from tests.matrix.round_trip import FORMS
from tests.support import connector
from tests.support.each import each
from tests.support.golden import ALL, CONNECTOR, CONNECTORS, EVOLUTION, ROOT, WIDE, Golden, cases
from tests.support.hostile import hostile
from tests.support.rows import COMMIT_TS, ORIGIN, Pair, change, column, payload, table
from tests.support.table import check_rows
from ticdc_bridge.schemas.formats.format_table import FORMATS, WRITTEN
from ticdc_bridge.schemas.inspect.format_detection import detect_format
from ticdc_bridge.schemas.inspect.losses import LOSSES
from ticdc_bridge.schemas.model.errors import LossyError, WireError
from ticdc_bridge.schemas.model.event import Watermark
from ticdc_bridge.schemas.model.table import Column
from ticdc_bridge.schemas.model.types import BY_NAME

# ---- Each row of the format table has what a format needs, or fails by its name.

_READ_AS = {"open-tiflow": "open"}  # its messages are told by nothing from another format's


def check_format(name: str) -> None:
    page = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    assert f"`{name}`" in page, "docs/reference.md does not name it"
    if name in WRITTEN:
        assert name in _CARRIERS, "tests/matrix/page.py does not say what a type is on its wire"
        assert name in FORMS, "tests/matrix/round_trip.py has no form of it"
        assert any(name in loss.to for loss in LOSSES), "inspect/losses.py does not say what it loses"
    if name in CONNECTORS:
        assert name != CONNECTOR or connector.settings(), "tests/golden has no messages of it"
        return
    assert cases(name), f"tests/golden/{name} has no case"
    assert Golden(name, WIDE.get(name, "")) in cases(name), "tests/support/golden.py: WIDE"
    assert Golden(name, EVOLUTION.get(name, "")) in cases(name), "tests/support/golden.py: EVOLUTION"
    starts = {golden.name.partition(".")[0] for golden in cases(name)}
    assert {"wide", "evolution", "pk_int"} <= starts, f"tests/golden/{name} lacks a case that every format has"
    assert next(hostile(name, 1024), None), "tests/support/hostile.py has no hostile message of it"
    golden = Golden(name, WIDE[name])
    by_id = golden.schemas.by_id
    found = {detect_format(m.key, m.value, lambda i: by_id(i, "")).format for m in golden.messages()} - {None}
    assert found == {_READ_AS.get(name, name)}, "inspect/format_detection.py does not tell it, or takes it for another"


def test_a_format_is_complete() -> None:
    assert set(ALL) == set(FORMATS)
    check_rows(FORMATS, check_format)


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
        ("int", "x"), ("int", "2147483648"), ("int", b"1"), ("varbinary", "text"), ("bit", "1"), ("double", "x"),
        ("date", 5),
    ],
)  # fmt: skip
def test_values_that_are_not_of_their_type_are_refused_by_column(name: str, kind: str, value: Any) -> None:
    """Values that plain-form input could hold; the encoder names the column."""
    if name == "debezium" and (kind, value) == ("int", "2147483648"):
        pytest.skip("Debezium's JSON numbers have no width; the schema's reader checks it")
    if name == "avro" and kind == "date":
        pytest.skip("Avro carries dates as text as received")
    columns = table(column("v", kind, length=8 if kind == "bit" else None))
    error = Pair(name).refusal(change(columns, {"v": value}))
    assert (error.code, error.fields["column"]) == ("INVALID_VALUE", "v")


@pytest.mark.parametrize("name", ["craft", "open", "open-tiflow"])
def test_text_for_a_bit_column_is_named_so(name: str) -> None:
    error = Pair(name).refusal(change(table(column("v", "bit", length=8)), {"v": "1"}))
    assert error.fields == {"column": "v", "details": "text, where BIT's bytes are needed"}


@pytest.mark.parametrize("name", ["avro", "debezium"])
def test_missing_column_and_null_are_distinguished(name: str) -> None:
    columns = table(column("v", "int"))
    error = Pair(name).refusal(change(columns, {}))
    assert (error.code, error.fields) == ("INVALID_VALUE", {"column": "v", "details": "the event does not carry it"})
    assert Pair(name).through(change(columns, {"v": None})).after == {"id": "1", "v": None}
