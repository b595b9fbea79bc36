"""Open Protocol messages made by hand, and what the decoder makes of them."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.support.golden import Registry
from tests.support.rows import COMMIT_TS, ORIGIN, Tables
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.formats.open_protocol.frame import join_key, join_value
from ticdc_bridge.schemas.inspect.format_lookup import format_named
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import Event, Message, RowChange
from ticdc_bridge.schemas.model.options import Options

KEY = {"ts": COMMIT_TS, "scm": "test", "tbl": "t1", "t": 1}


def message_of(value: Any, key: Any = KEY, count: int = 1) -> Message:
    keys, values = ([json_bytes(field)] * count for field in (key, value))
    return replace(ORIGIN, key=join_key(keys), value=join_value(values))


def json_bytes(part: Any) -> bytes:
    return part if isinstance(part, bytes) else json.dumps(part, separators=(",", ":"), ensure_ascii=False).encode()


def decode(message: Message, tables: Tables | None = None, claims: Any = None, **options: Any) -> list[Event]:
    context = Context(Registry(), tables, Options.of(options), claims)
    return format_named("open").decoder(context).decode(message)


def row_of(message: Message, **options: Any) -> RowChange:
    [event] = decode(message, **options)
    assert isinstance(event, RowChange)
    return event


def refusal(message: Message, **more: Any) -> WireError:
    with pytest.raises(WireError) as caught:
        decode(message, **more)
    return caught.value
