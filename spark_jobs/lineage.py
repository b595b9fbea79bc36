"""`--lineage URL`: tells the service which topics, table versions and subjects a job used (`POST /lineage`)."""

from __future__ import annotations

import json
import sys
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

from spark_jobs.flow import Work
from spark_jobs.summary import Summary


def post(url: str | None, job: str, command: str, source: str, out: str, work: Work, summary: Summary) -> None:
    """Posts one run or micro-batch. A service that can't be reached is told on stderr: the data is written."""
    if not url:
        return
    body = {
        "job": job, "command": command, "from": work.read.format, "to": work.write.format if work.write else "plain",
        "source": source, "target": out, "tables": tables_of(summary), "messages": summary.messages,
        "written": summary.out, "failed": summary.errors.total(),
    }  # fmt: skip
    try:
        _send(url.rstrip("/") + "/lineage", body)
    except (OSError, URLError, ValueError) as error:
        print(f"warning: lineage was not posted to {url.rpartition('@')[2]}: {error}", file=sys.stderr)


def _send(url: str, body: dict[str, Any]) -> None:
    data = json.dumps(body).encode()
    request = Request(url, data, {"Content-Type": "application/json"}, method="POST")
    with urlopen(request, timeout=10) as response:
        response.read()


def tables_of(summary: Summary) -> list[dict[str, Any]]:
    """The topics, tables, versions and schema ids that rows came from."""
    names = ("topic", "db", "table", "table_version", "schema_id")
    return [dict(zip(names, key, strict=True)) | {"rows": n} for key, n in sorted(summary.used.items(), key=repr)]
