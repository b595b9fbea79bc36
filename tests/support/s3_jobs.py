"""`python -m tests.support.s3_jobs FILE`: command lines one after another, on one Spark that reads and writes S3.

FILE: a JSON list of lists of words. Prints "CODE WORDS" of each. Spark's session is made as a job makes it.
"""

import json
import sys
from pathlib import Path

from tests.support.spark_settings import INTERPRETED, QUICK, SHORT_LIVED
from ticdc_bridge.cli import main
from ticdc_bridge.spark_jobs.lake import tables
from ticdc_bridge.spark_jobs.runtime.spark_settings import SparkSettings
from ticdc_bridge.spark_jobs.spark import data_source
from ticdc_bridge.spark_jobs.spark.session import _JVM_OPTIONS

_SHORT = {**QUICK, **INTERPRETED, "spark.sql.shuffle.partitions": "1", _JVM_OPTIONS: SHORT_LIVED}


def run(lines: list[list[str]]) -> None:
    spark = tables.session(SparkSettings("local[2]", _SHORT, locations=("delta:s3://lake/t",)), ["delta"])
    data_source.register(spark)
    for words in lines:
        print(f"{main(words)} {' '.join(words)}", flush=True)
    messages = spark.read.format("ticdc").option("format", "debezium").load("s3://lake/in/debezium.jsonl")
    print(f"{messages.count()} rows of the data source")
    spark.stop()


if __name__ == "__main__":
    run(json.loads(Path(sys.argv[1]).read_text()))
