"""The notebook prints what is stored in it. Its cells run here without Jupyter."""

from __future__ import annotations

import json
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.service import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ZONE = "spark.sql.session.timeZone"


def cells() -> list[tuple[str, str]]:
    """The code of each cell, and what is stored as printed by it."""
    notebook = json.loads((ROOT / "examples" / "notebook" / "orders.ipynb").read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["metadata"]["kernelspec"]["name"]) == (4, "python3")
    found = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(output["output_type"] == "stream" for cell in found for output in cell["outputs"])
    return [("".join(cell["source"]), "".join(_text(output) for output in cell["outputs"])) for cell in found]


def _text(output: dict[str, Any]) -> str:
    return "".join(output["text"])


def test_its_cells_are_python_and_have_their_output() -> None:
    code = cells()
    for text, _ in code:
        compile(text, "cell", "exec")
    assert sum(bool(printed) for _, printed in code) >= 5


@pytest.mark.slow
def test_it_prints_what_is_stored(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # it writes a file
    zone, names = spark.conf.get(_ZONE), {"__name__": "__main__"}
    try:
        for text, stored in cells():
            with redirect_stdout(StringIO()) as printed:
                exec(compile(text, "cell", "exec"), names)
            assert [line.rstrip() for line in printed.getvalue().splitlines()] == [
                line.rstrip() for line in stored.splitlines()
            ]
    finally:
        spark.conf.set(_ZONE, str(zone))
