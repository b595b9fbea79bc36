"""Change events of a DataFrame, as a Spark worker writes them: the same messages as of the same lines in-process."""

from pathlib import Path
from typing import Any

import pyarrow

from tests.support.each import each
from tests.support.golden import Registry
from ticdc_bridge import Encoder
from ticdc_bridge.schemas.inputs.schema_files import FileSchemas
from ticdc_bridge.schemas.inputs.table_definitions import TableDefinitions
from ticdc_bridge.schemas.model.options import Options
from ticdc_bridge.spark_jobs.arrow.change_schema import change_schema, message_schema
from ticdc_bridge.spark_jobs.arrow.event_encoder import EncodeBatches
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig

pa: Any = pyarrow
_SQL = "CREATE TABLE shop.t (id INT PRIMARY KEY, shop INT NOT NULL, e ENUM('2','1'), s SET('a','b'));"
_ROW = {"id": "1", "shop": "7", "e": None, "s": None}


@each(("key", "values", "flags"), [
    (["id"], {"e": "1", "s": "b"}, []),
    (["id"], {"e": "1", "s": "3"}, ["enum_number:e", "enum_number:s"]),  # no names: as Canal-JSON without a definition
    (["id", "shop"], {}, []),  # the definition is of another time than the message
])  # fmt: skip
def test_a_worker_writes_what_the_command_writes(
    tmp_path: Path, key: list[str], values: dict[str, str], flags: list[str]
) -> None:
    ddl = tmp_path / "t.sql"
    ddl.write_text(_SQL)
    event: dict[str, Any] = {
        "kind": "row", "op": "c", "db": "shop", "table": "t", "commit_ts": 462413824000000001, "key": key,
        "before": None, "after": {**_ROW, **values}, "flags": flags, "row": 0,
    }  # fmt: skip
    frame = pa.RecordBatch.from_pylist([{**event, "after": [*event["after"].items()]}], change_schema())
    for format_ in ("debezium", "open", "craft"):
        read, write = (
            CodecConfig(name, FileSchemas([]), Options.of({}), TableDefinitions.read(ddl)) for name in ("avro", format_)
        )
        [written] = EncodeBatches(read, write, None, message_schema())(iter([frame]))
        [message] = Encoder(format_, ddl=ddl).encode({**event, "format": "canal-json"})
        assert written.to_pylist()[0]["error"] is None
        assert (written.to_pylist()[0]["key"], written.to_pylist()[0]["value"]) == (message.key, message.value)
    registry = Registry()
    Encoder("avro", ddl=ddl, registry=registry).encode({**event, "format": "canal-json"}, topic="t")
    assert [f'"name":"{name}"' in registry.subjects["t-key"][0] for name in ("id", "shop")] == [True, "shop" in key]
