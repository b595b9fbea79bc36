"""Spark jobs that decode, encode and check TiCDC's message formats. Importing it loads neither pyspark nor pyarrow."""

from typing import Any


def __getattr__(name: str) -> Any:
    """`from spark_jobs import decode` in a checkout, as programs of before the one name have it."""
    import ticdc_bridge

    if name not in ticdc_bridge.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(ticdc_bridge, name)
