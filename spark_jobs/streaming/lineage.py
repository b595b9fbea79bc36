"""`--lineage URL`: tells the service which topics, table versions and subjects a job used (`POST /lineage`)."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

from schemas.model.errors import SetupError
from spark_jobs.pipeline.job import Job
from spark_jobs.pipeline.result import Summary, Used
from spark_jobs.sources.http_client import JsonClient

_FAILED = 300
_NAMES = ("topic", "db", "table", "table_version", "schema_id")


def post(url: str | None, job: str, command: str, source: str, out: str, work: Job, summary: Summary) -> None:
    """Posts one run or micro-batch."""
    body = {
        "job": job, "command": command, "from": work.read.format, "to": work.write.format if work.write else "plain",
        "source": source, "target": out, "tables": tables_of(summary.used), "messages": summary.messages,
        "written": summary.out, "failed": summary.errors.total(),
    }  # fmt: skip
    tell(url, body)


def tell(url: str | None, body: dict[str, Any]) -> None:
    """Posts what a job used, where a service is given.

    A service that can't be reached is told on stderr: the job's own work is done.
    """
    if not url:
        return
    try:
        client = JsonClient(url, "--lineage", wait=0.0)
        status, answer = client.call("POST", "/lineage", body)
        if status >= _FAILED:
            raise client.refusal_error("/lineage", status, answer)
    except SetupError as error:
        print(f"warning: lineage was not posted: {error.detail}", file=sys.stderr)


def tables_of(used: Counter[Used]) -> list[dict[str, Any]]:
    """The topics, tables, versions and schema ids that rows came from."""
    return [dict(zip(_NAMES, key, strict=True)) | {"rows": n} for key, n in sorted(used.items(), key=repr)]


def edge(topic: str | None, rows: int) -> dict[str, Any]:
    """What is told of messages that were not decoded: their topic, and no table."""
    return dict(zip(_NAMES, (topic, "", "", None, None), strict=True)) | {"rows": rows}
