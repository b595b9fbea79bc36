"""The table of tests/README.md: features and the test files that hold them."""

import ast
import re
from pathlib import Path

from tests.support.golden import ROOT

PAGE = ROOT / "tests" / "README.md"
_HEAD = "| feature | test files |\n| --- | --- |\n"


def features(text: str) -> dict[str, list[str]]:
    """Globs of test files by feature. Raises ValueError when the page has no such table."""
    _, head, rest = text.partition(_HEAD)
    if not head:
        raise ValueError(f"{PAGE} has no table that begins with {_HEAD!r}")
    rows = [line.strip("|").split("|") for line in rest.partition("\n\n")[0].splitlines()]
    return {feature.strip(): re.findall(r"`([^`]+)`", globs) for feature, globs in rows}


def has_quick_test(file: Path) -> bool:
    """True if one of its tests is not marked slow, as far as its text says."""
    module = ast.parse(file.read_bytes())
    if any(isinstance(node, ast.Assign) and _is_slow(node, "pytestmark") for node in module.body):
        return False
    classes = [node for node in module.body if isinstance(node, ast.ClassDef) and not _marked(node)]
    bodies = [module.body, *(class_.body for class_ in classes)]
    made = [ast.unparse(node.targets[0]) for node in module.body if isinstance(node, ast.Assign)]
    return any(
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_") and not _marked(node)
        for body in bodies
        for node in body
    ) or any(name.startswith("Test") for name in made)  # hypothesis makes a TestCase of a state machine


def _marked(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    return any(ast.unparse(entry).startswith("pytest.mark.slow") for entry in node.decorator_list)


def _is_slow(node: ast.Assign, name: str) -> bool:
    return ast.unparse(node.targets[0]) == name and "pytest.mark.slow" in ast.unparse(node.value)
