"""A digest over one exchange between a job and the service: what was asked and what was answered, end to end.

TCP's checksum misses some damage, and a damaged schema or id can be a valid one. A job that sends the header ASK gets
the digest with the answer and compares; other servers know nothing of it and answer as always.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final
from urllib.parse import unquote_to_bytes

HEADER: Final = "Bridge-Digest"
ASK: Final = "sha-256"


def of_exchange(method: str, target: str | bytes, status: int, body: bytes, answer: bytes) -> str:
    """The digest, in hex. target: path and query; how they are escaped does not count, proxies write it their way."""
    asked = unquote_to_bytes(target)
    head = f"{method} {len(asked)} {status} {len(body)} {len(answer)}\n".encode()
    return sha256(b"".join((head, asked, body, answer))).hexdigest()
