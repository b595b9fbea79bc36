"""What runs in Spark's Python workers: Arrow batches of messages through the codecs. No session, no Spark classes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.schemas.model.table import Table, TableId
from ticdc_bridge.spark_jobs.arrow.event_rows import Batches, all_rows, change_rows, message_rows
from ticdc_bridge.spark_jobs.io.message_files import message_of_row
from ticdc_bridge.spark_jobs.pipeline.arguments import hints_in_python, rows_with_parameter_names
from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message
from ticdc_bridge.spark_jobs.pipeline.result import MessageResult, warn_of_mismatches
from ticdc_bridge.spark_jobs.pipeline.table_view import TableView


# ---- the DataFrame API
@dataclass(frozen=True)
class DecodeBatches:
    """Messages → change events, and rows for messages without one. schema, key: as of arrow.changes.ChangeReader."""

    config: CodecConfig
    schema: Any
    key: tuple[str, ...] | None = None

    def __call__(self, batches: Batches) -> Iterator[Any]:
        from ticdc_bridge.spark_jobs.arrow.changes import ChangeReader

        reader = ChangeReader(self.config, self.schema, self.key)
        rows = partial(all_rows, view=reader.view)
        made = _process_batches(reader, batches, self.schema, rows, lambda fast, _: fast.rows)
        return rows_with_parameter_names("decode", made)


@dataclass(frozen=True)
class TranscodeBatches:
    """Messages → messages (spark_jobs.arrow.change_schema.MESSAGES); one that fails is itself, with its error."""

    read: CodecConfig
    write: CodecConfig
    topic: str | None
    schema: Any

    def __call__(self, batches: Batches) -> Iterator[Any]:
        from ticdc_bridge.spark_jobs.arrow.messages import Transcoder

        def build_batch(fast: Any, chunk: Any) -> Any:
            none = pa.nulls(len(fast.origin), self.schema.field("error").type)
            return fast.record_batch(chunk, self.schema, error=none)

        transcoder = Transcoder(self.read, self.write, self.topic)
        made = _process_batches(transcoder, batches, self.schema, message_rows, build_batch)
        return rows_with_parameter_names("transcode", made)


def _process_batches(
    codecs: Any, batches: Batches, schema: Any,
    rows: Callable[[MessageResult, Message], Iterator[dict[str, Any]]], build: Callable[[Any, Any], Any],
) -> Iterator[Any]:  # fmt: skip
    """Batches through a task's codecs: what the kernels took (`build` of a part) and the rows of the rest, in order."""
    from ticdc_bridge.spark_jobs.arrow.batches import merge_in_order

    def read_row(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
        message = message_of_row(row)
        result = codecs.process_message(message)
        warn_of_mismatches(result)
        return rows(result, message)

    for batch in batches:
        for chunk, fast, rest in codecs.process_batch(batch):
            yield merge_in_order(
                chunk, rest, schema, read_row, None if fast is None else build(fast, chunk), fast and fast.origin
            )


def decode_refused(config: CodecConfig, table: Table, kind: Any) -> Callable[[Any, Any, Any, Any], Any]:
    """(key, value, topic, headers) arrays → struct array: the change events that the in-process decoder makes of each.

    Null without a topic: it was not sent. Kind "other": of another table. kind: the result's Arrow type.
    """

    # Spark infers the kind of function from exactly these annotations.
    def events(keys: pa.Array, values: pa.Array, topics: pa.Array, headers: pa.Array) -> pa.Array:  # type: ignore[type-arg]
        decoder, view = config.decoder(), TableView(table)
        out: list[dict[str, Any] | None] = []
        columns = (column.to_pylist() for column in (keys, values, topics, headers))
        for key, value, topic, named in zip(*columns, strict=True):
            if topic is None:
                out.append(None)
                continue
            pairs = tuple((header["key"], header["value"]) for header in named or ())
            message = Message(key, value, topic or None, headers=pairs)
            with hints_in_python("decode"):
                result = decode_message(decoder, message)
            row = next(change_rows(result, message, view))
            is_kept = row["kind"] in ("error", "watermark") or view.has(TableId(row["db"], row["table"]))
            out.append(row if is_kept else {"kind": "other"})
        structs: pa.Array[Any] = pa.array(out, kind)
        return structs

    return events
