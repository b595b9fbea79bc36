"""`package`: what spark-submit needs of us: a zip for --py-files and the script to submit."""

from __future__ import annotations

import argparse
import os
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.spark_jobs.commands import options

ZIP, SCRIPT = "ticdc_bridge.zip", "bridge.py"
_MAIN = '''\
"""The script for spark-submit."""

from ticdc_bridge.spark_jobs.commands.main import main

if __name__ == "__main__":
    raise SystemExit(main())
'''
_EXAMPLES = f"""\
examples
  ticdc-bridge package --out dist
  SPARK=org.apache.spark KAFKA=org.apache.kafka
  spark-submit --master spark://host:7077 --py-files dist/{ZIP} \\
      --packages $SPARK:spark-avro_2.13:4.1.1,$SPARK:spark-sql-kafka-0-10_2.13:4.1.1,$KAFKA:kafka-clients:3.9.2 \\
      dist/{SCRIPT} transcode --spark --from avro --to debezium --registry http://registry:8081 \\
      --in kafka:shop_orders --out kafka:shop_orders_debezium --bootstrap-servers broker:9092

The Python of the cluster needs what `pip install ticdc-bridge[spark]` brings, without pyspark itself.
"""


def add(commands: Any) -> None:
    p = options.command(commands, "package", _EXAMPLES, "")
    p.add_argument("--out", "--dir", dest="dir", type=Path, default=Path("dist"), help="target folder (dist)")


def run(args: argparse.Namespace) -> int:
    try:
        args.dir.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(args.dir / ZIP, "w", zipfile.ZIP_DEFLATED) as out:
            for path, name in sorted(_files(), key=lambda entry: entry[1]):
                # One time for all files: the same sources give the same zip.
                out.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), path.read_bytes())
        (args.dir / SCRIPT).write_text(_MAIN, encoding="utf-8")
    except OSError as error:
        raise SetupError("USAGE", details=f"--out {args.dir}: {error.strerror or error}") from error
    print(f"package: {args.dir / ZIP}, {args.dir / SCRIPT}", file=sys.stderr)
    return 0


def _files() -> Iterator[tuple[Path, str]]:
    package = Path(__file__).absolute().parents[2]
    for folder, folders, names in os.walk(package, followlinks=True):
        folders[:] = [name for name in folders if name not in ("__pycache__", "service")]
        for name in names:
            path = Path(folder, name)
            yield path, str(path.relative_to(package.parent))
