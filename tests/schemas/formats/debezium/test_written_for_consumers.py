"""What the consumers of Debezium's connectors need: old rows, changed keys, positions, JSON that is JSON.

Flink stops at op u without `before`; sinks that write by key keep the row of a key that an update left; Hudi orders by
`source.file`, then `pos`. (Debezium's documentation of the MySQL connector, "Primary key updates".)
"""

import json
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from tests.support.each import each
from tests.support.rows import COMMIT_TS, ORIGIN, Pair, Tables, change, column, fresh, table
from tests.support.table import check_rows
from ticdc_bridge.schemas.formats.base import BatchEncoder
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import DdlEvent, Message, RowChange, ms_to_tso
from ticdc_bridge.schemas.model.table import Index, Table

CONNECTOR = "debezium-mysql"
NAMED = table(column("name", "varchar", length=20, nullable=False), column("n", "int"))
_PAIR_KEYED = table(column("b", "varchar", length=9, nullable=False, handle_key=True, primary_key=True))
PAIR_KEYED = Table(_PAIR_KEYED.id, _PAIR_KEYED.columns, (Index("PRIMARY", ("b", "id"), unique=True),))
KEYLESS = Table(NAMED.id, tuple(replace(c, handle_key=False, primary_key=False) for c in NAMED.columns))


def _write(pair: Pair, *events: Any, origin: Message = ORIGIN) -> list[Message]:
    if isinstance(pair.encoder, BatchEncoder):
        return pair.encoder.encode_rows(events, origin)
    return [message for event in events for message in pair.encoder.encode(event, origin)]


def _payload(message: Message) -> dict[str, Any]:
    value = json.loads(message.value or b"")
    return dict(value.get("payload", value))


class _Written(NamedTuple):
    """An update without its old row: by which format and option, and the op and old row that are written."""

    format: str
    option: str
    of: Table
    op: str
    before: Any


ROW = {"name": "b", "n": None}
WITHOUT_BEFORE = [
    _Written(CONNECTOR, "auto", NAMED, "c", None), _Written(CONNECTOR, "upsert", NAMED, "c", None),
    _Written(CONNECTOR, "key-before", NAMED, "u", {"id": 1, "name": None, "n": None}),
    _Written(CONNECTOR, "key-before", KEYLESS, "c", None), _Written(CONNECTOR, "null", NAMED, "u", None),
    _Written("debezium", "auto", NAMED, "u", None), _Written("debezium", "upsert", NAMED, "c", None),
    _Written("debezium", "key-before", NAMED, "u", {"id": 1, "name": None, "n": None}),
]  # fmt: skip


def test_an_update_without_its_old_row() -> None:
    def check(row: _Written) -> None:
        pair = Pair(row.format, update_without_before=row.option)
        event = change(row.of, ROW, op="u")
        [message] = _write(pair, event)
        payload = _payload(message)
        assert (payload["op"], payload.get("before"), payload["after"]["name"]) == (row.op, row.before, "b")
        assert event.flags == ["no_before"]
        optional = {
            f["field"]: f["optional"] for f in json.loads(message.value or b"")["schema"]["fields"][0]["fields"]
        }
        assert row.before is None or optional == {"id": False, "name": True, "n": True}  # a converter takes it

    check_rows(WITHOUT_BEFORE, check)


def test_key_before_has_one_schema_for_all_messages() -> None:
    pair = Pair(CONNECTOR, update_without_before="key-before")
    messages = _write(pair, change(NAMED, ROW), change(NAMED, ROW, op="u"), change(NAMED, None, ROW))
    assert len({json.dumps(json.loads(m.value)["schema"]) for m in messages if m.value}) == 1


@each(("option", "op"), [("auto", "u"), ("upsert", "c"), ("key-before", "u")])
def test_avro_of_an_update_without_its_old_row(option: str, op: str) -> None:
    for name in ("debezium-avro", CONNECTOR):
        again = Pair(name, update_without_before=option, encoding_format="avro").through(change(NAMED, ROW, op="u"))
        assert again.op == ("c" if name == CONNECTOR and option == "auto" else op)
        assert again.after == {"id": "1", **ROW}
        if option == "key-before":
            assert again.before == {"id": "1", "name": None, "n": None}


@each("format_", [CONNECTOR, "debezium", "debezium-avro", "open", "open-tiflow"])
def test_an_old_row_of_what_changed_is_made_whole(format_: str) -> None:
    """TiCDC's only-output-updated-columns and Canal's `old`: a column that the old row lacks is as it was."""
    pair = Pair(format_, Tables(NAMED))
    event = replace(change(NAMED, {"name": "b", "n": "5"}), op="u", before={"name": "a"})
    [message] = _write(pair, event)
    [again] = pair.decoder.decode(message)
    assert isinstance(again, RowChange)
    assert again.before == {"id": "1", "name": "a", "n": "5"}


# ---------------------------------------------------------------------------------- changed keys
class _KeyChange(NamedTuple):
    of: Table
    before: dict[str, Any]
    after: dict[str, Any]
    keys: list[dict[str, Any]]


KEY_CHANGES = [
    _KeyChange(NAMED, {"id": "1", **ROW}, {"id": "2", **ROW}, [{"id": 1}, {"id": 2}]),
    _KeyChange(NAMED, {"id": "1"}, {"id": "2", **ROW}, [{"id": 1}, {"id": 2}]),
    _KeyChange(PAIR_KEYED, {"b": "x"}, {"b": "X"}, [{"b": "x", "id": 1}, {"b": "X", "id": 1}]),
]


@each("form", [{}, {"debezium_disable_schema": True}, {"encoding_format": "avro"}, {"tombstones_on_delete": False}])
def test_an_update_of_the_key_is_a_delete_and_an_insert(form: dict[str, Any]) -> None:
    def check(row: _KeyChange) -> None:
        pair = Pair(CONNECTOR, Tables(row.of), **form)
        written = _write(pair, replace(change(row.of, row.after), op="u", before={"id": "1", **row.before}))
        tombstones = form.get("tombstones_on_delete", True)
        deleted, inserted = written[0], written[-1]
        assert [m.value is None for m in written] == ([False, True, False] if tombstones else [False, False])
        assert written[-2].key == deleted.key != inserted.key
        assert [event.op for m in (deleted, inserted) for event in pair.decoder.decode(m)] == ["d", "c"]  # type: ignore[union-attr]
        headers = [m.headers for m in written]
        assert [[name for name, _ in h] for h in headers] == [["__debezium.newkey"]] * (1 + tombstones) + [
            ["__debezium.oldkey"]
        ]
        bare = [json.loads(h[0][1] or b"") for h in (headers[-1], headers[0])]
        assert [key.get("payload", key) for key in bare] == row.keys
        if "encoding_format" not in form:
            assert (headers[-1][0][1], headers[0][0][1]) == (deleted.key, inserted.key)
            sources = [_payload(m)["source"] for m in (deleted, inserted)]
            assert sources[0] == sources[1]  # as Debezium's

    check_rows(KEY_CHANGES, check)


def test_headers_of_the_message_stay() -> None:
    origin = replace(ORIGIN, headers=(("trace", b"7"), ("__debezium.oldkey", b"0")))
    written = _write(Pair(CONNECTOR), replace(change(NAMED, {"id": "2", **ROW}, ROW)), origin=origin)
    assert [[name for name, _ in m.headers] for m in written] == [
        ["trace", "__debezium.newkey"], ["trace", "__debezium.newkey"], ["trace", "__debezium.oldkey"],
    ]  # fmt: skip


# ---------------------------------------------------------------------------------- positions
def _place(message: Message) -> tuple[int, int, int]:
    source = _payload(message)["source"]
    assert 0 <= source["pos"] < 1 << 63
    assert source["gtid"] is None
    return int(source["file"].rpartition(".")[2]), source["pos"], source["row"]


def _at(event: RowChange, offset: int, partition: int = 0, number: int = 0, **more: Any) -> tuple[RowChange, Message]:
    return replace(event, number=number), replace(ORIGIN, offset=offset, partition=partition, **more)


LATE = ms_to_tso(1_900_000_000_000)
TIMED, UNTIMED = change(NAMED, ROW), change(NAMED, ROW, commit_ts=None)
FROM_AVRO, DELETE_FROM_AVRO = (
    replace(event, format="avro") for event in (TIMED, change(NAMED, None, ROW, commit_ts=None))
)
ORDERS = {
    "offsets, then commits": [
        _at(TIMED, 7), _at(TIMED, 8), _at(replace(TIMED, commit_ts=COMMIT_TS + 1), 2),
        _at(replace(TIMED, commit_ts=LATE), 3),
    ],
    "rows of one message": [_at(TIMED, 7, number=n) for n in range(3)],
    "rows of one message, then the next": [_at(TIMED, 7, number=4), _at(TIMED, 8)],
    "rows of one message without a commit_ts": [_at(UNTIMED, 7, number=n) for n in range(3)],
    "the largest of all": [
        _at(replace(TIMED, commit_ts=COMMIT_TS | (1 << 18) - 1), (1 << 32) - 1, (1 << 13) - 1),
        _at(replace(TIMED, commit_ts=LATE), 0),
    ],
    "a large offset without a commit_ts": [_at(UNTIMED, (1 << 50) - 2), _at(UNTIMED, (1 << 50) - 1)],
    "Avro, whose deletes have no commit_ts": [
        _at(FROM_AVRO, 7), _at(DELETE_FROM_AVRO, 8, timestamp=1_999_000_000_000), _at(FROM_AVRO, 9),
        _at(DELETE_FROM_AVRO, 10, timestamp=None), _at(replace(FROM_AVRO, commit_ts=COMMIT_TS - 5), 11),
    ],
}  # fmt: skip


def test_positions_ascend_in_the_order_of_the_changes() -> None:
    def check(row: tuple[str, list[tuple[RowChange, Message]]]) -> None:
        positions = [_place(_write(Pair(CONNECTOR), fresh(event), origin=origin)[0]) for event, origin in row[1]]
        assert positions == sorted(set(positions))
        again = [_place(_write(Pair(CONNECTOR), fresh(event), origin=origin)[0]) for event, origin in reversed(row[1])]
        assert positions == again[::-1]  # of the message alone

    check_rows(ORDERS.items(), check)


def test_positions_of_partitions_differ() -> None:
    for event in (TIMED, UNTIMED):
        positions = [_place(_write(Pair(CONNECTOR), fresh(event), origin=_at(event, 7, n)[1])[0]) for n in range(4)]
        assert len(set(positions)) == 4


# ---------------------------------------------------------------------------------- JSON that is JSON
RAW = [b"\xff", b"a\xc3", b"\xed\xa0\x80", b"\xc0\x80", "ok\u2028".encode() + b"\xfe"]


@each("format_", ["debezium", CONNECTOR, "open", "open-tiflow"])
def test_bytes_that_are_no_text(format_: str) -> None:
    for kind in ("varchar", "char") if format_.startswith("open") else ("varchar", "text", "json", "char"):
        of = table(column("v", kind, length=20))
        for data in RAW:
            event = change(of, {"v": data})
            with pytest.raises(WireError, match="UTF-8"):
                _write(Pair(format_), fresh(event))
            for old in (None, {"v": data}):
                event = change(of, {"v": data}, old)
                [message] = _write(Pair(format_, on_lossy="flag"), event)
                for field in (message.key or b"", message.value or b""):
                    text = field[field.index(b"{") :].decode()
                    assert "\ufffd" in json.dumps(json.loads(text), ensure_ascii=False) or field is message.key
                assert event.flags == ["invalid_utf8:v"]


@each("format_", ["debezium", "debezium-avro", "open", "open-tiflow"])
def test_a_statement_that_is_no_text_is_refused(format_: str) -> None:
    ddl = DdlEvent("craft", "shop", "t", COMMIT_TS, 5, "ALTER TABLE t COMMENT '\udcff'")
    encoder = Pair(format_, enable_tidb_extension=True, avro_enable_watermark=True).encoder
    with pytest.raises(WireError, match="UTF-8"):
        encoder.encode(ddl, ORIGIN)
