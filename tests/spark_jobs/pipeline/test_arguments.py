"""Errors of the Python functions name their parameters, where the commands name their options."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.golden import WIDE, Golden
from tests.support.table import check_rows
from ticdc_bridge import Decoder, Encoder, schemas
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.spark_jobs.pipeline.arguments import _PARAMETERS, Function, named_by_parameters

TEXTS: list[tuple[Function, str, str]] = [
    ("decode", "give a table definition (--ddl)", "give a table definition (ddl=)"),
    ("decode", "(--ddl, --history)", "(ddl=, history=)"),
    ("decode", "--on-lossy flag writes it", 'on_lossy="flag" writes it'),
    ("transcode", "--on-lossy flag writes it", 'options={"on_lossy": "flag"} writes it'),
    ("encode", "--on-lossy flag writes it", 'options={"on_lossy": "flag"} writes it'),
    ("Encoder", "--on-lossy flag writes it", 'on_lossy="flag" writes it'),
    ("decode", "set table (--from-options)", "set table (options=)"),
    ("transcode", "set table (--from-options)", "set table (from_options=)"),
    ("decode", "read it with --format open or craft", "read it with format=open or craft"),
    ("transcode", "read it with --format open or craft", "read it with from_format=open or craft"),
    ("Decoder", "--schemas 'a b': no file", "registry='a b': no file"),
    ("transcode", "say it with --ddl-time-zone", "say it with ddl_time_zone="),
    ("decode", "'--ddl' is no number", "'--ddl' is no number"),  # a text of the message
    ("decode", "a--ddl and --ddls", "a--ddl and --ddls"),
]  # fmt: skip


def test_texts() -> None:
    def check(row: tuple[Function, str, str]) -> None:
        function, text, wanted = row
        error = named_by_parameters(WireError("EMPTY_RECORD", details=text), function)
        assert type(error) is WireError
        assert (error.code, error.detail) == ("EMPTY_RECORD", wanted)

    check_rows(TEXTS, check)


def _texts(path: Path) -> Iterator[str]:
    """The texts of a module, without its docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docs = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value


def test_every_option_that_codecs_name_has_a_parameter() -> None:
    names = {name.split()[0] for name in _PARAMETERS}
    folder = Path(schemas.__file__).parent

    def check(path: Path) -> None:
        options = {option for text in _texts(path) for option in re.findall(r"(?<![\w-])--[a-z][\w-]+", text)}
        assert options <= names

    check_rows([p for piece in ("codec", "formats", "model", "plain") for p in (folder / piece).rglob("*.py")], check)


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
