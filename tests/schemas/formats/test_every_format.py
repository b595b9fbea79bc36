"""Each row of the format table has what a format needs, or fails by its name."""

from __future__ import annotations

from tests.matrix.page import _CARRIERS
from tests.matrix.round_trip import FORMS
from tests.support import connector
from tests.support.golden import ALL, CONNECTOR, CONNECTORS, EVOLUTION, ROOT, WIDE, Golden, cases
from tests.support.hostile import hostile
from tests.support.table import check_rows
from ticdc_bridge.schemas.formats.format_table import FORMATS, WRITTEN
from ticdc_bridge.schemas.inspect.format_detection import sniff
from ticdc_bridge.schemas.inspect.losses import LOSSES

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
    found = {sniff(m.key, m.value, lambda i: golden.schemas.by_id(i, "")).format for m in golden.messages()} - {None}
    assert found == {_READ_AS.get(name, name)}, "inspect/format_detection.py does not tell it, or takes it for another"


def test_a_format_is_complete() -> None:
    assert set(ALL) == set(FORMATS)
    check_rows(FORMATS, check_format)
