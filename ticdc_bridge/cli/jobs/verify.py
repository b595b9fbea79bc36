"""`verify`: two topics, or a topic and what was made of it: the same events?"""

from __future__ import annotations

import copy
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ticdc_bridge.cli.job_options import FROM_OFFSET, READ, Lineage, Reading, TargetRegistry, formats
from ticdc_bridge.cli.options import FORMAT_OUT, INPUT, OUTPUT, option

if TYPE_CHECKING:
    from ticdc_bridge.spark_jobs.io.locations import KafkaClient
    from ticdc_bridge.spark_jobs.pipeline.codec_config import CodecConfig


@dataclass(kw_only=True)
class Verify(Lineage, TargetRegistry, Reading):
    """Compare the events of two topics or files.

    Rows are matched by table, key and commit_ts, in any order; the order of each key's rows is compared too. A row
    that is there twice (TiCDC sends at least once) counts once. What a format is known to lose (docs/reference.md) is
    counted as an expected loss, all else is a difference. Row checksums are checked where messages have them. DDL is
    compared where both sides have some.

    Examples:
      ticdc-bridge verify --from avro --in kafka:shop_orders --registry http://localhost:8081 \\
          --to debezium --against kafka:shop_orders_debezium --ddl history.jsonl
      ticdc-bridge verify --from open --in a.jsonl --to plain --against rows.jsonl --format-out json
    """

    notes: ClassVar[str] = """\
Exit codes:
  0 the same   1 they differ   2 wrong usage, or something needed can't be reached
"""
    format: str = formats((*READ, "plain"), "Format of --in:", "--from")
    source: str = option(INPUT, "FILE|kafka:TOPIC", "The first input.", "--in", default=...)
    to: str = formats((*READ, "plain"), "Format of --against:", "--to")
    against: str = option(INPUT, "FILE|kafka:TOPIC", "The input compared with it.", default=...)
    from_offset: str = FROM_OFFSET
    format_out: Literal["text", "json"] = FORMAT_OUT
    most: int = option(OUTPUT, "N", "Most differences listed.", min=0, default=1000)

    def run(self) -> int:
        from ticdc_bridge.cli.codec_arguments import kafka_of, read_config
        from ticdc_bridge.schemas.plain.writer import json_line
        from ticdc_bridge.spark_jobs.jobs.verify import ComparedInput, VerifyReport, compare
        from ticdc_bridge.spark_jobs.streaming import lineage

        kafka = kafka_of(self)
        first = replace(read_config(self, "flag"), verify_checksum=True)
        other = copy.copy(self)
        other.format, other.source = self.to, self.against
        if self.to_registry or self.to_schemas:
            other.registry, other.schemas = self.to_registry, self.to_schemas
        other.from_options = self.to_options or self.from_options
        second = replace(read_config(other, "flag"), verify_checksum=True)
        report = compare(
            ComparedInput(_read_incoming(self.source, kafka, first), first, "in"),
            ComparedInput(_read_incoming(self.against, kafka, second), second, "against"),
            VerifyReport(most=self.most),
        )
        lineage.send(
            self.lineage,
            {"job": self.job or "verify", "command": "verify", "from": self.format, "to": self.to,
             "source": self.source, "target": self.against, "tables": lineage.tables_of(report.used),
             "messages": report.messages, "written": 0, "failed": report.kinds.total()},
        )  # fmt: skip
        for text in report.warnings():
            print(f"warning: {text}", file=sys.stderr)
        print(json_line(report.as_json()) if self.format_out == "json" else "\n".join(report.lines()))
        print(f"verify: {'different' if report.exit_code else 'the same'}", file=sys.stderr)
        return report.exit_code


def _read_incoming(location: str, kafka: KafkaClient, config: CodecConfig) -> Any:
    from ticdc_bridge.spark_jobs.io.endpoints import plain_source, read_source
    from ticdc_bridge.spark_jobs.pipeline.codec_config import PLAIN
    from ticdc_bridge.spark_jobs.pipeline.progress import show_progress
    from ticdc_bridge.spark_jobs.pipeline.storage_definitions import stated_tables

    if config.format == PLAIN:
        incoming = plain_source(location, kafka)
    else:
        incoming = read_source(location, kafka, config.options, stated_tables(config.tables))
    return show_progress(incoming, f"verify {location}")
