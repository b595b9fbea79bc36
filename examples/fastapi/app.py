"""An HTTP service over a changefeed: the last changes of a table, and its rows as they are in TiDB now.

    pip install '.[service,spark]'     in the clone (the decoder needs neither Spark nor Java, but it is in that extra)
    TOPIC=tidb_shop_orders uvicorn --app-dir examples/fastapi app:app
    curl localhost:8000/changes?limit=3
    curl localhost:8000/rows/450000000008/1          # the key's columns, with a slash between them

A thread reads the topic from its beginning and decodes each message with `ticdc_bridge.Decoder`. Values are text as SQL
writes them, so no digit is lost. A message that can't be decoded is counted and listed with its reason.
"""

import os
import threading
import uuid
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message
from fastapi import FastAPI, HTTPException

from ticdc_bridge import Decoder, WireError, plain_event

KAFKA = {
    "bootstrap.servers": os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092"),
    # The rows are in memory only: each start reads all partitions from the beginning, in a group of its own.
    "group.id": f"ticdc-bridge-example-{uuid.uuid4()}",
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    # SASL and TLS: "security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": …
}
TOPIC = os.environ.get("TOPIC", "tidb_shop_orders")
REGISTRY = os.environ.get("REGISTRY", "http://localhost:8081")
TIME_ZONE = os.environ.get("TIME_ZONE", "UTC")  # the changefeed's: Avro sends TIMESTAMP without its zone


class Changes:
    """What was read so far. The thread writes it, requests read it."""

    def __init__(self) -> None:
        self.messages, self.failed = 0, 0
        self.newest: deque[dict[str, Any]] = deque(maxlen=1000)
        self.errors: deque[dict[str, Any]] = deque(maxlen=100)
        self.rows: dict[str, dict[str, Any]] = {}

    def take(self, decoder: Decoder, message: Message) -> None:
        self.messages += 1
        position = {"topic": message.topic(), "partition": message.partition(), "offset": message.offset()}
        try:
            events = decoder.decode(message.key(), message.value(), topic=message.topic())
        except WireError as error:
            self.failed += 1
            self.errors.append({**position, "code": error.code, "detail": error.detail})
            return
        for event in map(plain_event, events):
            if event["kind"] != "row":
                continue
            self.newest.append({**event, **position})
            before, after = event["before"], event["after"]
            if before is not None:
                self.rows.pop(row_id(event["key"], before), None)
            if after is not None:
                self.rows[row_id(event["key"], after)] = after


def row_id(key: list[str], row: dict[str, Any]) -> str:
    return "/".join(str(row[column]) for column in key)


def follow(changes: Changes, decoder: Decoder, stop: threading.Event) -> None:
    consumer = Consumer(KAFKA)
    try:
        consumer.subscribe([TOPIC])
        while not stop.is_set():
            message = consumer.poll(0.5)
            if message is None:
                continue
            if (error := message.error()) is not None:
                if error.fatal():
                    raise KafkaException(error)
                continue  # the client tries again by itself
            changes.take(decoder, message)
    finally:
        consumer.close()


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """The registry is asked here: if it is away, the start fails with the reason."""
    app.state.changes, stop = Changes(), threading.Event()
    decoder = Decoder("avro", registry=REGISTRY, time_zone=TIME_ZONE)
    app.state.thread = threading.Thread(target=follow, args=(app.state.changes, decoder, stop))
    app.state.thread.start()
    yield
    stop.set()
    app.state.thread.join()


app = FastAPI(title="shop.orders", lifespan=lifespan)


@app.get("/changes")
def newest(limit: int = 20) -> list[dict[str, Any]]:
    changes: Changes = app.state.changes
    return list(changes.newest)[: -limit - 1 : -1]


@app.get("/rows/{key:path}")
def row(key: str) -> dict[str, Any]:
    changes: Changes = app.state.changes
    if key not in changes.rows:
        raise HTTPException(404, f"no row with the key {key}")
    return changes.rows[key]


@app.get("/health")
def health() -> dict[str, Any]:
    if not app.state.thread.is_alive():
        raise HTTPException(503, "the consumer has ended; the log says why")
    changes: Changes = app.state.changes
    return {"messages": changes.messages, "failed": changes.failed, "errors": list(changes.errors)}
