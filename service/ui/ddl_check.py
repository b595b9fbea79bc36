"""The page that checks DDL statements, for every changefeed or for those that are chosen."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fastapi import Request, Response

from ticdc_bridge.service.ui.pages import ApiAnswer, ApiClient, PageRouter, form_fields, page

router = PageRouter("/ui/dry-run")

# Fields of the form: those of the changefeed's settings by the names that the API has for them.
_SETTINGS: Final = ("sink_uri", "config", "schema_registry", "ticdc_version")
_ASKED: Final = dict.fromkeys(("db", "sql", "tables", *_SETTINGS), "")
_MOST: Final = 50
_GRAVEST: Final = ("would stop", "refused", "cannot judge", "safe")


@router.get("")
async def ask(request: Request) -> Response:
    fields = {name: request.query_params.get(name, "") for name in _ASKED}
    feeds = await _changefeeds(ApiClient(request))
    return _page(fields, feeds, _chosen(request.query_params.getlist("changefeed"), feeds))


@router.post("")
async def judge(request: Request) -> Response:
    sent, api = await form_fields(request), ApiClient(request)
    fields = {**_ASKED, **{name: text for name, text in sent if name in _ASKED}}
    feeds = await _changefeeds(api)
    chosen = _chosen([text for name, text in sent if name == "changefeed"], feeds)
    body: dict[str, Any] = {"db": fields["db"].strip(), "sql": fields["sql"]}
    if fields["tables"].strip():
        body["tables"] = [fields["tables"]]
    settings, answers = {name: fields[name] for name in _SETTINGS}, {}
    for feed in chosen[:_MOST] or [""]:
        changefeed = {name: text.strip() for name, text in {"name": feed, **settings}.items() if text.strip()}
        answers[feed] = await api.send("POST", "history", "dry-run", body={**body, "changefeed": changefeed})
    return _page(fields, feeds, chosen, answers)


async def _changefeeds(api: ApiClient) -> list[str]:
    answer = await api.get("history", "changefeeds")
    return [entry["changefeed"] for entry in answer.value] if answer.is_ok else []


def _chosen(names: Sequence[str], feeds: Sequence[str]) -> list[str]:
    """The changefeeds that are meant: those that are named, else all that there are."""
    return list(dict.fromkeys(filter(None, names))) or list(feeds)


def _page(
    fields: Mapping[str, str], feeds: list[str], chosen: list[str], answers: Mapping[str, ApiAnswer] | None = None
) -> Response:
    """The form, with the reports by changefeed. What the API refuses for all of them is said once, with its status."""
    reports = {feed: answer.value for feed, answer in (answers or {}).items() if answer.is_ok}
    refused = {feed: answer for feed, answer in (answers or {}).items() if not answer.is_ok}
    verdicts = [report["verdict"] for report in reports.values()]
    first = next(iter(refused.values())) if refused and not reports else None
    values = {
        "filled": fields, "feeds": list(dict.fromkeys([*feeds, *chosen])), "chosen": chosen, "reports": reports,
        "refused": {feed: answer.problem for feed, answer in refused.items()} if reports else {}, "most": _MOST,
        "verdict": "cannot judge" if refused else next((entry for entry in _GRAVEST if entry in verdicts), ""),
        "said": first.problem if first else "",
    }  # fmt: skip
    return page("ddl_check.html", first.status if first else 200, **values)
