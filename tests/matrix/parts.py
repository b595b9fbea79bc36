"""The parts of docs/ that are made from tables without running anything, and what makes each."""

from collections.abc import Callable, Mapping

from tests.matrix import page, reference_tables, types_page
from tests.matrix.generated_part import GeneratedPart

PARTS: Mapping[GeneratedPart, Callable[[], str]] = {
    page.PART: page.section,
    types_page.PART: types_page.section,
    reference_tables.OPTIONS: reference_tables.options,
    reference_tables.CODES: reference_tables.codes,
}
