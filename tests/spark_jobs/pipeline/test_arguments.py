"""Errors of the Python functions name their parameters, where the commands name their options."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.golden import WIDE, Golden
from tests.support.table import check_rows
from ticdc_bridge import Decoder, Encoder, clients, schemas
from ticdc_bridge.schemas.model.errors import Hint
from ticdc_bridge.spark_jobs.pipeline import arguments
from ticdc_bridge.spark_jobs.pipeline.arguments import Function, hints_in_python, rows_with_parameter_names

WORDS: list[tuple[Function, Hint, str]] = [
    ("decode", Hint.DDL, "ddl="),
    ("decode", Hint.ON_LOSSY_FLAG, 'on_lossy="flag"'),
    ("transcode", Hint.ON_LOSSY_FLAG, 'options={"on_lossy": "flag"}'),
    ("encode", Hint.ON_LOSSY_FLAG, 'options={"on_lossy": "flag"}'),
    ("Encoder", Hint.ON_LOSSY_FLAG, 'on_lossy="flag"'),
    ("Encoder", Hint.SCHEMAS_FILE, "registry=FILE"),
    ("decode", Hint.READ_OPTIONS, "options="),
    ("transcode", Hint.READ_OPTIONS, "from_options="),
    ("transcode", Hint.DDL_TIME_ZONE, "HistoryTables(url, zone=…)"),
]  # fmt: skip
VALUES: list[tuple[Function, Hint, str, str]] = [
    ("decode", Hint.FORMAT, "open or craft", "format=open or craft"),
    ("transcode", Hint.FORMAT, "open or craft", "from_format=open or craft"),
    ("Decoder", Hint.SCHEMAS, "'a b'", "registry='a b'"),
    ("decode", Hint.TYPES, "exact", 'types="exact"'),
]


def test_words() -> None:
    def check(row: tuple[Function, Hint, str]) -> None:
        function, hint, wanted = row
        with hints_in_python(function):
            assert f"{hint}" == wanted
        assert f"{hint}" == hint.value

    def check_value(row: tuple[Function, Hint, str, str]) -> None:
        function, hint, value, wanted = row
        with hints_in_python(function):
            assert hint.of(value) == wanted
        assert hint.of(value) == f"{hint.value} {value}"

    check_rows(WORDS, check)
    check_rows(VALUES, check_value)


def test_rows_of_a_worker_have_its_words_and_their_reader_others() -> None:
    rows = rows_with_parameter_names("transcode", (f"{Hint.FORMAT}" for _ in range(2)))
    assert [(row, f"{Hint.FORMAT}") for row in rows] == [("from_format=", "--format")] * 2


def test_every_hint_has_a_parameter() -> None:
    with hints_in_python("decode"):
        assert [hint for hint in Hint if "--" in f"{hint}"] == []


def _statements(path: Path) -> Iterator[ast.AST]:
    """A module's nodes that run when it is imported."""
    waiting: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while waiting:
        yield (node := waiting.pop())
        if isinstance(node, ast.FunctionDef):
            waiting += [*node.decorator_list, node.args]
        elif not isinstance(node, ast.Lambda):
            waiting += ast.iter_child_nodes(node)


def _is_hint(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Hint"


def test_texts_name_hints_when_they_are_made() -> None:
    folder = Path(schemas.__file__).parent

    def check(path: Path) -> None:
        texts = [node for node in _statements(path) if isinstance(node, ast.JoinedStr | ast.Call)]
        assert [ast.unparse(text) for text in texts if any(_is_hint(node) for node in ast.walk(text))] == []
        if path.is_relative_to(folder):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
            constants = (n for n in ast.walk(tree) if isinstance(n, ast.Constant) and id(n) not in docs)
            values = [n.value for n in constants if isinstance(n.value, str)]
            assert [text for text in values if re.search(r"(?<![\w-])--[a-z]", text)] == []

    kinds = [folder / name for name in ("codec", "formats", "model", "plain")]
    paths = [*kinds, Path(arguments.__file__).parents[1], Path(clients.__file__).parent]
    files = [path for each in paths for path in each.rglob("*.py") if path.name != "errors.py"]
    check_rows(files, check)


def test_one_message_at_a_time() -> None:
    golden = Golden("canal-json", WIDE["canal-json"])
    event, untyped = (
        next(e for e in entry.events() if getattr(e, "after", None)) for entry in (golden, Golden("avro", WIDE["avro"]))
    )
    other = b'{"payload":{"source":{"connector":"mysql"},"op":"c"}}'
    calls: list[tuple[str, Any]] = [
        ("ddl=", lambda: Encoder("open").encode(untyped)),
        ("topic=", lambda: Encoder("avro", registry={}, ddl=golden.definitions).encode(event)),
        ("format=debezium-mysql", lambda: Decoder("debezium").decode(None, other)),
        ("options=", lambda: Decoder("debezium-mysql").decode(None, b'{"op":"c","after":{"a":1},"before":null}')),
    ]  # fmt: skip

    def check(row: tuple[str, Any]) -> None:
        with pytest.raises(Exception, match=re.escape(row[0])) as caught:
            row[1]()
        assert "--" not in str(caught.value)

    check_rows(calls, check, lambda row: row[0])
