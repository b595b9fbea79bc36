"""Messages on their way to Python's workers: headers go as text where there are some, and as NULL where there are none.

Lists of structs cost more than all other columns of a message together in Spark's Arrow writer.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ticdc_bridge.spark_jobs.arrow.library import pa
from ticdc_bridge.spark_jobs.io.parquet import HEADER, HEADERS
from ticdc_bridge.spark_jobs.spark import avro_jvm
from ticdc_bridge.spark_jobs.spark.worker_tuning import tune_worker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


Run = Callable[[Iterable[Any]], Iterator[Any]]


def map_messages(frame: DataFrame, run: Run, schema: str | StructType) -> DataFrame:
    """`frame.mapInArrow(run, schema)` of messages, by our operator where Spark takes it (TunedWorkerExec.java).

    run: gets batches with headers as Spark has them, and never NULL, whether or not `frame` has them.
    """
    from pyspark.sql import functions as F

    if "headers" in frame.columns:
        # Both parts in base64: a key that is not UTF-8 is not changed on the way.
        pieces = F.transform("headers", lambda h: F.struct(h["key"].cast("binary").alias("key"), h["value"]))
        frame = frame.withColumn("headers", F.when(F.size("headers") > 0, F.to_json(pieces)))
    avro_jvm.plan_operators(frame.sparkSession)
    return frame.mapInArrow(WithHeaders(run), schema)


@dataclass(frozen=True)
class WithHeaders:
    """`run`, of batches that `map_messages` packed, in a tuned worker."""

    run: Run
    __name__ = "ticdc_bridge.messages"  # what Spark's plans call it; our strategy looks for it

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        tune_worker()
        return self.run(map(with_headers, batches))


def with_headers(batch: Any) -> Any:
    """A batch of messages with its headers as lists; one of lines as it is."""
    if "key" not in batch.schema.names:
        return batch
    index = batch.schema.get_field_index("headers")
    if index < 0:
        return batch.append_column("headers", _none(batch.num_rows))
    texts = batch.column(index)
    if texts.null_count == len(texts):
        return batch.set_column(index, "headers", _none(len(texts)))
    lists = [[] if text is None else list(map(_header, json.loads(text))) for text in texts.to_pylist()]
    return batch.set_column(index, "headers", pa.array(lists, HEADERS))


def _none(count: int) -> Any:
    return pa.ListArray.from_arrays(pa.array(np.zeros(count + 1, np.int32)), pa.array([], HEADER))


def _header(header: dict[str, str] | None) -> dict[str, Any] | None:
    if header is None:
        return None
    key, value = header.get("key"), header.get("value")
    return {
        "key": None if key is None else b64decode(key).decode(),
        "value": None if value is None else b64decode(value),
    }
