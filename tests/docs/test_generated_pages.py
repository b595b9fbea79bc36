"""The pages of docs/ that are made from tables say what the tables say."""

import re
from dataclasses import fields

from tests.matrix import compatibility_page
from tests.matrix.generated_part import GeneratedPart
from tests.matrix.parts import PARTS
from tests.service.api.test_replay import COUNTS
from tests.support.golden import ROOT
from tests.support.table import check_rows
from ticdc_bridge.schemas.model.errors import ERRORS
from ticdc_bridge.schemas.model.options import Options


def test_parts_are_up_to_date() -> None:
    def check(part: GeneratedPart) -> None:
        assert part.read() == PARTS[part](), "run `make docs`"

    check_rows(PARTS, check, name=lambda part: part.name)


def test_the_reference_names_every_option_of_a_format_and_every_code() -> None:
    page = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    names = {field.name for field in fields(Options)}
    names |= ERRORS.keys()  # those of the REST API are a part of the page
    assert names - set(re.findall(r"`(\w+)`", page)) == set()


def test_compatibility_has_the_counts_that_the_replay_is_held_to() -> None:
    text = compatibility_page.PAGE.read_text(encoding="utf-8")
    for counts in COUNTS.values():
        row = " | ".join(f"{counts[profile]} of {counts[profile]}" for profile in (8, 7))
        assert f"| {row} |" in text, "run `make docs`"
    total = f"{sum(counts[8] for counts in COUNTS.values()):,}"
    assert f"({total} of {total} [captured exchanges]" in (ROOT / "README.md").read_text(encoding="utf-8")
