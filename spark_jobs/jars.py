"""`python -m ticdc_bridge.spark_jobs.jars`: the command of `spark_jobs.runtime.jars`."""

import sys

from ticdc_bridge.spark_jobs.runtime.jars import main

if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
