"""A changefeed over many tables begins: TiCDC registers key and value of each, over many connections at once."""

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

TYPE: Final = "application/vnd.schemaregistry.v1+json"
ACCEPT: Final = f"{TYPE}, application/vnd.schemaregistry+json, application/json"
_STATUS = re.compile(rb"HTTP/1\.1 (\d+)")
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)", re.IGNORECASE)


@dataclass(slots=True)
class Burst:
    """What was answered. longest: seconds. samples: what `sample` said, about forty times in all."""

    statuses: Counter[int] = field(default_factory=Counter)
    ids: list[int] = field(default_factory=list)
    longest: float = 0.0
    seconds: float = 0.0
    samples: list[float] = field(default_factory=list)
    failures: list[bytes] = field(default_factory=list)

    @property
    def holes(self) -> int:
        """How many ids are missing from 1 up to the highest, or were given twice."""
        return max(self.ids, default=0) - len(set(self.ids)) + len(self.ids) - len(set(self.ids))


def run(
    url: str, tables: int, connections: int, schema: Callable[[str], str], sample: Callable[[], float] | None = None
) -> Burst:
    """Register 2 × `tables` schemas as TiCDC's client does. schema: the text for a record's name. Raises OSError."""
    return asyncio.run(_run(url, tables, connections, schema, sample))


async def _run(
    url: str, tables: int, connections: int, schema: Callable[[str], str], sample: Callable[[], float] | None
) -> Burst:
    burst, todo = Burst(), _requests(tables, schema)
    every = max(tables * 2 // 40, 1)
    split_url = urlsplit(url)

    async def client() -> None:
        reader, writer = await asyncio.open_connection(split_url.hostname, split_url.port, limit=1 << 20)
        for request in todo:
            began = time.perf_counter()
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            length, status = _LENGTH.search(head), _STATUS.match(head)
            body = await reader.readexactly(int(length[1]) if length else 0)
            burst.longest = max(burst.longest, time.perf_counter() - began)
            code = int(status[1]) if status else 0
            burst.statuses[code] += 1
            if code == 200:
                burst.ids.append(json.loads(body)["id"])
            else:
                burst.failures.append(body[:300])
            if sample is not None and burst.statuses.total() % every == 0:
                burst.samples.append(sample())
        writer.close()

    began = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(connections)))
    burst.seconds = time.perf_counter() - began
    return burst


def _requests(tables: int, schema: Callable[[str], str]) -> Iterator[bytes]:
    for number in range(tables):
        for part in ("key", "value"):
            body = json.dumps({"schema": schema(f"table_{number}_{part}")}).encode()
            head = (
                f"POST /subjects/shop.table_{number}-{part}/versions HTTP/1.1\r\nHost: registry\r\nAccept: {ACCEPT}\r\n"
                f"Content-Type: {TYPE}\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            yield head.encode() + body
