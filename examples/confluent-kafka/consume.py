"""Read TiCDC's Avro with Confluent's own Python client, or with fastavro alone: the registry is ticdc-bridge's.

    pip install 'confluent-kafka[avro,schemaregistry]'      # and nothing of ours
    python examples/confluent-kafka/consume.py --topic tidb_shop_orders [--reader fastavro]

Prints a JSON line for each row, ends at the end of the topic, and names messages that it can't read (exit code 1).
A deleted row has a null value. These readers see what Avro carries: a BIGINT UNSIGNED above 2^63 - 1 is negative, FLOAT
0.1 is 0.10000000149011612, TIMESTAMP has no zone. `ticdc_bridge.Decoder` gives TiDB's values: examples/fastapi.
"""

import argparse
import io
import json
import struct
import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext, SerializationError
from fastavro import parse_schema, schemaless_reader

Read = Callable[[bytes | None, str, MessageField], Any]
"""Bytes, topic, and whether they are the key or the value → the record; None for a null value (a deleted row)."""


def by_confluent(registry: SchemaRegistryClient) -> Read:
    deserialize = AvroDeserializer(registry)
    return lambda data, topic, field: deserialize(data, SerializationContext(topic, field))


def by_fastavro(registry: SchemaRegistryClient) -> Read:
    """The same by hand: a zero byte, the schema's id in four bytes, then Avro."""

    @cache
    def schema(number: int) -> Any:
        return parse_schema(json.loads(registry.get_schema(number).schema_str or ""))

    def read(data: bytes | None, topic: str, field: MessageField) -> Any:
        if data is None:
            return None
        if len(data) < 5 or data[0] != 0:
            raise ValueError(f"the {field} does not begin with a schema id; does TiCDC send protocol=avro?")
        (number,) = struct.unpack(">I", data[1:5])
        return schemaless_reader(io.BytesIO(data[5:]), schema(number), None)

    return read


READERS: dict[str, Callable[[SchemaRegistryClient], Read]] = {"confluent": by_confluent, "fastavro": by_fastavro}


def messages(consumer: Consumer, topic: str) -> Iterator[Message]:
    """All messages from the beginning to the end of each partition."""
    partitions = list(consumer.list_topics(topic, timeout=10).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
    waiting = set(partitions)
    while waiting:
        message = consumer.poll(10)
        if message is None:
            raise TimeoutError("Kafka sent nothing for 10 seconds")
        if (error := message.error()) is None:
            yield message
        elif error.code() == KafkaError._PARTITION_EOF:
            waiting.discard(message.partition())
        else:
            raise KafkaException(error)


def main() -> int:
    parser = argparse.ArgumentParser(description="Prints TiCDC's rows as JSON lines.")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--registry", default="http://localhost:8081")
    parser.add_argument("--bootstrap-servers", default="localhost:9092")
    parser.add_argument("--reader", choices=READERS, default="confluent")
    args = parser.parse_args()
    # Access control: "basic.auth.user.info": "USER:PASSWORD" in the first, SASL settings in the second.
    read = READERS[args.reader](SchemaRegistryClient({"url": args.registry}))
    consumer = Consumer(
        {"bootstrap.servers": args.bootstrap_servers, "group.id": "orders", "enable.partition.eof": True}
    )
    failed = 0
    try:
        for message in messages(consumer, args.topic):
            try:
                key = read(message.key(), args.topic, MessageField.KEY)
                value = read(message.value(), args.topic, MessageField.VALUE)
            except (SerializationError, ValueError) as error:
                print(f"partition {message.partition()} offset {message.offset()}: {error}", file=sys.stderr)
                failed += 1
                continue
            print(json.dumps({"key": key, "value": value}, default=str, ensure_ascii=False))
    finally:
        consumer.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
