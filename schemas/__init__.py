"""What TiCDC's messages are: tables and changes, the formats that carry them, and the batch engine. For both programs.

Nothing here knows the service, the jobs, a network, a database or Spark.
"""

from typing import Any


def __getattr__(name: str) -> Any:
    """`from schemas import Decoder` in a checkout, as programs of before the one name have it."""
    if name not in ("Decoder", "Encoder", "plain_event"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import ticdc_bridge

    return getattr(ticdc_bridge, name)
