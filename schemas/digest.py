"""A digest over one exchange between a job and the service: what was asked and what was answered, end to end.

TCP's checksum misses some damage, and a damaged schema or id can be a valid one. A job that sends the header ASK gets
the digest with the answer and compares; other servers know nothing of it and answer as always.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Final

HEADER: Final = "Bridge-Digest"
ASK: Final = "sha-256"
MOST: Final = 4 * 1024 * 1024
"""Bytes of the longest question's body that has a digest."""
_ESCAPED: Final = re.compile(rb"%([0-9a-fA-F]{2})")


def of_exchange(method: str, target: str | bytes, status: int, body: bytes, answer: bytes) -> str:
    """The digest, in hex. target: path and query; how they are escaped does not count, proxies write it their way."""
    raw = target.encode() if isinstance(target, str) else target
    asked = _ESCAPED.sub(lambda found: bytes.fromhex(found[1].decode()), raw)
    head = f"{method} {len(asked)} {status} {len(body)} {len(answer)}\n".encode()
    return sha256(b"".join((head, asked, body, answer))).hexdigest()
