"""`decode --table DB.TABLE --out FILE.avro`: one table's changes as records of TiCDC's Avro schema."""

from dataclasses import dataclass, replace
from pathlib import Path

from ticdc_bridge.schemas.formats.avro import schema as publish
from ticdc_bridge.schemas.formats.avro.encoder import RecordEncoder
from ticdc_bridge.schemas.formats.avro.values import compile_record
from ticdc_bridge.schemas.formats.base import Encoder
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.reasons import usage_errors
from ticdc_bridge.spark_jobs.io.avro_files import ArchiveWriter
from ticdc_bridge.spark_jobs.pipeline.avro_versions import registered_versions
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.result import OTHER_TABLE, Summary


@dataclass(frozen=True)
class RecordConfig(CodecConfig):
    """The side written: records of the view's table. text: their schema."""

    text: str = ""

    def encoder(self) -> Encoder:
        assert self.view is not None
        return RecordEncoder(compile_record(self.text, "schema"), self.view.table, self.options)


def record_config(read: CodecConfig, on_lossy: str) -> RecordConfig:
    """The side that is written of the side read, whose view has the newest columns. SetupError USAGE.

    The schema is the newest registered one; else the one that TiCDC would register with its extension and the old row.
    """
    assert read.view is not None
    table, options = read.view.table, replace(read.options, on_lossy=on_lossy)
    complete = replace(options, enable_tidb_extension=True, avro_include_before_value=True)
    registered = registered_versions(read.schemas, table.id).values
    with usage_errors(f"table {table.id}", WireError):
        text = registered[-1].entry.schema if registered else publish.value_schema(table, complete)
    return RecordConfig("avro", read.schemas, options, view=read.view, text=text)


class TableAvro(ArchiveWriter):
    """The sink of the records."""

    def __init__(self, path: Path, config: RecordConfig) -> None:
        super().__init__(path, config.text)

    @staticmethod
    def report(summary: Summary) -> None:
        """Names what was left out as decode does elsewhere."""
        if rows := summary.skipped.pop("row", 0):
            summary.skipped[OTHER_TABLE] += rows
