"""`demo`: the whole thing at work on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ticdc_bridge.cli.job_command import JobCommand
from ticdc_bridge.cli.options import OUTPUT, option


@dataclass(kw_only=True)
class Demo(JobCommand):
    """Run everything on this machine with sample TiCDC messages."""

    out: Path = option(OUTPUT, "DIR", "Folder of the demo's files.", "--out", "--dir", default=Path(".demo"))

    def run(self) -> int:
        from ticdc_bridge.spark_jobs.jobs import demo

        return demo.run(self.out)
