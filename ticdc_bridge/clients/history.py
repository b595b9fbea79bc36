"""`--history URL`: table versions from the service's `/history` (docs/history.md), as they were at a row's commit_ts.

What is used is resolved: a row above the history's `sealed_ts` waits until the tracker has come that far, else the job
ends. A history without any watermark (DDL given by hand, Canal-JSON without the extension) can't be resolved; what it
has is used, and a line on stderr says so at the start.
"""

import re
import sys
import time
from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self
from urllib.parse import quote, urlencode

from ticdc_bridge.clients.http import SILENT, HttpClient, HttpLogin, message_of
from ticdc_bridge.schemas.codec.bounded_cache import BoundedCache
from ticdc_bridge.schemas.codec.json_exact import is_utf8
from ticdc_bridge.schemas.ddl.executor.versions import DdlText, versions
from ticdc_bridge.schemas.ddl.parser.lexer import SHOW, WIRE, LexicalMode
from ticdc_bridge.schemas.inputs.table_definitions import TableDefinitions
from ticdc_bridge.schemas.model.errors import DdlError, Hint, SetupError, WireError
from ticdc_bridge.schemas.model.event import MAX_TSO, ms_to_tso
from ticdc_bridge.schemas.model.table import Column, Table, TableId, TableVersion, with_ids_of

_SURE_FOR, _UNSURE_FOR, _NAMES_FOR = 60.0, 5.0, 60.0  # seconds
_LONGEST_NAME = 256  # TiDB's have 64 characters at most
_PAGE = 10_000
_NEVER_SEEN, _NOT_YET, _GONE, _UNKNOWN_SINCE = 40451, 40452, 40453, 40951
_STATUS = {_NEVER_SEEN: 404, _NOT_YET: 404, _GONE: 404, _UNKNOWN_SINCE: 409}
_MODES = {"wire": WIRE, "show": SHOW}


@dataclass(frozen=True, slots=True)
class _Span:
    """What is known of a name for rows with from_ts < commit_ts <= until."""

    from_ts: int
    until: int
    expires: float
    version: TableVersion | None = None
    error: WireError | None = None

    def get_version(self) -> TableVersion | None:
        if self.error is not None:
            raise self.error.with_traceback(None)
        return self.version


@dataclass(frozen=True, slots=True)
class _SealedState:
    """How far the changefeed's history is. marked: a partition has sent a watermark, so that sealed_ts will grow."""

    name: str
    sealed_ts: int
    marked: bool
    zone: str | None


def _without_defaults(table: Table) -> list[Column]:
    """The columns, whose defaults a view may have from versions before (`newest_table`)."""
    return [
        replace(c, has_default=False, default=None, default_is_expr=False, default_unzoned=False) for c in table.columns
    ]


class _HistoryCache:
    """What a service told this process."""

    def __init__(self) -> None:
        self.spans: BoundedCache[TableId, list[_Span]] = BoundedCache(20_000)
        self.newest: BoundedCache[TableId, _Span] = BoundedCache(20_000)
        self.every: BoundedCache[TableId, tuple[float, list[TableVersion]]] = BoundedCache(20_000)
        self.fits: BoundedCache[tuple[Any, ...], tuple[list[TableVersion], TableVersion | None]] = BoundedCache(20_000)
        self.names: dict[TableId, list[TableId]] = {}
        self.made: BoundedCache[TableId, tuple[float, list[TableVersion]]] = BoundedCache(200)
        self.names_at = float("-inf")


# By service, credentials, changefeed and zone: what is unpickled into a Spark worker goes on with what was asked there.
_SHARED_CACHES: dict[tuple[str, ...], _HistoryCache] = {}


class HistoryTables(HttpClient):
    """Table versions of a changefeed's history (schemas.model.ports.TableSource). Each version is asked for once a
    minute.

    Pickles without its cache; objects that were unpickled share one within a process.

    Args:
        url: the service's.
        changefeed: its name; None for the only one.
        zone: of literal TIMESTAMP defaults, where the history does not know it.
        wait: seconds to go on trying while the service is away or its history is behind the rows.
        timeout: seconds that one request may take.
    """

    service = "history service"

    def __init__(
        self, url: str, changefeed: str | None = None, zone: str | None = None, wait: float = 5.0, timeout: float = 10.0
    ) -> None:
        given: tuple[tuple[str, Any, Any], ...] = (
            ("url", url, str), ("changefeed", changefeed, str | None), ("zone", zone, str | None),
            ("wait", wait, int | float), ("timeout", timeout, int | float),
        )  # fmt: skip
        for name, value, kind in given:
            if not isinstance(value, kind) or isinstance(value, bool):
                details = f"{name} is of type {type(value).__name__}: a {'number' if kind == int | float else 'text'}"
                raise SetupError("USAGE", details=f"{details} is needed")
        super().__init__(url, Hint.HISTORY, HttpLogin(wait=wait, timeout=timeout))
        self.changefeed, self._zone = changefeed, zone
        self._cache = _HistoryCache()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_cache"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        of = (self.name, self._headers.get("Authorization", ""), self.changefeed or "", self._zone or "")
        self._cache = _SHARED_CACHES.setdefault(of, _HistoryCache())

    def check(self) -> Self:
        """SetupError unless the service answers and has the changefeed, the only one where none is named."""
        state = self._read_sealed()
        self.changefeed, self._zone = state.name, self._zone or state.zone
        if not state.marked:
            begin = f"warning: {Hint.HISTORY}: changefeed {state.name} has no watermarks;"
            print(begin, "DDL that it has not read is not known", file=sys.stderr)
        return self

    # ---- schemas.model.ports.TableSource
    def at(self, table: TableId, commit_ts: int | None) -> TableVersion | None:
        """None for a table that the history has never seen, or not until later.

        WireError TYPE_UNKNOWN where it is known in part, unknown or gone at that time; SetupError REGISTRY_UNREACHABLE,
        REGISTRY_REFUSED, HISTORY_BEHIND.
        """
        now = time.monotonic()
        if commit_ts is None:
            span = self._cache.newest.get(table)
            if span is None or span.expires < now:
                span = self._cache.newest[table] = self._newest(table)
            return span.get_version()
        return self._span(table, commit_ts).get_version()

    def _span(self, table: TableId, commit_ts: int) -> _Span:
        spans = self._cache.spans.get(table)
        if spans:
            index = bisect_left(spans, commit_ts, key=lambda entry: entry.from_ts)
            if index and (span := spans[index - 1]).until >= commit_ts and span.expires >= time.monotonic():
                return span
        return self._ask_resolved(table, commit_ts)

    def sanitised(self, table: TableId, columns: tuple[str, ...], commit_ts: int | None) -> TableVersion | None:
        candidates: list[TableVersion] = []
        error: WireError | None = None
        for id_ in self._find_by_avro_name(table):
            try:
                at = self._all(id_) if commit_ts is None else [self.at(id_, commit_ts)]
                candidates += [version for version in at if version is not None]
            except WireError as broken:
                error = broken
        key = (table, columns, commit_ts is None, *map(id, candidates))
        _, fit = self._cache.fits.find(
            key, lambda: (candidates, TableDefinitions(candidates).sanitised(table, columns, commit_ts))
        )
        if fit is None and error is not None:
            raise error
        return fit

    def with_columns(self, table: TableId, columns: tuple[str, ...]) -> list[TableVersion]:
        """As schemas.model.ports.TableVersions has it."""
        every = [version for id_ in self._find_by_avro_name(table) for version in self._all(id_)]
        return TableDefinitions(every).with_columns(table, columns)

    def sanitised_span(self, table: TableId, commit_ts: int) -> tuple[int, int]:
        """After and up to which commit_ts `sanitised` says the same (schemas.model.ports.TableSpans)."""
        after, until = -1, MAX_TSO
        for id_ in self._find_by_avro_name(table):
            span = self._span(id_, commit_ts)
            later = (entry.from_ts for entry in self._cache.spans.get(id_, ()) if entry.from_ts >= commit_ts)
            after, until = max(after, span.from_ts), min(until, span.until, *later)
        return min(after, commit_ts - 1), max(until, commit_ts)

    # ---- more than the protocol
    def table_ids(self) -> list[TableId]:
        """The tables that the history knows, under all their names."""
        self._find_by_avro_name(TableId("", ""))
        return [id_ for ids in self._cache.names.values() for id_ in ids]

    def forget_newest(self) -> None:
        """The next question without a commit_ts is asked anew."""
        self._cache.newest.clear()
        self._cache.every.clear()

    def in_same_history(self, older: Table, newer: Table) -> tuple[Table, Table]:
        """Two versions of a table with the column ids that the DDL gives them, else those that SHOW CREATE TABLE of all
        versions gives them (schemas.model.ports.TableLineage).
        """
        if older.created_ts == newer.created_ts:
            return older, newer
        for histories in (self._by_statements, self._by_show_create):
            made = {version.commit_ts or 1: version.table for version in histories(newer.id)}
            then, now = made.get(older.created_ts), made.get(newer.created_ts)
            if then and now and [*map(_without_defaults, (then, now))] == [*map(_without_defaults, (older, newer))]:
                return then, now
        return replace(older, created_ts=0), newer

    def _by_statements(self, id_: TableId) -> list[TableVersion]:
        """A table's versions as the DDL makes them; none where it can't be applied from the start."""
        expires, made = self._cache.made.get(id_, (0.0, []))
        if expires < time.monotonic():
            try:
                made = versions(self.statements(id_), "UTC" if self._zone else None)
            except DdlError:
                made = []
            made = [v for v in made if v.table.id.folded == id_.folded]
            self._cache.made[id_] = time.monotonic() + _UNSURE_FOR, made
        return made

    def _by_show_create(self, id_: TableId) -> list[TableVersion]:
        made = list[TableVersion]()
        for version in self._all(id_):
            table = with_ids_of(made[-1].table, version.table) if made else version.table
            made.append(TableVersion(version.commit_ts, table))
        return made

    def statements(self, of: TableId | None = None) -> list[DdlText]:
        """Every statement of the history, or of a table under all its names, in order; no snapshot that is none."""
        texts = list[DdlText]()
        for entry in self._entries("ddl", **({"db": of.db, "table": of.table} if of else {})):
            if entry["query"] and entry["mode"] != "form":
                mode = _MODES.get(entry["mode"]) or LexicalMode.of_sql_mode(entry.get("sql_mode", ""))
                texts.append(DdlText(entry["commit_ts"], entry["db"], entry["query"], mode))
        return texts

    # ---- asking
    def _entries(self, what: str, **more: Any) -> Iterator[Any]:
        """All entries of /history/ddl or /history/tables, page by page."""
        offset: int | None = 0
        while offset is not None:
            answer = self.need(dict, f"/history/{what}?{self._query(limit=_PAGE, offset=offset, **more)}")
            yield from self.read_field(answer, what, list)
            offset = answer.get("next_offset") or None

    def _query(self, **more: Any) -> str:
        return urlencode({"changefeed": self.changefeed, **more} if self.changefeed else more)

    def _read_sealed(self) -> _SealedState:
        feeds = self.need(list, "/history/changefeeds")
        by_name = {self.read_field(feed, "changefeed", str): feed for feed in feeds}
        name = self.changefeed or (next(iter(by_name)) if len(by_name) == 1 else None)
        if name is None or name not in by_name:
            names = ", ".join(sorted(by_name)) or "none"
            details = f"{Hint.HISTORY} {self.name}: which changefeed? Say {Hint.CHANGEFEED}; there are: {names}"
            raise SetupError("USAGE", details=details)
        feed = by_name[name]
        marked = any(partition["watermark"] is not None for partition in feed.get("partitions", ()))
        return _SealedState(name, self.read_field(feed, "sealed_ts", int), marked, feed.get("ddl_time_zone"))

    def _ask_resolved(self, table: TableId, commit_ts: int) -> _Span:
        """What the service says, once it is resolved; kept. SetupError HISTORY_BEHIND when it is not within `wait`."""
        began, pause, announced = time.monotonic(), 0.1, False
        end = began + self.login.wait
        while (span := self._answer(table, commit_ts, resolved=True)) is None:
            if time.monotonic() + pause > end:
                state = f"is not resolved (tried for {self.login.wait:g} s); is it tracked?"
                details = f"{table} at commit_ts {commit_ts} {state}"
                raise SetupError("HISTORY_BEHIND", url=self.name, changefeed=self.changefeed, details=details)
            if not announced and time.monotonic() + pause - began > SILENT:
                text = f"the history of {table} at {self.name} to reach commit_ts {commit_ts}"
                print(f"waiting up to {self.login.wait:g} s for {text}", file=sys.stderr, flush=True)
                announced = True
            time.sleep(pause)
            pause = min(pause * 2, 5.0)
        spans = self._cache.spans.setdefault(table, [])
        for entry in [item for item in spans if item.from_ts == span.from_ts]:
            spans.remove(entry)
            if entry.version == span.version:  # decoders are compiled by object
                span = _Span(span.from_ts, span.until, span.expires, entry.version, span.error)
        insort(spans, span, key=lambda item: item.from_ts)
        return span

    def _newest(self, table: TableId) -> _Span:
        """The newest version that there was: of a table that is gone, its last."""
        span = self._answer(table, MAX_TSO, resolved=False)
        assert span is not None
        if span.error is not None and span.from_ts and " is gone since commit_ts " in span.error.detail:
            span = self._answer(table, span.from_ts, resolved=False)
            assert span is not None
        spans = self._cache.spans.get(table, [])
        same = next(
            (entry.version for entry in spans if entry.version is not None and entry.version == span.version), None
        )
        return _Span(0, MAX_TSO, time.monotonic() + _UNSURE_FOR, same or span.version, span.error)

    def _answer(self, table: TableId, commit_ts: int, resolved: bool) -> _Span | None:
        """One answer; None where it must be resolved and is not."""
        now = time.monotonic()
        if not _is_possible(table):
            return _Span(0, MAX_TSO, now + _UNSURE_FOR)
        more = {"ddl_time_zone": self._zone} if self._zone else {}
        path = f"/history/{quote(table.db, safe='')}/{quote(table.table, safe='')}/at/{commit_ts}?{self._query(**more)}"
        status, answer = self.call("GET", path)
        sealed: _SealedState | None = None
        if resolved and status != 200:
            sealed = self._read_sealed()
            if sealed.marked and commit_ts > sealed.sealed_ts:
                return None
            status, answer = self.call("GET", path)  # what it said before it was sealed may not hold
        if status == 200:
            return self._span_of_answer(table, commit_ts, answer, resolved)
        code = answer.get("error_code") if isinstance(answer, dict) else None
        if code not in _STATUS or status != _STATUS[code]:
            raise self.refusal_error(f"the history of {table}", status, answer)
        text, expires = message_of(answer), now + _UNSURE_FOR
        far = sealed.sealed_ts if sealed is not None and sealed.marked else MAX_TSO
        if code == _NEVER_SEEN:
            return _Span(0, far, expires)
        if code == _NOT_YET:
            return _Span(0, _number("until", text, commit_ts), expires)
        # The same answer for all that is resolved: it holds for the rows between, too.
        later = path.replace(f"/at/{commit_ts}?", f"/at/{far}?")
        same = far > commit_ts and message_of(self.call("GET", later)[1]) == text
        error = WireError("TYPE_UNKNOWN", column="*", details=text)
        return _Span(_number("since", text, commit_ts - 1), far if same else commit_ts, expires, None, error)

    def _span_of_answer(self, table: TableId, commit_ts: int, answer: Any, resolved: bool) -> _Span | None:
        since, sealed_ts = self.read_field(answer, "commit_ts", int), self.read_field(answer, "sealed_ts", int)
        show = self.read_field(answer, "show_create", str)
        to_ts = answer.get("to_ts") or MAX_TSO
        if answer.get("resolved"):
            until, keep = min(to_ts, max(sealed_ts, commit_ts)), _SURE_FOR
        else:
            if resolved and self._read_sealed().marked:
                return None
            # Without watermarks what was committed by now is taken as known, for a moment.
            until, keep = min(to_ts, max(ms_to_tso(int(time.time() * 1000)), commit_ts)), _UNSURE_FOR
        expires = time.monotonic() + keep
        if answer.get("state") != "KNOWN":
            details = f"table {table} is known in part since commit_ts {since}: {answer.get('reason')}; give a snapshot"
            return _Span(since, until, expires, None, WireError("TYPE_UNKNOWN", column="*", details=details))
        return _Span(since, until, expires, TableVersion(since, self._table(table, since, show)))

    def _table(self, id_: TableId, since: int, show: str) -> Table:
        try:
            # Asked for with a zone, the service answers with literal defaults in UTC.
            return versions([DdlText(since, id_.db, show, SHOW)], "UTC" if self._zone else None)[-1].table
        except (DdlError, LookupError) as error:
            details = f"table {id_}: the service's SHOW CREATE TABLE can't be read: {error}"
            raise WireError("TYPE_UNKNOWN", column="*", details=details) from error

    def _all(self, id_: TableId) -> list[TableVersion]:
        """A table's versions, oldest first, back to where it is not known."""
        expires, table_versions = self._cache.every.get(id_, (0.0, []))
        if expires < time.monotonic():
            table_versions = list(self._walk(id_))[::-1]
            self._cache.every[id_] = time.monotonic() + _UNSURE_FOR, table_versions
        return table_versions

    def _walk(self, id_: TableId) -> Iterator[TableVersion]:
        version = self.at(id_, None)
        while version is not None:
            yield version
            try:
                version = self.at(id_, version.commit_ts)
            except WireError:
                return

    def _find_by_avro_name(self, table: TableId) -> list[TableId]:
        """The tables whose names Avro makes into this one."""
        answers, now, table = self._cache, time.monotonic(), table.folded
        tables = answers.names.get(table, [])
        if now - answers.names_at > (_NAMES_FOR if tables else _UNSURE_FOR):
            answers.names.clear()
            for entry in self._entries("tables"):
                id_ = TableId(entry["db"], entry["table"])
                answers.names.setdefault(id_.sanitised.folded, []).append(id_)
            answers.names_at = now
        return answers.names.get(table, [])


def _number(word: str, text: str, otherwise: int) -> int:
    """The commit_ts that an answer names; the service's messages are in schemas.model.errors."""
    match = re.search(rf" {word} commit_ts (\d{{1,19}}):", text)
    return int(match[1]) if match else otherwise


def _is_possible(table: TableId) -> bool:
    """True if TiDB could have a table of this name: messages may hold any text."""
    return all(
        0 < len(name) <= _LONGEST_NAME and name not in (".", "..") and "\0" not in name and is_utf8(name)
        for name in table
    )
