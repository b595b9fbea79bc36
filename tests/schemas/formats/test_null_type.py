"""Type code 6, NULL: the documents of TiCDC list it, and old producers send it. Such a column is NULL, nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.support.table import check_rows
from ticdc_bridge.schemas.ddl.executor.versions import DdlText, versions
from ticdc_bridge.schemas.ddl.parser.lexer import WIRE
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.formats.craft import CraftDecoder, CraftEncoder
from ticdc_bridge.schemas.formats.open_protocol import OpenDecoder, OpenEncoder
from ticdc_bridge.schemas.formats.open_protocol.frame import join_key, join_value
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas
from ticdc_bridge.schemas.inputs.table_definitions import TableDefinitions
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import Message, RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.schemas.model.table import Column, Table, TableId
from ticdc_bridge.schemas.model.types import BY_NAME

_KEY = b'{"ts":462413824000000001,"scm":"shop","tbl":"orders","t":1}'
_TABLES = TableDefinitions(
    versions([DdlText(1, "shop", "CREATE TABLE orders (id INT PRIMARY KEY, note DECIMAL(5,2))", WIRE)])
)
_CONTEXTS = (Context(FileSchemas([])), Context(FileSchemas([]), _TABLES))


def _open(note: dict[str, Any], side: str = "u") -> Message:
    row = {side: {"id": {"t": 3, "h": True, "f": 11, "v": 1}, "note": note}}
    return Message(join_key([_KEY]), join_value([json.dumps(row, separators=(",", ":")).encode()]))


def test_open_protocol() -> None:
    def check(row: tuple[Context, int, bool, str]) -> None:
        context, code, flagged, side = row
        message = _open({"t": code, **({"f": 64} if flagged else {}), "v": None}, side)
        [event] = OpenDecoder(context).decode(message)
        assert isinstance(event, RowChange)
        assert (event.after or event.before) == {"id": "1", "note": None}
        assert event.flags == []
        assert (event.table_version is None) is (context.tables is None)
        with pytest.raises(WireError, match="the type code says NULL"):
            OpenDecoder(context).decode(_open({"t": code, "f": 64, "v": "a"}, side))
        with pytest.raises(WireError, match="the type code says NULL"):
            OpenDecoder(context).decode(_open({"t": code, "f": 64, "v": 0}, side))

    rows = [(c, code, f, side) for c in _CONTEXTS for code in (0, 6, 255) for f in (True, False) for side in "ud"]
    check_rows(rows, check)


def test_open_protocol_written_again_with_a_definition() -> None:
    message = _open({"t": 6, "f": 64, "v": None})
    [event] = OpenDecoder(_CONTEXTS[1]).decode(message)
    [again] = OpenEncoder(_CONTEXTS[1]).encode(event, Message(None, None))
    assert (again.key, again.value) == (message.key, message.value)


def test_craft() -> None:
    """Craft's codec reads it with a definition as without."""
    table = Table(
        TableId("shop", "orders"),
        (Column("id", BY_NAME["int"], handle_key=True, primary_key=True), Column("note", BY_NAME["text"])),
    )  # fmt: skip
    row = RowChange("craft", table, "c", 462413824000000001, None, {"id": "1", "note": None}, ("id",), "UTC")
    for code in (0, 6, 255):
        coded = replace(row, extra={"types": {"note": [code, 64]}})
        [message] = CraftEncoder(replace(_CONTEXTS[0], options=Options())).encode(coded, Message(None, None))
        for context in _CONTEXTS:
            [event] = CraftDecoder(context).decode(message)
            assert isinstance(event, RowChange)
            assert event.after == {"id": "1", "note": None}
            assert (event.table_version is None) is (context.tables is None)
