"""The file that a claim-check message points to: {"key":base64|null,"value":base64} of the whole message.

Upstream ticdc `pkg/sink/codec/common/message.go` (ClaimCheckMessage); readers use the file's base name only.
"""

from __future__ import annotations

from schemas.codec import json_exact
from schemas.model import values
from schemas.model.errors import WireError
from schemas.model.ports import ClaimChecks


def fetch_message(claims: ClaimChecks | None, uri: str) -> tuple[bytes | None, bytes]:
    """Key and value of the message that a claim-check's URI stands for.

    WireError CLAIM_CHECK where nothing can be fetched, or the file is no claim-check.
    """
    if claims is None:
        raise WireError("CLAIM_CHECK", uri=uri[:300], details="give a folder that has the file (--claim-check-dir)")
    file = claims.fetch(uri.rpartition("/")[2])
    try:
        content = json_exact.decode(json_exact.document(file))
        key, value = content.get("key"), json_exact.string(content["value"], "value")
        key = None if key is None else values.base64_bytes(json_exact.string(key, "key"))
        return key, values.base64_bytes(value)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise WireError("CLAIM_CHECK", uri=uri[:300], details=f"not a claim-check file: {error}"[:200]) from error
