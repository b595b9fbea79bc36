"""Format A → event → format B → event is the identity for every pair and every golden case, but for what
`tests/matrix/losses.py` names: there its flag or its error appears (types.md §4).

A sample of the cases by default; BRIDGE_MATRIX=all runs all cases through all forms.
"""

from __future__ import annotations

import os

import pytest

from tests.matrix.passage import FORMS, MORE_FORMS, Passage, Tally, source_rows
from tests.support.golden import Golden, cases

SOURCES = ("avro", "craft", "debezium", "debezium-avro", "open", "open-tiflow", "simple", "canal-json")
WHOLE = os.environ.get("BRIDGE_MATRIX") == "all"
SAMPLE = (
    "wide.", "pk_types.", "charset.", "defaults.", "names.", "names_ascii.", "names_collision.", "generated.",
    "evolution.", "no_key.", "partition.", "uk_notnull.", "pk_int.", "large.handlekeyonly",
)  # fmt: skip
# A message carries nothing else where these differ: one of them is enough.
REPEATED = (".batch1", ".lz4", ".snappy", ".build_at_end", ".build_at_end.batch64", ".startts.noold", ".noschema")


def chosen(format_: str) -> list[Golden]:
    found = cases(format_)
    if WHOLE:
        return found
    return [g for g in found if g.name.startswith(SAMPLE) and not (g.name.endswith(REPEATED) and "ext" not in g.name)]


@pytest.mark.parametrize("form", [*FORMS, *MORE_FORMS] if WHOLE else [*FORMS])
@pytest.mark.parametrize("defined", [True, False], ids=["ddl", "messages"])
@pytest.mark.parametrize("source", SOURCES)
def test_every_row_comes_back_or_its_loss_is_told(source: str, defined: bool, form: str) -> None:
    tally, wrong = Tally(), list[str]()
    for golden in chosen(source):
        passage = Passage(form, golden.zone, golden.definitions if defined else None)
        for event, origin in source_rows(golden, defined):
            passage.check(event, origin, tally)
        wrong += [f"{golden}: {text}" for text in tally.unexplained]
        tally.unexplained.clear()
    assert not wrong, f"{len(wrong)} of {source} → {form}:\n" + "\n".join(wrong[:20])
    assert tally.same or tally.used or tally.refused
