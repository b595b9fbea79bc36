"""`python -m tests.support.many_jobs FILE`: several command lines in one process, on one Spark: one kill ends them all.

FILE: a JSON list of lists of words. Each runs in a thread of its own. Exit code: 0, or the first that is no 0 and no 1.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.spark_settings import INTERPRETED, QUICK, SHORT_LIVED
from ticdc_bridge.cli import main
from ticdc_bridge.spark_jobs.lake import tables
from ticdc_bridge.spark_jobs.runtime.spark_settings import SparkSettings
from ticdc_bridge.spark_jobs.spark.session import _JVM_OPTIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SHORT = {**QUICK, **INTERPRETED, "spark.sql.shuffle.partitions": "1", _JVM_OPTIONS: SHORT_LIVED}


def run(spark: SparkSession, words: list[str]) -> int:
    jvm = spark._jvm
    assert jvm is not None
    jvm.SparkSession.setActiveSession(spark._jsparkSession)  # of this thread
    code = main(words)
    print(f"ended with {code}: {' '.join(words)}", file=sys.stderr, flush=True)
    return code


def together(jobs: list[list[str]]) -> int:
    spark = tables.session(SparkSettings("local[2]", _SHORT), ["delta"])
    with ThreadPoolExecutor(len(jobs)) as pool:
        codes = [entry.result() for entry in [pool.submit(run, spark, words) for words in jobs]]
    return next((code for code in codes if code > 1), 0)


if __name__ == "__main__":
    sys.exit(together(json.loads(Path(sys.argv[1]).read_text())))
