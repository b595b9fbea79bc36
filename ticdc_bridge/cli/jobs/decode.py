"""`decode`: messages → change events in plain form."""

from dataclasses import dataclass, replace
from typing import Final, Literal

from ticdc_bridge.cli.job_file import JobFileCommand
from ticdc_bridge.cli.job_options import READ, TYPES, MessageJobOptions, TableSelection, formats, on_lossy
from ticdc_bridge.cli.options import INPUT, OUTPUT, flag, option

COMMAND_CLASS: Final = JobFileCommand


@dataclass(kw_only=True)
class Decode(TableSelection, MessageJobOptions):
    """Decode messages into JSON rows, or a table's columns.

    Examples:
      ticdc-bridge decode --format avro --registry http://localhost:8081 --in kafka:shop_orders --out -
      ticdc-bridge decode --format debezium --in messages.jsonl --out rows.jsonl
      ticdc-bridge decode --format auto --in messages.jsonl --schemas schemas.jsonl
      ticdc-bridge decode --format simple --verify-checksum --in messages.jsonl --out rows.jsonl
      ticdc-bridge decode --format open --ddl history.jsonl --in messages.jsonl \\
          --table shop.orders --types typed --out orders.parquet
      ticdc-bridge decode --format auto --in topics/shop_orders/ --table shop.orders --out orders.avro
      ticdc-bridge decode --format avro --registry http://localhost:8081 --in kafka:shop_orders \\
          --table shop.orders --out delta:/lake/orders_changes --stream --checkpoint /lake/_checkpoints/orders
    """

    format: str = formats(READ, "Format of the messages; auto detects it for each message.", "--format")
    verify_checksum: bool = flag(
        INPUT, "--verify-checksum", "Compare each row with the row checksum it came with (exit code 1)."
    )
    on_lossy: Literal["error", "flag"] | None = on_lossy("flag")
    table: str | None = option(
        INPUT, "DB.TABLE", "One table, its columns typed (to delta:PATH, FILE.parquet or FILE.avro)."
    )
    types: Literal["exact", "typed"] = TYPES
    time: Literal["text", "interval"] = option(OUTPUT, None, "TIME as text or as an interval.", default="text")
    missing: Literal["null", "default"] = option(
        OUTPUT, None, "The value of a column that was added after the row.", default="null"
    )

    def run(self) -> int:
        from ticdc_bridge.cli.codec_arguments import choose_tables, read_config, view_of
        from ticdc_bridge.cli.job_runner import run_job
        from ticdc_bridge.schemas.inspect.format_lookup import format_named
        from ticdc_bridge.spark_jobs.pipeline.job import Job

        chosen = choose_tables(self)
        zoned = self.types == "typed" and format_named(self.format).zone is None  # TIMESTAMP text becomes a time
        read = replace(read_config(self, "flag", warn=zoned), view=view_of(self), chosen=chosen)
        job = Job(read, None, self.topic, self.on_error, self.dedupe, self.until_resolved, outputs=self.outputs)
        return run_job(self, job)
