"""The real spark-submit with our zip, on a cluster of two workers in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs.cli import main
from spark_jobs.jars import jars
from spark_jobs.java import spark_java_home
from tests.support.golden import Golden

AVRO = Golden("avro", "evolution.ext1")


@pytest.mark.timeout(700)
def test_spark_submit_on_two_workers(tmp_path: Path) -> None:
    """Neither the driver nor the workers find our packages but in the zip."""
    assert main(["package", "--dir", str(tmp_path)]) == 0
    first = (tmp_path / "ticdc_bridge.zip").read_bytes()
    assert main(["package", "--dir", str(tmp_path)]) == 0
    assert (tmp_path / "ticdc_bridge.zip").read_bytes() == first
    import pyspark

    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "SPARK_HOME")}
    env |= {"JAVA_HOME": str(spark_java_home()), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    words = [
        str(submit), "--master", "local-cluster[2,1,1024]", "--jars", ",".join(map(str, jars("spark"))),
        "--conf", "spark.ui.enabled=false", "--conf", "spark.driver.host=127.0.0.1", "--conf",
        "spark.executor.memory=512m", "--py-files", str(tmp_path / "ticdc_bridge.zip"), str(tmp_path / "bridge.py"),
        "decode", "--spark", "--format", "avro", "--schemas", str(AVRO.meta_file), "--ddl", str(AVRO.meta_file),
        "--in", str(AVRO.messages_file), "--out", str(tmp_path / "rows.jsonl"),
    ]  # fmt: skip
    done = subprocess.run(words, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    lines = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert lines == AVRO.plain(ddl=True)
