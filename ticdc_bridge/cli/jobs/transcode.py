"""`transcode`: convert messages from one format to another."""

from dataclasses import dataclass, replace
from typing import Final

from ticdc_bridge.cli.job_file import JobFileCommand
from ticdc_bridge.cli.job_options import READ, WRITTEN, MessageJobOptions, TableSelection, Writing, formats
from ticdc_bridge.cli.options import OUTPUT
from ticdc_bridge.schemas.formats.format_table import FORMATS

COMMAND_CLASS: Final = JobFileCommand


@dataclass(kw_only=True)
class Transcode(TableSelection, MessageJobOptions, Writing):
    """Convert messages from one format to another.

    Examples:
      ticdc-bridge transcode --from avro --to debezium --registry http://localhost:8081 \\
          --time-zone Asia/Shanghai --in kafka:shop_orders --out kafka:shop_orders_debezium
      ticdc-bridge transcode --from open --to avro --ddl history.jsonl --to-registry http://localhost:8081 \\
          --subject-strategy topic-record --in kafka:shop --out kafka: --topic '{schema}_{table}' \\
          --stream --checkpoint /var/lib/bridge/shop
    """

    format: str = formats(READ, "Format read:", "--from")
    to: str = formats(WRITTEN, "Format written:", "--to", panel=OUTPUT)

    def run(self) -> int:
        from ticdc_bridge.cli.codec_arguments import choose_tables, read_config, write_config
        from ticdc_bridge.cli.job_runner import run_job
        from ticdc_bridge.schemas.inspect.format_lookup import format_named
        from ticdc_bridge.spark_jobs.pipeline.job import Job

        chosen = choose_tables(self)
        read = read_config(self, "error", warn=None in (format_named(self.format).zone, FORMATS[self.to].zone))
        read = replace(read, chosen=chosen)
        write = write_config(self, read)
        return run_job(self, Job(read, write, self.topic, self.on_error, self.dedupe, self.until_resolved))
