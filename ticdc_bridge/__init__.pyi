from ticdc_bridge.clients.history import HistoryTables
from ticdc_bridge.schemas.model.errors import SetupError, WireError
from ticdc_bridge.schemas.model.event import DdlEvent, Message, RowChange, Watermark
from ticdc_bridge.schemas.model.ports import SchemaSource, TableSource
from ticdc_bridge.schemas.plain.writer import plain_event
from ticdc_bridge.spark_jobs.pipeline.single_messages import Decoder, Encoder
from ticdc_bridge.spark_jobs.snapshots.python_load import load
from ticdc_bridge.spark_jobs.snapshots.reconcile_job import reconcile
from ticdc_bridge.spark_jobs.spark import data_source as datasource
from ticdc_bridge.spark_jobs.spark.api import count_changes, decode, encode, transcode
from ticdc_bridge.spark_jobs.spark.session import spark_session
from ticdc_bridge.spark_jobs.streaming.python_merge import changelog, merge

__version__: str
__all__ = [
    "DdlEvent",
    "Decoder",
    "Encoder",
    "HistoryTables",
    "Message",
    "RowChange",
    "SchemaSource",
    "SetupError",
    "TableSource",
    "Watermark",
    "WireError",
    "changelog",
    "count_changes",
    "datasource",
    "decode",
    "encode",
    "load",
    "merge",
    "plain_event",
    "reconcile",
    "spark_session",
    "transcode",
]
