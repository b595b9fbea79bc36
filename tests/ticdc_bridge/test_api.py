"""The public API: its names, and the page that promises them."""

import ast
import inspect
import re

import ticdc_bridge
from tests.support.golden import ROOT

NAMES = """changelog count_changes datasource decode encode load merge plain_event reconcile spark_session transcode
Decoder Encoder DdlEvent HistoryTables Message RowChange SchemaSource SetupError TableSource Watermark
WireError""".split()


def test_the_public_names() -> None:
    """They load, the types say the same, and docs/api.md has each."""
    assert sorted(NAMES) == ticdc_bridge.__all__
    for name in NAMES:
        assert getattr(ticdc_bridge, name) is not None
    tree = ast.parse((ROOT / "ticdc_bridge" / "__init__.pyi").read_text())
    assert sorted(
        alias.asname or alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names
    ) == sorted(NAMES)
    page = (ROOT / "docs" / "api.md").read_text()
    assert set(NAMES) <= set(re.findall(r"`(\w+)", page))
    for name, arguments in re.findall(r"`(\w+)\((.*?)\)`", page):
        if name in NAMES:
            known = inspect.signature(getattr(ticdc_bridge, name)).parameters.keys()
            assert set(re.findall(r"\w+", arguments)) <= known, name
