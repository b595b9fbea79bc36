"""What TiCDC's messages are: tables and changes, the formats that carry them, and the batch engine. For both programs.

Nothing here knows the service, the jobs, a network, a database or Spark.

`from schemas import Decoder, Encoder, plain_event` is the API for Python programs (docs/columns.md, "Without Spark").
The first two are the jobs' (decision 16), and loaded when they are asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ticdc_bridge.schemas.plain.writer import plain_event
    from ticdc_bridge.spark_jobs.pipeline.single_messages import Decoder, Encoder

__all__ = ["Decoder", "Encoder", "plain_event"]
DISTRIBUTION = "ticdc-bridge"


def __getattr__(name: str) -> Any:
    if name == "plain_event":
        from ticdc_bridge.schemas.plain.writer import plain_event

        return plain_event
    if name in __all__:
        from ticdc_bridge.packages import check_packages

        check_packages("spark_jobs")
        from ticdc_bridge.spark_jobs.pipeline import single_messages  # the one line that names the jobs

        return getattr(single_messages, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
