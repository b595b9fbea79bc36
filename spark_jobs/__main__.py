"""`python -m spark_jobs`."""

import sys

from ticdc_bridge.main import run

if __name__ == "__main__":
    raise SystemExit(run("spark_jobs", sys.argv[1:], "python -m spark_jobs"))
