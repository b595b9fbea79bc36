"""The home page: what is running, and what needs attention, as the API tells the user who asks."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from fastapi import Request, Response

from ticdc_bridge.schemas.inputs.kafka_settings import TOPIC
from ticdc_bridge.schemas.model.reasons import counted
from ticdc_bridge.service.api.responses import Json
from ticdc_bridge.service.ui.pages import ApiAnswer, ApiClient, ApiError, ListView, PageRouter, duration, page, segment
from ticdc_bridge.service.ui.topics import problem_of

router = PageRouter()

Grade = Literal["problem", "warning"]

_LATE_SECONDS: Final = 300
_MANY_MESSAGES: Final = 10_000
_MOST_EDGES: Final = 5000
_MOST_TOPICS: Final = 100
_END_OF_FILE: Final = "end of the file"
_GRADES: Final[dict[str, Grade]] = {"error": "problem", "warning": "warning"}


@dataclass(frozen=True, slots=True)
class Attention:
    """Something to look at. of: what it is about; path: the page that says more, "" for none; advice: what to do."""

    grade: Grade
    of: str
    text: str
    path: str = ""
    advice: str = ""


@router.get("/ui")
async def home(request: Request) -> Response:
    api = ApiClient(request)
    overview = await api.need("overview", limit=1)
    answers = {
        "feeds": await api.get("history", "changefeeds"),
        "trackers": await api.get("history", "trackers"),
        "edges": await api.get("lineage", limit=_MOST_EDGES),
        "dead": await api.get("kafka", "topics", deadLetters=True, limit=_MOST_TOPICS),
    }
    if any(answer.status == 401 for answer in answers.values()):
        raise ApiError(next(answer for answer in answers.values() if answer.status == 401))
    feeds, trackers, edges = (
        answers[name].value if answers[name].is_ok else [] for name in ("feeds", "trackers", "edges")
    )
    dead_topics = answers["dead"].value["topics"] if answers["dead"].is_ok else []
    jobs = jobs_of(edges)
    values = {
        "subjects": overview["total"], "rows": _changefeeds(feeds, trackers), "dead_topics": dead_topics,
        "view": ListView(request).fill(jobs, len(jobs)), "unknown": list(_unknown(answers, trackers)),
        "items": sorted(_attention(feeds, trackers, jobs, dead_topics), key=lambda entry: entry.grade != "problem"),
        "asked": answers["feeds"].is_ok,
    }  # fmt: skip
    return page("home.html", **values)


# ---- what is running
def _changefeeds(feeds: Iterable[Mapping[str, Any]], trackers: Iterable[Mapping[str, Any]]) -> list[Json]:
    """Changefeeds with a history, and those that the service is to follow; by name."""
    rows: dict[str, dict[str, Any]] = {feed["changefeed"]: {"feed": feed, "tracker": None} for feed in feeds}
    for tracker in trackers:
        rows.setdefault(tracker["changefeed"], {"feed": None, "tracker": None})["tracker"] = tracker
    return [{"name": name, **rows[name]} for name in sorted(rows)]


def jobs_of(edges: Iterable[Mapping[str, Any]]) -> list[Json]:
    """Jobs that reported their lineage, the one seen last first. waiting: messages of its topics, where it said.
    failed: messages of its newest run, errors: how many by code, and dead: where they went. stopped: what ended it.
    set_aside: tables that can't go on.
    """
    jobs: dict[str, dict[str, Any]] = {}
    for edge in edges:
        start = {"commands": set(), "targets": set(), "rows": 0, "last": 0, "newest": None, "waiting": {},
                 "failed": None, "dead": None, "errors": {}, "stopped": None, "set_aside": (0, "")}  # fmt: skip
        job = jobs.setdefault(edge["job"], {"name": edge["job"], **start})
        job["commands"].add(edge["command"])
        job["targets"].add(edge["target"])
        job["rows"] += edge["rows"]
        if edge["last"] >= job["last"]:
            job |= {name: edge[name] for name in ("last", "failed", "stopped")}
            job |= {"dead": edge["dead_letter"], "errors": edge["errors"] or {}}
        if edge["positions"]:
            job["set_aside"] = max(job["set_aside"], (edge["last"], edge["set_aside"] or ""))
        if edge["newest_commit_ts"] is not None:
            job["newest"] = max(job["newest"] or 0, edge["newest_commit_ts"])
        if edge["waiting"] is not None and edge["last"] >= job["waiting"].get(edge["topic"], (0, 0))[0]:
            job["waiting"][edge["topic"]] = (edge["last"], edge["waiting"])
    for job in jobs.values():
        job["set_aside"] = job["set_aside"][1]
        job["waiting"] = sum(count for _, count in job["waiting"].values()) if job["waiting"] else None
    return sorted(jobs.values(), key=lambda job: (-job["last"], job["name"]))


# ---- what needs attention
def _attention(
    feeds: list[Json], trackers: list[Json], jobs: list[Json], dead_topics: list[Json]
) -> Iterator[Attention]:
    """What needs attention in trackers, histories, findings of the doctor, jobs, dead letters."""
    for tracker in trackers:
        of, path = f"Changefeed {tracker['changefeed']}", _tables_path(tracker["changefeed"])
        if tracker["stopped"] and tracker["stopped"] != _END_OF_FILE:
            advice = "The service tries again by itself."
            yield Attention("problem", of, f"not followed now: {tracker['stopped']}", "", advice)
        behind, waiting = tracker["behind_seconds"], sum(tracker["lag"].values())
        if behind is not None and behind > _LATE_SECONDS and tracker["file"] is None:
            text = f"its newest watermark is {duration(behind)} old: DDL since then is not known yet"
            yield Attention("problem", of, text, path, "Check that the changefeed runs: cdc cli changefeed query.")
        if tracker["running"] and behind is None and tracker["messages"]:
            text = "no watermark has come yet: DDL waits for one before it counts"
            yield Attention("warning", of, text, path, "Some formats need enable-tidb-extension for watermarks.")
        if waiting > _MANY_MESSAGES:
            yield Attention("warning", of, f"{counted(waiting, 'message')} not read yet", path)
        for code, count in sorted(tracker["errors"].items()):
            text = f"{counted(count, 'message')} could not be read: {code}"
            topic = f"/ui/topics/{segment(tracker['topics'][0])}" if len(tracker["topics"]) == 1 else ""
            yield Attention("problem", of, text, topic)
    for feed in feeds:
        of, path = f"Changefeed {feed['changefeed']}", _tables_path(feed["changefeed"])
        if failed := feed["events"]["failed"]:
            text = f"{counted(failed, 'DDL statement')} could not be applied"
            yield Attention("problem", of, text, path, "Describe the tables by a snapshot: history snapshot.")
        if feed["drift"]:
            text = f"{counted(feed['drift'], 'contradiction')} between rows and history (drift)"
            yield Attention("problem", of, text, path)
    for tracker in trackers:
        for finding in tracker["findings"] or ():
            if (grade := _GRADES.get(finding["severity"])) is not None:
                of = f"Settings of {tracker['changefeed']}"
                yield Attention(grade, of, f"{finding['id']}: {finding['text']}", "", finding["fix"])
    for job in jobs:
        path, dead = f"/ui/lineage?job={segment(job['name'])}", job["dead"] or ""
        if (job["waiting"] or 0) > _MANY_MESSAGES:
            yield Attention("warning", f"Job {job['name']}", f"{counted(job['waiting'], 'message')} waiting", path)
        if job["stopped"]:
            yield Attention("problem", f"Job {job['name']}", f"stopped by an error: {job['stopped']}", path)
        if job["set_aside"]:
            text = f"tables are set aside, and their changes wait: {job['set_aside']}"
            yield Attention("problem", f"Job {job['name']}", text, path, "The page says why, and what to load.")
        if failed := job["failed"]:
            text = f"{counted(failed, 'message')} failed in its newest run"
            text += f"; they are in {dead}" if dead else ""
            if dead.startswith(TOPIC):
                path = f"/ui/dead-letters/{segment(dead.removeprefix(TOPIC))}"
            yield Attention("problem", f"Job {job['name']}", text, path)
    for entry in dead_topics:
        if count := entry["messages"]:
            text = f"{counted(count, 'dead letter')} (letters sent again stay too)"
            path = f"/ui/dead-letters/{segment(entry['topic'])}"
            yield Attention("warning", f"Topic {entry['topic']}", text, path)


def _unknown(answers: Mapping[str, ApiAnswer], trackers: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """The things that this page can't know, and what would change that."""
    if answers["feeds"].status == 403:
        yield "Changefeeds and jobs: you need the right history to see them."
    elif answers["trackers"].is_ok and not answers["trackers"].value:
        yield "Whether changefeeds are followed: this service follows none (serve --track); another process may."
    unset = sorted(tracker["changefeed"] for tracker in trackers if tracker["findings"] is None)
    if unset:
        names = ", ".join(unset)
        yield f"The settings of {names}: give sink-uri and config in the file of --track, and the doctor checks them."
    if answers["edges"].is_ok and not answers["edges"].value:
        yield "Jobs: none has reported its lineage. Start jobs with --lineage URL."
    if answers["dead"].status == 403:
        yield "Dead letters: you need the right messages to see them."
    elif not answers["dead"].is_ok:
        yield f"Dead letters: {problem_of(answers['dead'])}"
    for name in ("feeds", "trackers", "edges"):
        if not answers[name].is_ok and answers[name].status != 403:
            yield f"{name.capitalize()}: {answers[name].problem}"


def _tables_path(changefeed: str) -> str:
    return f"/ui/tables?changefeed={segment(changefeed)}"
