"""Spark jobs that decode, encode and check TiCDC's message formats.

`from spark_jobs import decode, encode, transcode` is the Spark API. Importing the package starts no JVM and no Spark
session, and loads neither pyspark nor pyarrow: workers and the command line import it too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spark_jobs.api import decode, encode, transcode

__all__ = ["decode", "encode", "transcode"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from spark_jobs import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
