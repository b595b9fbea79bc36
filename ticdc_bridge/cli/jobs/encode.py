"""`encode`: encode JSON rows as messages of a format."""

from dataclasses import dataclass, field

from ticdc_bridge.cli.job_options import WRITTEN, MessageJobOptions, Writing, formats
from ticdc_bridge.cli.options import INPUT, OUTPUT, option
from ticdc_bridge.schemas.formats.format_table import FORMATS
from ticdc_bridge.schemas.plain.reader import PLAIN


@dataclass(kw_only=True)
class Encode(MessageJobOptions, Writing):
    """Encode JSON rows as messages of a format.

    The lines are what decode prints. A table's columns come from --ddl, from the DDL lines before its rows, or (lines
    of Avro messages) from the schema that `schema_id` names. Events that the format has no message for (DDL, watermark)
    are skipped and counted by kind.

    Examples:
      ticdc-bridge encode --to open --in rows.jsonl --ddl history.jsonl --out messages.jsonl
      ticdc-bridge encode --to avro --in rows.jsonl --registry http://localhost:8081 --out kafka: \\
          --topic '{schema}_{table}'
    """

    format: str = field(default=PLAIN.name, init=False)
    to: str = formats(WRITTEN, "Format written:", "--to", "--format", panel=OUTPUT)
    source: str = option(INPUT, "FILE|kafka:TOPIC", "Where the rows come from.", "--in", default=...)

    def run(self) -> int:
        from ticdc_bridge.cli.codec_arguments import read_config, write_config
        from ticdc_bridge.cli.job_runner import run_job
        from ticdc_bridge.spark_jobs.pipeline.job import Job

        read = read_config(self, "error", warn=FORMATS[self.to].zone is not None and self.to_options is None)
        write = write_config(self, read)
        return run_job(self, Job(read, write, self.topic, self.on_error, self.dedupe, self.until_resolved))
