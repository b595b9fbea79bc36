"""`--lineage URL`: tells the service which topics, table versions and subjects a job used (`POST /lineage`)."""

import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any

from ticdc_bridge.clients.http import HttpClient, HttpLogin
from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.spark_jobs.pipeline.job import Job
from ticdc_bridge.spark_jobs.pipeline.result import Summary, Used

_FAILED = 300
_LONGEST = 1000  # characters of a text
_NAMES = ("topic", "db", "table", "table_version", "schema_id")


def post(
    url: str | None, job_name: str, command: str, source: str, out: str, job: Job, summary: Summary,
    waiting: Mapping[str, int] | None = None, positions: Mapping[str, Mapping[int, int]] | None = None, *,
    dead_letter: str | None = None, errors_before: Counter[str] | None = None,
) -> None:  # fmt: skip
    """Posts one run or micro-batch.

    waiting: messages that were not read yet, by topic; positions: the offset that is read next, by topic and partition.
    dead_letter: where messages go that fail; errors_before: those of earlier micro-batches of this run, by code.
    """
    errors = summary.errors + (errors_before or Counter[str]())
    newest = {name: merge.newest_ts for name, merge in summary.merges.items()}
    newest |= {progress.name: progress.newest_ts for progress in summary.tables}
    known = {name.lower(): commit_ts for name, commit_ts in newest.items() if commit_ts is not None}
    tables = tables_of(summary.used, known, waiting)
    # Of each topic an edge without a table: a job that reads on is to be seen where no row comes, too.
    aside = ", ".join(sorted(summary.set_aside))[:_LONGEST] or None
    tables += [
        {**edge(topic, 0), "positions": offsets, "waiting": (waiting or {}).get(topic), "set_aside": aside}
        for topic, offsets in (positions or {}).items()
    ]
    why = {name.lower(): reason[:_LONGEST] for name, (_, reason) in summary.set_aside.items()}
    for table in tables:
        table |= {"set_aside": reason} if (reason := why.get(f"{table['db']}.{table['table']}".lower())) else {}
    if errors and not tables:
        tables = [edge(None, 0)]
    counts = {"messages": summary.messages, "written": summary.out, "failed": errors.total(), "errors": errors}
    send(url, {**head_of(job_name, command, source, out, job), "tables": tables, **counts, "dead_letter": dead_letter})


def head_of(job_name: str, command: str, source: str, out: str, job: Job) -> dict[str, Any]:
    """What a job says of itself, whatever became of its run."""
    formats = {"from": job.read.format, "to": job.write.format if job.write else "plain"}
    return {"job": job_name, "command": command, **formats, "source": source, "target": out}


def send(url: str | None, body: dict[str, Any]) -> None:
    """Posts what a job used, if a service is given; if that is away, there is a warning: the job's work is done."""
    if not url:
        return
    try:
        client = HttpClient(url, "--lineage", HttpLogin(wait=0.0, timeout=0.5))
        status, answer = client.call("POST", "/lineage", body)
        if status >= _FAILED:
            raise client.refusal_error("/lineage", status, answer)
    except SetupError as error:
        print(f"warning: lineage was not posted: {error.detail}", file=sys.stderr)


def tables_of(
    used: Counter[Used], newest: Mapping[str, int] | None = None, waiting: Mapping[str, int] | None = None
) -> list[dict[str, Any]]:
    """The topics, tables, versions and schema ids that rows came from, and how far they are."""
    edges = []
    for key, rows in sorted(used.items(), key=repr):
        edge_facts: dict[str, Any] = dict(zip(_NAMES, key, strict=True)) | {"rows": rows}
        commit_ts = (newest or {}).get(f"{edge_facts['db']}.{edge_facts['table']}".lower())
        lag = (waiting or {}).get(edge_facts["topic"])
        more = {"newest_commit_ts": commit_ts, "waiting": lag}
        edges.append(edge_facts | {name: value for name, value in more.items() if value is not None})
    return edges


def edge(topic: str | None, rows: int) -> dict[str, Any]:
    """The edge of messages that were not decoded: their topic, and no table."""
    return dict(zip(_NAMES, (topic, "", "", None, None), strict=True)) | {"rows": rows}
