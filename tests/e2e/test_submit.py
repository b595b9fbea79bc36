"""The real spark-submit with our zip, in one JVM and on a cluster of two workers in processes of their own."""

import json
from pathlib import Path

import pytest

from tests.support.cluster import TWO_WORKERS, packaged, submitted
from tests.support.golden import Golden

AVRO = Golden("avro", "evolution.ext1")


@pytest.mark.slow  # each starts Spark anew
@pytest.mark.timeout(700)
@pytest.mark.parametrize("master", ["local[1]", TWO_WORKERS])
def test_spark_submit(master: str, tmp_path: Path) -> None:
    first = (packaged(tmp_path) / "ticdc_bridge.zip").read_bytes()
    assert (packaged(tmp_path) / "ticdc_bridge.zip").read_bytes() == first
    words = [
        "decode", "--spark", "--format", "avro", "--schemas", str(AVRO.meta_file), "--ddl", str(AVRO.meta_file),
        "--in", str(AVRO.messages_file), "--out", str(tmp_path / "rows.jsonl"),
    ]  # fmt: skip
    with submitted(words, tmp_path, tmp_path, master) as job:
        assert job.wait(600) == 0, job.log[-4000:]
    lines = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert lines == AVRO.plain(ddl=True)
