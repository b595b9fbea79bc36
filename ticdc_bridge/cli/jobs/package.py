"""`package`: what spark-submit needs of us: a zip for --py-files and the script to submit."""

import os
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ticdc_bridge.cli.job_command import JobCommand
from ticdc_bridge.cli.options import OUTPUT, option
from ticdc_bridge.schemas.model.reasons import usage_errors

ZIP, SCRIPT = "ticdc_bridge.zip", "bridge.py"
_MAIN = '''\
"""The script for spark-submit."""

from ticdc_bridge.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
'''


@dataclass(kw_only=True)
class Package(JobCommand):
    """Write the zip and the script for spark-submit.

    The Python of the cluster needs the packages of the extra `spark` (in a clone: pip install '.[spark]'), without
    pyspark itself.

    Examples:
      ticdc-bridge package --out dist
      SPARK=org.apache.spark KAFKA=org.apache.kafka
      spark-submit --master spark://host:7077 --py-files dist/ticdc_bridge.zip \\
          --packages $SPARK:spark-avro_2.13:4.1.1,$SPARK:spark-sql-kafka-0-10_2.13:4.1.1,$KAFKA:kafka-clients:3.9.2 \\
          dist/bridge.py transcode --spark --from avro --to debezium --registry http://registry:8081 \\
          --in kafka:shop_orders --out kafka:shop_orders_debezium --bootstrap-servers broker:9092
    """

    out: Path = option(OUTPUT, "DIR", "Target folder.", "--out", "--dir", default=Path("dist"))

    def run(self) -> int:
        with usage_errors(f"--out {self.out}"):
            self.out.mkdir(parents=True, exist_ok=True)
            with zipfile.ZipFile(self.out / ZIP, "w", zipfile.ZIP_DEFLATED) as out:
                for path, name in sorted(_files(), key=lambda entry: entry[1]):
                    # One time for all files: the same sources give the same zip.
                    out.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), path.read_bytes())
            (self.out / SCRIPT).write_text(_MAIN, encoding="utf-8")
        print(f"package: {self.out / ZIP}, {self.out / SCRIPT}", file=sys.stderr)
        return 0


def _files() -> Iterator[tuple[Path, str]]:
    package = Path(__file__).absolute().parents[2]
    for folder, folders, names in os.walk(package, followlinks=True):
        folders[:] = [name for name in folders if name not in ("__pycache__", "service")]
        for name in names:
            path = Path(folder, name)
            yield path, str(path.relative_to(package.parent))
