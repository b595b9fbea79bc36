"""`from schemas import Decoder, Encoder`: one message at a time, as the commands read and write it."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.golden import ROOT, Golden
from tests.support.python_words import assert_no_python_words
from tests.support.registries import golden_registry, serving
from tests.support.rows import change, column, table
from tests.support.table import check_rows
from ticdc_bridge import Decoder, Encoder, HistoryTables, plain_event
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas
from ticdc_bridge.schemas.model.errors import SetupError, WireError
from ticdc_bridge.schemas.model.event import DdlEvent, Message, RowChange
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message, plain_lines

AVRO = Golden("avro", "evolution.ext1")
_GOLDENS = ("avro/evolution.ext1", "debezium/evolution.default", "open/evolution.default", "craft/evolution.default",
            "canal-json/evolution.ext", "simple/evolution.json")  # fmt: skip


def _decode(decoder: Decoder, m: Message) -> list[dict[str, Any]]:
    events = decoder.decode(
        m.key, m.value, topic=m.topic, partition=m.partition, offset=m.offset, timestamp=m.timestamp, headers=m.headers
    )
    return [plain_event(event, m) for event in events]


def test_it_reads_what_the_commands_read() -> None:
    def check(name: str) -> None:
        format_, case = name.split("/")
        golden = Golden(format_, case)
        registry = golden.meta_file if format_ == "avro" else None
        image = golden.side().decoder()
        decoder = Decoder(format_, registry=registry, time_zone=golden.side().options.time_zone)
        for message in golden.messages()[:200]:
            assert _decode(decoder, message) == plain_lines(decode_message(image, message), message)

    check_rows([name for name in _GOLDENS if Golden(*name.split("/")).messages_file.exists()], check)


def test_registries_of_every_kind(tmp_path: Path) -> None:
    meta = json.loads(AVRO.meta_file.read_text())
    lines = tmp_path / "schemas.jsonl"
    lines.write_text("".join(json.dumps(row) + "\n" for row in meta["registered_schemas"]))
    texts = {row["id"]: row["schema"] for row in meta["registered_schemas"]}
    parsed = {id_: json.loads(text) for id_, text in texts.items()}
    message = next(m for m in AVRO.messages() if m.value is not None)
    expected = _decode(Decoder("avro", registry=AVRO.meta_file), message)
    with serving(golden_registry(AVRO)) as server:

        def check(registry: Any) -> None:
            assert _decode(Decoder("avro", registry=registry), message) == expected

        check_rows((server.url, str(lines), lines, texts, parsed, FileSchemas.read(lines)), check, repr)


def test_events_are_written_and_read_again(tmp_path: Path) -> None:
    ddl = tmp_path / "shop.sql"
    ddl.write_text("CREATE TABLE shop.orders (id INT PRIMARY KEY, price DECIMAL(10,2), note VARCHAR(20));")
    after = {"id": "1", "price": "2.50", "note": None}
    event = {
        "kind": "row", "format": "open", "db": "shop", "table": "orders", "op": "c", "commit_ts": 462413824000000001,
        "key": ["id"], "before": None, "after": after, "flags": [],
    }  # fmt: skip

    def check(format_: str) -> None:
        encoder = Encoder(format_, ddl=ddl, options={"enable_tidb_extension": True}, topic="{schema}_{table}")
        [first, *_] = encoder.encode(event, timestamp=5)
        assert first.topic == "shop_orders"
        [row] = Decoder(format_, ddl=ddl).decode(first.key, first.value, topic=first.topic)
        assert isinstance(row, RowChange)
        assert (row.db, row.table_name, row.op, row.after) == ("shop", "orders", "c", after)
        [again, *_] = encoder.encode(row)
        assert (again.key, again.value) == (first.key, first.value)

    check_rows(("open", "craft", "debezium"), check)


def test_ddl_of_the_stream() -> None:
    golden = Golden("open", "evolution.default")
    decoder = Decoder("open", ddl="stream")
    events = [event for m in golden.messages() for event in decoder.decode(m.key, m.value)]
    assert any(isinstance(event, DdlEvent) for event in events)
    assert any(isinstance(event, RowChange) and event.table_version is not None for event in events)


def test_statements_of_one_second() -> None:
    """Canal's time of them is the same: for the rows after each of them its own definition holds."""
    decoder = Decoder("canal-json", ddl="stream")
    common = {"database": "shop", "table": "orders", "es": 1764000000000, "old": None}
    row = {"type": "INSERT", "mysqlType": {"id": "int", "state": "enum"}, "data": [{"id": "1", "state": "2"}]}
    states = []
    for kind, query in (
        ("CREATE", "CREATE TABLE orders (id INT PRIMARY KEY, state ENUM('new','paid'))"),
        ("ALTER", "ALTER TABLE orders MODIFY state ENUM('gone','new','paid')"),
    ):
        for body in ({"isDdl": True, "type": kind, "sql": query}, row):
            [event] = decoder.decode(None, json.dumps({**common, **body}).encode())
        assert isinstance(event, RowChange)
        states.append(event.after and event.after["state"])
    assert states == ["paid", "new"]


def test_positions_of_other_types() -> None:
    """As other clients of Kafka give them, they are refused by name."""
    rows: list[tuple[str, Any]] = [
        ("timestamp", (1, 1764000000123)), ("timestamp", 1764000000.123), ("timestamp", "1764000000123"),
        ("timestamp", datetime(2024, 1, 1)), ("timestamp", True), ("partition", "0"), ("partition", 1.0),
        ("offset", b"7"), ("offset", False), ("topic", b"orders"), ("topic", 5),
    ]  # fmt: skip

    def check(row: tuple[str, Any]) -> None:
        position: dict[str, Any] = {row[0]: row[1]}
        for call in (
            lambda: Decoder("open").decode(b"", b"", **position),
            lambda: Encoder("open").encode(DdlEvent("open", "", "", 1, 1, ""), **position),
        ):
            with pytest.raises(SetupError, match=f"{row[0]} is of type {type(row[1]).__name__}: "):
                call()

    check_rows(rows, check)


def test_what_is_wrong_is_said() -> None:
    for call, words in (
        (lambda: Decoder("nope"), "known: "),
        (lambda: Decoder("avro"), "registry="),
        (lambda: Decoder("avro", registry="localhost:8081"), "http://"),
        (lambda: Decoder("avro", registry="ftp://x"), "http://"),
        (lambda: Decoder("open", ddl="no.sql"), "ddl= no.sql"),
        (lambda: Decoder("open", claim_checks="no"), "claim_checks= no"),
        (lambda: Decoder("open", options={"max_batch_size": "x"}), "a whole number"),
        (lambda: Decoder("open").decode("text", b""), "key is of type str: bytes"),  # type: ignore[arg-type]
        (lambda: Decoder("open").decode(b"", b"", headers={"a": 1}), "header a"),  # type: ignore[arg-type]
        (lambda: Decoder("open").decode(b"", b"", headers=[("a", b"", 1)]), "pairs of a name"),  # type: ignore[list-item]
        (lambda: Decoder("open").decode(b"", b"", headers=[(b"a", b"")]), "a text is needed"),  # type: ignore[list-item]
        (lambda: Decoder(5), "format is of type int: a text"),  # type: ignore[arg-type]
        (lambda: Decoder("open", options=[("a", 1)]), "options is of type list: an object"),  # type: ignore[arg-type]
        (lambda: Decoder("open", time_zone=8), "time_zone is of type int"),  # type: ignore[arg-type]
        (lambda: Decoder("open", history=1), "history is of type int"),  # type: ignore[arg-type]
        (lambda: Encoder("open", topic=b"x"), "topic is of type bytes"),  # type: ignore[arg-type]
        (lambda: Encoder("open", subject_strategy="x"), "choose topic, record"),  # type: ignore[arg-type]
        (lambda: Encoder("simple"), "read, not written"),
        (lambda: Encoder("open").encode(b"x"), "a change event is needed"),  # type: ignore[arg-type]
        (lambda: Encoder("open", registry=5), "registry=int: a file"),  # type: ignore[arg-type]
        (lambda: HistoryTables(5), "url is of type int: a text"),  # type: ignore[arg-type]
        (lambda: HistoryTables("http://h", wait="5s"), "wait is of type str: a number"),  # type: ignore[arg-type]
        (lambda: plain_event("x"), "event is of type str, origin of type Message"),  # type: ignore[arg-type]
        (lambda: plain_event(DdlEvent("open", "", "", 1, 1, ""), 5), "origin of type int: a change event and"),  # type: ignore[arg-type]
    ):
        with pytest.raises(SetupError) as caught:
            call()
        assert words in caught.value.detail
        assert "--" not in caught.value.detail
        assert_no_python_words(caught.value.detail)
    with pytest.raises(WireError) as failed:
        Decoder("canal-json").decode(None, b"")
    assert failed.value.code == "MALFORMED"
    with pytest.raises(WireError):
        Encoder("open").encode({"kind": "row"})
    with pytest.raises(WireError, match="column at: it is of type datetime: a text") as failed:
        Encoder("open").encode({"kind": "row", "after": {"at": datetime(2024, 1, 1)}})
    assert failed.value.code == "INVALID_VALUE"


def test_changed_events_are_checked() -> None:
    """What a user made of an event is written in full or refused, by every format alike."""
    event = change(table(column("n", "int")), {"n": "2"})
    rows: list[tuple[str, Any, str]] = [
        ("after", {"id": "1", "n": "2", "added": "3"}, "column added: table"),
        ("after", {"id": 1}, "column id: it is of type int"),
        ("before", {"id": "1", "N": "2"}, "column N: table"),
        ("op", "i", "column op: 'i'"),
        ("commit_ts", 4.6e17, "column commit_ts: it is of type float: a whole number"),  # as data frames have it
        ("commit_ts", "5", "column commit_ts: it is of type str"),
    ]

    def check(row: tuple[str, Any, str]) -> None:
        for name in ("open", "craft", "debezium", "debezium-mysql", "debezium-tidb"):
            with pytest.raises(WireError, match=row[2]) as failed:
                Encoder(name).encode(replace(event, **{row[0]: row[1]}))
            assert failed.value.code == "INVALID_VALUE"

    check_rows(rows, check)


def test_no_headers_as_kafkas_clients_have_them() -> None:
    message = next(m for m in Golden("canal-json", "evolution.ext").messages() if m.value)
    decoder = Decoder("canal-json")
    assert decoder.decode(message.key, message.value, headers=None) == decoder.decode(message.key, message.value)


def test_the_example_of_the_docs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    page = (ROOT / "docs" / "columns.md").read_text()
    section = page[page.index("## Without Spark") :]
    [code] = re.findall(r"```python\n(.*?)```", section[: section.index("\n## ")], re.DOTALL)
    printed: list[Any] = []
    exec(code, {"print": lambda *words: printed.append(words)})
    events = [words[0] for words in printed if len(words) == 1]
    assert {event["table"] for event in events if event["kind"] == "row"} == {"invoices"}
    assert {words[0] for words in printed if len(words) > 1} == {"shop_debezium"}


def test_the_package_stays_cheap() -> None:
    """Importing it loads nothing of the jobs; a decoder loads neither Spark nor Kafka."""
    code = (
        "import ticdc_bridge, sys; assert not any('spark_jobs' in name for name in sys.modules); "
        "ticdc_bridge.Decoder('canal-json'); "
        "assert not {'pyspark', 'pyarrow', 'numpy', 'confluent_kafka'} & sys.modules.keys(), sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
