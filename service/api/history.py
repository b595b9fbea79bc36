"""`/history`: what TiDB's tables were at a commit_ts, from their DDL events (docs/history.md)."""

from dataclasses import asdict
from itertools import zip_longest
from typing import Any, Final

from fastapi import Response

from ticdc_bridge.schemas.ddl.executor.versions import in_utc
from ticdc_bridge.schemas.model.credentials import mask_credentials
from ticdc_bridge.schemas.model.errors import DdlError
from ticdc_bridge.schemas.model.table import TableId
from ticdc_bridge.service.api import history_json as shapes
from ticdc_bridge.service.api.bodies import INTEGER, TEXT, CompleteBody, as_is, object_schema
from ticdc_bridge.service.api.request import ApiCall
from ticdc_bridge.service.api.routing import PAGE, STRING, Called, Parameter, Router
from ticdc_bridge.service.auth.acl import ADMIN, HISTORY
from ticdc_bridge.service.errors import RegistryError
from ticdc_bridge.service.history import manual_entry
from ticdc_bridge.service.history.diff import Period, diff
from ticdc_bridge.service.history.export import Form, HistoryExport
from ticdc_bridge.service.history.model import Batch, DdlRecord, TableVersionRow, tso_of
from ticdc_bridge.service.history.table_schemas import TableSchemas, links, registry_drift
from ticdc_bridge.service.registry.deadline import retry_until, seconds_left
from ticdc_bridge.service.registry.subjects import describe_subjects, find_subjects

router = Router("/history")

_KINDS: Final = {
    "commit_ts": as_is({"type": ["integer", "string", "null"], "format": "int64"}),
    "version": INTEGER,
    "message": as_is(object_schema(dict.fromkeys(manual_entry.MESSAGE_FIELDS, TEXT))),
}
_DDL_BODY = CompleteBody("UNPROCESSABLE", {name: _KINDS.get(name, TEXT) for name in manual_entry.DDL_FIELDS})
_SNAPSHOT_BODY = CompleteBody("UNPROCESSABLE", {name: _KINDS.get(name, TEXT) for name in manual_entry.SNAPSHOT_FIELDS})
_TABLE = Parameter("table", "Only of this table", STRING)
_FROM = Parameter("from", "Since this commit_ts or RFC 3339 time", STRING)
_TO = Parameter("to", "Up to this commit_ts or RFC 3339 time", STRING)
_REGISTRY = Parameter("registry", "false leaves out the newest schemas that no version gives")
_NAME = Parameter("name", "Only tables with this text in db.table, whatever its case", STRING)
_NEWEST = Parameter("newest", "The newest first, each with what it changed; `total` says how many there are")
_INCLUSIVE = Parameter("inclusive", "Include DDL with exactly this commit_ts")
_OF_TABLE = ("changefeed", "keyspace", "ddl_time_zone")
_UNKNOWN = {409: "The table is unknown since a DDL that was not understood"}


def changefeed_of(call: ApiCall) -> str | None:
    """The changefeed that is asked for; None means the only one."""
    return call.text("changefeed") or None


def _time(call: ApiCall, name: str) -> int | None:
    text = call.text(name)
    return tso_of(text) if text else None


@router.declare("GET", "/changefeeds", needs=HISTORY, query=("db", _TABLE))
def list_changefeeds(call: Called) -> Response:
    """All of them; with `db` and `table` those that know this table."""
    history, table = call.services.history, (call.text("db"), call.text("table"))
    with call.registry.store.read():
        feeds = history.changefeeds(TableId(*table) if all(table) else None)
        numbers, positions = history.numbers(), history.partitions()
    return call.answer([shapes.changefeed(feed, numbers[feed.name], positions.get(feed.name, {})) for feed in feeds])


@router.declare("GET", "/tables", needs=HISTORY, query=("changefeed", "db", _NAME, *PAGE))
def list_tables(call: Called) -> Response:
    history, (offset, limit) = call.services.history, call.page_limits()
    with call.registry.store.read():
        feed = history.changefeed(changefeed_of(call))
        rows = history.tables(feed.name, call.text("db") or None, offset, limit, call.text("name"))
        contradicted = history.contradictions(feed.name, [(row, None) for row in rows])
    items = [shapes.name(*entry) for entry in zip(rows, contradicted, strict=True)]
    return call.answer(shapes.listing(feed, "tables", items, offset, limit))


@router.declare("GET", "/ddl", needs=HISTORY, query=("changefeed", _FROM, _TO, "db", _TABLE, *PAGE))
def list_ddl(call: Called) -> Response:
    history, (offset, limit) = call.services.history, call.page_limits()
    names = (call.text("db") or None, call.text("table") or None)
    with call.registry.store.read():
        feed = history.changefeed(changefeed_of(call))
        events = history.ddl(feed.name, _time(call, "from"), _time(call, "to"), *names, offset, limit)
    return call.answer(shapes.listing(feed, "ddl", [shapes.event(event) for event in events], offset, limit))


@router.declare("GET", "/drift", needs=HISTORY, query=("changefeed", "db", _TABLE, _REGISTRY, *PAGE))
def list_drift(call: Called) -> Response:
    """Contradictions of the history, and the registry's newest schemas that no version gives."""
    history, (offset, limit) = call.services.history, call.page_limits()
    names = (call.text("db") or None, call.text("table") or None)
    with call.registry.store.read() as tx:
        feed = history.changefeed(changefeed_of(call))
        drifts = history.drift(feed.name, *names, offset, limit)
        answer = shapes.listing(feed, "drift", [shapes.drift(entry) for entry in drifts], offset, limit)
        if offset == 0 and call.text("registry").lower() != "false":
            answer["registry"] = registry_drift(history, feed.name, call.services.view, call.services.derivations)
            answer["warnings"] = [asdict(warning) for warning in tx.warnings()]
    return call.answer(answer)


@router.declare("GET", "/{db}/{table}/versions", needs=HISTORY, query=(*_OF_TABLE, _NEWEST, *PAGE), answers=_UNKNOWN)
def list_table_versions(call: Called) -> Response:
    history, (offset, limit) = call.services.history, call.page_limits()
    db, table, newest = call.segment("db"), call.segment("table"), call.flag("newest")
    with call.registry.store.read():
        feed = history.changefeed(changefeed_of(call))
        rows, total = history.versions(feed.name, db, table, offset, limit + newest, newest_first=newest)
        if not total:
            raise shapes.never_seen_error(feed, db, table)
        shown = rows[:limit]
        events = history.events(feed.name, [row.ddl for row in shown])
        fitting = history.count_fitting(feed.name, db, table)
        contradicted = history.contradictions(feed.name, [(row, row.to_ts) for row in shown])
        derived = [None if row.table is None else _derive_schemas(call, row) for row in shown]
        schemas = [entry for entry in derived if entry is not None]
        linked = iter(links(history, feed.name, TableId(db, table), schemas, call.services.view))
    entries = [
        {
            **shapes.version(row, events.get(row.ddl), against),
            "rows_fitting": fitting.get(row.from_ts, 0),
            "subjects": [] if of is None else next(linked),
            **({"changes": shapes.changes(row, before, events.get(row.ddl))} if newest else {}),
        }
        for row, of, against, before in zip_longest(shown, derived, contradicted, rows[1:][: len(shown)])
    ]
    more: dict[str, Any] = {"db": db, "table": table, **({"total": total} if newest else {})}
    return call.answer(shapes.listing(feed, "versions", entries, offset, limit, total, **more))


def _derive_schemas(call: ApiCall, row: TableVersionRow) -> TableSchemas:
    assert row.table is not None
    zone, table = call.text("ddl_time_zone"), row.table
    try:
        table = in_utc(table, zone) if zone else table
    except DdlError as error:
        raise RegistryError("UNPROCESSABLE", details=error.detail) from error
    return call.services.derivations.of(table, row.form, call.text("keyspace") or "default")


@router.declare("GET", "/{db}/{table}/at/{when}", needs=HISTORY, query=(*_OF_TABLE, _INCLUSIVE), answers=_UNKNOWN)
def get_table_at(call: Called) -> Response:
    """The version that a row with this commit_ts has; with inclusive=true, what the table is just after it."""
    db, table, ts = call.segment("db"), call.segment("table"), tso_of(call.segment("when"))
    history, inclusive = call.services.history, call.flag("inclusive")
    with call.registry.store.read():
        as_of = history.as_of(changefeed_of(call), db, table, ts, inclusive=inclusive)
        row = as_of.version
        if row is None:
            raise shapes.not_known_error(as_of, db, table)
        if row.table is None or not row.is_live:
            raise shapes.no_table_error(row, as_of.ddl)
        derived = _derive_schemas(call, row)
        changefeed = as_of.changefeed.name
        [linked] = links(history, changefeed, TableId(db, table), [derived], call.services.view)
        [against] = history.contradictions(changefeed, [(row, row.to_ts)])
    head = shapes.as_of_head(as_of, ts, inclusive)
    return call.answer({**head, **shapes.version(row, as_of.ddl, against), **derived.body, "subjects": linked})


@router.declare("POST", "/ddl", needs=ADMIN, query=("changefeed",), body=_DDL_BODY)
def post_ddl(call: Called) -> Response:
    """A statement that a person knows of: typed SQL, at the commit_ts it had."""
    with call.registry.store.read():
        records = manual_entry.record_ddl(_with_changefeed(call), call.services.history)
    return _keep(call, records)


@router.declare("POST", "/snapshot", needs=ADMIN, query=("changefeed",), body=_SNAPSHOT_BODY)
def post_snapshot(call: Called) -> Response:
    """Records a table at a commit_ts: SHOW CREATE TABLE, a registered subject, or a message that describes it."""
    with call.registry.store.read():
        records = manual_entry.record_snapshot(_with_changefeed(call), call.services.history, call.services.view)
    return _keep(call, records)


def _with_changefeed(call: ApiCall) -> dict[str, Any]:
    """The body; a changefeed may be named in the query, as everywhere else."""
    name = changefeed_of(call)
    return call.body if name is None else {"changefeed": name, **call.body}


def _keep(call: ApiCall, records: list[DdlRecord]) -> Response:
    history, changefeed = call.services.history, records[0].changefeed
    try:
        result = history.track(changefeed, Batch(records=records), strict=True)
    except DdlError as error:
        raise DdlError("DDL_NOT_APPLICABLE", details=error.detail) from error
    # It is kept: tried again from the beginning, the request would be told that it was known already.
    wait_seconds = seconds_left(call.registry.store.wait_seconds)
    versions = retry_until(
        lambda: [
            history.version_at(changefeed, record.db, record.table, record.commit_ts, inclusive=True)
            for record in records
            if record.table
        ],
        wait_seconds,
    )
    summary = {"changefeed": changefeed, "new": result.new, "known_already": result.copies, "late": result.late}
    touched = [{**shapes.name(row), "commit_ts": row.from_ts} for row in versions if row is not None]
    return call.answer({**summary, "versions": touched})


_MOST_SUBJECTS: Final = 500
_MOST_TABLES: Final = 10_000


@router.declare("GET", "/trackers", needs=HISTORY)
def list_trackers(call: Called) -> Response:
    """Each with its progress; `findings` is null where the changefeed's own settings were not given."""
    with call.registry.store.read():
        feeds = call.services.history.changefeeds() if call.services.changefeeds else []
        known = {feed.name for feed in feeds}
        forms = [
            {**form, "findings": _find_faults(call, form["changefeed"], form["changefeed"] in known)}
            for form in call.services.trackers()
        ]
    return call.answer(forms)


def _find_faults(call: Called, name: str, is_known: bool) -> list[dict[str, Any]] | None:
    """The doctor's findings, by the registry as the user sees it and the history. Credentials are masked."""
    settings = call.services.changefeeds.get(name)
    if settings is None:
        return None
    from ticdc_bridge.service.changefeed.doctor import DoctorInput, SubjectFacts, examine, topic_patterns

    tables = call.services.history.tables(name, limit=_MOST_TABLES) if is_known else []
    facts = None
    if settings.uses_registry:
        pattern = topic_patterns(settings)
        names = [subject for subject in find_subjects(call.registry) if pattern.fullmatch(subject)][:_MOST_SUBJECTS]
        # Where there are no subjects yet, the level that the first one would have.
        described = describe_subjects(call.registry, names or [f"{settings.topic or name}-value"])
        facts = tuple(SubjectFacts(entry.subject, entry.level, entry.mode) for entry in described)
    findings = examine(DoctorInput(settings, facts, tuple(table.id for table in tables)))
    findings = [f for f in findings if f.severity == "error" or f.id not in settings.accepted]
    return [{key: mask_credentials(str(text)) for key, text in asdict(finding).items()} for finding in findings]


_START: Final = Parameter("from", "The earlier time: a commit_ts or an RFC 3339 time", STRING)
_END: Final = Parameter("to", "The later time: a commit_ts or an RFC 3339 time", STRING)
_AT: Final = Parameter("at", "The tables that a row of this commit_ts or RFC 3339 time has", STRING)
_FORMAT: Final = Parameter(
    "format", "sql (CREATE TABLE statements), or jsonl (all versions, where `at` is not given)", STRING
)
_FORMS: Final[dict[str, Form]] = {"sql": "sql", "jsonl": "jsonl"}
_MEDIA_TYPES: Final[dict[Form, str]] = {"sql": "application/sql; charset=utf-8", "jsonl": "application/x-ndjson"}
_TABLE_AT_ANY_TIME: Final = Parameter("table", "Only this table of `db`, by its name at any time", STRING)
_BOTH_INCLUSIVE: Final = Parameter("inclusive", "Include DDL with exactly these commit_ts")


@router.declare(
    "GET", "/diff", needs=HISTORY, query=("changefeed", _START, _END, "db", _TABLE_AT_ANY_TIME, _BOTH_INCLUSIVE, *PAGE)
)
def list_differences(call: Called) -> Response:
    """Tables created, dropped, renamed and changed between the versions that rows have at two times."""
    db, table = call.text("db") or None, call.text("table") or None
    start = _time(call, "from")
    end = None if start is None else _time(call, "to")
    if start is None or end is None:
        name = "from" if start is None else "to"
        raise RegistryError("UNPROCESSABLE", details=f"{name} is needed: a commit_ts or an RFC 3339 time")
    with call.registry.store.read():
        span = call.services.history.span(changefeed_of(call), Period(start, end, call.flag("inclusive")), db, table)
    offset, limit = call.page_limits()
    return call.answer(diff(span).form(offset, limit))


@router.declare(
    "GET",
    "/export",
    needs=HISTORY,
    query=("changefeed", _FORMAT, _AT, "db", _TABLE_AT_ANY_TIME, _BOTH_INCLUSIVE, "ddl_time_zone"),
)
def export_tables(call: Called) -> Response:
    """Tables as SQL that TiDB runs, or as the JSON lines of all versions; what is left out, the text says."""
    form = _FORMS.get(call.text("format", "sql"))
    if form is None:
        raise RegistryError("UNPROCESSABLE", details=f"format {call.text('format')[:40]}: sql or jsonl is needed")
    db, table = call.text("db") or None, call.text("table") or None
    result = HistoryExport(form, _time(call, "at"), call.flag("inclusive"), call.text("ddl_time_zone") or None)
    with call.registry.store.read():
        histories = call.services.history
        feed = histories.changefeed(changefeed_of(call))
        histories.check_known(feed.name, db, table)
        text = "".join(f"{line}\n" for line in result.lines(feed.name, histories.histories(feed.name, db, table)))
    file = {"Content-Disposition": f'attachment; filename="tables.{form}"'}
    return Response(text.encode("utf-8", "replace"), media_type=_MEDIA_TYPES[form], headers=file)
