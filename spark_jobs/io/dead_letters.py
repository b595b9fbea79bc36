"""Dead letters as lines of message files. What makes a message one: schemas.inputs.dead_letters."""

from __future__ import annotations

from typing import Any

from ticdc_bridge.schemas.inputs.dead_letters import dead_letter
from ticdc_bridge.schemas.model.errors import WireError
from ticdc_bridge.schemas.model.event import Message
from ticdc_bridge.spark_jobs.io.message_files import message_line


def dead_letter_line(error: WireError, origin: Message) -> dict[str, Any]:
    """A dead letter as a line of a message file, with code and detail readable too."""
    return {**message_line(dead_letter(error, origin)), "code": error.code, "detail": error.detail}
