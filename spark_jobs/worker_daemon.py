"""The old name of `spark_jobs.spark.worker_daemon`, which stands in users' Spark settings; for one release."""

import runpy

if __name__ == "__main__":
    runpy.run_module("ticdc_bridge.spark_jobs.spark.worker_daemon", run_name="__main__")
