"""The sample of schemas/files: TiCDC's real messages of shop.customers and shop.orders, and their schemas."""

from importlib.resources import files
from pathlib import Path

from ticdc_bridge.clients.registry import HttpSchemas
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.spark_jobs.io.message_files import read_messages
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig

ZONE = "Asia/Shanghai"
_FILES = Path(str(files("schemas") / "files"))
MESSAGES_FILE = _FILES / "shop.messages.jsonl"
SCHEMAS_FILE = _FILES / "shop.schemas.jsonl"
DEBEZIUM_OPTIONS = {"enable_tidb_extension": True}


def messages() -> list[Message]:
    """The 273 messages in TiCDC's order."""
    found = [m for m in read_messages(MESSAGES_FILE) if isinstance(m, Message)]
    assert len(found) == 273
    return found


def schemas() -> FileSchemas:
    return FileSchemas.read(SCHEMAS_FILE)


def register(url: str) -> None:
    """Registers the schemas in TiCDC's order, so that they get the ids of the messages."""
    registry = HttpSchemas(url).check()
    for entry in schemas().all():
        assert registry.id_of(entry.subject, entry.schema) == entry.id


def avro_side() -> CodecConfig:
    return CodecConfig("avro", schemas(), Options.of({}, time_zone=ZONE))


def debezium_side() -> CodecConfig:
    return CodecConfig("debezium", FileSchemas([]), Options.of(DEBEZIUM_OPTIONS, time_zone=ZONE))
