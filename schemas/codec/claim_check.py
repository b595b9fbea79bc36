"""The file that a claim-check message points to: {"key":base64|null,"value":base64} of the whole message.

Upstream ticdc `pkg/sink/codec/common/message.go` (ClaimCheckMessage).
"""

from __future__ import annotations

import json

from schemas import values
from schemas.errors import WireError


def content(file: bytes) -> tuple[bytes | None, bytes]:
    """File → (key, value) of the message that it stands for. WireError CLAIM_CHECK for any other file."""
    try:
        found = json.loads(file)
        key, value = found.get("key"), found["value"]
        return None if key is None else values.base64_bytes(key), values.base64_bytes(value)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise WireError("CLAIM_CHECK", where="value", details=f"not a claim-check file: {error}"[:200]) from error
