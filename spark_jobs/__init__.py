"""Spark jobs that decode, encode and check TiCDC's message formats.

`from spark_jobs import decode, encode, transcode, merge, changelog, count_changes` is the Spark API, beside
`datasource` and `spark_session`. Importing the package starts no JVM and no Spark session, and loads neither pyspark
nor pyarrow: workers and the command line import it too. With Spark 3 the names of the API are an error that says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ticdc_bridge.packages import check_at_import

if TYPE_CHECKING:
    from ticdc_bridge.spark_jobs.spark import data_source as datasource
    from ticdc_bridge.spark_jobs.spark.api import count_changes, decode, encode, transcode
    from ticdc_bridge.spark_jobs.spark.session import spark_session
    from ticdc_bridge.spark_jobs.streaming.python_merge import changelog, merge

__all__ = ["changelog", "count_changes", "datasource", "decode", "encode", "merge", "spark_session", "transcode"]

DISTRIBUTION = "ticdc-bridge"
check_at_import("schemas")  # in Spark's workers too, which import this package first


def __getattr__(name: str) -> Any:
    if name in __all__:
        from ticdc_bridge.spark_jobs.runtime.spark_version import check_spark_version

        check_spark_version()
    if name == "datasource":
        from ticdc_bridge.spark_jobs.spark import data_source

        return data_source
    if name == "spark_session":
        from ticdc_bridge.spark_jobs.spark.session import spark_session

        return spark_session
    if name in ("changelog", "merge"):
        from ticdc_bridge.spark_jobs.streaming import python_merge

        return getattr(python_merge, name)
    if name in __all__:
        from ticdc_bridge.spark_jobs.spark import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
