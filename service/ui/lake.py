"""Pages of lake tables: what their jobs last reported, and what their topics have beyond that."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from fastapi import Request, Response

from ticdc_bridge.schemas.model.reasons import counted
from ticdc_bridge.service.ui.home import jobs_of
from ticdc_bridge.service.ui.pages import ApiAnswer, ApiClient, PageRouter, page, path_parameter
from ticdc_bridge.service.ui.topics import problem_of

router = PageRouter("/ui/lake")

COMMANDS: Final = ("merge", "load", "reconcile")
_MOST: Final = 5000
_MOST_TOPICS, _MOST_JOBS = 5, 20


@router.get("/{db}/{table}")
async def show(request: Request) -> Response:
    """Is the table up to date, and what do its jobs, topics and changefeed say?"""
    api, db, table = ApiClient(request), path_parameter(request, "db"), path_parameter(request, "table")
    reported = await api.need("lineage", table=f"{db}.{table}", limit=_MOST)
    edges = [edge for edge in reported if edge["command"] in COMMANDS]
    if not edges:
        problem = f"No merge or reconcile has reported table {db}.{table}: start them with --lineage URL."
        return page("error.html", 404, title="Not found", problem=problem)
    topics = sorted({edge["topic"] for edge in edges if edge["topic"]})
    ends = {topic: await api.get("kafka", "topics", topic, "messages", last=1) for topic in topics[:_MOST_TOPICS]}
    jobs, lags = [], list[dict[str, Any]]()
    for job in jobs_of(edges)[:_MOST_JOBS]:
        reported = await api.need("lineage", job=job["name"], limit=_MOST)
        jobs += [{**report, "newest": job["newest"], "rows": job["rows"]} for report in jobs_of(reported)]
        lags += _lags(job["name"], reported, ends)
    compared = max((edge for edge in edges if edge["reconciled"]), key=lambda edge: edge["reconciled"], default=None)
    feeds = await api.need("history", "changefeeds")
    values: dict[str, Any] = {
        "db": db, "table": table, "jobs": jobs, "topics": topics, "lags": lags, "compared": compared,
        "verdict": _verdict(edges, jobs, lags, (compared or {}).get("different") or 0),
        "targets": sorted({edge["target"].replace("{schema}", db).replace("{table}", table) for edge in edges}),
        "newest": max((job["newest"] or 0 for job in jobs), default=0),
        "version": max(edge["table_version"] or 0 for edge in edges),
        "subjects": sorted({entry["subject"] for edge in edges for entry in edge["subjects"]}),
        "feeds": [feed for feed in feeds if any(entry["topic"] in topics for entry in feed["partitions"])],
        "unknown": {topic: problem_of(answer) for topic, answer in ends.items() if not answer.is_ok},
    }  # fmt: skip
    return page("lake_table.html", **values)


def _lags(job: str, reported: Iterable[Mapping[str, Any]], ends: Mapping[str, ApiAnswer]) -> Iterator[dict[str, Any]]:
    """What a job has read of each partition, and how many messages it has not; None where that is not known."""
    newest = {edge["topic"]: edge for edge in sorted(reported, key=lambda edge: edge["last"]) if edge["positions"]}
    for topic in sorted(newest.keys() & ends.keys()):
        read = newest[topic]["positions"]
        parts = ends[topic].value["partitions"] if ends[topic].is_ok else []
        extents = {str(part["partition"]): (part["from"], part["to"]) for part in parts}
        for partition in sorted(extents.keys() | read.keys(), key=lambda text: (len(text), text)):
            low, end = extents.get(partition, (None, None))
            position = read.get(partition, end if low == end else None)
            waiting = None if position is None or end is None else max(end - position, 0)
            yield {"job": job, "topic": topic, "partition": partition, "next": position, "end": end, "waiting": waiting}


def _verdict(
    edges: Sequence[Mapping[str, Any]], jobs: Sequence[Mapping[str, Any]], lags: Sequence[Mapping[str, Any]],
    different: int,
) -> tuple[str, str, str]:  # fmt: skip
    """The answer to "is it up to date?": its class, the answer, and why. edges: the table's. different: rows, when last
    compared.
    """
    if stopped := [f"Job {job['name']} was stopped by an error: {job['stopped']}" for job in jobs if job["stopped"]]:
        return "bad", "No.", " ".join(stopped)
    aside = {name.lower() for job in jobs for name in job["set_aside"].split(", ")}
    if why := [e["set_aside"] for e in edges if e["set_aside"] and f"{e['db']}.{e['table']}".lower() in aside]:
        return "bad", "No.", f"It is set aside, and its changes wait: {why[-1]}"
    waiting = [lag["waiting"] for lag in lags]
    if any(waiting):
        return "note", "Not yet.", f"Not read yet: {counted(sum(filter(None, waiting)), 'message')} of its topics."
    if failed := sum(job["failed"] or 0 for job in jobs):
        return "bad", "Not with all rows.", f"{counted(failed, 'message')} failed in the newest run of its jobs."
    if different:
        return "bad", "Not with all rows.", f"reconcile found {counted(different, 'row')} not equal to TiDB's."
    if not waiting or None in waiting:
        return "note", "Not known.", "How far its jobs are in each partition is not known: see below."
    return "good", "Yes.", "Its jobs have read every message that its topics have now."
