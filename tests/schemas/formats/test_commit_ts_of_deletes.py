"""Deletes without a commit_ts (Avro, null values): it is null, in order or refused, never a time as if TiDB's."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from tests.schemas.formats.debezium.connect_messages import definitions, envelope, message
from tests.support.golden import Registry
from tests.support.rows import ORIGIN, Pair, Tables, change, column, fresh, table
from tests.support.table import check_rows
from ticdc_bridge.schemas.formats.base import Context
from ticdc_bridge.schemas.inspect.format_lookup import format_named
from ticdc_bridge.schemas.model.event import Message, RowChange
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.spark_jobs.pipeline.message_codec import transcode_message

NULLABLE = ("debezium", "debezium-mysql", "debezium-tidb")
REQUIRED = ("debezium-avro", "open", "open-tiflow", "craft")
ORDERS = "CREATE TABLE orders (id INT PRIMARY KEY, name VARCHAR(20))"
TIME = 1_764_000_000_000
ROW = {"id": 1, "name": "a", "__op": "c", "__db": "shop", "__table": "orders"}
TIMED = {**ROW, "__source_ts_ms": TIME - 5000}
KAFKA, OWN, REFUSED = TIME << 18, "its own", "LOSSY_VALUE"


class _Topic(NamedTuple):
    """Messages of one topic, and what becomes of the commit_ts of each where one is needed, and where null is one."""

    what: str
    format: str
    messages: Sequence[Message]
    required: list[Any]
    nullable: list[Any]
    options: dict[str, Any] = {}  # noqa: RUF012


def _of_avro(extension: bool) -> tuple[list[Message], Registry]:
    """An insert, its delete and an insert again, as TiCDC writes them."""
    pair = Pair("avro", enable_tidb_extension=extension)
    of = table(column("name", "varchar", length=20))
    events = (change(of, {"name": "a"}), change(of, None, {"name": "a"}), change(of, {"name": "b"}))
    return [pair.write(event) for event in events], pair.registry


NULL = message(None, {"id": 1})
TOPICS = [
    _Topic("flattened, no times", "debezium-mysql", [message(ROW, {"id": 1}), NULL], [KAFKA, KAFKA], [None, None]),
    _Topic("flattened, with times", "debezium-mysql", [message(TIMED, {"id": 1}), NULL],
           [TIME - 5000 << 18, REFUSED], [TIME - 5000 << 18, None]),
    _Topic("envelopes, compacted", "debezium-mysql",
           [message(envelope({"id": 1, "name": "a"}, ts_ms=TIME - 5000, file="b.1", pos=4), {"id": 1}), NULL],
           [(TIME - 5000 << 18) + 4, REFUSED], [(TIME - 5000 << 18) + 4, None]),
    _Topic("a null value alone", "debezium-mysql", [NULL], [REFUSED], [None], {"table": "shop.orders"}),
    _Topic("deleted rows, no times", "debezium-mysql", [message({**ROW, "__deleted": "true"}, {"id": 1})], [KAFKA],
           [None]),
]  # fmt: skip


def _written(topic: _Topic, to: str, messages: Sequence[Message], registry: Registry, **options: Any) -> list[Any]:
    """The commit_ts that a reader of the target gets of each message; a code where it is refused."""
    read, target = format_named(topic.format), format_named(to)
    tables = definitions(ORDERS) if topic.format != "avro" else Tables(table(column("name", "varchar", length=20)))
    decoder = read.decoder(Context(registry, tables, Options.of(topic.options)))
    encoder = target.encoder(Context(registry, tables, Options.of(options)))
    reader = target.decoder(Context(registry, tables))
    seen: list[Any] = []
    for entry in messages:
        result = transcode_message(decoder, encoder, entry)
        if result.error is not None:
            seen.append(result.error.code)
            continue
        [event] = [e for piece in result.out for e in reader.decode(piece) if isinstance(e, RowChange)]
        [sent] = result.events
        assert isinstance(sent, RowChange)
        assert {f for f in sent.flags if "commit_ts" in f} == _flags(event, sent)
        seen.append(event.commit_ts)
    return seen


def _flags(event: RowChange, sent: RowChange) -> set[str]:
    if sent.commit_ts is not None:
        return set()
    return {"commit_ts_unknown"} if event.commit_ts is None else {"synthetic_commit_ts"}


def test_of_topics_of_the_connectors() -> None:
    def check(topic: _Topic) -> None:
        messages = [Message(m.key, m.value, "t", 0, n, TIME, m.headers) for n, m in enumerate(topic.messages)]
        for to in NULLABLE:
            if topic.what != "envelopes, compacted" or to != topic.format:  # these keep their source block
                assert _written(topic, to, messages, Registry()) == topic.nullable, to
        for to in REQUIRED:
            assert _written(topic, to, messages, Registry()) == topic.required, to
            flagged = [KAFKA if entry == REFUSED else entry for entry in topic.required]
            assert _written(topic, to, messages, Registry(), on_lossy="flag") == flagged, to

    check_rows(TOPICS, check, lambda topic: topic.what)


def test_of_avro() -> None:
    """With the extension rows have their own, and the delete none; without it nobody has one."""
    for extension in (True, False):
        messages, registry = _of_avro(extension)
        topic = _Topic("", "avro", (), [], [])
        own = change(table(), {}).commit_ts if extension else None
        kafka = (ORIGIN.timestamp or 0) << 18
        for to in NULLABLE:
            assert _written(topic, to, messages, registry) == [own, None, own], to
            ext = {"enable_tidb_extension": True, "encoding_format": "json"}
            assert _written(topic, to, messages, registry, **ext) == [own, None, own], to
        for to in REQUIRED:
            refused = REFUSED if extension else kafka
            assert _written(topic, to, messages, registry) == [own or kafka, refused, own or kafka], to
            assert _written(topic, to, messages, registry, on_lossy="flag") == [own or kafka, kafka, own or kafka], to


def test_an_event_that_says_nothing_of_its_topic_is_refused() -> None:
    deleted = change(table(), None, {}, commit_ts=None)
    for to in REQUIRED:
        error = Pair(to).refusal(fresh(deleted))
        assert (error.code, "--on-lossy flag" in error.detail) == ("LOSSY_VALUE", True)
