"""The declarative pipeline, by the newest Spark's own `spark-pipelines run`: twice, with more messages in between."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
import yaml

from schemas.model.event import Message
from service.testing import running_service
from spark_jobs.io.message_files import read_messages
from spark_jobs.runtime.java import spark_java_home
from spark_jobs.runtime.spark_version import TRIED
from tests.support.kafka import Kafka
from tests.support.service import ROOT, command
from tests.support.streams import send
from tests.support.table import check_rows
from tests.support.toolchains import ToolchainMissing, python_packages

FOLDER = ROOT / "examples" / "pipelines"
SAMPLE = ROOT / "schemas" / "files" / "shop.orders.open.jsonl"
_PINS = ROOT / "tests" / "spark_jobs" / "versions"


def test_its_files_and_settings_are_there() -> None:
    spec = yaml.safe_load((FOLDER / "spark-pipeline.yml").read_text(encoding="utf-8"))

    def check(library: dict[str, dict[str, str]]) -> None:
        text = (FOLDER / library["glob"]["include"]).read_text(encoding="utf-8")
        compile(text, "library", "exec")
        assert all(f'"{name}"' in text for name in spec["configuration"])

    check_rows(spec["libraries"], check)
    compile((FOLDER / "auto_cdc.py").read_text(encoding="utf-8"), "auto_cdc", "exec")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_runs(kafka: Kafka, tmp_path: Path) -> None:
    try:
        packages = [python_packages(_PINS / f"{name}.txt") for name in (f"pyspark-{TRIED[-1]}", "connect")]
    except ToolchainMissing as missing:
        pytest.skip(str(missing))
    store, topic = f"sqlite:///{tmp_path / 'history.db'}", kafka.create_topic()
    tracked = command("track", "--in", str(SAMPLE), "--changefeed", "shop", "--store", store, cwd=tmp_path)
    assert tracked.exit_code == 0, tracked.stderr
    messages = [message for message in read_messages(SAMPLE) if isinstance(message, Message)]
    shutil.copytree(FOLDER, tmp_path / "pipelines")
    with running_service(store) as url:
        replaced = {"localhost:9092": kafka.bootstrap_servers, "http://localhost:8081": url, "shop-history": topic,
                    "/tmp/ticdc-bridge-pipeline": str(tmp_path)}  # fmt: skip
        spec = tmp_path / "pipelines" / "spark-pipeline.yml"
        text = spec.read_text(encoding="utf-8")
        for old, new in replaced.items():
            text = text.replace(old, new)
        spec.write_text(text, encoding="utf-8")
        for some in (messages[:4], [*messages[4:], Message(b"?", b"?")]):
            send(kafka, topic, some)
            run_pipeline(packages, spec, tmp_path)
    changes = [
        (row["op"], dict(row["row"]), dict(row["before"] or ())) for row in sorted_rows(tmp_path, "order_changes")
    ]
    assert [op for op, _, _ in changes] == ["c", "c", "u", "d"]
    assert changes[0][1] == {"id": "18446744073709551615", "price": "12.30", "note": None}
    assert changes[3][1] == {"id": "2", "price": "89.00", "remark": "gift", "paid": "0"}
    assert changes[2][2]["price"] == "99.00"
    assert [row["error"]["code"] for row in sorted_rows(tmp_path, "unreadable")] == ["NOT_FRAMED"]


def run_pipeline(packages: list[Path], spec: Path, folder: Path) -> None:
    """As the head of the specification says it."""
    home = packages[0] / "pyspark"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    environment |= {
        "PYTHONPATH": os.pathsep.join(map(str, [*packages, ROOT])), "PYSPARK_PYTHON": sys.executable,
        "JAVA_HOME": str(spark_java_home()), "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1",
    }  # fmt: skip
    words = [
        word for conf in re.findall(r"--conf (\S+)", spec.read_text(encoding="utf-8")) for word in ("--conf", conf)
    ]
    done = subprocess.run(
        [home / "bin" / "spark-pipelines", "run", "--spec", spec, *words],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "Run is COMPLETED" in done.stdout + done.stderr, done.stderr[-4000:]
    assert done.returncode == 0, done.stderr[-4000:]


def sorted_rows(folder: Path, table: str) -> list[dict[str, Any]]:
    """The rows of a table in the order of their messages."""
    files = (folder / "tables" / table).glob("*.parquet")
    rows = [row for file in files for row in pyarrow.parquet.read_table(file).to_pylist()]
    return sorted(rows, key=lambda row: row["source"]["offset"])
