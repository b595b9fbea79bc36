"""Jobs of Spark on a real S3 server: files, Delta tables by both engines, streams with their checkpoint there."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import fs, parquet

from tests.support.dumps import DUMPS
from tests.support.golden import ROOT, Golden
from tests.support.s3 import KEYS, s3_server
from tests.support.streams import send
from ticdc_bridge.cli import main
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.spark_jobs.io.message_files import message_line

if TYPE_CHECKING:
    from tests.support.kafka import Kafka

pytestmark = pytest.mark.slow
AVRO, DEBEZIUM = Golden("avro", "evolution.ext1"), Golden("debezium", "evolution.ext.schema")
BAD = Message(b"k", b"\x07nope", None, 0, None, 5)
_DECODE = "decode --format avro --schemas s3://lake/in/avro.meta.json"
_MERGE = "merge --format avro --schemas {meta} --ddl {meta} --in s3://lake/in/avro.jsonl --table test.evo"
_DUMP = "--table dmp.types --source-time-zone Asia/Shanghai --on-lossy flag"
_STREAM = "--stream --trigger now --in kafka:{topic}"
_LINES = (
    f"{_DECODE} --spark --in s3://lake/in/avro.jsonl --out s3://lake/spark/rows.jsonl",
    f"{_DECODE} --spark --in s3://lake/in/avro.jsonl.gz --out s3://lake/spark/gz.jsonl",
    f"{_DECODE} --in s3a://lake/in/avro.jsonl --table test.evo --out delta:s3://lake/changes",
    f"{_MERGE} --out delta:s3://lake/merged",
    f"{_MERGE} --out delta:s3a://lake/merged",
    f"{_MERGE} --out delta:s3://lake/merged_rs --engine deltalake",
    f"{_MERGE} --out delta:s3://lake/merged_rs --engine deltalake",
    f"decode --format debezium {_STREAM} --out s3://lake/stream --checkpoint s3://lake/cp --dead-letter s3://lake/dead",
    f"decode --format debezium {_STREAM} --out s3://lake/stream --checkpoint s3://lake/cp --dead-letter s3://lake/dead",
    f"decode --format debezium {_STREAM} --out s3://lake/held --checkpoint s3://lake/cp2 --dedupe",
    f"decode --format debezium {_STREAM} --out s3://lake/held --checkpoint s3://lake/cp2 --dedupe",
    f"{_MERGE} --on-error drop --out delta:s3://nobody/merged",
    f"load {_DUMP} --source dumpling:s3://lake/dump --out delta:s3://lake/loaded --changelog delta:s3://lake/log",
    f"load {_DUMP} --source dumpling:s3://lake/dump --out delta:s3://lake/loaded_rs --engine deltalake",
    f"reconcile {_DUMP} --dump dumpling:s3://lake/dump --lake delta:s3://lake/loaded",
)


def test_spark_on_s3(tmp_path: Path, kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    topic = kafka.create_topic(partitions=1)
    sent = [replace(m, partition=0) for m in DEBEZIUM.messages()]
    send(kafka, topic, [*sent, BAD, *sent[:2]])
    with s3_server() as (url, lake):
        lake.put_folder(DUMPS / "sql", "dump")
        lake.put("in/avro.meta.json", AVRO.meta_file.read_bytes())
        lake.put("in/avro.jsonl", AVRO.messages_file.read_bytes())
        lake.put("in/avro.jsonl.gz", gzip.compress(AVRO.messages_file.read_bytes()))
        lake.put("in/debezium.jsonl", "".join(json.dumps(message_line(m)) + "\n" for m in sent).encode())
        jobs = [line.format(meta=AVRO.meta_file, topic=topic).split() for line in _LINES]
        Path("jobs.json").write_text(json.dumps(jobs))
        environment = {
            **os.environ, **KEYS, "AWS_ENDPOINT_URL": url, "BRIDGE_BOOTSTRAP_SERVERS": kafka.bootstrap_servers,
            "PYTHONPATH": str(ROOT),
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-m", "tests.support.s3_jobs", "jobs.json"],
            env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-4000:]
        codes = [line.split(" ", 1)[0] for line in done.stdout.splitlines()]
        assert codes[:-1] == ["0"] * 7 + ["1", "0", "1", "0", "2", "0", "0", "0"], done.stdout + done.stderr[-4000:]
        assert codes[-1] == str(len(sent))
        assert "s3a://nobody/merged" in done.stderr
        assert "there is no such bucket" in done.stderr

        assert main(["decode", "--format", "avro", "--schemas", str(AVRO.meta_file), "--in", str(AVRO.messages_file),
                     "--out", "rows.jsonl"]) == 0  # fmt: skip
        rows = Path("rows.jsonl").read_bytes()
        assert lake.get("spark/rows.jsonl") == lake.get("spark/gz.jsonl") == rows
        merged = _rows(url, "lake/merged")
        assert merged
        assert merged == _rows(url, "lake/merged_rs")
        assert _rows(url, "lake/loaded") == _rows(url, "lake/loaded_rs")
        assert "__loading" not in " ".join(lake.keys())
        for folder, count in (("stream", len(sent) + 2), ("held", len(sent) + 1)):
            files = lake.keys(f"{folder}/")
            assert sum(lake.get(f"{folder}/{file}").count(b"\n") for file in files) == count, folder
        assert sum(lake.get(f"dead/{file}").count(b"\n") for file in lake.keys("dead/")) == 1


def _rows(url: str, location: str) -> list[tuple[object, ...]]:
    """The rows of a Delta table whose newest files are those that its log names; without columns of files."""
    store = fs.S3FileSystem(endpoint_override=url, access_key="test", secret_key="test", region="us-east-1")
    live: dict[str, None] = {}
    logs = store.get_file_info(fs.FileSelector(f"{location}/_delta_log"))
    for info in sorted((log for log in logs if log.path.endswith(".json")), key=lambda entry: entry.path):
        for line in store.open_input_stream(info.path).read().splitlines():
            action = json.loads(line)
            if "add" in action:
                live[action["add"]["path"]] = None
            live.pop(action.get("remove", {}).get("path"), None)
    tables = [parquet.read_table(f"{location}/{name}", filesystem=store) for name in live]
    rows = [tuple(map(str, row.values())) for table in tables for row in table.to_pylist()]
    assert all(isinstance(table, pa.Table) for table in tables)
    return sorted(rows)
