"""decode, encode and transcode in this process: from endpoint to endpoint, one message after another."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.spark_jobs.io.endpoints import DeadLetters, LineSink, Sink, complete_together
from ticdc_bridge.spark_jobs.jobs.in_process_batches import BatchDecoder
from ticdc_bridge.spark_jobs.pipeline.job import Job
from ticdc_bridge.spark_jobs.pipeline.message_codec import decode_message, plain_lines, transcode_message
from ticdc_bridge.spark_jobs.pipeline.progress import print_notes
from ticdc_bridge.spark_jobs.pipeline.result import MessageResult, Summary
from ticdc_bridge.spark_jobs.pipeline.stream_definitions import LearningDecoder
from ticdc_bridge.spark_jobs.pipeline.watermark_buffer import WatermarkBuffer, handle_failure

Incoming = Iterable[Message | tuple[WireError, Message]]


def run_in_process(
    incoming: Incoming, job: Job, out: LineSink | Sink, dead: DeadLetters | None, prompt: bool = False
) -> Summary:
    """Messages → plain-form lines, or messages of another format, in order; `out` fits what the work writes.

    A message that fails goes by `work.on_error`; decoding it also leaves an error line (but with "drop"). prompt: each
    message is written as it comes, whatever that costs.
    """
    summary, process = Summary(), _message_function(job)
    items: Iterable[Any] = incoming
    if job.write is None and not (job.needs_order or job.read.learn or prompt):
        items = BatchDecoder(job.read, summary, getattr(out, "changes", None))(incoming)
    flow: WatermarkBuffer[Any] = WatermarkBuffer(job, summary)
    output: Any = out
    write = output.write
    with complete_together(out, dead):
        for item in items:
            if not isinstance(item, Message | tuple):
                summary.out += len(item)
                if isinstance(item, list):
                    for line in item:
                        output.write_text(line)
                else:
                    output.write_batch(item)
                continue
            message, result = (
                (item, process(item)) if isinstance(item, Message) else (item[1], MessageResult(error=item[0]))
            )
            summary.count(result, message.topic)
            print_notes(result.notes, summary.messages)
            outputs: list[Any] = result.out
            if job.write is None:
                outputs = [] if result.error and job.on_error == "drop" else plain_lines(result, message)
            if result.error is not None:
                handle_failure(job, result.error, message, dead, summary)
            passing: Iterable[Any] = outputs
            if result.error is None:
                passing = flow.take(outputs, result.marks, message.partition, result.newest_watermark)
            for piece in passing:
                write(piece)
                summary.out += 1
        for piece in flow.rest():
            write(piece)
            summary.out += 1
    return summary


def _message_function(job: Job) -> Callable[[Message], MessageResult]:
    learning = LearningDecoder(job.read)
    decoder, marked = learning.decoder, job.needs_order
    if job.write is None:
        return lambda m: decode_message(decoder, m, job.read.verify_checksum, marked, job.read.chosen)
    encoder = replace(job.write, tables=learning.tables).encoder()
    return lambda m: transcode_message(decoder, encoder, m, job.topic, marked, job.read.chosen)
