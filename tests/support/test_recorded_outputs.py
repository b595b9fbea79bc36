"""The program gives out what tests/outputs.tsv says; `python -m tests.support.record_outputs` writes it anew."""

from typing import TYPE_CHECKING

import pytest

from tests.support.record_outputs import differences, groups, outputs_of, read_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("group", groups())
def test_outputs_are_those_recorded(group: str, request: pytest.FixtureRequest) -> None:
    spark: SparkSession | None = request.getfixturevalue("spark") if group.startswith("spark") else None
    found = differences(read_file()[group], outputs_of(groups()[group](spark)))
    assert not found, f"{len(found)} outputs differ: " + "; ".join(found[:20])
