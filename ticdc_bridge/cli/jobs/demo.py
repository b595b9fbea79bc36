"""`demo`: the whole thing at work on this machine."""

from dataclasses import dataclass
from pathlib import Path

from ticdc_bridge.cli.job_command import JobCommand
from ticdc_bridge.cli.options import INPUT, OUTPUT, flag, option


@dataclass(kw_only=True)
class Demo(JobCommand):
    """Run everything on this machine with sample TiCDC messages.

    It registers TiCDC's schemas, decodes 273 messages in Spark, shows some of the rows and converts them to Debezium.

    With --kafka it starts a Kafka broker and the service, fills topics with the samples, and goes on until Ctrl-C. The
    blocks of the docs work with these two. Broker and service listen on this machine only; the messages are gone
    afterwards.

    Examples:
      ticdc-bridge demo
      ticdc-bridge demo --kafka
    """

    out: Path = option(OUTPUT, "DIR", "Folder of the demo's files.", "--out", "--dir", default=Path(".demo"))
    kafka: bool = flag(INPUT, "--kafka", "Start Kafka and the service, and keep them running.")
    kafka_port: int = option(INPUT, "PORT", "Port of the broker; 0: a free one.", min=0, max=65535, default=9092)
    port: int = option(INPUT, "PORT", "Port of the service; 0: a free one.", min=0, max=65535, default=8081)

    def run(self) -> int:
        if self.kafka:
            from ticdc_bridge.spark_jobs.jobs import demo_kafka

            return demo_kafka.run(self.out, self.kafka_port, self.port)
        from ticdc_bridge.spark_jobs.jobs import demo

        return demo.run(self.out)
