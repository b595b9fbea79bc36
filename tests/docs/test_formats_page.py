"""The matrix of docs/reference.md has every type, format and loss."""

from tests.matrix.page import section
from ticdc_bridge.schemas.formats.format_table import FORMATS, WRITTEN
from ticdc_bridge.schemas.inspect.losses import LOSSES, OTHER
from ticdc_bridge.schemas.model.types import TYPES


def test_every_type_and_format_is_in_it() -> None:
    head, *rows = [line for line in section().splitlines() if line.startswith("|")]
    assert all(name in head for name in WRITTEN)
    named = {name for row in rows for name in row.split("|")[1].strip().split(", ")}
    assert {t.name.upper() for t in TYPES if t.name not in ("bit", "datetime")} <= named
    assert {"BIT(1)", "BIT(n)", "DATETIME(0..3)", "DATETIME(4..6)", "FLOAT(M,D)", "BIGINT UNSIGNED"} <= named


def test_losses_name_what_there_is() -> None:
    assert all(to.partition("/")[0] in FORMATS for loss in LOSSES for to in loss.to)
    assert all(OTHER <= loss.row <= 26 for loss in LOSSES)
    assert len({loss.what for loss in LOSSES}) == len(LOSSES)
