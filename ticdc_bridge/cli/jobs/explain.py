"""`explain`: show one message field by field: bytes, types, values."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from ticdc_bridge.cli.job_options import READ, Reading, formats
from ticdc_bridge.cli.options import FORMAT_OUT, INPUT, OUTPUT, argument, option
from ticdc_bridge.schemas.model.errors import SetupError


@dataclass(kw_only=True)
class Explain(Reading):
    """Show one message field by field: bytes, types, values.

    How it is framed, which schema it names and where that is registered, the table's version at its commit_ts, and for
    each field where it stands, its bytes, its type on the wire, its TiDB type, its value, and what each other format
    would carry for it (or why it can't).

    Examples:
      ticdc-bridge explain messages.jsonl#3 --registry http://localhost:8081
      ticdc-bridge explain shop_orders@0:1041 --bootstrap-servers localhost:9092 --ddl history.jsonl
      ticdc-bridge explain --in messages.jsonl --format-out json | jq '.events[0].fields[] | {column, wire, value}'
    """

    notes: ClassVar[str] = """\
Which message:
  FILE             the first message of a message file;  FILE#7  its 7th message
  TOPIC@2:1041     offset 1041 of partition 2 of a Kafka topic (also kafka:TOPIC@2:1041)

Output:
  after.price    the column `price` of the new row; `before.` is the old row
  bytes          position of the field: value @41 +7 is seven bytes from offset 41 of the value
  wire           its type in the message;  type  its TiDB type;  value  as decode prints it
  debezium, …    what that format would carry; `-` where that is not known

Exit codes:
  0 explained   1 the message can't be read (its bytes and the reason are shown)   2 wrong usage, or no such message
"""
    position: str | None = argument("FILE[#LINE] | TOPIC@PARTITION:OFFSET", "Which message.")
    in_: str | None = option(INPUT, "FILE[#LINE]|kafka:TOPIC@PARTITION:OFFSET", "The same.", "--in")
    format_out: Literal["text", "json"] = FORMAT_OUT
    format: str = formats(READ, "Format of the message; auto detects it.", "--format", default="auto")
    to_options: Path | None = option(OUTPUT, "FILE", "Options of the formats compared with, as JSON.")

    def run(self) -> int:
        from ticdc_bridge.cli.codec_arguments import kafka_of, options_file, read_config
        from ticdc_bridge.schemas.model.options import Options
        from ticdc_bridge.spark_jobs.jobs import explain

        position = self.in_ or self.position
        if position is None or (self.in_ and self.position):
            raise SetupError("USAGE", details="which message? FILE#LINE or TOPIC@PARTITION:OFFSET, once")
        self.source = position
        read = read_config(self, "flag")
        to_options = {"enable_tidb_extension": True, **options_file(self.to_options, "--to-options")}
        to_options.setdefault("time_zone", read.options.time_zone)
        text, code = explain.run(position, read, Options.of(to_options), kafka_of(self), self.format_out == "json")
        print(text)
        return code
